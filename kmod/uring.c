// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/allreduce: io_uring commands on a misc device.
 *
 * A file belongs to the network namespace in which it was opened and can be
 * attached to one of its rings; a ring has one file at most. A pending command
 * holds the file, so a file that is released has no jobs.
 *
 * There is one way to end a command that is pending: the ring lets go of the
 * job (job.c) and the result is posted in the submitter's context. Canceling,
 * in all its forms, breaks the ring and leaves the rest to that; io_uring asks
 * again until the command is gone, which takes as long as the lanes' current
 * batch.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "allreduce.h"
#include "compat.h"

/* SQE128 leaves so much for the payload. */
#define AR_PAYLOAD_BYTES	80

struct ar_file {
	struct net *net;
	struct mutex lock;		/* serialises attaching */
	struct ar_ring *ring;		/* set once */
	spinlock_t refusal_lock;
	char refusal[ALLREDUCE_REASON_SIZE];	/* of the last call refused */
};

union ar_payload {
	u8 bytes[AR_PAYLOAD_BYTES];
	struct allreduce_attach attach;
	struct allreduce_call call;
	struct allreduce_cancel cancel;
	struct allreduce_info_query info;
};

static_assert(sizeof(union ar_payload) == AR_PAYLOAD_BYTES);

static struct ar_ring *ar_file_ring(struct ar_file *file)
{
	/* Pairs with the release in ar_file_attach(). */
	return smp_load_acquire(&file->ring);
}

/* ---- information --------------------------------------------------------- */

/* A caller with a longer struct than ours finds zeros behind what we know. */
static int ar_put_info(struct ar_file *file, struct ar_ring *ring, u64 addr,
		       u32 size)
{
	u8 __user *to = u64_to_user_ptr(addr);
	struct allreduce_info info;
	size_t known = min_t(size_t, size, sizeof(info));

	if (size > ALLREDUCE_INFO_SIZE_MAX)
		return -EINVAL;
	ar_ring_info(ring, &info);
	/* Userspace can make the copy take for ever: without the lock. */
	spin_lock(&file->refusal_lock);
	memcpy(info.refusal, file->refusal, sizeof(info.refusal));
	spin_unlock(&file->refusal_lock);
	if (copy_to_user(to, &info, known) || clear_user(to + known, size - known))
		return -EFAULT;
	return 0;
}

static int ar_uring_info(struct ar_file *file, const struct allreduce_info_query *query)
{
	struct ar_ring *ring = ar_file_ring(file);

	if (query->reserved0 ||
	    memchr_inv(query->reserved, 0, sizeof(query->reserved)))
		return -EINVAL;
	if (!ring)
		return -ENXIO;
	return ar_put_info(file, ring, query->info, query->info_size);
}

/* ---- attaching ----------------------------------------------------------- */

static bool ar_ring_claim(struct ar_ring *ring, void *owner)
{
	bool free;

	spin_lock(&ring->lock);
	free = !ring->attached;
	if (free)
		ring->attached = owner;
	spin_unlock(&ring->lock);
	return free;
}

static void ar_ring_unclaim(struct ar_ring *ring)
{
	spin_lock(&ring->lock);
	ring->attached = NULL;
	spin_unlock(&ring->lock);
}

static int ar_file_attach(struct ar_file *file, const struct allreduce_attach *attach)
{
	struct ar_ring *ring;
	int ret;

	if (file->ring)
		return -EALREADY;
	ring = ar_ring_get_by_name(ar_net(file->net), attach->ring);
	if (!ring)
		return -ENODEV;
	ret = -EBUSY;
	if (!ar_ring_claim(ring, file))
		goto err_put;
	if (attach->info) {
		ret = ar_put_info(file, ring, attach->info, attach->info_size);
		if (ret)
			goto err_unclaim;
	}
	/* Pairs with the acquire in ar_file_ring(). */
	smp_store_release(&file->ring, ring);
	return 0;

err_unclaim:
	ar_ring_unclaim(ring);
err_put:
	ar_ring_put(ring);
	return ret;
}

static int ar_uring_attach(struct ar_file *file, const struct allreduce_attach *attach)
{
	int ret;

	if (attach->flags || strnlen(attach->ring, ALLREDUCE_NAME_SIZE) ==
	    ALLREDUCE_NAME_SIZE ||
	    memchr_inv(attach->reserved, 0, sizeof(attach->reserved)))
		return -EINVAL;
	mutex_lock(&file->lock);
	ret = ar_file_attach(file, attach);
	mutex_unlock(&file->lock);
	return ret;
}

/* ---- jobs ---------------------------------------------------------------- */

static struct ar_job **ar_cmd_job(struct io_uring_cmd *cmd)
{
	BUILD_BUG_ON(sizeof(struct ar_job *) > sizeof(cmd->pdu));
	return (struct ar_job **)cmd->pdu;
}

/* In the submitter's context, or in a worker's if that is gone. */
static void ar_uring_post(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct ar_job *job = *ar_cmd_job(cmd);
	int result = job->result;

	ar_job_free(job);
	io_uring_cmd_done(cmd, result, 0, issue_flags);
}

/* The job is over, and its buffers are released. */
void ar_job_complete_cmd(struct ar_job *job)
{
	io_uring_cmd_complete_in_task(job->cmd, ar_uring_post);
}

static void ar_file_note_refusal(struct ar_file *file, const char *why)
{
	spin_lock(&file->refusal_lock);
	strscpy(file->refusal, why, sizeof(file->refusal));
	spin_unlock(&file->refusal_lock);
}

static const char *ar_job_refusal_text(int error)
{
	return error == -EPIPE ? "the ring is broken" : "the ring is not up";
}

static const char ar_fixed_flags_text[] =
	"flags: FIXED_SRC or FIXED_DST and IORING_URING_CMD_FIXED go together";

static bool ar_call_fixed_flags_ok(const struct io_uring_cmd *cmd,
				   const struct allreduce_call *call)
{
	bool fixed = cmd->flags & IORING_URING_CMD_FIXED;

	return fixed == !!(call->flags & (ALLREDUCE_CALL_FIXED_SRC |
					  ALLREDUCE_CALL_FIXED_DST));
}

static int ar_uring_submit(struct ar_file *file, struct io_uring_cmd *cmd,
			   const struct allreduce_call *call,
			   unsigned int issue_flags)
{
	struct ar_ring *ring = ar_file_ring(file);
	char why[ALLREDUCE_REASON_SIZE] = "";
	struct ar_job *job;
	int ret;

	if (!ring)
		return -ENXIO;
	if (!ar_call_fixed_flags_ok(cmd, call)) {
		ar_file_note_refusal(file, ar_fixed_flags_text);
		return -EINVAL;
	}
	/* Before anything is pinned; looked at again when the job is queued. */
	ret = ar_job_refusal(ring);
	if (ret) {
		ar_file_note_refusal(file, ar_job_refusal_text(ret));
		return ret;
	}
	job = ar_job_alloc(ring, call, cmd, why);
	if (IS_ERR(job)) {
		ar_file_note_refusal(file, why);
		return PTR_ERR(job);
	}
	*ar_cmd_job(cmd) = job;
	/* Before anyone else knows the command; from then on it is to be posted. */
	compat_uring_cmd_mark_cancelable(cmd, issue_flags);
	ret = ar_job_submit(job);
	if (ret) {
		ar_file_note_refusal(file, ar_job_refusal_text(ret));
		ar_job_free(job);
		io_uring_cmd_done(cmd, ret, 0, issue_flags);
	}
	return -EIOCBQUEUED;
}

static bool ar_job_has_tag(const struct ar_job *job, const void *arg)
{
	const struct allreduce_cancel *cancel = arg;

	return cancel->flags & ALLREDUCE_CANCEL_ALL ||
	       job->call.tag == cancel->tag;
}

static int ar_uring_cancel(struct ar_file *file, const struct allreduce_cancel *cancel)
{
	struct ar_ring *ring = ar_file_ring(file);

	if (cancel->flags & ~ALLREDUCE_CANCEL_ALL || cancel->reserved0 ||
	    memchr_inv(cancel->reserved, 0, sizeof(cancel->reserved)))
		return -EINVAL;
	if (!ring)
		return -ENXIO;
	return ar_ring_cancel(ring, "a job was canceled", ar_job_has_tag, cancel) ?:
	       -ENOENT;
}

static const char ar_submitter_ended[] =
	"the submitting process has ended or closed its io_uring";

static bool ar_job_is(const struct ar_job *job, const void *arg)
{
	return job == arg;
}

/* io_uring wants a command back; it may be on its way already. */
static void ar_uring_abort(struct ar_file *file, struct io_uring_cmd *cmd)
{
	ar_ring_cancel(file->ring, ar_submitter_ended, ar_job_is, *ar_cmd_job(cmd));
}

static bool ar_job_is_of(const struct ar_job *job, const void *arg)
{
	return job->submitter == arg;
}

/* ---- the device ---------------------------------------------------------- */

static int ar_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct ar_file *file = cmd->file->private_data;
	union ar_payload payload;

	if (compat_uring_cmd_cancels(issue_flags)) {
		ar_uring_abort(file, cmd);
		return 0;
	}
	if (!(issue_flags & IO_URING_F_SQE128) || issue_flags & IO_URING_F_IOPOLL)
		return -EINVAL;
	/* Userspace can change the SQE at any time: it is read once. */
	memcpy(&payload, compat_uring_cmd_payload(cmd), sizeof(payload));
	switch (cmd->cmd_op) {
	case ALLREDUCE_URING_ATTACH:
		return ar_uring_attach(file, &payload.attach);
	case ALLREDUCE_URING_SUBMIT:
		return ar_uring_submit(file, cmd, &payload.call, issue_flags);
	case ALLREDUCE_URING_CANCEL:
		return ar_uring_cancel(file, &payload.cancel);
	case ALLREDUCE_URING_INFO:
		return ar_uring_info(file, &payload.info);
	default:
		return -ENOTTY;
	}
}

static int ar_open(struct inode *inode, struct file *filp)
{
	struct ar_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	spin_lock_init(&file->refusal_lock);
	file->net = get_net(current->nsproxy->net_ns);
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

/*
 * Called for each close of a descriptor. Only a dying process counts here, and
 * only if it submitted jobs: a child may have inherited the descriptor. Where
 * commands are cancelable io_uring has asked for their end already.
 */
static int ar_flush(struct file *filp, fl_owner_t id)
{
	struct ar_ring *ring = ar_file_ring(filp->private_data);

	if (ring && current->flags & PF_EXITING)
		ar_ring_cancel(ring, ar_submitter_ended, ar_job_is_of, id);
	return 0;
}

static int ar_release(struct inode *inode, struct file *filp)
{
	struct ar_file *file = filp->private_data;

	if (file->ring) {
		ar_ring_unclaim(file->ring);
		ar_ring_put(file->ring);
	}
	put_net(file->net);
	kfree(file);
	return 0;
}

static const struct file_operations ar_fops = {
	.owner = THIS_MODULE,
	.open = ar_open,
	.flush = ar_flush,
	.release = ar_release,
	.uring_cmd = ar_uring_cmd,
};

static struct miscdevice ar_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "allreduce",
	.fops = &ar_fops,
};

int ar_uring_init(void)
{
	return misc_register(&ar_misc);
}

void ar_uring_exit(void)
{
	misc_deregister(&ar_misc);
}
