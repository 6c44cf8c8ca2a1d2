// SPDX-License-Identifier: GPL-2.0
/* The same checks as test-reduce.c, with nothing but the C library. */
#include <stdio.h>

#include "isas.h"
#include "reduce-check.h"

static unsigned int tests, failures;

static void report(const char *wrong, const char *isa, const char *type,
		   const char *op, const char *check)
{
	tests++;
	failures += !!wrong;
	printf("%sok %u - %s_%s_%s_%s\n", wrong ? "not " : "", tests, isa, type,
	       op, check);
	if (wrong)
		printf("# %s\n", wrong);
	fflush(stdout);
}

static void run_isa(const struct isa *isa)
{
	const struct ar_reduce_kernel *k;
	const struct reduce_check *check;

	report(reduce_check_table(isa->loops), isa->loops->name, "all", "all",
	       "table");
	for (k = isa->loops->kernels; k->reduce; k++) {
		for (check = reduce_checks; check->fn; check++) {
			if (check->concerns && !check->concerns(k))
				continue;
			report(check->fn(k, isa->vector_bytes), isa->loops->name,
			       reduce_check_type_name(k),
			       reduce_check_op_name(k), check->name);
		}
	}
}

int main(void)
{
	struct isa isas[ISAS_MAX];
	size_t n = isas_list(isas), i;

	for (i = 0; i < n; i++) {
		if (isas[i].usable)
			run_isa(&isas[i]);
	}
	printf("1..%u\n", tests);
	return failures || !tests;
}
