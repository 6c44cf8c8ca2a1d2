// SPDX-License-Identifier: GPL-2.0
/* Counters: summed over lanes, put into netlink messages. */
#include <net/netlink.h>

#include "allreduce.h"

#define AR_X_STAT_SUM(NAME, name, value, help) \
	sum->name += READ_ONCE(stats->name);

static void ar_stats_add(struct ar_stats *sum, const struct ar_stats *stats)
{
	ALLREDUCE_FOR_EACH_STAT(AR_X_STAT_SUM)
}

/* The ring's totals; jobs are counted by the ring, the rest by its lanes. */
void ar_stats_sum(struct ar_ring *ring, struct ar_stats *sum)
{
	u32 i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < ring->config.lanes; i++)
		ar_stats_add(sum, &ring->lanes[i].stats);
	spin_lock(&ring->lock);
	sum->jobs_done = ring->jobs_done;
	sum->jobs_failed = ring->jobs_failed;
	spin_unlock(&ring->lock);
}

#define AR_X_STAT_PUT(NAME, name, value, help) \
	nla_put_u64_64bit(skb, ALLREDUCE_STAT_##NAME, READ_ONCE(stats->name), \
			  ALLREDUCE_STAT_PAD) ||

int ar_stats_put(struct sk_buff *skb, int nest_attr, const struct ar_stats *stats)
{
	struct nlattr *nest = nla_nest_start(skb, nest_attr);

	if (!nest)
		return -EMSGSIZE;
	if (ALLREDUCE_FOR_EACH_STAT(AR_X_STAT_PUT) false) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}
