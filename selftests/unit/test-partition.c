// SPDX-License-Identifier: GPL-2.0
/* Who carries what: every boundary and every role of partition.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition.h"
#include "unit.h"

#include <linux/allreduce.h>

typedef unsigned __int128 u128;

static const u32 element_sizes[] = { 1, 2, 4, 8 };

/*
 * The parts cover the whole, in order, in whole grains, as evenly as grains
 * allow, and nothing overflows: checked with sums of 128 bits.
 */
static void check_split(u64 count, u32 parts, u32 grain)
{
	u64 smallest = UINT64_MAX, largest = 0, previous = UINT64_MAX;
	u128 pos = 0;
	u32 i;

	for (i = 0; i < parts; i++) {
		struct ar_range r = ar_split(count, parts, i, grain);
		u64 grains = r.count / grain + (r.count % grain != 0);

		if (r.start != pos || (u128)r.start + r.count > count)
			fail_msg("part %u of %u of %llu: [%llu, +%llu), want start %llu",
				 i, parts, (unsigned long long)count,
				 (unsigned long long)r.start,
				 (unsigned long long)r.count,
				 (unsigned long long)pos);
		if (r.count && r.start % grain)
			fail_msg("part %u of %u of %llu starts inside a grain", i,
				 parts, (unsigned long long)count);
		pos += r.count;
		if (r.count % grain && pos != count)
			fail_msg("part %u of %u of %llu ends inside a grain", i,
				 parts, (unsigned long long)count);
		if (grains > previous)
			fail_msg("part %u of %u of %llu is larger than the one before",
				 i, parts, (unsigned long long)count);
		previous = grains;
		smallest = grains < smallest ? grains : smallest;
		largest = grains > largest ? grains : largest;
	}
	assert_true(pos == count);
	assert_true(largest - smallest <= 1);
}

static void test_split_small(void **state)
{
	static const u32 grains[] = { 1, 8, 16, 64 };
	u64 count;
	size_t g;
	u32 parts;

	(void)state;
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		u64 most = 130 + 3 * grains[g];

		for (parts = 1; parts <= ALLREDUCE_SIZE_MAX; parts++) {
			for (count = 0; count <= most; count++)
				check_split(count, parts, grains[g]);
		}
	}
}

/* Mostly near powers of two and multiples of parts * grain. */
static u64 large_count(uint64_t *rnd, u32 parts, u32 grain)
{
	u64 count = random_u64(rnd) >> random_below(rnd, 60);
	u64 whole = (u64)parts * grain;

	switch (random_below(rnd, 4)) {
	case 0:
		count = 1ULL << random_below(rnd, 61);
		count += random_below(rnd, 5);
		count -= 2;
		break;
	case 1:
		count -= count % whole;
		count += random_below(rnd, 3);
		break;
	case 2:
		count = ALLREDUCE_COUNT_MAX - random_below(rnd, 3 * whole);
		break;
	}
	return count % (ALLREDUCE_COUNT_MAX + 1);
}

static void test_split_large(void **state)
{
	uint64_t rnd = 1;
	int i;

	(void)state;
	for (i = 0; i < 20000; i++) {
		u32 grain = 1U << random_below(&rnd, 7);
		u32 parts = 1 + random_below(&rnd, ALLREDUCE_SIZE_MAX);

		check_split(large_count(&rnd, parts, grain), parts, grain);
	}
	check_split(ALLREDUCE_COUNT_MAX, ALLREDUCE_SIZE_MAX, 8);
	check_split(ALLREDUCE_COUNT_MAX - 1, ALLREDUCE_SIZE_MAX, 64);
}

/*
 * One job: the lanes' stripes cover the vector, the chunks of each cover the
 * stripe, and every boundary is on a grain of 64 bytes.
 */
static void check_job(u64 count, u32 bytes, u64 job, u32 lanes, u32 size)
{
	bool striped = (u128)count * bytes >= (u128)lanes * AR_STRIPE_BYTES_MIN;
	u128 pos = 0, in_stripe;
	u32 lane, chunk, used = 0;

	for (lane = 0; lane < lanes; lane++) {
		struct ar_range s = ar_stripe(count, bytes, job, lanes, lane);
		bool is_used = ar_lane_used(count, bytes, job, lanes, lane);

		used += is_used;
		if (s.count)
			assert_true(is_used);
		else
			assert_int_equal(is_used,
					 lane == ar_primary_lane(job, lanes));
		if (!s.count)
			continue;
		assert_true(s.start == pos);
		assert_int_equal((u128)s.start * bytes % AR_GRAIN_BYTES, 0);
		pos += s.count;

		in_stripe = s.start;
		for (chunk = 0; chunk < size; chunk++) {
			struct ar_range c = ar_chunk(s, bytes, size, chunk);

			assert_true(c.start == in_stripe);
			in_stripe += c.count;
			if (c.count)
				assert_int_equal((u128)c.start * bytes %
						 AR_GRAIN_BYTES, 0);
		}
		assert_true(in_stripe == (u128)s.start + s.count);
	}
	assert_true(pos == count);
	assert_int_equal(used, striped ? lanes : 1);
}

static void test_primary_lane(void **state)
{
	u32 lanes, i;
	u64 job;

	(void)state;
	for (lanes = 1; lanes <= ALLREDUCE_LANES_MAX; lanes++) {
		for (job = UINT64_MAX - 40; job != 100; job++)
			assert_true(ar_primary_lane(job, lanes) < lanes);
		/* Consecutive jobs take different lanes, each in its turn. */
		for (i = 0; i < lanes; i++)
			assert_int_equal(ar_primary_lane(1 + i, lanes),
					 (1 + i) % lanes);
	}
}

/* Counts around zero and around the size from which a job is striped. */
static void test_job_small(void **state)
{
	u32 lanes, size;
	u64 count, edge;
	size_t e;

	(void)state;
	for (e = 0; e < ARRAY_SIZE(element_sizes); e++) {
		u32 bytes = element_sizes[e];

		for (lanes = 1; lanes <= ALLREDUCE_LANES_MAX; lanes++) {
			edge = (u64)lanes * AR_STRIPE_BYTES_MIN / bytes;
			for (size = 1; size <= ALLREDUCE_SIZE_MAX; size++) {
				for (count = 0; count < 5; count++)
					check_job(count, bytes, count + size,
						  lanes, size);
				for (count = edge - 2; count < edge + 3; count++)
					check_job(count, bytes, size, lanes, size);
			}
		}
	}
}

static void test_job_threshold(void **state)
{
	const u64 edge = 4 * AR_STRIPE_BYTES_MIN / 4;
	u32 lane;

	(void)state;
	for (lane = 0; lane < 4; lane++) {
		struct ar_range below = ar_stripe(edge - 1, 4, 2, 4, lane);
		struct ar_range at = ar_stripe(edge, 4, 2, 4, lane);

		assert_int_equal(below.count, lane == 2 ? edge - 1 : 0);
		assert_int_equal(at.count, edge / 4);
		assert_int_equal(at.start, lane * edge / 4);
	}
}

static void test_job_large(void **state)
{
	uint64_t rnd = 2;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		u32 bytes = element_sizes[random_below(&rnd, 4)];
		u32 lanes = 1 + random_below(&rnd, ALLREDUCE_LANES_MAX);
		u32 size = 1 + random_below(&rnd, ALLREDUCE_SIZE_MAX);

		check_job(large_count(&rnd, lanes * size, ar_grain(bytes)), bytes,
			  random_u64(&rnd), lanes, size);
	}
	/* Just over 2^32 bytes and elements, where a 32-bit product would wrap. */
	for (i = -3; i <= 3; i++) {
		check_job((1ULL << 32) + i, 4, 1, 4, 5);
		check_job((1ULL << 30) + i, 4, 1, 4, 5);
		check_job((1ULL << 29) + i, 8, 7, 3, 64);
	}
	check_job(ALLREDUCE_COUNT_MAX, 8, 1, 16, 64);
	check_job(ALLREDUCE_COUNT_MAX, 8, 1, 1, 1);
}

static void check_frames(u64 bytes, u32 frame_max)
{
	u64 frames = ar_frames(bytes, frame_max);

	assert_true(frames >= 1);
	assert_true((u128)frames * frame_max >= bytes);
	if (frames > 1)
		assert_true((u128)(frames - 1) * frame_max < bytes);
}

static void test_frames(void **state)
{
	uint64_t rnd = 3;
	u32 frame_max;
	u64 bytes;
	int i;

	(void)state;
	assert_int_equal(ar_frames(0, 65536), 1);
	assert_int_equal(ar_frames(1, 65536), 1);
	assert_int_equal(ar_frames(65536, 65536), 1);
	assert_int_equal(ar_frames(65537, 65536), 2);
	for (frame_max = 64; frame_max <= 256; frame_max += 64) {
		for (bytes = 0; bytes < 2000; bytes++)
			check_frames(bytes, frame_max);
	}
	for (i = 0; i < 10000; i++) {
		frame_max = ALLREDUCE_FRAME_MAX_MIN +
			    64 * random_below(&rnd, 16320);
		assert_true(frame_max <= ALLREDUCE_FRAME_MAX_MAX);
		check_frames(random_u64(&rnd) >> random_below(&rnd, 64),
			     frame_max);
	}
	check_frames(ALLREDUCE_COUNT_MAX * 8, ALLREDUCE_FRAME_MAX_MIN);
	check_frames(UINT64_MAX, ALLREDUCE_FRAME_MAX_MIN);
}

static void test_grain(void **state)
{
	size_t e;

	(void)state;
	for (e = 0; e < ARRAY_SIZE(element_sizes); e++)
		assert_int_equal(ar_grain(element_sizes[e]) * element_sizes[e],
				 AR_GRAIN_BYTES);
	/* A frame's bounds are on grains too, if it starts on one. */
	assert_int_equal(ALLREDUCE_FRAME_MAX_MIN % AR_GRAIN_BYTES, 0);
	assert_int_equal(ALLREDUCE_FRAME_MAX_MAX % AR_GRAIN_BYTES, 0);
	assert_int_equal(ALLREDUCE_FRAME_MAX_DEFAULT % AR_GRAIN_BYTES, 0);
}

/*
 * Two members must split alike whatever they were built from, so the splits
 * themselves are protocol: these figures were worked out by hand.
 */
static void test_splits_are_protocol(void **state)
{
	static const struct ar_range thirds[] = {
		/* 1000 f32 are 63 grains of 16: 21 each, the last one short. */
		{ 0, 336 }, { 336, 336 }, { 672, 328 },
	};
	static const struct ar_range fifths[] = {
		/* 50 f64 are 7 grains of 8: 2, 2, 1, 1, 1. */
		{ 0, 16 }, { 16, 16 }, { 32, 8 }, { 40, 8 }, { 48, 2 },
	};
	const struct ar_range f32 = { 0, 1000 }, f64 = { 640, 50 };
	u32 i;

	(void)state;
	assert_int_equal(AR_GRAIN_BYTES, 64);
	assert_int_equal(AR_STRIPE_BYTES_MIN, 65536);
	for (i = 0; i < ARRAY_SIZE(thirds); i++) {
		struct ar_range c = ar_chunk(f32, 4, 3, i);

		assert_int_equal(c.start, thirds[i].start);
		assert_int_equal(c.count, thirds[i].count);
	}
	for (i = 0; i < ARRAY_SIZE(fifths); i++) {
		struct ar_range c = ar_chunk(f64, 8, 5, i);

		assert_int_equal(c.start, 640 + fifths[i].start);
		assert_int_equal(c.count, fifths[i].count);
	}
}

static void test_neighbours(void **state)
{
	u32 size, rank;

	(void)state;
	for (size = 1; size <= ALLREDUCE_SIZE_MAX; size++) {
		for (rank = 0; rank < size; rank++) {
			assert_int_equal(ar_next(rank, size), (rank + 1) % size);
			assert_int_equal(ar_prev(rank, size),
					 (rank + size - 1) % size);
		}
	}
}

/* What one member did with the chunks of a ring. */
struct member_log {
	u32 sent;
	u32 reduced[ALLREDUCE_SIZE_MAX];	/* by chunk */
	u32 completed[ALLREDUCE_SIZE_MAX];	/* REDUCE_FINAL, by chunk */
	u32 delivered[ALLREDUCE_SIZE_MAX];	/* any delivery, by chunk */
};

/*
 * Let chunk @chunk travel: from its injection, by what ar_action() says, until
 * a member does not send it on.
 */
static void travel(u32 chunk, u32 size, struct member_log *log)
{
	u32 order[ALLREDUCE_SIZE_MAX + 1], terms = 0, hops = 0, i;
	enum ar_phase phase = AR_PHASE_REDUCE;
	enum ar_action action;
	u32 rank = chunk;

	order[terms++] = rank;
	log[rank].sent++;
	do {
		assert_true(++hops <= 2 * (size - 1));
		rank = ar_next(rank, size);
		action = ar_action(phase, chunk, rank, size);
		switch (action) {
		case AR_REDUCE:
		case AR_REDUCE_FINAL:
			assert_int_equal(phase, AR_PHASE_REDUCE);
			assert_true(terms < size);
			order[terms++] = rank;
			log[rank].reduced[chunk]++;
			if (action == AR_REDUCE)
				break;
			log[rank].completed[chunk]++;
			log[rank].delivered[chunk]++;
			phase = AR_PHASE_FINAL;
			break;
		case AR_DELIVER_FORWARD:
		case AR_DELIVER:
			assert_int_equal(phase, AR_PHASE_FINAL);
			log[rank].delivered[chunk]++;
			break;
		default:
			fail_msg("chunk %u refused at rank %u of %u", chunk, rank,
				 size);
		}
		log[rank].sent += ar_action_sends(action);
	} while (ar_action_sends(action));

	assert_int_equal(action, AR_DELIVER);
	assert_int_equal(hops, 2 * (size - 1));
	/* The fixed order of summation: c, c + 1, ..., c - 1. */
	assert_int_equal(terms, size);
	for (i = 0; i < size; i++)
		assert_int_equal(order[i], (chunk + i) % size);
}

static void test_travel(void **state)
{
	u32 size, rank, chunk;

	(void)state;
	for (size = 2; size <= ALLREDUCE_SIZE_MAX; size++) {
		struct member_log log[ALLREDUCE_SIZE_MAX] = { 0 };

		for (chunk = 0; chunk < size; chunk++)
			travel(chunk, size, log);
		for (rank = 0; rank < size; rank++) {
			assert_int_equal(log[rank].sent, 2 * (size - 1));
			for (chunk = 0; chunk < size; chunk++) {
				assert_int_equal(log[rank].reduced[chunk],
						 chunk != rank);
				assert_int_equal(log[rank].completed[chunk],
						 chunk == (rank + 1) % size);
				assert_int_equal(log[rank].delivered[chunk], 1);
			}
		}
	}
}

/* Every frame that no correct prev sends is refused; all others are not. */
static void test_refused(void **state)
{
	static const int phases[] = { 0, 3, 4, 127, 255 };
	u32 size, rank, chunk;
	size_t i;

	(void)state;
	for (size = 1; size <= ALLREDUCE_SIZE_MAX; size++) {
		for (rank = 0; rank < size; rank++) {
			for (chunk = 0; chunk < size + 3; chunk++) {
				bool bad = size == 1 || chunk >= size;
				bool own = rank == chunk;
				bool last = (rank + 1) % size == chunk;

				assert_int_equal(ar_action(AR_PHASE_REDUCE, chunk,
							   rank, size) == AR_REFUSE,
						 bad || own);
				assert_int_equal(ar_action(AR_PHASE_FINAL, chunk,
							   rank, size) == AR_REFUSE,
						 bad || last);
				for (i = 0; i < ARRAY_SIZE(phases); i++)
					assert_int_equal(ar_action(phases[i], chunk,
								   rank, size),
							 AR_REFUSE);
			}
			assert_int_equal(ar_action(AR_PHASE_REDUCE, UINT32_MAX,
						   rank, size), AR_REFUSE);
			assert_int_equal(ar_action(AR_PHASE_FINAL, UINT32_MAX,
						   rank, size), AR_REFUSE);
		}
	}
}

static void test_sends(void **state)
{
	(void)state;
	assert_false(ar_action_sends(AR_REFUSE));
	assert_true(ar_action_sends(AR_REDUCE));
	assert_true(ar_action_sends(AR_REDUCE_FINAL));
	assert_true(ar_action_sends(AR_DELIVER_FORWARD));
	assert_false(ar_action_sends(AR_DELIVER));
}

/*
 * A whole ring in one process: real vectors, cut by partition.h, travel as
 * frames; links deliver in order, members take turns at random.
 */
#define MODEL_SIZE_MAX	6
#define MODEL_QUEUE	4096

struct model_frame {
	enum ar_phase phase;
	u32 chunk;
	u64 offset;		/* elements from the chunk's start */
	u64 count;
	float *data;
};

struct model_link {
	struct model_frame queue[MODEL_QUEUE];
	u32 head, tail;
};

struct model {
	u32 size;
	u64 count;
	u32 frame_max;
	struct ar_range stripe;
	float *in[MODEL_SIZE_MAX];
	float *out[MODEL_SIZE_MAX];
	u64 sent[MODEL_SIZE_MAX];	/* elements */
	struct model_link to[MODEL_SIZE_MAX];	/* link into this member */
};

static void model_send(struct model *m, u32 rank, struct model_frame f)
{
	struct model_link *link = &m->to[ar_next(rank, m->size)];

	assert_true(link->tail < MODEL_QUEUE);
	link->queue[link->tail++] = f;
	m->sent[rank] += f.count;
}

static void model_inject(struct model *m, u32 rank)
{
	struct ar_range c = ar_chunk(m->stripe, sizeof(float), m->size, rank);
	u64 frames = ar_frames(c.count * sizeof(float), m->frame_max), i;
	u64 step = m->frame_max / sizeof(float);

	for (i = 0; i < frames; i++) {
		struct model_frame f = {
			.phase = AR_PHASE_REDUCE, .chunk = rank,
			.offset = i * step,
			.count = min_t(u64, step, c.count - i * step),
		};

		f.data = malloc(f.count * sizeof(float) + 1);
		assert_non_null(f.data);
		memcpy(f.data, m->in[rank] + c.start + f.offset,
		       f.count * sizeof(float));
		model_send(m, rank, f);
	}
}

static void model_receive(struct model *m, u32 rank)
{
	struct model_link *link = &m->to[rank];
	struct model_frame f = link->queue[link->head++];
	enum ar_action action = ar_action(f.phase, f.chunk, rank, m->size);
	struct ar_range c = ar_chunk(m->stripe, sizeof(float), m->size, f.chunk);
	u64 at = c.start + f.offset, i;

	assert_int_not_equal(action, AR_REFUSE);
	assert_true(f.offset + f.count <= c.count);
	if (action == AR_REDUCE || action == AR_REDUCE_FINAL) {
		for (i = 0; i < f.count; i++)
			f.data[i] += m->in[rank][at + i];
	}
	if (action != AR_REDUCE)
		memcpy(m->out[rank] + at, f.data, f.count * sizeof(float));
	if (action == AR_REDUCE_FINAL)
		f.phase = AR_PHASE_FINAL;
	if (ar_action_sends(action))
		model_send(m, rank, f);
	else
		free(f.data);
}

/* One stripe, until every link is empty. */
static void model_run_stripe(struct model *m, uint64_t *rnd)
{
	bool injected[MODEL_SIZE_MAX] = { false };
	u32 idle = 0, rank;

	memset(m->to, 0, sizeof(m->to));
	for (rank = random_below(rnd, m->size); idle < 4 * m->size;
	     rank = random_below(rnd, m->size)) {
		if (!injected[rank] && random_below(rnd, 2)) {
			injected[rank] = true;
			model_inject(m, rank);
			idle = 0;
		} else if (m->to[rank].head < m->to[rank].tail) {
			model_receive(m, rank);
			idle = 0;
		} else {
			idle++;
		}
	}
	/* The draw may have ended early: finish in rank order. */
	for (idle = 0, rank = 0; idle < m->size; rank = ar_next(rank, m->size)) {
		if (!injected[rank]) {
			injected[rank] = true;
			model_inject(m, rank);
			idle = 0;
		} else if (m->to[rank].head < m->to[rank].tail) {
			model_receive(m, rank);
			idle = 0;
		} else {
			idle++;
		}
	}
}

/* The fixed-order sum, computed without the ring. */
static float model_reference(const struct model *m, u64 i, u32 chunk)
{
	float sum = m->in[chunk][i];
	u32 k;

	for (k = 1; k < m->size; k++)
		sum += m->in[(chunk + k) % m->size][i];
	return sum;
}

static void model_check_stripe(const struct model *m)
{
	u32 chunk, rank;
	u64 i;

	for (chunk = 0; chunk < m->size; chunk++) {
		struct ar_range c = ar_chunk(m->stripe, sizeof(float), m->size,
					     chunk);

		for (i = c.start; i < c.start + c.count; i++) {
			float want = model_reference(m, i, chunk);

			for (rank = 0; rank < m->size; rank++) {
				if (memcmp(&want, &m->out[rank][i], sizeof(want)))
					fail_msg("size %u count %llu: element %llu of rank %u",
						 m->size,
						 (unsigned long long)m->count,
						 (unsigned long long)i, rank);
			}
		}
	}
}

static void model_run(struct model *m, u32 size, u64 count, u32 lanes, u64 job,
		      u32 frame_max, uint64_t *rnd)
{
	u32 rank, lane;
	u64 i, sent = 0;

	m->size = size;
	m->count = count;
	m->frame_max = frame_max;
	for (rank = 0; rank < size; rank++) {
		m->in[rank] = malloc(count * sizeof(float) + 1);
		m->out[rank] = malloc(count * sizeof(float) + 1);
		assert_non_null(m->in[rank]);
		assert_non_null(m->out[rank]);
		m->sent[rank] = 0;
		/* Mixed magnitudes, so that another order gives other bits. */
		for (i = 0; i < count; i++) {
			m->in[rank][i] = (float)(int32_t)random_u64(rnd) *
				(1U << random_below(rnd, 20)) / 1e7f;
			m->out[rank][i] = -1;
		}
	}
	for (lane = 0; lane < lanes; lane++) {
		if (!ar_lane_used(count, sizeof(float), job, lanes, lane))
			continue;
		m->stripe = ar_stripe(count, sizeof(float), job, lanes, lane);
		model_run_stripe(m, rnd);
		model_check_stripe(m);
	}
	for (rank = 0; rank < size; rank++) {
		sent += m->sent[rank];
		free(m->in[rank]);
		free(m->out[rank]);
	}
	/* The bandwidth bound: 2(N-1)/N of the vector a member, on average. */
	assert_int_equal(sent, 2 * (u64)(size - 1) * count);
}

static void test_model(void **state)
{
	static const u64 counts[] = { 0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 63, 64,
				      65, 80, 81, 100, 257, 1000, 4099 };
	struct model *m = malloc(sizeof(*m));
	uint64_t rnd = 4;
	size_t i;
	u32 size;

	(void)state;
	assert_non_null(m);
	for (size = 2; size <= MODEL_SIZE_MAX; size++) {
		for (i = 0; i < ARRAY_SIZE(counts); i++)
			model_run(m, size, counts[i], 3, i, 64 << (i % 3), &rnd);
		/* Striped over three lanes, and short of an even split. */
		model_run(m, size, 3 * AR_STRIPE_BYTES_MIN / 4 + 7, 3, 1, 4096,
			  &rnd);
	}
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_small),
		cmocka_unit_test(test_split_large),
		cmocka_unit_test(test_primary_lane),
		cmocka_unit_test(test_job_small),
		cmocka_unit_test(test_job_threshold),
		cmocka_unit_test(test_job_large),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_grain),
		cmocka_unit_test(test_splits_are_protocol),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_travel),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sends),
		cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
