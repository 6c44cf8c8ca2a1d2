/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The instruction sets that this program was built with, and which of them
 * this CPU can run.
 */
#ifndef UNIT_ISAS_H
#define UNIT_ISAS_H

#include <stdbool.h>
#include <stddef.h>

#include "reduce.h"

struct isa {
	const struct ar_reduce_isa *loops;
	size_t vector_bytes;
	bool usable;
};

#define ISAS_MAX	4

/* Fills @isas; returns how many. */
static inline size_t isas_list(struct isa isas[ISAS_MAX])
{
	size_t n = 0;

#if defined(__x86_64__)
	bool avx = __builtin_cpu_supports("avx") &&
		   __builtin_cpu_supports("f16c");
	bool avx2 = avx && __builtin_cpu_supports("avx2");
	bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
		      __builtin_cpu_supports("avx512bw") &&
		      __builtin_cpu_supports("avx512dq") &&
		      __builtin_cpu_supports("avx512vl");

	isas[n++] = (struct isa){ &ar_reduce_sse2, 16, true };
	isas[n++] = (struct isa){ &ar_reduce_avx, 16, avx };
	isas[n++] = (struct isa){ &ar_reduce_avx2, 32, avx2 };
	isas[n++] = (struct isa){ &ar_reduce_avx512, 64, avx512 };
#elif defined(__aarch64__)
	isas[n++] = (struct isa){ &ar_reduce_neon, 16, true };
#else
#error "no reduction loops for this architecture"
#endif
	return n;
}

#endif /* UNIT_ISAS_H */
