// SPDX-License-Identifier: GPL-2.0
/*
 * arbench's reference against a ring that is played through frame by frame, by
 * the rules of partition.h for what each member does with a frame.
 */
#include "libtest.h"

#include "arbench/arbench.h"
#include "partition.h"

#define FRAME_MAX	4096

/**
 * struct play - one job on all members
 * @job: the job
 * @size: members
 * @lanes: lanes
 * @src: each member's contribution
 * @dst: each member's result
 */
struct play {
	struct job job;
	unsigned int size;
	unsigned int lanes;
	char *src[ALLREDUCE_SIZE_MAX];
	char *dst[ALLREDUCE_SIZE_MAX];
};

static void add(unsigned int type, void *frame, const void *local, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		switch (type) {
		case ALLREDUCE_F32:
			((float *)frame)[i] += ((const float *)local)[i];
			break;
		case ALLREDUCE_F64:
			((double *)frame)[i] += ((const double *)local)[i];
			break;
		case ALLREDUCE_I32:
			((uint32_t *)frame)[i] += ((const uint32_t *)local)[i];
			break;
		default:
			((uint64_t *)frame)[i] += ((const uint64_t *)local)[i];
		}
	}
}

/* A frame of @n elements from @at, from its injection to its last delivery. */
static void play_frame(struct play *p, unsigned int chunk, uint64_t at, uint64_t n)
{
	unsigned int bytes = aru_type_size(p->job.type), rank = chunk, hops = 0;
	enum ar_phase phase = AR_PHASE_REDUCE;
	uint64_t frame[FRAME_MAX / 8];
	enum ar_action action;

	memcpy(frame, p->src[chunk] + at * bytes, n * bytes);
	do {
		rank = ar_next(rank, p->size);
		action = ar_action(phase, chunk, rank, p->size);
		assert_int_not_equal(action, AR_REFUSE);
		if (phase == AR_PHASE_REDUCE)
			add(p->job.type, frame, p->src[rank] + at * bytes, n);
		if (action == AR_REDUCE_FINAL)
			phase = AR_PHASE_FINAL;
		if (action != AR_REDUCE)
			memcpy(p->dst[rank] + at * bytes, frame, n * bytes);
		hops++;
	} while (ar_action_sends(action));
	assert_int_equal(hops, 2 * (p->size - 1));
}

static void play(struct play *p)
{
	unsigned int bytes = aru_type_size(p->job.type), lane, chunk;
	uint64_t at, frame = FRAME_MAX / bytes;

	if (p->size == 1)
		memcpy(p->dst[0], p->src[0], p->job.count * bytes);
	for (lane = 0; p->size > 1 && lane < p->lanes; lane++) {
		/* The number of this job is not the one that the reference uses. */
		struct ar_range stripe = ar_stripe(p->job.count, bytes, 7, p->lanes, lane);

		for (chunk = 0; chunk < p->size; chunk++) {
			struct ar_range r = ar_chunk(stripe, bytes, p->size, chunk);

			for (at = r.start; at < r.start + r.count; at += frame)
				play_frame(p, chunk, at,
					   min_t(uint64_t, frame, r.start + r.count - at));
		}
	}
}

static void play_init(struct play *p, unsigned int size, unsigned int lanes,
		      unsigned int type, uint64_t count)
{
	uint64_t bytes = count * aru_type_size(type);
	unsigned int r;

	memset(p, 0, sizeof(*p));
	p->job = (struct job) { 5, count, type, ALLREDUCE_SUM, 3 };
	p->size = size;
	p->lanes = lanes;
	for (r = 0; r < size; r++) {
		p->src[r] = malloc(bytes + 1);
		p->dst[r] = malloc(bytes + 1);
		memset(p->dst[r], 0xff, bytes);
		reference_fill(&p->job, r, p->src[r]);
	}
}

static void play_free(struct play *p)
{
	unsigned int r;

	for (r = 0; r < p->size; r++) {
		free(p->src[r]);
		free(p->dst[r]);
	}
}

static void try(unsigned int size, unsigned int lanes, unsigned int type, uint64_t count)
{
	unsigned int bytes = aru_type_size(type), r;
	struct play p;

	play_init(&p, size, lanes, type, count);
	play(&p);
	for (r = 0; r < size; r++) {
		assert_int_equal(reference_check(&p.job, size, lanes, p.dst[r]), 0);
		assert_int_equal(reference_check_src(&p.job, r, p.src[r]), 0);
	}
	if (count) {
		/* One flipped bit, anywhere, is seen. */
		p.dst[0][count * bytes - 1] ^= 1;
		p.src[0][count / 2 * bytes] ^= 0x80;
		assert_int_equal(reference_check(&p.job, size, lanes, p.dst[0]), 1);
		assert_int_equal(reference_check_src(&p.job, 0, p.src[0]), 1);
	}
	play_free(&p);
}

static void agrees_with_the_ring(void **state)
{
	static const uint64_t counts[] = { 0, 1, 3, 16, 17, 1000, 4099, 70001 };
	static const unsigned int sizes[] = { 1, 2, 3, 4, 5, 7 };
	static const unsigned int lanes[] = { 1, 3, 4 };
	unsigned int type;
	size_t s, l, c;

	(void)state;
	for (type = 1; type < 256; type++) {
		if (!aru_type_name(type))
			continue;
		assert_true(reference_known(type, ALLREDUCE_SUM));
		for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (l = 0; l < sizeof(lanes) / sizeof(lanes[0]); l++)
				for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
					try(sizes[s], lanes[l], type, counts[c]);
	}
}

static void order_shows_in_the_bits(void **state)
{
	unsigned int wrong;
	struct play p;
	uint64_t i;

	(void)state;
	/* Summed in the order of ranks instead: most of three chunks of four differ. */
	play_init(&p, 4, 1, ALLREDUCE_F32, 40000);
	for (i = 0; i < 40000; i++)
		((float *)p.dst[0])[i] = ((float *)p.src[0])[i] + ((float *)p.src[1])[i] +
			((float *)p.src[2])[i] + ((float *)p.src[3])[i];
	wrong = reference_check(&p.job, 4, 1, p.dst[0]);
	assert_in_range(wrong, 4000, 30000);
	play_free(&p);
}

static void poison_is_not_a_result(void **state)
{
	struct play p;

	(void)state;
	play_init(&p, 3, 4, ALLREDUCE_F32, 5000);
	assert_int_equal(reference_check(&p.job, 3, 4, p.dst[1]), 5000);
	play_free(&p);
}

static void data_depend_on_everything(void **state)
{
	struct job a = { 1, 64, ALLREDUCE_I64, ALLREDUCE_SUM, 0 }, b = a;
	uint64_t va[64], vb[64];

	(void)state;
	reference_fill(&a, 0, va);
	reference_fill(&b, 0, vb);
	assert_memory_equal(va, vb, sizeof(va));
	reference_fill(&b, 1, vb);
	assert_memory_not_equal(va, vb, sizeof(va));
	b.iteration = 1;
	reference_fill(&b, 0, vb);
	assert_memory_not_equal(va, vb, sizeof(va));
	b = a;
	b.seed = 2;
	reference_fill(&b, 0, vb);
	assert_memory_not_equal(va, vb, sizeof(va));
}

static void digests(void **state)
{
	char a[] = "0123456789abc", b[] = "0123456789abd";

	(void)state;
	assert_true(reference_digest(1, a, 13) == reference_digest(1, a, 13));
	assert_true(reference_digest(1, a, 13) != reference_digest(1, b, 13));
	assert_true(reference_digest(1, a, 12) == reference_digest(1, b, 12));
	assert_true(reference_digest(1, a, 0) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_ring),
		cmocka_unit_test(order_shows_in_the_bits),
		cmocka_unit_test(poison_is_not_a_result),
		cmocka_unit_test(data_depend_on_everything),
		cmocka_unit_test(digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
