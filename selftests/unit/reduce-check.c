// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/allreduce.h>

#include "random.h"
#include "reduce-check.h"
#include "reduce-reference.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

#define UNROLL		4	/* vectors in one turn of the loops */
#define ALIGNMENTS	64
#define GUARD		64	/* bytes that must stay as they are */
#define GUARD_BYTE	0xc3

static char why[512];

#define WRONG(...)	(snprintf(why, sizeof(why), __VA_ARGS__), why)

/* ---- elements --------------------------------------------------------------- */

static u64 get(const u8 *p, size_t bytes)
{
	u64 bits = 0;

	memcpy(&bits, p, bytes);	/* little-endian, as the loops */
	return bits;
}

static void put(u8 *p, size_t bytes, u64 bits)
{
	memcpy(p, &bits, bytes);
}

/* Integers take the bits of the floats of their width, which do no harm. */
static const u64 special8[] = {
	0x00, 0x01, 0x02, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x55, 0xaa,
};

static const u64 special_f16[] = {
	0x0000, 0x8000,				/* zeros */
	0x0001, 0x8001, 0x03ff, 0x83ff,		/* smallest, largest denormals */
	0x0400, 0x8400,				/* smallest normals */
	0x7bff, 0xfbff,				/* largest */
	0x7c00, 0xfc00,				/* infinities */
	0x7e00, 0xfe00, 0x7e5a, 0xffff,		/* quiet NaNs */
	0x7c01, 0xfd55,				/* signaling NaNs */
	0x3c00, 0xbc00, 0x1000, 0x1001,		/* 1, -1, 2^-11: rounds to even */
	0x4c00, 0x3bff, 0x3555, 0x7800,		/* 16, just below 1, 1/3, 2^15 */
};

static const u64 special_bf16[] = {
	0x0000, 0x8000,
	0x0001, 0x8001, 0x007f, 0x807f,
	0x0080, 0x8080,
	0x7f7f, 0xff7f,
	0x7f80, 0xff80,
	0x7fc0, 0xffc0, 0x7fda, 0xffff,
	0x7f81, 0xffa5,
	0x3f80, 0xbf80, 0x3b80, 0x3b81,
	0x4180, 0x3f7f, 0x3eab, 0x7f00,
};

static const u64 special32[] = {
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
	0x1fffffff, 0x5f800000,			/* with an odd product; 2^64 */
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
	/* halves that compare the other way round than the whole */
	0x00000001ffffffff, 0x0000000200000000, 0x80000000ffffffff,
};

static const u64 *specials_of(u8 type, size_t *count)
{
	switch (type) {
	case ALLREDUCE_F16:
		*count = COUNT(special_f16);
		return special_f16;
	case ALLREDUCE_BF16:
		*count = COUNT(special_bf16);
		return special_bf16;
	}
	switch (reduce_element_bytes(type)) {
	case 1:
		*count = COUNT(special8);
		return special8;
	case 4:
		*count = COUNT(special32);
		return special32;
	case 8:
		*count = COUNT(special64);
		return special64;
	}
	abort();
}

/* One element in four is a special value, the others are any bits. */
static void fill(const struct ar_reduce_kernel *k, u8 *p, size_t n,
		 uint64_t *rnd)
{
	size_t bytes = reduce_element_bytes(k->type), count;
	const u64 *special = specials_of(k->type, &count);

	for (; n; n--, p += bytes) {
		u64 bits = random_u64(rnd);

		put(p, bytes, random_below(rnd, 4) ? bits : special[bits % count]);
	}
}

/* Sizes of a ring, and beyond what a ring can have. */
static const u32 divisors[] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
	22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,
	40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57,
	58, 59, 60, 61, 62, 63, 64, 65, 100, 127, 128, 129, 255, 256, 641, 65535,
	65537, 16777217, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
};

_Static_assert(ALLREDUCE_SIZE_MAX == 64, "divisors has every size of a ring");

/* Bits of f64, as factors are given. */
static const u64 factors[] = {
	0x3ff0000000000000, 0xbff0000000000000,	/* 1, -1 */
	0x3fe0000000000000, 0x4008000000000000,	/* 0.5, 3 */
	0x3fd5555555555555, 0xbfb999999999999a,	/* 1/3, -0.1 */
	0x408f400000000000, 0x40f0000000000000,	/* 1000, 2^16 */
	0x3f10000000000000, 0x3e70000000000000,	/* 2^-14, 2^-24 */
	0x3e68000000000000,			/* 1.5 * 2^-25 */
	0x3ff0000020000000, 0x3ff0000010000000,	/* 1 + 2^-23, 1 + 2^-24, */
	0x3ff0000010000001, 0x3ff0000030000000,	/* where f32 has to round */
	0x47e0000000000000, 0x3810000000000000,	/* 2^127, 2^-126 */
	0x36a0000000000000,			/* 2^-149 */
	0x7e37e43c8800759c, 0x01a56e1fc2f8f359,	/* 1e300, 1e-300 */
	0x0000000000000000, 0x8000000000000000,	/* 0, -0 */
	0x7ff0000000000000, 0xfff0000000000000,	/* infinities */
	0x7ff8000000000000, 0xfff8000000000000,	/* quiet NaNs */
	0x7ff0000000000001, 0xfff0000020000000,	/* signaling NaNs */
	0x7ff7ffffffffffff,
	0x7ff8123456789abc,			/* payload too long for f32 */
};

/* ---- one call ---------------------------------------------------------------- */

enum what { REDUCE, DIVIDE, SCALE };
enum second { SECOND_NONE, SECOND_APART, SECOND_LOCAL };

/* The ways in which a loop can be called. */
static const struct mode {
	enum what what;
	bool in_place;		/* dst is recv, or the source */
	enum second second;
	const char *name;
} modes[] = {
	{ REDUCE, false, SECOND_NONE, "reduce" },
	{ REDUCE, false, SECOND_APART, "reduce, dst2" },
	{ REDUCE, false, SECOND_LOCAL, "reduce, dst2 local" },
	{ REDUCE, true, SECOND_NONE, "reduce, dst recv" },
	{ REDUCE, true, SECOND_APART, "reduce, dst recv, dst2" },
	{ REDUCE, true, SECOND_LOCAL, "reduce, dst recv, dst2 local" },
	{ DIVIDE, false, SECOND_NONE, "divide" },
	{ DIVIDE, false, SECOND_APART, "divide, dst2" },
	{ DIVIDE, true, SECOND_NONE, "divide, dst src" },
	{ DIVIDE, true, SECOND_APART, "divide, dst src, dst2" },
	{ SCALE, false, SECOND_NONE, "scale" },
	{ SCALE, true, SECOND_NONE, "scale, dst src" },
};

static bool has_mode(const struct ar_reduce_kernel *k, const struct mode *mode)
{
	return mode->what == REDUCE ||
	       (mode->what == DIVIDE ? !!k->divide : !!k->scale);
}

/* Mode number @turn of those that the row has, going around. */
static const struct mode *mode_of(const struct ar_reduce_kernel *k, size_t turn)
{
	size_t count = 0, i;

	for (i = 0; i < COUNT(modes); i++)
		count += has_mode(k, &modes[i]);
	turn %= count;
	for (i = 0; i < COUNT(modes); i++) {
		if (has_mode(k, &modes[i]) && !turn--)
			return &modes[i];
	}
	abort();
}

/* What a call reads and writes: n elements each, anywhere. */
struct call {
	u8 *recv;	/* the source of the others */
	u8 *local;	/* read by REDUCE only */
	u8 *dst;	/* not used in place */
	u8 *dst2;	/* used by SECOND_APART only */
	size_t n;
	const struct mode *mode;
	u32 divisor;
	u64 factor;
};

static const char *compare(const struct ar_reduce_kernel *k,
			   const struct call *c, const char *what,
			   const u8 *got, const u8 *want, const u8 *recv,
			   const u8 *local)
{
	size_t bytes = reduce_element_bytes(k->type), at, total = c->n * bytes;

	if (!total || !memcmp(got, want, total))
		return NULL;
	for (at = 0; !memcmp(got + at, want + at, bytes); at += bytes)
		;
	return WRONG("%s: %s[%zu] of %zu is %llx, want %llx (%llx, %llx, divisor %u, factor %llx)",
		     c->mode->name, what, at / bytes, c->n,
		     (unsigned long long)get(got + at, bytes),
		     (unsigned long long)get(want + at, bytes),
		     (unsigned long long)get(recv + at, bytes),
		     (unsigned long long)get(local + at, bytes), c->divisor,
		     (unsigned long long)c->factor);
}

static void expect(const struct ar_reduce_kernel *k, const struct call *c,
		   u8 *want)
{
	size_t bytes = reduce_element_bytes(k->type), at;
	struct reduce_reference r;

	if (!reduce_reference(&r, k->type, k->op))
		abort();
	for (at = 0; at < c->n * bytes; at += bytes) {
		u64 x = get(c->recv + at, bytes);

		switch (c->mode->what) {
		case REDUCE:
			x = r.reduce(x, get(c->local + at, bytes));
			break;
		case DIVIDE:
			x = r.divide(x, c->divisor);
			break;
		case SCALE:
			x = r.scale(x, c->factor);
			break;
		}
		put(want + at, bytes, x);
	}
}

static void call_loop(const struct ar_reduce_kernel *k, const struct call *c,
		      u8 *dst, u8 *dst2)
{
	switch (c->mode->what) {
	case REDUCE:
		k->reduce(dst, dst2, c->recv, c->local, c->n);
		break;
	case DIVIDE:
		k->divide(dst, dst2, c->recv, c->n, c->divisor);
		break;
	case SCALE:
		k->scale(dst, c->recv, c->n, c->factor);
		break;
	}
}

static const char *run(const struct ar_reduce_kernel *k, const struct call *c)
{
	size_t bytes = c->n * reduce_element_bytes(k->type);
	u8 *want = malloc(3 * bytes + 1);
	u8 *recv = want + bytes, *local = recv + bytes;
	u8 *dst = c->mode->in_place ? c->recv : c->dst;
	u8 *dst2 = c->mode->second == SECOND_NONE ? NULL :
		   c->mode->second == SECOND_APART ? c->dst2 : c->local;
	const char *wrong;

	if (!want)
		return WRONG("out of memory");
	if (bytes) {
		memcpy(recv, c->recv, bytes);
		memcpy(local, c->local, bytes);
	}
	expect(k, c, want);

	call_loop(k, c, dst, dst2);

	wrong = compare(k, c, "dst", dst, want, recv, local);
	if (!wrong && dst2)
		wrong = compare(k, c, "dst2", dst2, want, recv, local);
	if (!wrong && dst != c->recv)
		wrong = compare(k, c, "recv", c->recv, recv, recv, local);
	if (!wrong && dst2 != c->local)
		wrong = compare(k, c, "local", c->local, local, recv, local);
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
	static u8 guard[2 * ALIGNMENTS];
	size_t before = p - (const u8 *)base;
	const u8 *g;

	memset(guard, GUARD_BYTE, sizeof(guard));
	if (!memcmp(base, guard, before) && !memcmp(p + bytes, guard, GUARD))
		return NULL;
	for (g = base; g < p + bytes + GUARD; g++) {
		if (g == p)
			g += bytes;
		if (*g != GUARD_BYTE)
			return WRONG("byte %td from %s of %zu bytes was written",
				     g - p, what, bytes);
	}
	return NULL;
}

enum { RECV, LOCAL, DST, DST2, BUFFERS };

static const char *const buffer_names[] = { "recv", "local", "dst", "dst2" };

/* Does the call write there? */
static bool is_output(const struct mode *mode, int buffer)
{
	switch (buffer) {
	case RECV:
		return mode->in_place;
	case LOCAL:
		return mode->second == SECOND_LOCAL;
	case DST:
		return !mode->in_place;
	default:
		return mode->second == SECOND_APART;
	}
}

static const char *run_misaligned(const struct ar_reduce_kernel *k, size_t n,
				  const struct mode *mode,
				  const size_t at[BUFFERS], uint64_t *rnd)
{
	size_t bytes = n * reduce_element_bytes(k->type);
	void *base[BUFFERS] = { NULL };
	u8 *p[BUFFERS] = { NULL };
	struct call c = {
		.n = n, .mode = mode,
		.divisor = divisors[random_below(rnd, COUNT(divisors))],
		.factor = factors[random_below(rnd, COUNT(factors))],
	};
	const char *wrong;
	char text[384];
	int i;

	for (i = 0; i < BUFFERS; i++) {
		if (is_output(mode, i))
			p[i] = output(&base[i], bytes, at[i]);
		else if (i == RECV || i == LOCAL)
			p[i] = input(&base[i], bytes, at[i]);
	}
	fill(k, p[RECV], n, rnd);
	fill(k, p[LOCAL], n, rnd);
	c.recv = p[RECV];
	c.local = p[LOCAL];
	c.dst = p[DST];
	c.dst2 = p[DST2];

	wrong = run(k, &c);
	for (i = 0; i < BUFFERS; i++) {
		if (!wrong && is_output(mode, i))
			wrong = check_guards(base[i], p[i], bytes,
					     buffer_names[i]);
		free(base[i]);
	}
	if (!wrong)
		return NULL;
	snprintf(text, sizeof(text), "%.383s", wrong);
	return WRONG("%s (n %zu; misaligned recv %zu local %zu dst %zu dst2 %zu)",
		     text, n, at[RECV], at[LOCAL], at[DST], at[DST2]);
}

/* Until behind the second turn of the unrolled loop. */
static size_t lengths_of(const struct ar_reduce_kernel *k, size_t vector_bytes)
{
	return 2 * UNROLL * vector_bytes / reduce_element_bytes(k->type) + 1;
}

static const char *check_lengths(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t most = lengths_of(k, vector_bytes), n, i, turn;
	uint64_t rnd = 1;
	const char *wrong;

	for (n = 0; n <= most; n++) {
		for (turn = 0; turn < COUNT(modes); turn++) {
			size_t at[BUFFERS];

			for (i = 0; i < BUFFERS; i++)
				at[i] = random_below(&rnd, ALIGNMENTS);
			wrong = run_misaligned(k, n, mode_of(k, turn), at, &rnd);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

/*
 * A third of all pairs of misalignments of what is read, and of what is written,
 * at a length that uses each loop.
 */
static const char *check_alignments(const struct ar_reduce_kernel *k,
				    size_t vector_bytes)
{
	size_t n = (UNROLL + 1) * vector_bytes / reduce_element_bytes(k->type) + 1;
	size_t i, j;
	uint64_t rnd = 2;
	const char *wrong;

	for (i = 0; i < ALIGNMENTS; i++) {
		for (j = i % 3; j < ALIGNMENTS; j += 3) {
			const size_t at[BUFFERS] = {
				i, j, (i + j) % ALIGNMENTS,
				(i + 2 * j) % ALIGNMENTS,
			};
			const struct mode *mode =
				mode_of(k, random_below(&rnd, COUNT(modes)));

			wrong = run_misaligned(k, n, mode, at, &rnd);
			if (wrong)
				return wrong;
		}
	}
	return NULL;
}

static const char *check_large(const struct ar_reduce_kernel *k,
			       size_t vector_bytes)
{
	static const size_t lengths[] = { 1000, 16384, 65537 };
	static const size_t at[BUFFERS] = { 5, 8, 0, 16 };
	uint64_t rnd = 3;
	const char *wrong;
	size_t i;

	(void)vector_bytes;
	for (i = 0; i < COUNT(lengths); i++) {
		wrong = run_misaligned(k, lengths[i], mode_of(k, 3 * i), at,
				       &rnd);
		if (wrong)
			return wrong;
	}
	return NULL;
}

/* ---- NaN, infinities, denormals, signed zeros, wrapping ------------------------ */

/* Four vectors of elements, not too near to each other, for large calls. */
static bool call_alloc(struct call *c, size_t bytes)
{
	u8 *memory = calloc(4, bytes);

	if (!memory)
		return false;
	c->recv = memory;
	c->local = memory + bytes;
	c->dst = memory + 2 * bytes;
	c->dst2 = memory + 3 * bytes;
	return true;
}

static void call_free(struct call *c)
{
	free(c->recv);
}

/*
 * Every special value with every other, in every lane of a vector and in the
 * rest: a prefix of growing length moves the pairs along.
 */
static const char *check_special(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t bytes = reduce_element_bytes(k->type), count, shift, i, turn;
	const u64 *special = specials_of(k->type, &count);
	size_t pairs = count * count, most = UNROLL * vector_bytes / bytes;
	const char *wrong = NULL;
	struct call c = { 0 };

	if (!call_alloc(&c, (pairs + most) * bytes))
		return WRONG("out of memory");
	for (shift = 0; !wrong && shift < most; shift++) {
		for (turn = 0; !wrong && turn < 3; turn++) {
			memset(c.recv, 0, 4 * (pairs + most) * bytes);
			for (i = 0; i < pairs; i++) {
				put(c.recv + (shift + i) * bytes, bytes,
				    special[i / count]);
				put(c.local + (shift + i) * bytes, bytes,
				    special[i % count]);
			}
			c.n = shift + pairs;
			c.mode = mode_of(k, 3 * shift + turn);
			c.divisor = divisors[(3 * shift + turn) % COUNT(divisors)];
			c.factor = factors[(3 * shift + turn) % COUNT(factors)];
			wrong = run(k, &c);
		}
	}
	call_free(&c);
	return wrong;
}

static bool sums_narrow(const struct ar_reduce_kernel *k)
{
	return reduce_is_narrow(k->type) && !k->divide && !k->scale;
}

/*
 * All f16 or bf16 with every special one, on alternating sides: among them zero
 * and one, so that each value goes there and back without change.
 */
static const char *check_all_values(const struct ar_reduce_kernel *k,
				    size_t vector_bytes)
{
	size_t count, i, s;
	const u64 *special = specials_of(k->type, &count);
	const char *wrong = NULL;
	struct call c = { .n = 65536 };

	(void)vector_bytes;
	if (!call_alloc(&c, 2 * c.n))
		return WRONG("out of memory");
	for (s = 0; s < count && !wrong; s++) {
		u8 *all = s % 2 ? c.recv : c.local;
		u8 *one = s % 2 ? c.local : c.recv;

		for (i = 0; i < c.n; i++) {
			put(all + 2 * i, 2, i);
			put(one + 2 * i, 2, special[s]);
		}
		c.mode = mode_of(k, 0);
		wrong = run(k, &c);
	}
	call_free(&c);
	return wrong;
}

/* ---- what only avg has --------------------------------------------------------- */

static bool has_divide(const struct ar_reduce_kernel *k)
{
	return k->divide;
}

static const struct mode *mode_named(enum what what)
{
	size_t i;

	for (i = 0; modes[i].what != what; i++)
		;
	return &modes[i];
}

/* Multiples of the divisor, and their neighbours: where quotients step. */
static void fill_steps(const struct ar_reduce_kernel *k, u8 *p, size_t n,
		       u32 divisor, uint64_t *rnd)
{
	size_t bytes = reduce_element_bytes(k->type);

	for (; n; n--, p += bytes) {
		u64 x = random_u64(rnd) >> random_below(rnd, 64);

		put(p, bytes, x / divisor * divisor + random_below(rnd, 3) - 1);
	}
}

#define DIVIDENDS	1024

/* All values of a type: where there are few, or now and then. */
static bool divides_all(size_t bytes, u32 divisor)
{
	return bytes == 1 || (bytes == 2 && divisor % 9 == 3);
}

/* Every size of a ring, and divisors beyond, on edges and on many others. */
static const char *check_divide(const struct ar_reduce_kernel *k,
				size_t vector_bytes)
{
	size_t bytes = reduce_element_bytes(k->type), count, i, j;
	const u64 *special = specials_of(k->type, &count);
	struct call c = { .mode = mode_named(DIVIDE) };
	const char *wrong = NULL;
	uint64_t rnd = 5;

	(void)vector_bytes;
	if (!call_alloc(&c, 65536 * bytes))
		return WRONG("out of memory");
	for (i = 0; i < COUNT(divisors) && !wrong; i++) {
		c.divisor = divisors[i];
		c.n = DIVIDENDS;
		if (divides_all(bytes, c.divisor)) {
			c.n = 1 << 8 * bytes;
			for (j = 0; j < c.n; j++)
				put(c.recv + j * bytes, bytes, j);
		} else {
			fill_steps(k, c.recv, c.n, c.divisor, &rnd);
			for (j = 0; j < count; j++)
				put(c.recv + j * bytes, bytes, special[j]);
		}
		wrong = run(k, &c);
	}
	call_free(&c);
	return wrong;
}

/* ---- what only premulsum has --------------------------------------------------- */

static bool has_scale(const struct ar_reduce_kernel *k)
{
	return k->scale;
}

static const char *check_factors(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t bytes = reduce_element_bytes(k->type), count, i, j;
	const u64 *special = specials_of(k->type, &count);
	struct call c = { .mode = mode_named(SCALE) };
	const char *wrong = NULL;
	uint64_t rnd = 6;

	(void)vector_bytes;
	c.n = bytes == 2 ? 65536 : 4096;
	if (!call_alloc(&c, c.n * bytes))
		return WRONG("out of memory");
	for (i = 0; i < COUNT(factors) && !wrong; i++) {
		c.factor = factors[i];
		for (j = 0; j < c.n; j++)
			put(c.recv + j * bytes, bytes, bytes == 2 ? j :
			    j < count ? special[j] : random_u64(&rnd));
		wrong = run(k, &c);
	}
	call_free(&c);
	return wrong;
}

static bool scales_narrow(const struct ar_reduce_kernel *k)
{
	return reduce_is_narrow(k->type) && k->scale;
}

static const char *check_product_of_one(const struct ar_reduce_kernel *k,
					struct call *c, double factor)
{
	const char *wrong;

	memcpy(&c->factor, &factor, sizeof(factor));
	wrong = run(k, c);
	if (wrong)
		return wrong;
	factor = -factor;
	memcpy(&c->factor, &factor, sizeof(factor));
	return run(k, c);
}

/*
 * The product of a factor and 1 is any f32 we like: halfway between two
 * neighbours, for all pairs of neighbours, and the next f32 on both sides.
 */
static const char *check_halfway(const struct ar_reduce_kernel *k,
				 size_t vector_bytes)
{
	size_t n = vector_bytes / 2 + 1, i;
	struct call c = { .n = n, .mode = mode_named(SCALE) };
	const char *wrong = NULL;
	u64 bits;

	if (!call_alloc(&c, 2 * n))
		return WRONG("out of memory");
	for (i = 0; i < n; i++)
		put(c.recv + 2 * i, 2, k->type == ALLREDUCE_F16 ? 0x3c00 : 0x3f80);
	for (bits = 0; bits < reduce_narrow_inf(k->type) && !wrong; bits++) {
		double halfway = (reduce_narrow_value(k->type, bits) +
				  reduce_narrow_value(k->type, bits + 1)) / 2;

		wrong = check_product_of_one(k, &c, halfway);
		if (!wrong)
			wrong = check_product_of_one(k, &c,
						     nextafterf(halfway, 0));
		if (!wrong)
			wrong = check_product_of_one(k, &c,
						     nextafterf(halfway,
								INFINITY));
	}
	call_free(&c);
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
	size_t bytes = reduce_element_bytes(k->type);
	size_t most = lengths_of(k, vector_bytes), n, i, turn;
	struct arena arenas[BUFFERS];
	const char *wrong = NULL;
	uint64_t rnd = 4;

	for (i = 0; i < BUFFERS; i++) {
		if (arena_make(&arenas[i], most * bytes))
			continue;
		while (i--)
			munmap(arenas[i].map, arenas[i].total);
		return WRONG("out of memory");
	}
	for (n = 0; !wrong && n <= most; n++) {
		for (turn = 0; !wrong && turn < 2 * COUNT(modes); turn++) {
			struct call c = {
				.n = n, .mode = mode_of(k, turn / 2),
				.divisor = 3, .factor = factors[3],
			};
			u8 *p[BUFFERS];

			for (i = 0; i < BUFFERS; i++)
				p[i] = turn % 2 ? arenas[i].end - n * bytes :
				       arenas[i].start;
			c.recv = p[RECV];
			c.local = p[LOCAL];
			c.dst = p[DST];
			c.dst2 = p[DST2];
			fill(k, c.recv, n, &rnd);
			fill(k, c.local, n, &rnd);
			wrong = run(k, &c);
		}
	}
	for (i = 0; i < BUFFERS; i++)
		munmap(arenas[i].map, arenas[i].total);
	return wrong;
}

/* ---- the table ------------------------------------------------------------------ */

/* The pairs of the uapi header, row by row. */
static const struct {
	u8 type;
	bool integer;
} types[] = {
#define X(NAME, name, value, bytes)	{ ALLREDUCE_##NAME, false },
	ALLREDUCE_FOR_EACH_FLOAT(X)
#undef X
#define X(NAME, name, value, bytes)	{ ALLREDUCE_##NAME, true },
	ALLREDUCE_FOR_EACH_INTEGER(X)
#undef X
};

static const struct {
	u8 op;
	bool on_floats;
	bool on_integers;
} ops[] = {
#define X(NAME, name, value)	{ ALLREDUCE_##NAME, true, true },
	ALLREDUCE_FOR_EACH_ARITHMETIC_OP(X)
#undef X
#define X(NAME, name, value)	{ ALLREDUCE_##NAME, false, true },
	ALLREDUCE_FOR_EACH_BITWISE_OP(X)
#undef X
#define X(NAME, name, value)	{ ALLREDUCE_##NAME, true, false },
	ALLREDUCE_FOR_EACH_SCALED_OP(X)
#undef X
};

static size_t rows_of(const struct ar_reduce_isa *isa, u8 type, u8 op)
{
	const struct ar_reduce_kernel *k;
	size_t n = 0;

	for (k = isa->kernels; k->reduce; k++)
		n += k->type == type && k->op == op;
	return n;
}

/* Has the row a division and a factor if its reference has, and only then? */
static const char *check_row(const struct ar_reduce_isa *isa,
			     const struct ar_reduce_kernel *k)
{
	bool avg = k->op == ALLREDUCE_AVG;
	bool premulsum = k->op == ALLREDUCE_PREMULSUM;
	struct reduce_reference r;

	if (!reduce_reference(&r, k->type, k->op))
		return WRONG("%s: type %u op %u has no reference", isa->name,
			     k->type, k->op);
	if (!k->divide != !r.divide || !!k->divide != avg)
		return WRONG("%s: type %u op %u has %s division", isa->name,
			     k->type, k->op, k->divide ? "a" : "no");
	if (!k->scale != !r.scale || !!k->scale != premulsum)
		return WRONG("%s: type %u op %u has %s factor", isa->name,
			     k->type, k->op, k->scale ? "a" : "no");
	return NULL;
}

const char *reduce_check_table(const struct ar_reduce_isa *isa)
{
	const struct ar_reduce_kernel *k;
	size_t t, o, rows = 0, all = 0, n, want;
	const char *wrong;

	for (t = 0; t < COUNT(types); t++) {
		for (o = 0; o < COUNT(ops); o++) {
			want = types[t].integer ? ops[o].on_integers :
						  ops[o].on_floats;
			n = rows_of(isa, types[t].type, ops[o].op);
			if (n != want)
				return WRONG("%s: type %u op %u has %zu rows, want %zu",
					     isa->name, types[t].type, ops[o].op,
					     n, want);
			all += want;
		}
	}
	for (k = isa->kernels; k->reduce; k++) {
		wrong = check_row(isa, k);
		if (wrong)
			return wrong;
		rows++;
	}
	if (rows != all)
		return WRONG("%s: %zu rows, want %zu", isa->name, rows, all);
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
	{ "lengths", NULL, check_lengths },
	{ "alignments", NULL, check_alignments },
	{ "large", NULL, check_large },
	{ "special", NULL, check_special },
	{ "page_edges", NULL, check_page_edges },
	{ "all_values", sums_narrow, check_all_values },
	{ "divide", has_divide, check_divide },
	{ "factors", has_scale, check_factors },
	{ "halfway", scales_narrow, check_halfway },
	{ NULL, NULL, NULL },
};
