/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A user's buffer while a job uses it: runs of contiguous kernel addresses.
 * 64-bit kernels map all memory, so an address stands for a page for good.
 */
#ifndef _AR_MEMBUF_H
#define _AR_MEMBUF_H

#include <linux/types.h>

struct cred;
struct iov_iter;

/**
 * struct ar_run - contiguous bytes
 * @start: offset of the first one in the buffer
 * @addr: its kernel address; the run ends where the next one starts
 */
struct ar_run {
	u64 start;
	u8 *addr;
};

/**
 * struct ar_membuf - a buffer
 * @len: bytes
 * @nr_runs: runs, in order; @runs has one more, which starts at @len
 * @max_runs: entries of @runs
 * @runs: the runs
 * @pinned: its pages are pinned by this buffer; those of io_uring's registered
 *	buffers are not, they live as long as the command does
 * @writable: pinned for writing
 */
struct ar_membuf {
	u64 len;
	u32 nr_runs;
	u32 max_runs;
	struct ar_run *runs;
	bool pinned;
	bool writable;
};

/**
 * struct ar_charge - memory that a user's limit of locked memory is charged with
 * @cred: whose; NULL if nothing is charged
 * @pages: how much
 */
struct ar_charge {
	const struct cred *cred;
	unsigned long pages;
};

/* A place in a buffer that is walked forward. */
struct ar_membuf_iter {
	const struct ar_membuf *mb;
	u32 run;
	u64 offset;
};

int ar_charge(struct ar_charge *charge, unsigned long pages, char *why);
void ar_uncharge(struct ar_charge *charge);
unsigned long ar_membuf_pages(u64 addr, u64 len);
int ar_membuf_pin(struct ar_membuf *mb, u64 addr, u64 len, bool writable);
int ar_membuf_wrap(struct ar_membuf *mb, void *addr, u64 len);
int ar_membuf_import(struct ar_membuf *mb, const struct iov_iter *iter);
void ar_membuf_release(struct ar_membuf *mb);
void ar_membuf_seek(struct ar_membuf_iter *it, const struct ar_membuf *mb,
		    u64 offset);

/* Contiguous bytes at the iterator, 0 at the end. */
static inline size_t ar_membuf_run(const struct ar_membuf_iter *it, u8 **addr)
{
	const struct ar_run *run = &it->mb->runs[it->run];

	*addr = run->addr + (it->offset - run->start);
	return run[1].start - it->offset;
}

/* Move on by at most the run's rest. */
static inline void ar_membuf_advance(struct ar_membuf_iter *it, size_t bytes)
{
	it->offset += bytes;
	if (it->run + 1 < it->mb->nr_runs &&
	    it->offset == it->mb->runs[it->run + 1].start)
		it->run++;
}

#endif /* _AR_MEMBUF_H */
