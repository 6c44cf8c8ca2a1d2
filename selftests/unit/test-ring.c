// SPDX-License-Identifier: GPL-2.0
/*
 * A whole ring in one process: members run several jobs after each other by the
 * rules of partition.h and of Documentation/protocol.rst, over links that hold
 * few frames, in turns that are drawn at random. Results are compared with sums
 * that are computed without any of it.
 *
 * A frame refers to its sender's memory for as long as it is on the way, as a
 * frame of user pages does in the kernel. So when a job is complete on a member,
 * its buffers are overwritten at once: whoever still had something to read from
 * them gets a wrong result.
 */
#include <stdlib.h>
#include <string.h>

#include "partition.h"
#include "unit.h"

#include <linux/allreduce.h>

#define MEMBERS_MAX	6
#define LANES_MAX	3
#define JOBS_MAX	4
#define LINK_FRAMES	4

struct frame {
	u32 job;
	enum ar_phase phase;
	u32 chunk;
	u64 offset;		/* bytes, in the lane's piece */
	u32 len;
	const u8 *data;
};

/* Lives as long as the ring, so that whoever refers to it late finds it. */
struct page {
	struct page *next;
	u8 data[];
};

/* A lane into a member: what prev has sent and it has not taken. */
struct link {
	struct frame queue[LINK_FRAMES];
	u32 head, tail;
};

/* A member's part of a job on a lane. */
struct part {
	struct ar_work left;
	u64 injected;				/* bytes */
	u64 next[AR_PHASES][MEMBERS_MAX];		/* frames */
	bool used;
};

/* What one rank has of a job. */
struct member {
	u8 *src, *dst, *copies;
	u8 *result;			/* what was in dst on completion */
	u64 src_bytes, dst_bytes;
	bool in_place;
	struct part parts[LANES_MAX];
	bool complete;
};

struct job {
	u8 collective;
	u8 type;
	u32 element_bytes;
	u64 count;
	u32 root;
	struct ar_plan plan;
	struct member members[MEMBERS_MAX];
	u8 *inputs[MEMBERS_MAX];		/* what was in src, for the reference */
	/* Frames of a chunk that a rank has taken off a lane. */
	u64 consumed[MEMBERS_MAX][MEMBERS_MAX][LANES_MAX];
};

struct ring {
	u32 size, lanes, frame_max, gather_max;
	u32 jobs;
	struct job job[JOBS_MAX];
	u32 submitted[MEMBERS_MAX];
	struct link to[MEMBERS_MAX][LANES_MAX];
	struct page *pool;		/* of partial sums and copies */
	u64 wrong;			/* elements */
	u64 early;			/* completions before what they depend on */
	uint64_t rnd;
};

static u8 *buffer(u64 bytes)
{
	u8 *data = calloc(1, bytes + 1);

	assert_non_null(data);
	return data;
}

/* ---- elements ------------------------------------------------------------- */

/* *acc = *acc + *local, the received value being the left operand. */
static void add(u8 type, void *acc, const void *local, u64 n)
{
	u64 i;

	for (i = 0; i < n; i++) {
		switch (type) {
		case ALLREDUCE_F32:
			((float *)acc)[i] += ((const float *)local)[i];
			break;
		case ALLREDUCE_F64:
			((double *)acc)[i] += ((const double *)local)[i];
			break;
		case ALLREDUCE_U8:
			((u8 *)acc)[i] += ((const u8 *)local)[i];
			break;
		case ALLREDUCE_U32:
			((u32 *)acc)[i] += ((const u32 *)local)[i];
			break;
		default:
			fail_msg("type %u", type);
		}
	}
}

/* Floats of mixed magnitudes, so that another order gives other bits. */
static void fill(u8 type, u8 *data, u64 n, uint64_t *rnd)
{
	u64 i;

	for (i = 0; i < n; i++) {
		int64_t value = (int32_t)random_u64(rnd);
		u32 shift = random_below(rnd, 20);

		switch (type) {
		case ALLREDUCE_F32:
			((float *)data)[i] = value * (float)(1U << shift) / 1e7f;
			break;
		case ALLREDUCE_F64:
			((double *)data)[i] = value * (double)(1ULL << shift) / 1e7;
			break;
		case ALLREDUCE_U8:
			data[i] = value;
			break;
		default:
			((u32 *)data)[i] = value;
		}
	}
}

static u32 bytes_of(u8 type)
{
	switch (type) {
#define X(NAME, name, value, bytes) \
	case ALLREDUCE_##NAME: \
		return bytes;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return 1;
}

/* ---- the reference -------------------------------------------------------- */

/* The rank at which the sum of element @i of an allreduce ends. */
static u32 owner_of(const struct job *j, u32 size, u64 i)
{
	u32 grain = 64 / j->element_bytes, rank;
	u64 grains = (j->count + grain - 1) / grain, end = 0;

	if (j->count % size == 0)
		return i / (j->count / size);
	for (rank = 0; rank < size; rank++) {
		end += grains / size + (rank < grains % size);
		if (i < end * grain)
			return rank;
	}
	fail_msg("element %llu is nobody's", (unsigned long long)i);
	return 0;
}

/* In the order owner + 1, ..., owner, of elements at @at in all inputs. */
static void reference_sum(const struct job *j, u32 size, u32 owner, u64 at, u8 *sum)
{
	u32 b = j->element_bytes, k;

	memcpy(sum, j->inputs[(owner + 1) % size] + at * b, b);
	for (k = 2; k <= size; k++)
		add(j->type, sum, j->inputs[(owner + k) % size] + at * b, 1);
}

static void reference(const struct job *j, u32 size, u32 rank, u64 i, u8 *want)
{
	u32 b = j->element_bytes;

	switch (j->collective) {
	case ALLREDUCE_COLLECTIVE_ALLREDUCE:
		reference_sum(j, size, owner_of(j, size, i), i, want);
		break;
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
		reference_sum(j, size, rank, rank * j->count + i, want);
		break;
	case ALLREDUCE_COLLECTIVE_ALLGATHER:
		memcpy(want, j->inputs[i / j->count] + i % j->count * b, b);
		break;
	case ALLREDUCE_COLLECTIVE_BROADCAST:
		memcpy(want, j->inputs[j->root] + i * b, b);
		break;
	case ALLREDUCE_COLLECTIVE_REDUCE:
		reference_sum(j, size, j->root, i, want);
		break;
	}
}

static void check_result(struct ring *r, u32 job, u32 rank)
{
	struct job *j = &r->job[job];
	struct member *m = &j->members[rank];
	u32 b = j->element_bytes;
	u8 want[8];
	u64 i;

	for (i = 0; i < m->dst_bytes / b; i++) {
		reference(j, r->size, rank, i, want);
		r->wrong += !!memcmp(m->dst + i * b, want, b);
	}
	/* Out of place the source is as it was. */
	if (!m->in_place && m->src_bytes)
		assert_memory_equal(m->src, j->inputs[rank], m->src_bytes);
}

/* ---- what a member does --------------------------------------------------- */

/* Ranks whose call a result depends on must have made it. */
static void check_dependencies(struct ring *r, u32 job, u32 rank)
{
	struct job *j = &r->job[job];
	bool all = j->collective != ALLREDUCE_COLLECTIVE_BROADCAST &&
		   j->collective != ALLREDUCE_COLLECTIVE_REDUCE;
	bool first = rank == (j->collective == ALLREDUCE_COLLECTIVE_REDUCE ?
			      (j->root + 1) % r->size : j->root);
	u32 other;

	for (other = 0; other < r->size; other++) {
		bool needs = all || first || other == j->root;

		/* A part of a sum says nothing about the root. */
		if (j->collective == ALLREDUCE_COLLECTIVE_REDUCE)
			needs = first || rank == j->root;
		r->early += needs && r->submitted[other] <= job;
	}
}

/* In the ring's order, from the copies of all members' vectors. */
static void sum_copies(struct ring *r, struct job *j, struct member *m)
{
	struct ar_plan split = j->plan;
	u64 vector = j->count * j->element_bytes;
	u32 chunk, k;

	split.layout = AR_LAYOUT_SPLIT;
	for (chunk = 0; chunk < r->size; chunk++) {
		struct ar_range c = ar_plan_chunk(&split, chunk);
		u64 at = c.start * j->element_bytes;

		memcpy(m->dst + at, m->copies + (chunk + 1) % r->size * vector + at,
		       c.count * j->element_bytes);
		for (k = 2; k <= r->size; k++)
			add(j->type, m->dst + at, m->copies +
			    (chunk + k) % r->size * vector + at, c.count);
	}
}

static void complete(struct ring *r, u32 job, u32 rank)
{
	struct job *j = &r->job[job];
	struct member *m = &j->members[rank];

	m->complete = true;
	check_dependencies(r, job, rank);
	if (j->plan.copies)
		sum_copies(r, j, m);
	check_result(r, job, rank);
	m->result = buffer(m->dst_bytes);
	memcpy(m->result, m->dst, m->dst_bytes);
	/* The caller may do this as soon as it is told. */
	memset(m->src, 0xee, m->src_bytes);
	memset(m->dst, 0xdd, m->dst_bytes);
}

/* Nothing is left of the part; the job may be complete with it. */
static void part_done(struct ring *r, u32 job, u32 rank)
{
	struct member *m = &r->job[job].members[rank];
	u32 lane;

	for (lane = 0; lane < r->lanes; lane++) {
		struct part *p = &m->parts[lane];

		if (p->used && (p->left.to_receive || p->left.to_inject))
			return;
	}
	complete(r, job, rank);
}

static u32 room(const struct ring *r, u32 rank, u32 lane)
{
	const struct link *l = &r->to[ar_next(rank, r->size)][lane];

	return LINK_FRAMES - (l->tail - l->head);
}

static void send(struct ring *r, u32 rank, u32 lane, struct frame f)
{
	struct link *l = &r->to[ar_next(rank, r->size)][lane];

	assert_true(room(r, rank, lane) > 0);
	l->queue[l->tail++ % LINK_FRAMES] = f;
}

static u8 *pool_page(struct ring *r, u32 len)
{
	struct page *page = malloc(sizeof(*page) + len);

	assert_non_null(page);
	page->next = r->pool;
	r->pool = page;
	return page->data;
}

static u32 plan_lane(const struct job *j, u32 lane)
{
	return j->plan.lanes == 1 ? 0 : lane;
}

/* One own frame, if it is the turn of this job on this lane. True if one went. */
static bool inject(struct ring *r, u32 rank, u32 lane)
{
	struct job *j = NULL;
	struct member *m;
	struct part *p;
	struct ar_range piece;
	struct frame f = { 0 };
	u64 at;
	u32 k;

	for (k = 0; k < r->submitted[rank]; k++) {
		p = &r->job[k].members[rank].parts[lane];
		if (p->left.to_inject)
			j = &r->job[k];
		if (p->left.to_inject || p->left.to_forward)
			break;
	}
	/* One place has to stay free: bubble flow control. */
	if (!j || room(r, rank, lane) < 2)
		return false;
	m = &j->members[rank];
	f.job = k;
	f.chunk = ar_plan_own_chunk(&j->plan, rank);
	f.phase = j->plan.reduce ? AR_PHASE_REDUCE : AR_PHASE_GATHER;
	f.offset = p->injected;
	piece = ar_plan_piece(&j->plan, f.chunk, plan_lane(j, lane));
	f.len = min_t(u64, r->frame_max, piece.count * j->element_bytes - f.offset);
	at = piece.start * j->element_bytes + f.offset;
	f.data = m->src + ar_plan_src(&j->plan, f.chunk) * j->element_bytes + at;
	if (j->plan.copies) {
		u8 *page = pool_page(r, f.len);

		memcpy(page, f.data, f.len);
		memcpy(m->copies + ar_plan_dst(&j->plan, f.chunk) *
		       j->element_bytes + at, f.data, f.len);
		f.data = page;
	} else if (!j->plan.reduce && m->dst_bytes && !m->in_place) {
		memcpy(m->dst + ar_plan_dst(&j->plan, f.chunk) *
		       j->element_bytes + at, f.data, f.len);
	}
	send(r, rank, lane, f);
	p->injected += f.len;
	if (!--p->left.to_inject && !p->left.to_receive)
		part_done(r, k, rank);
	return true;
}

/* All others have had all of the chunk that this rank has sent first. */
static void check_consumed(struct ring *r, struct job *j, u32 rank, u32 chunk, u32 lane)
{
	u64 bytes = ar_plan_piece(&j->plan, chunk, plan_lane(j, lane)).count *
		    j->element_bytes;
	u64 frames = bytes ? (bytes + r->frame_max - 1) / r->frame_max : 1;
	u32 other;

	for (other = 0; other < r->size; other++)
		r->early += other != rank &&
			    j->consumed[chunk][other][lane] != frames;
}

static void handle(struct ring *r, u32 rank, u32 lane, struct frame f,
		   enum ar_action action)
{
	struct job *j = &r->job[f.job];
	struct member *m = &j->members[rank];
	struct ar_range piece = ar_plan_piece(&j->plan, f.chunk, plan_lane(j, lane));
	u64 at = piece.start * j->element_bytes + f.offset;
	u8 *result = j->plan.copies ? m->copies : m->dst;

	if (action == AR_TAKE_TOKEN) {
		check_consumed(r, j, rank, f.chunk, lane);
		return;
	}
	j->consumed[f.chunk][rank][lane]++;
	if (ar_action_reduces(action)) {
		u8 *sum = pool_page(r, f.len);

		memcpy(sum, f.data, f.len);
		add(j->type, sum, m->src + ar_plan_src(&j->plan, f.chunk) *
		    j->element_bytes + at, f.len / j->element_bytes);
		f.data = sum;
	}
	if (ar_action_delivers(action))
		memcpy(result + ar_plan_dst(&j->plan, f.chunk) * j->element_bytes + at,
		       f.data, f.len);
	if (action != AR_REDUCE)
		f.phase = AR_PHASE_GATHER;
	if (ar_action_sends(action))
		send(r, rank, lane, f);
}

/* The job whose frames are due on a lane, or NULL. */
static struct job *due(struct ring *r, u32 rank, u32 lane)
{
	u32 k;

	for (k = 0; k < r->submitted[rank]; k++)
		if (r->job[k].members[rank].parts[lane].left.to_receive)
			return &r->job[k];
	return NULL;
}

/* Everything of the jobs before it has been sent. */
static bool may_send(struct ring *r, u32 rank, u32 lane, u32 job)
{
	u32 k;

	for (k = 0; k < job; k++) {
		struct part *p = &r->job[k].members[rank].parts[lane];

		if (p->left.to_inject || p->left.to_receive)
			return false;
	}
	return room(r, rank, lane) > 0;
}

/* Take a frame, if there is one and it may be taken. True if one was. */
static bool receive(struct ring *r, u32 rank, u32 lane)
{
	struct link *l = &r->to[rank][lane];
	struct job *j = due(r, rank, lane);
	enum ar_action action;
	bool token, last;
	struct frame f;
	struct part *p;
	u64 bytes;

	if (l->head == l->tail || !j)
		return false;
	f = l->queue[l->head % LINK_FRAMES];
	assert_ptr_equal(&r->job[f.job], j);
	p = &j->members[rank].parts[lane];
	action = ar_plan_action(&j->plan, f.phase, f.chunk, rank);
	assert_int_not_equal(action, AR_REFUSE);
	bytes = f.phase == AR_PHASE_TOKEN ? 0 :
		ar_plan_piece(&j->plan, f.chunk, plan_lane(j, lane)).count *
		j->element_bytes;
	assert_int_equal(f.offset, p->next[f.phase - 1][f.chunk] * r->frame_max);
	assert_int_equal(f.len, min_t(u64, r->frame_max, bytes - f.offset));
	last = f.offset + f.len == bytes;
	token = last && action != AR_TAKE_TOKEN &&
		ar_plan_sends_token(&j->plan, f.chunk, rank);
	if ((ar_action_sends(action) || token) && !may_send(r, rank, lane, f.job))
		return false;
	if (action == AR_TAKE_TOKEN)
		assert_int_equal(p->left.to_inject, 0);

	l->head++;
	p->next[f.phase - 1][f.chunk]++;
	handle(r, rank, lane, f, action);
	if (token) {
		struct frame empty = {
			.job = f.job, .phase = AR_PHASE_TOKEN, .chunk = f.chunk,
		};

		send(r, rank, lane, empty);
	}
	if (ar_action_sends(action) || token)
		p->left.to_forward--;
	if (--p->left.to_receive)
		return true;
	assert_int_equal(p->left.to_forward, 0);
	/* Where pages have gone out by reference, all have. */
	if (j->plan.token || (j->plan.reduce && j->plan.gather))
		assert_int_equal(p->left.to_inject, 0);
	if (!p->left.to_inject)
		part_done(r, f.job, rank);
	return true;
}

static bool submit(struct ring *r, u32 rank)
{
	if (r->submitted[rank] == r->jobs)
		return false;
	r->submitted[rank]++;
	return true;
}

/* ---- running -------------------------------------------------------------- */

static bool step(struct ring *r, u32 rank, u32 lane, u32 what)
{
	switch (what) {
	case 0:
		return submit(r, rank);
	case 1:
		return inject(r, rank, lane);
	default:
		return receive(r, rank, lane);
	}
}

/* The first thing that can be done at all. */
static bool step_any(struct ring *r)
{
	u32 rank, lane, what;

	for (rank = 0; rank < r->size; rank++) {
		for (lane = 0; lane < r->lanes; lane++) {
			for (what = 0; what < 3; what++) {
				if (step(r, rank, lane, what))
					return true;
			}
		}
	}
	return false;
}

/* At random, some members slower than others, until nothing can move. */
static void run(struct ring *r)
{
	u32 slow = random_below(&r->rnd, r->size), rank, what, i;

	do {
		for (i = 0; i < 64; i++) {
			rank = random_below(&r->rnd, r->size);
			if (rank == slow && random_below(&r->rnd, 8))
				continue;
			what = random_below(&r->rnd, 16);
			step(r, rank, random_below(&r->rnd, r->lanes),
			     what ? 1 + what % 2 : 0);
		}
		/* The draw may have missed the only one that can. */
	} while (step_any(r));
}

static void part_init(struct ring *r, u32 job, u32 rank)
{
	struct job *j = &r->job[job];
	u32 lane;

	for (lane = 0; lane < r->lanes; lane++) {
		struct part *p = &j->members[rank].parts[lane];

		p->used = j->plan.lanes > 1 ||
			  lane == ar_primary_lane(job + 1, r->lanes);
		if (p->used)
			p->left = ar_plan_work(&j->plan, rank, plan_lane(j, lane));
	}
}

/* In place wherever the rank has both, and asked for. */
static void member_init(struct ring *r, u32 job, u32 rank, bool in_place)
{
	struct job *j = &r->job[job];
	struct member *m = &j->members[rank];
	u32 b = j->element_bytes;
	struct allreduce_buffers bufs =
		allreduce_buffers(j->collective, j->count, rank, r->size, j->root);

	m->src_bytes = bufs.src * b;
	m->dst_bytes = bufs.dst * b;
	m->in_place = in_place && bufs.src && bufs.dst;
	if (!m->in_place) {
		m->src = buffer(m->src_bytes);
		m->dst = buffer(m->dst_bytes);
	} else if (m->src_bytes > m->dst_bytes) {
		m->src = buffer(m->src_bytes);
		m->dst = m->src + bufs.dst_in_src * b;
	} else {
		m->dst = buffer(m->dst_bytes);
		m->src = m->dst + bufs.src_in_dst * b;
	}
	if (j->plan.copies)
		m->copies = buffer(j->count * b * r->size);
	fill(j->type, m->src, bufs.src, &r->rnd);
	j->inputs[rank] = buffer(m->src_bytes);
	memcpy(j->inputs[rank], m->src, m->src_bytes);
	part_init(r, job, rank);
}

static void ring_add_job(struct ring *r, u8 collective, u8 type, u64 count, u32 root)
{
	struct job *j = &r->job[r->jobs];
	u32 rank;

	memset(j, 0, sizeof(*j));
	j->collective = collective;
	j->type = type;
	j->element_bytes = bytes_of(type);
	j->count = count;
	j->root = root;
	ar_plan_init(&j->plan, collective, count, j->element_bytes, root, r->size,
		     r->lanes, r->frame_max, r->gather_max);
	for (rank = 0; rank < r->size; rank++)
		member_init(r, r->jobs, rank, random_below(&r->rnd, 2));
	r->jobs++;
}

static void member_free(struct member *m)
{
	if (!m->in_place || m->src_bytes > m->dst_bytes)
		free(m->src);
	if (!m->in_place || m->src_bytes <= m->dst_bytes)
		free(m->dst);
	free(m->copies);
	free(m->result);
}

static void ring_free(struct ring *r)
{
	u32 job, rank;

	for (job = 0; job < r->jobs; job++) {
		for (rank = 0; rank < r->size; rank++) {
			member_free(&r->job[job].members[rank]);
			free(r->job[job].inputs[rank]);
		}
	}
	while (r->pool) {
		struct page *page = r->pool;

		r->pool = page->next;
		free(page);
	}
	free(r);
}

/* Everything went around: nothing is stuck, nothing is left over. */
static void check_over(const struct ring *r)
{
	u32 job, rank, lane;

	for (rank = 0; rank < r->size; rank++) {
		for (job = 0; job < r->jobs; job++) {
			const struct job *j = &r->job[job];

			if (!j->members[rank].complete)
				fail_msg("job %u (collective %u, count %llu): rank %u of %u hangs",
					 job, j->collective,
					 (unsigned long long)j->count, rank,
					 r->size);
		}
		for (lane = 0; lane < r->lanes; lane++)
			assert_int_equal(r->to[rank][lane].head,
					 r->to[rank][lane].tail);
	}
}

static struct ring *ring_new(u32 size, u32 lanes, u32 frame_max, u32 gather_max,
			     uint64_t seed)
{
	struct ring *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->size = size;
	r->lanes = lanes;
	r->frame_max = frame_max;
	r->gather_max = gather_max;
	r->rnd = seed;
	return r;
}

/* ---- tests ---------------------------------------------------------------- */

static const u8 collectives[] = {
#define X(NAME, name, value, src, dst, reduces)	ALLREDUCE_COLLECTIVE_##NAME,
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
};

static const u8 types[] = { ALLREDUCE_F32, ALLREDUCE_F64, ALLREDUCE_U8, ALLREDUCE_U32 };

static void add_job(struct ring *r, u8 collective, u64 count)
{
	u8 type = types[random_below(&r->rnd, ARRAY_SIZE(types))];
	u32 root = 0;

	if (collective == ALLREDUCE_COLLECTIVE_BROADCAST ||
	    collective == ALLREDUCE_COLLECTIVE_REDUCE)
		root = random_below(&r->rnd, r->size);
	if (collective == ALLREDUCE_COLLECTIVE_BARRIER) {
		type = 0;
		count = 0;
	}
	ring_add_job(r, collective, type, count, root);
}

static void run_and_check(struct ring *r)
{
	run(r);
	check_over(r);
	if (r->wrong || r->early)
		fail_msg("collective %u, %u members: %llu wrong, %llu too early",
			 r->job[0].collective, r->size, (unsigned long long)r->wrong,
			 (unsigned long long)r->early);
	ring_free(r);
}

static const u64 some_counts[] = { 0, 1, 2, 3, 5, 15, 16, 17, 31, 33, 60, 63, 64,
				   65, 80, 81, 100, 257, 1000 };

static void run_each(u8 collective, u32 size, uint64_t *seed)
{
	size_t n;
	u32 path;

	for (n = 0; n < ARRAY_SIZE(some_counts); n++) {
		for (path = 0; path < 2; path++) {
			struct ring *r = ring_new(size, 1 + n % LANES_MAX, 64 << n % 3,
						  path ? 512 : 0, (*seed)++);

			add_job(r, collective, some_counts[n]);
			run_and_check(r);
		}
	}
}

/* Each collective by itself, at each size, on both paths. */
static void test_each(void **state)
{
	uint64_t seed = 1;
	size_t c;
	u32 size;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(collectives); c++) {
		for (size = 2; size <= MEMBERS_MAX; size++)
			run_each(collectives[c], size, &seed);
	}
}

/* Several in flight, of all kinds, some members late. */
static void test_mixed(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 3000; seed++) {
		uint64_t rnd = seed;
		struct ring *r = ring_new(2 + random_below(&rnd, MEMBERS_MAX - 1),
					  1 + random_below(&rnd, LANES_MAX),
					  64 << random_below(&rnd, 4),
					  random_below(&rnd, 2) * 256, seed);
		u32 k;

		for (k = 0; k < JOBS_MAX; k++) {
			size_t c = random_below(&rnd, ARRAY_SIZE(collectives));
			size_t n = random_below(&rnd, ARRAY_SIZE(some_counts));

			add_job(r, collectives[c], some_counts[n]);
		}
		run_and_check(r);
	}
}

/* Large enough for all lanes, and next to jobs that are not. */
static void test_striped(void **state)
{
	size_t c;
	u32 size;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(collectives); c++) {
		for (size = 2; size <= 5; size++) {
			struct ring *r = ring_new(size, 2, 16384, 4096, size);

			add_job(r, collectives[c], 100);
			ring_add_job(r, collectives[c],
				     collectives[c] == ALLREDUCE_COLLECTIVE_BARRIER ?
				     0 : ALLREDUCE_F32,
				     collectives[c] == ALLREDUCE_COLLECTIVE_BARRIER ?
				     0 : 2 * AR_STRIPE_BYTES_MIN / 4 + 7, 0);
			add_job(r, collectives[c], 33);
			run_and_check(r);
		}
	}
}

/*
 * The same with the tokens taken away: some result must show what was written
 * over a source after its completion, and a rank that nothing comes to be done
 * before the others have begun. If not, the tests above could not tell either.
 */
static void test_tokens_are_needed(void **state)
{
	static const u8 with_token[] = {
		ALLREDUCE_COLLECTIVE_REDUCE_SCATTER,
		ALLREDUCE_COLLECTIVE_ALLGATHER,
		ALLREDUCE_COLLECTIVE_BROADCAST,
		ALLREDUCE_COLLECTIVE_REDUCE,
	};
	size_t c;

	(void)state;
	for (c = 0; c < ARRAY_SIZE(with_token); c++) {
		u64 wrong = 0, early = 0;
		uint64_t seed;

		for (seed = 1; seed <= 100; seed++) {
			struct ring *r = ring_new(4, 1, 64, 0, seed);
			struct job *j = &r->job[0];
			u32 rank;

			ring_add_job(r, with_token[c], ALLREDUCE_U32, 40, 0);
			assert_true(j->plan.token);
			j->plan.token = false;
			for (rank = 0; rank < r->size; rank++)
				part_init(r, 0, rank);
			run(r);
			wrong += r->wrong;
			early += r->early;
			ring_free(r);
		}
		assert_true(wrong > 0);
		assert_int_equal(early > 0, with_token[c] ==
				 ALLREDUCE_COLLECTIVE_BROADCAST ||
				 with_token[c] == ALLREDUCE_COLLECTIVE_REDUCE);
	}
}

/* The bits of @collective's results, one behind the other, of all ranks. */
static u8 *results_of(u8 collective, const u8 *inputs[], u64 count, u32 size, u32 lanes,
		      u32 frame_max, u32 gather_max, uint64_t seed)
{
	struct ring *r = ring_new(size, lanes, frame_max, gather_max, seed);
	struct job *j = &r->job[0];
	u64 bytes;
	u8 *all;
	u32 rank;

	ring_add_job(r, collective, ALLREDUCE_F32, count, 0);
	bytes = j->members[0].dst_bytes;
	all = buffer(bytes * size);
	for (rank = 0; rank < size; rank++) {
		struct member *m = &j->members[rank];

		memcpy(m->src, inputs[rank], m->src_bytes);
		memcpy(j->inputs[rank], inputs[rank], m->src_bytes);
	}
	run(r);
	check_over(r);
	assert_int_equal(r->wrong + r->early, 0);
	for (rank = 0; rank < size; rank++)
		memcpy(all + rank * bytes, j->members[rank].result, bytes);
	ring_free(r);
	return all;
}

/*
 * Equal chunks: reduce_scatter and allgather give allreduce's bits, whatever the
 * lanes, frames and path of either.
 */
static void test_reduce_scatter_and_allgather(void **state)
{
	static const u64 blocks[] = { 1, 3, 16, 100 };
	uint64_t rnd = 5;
	size_t b;
	u32 size, rank;

	(void)state;
	for (size = 2; size <= MEMBERS_MAX; size++) {
		for (b = 0; b < ARRAY_SIZE(blocks); b++) {
			u64 count = blocks[b] * size;
			const u8 *inputs[MEMBERS_MAX], *scattered[MEMBERS_MAX];
			u8 *data[MEMBERS_MAX], *whole, *gathered, *parts, *small;

			for (rank = 0; rank < size; rank++) {
				data[rank] = buffer(count * 4);
				fill(ALLREDUCE_F32, data[rank], count, &rnd);
				inputs[rank] = data[rank];
			}
			whole = results_of(ALLREDUCE_COLLECTIVE_ALLREDUCE, inputs,
					   count, size, 1, 64, 0, 1);
			small = results_of(ALLREDUCE_COLLECTIVE_ALLREDUCE, inputs,
					   count, size, 3, 128, 65536, 2);
			parts = results_of(ALLREDUCE_COLLECTIVE_REDUCE_SCATTER,
					   inputs, blocks[b], size, 2, 256, 0, 3);
			for (rank = 0; rank < size; rank++)
				scattered[rank] = parts + rank * blocks[b] * 4;
			gathered = results_of(ALLREDUCE_COLLECTIVE_ALLGATHER,
					      scattered, blocks[b], size, 3, 64, 0, 4);
			assert_memory_equal(whole, small, count * 4 * size);
			assert_memory_equal(whole, gathered, count * 4 * size);
			for (rank = 0; rank < size; rank++)
				free(data[rank]);
			free(whole);
			free(small);
			free(parts);
			free(gathered);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_striped),
		cmocka_unit_test(test_tokens_are_needed),
		cmocka_unit_test(test_reduce_scatter_and_allgather),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
