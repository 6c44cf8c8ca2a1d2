/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lane's outgoing bytes, as references to pages, in stream order, until TCP
 * takes them; and the pool of pages that sums and headers are written to.
 *
 * Room. The queue is what the ring's bubble flow control counts (design.rst,
 * fact 5): a frame is forwarded if one fits, injected if two do, so that a
 * member that injects always leaves a slot for one that passes through. Bytes
 * count, and segments, of which small frames need more.
 *
 * Pages. Each segment holds a reference of its own to its page; TCP takes
 * another when it accepts the bytes. A pool buffer is written again only when
 * the pool holds the only reference to it: then TCP has had its
 * acknowledgment and nobody (a receiver on this host, a packet capture) looks
 * at the page. Else the pool takes a new one, which it keeps as long as it has
 * places and then instead of an old one: so it grows no further than what is
 * on its way needs, and waiting never depends on a peer's progress.
 *
 * Memory: a segment table that follows from frame_max and AR_POOL_BUFFERS
 * buffers a lane, whatever the sizes of vectors and ring.
 */
#ifndef _AR_TXQUEUE_H
#define _AR_TXQUEUE_H

#include <linux/types.h>

struct bio_vec;
struct page;

#define AR_TXQ_FRAMES		4	/* capacity in frames */
#define AR_TXQ_PACKET		512	/* smallest packet that is forwarded by reference */
#define AR_POOL_BUFFERS		64
#define AR_POOL_BUFFER_BYTES	32768

struct ar_seg {
	struct page *page;
	u32 offset;
	u32 len;
};

/**
 * struct ar_pool - recycled pages
 * @buffers: buffers with one reference of the pool's each
 * @nr: how many
 * @hand: index of the one that is looked at next, about the oldest
 * @page: the buffer that is being filled (one of @buffers), or NULL
 * @size: its bytes
 * @fill: bytes of it that are in use
 */
struct ar_pool {
	struct page *buffers[AR_POOL_BUFFERS];
	u32 nr;
	u32 hand;
	struct page *page;
	u32 size;
	u32 fill;
};

/**
 * struct ar_txq - the queue
 * @segs: ring buffer of @nr_segs segments
 * @nr_segs: a power of 2
 * @head: number of the first segment that TCP has not taken, free-running
 * @tail: number of the first free segment, free-running
 * @bytes: queued
 * @capacity: bytes that flow control allows
 * @frame_bytes: the largest frame with its header
 * @pool: where sums and headers are written
 */
struct ar_txq {
	struct ar_seg *segs;
	u32 nr_segs;
	u32 head;
	u32 tail;
	u64 bytes;
	u64 capacity;
	u32 frame_bytes;
	struct ar_pool pool;
};

int ar_txq_init(struct ar_txq *q, u32 frame_max);
void ar_txq_exit(struct ar_txq *q);
void ar_txq_purge(struct ar_txq *q);

/* Space for output: *room bytes, at least @min and at most @want. */
u8 *ar_txq_reserve(struct ar_txq *q, u32 min, u32 want, u32 *room);
/* The next 64 bytes, on a cache line, for a header. */
u8 *ar_txq_reserve_header(struct ar_txq *q);
/* The first @len bytes of the last reservation are to be sent. */
void ar_txq_commit(struct ar_txq *q, u32 len);
/* Bytes of a page that somebody else owns are to be sent. */
void ar_txq_add_page(struct ar_txq *q, struct page *page, u32 offset, u32 len);

u32 ar_txq_peek(struct ar_txq *q, struct bio_vec *bv, u32 max, size_t *bytes);
void ar_txq_consume(struct ar_txq *q, size_t bytes);

/*
 * Received bytes that come in very small pieces would need a segment each.
 * Half of the table is for them; beyond that they are to be copied, and the
 * other half suffices for that and for injection (ar_txq_init). Half a table
 * holds all that flow control lets into the queue if packets are not smaller
 * than AR_TXQ_PACKET, so that this happens on no ordinary network, but to a few
 * bytes at the end of a pile of very small frames.
 */
static inline bool ar_txq_may_reference(const struct ar_txq *q)
{
	return q->tail - q->head < q->nr_segs / 2;
}

/*
 * A frame is let in if its bytes fit and, since a small one takes segments but
 * hardly any bytes, if half of the table is free; an own one needs more of both.
 */
static inline bool ar_txq_may_forward(const struct ar_txq *q, u32 frame_bytes)
{
	return q->bytes + frame_bytes <= q->capacity && ar_txq_may_reference(q);
}

static inline bool ar_txq_may_inject(const struct ar_txq *q)
{
	return q->bytes + 2 * (u64)q->frame_bytes <= q->capacity &&
	       q->tail - q->head < q->nr_segs / 4;
}

#endif /* _AR_TXQUEUE_H */
