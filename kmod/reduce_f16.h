/* SPDX-License-Identifier: GPL-2.0 */
/*
 * f16 to f32 and back, a vector at a time; only for reduce_kernels.c. The bits
 * are the same everywhere: rounded to nearest even, denormals kept, a NaN's
 * payload truncated and the NaN made quiet.
 *
 * Which elements go to which half of the pair is each version's own business,
 * as long as packing undoes what unpacking did.
 */
#ifndef _AR_REDUCE_F16_H
#define _AR_REDUCE_F16_H

#if defined(__AVX512F__) || (defined(__F16C__) && AR_VECTOR_BYTES == 32)

/*
 * The compiler's own vector types, which its built-in functions want:
 * <immintrin.h> is not for kernel code.
 */
typedef float ar_cvt_f32 __attribute__((vector_size(AR_VECTOR_BYTES)));
typedef short ar_cvt_f16 __attribute__((vector_size(AR_VECTOR_BYTES / 2)));

#ifdef __AVX512F__

#define AR_CVT_JOIN(a, b) \
	__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, \
				12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, \
				23, 24, 25, 26, 27, 28, 29, 30, 31)
#define AR_CVT_ALL		((unsigned short)-1)
#define AR_CVT_CURRENT		4	/* whatever MXCSR says: no rounding here */

AR_INLINE ar_f32_v ar_cvt_to_f32(ar_cvt_f16 h)
{
	const ar_cvt_f32 unused = { 0 };

	return (ar_f32_v)__builtin_ia32_vcvtph2ps512_mask(h, unused, AR_CVT_ALL,
							  AR_CVT_CURRENT);
}

AR_INLINE ar_cvt_f16 ar_cvt_to_f16(ar_f32_v f)
{
	const ar_cvt_f16 unused = { 0 };

	return __builtin_ia32_vcvtps2ph512_mask((ar_cvt_f32)f, 0, unused,
						AR_CVT_ALL);
}

#else

#define AR_CVT_JOIN(a, b) \
	__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, \
				12, 13, 14, 15)

AR_INLINE ar_f32_v ar_cvt_to_f32(ar_cvt_f16 h)
{
	return (ar_f32_v)__builtin_ia32_vcvtph2ps256(h);
}

AR_INLINE ar_cvt_f16 ar_cvt_to_f16(ar_f32_v f)
{
	return __builtin_ia32_vcvtps2ph256((ar_cvt_f32)f, 0);
}

#endif

AR_INLINE struct ar_pair ar_f16_unpack(ar_f16_v v)
{
	union {
		ar_f16_v whole;
		ar_cvt_f16 half[2];
	} u = { .whole = v };

	return (struct ar_pair){
		ar_cvt_to_f32(u.half[0]), ar_cvt_to_f32(u.half[1]),
	};
}

/* Not by a union: two stores and one load would stall. */
AR_INLINE ar_f16_v ar_f16_pack(struct ar_pair p)
{
	return (ar_f16_v)AR_CVT_JOIN(ar_cvt_to_f16(p.a), ar_cvt_to_f16(p.b));
}

#elif defined(__F16C__)

typedef float ar_cvt_f32 __attribute__((vector_size(16)));
typedef short ar_cvt_f16 __attribute__((vector_size(16)));
typedef long long ar_cvt_u64 __attribute__((vector_size(16)));

/* Four elements are converted, from and to the lower half of a vector. */
AR_INLINE struct ar_pair ar_f16_unpack(ar_f16_v v)
{
	ar_cvt_u64 w = (ar_cvt_u64)v;
	ar_cvt_u64 upper = { w[1], w[1] };

	return (struct ar_pair){
		(ar_f32_v)__builtin_ia32_vcvtph2ps((ar_cvt_f16)w),
		(ar_f32_v)__builtin_ia32_vcvtph2ps((ar_cvt_f16)upper),
	};
}

AR_INLINE ar_f16_v ar_f16_pack(struct ar_pair p)
{
	ar_cvt_u64 a = (ar_cvt_u64)__builtin_ia32_vcvtps2ph((ar_cvt_f32)p.a, 0);
	ar_cvt_u64 b = (ar_cvt_u64)__builtin_ia32_vcvtps2ph((ar_cvt_f32)p.b, 0);

	return (ar_f16_v)(ar_cvt_u64){ a[0], b[0] };
}

#elif defined(__aarch64__)

AR_INLINE struct ar_pair ar_f16_unpack(ar_f16_v v)
{
	struct ar_pair p;

	__asm__("fcvtl %0.4s, %1.4h" : "=w" (p.a) : "w" (v));
	__asm__("fcvtl2 %0.4s, %1.8h" : "=w" (p.b) : "w" (v));
	return p;
}

AR_INLINE ar_f16_v ar_f16_pack(struct ar_pair p)
{
	ar_f16_v v;

	__asm__("fcvtn %0.4h, %1.4s" : "=w" (v) : "w" (p.a));
	__asm__("fcvtn2 %0.8h, %1.4s" : "+w" (v) : "w" (p.b));
	return v;
}

#else

#define AR_F16_SIGN		0x8000U
#define AR_F16_INF		0x7c00U
#define AR_F16_FRACTION		0x03ffU
#define AR_F32_SIGN		0x80000000U
#define AR_F32_INF		0x7f800000U
#define AR_F32_2_POW_MINUS_14	0x38800000U	/* f16's smallest normal */
#define AR_F32_2_POW_16		0x47800000U	/* just above f16's range */
#define AR_F32_HALF		0x3f000000U
#define AR_F16_TO_F32_BITS	13		/* more bits of fraction */
#define AR_F16_TO_F32_BIAS	(112U << 23)	/* more bias of the exponent */

/* Bits below 2^31 only: there is no unsigned comparison in SSE2. */
#define AR_ABOVE(v, bits)	((ar_u32_v)((ar_i32_v)(v) > (int)(bits)))
#define AR_BELOW(v, bits)	((ar_u32_v)((ar_i32_v)(v) < (int)(bits)))

/* Each 32-bit lane of @h has an f16 in its lower half, 0 above. */
AR_INLINE ar_f32_v ar_f16_widen(ar_u32_v h)
{
	const u32 inf = AR_F16_INF << AR_F16_TO_F32_BITS;
	ar_u32_v sign = (h & AR_F16_SIGN) << 16;
	ar_u32_v x = (h & (AR_F16_SIGN - 1)) << AR_F16_TO_F32_BITS;
	ar_u32_v tiny = AR_BELOW(x, 1U << 23);
	ar_f32_v least = (ar_f32_v)(tiny & AR_F32_2_POW_MINUS_14);

	/* Inf and NaN have the largest exponent there as well. */
	x += AR_F16_TO_F32_BIAS + (AR_ABOVE(x, inf - 1) & AR_F16_TO_F32_BIAS);
	/* A denormal: put its fraction behind 2^-14, and take that away. */
	x = (ar_u32_v)((ar_f32_v)(x + (tiny & 1U << 23)) - least);
	return (ar_f32_v)(sign | x);
}

/*
 * The opposite; f32's own addition and carries do the rounding. NaNs are quiet:
 * they come out of arithmetic.
 */
AR_INLINE ar_u32_v ar_f16_narrow(ar_f32_v f)
{
	const ar_u32_v zero = { 0 };
	const ar_u32_v half = zero + AR_F32_HALF;
	ar_u32_v sign = ((ar_u32_v)f & AR_F32_SIGN) >> 16;
	ar_u32_v x = (ar_u32_v)f & (AR_F32_SIGN - 1);
	ar_u32_v tiny = AR_BELOW(x, AR_F32_2_POW_MINUS_14);
	ar_u32_v huge = AR_ABOVE(x, AR_F32_2_POW_16 - 1);
	ar_u32_v nan = AR_ABOVE(x, AR_F32_INF);
	ar_u32_v payload = (x >> AR_F16_TO_F32_BITS) & AR_F16_FRACTION;
	ar_u32_v odd = (x >> AR_F16_TO_F32_BITS) & 1;
	ar_u32_v normal, denormal, special;

	normal = (x - AR_F16_TO_F32_BIAS + 0xfff + odd) >> AR_F16_TO_F32_BITS;
	/* The last bit of 0.5 is worth f16's smallest denormal: 2^-24. */
	denormal = (ar_u32_v)((ar_f32_v)x + (ar_f32_v)half) - half;
	special = AR_F16_INF | (nan & payload);
	return sign | (tiny & denormal) | (huge & special) |
	       (~(tiny | huge) & normal);
}

AR_INLINE struct ar_pair ar_f16_unpack(ar_f16_v v)
{
	ar_u32_v w = (ar_u32_v)v;

	return (struct ar_pair){ ar_f16_widen(w & 0xffff), ar_f16_widen(w >> 16) };
}

AR_INLINE ar_f16_v ar_f16_pack(struct ar_pair p)
{
	return (ar_f16_v)(ar_f16_narrow(p.a) | ar_f16_narrow(p.b) << 16);
}

#endif

#endif /* _AR_REDUCE_F16_H */
