// SPDX-License-Identifier: GPL-2.0
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/allreduce.h>

#include "random.h"
#include "reduce-check.h"

#define UNROLL		4	/* vectors in one turn of the loops */
#define ALIGNMENTS	64
#define GUARD		64	/* bytes that must stay as they are */
#define GUARD_BYTE	0xc3

static char why[512];

#define WRONG(...)	(snprintf(why, sizeof(why), __VA_ARGS__), why)

/* ---- the reference: one element at a time, on bytes ---------------------- */

static void reference_sum(u8 type, u8 *sum, const u8 *recv, const u8 *local);

/*
 * IEEE 754 says nothing about which NaN survives; ours is the left one, made
 * quiet. Written on the bits, so that no compiler can choose for us.
 */
#define REFERENCE_FLOAT(name, ctype, utype, exponent, quiet) \
static void reference_##name(u8 *sum, const u8 *recv, const u8 *local) \
{ \
	utype a, b, r; \
	ctype x, y; \
	\
	memcpy(&a, recv, sizeof(a)); \
	memcpy(&b, local, sizeof(b)); \
	if ((a << 1) > ((utype)(exponent) << 1)) { \
		r = a | (quiet); \
	} else if ((b << 1) > ((utype)(exponent) << 1)) { \
		r = b | (quiet); \
	} else { \
		memcpy(&x, &a, sizeof(x)); \
		memcpy(&y, &b, sizeof(y)); \
		x += y; \
		memcpy(&r, &x, sizeof(r)); \
	} \
	memcpy(sum, &r, sizeof(r)); \
}

#define REFERENCE_INTEGER(name, utype) \
static void reference_##name(u8 *sum, const u8 *recv, const u8 *local) \
{ \
	utype a, b; \
	\
	memcpy(&a, recv, sizeof(a)); \
	memcpy(&b, local, sizeof(b)); \
	a += b; \
	memcpy(sum, &a, sizeof(a)); \
}

REFERENCE_FLOAT(f32, float, u32, 0x7f800000U, 0x00400000U)
REFERENCE_FLOAT(f64, double, u64, 0x7ff0000000000000ULL, 0x0008000000000000ULL)
REFERENCE_INTEGER(i32, u32)
REFERENCE_INTEGER(i64, u64)

static void reference_sum(u8 type, u8 *sum, const u8 *recv, const u8 *local)
{
	switch (type) {
#define X(NAME, name, value, bytes) \
	case ALLREDUCE_##NAME: \
		reference_##name(sum, recv, local); \
		return;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	abort();
}

static void reference(const struct ar_reduce_kernel *k, u8 *result,
		      const u8 *recv, const u8 *local)
{
	switch (k->op) {
	case ALLREDUCE_SUM:
		reference_sum(k->type, result, recv, local);
		return;
	}
	/* A new operation needs its reference here. */
	abort();
}

/* ---- numbers --------------------------------------------------------------- */

static size_t element_bytes(const struct ar_reduce_kernel *k)
{
	switch (k->type) {
#define X(NAME, name, value, bytes)	case ALLREDUCE_##NAME: return bytes;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	abort();
}

static const u32 special32[] = {
	0x00000000, 0x80000000,			/* zeros; INT_MIN */
	0x00000001, 0x80000001, 0x007fffff,	/* denormals; 1 */
	0x00800000, 0x80800000,			/* smallest normals */
	0x7f7fffff, 0xff7fffff,			/* largest */
	0x7f800000, 0xff800000,			/* infinities */
	0x7fc00000, 0xffc00000, 0x7fc12345,	/* quiet NaNs */
	0x7f800001, 0xffa54321,			/* signaling NaNs */
	0x3f800000, 0xbf800000, 0x33800000,	/* 1, -1, 2^-24: rounds to even */
	0x33800001,
	0x7fffffff, 0xffffffff,			/* INT_MAX, -1 */
};

static const u64 special64[] = {
	0x0000000000000000, 0x8000000000000000,
	0x0000000000000001, 0x8000000000000001, 0x000fffffffffffff,
	0x0010000000000000, 0x8010000000000000,
	0x7fefffffffffffff, 0xffefffffffffffff,
	0x7ff0000000000000, 0xfff0000000000000,
	0x7ff8000000000000, 0xfff8000000000000, 0x7ff8000012345678,
	0x7ff0000000000001, 0xfff4000087654321,
	0x3ff0000000000000, 0xbff0000000000000, 0x3ca0000000000000,
	0x3ca0000000000001,
	0x7fffffffffffffff, 0xffffffffffffffff,
};

#define SPECIALS	(sizeof(special32) / sizeof(special32[0]))

_Static_assert(SPECIALS == sizeof(special64) / sizeof(special64[0]),
	       "as many special values of each width");

static void put_special(u8 *p, size_t bytes, size_t index)
{
	memcpy(p, bytes == 4 ? (const void *)&special32[index] :
	       (const void *)&special64[index], bytes);
}

/* One element in four is a special value, the others are any bits. */
static void fill(u8 *p, size_t n, size_t bytes, uint64_t *rnd)
{
	for (; n; n--, p += bytes) {
		uint64_t bits = random_u64(rnd);

		if (random_below(rnd, 4))
			memcpy(p, &bits, bytes);
		else
			put_special(p, bytes, bits % SPECIALS);
	}
}

/* ---- one call ---------------------------------------------------------------- */

enum second { SECOND_NONE, SECOND_APART, SECOND_LOCAL, SECONDS };

static const char *const second_names[SECONDS] = { "none", "apart", "local" };

/* What a call reads and writes: n elements each, anywhere. */
struct call {
	u8 *recv;
	u8 *local;
	u8 *dst;
	u8 *dst2;	/* used by SECOND_APART only */
	size_t n;
	enum second second;
};

static const char *compare(const struct ar_reduce_kernel *k, const char *what,
			   const u8 *got, const u8 *want, size_t n)
{
	size_t bytes = element_bytes(k), i;
	u64 g = 0, w = 0;

	for (i = 0; i < n; i++) {
		if (!memcmp(got + i * bytes, want + i * bytes, bytes))
			continue;
		memcpy(&g, got + i * bytes, bytes);
		memcpy(&w, want + i * bytes, bytes);
		return WRONG("%s[%zu] of %zu is %llx, want %llx", what, i, n,
			     (unsigned long long)g, (unsigned long long)w);
	}
	return NULL;
}

static const char *run(const struct ar_reduce_kernel *k, const struct call *c)
{
	size_t bytes = element_bytes(k), i;
	u8 *want = malloc(3 * c->n * bytes + 1);
	u8 *recv = want + c->n * bytes, *local = recv + c->n * bytes;
	u8 *dst2 = c->second == SECOND_NONE ? NULL :
		   c->second == SECOND_APART ? c->dst2 : c->local;
	const char *wrong;

	if (!want)
		return WRONG("out of memory");
	if (c->n) {
		memcpy(recv, c->recv, c->n * bytes);
		memcpy(local, c->local, c->n * bytes);
	}
	for (i = 0; i < c->n * bytes; i += bytes)
		reference(k, want + i, recv + i, local + i);

	k->fn(c->dst, dst2, c->recv, c->local, c->n);

	wrong = compare(k, "dst", c->dst, want, c->n);
	if (!wrong && dst2)
		wrong = compare(k, "dst2", dst2, want, c->n);
	if (!wrong)
		wrong = compare(k, "recv", c->recv, recv, c->n);
	if (!wrong && dst2 != c->local)
		wrong = compare(k, "local", c->local, local, c->n);
	free(want);
	return wrong;
}

/* ---- every length at every misalignment --------------------------------------- */

/* n elements, @misaligned from a boundary of 64; nothing behind them. */
static u8 *input(void **base, size_t bytes, size_t misaligned)
{
	if (posix_memalign(base, ALIGNMENTS, misaligned + bytes + !bytes))
		abort();
	return (u8 *)*base + misaligned;
}

/* The same with guards on both sides. */
static u8 *output(void **base, size_t bytes, size_t misaligned)
{
	size_t total = ALIGNMENTS + misaligned + bytes + GUARD;

	if (posix_memalign(base, ALIGNMENTS, total))
		abort();
	memset(*base, GUARD_BYTE, total);
	return (u8 *)*base + ALIGNMENTS + misaligned;
}

static const char *check_guards(const void *base, const u8 *p, size_t bytes,
				const char *what)
{
	const u8 *g;

	for (g = base; g < p + bytes + GUARD; g++) {
		if (g == p)
			g += bytes;
		if (*g != GUARD_BYTE)
			return WRONG("byte %td from %s of %zu bytes was written",
				     g - p, what, bytes);
	}
	return NULL;
}

static const char *run_misaligned(const struct ar_reduce_kernel *k, size_t n,
				  enum second second, size_t recv_at,
				  size_t local_at, size_t dst_at, size_t dst2_at,
				  uint64_t *rnd)
{
	size_t bytes = n * element_bytes(k);
	void *recv, *local, *dst, *dst2;
	struct call c = { .n = n, .second = second };
	const char *wrong;
	char text[128];

	c.recv = input(&recv, bytes, recv_at);
	/* Where local is written as well, it needs guards as well. */
	c.local = second == SECOND_LOCAL ? output(&local, bytes, local_at) :
		  input(&local, bytes, local_at);
	c.dst = output(&dst, bytes, dst_at);
	c.dst2 = output(&dst2, bytes, dst2_at);
	fill(c.recv, n, element_bytes(k), rnd);
	fill(c.local, n, element_bytes(k), rnd);

	wrong = run(k, &c);
	if (!wrong)
		wrong = check_guards(dst, c.dst, bytes, "dst");
	if (!wrong && second == SECOND_APART)
		wrong = check_guards(dst2, c.dst2, bytes, "dst2");
	if (!wrong && second == SECOND_LOCAL)
		wrong = check_guards(local, c.local, bytes, "local");
	free(recv);
	free(local);
	free(dst);
	free(dst2);
	if (!wrong)
		return NULL;
	snprintf(text, sizeof(text), "%.127s", wrong);
	return WRONG("%s (n %zu, dst2 %s; misaligned recv %zu local %zu dst %zu dst2 %zu)",
		     text, n, second_names[second], recv_at, local_at, dst_at,
		     dst2_at);
}

/* Each pointer takes all 64 misalignments, the others take random ones. */
static const char *check_lengths(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t most = 2 * UNROLL * vector_bytes / element_bytes(k) + 1, n;
	uint64_t rnd = 1;
	const char *wrong;
	int second, turn;
	unsigned int which, i;

	for (n = 0; n <= most; n++) {
		for (turn = 0; turn < SECONDS * ALIGNMENTS * 4; turn++) {
			size_t at[4];

			second = turn % SECONDS;
			which = turn / SECONDS / ALIGNMENTS;
			for (i = 0; i < 4; i++)
				at[i] = random_below(&rnd, ALIGNMENTS);
			at[which] = turn / SECONDS % ALIGNMENTS;
			wrong = run_misaligned(k, n, second, at[0], at[1], at[2],
					       at[3], &rnd);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

/* All pairs of misalignments of what is read, at a length that uses each loop. */
static const char *check_alignment_pairs(const struct ar_reduce_kernel *k,
					 size_t vector_bytes)
{
	size_t n = (UNROLL + 1) * vector_bytes / element_bytes(k) + 1;
	size_t recv_at, local_at;
	uint64_t rnd = 2;
	const char *wrong;

	for (recv_at = 0; recv_at < ALIGNMENTS; recv_at++) {
		for (local_at = 0; local_at < ALIGNMENTS; local_at++) {
			wrong = run_misaligned(k, n, (recv_at + local_at) % SECONDS,
					       recv_at, local_at,
					       random_below(&rnd, ALIGNMENTS),
					       random_below(&rnd, ALIGNMENTS),
					       &rnd);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

static const char *check_large(const struct ar_reduce_kernel *k,
			       size_t vector_bytes)
{
	static const size_t lengths[] = { 1000, 16384, 65537, (1 << 18) + 3 };
	uint64_t rnd = 3;
	const char *wrong;
	size_t i;
	int second;

	(void)vector_bytes;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (second = 0; second < SECONDS; second++) {
			wrong = run_misaligned(k, lengths[i], second, 5, 8, 0, 16,
					       &rnd);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

/* ---- NaN, infinities, denormals, signed zeros, wrapping ------------------------ */

/*
 * Every special value with every other, in every lane of a vector and in the
 * scalar tail: a prefix of growing length moves the pairs along.
 */
static const char *check_special(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t bytes = element_bytes(k), pairs = SPECIALS * SPECIALS;
	size_t most = UNROLL * vector_bytes / bytes, shift, i;
	size_t room = (pairs + most) * bytes;
	u8 *memory = calloc(4, room);
	const char *wrong = NULL;
	struct call c = {
		.recv = memory, .local = memory + room,
		.dst = memory + 2 * room, .dst2 = memory + 3 * room,
	};
	int second;

	if (!memory)
		return WRONG("out of memory");
	for (shift = 0; !wrong && shift < most; shift++) {
		for (second = 0; !wrong && second < SECONDS; second++) {
			memset(memory, 0, 4 * room);
			for (i = 0; i < pairs; i++) {
				put_special(c.recv + (shift + i) * bytes, bytes,
					    i / SPECIALS);
				put_special(c.local + (shift + i) * bytes, bytes,
					    i % SPECIALS);
			}
			c.n = shift + pairs;
			c.second = second;
			wrong = run(k, &c);
		}
	}
	free(memory);
	return wrong;
}

/* ---- no access outside --------------------------------------------------------- */

/* Pages between two that can't be accessed. */
struct arena {
	u8 *map;
	u8 *start;
	u8 *end;
	size_t total;
};

static bool arena_make(struct arena *a, size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t inner = (bytes + page - 1) / page * page + page;

	a->total = inner + 2 * page;
	a->map = mmap(NULL, a->total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (a->map == MAP_FAILED)
		return false;
	a->start = a->map + page;
	a->end = a->start + inner;
	if (mprotect(a->start, inner, PROT_READ | PROT_WRITE)) {
		munmap(a->map, a->total);
		return false;
	}
	return true;
}

/*
 * All buffers end at the end of a mapped page, or begin at its beginning: one
 * byte outside, read or written, is a SIGSEGV in any build.
 */
static const char *check_page_edges(const struct ar_reduce_kernel *k,
				    size_t vector_bytes)
{
	size_t bytes = element_bytes(k);
	size_t most = 2 * UNROLL * vector_bytes / bytes + 1, n, i;
	struct arena arenas[4];
	const char *wrong = NULL;
	uint64_t rnd = 4;
	int second, at_end;

	for (i = 0; i < 4; i++) {
		if (arena_make(&arenas[i], most * bytes))
			continue;
		while (i--)
			munmap(arenas[i].map, arenas[i].total);
		return WRONG("out of memory");
	}
	for (n = 0; !wrong && n <= most; n++) {
		for (second = 0; !wrong && second < 2 * SECONDS; second++) {
			struct call c = { .n = n, .second = second / 2 };
			u8 *p[4];

			at_end = second % 2;
			for (i = 0; i < 4; i++)
				p[i] = at_end ? arenas[i].end - n * bytes :
				       arenas[i].start;
			c.recv = p[0];
			c.local = p[1];
			c.dst = p[2];
			c.dst2 = p[3];
			fill(c.recv, n, bytes, &rnd);
			fill(c.local, n, bytes, &rnd);
			wrong = run(k, &c);
		}
	}
	for (i = 0; i < 4; i++)
		munmap(arenas[i].map, arenas[i].total);
	return wrong;
}

/* ---- the table ------------------------------------------------------------------ */

static size_t rows_of(const struct ar_reduce_isa *isa, u8 type, u8 op)
{
	const struct ar_reduce_kernel *k;
	size_t n = 0;

	for (k = isa->kernels; k->fn; k++)
		n += k->type == type && k->op == op;
	return n;
}

const char *reduce_check_table(const struct ar_reduce_isa *isa)
{
	static const u8 types[] = {
#define X(NAME, name, value, bytes)	ALLREDUCE_##NAME,
		ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	};
	static const u8 ops[] = {
#define X(NAME, name, value)	ALLREDUCE_##NAME,
		ALLREDUCE_FOR_EACH_OP(X)
#undef X
	};
	const struct ar_reduce_kernel *k;
	size_t t, o, rows = 0, n;

	for (k = isa->kernels; k->fn; k++)
		rows++;
	for (t = 0; t < sizeof(types); t++) {
		for (o = 0; o < sizeof(ops); o++) {
			n = rows_of(isa, types[t], ops[o]);
			if (n != 1)
				return WRONG("%s: type %u op %u has %zu rows",
					     isa->name, types[t], ops[o], n);
		}
	}
	if (rows != sizeof(types) * sizeof(ops))
		return WRONG("%s: %zu rows, want %zu", isa->name, rows,
			     sizeof(types) * sizeof(ops));
	return NULL;
}

const char *reduce_check_type_name(const struct ar_reduce_kernel *k)
{
	switch (k->type) {
#define X(NAME, name, value, bytes)	case ALLREDUCE_##NAME: return #name;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return "?";
}

const char *reduce_check_op_name(const struct ar_reduce_kernel *k)
{
	switch (k->op) {
#define X(NAME, name, value)	case ALLREDUCE_##NAME: return #name;
	ALLREDUCE_FOR_EACH_OP(X)
#undef X
	}
	return "?";
}

const struct reduce_check reduce_checks[] = {
	{ "lengths", check_lengths },
	{ "alignment_pairs", check_alignment_pairs },
	{ "large", check_large },
	{ "special", check_special },
	{ "page_edges", check_page_edges },
	{ NULL, NULL },
};
