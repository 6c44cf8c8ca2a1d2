/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checks of the reduction loops, without a test framework, so that they also
 * run where none is (a foreign architecture under emulation). Each returns
 * NULL, or a text that says what was wrong.
 */
#ifndef UNIT_REDUCE_CHECK_H
#define UNIT_REDUCE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "reduce.h"

/* Every pair of type and operation of the uapi header, once, and no other. */
const char *reduce_check_table(const struct ar_reduce_isa *isa);

/* Names of the row, for messages. */
const char *reduce_check_type_name(const struct ar_reduce_kernel *k);
const char *reduce_check_op_name(const struct ar_reduce_kernel *k);

/**
 * struct reduce_check - a check of one row
 * @name: for messages
 * @concerns: has the row what is checked? NULL: every row has
 * @fn: the check
 */
struct reduce_check {
	const char *name;
	bool (*concerns)(const struct ar_reduce_kernel *k);
	const char *(*fn)(const struct ar_reduce_kernel *k, size_t vector_bytes);
};

/* All checks, ended by a NULL @fn. */
extern const struct reduce_check reduce_checks[];

#endif /* UNIT_REDUCE_CHECK_H */
