// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>

#include "libtest.h"

static const struct {
	const char *text;
	int family;
	const char *addr;
	int port;
	const char *formatted;
} good[] = {
	{ "10.0.0.1", AF_INET, "10.0.0.1", ALLREDUCE_PORT_DEFAULT, "10.0.0.1:18515" },
	{ "10.0.0.1:1", AF_INET, "10.0.0.1", 1, "10.0.0.1:1" },
	{ "10.0.0.1:65535", AF_INET, "10.0.0.1", 65535, "10.0.0.1:65535" },
	{ "fd00::7", AF_INET6, "fd00::7", ALLREDUCE_PORT_DEFAULT, "[fd00::7]:18515" },
	{ "[fd00::7]", AF_INET6, "fd00::7", ALLREDUCE_PORT_DEFAULT, "[fd00::7]:18515" },
	{ "[fd00::7]:9", AF_INET6, "fd00::7", 9, "[fd00::7]:9" },
	{ "fd00::7:9", AF_INET6, "fd00::7:9", ALLREDUCE_PORT_DEFAULT,
	  "[fd00::7:9]:18515" },
	{ "::ffff:10.0.0.1", AF_INET6, "::ffff:10.0.0.1", ALLREDUCE_PORT_DEFAULT,
	  "[::ffff:10.0.0.1]:18515" },
};

#define TEN	"0123456789"

/* What is wrong, and a word that the complaint must contain. */
static const struct {
	const char *text;
	const char *word;
} bad[] = {
	{ "", "address" },
	{ "node7", "address" },
	{ "node7:18515", "address" },
	{ "10.0.0", "address" },
	{ "10.0.0.256", "address" },
	{ "10.0.0.1 ", "address" },
	{ " 10.0.0.1", "address" },
	{ "10.0.0.1:", "1 to 65535" },
	{ "10.0.0.1:0", "1 to 65535" },
	{ "10.0.0.1:65536", "1 to 65535" },
	{ "10.0.0.1:-1", "1 to 65535" },
	{ "10.0.0.1:+1", "1 to 65535" },
	{ "10.0.0.1:1x", "1 to 65535" },
	{ "10.0.0.1:99999999999999999999", "1 to 65535" },
	{ "[10.0.0.1]:1", "address" },
	{ "[fd00::7", "[V6]:PORT" },
	{ "[fd00::7]9", "[V6]:PORT" },
	{ "[fd00::7]:", "1 to 65535" },
	{ "fd00::7%lo", "link-local" },
	{ "10.0.0.1%lo", "link-local" },
	{ "fe80::1%nosuchif0", "no interface" },
	{ "fe80::1%", "no interface" },
	{ TEN TEN TEN TEN TEN TEN TEN TEN, "too long" },
};

static void parses(void **state)
{
	struct aru_member member;
	char text[ARU_MEMBER_TEXT_SIZE];
	uint8_t addr[16];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(addr, 0, sizeof(addr));
		inet_pton(good[i].family, good[i].addr, addr);
		assert_int_equal(aru_member_parse(good[i].text, &member, NULL, 0), 0);
		assert_int_equal(member.family, good[i].family);
		assert_int_equal(member.port, good[i].port);
		assert_int_equal(member.scope, 0);
		assert_memory_equal(member.addr, addr, 16);
		assert_int_equal(aru_member_format(&member, text, sizeof(text)), 0);
		assert_string_equal(text, good[i].formatted);
	}
}

static void refuses(void **state)
{
	struct aru_member member;
	char error[256];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		strcpy(error, "untouched");
		assert_int_equal(aru_member_parse(bad[i].text, &member, error,
						  sizeof(error)), -EINVAL);
		if (!strstr(error, bad[i].word))
			fail_msg("\"%s\": %s", bad[i].text, error);
	}
}

static void link_local_takes_an_interface(void **state)
{
	struct aru_member member;
	char text[ARU_MEMBER_TEXT_SIZE];

	(void)state;
	assert_int_equal(aru_member_parse("[fe80::1%lo]:5", &member, NULL, 0), 0);
	assert_int_equal(member.scope, if_nametoindex("lo"));
	assert_int_equal(aru_member_format(&member, text, sizeof(text)), 0);
	assert_string_equal(text, "[fe80::1%lo]:5");
	assert_int_equal(aru_members_check(&member, 1, NULL, 0), 0);
	member.scope = 0x7fffffff;
	assert_int_equal(aru_member_format(&member, text, sizeof(text)), 0);
	assert_string_equal(text, "[fe80::1%2147483647]:5");
	member.scope = 0;
	assert_int_equal(aru_members_check(&member, 1, NULL, 0), -EINVAL);
}

static void format_needs_room(void **state)
{
	struct aru_member member;
	char text[8];

	(void)state;
	aru_member_parse("10.0.0.1", &member, NULL, 0);
	assert_int_equal(aru_member_format(&member, text, sizeof(text)), -ENOSPC);
	member.family = 77;
	assert_int_equal(aru_member_format(&member, text, sizeof(text)), -EINVAL);
}

static void lists(void **state)
{
	struct aru_member members[4];
	char error[256];

	(void)state;
	assert_int_equal(aru_members_parse("10.0.0.1", members, 4, NULL, 0), 1);
	assert_int_equal(aru_members_parse("10.0.0.1,10.0.0.2:7,[fd00::1]:8", members, 4,
					   NULL, 0), 3);
	assert_int_equal(members[1].port, 7);
	assert_int_equal(members[2].family, AF_INET6);
	assert_int_equal(aru_members_parse("10.0.0.1,10.0.0.2", members, 1, error,
					   sizeof(error)), -EINVAL);
	assert_string_equal(error, "more than 1 members");
	assert_int_equal(aru_members_parse("10.0.0.1,", members, 4, NULL, 0), -EINVAL);
	assert_int_equal(aru_members_parse(",10.0.0.1", members, 4, NULL, 0), -EINVAL);
	assert_int_equal(aru_members_parse("", members, 4, NULL, 0), -EINVAL);
	assert_int_equal(aru_members_parse("10.0.0.1", members, 0, NULL, 0), -EINVAL);
}

static int check(const char *text, char *error, size_t size)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	int n = aru_members_parse(text, members, ALLREDUCE_SIZE_MAX, error, size);

	assert_true(n >= 0);
	return aru_members_check(members, n, error, size);
}

static void checks_lists(void **state)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX + 1];
	char error[256];
	int i;

	(void)state;
	assert_int_equal(check("10.0.0.1,10.0.0.2", error, sizeof(error)), 0);
	assert_string_equal(error, "");
	assert_int_equal(check("10.0.0.1:1,10.0.0.1:2", error, sizeof(error)), 0);
	assert_int_equal(check("10.0.0.1,10.0.0.2,10.0.0.1", error, sizeof(error)),
			 -EINVAL);
	assert_string_equal(error,
			    "members 0 and 2 are both 10.0.0.1:18515: members on one host need different ports");
	assert_int_equal(check("10.0.0.1,fd00::1", error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "address family"));
	assert_int_equal(check("0.0.0.0", error, sizeof(error)), -EINVAL);
	assert_int_equal(check("::", error, sizeof(error)), -EINVAL);
	assert_int_equal(check("::ffff:10.0.0.1", error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "write it as IPv4"));
	assert_int_equal(check("224.0.0.1", error, sizeof(error)), -EINVAL);
	assert_int_equal(check("255.255.255.255", error, sizeof(error)), -EINVAL);
	assert_int_equal(check("ff02::1", error, sizeof(error)), -EINVAL);
	assert_int_equal(check("fe80::1", error, sizeof(error)), -EINVAL);
	assert_int_equal(aru_members_check(members, 0, error, sizeof(error)), -EINVAL);
	for (i = 0; i <= ALLREDUCE_SIZE_MAX; i++) {
		aru_member_parse("10.0.0.1", &members[i], NULL, 0);
		members[i].port = 1 + i;
	}
	assert_int_equal(aru_members_check(members, ALLREDUCE_SIZE_MAX, NULL, 0), 0);
	assert_int_equal(aru_members_check(members, ALLREDUCE_SIZE_MAX + 1, error,
					   sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "1 to 64"));
	members[3].port = 0;
	assert_int_equal(aru_members_check(members, 4, error, sizeof(error)), -EINVAL);
}

static void names(void **state)
{
	(void)state;
	assert_true(aru_name_valid("a"));
	assert_true(aru_name_valid("0123456789012345678901234567890"));
	assert_false(aru_name_valid("01234567890123456789012345678901"));
	assert_false(aru_name_valid(""));
	assert_false(aru_name_valid("a/b"));
	assert_false(aru_name_valid("a b"));
	assert_false(aru_name_valid("a\n"));
	assert_false(aru_name_valid("a\x01"));
	assert_false(aru_name_valid("a\x7f"));
	assert_true(aru_name_valid("r\xc3\xa9seau"));
}

static void id_of(const char *name, const char *list, uint8_t *id)
{
	struct aru_member members[8];
	int n = aru_members_parse(list, members, 8, NULL, 0);

	assert_true(n > 0);
	aru_ring_id(name, members, n, id);
}

/*
 * FNV-1a of 128 bits of "demo\0" 04 0a 00 00 01 48 53 04 0a 00 00 02 48 53,
 * computed apart from the library.
 */
static const uint8_t demo_id[ALLREDUCE_ID_SIZE] = {
	0x45, 0x33, 0x65, 0x00, 0x0c, 0x61, 0xc7, 0x22,
	0xc3, 0xac, 0xe8, 0x88, 0x88, 0xb9, 0x9f, 0x3f,
};

static void id_is_as_documented(void **state)
{
	uint8_t id[ALLREDUCE_ID_SIZE], other[ALLREDUCE_ID_SIZE];

	(void)state;
	id_of("demo", "10.0.0.1,10.0.0.2", id);
	assert_memory_equal(id, demo_id, sizeof(id));
	id_of("demo", "10.0.0.1:18515,10.0.0.2", other);
	assert_memory_equal(id, other, sizeof(id));
	id_of("demo", "10.0.0.2,10.0.0.1", other);
	assert_memory_not_equal(id, other, sizeof(id));
	id_of("demo2", "10.0.0.1,10.0.0.2", other);
	assert_memory_not_equal(id, other, sizeof(id));
	id_of("demo", "10.0.0.1,10.0.0.2:1", other);
	assert_memory_not_equal(id, other, sizeof(id));
}

static void id_ignores_the_interface(void **state)
{
	uint8_t id[ALLREDUCE_ID_SIZE], other[ALLREDUCE_ID_SIZE];
	struct aru_member member;

	(void)state;
	aru_member_parse("fe80::1%lo", &member, NULL, 0);
	aru_ring_id("r", &member, 1, id);
	member.scope++;
	aru_ring_id("r", &member, 1, other);
	assert_memory_equal(id, other, sizeof(id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses),
		cmocka_unit_test(refuses),
		cmocka_unit_test(link_local_takes_an_interface),
		cmocka_unit_test(format_needs_room),
		cmocka_unit_test(lists),
		cmocka_unit_test(checks_lists),
		cmocka_unit_test(names),
		cmocka_unit_test(id_is_as_documented),
		cmocka_unit_test(id_ignores_the_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
