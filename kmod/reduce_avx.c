// SPDX-License-Identifier: GPL-2.0
/* 16 bytes: AVX computes with floats of 32, but not with integers. */
#define AR_ISA avx
#define AR_VECTOR_BYTES 16
#include "reduce_kernels.c"
