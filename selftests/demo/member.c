// SPDX-License-Identifier: GPL-2.0
/*
 * One member of the demo: demo-member RING INPUT OUTPUT
 *
 * Reads a vector of f32, sums it over the ring, writes the result, and tells
 * how long it took and what the module did.
 */
#include <allreduce-uring.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/**
 * struct vector - a file's contents and the result
 * @src: the file
 * @dst: the result
 * @bytes: of each
 */
struct vector {
	void *src;
	void *dst;
	size_t bytes;
};

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "demo-member: %s: %s\n", what, why);
	return 1;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int read_all(int fd, char *to, size_t bytes)
{
	ssize_t n;

	while (bytes) {
		n = read(fd, to, bytes);
		if (n <= 0)
			return 1;
		to += n;
		bytes -= n;
	}
	return 0;
}

static int write_all(int fd, const char *from, size_t bytes)
{
	ssize_t n;

	while (bytes) {
		n = write(fd, from, bytes);
		if (n <= 0)
			return 1;
		from += n;
		bytes -= n;
	}
	return 0;
}

static int load(const char *path, struct vector *v)
{
	struct stat st;
	int fd, ret = 1;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		goto out;
	if (!st.st_size || st.st_size % sizeof(float)) {
		errno = EINVAL;
		goto out;
	}
	v->bytes = st.st_size;
	v->src = aligned_alloc(4096, (v->bytes + 4095) & ~4095UL);
	v->dst = aligned_alloc(4096, (v->bytes + 4095) & ~4095UL);
	if (v->src && v->dst)
		ret = read_all(fd, v->src, v->bytes);
out:
	if (ret)
		complain(path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ret;
}

static int save(const char *path, const struct vector *v)
{
	int fd, ret = 1;

	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd >= 0) {
		ret = write_all(fd, v->dst, v->bytes);
		ret |= close(fd);
	}
	return ret ? complain(path, strerror(errno)) : 0;
}

static int job(struct aru *aru, const void *src, void *dst, uint64_t count)
{
	const char *reason = "";
	int ret;

	ret = aru_allreduce(aru, src, dst, count, ALLREDUCE_F32, ALLREDUCE_SUM, NULL);
	if (!ret)
		return 0;
	aru_ring_error(aru, NULL, &reason);
	return complain(aru_strerror(ret), *reason ? reason : "no further reason");
}

static void tell_counters(const char *ring_name, unsigned int rank, size_t bytes,
			  unsigned int size)
{
	double bound = 2.0 * (size - 1) / size * bytes;
	struct aru_ring *ring;
	struct aru_nl *nl;
	unsigned int i;

	if (aru_nl_open(&nl))
		return;
	if (!aru_ring_get(nl, ring_name, &ring)) {
		for (i = 0; i < ARU_STAT_SLOTS; i++)
			if (aru_stat_name(i))
				printf("rank %u: %-20s %llu\n", rank, aru_stat_name(i),
				       (unsigned long long)ring->stats[i]);
		printf("rank %u: sent / bound        %.4f ",
		       rank, bound ? ring->stats[ALLREDUCE_STAT_BYTES_SENT] / bound : 1);
		printf("(bound %.0f = 2 (%u - 1) / %u of the vector)\n", bound, size, size);
		aru_ring_free(ring);
	}
	aru_nl_close(nl);
}

static int sum(struct aru *aru, const char *ring, struct vector *v)
{
	unsigned int rank = aru_rank(aru), size = aru_size(aru);
	double begin, seconds;
	float zero = 0;

	/* So that the time does not count who began first. */
	if (job(aru, &zero, &zero, 1))
		return 1;
	begin = now();
	if (job(aru, v->src, v->dst, v->bytes / sizeof(float)))
		return 1;
	seconds = now() - begin;
	printf("rank %u of %u: %zu bytes in %.1f ms, algbw %.3f GB/s, busbw %.3f GB/s\n",
	       rank, size, v->bytes, seconds * 1e3, v->bytes / seconds / 1e9,
	       v->bytes / seconds / 1e9 * 2 * (size - 1) / size);
	/* So that nothing of it is still on its way out of here. */
	if (job(aru, &zero, &zero, 1))
		return 1;
	tell_counters(ring, rank, v->bytes, size);
	return 0;
}

int main(int argc, char **argv)
{
	struct vector v = { 0 };
	struct aru *aru;
	int ret;

	if (argc != 4) {
		fprintf(stderr, "usage: demo-member RING INPUT OUTPUT\n");
		return 1;
	}
	if (load(argv[2], &v))
		return 1;
	ret = aru_open(&aru, argv[1], NULL);
	if (ret)
		return complain(argv[1], aru_strerror(ret));
	ret = sum(aru, argv[1], &v);
	if (!ret)
		ret = save(argv[3], &v);
	/* If the kernel does not let go of the buffers, they must stay. */
	if (aru_close(aru))
		return complain(argv[1], "the kernel holds on to the buffers");
	free(v.src);
	free(v.dst);
	return ret;
}
