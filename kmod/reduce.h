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
 * @dst: where the result goes; no alignment needed
 * @dst2: second copy of the result, or NULL; may equal @local
 * @recv: partial result received; no alignment needed
 * @local: this member's part; no alignment needed
 * @n: elements, also 0
 *
 * @dst must not overlap the others. The received value is the left operand, so
 * that chunk c is summed in the order c, c+1, ..., c-1.
 *
 * The same bits come out of every instruction set: integers wrap; floats are
 * rounded to nearest even once, denormals are kept, and of two NaNs the
 * received one survives, made quiet. Only the sign of the NaN that Inf - Inf
 * makes is the architecture's own.
 */
typedef void (*ar_reduce_fn)(void *dst, void *dst2, const void *recv,
			     const void *local, size_t n);

/**
 * struct ar_reduce_kernel - one row of an instruction set's table
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @fn: the loop
 */
struct ar_reduce_kernel {
	u8 type;
	u8 op;
	ar_reduce_fn fn;
};

/**
 * struct ar_reduce_isa - the loops for one instruction set
 * @name: "sse2", "avx2", ...
 * @kernels: every pair of type and operation, ended by a row with a NULL @fn
 */
struct ar_reduce_isa {
	const char *name;
	const struct ar_reduce_kernel *kernels;
};

extern const struct ar_reduce_isa ar_reduce_sse2;
extern const struct ar_reduce_isa ar_reduce_avx2;
extern const struct ar_reduce_isa ar_reduce_avx512;
extern const struct ar_reduce_isa ar_reduce_neon;

/* reduce.c APIs: */

/* Choose the instruction set; at module load, before any other of these. */
int ar_reduce_init(void);

/* Name of the instruction set in use. */
const char *ar_reduce_isa_name(void);

/* The loop for a pair, or NULL if there is none. */
ar_reduce_fn ar_reduce_get(u8 type, u8 op);

/* Bytes of an element, 0 for an unknown type. */
u32 ar_element_bytes(u8 type);

/* Loops may run only between these two, in process context, preemption off. */
void ar_reduce_begin(void);
void ar_reduce_end(void);

#endif /* _AR_REDUCE_H */
