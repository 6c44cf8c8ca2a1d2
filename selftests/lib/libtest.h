/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LIBTEST_H
#define _LIBTEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"

#endif /* _LIBTEST_H */
