// SPDX-License-Identifier: GPL-2.0
/*
 * The generic netlink family "allreduce": requests are checked here field by
 * field, then handed to ring.c; answers, dumps and events are one message.
 */
#include <linux/stringify.h>
#include <net/genetlink.h>
#include <net/ipv6.h>
#include <net/sock.h>

#include "allreduce.h"

/* Room for the largest ring: 64 members, 16 lanes with counters. */
#define AR_MSG_BYTES	16384

static struct genl_family ar_genl_family;
static bool ar_genl_registered;

/* ---- policies ------------------------------------------------------------ */

static const struct nla_policy ar_member_policy[ALLREDUCE_M_MAX + 1] = {
	[ALLREDUCE_M_ADDR] = { .type = NLA_BINARY },
	[ALLREDUCE_M_PORT] = { .type = NLA_U16 },
	[ALLREDUCE_M_SCOPE] = { .type = NLA_U32 },
};

#define AR_ANSWERS_ONLY \
	{ .type = NLA_REJECT, .reject_message = "attribute of answers, not of requests" }

/* Types only: ranges are checked here, where the text can name field and range. */
static const struct nla_policy ar_policy[ALLREDUCE_A_GATHER_MAX + 1] = {
	[ALLREDUCE_A_NAME] = { .type = NLA_NUL_STRING },
	[ALLREDUCE_A_ID] = { .type = NLA_BINARY },
	[ALLREDUCE_A_RANK] = { .type = NLA_U32 },
	[ALLREDUCE_A_LANES] = { .type = NLA_U32 },
	[ALLREDUCE_A_FRAME_MAX] = { .type = NLA_U32 },
	[ALLREDUCE_A_TIMEOUT_MS] = { .type = NLA_U32 },
	[ALLREDUCE_A_CONNECT_TIMEOUT_MS] = { .type = NLA_U32 },
	[ALLREDUCE_A_MEMBERS] = { .type = NLA_NESTED },
	[ALLREDUCE_A_GATHER_MAX] = { .type = NLA_U32 },
	[ALLREDUCE_A_SIZE] = AR_ANSWERS_ONLY,
	[ALLREDUCE_A_MEMBER ... ALLREDUCE_A_LANE] = AR_ANSWERS_ONLY,
};

/**
 * struct ar_u32_field - a number in a request
 * @attr: its attribute
 * @min: smallest allowed value
 * @max: largest
 * @otherwise: taken if the attribute is absent
 * @multiple: of which the value is a multiple
 * @text: names the field and the range
 */
struct ar_u32_field {
	int attr;
	u32 min;
	u32 max;
	u32 otherwise;
	u32 multiple;
	const char *text;
};

static const struct ar_u32_field ar_field_lanes = {
	ALLREDUCE_A_LANES, ALLREDUCE_LANES_MIN, ALLREDUCE_LANES_MAX,
	ALLREDUCE_LANES_DEFAULT, 1,
	"lanes: " __stringify(ALLREDUCE_LANES_MIN) " to "
	__stringify(ALLREDUCE_LANES_MAX)
};

static const struct ar_u32_field ar_field_frame_max = {
	ALLREDUCE_A_FRAME_MAX, ALLREDUCE_FRAME_MAX_MIN, ALLREDUCE_FRAME_MAX_MAX,
	ALLREDUCE_FRAME_MAX_DEFAULT, AR_GRAIN_BYTES,
	"frame-max: " __stringify(ALLREDUCE_FRAME_MAX_MIN) " to "
	__stringify(ALLREDUCE_FRAME_MAX_MAX) ", a multiple of "
	__stringify(AR_GRAIN_BYTES)
};

static const struct ar_u32_field ar_field_gather_max = {
	ALLREDUCE_A_GATHER_MAX, 0, ALLREDUCE_GATHER_MAX_MAX,
	ALLREDUCE_GATHER_MAX_DEFAULT, 1,
	"gather-max: 0 to " __stringify(ALLREDUCE_GATHER_MAX_MAX)
};

static const struct ar_u32_field ar_field_timeout = {
	ALLREDUCE_A_TIMEOUT_MS, ALLREDUCE_TIMEOUT_MS_MIN, ALLREDUCE_TIMEOUT_MS_MAX,
	ALLREDUCE_TIMEOUT_MS_DEFAULT, 1,
	"timeout: " __stringify(ALLREDUCE_TIMEOUT_MS_MIN) " to "
	__stringify(ALLREDUCE_TIMEOUT_MS_MAX) " ms"
};

static const struct ar_u32_field ar_field_connect_timeout = {
	ALLREDUCE_A_CONNECT_TIMEOUT_MS, ALLREDUCE_TIMEOUT_MS_MIN,
	ALLREDUCE_TIMEOUT_MS_MAX, ALLREDUCE_CONNECT_TIMEOUT_MS_DEFAULT, 1,
	"connect timeout: " __stringify(ALLREDUCE_TIMEOUT_MS_MIN) " to "
	__stringify(ALLREDUCE_TIMEOUT_MS_MAX) " ms"
};

/* ---- answers ------------------------------------------------------------- */

static int ar_put_member(struct sk_buff *skb, const union ar_addr *addr)
{
	struct nlattr *nest = nla_nest_start(skb, ALLREDUCE_A_MEMBER);

	if (!nest)
		return -EMSGSIZE;
	if (addr->sa.sa_family == AF_INET) {
		if (nla_put(skb, ALLREDUCE_M_ADDR, 4, &addr->in.sin_addr) ||
		    nla_put_u16(skb, ALLREDUCE_M_PORT, ntohs(addr->in.sin_port)))
			return -EMSGSIZE;
	} else {
		if (nla_put(skb, ALLREDUCE_M_ADDR, 16, &addr->in6.sin6_addr) ||
		    nla_put_u16(skb, ALLREDUCE_M_PORT, ntohs(addr->in6.sin6_port)) ||
		    nla_put_u32(skb, ALLREDUCE_M_SCOPE, addr->in6.sin6_scope_id))
			return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

static int ar_put_members(struct sk_buff *skb, const struct ar_ring_config *config)
{
	struct nlattr *nest = nla_nest_start(skb, ALLREDUCE_A_MEMBERS);
	u32 i;

	if (!nest)
		return -EMSGSIZE;
	for (i = 0; i < config->size; i++)
		if (ar_put_member(skb, &config->members[i]))
			return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int ar_put_lane(struct sk_buff *skb, struct ar_lane *lane)
{
	struct nlattr *nest = nla_nest_start(skb, ALLREDUCE_A_LANE);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, ALLREDUCE_L_INDEX, lane->index) ||
	    nla_put_u8(skb, ALLREDUCE_L_NEXT_UP,
		       READ_ONCE(lane->next.state) == AR_LINK_UP) ||
	    nla_put_u8(skb, ALLREDUCE_L_PREV_UP,
		       READ_ONCE(lane->prev.state) == AR_LINK_UP) ||
	    ar_stats_put(skb, ALLREDUCE_L_STATS, &lane->stats))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

static int ar_put_config(struct sk_buff *skb, const struct ar_ring_config *config)
{
	if (nla_put_string(skb, ALLREDUCE_A_NAME, config->name) ||
	    nla_put(skb, ALLREDUCE_A_ID, sizeof(config->id), config->id) ||
	    nla_put_u32(skb, ALLREDUCE_A_RANK, config->rank) ||
	    nla_put_u32(skb, ALLREDUCE_A_SIZE, config->size) ||
	    nla_put_u32(skb, ALLREDUCE_A_LANES, config->lanes) ||
	    nla_put_u32(skb, ALLREDUCE_A_FRAME_MAX, config->frame_max) ||
	    nla_put_u32(skb, ALLREDUCE_A_GATHER_MAX, config->gather_max) ||
	    nla_put_u32(skb, ALLREDUCE_A_TIMEOUT_MS, config->timeout_ms) ||
	    nla_put_string(skb, ALLREDUCE_A_ISA, ar_reduce_isa_name()))
		return -EMSGSIZE;
	return ar_put_members(skb, config);
}

static int ar_put_state(struct sk_buff *skb, struct ar_ring *ring)
{
	u32 in_flight;
	struct allreduce_info info;
	bool attached;

	ar_ring_info(ring, &info);
	spin_lock(&ring->lock);
	in_flight = ring->jobs_in_flight;
	attached = ring->attached;
	spin_unlock(&ring->lock);
	if (nla_put_u32(skb, ALLREDUCE_A_STATE, info.state) ||
	    nla_put_s32(skb, ALLREDUCE_A_ERROR, info.error) ||
	    nla_put_u8(skb, ALLREDUCE_A_ATTACHED, attached) ||
	    nla_put_u32(skb, ALLREDUCE_A_JOBS_IN_FLIGHT, in_flight) ||
	    nla_put_u64_64bit(skb, ALLREDUCE_A_JOBS_SUBMITTED,
			      info.jobs_submitted, ALLREDUCE_A_PAD))
		return -EMSGSIZE;
	if (info.reason[0] && nla_put_string(skb, ALLREDUCE_A_REASON, info.reason))
		return -EMSGSIZE;
	return 0;
}

/* The one message that tells all about a ring; @cb if it is part of a dump. */
static int ar_put_ring(struct sk_buff *skb, struct ar_ring *ring, u32 portid,
		       u32 seq, int flags, u8 cmd, struct netlink_callback *cb)
{
	struct ar_stats stats;
	void *hdr;
	u32 i;

	hdr = genlmsg_put(skb, portid, seq, &ar_genl_family, flags, cmd);
	if (!hdr)
		return -EMSGSIZE;
	if (cb)
		genl_dump_check_consistent(cb, hdr);
	ar_stats_sum(ring, &stats);
	if (ar_put_config(skb, &ring->config) || ar_put_state(skb, ring) ||
	    ar_stats_put(skb, ALLREDUCE_A_STATS, &stats))
		goto err;
	for (i = 0; i < ring->config.lanes; i++)
		if (ar_put_lane(skb, &ring->lanes[i]))
			goto err;
	genlmsg_end(skb, hdr);
	return 0;
err:
	genlmsg_cancel(skb, hdr);
	return -EMSGSIZE;
}

/**
 * ar_netlink_event - tell listeners that a ring's state has changed
 * @ring: a ring that is on its namespace's list, or was until now
 */
void ar_netlink_event(struct ar_ring *ring)
{
	struct net *net = ring->an->net;
	struct sk_buff *skb;

	/* At unload the group is gone before the last rings. */
	if (!READ_ONCE(ar_genl_registered))
		return;
	if (!genl_has_listeners(&ar_genl_family, net, 0))
		return;
	skb = genlmsg_new(AR_MSG_BYTES, GFP_KERNEL);
	if (!skb)
		return;
	if (ar_put_ring(skb, ring, 0, 0, 0, ALLREDUCE_CMD_RING_EVENT, NULL)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_multicast_netns(&ar_genl_family, net, skb, 0, 0, GFP_KERNEL);
}

/* ---- requests ------------------------------------------------------------ */

/* Bytes above 127 are letters in some encoding, whatever the sign of char. */
static bool ar_name_char_ok(u8 c)
{
	return c > ' ' && c != '/' && c != 0x7f;
}

static int ar_get_name(struct genl_info *info, const char **name)
{
	const char *p;

	if (GENL_REQ_ATTR_CHECK(info, ALLREDUCE_A_NAME)) {
		NL_SET_ERR_MSG(info->extack, "name: missing");
		return -EINVAL;
	}
	*name = nla_data(info->attrs[ALLREDUCE_A_NAME]);
	for (p = *name; ar_name_char_ok(*p); p++)
		;
	if (*p || p == *name || p - *name >= ALLREDUCE_NAME_SIZE) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[ALLREDUCE_A_NAME],
				    "name: 1 to 31 characters, no '/', no white space");
		return -EINVAL;
	}
	return 0;
}

static int ar_get_member(const struct nlattr *attr, union ar_addr *addr,
			 struct netlink_ext_ack *extack)
{
	struct nlattr *tb[ALLREDUCE_M_MAX + 1];
	u16 port = ALLREDUCE_PORT_DEFAULT;
	int ret;

	if (nla_type(attr) != ALLREDUCE_A_MEMBER) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "members: only member attributes go here");
		return -EINVAL;
	}
	ret = nla_parse_nested(tb, ALLREDUCE_M_MAX, attr, ar_member_policy, extack);
	if (ret)
		return ret;
	if (!tb[ALLREDUCE_M_ADDR]) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "member: address missing");
		return -EINVAL;
	}
	if (tb[ALLREDUCE_M_PORT])
		port = nla_get_u16(tb[ALLREDUCE_M_PORT]);
	if (!port) {
		NL_SET_ERR_MSG_ATTR(extack, tb[ALLREDUCE_M_PORT], "member: port: 1 to 65535");
		return -EINVAL;
	}
	memset(addr, 0, sizeof(*addr));
	switch (nla_len(tb[ALLREDUCE_M_ADDR])) {
	case sizeof(struct in_addr):
		addr->in.sin_family = AF_INET;
		addr->in.sin_addr.s_addr = nla_get_in_addr(tb[ALLREDUCE_M_ADDR]);
		addr->in.sin_port = htons(port);
		if (ipv4_is_zeronet(addr->in.sin_addr.s_addr) ||
		    ipv4_is_multicast(addr->in.sin_addr.s_addr) ||
		    ipv4_is_lbcast(addr->in.sin_addr.s_addr))
			break;
		return 0;
	case sizeof(struct in6_addr):
		addr->in6.sin6_family = AF_INET6;
		addr->in6.sin6_addr = nla_get_in6_addr(tb[ALLREDUCE_M_ADDR]);
		addr->in6.sin6_port = htons(port);
		if (tb[ALLREDUCE_M_SCOPE])
			addr->in6.sin6_scope_id = nla_get_u32(tb[ALLREDUCE_M_SCOPE]);
		if (ipv6_addr_any(&addr->in6.sin6_addr) ||
		    ipv6_addr_is_multicast(&addr->in6.sin6_addr) ||
		    ipv6_addr_v4mapped(&addr->in6.sin6_addr))
			break;
		return 0;
	default:
		NL_SET_ERR_MSG_ATTR(extack, tb[ALLREDUCE_M_ADDR],
				    "member: an address has 4 or 16 bytes");
		return -EINVAL;
	}
	NL_SET_ERR_MSG_ATTR(extack, tb[ALLREDUCE_M_ADDR],
			    "member: not a unicast address of a host");
	return -EINVAL;
}

static int ar_check_new_member(const struct ar_ring_config *config,
			       const struct nlattr *attr,
			       struct netlink_ext_ack *extack)
{
	const union ar_addr *addr = &config->members[config->size];
	u32 i;

	if (addr->sa.sa_family != config->members[0].sa.sa_family) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "member: all members of a ring are IPv4, or all are IPv6");
		return -EINVAL;
	}
	for (i = 0; i < config->size; i++) {
		if (ar_addr_equal(&config->members[i], addr, true)) {
			NL_SET_ERR_MSG_ATTR(extack, attr,
					    "member: two members have the same address and port");
			return -EINVAL;
		}
	}
	return 0;
}

static int ar_get_members(struct genl_info *info, struct ar_ring_config *config)
{
	const struct nlattr *members = info->attrs[ALLREDUCE_A_MEMBERS];
	struct netlink_ext_ack *extack = info->extack;
	const struct nlattr *attr;
	int rem, ret;

	if (GENL_REQ_ATTR_CHECK(info, ALLREDUCE_A_MEMBERS)) {
		NL_SET_ERR_MSG(extack, "members: missing");
		return -EINVAL;
	}
	config->members = kcalloc(ALLREDUCE_SIZE_MAX, sizeof(*config->members),
				  GFP_KERNEL_ACCOUNT);
	if (!config->members)
		return -ENOMEM;
	nla_for_each_nested(attr, members, rem) {
		if (config->size == ALLREDUCE_SIZE_MAX) {
			NL_SET_ERR_MSG_ATTR(extack, attr, "members: 1 to 64");
			return -EINVAL;
		}
		ret = ar_get_member(attr, &config->members[config->size], extack) ?:
		      ar_check_new_member(config, attr, extack);
		if (ret)
			return ret;
		config->size++;
	}
	if (!config->size) {
		NL_SET_ERR_MSG_ATTR(extack, members, "members: 1 to 64");
		return -EINVAL;
	}
	return 0;
}

static int ar_get_u32(struct genl_info *info, const struct ar_u32_field *field,
		      u32 *value)
{
	const struct nlattr *attr = info->attrs[field->attr];

	*value = attr ? nla_get_u32(attr) : field->otherwise;
	if (*value >= field->min && *value <= field->max &&
	    *value % field->multiple == 0)
		return 0;
	NL_SET_BAD_ATTR(info->extack, attr);
	info->extack->_msg = field->text;
	return -EINVAL;
}

static int ar_get_rank(struct genl_info *info, struct ar_ring_config *config)
{
	if (GENL_REQ_ATTR_CHECK(info, ALLREDUCE_A_RANK)) {
		NL_SET_ERR_MSG(info->extack, "rank: missing");
		return -EINVAL;
	}
	config->rank = nla_get_u32(info->attrs[ALLREDUCE_A_RANK]);
	if (config->rank >= config->size) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[ALLREDUCE_A_RANK],
				    "rank: 0 to the number of members - 1");
		return -EINVAL;
	}
	return 0;
}

static int ar_get_id(struct genl_info *info, struct ar_ring_config *config)
{
	if (GENL_REQ_ATTR_CHECK(info, ALLREDUCE_A_ID)) {
		NL_SET_ERR_MSG(info->extack, "id: missing");
		return -EINVAL;
	}
	if (nla_len(info->attrs[ALLREDUCE_A_ID]) == sizeof(config->id))
		nla_memcpy(config->id, info->attrs[ALLREDUCE_A_ID], sizeof(config->id));
	if (!memchr_inv(config->id, 0, sizeof(config->id))) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[ALLREDUCE_A_ID],
				    "id: 16 bytes, not all zero");
		return -EINVAL;
	}
	return 0;
}

static int ar_get_options(struct genl_info *info, struct ar_ring_config *config)
{
	return ar_get_u32(info, &ar_field_lanes, &config->lanes) ?:
	       ar_get_u32(info, &ar_field_frame_max, &config->frame_max) ?:
	       ar_get_u32(info, &ar_field_gather_max, &config->gather_max) ?:
	       ar_get_u32(info, &ar_field_timeout, &config->timeout_ms);
}

static int ar_doit_add(struct sk_buff *skb, struct genl_info *info)
{
	struct ar_ring_config config = {};
	const char *name;
	int ret;

	ret = ar_get_name(info, &name);
	if (ret)
		return ret;
	strscpy(config.name, name, sizeof(config.name));
	ret = ar_get_members(info, &config) ?: ar_get_rank(info, &config) ?:
	      ar_get_id(info, &config) ?: ar_get_options(info, &config);
	if (!ret)
		ret = ar_ring_add(ar_net(genl_info_net(info)), &config, info->extack);
	if (ret)
		kfree(config.members);
	return ret;
}

static int ar_doit_del(struct sk_buff *skb, struct genl_info *info)
{
	const char *name;

	return ar_get_name(info, &name) ?:
	       ar_ring_del(ar_net(genl_info_net(info)), name, info->extack);
}

static int ar_doit_up(struct sk_buff *skb, struct genl_info *info)
{
	u32 connect_timeout_ms;
	const char *name;

	return ar_get_name(info, &name) ?:
	       ar_get_u32(info, &ar_field_connect_timeout, &connect_timeout_ms) ?:
	       ar_ring_up(ar_net(genl_info_net(info)), name, connect_timeout_ms,
			  info->extack);
}

static int ar_doit_get(struct sk_buff *skb, struct genl_info *info)
{
	struct ar_ring *ring;
	struct sk_buff *msg;
	const char *name;
	int ret;

	ret = ar_get_name(info, &name);
	if (ret)
		return ret;
	ring = ar_ring_get_by_name(ar_net(genl_info_net(info)), name);
	if (!ring) {
		NL_SET_ERR_MSG(info->extack, "no ring of this name");
		return -ENODEV;
	}
	ret = -ENOMEM;
	msg = genlmsg_new(AR_MSG_BYTES, GFP_KERNEL);
	if (!msg)
		goto out;
	ret = ar_put_ring(msg, ring, info->snd_portid, info->snd_seq, 0,
			  ALLREDUCE_CMD_RING_GET, NULL);
	if (ret)
		nlmsg_free(msg);
	else
		ret = genlmsg_reply(msg, info);
out:
	ar_ring_put(ring);
	return ret;
}

static int ar_dump_start(struct netlink_callback *cb)
{
	cb->min_dump_alloc = AR_MSG_BYTES;
	return 0;
}

static int ar_dumpit_get(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct ar_net *an = ar_net(sock_net(skb->sk));
	long skip = cb->args[0];
	struct ar_ring *ring;
	long i = 0;

	spin_lock(&an->rings_lock);
	/* A change between two parts makes the dump inconsistent: it says so. */
	cb->seq = an->generation;
	list_for_each_entry(ring, &an->rings, node) {
		if (i++ < skip)
			continue;
		if (ar_put_ring(skb, ring, NETLINK_CB(cb->skb).portid,
				cb->nlh->nlmsg_seq, NLM_F_MULTI,
				ALLREDUCE_CMD_RING_GET, cb))
			break;
		cb->args[0] = i;
	}
	spin_unlock(&an->rings_lock);
	return skb->len;
}

/* ---- the family ---------------------------------------------------------- */

static const struct genl_ops ar_genl_ops[] = {
	{
		.cmd = ALLREDUCE_CMD_RING_ADD,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ar_policy,
		.maxattr = ARRAY_SIZE(ar_policy) - 1,
		.doit = ar_doit_add,
	}, {
		.cmd = ALLREDUCE_CMD_RING_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ar_policy,
		.maxattr = ARRAY_SIZE(ar_policy) - 1,
		.doit = ar_doit_del,
	}, {
		.cmd = ALLREDUCE_CMD_RING_GET,
		.policy = ar_policy,
		.maxattr = ARRAY_SIZE(ar_policy) - 1,
		.doit = ar_doit_get,
		.start = ar_dump_start,
		.dumpit = ar_dumpit_get,
	}, {
		.cmd = ALLREDUCE_CMD_RING_UP,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = ar_policy,
		.maxattr = ARRAY_SIZE(ar_policy) - 1,
		.doit = ar_doit_up,
	},
};

static const struct genl_multicast_group ar_genl_groups[] = {
	{ .name = ALLREDUCE_GENL_EVENTS },
};

static struct genl_family ar_genl_family __ro_after_init = {
	.name = ALLREDUCE_GENL_NAME,
	.version = ALLREDUCE_GENL_VERSION,
	.module = THIS_MODULE,
	.netnsok = true,
	.parallel_ops = true,
	.maxattr = ARRAY_SIZE(ar_policy) - 1,
	.policy = ar_policy,
	.ops = ar_genl_ops,
	.n_ops = ARRAY_SIZE(ar_genl_ops),
	.resv_start_op = ALLREDUCE_CMD_MAX + 1,
	.mcgrps = ar_genl_groups,
	.n_mcgrps = ARRAY_SIZE(ar_genl_groups),
};

int __init ar_netlink_init(void)
{
	int ret = genl_register_family(&ar_genl_family);

	WRITE_ONCE(ar_genl_registered, !ret);
	return ret;
}

void ar_netlink_exit(void)
{
	WRITE_ONCE(ar_genl_registered, false);
	genl_unregister_family(&ar_genl_family);
}
