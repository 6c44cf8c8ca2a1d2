// SPDX-License-Identifier: GPL-2.0
#define AR_ISA avx512
#define AR_VECTOR_BYTES 64
#include "reduce_kernels.c"
