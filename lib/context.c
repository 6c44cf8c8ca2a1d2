// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The context: an io_uring, an attached device, and requests on it.
 *
 *     icall           room in the kernel            CQE           wait, test
 *  -----------> QUEUED ------------------> SUBMITTED -----> DONE ----------> freed
 *                  |                                         ^
 *                  +------------ cancel, close --------------+
 *
 * Requests become SUBMITTED in the order in which they were made, whatever the
 * depth: the members of a ring rely on it. At most depth requests are SUBMITTED
 * at a time, and the completion queue has room for them and for commands, so it
 * can't overflow.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define COMMAND_TIMEOUT_MS	10000

/* How long to pause when the kernel has no room for a submission just now. */
#define RETRY_MS		10

#define BUFFERS_MAX		16384

/**
 * struct op - what a CQE's user_data points to
 * @done: the CQE has come
 * @res: its res
 * @is_request: a struct aru_request, else a struct command
 */
struct op {
	bool done;
	int res;
	bool is_request;
};

enum request_state {
	REQUEST_QUEUED,
	REQUEST_SUBMITTED,
	REQUEST_DONE,
};

/**
 * struct aru_request - see the public header
 * @op: its CQE
 * @aru: the context
 * @state: see the top of this file
 * @call: the kernel's command
 * @buf_index: registered buffer, if @call has a FIXED flag
 * @prev: neighbours in the list of all requests
 * @next: the same
 * @queued_next: next in the context's queue, while QUEUED
 */
struct aru_request {
	struct op op;
	struct aru *aru;
	enum request_state state;
	struct allreduce_call call;
	uint16_t buf_index;
	struct aru_request *prev;
	struct aru_request *next;
	struct aru_request *queued_next;
};

/**
 * struct command - attach, cancel or info
 * @op: its CQE
 * @abandoned: nobody waits any more; the CQE frees it
 * @info: where the kernel writes
 *
 * On the heap, since the kernel may still answer after the caller gave up.
 */
struct command {
	struct op op;
	bool abandoned;
	struct allreduce_info info;
};

/**
 * struct aru - see the public header
 * @uring: its io_uring
 * @fd: the device
 * @rank: of the ring
 * @size: of the ring
 * @depth: bound of @submitted
 * @close_timeout_ms: see struct aru_open_opts
 * @submitted: requests SUBMITTED
 * @commands: commands whose CQE has not come
 * @tag: the last request's
 * @requests: all requests that have a handle
 * @queue: the requests that are QUEUED, in order
 * @queue_tail: where the next one goes
 * @buffers: registered buffers
 * @n_buffers: how many
 * @info: the last answer, whose text aru_ring_error() gives out
 * @refused: if the refusal seen last was the kernel's, which is to be asked for the
 *	reason, the request's result; else 0
 * @refusal: the reason why the library refused the last one that it did
 */
struct aru {
	struct io_uring uring;
	int fd;
	unsigned int rank;
	unsigned int size;
	unsigned int depth;
	unsigned int close_timeout_ms;
	unsigned int submitted;
	unsigned int commands;
	uint64_t tag;
	struct aru_request *requests;
	struct aru_request *queue;
	struct aru_request **queue_tail;
	struct iovec *buffers;
	unsigned int n_buffers;
	struct allreduce_info info;
	int refused;
	char refusal[ARU_ERROR_TEXT_SIZE];
};

/* ---- the io_uring -------------------------------------------------------- */

/* Errors of which the kernel may have more to say, in struct allreduce_info. */
static bool is_refusal(int res)
{
	return res == -EINVAL || res == -ENOMEM || res == -EFAULT;
}

static void complete(struct aru *aru, const struct io_uring_cqe *cqe)
{
	struct op *op = io_uring_cqe_get_data(cqe);

	/* A time-out of liburing's own, on kernels without timed waits. */
	if (!op || cqe->user_data == LIBURING_UDATA_TIMEOUT)
		return;
	op->done = true;
	op->res = cqe->res;
	if (op->is_request) {
		if (is_refusal(cqe->res))
			aru->refused = cqe->res;
		((struct aru_request *)op)->state = REQUEST_DONE;
		aru->submitted--;
		return;
	}
	aru->commands--;
	if (((struct command *)op)->abandoned)
		free(op);
}

static void reap(struct aru *aru)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&aru->uring, &cqe)) {
		complete(aru, cqe);
		io_uring_cqe_seen(&aru->uring, cqe);
	}
}

/* 0: the kernel has taken all; -EAGAIN: it has no room now; or worse. */
static int submit(struct aru *aru)
{
	int ret;

	while (io_uring_sq_ready(&aru->uring)) {
		ret = io_uring_submit(&aru->uring);
		if (ret == -EINTR)
			continue;
		if (ret == -EBUSY)
			ret = -EAGAIN;
		if (ret < 0)
			return ret;
		/* It stops at a bad SQE, which has its CQE: go on with the next. */
		if (!ret)
			return -EAGAIN;
	}
	return 0;
}

static void prep_request(struct aru *aru, struct io_uring_sqe *sqe,
			 struct aru_request *req)
{
	aru_prep_cmd(sqe, aru->fd, ALLREDUCE_URING_SUBMIT, &req->call,
		     sizeof(req->call));
	if (req->call.flags & ALLREDUCE_CALL_FLAGS) {
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = req->buf_index;
	}
	io_uring_sqe_set_data(sqe, &req->op);
}

/* Hand queued requests to the kernel as far as they fit. */
static int push(struct aru *aru)
{
	struct io_uring_sqe *sqe;
	struct aru_request *req;

	while (aru->queue && aru->submitted < aru->depth) {
		sqe = io_uring_get_sqe(&aru->uring);
		if (!sqe)
			break;
		req = aru->queue;
		aru->queue = req->queued_next;
		if (!aru->queue)
			aru->queue_tail = &aru->queue;
		prep_request(aru, sqe, req);
		req->state = REQUEST_SUBMITTED;
		aru->submitted++;
	}
	return submit(aru);
}

/* Look at what has come, without waiting, and make use of the room. */
static int advance(struct aru *aru)
{
	int ret;

	reap(aru);
	ret = push(aru);
	reap(aru);
	return ret == -EAGAIN ? 0 : ret;
}

/* Wait for one more CQE, for at most @timeout_ms unless that is negative. */
static int wait_cqe(struct aru *aru, int64_t timeout_ms)
{
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	int ret;

	if (timeout_ms < 0)
		timeout_ms = 3600 * 1000;
	/* What could not be submitted must be tried again before long. */
	if (io_uring_sq_ready(&aru->uring) && timeout_ms > RETRY_MS)
		timeout_ms = RETRY_MS;
	ts.tv_sec = timeout_ms / 1000;
	ts.tv_nsec = timeout_ms % 1000 * 1000000;
	ret = io_uring_wait_cqe_timeout(&aru->uring, &cqe, &ts);
	if (ret == -EINTR || ret == -ETIME || ret == -EAGAIN)
		return 0;
	return ret;
}

/*
 * 0: @op is done; -ETIME: it is not; -ENOTRECOVERABLE: the io_uring fails, which
 * is a code that no request's result can be.
 */
static int wait_op(struct aru *aru, const struct op *op, int64_t timeout_ms)
{
	uint64_t deadline = aru_now_ms() + (timeout_ms > 0 ? timeout_ms : 0), now;
	int64_t left = -1;
	int ret;

	for (;;) {
		ret = advance(aru);
		if (op->done)
			return 0;
		if (ret)
			return -ENOTRECOVERABLE;
		if (timeout_ms >= 0) {
			now = aru_now_ms();
			if (now >= deadline)
				return -ETIME;
			left = deadline - now;
		}
		if (wait_cqe(aru, left))
			return -ENOTRECOVERABLE;
	}
}

/* ---- commands ------------------------------------------------------------ */

static struct command *command_begin(struct aru *aru, struct io_uring_sqe **sqe)
{
	struct command *command;

	submit(aru);
	*sqe = io_uring_get_sqe(&aru->uring);
	if (!*sqe)
		return NULL;
	command = calloc(1, sizeof(*command));
	if (!command) {
		/* The SQE can't be given back: let it do nothing. */
		memset((void *)*sqe, 0, ARU_SQE_BYTES);
		(*sqe)->opcode = IORING_OP_NOP;
	}
	return command;
}

/* Returns the CQE's res; the command is freed unless it is 0 or more. */
static int command_run(struct aru *aru, struct io_uring_sqe *sqe,
		       struct command *command)
{
	int ret;

	io_uring_sqe_set_data(sqe, &command->op);
	aru->commands++;
	ret = wait_op(aru, &command->op, COMMAND_TIMEOUT_MS);
	if (ret) {
		command->abandoned = true;
		return ret == -ETIME ? -ETIMEDOUT : ret;
	}
	ret = command->op.res;
	if (ret < 0)
		free(command);
	return ret;
}

static int run_info(struct aru *aru)
{
	struct io_uring_sqe *sqe;
	struct command *command;
	int ret;

	command = command_begin(aru, &sqe);
	if (!command)
		return -ENOMEM;
	aru_prep_info(sqe, aru->fd, &command->info);
	ret = command_run(aru, sqe, command);
	if (ret < 0)
		return ret;
	aru->info = command->info;
	free(command);
	return 0;
}

static int run_attach(struct aru *aru, const char *ring)
{
	struct io_uring_sqe *sqe;
	struct command *command;
	int ret;

	command = command_begin(aru, &sqe);
	if (!command)
		return -ENOMEM;
	aru_prep_attach(sqe, aru->fd, ring, &command->info);
	ret = command_run(aru, sqe, command);
	if (ret < 0)
		return ret;
	aru->rank = command->info.rank;
	aru->size = command->info.size;
	free(command);
	return 0;
}

static int run_cancel(struct aru *aru, uint64_t tag, unsigned int flags)
{
	struct io_uring_sqe *sqe;
	struct command *command;
	int ret;

	command = command_begin(aru, &sqe);
	if (!command)
		return -ENOMEM;
	aru_prep_cancel(sqe, aru->fd, tag, flags);
	ret = command_run(aru, sqe, command);
	if (ret < 0)
		return ret;
	free(command);
	return 0;
}

/* ---- open and close ------------------------------------------------------ */

static int open_device(const char *path)
{
	int fd;

	do {
		fd = open(path, O_RDWR | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd >= 0)
		return fd;
	/* A node whose driver is gone is as good as none. */
	return errno == ENXIO || errno == ENODEV ? -ENOENT : -errno;
}

ARU_API int aru_open_device(void)
{
	return open_device(ARU_DEVICE);
}

static int open_uring(struct aru *aru)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE |
			 IORING_SETUP_CLAMP,
	};
	int ret;

	/* Room for depth requests, and for commands that are under way. */
	params.cq_entries = 2 * aru->depth + 64;
	ret = io_uring_queue_init_params(aru->depth + 8, &aru->uring, &params);
	/* EINVAL: a kernel before 5.19, which has no SQE128. */
	if (ret == -EPERM || ret == -EACCES || ret == -EINVAL)
		ret = -ENOSYS;
	return ret;
}

ARU_API int aru_open(struct aru **out, const char *ring,
		     const struct aru_open_opts *user)
{
	struct aru_open_opts opts;
	struct aru *aru;
	int ret;

	*out = NULL;
	ret = aru_opts_copy(&opts, sizeof(opts), user);
	if (ret)
		return ret;
	if (opts.depth > ARU_DEPTH_MAX || !aru_name_valid(ring))
		return -EINVAL;
	aru = calloc(1, sizeof(*aru));
	if (!aru)
		return -ENOMEM;
	aru->depth = opts.depth ? opts.depth : ARU_DEPTH_DEFAULT;
	aru->close_timeout_ms = opts.close_timeout_ms ? opts.close_timeout_ms :
				ARU_CLOSE_TIMEOUT_MS_DEFAULT;
	aru->queue_tail = &aru->queue;
	ret = open_uring(aru);
	if (ret)
		goto err_free;
	aru->fd = open_device(opts.device ? opts.device : ARU_DEVICE);
	if (aru->fd < 0) {
		ret = aru->fd;
		goto err_uring;
	}
	ret = run_attach(aru, ring);
	if (ret)
		goto err_device;
	*out = aru;
	return 0;

err_device:
	close(aru->fd);
err_uring:
	io_uring_queue_exit(&aru->uring);
err_free:
	free(aru);
	return ret;
}

static void cancel_queued(struct aru *aru)
{
	struct aru_request *req;

	while ((req = aru->queue)) {
		aru->queue = req->queued_next;
		req->state = REQUEST_DONE;
		req->op.done = true;
		req->op.res = -ECANCELED;
	}
	aru->queue_tail = &aru->queue;
}

static void free_requests(struct aru *aru)
{
	struct aru_request *req;

	while ((req = aru->requests)) {
		aru->requests = req->next;
		free(req);
	}
}

/* Wait until the kernel holds no buffer of a request any more. */
static int drain(struct aru *aru)
{
	uint64_t deadline = aru_now_ms() + aru->close_timeout_ms, now;
	int ret;

	for (;;) {
		ret = advance(aru);
		if (!aru->submitted)
			return 0;
		now = aru_now_ms();
		if (now >= deadline)
			return -ETIMEDOUT;
		if (!ret)
			ret = wait_cqe(aru, deadline - now);
		if (ret)
			return -ENOTRECOVERABLE;
	}
}

ARU_API int aru_close(struct aru *aru)
{
	int ret;

	if (!aru)
		return 0;
	cancel_queued(aru);
	advance(aru);
	if (aru->submitted) {
		/* Its own result does not matter: what matters is that they end. */
		run_cancel(aru, 0, ALLREDUCE_CANCEL_ALL);
		ret = drain(aru);
		if (ret)
			return ret;
	}
	/*
	 * A command that was given up may still be answered into its memory, so
	 * that is not freed if it was not answered by now.
	 */
	io_uring_queue_exit(&aru->uring);
	close(aru->fd);
	free_requests(aru);
	free(aru->buffers);
	free(aru);
	return 0;
}

ARU_API unsigned int aru_rank(const struct aru *aru)
{
	return aru->rank;
}

ARU_API unsigned int aru_size(const struct aru *aru)
{
	return aru->size;
}

ARU_API int aru_fd(const struct aru *aru)
{
	return aru->fd;
}

ARU_API int aru_poll_fd(const struct aru *aru)
{
	return aru->uring.ring_fd;
}

ARU_API int aru_info(struct aru *aru, struct allreduce_info *info, size_t size)
{
	int ret = run_info(aru);

	if (ret)
		return ret;
	memset(info, 0, size);
	memcpy(info, &aru->info, size < sizeof(aru->info) ? size : sizeof(aru->info));
	return 0;
}

ARU_API int aru_ring_error(struct aru *aru, int *error, const char **text)
{
	int ret = run_info(aru);

	if (ret)
		memset(&aru->info, 0, sizeof(aru->info));
	aru->info.reason[sizeof(aru->info.reason) - 1] = '\0';
	if (error)
		*error = aru->info.error;
	if (text)
		*text = aru->info.reason;
	return ret;
}

ARU_API const char *aru_refusal(struct aru *aru)
{
	if (!aru->refused)
		return aru->refusal;
	if (run_info(aru))
		return "";
	/* The job was accepted, and failed: the kernel's text is about another one. */
	if (aru->info.state == ALLREDUCE_RING_BROKEN && aru->info.error == aru->refused)
		return "";
	aru->info.refusal[sizeof(aru->info.refusal) - 1] = '\0';
	return aru->info.refusal;
}

int aru_refuse(struct aru *aru, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(aru->refusal, sizeof(aru->refusal), fmt, ap);
	va_end(ap);
	aru->refused = 0;
	return error;
}

/* ---- requests ------------------------------------------------------------ */

static bool inside(const struct iovec *iov, uint64_t addr, uint64_t bytes)
{
	uint64_t base = (uintptr_t)iov->iov_base;

	return addr >= base && addr - base <= iov->iov_len &&
	       bytes <= iov->iov_len - (addr - base);
}

/* Use a registered buffer that all lies in, or else one that dst, or src, does. */
static void choose_buffer(struct aru *aru, struct aru_request *req)
{
	struct allreduce_call *call = &req->call;
	unsigned int bytes = aru_type_size(call->type), i, flags, all = 0;
	struct allreduce_buffers b;

	b = allreduce_buffers(call->collective, call->count, aru->rank, aru->size,
			      call->root);
	if (b.src)
		all |= ALLREDUCE_CALL_FIXED_SRC;
	if (b.dst)
		all |= ALLREDUCE_CALL_FIXED_DST;
	for (i = 0; i < aru->n_buffers && call->flags != all; i++) {
		flags = 0;
		if (inside(&aru->buffers[i], call->src, b.src * bytes))
			flags |= ALLREDUCE_CALL_FIXED_SRC & all;
		if (inside(&aru->buffers[i], call->dst, b.dst * bytes))
			flags |= ALLREDUCE_CALL_FIXED_DST & all;
		/* DST is the higher bit, so this is the order of preference. */
		if (flags > call->flags) {
			call->flags = flags;
			req->buf_index = i;
		}
	}
}

ARU_API int aru_icall(struct aru *aru, const struct allreduce_call *call,
		      struct aru_request **out)
{
	char text[ARU_ERROR_TEXT_SIZE];
	struct aru_request *req;

	*out = NULL;
	if (aru_call_check(call, aru->rank, aru->size, text, sizeof(text)))
		return aru_refuse(aru, -EINVAL, "%s", text);
	req = calloc(1, sizeof(*req));
	if (!req)
		return aru_refuse(aru, -ENOMEM, "no memory for a request");
	req->aru = aru;
	req->op.is_request = true;
	req->call = *call;
	req->call.tag = ++aru->tag;
	choose_buffer(aru, req);
	req->next = aru->requests;
	if (req->next)
		req->next->prev = req;
	aru->requests = req;
	*aru->queue_tail = req;
	aru->queue_tail = &req->queued_next;
	/* If the io_uring is out of order, aru_wait() says so. */
	advance(aru);
	*out = req;
	return 0;
}

/* The result of a request that is DONE; its handle ends here. */
static int finish(struct aru_request *req)
{
	int res = req->op.res;

	if (req->next)
		req->next->prev = req->prev;
	if (req->prev)
		req->prev->next = req->next;
	else
		req->aru->requests = req->next;
	free(req);
	return res < 0 ? res : 0;
}

ARU_API int aru_wait(struct aru_request *req, int timeout_ms)
{
	int ret = wait_op(req->aru, &req->op, timeout_ms);

	return ret ? ret : finish(req);
}

ARU_API int aru_test(struct aru_request *req)
{
	int ret = wait_op(req->aru, &req->op, 0);

	if (ret == -ETIME)
		return -EINPROGRESS;
	return ret ? ret : finish(req);
}

ARU_API int aru_call(struct aru *aru, const struct allreduce_call *call)
{
	struct aru_request *req;
	int ret = aru_icall(aru, call, &req);

	return ret ? ret : aru_wait(req, -1);
}

ARU_API int aru_cancel(struct aru_request *req)
{
	uint64_t deadline = aru_now_ms() + COMMAND_TIMEOUT_MS;
	struct aru *aru = req->aru;
	int ret;

	for (;;) {
		ret = advance(aru);
		if (req->state == REQUEST_DONE)
			return -EALREADY;
		if (ret)
			return -ENOTRECOVERABLE;
		if (aru_now_ms() >= deadline)
			return -ETIMEDOUT;
		/*
		 * All jobs of the ring end anyway. -ENOENT: those that the kernel
		 * had are done, but have not been seen here; then this one is done
		 * too, or there is room to submit it.
		 */
		ret = run_cancel(aru, 0, ALLREDUCE_CANCEL_ALL);
		if (ret != -ENOENT)
			break;
	}
	if (ret)
		return ret;
	cancel_queued(aru);
	return 0;
}

/* ---- registered buffers -------------------------------------------------- */

static uint64_t pages_of(const struct iovec *iov, unsigned int n, uint64_t page)
{
	uint64_t pages = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (iov[i].iov_len)
			pages += ((uintptr_t)iov[i].iov_base % page + iov[i].iov_len - 1) /
				 page + 1;
	return pages;
}

/* The kernel gives no reason, but some can be told from the error. */
static int register_refused(struct aru *aru, int error, const struct iovec *iov,
			    unsigned int n)
{
	uint64_t page = sysconf(_SC_PAGESIZE);
	unsigned long long kib = pages_of(iov, n, page) * page / 1024;
	struct rlimit limit;

	if (error == -EFAULT)
		return aru_refuse(aru, error,
				  "iov: an area is not mapped, or not from 1 byte to 1 GiB");
	if (error != -ENOMEM)
		return aru_refuse(aru, error, "%s", "");
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return aru_refuse(aru, error, "memory: %llu KiB to register", kib);
	return aru_refuse(aru, error, "RLIMIT_MEMLOCK: %llu KiB to register, limit %llu KiB",
			  kib, (unsigned long long)limit.rlim_cur / 1024);
}

ARU_API int aru_register_buffers(struct aru *aru, const struct iovec *iov,
				 unsigned int n)
{
	struct iovec *copy;
	int ret;

	if (aru->n_buffers)
		return -EBUSY;
	if (!n || n > BUFFERS_MAX)
		return aru_refuse(aru, -EINVAL, "n %u is not from 1 to %u", n, BUFFERS_MAX);
	copy = reallocarray(NULL, n, sizeof(*copy));
	if (!copy)
		return aru_refuse(aru, -ENOMEM, "no memory for a list of %u areas", n);
	memcpy(copy, iov, n * sizeof(*copy));
	do {
		ret = io_uring_register_buffers(&aru->uring, copy, n);
	} while (ret == -EINTR);
	if (ret < 0) {
		free(copy);
		return register_refused(aru, ret, iov, n);
	}
	aru->buffers = copy;
	aru->n_buffers = n;
	return 0;
}

ARU_API int aru_unregister_buffers(struct aru *aru)
{
	int ret;

	if (!aru->n_buffers)
		return -ENXIO;
	/* The kernel would wait for them, for as long as they take. */
	advance(aru);
	if (aru->submitted || aru->queue)
		return -EBUSY;
	do {
		ret = io_uring_unregister_buffers(&aru->uring);
	} while (ret == -EINTR);
	if (ret < 0)
		return ret;
	free(aru->buffers);
	aru->buffers = NULL;
	aru->n_buffers = 0;
	return 0;
}
