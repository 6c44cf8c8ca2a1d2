// SPDX-License-Identifier: GPL-2.0
/* A lane's outgoing bytes and its pool of pages; see txqueue.h. */
#include <linux/bvec.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "frame.h"
#include "txqueue.h"

int ar_txq_init(struct ar_txq *q, u32 frame_max)
{
	/*
	 * An injected or copied frame takes a segment a page, and its ends; a
	 * referenced one takes more where packets end, and there are many of
	 * them once TCP had to send again packet by packet.
	 */
	u32 segs_per_frame = frame_max / PAGE_SIZE + frame_max / AR_TXQ_PACKET + 8;

	memset(q, 0, sizeof(*q));
	q->frame_bytes = frame_max + AR_FRAME_HDR_BYTES;
	q->capacity = (u64)AR_TXQ_FRAMES * q->frame_bytes;
	q->nr_segs = roundup_pow_of_two(2 * AR_TXQ_FRAMES * segs_per_frame);
	q->segs = kvcalloc(q->nr_segs, sizeof(*q->segs), GFP_KERNEL_ACCOUNT);
	return q->segs ? 0 : -ENOMEM;
}

static struct ar_seg *ar_txq_seg(struct ar_txq *q, u32 number)
{
	return &q->segs[number & (q->nr_segs - 1)];
}

/* Forget what has not been sent; pages go back to their owners. */
void ar_txq_purge(struct ar_txq *q)
{
	for (; q->head != q->tail; q->head++)
		put_page(ar_txq_seg(q, q->head)->page);
	WRITE_ONCE(q->bytes, 0);
}

void ar_txq_exit(struct ar_txq *q)
{
	struct ar_pool *pool = &q->pool;

	if (q->segs)
		ar_txq_purge(q);
	while (pool->nr)
		put_page(pool->buffers[--pool->nr]);
	kvfree(q->segs);
	memset(q, 0, sizeof(*q));
}

static struct page *ar_pool_alloc(void)
{
	struct page *page;

	page = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_NOWARN |
			   __GFP_NORETRY, get_order(AR_POOL_BUFFER_BYTES));
	return page ?: alloc_page(GFP_KERNEL);
}

/* The buffer at the hand, if nobody else holds a reference to it. */
static struct page *ar_pool_recycle(struct ar_pool *pool)
{
	struct page *page;

	if (!pool->nr)
		return NULL;
	page = pool->buffers[pool->hand];
	if (page == pool->page || page_ref_count(page) != 1)
		return NULL;
	/* Whoever used it last has put it: its reads are over before our writes. */
	smp_acquire__after_ctrl_dep();
	pool->hand = (pool->hand + 1) % pool->nr;
	return page;
}

static void ar_pool_keep(struct ar_pool *pool, struct page *page)
{
	if (pool->nr < AR_POOL_BUFFERS) {
		pool->buffers[pool->nr++] = page;
		return;
	}
	put_page(pool->buffers[pool->hand]);
	pool->buffers[pool->hand] = page;
	pool->hand = (pool->hand + 1) % pool->nr;
}

/* Make an unused buffer the one that is filled. */
static int ar_pool_next(struct ar_pool *pool)
{
	struct page *page = ar_pool_recycle(pool);

	if (!page) {
		page = ar_pool_alloc();
		if (!page)
			return -ENOMEM;
		ar_pool_keep(pool, page);
	}
	pool->page = page;
	pool->size = page_size(page);
	pool->fill = 0;
	return 0;
}

u8 *ar_txq_reserve(struct ar_txq *q, u32 min, u32 want, u32 *room)
{
	struct ar_pool *pool = &q->pool;

	if ((!pool->page || pool->size - pool->fill < min) && ar_pool_next(pool))
		return NULL;
	*room = min(want, pool->size - pool->fill);
	return (u8 *)page_address(pool->page) + pool->fill;
}

u8 *ar_txq_reserve_header(struct ar_txq *q)
{
	u32 room;

	q->pool.fill = ALIGN(q->pool.fill, AR_FRAME_HDR_BYTES);
	return ar_txq_reserve(q, AR_FRAME_HDR_BYTES, AR_FRAME_HDR_BYTES, &room);
}

void ar_txq_add_page(struct ar_txq *q, struct page *page, u32 offset, u32 len)
{
	struct ar_seg *seg;

	if (!len)
		return;
	WRITE_ONCE(q->bytes, q->bytes + len);
	if (q->tail != q->head) {
		seg = ar_txq_seg(q, q->tail - 1);
		if (seg->page == page && seg->offset + seg->len == offset) {
			seg->len += len;
			return;
		}
	}
	get_page(page);
	seg = ar_txq_seg(q, q->tail++);
	seg->page = page;
	seg->offset = offset;
	seg->len = len;
}

void ar_txq_commit(struct ar_txq *q, u32 len)
{
	ar_txq_add_page(q, q->pool.page, q->pool.fill, len);
	q->pool.fill += len;
}

u32 ar_txq_peek(struct ar_txq *q, struct bio_vec *bv, u32 max, size_t *bytes)
{
	u32 nr = 0;

	*bytes = 0;
	for (; nr < max && q->head + nr != q->tail; nr++) {
		struct ar_seg *seg = ar_txq_seg(q, q->head + nr);

		bv[nr].bv_page = seg->page;
		bv[nr].bv_offset = seg->offset;
		bv[nr].bv_len = seg->len;
		*bytes += seg->len;
	}
	return nr;
}

void ar_txq_consume(struct ar_txq *q, size_t bytes)
{
	WRITE_ONCE(q->bytes, q->bytes - bytes);
	while (bytes) {
		struct ar_seg *seg = ar_txq_seg(q, q->head);
		u32 n = min_t(size_t, bytes, seg->len);

		seg->offset += n;
		seg->len -= n;
		bytes -= n;
		if (!seg->len) {
			put_page(seg->page);
			q->head++;
		}
	}
}
