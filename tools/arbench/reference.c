// SPDX-License-Identifier: GPL-2.0
/*
 * Data that every member can compute for every other, and the sums that the
 * ring has to deliver, bit for bit, in the order that partition.h lays down.
 */
#include <string.h>

#include "arbench.h"
#include "partition.h"

/* Elements that are made at a time: bounds the memory of a check. */
#define BLOCK		2048

#define GOLDEN		0x9e3779b97f4a7c15ULL

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static uint64_t key_of(const struct job *job, unsigned int rank)
{
	uint64_t key = mix(job->seed + GOLDEN);

	key = mix(key + job->count);
	key = mix(key + job->type);
	key = mix(key + job->iteration);
	return mix(key + rank);
}

/*
 * An element from 64 random bits. Floats have random signs and mantissas, and
 * exponents over so wide a range that almost every addition rounds and the
 * order of a sum shows in its bits.
 */
static inline float make_f32(uint64_t h)
{
	uint32_t exponent = 127 - 20 + ((h >> 23 & 0xffff) * 41 >> 16);
	uint32_t bits = (uint32_t)(h >> 63) << 31 | exponent << 23 | (h & 0x7fffff);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline double make_f64(uint64_t h)
{
	uint64_t exponent = 1023 - 40 + ((h >> 52 & 0x7ff) * 81 >> 11);
	uint64_t bits = h >> 63 << 63 | exponent << 52 | (h & 0xfffffffffffffULL);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Integers are added unsigned, since they wrap. */
static inline uint32_t make_i32(uint64_t h)
{
	return h;
}

static inline uint64_t make_i64(uint64_t h)
{
	return h;
}

#define DEFINE_FILL(name, ctype) \
static void fill_##name(void *dst, uint64_t key, uint64_t start, size_t n) \
{ \
	ctype *d = dst; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		d[i] = make_##name(mix(key + (start + i) * GOLDEN)); \
}

#define DEFINE_SUM(name, ctype) \
static void sum_##name(void *acc, const void *val, size_t n) \
{ \
	const ctype *v = val; \
	ctype *a = acc; \
	size_t i; \
\
	for (i = 0; i < n; i++) \
		a[i] = a[i] + v[i]; \
}

/* C types of the element types; a new type has its row here. */
#define FOR_EACH_CTYPE(X) \
	X(f32, float) \
	X(f64, double) \
	X(i32, uint32_t) \
	X(i64, uint64_t)

FOR_EACH_CTYPE(DEFINE_FILL)
FOR_EACH_CTYPE(DEFINE_SUM)

typedef void (*fill_fn)(void *dst, uint64_t key, uint64_t start, size_t n);
typedef void (*combine_fn)(void *acc, const void *val, size_t n);

static fill_fn fill_of(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return fill_##name;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return NULL;
}

static const struct {
	unsigned int type;
	unsigned int op;
	combine_fn combine;
} combines[] = {
	{ ALLREDUCE_F32, ALLREDUCE_SUM, sum_f32 },
	{ ALLREDUCE_F64, ALLREDUCE_SUM, sum_f64 },
	{ ALLREDUCE_I32, ALLREDUCE_SUM, sum_i32 },
	{ ALLREDUCE_I64, ALLREDUCE_SUM, sum_i64 },
};

static combine_fn combine_of(unsigned int type, unsigned int op)
{
	size_t i;

	for (i = 0; i < sizeof(combines) / sizeof(combines[0]); i++)
		if (combines[i].type == type && combines[i].op == op)
			return combines[i].combine;
	return NULL;
}

bool reference_known(unsigned int type, unsigned int op)
{
	return fill_of(type) && combine_of(type, op);
}

void reference_fill(const struct job *job, unsigned int rank, void *dst)
{
	fill_of(job->type)(dst, key_of(job, rank), 0, job->count);
}

static uint64_t count_different(const void *a, const void *b, size_t n, size_t bytes)
{
	const char *p = a, *q = b;
	uint64_t different = 0;
	size_t i;

	if (!memcmp(a, b, n * bytes))
		return 0;
	for (i = 0; i < n; i++)
		different += !!memcmp(p + i * bytes, q + i * bytes, bytes);
	return different;
}

/* Chunk @chunk was summed in the order chunk, chunk + 1, ..., chunk - 1. */
static uint64_t check_chunk(const struct job *job, unsigned int size,
			    unsigned int chunk, struct ar_range range,
			    const char *result)
{
	uint64_t acc[BLOCK], val[BLOCK], keys[ALLREDUCE_SIZE_MAX], wrong = 0, at;
	combine_fn combine = combine_of(job->type, job->op);
	unsigned int bytes = aru_type_size(job->type), k;
	fill_fn fill = fill_of(job->type);

	for (k = 0; k < size; k++)
		keys[k] = key_of(job, (chunk + k) % size);
	for (at = range.start; at < range.start + range.count; at += BLOCK) {
		uint64_t left = range.start + range.count - at;
		size_t n = left < BLOCK ? left : BLOCK;

		fill(acc, keys[0], at, n);
		for (k = 1; k < size; k++) {
			fill(val, keys[k], at, n);
			combine(acc, val, n);
		}
		wrong += count_different(acc, result + at * bytes, n, bytes);
	}
	return wrong;
}

uint64_t reference_check(const struct job *job, unsigned int size,
			 unsigned int lanes, const void *result)
{
	unsigned int bytes = aru_type_size(job->type), lane, chunk;
	uint64_t wrong = 0;

	for (lane = 0; lane < lanes; lane++) {
		/*
		 * The number of the job only says which lane carries a small
		 * job whole, not where its chunks are: any number will do.
		 */
		struct ar_range stripe = ar_stripe(job->count, bytes, 0, lanes, lane);

		for (chunk = 0; chunk < size; chunk++)
			wrong += check_chunk(job, size, chunk,
					     ar_chunk(stripe, bytes, size, chunk), result);
	}
	return wrong;
}

uint64_t reference_check_src(const struct job *job, unsigned int rank,
			     const void *src)
{
	unsigned int bytes = aru_type_size(job->type);
	uint64_t val[BLOCK], wrong = 0, at;

	for (at = 0; at < job->count; at += BLOCK) {
		size_t n = job->count - at < BLOCK ? job->count - at : BLOCK;

		fill_of(job->type)(val, key_of(job, rank), at, n);
		wrong += count_different(val, (const char *)src + at * bytes, n, bytes);
	}
	return wrong;
}

/* Like FNV-1a, eight bytes at a time. */
uint64_t reference_digest(uint64_t digest, const void *data, uint64_t bytes)
{
	const char *p = data;
	uint64_t word;

	for (; bytes; p += sizeof(word)) {
		size_t n = bytes < sizeof(word) ? bytes : sizeof(word);

		word = 0;
		memcpy(&word, p, n);
		digest = (digest ^ word) * 0x100000001b3ULL;
		digest ^= digest >> 32;
		bytes -= n;
	}
	return digest;
}
