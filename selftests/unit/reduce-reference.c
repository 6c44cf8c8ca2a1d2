// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <linux/allreduce.h>

#include "reduce-reference.h"

/* ---- integers -------------------------------------------------------------- */

#define INTEGER(name, ctype, utype, widest) \
static u64 name##_sum(u64 a, u64 b)	{ return (utype)(a + b); } \
static u64 name##_prod(u64 a, u64 b)	{ return (utype)(a * b); } \
static u64 name##_min(u64 a, u64 b)	{ return (ctype)a < (ctype)b ? a : b; } \
static u64 name##_max(u64 a, u64 b)	{ return (ctype)a > (ctype)b ? a : b; } \
static u64 name##_band(u64 a, u64 b)	{ return a & b; } \
static u64 name##_bor(u64 a, u64 b)	{ return a | b; } \
static u64 name##_bxor(u64 a, u64 b)	{ return a ^ b; } \
static u64 name##_divide(u64 a, u32 divisor) \
{ \
	return (utype)((widest)(ctype)a / (widest)divisor); \
}

INTEGER(i8, int8_t, u8, int64_t)
INTEGER(u8, u8, u8, u64)
INTEGER(i32, int32_t, u32, int64_t)
INTEGER(u32, u32, u32, u64)
INTEGER(i64, int64_t, u64, int64_t)
INTEGER(u64, u64, u64, u64)

/* ---- f32 and f64 ------------------------------------------------------------ */

/*
 * IEEE 754 says nothing about which NaN survives; ours is the left one, made
 * quiet. Written on the bits, so that no compiler can choose for us.
 */
#define FLOAT(name, ctype, utype, sign_bit, inf, quiet) \
static ctype name##_value(u64 bits) \
{ \
	utype narrow = bits; \
	ctype value; \
	\
	memcpy(&value, &narrow, sizeof(value)); \
	return value; \
} \
static u64 name##_bits(ctype value) \
{ \
	utype bits; \
	\
	memcpy(&bits, &value, sizeof(bits)); \
	return bits; \
} \
static bool name##_nan(u64 a) \
{ \
	return (a & ~(sign_bit)) > (inf); \
} \
static bool name##_of_nan(u64 a, u64 b, u64 *result) \
{ \
	*result = (name##_nan(a) ? a : b) | (quiet); \
	return name##_nan(a) || name##_nan(b); \
} \
static u64 name##_sum(u64 a, u64 b) \
{ \
	u64 r; \
	\
	return name##_of_nan(a, b, &r) ? r : \
	       name##_bits(name##_value(a) + name##_value(b)); \
} \
static u64 name##_prod(u64 a, u64 b) \
{ \
	u64 r; \
	\
	return name##_of_nan(a, b, &r) ? r : \
	       name##_bits(name##_value(a) * name##_value(b)); \
} \
static u64 name##_min(u64 a, u64 b) \
{ \
	u64 r; \
	\
	if (name##_of_nan(a, b, &r)) \
		return r; \
	if (name##_value(a) == name##_value(b)) \
		return a & (sign_bit) ? a : b; \
	return name##_value(a) < name##_value(b) ? a : b; \
} \
static u64 name##_max(u64 a, u64 b) \
{ \
	u64 r; \
	\
	if (name##_of_nan(a, b, &r)) \
		return r; \
	if (name##_value(a) == name##_value(b)) \
		return a & (sign_bit) ? b : a; \
	return name##_value(a) > name##_value(b) ? a : b; \
} \
static u64 name##_divide(u64 a, u32 divisor) \
{ \
	return name##_nan(a) ? a | (quiet) : \
	       name##_bits(name##_value(a) / (ctype)divisor); \
}

#define F32_SIGN	0x80000000ULL
#define F32_INF		0x7f800000ULL
#define F32_QUIET	0x00400000ULL
#define F64_SIGN	0x8000000000000000ULL
#define F64_INF		0x7ff0000000000000ULL
#define F64_QUIET	0x0008000000000000ULL

FLOAT(f32, float, u32, F32_SIGN, F32_INF, F32_QUIET)
FLOAT(f64, double, u64, F64_SIGN, F64_INF, F64_QUIET)

/* A factor for types that are computed in f32. */
static u64 f32_of_factor(u64 factor)
{
	if (f64_nan(factor))
		return (factor & F64_SIGN) >> 32 | F32_INF | F32_QUIET |
		       (factor & (F64_QUIET - 1)) >> 29;
	return f32_bits((float)f64_value(factor));
}

static u64 f32_scale(u64 a, u64 factor)
{
	return f32_prod(a, f32_of_factor(factor));
}

static u64 f64_scale(u64 a, u64 factor)
{
	return f64_prod(a, factor);
}

/* ---- f16 and bf16 ------------------------------------------------------------ */

/**
 * struct narrow - a 16-bit float
 * @fraction: its bits
 * @bias: of the exponent
 * @inf: bits of +Inf
 * @values: of all non-negative numbers, in the order of their bits, and behind
 *	them 2^(bias + 1) in place of Inf: where rounding arrives there,
 *	the result is Inf
 * @ready: @values are there
 */
struct narrow {
	int fraction;
	int bias;
	u32 inf;
	double values[0x8000];
	bool ready;
};

static struct narrow narrow_f16 = { .fraction = 10, .bias = 15, .inf = 0x7c00 };
static struct narrow narrow_bf16 = { .fraction = 7, .bias = 127, .inf = 0x7f80 };

static void narrow_prepare(struct narrow *t)
{
	u32 bits;

	for (bits = 0; bits <= t->inf; bits++) {
		int exponent = bits >> t->fraction;
		int one = 1 << t->fraction, digits = bits & (one - 1);

		t->values[bits] = exponent ?
			ldexp(one + digits, exponent - t->bias - t->fraction) :
			ldexp(digits, 1 - t->bias - t->fraction);
	}
	t->ready = true;
}

static u64 narrow_to_f32(const struct narrow *t, u64 a)
{
	u64 sign = (a & 0x8000) << 16, magnitude = a & 0x7fff;

	if (magnitude > t->inf)
		return sign | F32_INF | F32_QUIET |
		       (magnitude - t->inf) << (23 - t->fraction);
	if (magnitude == t->inf)
		return sign | F32_INF;
	return sign | f32_bits((float)t->values[magnitude]);
}

/* The nearest of all values; of two, the one with even bits. */
static u64 narrow_nearest(const struct narrow *t, double x)
{
	u32 low = 0, high = t->inf;
	double below, above;

	if (x >= t->values[high])
		return high;
	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (t->values[middle] <= x)
			low = middle;
		else
			high = middle;
	}
	below = x - t->values[low];
	above = t->values[high] - x;
	if (below == above)
		return low & 1 ? high : low;
	return below < above ? low : high;
}

static u64 narrow_of_f32(const struct narrow *t, u64 a)
{
	u64 sign = (a & F32_SIGN) >> 16;

	if (f32_nan(a))
		return sign | t->inf | 1 << (t->fraction - 1) |
		       (a & (F32_QUIET - 1)) >> (23 - t->fraction);
	return sign | narrow_nearest(t, fabs((double)f32_value(a)));
}

#define NARROW_REDUCE(name, op) \
static u64 name##_##op(u64 a, u64 b) \
{ \
	const struct narrow *t = &narrow_##name; \
	\
	return narrow_of_f32(t, f32_##op(narrow_to_f32(t, a), \
					 narrow_to_f32(t, b))); \
}

#define NARROW(name) \
NARROW_REDUCE(name, sum) \
NARROW_REDUCE(name, prod) \
NARROW_REDUCE(name, min) \
NARROW_REDUCE(name, max) \
static u64 name##_divide(u64 a, u32 divisor) \
{ \
	const struct narrow *t = &narrow_##name; \
	\
	return narrow_of_f32(t, f32_divide(narrow_to_f32(t, a), divisor)); \
} \
static u64 name##_scale(u64 a, u64 factor) \
{ \
	const struct narrow *t = &narrow_##name; \
	\
	return narrow_of_f32(t, f32_scale(narrow_to_f32(t, a), factor)); \
}

NARROW(f16)
NARROW(bf16)

static struct narrow *narrow_of(u8 type)
{
	struct narrow *t = type == ALLREDUCE_F16 ? &narrow_f16 :
			   type == ALLREDUCE_BF16 ? &narrow_bf16 : NULL;

	if (t && !t->ready)
		narrow_prepare(t);
	return t;
}

bool reduce_is_narrow(u8 type)
{
	return narrow_of(type);
}

double reduce_narrow_value(u8 type, u64 bits)
{
	return narrow_of(type)->values[bits];
}

u64 reduce_narrow_inf(u8 type)
{
	return narrow_of(type)->inf;
}

/* ---- which ------------------------------------------------------------------- */

#define PAIR(t, o)	((t) << 8 | (o))

/* A new type or operation needs its reference in these lists. */
#define CASES_OF_ALL(NAME, name) \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_SUM): \
		*r = (struct reduce_reference){ .reduce = name##_sum }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_PROD): \
		*r = (struct reduce_reference){ .reduce = name##_prod }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_MIN): \
		*r = (struct reduce_reference){ .reduce = name##_min }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_MAX): \
		*r = (struct reduce_reference){ .reduce = name##_max }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_AVG): \
		*r = (struct reduce_reference){ .reduce = name##_sum, \
						.divide = name##_divide }; \
		return true;

#define CASES_OF_INTEGER(NAME, name) \
	CASES_OF_ALL(NAME, name) \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_BAND): \
		*r = (struct reduce_reference){ .reduce = name##_band }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_BOR): \
		*r = (struct reduce_reference){ .reduce = name##_bor }; \
		return true; \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_BXOR): \
		*r = (struct reduce_reference){ .reduce = name##_bxor }; \
		return true;

#define CASES_OF_FLOAT(NAME, name) \
	CASES_OF_ALL(NAME, name) \
	case PAIR(ALLREDUCE_##NAME, ALLREDUCE_PREMULSUM): \
		*r = (struct reduce_reference){ .reduce = name##_sum, \
						.scale = name##_scale }; \
		return true;

bool reduce_reference(struct reduce_reference *r, u8 type, u8 op)
{
	narrow_of(type);
	switch (PAIR(type, op)) {
	CASES_OF_FLOAT(F32, f32)
	CASES_OF_FLOAT(F64, f64)
	CASES_OF_FLOAT(F16, f16)
	CASES_OF_FLOAT(BF16, bf16)
	CASES_OF_INTEGER(I8, i8)
	CASES_OF_INTEGER(U8, u8)
	CASES_OF_INTEGER(I32, i32)
	CASES_OF_INTEGER(U32, u32)
	CASES_OF_INTEGER(I64, i64)
	CASES_OF_INTEGER(U64, u64)
	}
	return false;
}

size_t reduce_element_bytes(u8 type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case ALLREDUCE_##NAME: return bytes;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	abort();
}
