// SPDX-License-Identifier: GPL-2.0
/*
 * Which reduction loops are used: the choice at load, and the brackets around
 * their use. This file is compiled without floating point.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>

#include <linux/allreduce.h>

#include "compat.h"
#include "reduce.h"

static char *simd = "auto";
module_param(simd, charp, 0444);
MODULE_PARM_DESC(simd,
		 "instruction set of the reduction loops: auto (default), or on x86 sse2, avx, avx2, avx512, on arm64 neon; avx512 is never chosen by auto");

/**
 * struct ar_isa_choice - an instruction set that this build has loops for
 * @isa: the loops
 * @usable: can this CPU, under this kernel, run them
 * @automatic: may "auto" take them
 */
struct ar_isa_choice {
	const struct ar_reduce_isa *isa;
	bool (*usable)(void);
	bool automatic;
};

#if defined(CONFIG_X86_64)

/* Part of x86-64 itself. */
static bool ar_has_sse2(void)
{
	return true;
}

/* With F16C, which all but the first CPUs with AVX have. */
static bool ar_has_avx(void)
{
	return boot_cpu_has(X86_FEATURE_AVX) &&
	       boot_cpu_has(X86_FEATURE_F16C) &&
	       cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL);
}

static bool ar_has_avx2(void)
{
	return ar_has_avx() && boot_cpu_has(X86_FEATURE_AVX2);
}

static bool ar_has_avx512(void)
{
	return ar_has_avx2() && boot_cpu_has(X86_FEATURE_AVX512F) &&
	       boot_cpu_has(X86_FEATURE_AVX512BW) &&
	       boot_cpu_has(X86_FEATURE_AVX512DQ) &&
	       boot_cpu_has(X86_FEATURE_AVX512VL) &&
	       cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM |
				 XFEATURE_MASK_AVX512, NULL);
}

/*
 * Best first. AVX-512 lowers the clock of whole cores on some CPUs, which the
 * applications between our sections would pay for: only by explicit wish.
 */
static const struct ar_isa_choice ar_isa_choices[] = {
	{ &ar_reduce_avx512, ar_has_avx512, false },
	{ &ar_reduce_avx2, ar_has_avx2, true },
	{ &ar_reduce_avx, ar_has_avx, true },
	{ &ar_reduce_sse2, ar_has_sse2, true },
};

#elif defined(CONFIG_ARM64)

static bool ar_has_neon(void)
{
	return cpu_has_neon();
}

static const struct ar_isa_choice ar_isa_choices[] = {
	{ &ar_reduce_neon, ar_has_neon, true },
};

#else
#error "no reduction loops for this architecture: add reduce_<isa>.c"
#endif

static const struct ar_reduce_isa *ar_isa __ro_after_init;

static const struct ar_reduce_isa *__init ar_isa_auto(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ar_isa_choices); i++) {
		if (ar_isa_choices[i].automatic && ar_isa_choices[i].usable())
			return ar_isa_choices[i].isa;
	}
	pr_err("this CPU has none of the instruction sets that the reduction loops need\n");
	return ERR_PTR(-EOPNOTSUPP);
}

static void __init ar_isa_refuse_unknown(void)
{
	char known[64];
	size_t i;
	int len = 0;

	for (i = 0; i < ARRAY_SIZE(ar_isa_choices); i++)
		len += scnprintf(known + len, sizeof(known) - len, ", %s",
				 ar_isa_choices[i].isa->name);
	pr_err("parameter simd=%s: unknown, expected one of auto%s\n", simd,
	       known);
}

static const struct ar_reduce_isa *__init ar_isa_by_name(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ar_isa_choices); i++) {
		if (strcmp(simd, ar_isa_choices[i].isa->name))
			continue;
		if (ar_isa_choices[i].usable())
			return ar_isa_choices[i].isa;
		pr_err("parameter simd=%s: not supported by this CPU\n", simd);
		return ERR_PTR(-EOPNOTSUPP);
	}
	ar_isa_refuse_unknown();
	return ERR_PTR(-EINVAL);
}

int __init ar_reduce_init(void)
{
	const struct ar_reduce_isa *isa;

	isa = strcmp(simd, "auto") ? ar_isa_by_name() : ar_isa_auto();
	if (IS_ERR(isa))
		return PTR_ERR(isa);
	ar_isa = isa;
	pr_info("reduction loops: %s\n", isa->name);
	return 0;
}

const char *ar_reduce_isa_name(void)
{
	return ar_isa->name;
}

const struct ar_reduce_kernel *ar_reduce_get(u8 type, u8 op)
{
	const struct ar_reduce_kernel *k;

	for (k = ar_isa->kernels; k->reduce; k++) {
		if (k->type == type && k->op == op)
			return k;
	}
	return NULL;
}

u32 ar_element_bytes(u8 type)
{
	switch (type) {
#define AR_X_BYTES(NAME, name, value, bytes) \
	case ALLREDUCE_##NAME: \
		return bytes;
	ALLREDUCE_FOR_EACH_TYPE(AR_X_BYTES)
#undef AR_X_BYTES
	}
	return 0;
}

void ar_reduce_begin(void)
{
	compat_simd_begin();
}

void ar_reduce_end(void)
{
	compat_simd_end();
}
