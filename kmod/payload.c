// SPDX-License-Identifier: GPL-2.0
/*
 * Everything that reads or writes payload: a lane's frames in, out and through.
 *
 *   REDUCE            received and local part -> sum -> pool page -> queue
 *   REDUCE_FORWARD    the same, and -> user's result in the same pass
 *   REDUCE_DELIVER    received and local part -> sum -> user's result
 *   DELIVER_FORWARD   received -> user's result; received page -> queue
 *   DELIVER           received -> user's result
 *   inject            user's page -> queue
 *
 * Three things need another pass: a contribution that is scaled (premulsum) is
 * scaled before it is added or sent, a sum that is divided (avg) after the last
 * addition, and the vectors of the gather path are copied on injection and kept
 * until all have come, in ar_job.copies, which takes the place of the user's
 * result for what is received.
 *
 * Received pages are never written to: on veth, loopback and under a packet
 * tap they can be the sender's own memory (design.rst, fact 1).
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include "allreduce.h"

/* Bytes handled without a look at the ring's state. */
#define AR_ALONE_BATCH		(128 * 1024)
/*
 * Bytes that are reduced in one section of the FPU's, with preemption off: a few
 * microseconds. Where a contribution is scaled, or a sum divided, element by
 * element for integers, fewer.
 */
#define AR_REDUCE_BATCH		(32 * 1024)
#define AR_SLOW_BATCH		AR_SCRATCH_BYTES

/* ---- places in buffers ---------------------------------------------------- */

static void ar_view_seek(struct ar_membuf_iter *it, const struct ar_view *view,
			 u64 offset)
{
	ar_membuf_seek(it, view->mb, view->offset + offset);
}

/* @offset: bytes from the beginning of the chunk. */
void ar_payload_seek_src(struct ar_membuf_iter *it, struct ar_job *job,
			 u32 chunk, u64 offset)
{
	ar_view_seek(it, &job->src, ar_plan_src(&job->plan, chunk) *
		     job->element_bytes + offset);
}

/* Where a received piece of the chunk goes. */
void ar_payload_seek_dst(struct ar_membuf_iter *it, struct ar_job *job,
			 u32 chunk, u64 offset)
{
	struct ar_view copies = { .mb = &job->copies };

	ar_view_seek(it, job->plan.copies ? &copies : &job->dst,
		     ar_plan_dst(&job->plan, chunk) * job->element_bytes + offset);
}

/* ---- reducing ------------------------------------------------------------- */

static bool ar_job_scales(const struct ar_job *job)
{
	return job->kernel && job->kernel->scale;
}

/*
 * What this member contributes for @len bytes at @local; in the scratch if it is
 * scaled, for which the caller has to be in a section of the FPU's.
 */
static const u8 *ar_contribution(struct ar_lane *lane, const struct ar_job *job,
				 const u8 *local, u32 len)
{
	if (!ar_job_scales(job))
		return local;
	job->kernel->scale(lane->scratch, local, len / job->element_bytes,
			   job->call.factor);
	return lane->scratch;
}

/*
 * The sum of @len bytes to @out and, after the last addition, to @result; one of
 * them can be NULL then.
 */
static void ar_reduce_run(struct ar_lane *lane, const struct ar_job *job,
			  u8 *out, u8 *result, const u8 *data, const u8 *local,
			  u32 len, bool last)
{
	const struct ar_reduce_kernel *kernel = job->kernel;
	u32 n = len / job->element_bytes;
	u8 *first = out ?: result, *second = out ? result : NULL;

	ar_reduce_begin();
	local = ar_contribution(lane, job, local, len);
	if (last && kernel->divide) {
		kernel->reduce(first, NULL, data, local, n);
		kernel->divide(first, second, first, n, job->plan.size);
	} else {
		kernel->reduce(first, second, data, local, n);
	}
	ar_reduce_end();
}

/* A multiple of every element's size. */
static u32 ar_job_batch(const struct ar_job *job)
{
	return ar_job_scales(job) || job->kernel->divide ? AR_SLOW_BATCH :
	       AR_REDUCE_BATCH;
}

static int ar_payload_reduce(struct ar_lane *lane, const u8 *data, u32 len)
{
	struct ar_rx_frame *rx = &lane->rx;
	const struct ar_job *job = rx->jl->job;
	bool sends = ar_action_sends(rx->action);
	bool last = ar_action_delivers(rx->action);
	u32 element_bytes = job->element_bytes;

	ar_stat_add(&lane->stats, bytes_reduced, len);
	if (last)
		ar_stat_add(&lane->stats, bytes_delivered, len);
	while (len) {
		u8 *local, *result = NULL, *out = NULL;
		u32 n = len;

		if (sends) {
			out = ar_txq_reserve(&lane->txq, element_bytes, len, &n);
			if (!out)
				return -ENOMEM;
			n -= n % element_bytes;
		}
		n = min_t(size_t, n, ar_membuf_run(&rx->local, &local));
		if (last)
			n = min_t(size_t, n, ar_membuf_run(&rx->result, &result));
		n = min_t(u32, n, ar_job_batch(job));
		ar_reduce_run(lane, job, out, result, data, local, n, last);
		if (sends)
			ar_txq_commit(&lane->txq, n);
		ar_membuf_advance(&rx->local, n);
		if (last)
			ar_membuf_advance(&rx->result, n);
		data += n;
		len -= n;
	}
	return 0;
}

/* ---- delivering and forwarding -------------------------------------------- */

static void ar_copy_to(struct ar_membuf_iter *to, const u8 *data, u32 len)
{
	while (len) {
		u8 *addr;
		u32 n = min_t(size_t, len, ar_membuf_run(to, &addr));

		memcpy(addr, data, n);
		ar_membuf_advance(to, n);
		data += n;
		len -= n;
	}
}

/* Into the queue, by copying. */
static int ar_copy_to_queue(struct ar_lane *lane, const u8 *data, u32 len)
{
	while (len) {
		u32 n;
		u8 *out = ar_txq_reserve(&lane->txq, 1, len, &n);

		if (!out)
			return -ENOMEM;
		memcpy(out, data, n);
		ar_txq_commit(&lane->txq, n);
		data += n;
		len -= n;
	}
	return 0;
}

static int ar_payload_forward(struct ar_lane *lane, const u8 *data, u32 len)
{
	const struct ar_rx_run *run = &lane->run;

	if (!run->page || !ar_txq_may_reference(&lane->txq)) {
		ar_stat_add(&lane->stats, bytes_copied, len);
		return ar_copy_to_queue(lane, data, len);
	}
	ar_stat_add(&lane->stats, bytes_forwarded, len);
	ar_txq_add_page(&lane->txq, run->page, run->offset + (data - run->base), len);
	return 0;
}

/**
 * ar_payload_receive - do with received bytes what the frame is for
 * @lane: the lane, inside a frame
 * @data: the bytes; whole elements if they are to be reduced
 * @len: how many
 *
 * Return: 0 or -ENOMEM.
 */
int ar_payload_receive(struct ar_lane *lane, const u8 *data, u32 len)
{
	struct ar_rx_frame *rx = &lane->rx;

	if (ar_action_reduces(rx->action))
		return ar_payload_reduce(lane, data, len);
	/* On the gather path the result comes later, from the copies. */
	if (rx->jl->job->plan.copies)
		ar_stat_add(&lane->stats, bytes_staged, len);
	else
		ar_stat_add(&lane->stats, bytes_delivered, len);
	ar_copy_to(&rx->result, data, len);
	if (rx->action == AR_DELIVER_FORWARD)
		return ar_payload_forward(lane, data, len);
	return 0;
}

/* ---- injecting ------------------------------------------------------------- */

/* The user's pages go out by reference (design.rst, fact 2). */
static void ar_inject_pages(struct ar_lane *lane, struct ar_membuf_iter *from,
			    u32 len)
{
	ar_stat_add(&lane->stats, bytes_injected, len);
	while (len) {
		u8 *addr;
		u32 n = min_t(size_t, len, ar_membuf_run(from, &addr));

		n = min_t(u32, n, PAGE_SIZE - offset_in_page(addr));
		ar_txq_add_page(&lane->txq, virt_to_page(addr),
				offset_in_page(addr), n);
		ar_membuf_advance(from, n);
		len -= n;
	}
}

/* Scaled, or for the gather path: a copy goes out; @keep gets another, or NULL. */
static int ar_inject_copy(struct ar_lane *lane, struct ar_job *job,
			  struct ar_membuf_iter *from, struct ar_membuf_iter *keep,
			  u32 len)
{
	ar_stat_add(&lane->stats, bytes_staged, len);
	while (len) {
		const u8 *data;
		u8 *addr;
		u32 n = min_t(size_t, len, ar_membuf_run(from, &addr));
		int ret;

		n = min_t(u32, n, AR_SCRATCH_BYTES);
		if (ar_job_scales(job))
			ar_reduce_begin();
		data = ar_contribution(lane, job, addr, n);
		if (ar_job_scales(job))
			ar_reduce_end();
		ret = ar_copy_to_queue(lane, data, n);
		if (ret)
			return ret;
		if (keep)
			ar_copy_to(keep, data, n);
		ar_membuf_advance(from, n);
		len -= n;
	}
	return 0;
}

/* The root, or a member that gathers, has its own part as well. */
static void ar_deliver_own(struct ar_lane *lane, struct ar_job *job, u32 chunk,
			   u64 offset, u32 len)
{
	struct ar_membuf_iter from, to;

	ar_stat_add(&lane->stats, bytes_delivered, len);
	ar_payload_seek_src(&from, job, chunk, offset);
	ar_payload_seek_dst(&to, job, chunk, offset);
	while (len) {
		u8 *addr;
		u32 n = min_t(size_t, len, ar_membuf_run(&from, &addr));

		ar_copy_to(&to, addr, n);
		ar_membuf_advance(&from, n);
		len -= n;
	}
}

/**
 * ar_payload_inject - queue the payload of an own frame
 * @lane: the lane; its queue has the header
 * @jl: the part
 * @chunk: the own chunk
 * @offset: byte in the chunk
 * @len: bytes
 *
 * Return: 0 or -ENOMEM.
 */
int ar_payload_inject(struct ar_lane *lane, struct ar_job_lane *jl, u32 chunk,
		      u64 offset, u32 len)
{
	struct ar_job *job = jl->job;
	struct ar_membuf_iter from, keep;

	ar_payload_seek_src(&from, job, chunk, offset);
	if (job->plan.copies) {
		ar_payload_seek_dst(&keep, job, chunk, offset);
		return ar_inject_copy(lane, job, &from, &keep, len);
	}
	if (ar_job_scales(job))
		return ar_inject_copy(lane, job, &from, NULL, len);
	ar_inject_pages(lane, &from, len);
	if (!job->plan.reduce && !job->in_place)
		ar_deliver_own(lane, job, chunk, offset, len);
	return 0;
}

/* ---- the gather path's sum ------------------------------------------------- */

/* Member @rank's copy, from byte @offset of the vector on. */
static u8 *ar_copy_of(const struct ar_job *job, u32 rank, u64 offset)
{
	u64 vector_bytes = job->plan.count * job->element_bytes;

	return job->copies.runs[0].addr + vector_bytes * rank + offset;
}

/* In the ring's order; partial sums in the copy that is the first operand. */
static void ar_sum_run(const struct ar_job *job, u32 chunk, u64 offset, u8 *result,
		       u32 len)
{
	const struct ar_reduce_kernel *kernel = job->kernel;
	u32 size = job->plan.size, n = len / job->element_bytes;
	u32 first = ar_next(chunk, size), rank;
	u8 *sum = ar_copy_of(job, first, offset);

	ar_reduce_begin();
	/* The last one, the chunk's owner, makes the result. */
	for (rank = ar_next(first, size); rank != chunk; rank = ar_next(rank, size))
		kernel->reduce(sum, NULL, sum, ar_copy_of(job, rank, offset), n);
	kernel->reduce(result, NULL, sum, ar_copy_of(job, chunk, offset), n);
	if (kernel->divide)
		kernel->divide(result, NULL, result, n, size);
	ar_reduce_end();
}

static void ar_sum_chunk(struct ar_job *job, u32 chunk, struct ar_range range)
{
	u64 offset = range.start * job->element_bytes;
	u64 bytes = range.count * job->element_bytes;
	struct ar_membuf_iter to;

	ar_view_seek(&to, &job->dst, offset);
	while (bytes) {
		u8 *result;
		u32 n = min3((u64)ar_membuf_run(&to, &result), bytes,
			     (u64)AR_SLOW_BATCH);

		ar_sum_run(job, chunk, offset, result, n);
		ar_membuf_advance(&to, n);
		offset += n;
		bytes -= n;
		cond_resched();
	}
}

/**
 * ar_payload_sum_copies - all members' vectors are there: make the result
 * @lane: the lane that has carried the job
 * @job: a job of the gather path
 *
 * The chunks and their order are those of the ring path, so the bits are too.
 */
void ar_payload_sum_copies(struct ar_lane *lane, struct ar_job *job)
{
	u64 bytes = job->plan.count * job->element_bytes;
	struct ar_plan ring = job->plan;
	u32 chunk;

	ring.layout = AR_LAYOUT_SPLIT;
	for (chunk = 0; chunk < ring.size; chunk++)
		ar_sum_chunk(job, chunk, ar_plan_chunk(&ring, chunk));
	ar_stat_add(&lane->stats, bytes_reduced, bytes * (ring.size - 1));
	ar_stat_add(&lane->stats, bytes_delivered, bytes);
}

/* ---- a ring of one ----------------------------------------------------------- */

static void ar_alone_run(const struct ar_job *job, u8 *to, const u8 *from, u32 len)
{
	if (!ar_job_scales(job)) {
		memcpy(to, from, len);
		return;
	}
	ar_reduce_begin();
	job->kernel->scale(to, from, len / job->element_bytes, job->call.factor);
	ar_reduce_end();
}

/**
 * ar_payload_run_alone - a ring of one: the result is the contribution
 * @lane: the lane
 * @jl: the part
 *
 * Return: false if the ring broke meanwhile.
 */
bool ar_payload_run_alone(struct ar_lane *lane, struct ar_job_lane *jl)
{
	struct ar_job *job = jl->job;
	struct ar_range piece = ar_plan_piece(&job->plan, 0, jl->index);
	u64 offset = piece.start * job->element_bytes;
	u64 bytes = piece.count * job->element_bytes;
	struct ar_membuf_iter from, to;

	if (job->in_place && !ar_job_scales(job))
		return true;
	ar_view_seek(&from, &job->src, offset);
	ar_view_seek(&to, &job->dst, offset);
	while (bytes) {
		u8 *src, *dst;
		u32 n = min3((u64)ar_membuf_run(&from, &src),
			     (u64)ar_membuf_run(&to, &dst),
			     min_t(u64, bytes, ar_job_scales(job) ?
				   AR_SLOW_BATCH : AR_ALONE_BATCH));

		if (!ar_ring_is_up(lane->ring))
			return false;
		ar_alone_run(job, dst, src, n);
		ar_stat_add(&lane->stats, bytes_delivered, n);
		ar_membuf_advance(&from, n);
		ar_membuf_advance(&to, n);
		bytes -= n;
		cond_resched();
	}
	return true;
}
