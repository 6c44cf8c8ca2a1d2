/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who carries what: stripes, chunks, frames and roles. Pure arithmetic, shared
 * by the module and the unit tests; nothing else may compute a boundary.
 *
 * The bandwidth-optimal ring of Patarasuk and Yuan (J. Parallel Distrib.
 * Comput. 69, 2009): a vector of count elements is split into one stripe a
 * lane, a stripe into one chunk a member, a chunk into frames. Chunk c is
 * injected by rank c, reduced by c+1, c+2, ..., c-1 (mod size), where it is
 * final; then it is delivered at c-1, c, c+1, ..., c-2.
 *
 * Splits are made in grains of AR_GRAIN_BYTES, so that every chunk of an
 * aligned vector starts on a cache line.
 *
 * A lane is used by a job if its stripe is not empty, or if it is the job's
 * primary lane. On a used lane every chunk has at least one frame, which may
 * be empty: so each member's completion depends on each member's call, for
 * any count, and an empty vector still matches up between the members.
 */
#ifndef _AR_PARTITION_H
#define _AR_PARTITION_H

#include "portable.h"

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

/* The lane that carries a small job whole, and exists for every job. */
static inline u32 ar_primary_lane(u64 job, u32 lanes)
{
	return job % lanes;
}

/*
 * True if a job is spread over all lanes; else its primary lane carries it.
 * count * element_bytes must fit a u64 (ALLREDUCE_COUNT_MAX sees to that).
 */
static inline bool ar_striped(u64 count, u32 element_bytes, u32 lanes)
{
	return count * element_bytes >= (u64)lanes * AR_STRIPE_BYTES_MIN;
}

/* The elements that @lane carries of job number @job. */
static inline struct ar_range ar_stripe(u64 count, u32 element_bytes, u64 job,
					u32 lanes, u32 lane)
{
	struct ar_range r = { 0, 0 };

	if (ar_striped(count, element_bytes, lanes))
		return ar_split(count, lanes, lane, ar_grain(element_bytes));
	if (lane == ar_primary_lane(job, lanes))
		r.count = count;
	return r;
}

static inline bool ar_lane_used(u64 count, u32 element_bytes, u64 job,
				u32 lanes, u32 lane)
{
	return lane == ar_primary_lane(job, lanes) ||
	       ar_stripe(count, element_bytes, job, lanes, lane).count;
}

/* Chunk @chunk of a stripe; start counts from the vector's first element. */
static inline struct ar_range ar_chunk(struct ar_range stripe, u32 element_bytes,
				       u32 size, u32 chunk)
{
	struct ar_range r = ar_split(stripe.count, size, chunk,
				     ar_grain(element_bytes));

	r.start += stripe.start;
	return r;
}

/* Frames of a chunk of @bytes bytes: at least one. */
static inline u64 ar_frames(u64 bytes, u32 frame_max)
{
	return bytes ? (bytes - 1) / frame_max + 1 : 1;
}

static inline u32 ar_next(u32 rank, u32 size)
{
	return rank + 1 == size ? 0 : rank + 1;
}

static inline u32 ar_prev(u32 rank, u32 size)
{
	return rank ? rank - 1 : size - 1;
}

/* What a member does with a frame it has received. */
enum ar_action {
	AR_REFUSE,		/* prev has no business to send this */
	AR_REDUCE,		/* add the local part, pass the partial sum on */
	AR_REDUCE_FINAL,	/* add the local part: deliver, pass on as final */
	AR_DELIVER_FORWARD,	/* write to the result, pass the pages on */
	AR_DELIVER,		/* write to the result: the frame ends here */
};

/* Phases of a chunk on the wire; the values are those of frame.h. */
enum ar_phase {
	AR_PHASE_REDUCE = 1,	/* partial sum: reduce-scatter */
	AR_PHASE_FINAL = 2,	/* complete sum: all-gather */
};

static inline enum ar_action ar_action(enum ar_phase phase, u32 chunk, u32 rank,
				       u32 size)
{
	u32 last_reducer = ar_prev(chunk, size);

	if (size < 2 || chunk >= size)
		return AR_REFUSE;
	if (phase == AR_PHASE_REDUCE) {
		if (rank == chunk)
			return AR_REFUSE;
		return rank == last_reducer ? AR_REDUCE_FINAL : AR_REDUCE;
	}
	if (phase == AR_PHASE_FINAL) {
		if (rank == last_reducer)
			return AR_REFUSE;
		return rank == ar_prev(last_reducer, size) ?
			AR_DELIVER : AR_DELIVER_FORWARD;
	}
	return AR_REFUSE;
}

/* True if the action ends with a frame to next. */
static inline bool ar_action_sends(enum ar_action action)
{
	return action == AR_REDUCE || action == AR_REDUCE_FINAL ||
	       action == AR_DELIVER_FORWARD;
}

#endif /* _AR_PARTITION_H */
