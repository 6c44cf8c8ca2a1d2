// SPDX-License-Identifier: GPL-2.0
/*
 * Links: the TCP connections between neighbours, and the listeners that accept
 * them. Nothing outside this file knows that a link is TCP.
 *
 * A member connects to next from its own configured address, sends HELLO and
 * waits for WELCOME (frame.h). On the other side the listener's work accepts,
 * reads HELLO, finds the ring by id and rank, checks the caller against the
 * ring's configuration and offers the socket to the lane, whose work answers
 * and takes it as prev. Several rings and members share a listener when their
 * address and port are the same.
 *
 * Socket callbacks only queue the work of the owner, which sk_user_data names;
 * they run under sk_callback_lock, and a detached socket has no owner.
 *
 * A stranger can hold one of AR_PENDING_MAX places for AR_GREETING_MS at most;
 * when all are taken, the oldest is dropped for the newest.
 *
 * Kernel sockets do not hold their network namespace: all are released before
 * the namespace's exit function returns.
 */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "allreduce.h"
#include "compat.h"

#define AR_GREETING_MS		5000
#define AR_PENDING_MAX		128
#define AR_BACKLOG		128
#define AR_ACCEPTS_PER_ROUND	16

/* A silent peer on an idle link is found out after 5 + 5 * 1 seconds. */
#define AR_KEEPALIVE_IDLE_S	5
#define AR_KEEPALIVE_INTERVAL_S	1
#define AR_KEEPALIVE_PROBES	5

/* How long a closing link waits for the acknowledgment of what it has sent. */
#define AR_LINGER_MS		2000

struct ar_pending {
	struct list_head node;
	struct ar_listener *listener;
	struct socket *sock;
	unsigned long deadline;		/* jiffies */
	struct ar_hello hello;		/* as far as it has come */
	u32 have;
	bool refused;			/* and told so: the peer is to close */
};

struct ar_listener {
	struct list_head node;		/* ar_net.listeners */
	u32 users;			/* ar_net.config_lock */
	struct ar_net *an;
	union ar_addr addr;
	struct socket *sock;
	bool closing;			/* the work's next run is its last */
	struct work_struct work;	/* owns all below */
	struct delayed_work deadline;	/* queues @work */
	struct list_head pending;	/* oldest first */
	u32 nr_pending;
};

/* ---- addresses ----------------------------------------------------------- */

int ar_addr_len(const union ar_addr *addr)
{
	return addr->sa.sa_family == AF_INET ? sizeof(addr->in) :
	       sizeof(addr->in6);
}

bool ar_addr_equal(const union ar_addr *a, const union ar_addr *b, bool port)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr &&
		       (!port || a->in.sin_port == b->in.sin_port);
	return ipv6_addr_equal(&a->in6.sin6_addr, &b->in6.sin6_addr) &&
	       (!port || (a->in6.sin6_port == b->in6.sin6_port &&
			  a->in6.sin6_scope_id == b->in6.sin6_scope_id));
}

static void ar_addr_clear_port(union ar_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		addr->in.sin_port = 0;
	else
		addr->in6.sin6_port = 0;
}

/* ---- sockets ------------------------------------------------------------- */

/* TCP's own callbacks: every socket has the same when it is new. */
static struct {
	void (*state_change)(struct sock *sk);
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
} ar_tcp_callbacks;

static int ar_socket_create(struct ar_net *an, int family, struct socket **sock)
{
	struct sock *sk;
	int ret;

	ret = sock_create_kern(an->net, family, SOCK_STREAM, IPPROTO_TCP, sock);
	if (ret)
		return ret;
	sk = (*sock)->sk;
	ar_tcp_callbacks.state_change = sk->sk_state_change;
	ar_tcp_callbacks.data_ready = sk->sk_data_ready;
	ar_tcp_callbacks.write_space = sk->sk_write_space;
	sock_set_reuseaddr(sk);
	compat_sk_no_task_frag(sk);
	return 0;
}

static void ar_socket_tune(struct sock *sk)
{
	tcp_sock_set_nodelay(sk);
	sock_set_keepalive(sk);
	tcp_sock_set_keepidle(sk, AR_KEEPALIVE_IDLE_S);
	tcp_sock_set_keepintvl(sk, AR_KEEPALIVE_INTERVAL_S);
	tcp_sock_set_keepcnt(sk, AR_KEEPALIVE_PROBES);
}

/* Afterwards no callback knows the owner, and none is running. */
static void ar_socket_detach(struct socket *sock)
{
	struct sock *sk = sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	sk->sk_state_change = ar_tcp_callbacks.state_change;
	sk->sk_data_ready = ar_tcp_callbacks.data_ready;
	sk->sk_write_space = ar_tcp_callbacks.write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Close at once; unsent data is lost and the peer is told by a reset. */
void ar_link_release_socket(struct socket *sock)
{
	ar_socket_detach(sock);
	sock_no_linger(sock->sk);
	sock_release(sock);
}

/*
 * Close in good order, within a bounded time. TCP stops the timers of a kernel
 * socket that is released: what has not been acknowledged by then would never
 * be sent again, nor the socket ever be freed. So that is reset instead.
 */
static void ar_socket_release_drained(struct socket *sock)
{
	struct sock *sk = sock->sk;
	bool acknowledged;

	ar_socket_detach(sock);
	kernel_sock_shutdown(sock, SHUT_WR);
	lock_sock(sk);
	sk_stream_wait_close(sk, msecs_to_jiffies(AR_LINGER_MS));
	acknowledged = !((1 << sk->sk_state) &
			 (TCPF_FIN_WAIT1 | TCPF_CLOSING | TCPF_LAST_ACK));
	/* A longer wait for the peer's FIN would need one of those timers. */
	tcp_sk(sk)->linger2 = msecs_to_jiffies(AR_LINGER_MS);
	if (sk->sk_state == TCP_FIN_WAIT2 && tcp_fin_time(sk) > TCP_TIMEWAIT_LEN)
		acknowledged = false;
	release_sock(sk);
	if (!acknowledged)
		sock_no_linger(sk);
	sock_release(sock);
}

/* Exactly what is missing of @want bytes, if it is there: bytes or an error. */
static int ar_socket_read(struct socket *sock, void *buf, size_t want)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	struct kvec vec = { .iov_base = buf, .iov_len = want };
	int ret = kernel_recvmsg(sock, &msg, &vec, 1, want, MSG_DONTWAIT);

	return ret ?: -ECONNRESET;
}

/* A greeting always fits the empty buffer of a new connection. */
static int ar_socket_write(struct socket *sock, void *buf, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = buf, .iov_len = len };
	int ret = kernel_sendmsg(sock, &msg, &vec, 1, len);

	if (ret < 0)
		return ret;
	return ret == len ? 0 : -EIO;
}

/* ---- links --------------------------------------------------------------- */

static void ar_link_wake(struct sock *sk)
{
	struct ar_link *link;

	read_lock_bh(&sk->sk_callback_lock);
	link = sk->sk_user_data;
	if (link)
		ar_lane_queue(link->lane);
	read_unlock_bh(&sk->sk_callback_lock);
}

/*
 * Usually worth a wake-up only if a good part of the buffer is free. But the
 * place that flow control keeps free in the ring (design.rst, fact 5) may be
 * there: a frame that waits for room wants any.
 */
static bool ar_link_wants_space(struct ar_link *link, struct sock *sk)
{
	/*
	 * TCP that has no memory for even one packet calls back before it says
	 * so: the lane tries again after a pause, not at once.
	 */
	if (READ_ONCE(link->in_send) && !sk->sk_wmem_queued)
		return false;
	return sk_stream_is_writeable(sk) ||
	       (READ_ONCE(link->lane->needs_room) && sk_stream_memory_free(sk));
}

static void ar_link_write_space(struct sock *sk)
{
	struct ar_link *link;

	read_lock_bh(&sk->sk_callback_lock);
	link = sk->sk_user_data;
	if (link && ar_link_wants_space(link, sk)) {
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		ar_lane_queue(link->lane);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ar_link_attach(struct ar_link *link, struct socket *sock)
{
	struct sock *sk = sock->sk;

	link->sock = sock;
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = link;
	sk->sk_state_change = ar_link_wake;
	sk->sk_data_ready = ar_link_wake;
	sk->sk_write_space = ar_link_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
}

void ar_link_init(struct ar_link *link, struct ar_lane *lane)
{
	link->lane = lane;
	link->sock = NULL;
	link->state = AR_LINK_CLOSED;
}

/* Begin to close in good order, so that both links of a lane do it at once. */
void ar_link_shutdown(struct ar_link *link)
{
	if (link->sock)
		kernel_sock_shutdown(link->sock, SHUT_WR);
}

void ar_link_close(struct ar_link *link)
{
	struct socket *sock = link->sock;

	link->sock = NULL;
	link->state = AR_LINK_CLOSED;
	if (!sock)
		return;
	if (READ_ONCE(link->lane->ring->draining))
		ar_socket_release_drained(sock);
	else
		ar_link_release_socket(sock);
}

/**
 * ar_link_connect - start to connect to next
 * @link: a closed link
 *
 * Return: 0 if the connection is under way, or an error.
 */
int ar_link_connect(struct ar_link *link)
{
	struct ar_ring *ring = link->lane->ring;
	union ar_addr *next = &ring->config.members[ar_ring_next_rank(ring)];
	union ar_addr own = ring->config.members[ring->config.rank];
	struct socket *sock;
	int ret;

	ret = ar_socket_create(ring->an, next->sa.sa_family, &sock);
	if (ret)
		return ret;
	ar_socket_tune(sock->sk);
	ar_addr_clear_port(&own);
	ret = kernel_bind(sock, &own.sa, ar_addr_len(&own));
	if (ret)
		goto err;
	ar_link_attach(link, sock);
	link->state = AR_LINK_CONNECTING;
	link->deadline = jiffies + msecs_to_jiffies(AR_GREETING_MS);
	link->welcome_have = 0;
	ret = kernel_connect(sock, &next->sa, ar_addr_len(next), O_NONBLOCK);
	if (!ret || ret == -EINPROGRESS)
		return 0;
	ar_link_close(link);
	return ret;
err:
	ar_link_release_socket(sock);
	return ret;
}

static int ar_link_send_hello(struct ar_link *link)
{
	const struct ar_ring_config *config = &link->lane->ring->config;
	struct ar_hello hello = {
		.magic = cpu_to_le64(AR_HELLO_MAGIC),
		.version = cpu_to_le16(AR_PROTOCOL_VERSION),
		.bytes = cpu_to_le16(sizeof(hello)),
		.byte_order = AR_BYTE_ORDER,
		.epoch = cpu_to_le32(config->epoch),
		.rank = cpu_to_le32(config->rank),
		.to_rank = cpu_to_le32(ar_ring_next_rank(link->lane->ring)),
		.size = cpu_to_le32(config->size),
		.lane = cpu_to_le32(link->lane->index),
		.lanes = cpu_to_le32(config->lanes),
		.frame_max = cpu_to_le32(config->frame_max),
		.gather_max = cpu_to_le32(config->gather_max),
		.members_digest = cpu_to_le64(config->members_digest),
	};

	memcpy(hello.ring_id, config->id, sizeof(hello.ring_id));
	return ar_socket_write(link->sock, &hello, sizeof(hello));
}

#define AR_X_REFUSAL_TEXT(NAME, value, text)	[(value)] = text,
static const char * const ar_refusal_text[] = {
	AR_FOR_EACH_REFUSAL(AR_X_REFUSAL_TEXT)
};

static int ar_link_refused(struct ar_link *link, u32 refusal)
{
	struct ar_ring *ring = link->lane->ring;

	/* It has not been told to connect yet: nothing is wrong. */
	if (refusal == AR_REFUSAL_STATE)
		return -EAGAIN;
	ar_ring_note(ring, -EPROTO, "refused by rank %u (%pISpc): %s",
		     ar_ring_next_rank(ring),
		     &ring->config.members[ar_ring_next_rank(ring)].sa,
		     refusal < ARRAY_SIZE(ar_refusal_text) ?
		     ar_refusal_text[refusal] : "for an unknown reason");
	return -EPROTO;
}

static int ar_link_read_welcome(struct ar_link *link)
{
	struct ar_welcome *welcome = &link->welcome;
	int ret;

	ret = ar_socket_read(link->sock, (u8 *)welcome + link->welcome_have,
			     sizeof(*welcome) - link->welcome_have);
	if (ret < 0)
		return ret == -EAGAIN ? 0 : ret;
	link->welcome_have += ret;
	if (link->welcome_have < sizeof(*welcome))
		return 0;
	if (le64_to_cpu(welcome->magic) != AR_WELCOME_MAGIC)
		return -EBADMSG;
	if (le32_to_cpu(welcome->refusal) != AR_REFUSAL_NONE)
		return ar_link_refused(link, le32_to_cpu(welcome->refusal));
	if (le16_to_cpu(welcome->version) != AR_PROTOCOL_VERSION ||
	    le16_to_cpu(welcome->bytes) != sizeof(*welcome))
		return -EBADMSG;
	link->state = AR_LINK_UP;
	return 0;
}

/**
 * ar_link_greet - take a connection to next a step further
 * @link: a link in CONNECTING or GREETING
 *
 * Return: 0 if nothing is wrong (the link may be UP now), or an error.
 */
int ar_link_greet(struct ar_link *link)
{
	struct sock *sk = link->sock->sk;
	int ret = 0;

	if (link->state == AR_LINK_CONNECTING) {
		int state = READ_ONCE(sk->sk_state);

		if (state == TCP_ESTABLISHED) {
			ret = ar_link_send_hello(link);
			link->state = AR_LINK_GREETING;
		} else if (state != TCP_SYN_SENT) {
			ret = sock_error(sk) ?: -ECONNREFUSED;
		}
	}
	if (!ret && link->state == AR_LINK_GREETING)
		ret = ar_link_read_welcome(link);
	if (!ret && link->state != AR_LINK_UP &&
	    time_after(jiffies, link->deadline))
		ret = -ETIMEDOUT;
	return ret;
}

static int ar_socket_welcome(struct socket *sock, enum ar_refusal refusal)
{
	struct ar_welcome welcome = {
		.magic = cpu_to_le64(AR_WELCOME_MAGIC),
		.version = cpu_to_le16(AR_PROTOCOL_VERSION),
		.bytes = cpu_to_le16(sizeof(welcome)),
		.refusal = cpu_to_le32(refusal),
	};

	return ar_socket_write(sock, &welcome, sizeof(welcome));
}

/**
 * ar_link_adopt - take an accepted socket as the connection from prev
 * @link: a closed link
 * @sock: the socket; belongs to the link, also after an error
 *
 * Return: 0 or an error, after which the link is to be closed.
 */
int ar_link_adopt(struct ar_link *link, struct socket *sock)
{
	ar_link_attach(link, sock);
	link->state = AR_LINK_UP;
	return ar_socket_welcome(sock, AR_REFUSAL_NONE);
}

/* TCP calls a reset that follows the other end's FIN a broken pipe. */
static int ar_link_error(int error)
{
	return error == -EPIPE ? -ECONNRESET : error;
}

/**
 * ar_link_status - is the other end still there?
 * @link: the link
 *
 * Return: 0 if it is, or if there is data to be read first; 1 if it has closed
 * in good order; else the connection's error.
 */
int ar_link_status(struct ar_link *link)
{
	struct sock *sk;
	int ret;

	if (!link->sock)
		return -ENOTCONN;
	sk = link->sock->sk;
	/* The usual answer, without the lock. */
	if (!READ_ONCE(sk->sk_err) && READ_ONCE(sk->sk_state) == TCP_ESTABLISHED)
		return 0;
	lock_sock(sk);
	/*
	 * A FIN says that the other end needs nothing more. Whatever comes of the
	 * connection later, such as a reset in answer to a probe, what arrived
	 * before the FIN is still good.
	 */
	if (sock_flag(sk, SOCK_DONE))
		ret = tcp_inq(sk) > 0 ? 0 : 1;
	else if (sk->sk_err)
		ret = ar_link_error(-sk->sk_err);
	else
		ret = sk->sk_state == TCP_ESTABLISHED ? 0 : -ECONNRESET;
	release_sock(sk);
	return ret;
}

/* Is there anything to read? */
bool ar_link_has_data(struct ar_link *link)
{
	struct sock *sk = link->sock->sk;
	bool data;

	if (skb_queue_empty_lockless(&sk->sk_receive_queue))
		return false;
	lock_sock(sk);
	data = tcp_inq(sk) > 0;
	release_sock(sk);
	return data;
}

/* Has everything sent been acknowledged? */
bool ar_link_is_idle(struct ar_link *link)
{
	return !READ_ONCE(link->sock->sk->sk_wmem_queued);
}

/* ---- receiving ----------------------------------------------------------- */

struct ar_receive {
	struct ar_lane *lane;
	ssize_t (*feed)(struct ar_lane *lane, struct page *page, u32 offset,
			const u8 *data, size_t len);
	int error;
};

/* The linear part; only a head made of page fragments can be referenced. */
static ssize_t ar_receive_head(struct ar_receive *rcv, struct sk_buff *skb,
			       u32 offset, size_t len)
{
	u8 *data = skb->data + offset;
	struct page *page = NULL;
	u32 page_offset = 0;

	if (skb->head_frag) {
		page = virt_to_head_page(data);
		page_offset = data - (u8 *)page_address(page);
	}
	return rcv->feed(rcv->lane, page, page_offset, data, len);
}

static ssize_t ar_receive_frag(struct ar_receive *rcv, const skb_frag_t *frag,
			       u32 offset, size_t len)
{
	struct page *page = skb_frag_page(frag);
	u32 page_offset = skb_frag_off(frag) + offset;
	const u8 *data = (u8 *)page_address(page) + page_offset;

	if (!sendpage_ok(page))
		page = NULL;
	return rcv->feed(rcv->lane, page, page_offset, data, len);
}

/*
 * Feed @len bytes of @skb from @offset on, in place, run by run. Returns the
 * bytes consumed: fewer if the lane stops, or an error.
 */
static ssize_t ar_receive_skb(struct ar_receive *rcv, struct sk_buff *skb,
			      u32 offset, size_t len)
{
	struct sk_buff *part;
	u32 start = skb_headlen(skb);
	size_t used = 0;
	ssize_t ret;
	size_t n;
	int i;

	if (offset < start) {
		n = min_t(size_t, len, start - offset);
		ret = ar_receive_head(rcv, skb, offset, n);
		if (ret < 0)
			return ret;
		used = ret;
		if (used < n)
			return used;
	}
	for (i = 0; i < skb_shinfo(skb)->nr_frags && used < len; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 size = skb_frag_size(frag);
		u32 at = offset + used;

		if (at < start + size) {
			n = min_t(size_t, len - used, start + size - at);
			ret = ar_receive_frag(rcv, frag, at - start, n);
			if (ret < 0)
				return ret;
			used += ret;
			if (ret < n)
				return used;
		}
		start += size;
	}
	skb_walk_frags(skb, part) {
		u32 at = offset + used;

		if (used == len)
			break;
		if (at < start + part->len) {
			n = min_t(size_t, len - used, start + part->len - at);
			ret = ar_receive_skb(rcv, part, at - start, n);
			if (ret < 0)
				return ret;
			used += ret;
			if (ret < n)
				return used;
		}
		start += part->len;
	}
	return used;
}

static int ar_receive_actor(read_descriptor_t *desc, struct sk_buff *skb,
			    unsigned int offset, size_t len)
{
	struct ar_receive *rcv = desc->arg.data;
	size_t want = min_t(size_t, len, desc->count);
	ssize_t used;

	if (!want)
		return 0;
	if (!compat_skb_readable(skb)) {
		rcv->error = -EFAULT;
		desc->count = 0;
		return 0;
	}
	used = ar_receive_skb(rcv, skb, offset, want);
	if (used < 0) {
		rcv->error = used;
		used = 0;
	}
	/* A lane that leaves bytes takes no more for now. */
	desc->count = used < want ? 0 : desc->count - used;
	return used;
}

/**
 * ar_link_receive - hand received bytes to the lane, where they lie
 * @link: a link that is UP
 * @budget: bytes at most
 * @feed: takes bytes under the socket's lock; returns how many it has
 *	consumed or an error; @page is NULL if the bytes can't be referenced
 *
 * Return: bytes consumed, or the error of @feed or of the connection.
 */
int ar_link_receive(struct ar_link *link, size_t budget,
		    ssize_t (*feed)(struct ar_lane *lane, struct page *page,
				    u32 offset, const u8 *data, size_t len))
{
	struct ar_receive rcv = { .lane = link->lane, .feed = feed };
	read_descriptor_t desc = { .arg.data = &rcv, .count = budget };
	struct sock *sk = link->sock->sk;
	int ret;

	lock_sock(sk);
	ret = tcp_read_sock(sk, &desc, ar_receive_actor);
	release_sock(sk);
	return rcv.error ?: ret;
}

/* ---- sending ------------------------------------------------------------- */

/**
 * ar_link_send - hand pages to TCP by reference
 * @link: a link that is UP
 * @bv: the bytes
 * @nr: entries of @bv
 * @len: bytes in @bv
 * @more: more bytes follow at once
 *
 * Return: bytes taken, from the front; -EAGAIN if there is no room, and the
 * lane is queued when there is; or the connection's error.
 */
ssize_t ar_link_send(struct ar_link *link, struct bio_vec *bv, u32 nr, size_t len,
		     bool more)
{
	ssize_t ret;

	WRITE_ONCE(link->in_send, true);
	ret = compat_send_pages(link->sock, bv, nr, len, more);
	WRITE_ONCE(link->in_send, false);
	return ar_link_error(ret);
}

/* Without scatter-gather on the route TCP copies what it is given. */
bool ar_link_sends_by_reference(struct ar_link *link)
{
	return link->sock->sk->sk_route_caps & NETIF_F_SG;
}

/* ---- pending connections ------------------------------------------------- */

static void ar_listener_wake(struct sock *sk)
{
	struct ar_pending *pending;

	read_lock_bh(&sk->sk_callback_lock);
	pending = sk->sk_user_data;
	if (pending)
		queue_work(ar_wq, &pending->listener->work);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ar_pending_free(struct ar_pending *pending)
{
	list_del(&pending->node);
	pending->listener->nr_pending--;
	kfree(pending);
}

static void ar_pending_drop(struct ar_pending *pending)
{
	ar_link_release_socket(pending->sock);
	ar_pending_free(pending);
}

static void ar_pending_attach(struct ar_pending *pending)
{
	struct sock *sk = pending->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = pending;
	sk->sk_data_ready = ar_listener_wake;
	sk->sk_state_change = ar_listener_wake;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void ar_pending_add(struct ar_listener *listener, struct socket *sock)
{
	struct ar_pending *pending = kzalloc(sizeof(*pending), GFP_KERNEL);

	if (!pending) {
		ar_link_release_socket(sock);
		return;
	}
	if (listener->nr_pending == AR_PENDING_MAX)
		ar_pending_drop(list_first_entry(&listener->pending,
						 struct ar_pending, node));
	pending->listener = listener;
	pending->sock = sock;
	pending->deadline = jiffies + msecs_to_jiffies(AR_GREETING_MS);
	list_add_tail(&pending->node, &listener->pending);
	listener->nr_pending++;
	ar_socket_tune(sock->sk);
	compat_sk_no_task_frag(sock->sk);
	ar_pending_attach(pending);
}

static enum ar_refusal ar_hello_refusal(const struct ar_hello *hello,
					struct ar_ring *ring,
					const union ar_addr *peer)
{
	const struct ar_ring_config *config = &ring->config;
	u32 prev = ar_ring_prev_rank(ring);

	if (le16_to_cpu(hello->version) != AR_PROTOCOL_VERSION ||
	    le16_to_cpu(hello->bytes) != sizeof(*hello) ||
	    memchr_inv(hello->reserved, 0, sizeof(hello->reserved)))
		return AR_REFUSAL_VERSION;
	if (!ar_addr_equal(peer, &config->members[prev], false))
		return AR_REFUSAL_ADDRESS;
	if (hello->byte_order != AR_BYTE_ORDER)
		return AR_REFUSAL_BYTE_ORDER;
	if (le32_to_cpu(hello->size) != config->size)
		return AR_REFUSAL_SIZE;
	if (le32_to_cpu(hello->rank) != prev)
		return AR_REFUSAL_RANK;
	if (le32_to_cpu(hello->lanes) != config->lanes ||
	    le32_to_cpu(hello->lane) >= config->lanes)
		return AR_REFUSAL_LANES;
	if (le32_to_cpu(hello->frame_max) != config->frame_max)
		return AR_REFUSAL_FRAME_MAX;
	if (le32_to_cpu(hello->gather_max) != config->gather_max)
		return AR_REFUSAL_GATHER_MAX;
	if (le64_to_cpu(hello->members_digest) != config->members_digest)
		return AR_REFUSAL_MEMBERS;
	if (le32_to_cpu(hello->epoch) != config->epoch)
		return AR_REFUSAL_EPOCH;
	return AR_REFUSAL_NONE;
}

/*
 * The answer is sent again by TCP only while the socket lives: it stays until
 * the peer has closed, or its time is over.
 */
static void ar_pending_refuse(struct ar_pending *pending, struct ar_ring *ring,
			      const union ar_addr *peer, enum ar_refusal refusal)
{
	if (refusal != AR_REFUSAL_STATE)
		net_warn_ratelimited("allreduce: ring %s rank %u refused %pISpc: %s\n",
				     ring->config.name, ring->config.rank,
				     &peer->sa, ar_refusal_text[refusal]);
	pending->refused = true;
	if (ar_socket_welcome(pending->sock, refusal))
		ar_pending_drop(pending);
}

static bool ar_pending_offer(struct ar_pending *pending, struct ar_ring *ring)
{
	struct ar_lane *lane = &ring->lanes[le32_to_cpu(pending->hello.lane)];

	/* Before the lane, whose work may run at once, sets its own callbacks. */
	ar_socket_detach(pending->sock);
	if (!ar_lane_offer(lane, pending->sock))
		return true;
	ar_pending_attach(pending);
	return false;
}

/* HELLO is complete: the socket goes to a lane, or is refused or dropped. */
static void ar_pending_judge(struct ar_pending *pending)
{
	const struct ar_hello *hello = &pending->hello;
	struct ar_ring *ring = NULL;
	enum ar_refusal refusal;
	union ar_addr peer;

	if (le64_to_cpu(hello->magic) == AR_HELLO_MAGIC &&
	    kernel_getpeername(pending->sock, &peer.sa) >= 0)
		ring = ar_ring_get_by_id(pending->listener->an, hello->ring_id,
					 le32_to_cpu(hello->to_rank));
	/* A stranger is told nothing. */
	if (!ring) {
		ar_pending_drop(pending);
		return;
	}
	refusal = ar_hello_refusal(hello, ring, &peer);
	if (refusal == AR_REFUSAL_NONE && !ar_pending_offer(pending, ring))
		refusal = AR_REFUSAL_STATE;
	if (refusal == AR_REFUSAL_NONE)
		ar_pending_free(pending);
	else
		ar_pending_refuse(pending, ring, &peer, refusal);
	ar_ring_put(ring);
}

static void ar_pending_advance(struct ar_pending *pending)
{
	u8 rest;
	int ret;

	if (pending->refused)
		ret = ar_socket_read(pending->sock, &rest, sizeof(rest));
	else
		ret = ar_socket_read(pending->sock,
				     (u8 *)&pending->hello + pending->have,
				     sizeof(pending->hello) - pending->have);
	if ((ret < 0 && ret != -EAGAIN) || (ret > 0 && pending->refused) ||
	    time_after_eq(jiffies, pending->deadline)) {
		ar_pending_drop(pending);
		return;
	}
	if (ret > 0)
		pending->have += ret;
	if (pending->have == sizeof(pending->hello) && !pending->refused)
		ar_pending_judge(pending);
}

/* ---- listeners ----------------------------------------------------------- */

/* Accepted sockets start with this callback too, until they are adopted. */
static void ar_listener_data_ready(struct sock *sk)
{
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_state == TCP_LISTEN && sk->sk_user_data) {
		struct ar_listener *listener = sk->sk_user_data;

		queue_work(ar_wq, &listener->work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ar_listener_work(struct work_struct *work)
{
	struct ar_listener *listener = container_of(work, struct ar_listener, work);
	struct ar_pending *pending, *tmp;
	bool closing = READ_ONCE(listener->closing);
	struct socket *sock;
	int i;

	if (closing) {
		list_for_each_entry_safe(pending, tmp, &listener->pending, node)
			ar_pending_drop(pending);
		return;
	}
	for (i = 0; i < AR_ACCEPTS_PER_ROUND; i++) {
		if (kernel_accept(listener->sock, &sock, O_NONBLOCK))
			break;
		ar_pending_add(listener, sock);
	}
	if (i == AR_ACCEPTS_PER_ROUND)
		queue_work(ar_wq, &listener->work);
	list_for_each_entry_safe(pending, tmp, &listener->pending, node)
		ar_pending_advance(pending);
	pending = list_first_entry_or_null(&listener->pending, struct ar_pending, node);
	if (pending)
		mod_delayed_work(ar_wq, &listener->deadline,
				 max_t(long, pending->deadline - jiffies, 1));
}

static void ar_listener_deadline(struct work_struct *work)
{
	struct ar_listener *listener = container_of(to_delayed_work(work),
						    struct ar_listener, deadline);

	queue_work(ar_wq, &listener->work);
}

static int ar_listener_open(struct ar_listener *listener,
			    struct netlink_ext_ack *extack)
{
	struct sock *sk;
	int ret;

	ret = ar_socket_create(listener->an, listener->addr.sa.sa_family,
			       &listener->sock);
	if (ret) {
		NL_SET_ERR_MSG(extack, "can't create a TCP socket of the members' address family");
		return ret;
	}
	sk = listener->sock->sk;
	ret = kernel_bind(listener->sock, &listener->addr.sa,
			  ar_addr_len(&listener->addr));
	if (ret) {
		NL_SET_ERR_MSG(extack,
			       "can't bind to this rank's own address and port; is it this host's, and the port free?");
		goto err;
	}
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = listener;
	sk->sk_data_ready = ar_listener_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	ret = kernel_listen(listener->sock, AR_BACKLOG);
	if (ret) {
		NL_SET_ERR_MSG(extack, "can't listen on this rank's own address and port");
		goto err;
	}
	return 0;
err:
	ar_link_release_socket(listener->sock);
	return ret;
}

/**
 * ar_listener_get - listen on an address, or share who does
 * @an: the namespace; config_lock is held
 * @addr: address and port
 * @extack: says what did not work
 *
 * Return: the listener or an ERR_PTR().
 */
struct ar_listener *ar_listener_get(struct ar_net *an, const union ar_addr *addr,
				    struct netlink_ext_ack *extack)
{
	struct ar_listener *listener;
	int ret;

	list_for_each_entry(listener, &an->listeners, node) {
		if (ar_addr_equal(&listener->addr, addr, true)) {
			listener->users++;
			return listener;
		}
	}
	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	listener->users = 1;
	listener->an = an;
	listener->addr = *addr;
	INIT_WORK(&listener->work, ar_listener_work);
	INIT_DELAYED_WORK(&listener->deadline, ar_listener_deadline);
	INIT_LIST_HEAD(&listener->pending);
	ret = ar_listener_open(listener, extack);
	if (ret) {
		kfree(listener);
		return ERR_PTR(ret);
	}
	list_add(&listener->node, &an->listeners);
	return listener;
}

/* config_lock is held. */
void ar_listener_put(struct ar_net *an, struct ar_listener *listener)
{
	lockdep_assert_held(&an->config_lock);
	if (--listener->users)
		return;
	list_del(&listener->node);
	ar_socket_detach(listener->sock);
	/*
	 * Pending sockets and the deadline queue the work until they are gone;
	 * the work's last run drops them all.
	 */
	WRITE_ONCE(listener->closing, true);
	queue_work(ar_wq, &listener->work);
	flush_work(&listener->work);
	cancel_delayed_work_sync(&listener->deadline);
	cancel_work_sync(&listener->work);
	ar_link_release_socket(listener->sock);
	kfree(listener);
}
