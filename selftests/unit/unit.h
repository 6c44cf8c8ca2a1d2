/* SPDX-License-Identifier: GPL-2.0 */
/* What the unit tests share: cmocka and a repeatable source of numbers. */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "random.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* What was reported before a crash must reach a pipe as well. */
__attribute__((constructor))
static void unit_line_buffered(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
}

#endif /* UNIT_UNIT_H */
