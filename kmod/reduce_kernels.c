// SPDX-License-Identifier: GPL-2.0
/*
 * The reduction loops, written once with GCC's vector extensions. Each
 * reduce_<isa>.c defines AR_ISA and AR_VECTOR_BYTES and includes this file;
 * the compiler flags of that file choose the instructions.
 *
 * Only files like those may be compiled with floating point enabled, and they
 * call nothing: the caller has bracketed the loop. Userspace compiles the same
 * files for its unit tests and the benchmark.
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

/*
 * Received bytes have no alignment at all and come in buffers of any declared
 * type, so memory is only accessed through these two: an element and a vector
 * of elements, with alignment 1, that may alias anything.
 */
#define AR_MEMORY_TYPES(type, ctype) \
	typedef ctype ar_##type \
		__attribute__((aligned(1), may_alias)); \
	typedef ctype ar_##type##_v \
		__attribute__((vector_size(AR_VECTOR_BYTES), aligned(1), \
			       may_alias))

/* Integer sums wrap: the C type is unsigned whatever the element is. */
#define AR_INTEGER(type, ctype) \
	AR_MEMORY_TYPES(type, ctype); \
	AR_INLINE ar_##type ar_##type##_sum(ar_##type a, ar_##type b) \
	{ \
		return a + b; \
	} \
	AR_INLINE ar_##type##_v ar_##type##_v_sum(ar_##type##_v a, \
						  ar_##type##_v b) \
	{ \
		return a + b; \
	}

/*
 * Where both operands are NaN, which payload survives depends on the operand
 * order of the instruction, which the compiler may choose freely for a
 * commutative +, and on the architecture. A NaN on the left is therefore added
 * to itself: the result is the left NaN, made quiet, everywhere. @mask is the
 * integer type of the same size.
 */
#define AR_FLOAT(type, ctype, mask) \
	AR_MEMORY_TYPES(type, ctype); \
	typedef mask ar_##type##_m \
		__attribute__((vector_size(AR_VECTOR_BYTES))); \
	AR_INLINE ar_##type ar_##type##_sum(ar_##type a, ar_##type b) \
	{ \
		return a + (a == a ? b : a); \
	} \
	AR_INLINE ar_##type##_v ar_##type##_v_sum(ar_##type##_v a, \
						  ar_##type##_v b) \
	{ \
		ar_##type##_m number = (ar_##type##_m)(a == a); \
		\
		return a + (ar_##type##_v)((number & (ar_##type##_m)b) | \
					   (~number & (ar_##type##_m)a)); \
	}

/* One line a type: its name, its C type. */
AR_FLOAT(f32, float, u32)
AR_FLOAT(f64, double, u64)
AR_INTEGER(i32, u32)
AR_INTEGER(i64, u64)

/* Vector @k from element @i on. */
#define AR_AT(type, p, k)	(((ar_##type##_v *)((p) + i))[k])
#define AR_SUM_AT(type, op, k) \
	ar_##type##_v_##op(AR_AT(type, r, k), AR_AT(type, l, k))

/*
 * Everything of a turn is loaded before anything is stored, because @dst2 may
 * be @local. Four vectors are enough to cover the adder's latency and few
 * enough to stay in registers; they are spelled out because -O2 would put an
 * array of them on the stack.
 */
#define AR_LOOP(type, op, both) do { \
	const size_t step = AR_VECTOR_BYTES / sizeof(*d); \
	size_t i = 0; \
	\
	for (; n - i >= 4 * step; i += 4 * step) { \
		ar_##type##_v v0 = AR_SUM_AT(type, op, 0); \
		ar_##type##_v v1 = AR_SUM_AT(type, op, 1); \
		ar_##type##_v v2 = AR_SUM_AT(type, op, 2); \
		ar_##type##_v v3 = AR_SUM_AT(type, op, 3); \
		\
		AR_STORE4(type, d); \
		if (both) \
			AR_STORE4(type, d2); \
	} \
	for (; n - i >= step; i += step) { \
		ar_##type##_v v0 = AR_SUM_AT(type, op, 0); \
		\
		AR_AT(type, d, 0) = v0; \
		if (both) \
			AR_AT(type, d2, 0) = v0; \
	} \
	for (; i < n; i++) { \
		ar_##type v0 = ar_##type##_##op(r[i], l[i]); \
		\
		d[i] = v0; \
		if (both) \
			d2[i] = v0; \
	} \
} while (0)

#define AR_STORE4(type, p) do { \
	AR_AT(type, p, 0) = v0; \
	AR_AT(type, p, 1) = v1; \
	AR_AT(type, p, 2) = v2; \
	AR_AT(type, p, 3) = v3; \
} while (0)

#define AR_KERNEL(type, op) \
	static void ar_##type##_reduce_##op(void *dst, void *dst2, \
					    const void *recv, \
					    const void *local, size_t n) \
	{ \
		ar_##type *r = (void *)recv; \
		ar_##type *l = (void *)local; \
		ar_##type *d = dst; \
		ar_##type *d2 = dst2; \
		\
		if (d2) \
			AR_LOOP(type, op, true); \
		else \
			AR_LOOP(type, op, false); \
	}

#define AR_ROW(TYPE, type, OP, op) \
	{ ALLREDUCE_##TYPE, ALLREDUCE_##OP, ar_##type##_reduce_##op },

/*
 * The preprocessor can't nest one X-macro's row in another's argument, so an
 * operation has two lines here; one without them does not compile.
 */
#define AR_KERNEL_SUM(TYPE, type, value, bytes)	AR_KERNEL(type, sum)
#define AR_ROW_SUM(TYPE, type, value, bytes)	AR_ROW(TYPE, type, SUM, sum)

#define AR_KERNELS(OP, op, value)	ALLREDUCE_FOR_EACH_TYPE(AR_KERNEL_##OP)
#define AR_ROWS(OP, op, value)		ALLREDUCE_FOR_EACH_TYPE(AR_ROW_##OP)

#define AR_CHECK_BYTES(TYPE, type, value, bytes) \
	_Static_assert(sizeof(ar_##type) == (bytes), "uapi and C type agree");
ALLREDUCE_FOR_EACH_TYPE(AR_CHECK_BYTES)

ALLREDUCE_FOR_EACH_OP(AR_KERNELS)

static const struct ar_reduce_kernel ar_kernels[] = {
	ALLREDUCE_FOR_EACH_OP(AR_ROWS)
	{ }
};

const struct ar_reduce_isa AR_PASTE(ar_reduce_, AR_ISA) = {
	.name = AR_STRING(AR_ISA),
	.kernels = ar_kernels,
};
