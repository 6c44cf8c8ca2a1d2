// SPDX-License-Identifier: GPL-2.0
/*
 * Who carries what: every boundary and every role of partition.h. What follows
 * from them for a job's result is in test-ring.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition.h"
#include "unit.h"

#include <linux/allreduce.h>

typedef unsigned __int128 u128;

static const u32 element_sizes[] = { 1, 2, 4, 8 };
static const u32 some_sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 63, 64 };
static const u32 some_lanes[] = { 1, 2, 3, 4, 8, 15, 16 };

static const u8 collectives[] = {
#define X(NAME, name, value, src, dst, reduces)	ALLREDUCE_COLLECTIVE_##NAME,
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
};

static const char *collective_name(u8 collective)
{
	switch (collective) {
#define X(NAME, name, value, src, dst, reduces) \
	case ALLREDUCE_COLLECTIVE_##NAME: \
		return #name;
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	}
	return "?";
}

static bool has_root(u8 collective)
{
	return collective == ALLREDUCE_COLLECTIVE_BROADCAST ||
	       collective == ALLREDUCE_COLLECTIVE_REDUCE;
}

static bool has_blocks(u8 collective)
{
	return collective == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER ||
	       collective == ALLREDUCE_COLLECTIVE_ALLGATHER;
}

/* A call on a ring: the arguments of ar_plan_init(). */
struct call {
	u8 collective;
	u32 element_bytes;
	u64 count;
	u32 root;
	u32 size;
	u32 lanes;
	u32 frame_max;
	u32 gather_max;
};

static struct ar_plan plan_of(const struct call *c)
{
	struct ar_plan plan;

	ar_plan_init(&plan, c->collective, c->count, c->element_bytes, c->root,
		     c->size, c->lanes, c->frame_max, c->gather_max);
	return plan;
}

#define fail_call(c, fmt, ...) \
	fail_msg("%s of %llu x %u bytes, root %u, %u members, %u lanes: " fmt, \
		 collective_name((c)->collective), (unsigned long long)(c)->count, \
		 (c)->element_bytes, (c)->root, (c)->size, (c)->lanes, __VA_ARGS__)

/* The largest count that a call can have. */
static u64 count_max(u8 collective, u32 size)
{
	if (collective == ALLREDUCE_COLLECTIVE_BARRIER)
		return 0;
	return has_blocks(collective) ? ALLREDUCE_COUNT_MAX / size :
	       ALLREDUCE_COUNT_MAX;
}

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

/* ---- chunks and pieces ---------------------------------------------------- */

/* The pieces of a chunk on all used lanes cover it, in grains from its start. */
static void check_pieces(const struct call *c, const struct ar_plan *plan, u32 chunk)
{
	struct ar_range whole = ar_plan_chunk(plan, chunk);
	u32 grain = ar_grain(c->element_bytes), lane;
	u64 smallest = UINT64_MAX, largest = 0;
	u128 pos = 0;

	for (lane = 0; lane < plan->lanes; lane++) {
		struct ar_range p = ar_plan_piece(plan, chunk, lane);
		u64 grains = p.count / grain + (p.count % grain != 0);

		if (p.start != pos || (p.count && p.start % grain))
			fail_call(c, "chunk %u on lane %u starts at %llu", chunk,
				  lane, (unsigned long long)p.start);
		pos += p.count;
		smallest = grains < smallest ? grains : smallest;
		largest = grains > largest ? grains : largest;
	}
	if (pos != whole.count || largest - smallest > 1)
		fail_call(c, "chunk %u is not cut evenly over the lanes", chunk);
}

/* Where chunk @chunk must be, from the words of partition.h alone. */
static bool chunk_is_right(const struct call *c, const struct ar_plan *plan,
			   u32 chunk, struct ar_range r, u128 pos)
{
	u32 grain = ar_grain(c->element_bytes);

	switch (c->collective) {
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
	case ALLREDUCE_COLLECTIVE_ALLGATHER:
		return r.start == pos && r.count == c->count;
	case ALLREDUCE_COLLECTIVE_BROADCAST:
	case ALLREDUCE_COLLECTIVE_REDUCE:
		return chunk == c->root && !r.start && r.count == c->count;
	case ALLREDUCE_COLLECTIVE_BARRIER:
		return !r.start && !r.count;
	}
	if (plan->copies)
		return r.start == pos && r.count == c->count;
	if (c->count % c->size == 0)
		return r.start == pos && r.count == c->count / c->size;
	/* Its size is check_split()'s business. */
	return r.start == pos && (!r.count || r.start % grain == 0);
}

static void check_chunks(const struct call *c, const struct ar_plan *plan)
{
	u128 pos = 0, bytes;
	u32 chunk, n = 0;

	for (chunk = 0; chunk < c->size; chunk++) {
		struct ar_range r;

		if (!ar_plan_has_chunk(plan, chunk))
			continue;
		r = ar_plan_chunk(plan, chunk);
		if (!chunk_is_right(c, plan, chunk, r, pos))
			fail_call(c, "chunk %u is [%llu, +%llu)", chunk,
				  (unsigned long long)r.start,
				  (unsigned long long)r.count);
		pos += r.count;
		n++;
		check_pieces(c, plan, chunk);
	}
	assert_int_equal(n, has_root(c->collective) ? 1 : c->size);
	if (has_blocks(c->collective) || plan->copies)
		assert_true(pos == (u128)c->count * c->size);
	else
		assert_true(pos == c->count);
	bytes = pos * c->element_bytes;
	assert_true(bytes == ar_plan_bytes(plan));
	if (plan->layout == AR_LAYOUT_SPLIT && c->count % c->size)
		check_split(c->count, c->size, ar_grain(c->element_bytes));

	if (!plan->copies && bytes >= (u128)c->lanes * AR_STRIPE_BYTES_MIN)
		assert_int_equal(plan->lanes, c->lanes);
	else
		assert_int_equal(plan->lanes, 1);
}

static void check_call(const struct call *c)
{
	struct ar_plan plan = plan_of(c);

	check_chunks(c, &plan);
}

/* Counts around zero, the ring's size, a grain, and the lanes' threshold. */
static void check_counts(struct call *c)
{
	u32 blocks = has_blocks(c->collective) ? c->size : 1;
	u64 edges[] = {
		0, c->size, (u64)c->size * ar_grain(c->element_bytes),
		(u64)c->lanes * AR_STRIPE_BYTES_MIN / c->element_bytes / blocks,
		count_max(c->collective, c->size),
	};
	size_t e;
	u64 count;

	for (e = 0; e < ARRAY_SIZE(edges); e++) {
		for (count = edges[e] - 2; count != edges[e] + 3; count++) {
			if (count > count_max(c->collective, c->size))
				continue;
			c->count = count;
			check_call(c);
		}
	}
}

static void check_rings(u8 collective, u32 element_bytes)
{
	size_t s, l;

	for (s = 0; s < ARRAY_SIZE(some_sizes); s++) {
		for (l = 0; l < ARRAY_SIZE(some_lanes); l++) {
			struct call c = {
				.collective = collective,
				.element_bytes = element_bytes,
				.size = some_sizes[s], .lanes = some_lanes[l],
				.frame_max = 65536,
				.gather_max = l % 2 ? ALLREDUCE_GATHER_MAX_DEFAULT : 0,
			};

			if (has_root(collective))
				c.root = l % c.size;
			check_counts(&c);
		}
	}
}

static void test_calls_small(void **state)
{
	size_t i, e;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		for (e = 0; e < ARRAY_SIZE(element_sizes); e++)
			check_rings(collectives[i], element_sizes[e]);
	}
}

static void test_calls_large(void **state)
{
	uint64_t rnd = 2;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		struct call c = {
			.collective = collectives[random_below(&rnd,
						ARRAY_SIZE(collectives))],
			.element_bytes = element_sizes[random_below(&rnd, 4)],
			.size = 1 + random_below(&rnd, ALLREDUCE_SIZE_MAX),
			.lanes = 1 + random_below(&rnd, ALLREDUCE_LANES_MAX),
			.frame_max = ALLREDUCE_FRAME_MAX_MIN,
			.gather_max = random_below(&rnd, ALLREDUCE_GATHER_MAX_MAX),
		};

		if (has_root(c.collective))
			c.root = random_below(&rnd, c.size);
		c.count = large_count(&rnd, c.lanes * c.size,
				      ar_grain(c.element_bytes)) %
			  (count_max(c.collective, c.size) + 1);
		check_call(&c);
	}
}

static void check_around(u8 collective, u32 size, u32 shift)
{
	int off;

	for (off = -3; off <= 3; off++) {
		struct call c = {
			.collective = collective,
			.element_bytes = element_sizes[shift % 4],
			.count = (1ULL << shift) + off,
			.size = size, .lanes = 1 + shift % 5,
			.frame_max = 65536, .gather_max = 4096,
		};

		if (collective == ALLREDUCE_COLLECTIVE_BARRIER)
			c.count = 0;
		if (has_root(collective))
			c.root = size - 1;
		check_call(&c);
	}
}

/* Around 2^32 bytes and elements, in all and in a part, products could wrap. */
static void test_calls_around_4g(void **state)
{
	static const u32 sizes[] = { 2, 3, 4, 5, 64 };
	size_t i, s;
	u32 shift;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		for (s = 0; s < ARRAY_SIZE(sizes); s++) {
			for (shift = 26; shift <= 38; shift++)
				check_around(collectives[i], sizes[s], shift);
		}
	}
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

static u32 lanes_used(u8 collective, u64 count, u32 gather_max)
{
	struct call c = {
		.collective = collective, .element_bytes = 4, .count = count,
		.size = 8, .lanes = 4, .frame_max = 65536, .gather_max = gather_max,
	};

	return plan_of(&c).lanes;
}

/* 4 x 64 KiB of all chunks: 65536 elements of a vector, 8192 of a block. */
static void test_lanes_threshold(void **state)
{
	(void)state;
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_ALLREDUCE, 65535, 0), 1);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_ALLREDUCE, 65536, 0), 4);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_BROADCAST, 65535, 0), 1);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_BROADCAST, 65536, 0), 4);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_REDUCE, 65535, 0), 1);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_REDUCE, 65536, 0), 4);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 8191, 0), 1);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 8192, 0), 4);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_ALLGATHER, 8191, 0), 1);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_ALLGATHER, 8192, 0), 4);
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_BARRIER, 0, 0), 1);
	/* What is copied goes whole on one lane, however many copies there are. */
	assert_int_equal(lanes_used(ALLREDUCE_COLLECTIVE_ALLREDUCE, 16384, 65536), 1);
}

static bool takes_gather_path(u8 collective, u64 count, u32 bytes, u32 size,
			      u32 gather_max)
{
	struct call c = {
		.collective = collective, .element_bytes = bytes, .count = count,
		.size = size, .lanes = 2, .frame_max = 4096,
		.gather_max = gather_max,
	};
	struct ar_plan plan = plan_of(&c);

	/* Its phases and its layout are those of an allgather without token. */
	if (plan.copies) {
		assert_int_equal(plan.layout, AR_LAYOUT_BLOCKS);
		assert_false(plan.reduce);
		assert_true(plan.gather);
		assert_false(plan.token);
	}
	return plan.copies;
}

/* Up to gather_max bytes, allreduce only, not alone. */
static void test_gather_threshold(void **state)
{
	const u8 allreduce = ALLREDUCE_COLLECTIVE_ALLREDUCE;
	size_t e, i;

	(void)state;
	for (e = 0; e < ARRAY_SIZE(element_sizes); e++) {
		u32 bytes = element_sizes[e];
		u64 edge = 4096 / bytes;

		assert_true(takes_gather_path(allreduce, edge - 1, bytes, 4, 4096));
		assert_true(takes_gather_path(allreduce, edge, bytes, 4, 4096));
		assert_false(takes_gather_path(allreduce, edge + 1, bytes, 4, 4096));
		assert_false(takes_gather_path(allreduce, edge, bytes, 4, 4095));
		assert_false(takes_gather_path(allreduce, 1, bytes, 4, 0));
		assert_false(takes_gather_path(allreduce, 1, bytes, 1, 4096));
		assert_false(takes_gather_path(allreduce, ALLREDUCE_COUNT_MAX, bytes,
					       4, ALLREDUCE_GATHER_MAX_MAX));
		/* 2^32 bytes: not 0 of them. */
		assert_false(takes_gather_path(allreduce, (1ULL << 32) / bytes,
					       bytes, 4, 4096));
	}
	/* There is nothing to copy of an empty one. */
	assert_true(takes_gather_path(allreduce, 0, 4, 4, 0));
	for (i = 0; i < ARRAY_SIZE(collectives); i++)
		assert_int_equal(takes_gather_path(collectives[i], 0, 4, 4, 4096),
				 collectives[i] == allreduce);
}

/* With equal chunks reduce_scatter and allgather have allreduce's. */
static void test_equal_chunks(void **state)
{
	static const u64 counts[] = { 1, 2, 3, 5, 7, 15, 16, 17, 1000, 65537 };
	u32 size, chunk;
	size_t i;

	(void)state;
	for (size = 2; size <= ALLREDUCE_SIZE_MAX; size++) {
		for (i = 0; i < ARRAY_SIZE(counts); i++) {
			struct call whole = {
				.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
				.element_bytes = 4, .count = counts[i] * size,
				.size = size, .lanes = 4, .frame_max = 65536,
			};
			struct call block = whole;
			struct ar_plan a, b;

			block.collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER;
			block.count = counts[i];
			a = plan_of(&whole);
			b = plan_of(&block);
			for (chunk = 0; chunk < size; chunk++) {
				struct ar_range x = ar_plan_chunk(&a, chunk);
				struct ar_range y = ar_plan_chunk(&b, chunk);

				assert_int_equal(x.start, y.start);
				assert_int_equal(x.count, y.count);
				assert_int_equal(x.count, counts[i]);
			}
		}
	}
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

static void expect_range(struct ar_range r, u64 start, u64 count)
{
	assert_int_equal(r.start, start);
	assert_int_equal(r.count, count);
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
		/* 51 f64 are 7 grains of 8: 2, 2, 1, 1, 1. */
		{ 0, 16 }, { 16, 16 }, { 32, 8 }, { 40, 8 }, { 48, 3 },
	};
	struct call f32 = {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE, .element_bytes = 4,
		.count = 1000, .size = 3, .lanes = 2, .frame_max = 4096,
	};
	struct call f64 = {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE, .element_bytes = 8,
		.count = 51, .size = 5, .lanes = 2, .frame_max = 4096,
	};
	struct call block = {
		.collective = ALLREDUCE_COLLECTIVE_ALLGATHER, .element_bytes = 2,
		.count = 50001, .size = 3, .lanes = 4, .frame_max = 4096,
	};
	struct ar_plan plan;
	u32 i;

	(void)state;
	assert_int_equal(AR_GRAIN_BYTES, 64);
	assert_int_equal(AR_STRIPE_BYTES_MIN, 65536);
	plan = plan_of(&f32);
	for (i = 0; i < 3; i++)
		expect_range(ar_plan_chunk(&plan, i), thirds[i].start,
			     thirds[i].count);
	plan = plan_of(&f64);
	for (i = 0; i < 5; i++)
		expect_range(ar_plan_chunk(&plan, i), fifths[i].start,
			     fifths[i].count);
	/* 50 of 5 are equal, wherever that cuts. */
	f64.count = 50;
	plan = plan_of(&f64);
	for (i = 0; i < 5; i++)
		expect_range(ar_plan_chunk(&plan, i), 10 * i, 10);
	/* 50 001 f16 are 1563 grains of 32: 391, 391, 391, 390, the last short. */
	plan = plan_of(&block);
	assert_int_equal(plan.lanes, 4);
	expect_range(ar_plan_chunk(&plan, 2), 100002, 50001);
	expect_range(ar_plan_piece(&plan, 2, 0), 0, 12512);
	expect_range(ar_plan_piece(&plan, 2, 1), 12512, 12512);
	expect_range(ar_plan_piece(&plan, 2, 2), 25024, 12512);
	expect_range(ar_plan_piece(&plan, 2, 3), 37536, 12465);
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

/* ---- roles ---------------------------------------------------------------- */

/* What the ranks of a ring did with the chunks of a call, on one lane. */
struct travel {
	const struct call *call;
	struct ar_plan plan;
	u32 lane;
	struct ar_work done[ALLREDUCE_SIZE_MAX];
	u32 reads[ALLREDUCE_SIZE_MAX][ALLREDUCE_SIZE_MAX];	/* [rank][chunk] */
	u32 writes[ALLREDUCE_SIZE_MAX][ALLREDUCE_SIZE_MAX];
	u32 tokens[ALLREDUCE_SIZE_MAX];				/* taken */
	u32 hops[ALLREDUCE_SIZE_MAX];				/* by chunk */
};

/* One frame to send stands for all of a phase: they go the same way. */
static u64 frames_of(const struct travel *t, enum ar_phase phase, u32 chunk)
{
	u64 bytes = ar_plan_piece(&t->plan, chunk, t->lane).count *
		    t->call->element_bytes;

	if (phase == AR_PHASE_TOKEN)
		return 1;
	return bytes ? (bytes + t->call->frame_max - 1) / t->call->frame_max : 1;
}

/* The token at the end of the way: to whose pages went out first, no farther. */
static void travel_token(struct travel *t, u32 chunk, u32 last, u32 first)
{
	u32 rank = ar_next(last, t->plan.size);

	assert_int_equal(rank, first);
	t->done[last].to_forward++;
	t->done[rank].to_receive++;
	t->hops[chunk]++;
	assert_int_equal(ar_plan_action(&t->plan, AR_PHASE_TOKEN, chunk, rank),
			 AR_TAKE_TOKEN);
	assert_false(ar_action_sends(AR_TAKE_TOKEN));
	t->tokens[rank]++;
}

/*
 * Let a chunk travel: from the rank that sends it first, by what
 * ar_plan_action() says, until a rank does not send it on.
 */
static void travel_chunk(struct travel *t, u32 chunk)
{
	const struct ar_plan *plan = &t->plan;
	u32 order[ALLREDUCE_SIZE_MAX], terms = 0, i;
	u32 first = ar_plan_first(plan, chunk), rank = first;
	enum ar_phase phase = plan->reduce ? AR_PHASE_REDUCE : AR_PHASE_GATHER;
	enum ar_action action;

	assert_int_equal(ar_plan_own_chunk(plan, rank), chunk);
	t->done[rank].to_inject += frames_of(t, phase, chunk);
	t->reads[rank][chunk]++;
	order[terms++] = rank;
	do {
		if (++t->hops[chunk] > 2 * (plan->size - 1))
			fail_call(t->call, "chunk %u goes around and around", chunk);
		rank = ar_next(rank, plan->size);
		action = ar_plan_action(plan, phase, chunk, rank);
		if (action == AR_REFUSE || action == AR_TAKE_TOKEN)
			fail_call(t->call, "chunk %u has action %d at rank %u",
				  chunk, action, rank);
		t->done[rank].to_receive += frames_of(t, phase, chunk);
		if (ar_action_sends(action))
			t->done[rank].to_forward += frames_of(t, phase, chunk);
		assert_int_equal(ar_action_reduces(action),
				 phase == AR_PHASE_REDUCE);
		if (ar_action_reduces(action)) {
			assert_true(terms < plan->size);
			order[terms++] = rank;
			t->reads[rank][chunk]++;
		}
		t->writes[rank][chunk] += ar_action_delivers(action);
		if (action != AR_REDUCE)
			phase = AR_PHASE_GATHER;
	} while (ar_action_sends(action));

	assert_int_equal(rank, ar_plan_last(plan, chunk));
	/* The fixed order of summation: c + 1, c + 2, ..., c. */
	assert_int_equal(terms, plan->reduce ? plan->size : 1);
	for (i = 0; i < terms && plan->reduce; i++)
		assert_int_equal(order[i], (chunk + 1 + i) % plan->size);
	if (plan->token)
		travel_token(t, chunk, rank, first);
	for (rank = 0; rank < plan->size; rank++)
		assert_int_equal(ar_plan_sends_token(plan, chunk, rank),
				 plan->token && ar_next(rank, plan->size) == first);
}

static u32 hops_of(const struct ar_plan *plan)
{
	u32 once = plan->size - 1;

	return once * (plan->reduce + plan->gather) + plan->token;
}

/* From the table of the uapi header: who takes part in what. */
static void check_travel_roles(const struct travel *t)
{
	const struct call *c = t->call;
	bool rooted = has_root(c->collective);
	u32 rank, chunk;

	for (chunk = 0; chunk < c->size; chunk++) {
		if (rooted && chunk != c->root) {
			assert_int_equal(t->hops[chunk], 0);
			continue;
		}
		assert_int_equal(t->hops[chunk], hops_of(&t->plan));
		for (rank = 0; rank < c->size; rank++) {
			/* All contribute to a sum, the owner to a copy. */
			assert_int_equal(t->reads[rank][chunk],
					 t->plan.reduce || rank == chunk);
			/* All get a copy but the owner, who has it; or only it. */
			assert_int_equal(t->writes[rank][chunk],
					 t->plan.gather ?
					 t->plan.reduce || rank != chunk :
					 rank == chunk);
		}
	}
	for (rank = 0; rank < c->size; rank++) {
		u32 first = t->plan.reduce ? (c->root + 1) % c->size : c->root;

		assert_int_equal(t->tokens[rank], t->plan.token &&
				 (!rooted || rank == first));
	}
}

static void check_travel_work(const struct travel *t)
{
	u32 rank;

	for (rank = 0; rank < t->plan.size; rank++) {
		struct ar_work work = ar_plan_work(&t->plan, rank, t->lane);

		assert_int_equal(work.to_inject, t->done[rank].to_inject);
		assert_int_equal(work.to_receive, t->done[rank].to_receive);
		assert_int_equal(work.to_forward, t->done[rank].to_forward);
		/* Every member hears of every call. */
		assert_true(work.to_receive >= 1);
		assert_true(work.to_inject + work.to_forward >= 1);
	}
}

/*
 * A cut of a rank's buffer that is made of its chunks: in order, without holes,
 * from the first element to the last.
 */
static void check_buffers(const struct travel *t)
{
	const struct call *c = t->call;
	u32 rank, chunk;

	for (rank = 0; rank < c->size; rank++) {
		struct allreduce_buffers b =
			allreduce_buffers(c->collective, c->count, rank, c->size,
					  c->root);
		bool keeps = t->plan.gather && !t->plan.reduce;
		u64 src = 0, dst = 0;

		for (chunk = 0; chunk < c->size; chunk++) {
			u64 count;

			if (!ar_plan_has_chunk(&t->plan, chunk))
				continue;
			count = ar_plan_chunk(&t->plan, chunk).count;
			if (t->reads[rank][chunk]) {
				assert_int_equal(ar_plan_src(&t->plan, chunk), src);
				src += count;
			}
			/* The owner of what it sends keeps a copy itself. */
			if (t->writes[rank][chunk] || (keeps && rank == chunk)) {
				assert_int_equal(ar_plan_dst(&t->plan, chunk), dst);
				dst += count;
			}
		}
		assert_int_equal(src, b.src);
		/* The gather path writes to all members' copies instead. */
		assert_int_equal(dst, t->plan.copies ? c->size * b.dst : b.dst);
		if (c->collective == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER)
			assert_int_equal(ar_plan_src(&t->plan, rank), b.dst_in_src);
		else if (c->collective == ALLREDUCE_COLLECTIVE_ALLGATHER)
			assert_int_equal(ar_plan_dst(&t->plan, rank), b.src_in_dst);
		else
			assert_int_equal(b.dst_in_src + b.src_in_dst, 0);
	}
}

/* Frames that pass through a rank for each that it injects: all are equal. */
static void check_share(const struct call *c)
{
	struct call same = *c;
	struct ar_plan plan;
	struct ar_work work;

	if (c->collective == ALLREDUCE_COLLECTIVE_BARRIER)
		same.count = 0;
	else
		same.count = (u64)c->size * 4096;
	plan = plan_of(&same);
	work = ar_plan_work(&plan, 0, 0);
	if (has_root(c->collective))
		assert_int_equal(ar_plan_share(&plan), 0);
	else
		assert_int_equal(ar_plan_share(&plan) * work.to_inject + plan.token,
				 work.to_forward);
}

static void check_travel(const struct call *c)
{
	static struct travel t;
	u32 lane, chunk;

	for (lane = 0; lane < plan_of(c).lanes; lane++) {
		memset(&t, 0, sizeof(t));
		t.call = c;
		t.plan = plan_of(c);
		t.lane = lane;
		for (chunk = 0; chunk < c->size; chunk++)
			if (ar_plan_has_chunk(&t.plan, chunk))
				travel_chunk(&t, chunk);
		check_travel_roles(&t);
		check_travel_work(&t);
		check_buffers(&t);
	}
	check_share(c);
}

/* The number of hops is what the paths are about. */
static void test_hops(void **state)
{
	static const struct {
		u8 collective;
		u32 gather_max;
		u32 hops[3];	/* of 2, 5 and 64 members */
	} rows[] = {
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, 0, { 2, 8, 126 } },
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, 4096, { 1, 4, 63 } },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 0, { 2, 5, 64 } },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, 0, { 2, 5, 64 } },
		{ ALLREDUCE_COLLECTIVE_BROADCAST, 0, { 2, 5, 64 } },
		{ ALLREDUCE_COLLECTIVE_REDUCE, 0, { 2, 5, 64 } },
		{ ALLREDUCE_COLLECTIVE_BARRIER, 0, { 1, 4, 63 } },
	};
	static const u32 sizes[] = { 2, 5, 64 };
	static struct travel t;
	size_t i, s;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (s = 0; s < ARRAY_SIZE(sizes); s++) {
			struct call c = {
				.collective = rows[i].collective,
				.element_bytes = 4, .size = sizes[s], .lanes = 1,
				.frame_max = 4096,
				.gather_max = rows[i].gather_max,
			};

			if (c.collective != ALLREDUCE_COLLECTIVE_BARRIER)
				c.count = 100;
			memset(&t, 0, sizeof(t));
			t.call = &c;
			t.plan = plan_of(&c);
			travel_chunk(&t, 0);
			assert_int_equal(t.hops[0], rows[i].hops[s]);
		}
	}
}

static void check_travels(u8 collective, u64 count, u32 gather_max)
{
	struct call c = {
		.collective = collective, .lanes = 3, .frame_max = 4096,
		.gather_max = gather_max,
	};

	if (collective != ALLREDUCE_COLLECTIVE_BARRIER)
		c.count = count;
	for (c.size = 2; c.size <= ALLREDUCE_SIZE_MAX; c.size++) {
		u32 roots = has_root(collective) ? c.size : 1;

		c.element_bytes = element_sizes[(c.size + count) % 4];
		for (c.root = 0; c.root < roots; c.root++)
			check_travel(&c);
	}
}

static void test_travel(void **state)
{
	static const u64 counts[] = { 0, 1, 63, 5002 };
	size_t i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		for (n = 0; n < ARRAY_SIZE(counts); n++) {
			check_travels(collectives[i], counts[n], 0);
			check_travels(collectives[i], counts[n], 4096);
		}
	}
}

static void check_travel_large(u8 collective, u64 bytes, u32 element_bytes)
{
	static const u32 sizes[] = { 2, 3, 5, 64 };
	size_t s;

	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		struct call c = {
			.collective = collective, .size = sizes[s],
			.lanes = 3, .frame_max = 65536, .gather_max = 4096,
			.element_bytes = element_bytes,
		};

		if (collective != ALLREDUCE_COLLECTIVE_BARRIER)
			c.count = bytes / element_bytes;
		if (has_root(collective))
			c.root = s % c.size;
		check_travel(&c);
	}
}

/* On several lanes, and beyond what 32 bits hold. */
static void test_travel_large(void **state)
{
	static const u64 bytes[] = { 3 * 65536 - 1, 3 * 65536, 1000003,
				     (1ULL << 32) + 5, 1ULL << 45 };
	size_t i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		for (n = 0; n < ARRAY_SIZE(bytes); n++)
			check_travel_large(collectives[i], bytes[n],
					   element_sizes[n % 4]);
	}
}

/* A ring of one has nothing to do with anybody. */
static void test_alone(void **state)
{
	struct call c = { .element_bytes = 4, .size = 1, .lanes = 4,
			  .frame_max = 4096, .gather_max = 4096 };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		struct ar_plan plan;
		struct ar_work work;
		u32 phase;

		c.collective = collectives[i];
		c.count = c.collective == ALLREDUCE_COLLECTIVE_BARRIER ? 0 : 5;
		plan = plan_of(&c);
		work = ar_plan_work(&plan, 0, 0);
		assert_int_equal(work.to_inject, 0);
		assert_int_equal(work.to_receive, 0);
		assert_int_equal(work.to_forward, 0);
		assert_false(plan.copies);
		for (phase = 0; phase < 6; phase++)
			assert_int_equal(ar_plan_action(&plan, phase, 0, 0),
					 AR_REFUSE);
		expect_range(ar_plan_chunk(&plan, 0), 0, c.count);
		assert_int_equal(ar_plan_src(&plan, 0), 0);
		assert_int_equal(ar_plan_dst(&plan, 0), 0);
	}
}

/* What no correct prev sends to @rank is refused; everything else is not. */
static void check_refusals(const struct call *c, const struct ar_plan *plan,
			   u32 rank, u32 chunk)
{
	static const int phases[] = { 0, 4, 5, 127, 255 };
	bool none = chunk >= c->size || (has_root(c->collective) && chunk != c->root);
	u32 first = plan->reduce ? (chunk + 1) % c->size : chunk;
	size_t i;

	assert_int_equal(ar_plan_action(plan, AR_PHASE_REDUCE, chunk, rank) ==
			 AR_REFUSE, none || !plan->reduce || rank == first);
	/* Who has it, from all parts or because it is its own, is not sent it. */
	assert_int_equal(ar_plan_action(plan, AR_PHASE_GATHER, chunk, rank) ==
			 AR_REFUSE, none || !plan->gather || rank == chunk);
	assert_int_equal(ar_plan_action(plan, AR_PHASE_TOKEN, chunk, rank) ==
			 AR_REFUSE, none || !plan->token || rank != first);
	for (i = 0; i < ARRAY_SIZE(phases); i++)
		assert_int_equal(ar_plan_action(plan, phases[i], chunk, rank),
				 AR_REFUSE);
}

static void check_all_refusals(u8 collective, u32 size, u32 gather_max)
{
	struct call c = {
		.collective = collective, .element_bytes = 4, .size = size,
		.lanes = 1, .frame_max = 4096, .gather_max = gather_max,
	};
	struct ar_plan plan;
	u32 rank, chunk;

	if (collective != ALLREDUCE_COLLECTIVE_BARRIER)
		c.count = 100;
	if (has_root(collective))
		c.root = 5 % size;
	plan = plan_of(&c);
	for (rank = 0; rank < size; rank++) {
		for (chunk = 0; chunk < size + 3; chunk++)
			check_refusals(&c, &plan, rank, chunk);
		check_refusals(&c, &plan, rank, UINT32_MAX);
	}
}

static void test_refused(void **state)
{
	size_t i;
	u32 size;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(collectives); i++) {
		for (size = 2; size <= ALLREDUCE_SIZE_MAX; size++) {
			check_all_refusals(collectives[i], size, 0);
			check_all_refusals(collectives[i], size, 4096);
		}
	}
}

static void test_actions(void **state)
{
	static const struct {
		enum ar_action action;
		bool reduces, delivers, sends;
	} rows[] = {
		{ AR_REFUSE, false, false, false },
		{ AR_REDUCE, true, false, true },
		{ AR_REDUCE_FORWARD, true, true, true },
		{ AR_REDUCE_DELIVER, true, true, false },
		{ AR_DELIVER_FORWARD, false, true, true },
		{ AR_DELIVER, false, true, false },
		{ AR_TAKE_TOKEN, false, false, false },
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(ar_action_reduces(rows[i].action), rows[i].reduces);
		assert_int_equal(ar_action_delivers(rows[i].action),
				 rows[i].delivers);
		assert_int_equal(ar_action_sends(rows[i].action), rows[i].sends);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_small),
		cmocka_unit_test(test_split_large),
		cmocka_unit_test(test_calls_small),
		cmocka_unit_test(test_calls_large),
		cmocka_unit_test(test_calls_around_4g),
		cmocka_unit_test(test_primary_lane),
		cmocka_unit_test(test_lanes_threshold),
		cmocka_unit_test(test_gather_threshold),
		cmocka_unit_test(test_equal_chunks),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_grain),
		cmocka_unit_test(test_splits_are_protocol),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_hops),
		cmocka_unit_test(test_travel),
		cmocka_unit_test(test_travel_large),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_actions),
	};

	return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
