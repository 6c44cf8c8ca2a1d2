// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs: from a call that has been checked to its completion.
 *
 * A job is numbered and put on the FIFO of each lane that it uses in one
 * critical section, so all lanes see all jobs in the order of their numbers.
 * Each lane gives up its part exactly once (ar_job_part_done), whether it has
 * carried it or the ring broke; the last one completes the job. Until then
 * lanes may read and write the buffers, afterwards nothing does: buffers are
 * released before the command is completed.
 */
#include <linux/jiffies.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "allreduce.h"
#include "compat.h"

static bool ar_call_in_range(const struct allreduce_call *call, u32 timeout_ms)
{
	if (call->count > ALLREDUCE_COUNT_MAX || call->root || call->reserved0)
		return false;
	if (memchr_inv(call->reserved, 0, sizeof(call->reserved)))
		return false;
	if (call->flags & ~ALLREDUCE_CALL_FLAGS)
		return false;
	if (call->collective != ALLREDUCE_COLLECTIVE_ALLREDUCE)
		return false;
	return timeout_ms >= ALLREDUCE_TIMEOUT_MS_MIN &&
	       timeout_ms <= ALLREDUCE_TIMEOUT_MS_MAX;
}

/* Both buffers aligned, inside the address space, and the same or apart. */
static bool ar_call_buffers_ok(const struct allreduce_call *call, u64 bytes,
			       u32 element_bytes)
{
	if ((call->src | call->dst) % element_bytes)
		return false;
	if (call->src + bytes < call->src || call->dst + bytes < call->dst)
		return false;
	if (call->src == call->dst || !bytes)
		return true;
	return call->src + bytes <= call->dst || call->dst + bytes <= call->src;
}

static int ar_job_map(struct ar_membuf *mb, struct io_uring_cmd *cmd, u64 addr,
		      u64 bytes, bool fixed, bool writable)
{
	struct iov_iter iter;
	int ret;

	if (!fixed || !bytes)
		return ar_membuf_pin(mb, addr, bytes, writable);
	if (bytes > MAX_RW_COUNT)
		return -EFAULT;
	ret = io_uring_cmd_import_fixed(addr, bytes, writable ? READ : WRITE,
					&iter, cmd);
	if (ret)
		return ret;
	return ar_membuf_import(mb, &iter);
}

static int ar_job_map_buffers(struct ar_job *job)
{
	const struct allreduce_call *call = &job->call;
	u64 bytes = call->count * job->element_bytes;
	int ret;

	ret = ar_job_map(&job->dst, job->cmd, call->dst, bytes,
			 call->flags & ALLREDUCE_CALL_FIXED_DST, true);
	if (ret || job->in_place)
		return ret;
	return ar_job_map(&job->src, job->cmd, call->src, bytes,
			  call->flags & ALLREDUCE_CALL_FIXED_SRC, false);
}

/* One block for the frame numbers of all lanes: [lane][phase][chunk]. */
static int ar_job_alloc_parts(struct ar_job *job)
{
	u32 size = job->ring->config.size;
	u64 *frames;
	u32 i;

	frames = kvcalloc(2 * size * job->nr_parts, sizeof(*frames),
			  GFP_KERNEL_ACCOUNT);
	if (!frames)
		return -ENOMEM;
	for (i = 0; i < job->nr_parts; i++) {
		job->parts[i].next_frame[0] = frames + 2 * size * i;
		job->parts[i].next_frame[1] = frames + 2 * size * i + size;
	}
	return 0;
}

/*
 * What a lane has to do for the job, in frames. With F(c) frames in chunk c
 * and T in all chunks, rank r receives the partial sums of all chunks but r
 * and the final values of all but r + 1. It sends on all of the former, and of
 * the latter all but those of r + 2, which end here (partition.h, ar_action).
 */
static void ar_job_plan_part(struct ar_job *job, u32 lane)
{
	const struct ar_ring_config *config = &job->ring->config;
	u32 size = config->size, own = config->rank;
	u32 next = ar_next(own, size), after = ar_next(next, size);
	struct ar_job_lane *jl = &job->parts[lane];
	u64 total = 0, frames, skip = 0;
	u32 c;

	jl->job = job;
	/* If one lane is used, it is the primary one, whatever the job's number. */
	jl->stripe = ar_stripe(job->call.count, job->element_bytes, lane,
			       config->lanes, lane);
	if (size == 1)
		return;
	for (c = 0; c < size; c++) {
		struct ar_range chunk = ar_chunk(jl->stripe, job->element_bytes,
						 size, c);

		frames = ar_frames(chunk.count * job->element_bytes,
				   config->frame_max);
		total += frames;
		if (c == own)
			jl->to_inject = frames;
		if (c == own || c == next)
			jl->to_receive -= frames;
		if (c == after)
			skip = frames;
	}
	jl->to_receive += 2 * total;
	jl->to_forward = jl->to_receive - skip;
}

/**
 * ar_job_alloc - check a call and take hold of its buffers
 * @ring: the ring
 * @call: the caller's words, copied already
 * @cmd: the command to complete
 *
 * Runs in the context of the submitting task; may sleep.
 *
 * Return: the job, to be submitted or freed, or an ERR_PTR().
 */
struct ar_job *ar_job_alloc(struct ar_ring *ring, const struct allreduce_call *call,
			    struct io_uring_cmd *cmd)
{
	u32 timeout_ms = call->timeout_ms ?: ring->config.timeout_ms;
	u32 element_bytes = ar_element_bytes(call->type);
	ar_reduce_fn reduce = ar_reduce_get(call->type, call->op);
	struct ar_job *job;
	u32 nr_parts, i;
	int ret;

	if (!element_bytes || !reduce || !ar_call_in_range(call, timeout_ms) ||
	    !ar_call_buffers_ok(call, call->count * element_bytes, element_bytes))
		return ERR_PTR(-EINVAL);
	nr_parts = ar_striped(call->count, element_bytes, ring->config.lanes) ?
		   ring->config.lanes : 1;
	job = kzalloc(struct_size(job, parts, nr_parts), GFP_KERNEL_ACCOUNT);
	if (!job)
		return ERR_PTR(-ENOMEM);
	job->ring = ring;
	job->cmd = cmd;
	job->submitter = current->files;
	job->call = *call;
	job->nr_parts = nr_parts;
	atomic_set(&job->lanes_left, nr_parts);
	job->timeout = msecs_to_jiffies(timeout_ms);
	job->element_bytes = element_bytes;
	job->reduce = reduce;
	job->in_place = call->src == call->dst;
	ret = ar_job_alloc_parts(job);
	if (ret)
		goto err;
	for (i = 0; i < nr_parts; i++)
		ar_job_plan_part(job, i);
	ret = ar_job_map_buffers(job);
	if (ret)
		goto err;
	return job;
err:
	ar_job_free(job);
	return ERR_PTR(ret);
}

void ar_job_free(struct ar_job *job)
{
	ar_membuf_release(&job->src);
	ar_membuf_release(&job->dst);
	kvfree(job->parts[0].next_frame[0]);
	kfree(job);
}

/* Why the ring takes no jobs now, or 0; certain only under the ring's lock. */
int ar_job_refusal(const struct ar_ring *ring)
{
	switch (READ_ONCE(ring->state)) {
	case ALLREDUCE_RING_UP:
		return 0;
	case ALLREDUCE_RING_BROKEN:
		return -EPIPE;
	default:
		return -ENOTCONN;
	}
}

/* Onto the FIFOs: all lanes, or the primary one of the job's number. */
static void ar_job_queue_parts(struct ar_job *job)
{
	struct ar_ring *ring = job->ring;
	u32 lane = job->nr_parts == 1 ?
		   ar_primary_lane(job->number, ring->config.lanes) : 0;
	u32 i;

	for (i = 0; i < job->nr_parts; i++) {
		list_add_tail(&job->parts[i].node, &ring->lanes[lane + i].jobs);
		ar_lane_queue(&ring->lanes[lane + i]);
	}
}

/**
 * ar_job_submit - number a job and hand it to its lanes
 * @job: the job; belongs to the lanes after success, else to the caller
 *
 * Return: 0, -ENOTCONN or -EPIPE.
 */
int ar_job_submit(struct ar_job *job)
{
	struct ar_ring *ring = job->ring;
	int ret;

	spin_lock(&ring->lock);
	ret = ar_job_refusal(ring);
	if (!ret) {
		job->number = ++ring->jobs_submitted;
		job->submitted = jiffies;
		list_add_tail(&job->node, &ring->jobs);
		ring->jobs_in_flight++;
		/* The lock keeps lanes from completing the job meanwhile. */
		ar_job_queue_parts(job);
		ar_ring_arm_watchdog(ring);
	}
	spin_unlock(&ring->lock);
	return ret;
}

static void ar_job_finish(struct ar_job *job)
{
	struct ar_ring *ring = job->ring;

	spin_lock(&ring->lock);
	list_del(&job->node);
	ring->jobs_in_flight--;
	if (job->status)
		ring->jobs_failed++;
	else
		ring->jobs_done++;
	/* A lane may have waited for this to take note of a closed link. */
	if (ring->link_closed && ring->state == ALLREDUCE_RING_UP)
		ar_ring_queue_lanes(ring);
	spin_unlock(&ring->lock);

	ar_membuf_release(&job->src);
	ar_membuf_release(&job->dst);
	job->result = job->status;
	ar_job_complete_cmd(job);
	wake_up_all(&ring->idle);
}

/**
 * ar_job_part_done - a lane lets go of its part of a job
 * @jl: the part, off the lane's lists
 * @error: 0 or why it was not carried
 */
void ar_job_part_done(struct ar_job_lane *jl, int error)
{
	struct ar_job *job = jl->job;

	if (error)
		cmpxchg(&job->status, 0, error);
	if (atomic_dec_and_test(&job->lanes_left))
		ar_job_finish(job);
}
