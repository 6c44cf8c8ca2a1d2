/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the reduction loops have to give for one element, written without
 * looking at them: nothing here is a vector, and the 16-bit floats are found by
 * searching all their values. An element is handed around as its bits.
 */
#ifndef UNIT_REDUCE_REFERENCE_H
#define UNIT_REDUCE_REFERENCE_H

#include <stdbool.h>

#include "reduce.h"

/**
 * struct reduce_reference - the arithmetic of a pair of type and operation
 * @reduce: received OP local
 * @divide: by the size of a ring; NULL where the operation has no division
 * @scale: by a factor, the bits of an f64; NULL where it has none
 */
struct reduce_reference {
	u64 (*reduce)(u64 recv, u64 local);
	u64 (*divide)(u64 element, u32 divisor);
	u64 (*scale)(u64 element, u64 factor);
};

/* False if the uapi header has no such pair. */
bool reduce_reference(struct reduce_reference *reference, u8 type, u8 op);

/* Bytes of an element; aborts for an unknown type. */
size_t reduce_element_bytes(u8 type);

bool reduce_is_narrow(u8 type);		/* f16, bf16 */

/* Value of the non-negative, finite f16 or bf16 with these bits, or of Inf's. */
double reduce_narrow_value(u8 type, u64 bits);
u64 reduce_narrow_inf(u8 type);

#endif /* UNIT_REDUCE_REFERENCE_H */
