/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * allreduce - all-reduce between NIC queues: what userspace sees of the module
 *
 * Two interfaces:
 *
 *  - the misc device /dev/allreduce, whose io_uring commands (IORING_OP_URING_CMD
 *    in 128-byte SQEs) attach a file to a ring and submit collectives to it;
 *  - the generic netlink family "allreduce", which configures rings.
 *
 * Tables that more than one party needs (element types, operations, counters)
 * are X-macros here, so that module, library, tools and tests share each row.
 */
#ifndef _UAPI_LINUX_ALLREDUCE_H
#define _UAPI_LINUX_ALLREDUCE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* A ring's name: 1 to 31 characters, no '/', no white space, then a NUL. */
#define ALLREDUCE_NAME_SIZE		32
#define ALLREDUCE_ID_SIZE		16
#define ALLREDUCE_REASON_SIZE		192
#define ALLREDUCE_INFO_SIZE_MAX		4096

#define ALLREDUCE_SIZE_MIN		1	/* members of a ring */
#define ALLREDUCE_SIZE_MAX		64
#define ALLREDUCE_LANES_MIN		1
#define ALLREDUCE_LANES_MAX		16
#define ALLREDUCE_LANES_DEFAULT		4
#define ALLREDUCE_FRAME_MAX_MIN		4096	/* payload bytes; multiple of 64 */
#define ALLREDUCE_FRAME_MAX_MAX		1048576
#define ALLREDUCE_FRAME_MAX_DEFAULT	65536
#define ALLREDUCE_GATHER_MAX_MAX	65536	/* bytes of a vector */
#define ALLREDUCE_GATHER_MAX_DEFAULT	4096
#define ALLREDUCE_TIMEOUT_MS_MIN	100	/* no progress within a job */
#define ALLREDUCE_TIMEOUT_MS_MAX	86400000
#define ALLREDUCE_TIMEOUT_MS_DEFAULT	30000
#define ALLREDUCE_PORT_DEFAULT		18515

/*
 * Element types: X(NAME, name, value, bytes). A new type joins by a row here,
 * a C type and, where it is not a plain C arithmetic type, its arithmetic in
 * kmod/reduce_kernels.c. Values are ABI; 0 stays invalid so that a zeroed
 * command is refused.
 *
 * f16 is IEEE 754 binary16, bf16 the upper half of an f32. Both are computed in
 * f32 and rounded to nearest even once for each contribution.
 */
#define ALLREDUCE_FOR_EACH_FLOAT(X) \
	X(F32, f32, 1, 4) \
	X(F64, f64, 2, 8) \
	X(F16, f16, 5, 2) \
	X(BF16, bf16, 6, 2)

#define ALLREDUCE_FOR_EACH_INTEGER(X) \
	X(I32, i32, 3, 4) \
	X(I64, i64, 4, 8) \
	X(I8, i8, 7, 1) \
	X(U8, u8, 8, 1) \
	X(U32, u32, 9, 4) \
	X(U64, u64, 10, 8)

#define ALLREDUCE_FOR_EACH_TYPE(X) \
	ALLREDUCE_FOR_EACH_FLOAT(X) \
	ALLREDUCE_FOR_EACH_INTEGER(X)

/*
 * Operations: X(NAME, name, value).
 *
 * Integers wrap. Floats follow IEEE 754; sum and prod carry NaN on, and so do
 * min and max, which are the minimum and maximum of IEEE 754-2019 (-0 < +0).
 * avg is sum, and then one division by the ring's size: truncated for integers,
 * rounded to nearest even for floats.
 *
 * premulsum is the sum of what each member's elements times its factor (struct
 * allreduce_call) give, the product rounded to the type; for f32, f16 and bf16
 * the factor is rounded to f32 first, and the product is made in f32.
 */
#define ALLREDUCE_FOR_EACH_ARITHMETIC_OP(X) \
	X(SUM, sum, 1) \
	X(PROD, prod, 2) \
	X(MIN, min, 3) \
	X(MAX, max, 4) \
	X(AVG, avg, 5)

/* On integers only. */
#define ALLREDUCE_FOR_EACH_BITWISE_OP(X) \
	X(BAND, band, 6) \
	X(BOR, bor, 7) \
	X(BXOR, bxor, 8)

/* On floats only. */
#define ALLREDUCE_FOR_EACH_SCALED_OP(X) \
	X(PREMULSUM, premulsum, 9)

#define ALLREDUCE_FOR_EACH_OP(X) \
	ALLREDUCE_FOR_EACH_ARITHMETIC_OP(X) \
	ALLREDUCE_FOR_EACH_BITWISE_OP(X) \
	ALLREDUCE_FOR_EACH_SCALED_OP(X)

/*
 * Collectives: X(NAME, name, value, src, dst, reduces). src and dst say how
 * large a rank's buffers are (enum allreduce_extent), reduces whether the call
 * has an operation; where it has none op is 0.
 *
 * In a ring of N members with count C:
 *
 *   allreduce       every dst gets the C results over all src
 *   reduce_scatter  src has N blocks of C; the dst of rank r gets the C results
 *                   of the blocks r
 *   allgather       every dst gets N blocks of C, block r being rank r's src
 *   broadcast       every dst gets the root's src
 *   reduce          the root's dst gets the C results over all src
 *   barrier         ends on no member before it was called on all; type, op,
 *                   count, root, src and dst are 0
 *
 * A call is in place if src == dst, or where one has blocks and the other has
 * not, if the latter is the rank's own block of the former (NCCL's rule; the
 * MPI_IN_PLACE of MPI_Reduce_scatter_block, with the result at the beginning of
 * the vector on every rank, is another one). Otherwise src and dst must not
 * overlap, and src is never written. A buffer that the rank does not need (extent
 * 0) is ignored.
 */
#define ALLREDUCE_FOR_EACH_COLLECTIVE(X) \
	X(ALLREDUCE, allreduce, 1, COUNT, COUNT, 1) \
	X(REDUCE_SCATTER, reduce_scatter, 2, BLOCKS, COUNT, 1) \
	X(ALLGATHER, allgather, 3, COUNT, BLOCKS, 0) \
	X(BROADCAST, broadcast, 4, ROOT, COUNT, 0) \
	X(REDUCE, reduce, 5, COUNT, ROOT, 1) \
	X(BARRIER, barrier, 6, NONE, NONE, 0)

/* Elements of a buffer that a call has. */
enum allreduce_extent {
	ALLREDUCE_EXTENT_NONE,		/* 0 */
	ALLREDUCE_EXTENT_COUNT,		/* count */
	ALLREDUCE_EXTENT_BLOCKS,	/* count for each member */
	ALLREDUCE_EXTENT_ROOT,		/* count on the root, 0 elsewhere */
};

#define ALLREDUCE_X_TYPE(NAME, name, value, bytes)	ALLREDUCE_##NAME = value,
enum allreduce_type {
	ALLREDUCE_FOR_EACH_TYPE(ALLREDUCE_X_TYPE)
};

#define ALLREDUCE_X_OP(NAME, name, value)		ALLREDUCE_##NAME = value,
enum allreduce_op {
	ALLREDUCE_FOR_EACH_OP(ALLREDUCE_X_OP)
};

#define ALLREDUCE_X_COLLECTIVE(NAME, name, value, src, dst, reduces) \
	ALLREDUCE_COLLECTIVE_##NAME = value,
enum allreduce_collective {
	ALLREDUCE_FOR_EACH_COLLECTIVE(ALLREDUCE_X_COLLECTIVE)
};

/*
 * A ring's life:
 *   down -> connecting (RING_UP) -> up -> broken; connecting -> down when the
 *   connect timeout runs out. RING_DEL is accepted in every state.
 */
enum allreduce_ring_state {
	ALLREDUCE_RING_DOWN = 1,
	ALLREDUCE_RING_CONNECTING = 2,
	ALLREDUCE_RING_UP = 3,
	ALLREDUCE_RING_BROKEN = 4,
};

/*
 * Counters of a ring, summed over its lanes: X(NAME, name, value, help).
 * value is the netlink attribute inside ALLREDUCE_A_STATS (u64 each).
 */
#define ALLREDUCE_FOR_EACH_STAT(X) \
	X(BYTES_INJECTED, bytes_injected, 1, \
	  "payload bytes sent from the user's pages by reference") \
	X(BYTES_REDUCED, bytes_reduced, 2, \
	  "payload bytes received and summed with the local part") \
	X(BYTES_FORWARDED, bytes_forwarded, 3, \
	  "received payload bytes passed on by page reference") \
	X(BYTES_DELIVERED, bytes_delivered, 4, \
	  "result bytes written to the user's buffer") \
	X(BYTES_COPIED, bytes_copied, 5, \
	  "payload bytes copied for any other reason (without scatter-gather: all)") \
	X(BYTES_SENT, bytes_sent, 6, \
	  "bytes handed to TCP, headers included") \
	X(BYTES_RECEIVED, bytes_received, 7, \
	  "bytes taken from TCP, headers included") \
	X(FRAMES_SENT, frames_sent, 8, "frames sent") \
	X(FRAMES_RECEIVED, frames_received, 9, "frames received") \
	X(ELEMENTS_STRADDLED, elements_straddled, 10, \
	  "elements that were split across received fragments") \
	X(JOBS_DONE, jobs_done, 11, "jobs completed without error") \
	X(JOBS_FAILED, jobs_failed, 12, "jobs completed with an error") \
	X(BYTES_STAGED, bytes_staged, 13, \
	  "payload bytes copied by design: gathered small vectors, scaled contributions")

/* ---- /dev/allreduce ---------------------------------------------------- */

/**
 * struct allreduce_info - what ATTACH and INFO tell about the file's ring
 * @rank: this member's position, 0 to @size - 1
 * @size: number of members
 * @lanes: parallel paths
 * @state: enum allreduce_ring_state
 * @error: 0, or the negative errno that broke the ring, or that has kept it from
 *	coming up so far
 * @reserved: 0
 * @jobs_submitted: number of the last job submitted, 0 if none was
 * @reason: NUL-terminated text that says what broke the ring, "" if unbroken
 * @refusal: NUL-terminated text that says why the file's call that was refused
 *	last was: the field and its range, or the limit reached; "" if none was
 */
struct allreduce_info {
	__u32 rank;
	__u32 size;
	__u32 lanes;
	__u32 state;
	__s32 error;
	__u32 reserved;
	__u64 jobs_submitted;
	char reason[ALLREDUCE_REASON_SIZE];
	char refusal[ALLREDUCE_REASON_SIZE];
};

/**
 * struct allreduce_attach - SQE payload of ALLREDUCE_URING_ATTACH
 * @ring: NUL-terminated name of a ring in the netns in which the file was opened
 * @info: user address of a struct allreduce_info to fill, or 0
 * @info_size: bytes at @info, at most ALLREDUCE_INFO_SIZE_MAX; a shorter struct is
 *	filled as far as it goes, a longer one with zeros behind what is known
 * @flags: must be 0
 * @reserved: must be 0
 *
 * Binds the file to the ring, exclusively, until the file is closed. The CQE's
 * res is 0, or -ENODEV (no such ring), -EBUSY (the ring has an owner),
 * -EALREADY (the file has a ring), -EINVAL, -EFAULT.
 */
struct allreduce_attach {
	char ring[ALLREDUCE_NAME_SIZE];
	__u64 info;
	__u32 info_size;
	__u32 flags;
	__u64 reserved[4];
};

/*
 * Which of src and dst lie in the registered buffer sqe->buf_index; there is one
 * of these for a call.
 */
#define ALLREDUCE_CALL_FIXED_SRC	(1U << 0)
#define ALLREDUCE_CALL_FIXED_DST	(1U << 1)
#define ALLREDUCE_CALL_FLAGS \
	(ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST)

/**
 * struct allreduce_call - SQE payload of ALLREDUCE_URING_SUBMIT
 * @src: user address of the local contribution, aligned to the element size
 * @dst: user address of the result, aligned to the element size
 * @count: elements, the same on every member; see ALLREDUCE_FOR_EACH_COLLECTIVE
 *       for what they are elements of. 0 to ALLREDUCE_COUNT_MAX for all of a
 *       buffer: with N blocks, to ALLREDUCE_COUNT_MAX / N
 * @tag: the caller's name for the job, for ALLREDUCE_URING_CANCEL
 * @timeout_ms: the job fails with -ETIMEDOUT when it makes no progress for so
 *       long; 0 takes the ring's; else ALLREDUCE_TIMEOUT_MS_MIN to _MAX
 * @flags: ALLREDUCE_CALL_*; the FIXED ones go with IORING_URING_CMD_FIXED in
 *       sqe->uring_cmd_flags, and only together
 * @collective: enum allreduce_collective
 * @type: enum allreduce_type
 * @op: enum allreduce_op, 0 for collectives without one
 * @reserved0: must be 0
 * @root: rank of the root; must be 0 for collectives without one
 * @factor: bits of an f64: this member's factor, for premulsum, any value; must
 *       be 0 for other operations
 * @reserved: must be 0
 *
 * Buffers that are not registered are pinned while the SQE is submitted, which
 * takes time in proportion to their pages. The CQE's res is 0, or a negative
 * errno; whatever it is, the kernel has let go of both buffers when the CQE is
 * posted. After an error the contents of
 * dst are undefined; src is as it was unless dst equals src.
 *
 *   -EINVAL       a field is out of range, or the members' calls differ (on the
 *                 member that finds out; the others get -ECONNRESET). What is
 *                 wrong with a field is in struct allreduce_info, @refusal
 *   -EFAULT       a buffer is not mapped, or not writable (dst)
 *   -ENOMEM       no memory, or RLIMIT_MEMLOCK, which counts what the user has
 *                 pinned and registered with io_uring, does not allow pinning;
 *                 @refusal says how much was needed
 *   -EINTR        the submitter was killed while its pages were pinned
 *   -ENOTCONN     the ring is not up
 *   -ENXIO        the file is not attached
 *   -EPIPE        the ring was broken before the job was submitted
 *   -ETIMEDOUT    no progress
 *   -ECONNRESET   a neighbour's connection went away
 *   -EPROTO, -EBADMSG   a neighbour sent what the protocol does not allow
 *   -ECANCELED    canceled, the ring was deleted, or the submitter died
 */
struct allreduce_call {
	__u64 src;
	__u64 dst;
	__u64 count;
	__u64 tag;
	__u32 timeout_ms;
	__u32 flags;
	__u8 collective;
	__u8 type;
	__u8 op;
	__u8 reserved0;
	__u32 root;
	__u64 factor;
	__u64 reserved[3];
};

#define ALLREDUCE_COUNT_MAX	(1ULL << 60)

/**
 * struct allreduce_buffers - what a call makes of a rank's memory
 * @src: elements at the call's src, 0 if the rank needs none
 * @dst: elements at the call's dst, 0 if the rank needs none
 * @src_in_dst: where in place, the element of dst at which src starts
 * @dst_in_src: where in place, the element of src at which dst starts
 */
struct allreduce_buffers {
	__u64 src;
	__u64 dst;
	__u64 src_in_dst;
	__u64 dst_in_src;
};

static inline __u64 allreduce_extent(enum allreduce_extent extent, __u64 count,
				     __u32 rank, __u32 size, __u32 root)
{
	switch (extent) {
	case ALLREDUCE_EXTENT_COUNT:
		return count;
	case ALLREDUCE_EXTENT_BLOCKS:
		return count * size;
	case ALLREDUCE_EXTENT_ROOT:
		return rank == root ? count : 0;
	case ALLREDUCE_EXTENT_NONE:
		break;
	}
	return 0;
}

/* How large a collective's src is; ALLREDUCE_EXTENT_NONE for an unknown one. */
static inline enum allreduce_extent allreduce_src_extent(__u8 collective)
{
	switch (collective) {
#define ALLREDUCE_X_EXTENT(NAME, name, value, src, dst, reduces) \
	case ALLREDUCE_COLLECTIVE_##NAME: \
		return ALLREDUCE_EXTENT_##src;
	ALLREDUCE_FOR_EACH_COLLECTIVE(ALLREDUCE_X_EXTENT)
#undef ALLREDUCE_X_EXTENT
	}
	return ALLREDUCE_EXTENT_NONE;
}

/* The same of its dst. */
static inline enum allreduce_extent allreduce_dst_extent(__u8 collective)
{
	switch (collective) {
#define ALLREDUCE_X_EXTENT(NAME, name, value, src, dst, reduces) \
	case ALLREDUCE_COLLECTIVE_##NAME: \
		return ALLREDUCE_EXTENT_##dst;
	ALLREDUCE_FOR_EACH_COLLECTIVE(ALLREDUCE_X_EXTENT)
#undef ALLREDUCE_X_EXTENT
	}
	return ALLREDUCE_EXTENT_NONE;
}

/* True if a call has a root. */
static inline int allreduce_has_root(__u8 collective)
{
	return allreduce_src_extent(collective) == ALLREDUCE_EXTENT_ROOT ||
	       allreduce_dst_extent(collective) == ALLREDUCE_EXTENT_ROOT;
}

/* True if one of its buffers has a block for each member. */
static inline int allreduce_has_blocks(__u8 collective)
{
	return allreduce_src_extent(collective) == ALLREDUCE_EXTENT_BLOCKS ||
	       allreduce_dst_extent(collective) == ALLREDUCE_EXTENT_BLOCKS;
}

/* Of a call whose count fits; all 0 for an unknown collective. */
static inline struct allreduce_buffers
allreduce_buffers(__u8 collective, __u64 count, __u32 rank, __u32 size,
		  __u32 root)
{
	enum allreduce_extent src = allreduce_src_extent(collective);
	enum allreduce_extent dst = allreduce_dst_extent(collective);
	struct allreduce_buffers b;

	b.src = allreduce_extent(src, count, rank, size, root);
	b.dst = allreduce_extent(dst, count, rank, size, root);
	b.src_in_dst = dst == ALLREDUCE_EXTENT_BLOCKS ? count * rank : 0;
	b.dst_in_src = src == ALLREDUCE_EXTENT_BLOCKS ? count * rank : 0;
	return b;
}

#define ALLREDUCE_CANCEL_ALL	(1U << 0)

/**
 * struct allreduce_cancel - SQE payload of ALLREDUCE_URING_CANCEL
 * @tag: jobs with this tag
 * @flags: ALLREDUCE_CANCEL_ALL: every job of the file, whatever its tag
 * @reserved0: must be 0
 * @reserved: must be 0
 *
 * A ring's members run the same jobs in the same order, so a job can't be
 * taken out alone: canceling breaks the ring, and all its jobs end with
 * -ECANCELED. The CQE's res is the number of jobs that matched, or -ENOENT.
 */
struct allreduce_cancel {
	__u64 tag;
	__u32 flags;
	__u32 reserved0;
	__u64 reserved[8];
};

/**
 * struct allreduce_info_query - SQE payload of ALLREDUCE_URING_INFO
 * @info: user address of a struct allreduce_info to fill
 * @info_size: bytes at @info, as for struct allreduce_attach
 * @reserved0: must be 0
 * @reserved: must be 0
 */
struct allreduce_info_query {
	__u64 info;
	__u32 info_size;
	__u32 reserved0;
	__u64 reserved[8];
};

/* sqe->cmd_op; another one is answered with -ENOTTY. */
#define ALLREDUCE_IOC_MAGIC	0xA7
#define ALLREDUCE_URING_ATTACH	_IOW(ALLREDUCE_IOC_MAGIC, 1, struct allreduce_attach)
#define ALLREDUCE_URING_SUBMIT	_IOW(ALLREDUCE_IOC_MAGIC, 2, struct allreduce_call)
#define ALLREDUCE_URING_CANCEL	_IOW(ALLREDUCE_IOC_MAGIC, 3, struct allreduce_cancel)
#define ALLREDUCE_URING_INFO	_IOW(ALLREDUCE_IOC_MAGIC, 4, struct allreduce_info_query)

/* ---- generic netlink --------------------------------------------------- */

#define ALLREDUCE_GENL_NAME	"allreduce"
#define ALLREDUCE_GENL_VERSION	1
#define ALLREDUCE_GENL_EVENTS	"events"	/* multicast group */

/*
 * Commands. Changes need CAP_NET_ADMIN in the user namespace of the netns.
 * Every refusal carries extack text and, where one attribute is at fault, its
 * offset.
 */
enum allreduce_cmd {
	ALLREDUCE_CMD_UNSPEC,
	/*
	 * NAME, ID, RANK, MEMBERS and, optionally, LANES, FRAME_MAX, TIMEOUT_MS,
	 * GATHER_MAX.
	 * -EEXIST: there is a ring of this name, or of this id and rank;
	 * -ENOSPC: there are 256 rings in the netns.
	 */
	ALLREDUCE_CMD_RING_ADD,
	/* NAME */
	ALLREDUCE_CMD_RING_DEL,
	/* do: NAME; dump: all rings of the netns. Answers are RING_GET messages. */
	ALLREDUCE_CMD_RING_GET,
	/* NAME, optionally CONNECT_TIMEOUT_MS. Returns at once; an event follows. */
	ALLREDUCE_CMD_RING_UP,
	/* Event: the state of a ring changed. Same contents as RING_GET. */
	ALLREDUCE_CMD_RING_EVENT,

	__ALLREDUCE_CMD_MAX,
	ALLREDUCE_CMD_MAX = __ALLREDUCE_CMD_MAX - 1,
};

#define ALLREDUCE_CONNECT_TIMEOUT_MS_DEFAULT	30000

enum allreduce_attr {
	ALLREDUCE_A_UNSPEC,
	ALLREDUCE_A_PAD,
	ALLREDUCE_A_NAME,		/* string, 1 to 31 characters */
	ALLREDUCE_A_ID,			/* binary, 16 bytes, not all zero */
	ALLREDUCE_A_RANK,		/* u32, 0 to size - 1 */
	ALLREDUCE_A_SIZE,		/* u32, answers only */
	ALLREDUCE_A_LANES,		/* u32, 1 to 16 */
	ALLREDUCE_A_FRAME_MAX,		/* u32, payload bytes of a frame */
	ALLREDUCE_A_TIMEOUT_MS,		/* u32, no progress within a job */
	ALLREDUCE_A_CONNECT_TIMEOUT_MS,	/* u32, ALLREDUCE_TIMEOUT_MS_MIN to _MAX */
	ALLREDUCE_A_MEMBERS,		/* nest of MEMBER, in rank order */
	ALLREDUCE_A_MEMBER,		/* nest of ALLREDUCE_M_* */
	ALLREDUCE_A_STATE,		/* u32, enum allreduce_ring_state */
	ALLREDUCE_A_ERROR,		/* s32, negative errno, 0 if none */
	ALLREDUCE_A_REASON,		/* string, absent if there is none */
	ALLREDUCE_A_ATTACHED,		/* u8, a file is attached */
	ALLREDUCE_A_JOBS_SUBMITTED,	/* u64 */
	ALLREDUCE_A_JOBS_IN_FLIGHT,	/* u32 */
	ALLREDUCE_A_ISA,		/* string, the reduction loops in use */
	ALLREDUCE_A_STATS,		/* nest of ALLREDUCE_STAT_* (u64 each) */
	ALLREDUCE_A_LANE,		/* nest of ALLREDUCE_L_*, one for each lane */
	ALLREDUCE_A_GATHER_MAX,		/* u32, largest vector of the gather path */

	__ALLREDUCE_A_MAX,
	ALLREDUCE_A_MAX = __ALLREDUCE_A_MAX - 1,
};

/* A member; all members of a ring are of one address family. */
enum allreduce_member_attr {
	ALLREDUCE_M_UNSPEC,
	ALLREDUCE_M_ADDR,		/* binary, 4 (IPv4) or 16 (IPv6) bytes */
	ALLREDUCE_M_PORT,		/* u16, host order, 1 to 65535 */
	ALLREDUCE_M_SCOPE,		/* u32, interface index, link-local only */

	__ALLREDUCE_M_MAX,
	ALLREDUCE_M_MAX = __ALLREDUCE_M_MAX - 1,
};

enum allreduce_lane_attr {
	ALLREDUCE_L_UNSPEC,
	ALLREDUCE_L_INDEX,		/* u32 */
	ALLREDUCE_L_NEXT_UP,		/* u8, connection to next is established */
	ALLREDUCE_L_PREV_UP,		/* u8, connection from prev is established */
	ALLREDUCE_L_STATS,		/* nest of ALLREDUCE_STAT_* */

	__ALLREDUCE_L_MAX,
	ALLREDUCE_L_MAX = __ALLREDUCE_L_MAX - 1,
};

#define ALLREDUCE_X_STAT(NAME, name, value, help)	ALLREDUCE_STAT_##NAME = value,
enum allreduce_stat {
	ALLREDUCE_STAT_UNSPEC,
	ALLREDUCE_STAT_PAD = 255,
	ALLREDUCE_FOR_EACH_STAT(ALLREDUCE_X_STAT)
};

#endif /* _UAPI_LINUX_ALLREDUCE_H */
