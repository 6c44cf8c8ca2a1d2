// SPDX-License-Identifier: GPL-2.0
/*
 * The user's buffer: pinned at submission, or registered with io_uring.
 *
 * What a job pins, and the kernel memory that it takes for vectors, is charged
 * to the submitting user's locked memory in one sum, as io_uring charges
 * registered buffers, until the job is over. Pages of a registered buffer are
 * held by the io_uring command.
 */
#include <linux/bvec.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include <linux/allreduce.h>

#include "membuf.h"

/* Pages pinned in one call; the array is one page. */
#define AR_PIN_BATCH	(PAGE_SIZE / sizeof(struct page *))
#define AR_UNPIN_BATCH	1024UL
#define AR_RUNS_MIN	8

/*
 * Twice the table. It grows as pages are found to be there, so what it takes
 * is bounded by memory that the user has, not by what a call asks for.
 */
static int ar_membuf_grow(struct ar_membuf *mb)
{
	u64 max_runs = max_t(u64, 2ULL * mb->max_runs, AR_RUNS_MIN);
	struct ar_run *runs;

	if (max_runs > U32_MAX)
		return -ENOMEM;
	runs = kvmalloc_array(max_runs, sizeof(*runs),
			      GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!runs)
		return -ENOMEM;
	if (mb->runs)
		memcpy(runs, mb->runs, (mb->nr_runs + 1) * sizeof(*runs));
	else
		runs[0] = (struct ar_run) {};
	kvfree(mb->runs);
	mb->runs = runs;
	mb->max_runs = max_runs;
	return 0;
}

/* Append @len bytes at @addr; runs[nr_runs] always ends the list. */
static int ar_membuf_append(struct ar_membuf *mb, u8 *addr, size_t len)
{
	struct ar_run *end = &mb->runs[mb->nr_runs];
	int ret;

	if (!mb->nr_runs || end[-1].addr + (mb->len - end[-1].start) != addr) {
		if (mb->nr_runs + 1 == mb->max_runs) {
			ret = ar_membuf_grow(mb);
			if (ret)
				return ret;
			end = &mb->runs[mb->nr_runs];
		}
		end->addr = addr;
		mb->nr_runs++;
		end++;
	}
	mb->len += len;
	end->start = mb->len;
	end->addr = NULL;
	return 0;
}

/**
 * ar_charge - charge the calling user's limit of locked memory
 * @charge: zeroed; to be given to ar_uncharge()
 * @pages: how much
 * @why: gets what was needed and the limit if that is reached;
 *	ALLREDUCE_REASON_SIZE bytes
 *
 * Return: 0 or -ENOMEM.
 */
int ar_charge(struct ar_charge *charge, unsigned long pages, char *why)
{
	struct user_struct *user = current_user();
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long locked;

	if (!pages)
		return 0;
	/* More than there can be: refused before anything is charged or pinned. */
	if (pages > totalram_pages()) {
		scnprintf(why, ALLREDUCE_REASON_SIZE,
			  "memory: %lu KiB to pin, the machine has %lu KiB",
			  pages << (PAGE_SHIFT - 10),
			  totalram_pages() << (PAGE_SHIFT - 10));
		return -ENOMEM;
	}
	locked = atomic_long_add_return(pages, &user->locked_vm);
	if (locked > limit && !capable(CAP_IPC_LOCK)) {
		atomic_long_sub(pages, &user->locked_vm);
		scnprintf(why, ALLREDUCE_REASON_SIZE,
			  "RLIMIT_MEMLOCK: %lu KiB to pin, %lu KiB in use by the user, limit %lu KiB",
			  pages << (PAGE_SHIFT - 10),
			  (locked - pages) << (PAGE_SHIFT - 10),
			  limit << (PAGE_SHIFT - 10));
		return -ENOMEM;
	}
	/* The credentials hold the user: not every kernel exports free_uid(). */
	charge->cred = get_current_cred();
	charge->pages = pages;
	return 0;
}

void ar_uncharge(struct ar_charge *charge)
{
	if (!charge->cred)
		return;
	atomic_long_sub(charge->pages, &charge->cred->user->locked_vm);
	put_cred(charge->cred);
	charge->cred = NULL;
}

static void ar_membuf_unpin(struct ar_membuf *mb)
{
	u32 i;

	for (i = 0; i < mb->nr_runs; i++) {
		u8 *addr = mb->runs[i].addr;
		u64 len = mb->runs[i + 1].start - mb->runs[i].start;
		unsigned long pages =
			DIV_ROUND_UP(offset_in_page(addr) + len, PAGE_SIZE);

		while (pages) {
			unsigned long n = min(pages, AR_UNPIN_BATCH);

			unpin_user_page_range_dirty_lock(virt_to_page(addr), n,
							 mb->writable);
			addr += n << PAGE_SHIFT;
			pages -= n;
			cond_resched();
		}
	}
}

static int ar_membuf_pin_pages(struct ar_membuf *mb, unsigned long addr, u64 len,
			       struct page **pages)
{
	unsigned int flags = FOLL_LONGTERM | (mb->writable ? FOLL_WRITE : 0);
	unsigned int offset = offset_in_page(addr);

	while (len) {
		int want = min_t(u64, DIV_ROUND_UP(offset + len, PAGE_SIZE),
				 AR_PIN_BATCH);
		int got = pin_user_pages_fast(addr & PAGE_MASK, want, flags,
					      pages);
		int i;

		if (got <= 0)
			return got ?: -EFAULT;
		for (i = 0; i < got; i++) {
			size_t n = min_t(u64, len, PAGE_SIZE - offset);
			int ret = ar_membuf_append(mb, (u8 *)page_address(pages[i]) +
						   offset, n);

			if (ret) {
				unpin_user_pages(pages + i, got - i);
				return ret;
			}
			addr += n;
			len -= n;
			offset = 0;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Pages that a range touches. */
unsigned long ar_membuf_pages(u64 addr, u64 len)
{
	return len ? (offset_in_page(addr) + len - 1) / PAGE_SIZE + 1 : 0;
}

/**
 * ar_membuf_pin - pin a range of the caller's memory
 * @mb: zeroed; release it with ar_membuf_release(), also after an error
 * @addr: user address; the caller has checked that the range can be a user's
 * @len: bytes, not 0; the caller has charged for the pages
 * @writable: the kernel will write to it
 *
 * Return: 0, -EFAULT, -ENOMEM, -EINTR.
 */
int ar_membuf_pin(struct ar_membuf *mb, u64 addr, u64 len, bool writable)
{
	struct page **pages;
	int ret;

	ret = ar_membuf_grow(mb);
	if (ret)
		return ret;
	mb->writable = writable;
	mb->pinned = true;
	pages = (struct page **)__get_free_page(GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	ret = ar_membuf_pin_pages(mb, addr, len, pages);
	free_page((unsigned long)pages);
	return ret;
}

/* Kernel memory of somebody else's, not empty; it outlives @mb. 0 or -ENOMEM. */
int ar_membuf_wrap(struct ar_membuf *mb, void *addr, u64 len)
{
	return ar_membuf_grow(mb) ?: ar_membuf_append(mb, addr, len);
}

/**
 * ar_membuf_import - use a registered buffer
 * @mb: zeroed; release it with ar_membuf_release(), also after an error
 * @iter: bvec iterator of io_uring_cmd_import_fixed()
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int ar_membuf_import(struct ar_membuf *mb, const struct iov_iter *iter)
{
	struct bvec_iter start = {
		.bi_size = iov_iter_count(iter),
		.bi_bvec_done = iter->iov_offset,
	};
	struct bvec_iter pos;
	struct bio_vec bv;
	int ret;

	if (!iov_iter_is_bvec(iter) || iov_iter_count(iter) > UINT_MAX)
		return -EINVAL;
	ret = ar_membuf_grow(mb);
	for_each_bvec(bv, iter->bvec, pos, start) {
		if (ret)
			break;
		ret = ar_membuf_append(mb, (u8 *)page_address(bv.bv_page) +
				       bv.bv_offset, bv.bv_len);
	}
	return ret;
}

/* Unpin, free. May sleep. */
void ar_membuf_release(struct ar_membuf *mb)
{
	if (mb->pinned)
		ar_membuf_unpin(mb);
	kvfree(mb->runs);
	memset(mb, 0, sizeof(*mb));
}

/* Start to walk at @offset, at most the buffer's length. */
void ar_membuf_seek(struct ar_membuf_iter *it, const struct ar_membuf *mb,
		    u64 offset)
{
	u32 low = 0, high = mb->nr_runs;

	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (mb->runs[mid].start <= offset)
			low = mid;
		else
			high = mid;
	}
	it->mb = mb;
	it->run = low;
	it->offset = offset;
}
