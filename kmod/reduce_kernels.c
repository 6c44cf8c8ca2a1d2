// SPDX-License-Identifier: GPL-2.0
/*
 * The reduction loops, written once with GCC's vector extensions. Each
 * reduce_<isa>.c defines AR_ISA and AR_VECTOR_BYTES and includes this file;
 * the compiler flags of that file choose the instructions.
 *
 * Only files like those may be compiled with floating point enabled, and they
 * call nothing outside: the caller has bracketed the loop. Userspace compiles
 * the same files for its unit tests and the benchmark.
 *
 * A type is a line in "types" and its arithmetic on one vector: a function for
 * each operation, of which AR_INTEGER, AR_FLOAT and AR_PAIRED make all. An
 * operation is such a function, and its lines in "loops" and "rows". A row
 * that the uapi header asks for and that is not here does not compile.
 */
#include "portable.h"

#include <linux/allreduce.h>

#include "reduce.h"

#if !defined(AR_ISA) || !defined(AR_VECTOR_BYTES)
#error "define AR_ISA and AR_VECTOR_BYTES, then include this file"
#endif

#define AR_PASTE_(a, b)		a##b
#define AR_PASTE(a, b)		AR_PASTE_(a, b)
#define AR_STRING_(a)		#a
#define AR_STRING(a)		AR_STRING_(a)

#define AR_INLINE		static inline __attribute__((always_inline))

/* ---- types ---------------------------------------------------------------- */

/*
 * Received bytes have no alignment at all and come in buffers of any declared
 * type, so memory is only accessed through these two: an element and a vector
 * of elements, with alignment 1, that may alias anything.
 */
#define AR_ELEMENT(type, ctype) \
	typedef ctype ar_##type \
		__attribute__((aligned(1), may_alias)); \
	typedef ctype ar_##type##_v \
		__attribute__((vector_size(AR_VECTOR_BYTES), aligned(1), \
			       may_alias))

AR_ELEMENT(f32, float);
AR_ELEMENT(f64, double);
AR_ELEMENT(f16, u16);
AR_ELEMENT(bf16, u16);
AR_ELEMENT(i8, signed char);
AR_ELEMENT(u8, u8);
AR_ELEMENT(i32, int);
AR_ELEMENT(u32, u32);
AR_ELEMENT(i64, long long);
AR_ELEMENT(u64, u64);

#define AR_CHECK_BYTES(TYPE, type, value, bytes) \
	_Static_assert(sizeof(ar_##type) == (bytes), "uapi and C type agree");
ALLREDUCE_FOR_EACH_TYPE(AR_CHECK_BYTES)

/* ---- arithmetic on integers ----------------------------------------------- */

#define AR_LESS(type, utype) \
	AR_INLINE ar_##utype##_v ar_##type##_less(ar_##type##_v a, \
						  ar_##type##_v b) \
	{ \
		return (ar_##utype##_v)(a < b); \
	}

AR_LESS(i8, u8)
AR_LESS(u8, u8)
AR_LESS(i32, u32)
AR_LESS(u32, u32)

#if defined(__x86_64__) && !defined(__SSE4_2__)

/* There is no comparison of 64 bits: take the borrow of the subtraction. */
AR_INLINE ar_u64_v ar_u64_less(ar_u64_v a, ar_u64_v b)
{
	ar_u64_v borrow = (~a & b) | (~(a ^ b) & (a - b));

	return -(borrow >> 63);
}

AR_INLINE ar_u64_v ar_i64_less(ar_i64_v a, ar_i64_v b)
{
	return ar_u64_less((ar_u64_v)a ^ (1ULL << 63),
			   (ar_u64_v)b ^ (1ULL << 63));
}

#else

AR_LESS(i64, u64)
AR_LESS(u64, u64)

#endif

/* C has no ?: for vectors. */
#define AR_SELECT(mask, a, b)	(((mask) & (a)) | (~(mask) & (b)))

#define AR_INTEGER_FN(type, utype, op, result) \
	AR_INLINE ar_##type##_v ar_##type##_##op(ar_##type##_v x, \
						 ar_##type##_v y) \
	{ \
		ar_##utype##_v a = (ar_##utype##_v)x; \
		ar_##utype##_v b = (ar_##utype##_v)y; \
		\
		return (ar_##type##_v)(result); \
	}

/* Unsigned whatever the element is: sums and products wrap. */
#define AR_INTEGER(type, utype) \
	AR_INTEGER_FN(type, utype, sum, a + b) \
	AR_INTEGER_FN(type, utype, prod, a * b) \
	AR_INTEGER_FN(type, utype, min, \
		      AR_SELECT(ar_##type##_less(x, y), a, b)) \
	AR_INTEGER_FN(type, utype, max, \
		      AR_SELECT(ar_##type##_less(x, y), b, a)) \
	AR_INTEGER_FN(type, utype, band, a & b) \
	AR_INTEGER_FN(type, utype, bor, a | b) \
	AR_INTEGER_FN(type, utype, bxor, a ^ b)

AR_INTEGER(i8, u8)
AR_INTEGER(u8, u8)
AR_INTEGER(i32, u32)
AR_INTEGER(u32, u32)
AR_INTEGER(i64, u64)
AR_INTEGER(u64, u64)

/*
 * There is no vector division of integers, and the scalar one takes up to 90
 * cycles. With d the divisor and s = ceil(log2(d)), x / d is
 *
 *	(x * (2^64 + m)) >> (64 + s),  m = floor(2^64 * (2^s - d) / d) + 1
 *
 * for all 64-bit x (Granlund and Montgomery 1994, figure 4.1), where the sum is
 * halved before it can exceed 64 bits.
 */
struct ar_divisor {
	u64 m;
	u32 shift1;
	u32 shift2;
};

AR_INLINE struct ar_divisor ar_divisor(u32 d)
{
	u32 s = d > 1 ? 32 - __builtin_clz(d - 1) : 0;
	u64 rest = ((1ULL << s) - d) << 32;
	u64 upper = rest / d;
	u64 lower = ((rest % d) << 32) / d;

	return (struct ar_divisor){
		.m = (upper << 32) + lower + 1,
		.shift1 = s > 1 ? 1 : s,
		.shift2 = s > 1 ? s - 1 : 0,
	};
}

AR_INLINE u64 ar_quotient(u64 x, const struct ar_divisor *by)
{
	u64 t = (__uint128_t)x * by->m >> 64;

	return (t + ((x - t) >> by->shift1)) >> by->shift2;
}

/* ---- arithmetic on floats ------------------------------------------------- */

#define AR_FLOAT_FN(type, utype, op, result) \
	AR_INLINE ar_##type##_v ar_##type##_##op(ar_##type##_v a, \
						 ar_##type##_v b) \
	{ \
		ar_##utype##_v x = (ar_##utype##_v)a; \
		ar_##utype##_v y = (ar_##utype##_v)b; \
		\
		return result; \
	}

/*
 * Where both operands are NaN, which payload survives depends on the operand
 * order of the instruction, which the compiler may choose freely for a
 * commutative one, and on the architecture. So the right operand of a NaN on
 * the left is replaced by that NaN: it comes out, made quiet, everywhere.
 */
#define AR_RIGHT(type, utype) \
	((ar_##type##_v)AR_SELECT((ar_##utype##_v)(a == a), y, x))

/*
 * The instructions for minimum and maximum differ in what they do with NaN and
 * with zeros. Equal operands are the same bits or zeros, of which the signs
 * are united by @merge: | makes -0 the smaller one, & +0 the larger one.
 */
#define AR_EXTREMUM(type, utype, better, merge) \
	ar_##type##_quiet(AR_SELECT((ar_##utype##_v)(better) | \
				    (ar_##utype##_v)(a != a), x, \
				    AR_SELECT((ar_##utype##_v)(a == b), \
					      x merge y, y)))

#define AR_FLOAT(type, ctype, utype, quiet_bit) \
	typedef ar_##type##_v ar_##type##_factor; \
	AR_INLINE ar_##type##_v ar_##type##_quiet(ar_##utype##_v bits) \
	{ \
		ar_##type##_v v = (ar_##type##_v)bits; \
		\
		return (ar_##type##_v)(bits | ((ar_##utype##_v)(v != v) & \
					       (quiet_bit))); \
	} \
	AR_FLOAT_FN(type, utype, sum, a + AR_RIGHT(type, utype)) \
	AR_FLOAT_FN(type, utype, prod, a * AR_RIGHT(type, utype)) \
	AR_FLOAT_FN(type, utype, min, AR_EXTREMUM(type, utype, a < b, |)) \
	AR_FLOAT_FN(type, utype, max, AR_EXTREMUM(type, utype, a > b, &)) \
	AR_INLINE ar_##type##_v ar_##type##_divide(ar_##type##_v a, \
						   ar_##type##_factor b) \
	{ \
		return a / b; \
	} \
	AR_INLINE ar_##type##_v ar_##type##_scale(ar_##type##_v a, \
						  ar_##type##_factor b) \
	{ \
		return ar_##type##_prod(a, b); \
	} \
	/* By its bits: any sum with 0 would lose the sign of -0. */ \
	AR_INLINE ar_##type##_factor ar_##type##_factor_of(ctype value) \
	{ \
		union { \
			ctype number; \
			utype bits; \
		} u = { .number = value }; \
		const ar_##utype##_v zero = { 0 }; \
		\
		return (ar_##type##_factor)(zero + u.bits); \
	}

AR_FLOAT(f32, float, u32, 0x00400000U)
AR_FLOAT(f64, double, u64, 0x0008000000000000ULL)

/* What a vector of 16-bit floats is computed in. */
struct ar_pair {
	ar_f32_v a;
	ar_f32_v b;
};

#include "reduce_f16.h"

/* Pairs are even and odd elements: the one by shifting, the other by masking. */
AR_INLINE struct ar_pair ar_bf16_unpack(ar_bf16_v v)
{
	ar_u32_v w = (ar_u32_v)v;

	return (struct ar_pair){
		(ar_f32_v)(w << 16), (ar_f32_v)(w & 0xffff0000U),
	};
}

/*
 * To nearest even, in the upper halves; the lower ones are left over. A NaN's
 * payload is truncated; that leaves a NaN, because arithmetic made it quiet.
 */
AR_INLINE ar_u32_v ar_bf16_round(ar_f32_v f)
{
	ar_u32_v x = (ar_u32_v)f;
	ar_u32_v number = (ar_u32_v)(f == f);

	return x + (number & (0x7fff + ((x >> 16) & 1)));
}

AR_INLINE ar_bf16_v ar_bf16_pack(struct ar_pair p)
{
	return (ar_bf16_v)(ar_bf16_round(p.a) >> 16 |
			   (ar_bf16_round(p.b) & 0xffff0000U));
}

#define AR_PAIRED_FN(type, op) \
	AR_INLINE ar_##type##_v ar_##type##_##op(ar_##type##_v a, \
						 ar_##type##_v b) \
	{ \
		struct ar_pair p = ar_##type##_unpack(a); \
		struct ar_pair q = ar_##type##_unpack(b); \
		\
		p.a = ar_f32_##op(p.a, q.a); \
		p.b = ar_f32_##op(p.b, q.b); \
		return ar_##type##_pack(p); \
	}

#define AR_PAIRED_FACTOR_FN(type, op) \
	AR_INLINE ar_##type##_v ar_##type##_##op(ar_##type##_v a, \
						 ar_##type##_factor b) \
	{ \
		struct ar_pair p = ar_##type##_unpack(a); \
		\
		p.a = ar_f32_##op(p.a, b); \
		p.b = ar_f32_##op(p.b, b); \
		return ar_##type##_pack(p); \
	}

#define AR_PAIRED(type) \
	typedef ar_f32_factor ar_##type##_factor; \
	AR_PAIRED_FN(type, sum) \
	AR_PAIRED_FN(type, prod) \
	AR_PAIRED_FN(type, min) \
	AR_PAIRED_FN(type, max) \
	AR_PAIRED_FACTOR_FN(type, divide) \
	AR_PAIRED_FACTOR_FN(type, scale) \
	AR_INLINE ar_##type##_factor ar_##type##_factor_of(float value) \
	{ \
		return ar_f32_factor_of(value); \
	}

AR_PAIRED(f16)
AR_PAIRED(bf16)

/* ---- loops ---------------------------------------------------------------- */

#define AR_ELEMENT_AT(type, p, i)	(((ar_##type *)(p))[i])

/* Vector @k from @p on. */
#define AR_AT(type, p, k)	(((ar_##type##_v *)(p))[k])

/* Result @k of the inputs from @a and @b on, as AR_LOOP's @result. */
#define AR_BINARY(type, op, a, b, k) \
	ar_##type##_##op(AR_AT(type, a, k), AR_AT(type, b, k))
#define AR_UNARY(type, op, a, b, k) \
	ar_##type##_##op(AR_AT(type, a, k), factor)

#define AR_COPY_PIECE(size) do { \
	if (bytes & (size)) { \
		__builtin_memcpy(to, from, size); \
		to += (size); \
		from += (size); \
	} \
} while (0)

/* Less than a vector. */
static __attribute__((__noinline__)) void ar_copy_rest(void *dst, const void *src,
						   size_t bytes)
{
	const u8 *from = src;
	u8 *to = dst;

#if AR_VECTOR_BYTES > 32
	AR_COPY_PIECE(32);
#endif
#if AR_VECTOR_BYTES > 16
	AR_COPY_PIECE(16);
#endif
	AR_COPY_PIECE(8);
	AR_COPY_PIECE(4);
	AR_COPY_PIECE(2);
	AR_COPY_PIECE(1);
}

/*
 * Everything of a turn is loaded before anything is stored, because outputs may
 * be inputs. Four vectors are enough to cover the adder's latency and few
 * enough to stay in registers; they are spelled out because -O2 would put an
 * array of them on the stack. What is less than a vector goes through one, so
 * that there is no second arithmetic, for single elements.
 */
#define AR_LOOP(type, result, op, dst, dst2, src1, src2, n) do { \
	const size_t turn = 4 * AR_VECTOR_BYTES; \
	const u8 *a = (src1), *b = (src2); \
	u8 *d = (dst), *d2 = (dst2); \
	size_t left = (n) * sizeof(ar_##type); \
	\
	for (; left >= turn; left -= turn, a += turn, b += turn, d += turn) { \
		ar_##type##_v v0 = result(type, op, a, b, 0); \
		ar_##type##_v v1 = result(type, op, a, b, 1); \
		ar_##type##_v v2 = result(type, op, a, b, 2); \
		ar_##type##_v v3 = result(type, op, a, b, 3); \
		\
		AR_STORE4(type, d); \
		if (d2) { \
			AR_STORE4(type, d2); \
			d2 += turn; \
		} \
	} \
	for (; left >= AR_VECTOR_BYTES; left -= AR_VECTOR_BYTES) { \
		ar_##type##_v v0 = result(type, op, a, b, 0); \
		\
		AR_AT(type, d, 0) = v0; \
		if (d2) { \
			AR_AT(type, d2, 0) = v0; \
			d2 += AR_VECTOR_BYTES; \
		} \
		a += AR_VECTOR_BYTES; \
		b += AR_VECTOR_BYTES; \
		d += AR_VECTOR_BYTES; \
	} \
	if (left) { \
		ar_##type##_v rest[2] = { { 0 } }; \
		\
		ar_copy_rest(&rest[0], a, left); \
		ar_copy_rest(&rest[1], b, left); \
		rest[0] = result(type, op, &rest[0], &rest[1], 0); \
		ar_copy_rest(d, &rest[0], left); \
		if (d2) \
			ar_copy_rest(d2, &rest[0], left); \
	} \
} while (0)

#define AR_STORE4(type, p) do { \
	AR_AT(type, p, 0) = v0; \
	AR_AT(type, p, 1) = v1; \
	AR_AT(type, p, 2) = v2; \
	AR_AT(type, p, 3) = v3; \
} while (0)

#define AR_REDUCE(type, op) \
	static void ar_##type##_reduce_##op(void *dst, void *dst2, \
					    const void *recv, \
					    const void *local, size_t n) \
	{ \
		AR_LOOP(type, AR_BINARY, op, dst, dst2, recv, local, n); \
	}

#define AR_REDUCE_ALL(TYPE, type, value, bytes) \
	AR_REDUCE(type, sum) \
	AR_REDUCE(type, prod) \
	AR_REDUCE(type, min) \
	AR_REDUCE(type, max)

#define AR_REDUCE_INTEGER(TYPE, type, value, bytes) \
	AR_REDUCE(type, band) \
	AR_REDUCE(type, bor) \
	AR_REDUCE(type, bxor)

#define AR_DIVIDE_FLOAT(TYPE, type, v, width) \
	static void ar_##type##_divide_by(void *dst, void *dst2, \
					  const void *src, size_t n, \
					  u32 divisor) \
	{ \
		ar_##type##_factor factor = ar_##type##_factor_of(divisor); \
		\
		AR_LOOP(type, AR_UNARY, divide, dst, dst2, src, src, n); \
	}

/* Toward zero: the magnitude is divided, and gets its sign back. */
#define AR_DIVIDE_INTEGER(TYPE, type, v, width) \
	static void ar_##type##_divide_by(void *dst, void *dst2, \
					  const void *src, size_t n, \
					  u32 divisor) \
	{ \
		const struct ar_divisor by = ar_divisor(divisor); \
		size_t i; \
		\
		for (i = 0; i < n; i++) { \
			u64 x = AR_ELEMENT_AT(type, src, i); \
			u64 sign = (ar_##type)~0 < 1 ? -(x >> 63) : 0; \
			u64 q = ar_quotient((x ^ sign) - sign, &by); \
			\
			q = (q ^ sign) - sign; \
			AR_ELEMENT_AT(type, dst, i) = q; \
			if (dst2) \
				AR_ELEMENT_AT(type, dst2, i) = q; \
		} \
	}

#define AR_SCALE_FLOAT(TYPE, type, v, width) \
	static void ar_##type##_scale_by(void *dst, const void *src, size_t n, \
					u64 factor_bits) \
	{ \
		union { \
			u64 bits; \
			double number; \
		} u = { .bits = factor_bits }; \
		ar_##type##_factor factor = ar_##type##_factor_of(u.number); \
		\
		AR_LOOP(type, AR_UNARY, scale, dst, NULL, src, src, n); \
	}

ALLREDUCE_FOR_EACH_TYPE(AR_REDUCE_ALL)
ALLREDUCE_FOR_EACH_INTEGER(AR_REDUCE_INTEGER)
ALLREDUCE_FOR_EACH_INTEGER(AR_DIVIDE_INTEGER)
ALLREDUCE_FOR_EACH_FLOAT(AR_DIVIDE_FLOAT)
ALLREDUCE_FOR_EACH_FLOAT(AR_SCALE_FLOAT)

/* ---- rows ----------------------------------------------------------------- */

#define AR_ROW(TYPE, t, OP, fn, divide_by, scale_by) { \
	.type = ALLREDUCE_##TYPE, \
	.op = ALLREDUCE_##OP, \
	.reduce = ar_##t##_reduce_##fn, \
	.divide = divide_by, \
	.scale = scale_by, \
},

/*
 * The preprocessor can't nest one X-macro's row in another's argument, so an
 * operation has a line of its own here.
 */
#define AR_ROW_SUM(T, t, v, b)	AR_ROW(T, t, SUM, sum, NULL, NULL)
#define AR_ROW_PROD(T, t, v, b)	AR_ROW(T, t, PROD, prod, NULL, NULL)
#define AR_ROW_MIN(T, t, v, b)	AR_ROW(T, t, MIN, min, NULL, NULL)
#define AR_ROW_MAX(T, t, v, b)	AR_ROW(T, t, MAX, max, NULL, NULL)
#define AR_ROW_AVG(T, t, v, b)	AR_ROW(T, t, AVG, sum, ar_##t##_divide_by, NULL)
#define AR_ROW_BAND(T, t, v, b)	AR_ROW(T, t, BAND, band, NULL, NULL)
#define AR_ROW_BOR(T, t, v, b)	AR_ROW(T, t, BOR, bor, NULL, NULL)
#define AR_ROW_BXOR(T, t, v, b)	AR_ROW(T, t, BXOR, bxor, NULL, NULL)
#define AR_ROW_PREMULSUM(T, t, v, b) \
	AR_ROW(T, t, PREMULSUM, sum, NULL, ar_##t##_scale_by)

#define AR_ROWS_ARITHMETIC(OP, op, value) ALLREDUCE_FOR_EACH_TYPE(AR_ROW_##OP)
#define AR_ROWS_BITWISE(OP, op, value)	ALLREDUCE_FOR_EACH_INTEGER(AR_ROW_##OP)
#define AR_ROWS_SCALED(OP, op, value)	ALLREDUCE_FOR_EACH_FLOAT(AR_ROW_##OP)

static const struct ar_reduce_kernel ar_kernels[] = {
	ALLREDUCE_FOR_EACH_ARITHMETIC_OP(AR_ROWS_ARITHMETIC)
	ALLREDUCE_FOR_EACH_BITWISE_OP(AR_ROWS_BITWISE)
	ALLREDUCE_FOR_EACH_SCALED_OP(AR_ROWS_SCALED)
	{ }
};

const struct ar_reduce_isa AR_PASTE(ar_reduce_, AR_ISA) = {
	.name = AR_STRING(AR_ISA),
	.kernels = ar_kernels,
};
