/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tools share: one-sentence errors, strict numbers, namespaces.
 */
#ifndef _AR_TOOLS_COMMON_H
#define _AR_TOOLS_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes. */
#define EXIT_OK		0
#define EXIT_USAGE	1
#define EXIT_KERNEL	2

/* Prefix of error messages; main() sets it. */
extern const char *prog_name;

/* "prog: message" on stderr; returns EXIT_USAGE, or EXIT_KERNEL. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) int kernel_error(const char *fmt, ...);

/*
 * A decimal number, all of @text, between @min and @max. Else complains, naming
 * @field and the range, and returns false.
 */
bool parse_number(const char *field, const char *text, uint64_t min, uint64_t max,
		  uint64_t *value);

/* The same with an optional suffix K, M or G (powers of 1024). */
bool parse_size(const char *field, const char *text, uint64_t min, uint64_t max,
		uint64_t *value);

/* Move this thread to a network namespace: a name as in ip-netns(8), or a path. */
bool enter_netns(const char *name);

#endif /* _AR_TOOLS_COMMON_H */
