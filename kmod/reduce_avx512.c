// SPDX-License-Identifier: GPL-2.0
/* With BW, DQ and VL: without them 8, 16 and 64 bits fall apart in pieces. */
#define AR_ISA avx512
#define AR_VECTOR_BYTES 64
#include "reduce_kernels.c"
