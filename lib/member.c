// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Members in text, and what can be known of a ring without the kernel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

bool aru_name_valid(const char *name)
{
	size_t len = strnlen(name, ALLREDUCE_NAME_SIZE);
	size_t i;

	if (!len || len == ALLREDUCE_NAME_SIZE)
		return false;
	/* As the kernel has it: controls are refused, bytes of UTF-8 are not. */
	for (i = 0; i < len; i++) {
		unsigned char c = name[i];

		if (c == '/' || c <= ' ' || c == 0x7f)
			return false;
	}
	return true;
}

static bool parse_port(const char *text, uint16_t *port)
{
	unsigned long value;
	size_t len = strlen(text);

	if (!len || len > 5 || strspn(text, "0123456789") != len)
		return false;
	value = strtoul(text, NULL, 10);
	if (!value || value > 65535)
		return false;
	*port = value;
	return true;
}

static bool link_local(const struct aru_member *member)
{
	return member->family == AF_INET6 && member->addr[0] == 0xfe &&
	       (member->addr[1] & 0xc0) == 0x80;
}

/*
 * Cut "ADDR:PORT", "[V6]", "[V6]:PORT" or "V6" into an address, which stays in
 * @text, and a port, NULL if there is none.
 */
static bool cut_port(char *text, char **addr, char **port)
{
	char *end, *colon;

	*addr = text;
	*port = NULL;
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		*addr = text + 1;
		if (end[1])
			*port = end + 2;
		*end = '\0';
		return true;
	}
	colon = strchr(text, ':');
	if (colon && !strchr(colon + 1, ':')) {
		*colon = '\0';
		*port = colon + 1;
	}
	return true;
}

static int parse_addr(char *addr, bool bracketed, struct aru_member *member,
		      const char *text, char *error, size_t error_size)
{
	char *scope = strchr(addr, '%');

	if (scope)
		*scope++ = '\0';
	if (!bracketed && inet_pton(AF_INET, addr, member->addr) == 1)
		member->family = AF_INET;
	else if (inet_pton(AF_INET6, addr, member->addr) == 1)
		member->family = AF_INET6;
	else {
		aru_phrase(error, error_size,
			   "member \"%s\" is not an IPv4 or IPv6 address (ADDR, ADDR:PORT, [V6]:PORT)",
			   text);
		return -EINVAL;
	}
	if (!scope)
		return 0;
	if (!link_local(member)) {
		aru_phrase(error, error_size,
			   "member \"%s\": only link-local IPv6 addresses take an interface",
			   text);
		return -EINVAL;
	}
	member->scope = if_nametoindex(scope);
	if (!member->scope) {
		aru_phrase(error, error_size, "member \"%s\": no interface \"%s\"",
			   text, scope);
		return -EINVAL;
	}
	return 0;
}

ARU_API int aru_member_parse(const char *text, struct aru_member *member,
			     char *error, size_t error_size)
{
	char copy[ARU_MEMBER_TEXT_SIZE], *addr, *port;

	aru_phrase(error, error_size, "%s", "");
	memset(member, 0, sizeof(*member));
	if (strlen(text) >= sizeof(copy)) {
		aru_phrase(error, error_size, "member \"%.40s...\" is too long", text);
		return -EINVAL;
	}
	strcpy(copy, text);
	if (!cut_port(copy, &addr, &port)) {
		aru_phrase(error, error_size,
			   "member \"%s\": an IPv6 address with a port is written [V6]:PORT",
			   text);
		return -EINVAL;
	}
	member->port = ALLREDUCE_PORT_DEFAULT;
	if (port && !parse_port(port, &member->port)) {
		aru_phrase(error, error_size,
			   "member \"%s\": port \"%s\" is not a number from 1 to 65535",
			   text, port);
		return -EINVAL;
	}
	return parse_addr(addr, copy[0] == '[', member, text, error, error_size);
}

ARU_API int aru_members_parse(const char *text, struct aru_member *members,
			      unsigned int max, char *error, size_t error_size)
{
	char one[ARU_MEMBER_TEXT_SIZE];
	unsigned int n = 0;
	size_t len;

	aru_phrase(error, error_size, "%s", "");
	for (;; text += len + 1) {
		len = strcspn(text, ",");
		if (n == max) {
			aru_phrase(error, error_size, "more than %u members", max);
			return -EINVAL;
		}
		if (len >= sizeof(one)) {
			aru_phrase(error, error_size, "member \"%.40s...\" is too long",
				   text);
			return -EINVAL;
		}
		memcpy(one, text, len);
		one[len] = '\0';
		if (aru_member_parse(one, &members[n], error, error_size))
			return -EINVAL;
		n++;
		if (!text[len])
			return n;
	}
}

static bool same_endpoint(const struct aru_member *a, const struct aru_member *b)
{
	return a->port == b->port && a->scope == b->scope &&
	       !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static const char *why_unusable(const struct aru_member *member)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t zero[16];
	bool v4 = member->family == AF_INET;

	if (!v4 && member->family != AF_INET6)
		return "has an unknown address family";
	if (!member->port)
		return "has port 0";
	if (!memcmp(member->addr, zero, v4 ? 4 : 16))
		return "is the unspecified address";
	if (v4 ? member->addr[0] >= 224 : member->addr[0] == 0xff)
		return "is not a unicast address";
	if (!v4 && !memcmp(member->addr, mapped, sizeof(mapped)))
		return "is an IPv4 address in IPv6 disguise: write it as IPv4";
	if (link_local(member) && !member->scope)
		return "is link-local and needs an interface (ADDR%INTERFACE)";
	return NULL;
}

ARU_API int aru_members_check(const struct aru_member *members, unsigned int n,
			      char *error, size_t error_size)
{
	char text[ARU_MEMBER_TEXT_SIZE] = "?";
	unsigned int i, j;
	const char *why;

	aru_phrase(error, error_size, "%s", "");
	if (n < ALLREDUCE_SIZE_MIN || n > ALLREDUCE_SIZE_MAX) {
		aru_phrase(error, error_size, "%u members: a ring has %u to %u", n,
			   ALLREDUCE_SIZE_MIN, ALLREDUCE_SIZE_MAX);
		return -EINVAL;
	}
	for (i = 0; i < n; i++) {
		aru_member_format(&members[i], text, sizeof(text));
		why = why_unusable(&members[i]);
		if (!why && members[i].family != members[0].family)
			why = "is of another address family than the first";
		if (why) {
			aru_phrase(error, error_size, "member %u (%s) %s", i, text, why);
			return -EINVAL;
		}
		for (j = 0; j < i; j++) {
			if (!same_endpoint(&members[i], &members[j]))
				continue;
			aru_phrase(error, error_size,
				   "members %u and %u are both %s: members on one host need different ports",
				   j, i, text);
			return -EINVAL;
		}
	}
	return 0;
}

ARU_API int aru_member_format(const struct aru_member *member, char *text,
			      size_t size)
{
	char addr[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";
	char name[IF_NAMESIZE];
	bool v6 = member->family == AF_INET6;
	int len;

	if (!v6 && member->family != AF_INET)
		return -EINVAL;
	inet_ntop(member->family, member->addr, addr, sizeof(addr));
	if (member->scope) {
		/* An interface that is gone is still told by its index. */
		if (!if_indextoname(member->scope, name))
			snprintf(name, sizeof(name), "%u", member->scope);
		snprintf(scope, sizeof(scope), "%%%s", name);
	}
	len = snprintf(text, size, v6 ? "[%s%s]:%u" : "%s%s:%u", addr, scope,
		       member->port);
	return len < 0 || (size_t)len >= size ? -ENOSPC : 0;
}

struct fnv128 {
	unsigned __int128 digest;
};

static void fnv128_init(struct fnv128 *fnv)
{
	fnv->digest = (unsigned __int128)0x6c62272e07bb0142ULL << 64 |
		      0x62b821756295c58dULL;
}

static void fnv128_add(struct fnv128 *fnv, const void *data, size_t len)
{
	const unsigned __int128 prime = (unsigned __int128)1 << 88 | 0x13b;
	const uint8_t *p = data;

	while (len--)
		fnv->digest = (fnv->digest ^ *p++) * prime;
}

ARU_API void aru_ring_id(const char *name, const struct aru_member *members,
			 unsigned int n, uint8_t id[ALLREDUCE_ID_SIZE])
{
	struct fnv128 fnv;
	uint8_t family;
	uint16_t port;
	unsigned int i;

	fnv128_init(&fnv);
	fnv128_add(&fnv, name, strlen(name) + 1);
	for (i = 0; i < n; i++) {
		family = members[i].family == AF_INET6 ? 6 : 4;
		port = htons(members[i].port);
		fnv128_add(&fnv, &family, 1);
		fnv128_add(&fnv, members[i].addr, family == 6 ? 16 : 4);
		fnv128_add(&fnv, &port, 2);
	}
	/* All zero is not an id. */
	if (!fnv.digest)
		fnv.digest = 1;
	for (i = 0; i < ALLREDUCE_ID_SIZE; i++)
		id[i] = fnv.digest >> 8 * (ALLREDUCE_ID_SIZE - 1 - i);
}
