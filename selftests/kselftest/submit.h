/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands to /dev/allreduce without the library's context, and what must be
 * the same before and after them: pinned pages, guard bytes.
 */
#ifndef SUBMIT_H
#define SUBMIT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "env.h"

#define SUBMIT_NO_CQE		0x7fffffff	/* no completion in time */
#define SUBMIT_PATIENCE_MS	10000

#define GUARD_BYTES		256
#define GUARD_VALUE		0x5a

/* The next SQE; the tests never fill a queue. */
static inline struct io_uring_sqe *submit_sqe(struct io_uring *uring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(uring);

	if (!sqe)
		abort();
	return sqe;
}

/* Result of the next completion, or SUBMIT_NO_CQE. */
static inline int submit_reap(struct io_uring *uring, unsigned int ms,
			      uint64_t *user_data)
{
	struct __kernel_timespec ts = {
		.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000LL,
	};
	struct io_uring_cqe *cqe;
	int res;

	if (io_uring_wait_cqe_timeout(uring, &cqe, &ts))
		return SUBMIT_NO_CQE;
	res = cqe->res;
	if (user_data)
		*user_data = cqe->user_data;
	io_uring_cqe_seen(uring, cqe);
	return res;
}

/* Hand over what was prepared, wait for one completion: its result. */
static inline int submit_wait(struct io_uring *uring)
{
	int ret = io_uring_submit(uring);

	return ret < 0 ? ret : submit_reap(uring, SUBMIT_PATIENCE_MS, NULL);
}

/* One command from its payload to its result. */
static inline int submit_command(struct io_uring *uring, int fd, unsigned int op,
				 const void *payload, size_t bytes)
{
	aru_prep_cmd(submit_sqe(uring), fd, op, payload, bytes);
	return submit_wait(uring);
}

static inline int submit_attach(struct io_uring *uring, int fd, const char *ring)
{
	aru_prep_attach(submit_sqe(uring), fd, ring, NULL);
	return submit_wait(uring);
}

/* As above, but does not insist: a closed file is let go of a little later. */
static inline int submit_attach_soon(struct io_uring *uring, int fd, const char *ring)
{
	uint64_t end = env_now_ms() + SUBMIT_PATIENCE_MS;
	int ret;

	for (;;) {
		ret = submit_attach(uring, fd, ring);
		if (ret != -EBUSY || env_now_ms() > end)
			return ret;
		usleep(5000);
	}
}

static inline int submit_info(struct io_uring *uring, int fd,
			      struct allreduce_info *info)
{
	struct allreduce_info_query query = {
		.info = (uintptr_t)info, .info_size = sizeof(*info),
	};

	memset(info, 0, sizeof(*info));
	return submit_command(uring, fd, ALLREDUCE_URING_INFO, &query, sizeof(query));
}

/* Value of a line "KEY VALUE ..." of a file of /proc, or -1. */
static inline long long proc_value(const char *path, const char *key)
{
	char line[256];
	size_t len = strlen(key);
	long long value = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, len) && (line[len] == ' ' || line[len] == ':'))
			sscanf(line + len + 1, "%lld", &value);
	fclose(f);
	return value;
}

/* Pages of the machine that are pinned now. */
static inline long long pinned_pages(void)
{
	FILE *f = fopen("/proc/sys/vm/stat_refresh", "r");
	char c;

	/* Reading folds the counters of all CPUs. */
	if (f) {
		if (fread(&c, 1, 1, f))
			c = 0;
		fclose(f);
	}
	return proc_value("/proc/vmstat", "nr_foll_pin_acquired") -
	       proc_value("/proc/vmstat", "nr_foll_pin_released");
}

/**
 * struct vector - a vector of i32 between guard bytes
 * @map: all of it
 * @map_bytes: its size
 * @data: the elements
 * @count: how many
 */
struct vector {
	unsigned char *map;
	size_t map_bytes;
	int32_t *data;
	uint64_t count;
};

/* Over a mapping that is there already. */
static inline void vector_over(struct vector *v, void *map, size_t bytes,
			       uint64_t count)
{
	if (count * 4 + 2 * GUARD_BYTES > bytes)
		abort();
	v->map = map;
	v->map_bytes = bytes;
	memset(map, GUARD_VALUE, bytes);
	v->data = (int32_t *)(v->map + GUARD_BYTES);
	v->count = count;
}

static inline void vector_alloc(struct vector *v, uint64_t count)
{
	size_t bytes = (count * 4 + 2 * GUARD_BYTES + 4095) & ~4095UL;
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		abort();
	vector_over(v, map, bytes, count);
}

static inline void vector_free(struct vector *v)
{
	munmap(v->map, v->map_bytes);
}

/* What member @rank contributes at @i; wraps around in the sum. */
static inline int32_t vector_part(unsigned int rank, uint64_t i)
{
	return (int32_t)((i + 1) * 2654435761u * (rank + 1) + rank);
}

static inline int32_t vector_sum(unsigned int size, uint64_t i)
{
	uint32_t sum = 0;
	unsigned int rank;

	for (rank = 0; rank < size; rank++)
		sum += vector_part(rank, i);
	return sum;
}

static inline void vector_fill(struct vector *v, unsigned int rank)
{
	uint64_t i;

	for (i = 0; i < v->count; i++)
		v->data[i] = vector_part(rank, i);
}

/* Elements that are not what rank @rank contributes. */
static inline uint64_t vector_changed(const struct vector *v, unsigned int rank)
{
	uint64_t i, n = 0;

	for (i = 0; i < v->count; i++)
		n += v->data[i] != vector_part(rank, i);
	return n;
}

/* Elements that are not the sum of @size members. */
static inline uint64_t vector_wrong(const struct vector *v, unsigned int size)
{
	uint64_t i, n = 0;

	for (i = 0; i < v->count; i++)
		n += v->data[i] != vector_sum(size, i);
	return n;
}

/* Guard bytes that were written to. */
static inline uint64_t vector_spoilt(const struct vector *v)
{
	const unsigned char *begin = (unsigned char *)v->data;
	const unsigned char *end = begin + v->count * 4;
	size_t i;
	uint64_t n = 0;

	for (i = 0; i < v->map_bytes; i++)
		if ((v->map + i < begin || v->map + i >= end) &&
		    v->map[i] != GUARD_VALUE)
			n++;
	return n;
}

#endif
