// SPDX-License-Identifier: GPL-2.0
/* The reduction loops of every instruction set that this CPU can run. */
#include <stdio.h>
#include <unistd.h>

#include "isas.h"
#include "reduce-check.h"
#include "unit.h"

#define TESTS_MAX	4096

struct one {
	const struct isa *isa;
	const struct ar_reduce_kernel *kernel;
	const struct reduce_check *check;	/* NULL: the table */
	char name[80];
};

static struct one ones[TESTS_MAX];
static struct CMUnitTest tests[TESTS_MAX];
static size_t count;

static void run_one(void **state)
{
	const struct one *one = *state;
	const char *wrong;

	if (one->check)
		wrong = one->check->fn(one->kernel, one->isa->vector_bytes);
	else
		wrong = reduce_check_table(one->isa->loops);
	if (wrong)
		fail_msg("%s: %s", one->name, wrong);
}

/*
 * cmocka before 1.1.6 reports skip() as "not ok": a name with TAP's directive
 * in it comes out as what it is, with every version.
 */
static void not_run(void **state)
{
	(void)state;
}

static struct one *add(const struct isa *isa)
{
	struct one *one = &ones[count];

	if (count == TESTS_MAX) {
		fprintf(stderr, "test-reduce: raise TESTS_MAX\n");
		_exit(1);
	}
	one->isa = isa;
	tests[count].name = one->name;
	tests[count].test_func = run_one;
	tests[count].initial_state = one;
	count++;
	return one;
}

/* The table is data: it can be read on any CPU, the loops can't be run. */
static void add_isa(const struct isa *isa)
{
	const struct ar_reduce_kernel *k;
	const struct reduce_check *check;
	struct one *one = add(isa);

	snprintf(one->name, sizeof(one->name), "%s_table", isa->loops->name);
	if (!isa->usable) {
		one = add(isa);
		tests[count - 1].test_func = not_run;
		snprintf(one->name, sizeof(one->name),
			 "%s_loops # SKIP not supported by this CPU", isa->loops->name);
		return;
	}
	for (k = isa->loops->kernels; k->reduce; k++) {
		for (check = reduce_checks; check->fn; check++) {
			if (check->concerns && !check->concerns(k))
				continue;
			one = add(isa);
			one->kernel = k;
			one->check = check;
			snprintf(one->name, sizeof(one->name), "%s_%s_%s_%s",
				 isa->loops->name, reduce_check_type_name(k),
				 reduce_check_op_name(k), check->name);
		}
	}
}

int main(void)
{
	static struct isa isas[ISAS_MAX];
	size_t n = isas_list(isas), i;

	for (i = 0; i < n; i++)
		add_isa(&isas[i]);
	return _cmocka_run_group_tests("reduce", tests, count, NULL, NULL);
}
