// SPDX-License-Identifier: GPL-2.0
/*
 * A ring's life.
 *
 *          RING_ADD            RING_UP             all lanes up
 *   (none) --------> DOWN ----------------> CONNECTING ---------> UP
 *                      ^                        |                 |
 *                      +-- connect timeout -----+                 | any failure
 *                                                                 v
 *   RING_DEL from any state <------------------------------- BROKEN
 *
 * The state changes under ar_ring.lock, and every lane's work is queued before
 * the lock is dropped: each lane follows the state it finds (lane.c). In BROKEN
 * and DOWN it lets go of its sockets and ends its jobs with ar_ring.error. The
 * first failure names the reason; later ones are consequences.
 *
 * Nothing queues a lane of a ring that was BROKEN before: submission and offers
 * look at the state under the lock too. So deletion, which breaks the ring
 * first, has only to wait for what is queued.
 *
 * The watchdog runs only while the ring connects or has jobs in flight: an
 * idle ring costs nothing.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/stringify.h>
#include <net/netlink.h>

#include "allreduce.h"

/* Of a namespace: who may add rings must not use up the kernel's memory. */
#define AR_RINGS_MAX		256
#define AR_WATCHDOG_MIN_MS	25
#define AR_WATCHDOG_MAX_MS	1000
/* How long deletion waits for the last frames to leave. */
#define AR_DRAIN_MS		2000

/* Have every lane look at the ring again. */
void ar_ring_queue_lanes(struct ar_ring *ring)
{
	u32 i;

	lockdep_assert_held(&ring->lock);
	for (i = 0; i < ring->config.lanes; i++)
		ar_lane_queue(&ring->lanes[i]);
}

static void ar_ring_set_state(struct ar_ring *ring, enum allreduce_ring_state state)
{
	WRITE_ONCE(ring->state, state);
	ar_ring_queue_lanes(ring);
	wake_up_all(&ring->idle);
}

/* ---- look-up and references ---------------------------------------------- */

static struct ar_ring *ar_ring_find(struct ar_net *an, const char *name)
{
	struct ar_ring *ring;

	list_for_each_entry(ring, &an->rings, node)
		if (!strcmp(ring->config.name, name))
			return ring;
	return NULL;
}

struct ar_ring *ar_ring_get_by_name(struct ar_net *an, const char *name)
{
	struct ar_ring *ring;

	spin_lock(&an->rings_lock);
	ring = ar_ring_find(an, name);
	if (ring)
		kref_get(&ring->ref);
	spin_unlock(&an->rings_lock);
	return ring;
}

struct ar_ring *ar_ring_get_by_id(struct ar_net *an, const u8 *id, u32 rank)
{
	struct ar_ring *ring, *found = NULL;

	spin_lock(&an->rings_lock);
	list_for_each_entry(ring, &an->rings, node) {
		if (ring->config.rank == rank &&
		    !memcmp(ring->config.id, id, ALLREDUCE_ID_SIZE)) {
			kref_get(&ring->ref);
			found = ring;
			break;
		}
	}
	spin_unlock(&an->rings_lock);
	return found;
}

static void ar_ring_release(struct kref *ref)
{
	struct ar_ring *ring = container_of(ref, struct ar_ring, ref);
	u32 i;

	for (i = 0; i < ring->config.lanes; i++)
		ar_txq_exit(&ring->lanes[i].txq);
	kfree(ring->config.members);
	kvfree(ring->lanes);
	kfree(ring);
}

void ar_ring_put(struct ar_ring *ring)
{
	kref_put(&ring->ref, ar_ring_release);
}

/* ---- state --------------------------------------------------------------- */

/* True if it was not broken before. */
static bool ar_ring_set_broken(struct ar_ring *ring, int error, const char *reason)
{
	if (ring->state == ALLREDUCE_RING_BROKEN)
		return false;
	ring->error = error;
	strscpy(ring->reason, reason, sizeof(ring->reason));
	ar_ring_set_state(ring, ALLREDUCE_RING_BROKEN);
	return true;
}

static void ar_ring_tell_broken(struct ar_ring *ring, int error, const char *reason)
{
	if (error != -ECANCELED)
		net_warn_ratelimited("allreduce: ring %s rank %u broke (error %d): %s\n",
				     ring->config.name, ring->config.rank, error,
				     reason);
	ar_netlink_event(ring);
}

/**
 * ar_ring_break - end a ring for good
 * @ring: the ring
 * @error: negative errno that its jobs end with
 * @fmt: what happened; the first call decides
 *
 * May be called from a lane's work with a socket locked. Returns before the
 * lanes have let go.
 */
void ar_ring_break(struct ar_ring *ring, int error, const char *fmt, ...)
{
	char reason[ALLREDUCE_REASON_SIZE];
	va_list args;
	bool first;

	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);

	spin_lock(&ring->lock);
	first = ar_ring_set_broken(ring, error, reason);
	spin_unlock(&ring->lock);
	if (first)
		ar_ring_tell_broken(ring, error, reason);
}

/**
 * ar_ring_cancel - end a ring because jobs of it are not wanted any more
 * @ring: the ring
 * @reason: what happened
 * @match: is this one of the jobs; called with the ring's lock held
 * @arg: for @match
 *
 * Return: how many jobs in flight matched; with none the ring stays as it is.
 */
int ar_ring_cancel(struct ar_ring *ring, const char *reason,
		   bool (*match)(const struct ar_job *job, const void *arg),
		   const void *arg)
{
	bool first = false;
	struct ar_job *job;
	int n = 0;

	spin_lock(&ring->lock);
	list_for_each_entry(job, &ring->jobs, node)
		n += match(job, arg);
	if (n)
		first = ar_ring_set_broken(ring, -ECANCELED, reason);
	spin_unlock(&ring->lock);
	if (first)
		ar_ring_tell_broken(ring, -ECANCELED, reason);
	return n;
}

/**
 * ar_ring_note - remember what keeps a ring from coming up
 * @ring: the ring
 * @error: negative errno
 * @fmt: what happened; shown until the ring is up, and if it does not come up
 */
void ar_ring_note(struct ar_ring *ring, int error, const char *fmt, ...)
{
	va_list args;

	spin_lock(&ring->lock);
	if (ring->state == ALLREDUCE_RING_CONNECTING) {
		ring->error = error;
		va_start(args, fmt);
		vsnprintf(ring->reason, sizeof(ring->reason), fmt, args);
		va_end(args);
	}
	spin_unlock(&ring->lock);
}

/**
 * ar_ring_lane_up - a lane has both its links, or no longer has
 * @lane: the lane
 * @up: which
 */
void ar_ring_lane_up(struct ar_lane *lane, bool up)
{
	struct ar_ring *ring = lane->ring;
	bool ring_up = false;

	spin_lock(&ring->lock);
	if (lane->counted_up != up) {
		lane->counted_up = up;
		ring->lanes_up += up ? 1 : -1;
	}
	if (ring->lanes_up == ring->config.lanes &&
	    ring->state == ALLREDUCE_RING_CONNECTING) {
		ring->error = 0;
		ring->reason[0] = '\0';
		ar_ring_set_state(ring, ALLREDUCE_RING_UP);
		ring_up = true;
	}
	spin_unlock(&ring->lock);
	if (ring_up)
		ar_netlink_event(ring);
}

void ar_ring_info(struct ar_ring *ring, struct allreduce_info *info)
{
	memset(info, 0, sizeof(*info));
	info->rank = ring->config.rank;
	info->size = ring->config.size;
	info->lanes = ring->config.lanes;
	spin_lock(&ring->lock);
	info->state = ring->state;
	info->error = ring->error;
	info->jobs_submitted = ring->jobs_submitted;
	strscpy(info->reason, ring->reason, sizeof(info->reason));
	spin_unlock(&ring->lock);
}

/* Has TCP taken all that the lanes have to send? */
static bool ar_ring_drained(struct ar_ring *ring)
{
	u32 i;

	for (i = 0; i < ring->config.lanes; i++)
		if (READ_ONCE(ring->lanes[i].txq.bytes))
			return false;
	return true;
}

/*
 * Has a neighbour closed all its links, and has all been read that it sent? What
 * it sent for a job that is not submitted here yet waits on some lane, or comes
 * there later than another lane's end.
 */
static bool ar_ring_is_left(struct ar_ring *ring)
{
	bool prev = true, next = true;
	u32 i;

	for (i = 0; i < ring->config.lanes; i++) {
		prev = prev && READ_ONCE(ring->lanes[i].prev_closed);
		next = next && READ_ONCE(ring->lanes[i].next_closed);
	}
	return prev || next;
}

/**
 * ar_ring_neighbour_closed - a neighbour has closed a link in good order
 * @ring: the ring
 *
 * It has all it needs of this member. The jobs in flight can still end well,
 * others may still wait for frames in the queues, and there can be jobs to come
 * whose frames are there, so the ring breaks only when all that is over; until
 * then this is called again by each lane that idles.
 */
void ar_ring_neighbour_closed(struct ar_ring *ring)
{
	static const char reason[] = "a neighbour has closed its connection";
	bool first = false;

	spin_lock(&ring->lock);
	ring->link_closed = true;
	if (!ring->jobs_in_flight && ar_ring_is_left(ring) && ar_ring_drained(ring)) {
		first = ar_ring_set_broken(ring, -ECONNRESET, reason);
		/* The user's pages are not on their way: no job is. */
		ring->draining = ring->draining || first;
	}
	spin_unlock(&ring->lock);
	if (first)
		ar_ring_tell_broken(ring, -ECONNRESET, reason);
}

/* ---- watchdog ------------------------------------------------------------ */

static unsigned long ar_watchdog_period(const struct ar_ring *ring)
{
	u32 ms = clamp_t(u32, ring->config.timeout_ms / 4, AR_WATCHDOG_MIN_MS,
			 AR_WATCHDOG_MAX_MS);

	return msecs_to_jiffies(ms);
}

/* No effect if it is armed already. */
void ar_ring_arm_watchdog(struct ar_ring *ring)
{
	queue_delayed_work(ar_wq, &ring->watchdog, ar_watchdog_period(ring));
}

/* Are all lanes connected to next, whatever failed on the way there? */
static bool ar_ring_reached_next(struct ar_ring *ring)
{
	u32 i;

	for (i = 0; i < ring->config.lanes; i++)
		if (READ_ONCE(ring->lanes[i].next.state) != AR_LINK_UP)
			return false;
	return true;
}

static void ar_ring_connect_timed_out(struct ar_ring *ring)
{
	u32 prev = ar_ring_prev_rank(ring);
	bool timed_out;

	spin_lock(&ring->lock);
	timed_out = ring->state == ALLREDUCE_RING_CONNECTING;
	if (timed_out) {
		/* The last failure to reach next says more than the time-out. */
		if (!ring->reason[0] || ar_ring_reached_next(ring))
			snprintf(ring->reason, sizeof(ring->reason),
				 "rank %u (%pISpc) has not connected", prev,
				 &ring->config.members[prev].sa);
		ring->error = -ETIMEDOUT;
		ar_ring_set_state(ring, ALLREDUCE_RING_DOWN);
	}
	spin_unlock(&ring->lock);
	if (timed_out)
		ar_netlink_event(ring);
}

/* The job on which a lane has not moved for too long, or NULL. */
static struct ar_job *ar_lane_stalled_job(struct ar_lane *lane)
{
	struct ar_job_lane *jl;
	unsigned long since;

	lockdep_assert_held(&lane->ring->lock);
	jl = list_first_entry_or_null(&lane->jobs, struct ar_job_lane, node);
	if (!jl)
		return NULL;
	since = READ_ONCE(lane->progress);
	if (time_after(jl->job->submitted, since))
		since = jl->job->submitted;
	return time_after(jiffies, since + jl->job->timeout) ? jl->job : NULL;
}

static void ar_ring_check_progress(struct ar_ring *ring)
{
	struct ar_job *stalled = NULL;
	char call[72];
	u64 number = 0;
	u32 i;

	spin_lock(&ring->lock);
	for (i = 0; i < ring->config.lanes && !stalled; i++)
		stalled = ar_lane_stalled_job(&ring->lanes[i]);
	if (stalled) {
		number = stalled->number;
		ar_call_describe(call, sizeof(call), &stalled->call);
	}
	spin_unlock(&ring->lock);
	/* Roots that differ can look like this: each waits for the other to begin. */
	if (number)
		ar_ring_break(ring, -ETIMEDOUT,
			      "job %llu (%s): lane %u from rank %u to rank %u has made no progress for too long",
			      number, call, i - 1, ar_ring_prev_rank(ring),
			      ar_ring_next_rank(ring));
}

static void ar_ring_watchdog(struct work_struct *work)
{
	struct ar_ring *ring = container_of(to_delayed_work(work), struct ar_ring,
					    watchdog);
	enum allreduce_ring_state state = READ_ONCE(ring->state);
	bool rearm;

	if (state == ALLREDUCE_RING_CONNECTING &&
	    time_after(jiffies, ring->connect_deadline))
		ar_ring_connect_timed_out(ring);
	else if (state == ALLREDUCE_RING_UP)
		ar_ring_check_progress(ring);

	spin_lock(&ring->lock);
	rearm = ring->state == ALLREDUCE_RING_CONNECTING ||
		(ring->state == ALLREDUCE_RING_UP && ring->jobs_in_flight);
	if (rearm)
		ar_ring_arm_watchdog(ring);
	spin_unlock(&ring->lock);
}

/* ---- creation ------------------------------------------------------------ */

static int ar_ring_alloc_lanes(struct ar_ring *ring)
{
	u32 i;

	ring->lanes = kvcalloc(ring->config.lanes, sizeof(*ring->lanes),
			       GFP_KERNEL_ACCOUNT);
	if (!ring->lanes)
		return -ENOMEM;
	for (i = 0; i < ring->config.lanes; i++)
		ar_lane_init(&ring->lanes[i], ring, i);
	for (i = 0; i < ring->config.lanes; i++)
		if (ar_txq_init(&ring->lanes[i].txq, ring->config.frame_max))
			return -ENOMEM;
	return 0;
}

static u64 ar_members_digest(const struct ar_ring_config *config)
{
	u64 digest = AR_DIGEST64_INIT;
	u32 i;

	/* Without the scope, which is each host's own matter. */
	for (i = 0; i < config->size; i++) {
		const union ar_addr *addr = &config->members[i];

		if (addr->sa.sa_family == AF_INET) {
			digest = ar_digest64(digest, &addr->in.sin_addr, 4);
			digest = ar_digest64(digest, &addr->in.sin_port, 2);
		} else {
			digest = ar_digest64(digest, &addr->in6.sin6_addr, 16);
			digest = ar_digest64(digest, &addr->in6.sin6_port, 2);
		}
	}
	return digest;
}

static int ar_ring_check_unique(struct ar_net *an, const struct ar_ring_config *config,
				struct netlink_ext_ack *extack)
{
	struct ar_ring *ring;
	u32 rings = 0;

	list_for_each_entry(ring, &an->rings, node) {
		rings++;
		if (!strcmp(ring->config.name, config->name)) {
			NL_SET_ERR_MSG(extack, "a ring of this name exists");
			return -EEXIST;
		}
		if (ring->config.rank == config->rank &&
		    !memcmp(ring->config.id, config->id, sizeof(config->id))) {
			NL_SET_ERR_MSG(extack, "a ring of this id and rank exists");
			return -EEXIST;
		}
	}
	if (rings >= AR_RINGS_MAX) {
		NL_SET_ERR_MSG(extack, "a network namespace holds "
			       __stringify(AR_RINGS_MAX) " rings at most");
		return -ENOSPC;
	}
	return 0;
}

static struct ar_ring *ar_ring_alloc(const struct ar_ring_config *config)
{
	struct ar_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);

	if (!ring)
		return NULL;
	kref_init(&ring->ref);
	ring->config = *config;
	ring->config.members_digest = ar_members_digest(config);
	ring->state = ALLREDUCE_RING_DOWN;
	spin_lock_init(&ring->lock);
	INIT_LIST_HEAD(&ring->jobs);
	INIT_DELAYED_WORK(&ring->watchdog, ar_ring_watchdog);
	init_waitqueue_head(&ring->idle);
	return ring;
}

/**
 * ar_ring_add - create a ring
 * @an: the namespace
 * @config: checked; its members belong to the ring after success
 * @extack: says what is wrong
 *
 * Return: 0, -EEXIST, -ENOSPC, -ENOMEM or what binding the address gave.
 */
int ar_ring_add(struct ar_net *an, struct ar_ring_config *config,
		struct netlink_ext_ack *extack)
{
	struct ar_listener *listener;
	struct ar_ring *ring;
	int ret;

	mutex_lock(&an->config_lock);
	ret = ar_ring_check_unique(an, config, extack);
	if (ret)
		goto out;
	ret = -ENOMEM;
	ring = ar_ring_alloc(config);
	if (!ring)
		goto out;
	ret = ar_ring_alloc_lanes(ring);
	if (ret)
		goto err_ring;
	if (config->size > 1) {
		listener = ar_listener_get(an, &config->members[config->rank], extack);
		ret = PTR_ERR_OR_ZERO(listener);
		if (ret)
			goto err_ring;
		ring->listener = listener;
	}
	ring->an = an;
	spin_lock(&an->rings_lock);
	list_add_tail(&ring->node, &an->rings);
	an->generation++;
	spin_unlock(&an->rings_lock);
	goto out;

err_ring:
	ring->config.members = NULL;
	if (!ring->lanes)
		ring->config.lanes = 0;
	ar_ring_put(ring);
out:
	mutex_unlock(&an->config_lock);
	return ret;
}

/* ---- bringing up --------------------------------------------------------- */

static int ar_ring_start(struct ar_ring *ring, u32 connect_timeout_ms,
			 struct netlink_ext_ack *extack)
{
	int ret = 0;
	u32 i;

	/* Lanes may still be letting go of an attempt that timed out. */
	for (i = 0; i < ring->config.lanes; i++)
		flush_work(&ring->lanes[i].work);
	spin_lock(&ring->lock);
	switch (ring->state) {
	case ALLREDUCE_RING_DOWN:
		ring->error = 0;
		ring->reason[0] = '\0';
		ring->connect_deadline = jiffies +
					 msecs_to_jiffies(connect_timeout_ms);
		ar_ring_set_state(ring, ALLREDUCE_RING_CONNECTING);
		break;
	case ALLREDUCE_RING_BROKEN:
		NL_SET_ERR_MSG(extack, "the ring is broken: delete it and add it again");
		ret = -EPIPE;
		break;
	case ALLREDUCE_RING_CONNECTING:
		NL_SET_ERR_MSG(extack, "the ring is connecting already");
		ret = -EALREADY;
		break;
	case ALLREDUCE_RING_UP:
		NL_SET_ERR_MSG(extack, "the ring is up already");
		ret = -EALREADY;
		break;
	}
	spin_unlock(&ring->lock);
	return ret;
}

/**
 * ar_ring_up - start to connect a ring's lanes
 * @an: the namespace
 * @name: the ring
 * @connect_timeout_ms: after which the ring is down again
 * @extack: says what is wrong
 *
 * Return: 0, -ENODEV, -EALREADY or -EPIPE.
 */
int ar_ring_up(struct ar_net *an, const char *name, u32 connect_timeout_ms,
	       struct netlink_ext_ack *extack)
{
	struct ar_ring *ring;
	int ret = -ENODEV;

	mutex_lock(&an->config_lock);
	ring = ar_ring_find(an, name);
	if (ring)
		ret = ar_ring_start(ring, connect_timeout_ms, extack);
	else
		NL_SET_ERR_MSG(extack, "no ring of this name");
	if (!ret) {
		ar_ring_arm_watchdog(ring);
		ar_netlink_event(ring);
	}
	mutex_unlock(&an->config_lock);
	return ret;
}

/* ---- deletion ------------------------------------------------------------ */

/* Certain only under the ring's lock; without it a hint. */
static bool ar_ring_is_idle(const struct ar_ring *ring)
{
	return ar_ring_is_up(ring) && !READ_ONCE(ring->jobs_in_flight);
}

/*
 * A member that is done must not cut off frames that others still wait for:
 * break, but close in good order if nothing is in flight at that moment.
 */
static void ar_ring_break_for_deletion(struct ar_ring *ring)
{
	static const char reason[] = "the ring was deleted";
	bool first;

	if (ar_ring_is_idle(ring))
		wait_event_timeout(ring->idle, ar_ring_drained(ring) ||
				   !ar_ring_is_up(ring),
				   msecs_to_jiffies(AR_DRAIN_MS));
	spin_lock(&ring->lock);
	if (ar_ring_is_idle(ring))
		ring->draining = true;
	first = ar_ring_set_broken(ring, -ECANCELED, reason);
	spin_unlock(&ring->lock);
	if (first)
		ar_ring_tell_broken(ring, -ECANCELED, reason);
}

/* Off the list and broken already; afterwards nothing of the ring runs. */
static void ar_ring_destroy(struct ar_ring *ring)
{
	struct ar_net *an = ring->an;
	u32 i;

	for (i = 0; i < ring->config.lanes; i++)
		ar_lane_exit(&ring->lanes[i]);
	cancel_delayed_work_sync(&ring->watchdog);
	WARN_ON_ONCE(ring->jobs_in_flight);
	if (ring->listener)
		ar_listener_put(an, ring->listener);
	ar_ring_put(ring);
}

static void ar_ring_unlink(struct ar_net *an, struct ar_ring *ring)
{
	spin_lock(&an->rings_lock);
	list_del(&ring->node);
	an->generation++;
	spin_unlock(&an->rings_lock);
}

/**
 * ar_ring_del - delete a ring; its jobs end with -ECANCELED
 * @an: the namespace
 * @name: the ring
 * @extack: says what is wrong
 *
 * Return: 0 or -ENODEV.
 */
int ar_ring_del(struct ar_net *an, const char *name,
		struct netlink_ext_ack *extack)
{
	struct ar_ring *ring;

	mutex_lock(&an->config_lock);
	ring = ar_ring_find(an, name);
	if (ring) {
		ar_ring_unlink(an, ring);
		ar_ring_break_for_deletion(ring);
		ar_ring_destroy(ring);
	} else {
		NL_SET_ERR_MSG(extack, "no ring of this name");
	}
	mutex_unlock(&an->config_lock);
	return ring ? 0 : -ENODEV;
}

/* ---- namespaces ---------------------------------------------------------- */

void ar_rings_init(struct ar_net *an)
{
	mutex_init(&an->config_lock);
	spin_lock_init(&an->rings_lock);
	INIT_LIST_HEAD(&an->rings);
	INIT_LIST_HEAD(&an->listeners);
}

void ar_rings_exit(struct ar_net *an)
{
	struct ar_ring *ring, *tmp;

	mutex_lock(&an->config_lock);
	list_for_each_entry_safe(ring, tmp, &an->rings, node) {
		ar_ring_unlink(an, ring);
		/* When the module goes others still wait for frames, as in deletion. */
		if (check_net(an->net))
			ar_ring_break_for_deletion(ring);
		else
			ar_ring_break(ring, -ECANCELED,
				      "the network namespace is gone");
		ar_ring_destroy(ring);
	}
	mutex_unlock(&an->config_lock);
}
