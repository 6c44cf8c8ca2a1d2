// SPDX-License-Identifier: GPL-2.0
/*
 * Sums of rings of 1 to 5 members, 1 and 4 lanes, IPv4 and IPv6, and with the
 * most lanes, the smallest frames and the largest: every element against a
 * reference, the same bits everywhere, and what the counters say.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "env.h"
#include "frame.h"
#include "../../tools/arbench/reference.h"
#include "kselftest_harness.h"

#define GUARD	0x5a
#define MIB	(1024 * 1024)

/* One job's buffers, with a guard before and after each. */
struct buffers {
	unsigned char *area;
	size_t area_bytes;
	unsigned char *src;
	unsigned char *dst;
	uint64_t bytes;
};

static int buffers_alloc(struct buffers *b, uint64_t bytes, unsigned int misalign,
			 bool in_place)
{
	size_t part = bytes + 256;

	memset(b, 0, sizeof(*b));
	b->bytes = bytes;
	b->area_bytes = ((in_place ? part : 2 * part) + 4095) & ~4095UL;
	b->area = mmap(NULL, b->area_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->area == MAP_FAILED)
		return -ENOMEM;
	memset(b->area, GUARD, b->area_bytes);
	b->src = b->area + 128 + misalign;
	b->dst = in_place ? b->src : b->src + part;
	return 0;
}

static void buffers_free(struct buffers *b)
{
	munmap(b->area, b->area_bytes);
}

static uint64_t spoilt_between(const unsigned char *p, const unsigned char *end)
{
	uint64_t spoilt = 0;

	for (; p < end; p++)
		spoilt += *p != GUARD;
	return spoilt;
}

/* Bytes of the guards, before, between and behind, that were written to. */
static uint64_t buffers_spoilt(const struct buffers *b)
{
	uint64_t spoilt = spoilt_between(b->area, b->src) +
			  spoilt_between(b->dst + b->bytes, b->area + b->area_bytes);

	if (b->src != b->dst)
		spoilt += spoilt_between(b->src + b->bytes, b->dst);
	return spoilt;
}

/* Errors in a finished job's buffers: wrong sums, a changed source, overruns. */
static uint64_t buffers_check(const struct buffers *b, const struct job *job,
			      struct env_member *m)
{
	uint64_t wrong = reference_check(job, m->rank, b->dst);
	uint64_t spoilt = buffers_spoilt(b);
	uint64_t changed = 0;

	if (b->src != b->dst)
		changed = reference_check_src(job, m->rank, b->src, false);
	if (wrong || changed || spoilt)
		fprintf(stderr, "# rank %u type %u count %llu: %llu wrong, %llu of src changed, %llu spoilt\n",
		       m->rank, job->type, (unsigned long long)job->count,
		       (unsigned long long)wrong, (unsigned long long)changed,
		       (unsigned long long)spoilt);
	return wrong + changed + spoilt;
}

static struct job sum_of(const struct env_member *m, uint64_t seed, uint64_t count,
			 unsigned int type)
{
	return (struct job) {
		.seed = seed,
		.count = count,
		.size = m->env->config.size,
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.type = type,
		.op = ALLREDUCE_SUM,
	};
}

static int run_one(struct env_member *m, const struct job *job,
		   unsigned int misalign, bool in_place)
{
	struct buffers b;
	uint64_t bad;
	int ret;

	ret = buffers_alloc(&b, job->count * aru_type_size(job->type), misalign,
			    in_place);
	if (ret)
		return ret;
	reference_fill(job, m->rank, b.src);
	ret = aru_allreduce(m->aru, b.src, b.dst, job->count, job->type, job->op,
			    NULL);
	bad = ret ? 0 : buffers_check(&b, job, m);
	buffers_free(&b);
	return ret ? ret : bad ? -EIO : 0;
}

FIXTURE(ring)
{
	struct env env;
};

FIXTURE_VARIANT(ring)
{
	struct env_config config;
};

#define VARIANT(size_, lanes_, name_, family_) \
	FIXTURE_VARIANT_ADD(ring, size##size_##_lanes##lanes_##_##name_) { \
		.config = { .size = size_, .lanes = lanes_, .family = family_ } \
	};

#define VARIANTS(size) \
	VARIANT(size, 1, ipv4, AF_INET) \
	VARIANT(size, 4, ipv4, AF_INET) \
	VARIANT(size, 1, ipv6, AF_INET6) \
	VARIANT(size, 4, ipv6, AF_INET6)

VARIANTS(1)
VARIANTS(2)
VARIANTS(3)
VARIANTS(4)
VARIANTS(5)
VARIANT(3, 16, ipv4, AF_INET)

FIXTURE_VARIANT_ADD(ring, size3_lanes2_smallest_frames) {
	.config = { .size = 3, .lanes = 2, .family = AF_INET,
		    .frame_max = ALLREDUCE_FRAME_MAX_MIN }
};

FIXTURE_VARIANT_ADD(ring, size3_lanes2_largest_frames) {
	.config = { .size = 3, .lanes = 2, .family = AF_INET,
		    .frame_max = ALLREDUCE_FRAME_MAX_MAX }
};

FIXTURE_SETUP(ring)
{
	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_up(&self->env, &variant->config));
}

FIXTURE_TEARDOWN(ring)
{
	env_down(&self->env);
}

/* Counts around all boundaries; both placements; odd addresses. */
static int run_counts(struct env_member *m)
{
	/* One of each size; collectives.c and property.c have them all. */
	static const unsigned int types[] = {
		ALLREDUCE_F32, ALLREDUCE_F64, ALLREDUCE_BF16, ALLREDUCE_U8,
	};
	static const uint64_t counts[] = {
		0, 1, 2, 3, 4, 5, 6, 15, 16, 17, 63, 65, 257, 1023, 4099,
		16384 * 5 + 1,
	};
	uint64_t iteration = 0;
	size_t t, c;

	for (t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			struct job job = sum_of(m, 1, counts[c], types[t]);
			unsigned int bytes = aru_type_size(types[t]);
			unsigned int misalign = bytes * (c % 16);
			int ret;

			job.iteration = iteration++;
			ret = run_one(m, &job, misalign, c & 1);
			if (ret)
				return ret;
		}
	}
	return 0;
}

TEST_F(ring, types_and_counts)
{
	EXPECT_EQ(0, env_run(&self->env, run_counts, NULL));
}

/* Both placements of a vector that is striped over all lanes. */
static int run_large(struct env_member *m)
{
	struct job job = sum_of(m, 2, MIB / 4 + 12345, ALLREDUCE_F32);
	int ret;

	ret = run_one(m, &job, 4, false);
	job.iteration++;
	return ret ? ret : run_one(m, &job, 60, true);
}

TEST_F(ring, large)
{
	EXPECT_EQ(0, env_run(&self->env, run_large, NULL));
}

#define IN_FLIGHT	48

/* More jobs than the context's depth, of sizes that alternate. */
static int run_in_flight(struct env_member *m)
{
	struct aru_request *req[IN_FLIGHT];
	struct buffers b[IN_FLIGHT];
	struct job job[IN_FLIGHT];
	int i, err = 0, ret;

	for (i = 0; i < IN_FLIGHT; i++) {
		job[i] = sum_of(m, 3, i % 5 ? 100 + i : 30000,
				i % 2 ? ALLREDUCE_I32 : ALLREDUCE_F64);
		job[i].iteration = i;
		ret = buffers_alloc(&b[i], job[i].count * aru_type_size(job[i].type),
				    0, i & 1);
		if (ret)
			return ret;
		reference_fill(&job[i], m->rank, b[i].src);
		ret = aru_iallreduce(m->aru, b[i].src, b[i].dst, job[i].count,
				     job[i].type, job[i].op, NULL, &req[i]);
		if (ret)
			return ret;
	}
	for (i = IN_FLIGHT - 1; i >= 0; i--) {
		ret = aru_wait(req[i], -1);
		if (!ret && buffers_check(&b[i], &job[i], m))
			ret = -EIO;
		err = err ? err : ret;
		buffers_free(&b[i]);
	}
	return err;
}

TEST_F(ring, many_in_flight)
{
	EXPECT_EQ(0, env_run(&self->env, run_in_flight, NULL));
}

static int run_registered(struct env_member *m)
{
	struct job job = sum_of(m, 4, 50001, ALLREDUCE_F32);
	struct buffers b;
	struct iovec iov;
	int ret;

	ret = buffers_alloc(&b, job.count * 4, 4, false);
	if (ret)
		return ret;
	iov.iov_base = b.area;
	iov.iov_len = b.area_bytes;
	ret = aru_register_buffers(m->aru, &iov, 1);
	for (; !ret && job.iteration < 3; job.iteration++) {
		reference_fill(&job, m->rank, b.src);
		ret = aru_allreduce(m->aru, b.src, b.dst, job.count, job.type,
				    job.op, NULL);
		if (!ret && buffers_check(&b, &job, m))
			ret = -EIO;
	}
	if (!ret)
		ret = aru_unregister_buffers(m->aru);
	buffers_free(&b);
	return ret;
}

TEST_F(ring, registered_buffers)
{
	EXPECT_EQ(0, env_run(&self->env, run_registered, NULL));
}

#define RUNS	10

struct digests {
	uint64_t of[ENV_MEMBERS_MAX][RUNS];
};

static int run_repeated(struct env_member *m)
{
	struct digests *digests = m->arg;
	struct job job = sum_of(m, 5, 20011, ALLREDUCE_F32);
	float *buf = malloc(job.count * sizeof(*buf));
	int i, ret = -ENOMEM;

	for (i = 0; buf && i < RUNS; i++) {
		reference_fill(&job, m->rank, buf);
		ret = aru_allreduce(m->aru, buf, buf, job.count, job.type, job.op,
				    NULL);
		if (ret)
			break;
		digests->of[m->rank][i] = reference_digest(0, buf, job.count * 4);
	}
	free(buf);
	return ret;
}

TEST_F(ring, same_bits_everywhere_and_always)
{
	struct digests digests = {};
	unsigned int rank, i;

	ASSERT_EQ(0, env_run(&self->env, run_repeated, &digests));
	for (rank = 0; rank < variant->config.size; rank++)
		for (i = 0; i < RUNS; i++)
			EXPECT_EQ(digests.of[0][0], digests.of[rank][i]);
}

/* Enough that headers and what is uneven weigh less than 1 %. */
#define COUNTED_BYTES	(4ULL * MIB)

/* Other tests look at every element: here the first and last ones do. */
static int run_counted(struct env_member *m)
{
	uint64_t count = COUNTED_BYTES / 4;
	int32_t *buf = calloc(count, 4);
	int ret = -ENOMEM;

	if (!buf)
		return ret;
	buf[0] = m->rank;
	buf[count - 1] = 1;
	ret = aru_allreduce(m->aru, buf, buf, count, ALLREDUCE_I32, ALLREDUCE_SUM,
			    NULL);
	if (!ret && (buf[0] != (int32_t)(m->env->config.size *
					 (m->env->config.size - 1) / 2) ||
		     buf[count - 1] != (int32_t)m->env->config.size))
		ret = -EIO;
	free(buf);
	return ret;
}

/* What a member's counters were before the job that is counted. */
struct counters {
	uint64_t stats[ENV_MEMBERS_MAX][ARU_STAT_SLOTS];
	struct env_traffic traffic[ENV_MEMBERS_MAX];
};

static bool about(uint64_t value, double want)
{
	return value >= want * 0.999 && value <= want * 1.001;
}

/*
 * Ethernet, IP and TCP headers of a packet with time stamps. How many packets
 * TCP makes of the bytes, up to 64 KiB each on these links, is its own affair.
 */
#define HEADERS_IPV4	(14 + 20 + 32)
#define HEADERS_IPV6	(14 + 40 + 32)
#define SEGMENT		1448

static bool read_counters(struct env *env, struct counters *c)
{
	unsigned int rank, stat;

	for (rank = 0; rank < env->config.size; rank++) {
		for (stat = ALLREDUCE_STAT_BYTES_INJECTED;
		     stat <= ALLREDUCE_STAT_BYTES_STAGED; stat++)
			c->stats[rank][stat] = env_stat(env, rank, stat);
		if (env_traffic(rank, &c->traffic[rank]))
			return false;
	}
	return true;
}

/* Bytes that an interface has sent for the job, headers of packets left out. */
static long long tx_payload(const struct env_traffic *before,
			    const struct env_traffic *after, int family)
{
	int headers = family == AF_INET ? HEADERS_IPV4 : HEADERS_IPV6;

	return after->tx_bytes - before->tx_bytes -
	       headers * (after->tx_packets - before->tx_packets) -
	       SEGMENT * (after->sent_again - before->sent_again);
}

/* The most that may be sent for a payload byte: 1 % more with 64 KiB frames. */
static double most_sent(unsigned int frame_max)
{
	if (!frame_max)
		frame_max = ALLREDUCE_FRAME_MAX_DEFAULT;
	return 1.009 + (double)AR_FRAME_HDR_BYTES / frame_max;
}

/*
 * Every payload byte is injected, reduced, forwarded by reference or delivered
 * as often as the algorithm says, none is copied, and frame headers add no more
 * than their share; the interface agrees.
 */
TEST_F(ring, counters)
{
	unsigned int size = variant->config.size, rank;
	struct counters before, after;
	double m = COUNTED_BYTES;

	ASSERT_TRUE(read_counters(&self->env, &before));
	ASSERT_EQ(0, env_run(&self->env, run_counted, NULL));
	ASSERT_TRUE(read_counters(&self->env, &after));
	for (rank = 0; rank < size; rank++) {
		double least = 2.0 * (size - 1) / size * m;
		double most = least * most_sent(variant->config.frame_max);
		long long tx = tx_payload(&before.traffic[rank],
					  &after.traffic[rank],
					  variant->config.family);

#define GREW(stat) (after.stats[rank][ALLREDUCE_STAT_##stat] - \
		    before.stats[rank][ALLREDUCE_STAT_##stat])
		EXPECT_EQ(0, GREW(BYTES_COPIED));
		EXPECT_EQ(0, GREW(BYTES_STAGED));
		EXPECT_EQ(1, GREW(JOBS_DONE));
		EXPECT_EQ(0, GREW(JOBS_FAILED));
		if (size == 1)
			continue;
		EXPECT_EQ(m, GREW(BYTES_DELIVERED));
		EXPECT_TRUE(about(GREW(BYTES_INJECTED), m / size));
		EXPECT_TRUE(about(GREW(BYTES_REDUCED), m * (size - 1) / size));
		EXPECT_TRUE(about(GREW(BYTES_FORWARDED), m * (size - 2) / size));
		EXPECT_LE(least * 0.999, GREW(BYTES_SENT));
		EXPECT_GE(most, GREW(BYTES_SENT));
		EXPECT_LE(least * 0.99, tx);
		EXPECT_GE(most, tx);
	}
}

TEST_HARNESS_MAIN
