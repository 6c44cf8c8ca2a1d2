// SPDX-License-Identifier: GPL-2.0
/*
 * The netlink family: every refusal with its error and its words, privileges,
 * namespaces, dumps, the states of a ring and the events that tell of them.
 *
 * Requests that the library would refuse by itself go out raw, through its own
 * way to the kernel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "../../lib/internal.h"
#include "kselftest_harness.h"

#define GOOD_MEMBERS	"10.88.0.1,10.88.0.2"

static const uint8_t good_id[ALLREDUCE_ID_SIZE + 1] = "0123456789abcdef";

/* ---- raw requests --------------------------------------------------------- */

/* Running out of room is a fault of the test. */
static void must(int ret)
{
	if (ret)
		abort();
}

static void put(struct nl_msg *msg, int type, size_t len, const void *data)
{
	must(nla_put(msg, type, len, data));
}

static void put_u8(struct nl_msg *msg, int type, uint8_t value)
{
	put(msg, type, sizeof(value), &value);
}

static void put_u16(struct nl_msg *msg, int type, uint16_t value)
{
	put(msg, type, sizeof(value), &value);
}

static void put_u32(struct nl_msg *msg, int type, uint32_t value)
{
	put(msg, type, sizeof(value), &value);
}

static void put_name(struct nl_msg *msg, const char *name)
{
	put(msg, ALLREDUCE_A_NAME, strlen(name) + 1, name);
}

static struct nlattr *nest(struct nl_msg *msg, int type)
{
	struct nlattr *attr = nla_nest_start(msg, NLA_F_NESTED | type);

	must(!attr);
	return attr;
}

/* A member with an address of any length; port -1 leaves it out. */
static void put_member(struct nl_msg *msg, size_t len, const void *addr, int port)
{
	struct nlattr *member = nest(msg, ALLREDUCE_A_MEMBER);

	put(msg, ALLREDUCE_M_ADDR, len, addr);
	if (port >= 0)
		put_u16(msg, ALLREDUCE_M_PORT, port);
	nla_nest_end(msg, member);
}

static void put_text_members(struct nl_msg *msg, const char *text)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	int i, n = aru_members_parse(text, members, ALLREDUCE_SIZE_MAX, NULL, 0);

	must(n < 0);
	for (i = 0; i < n; i++)
		put_member(msg, members[i].family == AF_INET ? 4 : 16,
			   members[i].addr, members[i].port);
}

static void put_members(struct nl_msg *msg, const char *text)
{
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);

	put_text_members(msg, text);
	nla_nest_end(msg, members);
}

/* The first member is good, the second has an address of @len bytes. */
static void put_bad_member(struct nl_msg *msg, size_t len, const void *addr, int port)
{
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);

	put_text_members(msg, "10.88.0.1");
	put_member(msg, len, addr, port);
	nla_nest_end(msg, members);
}

static void put_many_members(struct nl_msg *msg, unsigned int n)
{
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);
	uint8_t addr[4] = { 10, 88, 0, 1 };

	for (; n; n--, addr[3]++)
		put_member(msg, sizeof(addr), addr, -1);
	nla_nest_end(msg, members);
}

/* Attributes of a good RING_ADD, but for one. */
static void put_good_but(struct nl_msg *msg, int but)
{
	if (but != ALLREDUCE_A_NAME)
		put_name(msg, ENV_RING);
	if (but != ALLREDUCE_A_ID)
		put(msg, ALLREDUCE_A_ID, ALLREDUCE_ID_SIZE, good_id);
	if (but != ALLREDUCE_A_RANK)
		put_u32(msg, ALLREDUCE_A_RANK, 0);
	if (but != ALLREDUCE_A_MEMBERS)
		put_members(msg, GOOD_MEMBERS);
}

/* Sends a request that @put_attrs completes. The kernel's answer. */
static int request(struct aru_nl *nl, uint8_t cmd, int but,
		   void (*put_attrs)(struct nl_msg *msg))
{
	struct nl_msg *msg;

	aru_nl_clear(nl);
	must(aru_nl_begin(nl, cmd, 0, &msg));
	if (but >= 0)
		put_good_but(msg, but);
	if (put_attrs)
		put_attrs(msg);
	return aru_nl_request(nl, msg, NULL, NULL);
}

static int count_ring(const struct aru_ring *ring, void *arg)
{
	(void)ring;
	++*(int *)arg;
	return 0;
}

/* Rings of the namespace, or an error. */
static int rings(struct aru_nl *nl)
{
	int n = 0, ret = aru_ring_list(nl, count_ring, &n);

	return ret ? ret : n;
}

static int add(struct aru_nl *nl, const char *name, const char *text,
	       unsigned int rank, unsigned int lanes)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct aru_ring_config config = {
		.sz = sizeof(config), .name = name, .rank = rank,
		.members = members, .lanes = lanes,
	};
	int n = aru_members_parse(text, members, ALLREDUCE_SIZE_MAX, NULL, 0);

	must(n < 0);
	config.n_members = n;
	return aru_ring_add(nl, &config);
}

static int up(struct aru_nl *nl, const char *name, unsigned int timeout_ms,
	      bool nowait)
{
	ARU_OPTS(aru_ring_up_opts, opts);

	opts.connect_timeout_ms = timeout_ms;
	opts.nowait = nowait;
	return aru_ring_up(nl, name, &opts);
}

/* A copy of a ring as it is now; must be there. */
static struct aru_ring look(struct aru_nl *nl, const char *name)
{
	struct aru_ring *ring, copy;

	must(aru_ring_get(nl, name, &ring));
	copy = *ring;
	aru_ring_free(ring);
	return copy;
}

static bool wait_state(struct aru_nl *nl, const char *name, unsigned int state,
		       unsigned int ms)
{
	uint64_t end = env_now_ms() + ms;

	while (look(nl, name).state != state) {
		if (env_now_ms() > end)
			return false;
		usleep(5000);
	}
	return true;
}

/* True if @text has @part in it; says so if not. */
static bool says(const char *text, const char *part)
{
	if (strstr(text, part))
		return true;
	fprintf(stderr, "# \"%s\" does not say \"%s\"\n", text, part);
	return false;
}

/* ---- refusals of RING_ADD ------------------------------------------------- */

FIXTURE(refusal)
{
	struct aru_nl *nl;
};

FIXTURE_VARIANT(refusal)
{
	int but;
	void (*put_attrs)(struct nl_msg *msg);
	int error;
	const char *text;
};

#define REFUSAL(label, attr, error_, text_, ...) \
	static void put_##label(struct nl_msg *msg) \
	{ \
		(void)msg; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(refusal, label) { \
		.but = attr, .put_attrs = put_##label, \
		.error = error_, .text = text_, \
	}

#define NAME_TEXT	"name: 1 to 31 characters, no '/', no white space"
#define ID_TEXT		"id: 16 bytes, not all zero"
#define LANES_TEXT	"lanes: 1 to 16"
#define FRAME_MAX_TEXT	"frame-max: 4096 to 1048576, a multiple of 64"
#define TIMEOUT_TEXT	"timeout: 100 to 86400000 ms"
#define UNICAST_TEXT	"member: not a unicast address of a host"
#define LENGTH_TEXT	"member: an address has 4 or 16 bytes"

REFUSAL(name_missing, ALLREDUCE_A_NAME, -EINVAL, "name: missing", (void)0);
REFUSAL(name_empty, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT, put_name(msg, ""));
REFUSAL(name_of_32, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT,
	put_name(msg, "12345678901234567890123456789012"));
REFUSAL(name_of_4000, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT,
	char name[4001];
	memset(name, 'n', 4000);
	name[4000] = '\0';
	put_name(msg, name));
REFUSAL(name_slash, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT, put_name(msg, "a/b"));
REFUSAL(name_space, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT, put_name(msg, "a b"));
REFUSAL(name_tab, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT, put_name(msg, "\ta"));
REFUSAL(name_newline, ALLREDUCE_A_NAME, -EINVAL, NAME_TEXT, put_name(msg, "a\n"));
REFUSAL(name_no_nul, ALLREDUCE_A_NAME, -EINVAL, "name",
	put(msg, ALLREDUCE_A_NAME, 3, "abc"));
REFUSAL(name_no_bytes, ALLREDUCE_A_NAME, -EINVAL, "name",
	put(msg, ALLREDUCE_A_NAME, 0, ""));
REFUSAL(id_missing, ALLREDUCE_A_ID, -EINVAL, "id: missing", (void)0);
REFUSAL(id_of_15, ALLREDUCE_A_ID, -EINVAL, ID_TEXT,
	put(msg, ALLREDUCE_A_ID, 15, good_id));
REFUSAL(id_of_17, ALLREDUCE_A_ID, -EINVAL, ID_TEXT,
	put(msg, ALLREDUCE_A_ID, 17, good_id));
REFUSAL(id_of_0, ALLREDUCE_A_ID, -EINVAL, ID_TEXT,
	put(msg, ALLREDUCE_A_ID, 0, good_id));
REFUSAL(id_zero, ALLREDUCE_A_ID, -EINVAL, ID_TEXT,
	static const uint8_t zero[ALLREDUCE_ID_SIZE];
	put(msg, ALLREDUCE_A_ID, sizeof(zero), zero));
REFUSAL(rank_missing, ALLREDUCE_A_RANK, -EINVAL, "rank: missing", (void)0);
REFUSAL(rank_is_size, ALLREDUCE_A_RANK, -EINVAL,
	"rank: 0 to the number of members - 1", put_u32(msg, ALLREDUCE_A_RANK, 2));
REFUSAL(rank_huge, ALLREDUCE_A_RANK, -EINVAL,
	"rank: 0 to the number of members - 1",
	put_u32(msg, ALLREDUCE_A_RANK, UINT32_MAX));
REFUSAL(rank_of_2_bytes, ALLREDUCE_A_RANK, -EINVAL, "rank",
	put_u16(msg, ALLREDUCE_A_RANK, 0));
REFUSAL(rank_of_8_bytes, ALLREDUCE_A_RANK, -EINVAL, "rank",
	uint64_t rank = 0;
	put(msg, ALLREDUCE_A_RANK, 8, &rank));
REFUSAL(members_missing, ALLREDUCE_A_MEMBERS, -EINVAL, "members: missing", (void)0);
REFUSAL(members_empty, ALLREDUCE_A_MEMBERS, -EINVAL, "members: 1 to 64",
	put(msg, ALLREDUCE_A_MEMBERS | NLA_F_NESTED, 0, ""));
REFUSAL(members_65, ALLREDUCE_A_MEMBERS, -EINVAL, "members: 1 to 64",
	put_many_members(msg, 65));
REFUSAL(members_not_nested, ALLREDUCE_A_MEMBERS, -EINVAL, "NESTED",
	put_u32(msg, ALLREDUCE_A_MEMBERS, 0));
REFUSAL(members_of_2_bytes, ALLREDUCE_A_MEMBERS, -ERANGE, "members",
	put_u16(msg, ALLREDUCE_A_MEMBERS | NLA_F_NESTED, 0));
REFUSAL(members_other_attribute, ALLREDUCE_A_MEMBERS, -EINVAL,
	"members: only member attributes go here",
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);
	put_text_members(msg, GOOD_MEMBERS);
	put_u32(msg, ALLREDUCE_A_LANES, 1);
	nla_nest_end(msg, members));
REFUSAL(member_unknown_attribute, ALLREDUCE_A_MEMBERS, -EINVAL,
	"Unknown attribute",
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);
	struct nlattr *member = nest(msg, ALLREDUCE_A_MEMBER);
	put(msg, ALLREDUCE_M_ADDR, 4, "\x0a\x58\x00\x01");
	put_u32(msg, ALLREDUCE_M_MAX + 1, 1);
	nla_nest_end(msg, member);
	nla_nest_end(msg, members));
REFUSAL(member_without_address, ALLREDUCE_A_MEMBERS, -EINVAL,
	"member: address missing",
	struct nlattr *members = nest(msg, ALLREDUCE_A_MEMBERS);
	struct nlattr *member = nest(msg, ALLREDUCE_A_MEMBER);
	put_u16(msg, ALLREDUCE_M_PORT, 1);
	nla_nest_end(msg, member);
	nla_nest_end(msg, members));
REFUSAL(members_mixed, ALLREDUCE_A_MEMBERS, -EINVAL,
	"member: all members of a ring are IPv4, or all are IPv6",
	put_members(msg, "10.88.0.1,fd88::2"));
REFUSAL(members_duplicate, ALLREDUCE_A_MEMBERS, -EINVAL,
	"member: two members have the same address and port",
	put_members(msg, "10.88.0.1,10.88.0.2:7,10.88.0.1"));
REFUSAL(member_zero, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 4, "\0\0\0\0", -1));
REFUSAL(member_multicast, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 4, "\xe0\0\0\1", -1));
REFUSAL(member_broadcast, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 4, "\xff\xff\xff\xff", -1));
REFUSAL(member_zero6, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", -1));
REFUSAL(member_multicast6, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 16, "\xff\2\0\0\0\0\0\0\0\0\0\0\0\0\0\1", -1));
REFUSAL(member_v4_mapped, ALLREDUCE_A_MEMBERS, -EINVAL, UNICAST_TEXT,
	put_bad_member(msg, 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x58\0\2", -1));
REFUSAL(member_port_0, ALLREDUCE_A_MEMBERS, -EINVAL, "member: port: 1 to 65535",
	put_bad_member(msg, 4, "\x0a\x58\0\2", 0));
REFUSAL(member_addr_of_0, ALLREDUCE_A_MEMBERS, -EINVAL, LENGTH_TEXT,
	put_bad_member(msg, 0, "", -1));
REFUSAL(member_addr_of_5, ALLREDUCE_A_MEMBERS, -EINVAL, LENGTH_TEXT,
	put_bad_member(msg, 5, "\x0a\x58\0\2\0", -1));
REFUSAL(member_addr_of_17, ALLREDUCE_A_MEMBERS, -EINVAL, LENGTH_TEXT,
	put_bad_member(msg, 17, "\xfd\x88\0\0\0\0\0\0\0\0\0\0\0\0\0\2\0", -1));
REFUSAL(lanes_0, 0, -EINVAL, LANES_TEXT, put_u32(msg, ALLREDUCE_A_LANES, 0));
REFUSAL(lanes_17, 0, -EINVAL, LANES_TEXT, put_u32(msg, ALLREDUCE_A_LANES, 17));
REFUSAL(lanes_of_1_byte, 0, -EINVAL, "lanes", put_u8(msg, ALLREDUCE_A_LANES, 1));
REFUSAL(frame_max_4095, 0, -EINVAL, FRAME_MAX_TEXT,
	put_u32(msg, ALLREDUCE_A_FRAME_MAX, 4095));
REFUSAL(frame_max_4100, 0, -EINVAL, FRAME_MAX_TEXT,
	put_u32(msg, ALLREDUCE_A_FRAME_MAX, 4100));
REFUSAL(frame_max_1048577, 0, -EINVAL, FRAME_MAX_TEXT,
	put_u32(msg, ALLREDUCE_A_FRAME_MAX, 1048577));
REFUSAL(gather_max_65537, 0, -EINVAL, "gather-max: 0 to 65536",
	put_u32(msg, ALLREDUCE_A_GATHER_MAX, 65537));
REFUSAL(frame_max_of_2_bytes, 0, -EINVAL, "frame-max",
	put_u16(msg, ALLREDUCE_A_FRAME_MAX, 4096));
REFUSAL(timeout_99, 0, -EINVAL, TIMEOUT_TEXT,
	put_u32(msg, ALLREDUCE_A_TIMEOUT_MS, 99));
REFUSAL(timeout_86400001, 0, -EINVAL, TIMEOUT_TEXT,
	put_u32(msg, ALLREDUCE_A_TIMEOUT_MS, 86400001));
REFUSAL(unknown_attribute, 0, -EINVAL, "Unknown attribute", put_u32(msg, 200, 1));
REFUSAL(attribute_of_answers, 0, -EINVAL, "attribute of answers",
	put_u32(msg, ALLREDUCE_A_STATE, ALLREDUCE_RING_UP));
REFUSAL(attribute_of_answers_size, 0, -EINVAL, "attribute of answers",
	put_u32(msg, ALLREDUCE_A_SIZE, 2));
/* The members' namespaces have none of these addresses. */
REFUSAL(address_elsewhere, ALLREDUCE_A_MEMBERS, -EADDRNOTAVAIL,
	"own address and port", put_members(msg, "10.88.0.200,10.88.0.2"));
REFUSAL(address_elsewhere6, ALLREDUCE_A_MEMBERS, -EADDRNOTAVAIL,
	"own address and port", put_members(msg, "fd88::200,fd88::2"));

FIXTURE_SETUP(refusal)
{
	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_enter(0));
	ASSERT_EQ(0, aru_nl_open(&self->nl));
}

FIXTURE_TEARDOWN(refusal)
{
	aru_nl_close(self->nl);
}

TEST_F(refusal, of_add)
{
	EXPECT_EQ(variant->error, request(self->nl, ALLREDUCE_CMD_RING_ADD,
					  variant->but, variant->put_attrs));
	EXPECT_TRUE(says(aru_nl_error_text(self->nl), variant->text));
	EXPECT_EQ(0, rings(self->nl));
	/* Nothing is left of it: neither name, nor id, nor port are taken. */
	EXPECT_EQ(0, request(self->nl, ALLREDUCE_CMD_RING_ADD, 0, NULL));
	EXPECT_EQ(1, rings(self->nl));
	EXPECT_EQ(0, aru_ring_del(self->nl, ENV_RING));
	EXPECT_EQ(0, rings(self->nl));
}

/* ---- in one namespace ----------------------------------------------------- */

FIXTURE(ring)
{
	struct aru_nl *nl[3];
};

FIXTURE_SETUP(ring)
{
	int i;

	ASSERT_EQ(0, env_namespaces());
	for (i = 2; i >= 0; i--) {
		ASSERT_EQ(0, env_enter(i));
		ASSERT_EQ(0, aru_nl_open(&self->nl[i]));
		ASSERT_EQ(0, rings(self->nl[i]));
	}
}

static int name_ring(const struct aru_ring *ring, void *arg)
{
	memcpy(arg, ring->name, sizeof(ring->name));
	return 1;
}

static void delete_all(struct aru_nl *nl)
{
	char name[ALLREDUCE_NAME_SIZE];

	while (aru_ring_list(nl, name_ring, name) == 1)
		must(aru_ring_del(nl, name));
}

FIXTURE_TEARDOWN(ring)
{
	int i;

	for (i = 0; i < 3; i++) {
		delete_all(self->nl[i]);
		aru_nl_close(self->nl[i]);
	}
}

static void put_other_name(struct nl_msg *msg)
{
	put_name(msg, "other");
}

static void put_other_id(struct nl_msg *msg)
{
	put(msg, ALLREDUCE_A_ID, ALLREDUCE_ID_SIZE, "fedcba9876543210");
}

static void put_rank_1(struct nl_msg *msg)
{
	put_name(msg, "other");
	put_u32(msg, ALLREDUCE_A_RANK, 1);
	put(msg, ALLREDUCE_A_ID, ALLREDUCE_ID_SIZE, good_id);
	/* This host's second member listens on another port. */
	put_members(msg, "10.88.0.1,10.88.0.1:7");
}

TEST_F(ring, duplicates)
{
	struct aru_nl *nl = self->nl[0];

	ASSERT_EQ(0, request(nl, ALLREDUCE_CMD_RING_ADD, 0, NULL));
	EXPECT_EQ(-EEXIST, request(nl, ALLREDUCE_CMD_RING_ADD, ALLREDUCE_A_ID,
				   put_other_id));
	EXPECT_TRUE(says(aru_nl_error_text(nl), "a ring of this name exists"));
	EXPECT_EQ(-EEXIST, request(nl, ALLREDUCE_CMD_RING_ADD, ALLREDUCE_A_NAME,
				   put_other_name));
	EXPECT_TRUE(says(aru_nl_error_text(nl), "a ring of this id and rank exists"));
	EXPECT_EQ(1, rings(nl));
	/* Another rank of the same ring may live here. */
	EXPECT_EQ(0, request(nl, ALLREDUCE_CMD_RING_ADD, -1, put_rank_1));
	EXPECT_EQ(2, rings(nl));
}

static int listen_on(const char *addr, unsigned short port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &sin.sin_addr);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 1))
		abort();
	return fd;
}

TEST_F(ring, port_taken)
{
	struct aru_nl *nl = self->nl[0];
	int fd;

	ASSERT_EQ(0, env_enter(0));
	fd = listen_on("10.88.0.1", ALLREDUCE_PORT_DEFAULT);
	EXPECT_EQ(-EADDRINUSE, add(nl, ENV_RING, GOOD_MEMBERS, 0, 1));
	EXPECT_TRUE(says(aru_nl_error_text(nl), "own address and port"));
	EXPECT_EQ(0, rings(nl));
	/* Another port is free, and so is this one afterwards. */
	EXPECT_EQ(0, add(nl, "b", "10.88.0.1:7,10.88.0.2", 0, 1));
	close(fd);
	EXPECT_EQ(0, add(nl, ENV_RING, GOOD_MEMBERS, 0, 1));
	/* And several rings share one. */
	EXPECT_EQ(0, add(nl, "c", "10.88.0.1,10.88.0.2:8", 0, 1));
	EXPECT_EQ(3, rings(nl));
}

/* Any character but white space and the slash, whatever its top bit. */
TEST_F(ring, names_with_other_characters)
{
	static const char * const names[] = {
		"1234567890123456789012345678901", "r\xc3\xa9seau", "a.b-c_d:e", "\xff",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		EXPECT_EQ(0, add(self->nl[0], names[i], "10.88.0.1", 0, 1))
			fprintf(stderr, "# name %u: %s\n", i, aru_nl_error_text(self->nl[0]));
		EXPECT_EQ(0, aru_ring_del(self->nl[0], names[i]));
	}
}

static void put_connect_timeout_99(struct nl_msg *msg)
{
	put_u32(msg, ALLREDUCE_A_CONNECT_TIMEOUT_MS, 99);
}

static void put_connect_timeout_86400001(struct nl_msg *msg)
{
	put_u32(msg, ALLREDUCE_A_CONNECT_TIMEOUT_MS, 86400001);
}

static void put_good_name(struct nl_msg *msg)
{
	put_name(msg, ENV_RING);
}

static void put_bad_name(struct nl_msg *msg)
{
	put_name(msg, "a/b");
}

static void put_name_and_unknown(struct nl_msg *msg)
{
	put_name(msg, ENV_RING);
	put_u32(msg, 200, 1);
}

static void put_name_and_99(struct nl_msg *msg)
{
	put_name(msg, ENV_RING);
	put_connect_timeout_99(msg);
}

static void put_name_and_86400001(struct nl_msg *msg)
{
	put_name(msg, ENV_RING);
	put_connect_timeout_86400001(msg);
}

TEST_F(ring, refusals_of_other_commands)
{
	static const struct {
		uint8_t cmd;
		void (*put_attrs)(struct nl_msg *msg);
		int error;
		const char *text;
	} cases[] = {
#define FOR_NAMED(cmd) \
		{ cmd, NULL, -EINVAL, "name: missing" }, \
		{ cmd, put_bad_name, -EINVAL, NAME_TEXT }, \
		{ cmd, put_other_name, -ENODEV, "no ring of this name" }, \
		{ cmd, put_name_and_unknown, -EINVAL, "Unknown attribute" },
		FOR_NAMED(ALLREDUCE_CMD_RING_GET)
		FOR_NAMED(ALLREDUCE_CMD_RING_UP)
		FOR_NAMED(ALLREDUCE_CMD_RING_DEL)
		{ ALLREDUCE_CMD_RING_UP, put_name_and_99, -EINVAL,
		  "connect timeout: 100 to 86400000 ms" },
		{ ALLREDUCE_CMD_RING_UP, put_name_and_86400001, -EINVAL,
		  "connect timeout: 100 to 86400000 ms" },
		/* Not a request, and not a command. */
		{ ALLREDUCE_CMD_RING_EVENT, put_good_name, -EOPNOTSUPP, "" },
		{ ALLREDUCE_CMD_UNSPEC, put_good_name, -EOPNOTSUPP, "" },
		{ 250, put_good_name, -EOPNOTSUPP, "" },
	};
	struct aru_nl *nl = self->nl[0];
	unsigned int i;

	ASSERT_EQ(0, add(nl, ENV_RING, GOOD_MEMBERS, 0, 1));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(cases[i].error, request(nl, cases[i].cmd, -1,
						  cases[i].put_attrs))
			fprintf(stderr, "# case %u\n", i);
		EXPECT_TRUE(says(aru_nl_error_text(nl), cases[i].text))
			fprintf(stderr, "# case %u\n", i);
	}
	EXPECT_EQ(ALLREDUCE_RING_DOWN, look(nl, ENV_RING).state);
	EXPECT_EQ(1, rings(nl));
}

/* What was asked for is what is shown. */
TEST_F(ring, shows_its_configuration)
{
	struct aru_member members[3];
	struct aru_ring_config config = {
		.sz = sizeof(config), .name = "shown", .has_id = true, .rank = 0,
		.members = members, .n_members = 3, .lanes = 7,
		.frame_max = 4160, .timeout_ms = 86400000,
		.has_gather_max = true, .gather_max = 0,
	};
	struct aru_ring *ring;

	memcpy(config.id, good_id, sizeof(config.id));
	ASSERT_EQ(3, aru_members_parse("[fd88::1]:99,fd88::2,fd88::3", members, 3,
				       NULL, 0));
	ASSERT_EQ(0, aru_ring_add(self->nl[0], &config));
	ASSERT_EQ(0, aru_ring_get(self->nl[0], "shown", &ring));
	EXPECT_STREQ("shown", ring->name);
	EXPECT_EQ(0, memcmp(good_id, ring->id, sizeof(ring->id)));
	EXPECT_EQ(0, ring->rank);
	EXPECT_EQ(3, ring->size);
	EXPECT_EQ(3, ring->n_members);
	EXPECT_EQ(0, memcmp(members, ring->members, sizeof(members)));
	EXPECT_EQ(7, ring->n_lanes);
	EXPECT_EQ(4160, ring->frame_max);
	EXPECT_EQ(0, ring->gather_max);
	EXPECT_EQ(86400000, ring->timeout_ms);
	EXPECT_EQ(ALLREDUCE_RING_DOWN, ring->state);
	EXPECT_EQ(0, ring->error);
	EXPECT_STREQ("", ring->reason);
	EXPECT_FALSE(ring->attached);
	EXPECT_EQ(0, ring->jobs_submitted);
	aru_ring_free(ring);
}

/* ---- dumps ---------------------------------------------------------------- */

#define MANY_RINGS	20

/* Names are "m00" to "m19"; each must come once and be complete. */
struct seen {
	unsigned int times[MANY_RINGS];
	unsigned int incomplete;
	unsigned int members;
	unsigned int lanes;
};

static int see_ring(const struct aru_ring *ring, void *arg)
{
	struct seen *seen = arg;
	unsigned int number;

	if (sscanf(ring->name, "m%u", &number) != 1 || number >= MANY_RINGS)
		return -EBADMSG;
	seen->times[number]++;
	if (ring->n_members != seen->members || ring->n_lanes != seen->lanes ||
	    ring->lanes[ring->n_lanes - 1].index != ring->n_lanes - 1)
		seen->incomplete++;
	return 0;
}

static void add_many(struct aru_nl *nl, const char *members, unsigned int lanes)
{
	char name[ALLREDUCE_NAME_SIZE];
	unsigned int i;

	for (i = 0; i < MANY_RINGS; i++) {
		snprintf(name, sizeof(name), "m%02u", i);
		must(add(nl, name, members, 0, lanes));
	}
}

TEST_F(ring, dump_of_many)
{
	struct seen seen = { .members = 2, .lanes = 2 };
	unsigned int i;

	add_many(self->nl[0], GOOD_MEMBERS, 2);
	ASSERT_EQ(0, aru_ring_list(self->nl[0], see_ring, &seen));
	for (i = 0; i < MANY_RINGS; i++)
		EXPECT_EQ(1, seen.times[i]);
	EXPECT_EQ(0, seen.incomplete);
}

/* 64 members with long addresses, 16 lanes: alone and many times. */
TEST_F(ring, dump_of_the_largest)
{
	struct seen seen = { .members = ALLREDUCE_SIZE_MAX,
			     .lanes = ALLREDUCE_LANES_MAX };
	char members[ALLREDUCE_SIZE_MAX * 16] = "fd88::1";
	struct aru_ring *ring;
	unsigned int i;
	size_t used = strlen(members);

	for (i = 2; i <= ALLREDUCE_SIZE_MAX; i++)
		used += snprintf(members + used, sizeof(members) - used,
				 ",fd88::%x", i);
	add_many(self->nl[0], members, ALLREDUCE_LANES_MAX);
	ASSERT_EQ(0, aru_ring_get(self->nl[0], "m07", &ring));
	EXPECT_EQ(ALLREDUCE_SIZE_MAX, ring->n_members);
	EXPECT_EQ(ALLREDUCE_LANES_MAX, ring->n_lanes);
	aru_ring_free(ring);
	ASSERT_EQ(0, aru_ring_list(self->nl[0], see_ring, &seen));
	for (i = 0; i < MANY_RINGS; i++)
		EXPECT_EQ(1, seen.times[i]);
	EXPECT_EQ(0, seen.incomplete);
}

/* ---- namespaces and privileges -------------------------------------------- */

TEST_F(ring, namespaces_are_apart)
{
	EXPECT_EQ(0, add(self->nl[0], ENV_RING, "10.88.0.1", 0, 1));
	EXPECT_EQ(0, rings(self->nl[1]));
	EXPECT_EQ(-ENODEV, aru_ring_del(self->nl[1], ENV_RING));
	EXPECT_EQ(0, add(self->nl[1], ENV_RING, "10.88.0.2", 0, 3));
	EXPECT_EQ(1, rings(self->nl[0]));
	EXPECT_EQ(1, rings(self->nl[1]));
	EXPECT_EQ(1, look(self->nl[0], ENV_RING).n_lanes);
	EXPECT_EQ(3, look(self->nl[1], ENV_RING).n_lanes);
	EXPECT_EQ(0, up(self->nl[1], ENV_RING, 5000, false));
	EXPECT_EQ(ALLREDUCE_RING_DOWN, look(self->nl[0], ENV_RING).state);
	EXPECT_EQ(0, aru_ring_del(self->nl[1], ENV_RING));
	EXPECT_EQ(1, rings(self->nl[0]));
}

static int drop_net_admin(void)
{
	struct __user_cap_header_struct hdr = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &hdr, data))
		return -1;
	data[0].effective &= ~(1U << CAP_NET_ADMIN);
	data[0].permitted &= ~(1U << CAP_NET_ADMIN);
	return syscall(SYS_capset, &hdr, data);
}

/* In another user namespace: all capabilities there, none over this network. */
static int enter_user_namespace(void)
{
	return unshare(CLONE_NEWUSER);
}

/* Number of the first thing that is not as it has to be, or 0. */
static int try_unprivileged(int (*lose)(void))
{
	struct aru_nl *nl;
	struct aru_ring *ring;

	if (lose())
		return 1;
	if (aru_nl_open(&nl))
		return 2;
	if (add(nl, "other", "10.88.0.1", 0, 1) != -EPERM)
		return 3;
	if (aru_ring_del(nl, ENV_RING) != -EPERM)
		return 4;
	if (up(nl, ENV_RING, 5000, true) != -EPERM)
		return 5;
	if (aru_ring_get(nl, ENV_RING, &ring))
		return 6;
	if (ring->state != ALLREDUCE_RING_DOWN || rings(nl) != 1)
		return 7;
	return 0;
}

/* A namespace of one's own needs no privileges outside of it. */
static int try_own_namespace(int (*unused)(void))
{
	struct aru_nl *nl;

	(void)unused;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return 1;
	if (aru_nl_open(&nl) || rings(nl))
		return 2;
	if (add(nl, ENV_RING, "10.88.0.1", 0, 1))
		return 3;
	if (up(nl, ENV_RING, 5000, false))
		return 4;
	/* The ring goes with the namespace. */
	return 0;
}

static int in_child(int (*fn)(int (*arg)(void)), int (*arg)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(arg));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(ring, changes_need_net_admin)
{
	ASSERT_EQ(0, env_enter(0));
	ASSERT_EQ(0, add(self->nl[0], ENV_RING, "10.88.0.1", 0, 1));
	EXPECT_EQ(0, in_child(try_unprivileged, drop_net_admin));
	EXPECT_EQ(0, in_child(try_unprivileged, enter_user_namespace));
	EXPECT_EQ(0, in_child(try_own_namespace, NULL));
	EXPECT_EQ(1, rings(self->nl[0]));
}

/* ---- states --------------------------------------------------------------- */

TEST_F(ring, one_member_needs_no_network)
{
	/* No such address here: nobody listens, nobody connects. */
	ASSERT_EQ(0, add(self->nl[0], ENV_RING, "192.0.2.1", 0, 16));
	EXPECT_EQ(0, up(self->nl[0], ENV_RING, 5000, false));
	EXPECT_EQ(ALLREDUCE_RING_UP, look(self->nl[0], ENV_RING).state);
	EXPECT_EQ(-EALREADY, up(self->nl[0], ENV_RING, 5000, false));
	EXPECT_TRUE(says(aru_nl_error_text(self->nl[0]), "the ring is up already"));
}

static void add_pair(struct aru_nl *nl[])
{
	must(add(nl[0], ENV_RING, GOOD_MEMBERS, 0, 2));
	must(add(nl[1], ENV_RING, GOOD_MEMBERS, 1, 2));
}

TEST_F(ring, nobody_there)
{
	struct aru_nl *nl = self->nl[0];
	struct aru_ring ring;
	uint64_t begin = env_now_ms(), ms;

	ASSERT_EQ(0, add(nl, ENV_RING, GOOD_MEMBERS, 0, 2));
	EXPECT_EQ(-ETIMEDOUT, up(nl, ENV_RING, 500, false));
	ms = env_now_ms() - begin;
	/* The watchdog looks once a second; the rest is for a busy machine. */
	EXPECT_LE(500, ms);
	EXPECT_GE(500 + 4000, ms);
	ring = look(nl, ENV_RING);
	EXPECT_EQ(ALLREDUCE_RING_DOWN, ring.state);
	EXPECT_EQ(-ETIMEDOUT, ring.error);
	EXPECT_TRUE(says(ring.reason, "rank 1"));
	EXPECT_TRUE(says(ring.reason, "10.88.0.2:18515"));
	/* Again, with the peer there. */
	ASSERT_EQ(0, add(self->nl[1], ENV_RING, GOOD_MEMBERS, 1, 2));
	EXPECT_EQ(0, up(nl, ENV_RING, 20000, true));
	EXPECT_EQ(-EALREADY, up(nl, ENV_RING, 20000, true));
	EXPECT_TRUE(says(aru_nl_error_text(nl), "the ring is connecting already"));
	EXPECT_EQ(0, up(self->nl[1], ENV_RING, 20000, false));
	EXPECT_TRUE(wait_state(nl, ENV_RING, ALLREDUCE_RING_UP, 5000));
	ring = look(nl, ENV_RING);
	EXPECT_EQ(0, ring.error);
	EXPECT_STREQ("", ring.reason);
}

/* The peer is there but was not told to connect. */
TEST_F(ring, peer_is_down)
{
	struct aru_ring ring;

	add_pair(self->nl);
	EXPECT_EQ(-ETIMEDOUT, up(self->nl[0], ENV_RING, 500, false));
	ring = look(self->nl[0], ENV_RING);
	EXPECT_EQ(ALLREDUCE_RING_DOWN, ring.state);
	EXPECT_TRUE(says(ring.reason, "rank 1 (10.88.0.2:18515) is not connecting"));
	EXPECT_EQ(ALLREDUCE_RING_DOWN, look(self->nl[1], ENV_RING).state);
}

/* What kept a ring waiting at first must not be blamed at last. */
TEST_F(ring, the_missing_one_is_named)
{
	const char *members = "10.88.0.1,10.88.0.2,10.88.0.3";
	struct aru_ring ring;

	ASSERT_EQ(0, add(self->nl[0], ENV_RING, members, 0, 2));
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 2000, true));
	usleep(200000);
	ASSERT_EQ(0, add(self->nl[1], ENV_RING, members, 1, 2));
	ASSERT_EQ(0, up(self->nl[1], ENV_RING, 4000, true));
	ASSERT_TRUE(wait_state(self->nl[0], ENV_RING, ALLREDUCE_RING_DOWN, 5000));
	ring = look(self->nl[0], ENV_RING);
	EXPECT_EQ(-ETIMEDOUT, ring.error);
	EXPECT_TRUE(says(ring.reason, "rank 2 (10.88.0.3:18515)"));
}

static int del(struct aru_nl *nl)
{
	uint64_t begin = env_now_ms();
	int ret = aru_ring_del(nl, ENV_RING);

	/* The peer is there and acknowledges: nothing is to be waited for. */
	return env_now_ms() - begin > 1500 ? -ETIME : ret;
}

TEST_F(ring, deletion_in_every_state)
{
	struct aru_ring ring;

	/* down */
	ASSERT_EQ(0, add(self->nl[0], ENV_RING, GOOD_MEMBERS, 0, 2));
	EXPECT_EQ(0, del(self->nl[0]));
	EXPECT_EQ(0, rings(self->nl[0]));
	EXPECT_EQ(-ENODEV, del(self->nl[0]));
	/* connecting */
	ASSERT_EQ(0, add(self->nl[0], ENV_RING, GOOD_MEMBERS, 0, 2));
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 60000, true));
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, look(self->nl[0], ENV_RING).state);
	EXPECT_EQ(0, del(self->nl[0]));
	EXPECT_EQ(0, rings(self->nl[0]));
	/* up */
	add_pair(self->nl);
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 20000, true));
	ASSERT_EQ(0, up(self->nl[1], ENV_RING, 20000, false));
	EXPECT_EQ(0, del(self->nl[1]));
	/* broken */
	EXPECT_TRUE(wait_state(self->nl[0], ENV_RING, ALLREDUCE_RING_BROKEN, 5000));
	ring = look(self->nl[0], ENV_RING);
	EXPECT_EQ(-ECONNRESET, ring.error);
	EXPECT_NE(0, ring.reason[0]);
	EXPECT_EQ(-EPIPE, up(self->nl[0], ENV_RING, 5000, false));
	EXPECT_TRUE(says(aru_nl_error_text(self->nl[0]), "the ring is broken"));
	EXPECT_EQ(0, del(self->nl[0]));
	EXPECT_EQ(0, rings(self->nl[0]));
	/* and nothing keeps the name or the port */
	add_pair(self->nl);
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 20000, true));
	EXPECT_EQ(0, up(self->nl[1], ENV_RING, 20000, false));
}

/* ---- events --------------------------------------------------------------- */

#define EVENTS_MAX	16

struct heard {
	unsigned int n;
	struct aru_ring ring[EVENTS_MAX];
};

static int hear(struct nlmsghdr *nlh, void *arg)
{
	struct heard *heard = arg;
	struct aru_ring *ring;
	int ret = aru_ring_parse(nlh, &ring);

	if (ret)
		return ret;
	if (heard->n == EVENTS_MAX)
		return -ENOSPC;
	heard->ring[heard->n++] = *ring;
	aru_ring_free(ring);
	return 0;
}

/* Hear events until @n are there or it takes too long. */
static int hear_some(struct aru_nl_events *events, struct heard *heard, unsigned int n)
{
	uint64_t end = env_now_ms() + 5000;
	int ret = 0;

	while (heard->n < n && env_now_ms() < end && (!ret || ret == -ETIME))
		ret = aru_nl_events_read(events, 500, hear, heard);
	return heard->n;
}

TEST_F(ring, events)
{
	struct aru_nl_events *events;
	struct heard *heard = calloc(1, sizeof(*heard));
	unsigned int i;

	ASSERT_NE(NULL, heard);
	ASSERT_EQ(0, env_enter(0));
	ASSERT_EQ(0, aru_nl_events_open(self->nl[0], &events));
	add_pair(self->nl);
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 300, true));
	ASSERT_EQ(2, hear_some(events, heard, 2));
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, heard->ring[0].state);
	EXPECT_EQ(ALLREDUCE_RING_DOWN, heard->ring[1].state);
	EXPECT_EQ(-ETIMEDOUT, heard->ring[1].error);
	EXPECT_TRUE(says(heard->ring[1].reason, "rank 1"));

	heard->n = 0;
	ASSERT_EQ(0, up(self->nl[0], ENV_RING, 20000, true));
	ASSERT_EQ(0, up(self->nl[1], ENV_RING, 20000, false));
	ASSERT_EQ(2, hear_some(events, heard, 2));
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, heard->ring[0].state);
	EXPECT_EQ(ALLREDUCE_RING_UP, heard->ring[1].state);
	EXPECT_EQ(0, heard->ring[1].error);

	heard->n = 0;
	ASSERT_EQ(0, aru_ring_del(self->nl[1], ENV_RING));
	ASSERT_EQ(1, hear_some(events, heard, 1));
	EXPECT_EQ(ALLREDUCE_RING_BROKEN, heard->ring[0].state);
	EXPECT_EQ(-ECONNRESET, heard->ring[0].error);
	EXPECT_NE(0, heard->ring[0].reason[0]);
	for (i = 0; i < heard->n; i++)
		EXPECT_STREQ(ENV_RING, heard->ring[i].name);
	aru_nl_events_close(events);
	free(heard);
}

/* ---- neighbours that do not match ----------------------------------------- */

FIXTURE(mismatch)
{
	struct aru_nl *nl[2];
};

FIXTURE_VARIANT(mismatch)
{
	const char *members[2];
	unsigned int lanes[2];
	unsigned int frame_max[2];
	unsigned int gather_max[2];	/* 0: not given */
	const char *text;
};

#define MEMBERS_3	"10.88.0.1,10.88.0.2,10.88.0.3"

FIXTURE_VARIANT_ADD(mismatch, lanes) {
	.members = { GOOD_MEMBERS, GOOD_MEMBERS }, .lanes = { 2, 3 },
	.text = "numbers of lanes differ",
};

FIXTURE_VARIANT_ADD(mismatch, frame_max) {
	.members = { GOOD_MEMBERS, GOOD_MEMBERS }, .frame_max = { 4096, 8192 },
	.text = "frame sizes differ",
};

FIXTURE_VARIANT_ADD(mismatch, gather_max) {
	.members = { GOOD_MEMBERS, GOOD_MEMBERS }, .gather_max = { 100, 101 },
	.text = "limits of the gather path differ",
};

FIXTURE_VARIANT_ADD(mismatch, size) {
	.members = { GOOD_MEMBERS, MEMBERS_3 }, .text = "ring sizes differ",
};

FIXTURE_VARIANT_ADD(mismatch, members) {
	.members = { MEMBERS_3, "10.88.0.1,10.88.0.2,10.88.0.4" },
	.text = "member lists differ",
};

FIXTURE_VARIANT_ADD(mismatch, address) {
	.members = { MEMBERS_3, "10.88.0.4,10.88.0.2,10.88.0.3" },
	.text = "not the address of the previous member",
};

FIXTURE_SETUP(mismatch)
{
	int i;

	ASSERT_EQ(0, env_namespaces());
	for (i = 0; i < 2; i++) {
		struct aru_member members[3];
		struct aru_ring_config config = {
			.sz = sizeof(config), .name = ENV_RING, .has_id = true,
			.rank = i, .members = members, .lanes = variant->lanes[i],
			.frame_max = variant->frame_max[i],
			.has_gather_max = variant->gather_max[i],
			.gather_max = variant->gather_max[i],
		};

		memcpy(config.id, good_id, sizeof(config.id));
		config.n_members = aru_members_parse(variant->members[i], members,
						     3, NULL, 0);
		ASSERT_EQ(0, env_enter(i));
		ASSERT_EQ(0, aru_nl_open(&self->nl[i]));
		ASSERT_EQ(0, aru_ring_add(self->nl[i], &config));
	}
}

FIXTURE_TEARDOWN(mismatch)
{
	int i;

	for (i = 0; i < 2; i++) {
		delete_all(self->nl[i]);
		aru_nl_close(self->nl[i]);
	}
}

TEST_F(mismatch, is_named)
{
	struct aru_ring ring;

	/* Rank 1 is connecting for longer, so that rank 0 is always answered. */
	ASSERT_EQ(0, up(self->nl[1], ENV_RING, 3000, true));
	EXPECT_EQ(-ETIMEDOUT, up(self->nl[0], ENV_RING, 1000, false));
	ring = look(self->nl[0], ENV_RING);
	EXPECT_EQ(ALLREDUCE_RING_DOWN, ring.state);
	EXPECT_TRUE(says(ring.reason, "refused by rank 1 (10.88.0.2:18515)"));
	EXPECT_TRUE(says(ring.reason, variant->text));
	EXPECT_NE(ALLREDUCE_RING_UP, look(self->nl[1], ENV_RING).state);
}

TEST_HARNESS_MAIN
