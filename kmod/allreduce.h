/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures of the module, who owns which, and the locking rules.
 *
 * Objects
 *   ar_net      one a network namespace: its rings and listeners
 *   ar_ring     one member's view of a ring: configuration, state, jobs
 *   ar_lane     one of a ring's parallel paths; owned by its work item
 *   ar_link     one TCP connection of a lane, to next or from prev (link.c)
 *   ar_listener a listening address of the namespace, shared by rings (link.c)
 *   ar_job      one collective call; ar_job_lane is its part on one lane
 *   ar_membuf   a user's buffer as runs of kernel addresses (membuf.c)
 *   ar_file     an open /dev/allreduce (uring.c)
 *
 * Locks, outermost first
 *   ar_net.config_lock (mutex)  creation, deletion, bringing up of the rings
 *                               of a namespace; the list of listeners
 *   socket locks                taken by link.c, one at a time, never nested
 *   ar_net.rings_lock (spin)    the list of rings
 *   ar_ring.lock (spin)         state, error, reason, the lists of jobs, the
 *                               lanes' FIFOs, offered sockets, the attached
 *                               file. Never held across anything that sleeps
 *
 * A lane's links, parser, queue and pool have no lock: only its work item
 * touches them, and a work item never runs twice at a time. Others ask for
 * something by changing ar_ring.state or a FIFO and queueing the work.
 * Counters and ar_lane.progress are written by the work item and read by
 * anyone with READ_ONCE.
 *
 * Life of a ring: the namespace's list holds one reference, an attached file
 * another, a listener that is handing over a connection a short one. Deletion
 * (ar_ring_del) breaks the ring, waits for each lane's work to let go of
 * sockets and jobs, and only then drops the list's reference; so a ring whose
 * last reference goes away has neither.
 */
#ifndef _AR_ALLREDUCE_H
#define _AR_ALLREDUCE_H

#include <linux/fs.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <linux/allreduce.h>

#include "frame.h"
#include "membuf.h"
#include "parser.h"
#include "partition.h"
#include "reduce.h"
#include "txqueue.h"

struct io_uring_cmd;
struct netlink_ext_ack;
struct sk_buff;

#ifndef CONFIG_64BIT
#error "allreduce needs a 64-bit kernel"
#endif

/* ---- statistics (stats.c) ------------------------------------------------ */

#define AR_X_STAT_FIELD(NAME, name, value, help)	u64 name;
struct ar_stats {
	ALLREDUCE_FOR_EACH_STAT(AR_X_STAT_FIELD)
};

/* Of a counter that one work item writes and anyone reads. */
#define ar_stat_add(stats, name, n)					\
do {									\
	u64 *__stat = &(stats)->name;					\
									\
	WRITE_ONCE(*__stat, *__stat + (n));				\
} while (0)

/* ---- members and rings (ring.c) ------------------------------------------ */

union ar_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* What RING_ADD fixes for a ring's whole life. */
struct ar_ring_config {
	char name[ALLREDUCE_NAME_SIZE];
	u8 id[ALLREDUCE_ID_SIZE];
	u32 rank;
	u32 size;
	u32 lanes;
	u32 frame_max;
	u32 gather_max;			/* bytes; 0: for empty vectors only */
	u32 timeout_ms;
	u32 epoch;
	union ar_addr *members;		/* @size of them; owned by the ring */
	u64 members_digest;
};

struct ar_net {
	struct net *net;
	struct mutex config_lock;	/* see the top of this file */
	spinlock_t rings_lock;		/* see the top of this file */
	struct list_head rings;
	u32 generation;			/* of @rings, for dumps; rings_lock */
	struct list_head listeners;
};

struct ar_lane;
struct ar_listener;

struct ar_ring {
	struct kref ref;
	struct list_head node;		/* ar_net.rings */
	struct ar_net *an;		/* lives as long as an attached file */
	struct ar_ring_config config;
	struct ar_listener *listener;	/* NULL in a ring of one */
	struct ar_lane *lanes;

	spinlock_t lock;		/* see the top of this file */
	enum allreduce_ring_state state;
	int error;
	char reason[ALLREDUCE_REASON_SIZE];
	struct list_head jobs;		/* in flight, in submission order */
	u32 jobs_in_flight;
	u64 jobs_submitted;		/* number of the newest job */
	u64 jobs_done;
	u64 jobs_failed;
	u32 lanes_up;
	bool link_closed;		/* a neighbour closed in good order */
	bool draining;			/* ended while idle: close in good order */
	void *attached;			/* the struct ar_file */

	unsigned long connect_deadline;	/* jiffies */
	struct delayed_work watchdog;	/* while connecting or busy */
	wait_queue_head_t idle;		/* jobs_in_flight or a queue became 0 */
};

/* ---- links (link.c) ------------------------------------------------------ */

enum ar_link_state {
	AR_LINK_CLOSED,
	AR_LINK_CONNECTING,	/* to next: TCP handshake under way */
	AR_LINK_GREETING,	/* to next: HELLO sent, WELCOME awaited */
	AR_LINK_UP,
};

struct ar_link {
	struct ar_lane *lane;
	struct socket *sock;
	enum ar_link_state state;
	unsigned long deadline;		/* of CONNECTING and GREETING, jiffies */
	struct ar_welcome welcome;	/* as far as it has come */
	u32 welcome_have;
	bool in_send;			/* TCP is being called */
};

/* ---- lanes (lane.c) ------------------------------------------------------ */

/* Contributions that are scaled before they are added pass through so much. */
#define AR_SCRATCH_BYTES	4096

struct ar_job_lane;

/* The frame that the parser is inside of. */
struct ar_rx_frame {
	struct ar_job_lane *jl;
	enum ar_action action;
	struct ar_membuf_iter local;	/* this member's part, if it reduces */
	struct ar_membuf_iter result;	/* where it goes, if it delivers */
	u32 chunk;
	bool sending;			/* its bytes go to next, and not all have */
	bool owes_token;		/* next gets a token when it has ended */
};

/* The run of received bytes that the parser is being fed with. */
struct ar_rx_run {
	struct page *page;		/* NULL if it can't be referenced */
	const u8 *base;			/* kernel address of @page's byte @offset */
	u32 offset;
};

struct ar_lane {
	struct ar_ring *ring;
	u32 index;
	struct work_struct work;
	struct delayed_work retry;	/* queues @work later */

	struct ar_link next;		/* to rank + 1: frames out */
	struct ar_link prev;		/* from rank - 1: frames in */
	struct socket *offered;		/* ring->lock: accepted, to become prev */
	bool counted_up;		/* in ring->lanes_up; ring->lock */
	bool prev_closed;		/* in good order, and all of it read */
	bool next_closed;
	u32 backoff_ms;

	struct list_head jobs;		/* ring->lock: FIFO of ar_job_lane.node */
	struct list_head sending;	/* ring->lock: those of them that owe next */
	struct list_head finished;	/* received in full, not yet reported */
	u32 forwarded;			/* frames since the last injected one */
	bool needs_room;		/* a frame waits for room in the queue */

	struct ar_parser parser;
	struct ar_rx_frame rx;
	struct ar_rx_run run;
	struct ar_txq txq;
	struct ar_stats stats;
	unsigned long progress;		/* jiffies of the last byte moved */
	u8 scratch[AR_SCRATCH_BYTES] __aligned(64);
};

/* ---- jobs (job.c) -------------------------------------------------------- */

/**
 * struct ar_job_lane - the part of a job that one lane carries
 * @node: ar_lane.jobs, then ar_lane.finished
 * @sending: ar_lane.sending, in the same order, while frames are to be sent
 * @job: the job
 * @index: of the part; its pieces are those of lane @index of the job's plan
 * @left: frames that are still to come and to go
 * @inject_offset: bytes of the own piece that have been injected
 * @next_frame: [phase - 1][chunk]: number of the next frame of the piece
 */
struct ar_job_lane {
	struct list_head node;
	struct list_head sending;
	struct ar_job *job;
	u32 index;
	struct ar_work left;
	u64 inject_offset;
	u64 *next_frame[AR_PHASES];
};

static inline bool ar_part_owes_next(const struct ar_job_lane *jl)
{
	return jl->left.to_inject || jl->left.to_forward;
}

/* A buffer of a call: in place it is a part of the other one's memory. */
struct ar_view {
	struct ar_membuf *mb;
	u64 offset;
};

struct ar_job {
	struct list_head node;		/* ar_ring.jobs */
	struct ar_ring *ring;
	struct io_uring_cmd *cmd;
	fl_owner_t submitter;		/* only compared */
	u64 number;
	struct allreduce_call call;
	u32 element_bytes;
	const struct ar_reduce_kernel *kernel;	/* NULL if nothing is reduced */
	struct ar_plan plan;
	struct ar_membuf src_memory;	/* unused in place, unless dst is in it */
	struct ar_membuf dst_memory;	/* unused if dst is in src */
	struct ar_view src;
	struct ar_view dst;
	bool in_place;
	struct ar_membuf copies;	/* of all members' vectors: gather path */
	struct ar_charge charge;	/* for what of these is not registered */
	unsigned long submitted;	/* jiffies */
	unsigned long timeout;		/* jiffies without progress */
	atomic_t lanes_left;
	int status;			/* first error; only before lanes_left is 0 */
	int result;			/* handed to the completion callback */
	u32 nr_parts;
	struct ar_job_lane parts[];	/* one for each lane that is used */
};

/* main.c APIs: */
extern struct workqueue_struct *ar_wq;
struct ar_net *ar_net(struct net *net);

/* netlink.c APIs: */
int ar_netlink_init(void);
void ar_netlink_exit(void);
void ar_netlink_event(struct ar_ring *ring);

/* ring.c APIs: */
void ar_rings_init(struct ar_net *an);
void ar_rings_exit(struct ar_net *an);
struct ar_ring *ar_ring_get_by_name(struct ar_net *an, const char *name);
struct ar_ring *ar_ring_get_by_id(struct ar_net *an, const u8 *id, u32 rank);
void ar_ring_put(struct ar_ring *ring);
int ar_ring_add(struct ar_net *an, struct ar_ring_config *config,
		struct netlink_ext_ack *extack);
int ar_ring_up(struct ar_net *an, const char *name, u32 connect_timeout_ms,
	       struct netlink_ext_ack *extack);
int ar_ring_del(struct ar_net *an, const char *name,
		struct netlink_ext_ack *extack);
int ar_ring_cancel(struct ar_ring *ring, const char *reason,
		   bool (*match)(const struct ar_job *job, const void *arg),
		   const void *arg);
__printf(3, 4) void ar_ring_break(struct ar_ring *ring, int error,
				  const char *fmt, ...);
__printf(3, 4) void ar_ring_note(struct ar_ring *ring, int error,
				 const char *fmt, ...);
void ar_ring_queue_lanes(struct ar_ring *ring);
void ar_ring_neighbour_closed(struct ar_ring *ring);
void ar_ring_lane_up(struct ar_lane *lane, bool up);
void ar_ring_arm_watchdog(struct ar_ring *ring);
void ar_ring_info(struct ar_ring *ring, struct allreduce_info *info);

/* The state, for decisions that a later look under the lock confirms. */
static inline bool ar_ring_is_up(const struct ar_ring *ring)
{
	return READ_ONCE(ring->state) == ALLREDUCE_RING_UP;
}

static inline u32 ar_ring_next_rank(const struct ar_ring *ring)
{
	return ar_next(ring->config.rank, ring->config.size);
}

static inline u32 ar_ring_prev_rank(const struct ar_ring *ring)
{
	return ar_prev(ring->config.rank, ring->config.size);
}

/* link.c APIs: */
struct ar_listener *ar_listener_get(struct ar_net *an, const union ar_addr *addr,
				    struct netlink_ext_ack *extack);
void ar_listener_put(struct ar_net *an, struct ar_listener *listener);
void ar_link_init(struct ar_link *link, struct ar_lane *lane);
int ar_link_connect(struct ar_link *link);
int ar_link_greet(struct ar_link *link);
int ar_link_adopt(struct ar_link *link, struct socket *sock);
int ar_link_status(struct ar_link *link);
bool ar_link_has_data(struct ar_link *link);
bool ar_link_is_idle(struct ar_link *link);
int ar_link_receive(struct ar_link *link, size_t budget,
		    ssize_t (*feed)(struct ar_lane *lane, struct page *page,
				    u32 offset, const u8 *data, size_t len));
ssize_t ar_link_send(struct ar_link *link, struct bio_vec *bv, u32 nr,
		     size_t len, bool more);
bool ar_link_sends_by_reference(struct ar_link *link);
void ar_link_shutdown(struct ar_link *link);
void ar_link_close(struct ar_link *link);
void ar_link_release_socket(struct socket *sock);
int ar_addr_len(const union ar_addr *addr);
bool ar_addr_equal(const union ar_addr *a, const union ar_addr *b, bool port);

/* lane.c APIs: */
void ar_lane_init(struct ar_lane *lane, struct ar_ring *ring, u32 index);
void ar_lane_exit(struct ar_lane *lane);
void ar_lane_queue(struct ar_lane *lane);
int ar_lane_offer(struct ar_lane *lane, struct socket *sock);

/* payload.c APIs: */
int ar_payload_receive(struct ar_lane *lane, const u8 *data, u32 len);
int ar_payload_inject(struct ar_lane *lane, struct ar_job_lane *jl, u32 chunk,
		      u64 offset, u32 len);
void ar_payload_sum_copies(struct ar_lane *lane, struct ar_job *job);
bool ar_payload_run_alone(struct ar_lane *lane, struct ar_job_lane *jl);
void ar_payload_seek_src(struct ar_membuf_iter *it, struct ar_job *job,
			 u32 chunk, u64 offset);
void ar_payload_seek_dst(struct ar_membuf_iter *it, struct ar_job *job,
			 u32 chunk, u64 offset);

/* call.c APIs: */
int ar_call_check(const struct ar_ring_config *config,
		  const struct allreduce_call *call, char *why);
const struct ar_reduce_kernel *ar_call_kernel(const struct allreduce_call *call);
u32 ar_call_element_bytes(const struct allreduce_call *call);
bool ar_call_in_place(const struct allreduce_call *call,
		      const struct allreduce_buffers *buffers, u32 element_bytes);
int ar_call_describe(char *text, size_t size, const struct allreduce_call *call);

/* job.c APIs: */
struct ar_job *ar_job_alloc(struct ar_ring *ring, const struct allreduce_call *call,
			    struct io_uring_cmd *cmd, char *why);
void ar_job_free(struct ar_job *job);
int ar_job_refusal(const struct ar_ring *ring);
int ar_job_submit(struct ar_job *job);
void ar_job_part_done(struct ar_job_lane *jl, int error);
void ar_job_complete_cmd(struct ar_job *job);

/* uring.c APIs: */
int ar_uring_init(void);
void ar_uring_exit(void);

/* stats.c APIs: */
void ar_stats_sum(struct ar_ring *ring, struct ar_stats *sum);
int ar_stats_put(struct sk_buff *skb, int nest_attr, const struct ar_stats *stats);

#endif /* _AR_ALLREDUCE_H */
