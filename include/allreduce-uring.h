/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * liballreduce-uring - all-reduce by the allreduce kernel module, over io_uring
 *
 * Three parts that mix freely:
 *
 *  1. preparation of SQEs for the caller's own struct io_uring: aru_prep_*();
 *  2. a context that owns an io_uring and an attached device: struct aru;
 *  3. configuration of rings over netlink: struct aru_nl.
 *
 * Common to all functions:
 *
 *  - Errors are negative errno values; nothing is printed, errno is not part
 *    of the interface. aru_strerror() gives their meaning here.
 *  - A signal never makes a call fail: EINTR does not surface.
 *  - One struct aru, or one struct aru_nl, is for one thread at a time; two of
 *    them are independent. Functions without such an argument are thread-safe.
 *  - Structs of options begin with their size, for growth: initialise them with
 *    ARU_OPTS(). A newer field that an older library does not know is refused
 *    with -E2BIG unless it is 0.
 *  - Times are in milliseconds, sizes in bytes, counts in elements.
 */
#ifndef _ALLREDUCE_URING_H
#define _ALLREDUCE_URING_H

#include <liburing.h>
#include <linux/allreduce.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ARU_VERSION_MAJOR	0
#define ARU_VERSION_MINOR	2
#define ARU_VERSION_PATCH	0

#define ARU_DEVICE		"/dev/allreduce"

/**
 * ARU_OPTS - declare a struct of options with its size set and the rest 0
 * @type: name of the struct, without the word struct
 * @name: name of the variable
 */
#define ARU_OPTS(type, name) \
	struct type name; \
	memset(&name, 0, sizeof(name)); \
	name.sz = sizeof(name)

/* ---- names -------------------------------------------------------------- */

/* "major.minor.patch" of the library that is linked. */
const char *aru_version(void);

/* Meaning of a negative (or positive) errno in this library's terms; static. */
const char *aru_strerror(int error);

/* Name of a value, or NULL if this library doesn't know it. */
const char *aru_type_name(unsigned int type);
const char *aru_op_name(unsigned int op);
const char *aru_collective_name(unsigned int collective);
const char *aru_stat_name(unsigned int stat);
const char *aru_stat_help(unsigned int stat);
const char *aru_state_name(unsigned int state);

/* Value of a name ("f32", "sum", ...), or -EINVAL. */
int aru_type_from_name(const char *name);
int aru_op_from_name(const char *name);
int aru_collective_from_name(const char *name);

/* Bytes of an element, 0 for an unknown type. */
unsigned int aru_type_size(unsigned int type);

/* Whether vectors of @type can be reduced with @op; false if either is unknown. */
bool aru_op_valid(unsigned int type, unsigned int op);

/* ---- the collectives ------------------------------------------------------ */

/*
 * In a ring of N members, with C for the count of a call, on rank r:
 *
 *                   src        dst        in place if          NCCL, MPI
 *   allreduce       C          C          dst == src           ncclAllReduce,
 *                                                              MPI_Allreduce
 *   reduce_scatter  N * C      C          dst == src + r * C   ncclReduceScatter,
 *                                                              MPI_Reduce_scatter_block
 *   allgather       C          N * C      src == dst + r * C   ncclAllGather,
 *                                                              MPI_Allgather
 *   broadcast       root's: C  C          dst == src           ncclBroadcast,
 *                   others: 0             on the root          MPI_Bcast
 *   reduce          C          root's: C  dst == src           ncclReduce,
 *                              others: 0  on the root          MPI_Reduce
 *   barrier         0          0                               MPI_Barrier
 *
 * Sizes are in elements of the call's type; C is what NCCL calls sendcount of an
 * all-gather and recvcount of a reduce-scatter, and MPI the count for each member.
 * There is no MPI_IN_PLACE: equal pointers say the same.
 *
 * What they hold: of a reduce_scatter's src, block b (C elements from b * C on) is
 * for rank b; block b of an allgather's dst comes from rank b.
 *
 * Which ranks need which buffer: where the table says 0 the pointer is ignored and
 * may be NULL (NULL for a barrier); a broadcast's root needs both. With a count of 0
 * nobody needs any, and the call still matches the other members' calls.
 *
 * Alignment: to the element size, no more; pages and cache lines don't matter.
 *
 * Overlap: a call is in place as the table says, else its two buffers must not
 * overlap. src is never written, unless the call is in place.
 *
 * Ownership: from submission until its result both buffers belong to the call: src
 * must not change, dst must not be used, neither may be unmapped. With the result
 * the kernel has let go of both, whatever the result is. After an error dst is
 * undefined, and src as it was unless the call was in place.
 *
 * Matching: all members make the same calls in the same order, with the same
 * count, type, operation and root. Where they differ, the member that finds out
 * gets -EINVAL, the others -ECONNRESET, and the ring is broken.
 *
 * Order: a result is always the same bits, on every member and in every run,
 * whatever the ring's lanes, frames or tunables. Allreduce cuts its vector in N
 * chunks, equal ones if N divides the count, else of whole 64-byte grains; the
 * chunks of a reduce_scatter are its blocks. Chunk c is summed from the part of rank
 * c + 1 on, around the ring, to that of rank c: ((p[c+1] + p[c+2]) + ...) + p[c],
 * ranks modulo N. A reduce is one chunk, summed from rank root + 1 to root. So a
 * reduce_scatter of a count C and an allgather of C after it give bit for bit what
 * an allreduce of N * C gives. f16 and bf16 are added in f32 and rounded to nearest
 * even at each addition; an average is divided once, at the end.
 *
 * Which operations go with which types: aru_op_valid(). ALLREDUCE_AVG divides by N
 * (ncclAvg). ALLREDUCE_PREMULSUM is a sum in which each member's elements are
 * multiplied by this member's factor first, and rounded to the type
 * (ncclRedOpCreatePreMulSum with a factor in host memory): see struct aru_redop.
 * A struct allreduce_call must be given it with aru_redop_bits(), a prepared SQE
 * with aru_sqe_set_redop(): one that was not set is 0, which is not refused but a
 * factor like any other, and makes zeros of this member's part of the sum.
 */

/**
 * struct aru_redop - the factor of a member in ALLREDUCE_PREMULSUM
 * @type: ALLREDUCE_F32 or ALLREDUCE_F64: which of @factor is set
 * @factor: any value, NaN and infinities too; @type need not be the vector's. For
 *	f32, f16 and bf16 it is rounded to f32, in which the product is made
 *
 * It goes with one call, on one member: the members' factors may differ, and the
 * next call's as well. It is read when the call is prepared or made.
 */
struct aru_redop {
	unsigned int type;
	union {
		float f32;
		double f64;
	} factor;
};

/* The factor as struct allreduce_call has it; false if its type is neither. */
static inline bool aru_redop_bits(const struct aru_redop *redop, uint64_t *bits)
{
	double factor;

	if (redop->type == ALLREDUCE_F32)
		factor = (double)redop->factor.f32;
	else if (redop->type == ALLREDUCE_F64)
		factor = redop->factor.f64;
	else
		return false;
	memcpy(bits, &factor, sizeof(*bits));
	return true;
}

/**
 * aru_call_init - begin a call
 * @call: the call: what the other arguments do not give is 0
 * @collective: enum allreduce_collective
 * @src: see the table above
 * @dst: the same
 * @count: the same
 * @type: enum allreduce_type
 * @op: enum allreduce_op, 0 for collectives that do not reduce
 *
 * For aru_prep_call() and aru_call(). A value that is too large for its
 * field becomes one that is refused. With ALLREDUCE_PREMULSUM call->factor must
 * be set as well, with aru_redop_bits(): the 0 that it is here is a factor like
 * any other (the result is zeros).
 */
static inline void aru_call_init(struct allreduce_call *call,
				 unsigned int collective, const void *src,
				 void *dst, uint64_t count, unsigned int type,
				 unsigned int op)
{
	memset(call, 0, sizeof(*call));
	call->src = (uintptr_t)src;
	call->dst = (uintptr_t)dst;
	call->count = count;
	/* A value that does not fit its byte must not become a valid one. */
	call->collective = collective > 255 ? 255 : (uint8_t)collective;
	call->type = type > 255 ? 255 : (uint8_t)type;
	call->op = op > 255 ? 255 : (uint8_t)op;
}

/* ---- 1. on the caller's own struct io_uring ------------------------------ */

/*
 * The io_uring must have been set up with IORING_SETUP_SQE128: each of these
 * functions writes 128 bytes at sqe. As with liburing, they can't fail, the
 * caller sets user_data afterwards, and errors arrive in the CQE's res.
 *
 * Jobs take their number in the order in which the kernel sees the SQEs, and
 * must be the same in number and order on every member of the ring. So don't
 * set IOSQE_ASYNC on them, and submit from one thread at a time.
 */

#define ARU_SQE_BYTES		128
#define ARU_SQE_CMD_BYTES	80

/**
 * aru_open_device - open /dev/allreduce
 *
 * The file belongs to the network namespace of the calling thread at this
 * moment. Closing it aborts its jobs and gives the ring free.
 *
 * Return: a file descriptor (close-on-exec); -ENOENT if there is no such device
 * (the module is not loaded), -EACCES if its permissions don't allow it, or
 * another error of open(2).
 */
int aru_open_device(void);

static inline void aru_prep_cmd(struct io_uring_sqe *sqe, int fd,
				unsigned int cmd_op, const void *payload,
				size_t bytes)
{
	memset((void *)sqe, 0, ARU_SQE_BYTES);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = cmd_op;
	memcpy((char *)sqe + ARU_SQE_BYTES - ARU_SQE_CMD_BYTES, payload, bytes);
}

/**
 * aru_prep_attach - bind an open device to a ring
 * @sqe: 128-byte SQE
 * @fd: from aru_open_device()
 * @ring: name of a ring, at most 31 characters; a longer one is refused by the
 *	kernel with -EINVAL
 * @info: struct allreduce_info to be filled before the CQE is posted, or NULL
 *
 * The CQE's res is 0, -ENODEV (no such ring), -EBUSY (attached elsewhere),
 * -EALREADY (this file is attached), -EINVAL or -EFAULT.
 */
static inline void aru_prep_attach(struct io_uring_sqe *sqe, int fd,
				   const char *ring, struct allreduce_info *info)
{
	struct allreduce_attach attach;
	size_t len = strlen(ring);

	memset(&attach, 0, sizeof(attach));
	/* A name that is too long stays without its NUL, which the kernel refuses. */
	memcpy(attach.ring, ring, len < sizeof(attach.ring) ? len : sizeof(attach.ring));
	attach.info = (uintptr_t)info;
	attach.info_size = info ? sizeof(*info) : 0;
	aru_prep_cmd(sqe, fd, ALLREDUCE_URING_ATTACH, &attach, sizeof(attach));
}

/**
 * aru_prep_call - any collective
 * @sqe: 128-byte SQE
 * @fd: an attached device
 * @call: the call, as for the kernel, which judges it; it is copied
 *
 * The typed functions below fill @call in from their arguments:
 *
 * @src, @dst, @count: buffers and elements: the table in "the collectives" above
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @root: rank of the root
 * @timeout_ms: the job fails with -ETIMEDOUT after so long without progress;
 *	0 takes the ring's time, else ALLREDUCE_TIMEOUT_MS_MIN to _MAX
 * @tag: a name of the caller's choice, for aru_prep_cancel()
 *
 * The CQE's res is 0 or an error; struct allreduce_call lists them. Which field
 * was refused, and why, is told by aru_prep_info().
 *
 * aru_sqe_set_fixed() and aru_sqe_set_redop() change the SQE afterwards. The
 * latter is needed with ALLREDUCE_PREMULSUM, unless @call->factor was set with
 * aru_redop_bits(): 0 is a factor like any other (the result is zeros).
 */
static inline void aru_prep_call(struct io_uring_sqe *sqe, int fd,
				 const struct allreduce_call *call)
{
	aru_prep_cmd(sqe, fd, ALLREDUCE_URING_SUBMIT, call, sizeof(*call));
}

/* dst = the results over all members' src, on every member. */
static inline void aru_prep_allreduce(struct io_uring_sqe *sqe, int fd,
				      const void *src, void *dst, uint64_t count,
				      unsigned int type, unsigned int op,
				      unsigned int timeout_ms, uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_ALLREDUCE, src, dst, count, type, op);
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* dst = the results over block r of all members' src, on rank r. */
static inline void aru_prep_reduce_scatter(struct io_uring_sqe *sqe, int fd,
					   const void *src, void *dst,
					   uint64_t count, unsigned int type,
					   unsigned int op,
					   unsigned int timeout_ms, uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, src, dst, count,
		      type, op);
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* Block r of dst = the src of rank r, for all r, on every member. */
static inline void aru_prep_allgather(struct io_uring_sqe *sqe, int fd,
				      const void *src, void *dst, uint64_t count,
				      unsigned int type, unsigned int timeout_ms,
				      uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_ALLGATHER, src, dst, count, type, 0);
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* dst = the root's src, on every member. */
static inline void aru_prep_broadcast(struct io_uring_sqe *sqe, int fd,
				      const void *src, void *dst, uint64_t count,
				      unsigned int type, unsigned int root,
				      unsigned int timeout_ms, uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_BROADCAST, src, dst, count, type, 0);
	call.root = root;
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* dst = the results over all members' src, on the root. */
static inline void aru_prep_reduce(struct io_uring_sqe *sqe, int fd,
				   const void *src, void *dst, uint64_t count,
				   unsigned int type, unsigned int op,
				   unsigned int root, unsigned int timeout_ms,
				   uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_REDUCE, src, dst, count, type, op);
	call.root = root;
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* Ends on no member before it was submitted on all of them. */
static inline void aru_prep_barrier(struct io_uring_sqe *sqe, int fd,
				    unsigned int timeout_ms, uint64_t tag)
{
	struct allreduce_call call;

	aru_call_init(&call, ALLREDUCE_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0);
	call.timeout_ms = timeout_ms;
	call.tag = tag;
	aru_prep_call(sqe, fd, &call);
}

/* The call in an SQE that aru_prep_call() or a typed function has prepared. */
static inline void aru_sqe_get_call(const struct io_uring_sqe *sqe,
				    struct allreduce_call *call)
{
	memcpy(call, (const char *)sqe + ARU_SQE_BYTES - ARU_SQE_CMD_BYTES,
	       sizeof(*call));
}

static inline void aru_sqe_set_call(struct io_uring_sqe *sqe,
				    const struct allreduce_call *call)
{
	memcpy((char *)sqe + ARU_SQE_BYTES - ARU_SQE_CMD_BYTES, call, sizeof(*call));
}

/**
 * aru_sqe_set_fixed - say that a prepared call uses a registered buffer
 * @sqe: a prepared collective
 * @fixed: ALLREDUCE_CALL_FIXED_SRC, ALLREDUCE_CALL_FIXED_DST or both: which
 *	of the two lies in registered buffer @buf_index
 * @buf_index: index as in io_uring_register_buffers()
 *
 * What lies in the registered buffer is not pinned for the job.
 */
static inline void aru_sqe_set_fixed(struct io_uring_sqe *sqe, unsigned int fixed,
				     uint16_t buf_index)
{
	struct allreduce_call call;

	aru_sqe_get_call(sqe, &call);
	call.flags |= fixed;
	aru_sqe_set_call(sqe, &call);
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	sqe->buf_index = buf_index;
}

/**
 * aru_sqe_set_redop - give a prepared call its factor
 * @sqe: a prepared collective with ALLREDUCE_PREMULSUM, whose factor is 0 so far
 * @redop: the factor; it is copied
 *
 * With a @redop->type that is neither f32 nor f64 the kernel will refuse the call:
 * its operation becomes an unknown one.
 */
static inline void aru_sqe_set_redop(struct io_uring_sqe *sqe,
				     const struct aru_redop *redop)
{
	struct allreduce_call call;
	uint64_t bits = 0;

	aru_sqe_get_call(sqe, &call);
	if (!aru_redop_bits(redop, &bits))
		call.op = 255;
	call.factor = bits;
	aru_sqe_set_call(sqe, &call);
}

/**
 * aru_prep_cancel - end jobs early, which breaks the ring
 * @sqe: 128-byte SQE
 * @fd: an attached device
 * @tag: jobs with this tag
 * @flags: 0, or ALLREDUCE_CANCEL_ALL for every job of @fd
 *
 * The CQE's res is the number of jobs that matched, or -ENOENT. A canceled job
 * has its own CQE, with -ECANCELED.
 */
static inline void aru_prep_cancel(struct io_uring_sqe *sqe, int fd,
				   uint64_t tag, unsigned int flags)
{
	struct allreduce_cancel cancel;

	memset(&cancel, 0, sizeof(cancel));
	cancel.tag = tag;
	cancel.flags = flags;
	aru_prep_cmd(sqe, fd, ALLREDUCE_URING_CANCEL, &cancel, sizeof(cancel));
}

/**
 * aru_prep_info - ask for the state of the attached ring
 * @sqe: 128-byte SQE
 * @fd: an attached device
 * @info: filled before the CQE is posted
 */
static inline void aru_prep_info(struct io_uring_sqe *sqe, int fd,
				 struct allreduce_info *info)
{
	struct allreduce_info_query query;

	memset(&query, 0, sizeof(query));
	query.info = (uintptr_t)info;
	query.info_size = sizeof(*info);
	aru_prep_cmd(sqe, fd, ALLREDUCE_URING_INFO, &query, sizeof(query));
}

/* ---- 2. a context -------------------------------------------------------- */

struct aru;
struct aru_request;

#define ARU_DEPTH_DEFAULT		32
#define ARU_DEPTH_MAX			4096
#define ARU_CLOSE_TIMEOUT_MS_DEFAULT	10000

/**
 * struct aru_open_opts - options of aru_open()
 * @sz: size of this struct
 * @device: path of the device; NULL is ARU_DEVICE
 * @depth: jobs that the kernel holds at a time, 1 to ARU_DEPTH_MAX; 0 is
 *	ARU_DEPTH_DEFAULT. More requests than that may be made: see
 *	aru_icall().
 * @close_timeout_ms: how long aru_close() waits for the kernel to let go of
 *	canceled requests; 0 is ARU_CLOSE_TIMEOUT_MS_DEFAULT
 */
struct aru_open_opts {
	size_t sz;
	const char *device;
	unsigned int depth;
	unsigned int close_timeout_ms;
};

/**
 * aru_open - open a context on a ring
 * @aru: the context, NULL after an error
 * @ring: name of a ring in the calling thread's network namespace
 * @opts: options, or NULL
 *
 * The ring may be in any state; jobs need it to be up.
 * The context does not survive fork() in the child, nor exec.
 *
 * Return: 0, or
 *   -ENOSYS	io_uring is not to be had: the kernel lacks it or 128-byte SQEs, or
 *		a seccomp filter or the sysctl kernel.io_uring_disabled denies it
 *   -ENOENT	there is no device: the module is not loaded
 *   -EACCES	the device's permissions don't allow it
 *   -ENODEV	there is no ring of that name in this network namespace
 *   -EBUSY	the ring is attached elsewhere
 *   -EINVAL	the name is empty or longer than 31 characters, or an option is
 *		out of range
 *   -E2BIG	opts has a field set that this library doesn't know
 *   -ETIMEDOUT	the kernel did not answer
 *   -ENOMEM	no memory
 */
int aru_open(struct aru **aru, const char *ring,
	     const struct aru_open_opts *opts);

/**
 * aru_close - cancel what is in flight, and free the context
 * @aru: the context; NULL does nothing
 *
 * With requests in flight this breaks the ring for all its members. All request
 * handles of the context become invalid, also those of finished requests.
 *
 * Return: 0: the context is gone and the kernel has let go of every buffer; or
 * -ETIMEDOUT: the kernel still holds buffers after close_timeout_ms. Then the
 * context is still there, its buffers must not be touched, and aru_close() may
 * be called again. The same goes for -ENOTRECOVERABLE, the io_uring's failure.
 */
int aru_close(struct aru *aru);

/* This member's position, and the number of members; fixed while attached. */
unsigned int aru_rank(const struct aru *aru);
unsigned int aru_size(const struct aru *aru);

/* The attached device, for aru_prep_*() on an io_uring of one's own. */
int aru_fd(const struct aru *aru);

/*
 * The context's io_uring's file descriptor, for poll(): readable when
 * aru_test() has something to look at. Not for anything else.
 */
int aru_poll_fd(const struct aru *aru);

/**
 * aru_info - the state of the ring now
 * @aru: the context
 * @info: filled as far as @size goes
 * @size: sizeof(*info) as the caller knows it
 *
 * Return: 0, -ETIMEDOUT if the kernel did not answer, or another error.
 */
int aru_info(struct aru *aru, struct allreduce_info *info, size_t size);

/**
 * aru_ring_error - what broke the ring
 * @aru: the context
 * @error: the negative errno that broke it, 0 if it is not broken; or NULL
 * @text: the kernel's account in words, "" if there is none; or NULL. Valid
 *	until the next call with @aru.
 *
 * Return: 0, or an error if the kernel could not be asked.
 */
int aru_ring_error(struct aru *aru, int *error, const char **text);

/**
 * aru_refusal - why a call was refused
 * @aru: the context
 *
 * For a collective that ended with -EINVAL, -ENOMEM, -EFAULT or -E2BIG, and for
 * aru_register_buffers(): the field, its value and its range, or the limit that
 * was reached, with what was needed. The text is the library's if the call did not
 * get as far as the kernel, else the kernel's, which is asked for it now.
 *
 * A job that was accepted and failed later, with -EINVAL because the members' calls
 * differ, say, was not refused: what broke the ring is told by aru_ring_error().
 *
 * Return: the text about the refusal seen last: of a request, aru_wait() or another
 * call with @aru sees it, and where the kernel has refused several it is that of
 * the last one. "" if none was seen, if what was seen last is what broke the ring,
 * or if the kernel could not be asked; never NULL. Valid until the next call with
 * @aru.
 */
const char *aru_refusal(struct aru *aru);

/**
 * struct aru_call_opts - options of a typed call
 * @sz: size of this struct
 * @timeout_ms: the job fails with -ETIMEDOUT after so long without progress;
 *	ALLREDUCE_TIMEOUT_MS_MIN to _MAX; 0 takes the ring's time
 * @redop: the factor, with ALLREDUCE_PREMULSUM, and only then; it is copied
 */
struct aru_call_opts {
	size_t sz;
	unsigned int timeout_ms;
	const struct aru_redop *redop;
};

/**
 * aru_call - any collective, and wait for it
 * @aru: the context
 * @call: the call, as made by aru_call_init(); tag and flags, which are the
 *	library's own, must be 0. With ALLREDUCE_PREMULSUM its factor must have been
 *	set with aru_redop_bits(): 0 is a factor like any other (the result is zeros)
 *
 * The wait is bounded by the job's timeout without progress, which the kernel
 * watches. When the call returns, the kernel has let go of both buffers, whatever
 * the result.
 *
 * The typed functions below make the call from their arguments:
 *
 * @src, @dst, @count: buffers and elements: the table in "the collectives" above
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @root: rank of the root, 0 to size - 1
 * @opts: options, or NULL
 *
 * Return: 0, or
 *   -EINVAL		an argument is out of range: aru_refusal() tells which; or
 *			the members' calls differ, which breaks the ring: on the
 *			member that finds out, the others get -ECONNRESET
 *   -E2BIG		opts has a field set that this library doesn't know
 *   -EFAULT		a buffer is not mapped, or dst is not writable
 *   -ENOMEM		no memory, or RLIMIT_MEMLOCK, against which all counts that
 *			the user has pinned, does not allow pinning the buffers:
 *			aru_refusal() tells what was needed, and the limit
 *   -ENOTCONN		the ring is not up
 *   -EPIPE		the ring was broken before: see aru_ring_error()
 *   -ETIMEDOUT		no progress for timeout_ms
 *   -ECONNRESET	a neighbour went away
 *   -EPROTO, -EBADMSG	a neighbour broke the protocol
 *   -ECANCELED		canceled, or the ring was deleted
 *   -ENOTRECOVERABLE	the context's io_uring fails: only now the buffers may
 *			still belong to the kernel, until aru_close() returns 0
 */
int aru_call(struct aru *aru, const struct allreduce_call *call);

/* dst = the results over all members' src, on every member. */
int aru_allreduce(struct aru *aru, const void *src, void *dst, uint64_t count,
		  unsigned int type, unsigned int op,
		  const struct aru_call_opts *opts);

/* dst = the results over block r of all members' src, on rank r. */
int aru_reduce_scatter(struct aru *aru, const void *src, void *dst,
		       uint64_t count, unsigned int type, unsigned int op,
		       const struct aru_call_opts *opts);

/* Block r of dst = the src of rank r, for all r, on every member. */
int aru_allgather(struct aru *aru, const void *src, void *dst, uint64_t count,
		  unsigned int type, const struct aru_call_opts *opts);

/* dst = the root's src, on every member. */
int aru_broadcast(struct aru *aru, const void *src, void *dst, uint64_t count,
		  unsigned int type, unsigned int root,
		  const struct aru_call_opts *opts);

/* dst = the results over all members' src, on the root. */
int aru_reduce(struct aru *aru, const void *src, void *dst, uint64_t count,
	       unsigned int type, unsigned int op, unsigned int root,
	       const struct aru_call_opts *opts);

/* Returns on no member before it was called on all of them. */
int aru_barrier(struct aru *aru, const struct aru_call_opts *opts);

/**
 * aru_icall - start any collective
 * @aru: the context
 * @call: as for aru_call(); it is copied
 * @req: handle for aru_wait() or aru_test(), one of which must end it
 *
 * Does not wait. Both buffers belong to the request until aru_wait() or
 * aru_test() returns its result.
 *
 * Any number of requests may be made. Beyond the context's depth they are kept
 * in order in the library and handed to the kernel as earlier ones finish, by
 * whatever call is made next with the context: so a program that makes more
 * than depth requests should come by (aru_test(), aru_wait()) while it computes,
 * or other members wait for it.
 *
 * The typed functions below differ from those above in @req only.
 *
 * Return: 0, or -EINVAL, -ENOMEM, -E2BIG without a request having been made, and
 * with NULL in *@req. What the kernel has to say comes from aru_wait().
 */
int aru_icall(struct aru *aru, const struct allreduce_call *call,
	      struct aru_request **req);

int aru_iallreduce(struct aru *aru, const void *src, void *dst, uint64_t count,
		   unsigned int type, unsigned int op,
		   const struct aru_call_opts *opts, struct aru_request **req);
int aru_ireduce_scatter(struct aru *aru, const void *src, void *dst,
			uint64_t count, unsigned int type, unsigned int op,
			const struct aru_call_opts *opts,
			struct aru_request **req);
int aru_iallgather(struct aru *aru, const void *src, void *dst, uint64_t count,
		   unsigned int type, const struct aru_call_opts *opts,
		   struct aru_request **req);
int aru_ibroadcast(struct aru *aru, const void *src, void *dst, uint64_t count,
		   unsigned int type, unsigned int root,
		   const struct aru_call_opts *opts, struct aru_request **req);
int aru_ireduce(struct aru *aru, const void *src, void *dst, uint64_t count,
		unsigned int type, unsigned int op, unsigned int root,
		const struct aru_call_opts *opts, struct aru_request **req);
int aru_ibarrier(struct aru *aru, const struct aru_call_opts *opts,
		 struct aru_request **req);

/**
 * aru_wait - wait for a request to end
 * @req: the request
 * @timeout_ms: how long; 0 only looks, negative waits as long as it takes, which
 *	the job's timeout without progress bounds
 *
 * Return: -ETIME if the time ran out: the request goes on, the handle is still
 * valid and the buffers still belong to it. The same goes for -ENOTRECOVERABLE:
 * the context's io_uring itself fails (its descriptor was closed, say), and only
 * aru_close() is left. Else the request's result, as listed for aru_call():
 * the handle is gone, the buffers are free.
 */
int aru_wait(struct aru_request *req, int timeout_ms);

/**
 * aru_test - see whether a request has ended
 * @req: the request
 *
 * Return: -EINPROGRESS if it has not; else its result, as from aru_wait().
 */
int aru_test(struct aru_request *req);

/**
 * aru_cancel - end a request early
 * @req: the request
 *
 * The members of a ring run the same jobs in the same order, so none can be
 * taken out alone: this breaks the ring, and all requests on it, here and on
 * the other members, end with an error (-ECANCELED here). The handle stays
 * valid: aru_wait() still has to collect the result.
 *
 * Return: 0; -EALREADY if the request had ended before; -ETIMEDOUT if the
 * kernel did not answer.
 */
int aru_cancel(struct aru_request *req);

/**
 * aru_register_buffers - register memory, so that jobs need not pin it
 * @aru: the context
 * @iov: areas, each at most 1 GiB (io_uring's limit)
 * @n: how many, 1 to 16384
 *
 * Pins the areas until aru_unregister_buffers() or aru_close(); they count
 * against RLIMIT_MEMLOCK, together with all else that the user has pinned. An
 * area must stay mapped as it is: what is mapped in its place later is not what
 * is registered.
 *
 * A later call uses an area by itself if all of its src or all of its dst lies in
 * it, at best both; what does not is pinned for the job. If they lie in two
 * different ones, dst's is used and src is pinned. So it pays to cut src and dst
 * from one area.
 *
 * An allreduce of at most the ring's gather_max bytes takes kernel memory for all
 * members' vectors, N times its own, which counts against RLIMIT_MEMLOCK while it is
 * under way, whether its buffers are registered or not.
 *
 * Return: 0; -EBUSY if buffers are registered already; -EINVAL if @n is out of
 * range; -EFAULT if an area is empty, too large or not mapped; -ENOMEM if there is
 * no memory or RLIMIT_MEMLOCK does not allow it: aru_refusal() tells what was
 * needed, and the limit.
 */
int aru_register_buffers(struct aru *aru, const struct iovec *iov,
			 unsigned int n);

/**
 * aru_unregister_buffers - undo aru_register_buffers()
 * @aru: the context
 *
 * Return: 0; -ENXIO if none are registered; -EBUSY if requests are under way.
 */
int aru_unregister_buffers(struct aru *aru);

/* ---- 3. configuration ---------------------------------------------------- */

#define ARU_MEMBER_TEXT_SIZE	80

/**
 * struct aru_member - where a member listens
 * @family: AF_INET or AF_INET6
 * @port: host order, not 0
 * @scope: interface index of a link-local IPv6 address, else 0
 * @addr: the address in network order; 4 bytes of it for IPv4
 */
struct aru_member {
	uint16_t family;
	uint16_t port;
	uint32_t scope;
	uint8_t addr[16];
};

/**
 * aru_member_parse - read a member's address
 * @text: "ADDR", "ADDR:PORT", "V6", "[V6]", "[V6]:PORT", and for a link-local V6
 *	"V6%INTERFACE". Addresses are numeric: what a host name means can differ
 *	from node to node. Without a port it is ALLREDUCE_PORT_DEFAULT.
 * @member: the result
 * @error: what is wrong with @text, one phrase; or NULL
 * @error_size: bytes at @error
 *
 * Return: 0 or -EINVAL.
 */
int aru_member_parse(const char *text, struct aru_member *member, char *error,
		     size_t error_size);

/**
 * aru_members_parse - read a list of members, in rank order
 * @text: members separated by commas
 * @members: the result
 * @max: room there
 * @error: what is wrong, one phrase; or NULL
 * @error_size: bytes at @error
 *
 * Return: the number of members, or -EINVAL. See aru_members_check().
 */
int aru_members_parse(const char *text, struct aru_member *members,
		      unsigned int max, char *error, size_t error_size);

/**
 * aru_members_check - see that a list of members can make a ring
 * @members: in rank order
 * @n: how many
 * @error: what is wrong, one phrase; or NULL
 * @error_size: bytes at @error
 *
 * Refuses a wrong number, mixed address families, unspecified and multicast
 * addresses, a link-local address without an interface, and an address and port
 * that occur twice: members on one host need different ports.
 *
 * Return: 0 or -EINVAL.
 */
int aru_members_check(const struct aru_member *members, unsigned int n,
		      char *error, size_t error_size);

/**
 * aru_member_format - write a member as aru_member_parse() reads it
 * @member: the member
 * @text: ARU_MEMBER_TEXT_SIZE bytes suffice
 * @size: bytes at @text
 *
 * Return: 0, -EINVAL or -ENOSPC.
 */
int aru_member_format(const struct aru_member *member, char *text, size_t size);

/**
 * aru_ring_id - the id of a ring that was given none
 * @name: the ring's name
 * @members: in rank order
 * @n: how many
 * @id: the result
 *
 * FNV-1a of 128 bits, most significant byte first, over the name with its NUL
 * and for each member one byte 4 or 6, the 4 or 16 bytes of the address, the
 * port in network order. Interface indexes, which differ from node to node,
 * stay out: so every member derives the same id from the same name and list.
 */
void aru_ring_id(const char *name, const struct aru_member *members,
		 unsigned int n, uint8_t id[ALLREDUCE_ID_SIZE]);

struct aru_nl;

/**
 * aru_nl_open - connect to the module's netlink family
 * @nl: the handle, NULL after an error
 *
 * It speaks to the network namespace in which the calling thread is now.
 *
 * Return: 0, -ENOENT if there is no such family (the module is not loaded), or
 * another error.
 */
int aru_nl_open(struct aru_nl **nl);
void aru_nl_close(struct aru_nl *nl);

/**
 * aru_nl_error_text - why the last call with this handle failed
 * @nl: the handle
 *
 * Return: the kernel's own words, with the value at fault where the kernel
 * pointed at one; or else the meaning of the error. "" after success. Valid
 * until the next call.
 */
const char *aru_nl_error_text(const struct aru_nl *nl);

/**
 * struct aru_ring_config - a ring to be
 * @sz: size of this struct
 * @name: 1 to 31 characters, no '/', no white space
 * @has_id: take @id; else it is aru_ring_id()
 * @id: not all zero
 * @rank: this member's position, 0 to @n_members - 1
 * @members: in rank order, the same list on every member
 * @n_members: ALLREDUCE_SIZE_MIN to _MAX
 * @lanes: ALLREDUCE_LANES_MIN to _MAX, the same on every member; 0 leaves it to
 *	the kernel
 * @frame_max: payload bytes of a frame, ALLREDUCE_FRAME_MAX_MIN to _MAX, a
 *	multiple of 64, the same on every member; 0 leaves it to the kernel
 * @timeout_ms: a job without progress for so long fails;
 *	ALLREDUCE_TIMEOUT_MS_MIN to _MAX; 0 leaves it to the kernel
 * @has_gather_max: take @gather_max; else it is left to the kernel
 * @gather_max: bytes of a vector up to which an allreduce has half the latency:
 *	every member's whole vector goes around, and each member sums by itself, to
 *	the same bits. 0 (none but empty ones) to ALLREDUCE_GATHER_MAX_MAX, the same
 *	on every member
 */
struct aru_ring_config {
	size_t sz;
	const char *name;
	bool has_id;
	uint8_t id[ALLREDUCE_ID_SIZE];
	unsigned int rank;
	const struct aru_member *members;
	unsigned int n_members;
	unsigned int lanes;
	unsigned int frame_max;
	unsigned int timeout_ms;
	bool has_gather_max;
	unsigned int gather_max;
};

/**
 * aru_ring_add - create a ring, in state down
 * @nl: the handle
 * @config: the ring
 *
 * Needs CAP_NET_ADMIN in the network namespace.
 *
 * Return: 0; -EEXIST if there is one of that name, or of that id and rank;
 * -EADDRNOTAVAIL or -EADDRINUSE if this member's own address can't be listened
 * on; -ENOSPC if the network namespace has as many rings as it can hold; -EPERM;
 * -EINVAL if the list of members can't make a ring or the kernel refuses a value;
 * or another error.
 */
int aru_ring_add(struct aru_nl *nl, const struct aru_ring_config *config);

/**
 * aru_ring_del - delete a ring in whatever state
 * @nl: the handle
 * @name: its name
 *
 * Jobs on it end with an error, here and on the other members.
 *
 * Return: 0, -ENODEV if there is no such ring, -EPERM, or another error.
 */
int aru_ring_del(struct aru_nl *nl, const char *name);

/**
 * struct aru_ring_up_opts - options of aru_ring_up()
 * @sz: size of this struct
 * @connect_timeout_ms: how long the ring tries to reach its neighbours,
 *	ALLREDUCE_TIMEOUT_MS_MIN to _MAX; 0 is
 *	ALLREDUCE_CONNECT_TIMEOUT_MS_DEFAULT
 * @nowait: return when the kernel has accepted the request
 */
struct aru_ring_up_opts {
	size_t sz;
	unsigned int connect_timeout_ms;
	bool nowait;
};

/**
 * aru_ring_up - connect a ring
 * @nl: the handle
 * @name: its name
 * @opts: options, or NULL
 *
 * Waits until the ring is up; every member has to call it within the connect
 * timeout of the first.
 *
 * Return: 0: the ring is up (with nowait: it is connecting); -ETIMEDOUT: it
 * could not be connected in time, and is down again; the error that broke it
 * meanwhile; -EALREADY: it is up or connecting already; -EPIPE: it is broken;
 * -ENODEV: there is no such ring, or it was deleted meanwhile;
 * -EPERM; or another error.
 */
int aru_ring_up(struct aru_nl *nl, const char *name,
		const struct aru_ring_up_opts *opts);

/* Slots of a table of counters: ALLREDUCE_STAT_* are indexes into it. */
#define ARU_STAT_SLOTS		64

/**
 * struct aru_lane - one lane of a ring
 * @index: 0 to lanes - 1
 * @next_up: the connection to the next member is there
 * @prev_up: the connection from the previous member is there
 * @stats: counters, by ALLREDUCE_STAT_*
 */
struct aru_lane {
	uint32_t index;
	bool next_up;
	bool prev_up;
	uint64_t stats[ARU_STAT_SLOTS];
};

/**
 * struct aru_ring - what the kernel tells about a ring
 * @sz: size of this struct in the library that made it
 * @name: its name
 * @id: its id
 * @rank: this member's position
 * @size: number of members
 * @frame_max: payload bytes of a frame at most
 * @timeout_ms: no progress within a job
 * @state: enum allreduce_ring_state
 * @error: 0, or the negative errno that broke it
 * @attached: a file is attached
 * @jobs_in_flight: jobs submitted and not done
 * @jobs_submitted: number of the last job
 * @reason: what broke it, "" if there is nothing to tell
 * @isa: the instruction set of the reduction loops
 * @members: @n_members of them, in rank order
 * @n_members: how many
 * @n_lanes: lanes
 * @lanes: @n_lanes of them
 * @stats: counters summed over the lanes, by ALLREDUCE_STAT_*
 * @gather_max: bytes of the largest vector of the gather path
 */
struct aru_ring {
	size_t sz;
	char name[ALLREDUCE_NAME_SIZE];
	uint8_t id[ALLREDUCE_ID_SIZE];
	uint32_t rank;
	uint32_t size;
	uint32_t frame_max;
	uint32_t timeout_ms;
	uint32_t state;
	int32_t error;
	bool attached;
	uint32_t jobs_in_flight;
	uint64_t jobs_submitted;
	char reason[ALLREDUCE_REASON_SIZE];
	char isa[16];
	struct aru_member *members;
	unsigned int n_members;
	unsigned int n_lanes;
	struct aru_lane *lanes;
	uint64_t stats[ARU_STAT_SLOTS];
	uint32_t gather_max;
};

/**
 * aru_ring_get - look at one ring
 * @nl: the handle
 * @name: its name
 * @ring: the result, to be given to aru_ring_free(); NULL after an error
 *
 * Return: 0, -ENODEV if there is no such ring, or another error.
 */
int aru_ring_get(struct aru_nl *nl, const char *name, struct aru_ring **ring);
void aru_ring_free(struct aru_ring *ring);

/**
 * typedef aru_ring_fn - is shown a ring
 * @ring: the ring, valid during the call
 * @arg: as given to aru_ring_list()
 *
 * Must not use the struct aru_nl. Return: 0 to go on, else to end the list.
 */
typedef int (*aru_ring_fn)(const struct aru_ring *ring, void *arg);

/**
 * aru_ring_list - look at all rings of the network namespace
 * @nl: the handle
 * @fn: called for each
 * @arg: for @fn
 *
 * Return: 0, what @fn returned if that was not 0, or an error.
 */
int aru_ring_list(struct aru_nl *nl, aru_ring_fn fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* _ALLREDUCE_URING_H */
