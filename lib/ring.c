// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Rings: create, delete, connect, look at.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The text of a failure that the kernel did not put into words. */
static int finish(struct aru_nl *nl, int ret)
{
	if (!ret) {
		aru_nl_clear(nl);
		return 0;
	}
	return aru_nl_fail(nl, ret, "%s", aru_strerror(ret));
}

static int bad_name(struct aru_nl *nl, const char *name)
{
	return aru_nl_fail(nl, -EINVAL,
			   "name \"%.40s\": a ring's name has 1 to %d characters, no '/', no white space",
			   name, ALLREDUCE_NAME_SIZE - 1);
}

static int put_member(struct nl_msg *msg, const struct aru_member *member)
{
	struct nlattr *nest = nla_nest_start(msg, NLA_F_NESTED | ALLREDUCE_A_MEMBER);

	if (!nest ||
	    nla_put(msg, ALLREDUCE_M_ADDR, member->family == AF_INET6 ? 16 : 4,
		    member->addr) ||
	    nla_put_u16(msg, ALLREDUCE_M_PORT, member->port) ||
	    (member->scope && nla_put_u32(msg, ALLREDUCE_M_SCOPE, member->scope)))
		return -ENOMEM;
	return nla_nest_end(msg, nest) ? -ENOMEM : 0;
}

static int put_members(struct nl_msg *msg, const struct aru_ring_config *config)
{
	struct nlattr *nest = nla_nest_start(msg, NLA_F_NESTED | ALLREDUCE_A_MEMBERS);
	unsigned int i;

	if (!nest)
		return -ENOMEM;
	for (i = 0; i < config->n_members; i++)
		if (put_member(msg, &config->members[i]))
			return -ENOMEM;
	return nla_nest_end(msg, nest) ? -ENOMEM : 0;
}

int aru_ring_add_fill(struct nl_msg *msg, const struct aru_ring_config *config)
{
	uint8_t id[ALLREDUCE_ID_SIZE];

	if (config->has_id)
		memcpy(id, config->id, sizeof(id));
	else
		aru_ring_id(config->name, config->members, config->n_members, id);
	if (nla_put_string(msg, ALLREDUCE_A_NAME, config->name) ||
	    nla_put(msg, ALLREDUCE_A_ID, sizeof(id), id) ||
	    nla_put_u32(msg, ALLREDUCE_A_RANK, config->rank) ||
	    (config->lanes && nla_put_u32(msg, ALLREDUCE_A_LANES, config->lanes)) ||
	    (config->frame_max &&
	     nla_put_u32(msg, ALLREDUCE_A_FRAME_MAX, config->frame_max)) ||
	    (config->timeout_ms &&
	     nla_put_u32(msg, ALLREDUCE_A_TIMEOUT_MS, config->timeout_ms)) ||
	    (config->has_gather_max &&
	     nla_put_u32(msg, ALLREDUCE_A_GATHER_MAX, config->gather_max)))
		return -ENOMEM;
	return put_members(msg, config);
}

ARU_API int aru_ring_add(struct aru_nl *nl, const struct aru_ring_config *user)
{
	struct aru_ring_config config;
	char error[ARU_ERROR_TEXT_SIZE];
	struct nl_msg *msg;
	int ret;

	aru_nl_clear(nl);
	ret = aru_opts_copy(&config, sizeof(config), user);
	if (ret)
		return finish(nl, ret);
	if (!config.name || !aru_name_valid(config.name))
		return bad_name(nl, config.name ? config.name : "");
	if (aru_members_check(config.members, config.n_members, error, sizeof(error)))
		return aru_nl_fail(nl, -EINVAL, "%s", error);
	/* What is a number is for the kernel to judge, in one place. */
	ret = aru_nl_begin(nl, ALLREDUCE_CMD_RING_ADD, 0, &msg);
	if (ret)
		return finish(nl, ret);
	ret = aru_ring_add_fill(msg, &config);
	if (ret) {
		nlmsg_free(msg);
		return finish(nl, ret);
	}
	return finish(nl, aru_nl_request(nl, msg, NULL, NULL));
}

/* A request that is a command, a name, and at most one number. */
static int simple_request(struct aru_nl *nl, uint8_t cmd, const char *name,
			  int number_attr, uint32_t number, aru_nl_fn fn, void *arg)
{
	struct nl_msg *msg;
	int ret;

	if (!aru_name_valid(name))
		return bad_name(nl, name);
	ret = aru_nl_begin(nl, cmd, 0, &msg);
	if (ret)
		return ret;
	if (nla_put_string(msg, ALLREDUCE_A_NAME, name) ||
	    (number && nla_put_u32(msg, number_attr, number))) {
		nlmsg_free(msg);
		return -ENOMEM;
	}
	return aru_nl_request(nl, msg, fn, arg);
}

ARU_API int aru_ring_del(struct aru_nl *nl, const char *name)
{
	aru_nl_clear(nl);
	return finish(nl, simple_request(nl, ALLREDUCE_CMD_RING_DEL, name, 0, 0,
					 NULL, NULL));
}

/* ---- what the kernel tells ----------------------------------------------- */

static void parse_text(struct nlattr *attr, char *text, size_t size)
{
	if (attr)
		nla_strlcpy(text, attr, size);
}

static void parse_u32(struct nlattr *attr, uint32_t *value)
{
	if (attr && nla_len(attr) >= 4)
		*value = nla_get_u32(attr);
}

static bool parse_flag(struct nlattr *attr)
{
	return attr && nla_len(attr) >= 1 && nla_get_u8(attr);
}

static void parse_stats(struct nlattr *nest, uint64_t stats[ARU_STAT_SLOTS])
{
	struct nlattr *attr;
	int rem;

	nla_for_each_nested(attr, nest, rem)
		if (nla_type(attr) < ARU_STAT_SLOTS && nla_len(attr) == 8)
			stats[nla_type(attr)] = nla_get_u64(attr);
}

static int parse_member(struct nlattr *nest, struct aru_member *member)
{
	struct nlattr *attr;
	int rem;

	nla_for_each_nested(attr, nest, rem) {
		switch (nla_type(attr)) {
		case ALLREDUCE_M_ADDR:
			if (nla_len(attr) != 4 && nla_len(attr) != 16)
				return -EBADMSG;
			member->family = nla_len(attr) == 16 ? AF_INET6 : AF_INET;
			memcpy(member->addr, nla_data(attr), nla_len(attr));
			break;
		case ALLREDUCE_M_PORT:
			if (nla_len(attr) < 2)
				return -EBADMSG;
			member->port = nla_get_u16(attr);
			break;
		case ALLREDUCE_M_SCOPE:
			parse_u32(attr, &member->scope);
			break;
		}
	}
	return member->family ? 0 : -EBADMSG;
}

static int parse_members(struct nlattr *nest, struct aru_ring *ring)
{
	struct nlattr *attr;
	int rem, ret;

	ring->members = calloc(ALLREDUCE_SIZE_MAX, sizeof(*ring->members));
	if (!ring->members)
		return -ENOMEM;
	nla_for_each_nested(attr, nest, rem) {
		if (nla_type(attr) != ALLREDUCE_A_MEMBER)
			continue;
		if (ring->n_members == ALLREDUCE_SIZE_MAX)
			return -EBADMSG;
		ret = parse_member(attr, &ring->members[ring->n_members]);
		if (ret)
			return ret;
		ring->n_members++;
	}
	return 0;
}

static void parse_lane(struct nlattr *nest, struct aru_lane *lane)
{
	struct nlattr *attr;
	int rem;

	nla_for_each_nested(attr, nest, rem) {
		switch (nla_type(attr)) {
		case ALLREDUCE_L_INDEX:
			parse_u32(attr, &lane->index);
			break;
		case ALLREDUCE_L_NEXT_UP:
			lane->next_up = parse_flag(attr);
			break;
		case ALLREDUCE_L_PREV_UP:
			lane->prev_up = parse_flag(attr);
			break;
		case ALLREDUCE_L_STATS:
			parse_stats(attr, lane->stats);
			break;
		}
	}
}

/* LANE occurs once for each lane, so a table of attributes would lose all but one. */
static int parse_lanes(struct nlmsghdr *nlh, struct aru_ring *ring)
{
	struct genlmsghdr *genl = nlmsg_data(nlh);
	struct nlattr *attr;
	unsigned int n = 0;
	int rem;

	ring->lanes = calloc(ALLREDUCE_LANES_MAX, sizeof(*ring->lanes));
	if (!ring->lanes)
		return -ENOMEM;
	nla_for_each_attr(attr, genlmsg_attrdata(genl, 0), genlmsg_attrlen(genl, 0),
			  rem) {
		if (nla_type(attr) != ALLREDUCE_A_LANE)
			continue;
		if (n == ALLREDUCE_LANES_MAX)
			return -EBADMSG;
		parse_lane(attr, &ring->lanes[n++]);
	}
	if (n)
		ring->n_lanes = n;
	return 0;
}

static void parse_scalars(struct nlattr **tb, struct aru_ring *ring)
{
	uint32_t error = 0;

	parse_text(tb[ALLREDUCE_A_NAME], ring->name, sizeof(ring->name));
	parse_text(tb[ALLREDUCE_A_REASON], ring->reason, sizeof(ring->reason));
	parse_text(tb[ALLREDUCE_A_ISA], ring->isa, sizeof(ring->isa));
	if (tb[ALLREDUCE_A_ID] && nla_len(tb[ALLREDUCE_A_ID]) == ALLREDUCE_ID_SIZE)
		memcpy(ring->id, nla_data(tb[ALLREDUCE_A_ID]), ALLREDUCE_ID_SIZE);
	parse_u32(tb[ALLREDUCE_A_RANK], &ring->rank);
	parse_u32(tb[ALLREDUCE_A_SIZE], &ring->size);
	parse_u32(tb[ALLREDUCE_A_LANES], &ring->n_lanes);
	parse_u32(tb[ALLREDUCE_A_FRAME_MAX], &ring->frame_max);
	parse_u32(tb[ALLREDUCE_A_TIMEOUT_MS], &ring->timeout_ms);
	parse_u32(tb[ALLREDUCE_A_GATHER_MAX], &ring->gather_max);
	parse_u32(tb[ALLREDUCE_A_STATE], &ring->state);
	parse_u32(tb[ALLREDUCE_A_ERROR], &error);
	ring->error = (int32_t)error;
	ring->attached = parse_flag(tb[ALLREDUCE_A_ATTACHED]);
	parse_u32(tb[ALLREDUCE_A_JOBS_IN_FLIGHT], &ring->jobs_in_flight);
	if (tb[ALLREDUCE_A_JOBS_SUBMITTED] &&
	    nla_len(tb[ALLREDUCE_A_JOBS_SUBMITTED]) == 8)
		ring->jobs_submitted = nla_get_u64(tb[ALLREDUCE_A_JOBS_SUBMITTED]);
}

int aru_ring_parse(struct nlmsghdr *nlh, struct aru_ring **out)
{
	struct nlattr *tb[ALLREDUCE_A_MAX + 1];
	struct aru_ring *ring;
	int ret = -EBADMSG;

	*out = NULL;
	if (genlmsg_parse(nlh, 0, tb, ALLREDUCE_A_MAX, NULL) || !tb[ALLREDUCE_A_NAME])
		return -EBADMSG;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->sz = sizeof(*ring);
	parse_scalars(tb, ring);
	ret = parse_lanes(nlh, ring);
	if (!ret && tb[ALLREDUCE_A_MEMBERS])
		ret = parse_members(tb[ALLREDUCE_A_MEMBERS], ring);
	if (!ret && ring->n_lanes > ALLREDUCE_LANES_MAX)
		ret = -EBADMSG;
	if (ret) {
		aru_ring_free(ring);
		return ret;
	}
	if (tb[ALLREDUCE_A_STATS])
		parse_stats(tb[ALLREDUCE_A_STATS], ring->stats);
	*out = ring;
	return 0;
}

ARU_API void aru_ring_free(struct aru_ring *ring)
{
	if (!ring)
		return;
	free(ring->members);
	free(ring->lanes);
	free(ring);
}

/* ---- get and list -------------------------------------------------------- */

static int take_ring(struct nlmsghdr *nlh, void *arg)
{
	struct aru_ring **ring = arg;

	return *ring ? -EBADMSG : aru_ring_parse(nlh, ring);
}

static int ring_get(struct aru_nl *nl, const char *name, struct aru_ring **ring)
{
	int ret;

	*ring = NULL;
	ret = simple_request(nl, ALLREDUCE_CMD_RING_GET, name, 0, 0, take_ring, ring);
	if (!ret && !*ring)
		ret = -EBADMSG;
	if (ret) {
		aru_ring_free(*ring);
		*ring = NULL;
	}
	return ret;
}

ARU_API int aru_ring_get(struct aru_nl *nl, const char *name, struct aru_ring **ring)
{
	aru_nl_clear(nl);
	return finish(nl, ring_get(nl, name, ring));
}

struct ring_array {
	struct aru_ring **rings;
	size_t n;
};

static int append_ring(struct nlmsghdr *nlh, void *arg)
{
	struct ring_array *array = arg;
	struct aru_ring **grown;
	int ret;

	grown = reallocarray(array->rings, array->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	array->rings = grown;
	ret = aru_ring_parse(nlh, &array->rings[array->n]);
	if (!ret)
		array->n++;
	return ret;
}

static void free_array(struct ring_array *array)
{
	while (array->n)
		aru_ring_free(array->rings[--array->n]);
	free(array->rings);
	array->rings = NULL;
}

static int list_once(struct aru_nl *nl, struct ring_array *array)
{
	struct nl_msg *msg;
	int ret;

	ret = aru_nl_begin(nl, ALLREDUCE_CMD_RING_GET, NLM_F_DUMP, &msg);
	return ret ? ret : aru_nl_request(nl, msg, append_ring, array);
}

#define LIST_TRIES	10

ARU_API int aru_ring_list(struct aru_nl *nl, aru_ring_fn fn, void *arg)
{
	struct ring_array array = { 0 };
	int ret = -EAGAIN, tries;
	size_t i;

	aru_nl_clear(nl);
	/* -EAGAIN: rings came or went during the dump, which may have missed some. */
	for (tries = 0; ret == -EAGAIN && tries < LIST_TRIES; tries++) {
		free_array(&array);
		ret = list_once(nl, &array);
	}
	if (ret) {
		free_array(&array);
		return finish(nl, ret);
	}
	for (i = 0; i < array.n && !ret; i++)
		ret = fn(array.rings[i], arg);
	free_array(&array);
	return ret;
}

/* ---- up ------------------------------------------------------------------ */

/* How much longer than the kernel's own time the library waits for its event. */
#define UP_MARGIN_MS	5000

/* Events can be lost, so the state is looked at from time to time as well. */
#define UP_LOOK_MS	1000

/**
 * struct up_wait - waiting for a ring to come up
 * @name: the ring
 * @state: as of the last event, 0 if there was none
 */
struct up_wait {
	const char *name;
	uint32_t state;
};

static int see_event(struct nlmsghdr *nlh, void *arg)
{
	struct nlattr *tb[ALLREDUCE_A_MAX + 1];
	struct up_wait *wait = arg;

	if (genlmsg_parse(nlh, 0, tb, ALLREDUCE_A_MAX, NULL) || !tb[ALLREDUCE_A_NAME] ||
	    nla_strcmp(tb[ALLREDUCE_A_NAME], wait->name))
		return 0;
	parse_u32(tb[ALLREDUCE_A_STATE], &wait->state);
	return 0;
}

/* The ring's state as a result: -EINPROGRESS while it is connecting. */
static int judge(struct aru_nl *nl, const struct aru_ring *ring)
{
	int error = ring->error;

	switch (ring->state) {
	case ALLREDUCE_RING_UP:
		return 0;
	case ALLREDUCE_RING_CONNECTING:
		return -EINPROGRESS;
	case ALLREDUCE_RING_BROKEN:
		error = error ? error : -EPIPE;
		return aru_nl_fail(nl, error, "the ring broke: %s",
				   ring->reason[0] ? ring->reason : aru_strerror(error));
	}
	error = error ? error : -ETIMEDOUT;
	return aru_nl_fail(nl, error, "it could not be connected: %s",
			   ring->reason[0] ? ring->reason : "a neighbour was not there");
}

static int look(struct aru_nl *nl, const char *name)
{
	struct aru_ring *ring;
	int ret;

	aru_nl_clear(nl);
	ret = ring_get(nl, name, &ring);
	if (ret)
		return ret;
	ret = judge(nl, ring);
	aru_ring_free(ring);
	return ret;
}

static int wait_up(struct aru_nl *nl, struct aru_nl_events *events,
		   const char *name, uint64_t timeout_ms)
{
	uint64_t deadline = aru_now_ms() + timeout_ms, now;
	struct up_wait wait = { .name = name };
	int ret;

	for (;;) {
		ret = aru_nl_events_read(events, UP_LOOK_MS, see_event, &wait);
		if (ret && ret != -ETIME && ret != -ENOBUFS)
			return ret;
		now = aru_now_ms();
		/* The event says when to look; what counts is the state now. */
		if (ret || wait.state != ALLREDUCE_RING_CONNECTING || now > deadline) {
			ret = look(nl, name);
			if (ret != -EINPROGRESS)
				return ret;
		}
		if (now > deadline)
			return aru_nl_fail(nl, -ETIMEDOUT,
					   "it is still connecting after %llu ms",
					   (unsigned long long)timeout_ms);
	}
}

ARU_API int aru_ring_up(struct aru_nl *nl, const char *name,
			const struct aru_ring_up_opts *user)
{
	struct aru_nl_events *events = NULL;
	struct aru_ring_up_opts opts;
	uint64_t timeout;
	int ret;

	aru_nl_clear(nl);
	ret = aru_opts_copy(&opts, sizeof(opts), user);
	if (ret)
		return finish(nl, ret);
	/* ORDER: subscribe first, or the event can pass between the two. */
	if (!opts.nowait)
		ret = aru_nl_events_open(nl, &events);
	if (!ret)
		ret = simple_request(nl, ALLREDUCE_CMD_RING_UP, name,
				     ALLREDUCE_A_CONNECT_TIMEOUT_MS,
				     opts.connect_timeout_ms, NULL, NULL);
	if (!ret && !opts.nowait) {
		timeout = opts.connect_timeout_ms ? opts.connect_timeout_ms :
						    ALLREDUCE_CONNECT_TIMEOUT_MS_DEFAULT;
		ret = wait_up(nl, events, name, timeout + UP_MARGIN_MS);
	}
	aru_nl_events_close(events);
	return finish(nl, ret);
}
