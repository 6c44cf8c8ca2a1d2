// SPDX-License-Identifier: GPL-2.0
/*
 * Compare the demo's results with sums made here: demo-verify INPUT... --
 * RESULT...
 *
 * Chunk c is summed in the order c+1, c+2, ..., c, as partition.h cuts it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/allreduce.h>

#include "partition.h"

/**
 * struct figures - what verify tells
 * @elements: of a vector
 * @order_matters: elements whose sum in the order of ranks has other bits
 * @nonzero: elements that are not zero
 * @largest: largest element
 */
struct figures {
	uint64_t elements;
	uint64_t order_matters;
	uint64_t nonzero;
	float largest;
};

static const float *map(const char *path, size_t *bytes)
{
	struct stat st;
	void *p;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || !st.st_size) {
		fprintf(stderr, "demo-verify: %s: not there, or empty\n", path);
		exit(1);
	}
	p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED) {
		fprintf(stderr, "demo-verify: %s: can't be mapped\n", path);
		exit(1);
	}
	*bytes = st.st_size;
	return p;
}

static float sum_from(const float **in, unsigned int n, unsigned int first, uint64_t i)
{
	float sum = in[first][i];
	unsigned int k;

	for (k = 1; k < n; k++)
		sum += in[(first + k) % n][i];
	return sum;
}

static void reference(const float **in, unsigned int n, float *ref,
		      struct figures *figures)
{
	struct ar_plan plan;
	unsigned int chunk;
	float in_order;
	uint64_t i;

	/* Lanes, frames and the gather path change no chunk: any will do. */
	ar_plan_init(&plan, ALLREDUCE_COLLECTIVE_ALLREDUCE, figures->elements,
		     sizeof(float), 0, n, 1, ALLREDUCE_FRAME_MAX_DEFAULT, 0);
	for (chunk = 0; chunk < n; chunk++) {
		struct ar_range r = ar_plan_chunk(&plan, chunk);

		for (i = r.start; i < r.start + r.count; i++) {
			ref[i] = sum_from(in, n, ar_next(chunk, n), i);
			in_order = sum_from(in, n, 0, i);
			figures->order_matters += in_order != ref[i];
			figures->nonzero += ref[i] != 0;
			if (ref[i] > figures->largest)
				figures->largest = ref[i];
		}
	}
}

static uint64_t compare(const char *path, const float *ref, uint64_t elements)
{
	uint64_t i, wrong = 0;
	const float *result;
	size_t bytes;

	result = map(path, &bytes);
	if (bytes != elements * sizeof(float)) {
		printf("FAIL %s: %zu bytes instead of %llu\n", path, bytes,
		       (unsigned long long)(elements * sizeof(float)));
		return 1;
	}
	for (i = 0; i < elements; i++)
		wrong += !!memcmp(&result[i], &ref[i], sizeof(float));
	printf("%s %s: %llu of %llu elements differ\n", wrong ? "FAIL" : "PASS", path,
	       (unsigned long long)wrong, (unsigned long long)elements);
	munmap((void *)result, bytes);
	return wrong;
}

int main(int argc, char **argv)
{
	const float *in[ALLREDUCE_SIZE_MAX];
	struct figures figures = { 0 };
	unsigned int n = 0;
	size_t bytes, first = 0;
	uint64_t wrong = 0;
	float *ref;
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") && n < ALLREDUCE_SIZE_MAX; i++) {
		in[n++] = map(argv[i], &bytes);
		first = first ? first : bytes;
		if (bytes != first || bytes % sizeof(float)) {
			fprintf(stderr, "demo-verify: %s: not as long as the others\n",
				argv[i]);
			return 1;
		}
	}
	if (!n || argc != i + 1 + (int)n) {
		fprintf(stderr, "usage: demo-verify INPUT... -- RESULT... (as many)\n");
		return 1;
	}
	figures.elements = first / sizeof(float);
	ref = malloc(first);
	if (!ref)
		return 1;
	reference(in, n, ref, &figures);
	printf("reference: %u members, %llu f32 each, %.1f %% not zero, largest %g\n", n,
	       (unsigned long long)figures.elements,
	       100.0 * figures.nonzero / figures.elements, figures.largest);
	printf("reference: another order of summation would change %llu elements\n",
	       (unsigned long long)figures.order_matters);
	while (++i < argc)
		wrong += compare(argv[i], ref, figures.elements);
	free(ref);
	printf("demo: %s\n", wrong ? "FAIL" : "PASS");
	return !!wrong;
}
