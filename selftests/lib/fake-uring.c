// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <time.h>

#include "fake-uring.h"

struct fake fake;

static struct io_uring *ring;
static unsigned int sq_head, sq_tail, cq_head, cq_tail;

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *uring,
				      struct io_uring_params *p);
void __wrap_io_uring_queue_exit(struct io_uring *uring);
int __wrap_io_uring_submit(struct io_uring *uring);
int __wrap_io_uring_wait_cqe_timeout(struct io_uring *uring, struct io_uring_cqe **cqe,
				     struct __kernel_timespec *ts);
int __wrap___io_uring_get_cqe(struct io_uring *uring, struct io_uring_cqe **cqe,
			      unsigned int submit, unsigned int wait_nr, sigset_t *mask);
int __wrap_io_uring_register_buffers(struct io_uring *uring, const struct iovec *iov,
				     unsigned int n);
int __wrap_io_uring_unregister_buffers(struct io_uring *uring);

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.info = (struct allreduce_info) {
		.rank = 0,
		.size = 1,
		.lanes = 1,
		.state = ALLREDUCE_RING_UP,
	};
}

static unsigned int round_up(unsigned int entries)
{
	unsigned int n = 1;

	while (n < entries)
		n *= 2;
	return n;
}

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *uring,
				      struct io_uring_params *p)
{
	unsigned int sq = round_up(entries), cq = round_up(p->cq_entries);

	if (fake.init_error)
		return fake.init_error;
	assert_true(p->flags & IORING_SETUP_SQE128);
	assert_true(p->flags & IORING_SETUP_CQSIZE);
	assert_true(cq >= sq);
	memset(uring, 0, sizeof(*uring));
	sq_head = 0;
	sq_tail = 0;
	cq_head = 0;
	cq_tail = 0;
	uring->flags = p->flags;
	uring->ring_fd = 1000;
	uring->sq.khead = &sq_head;
	uring->sq.ktail = &sq_tail;
	uring->sq.ring_entries = sq;
	uring->sq.ring_mask = sq - 1;
	uring->sq.sqes = calloc(sq, ARU_SQE_BYTES);
	uring->cq.khead = &cq_head;
	uring->cq.ktail = &cq_tail;
	uring->cq.ring_entries = cq;
	uring->cq.ring_mask = cq - 1;
	uring->cq.cqes = calloc(cq, sizeof(struct io_uring_cqe));
	ring = uring;
	fake.rings++;
	return 0;
}

void __wrap_io_uring_queue_exit(struct io_uring *uring)
{
	free(uring->sq.sqes);
	free(uring->cq.cqes);
	ring = NULL;
	fake.rings--;
}

static void post(uint64_t user_data, int res)
{
	struct io_uring_cqe *cqe = &ring->cq.cqes[cq_tail & ring->cq.ring_mask];

	/* The library promises that this can't happen. */
	assert_true(cq_tail - cq_head < ring->cq.ring_entries);
	cqe->user_data = user_data;
	cqe->res = res;
	cq_tail++;
}

static struct fake_job *oldest(void)
{
	return &fake.jobs[fake.n_jobs - fake.in_flight];
}

static void move(const struct allreduce_call *call)
{
	size_t bytes = aru_type_size(call->type);
	struct allreduce_buffers b = allreduce_buffers(call->collective, call->count,
						       fake.info.rank, fake.info.size,
						       call->root);

	if (b.src && b.dst)
		memmove((char *)(uintptr_t)call->dst + b.src_in_dst * bytes,
			(char *)(uintptr_t)call->src + b.dst_in_src * bytes,
			(b.src < b.dst ? b.src : b.dst) * bytes);
}

static void end_oldest(int res)
{
	struct fake_job *job = oldest();

	if (!res)
		move(&job->call);
	fake.in_flight--;
	post(job->user_data, res);
}

void fake_run_one(void)
{
	if (fake.in_flight)
		end_oldest(fake.job_res);
}

static int do_submit(const struct io_uring_sqe *sqe, const void *payload)
{
	struct fake_job *job = &fake.jobs[fake.n_jobs];

	assert_true(fake.n_jobs < FAKE_JOBS_MAX);
	memcpy(&job->call, payload, sizeof(job->call));
	job->user_data = sqe->user_data;
	job->buf_index = sqe->buf_index;
	job->fixed = sqe->uring_cmd_flags & IORING_URING_CMD_FIXED;
	/* The contract: only together. */
	assert_int_equal(job->fixed, !!(job->call.flags & ALLREDUCE_CALL_FLAGS));
	fake.n_jobs++;
	fake.in_flight++;
	if (fake.in_flight > fake.most)
		fake.most = fake.in_flight;
	return 0;
}

static int do_cancel(void)
{
	int n = fake.in_flight;

	fake.n_cancels++;
	while (!fake.deaf && fake.in_flight)
		end_oldest(-ECANCELED);
	return n ? n : -ENOENT;
}

static void tell_info(uint64_t to, uint32_t size)
{
	memcpy((void *)(uintptr_t)to, &fake.info,
	       size < sizeof(fake.info) ? size : sizeof(fake.info));
}

static void consume(const struct io_uring_sqe *sqe)
{
	const void *payload = (const char *)sqe + ARU_SQE_BYTES - ARU_SQE_CMD_BYTES;
	const struct allreduce_attach *attach = payload;
	const struct allreduce_info_query *query = payload;

	assert_int_equal(sqe->opcode, IORING_OP_URING_CMD);
	assert_int_equal(sqe->__pad1, 0);
	switch (sqe->cmd_op) {
	case ALLREDUCE_URING_ATTACH:
		memcpy(fake.attached, attach->ring, sizeof(fake.attached));
		if (!fake.attach_res)
			tell_info(attach->info, attach->info_size);
		post(sqe->user_data, fake.attach_res);
		break;
	case ALLREDUCE_URING_SUBMIT:
		do_submit(sqe, payload);
		break;
	case ALLREDUCE_URING_CANCEL:
		post(sqe->user_data, do_cancel());
		break;
	case ALLREDUCE_URING_INFO:
		fake.n_infos++;
		tell_info(query->info, query->info_size);
		post(sqe->user_data, 0);
		break;
	default:
		fail_msg("unknown command %#x", sqe->cmd_op);
	}
}

static bool interrupted(void)
{
	if (!fake.interrupts)
		return false;
	fake.interrupts--;
	return true;
}

/* Takes one SQE a call, as the kernel may: the library must come again. */
int __wrap_io_uring_submit(struct io_uring *uring)
{
	if (fake.broken)
		return fake.broken;
	if (interrupted())
		return -EINTR;
	if (fake.refusals) {
		fake.refusals--;
		return -EAGAIN;
	}
	if (sq_head == uring->sq.sqe_tail)
		return 0;
	sq_tail = uring->sq.sqe_tail;
	consume(&uring->sq.sqes[(sq_head & uring->sq.ring_mask) << 1]);
	sq_head++;
	return 1;
}

static int get_cqe(struct io_uring *uring, struct io_uring_cqe **cqe)
{
	*cqe = cq_head == cq_tail ? NULL : &uring->cq.cqes[cq_head & uring->cq.ring_mask];
	return *cqe ? 0 : -EAGAIN;
}

int __wrap_io_uring_wait_cqe_timeout(struct io_uring *uring, struct io_uring_cqe **cqe,
				     struct __kernel_timespec *ts)
{
	struct timespec t = { .tv_sec = ts->tv_sec, .tv_nsec = ts->tv_nsec };

	if (fake.broken)
		return fake.broken;
	if (interrupted())
		return -EINTR;
	if (!fake.hold)
		fake_run_one();
	if (!get_cqe(uring, cqe))
		return 0;
	/* A test that would wait for good fails here instead. */
	assert_true(t.tv_sec < 60);
	nanosleep(&t, NULL);
	return -ETIME;
}

int __wrap___io_uring_get_cqe(struct io_uring *uring, struct io_uring_cqe **cqe,
			      unsigned int submit, unsigned int wait_nr, sigset_t *mask)
{
	(void)mask;
	assert_int_equal(submit, 0);
	assert_int_equal(wait_nr, 0);
	return get_cqe(uring, cqe);
}

int __wrap_io_uring_register_buffers(struct io_uring *uring, const struct iovec *iov,
				     unsigned int n)
{
	(void)uring;
	(void)iov;
	(void)n;
	return interrupted() ? -EINTR : fake.register_error;
}

int __wrap_io_uring_unregister_buffers(struct io_uring *uring)
{
	(void)uring;
	return interrupted() ? -EINTR : 0;
}
