/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reduction loops: one table row a (type, operation), one table an instruction
 * set. The loops (reduce_kernels.c) know no kernel interface and never sleep;
 * reduce.c chooses the instruction set at load and brackets their use.
 */
#ifndef _AR_REDUCE_H
#define _AR_REDUCE_H

#include "portable.h"

/**
 * typedef ar_reduce_fn - dst[i] = recv[i] OP local[i], one pass
 * @dst: where the result goes; no alignment needed; may equal @recv or @local
 * @dst2: second copy of the result, or NULL; may equal @local
 * @recv: partial result received; no alignment needed
 * @local: this member's part; no alignment needed
 * @n: elements, also 0
 *
 * Other overlaps are not allowed. The received value is the left operand, so
 * that every chunk is summed in the ring's order.
 *
 * The same bits come out of every instruction set: integers wrap; floats are
 * rounded to nearest even once, denormals are kept, and of two NaNs the
 * received one survives, made quiet. f16 and bf16 are computed in f32. Only the
 * sign of the NaN that Inf - Inf or 0 * Inf makes is the architecture's own.
 */
typedef void (*ar_reduce_fn)(void *dst, void *dst2, const void *recv,
			     const void *local, size_t n);

/**
 * typedef ar_divide_fn - dst[i] = src[i] / divisor
 * @dst: where the result goes; may equal @src
 * @dst2: second copy of the result, or NULL; not overlapping
 * @src: elements; no alignment needed of any of these
 * @n: elements, also 0
 * @divisor: not 0
 *
 * Integers truncate toward zero, floats round to nearest even once (f16 and
 * bf16: a quotient in f32, then rounded to the type).
 */
typedef void (*ar_divide_fn)(void *dst, void *dst2, const void *src, size_t n,
			     u32 divisor);

/**
 * typedef ar_scale_fn - dst[i] = src[i] * factor
 * @dst: where the result goes; may equal @src
 * @src: elements; no alignment needed of either
 * @n: elements, also 0
 * @factor: bits of an f64. For f32, f16 and bf16 it is rounded to f32 first; the
 *	product is made in f32 (f64 for f64) and rounded to the type. Of two
 *	NaNs the element's survives, made quiet
 */
typedef void (*ar_scale_fn)(void *dst, const void *src, size_t n, u64 factor);

/**
 * struct ar_reduce_kernel - one row of an instruction set's table
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @reduce: the loop
 * @divide: what makes the result of the last sum: avg; else NULL
 * @scale: what makes a contribution of a source element: premulsum; else NULL
 */
struct ar_reduce_kernel {
	u8 type;
	u8 op;
	ar_reduce_fn reduce;
	ar_divide_fn divide;
	ar_scale_fn scale;
};

/**
 * struct ar_reduce_isa - the loops for one instruction set
 * @name: "sse2", "avx2", ...
 * @kernels: every pair of type and operation that there is, ended by a row with
 *	a NULL @reduce
 */
struct ar_reduce_isa {
	const char *name;
	const struct ar_reduce_kernel *kernels;
};

extern const struct ar_reduce_isa ar_reduce_sse2;
extern const struct ar_reduce_isa ar_reduce_avx;
extern const struct ar_reduce_isa ar_reduce_avx2;
extern const struct ar_reduce_isa ar_reduce_avx512;
extern const struct ar_reduce_isa ar_reduce_neon;

/* reduce.c APIs: */

/* Choose the instruction set; at module load, before any other of these. */
int ar_reduce_init(void);

/* Name of the instruction set in use. */
const char *ar_reduce_isa_name(void);

/* The row of a pair, or NULL if there is none. */
const struct ar_reduce_kernel *ar_reduce_get(u8 type, u8 op);

/* Bytes of an element, 0 for an unknown type. */
u32 ar_element_bytes(u8 type);

/* Loops may run only between these two, in process context, preemption off. */
void ar_reduce_begin(void);
void ar_reduce_end(void);

#endif /* _AR_REDUCE_H */
