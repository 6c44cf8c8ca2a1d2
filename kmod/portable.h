/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files that also compile in userspace unit tests (frame.h,
 * partition.h, parser.h, reduce_kernels.c) need of their surroundings.
 */
#ifndef _AR_PORTABLE_H
#define _AR_PORTABLE_H

#ifdef __KERNEL__

#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#else

#include <endian.h>
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define le16_to_cpu(x)	le16toh(x)
#define le32_to_cpu(x)	le32toh(x)
#define le64_to_cpu(x)	le64toh(x)
#define cpu_to_le16(x)	htole16(x)
#define cpu_to_le32(x)	htole32(x)
#define cpu_to_le64(x)	htole64(x)

#define min_t(type, a, b) \
	({ type __a = (a), __b = (b); __a < __b ? __a : __b; })

#endif

#endif /* _AR_PORTABLE_H */
