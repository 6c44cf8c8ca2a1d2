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
#include <linux/kernel.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "allreduce.h"
#include "compat.h"

static int ar_job_import(struct ar_membuf *mb, struct io_uring_cmd *cmd, u64 addr,
			 u64 bytes, bool writable)
{
	struct iov_iter iter;
	int ret;

	if (bytes > MAX_RW_COUNT)
		return -EFAULT;
	ret = io_uring_cmd_import_fixed(addr, bytes, writable ? READ : WRITE,
					&iter, cmd);
	if (ret)
		return ret;
	return ar_membuf_import(mb, &iter);
}

/**
 * struct ar_mapping - a buffer of a call that is to be mapped
 * @mb: where to
 * @name: what it is called in messages
 * @addr: user address
 * @bytes: 0 if there is nothing to map
 * @fixed: it lies in the registered buffer of the command
 * @writable: the kernel will write to it
 */
struct ar_mapping {
	struct ar_membuf *mb;
	const char *name;
	u64 addr;
	u64 bytes;
	bool fixed;
	bool writable;
};

static int ar_mapping_fault(const struct ar_mapping *m, char *why)
{
	scnprintf(why, ALLREDUCE_REASON_SIZE,
		  "%s: %llu bytes at 0x%llx are not all %s", m->name, m->bytes,
		  m->addr, m->fixed ? "in the registered buffer" :
		  m->writable ? "mapped and writable" : "mapped");
	return -EFAULT;
}

/* Before anything is charged: could there be memory of a user's? */
static int ar_mapping_check(const struct ar_mapping *m, char *why)
{
	if (m->bytes && !m->fixed && !access_ok(u64_to_user_ptr(m->addr), m->bytes))
		return ar_mapping_fault(m, why);
	return 0;
}

static int ar_job_map(struct ar_job *job, const struct ar_mapping *m, char *why)
{
	int ret;

	if (!m->bytes)
		return 0;
	ret = m->fixed ? ar_job_import(m->mb, job->cmd, m->addr, m->bytes, m->writable) :
	      ar_membuf_pin(m->mb, m->addr, m->bytes, m->writable);
	return ret == -EFAULT ? ar_mapping_fault(m, why) : ret;
}

/*
 * What has to be mapped, in this order. In place it is only the larger buffer,
 * for writing. Otherwise dst comes first: to pin it for writing can give the
 * process pages of its own, which must not happen to a page that src has pinned
 * already.
 */
static void ar_job_plan_mappings(struct ar_job *job, struct ar_mapping *dst,
				 struct ar_mapping *src)
{
	const struct allreduce_call *call = &job->call;
	const struct ar_ring_config *config = &job->ring->config;
	struct allreduce_buffers buffers =
		allreduce_buffers(call->collective, call->count, config->rank,
				  config->size, call->root);

	*dst = (struct ar_mapping) {
		.mb = &job->dst_memory, .name = "dst", .addr = call->dst,
		.bytes = buffers.dst * job->element_bytes,
		.fixed = call->flags & ALLREDUCE_CALL_FIXED_DST, .writable = true,
	};
	*src = (struct ar_mapping) {
		.mb = &job->src_memory, .name = "src", .addr = call->src,
		.bytes = buffers.src * job->element_bytes,
		.fixed = call->flags & ALLREDUCE_CALL_FIXED_SRC,
	};
	job->src.mb = src->mb;
	job->dst.mb = dst->mb;
	job->in_place = ar_call_in_place(call, &buffers, job->element_bytes);
	if (!job->in_place)
		return;
	if (src->bytes > dst->bytes) {
		job->dst.mb = src->mb;
		job->dst.offset = buffers.dst_in_src * job->element_bytes;
		src->writable = true;
		dst->bytes = 0;
	} else {
		job->src.mb = dst->mb;
		job->src.offset = buffers.src_in_dst * job->element_bytes;
		src->bytes = 0;
	}
}

static unsigned long ar_mapping_pages(const struct ar_mapping *m)
{
	return m->fixed ? 0 : ar_membuf_pages(m->addr, m->bytes);
}

static int ar_job_alloc_copies(struct ar_job *job)
{
	u64 bytes = ar_plan_bytes(&job->plan);
	void *copies;
	int ret;

	if (!job->plan.copies || !bytes)
		return 0;
	copies = kvmalloc(bytes, GFP_KERNEL_ACCOUNT);
	if (!copies)
		return -ENOMEM;
	ret = ar_membuf_wrap(&job->copies, copies, bytes);
	if (ret)
		kvfree(copies);
	return ret;
}

/* Charge for all that the job takes, then take it. */
static int ar_job_take_memory(struct ar_job *job, char *why)
{
	struct ar_mapping dst, src;
	unsigned long pages;

	ar_job_plan_mappings(job, &dst, &src);
	pages = ar_mapping_pages(&dst) + ar_mapping_pages(&src);
	if (job->plan.copies)
		pages += DIV_ROUND_UP(ar_plan_bytes(&job->plan), PAGE_SIZE);
	return ar_mapping_check(&dst, why) ?: ar_mapping_check(&src, why) ?:
	       ar_charge(&job->charge, pages, why) ?: ar_job_alloc_copies(job) ?:
	       ar_job_map(job, &dst, why) ?: ar_job_map(job, &src, why);
}

static void ar_job_release_memory(struct ar_job *job)
{
	ar_membuf_release(&job->src_memory);
	ar_membuf_release(&job->dst_memory);
	if (job->copies.nr_runs)
		kvfree(job->copies.runs[0].addr);
	ar_membuf_release(&job->copies);
	ar_uncharge(&job->charge);
}

/* One block for the frame numbers of all lanes: [lane][phase][chunk]. */
static int ar_job_alloc_parts(struct ar_job *job)
{
	u32 size = job->ring->config.size;
	u64 *frames;
	u32 i, phase;

	frames = kvcalloc(AR_PHASES * size * job->nr_parts, sizeof(*frames),
			  GFP_KERNEL_ACCOUNT);
	if (!frames)
		return -ENOMEM;
	for (i = 0; i < job->nr_parts; i++) {
		job->parts[i].job = job;
		job->parts[i].index = i;
		INIT_LIST_HEAD(&job->parts[i].sending);
		job->parts[i].left = ar_plan_work(&job->plan,
						  job->ring->config.rank, i);
		for (phase = 0; phase < AR_PHASES; phase++) {
			job->parts[i].next_frame[phase] = frames;
			frames += size;
		}
	}
	return 0;
}

/**
 * ar_job_alloc - check a call and take hold of its buffers
 * @ring: the ring
 * @call: the caller's words, copied already
 * @cmd: the command to complete
 * @why: gets the reason if the call is refused; ALLREDUCE_REASON_SIZE bytes,
 *	untouched if there is nothing to add to the error
 *
 * Runs in the context of the submitting task; may sleep.
 *
 * Return: the job, to be submitted or freed, or an ERR_PTR().
 */
struct ar_job *ar_job_alloc(struct ar_ring *ring, const struct allreduce_call *call,
			    struct io_uring_cmd *cmd, char *why)
{
	const struct ar_ring_config *config = &ring->config;
	u32 element_bytes = ar_call_element_bytes(call);
	struct ar_plan plan;
	struct ar_job *job;
	int ret;

	ret = ar_call_check(config, call, why);
	if (ret)
		return ERR_PTR(ret);
	ar_plan_init(&plan, call->collective, call->count, element_bytes,
		     call->root, config->size, config->lanes, config->frame_max,
		     config->gather_max);
	job = kzalloc(struct_size(job, parts, plan.lanes), GFP_KERNEL_ACCOUNT);
	if (!job)
		return ERR_PTR(-ENOMEM);
	job->ring = ring;
	job->cmd = cmd;
	job->submitter = current->files;
	job->call = *call;
	job->plan = plan;
	job->kernel = ar_call_kernel(call);
	job->nr_parts = plan.lanes;
	atomic_set(&job->lanes_left, job->nr_parts);
	job->timeout = msecs_to_jiffies(call->timeout_ms ?: config->timeout_ms);
	job->element_bytes = element_bytes;
	ret = ar_job_alloc_parts(job) ?: ar_job_take_memory(job, why);
	if (ret)
		goto err;
	return job;
err:
	ar_job_free(job);
	return ERR_PTR(ret);
}

void ar_job_free(struct ar_job *job)
{
	ar_job_release_memory(job);
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
		if (ar_part_owes_next(&job->parts[i]))
			list_add_tail(&job->parts[i].sending,
				      &ring->lanes[lane + i].sending);
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

	ar_job_release_memory(job);
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
