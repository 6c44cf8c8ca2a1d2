// SPDX-License-Identifier: GPL-2.0
/*
 * How fast the reduction loops are on this machine, against memcpy. Prints
 * figures, decides nothing.
 *
 * GB/s counts the bytes of one vector, as a lane sees them: received bytes a
 * second. A sum reads two vectors and writes one (two with dst2); memcpy reads
 * one and writes one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/allreduce.h>

#include "isas.h"

#define ROUND_BYTES	(64UL << 20)	/* work of one timed round */
#define ROUNDS		9

struct buffers {
	unsigned char *dst;
	unsigned char *dst2;
	unsigned char *recv;
	unsigned char *local;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Bytes a second of the best round, in GB/s; fn NULL is memcpy. */
static double measure(ar_reduce_fn fn, const struct buffers *b, size_t bytes,
		      size_t element, bool both)
{
	size_t turns = ROUND_BYTES / bytes;
	double best = 0;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		double start = now(), rate;
		size_t i;

		for (i = 0; i < turns; i++) {
			if (fn)
				fn(b->dst, both ? b->dst2 : NULL, b->recv,
				   b->local, bytes / element);
			else
				memcpy(b->dst, b->recv, bytes);
			__asm__ volatile("" ::: "memory");
		}
		rate = turns * bytes / (now() - start) / 1e9;
		if (rate > best)
			best = rate;
	}
	return best;
}

static void line(const char *isa, const char *type, const char *op,
		 ar_reduce_fn fn, const struct buffers *b, size_t element)
{
	static const size_t sizes[] = { 4096, 65536, ROUND_BYTES };
	size_t i;

	printf("%-8s %-5s %-5s", isa, type, op);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		printf(" %9.2f", measure(fn, b, sizes[i], element, false));
		if (fn)
			printf(" %9.2f", measure(fn, b, sizes[i], element, true));
		else
			printf(" %9s", "-");
	}
	printf("\n");
	fflush(stdout);
}

static const char *type_name(unsigned int type, size_t *bytes)
{
	switch (type) {
#define X(NAME, name, value, width) \
	case ALLREDUCE_##NAME: \
		*bytes = width; \
		return #name;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	*bytes = 1;
	return "?";
}

static const char *op_name(unsigned int op)
{
	switch (op) {
#define X(NAME, name, value)	case ALLREDUCE_##NAME: return #name;
	ALLREDUCE_FOR_EACH_OP(X)
#undef X
	}
	return "?";
}

/* Finite floats, no denormals: denormals would time the CPU's slow path. */
static unsigned char *buffer(unsigned char fill, size_t misaligned)
{
	unsigned char *p;

	if (posix_memalign((void **)&p, 4096, ROUND_BYTES + 4096)) {
		fprintf(stderr, "reduce-bench: out of memory\n");
		exit(1);
	}
	memset(p, fill, ROUND_BYTES + 4096);
	return p + misaligned;
}

int main(void)
{
	/* Behind a 64-byte frame header in a TCP stream anything is possible. */
	struct buffers b = {
		.dst = buffer(0, 0), .dst2 = buffer(0, 0),
		.recv = buffer(0x3f, 3), .local = buffer(0x3e, 0),
	};
	struct isa isas[ISAS_MAX];
	size_t n = isas_list(isas), i;

	printf("GB/s of one vector, best of %d; recv misaligned by 3 bytes\n",
	       ROUNDS);
	printf("%-20s %9s %9s %9s %9s %9s %9s\n", "", "4K", "4K dst2", "64K",
	       "64K dst2", "64M", "64M dst2");
	line("memcpy", "-", "-", NULL, &b, 1);
	for (i = 0; i < n; i++) {
		const struct ar_reduce_kernel *k = isas[i].loops->kernels;

		if (!isas[i].usable) {
			printf("%-8s not supported by this CPU\n",
			       isas[i].loops->name);
			continue;
		}
		for (; k->fn; k++) {
			size_t element;
			const char *type = type_name(k->type, &element);

			line(isas[i].loops->name, type, op_name(k->op), k->fn, &b,
			     element);
		}
	}
	return 0;
}
