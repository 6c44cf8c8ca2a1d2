// SPDX-License-Identifier: GPL-2.0
#define AR_ISA neon
#define AR_VECTOR_BYTES 16
#include "reduce_kernels.c"
