// SPDX-License-Identifier: GPL-2.0
/*
 * Fragments that end anywhere: MTUs whose segments are no multiple of an
 * element, with and without segmentation offload.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "../../tools/arbench/reference.h"
#include "kselftest_harness.h"

FIXTURE(mtu)
{
	struct env env;
};

FIXTURE_VARIANT(mtu)
{
	unsigned int mtu;
	const char *offload;
};

FIXTURE_VARIANT_ADD(mtu, smallest) { .mtu = 576, .offload = "off" };
FIXTURE_VARIANT_ADD(mtu, odd_without_offload) { .mtu = 1499, .offload = "off" };
FIXTURE_VARIANT_ADD(mtu, odd) { .mtu = 1501, .offload = "on" };
FIXTURE_VARIANT_ADD(mtu, jumbo_without_offload) { .mtu = 8999, .offload = "off" };
FIXTURE_VARIANT_ADD(mtu, jumbo) { .mtu = 9001, .offload = "on" };

static int set_links(unsigned int mtu, const char *offload)
{
	unsigned int i;

	for (i = 0; i < ENV_MEMBERS_MAX; i++)
		if (env_shell("ip netns exec n%u ethtool -K eth0 tso %s gso %s > /dev/null",
			      i, offload, offload))
			return -1;
	return env_mtu(mtu);
}

FIXTURE_SETUP(mtu)
{
	struct env_config config = { .size = 3, .lanes = 2, .family = AF_INET };

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, set_links(variant->mtu, variant->offload));
	ASSERT_EQ(0, env_up(&self->env, &config));
}

FIXTURE_TEARDOWN(mtu)
{
	env_down(&self->env);
	set_links(1500, "on");
}

static int run(struct env_member *m)
{
	static const unsigned int types[] = { ALLREDUCE_F32, ALLREDUCE_F64 };
	unsigned int i;
	int ret = 0;

	for (i = 0; i < 2 && !ret; i++) {
		struct job job = { .seed = 7, .count = 70001, .type = types[i],
				   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
				   .op = ALLREDUCE_SUM, .size = m->env->config.size };
		void *buf = malloc(job.count * 8);

		if (!buf)
			return -ENOMEM;
		reference_fill(&job, m->rank, buf);
		ret = aru_allreduce(m->aru, buf, buf, job.count, job.type, job.op,
				    NULL);
		if (!ret && reference_check(&job, m->rank, buf))
			ret = -EIO;
		free(buf);
	}
	return ret;
}

/* One packet for each 524 bytes takes its time, and the namespaces are made here. */
TEST_F_TIMEOUT(mtu, exact, 150)
{
	uint64_t straddled = 0;
	unsigned int rank;

	ASSERT_EQ(0, env_run(&self->env, run, NULL));
	for (rank = 0; rank < 3; rank++)
		straddled += env_stat(&self->env, rank,
				      ALLREDUCE_STAT_ELEMENTS_STRADDLED);
	/* The test is about split elements: there must have been some. */
	if ((variant->mtu - 52) % 8)
		EXPECT_LT(0, straddled);
}

TEST_HARNESS_MAIN
