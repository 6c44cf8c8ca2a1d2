// SPDX-License-Identifier: GPL-2.0
/*
 * What the library writes into netlink messages, and reads out of them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <unistd.h>

#include "libtest.h"

static struct nl_msg *message(uint8_t cmd)
{
	struct nl_msg *msg = nlmsg_alloc_size(65536);

	assert_non_null(msg);
	assert_non_null(genlmsg_put(msg, 0, 0, 0x20, 0, 0, cmd, 1));
	return msg;
}

/* The first attribute of @type in a message, without masking its flags. */
static struct nlattr *find(struct nl_msg *msg, int type)
{
	return nlmsg_find_attr(nlmsg_hdr(msg), GENL_HDRLEN, type);
}

static void config_of(struct aru_ring_config *config, struct aru_member *members,
		      const char *list)
{
	int n = aru_members_parse(list, members, ALLREDUCE_SIZE_MAX, NULL, 0);

	assert_true(n > 0);
	memset(config, 0, sizeof(*config));
	config->sz = sizeof(*config);
	config->name = "demo";
	config->members = members;
	config->n_members = n;
}

static void add_has_all_attributes(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_ADD);
	struct nlattr *member, *nest;
	struct aru_ring_config config;
	uint8_t id[ALLREDUCE_ID_SIZE];
	int rem, n = 0;

	(void)state;
	config_of(&config, members, "10.0.0.1,10.0.0.2:7,10.0.0.3");
	config.rank = 1;
	config.lanes = 8;
	config.frame_max = 8192;
	config.timeout_ms = 5000;
	config.has_gather_max = true;
	config.gather_max = 512;
	assert_int_equal(aru_ring_add_fill(msg, &config), 0);
	assert_string_equal(nla_get_string(find(msg, ALLREDUCE_A_NAME)), "demo");
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_RANK)), 1);
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_LANES)), 8);
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_FRAME_MAX)), 8192);
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_TIMEOUT_MS)), 5000);
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_GATHER_MAX)), 512);
	aru_ring_id("demo", members, 3, id);
	assert_int_equal(nla_len(find(msg, ALLREDUCE_A_ID)), sizeof(id));
	assert_memory_equal(nla_data(find(msg, ALLREDUCE_A_ID)), id, sizeof(id));
	nest = find(msg, ALLREDUCE_A_MEMBERS);
	/* Kernels that validate strictly refuse a nest without its flag. */
	assert_int_equal(nest->nla_type, NLA_F_NESTED | ALLREDUCE_A_MEMBERS);
	nla_for_each_nested(member, nest, rem) {
		struct nlattr *addr = nla_find(nla_data(member), nla_len(member),
					       ALLREDUCE_M_ADDR);
		struct nlattr *port = nla_find(nla_data(member), nla_len(member),
					       ALLREDUCE_M_PORT);

		assert_int_equal(member->nla_type, NLA_F_NESTED | ALLREDUCE_A_MEMBER);
		assert_int_equal(nla_len(addr), 4);
		assert_int_equal(((uint8_t *)nla_data(addr))[3], n + 1);
		assert_int_equal(nla_get_u16(port), n == 1 ? 7 : ALLREDUCE_PORT_DEFAULT);
		assert_null(nla_find(nla_data(member), nla_len(member),
				     ALLREDUCE_M_SCOPE));
		n++;
	}
	assert_int_equal(n, 3);
	nlmsg_free(msg);
}

static void add_leaves_defaults_to_the_kernel(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_ADD);
	struct aru_ring_config config;

	(void)state;
	config_of(&config, members, "[fe80::1%lo]:9");
	config.has_id = true;
	memset(config.id, 0xab, sizeof(config.id));
	/* Not taken: nothing says that it was given. */
	config.gather_max = 512;
	assert_int_equal(aru_ring_add_fill(msg, &config), 0);
	assert_null(find(msg, ALLREDUCE_A_LANES));
	assert_null(find(msg, ALLREDUCE_A_FRAME_MAX));
	assert_null(find(msg, ALLREDUCE_A_TIMEOUT_MS));
	assert_null(find(msg, ALLREDUCE_A_GATHER_MAX));
	assert_memory_equal(nla_data(find(msg, ALLREDUCE_A_ID)), config.id, 16);
	nlmsg_free(msg);
}

/* 0 is a value, which says never, not the lack of one. */
static void add_can_turn_gathering_off(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_ADD);
	struct aru_ring_config config;

	(void)state;
	config_of(&config, members, "10.0.0.1");
	config.has_gather_max = true;
	assert_int_equal(aru_ring_add_fill(msg, &config), 0);
	assert_non_null(find(msg, ALLREDUCE_A_GATHER_MAX));
	assert_int_equal(nla_get_u32(find(msg, ALLREDUCE_A_GATHER_MAX)), 0);
	nlmsg_free(msg);
}

static void add_fits_the_largest_ring(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_ADD);
	struct aru_ring_config config;
	int i;

	(void)state;
	config_of(&config, members, "[fe80::1%lo]:9");
	for (i = 0; i < ALLREDUCE_SIZE_MAX; i++) {
		members[i] = members[0];
		members[i].port = i + 1;
	}
	config.n_members = ALLREDUCE_SIZE_MAX;
	assert_int_equal(aru_ring_add_fill(msg, &config), 0);
	nlmsg_free(msg);
}

/* ---- answers ------------------------------------------------------------- */

static void put_stats(struct nl_msg *msg, int attr, uint64_t base)
{
	struct nlattr *nest = nla_nest_start(msg, attr);

	nla_put_u64(msg, ALLREDUCE_STAT_BYTES_INJECTED, base + 1);
	nla_put_u64(msg, ALLREDUCE_STAT_JOBS_FAILED, base + 2);
	/* From a newer kernel, and beyond the table. */
	nla_put_u64(msg, 60, base + 3);
	nla_put_u64(msg, 200, base + 4);
	nla_nest_end(msg, nest);
}

static void put_lane(struct nl_msg *msg, uint32_t index)
{
	struct nlattr *nest = nla_nest_start(msg, ALLREDUCE_A_LANE);

	nla_put_u32(msg, ALLREDUCE_L_INDEX, index);
	nla_put_u8(msg, ALLREDUCE_L_NEXT_UP, 1);
	nla_put_u8(msg, ALLREDUCE_L_PREV_UP, index == 0);
	put_stats(msg, ALLREDUCE_L_STATS, 1000 * (index + 1));
	nla_nest_end(msg, nest);
}

static void put_members(struct nl_msg *msg, int n, int addr_len)
{
	struct nlattr *nest = nla_nest_start(msg, ALLREDUCE_A_MEMBERS), *member;
	uint8_t addr[16] = { 10, 0, 0, 1 };
	int i;

	for (i = 0; i < n; i++) {
		member = nla_nest_start(msg, ALLREDUCE_A_MEMBER);
		nla_put(msg, ALLREDUCE_M_ADDR, addr_len, addr);
		nla_put_u16(msg, ALLREDUCE_M_PORT, 100 + i);
		nla_nest_end(msg, member);
	}
	nla_nest_end(msg, nest);
}

static struct nl_msg *answer(void)
{
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_GET);
	uint8_t id[ALLREDUCE_ID_SIZE] = { 1, 2, 3 };

	nla_put_string(msg, ALLREDUCE_A_NAME, "demo");
	nla_put(msg, ALLREDUCE_A_ID, sizeof(id), id);
	nla_put_u32(msg, ALLREDUCE_A_RANK, 1);
	nla_put_u32(msg, ALLREDUCE_A_SIZE, 3);
	nla_put_u32(msg, ALLREDUCE_A_LANES, 2);
	nla_put_u32(msg, ALLREDUCE_A_FRAME_MAX, 65536);
	nla_put_u32(msg, ALLREDUCE_A_TIMEOUT_MS, 30000);
	nla_put_u32(msg, ALLREDUCE_A_GATHER_MAX, 2048);
	nla_put_u32(msg, ALLREDUCE_A_STATE, ALLREDUCE_RING_BROKEN);
	nla_put_u32(msg, ALLREDUCE_A_ERROR, -ECONNRESET);
	nla_put_string(msg, ALLREDUCE_A_REASON, "next went away");
	nla_put_u8(msg, ALLREDUCE_A_ATTACHED, 1);
	nla_put_u64(msg, ALLREDUCE_A_JOBS_SUBMITTED, 1ULL << 33);
	nla_put_u32(msg, ALLREDUCE_A_JOBS_IN_FLIGHT, 5);
	nla_put_string(msg, ALLREDUCE_A_ISA, "avx2");
	return msg;
}

static void parses_an_answer(void **state)
{
	struct nl_msg *msg = answer();
	struct aru_ring *ring;

	(void)state;
	put_members(msg, 3, 4);
	put_stats(msg, ALLREDUCE_A_STATS, 0);
	put_lane(msg, 0);
	put_lane(msg, 1);
	/* An attribute of a newer kernel. */
	nla_put_u32(msg, ALLREDUCE_A_MAX + 7, 1);
	assert_int_equal(aru_ring_parse(nlmsg_hdr(msg), &ring), 0);
	assert_string_equal(ring->name, "demo");
	assert_int_equal(ring->id[2], 3);
	assert_int_equal(ring->rank, 1);
	assert_int_equal(ring->size, 3);
	assert_int_equal(ring->gather_max, 2048);
	assert_int_equal(ring->state, ALLREDUCE_RING_BROKEN);
	assert_int_equal(ring->error, -ECONNRESET);
	assert_string_equal(ring->reason, "next went away");
	assert_true(ring->attached);
	assert_true(ring->jobs_submitted == 1ULL << 33);
	assert_int_equal(ring->jobs_in_flight, 5);
	assert_string_equal(ring->isa, "avx2");
	assert_int_equal(ring->n_members, 3);
	assert_int_equal(ring->members[2].port, 102);
	assert_int_equal(ring->members[2].family, AF_INET);
	assert_int_equal(ring->stats[ALLREDUCE_STAT_BYTES_INJECTED], 1);
	assert_int_equal(ring->stats[60], 3);
	assert_int_equal(ring->n_lanes, 2);
	assert_int_equal(ring->lanes[1].index, 1);
	assert_true(ring->lanes[1].next_up);
	assert_false(ring->lanes[1].prev_up);
	assert_int_equal(ring->lanes[1].stats[ALLREDUCE_STAT_JOBS_FAILED], 2002);
	aru_ring_free(ring);
	nlmsg_free(msg);
}

static void parses_an_event(void **state)
{
	struct nl_msg *msg = answer();
	struct aru_ring *ring;

	(void)state;
	/* Without lanes and members: their number is still known. */
	assert_int_equal(aru_ring_parse(nlmsg_hdr(msg), &ring), 0);
	assert_int_equal(ring->n_lanes, 2);
	assert_int_equal(ring->lanes[1].index, 0);
	assert_int_equal(ring->n_members, 0);
	aru_ring_free(ring);
	nlmsg_free(msg);
}

static void refuse(struct nl_msg *msg)
{
	struct aru_ring *ring = (void *)1;

	assert_int_equal(aru_ring_parse(nlmsg_hdr(msg), &ring), -EBADMSG);
	assert_null(ring);
	nlmsg_free(msg);
}

static void refuses_bad_answers(void **state)
{
	struct nl_msg *msg;
	int i;

	(void)state;
	refuse(message(ALLREDUCE_CMD_RING_GET));
	msg = answer();
	put_members(msg, 1, 5);
	refuse(msg);
	msg = answer();
	put_members(msg, ALLREDUCE_SIZE_MAX + 1, 4);
	refuse(msg);
	msg = answer();
	for (i = 0; i <= ALLREDUCE_LANES_MAX; i++)
		put_lane(msg, i);
	refuse(msg);
	msg = message(ALLREDUCE_CMD_RING_GET);
	nla_put_string(msg, ALLREDUCE_A_NAME, "demo");
	nla_put_u32(msg, ALLREDUCE_A_LANES, ALLREDUCE_LANES_MAX + 1);
	refuse(msg);
}

/* Every short copy of an answer: no byte beyond it may be read (ASan looks). */
static void survives_cut_answers(void **state)
{
	struct nl_msg *msg = answer();
	struct aru_ring *ring;
	uint32_t len, whole;

	(void)state;
	put_members(msg, 3, 4);
	put_stats(msg, ALLREDUCE_A_STATS, 0);
	put_lane(msg, 0);
	whole = nlmsg_hdr(msg)->nlmsg_len;
	for (len = NLMSG_HDRLEN + GENL_HDRLEN; len < whole; len++) {
		struct nlmsghdr *cut = malloc(len);

		memcpy(cut, nlmsg_hdr(msg), len);
		cut->nlmsg_len = len;
		if (!aru_ring_parse(cut, &ring))
			aru_ring_free(ring);
		free(cut);
	}
	nlmsg_free(msg);
}

/* ---- refusals ------------------------------------------------------------ */

/*
 * An answer as the kernel makes it: the error, the request or, capped,
 * only its header, then attributes.
 */
static struct nlmsghdr *refusal(struct nlmsghdr *request, bool capped, const char *text,
				uint32_t offset, uint32_t missing)
{
	uint32_t echoed = capped ? 0 : request->nlmsg_len - NLMSG_HDRLEN;
	struct nlmsghdr *ack = calloc(1, 4096);
	struct nlmsgerr *err = nlmsg_data(ack);
	char *p;

	ack->nlmsg_type = NLMSG_ERROR;
	ack->nlmsg_flags = NLM_F_ACK_TLVS | (capped ? NLM_F_CAPPED : 0);
	err->error = -EINVAL;
	memcpy(&err->msg, request, NLMSG_HDRLEN + echoed);
	p = (char *)ack + NLMSG_HDRLEN + sizeof(*err) + NLMSG_ALIGN(echoed);
	if (text) {
		struct nlattr *attr = (void *)p;

		attr->nla_type = NLMSGERR_ATTR_MSG;
		attr->nla_len = NLA_HDRLEN + strlen(text) + 1;
		strcpy(nla_data(attr), text);
		p += NLA_ALIGN(attr->nla_len);
	}
	if (offset || missing) {
		struct nlattr *attr = (void *)p;

		attr->nla_type = offset ? NLMSGERR_ATTR_OFFS : NLMSGERR_ATTR_MISS_TYPE;
		attr->nla_len = NLA_HDRLEN + 4;
		memcpy(nla_data(attr), offset ? &offset : &missing, 4);
		p += NLA_ALIGN(attr->nla_len);
	}
	ack->nlmsg_len = p - (char *)ack;
	return ack;
}

static void expect(struct nlmsghdr *ack, struct nlmsghdr *request, const char *expected)
{
	char text[256];

	aru_nl_ack_text(ack, request, text, sizeof(text));
	assert_string_equal(text, expected);
	free(ack);
}

static uint32_t offset_of(struct nl_msg *msg, int type)
{
	return (char *)find(msg, type) - (char *)nlmsg_hdr(msg);
}

static void tells_refusals(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_ADD);
	struct nlmsghdr *request;
	struct aru_ring_config config;
	struct nlattr *second;
	int capped;

	(void)state;
	config_of(&config, members, "10.0.0.1,10.0.0.2");
	config.rank = 7;
	config.has_gather_max = true;
	config.gather_max = 65537;
	assert_int_equal(aru_ring_add_fill(msg, &config), 0);
	request = nlmsg_hdr(msg);
	second = nla_next(nla_data(find(msg, ALLREDUCE_A_MEMBERS)), &(int){ 4096 });
	for (capped = 0; capped < 2; capped++) {
		expect(refusal(request, capped, "rank out of range",
			       offset_of(msg, ALLREDUCE_A_RANK), 0),
		       request, "rank out of range (rank 7)");
		expect(refusal(request, capped, "too large",
			       offset_of(msg, ALLREDUCE_A_GATHER_MAX), 0),
		       request, "too large (gather 65537)");
		expect(refusal(request, capped, "name taken",
			       offset_of(msg, ALLREDUCE_A_NAME), 0),
		       request, "name taken (name \"demo\")");
		expect(refusal(request, capped, "bad address",
			       (char *)second - (char *)request, 0),
		       request, "bad address (member 1)");
		expect(refusal(request, capped, "too many",
			       offset_of(msg, ALLREDUCE_A_MEMBERS), 0),
		       request, "too many (members)");
		expect(refusal(request, capped, "no luck", 0, 0), request, "no luck");
		expect(refusal(request, capped, NULL, offset_of(msg, ALLREDUCE_A_RANK), 0),
		       request, "rank 7 is refused");
		expect(refusal(request, capped, NULL, 0, ALLREDUCE_A_MEMBERS), request,
		       "members is missing");
		expect(refusal(request, capped, NULL, 0, 0), request, "");
		/* An offset that points nowhere. */
		expect(refusal(request, capped, "odd", 3, 0), request, "odd");
		expect(refusal(request, capped, "odd", 1 << 30, 0), request, "odd");
	}
	nlmsg_free(msg);
}

static void tells_the_end_of_a_dump(void **state)
{
	struct nl_msg *msg = message(ALLREDUCE_CMD_RING_GET);
	struct nlmsghdr *done = calloc(1, 256);
	struct nlattr *attr;

	(void)state;
	done->nlmsg_type = NLMSG_DONE;
	done->nlmsg_flags = NLM_F_ACK_TLVS | NLM_F_MULTI;
	attr = (struct nlattr *)((char *)done + NLMSG_HDRLEN + 4);
	attr->nla_type = NLMSGERR_ATTR_MSG;
	attr->nla_len = NLA_HDRLEN + 6;
	strcpy(nla_data(attr), "sorry");
	done->nlmsg_len = NLMSG_HDRLEN + 4 + NLA_ALIGN(attr->nla_len);
	expect(done, nlmsg_hdr(msg), "sorry");
	nlmsg_free(msg);
}

static void needs_the_module(void **state)
{
	struct aru_nl *nl = (void *)1;
	int ret;

	(void)state;
	if (!access(ARU_DEVICE, F_OK))
		skip();
	ret = aru_nl_open(&nl);
	assert_int_equal(ret, -ENOENT);
	assert_null(nl);
	aru_nl_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add_has_all_attributes),
		cmocka_unit_test(add_leaves_defaults_to_the_kernel),
		cmocka_unit_test(add_can_turn_gathering_off),
		cmocka_unit_test(add_fits_the_largest_ring),
		cmocka_unit_test(parses_an_answer),
		cmocka_unit_test(parses_an_event),
		cmocka_unit_test(refuses_bad_answers),
		cmocka_unit_test(survives_cut_answers),
		cmocka_unit_test(tells_refusals),
		cmocka_unit_test(tells_the_end_of_a_dump),
		cmocka_unit_test(needs_the_module),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
