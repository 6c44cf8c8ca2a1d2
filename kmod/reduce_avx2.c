// SPDX-License-Identifier: GPL-2.0
#define AR_ISA avx2
#define AR_VECTOR_BYTES 32
#include "reduce_kernels.c"
