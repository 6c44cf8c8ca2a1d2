// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic is written for one element at a time, apart from the module's
 * loops, in the order and with the roundings that kmod/partition.h and
 * kmod/reduce.h lay down. All it shares with the module is where chunks end.
 */
#include <string.h>

#include "partition.h"
#include "reference.h"

/* Elements that are made at a time: bounds the memory of a check. */
#define BLOCK		2048

#define GOLDEN		0x9e3779b97f4a7c15ULL

/* One element of so many is special: see make_special(). */
#define SPECIAL_STEP	61

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/**
 * struct source - what a member's elements are made from
 * @key: of the member
 * @common: of the job, the same on all members
 * @op: enum allreduce_op, 0 if there is none
 * @signalling: make signalling NaNs too
 */
struct source {
	uint64_t key;
	uint64_t common;
	unsigned int op;
	bool signalling;
};

static struct source source_of(const struct job *job, unsigned int rank)
{
	struct source s = { .op = job->op };
	uint64_t key = mix(job->seed + GOLDEN);

	key = mix(key + job->count);
	key = mix(key + job->iteration);
	key = mix(key + job->size);
	key = mix(key + job->collective);
	key = mix(key + job->type);
	key = mix(key + job->op);
	key = mix(key + job->root);
	s.common = key;
	s.key = mix(key + 1 + rank);
	/* One member alone may copy instead of computing, which makes nothing quiet. */
	s.signalling = job->size > 1;
	return s;
}

/* ---- f16 and bf16 in terms of f32 ---------------------------------------- */

static inline uint32_t bits_of_float(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float float_of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline float f16_value(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f;
	uint32_t mantissa = h & 0x3ff;

	if (exponent == 0x1f)
		return float_of_bits(sign | 0x7f800000 | mantissa << 13);
	if (exponent)
		return float_of_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
	return sign ? -(mantissa * 0x1p-24f) : mantissa * 0x1p-24f;
}

/* @x is no NaN. */
static inline uint16_t f16_round(float x)
{
	uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffff;
	uint16_t sign = bits >> 16 & 0x8000;

	if (magnitude >= bits_of_float(0x1p16f))
		return sign | 0x7c00;
	if (magnitude >= bits_of_float(0x1p-14f)) {
		magnitude -= (127 - 15) << 23;
		magnitude += 0xfff + (magnitude >> 13 & 1);
		return sign | magnitude >> 13;
	}
	/* From 1/2 on, floats are as far apart as denormals of f16 are. */
	return sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f));
}

static inline float bf16_value(uint16_t b)
{
	return float_of_bits((uint32_t)b << 16);
}

/* @x is no NaN. */
static inline uint16_t bf16_round(float x)
{
	uint32_t bits = bits_of_float(x);

	return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static inline float f32_value(uint32_t bits)
{
	return float_of_bits(bits);
}

static inline uint32_t f32_round(float x)
{
	return bits_of_float(x);
}

static inline double f64_value(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint64_t f64_round(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* ---- floats --------------------------------------------------------------- */

/* The sign of a NaN that was made from numbers; kmod/reduce.h leaves it open. */
#if defined(__x86_64__)
#define NAN_SIGN	1
#else
#define NAN_SIGN	0
#endif

/**
 * struct format - of a float
 * @width: bits
 * @mantissa: bits of it
 * @bias: of the exponent
 * @low: exponents of what is summed begin at this power of 2
 * @span: and are so many
 */
struct format {
	unsigned int width;
	unsigned int mantissa;
	unsigned int bias;
	int low;
	unsigned int span;
};

/*
 * Random signs and mantissas, and exponents over so wide a range that almost
 * every addition rounds and the order of a sum shows in its bits; but sums of 64
 * stay finite. Products stay near 1.
 */
static inline uint64_t make_number(const struct format *f, unsigned int op, uint64_t h)
{
	int low = op == ALLREDUCE_PROD ? -1 : f->low;
	unsigned int span = op == ALLREDUCE_PROD ? 2 : f->span;
	uint64_t exponent = f->bias + low + ((h >> 52 & 0x7ff) * span >> 11);

	return (h >> 63) << (f->width - 1) | exponent << f->mantissa |
	       (h & ((1ULL << f->mantissa) - 1));
}

/*
 * Special values, at the same places on all members, so that their share of the
 * results does not depend on the number of members. Each such element has a
 * flavour on all of them: signed zeros, next to nothing, overflow, NaN.
 */
static uint64_t make_special(const struct format *f, const struct source *s,
			     uint64_t flavour, uint64_t h)
{
	uint64_t sign = (h >> 63) << (f->width - 1), payload = h >> 3;
	uint64_t inf = (1ULL << (f->width - 1)) - (1ULL << f->mantissa);
	uint64_t quiet = 1ULL << (f->mantissa - 1);

	payload &= quiet - 1;
	switch (flavour & 3) {
	case 0:
		return sign;
	case 1:
		return h & 1 ? sign : sign | payload;
	case 2:
		if (h & 1)
			return sign | (h & 2 ? inf : inf - 1);
		break;
	case 3:
		if (h & 1)
			return sign | inf | (h & 2 && s->signalling ? payload | 1 :
								      payload | quiet);
		if (h & 2)
			return sign | inf;
		break;
	}
	return make_number(f, s->op, h);
}

/* A NaN of an f64, truncated to a format. */
static uint64_t nan_of_f64(const struct format *f, uint64_t bits)
{
	uint64_t inf = (1ULL << (f->width - 1)) - (1ULL << f->mantissa);

	return (bits >> 63) << (f->width - 1) | inf | 1ULL << (f->mantissa - 1) |
	       (bits & 0xfffffffffffffULL) >> (52 - f->mantissa);
}

#define DEFINE_FLOAT(name, bits_t, value_t) \
static inline bool name##_is_nan(bits_t a) \
{ \
	return name##_value(a) != name##_value(a); \
} \
\
/* What a NaN comes from: the left one, the right one, or no NaN at all. */ \
static bits_t name##_nan(bits_t a, bits_t b) \
{ \
	const struct format *f = &format_##name; \
	bits_t quiet = (bits_t)1 << (f->mantissa - 1); \
\
	if (name##_is_nan(a)) \
		return a | quiet; \
	if (name##_is_nan(b)) \
		return b | quiet; \
	return nan_of_f64(f, (uint64_t)NAN_SIGN << 63 | 0x7ffULL << 52); \
} \
\
static inline bits_t name##_sum(bits_t a, bits_t b) \
{ \
	value_t r = name##_value(a) + name##_value(b); \
\
	return __builtin_expect(r != r, 0) ? name##_nan(a, b) : name##_round(r); \
} \
\
static inline bits_t name##_prod(bits_t a, bits_t b) \
{ \
	value_t r = name##_value(a) * name##_value(b); \
\
	return __builtin_expect(r != r, 0) ? name##_nan(a, b) : name##_round(r); \
} \
\
static inline bits_t name##_min(bits_t a, bits_t b) \
{ \
	value_t x = name##_value(a), y = name##_value(b); \
\
	if (x != x || y != y) \
		return name##_nan(a, b); \
	/* Only zeros of both signs are equal and not the same. */ \
	if (x == y) \
		return a | b; \
	return x < y ? a : b; \
} \
\
static inline bits_t name##_max(bits_t a, bits_t b) \
{ \
	value_t x = name##_value(a), y = name##_value(b); \
\
	if (x != x || y != y) \
		return name##_nan(a, b); \
	if (x == y) \
		return a & b; \
	return x > y ? a : b; \
} \
\
static inline bits_t name##_quotient(bits_t a, unsigned int divisor) \
{ \
	value_t r = name##_value(a) / (value_t)divisor; \
\
	return __builtin_expect(r != r, 0) ? name##_nan(a, a) : name##_round(r); \
} \
\
static inline bits_t name##_scaled(bits_t a, uint64_t factor) \
{ \
	value_t r = name##_value(a) * (value_t)f64_value(factor); \
\
	if (__builtin_expect(r == r, 1)) \
		return name##_round(r); \
	if (!name##_is_nan(a) && f64_value(factor) != f64_value(factor)) \
		return nan_of_f64(&format_##name, factor); \
	return name##_nan(a, a); \
} \
\
static inline bits_t name##_make(const struct source *s, uint64_t h) \
{ \
	return make_number(&format_##name, s->op, h); \
} \
\
static inline bits_t name##_make_special(const struct source *s, uint64_t flavour, \
					 uint64_t h) \
{ \
	return make_special(&format_##name, s, flavour, h); \
}

static const struct format format_f32 = { 32, 23, 127, -8, 17 };
static const struct format format_f64 = { 64, 52, 1023, -16, 33 };
static const struct format format_f16 = { 16, 10, 15, -12, 15 };
static const struct format format_bf16 = { 16, 7, 127, -4, 9 };

DEFINE_FLOAT(f32, uint32_t, float)
DEFINE_FLOAT(f64, uint64_t, double)
DEFINE_FLOAT(f16, uint16_t, float)
DEFINE_FLOAT(bf16, uint16_t, float)

/* ---- integers ------------------------------------------------------------- */

static inline uint64_t rotate(uint64_t h, unsigned int n)
{
	return h << n | h >> (64 - n);
}

/*
 * Over the full range; but where many even factors, or many bits of either kind,
 * would soon leave nothing to see in the result, there are few of these.
 */
static inline uint64_t make_integer(const struct source *s, uint64_t h)
{
	switch (s->op) {
	case ALLREDUCE_PROD:
		return h >> 61 ? h | 1 : h;
	case ALLREDUCE_BAND:
		return h | rotate(h, 21) | rotate(h, 42);
	case ALLREDUCE_BOR:
		return h & rotate(h, 21) & rotate(h, 42);
	}
	return h;
}

/* The ends of the range, and what is around 0, for @width bits. */
static uint64_t make_special_integer(unsigned int width, uint64_t h)
{
	uint64_t top = 1ULL << (width - 1);

	switch (h & 7) {
	case 0:
		return top;
	case 1:
		return top - 1;
	case 2:
		return top + 1;
	case 3:
		return 0;
	case 4:
		return 1;
	case 5:
		return -1ULL;
	}
	return h >> 3;
}

/* Sums and products are made unsigned, since they wrap. */
#define DEFINE_INTEGER(name, bits_t, value_t) \
static inline bits_t name##_sum(bits_t a, bits_t b)	{ return a + b; } \
static inline bits_t name##_prod(bits_t a, bits_t b)	{ return a * b; } \
static inline bits_t name##_band(bits_t a, bits_t b)	{ return a & b; } \
static inline bits_t name##_bor(bits_t a, bits_t b)	{ return a | b; } \
static inline bits_t name##_bxor(bits_t a, bits_t b)	{ return a ^ b; } \
\
static inline bits_t name##_min(bits_t a, bits_t b) \
{ \
	return (value_t)a < (value_t)b ? a : b; \
} \
\
static inline bits_t name##_max(bits_t a, bits_t b) \
{ \
	return (value_t)a > (value_t)b ? a : b; \
} \
\
static inline bits_t name##_quotient(bits_t a, unsigned int divisor) \
{ \
	return (value_t)a / (value_t)divisor; \
} \
\
static inline bits_t name##_make(const struct source *s, uint64_t h) \
{ \
	return make_integer(s, h); \
} \
\
static inline bits_t name##_make_special(const struct source *s, uint64_t flavour, \
					 uint64_t h) \
{ \
	(void)s; \
	(void)flavour; \
	return make_special_integer(8 * sizeof(bits_t), h); \
}

DEFINE_INTEGER(i8, uint8_t, int8_t)
DEFINE_INTEGER(u8, uint8_t, uint8_t)
DEFINE_INTEGER(i32, uint32_t, int32_t)
DEFINE_INTEGER(u32, uint32_t, uint32_t)
DEFINE_INTEGER(i64, uint64_t, int64_t)
DEFINE_INTEGER(u64, uint64_t, uint64_t)

/* ---- vectors -------------------------------------------------------------- */

/**
 * struct arithmetic - of a type, on vectors
 * @combine: acc = acc OP val, by enum allreduce_op, NULL where there is none
 * @fill: elements from @start on
 * @divide: by the number of members
 * @scale: by a factor, NULL where there is none
 */
struct arithmetic {
	void (*combine[ALLREDUCE_PREMULSUM + 1])(void *acc, const void *val, size_t n);
	void (*fill)(void *dst, const struct source *s, uint64_t start, size_t n);
	void (*divide)(void *acc, size_t n, unsigned int divisor);
	void (*scale)(void *acc, size_t n, uint64_t factor);
};

/* Special elements are those that leave this when divided by SPECIAL_STEP. */
static uint64_t first_special(const struct source *s, uint64_t start)
{
	uint64_t phase = s->common % SPECIAL_STEP, at = start % SPECIAL_STEP;

	return start + (phase + SPECIAL_STEP - at) % SPECIAL_STEP;
}

#define DEFINE_COMBINE(name, bits_t, op) \
static void combine_##name##_##op(void *acc, const void *val, size_t n) \
{ \
	const bits_t *v = val; \
	bits_t *a = acc; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		a[i] = name##_##op(a[i], v[i]); \
}

#define DEFINE_VECTORS(name, bits_t) \
DEFINE_COMBINE(name, bits_t, sum) \
DEFINE_COMBINE(name, bits_t, prod) \
DEFINE_COMBINE(name, bits_t, min) \
DEFINE_COMBINE(name, bits_t, max) \
\
static void divide_##name(void *acc, size_t n, unsigned int divisor) \
{ \
	bits_t *a = acc; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		a[i] = name##_quotient(a[i], divisor); \
} \
\
static void fill_##name(void *dst, const struct source *s, uint64_t start, size_t n) \
{ \
	bits_t *d = dst; \
	uint64_t at; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		d[i] = name##_make(s, mix(s->key + (start + i) * GOLDEN)); \
	for (at = first_special(s, start); at < start + n; at += SPECIAL_STEP) \
		d[at - start] = name##_make_special(s, mix(s->common + at), \
						    mix(s->key + at * GOLDEN)); \
}

#define COMMON_ROWS(name) \
	.combine[ALLREDUCE_SUM] = combine_##name##_sum, \
	.combine[ALLREDUCE_PROD] = combine_##name##_prod, \
	.combine[ALLREDUCE_MIN] = combine_##name##_min, \
	.combine[ALLREDUCE_MAX] = combine_##name##_max, \
	.combine[ALLREDUCE_AVG] = combine_##name##_sum, \
	.fill = fill_##name, \
	.divide = divide_##name,

#define DEFINE_FLOAT_VECTORS(name, bits_t) \
DEFINE_VECTORS(name, bits_t) \
static void scale_##name(void *acc, size_t n, uint64_t factor) \
{ \
	bits_t *a = acc; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		a[i] = name##_scaled(a[i], factor); \
} \
\
static const struct arithmetic arithmetic_##name = { \
	COMMON_ROWS(name) \
	.combine[ALLREDUCE_PREMULSUM] = combine_##name##_sum, \
	.scale = scale_##name, \
};

#define DEFINE_INTEGER_VECTORS(name, bits_t) \
DEFINE_VECTORS(name, bits_t) \
DEFINE_COMBINE(name, bits_t, band) \
DEFINE_COMBINE(name, bits_t, bor) \
DEFINE_COMBINE(name, bits_t, bxor) \
static const struct arithmetic arithmetic_##name = { \
	COMMON_ROWS(name) \
	.combine[ALLREDUCE_BAND] = combine_##name##_band, \
	.combine[ALLREDUCE_BOR] = combine_##name##_bor, \
	.combine[ALLREDUCE_BXOR] = combine_##name##_bxor, \
};

DEFINE_FLOAT_VECTORS(f32, uint32_t)
DEFINE_FLOAT_VECTORS(f64, uint64_t)
DEFINE_FLOAT_VECTORS(f16, uint16_t)
DEFINE_FLOAT_VECTORS(bf16, uint16_t)
DEFINE_INTEGER_VECTORS(i8, uint8_t)
DEFINE_INTEGER_VECTORS(u8, uint8_t)
DEFINE_INTEGER_VECTORS(i32, uint32_t)
DEFINE_INTEGER_VECTORS(u32, uint32_t)
DEFINE_INTEGER_VECTORS(i64, uint64_t)
DEFINE_INTEGER_VECTORS(u64, uint64_t)

static const struct arithmetic *arithmetic_of(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return &arithmetic_##name;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return NULL;
}

static unsigned int element_bytes(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return bytes;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return 0;
}

/* ---- jobs ----------------------------------------------------------------- */

bool reference_known(unsigned int type, unsigned int op)
{
	const struct arithmetic *arithmetic = arithmetic_of(type);

	return arithmetic && op <= ALLREDUCE_PREMULSUM && arithmetic->combine[op];
}

void reference_fill(const struct job *job, unsigned int rank, void *src)
{
	uint64_t n = job_buffers(job, rank).src;
	struct source s = source_of(job, rank);

	if (n)
		arithmetic_of(job->type)->fill(src, &s, 0, n);
}

/*
 * Mostly weights of random sign that f32 has to round; now and then what makes
 * zeros, Inf or NaN of a whole contribution.
 */
uint64_t reference_factor(const struct job *job, unsigned int rank)
{
	static const uint64_t special[] = {
		0x0000000000000000,	/* 0 */
		0x8000000000000000,	/* -0 */
		0x3ff0000000000000,	/* 1 */
		0x36a8000000000000,	/* a denormal of f32, after rounding */
		0x47effffff0000000,	/* more than f32 has: Inf there */
		0xfff0000000000000,	/* -Inf */
		0x7ff0012345678901,	/* a signalling NaN */
		0xfffc0aaaaaaaaaaa,	/* a quiet NaN */
	};
	struct source s = source_of(job, rank);
	uint64_t h = mix(s.key ^ GOLDEN);

	if (job->op != ALLREDUCE_PREMULSUM)
		return 0;
	if (!(h >> 58))
		return special[h & 7];
	return (h & 0x800fffffffffffffULL) | (1020 + (h >> 60 & 3)) << 52;
}

static uint64_t count_different(const void *a, const void *b, size_t n, size_t bytes)
{
	const char *p = a, *q = b;
	uint64_t different = 0;
	size_t i;

	if (!memcmp(a, b, n * bytes))
		return 0;
	for (i = 0; i < n; i++)
		different += !!memcmp(p + i * bytes, q + i * bytes, bytes);
	return different;
}

/* Room for BLOCK elements of any type. */
struct block {
	_Alignas(64) unsigned char bytes[BLOCK * sizeof(uint64_t)];
};

/* A member's elements as they go into the sum. */
static void contribute(const struct job *job, const struct source *s, unsigned int rank,
		       struct block *b, uint64_t start, size_t n)
{
	const struct arithmetic *arithmetic = arithmetic_of(job->type);

	arithmetic->fill(b->bytes, s, start, n);
	if (job->op == ALLREDUCE_PREMULSUM)
		arithmetic->scale(b->bytes, n, reference_factor(job, rank));
}

/* @n elements from @start on of what is summed, in the order of @owner's chunk. */
static void reduce_block(const struct job *job, unsigned int owner, struct block *acc,
			 uint64_t start, size_t n)
{
	const struct arithmetic *arithmetic = arithmetic_of(job->type);
	unsigned int rank = owner, i;
	struct block val;

	for (i = 0; i < job->size; i++) {
		struct source s;

		rank = ar_next(rank, job->size);
		s = source_of(job, rank);
		contribute(job, &s, rank, i ? &val : acc, start, n);
		if (i)
			arithmetic->combine[job->op](acc->bytes, val.bytes, n);
	}
	if (job->op == ALLREDUCE_AVG)
		arithmetic->divide(acc->bytes, n, job->size);
}

/* @dst has the sums of the elements from @start on, which @owner completes. */
static uint64_t check_reduced(const struct job *job, unsigned int owner, uint64_t start,
			      uint64_t count, const char *dst)
{
	unsigned int bytes = element_bytes(job->type);
	uint64_t wrong = 0, at;
	struct block expected;

	for (at = 0; at < count; at += BLOCK) {
		size_t n = min_t(uint64_t, count - at, BLOCK);

		reduce_block(job, owner, &expected, start + at, n);
		wrong += count_different(expected.bytes, dst + at * bytes, n, bytes);
	}
	return wrong;
}

/* @data has @rank's elements from @start on. */
static uint64_t check_plain(const struct job *job, unsigned int rank, uint64_t start,
			    uint64_t count, const char *data)
{
	unsigned int bytes = element_bytes(job->type);
	struct source s = source_of(job, rank);
	uint64_t wrong = 0, at;
	struct block expected;

	for (at = 0; at < count; at += BLOCK) {
		size_t n = min_t(uint64_t, count - at, BLOCK);

		arithmetic_of(job->type)->fill(expected.bytes, &s, start + at, n);
		wrong += count_different(expected.bytes, data + at * bytes, n, bytes);
	}
	return wrong;
}

/* Neither lanes, frames nor the gather path change a chunk: any will do. */
static uint64_t check_allreduce(const struct job *job, const char *dst)
{
	unsigned int bytes = element_bytes(job->type), chunk;
	struct ar_plan plan;
	uint64_t wrong = 0;

	ar_plan_init(&plan, job->collective, job->count, bytes, 0, job->size, 1,
		     ALLREDUCE_FRAME_MAX_DEFAULT, 0);
	for (chunk = 0; chunk < job->size; chunk++) {
		struct ar_range r = ar_plan_chunk(&plan, chunk);

		wrong += check_reduced(job, chunk, r.start, r.count, dst + r.start * bytes);
	}
	return wrong;
}

static uint64_t check_allgather(const struct job *job, const char *dst)
{
	uint64_t block = job->count * element_bytes(job->type), wrong = 0;
	unsigned int rank;

	for (rank = 0; rank < job->size; rank++)
		wrong += check_plain(job, rank, 0, job->count, dst + rank * block);
	return wrong;
}

uint64_t reference_check(const struct job *job, unsigned int rank, const void *dst)
{
	switch (job->collective) {
	case ALLREDUCE_COLLECTIVE_ALLREDUCE:
		return check_allreduce(job, dst);
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
		return check_reduced(job, rank, rank * job->count, job->count, dst);
	case ALLREDUCE_COLLECTIVE_ALLGATHER:
		return check_allgather(job, dst);
	case ALLREDUCE_COLLECTIVE_BROADCAST:
		return check_plain(job, job->root, 0, job->count, dst);
	case ALLREDUCE_COLLECTIVE_REDUCE:
		return rank == job->root ?
		       check_reduced(job, rank, 0, job->count, dst) : 0;
	}
	return 0;
}

uint64_t reference_check_src(const struct job *job, unsigned int rank,
			     const void *src, bool in_place)
{
	struct allreduce_buffers b = job_buffers(job, rank);
	unsigned int bytes = element_bytes(job->type);
	uint64_t end = b.dst_in_src + b.dst;

	if (!in_place)
		return check_plain(job, rank, 0, b.src, src);
	/* What of src is before dst, and what is after it. */
	if (!b.dst || end > b.src)
		return b.dst ? 0 : check_plain(job, rank, 0, b.src, src);
	return check_plain(job, rank, 0, b.dst_in_src, src) +
	       check_plain(job, rank, end, b.src - end, (const char *)src + end * bytes);
}

/* Like FNV-1a, eight bytes at a time. */
uint64_t reference_digest(uint64_t digest, const void *data, uint64_t bytes)
{
	const char *p = data;
	uint64_t word;

	for (; bytes; p += sizeof(word)) {
		size_t n = bytes < sizeof(word) ? bytes : sizeof(word);

		word = 0;
		memcpy(&word, p, n);
		digest = (digest ^ word) * 0x100000001b3ULL;
		digest ^= digest >> 32;
		bytes -= n;
	}
	return digest;
}
