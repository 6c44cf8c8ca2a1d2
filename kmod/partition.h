/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who carries what: chunks, pieces, frames and roles. Pure arithmetic, shared
 * by the module and the tests; nothing else may compute a boundary.
 *
 * The bandwidth-optimal ring of Patarasuk and Yuan (J. Parallel Distrib.
 * Comput. 69, 2009): a vector is split into one chunk a member, a chunk into
 * one piece a lane, a piece into frames. Chunk c belongs to rank c:
 *
 *   REDUCE  a chunk's sum begins at rank c + 1, which sends its own part; each
 *           rank on the way adds its own; it is complete at rank c
 *   GATHER  the chunk goes from rank c to c + 1, ..., c - 1
 *   TOKEN   an empty frame from the last rank of the chunk's way to the first,
 *           which is next to it: all have had the chunk
 *
 * (ranks mod N.) A collective is a choice of phases and of chunks:
 *
 *                    phases          chunks
 *   allreduce        REDUCE GATHER   1/N of the vector each
 *     gather path    GATHER          chunk c: all of rank c's vector
 *   reduce_scatter   REDUCE TOKEN    block c
 *   allgather        GATHER TOKEN    block c
 *   broadcast        GATHER TOKEN    the root's only: the whole vector
 *   reduce           REDUCE TOKEN    the root's only: the whole vector
 *   barrier          GATHER          empty
 *
 * Tokens are for those whose frames go out from the user's pages, and where
 * nothing else that comes back proves that next has consumed them.
 *
 * A chunk is always summed in the order c + 1, c + 2, ..., c, so the bits of a
 * result depend on count, type and N, never on lanes, frames or the path. If N
 * divides allreduce's count the chunks are equal, as reduce_scatter's blocks
 * are, and the two collectives (with allgather) give the same bits. Otherwise
 * splits are made in grains of AR_GRAIN_BYTES, so that pieces of an aligned
 * vector start on a cache line.
 *
 * A large job uses all lanes, a small one its primary lane alone. On a used
 * lane every chunk has at least one frame, which may be empty: so each member
 * hears of each call, for any count.
 */
#ifndef _AR_PARTITION_H
#define _AR_PARTITION_H

#include "portable.h"

#include <linux/allreduce.h>

#define AR_GRAIN_BYTES		64

/* Below this many bytes for each lane a job takes only its primary lane. */
#define AR_STRIPE_BYTES_MIN	65536

/**
 * struct ar_range - a part of a vector
 * @start: first element
 * @count: elements
 */
struct ar_range {
	u64 start;
	u64 count;
};

/*
 * Part @index of @parts of @count elements, in whole grains; the parts cover
 * the whole in order, and the last one that is not empty takes the rest.
 */
static inline struct ar_range ar_split(u64 count, u32 parts, u32 index,
				       u32 grain)
{
	u64 grains = count / grain + (count % grain != 0);
	u64 base = grains / parts;
	u32 extra = grains % parts;
	u64 first = base * index + min_t(u32, index, extra);
	u64 len = base + (index < extra);
	struct ar_range r;

	/* Only the last grain can be short, so only products up to it matter. */
	r.start = first >= grains ? count : first * grain;
	r.count = first + len >= grains ? count - r.start : len * grain;
	return r;
}

static inline u32 ar_grain(u32 element_bytes)
{
	return AR_GRAIN_BYTES / element_bytes;
}

/* The lane that carries a small job. */
static inline u32 ar_primary_lane(u64 job, u32 lanes)
{
	return job % lanes;
}

static inline u32 ar_next(u32 rank, u32 size)
{
	return rank + 1 == size ? 0 : rank + 1;
}

static inline u32 ar_prev(u32 rank, u32 size)
{
	return rank ? rank - 1 : size - 1;
}

/* Phases of a chunk on the wire. */
enum ar_phase {
	AR_PHASE_REDUCE = 1,	/* partial sum */
	AR_PHASE_GATHER = 2,	/* what is to be delivered */
	AR_PHASE_TOKEN = 3,	/* empty: the chunk has been consumed */
};

#define AR_PHASES		3

/* How a job's elements are cut into chunks. */
enum ar_layout {
	AR_LAYOUT_SPLIT,	/* the vector in one chunk a member */
	AR_LAYOUT_BLOCKS,	/* count elements in each chunk */
	AR_LAYOUT_WHOLE,	/* one chunk, the root's */
};

/**
 * struct ar_plan - what the members of a ring do for a call
 * @count: of the call
 * @element_bytes: size of an element
 * @size: members
 * @root: owner of the only chunk of AR_LAYOUT_WHOLE
 * @lanes: lanes that are used: all of the ring's or 1
 * @frame_max: payload bytes of a frame at most
 * @layout: how elements are cut into chunks
 * @reduce: chunks have the phase REDUCE
 * @gather: chunks have the phase GATHER
 * @token: chunks have the phase TOKEN
 * @copies: the gather path: every member sums all members' vectors itself
 */
struct ar_plan {
	u64 count;
	u32 element_bytes;
	u32 size;
	u32 root;
	u32 lanes;
	u32 frame_max;
	enum ar_layout layout;
	bool reduce;
	bool gather;
	bool token;
	bool copies;
};

/* Bytes of all chunks; fits a u64 (ALLREDUCE_COUNT_MAX sees to that). */
static inline u64 ar_plan_bytes(const struct ar_plan *plan)
{
	u64 bytes = plan->count * plan->element_bytes;

	return plan->layout == AR_LAYOUT_BLOCKS ? bytes * plan->size : bytes;
}

/**
 * ar_plan_init - plan a call
 * @plan: filled in
 * @collective: enum allreduce_collective
 * @count: of the call, in range
 * @element_bytes: size of an element; 1 for a barrier
 * @root: of the call
 * @size: members
 * @lanes: of the ring
 * @frame_max: of the ring
 * @gather_max: of the ring: bytes of the largest vector of the gather path
 */
static inline void ar_plan_init(struct ar_plan *plan, u8 collective, u64 count,
				u32 element_bytes, u32 root, u32 size, u32 lanes,
				u32 frame_max, u32 gather_max)
{
	*plan = (struct ar_plan) {
		.count = count,
		.element_bytes = element_bytes,
		.size = size,
		.root = root,
		.frame_max = frame_max,
	};
	switch (collective) {
	case ALLREDUCE_COLLECTIVE_ALLREDUCE:
		plan->copies = size > 1 && count * element_bytes <= gather_max;
		plan->layout = plan->copies ? AR_LAYOUT_BLOCKS : AR_LAYOUT_SPLIT;
		plan->reduce = !plan->copies;
		plan->gather = true;
		break;
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
		plan->layout = AR_LAYOUT_BLOCKS;
		plan->reduce = true;
		break;
	case ALLREDUCE_COLLECTIVE_ALLGATHER:
	case ALLREDUCE_COLLECTIVE_BARRIER:
		plan->layout = AR_LAYOUT_BLOCKS;
		plan->gather = true;
		break;
	case ALLREDUCE_COLLECTIVE_BROADCAST:
		plan->layout = AR_LAYOUT_WHOLE;
		plan->gather = true;
		break;
	case ALLREDUCE_COLLECTIVE_REDUCE:
		plan->layout = AR_LAYOUT_WHOLE;
		plan->reduce = true;
		break;
	}
	plan->token = collective != ALLREDUCE_COLLECTIVE_ALLREDUCE &&
		      collective != ALLREDUCE_COLLECTIVE_BARRIER;
	plan->lanes = !plan->copies && ar_plan_bytes(plan) >=
		      (u64)lanes * AR_STRIPE_BYTES_MIN ? lanes : 1;
}

static inline bool ar_plan_has_chunk(const struct ar_plan *plan, u32 chunk)
{
	return chunk < plan->size &&
	       (plan->layout != AR_LAYOUT_WHOLE || chunk == plan->root);
}

/*
 * The elements of a chunk that there is; start counts from the first element of
 * all chunks.
 */
static inline struct ar_range ar_plan_chunk(const struct ar_plan *plan, u32 chunk)
{
	struct ar_range r = { 0, plan->count };

	if (plan->layout == AR_LAYOUT_BLOCKS)
		r.start = plan->count * chunk;
	if (plan->layout == AR_LAYOUT_SPLIT)
		r = ar_split(plan->count, plan->size, chunk,
			     plan->count % plan->size ?
			     ar_grain(plan->element_bytes) : 1);
	return r;
}

/* Where a chunk begins in a rank's src, or dst: elements. */
static inline u64 ar_plan_src(const struct ar_plan *plan, u32 chunk)
{
	if (plan->layout == AR_LAYOUT_BLOCKS && !plan->reduce)
		return 0;
	return ar_plan_chunk(plan, chunk).start;
}

static inline u64 ar_plan_dst(const struct ar_plan *plan, u32 chunk)
{
	if (plan->layout == AR_LAYOUT_BLOCKS && !plan->gather)
		return 0;
	return ar_plan_chunk(plan, chunk).start;
}

/* What used lane @lane carries of a chunk; start counts from the chunk's. */
static inline struct ar_range ar_plan_piece(const struct ar_plan *plan, u32 chunk,
					    u32 lane)
{
	return ar_split(ar_plan_chunk(plan, chunk).count, plan->lanes, lane,
			ar_grain(plan->element_bytes));
}

/* Frames of a piece of @bytes bytes: at least one. */
static inline u64 ar_frames(u64 bytes, u32 frame_max)
{
	return bytes ? (bytes - 1) / frame_max + 1 : 1;
}

static inline u64 ar_plan_frames(const struct ar_plan *plan, enum ar_phase phase,
				 u32 chunk, u32 lane)
{
	if (phase == AR_PHASE_TOKEN)
		return 1;
	return ar_frames(ar_plan_piece(plan, chunk, lane).count *
			 plan->element_bytes, plan->frame_max);
}

/* The rank that sends a chunk's first frames, from its user's memory. */
static inline u32 ar_plan_first(const struct ar_plan *plan, u32 chunk)
{
	return plan->reduce ? ar_next(chunk, plan->size) : chunk;
}

/* The rank at which a chunk's way ends. */
static inline u32 ar_plan_last(const struct ar_plan *plan, u32 chunk)
{
	return plan->gather ? ar_prev(chunk, plan->size) : chunk;
}

/* The chunk whose first rank is @rank; ar_plan_has_chunk() says if there is one. */
static inline u32 ar_plan_own_chunk(const struct ar_plan *plan, u32 rank)
{
	return plan->reduce ? ar_prev(rank, plan->size) : rank;
}

/* Frames that a rank passes on for each of its own, once all have some. */
static inline u32 ar_plan_share(const struct ar_plan *plan)
{
	if (plan->layout == AR_LAYOUT_WHOLE)
		return 0;
	return plan->reduce && plan->gather ? 2 * plan->size - 3 : plan->size - 2;
}

/* What a member does with a frame it has received. */
enum ar_action {
	AR_REFUSE,		/* prev has no business to send this */
	AR_REDUCE,		/* add the local part, pass the partial sum on */
	AR_REDUCE_FORWARD,	/* add the local part: deliver, pass on as GATHER */
	AR_REDUCE_DELIVER,	/* add the local part: deliver; it ends here */
	AR_DELIVER_FORWARD,	/* write to the result, pass the pages on */
	AR_DELIVER,		/* write to the result; it ends here */
	AR_TAKE_TOKEN,		/* next has consumed what was sent to it */
};

static inline enum ar_action ar_plan_action(const struct ar_plan *plan,
					    enum ar_phase phase, u32 chunk,
					    u32 rank)
{
	if (plan->size < 2 || !ar_plan_has_chunk(plan, chunk))
		return AR_REFUSE;
	switch (phase) {
	case AR_PHASE_REDUCE:
		if (!plan->reduce || rank == ar_next(chunk, plan->size))
			return AR_REFUSE;
		if (rank != chunk)
			return AR_REDUCE;
		return plan->gather ? AR_REDUCE_FORWARD : AR_REDUCE_DELIVER;
	case AR_PHASE_GATHER:
		if (!plan->gather || rank == chunk)
			return AR_REFUSE;
		return rank == ar_prev(chunk, plan->size) ?
		       AR_DELIVER : AR_DELIVER_FORWARD;
	case AR_PHASE_TOKEN:
		return plan->token && rank == ar_plan_first(plan, chunk) ?
		       AR_TAKE_TOKEN : AR_REFUSE;
	}
	return AR_REFUSE;
}

static inline bool ar_action_reduces(enum ar_action action)
{
	return action == AR_REDUCE || action == AR_REDUCE_FORWARD ||
	       action == AR_REDUCE_DELIVER;
}

static inline bool ar_action_delivers(enum ar_action action)
{
	return action == AR_REDUCE_FORWARD || action == AR_REDUCE_DELIVER ||
	       action == AR_DELIVER_FORWARD || action == AR_DELIVER;
}

/* True if the frame goes on to next, in some form. */
static inline bool ar_action_sends(enum ar_action action)
{
	return action == AR_REDUCE || action == AR_REDUCE_FORWARD ||
	       action == AR_DELIVER_FORWARD;
}

/* True if next is owed a token when the chunk's last frame has ended here. */
static inline bool ar_plan_sends_token(const struct ar_plan *plan, u32 chunk,
				       u32 rank)
{
	return plan->token && rank == ar_plan_last(plan, chunk);
}

/**
 * struct ar_work - the frames of a rank's part on a lane
 * @to_inject: own frames to send
 * @to_receive: frames to come from prev
 * @to_forward: frames to send because one was received, tokens included
 */
struct ar_work {
	u64 to_inject;
	u64 to_receive;
	u64 to_forward;
};

static inline struct ar_work ar_plan_work(const struct ar_plan *plan, u32 rank,
					  u32 lane)
{
	struct ar_work work = { 0, 0, 0 };
	u32 chunk, phase;

	if (plan->size < 2)
		return work;
	for (chunk = 0; chunk < plan->size; chunk++) {
		u64 frames;

		if (!ar_plan_has_chunk(plan, chunk))
			continue;
		frames = ar_plan_frames(plan, AR_PHASE_GATHER, chunk, lane);
		for (phase = 1; phase <= AR_PHASES; phase++) {
			enum ar_action action = ar_plan_action(plan, phase, chunk,
							       rank);

			if (action == AR_TAKE_TOKEN)
				work.to_receive++;
			else if (action != AR_REFUSE)
				work.to_receive += frames;
			if (ar_action_sends(action))
				work.to_forward += frames;
		}
		if (ar_plan_sends_token(plan, chunk, rank))
			work.to_forward++;
		if (rank == ar_plan_first(plan, chunk))
			work.to_inject = frames;
	}
	return work;
}

#endif /* _AR_PARTITION_H */
