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
#define ALLREDUCE_REASON_SIZE		128
#define ALLREDUCE_INFO_SIZE_MAX		4096

#define ALLREDUCE_SIZE_MIN		1	/* members of a ring */
#define ALLREDUCE_SIZE_MAX		64
#define ALLREDUCE_LANES_MIN		1
#define ALLREDUCE_LANES_MAX		16
#define ALLREDUCE_LANES_DEFAULT		4
#define ALLREDUCE_FRAME_MAX_MIN		4096	/* payload bytes; multiple of 64 */
#define ALLREDUCE_FRAME_MAX_MAX		1048576
#define ALLREDUCE_FRAME_MAX_DEFAULT	65536
#define ALLREDUCE_TIMEOUT_MS_MIN	100	/* no progress within a job */
#define ALLREDUCE_TIMEOUT_MS_MAX	86400000
#define ALLREDUCE_TIMEOUT_MS_DEFAULT	30000
#define ALLREDUCE_PORT_DEFAULT		18515

/*
 * Element types: X(NAME, name, value, bytes). A new type joins by a row here,
 * a C type and, where it is not a plain C arithmetic type, its arithmetic in
 * kmod/reduce_kernels.c. Values are ABI; 0 stays invalid so that a zeroed
 * command is refused.
 */
#define ALLREDUCE_FOR_EACH_TYPE(X) \
	X(F32, f32, 1, 4) \
	X(F64, f64, 2, 8) \
	X(I32, i32, 3, 4) \
	X(I64, i64, 4, 8)

/* Operations: X(NAME, name, value). Integer sums wrap; floats follow IEEE 754. */
#define ALLREDUCE_FOR_EACH_OP(X) \
	X(SUM, sum, 1)

/* Collectives: X(NAME, name, value). */
#define ALLREDUCE_FOR_EACH_COLLECTIVE(X) \
	X(ALLREDUCE, allreduce, 1)

#define ALLREDUCE_X_TYPE(NAME, name, value, bytes)	ALLREDUCE_##NAME = value,
enum allreduce_type {
	ALLREDUCE_FOR_EACH_TYPE(ALLREDUCE_X_TYPE)
};

#define ALLREDUCE_X_OP(NAME, name, value)		ALLREDUCE_##NAME = value,
enum allreduce_op {
	ALLREDUCE_FOR_EACH_OP(ALLREDUCE_X_OP)
};

#define ALLREDUCE_X_COLLECTIVE(NAME, name, value) \
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
	X(JOBS_FAILED, jobs_failed, 12, "jobs completed with an error")

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

/* Which of src and dst lie in the registered buffer sqe->buf_index. */
#define ALLREDUCE_CALL_FIXED_SRC	(1U << 0)
#define ALLREDUCE_CALL_FIXED_DST	(1U << 1)
#define ALLREDUCE_CALL_FLAGS \
	(ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST)

/**
 * struct allreduce_call - SQE payload of ALLREDUCE_URING_SUBMIT
 * @src: user address of the local contribution, aligned to the element size
 * @dst: user address of the result, aligned to the element size; equal to @src
 *       (in place) or not overlapping it
 * @count: elements, the same on every member; 0 to 2^60
 * @tag: the caller's name for the job, for ALLREDUCE_URING_CANCEL
 * @timeout_ms: the job fails with -ETIMEDOUT when it makes no progress for so
 *       long; 0 takes the ring's; else ALLREDUCE_TIMEOUT_MS_MIN to _MAX
 * @flags: ALLREDUCE_CALL_*; the FIXED ones go with IORING_URING_CMD_FIXED in
 *       sqe->uring_cmd_flags, and only together
 * @collective: enum allreduce_collective
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @reserved0: must be 0
 * @root: must be 0 for allreduce
 * @reserved: must be 0
 *
 * Buffers that are not registered are pinned while the SQE is submitted, which
 * takes time in proportion to their pages. The CQE's res is 0, or a negative
 * errno; whatever it is, the kernel has let go of both buffers when the CQE is
 * posted. After an error the contents of
 * dst are undefined; src is as it was unless dst equals src.
 *
 *   -EINVAL       a field is out of range, or the members' calls differ (on the
 *                 member that finds out; the others get -ECONNRESET)
 *   -EFAULT       a buffer is not mapped, or not writable (dst)
 *   -ENOMEM       no memory, or RLIMIT_MEMLOCK, which counts what the user has
 *                 pinned and registered with io_uring, does not allow pinning
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
	__u64 reserved[4];
};

#define ALLREDUCE_COUNT_MAX	(1ULL << 60)

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
	 * NAME, ID, RANK, MEMBERS and, optionally, LANES, FRAME_MAX, TIMEOUT_MS.
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
