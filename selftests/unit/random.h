/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Repeatable random numbers: splitmix64 (Steele, Lea, Flood 2014). Each test
 * starts its own sequence, so that tests do not depend on each other's order.
 */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stdint.h>

static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* 0 to @below - 1; the bias is far below what a test could notice. */
static inline uint64_t random_below(uint64_t *state, uint64_t below)
{
	return random_u64(state) % below;
}

#endif /* UNIT_RANDOM_H */
