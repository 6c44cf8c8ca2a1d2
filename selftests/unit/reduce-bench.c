// SPDX-License-Identifier: GPL-2.0
/*
 * How fast the reduction loops are on this machine, against memcpy. Prints
 * figures, decides nothing.
 *
 * Nanoseconds for each element of one vector, the best of some rounds. A sum
 * reads two vectors and writes one (two with dst2); division and factor read
 * one and write one, as memcpy does.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/allreduce.h>

#include "isas.h"

#define BYTES_MIN	1024UL
#define BYTES_MAX	(64UL << 20)	/* of a vector: out of every cache */
#define ROUND_BYTES	(1UL << 20)	/* work of a round, at least; soon done, undisturbed */
#define SIZES_MAX	8

struct buffers {
	unsigned char *dst;
	unsigned char *dst2;
	unsigned char *recv;
	unsigned char *local;
};

static struct options {
	const char *isa;
	const char *type;
	const char *op;
	size_t sizes[SIZES_MAX];
	size_t count;
	int rounds;
} options = {
	.sizes = { 4096, 65536, BYTES_MAX }, .count = 3, .rounds = 9,
};

enum what { REDUCE, REDUCE_DST2, DIVIDE, SCALE, MEMCPY };

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void once(const struct ar_reduce_kernel *k, enum what what,
		 const struct buffers *b, size_t n)
{
	static const double factor = 0.9999;
	u64 bits;

	switch (what) {
	case REDUCE:
		k->reduce(b->dst, NULL, b->recv, b->local, n);
		break;
	case REDUCE_DST2:
		k->reduce(b->dst, b->dst2, b->recv, b->local, n);
		break;
	case DIVIDE:
		k->divide(b->dst, NULL, b->recv, n, 7);
		break;
	case SCALE:
		memcpy(&bits, &factor, sizeof(bits));
		k->scale(b->dst, b->recv, n, bits);
		break;
	case MEMCPY:
		memcpy(b->dst, b->recv, n);
		break;
	}
	__asm__ volatile("" ::: "memory");
}

/* Nanoseconds an element. */
static double measure(const struct ar_reduce_kernel *k, enum what what,
		      const struct buffers *b, size_t bytes, size_t element)
{
	size_t turns = bytes < ROUND_BYTES ? ROUND_BYTES / bytes : 1;
	size_t n = bytes / element, i;
	double best = 0, start, took;
	int round;

	once(k, what, b, n);
	for (round = 0; round < options.rounds; round++) {
		start = now();
		for (i = 0; i < turns; i++)
			once(k, what, b, n);
		took = now() - start;
		if (!round || took < best)
			best = took;
	}
	return best * 1e9 / turns / n;
}

static void line(const char *isa, const char *type, const char *op,
		 const char *what_name, const struct ar_reduce_kernel *k,
		 enum what what, const struct buffers *b, size_t element)
{
	size_t i;

	printf("%-7s %-5s %-9s %-6s", isa, type, op, what_name);
	for (i = 0; i < options.count; i++)
		printf(" %10.3f", measure(k, what, b, options.sizes[i], element));
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

static bool chosen(const char *wish, const char *name)
{
	return !wish || !strcmp(wish, name);
}

static void row(const char *isa, const struct ar_reduce_kernel *k,
		const struct buffers *b)
{
	size_t element;
	const char *type = type_name(k->type, &element);
	const char *op = op_name(k->op);

	if (!chosen(options.type, type) || !chosen(options.op, op))
		return;
	line(isa, type, op, "reduce", k, REDUCE, b, element);
	line(isa, type, op, "dst2", k, REDUCE_DST2, b, element);
	if (k->divide)
		line(isa, type, op, "divide", k, DIVIDE, b, element);
	if (k->scale)
		line(isa, type, op, "scale", k, SCALE, b, element);
}

/* Finite floats, no denormals: denormals would time the CPU's slow path. */
static unsigned char *buffer(unsigned char fill, size_t misaligned)
{
	unsigned char *p;

	if (posix_memalign((void **)&p, 4096, BYTES_MAX + 4096)) {
		fprintf(stderr, "reduce-bench: out of memory\n");
		exit(1);
	}
	memset(p, fill, BYTES_MAX + 4096);
	return p + misaligned;
}

static void usage(FILE *to)
{
	fprintf(to,
		"Usage: reduce-bench [-i ISA] [-t TYPE] [-o OP] [-s BYTES]... [-r ROUNDS]\n"
		"  -i, -t, -o  only this instruction set, type, operation (default: all)\n"
		"  -s          bytes of a vector, %lu to %lu, up to %d times\n"
		"              (default: 4096, 65536, %lu)\n"
		"  -r          rounds, of which the best counts, 1 to 1000 (default: 9)\n",
		BYTES_MIN, BYTES_MAX, SIZES_MAX, BYTES_MAX);
}

static unsigned long number(int option, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value = strtoul(optarg, &end, 10);

	if (end == optarg || *end || value < least || value > most) {
		fprintf(stderr, "reduce-bench: -%c %s: expected %lu to %lu\n",
			option, optarg, least, most);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv)
{
	size_t sizes = 0;
	int option;

	while ((option = getopt(argc, argv, "hi:t:o:s:r:")) != -1) {
		switch (option) {
		case 'i':
			options.isa = optarg;
			break;
		case 't':
			options.type = optarg;
			break;
		case 'o':
			options.op = optarg;
			break;
		case 's':
			if (sizes == SIZES_MAX) {
				fprintf(stderr, "reduce-bench: -s: expected at most %d\n",
					SIZES_MAX);
				exit(2);
			}
			options.sizes[sizes++] = number('s', BYTES_MIN, BYTES_MAX);
			options.count = sizes;
			break;
		case 'r':
			options.rounds = number('r', 1, 1000);
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind != argc) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct isa isas[ISAS_MAX];
	size_t n = isas_list(isas), i;
	struct buffers b;

	parse(argc, argv);
	/* Behind a frame header in a TCP stream anything is possible. */
	b = (struct buffers){
		.dst = buffer(0, 0), .dst2 = buffer(0, 0),
		.recv = buffer(0x3f, 3), .local = buffer(0x3e, 0),
	};
	printf("ns an element, best of %d; recv misaligned by 3 bytes\n",
	       options.rounds);
	printf("%-30s", "bytes of a vector");
	for (i = 0; i < options.count; i++)
		printf(" %10zu", options.sizes[i]);
	printf("\n");
	line("-", "byte", "memcpy", "", NULL, MEMCPY, &b, 1);
	for (i = 0; i < n; i++) {
		const struct ar_reduce_kernel *k = isas[i].loops->kernels;

		if (!chosen(options.isa, isas[i].loops->name))
			continue;
		if (!isas[i].usable) {
			printf("%-7s not supported by this CPU\n",
			       isas[i].loops->name);
			continue;
		}
		for (; k->reduce; k++)
			row(isas[i].loops->name, k, &b);
	}
	return 0;
}
