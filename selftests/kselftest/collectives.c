// SPDX-License-Identifier: GPL-2.0
/*
 * What the collectives promise beyond right sums, each in the situation that
 * would break it: sources that change right after completion, the gather path
 * against the ring path, hundreds of jobs in flight, members that are late,
 * many rings and several members on one host.
 *
 * Random combinations of everything are property.c's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env.h"
#include "../../tools/arbench/reference.h"
#include "kselftest_harness.h"

#define SAY(fmt, ...)	fprintf(stderr, "# " fmt "\n", ##__VA_ARGS__)

/* A job of a member with buffers of its own. */
struct call {
	struct job job;
	bool in_place;
	void *src;
	void *dst;
	void *area;
	struct aru_request *req;
};

static size_t call_bytes(const struct call *c, uint64_t elements)
{
	return elements * aru_type_size(c->job.type);
}

static int call_alloc(struct call *c, unsigned int rank)
{
	struct allreduce_buffers b = job_buffers(&c->job, rank);
	size_t src = call_bytes(c, b.src), dst = call_bytes(c, b.dst);

	c->area = calloc(1, src + dst + 1);
	if (!c->area)
		return -ENOMEM;
	c->src = c->area;
	c->dst = (char *)c->area + src;
	if (c->in_place && b.src && b.dst) {
		c->dst = (char *)c->src + call_bytes(c, b.dst_in_src);
		if (b.dst > b.src) {
			c->dst = c->area;
			c->src = (char *)c->dst + call_bytes(c, b.src_in_dst);
		}
	}
	if (b.src)
		reference_fill(&c->job, rank, c->src);
	return 0;
}

static int call_start(struct call *c, struct env_member *m)
{
	struct allreduce_call call = {
		.src = (uintptr_t)c->src, .dst = (uintptr_t)c->dst,
		.count = c->job.count, .collective = c->job.collective,
		.type = c->job.type, .op = c->job.op, .root = c->job.root,
		.factor = reference_factor(&c->job, m->rank),
	};

	if (c->job.collective == ALLREDUCE_COLLECTIVE_BARRIER)
		call.src = call.dst = 0;
	return aru_icall(m->aru, &call, &c->req);
}

/* Errors in a finished job's buffers. */
static int call_check(const struct call *c, struct env_member *m)
{
	uint64_t wrong = reference_check(&c->job, m->rank, c->dst);
	uint64_t changed = reference_check_src(&c->job, m->rank, c->src, c->in_place);

	if (!wrong && !changed)
		return 0;
	SAY("rank %u: %s %s %s count %llu root %u: %llu wrong, %llu of src changed",
	    m->rank, aru_collective_name(c->job.collective),
	    c->job.op ? aru_op_name(c->job.op) : "-",
	    c->job.type ? aru_type_name(c->job.type) : "-",
	    (unsigned long long)c->job.count, c->job.root,
	    (unsigned long long)wrong, (unsigned long long)changed);
	return -EIO;
}

/* Ends the first @n calls, the newest first, and frees all; @ret, or an error. */
static int calls_wait(struct call *calls, int n, struct env_member *m, int ret)
{
	int err;

	while (n--) {
		err = aru_wait(calls[n].req, -1);
		if (!err)
			err = call_check(&calls[n], m);
		ret = ret ? ret : err;
		free(calls[n].area);
	}
	free(calls);
	return ret;
}

static int call_run(struct call *c, struct env_member *m)
{
	int ret = call_alloc(c, m->rank);

	if (!ret)
		ret = call_start(c, m);
	if (!ret)
		ret = aru_wait(c->req, -1);
	if (!ret)
		ret = call_check(c, m);
	free(c->area);
	return ret;
}

static struct job job_of(struct env_member *m, unsigned int collective, uint64_t count)
{
	struct job job = {
		.seed = 11, .count = count, .size = m->env->config.size,
		.collective = collective, .type = ALLREDUCE_F32,
	};

	if (collective == ALLREDUCE_COLLECTIVE_BARRIER) {
		job.count = 0;
		job.type = 0;
	}
	if (collective == ALLREDUCE_COLLECTIVE_ALLREDUCE ||
	    collective == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER ||
	    collective == ALLREDUCE_COLLECTIVE_REDUCE)
		job.op = ALLREDUCE_SUM;
	return job;
}

static const unsigned int all_collectives[] = {
#define X(NAME, name, value, src, dst, reduces)	value,
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
};

#define N_COLLECTIVES	(sizeof(all_collectives) / sizeof(all_collectives[0]))

FIXTURE(ring)
{
	struct env env;
};

FIXTURE_VARIANT(ring)
{
	struct env_config config;
};

#define RING(name, ...) \
FIXTURE_VARIANT_ADD(ring, name) \
{ \
	.config = { __VA_ARGS__ }, \
}

RING(one, .size = 1, .lanes = 2, .family = AF_INET);
RING(two, .size = 2, .lanes = 1, .family = AF_INET6);
RING(three, .size = 3, .lanes = 4, .family = AF_INET);
RING(three_never_gather, .size = 3, .lanes = 2, .family = AF_INET,
     .has_gather_max = true, .gather_max = 0);
RING(five_gather, .size = 5, .lanes = 3, .family = AF_INET, .frame_max = 4096,
     .has_gather_max = true, .gather_max = ALLREDUCE_GATHER_MAX_MAX);

FIXTURE_SETUP(ring)
{
	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_up(&self->env, &variant->config));
}

FIXTURE_TEARDOWN(ring)
{
	env_down(&self->env);
}

/* ---- every collective, root, kind of buffer ------------------------------- */

static int run_counts(struct env_member *m, unsigned int collective)
{
	unsigned int n = m->env->config.size;
	const uint64_t counts[] = { 0, 1, n - 1, n, n + 1, 16 * n, 1000, 40007 };
	unsigned int i, root, roots = allreduce_has_root(collective) ? n : 1;
	int ret = 0;

	for (i = 0; !ret && i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (root = 0; !ret && root < roots; root++) {
			struct call c = {
				.job = job_of(m, collective, counts[i]),
				.in_place = (i + root) & 1,
			};

			c.job.root = root;
			c.job.iteration = i;
			ret = call_run(&c, m);
		}
	}
	return ret;
}

static int run_collectives(struct env_member *m)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < N_COLLECTIVES; i++)
		ret = run_counts(m, all_collectives[i]);
	return ret;
}

TEST_F(ring, each_collective)
{
	EXPECT_EQ(0, env_run(&self->env, run_collectives, NULL));
}

/* Large enough for all lanes, with frames that end inside of packets. */
static int run_striped(struct env_member *m)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < N_COLLECTIVES; i++) {
		struct call c = { .job = job_of(m, all_collectives[i], 150001) };

		c.job.root = allreduce_has_root(c.job.collective) ? m->env->config.size - 1 : 0;
		ret = call_run(&c, m);
	}
	return ret;
}

TEST_F(ring, striped)
{
	EXPECT_EQ(0, env_run(&self->env, run_striped, NULL));
}

static int run_operations(struct env_member *m)
{
	unsigned int type, op;
	int ret = 0;

	for (type = 1; !ret && aru_type_name(type); type++) {
		for (op = 1; !ret && aru_op_name(op); op++) {
			struct call c = {
				.job = job_of(m, ALLREDUCE_COLLECTIVE_ALLREDUCE, 3001),
			};

			if (!aru_op_valid(type, op))
				continue;
			c.job.type = type;
			c.job.op = op;
			ret = call_run(&c, m);
		}
	}
	return ret;
}

TEST_F(ring, each_type_and_operation)
{
	EXPECT_EQ(0, env_run(&self->env, run_operations, NULL));
}

/* Nobody is through before the last one has come. */
static int run_barriers(struct env_member *m)
{
	volatile int *arrived = m->arg;
	int i, ret = 0;

	for (i = 0; !ret && i < 6; i++) {
		if (i % m->env->config.size == m->rank)
			usleep(100000);
		__atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
		ret = aru_barrier(m->aru, NULL);
		if (!ret && __atomic_load_n(arrived, __ATOMIC_SEQ_CST) <
		    (i + 1) * (int)m->env->config.size)
			ret = -EIO;
	}
	return ret;
}

TEST_F(ring, barrier_waits_for_all)
{
	int arrived = 0;

	EXPECT_EQ(0, env_run(&self->env, run_barriers, &arrived));
}

/* ---- what the counters say ----------------------------------------------------- */

#define COUNTED	30000

struct counted {
	unsigned int collective;
	unsigned int op;
	const char *name;
};

static int run_counted(struct env_member *m)
{
	const struct counted *counted = m->arg;
	struct call c = { .job = job_of(m, counted->collective, COUNTED) };

	c.job.op = counted->op;
	return call_run(&c, m);
}

/*
 * Bytes of one job, exactly: of all members together, since which member does
 * what depends on its place. Without a factor nothing is copied but by design.
 */
TEST_F(ring, counters_of_each_collective)
{
	/* Times the bytes of COUNTED elements, for n members. */
	const unsigned int n = variant->config.size;
	const struct {
		struct counted counted;
		unsigned int injected, reduced, forwarded, delivered, staged;
	} cases[] = {
		{ { ALLREDUCE_COLLECTIVE_ALLREDUCE, ALLREDUCE_SUM, "allreduce" },
		  1, n - 1, n - 2, n, 0 },
		{ { ALLREDUCE_COLLECTIVE_ALLREDUCE, ALLREDUCE_AVG, "avg" },
		  1, n - 1, n - 2, n, 0 },
		{ { ALLREDUCE_COLLECTIVE_ALLREDUCE, ALLREDUCE_PREMULSUM, "premulsum" },
		  0, n - 1, n - 2, n, 1 },
		{ { ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, ALLREDUCE_SUM, "reduce_scatter" },
		  n, n * (n - 1), 0, n, 0 },
		{ { ALLREDUCE_COLLECTIVE_ALLGATHER, 0, "allgather" },
		  n, 0, n * (n - 2), n * n, 0 },
		{ { ALLREDUCE_COLLECTIVE_BROADCAST, 0, "broadcast" }, 1, 0, n - 2, n, 0 },
		{ { ALLREDUCE_COLLECTIVE_REDUCE, ALLREDUCE_SUM, "reduce" }, 1, n - 1, 0, 1, 0 },
		{ { ALLREDUCE_COLLECTIVE_BARRIER, 0, "barrier" }, 0, 0, 0, 0, 0 },
	};
	uint64_t before[ARU_STAT_SLOTS] = {}, after[ARU_STAT_SLOTS];
	unsigned int i, stat, rank;

	/* Its vector is above every variant's limit of the gather path. */
	for (i = 0; n > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t bytes = COUNTED * sizeof(float);

		ASSERT_EQ(0, env_run(&self->env, run_counted, (void *)&cases[i].counted)) {
			TH_LOG("%s", cases[i].counted.name);
		}
		memset(after, 0, sizeof(after));
		for (rank = 0; rank < n; rank++)
			for (stat = 1; stat <= ALLREDUCE_STAT_BYTES_STAGED; stat++)
				after[stat] += env_stat(&self->env, rank, stat);
#define GREW(STAT, times) \
		EXPECT_EQ((times) * bytes, after[ALLREDUCE_STAT_BYTES_##STAT] - \
			  before[ALLREDUCE_STAT_BYTES_##STAT]) { \
			TH_LOG("%s: " #STAT, cases[i].counted.name); \
		}
		GREW(INJECTED, cases[i].injected);
		GREW(REDUCED, cases[i].reduced);
		GREW(FORWARDED, cases[i].forwarded);
		GREW(DELIVERED, cases[i].delivered);
		GREW(STAGED, cases[i].staged);
		GREW(COPIED, 0);
#undef GREW
		memcpy(before, after, sizeof(before));
	}
}

/* ---- reduce_scatter and allgather are an allreduce -------------------------- */

#define BLOCK	3001

static int run_split(struct env_member *m)
{
	unsigned int n = m->env->config.size;
	struct job job = job_of(m, ALLREDUCE_COLLECTIVE_ALLREDUCE, (uint64_t)BLOCK * n);
	size_t bytes = job.count * sizeof(float);
	float *one = malloc(bytes), *two = malloc(bytes);
	struct iovec iov = { two, bytes };
	int ret = -ENOMEM;

	if (!one || !two)
		goto out;
	reference_fill(&job, m->rank, one);
	reference_fill(&job, m->rank, two);
	ret = aru_register_buffers(m->aru, &iov, 1) ?:
	      aru_allreduce(m->aru, one, one, job.count, job.type, job.op, NULL) ?:
	      aru_reduce_scatter(m->aru, two, two + (size_t)BLOCK * m->rank, BLOCK,
				 job.type, job.op, NULL) ?:
	      aru_allgather(m->aru, two + (size_t)BLOCK * m->rank, two, BLOCK,
			    job.type, NULL) ?:
	      aru_unregister_buffers(m->aru);
	if (!ret && memcmp(one, two, bytes))
		ret = -EIO;
out:
	free(one);
	free(two);
	return ret;
}

TEST_F(ring, reduce_scatter_then_allgather_is_allreduce)
{
	EXPECT_EQ(0, env_run(&self->env, run_split, NULL));
}

/* ---- many in flight ---------------------------------------------------------- */

#define MANY	256

/*
 * Until rank 0 has so many jobs in flight, which none can leave before the last
 * member has come.
 */
static int wait_in_flight(struct env_member *m, unsigned int jobs)
{
	uint64_t end = env_now_ms() + 20000;
	struct aru_ring *ring;
	unsigned int most = 0;

	while (most < jobs && env_now_ms() < end) {
		if (aru_ring_get(m->env->nl[0], ENV_RING, &ring))
			return -EIO;
		most = ring->jobs_in_flight > most ? ring->jobs_in_flight : most;
		aru_ring_free(ring);
		usleep(5000);
	}
	if (most >= jobs)
		return 0;
	SAY("%u jobs in flight, not %u", most, jobs);
	return -EIO;
}

/* Of all collectives, in and out of place, small and, every seventh, large. */
static int run_many(struct env_member *m)
{
	struct call *calls = calloc(MANY, sizeof(*calls));
	int i, started = 0, ret = calls ? 0 : -ENOMEM;

	if (!ret && m->rank && m->rank == m->env->config.size - 1)
		ret = wait_in_flight(m, MANY);
	for (i = 0; !ret && i < MANY; i++) {
		struct call *c = &calls[i];

		c->job = job_of(m, all_collectives[i % N_COLLECTIVES],
				i % 7 ? i % 100 : 20000 + i);
		c->job.iteration = i;
		c->job.root = allreduce_has_root(c->job.collective) ?
			      i % m->env->config.size : 0;
		c->in_place = i / N_COLLECTIVES & 1;
		ret = call_alloc(c, m->rank);
		if (!ret)
			ret = call_start(c, m);
		started += !ret;
	}
	return calls_wait(calls, started, m, ret);
}

TEST_F(ring, many_in_flight)
{
	self->env.config.depth = MANY;
	EXPECT_EQ(0, env_run(&self->env, run_many, NULL));
}

/* ---- the gather path ------------------------------------------------------------ */

FIXTURE(path)
{
	struct env env;
};

FIXTURE_SETUP(path)
{
	ASSERT_EQ(0, env_namespaces());
}

FIXTURE_TEARDOWN(path)
{
	env_down(&self->env);
}

#define PATH_COUNT	1000
#define PATH_MEMBERS	5

struct path_results {
	float of[PATH_MEMBERS][PATH_COUNT];
	uint64_t frames[PATH_MEMBERS];
	uint64_t staged[PATH_MEMBERS];
	uint64_t copied[PATH_MEMBERS];
};

static int run_path(struct env_member *m)
{
	struct path_results *results = m->arg;
	struct job job = job_of(m, ALLREDUCE_COLLECTIVE_ALLREDUCE, PATH_COUNT);
	float *result = results->of[m->rank];

	reference_fill(&job, m->rank, result);
	return aru_allreduce(m->aru, result, result, PATH_COUNT, job.type, job.op, NULL);
}

static int take_path(struct env *env, unsigned int gather_max,
		     struct path_results *results)
{
	struct env_config config = {
		.size = PATH_MEMBERS, .lanes = 2, .family = AF_INET,
		.has_gather_max = true, .gather_max = gather_max,
	};
	unsigned int rank;
	int ret;

	ret = env_up(env, &config) ?: env_run(env, run_path, results);
	for (rank = 0; !ret && rank < PATH_MEMBERS; rank++) {
		results->frames[rank] = env_stat(env, rank,
						 ALLREDUCE_STAT_FRAMES_RECEIVED);
		results->staged[rank] = env_stat(env, rank,
						 ALLREDUCE_STAT_BYTES_STAGED);
		results->copied[rank] = env_stat(env, rank,
						 ALLREDUCE_STAT_BYTES_COPIED);
	}
	env_down(env);
	return ret;
}

/*
 * The same bits from both; on the ring path a member's own chunk makes 2(N-1)
 * hops, on the gather path its vector makes N-1, one frame for each hop.
 */
TEST_F(path, gather_gives_the_same_bits_in_half_the_hops)
{
	struct path_results *ring = calloc(2, sizeof(*ring)), *gather = ring + 1;
	const size_t bytes = sizeof(float) * PATH_COUNT;
	unsigned int rank;

	ASSERT_NE(NULL, ring);
	ASSERT_EQ(0, take_path(&self->env, 0, ring));
	ASSERT_EQ(0, take_path(&self->env, bytes, gather));
	for (rank = 0; rank < PATH_MEMBERS; rank++) {
		EXPECT_EQ(0, memcmp(ring->of[0], ring->of[rank], bytes));
		EXPECT_EQ(0, memcmp(ring->of[0], gather->of[rank], bytes));
		EXPECT_EQ(2 * (PATH_MEMBERS - 1), ring->frames[rank]);
		EXPECT_EQ(PATH_MEMBERS - 1, gather->frames[rank]);
		EXPECT_EQ(0, ring->staged[rank]);
		/* Its own vector once, and the others' on the way to the sum. */
		EXPECT_EQ(PATH_MEMBERS * bytes, gather->staged[rank]);
		EXPECT_EQ(0, ring->copied[rank]);
		EXPECT_EQ(0, gather->copied[rank]);
	}
	SAY("result: hops: ring path %llu, gather path %llu, with %u members",
	    (unsigned long long)ring->frames[0], (unsigned long long)gather->frames[0],
	    PATH_MEMBERS);
	free(ring);
}

/* One byte more than the limit takes the ring path. */
TEST_F(path, the_limit_is_exact)
{
	struct path_results *results = calloc(1, sizeof(*results));

	ASSERT_NE(NULL, results);
	ASSERT_EQ(0, take_path(&self->env, sizeof(float) * PATH_COUNT - 1, results));
	EXPECT_EQ(2 * (PATH_MEMBERS - 1), results->frames[0]);
	EXPECT_EQ(0, results->staged[0]);
	free(results);
}

/* ---- tokens: the source changes right after completion --------------------------- */

FIXTURE(slow)
{
	struct env env;
};

FIXTURE_SETUP(slow)
{
	struct env_config config = {
		.size = 3, .lanes = 2, .family = AF_INET, .timeout_ms = 60000,
	};
	unsigned int i;

	ASSERT_EQ(0, env_namespaces());
	for (i = 0; i < 3; i++) {
		/* Both directions: data and acknowledgments are late, some are lost. */
		ASSERT_EQ(0, env_shell("tc qdisc add dev v%u root netem delay 15ms 5ms loss 2%% limit 5000", i));
		ASSERT_EQ(0, env_shell("tc -n n%u qdisc add dev eth0 root netem delay 15ms 5ms loss 2%% limit 5000", i));
	}
	ASSERT_EQ(0, env_up(&self->env, &config));
}

FIXTURE_TEARDOWN(slow)
{
	unsigned int i;

	env_down(&self->env);
	for (i = 0; i < 3; i++) {
		env_shell("tc qdisc del dev v%u root", i);
		env_shell("tc -n n%u qdisc del dev eth0 root", i);
	}
}

#define SLOW_ROUNDS	3

static int run_overwriting(struct env_member *m, unsigned int collective,
			   unsigned int op, uint64_t count)
{
	int i, ret = 0, err;

	for (i = 0; !ret && i < SLOW_ROUNDS; i++) {
		struct call c = { .job = job_of(m, collective, count) };
		struct allreduce_buffers b;

		c.job.op = op;
		c.job.iteration = i;
		c.job.root = allreduce_has_root(collective) ? i % m->env->config.size : 0;
		ret = call_alloc(&c, m->rank);
		if (!ret)
			ret = call_start(&c, m);
		if (ret)
			break;
		ret = aru_wait(c.req, -1);
		/* From now on the source is the application's. */
		b = job_buffers(&c.job, m->rank);
		memset(c.src, 0xee, call_bytes(&c, b.src));
		if (!ret && reference_check(&c.job, m->rank, c.dst)) {
			SAY("rank %u: %s: overwritten bytes in the result", m->rank,
			    aru_collective_name(collective));
			ret = -EIO;
		}
		/* What is still on its way has the pages, with what they hold now. */
		err = aru_barrier(m->aru, NULL);
		ret = ret ? ret : err;
		free(c.area);
	}
	return ret;
}

#define OVERWRITING(name, collective, op, count) \
static int run_overwriting_##name(struct env_member *m) \
{ \
	return run_overwriting(m, ALLREDUCE_COLLECTIVE_##collective, op, count); \
} \
TEST_F_TIMEOUT(slow, source_of_##name##_overwritten, 120) \
{ \
	EXPECT_EQ(0, env_run(&self->env, run_overwriting_##name, NULL)); \
}

/* Large enough for both lanes, but for the one that is to be gathered. */
OVERWRITING(allreduce, ALLREDUCE, ALLREDUCE_SUM, 40011)
OVERWRITING(weighted_allreduce, ALLREDUCE, ALLREDUCE_PREMULSUM, 40011)
OVERWRITING(gathered_allreduce, ALLREDUCE, ALLREDUCE_SUM, 1000)
OVERWRITING(reduce_scatter, REDUCE_SCATTER, ALLREDUCE_SUM, 20011)
OVERWRITING(allgather, ALLGATHER, 0, 20011)
OVERWRITING(broadcast, BROADCAST, 0, 40011)
OVERWRITING(reduce, REDUCE, ALLREDUCE_SUM, 40011)

/* ---- members that are late ---------------------------------------------------------- */

FIXTURE(late)
{
	struct env env;
};

FIXTURE_SETUP(late)
{
	ASSERT_EQ(0, env_namespaces());
}

FIXTURE_TEARDOWN(late)
{
	unsigned int i;

	env_down(&self->env);
	/* For the test that makes them small, also if it fails. */
	for (i = 0; i < 3; i++)
		env_shell("ip netns exec n%u sysctl -qw net.ipv4.tcp_wmem='4096 16384 4194304' net.ipv4.tcp_rmem='4096 131072 6291456'", i);
}

#define FLOOD	3000

/* The last member makes the others wait with all they have. */
static int run_flood(struct env_member *m)
{
	struct call *calls = calloc(FLOOD, sizeof(*calls));
	int i, started = 0, ret = calls ? 0 : -ENOMEM;

	if (!ret && m->rank == m->env->config.size - 1)
		ret = wait_in_flight(m, FLOOD);
	for (i = 0; !ret && i < FLOOD; i++) {
		struct call *c = &calls[i];

		c->job = job_of(m, ALLREDUCE_COLLECTIVE_BROADCAST, 1);
		c->job.iteration = i;
		ret = call_alloc(c, m->rank);
		if (!ret)
			ret = call_start(c, m);
		started += !ret;
	}
	return calls_wait(calls, started, m, ret);
}

/*
 * Thousands of frames of a few bytes pile up in front of a member that is late,
 * while TCP's buffers are as small as they get: the queue of the member before
 * it must not take more than it has places for.
 */
TEST_F_TIMEOUT(late, small_frames_pile_up, 180)
{
	struct env_config config = {
		.size = 3, .lanes = 1, .family = AF_INET, .timeout_ms = 60000,
		.depth = 4096,
	};
	unsigned int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, env_shell("ip netns exec n%u sysctl -qw net.ipv4.tcp_wmem='4096 4096 4096' net.ipv4.tcp_rmem='4096 4096 4096'", i));
	ASSERT_EQ(0, env_up(&self->env, &config));
	EXPECT_EQ(0, env_run(&self->env, run_flood, NULL));
}

static int run_after_a_pause(struct env_member *m)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < N_COLLECTIVES; i++) {
		struct call c = { .job = job_of(m, all_collectives[i], 5000) };

		if (m->rank == i % m->env->config.size)
			usleep(700000);
		ret = call_run(&c, m);
	}
	return ret;
}

/* Late by more than half the time without progress, in every collective. */
TEST_F_TIMEOUT(late, within_the_timeout, 60)
{
	struct env_config config = {
		.size = 3, .lanes = 2, .family = AF_INET, .timeout_ms = 1300,
	};

	ASSERT_EQ(0, env_up(&self->env, &config));
	EXPECT_EQ(0, env_run(&self->env, run_after_a_pause, NULL));
}

/* Rank 1 has all it needs and goes; rank 2 comes when that is long over. */
static int run_leave_early(struct env_member *m)
{
	struct call c = { .job = job_of(m, ALLREDUCE_COLLECTIVE_BROADCAST, 1000) };
	int ret;

	if (m->rank == 2)
		sleep(12);
	ret = call_run(&c, m);
	if (!ret && m->rank == 1)
		ret = aru_ring_del(m->env->nl[1], ENV_RING);
	return ret;
}

/*
 * A member that is through may delete its ring. What it has passed on lies with
 * the next one, though the connection is gone, and keepalive finds that out.
 */
TEST_F_TIMEOUT(late, after_another_has_left, 60)
{
	struct env_config config = {
		.size = 3, .lanes = 2, .family = AF_INET, .timeout_ms = 30000,
	};

	ASSERT_EQ(0, env_up(&self->env, &config));
	EXPECT_EQ(0, env_run(&self->env, run_leave_early, NULL));
}

/* Each waits for the other to begin: it ends, and says what was called. */
static int run_other_root(struct env_member *m)
{
	struct call c = { .job = job_of(m, ALLREDUCE_COLLECTIVE_BROADCAST, 1000) };
	int *results = m->arg;
	int ret;

	c.job.root = 1 - m->rank;
	ret = call_alloc(&c, m->rank);
	if (!ret)
		ret = call_start(&c, m);
	if (!ret)
		results[m->rank] = aru_wait(c.req, -1);
	free(c.area);
	return ret;
}

TEST_F_TIMEOUT(late, roots_differ, 60)
{
	struct env_config config = {
		.size = 2, .lanes = 1, .family = AF_INET, .timeout_ms = 500,
	};
	struct aru_ring *ring;
	int results[2] = {};
	bool named = false;
	unsigned int rank;
	char call[64];

	ASSERT_EQ(0, env_up(&self->env, &config));
	ASSERT_EQ(0, env_run(&self->env, run_other_root, results));
	for (rank = 0; rank < 2; rank++) {
		EXPECT_GT(0, results[rank]);
		ASSERT_EQ(0, aru_ring_get(self->env.nl[rank], ENV_RING, &ring));
		snprintf(call, sizeof(call), "broadcast f32 count 1000 root %u", 1 - rank);
		named = named || strstr(ring->reason, call);
		aru_ring_free(ring);
	}
	EXPECT_TRUE(named);
}

/* ---- many rings, one host --------------------------------------------------------------- */

/*
 * All members of @n_rings rings in namespace n0, at ports of their own; one
 * process, a thread for each member.
 */
#define HOST_MEMBERS	3
#define HOST_RINGS	12
#define HOST_JOBS	20

struct host_member {
	unsigned int ring;
	unsigned int rank;
	unsigned int size;
	int jobs;
	pthread_t thread;
	int ret;
	bool late;
	int *others_done;
};

static void host_name(char name[ALLREDUCE_NAME_SIZE], unsigned int ring,
		      unsigned int rank)
{
	snprintf(name, ALLREDUCE_NAME_SIZE, "ring%u.%u", ring, rank);
}

static int host_add(struct aru_nl *nl, unsigned int ring, unsigned int rank,
		    unsigned int size, unsigned int lanes)
{
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	ARU_OPTS(aru_ring_config, config);
	char text[64], name[ALLREDUCE_NAME_SIZE];
	unsigned int i;
	int ret;

	for (i = 0; i < size; i++) {
		snprintf(text, sizeof(text), "127.0.0.1:%u", 20000 + i);
		if (aru_member_parse(text, &members[i], NULL, 0))
			abort();
	}
	host_name(name, ring, rank);
	config.name = name;
	config.rank = rank;
	config.members = members;
	config.n_members = size;
	config.lanes = lanes;
	config.timeout_ms = 90000;
	config.has_id = true;
	config.id[0] = 1 + ring;
	ret = aru_ring_add(nl, &config);
	if (ret)
		SAY("add %s: %s", name, aru_nl_error_text(nl));
	return ret;
}

/* Bring up all members of rings that were added. 0 or an error. */
static int hosts_up(struct aru_nl *nl, unsigned int rings, unsigned int size,
		    const struct aru_ring_up_opts *opts)
{
	char name[ALLREDUCE_NAME_SIZE];
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < rings * size; i++) {
		host_name(name, i / size, i % size);
		ret = aru_ring_up(nl, name, opts);
	}
	return ret;
}

static void hosts_down(struct aru_nl *nl, unsigned int rings, unsigned int size)
{
	char name[ALLREDUCE_NAME_SIZE];
	unsigned int i;

	for (i = 0; i < rings * size; i++) {
		host_name(name, i / size, i % size);
		aru_ring_del(nl, name);
	}
	aru_nl_close(nl);
}

static void *host_member_main(void *arg)
{
	struct host_member *hm = arg;
	struct env env = { .config = { .size = hm->size } };
	struct env_member m = { .env = &env, .rank = hm->rank };
	char name[ALLREDUCE_NAME_SIZE];
	int i, ret;

	host_name(name, hm->ring, hm->rank);
	hm->ret = env_enter(0);
	if (hm->ret)
		return NULL;
	hm->ret = aru_open(&m.aru, name, NULL);
	if (hm->ret)
		return NULL;
	/* Until all other rings are through; a minute for what takes a few seconds. */
	for (i = 0; hm->late && i < 6000 &&
	     __atomic_load_n(hm->others_done, __ATOMIC_SEQ_CST) <
	     (HOST_RINGS - 1) * HOST_MEMBERS; i++)
		usleep(10000);
	if (hm->late && i == 6000)
		hm->ret = -ETIMEDOUT;
	for (i = 0; !hm->ret && i < hm->jobs; i++) {
		struct call c = {
			.job = job_of(&m, all_collectives[i % N_COLLECTIVES],
				      1 + i * 37 + hm->ring + (i == N_COLLECTIVES ? 2000 : 0)),
		};

		c.job.seed = hm->ring;
		hm->ret = call_run(&c, &m);
	}
	if (!hm->ret && hm->ring)
		__atomic_add_fetch(hm->others_done, 1, __ATOMIC_SEQ_CST);
	ret = aru_close(m.aru);
	hm->ret = hm->ret ? hm->ret : ret;
	return NULL;
}

FIXTURE(host)
{
	struct aru_nl *nl;
	struct host_member members[HOST_RINGS][HOST_MEMBERS];
};

FIXTURE_SETUP(host)
{
	ARU_OPTS(aru_ring_up_opts, opts);
	unsigned int ring, rank;

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_enter(0));
	ASSERT_EQ(0, aru_nl_open(&self->nl));
	for (ring = 0; ring < HOST_RINGS; ring++) {
		for (rank = 0; rank < HOST_MEMBERS; rank++) {
			self->members[ring][rank].ring = ring;
			self->members[ring][rank].rank = rank;
			self->members[ring][rank].size = HOST_MEMBERS;
			self->members[ring][rank].jobs = HOST_JOBS;
			ASSERT_EQ(0, host_add(self->nl, ring, rank, HOST_MEMBERS, 2));
		}
	}
	opts.nowait = true;
	ASSERT_EQ(0, hosts_up(self->nl, HOST_RINGS, HOST_MEMBERS, &opts));
}

FIXTURE_TEARDOWN(host)
{
	hosts_down(self->nl, HOST_RINGS, HOST_MEMBERS);
}

static bool host_wait_up(struct aru_nl *nl, unsigned int rings, unsigned int size)
{
	uint64_t end = env_now_ms() + 60000;
	char name[ALLREDUCE_NAME_SIZE];
	struct aru_ring *ring;
	unsigned int i, up;

	do {
		for (up = i = 0; i < rings * size; i++) {
			host_name(name, i / size, i % size);
			if (aru_ring_get(nl, name, &ring))
				return false;
			up += ring->state == ALLREDUCE_RING_UP;
			aru_ring_free(ring);
		}
		if (up == rings * size)
			return true;
		usleep(20000);
	} while (env_now_ms() < end);
	return false;
}

/*
 * Many rings in one namespace, all members of each on this host, at one port
 * each for all rings, all driven by one process. One member of the first ring
 * comes when all other rings are through: they don't wait for it.
 */
TEST_F_TIMEOUT(host, many_rings_and_members_and_one_is_late, 120)
{
	unsigned int ring, rank;
	int others_done = 0;

	ASSERT_TRUE(host_wait_up(self->nl, HOST_RINGS, HOST_MEMBERS));
	self->members[0][1].late = true;
	for (ring = 0; ring < HOST_RINGS; ring++) {
		for (rank = 0; rank < HOST_MEMBERS; rank++) {
			struct host_member *hm = &self->members[ring][rank];

			hm->others_done = &others_done;
			ASSERT_EQ(0, pthread_create(&hm->thread, NULL,
						    host_member_main, hm));
		}
	}
	for (ring = 0; ring < HOST_RINGS; ring++) {
		for (rank = 0; rank < HOST_MEMBERS; rank++) {
			struct host_member *hm = &self->members[ring][rank];

			pthread_join(hm->thread, NULL);
			EXPECT_EQ(0, hm->ret);
		}
	}
}

/* ---- the largest ring ------------------------------------------------------------------- */

FIXTURE(largest)
{
	struct aru_nl *nl;
};

FIXTURE_SETUP(largest)
{
	ARU_OPTS(aru_ring_up_opts, opts);
	unsigned int rank;

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_enter(0));
	ASSERT_EQ(0, aru_nl_open(&self->nl));
	opts.nowait = true;
	opts.connect_timeout_ms = 60000;
	for (rank = 0; rank < ALLREDUCE_SIZE_MAX; rank++)
		ASSERT_EQ(0, host_add(self->nl, 0, rank, ALLREDUCE_SIZE_MAX, 1));
	ASSERT_EQ(0, hosts_up(self->nl, 1, ALLREDUCE_SIZE_MAX, &opts));
}

FIXTURE_TEARDOWN(largest)
{
	hosts_down(self->nl, 1, ALLREDUCE_SIZE_MAX);
}

/* Each collective, on the gather path and, of chunks that are mostly empty, not. */
TEST_F_TIMEOUT(largest, each_collective, 180)
{
	struct host_member members[ALLREDUCE_SIZE_MAX] = {};
	unsigned int rank;
	int done = 0;

	ASSERT_TRUE(host_wait_up(self->nl, 1, ALLREDUCE_SIZE_MAX));
	for (rank = 0; rank < ALLREDUCE_SIZE_MAX; rank++) {
		members[rank].rank = rank;
		members[rank].size = ALLREDUCE_SIZE_MAX;
		members[rank].jobs = 2 * N_COLLECTIVES;
		members[rank].others_done = &done;
		ASSERT_EQ(0, pthread_create(&members[rank].thread, NULL,
					    host_member_main, &members[rank]));
	}
	for (rank = 0; rank < ALLREDUCE_SIZE_MAX; rank++) {
		pthread_join(members[rank].thread, NULL);
		EXPECT_EQ(0, members[rank].ret);
	}
}

TEST_HARNESS_MAIN
