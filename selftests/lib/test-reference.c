// SPDX-License-Identifier: GPL-2.0
/*
 * arbench's reference against results that are made here in another way: whole
 * vectors, one element after the other, integers in 128 bits, floats exactly (or
 * nearly so) in a wider type and then rounded by looking for the nearest value;
 * and against a ring that is played through by the rules of partition.h.
 */
#include <math.h>

#include "libtest.h"

#include "arbench/reference.h"
#include "partition.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Bits of an element of any type, in the low ones. */
typedef uint64_t bits;

/**
 * struct kind - of a type
 * @bytes: of an element
 * @mantissa: bits of a float's, 0 for an integer
 * @is_signed: an integer with a sign
 */
struct kind {
	unsigned int bytes;
	unsigned int mantissa;
	bool is_signed;
};

static struct kind kind_of(unsigned int type)
{
	switch (type) {
	case ALLREDUCE_F32:
		return (struct kind) { 4, 23, false };
	case ALLREDUCE_F64:
		return (struct kind) { 8, 52, false };
	case ALLREDUCE_F16:
		return (struct kind) { 2, 10, false };
	case ALLREDUCE_BF16:
		return (struct kind) { 2, 7, false };
	case ALLREDUCE_I8:
		return (struct kind) { 1, 0, true };
	case ALLREDUCE_U8:
		return (struct kind) { 1, 0, false };
	case ALLREDUCE_I32:
		return (struct kind) { 4, 0, true };
	case ALLREDUCE_U32:
		return (struct kind) { 4, 0, false };
	case ALLREDUCE_I64:
		return (struct kind) { 8, 0, true };
	case ALLREDUCE_U64:
		return (struct kind) { 8, 0, false };
	}
	fail_msg("type %u is new: this test has to learn it", type);
	return (struct kind) { 0, 0, false };
}

static bits low(unsigned int n)
{
	return n == 64 ? ~0ULL : (1ULL << n) - 1;
}

static bits get(const void *vector, uint64_t i, unsigned int bytes)
{
	bits b = 0;

	/* little-endian */
	memcpy(&b, (const char *)vector + i * bytes, bytes);
	return b;
}

static void put(void *vector, uint64_t i, unsigned int bytes, bits b)
{
	memcpy((char *)vector + i * bytes, &b, bytes);
}

/* ---- floats --------------------------------------------------------------- */

#if defined(__x86_64__)
#define MADE_NAN_SIGN	1
#else
#define MADE_NAN_SIGN	0
#endif

static bits sign_of(const struct kind *k)
{
	return 1ULL << (8 * k->bytes - 1);
}

static bits inf_of(const struct kind *k)
{
	return low(8 * k->bytes - 1) & ~low(k->mantissa);
}

static bool is_nan(const struct kind *k, bits b)
{
	return (b & ~sign_of(k)) > inf_of(k);
}

static bits quiet(const struct kind *k, bits b)
{
	return b | 1ULL << (k->mantissa - 1);
}

static bits made_nan(const struct kind *k)
{
	return quiet(k, inf_of(k)) | (MADE_NAN_SIGN ? sign_of(k) : 0);
}

static double decode(const struct kind *k, bits b)
{
	unsigned int exponent_bits = 8 * k->bytes - 1 - k->mantissa;
	int exponent = b >> k->mantissa & low(exponent_bits);
	int bias = low(exponent_bits - 1);
	double v = b & low(k->mantissa);

	if (exponent == (int)low(exponent_bits))
		v = INFINITY;
	else if (exponent)
		v = ldexp(v + (1ULL << k->mantissa), exponent - bias - k->mantissa);
	else
		v = ldexp(v, 1 - bias - (int)k->mantissa);
	return b & sign_of(k) ? -v : v;
}

/* Exact: every value of every type is one of an f64. Infinity stays so. */
static double value_of(const struct kind *k, bits b)
{
	static double values[2][1 << 16];
	double *of = values[k->mantissa == 7];
	bits i;

	if (k->bytes == 4) {
		uint32_t word = b;
		float f;

		memcpy(&f, &word, sizeof(f));
		return f;
	}
	if (k->bytes == 8) {
		double d;

		memcpy(&d, &b, sizeof(d));
		return d;
	}
	/* the last one is no zero */
	if (!of[(1 << 16) - 1])
		for (i = 0; i < 1 << 16; i++)
			of[i] = decode(k, i);
	return of[b];
}

/*
 * The value of a 16-bit type that is nearest to @v, of two the even one. What
 * would come after the largest one stands for infinity.
 */
static bits nearest16(const struct kind *k, double v)
{
	double magnitude = fabs(v), below, above;
	bits lower = 0, upper = inf_of(k), sign = signbit(v) ? sign_of(k) : 0;

	if (isinf(v))
		return sign | inf_of(k);
	while (upper - lower > 1) {
		bits middle = (lower + upper) / 2;

		if (value_of(k, middle) <= magnitude)
			lower = middle;
		else
			upper = middle;
	}
	below = value_of(k, lower);
	above = upper == inf_of(k) ? 2 * value_of(k, upper - 1) - value_of(k, upper - 2) :
				     value_of(k, upper);
	if (magnitude - below < above - magnitude)
		return sign | lower;
	if (magnitude - below > above - magnitude)
		return sign | upper;
	return sign | (lower & 1 ? upper : lower);
}

/*
 * Wide enough to round twice without harm: once to the wide type, once to the
 * narrow one (Figueroa, "When is double rounding innocuous?", 1995).
 */
#if defined(__x86_64__)
typedef __float128 wide;
#else
typedef long double wide;
#endif

static bits round_wide(const struct kind *k, wide v)
{
	double d = v;
	float f = v;
	bits b = 0;

	if (k->bytes == 8)
		memcpy(&b, &d, 8);
	else if (k->bytes == 4)
		memcpy(&b, &f, 4);
	else
		b = nearest16(k, f);
	return b;
}

/* The left one, else the right one; neither: the one that has just been made. */
static bits nan_from(const struct kind *k, bits a, bits b)
{
	return is_nan(k, a) ? quiet(k, a) : is_nan(k, b) ? quiet(k, b) : made_nan(k);
}

/* In the order of a number line that has -0 and +0. */
static int64_t place_on_line(const struct kind *k, bits b)
{
	int64_t magnitude = b & ~sign_of(k);

	return b & sign_of(k) ? -magnitude - 1 : magnitude;
}

static bits combine_floats(const struct kind *k, unsigned int op, bits a, bits b)
{
	bool a_is_less = place_on_line(k, a) < place_on_line(k, b);
	wide x, y, r;

	if (is_nan(k, a) || is_nan(k, b))
		return nan_from(k, a, b);
	if (op == ALLREDUCE_MIN)
		return a_is_less ? a : b;
	if (op == ALLREDUCE_MAX)
		return a_is_less ? b : a;
	x = value_of(k, a);
	y = value_of(k, b);
	r = op == ALLREDUCE_PROD ? x * y : x + y;
	return r == r ? round_wide(k, r) : made_nan(k);
}

static bits divide_float(const struct kind *k, bits a, unsigned int n)
{
	return is_nan(k, a) ? quiet(k, a) : round_wide(k, (wide)value_of(k, a) / n);
}

static bits scale_float(const struct kind *k, bits a, bits factor)
{
	static const struct kind f64 = { 8, 52, false };
	wide r, f;

	if (is_nan(k, a))
		return quiet(k, a);
	if (is_nan(&f64, factor))
		return quiet(k, inf_of(k)) | (factor >> 63 ? sign_of(k) : 0) |
		       (factor & low(52)) >> (52 - k->mantissa);
	f = value_of(&f64, factor);
	if (k->bytes < 8)
		f = (float)f;
	r = value_of(k, a) * f;
	return r == r ? round_wide(k, r) : made_nan(k);
}

/* ---- integers ------------------------------------------------------------- */

static __int128 integer_of(const struct kind *k, bits b)
{
	__int128 v = b;

	if (k->is_signed && b >> (8 * k->bytes - 1))
		v -= (__int128)1 << 8 * k->bytes;
	return v;
}

static bits combine_integers(const struct kind *k, unsigned int op, bits a, bits b)
{
	__int128 x = integer_of(k, a), y = integer_of(k, b), r = 0;

	switch (op) {
	case ALLREDUCE_SUM:
	case ALLREDUCE_AVG:
		r = x + y;
		break;
	case ALLREDUCE_PROD:
		/* modulo 2^64, which is enough */
		r = a * b;
		break;
	case ALLREDUCE_MIN:
		r = x < y ? x : y;
		break;
	case ALLREDUCE_MAX:
		r = x < y ? y : x;
		break;
	case ALLREDUCE_BAND:
		r = ~(~x | ~y);
		break;
	case ALLREDUCE_BOR:
		r = ~(~x & ~y);
		break;
	case ALLREDUCE_BXOR:
		r = (x | y) - (x & y);
		break;
	default:
		fail_msg("operation %u is new: this test has to learn it", op);
	}
	return r & low(8 * k->bytes);
}

/* ---- collectives ---------------------------------------------------------- */

/**
 * struct play - one job on all members
 * @job: the job
 * @kind: of its type
 * @src: each member's contribution
 * @dst: each member's result
 */
struct play {
	struct job job;
	struct kind kind;
	char *src[ALLREDUCE_SIZE_MAX];
	char *dst[ALLREDUCE_SIZE_MAX];
};

static void play_init(struct play *p, const struct job *job)
{
	unsigned int r;

	memset(p, 0, sizeof(*p));
	p->job = *job;
	p->kind = kind_of(job->type);
	for (r = 0; r < job->size; r++) {
		struct allreduce_buffers b = job_buffers(job, r);

		/* of just that size, for AddressSanitizer to see what goes beyond */
		p->src[r] = malloc(b.src * p->kind.bytes);
		p->dst[r] = malloc(b.dst * p->kind.bytes);
		reference_fill(job, r, p->src[r]);
		if (b.dst)
			memset(p->dst[r], 0xff, b.dst * p->kind.bytes);
	}
}

static void play_free(struct play *p)
{
	unsigned int r;

	for (r = 0; r < p->job.size; r++) {
		free(p->src[r]);
		free(p->dst[r]);
	}
}

static bits contribution(const struct play *p, unsigned int rank, uint64_t i)
{
	bits b = get(p->src[rank], i, p->kind.bytes);

	if (p->job.op == ALLREDUCE_PREMULSUM)
		b = scale_float(&p->kind, b, reference_factor(&p->job, rank));
	return b;
}

static bits combine(const struct play *p, bits a, bits b)
{
	return p->kind.mantissa ? combine_floats(&p->kind, p->job.op, a, b) :
				  combine_integers(&p->kind, p->job.op, a, b);
}

/* All members' elements @i, beginning with the rank after @last. */
static bits reduced(const struct play *p, unsigned int last, uint64_t i)
{
	unsigned int size = p->job.size, rank = (last + 1) % size;
	bits sum = contribution(p, rank, i);

	while (rank != last) {
		rank = (rank + 1) % size;
		sum = combine(p, sum, contribution(p, rank, i));
	}
	if (p->job.op != ALLREDUCE_AVG)
		return sum;
	if (p->kind.mantissa)
		return divide_float(&p->kind, sum, size);
	return integer_of(&p->kind, sum) / (int)size & low(8 * p->kind.bytes);
}

/* The rank with which the sum of an allreduce's element ends. */
static unsigned int owner_of(const struct play *p, uint64_t i)
{
	uint64_t count = p->job.count, grain = 64 / p->kind.bytes, grains, rank;
	uint64_t end = 0;

	if (count % p->job.size == 0)
		return i / (count / p->job.size);
	/* Whole cache lines, one more for each of the first ones. */
	grains = (count + grain - 1) / grain;
	for (rank = 0; ; rank++) {
		end += grains / p->job.size + (rank < grains % p->job.size);
		if (i / grain < end)
			return rank;
	}
}

static void play_rank(struct play *p, unsigned int rank)
{
	uint64_t count = p->job.count, n = job_buffers(&p->job, rank).dst, i;

	for (i = 0; i < n; i++) {
		bits b = 0;

		switch (p->job.collective) {
		case ALLREDUCE_COLLECTIVE_ALLREDUCE:
			b = reduced(p, owner_of(p, i), i);
			break;
		case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
			b = reduced(p, rank, rank * count + i);
			break;
		case ALLREDUCE_COLLECTIVE_ALLGATHER:
			b = get(p->src[i / count], i % count, p->kind.bytes);
			break;
		case ALLREDUCE_COLLECTIVE_BROADCAST:
			b = get(p->src[p->job.root], i, p->kind.bytes);
			break;
		case ALLREDUCE_COLLECTIVE_REDUCE:
			b = reduced(p, p->job.root, i);
			break;
		default:
			fail_msg("collective %u is new: this test has to learn it",
				 p->job.collective);
		}
		put(p->dst[rank], i, p->kind.bytes, b);
	}
}

/* One flipped bit, wherever it is, is one wrong element. */
static void flip(const struct play *p, unsigned int rank)
{
	struct allreduce_buffers b = job_buffers(&p->job, rank);
	uint64_t at[] = { 0, b.dst / 2, b.dst - 1 };
	unsigned int bytes = p->kind.bytes, i;

	for (i = 0; b.dst && i < ARRAY_SIZE(at); i++) {
		char *c = &p->dst[rank][at[i] * bytes + (i + rank) % bytes];

		*c ^= 1 << i;
		assert_int_equal(reference_check(&p->job, rank, p->dst[rank]), 1);
		*c ^= 1 << i;
	}
	if (b.src) {
		p->src[rank][b.src / 2 * bytes] ^= 0x80;
		assert_int_equal(reference_check_src(&p->job, rank, p->src[rank], false), 1);
		p->src[rank][b.src / 2 * bytes] ^= 0x80;
	}
}

static void try(const struct job *job)
{
	struct play p;
	unsigned int r;

	play_init(&p, job);
	for (r = 0; r < job->size; r++) {
		uint64_t wrong;

		play_rank(&p, r);
		wrong = reference_check(job, r, p.dst[r]);
		if (wrong)
			fail_msg("%s %s %s count %llu size %u root %u rank %u: %llu differ",
				 aru_collective_name(job->collective),
				 aru_type_name(job->type),
				 job->op ? aru_op_name(job->op) : "-",
				 (unsigned long long)job->count, job->size, job->root, r,
				 (unsigned long long)wrong);
		assert_int_equal(reference_check_src(job, r, p.src[r], false), 0);
		flip(&p, r);
	}
	play_free(&p);
}

/* Around grains, around whole chunks, and past the block of a check. */
static void try_counts(struct job *job)
{
	const uint64_t counts[] = { 0, 1, job->size, job->size + 1, 33, 64 * job->size, 131 };
	size_t c;

	for (c = 0; c < ARRAY_SIZE(counts); c++) {
		job->count = counts[c];
		job->iteration++;
		try(job);
	}
}

static bool has_op(unsigned int collective)
{
	static const bool has[] = {
#define X(NAME, name, value, src, dst, reduces) \
		[value] = reduces,
		ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	};

	return has[collective];
}

static bool has_root(unsigned int collective)
{
	return collective == ALLREDUCE_COLLECTIVE_BROADCAST ||
	       collective == ALLREDUCE_COLLECTIVE_REDUCE;
}

static void try_sizes(struct job *job)
{
	static const unsigned int sizes[] = { 1, 2, 3, 5 };
	size_t s;

	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		job->size = sizes[s];
		job->root = has_root(job->collective) ? (job->iteration + s) % sizes[s] : 0;
		try_counts(job);
	}
}

/* Nothing is written, nothing is looked at, nothing can be wrong. */
static void try_barrier(void)
{
	struct job job = { .size = 3, .collective = ALLREDUCE_COLLECTIVE_BARRIER };

	reference_fill(&job, 1, NULL);
	assert_int_equal(reference_check(&job, 1, NULL), 0);
	assert_int_equal(reference_check_src(&job, 1, NULL, false), 0);
	assert_int_equal(reference_check_src(&job, 1, NULL, true), 0);
}

static void try_collective(unsigned int collective)
{
	struct job job = { .seed = 5, .collective = collective };

	if (collective == ALLREDUCE_COLLECTIVE_BARRIER) {
		try_barrier();
		return;
	}
	for (job.type = 1; job.type < 256; job.type++) {
		if (!aru_type_name(job.type))
			continue;
		job.op = 0;
		if (!has_op(collective)) {
			try_sizes(&job);
			continue;
		}
		for (job.op = 1; job.op < 256; job.op++) {
			if (!aru_op_valid(job.type, job.op))
				continue;
			assert_true(reference_known(job.type, job.op));
			try_sizes(&job);
		}
	}
}

#define X(NAME, name, value, src, dst, reduces) \
static void name##_is_right(void **state) \
{ \
	(void)state; \
	try_collective(value); \
}

ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X

static void blocks_of_a_check_join(void **state)
{
	static const unsigned int ops[] = { ALLREDUCE_SUM, ALLREDUCE_AVG,
					    ALLREDUCE_PREMULSUM };
	struct job job = { .seed = 9, .size = 3, .type = ALLREDUCE_F16,
			   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		job.op = ops[i];
		for (job.count = 6143; job.count <= 6145; job.count++)
			try(&job);
		job.count = 20011;
		try(&job);
	}
}

/* The most members: sums of f16 stay finite, mostly. */
static void sixty_four_members(void **state)
{
	struct job job = { .seed = 1, .count = 700, .size = 64, .type = ALLREDUCE_F16,
			   .op = ALLREDUCE_SUM,
			   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
	unsigned int finite = 0;
	struct play p;
	uint64_t i;

	(void)state;
	play_init(&p, &job);
	play_rank(&p, 63);
	assert_int_equal(reference_check(&job, 63, p.dst[63]), 0);
	for (i = 0; i < job.count; i++)
		finite += isfinite(value_of(&p.kind, get(p.dst[63], i, 2)));
	assert_in_range(finite, 670, 699);
	play_free(&p);
}

static void unknown_pairs(void **state)
{
	(void)state;
	assert_false(reference_known(ALLREDUCE_F32, ALLREDUCE_BXOR));
	assert_false(reference_known(ALLREDUCE_U8, ALLREDUCE_PREMULSUM));
	assert_false(reference_known(ALLREDUCE_U8, 0));
	assert_false(reference_known(0, ALLREDUCE_SUM));
	assert_false(reference_known(ALLREDUCE_U8, 255));
}

/* ---- the data ------------------------------------------------------------- */

/* Results of a kind that there has to be some of. */
struct seen {
	unsigned int numbers;
	unsigned int carried_nan;
	unsigned int made_nan;
	unsigned int inf;
	unsigned int denormal;
	unsigned int zero;
	unsigned int minus_zero;
};

static void see(struct seen *seen, const struct kind *k, bits b)
{
	bits magnitude = b & ~sign_of(k);

	if (b == made_nan(k))
		seen->made_nan++;
	else if (is_nan(k, b))
		seen->carried_nan++;
	else if (magnitude == inf_of(k))
		seen->inf++;
	else if (!magnitude)
		b ? seen->minus_zero++ : seen->zero++;
	else if (magnitude <= low(k->mantissa))
		seen->denormal++;
	else
		seen->numbers++;
}

static void specials_occur(void **state)
{
	static const unsigned int types[] = { ALLREDUCE_F32, ALLREDUCE_F64, ALLREDUCE_F16,
					      ALLREDUCE_BF16 };
	static const unsigned int ops[] = { ALLREDUCE_SUM, ALLREDUCE_MIN, ALLREDUCE_MAX };
	size_t t, o;

	(void)state;
	for (t = 0; t < ARRAY_SIZE(types); t++) {
		for (o = 0; o < ARRAY_SIZE(ops); o++) {
			struct job job = { .seed = 1, .count = 20000, .size = 4,
					   .type = types[t], .op = ops[o],
					   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
			struct seen seen = { 0 };
			struct play p;
			uint64_t i;

			play_init(&p, &job);
			play_rank(&p, 1);
			for (i = 0; i < job.count; i++)
				see(&seen, &p.kind, get(p.dst[1], i, p.kind.bytes));
			play_free(&p);
			assert_in_range(seen.numbers, 19600, 19950);
			assert_in_range(seen.carried_nan, 1, 200);
			assert_in_range(seen.inf, 1, 200);
			assert_in_range(seen.denormal, 1, 200);
			assert_in_range(seen.zero, 1, 200);
			assert_in_range(seen.minus_zero, 1, 200);
			if (ops[o] == ALLREDUCE_SUM)
				assert_in_range(seen.made_nan, 1, 200);
		}
	}
}

/* Summed in the order of ranks instead, most of three chunks of four differ. */
static void order_shows_in_the_bits(void **state)
{
	static const unsigned int types[] = { ALLREDUCE_F32, ALLREDUCE_F64, ALLREDUCE_F16,
					      ALLREDUCE_BF16 };
	size_t t;

	(void)state;
	for (t = 0; t < ARRAY_SIZE(types); t++) {
		struct job job = { .seed = 5, .count = 4000, .size = 4, .type = types[t],
				   .op = ALLREDUCE_SUM,
				   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
		struct play p;
		uint64_t i;

		play_init(&p, &job);
		for (i = 0; i < job.count; i++)
			put(p.dst[0], i, p.kind.bytes, reduced(&p, 3, i));
		assert_in_range(reference_check(&job, 0, p.dst[0]), 700, 3000);
		play_free(&p);
	}
}

static void results_tell_members_apart(void **state)
{
	struct job job = { .seed = 5, .count = 4000, .size = 4,
			   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };

	(void)state;
	for (job.type = 1; job.type < 256; job.type++) {
		for (job.op = 1; job.op < 256; job.op++) {
			struct play p;
			uint64_t wrong;

			if (!aru_op_valid(job.type, job.op))
				continue;
			/* without one member's part a share of the results differs */
			play_init(&p, &job);
			play_rank(&p, 0);
			memcpy(p.src[2], p.src[1], job.count * p.kind.bytes);
			play_rank(&p, 0);
			wrong = reference_check(&job, 0, p.dst[0]);
			if (wrong < job.count / 10)
				fail_msg("%s %s: only %llu differ", aru_type_name(job.type),
					 aru_op_name(job.op), (unsigned long long)wrong);
			play_free(&p);
		}
	}
}

static void poison_is_not_a_result(void **state)
{
	struct job job = { .seed = 5, .count = 5000, .size = 3, .type = ALLREDUCE_F32,
			   .op = ALLREDUCE_SUM,
			   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
	struct play p;

	(void)state;
	play_init(&p, &job);
	assert_int_equal(reference_check(&job, 1, p.dst[1]), 5000);
	play_free(&p);
}

static void data_depend_on_everything(void **state)
{
	const struct job a = { .seed = 1, .count = 64, .size = 3, .type = ALLREDUCE_I64,
			       .op = ALLREDUCE_SUM,
			       .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
	struct job other[] = { a, a, a, a, a, a, a };
	uint64_t va[64], vb[64];
	size_t i;

	(void)state;
	reference_fill(&a, 0, va);
	reference_fill(&other[0], 0, vb);
	assert_memory_equal(va, vb, sizeof(va));
	reference_fill(&a, 1, vb);
	assert_memory_not_equal(va, vb, sizeof(va));
	other[0].seed++;
	other[1].count--;
	other[2].iteration++;
	other[3].size++;
	other[4].type = ALLREDUCE_U64;
	other[5].op = ALLREDUCE_AVG;
	other[6].collective = ALLREDUCE_COLLECTIVE_REDUCE;
	for (i = 0; i < ARRAY_SIZE(other); i++) {
		reference_fill(&other[i], 0, vb);
		assert_memory_not_equal(va, vb, 63 * sizeof(va[0]));
	}
}

static void factors(void **state)
{
	struct job job = { .seed = 1, .count = 1, .size = 4, .type = ALLREDUCE_F64,
			   .op = ALLREDUCE_PREMULSUM,
			   .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE };
	unsigned int special = 0, rank;

	(void)state;
	for (job.iteration = 0; job.iteration < 500; job.iteration++) {
		for (rank = 0; rank < 4; rank++) {
			uint64_t factor = reference_factor(&job, rank);
			double d;

			memcpy(&d, &factor, sizeof(d));
			special += !(fabs(d) >= 0.125 && fabs(d) < 2);
			assert_true(factor == reference_factor(&job, rank));
		}
		assert_true(reference_factor(&job, 0) != reference_factor(&job, 1) ||
			    reference_factor(&job, 1) != reference_factor(&job, 2));
	}
	assert_in_range(special, 10, 80);
	job.op = ALLREDUCE_SUM;
	assert_true(reference_factor(&job, 0) == 0);
}

/* In place, what is outside the result must be as it was. */
static void sources_in_place(void **state)
{
	struct job job = { .seed = 1, .count = 40, .size = 3, .type = ALLREDUCE_I32,
			   .op = ALLREDUCE_SUM,
			   .collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER };
	uint32_t v[120];

	(void)state;
	reference_fill(&job, 1, v);
	memset(v + 40, 0xff, 40 * sizeof(v[0]));
	assert_int_equal(reference_check_src(&job, 1, v, true), 0);
	assert_int_equal(reference_check_src(&job, 1, v, false), 40);
	v[39] ^= 1;
	assert_int_equal(reference_check_src(&job, 1, v, true), 1);
	v[80] ^= 1;
	assert_int_equal(reference_check_src(&job, 1, v, true), 2);

	/* all of it result, or none of it */
	job.collective = ALLREDUCE_COLLECTIVE_REDUCE;
	job.root = 2;
	reference_fill(&job, 2, v);
	v[0] ^= 1;
	assert_int_equal(reference_check_src(&job, 2, v, true), 0);
	reference_fill(&job, 0, v);
	assert_int_equal(reference_check_src(&job, 0, v, true), 0);
	v[39] ^= 1;
	assert_int_equal(reference_check_src(&job, 0, v, true), 1);
	assert_int_equal(reference_check(&job, 0, NULL), 0);

	/* src is a part of dst */
	job.collective = ALLREDUCE_COLLECTIVE_ALLGATHER;
	job.op = 0;
	job.root = 0;
	memset(v, 0, sizeof(v));
	assert_int_equal(reference_check_src(&job, 0, v, true), 0);
}

static void digests(void **state)
{
	char a[] = "0123456789abc", b[] = "0123456789abd";

	(void)state;
	assert_true(reference_digest(1, a, 13) == reference_digest(1, a, 13));
	assert_true(reference_digest(1, a, 13) != reference_digest(1, b, 13));
	assert_true(reference_digest(1, a, 12) == reference_digest(1, b, 12));
	assert_true(reference_digest(1, a, 0) == 1);
}

/* ---- the ring of partition.h ---------------------------------------------- */

static void combine_frame(const struct play *p, void *frame, unsigned int rank,
			  uint64_t at, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		put(frame, i, p->kind.bytes, combine(p, get(frame, i, p->kind.bytes),
						     contribution(p, rank, at + i)));
}

/*
 * A piece of a chunk on its way, from src's element @at on; dst's, where it is
 * delivered, is another one for blocks of a vector.
 */
static void ride(struct play *p, const struct ar_plan *plan, unsigned int chunk,
		 uint64_t at, uint64_t dst_at, uint64_t n)
{
	enum ar_phase phase = plan->reduce ? AR_PHASE_REDUCE : AR_PHASE_GATHER;
	unsigned int bytes = p->kind.bytes, rank = ar_plan_first(plan, chunk);
	char *frame = malloc(n * bytes + 1);
	enum ar_action action;

	memcpy(frame, p->src[rank] + at * bytes, n * bytes);
	if (rank == chunk)
		memcpy(p->dst[rank] + dst_at * bytes, frame, n * bytes);
	do {
		rank = ar_next(rank, plan->size);
		action = ar_plan_action(plan, phase, chunk, rank);
		assert_int_not_equal(action, AR_REFUSE);
		if (ar_action_reduces(action))
			combine_frame(p, frame, rank, at, n);
		if (ar_action_delivers(action))
			memcpy(p->dst[rank] + dst_at * bytes, frame, n * bytes);
		if (action == AR_REDUCE_FORWARD)
			phase = AR_PHASE_GATHER;
	} while (ar_action_sends(action));
	free(frame);
}

/* Results by the roles of partition.h, without the gather path. */
static void ring(const struct job *job, unsigned int lanes)
{
	unsigned int bytes = aru_type_size(job->type), chunk, lane, r;
	struct ar_plan plan;
	struct play p;

	ar_plan_init(&plan, job->collective, job->count, bytes, job->root, job->size, lanes,
		     ALLREDUCE_FRAME_MAX_MIN, 0);
	play_init(&p, job);
	for (chunk = 0; chunk < job->size; chunk++) {
		struct ar_range c;

		if (!ar_plan_has_chunk(&plan, chunk))
			continue;
		c = ar_plan_chunk(&plan, chunk);
		for (lane = 0; lane < plan.lanes; lane++) {
			struct ar_range piece = ar_plan_piece(&plan, chunk, lane);
			uint64_t in_vector = c.start + piece.start;

			ride(&p, &plan, chunk,
			     job->collective == ALLREDUCE_COLLECTIVE_ALLGATHER ?
			     piece.start : in_vector,
			     job->collective == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER ?
			     piece.start : in_vector, piece.count);
		}
	}
	for (r = 0; r < job->size; r++)
		assert_int_equal(reference_check(job, r, p.dst[r]), 0);
	play_free(&p);
}

static void rings(uint64_t count, unsigned int size, unsigned int lanes)
{
	struct job job = { .seed = 2, .size = size, .type = ALLREDUCE_F32 };

	for (job.collective = 1; job.collective < ALLREDUCE_COLLECTIVE_BARRIER;
	     job.collective++) {
		/* striped over all lanes, or not */
		job.count = job.collective == ALLREDUCE_COLLECTIVE_ALLREDUCE ? count :
			    count / 2;
		job.op = has_op(job.collective) ? ALLREDUCE_SUM : 0;
		job.root = has_root(job.collective) ? size - 1 : 0;
		ring(&job, lanes);
	}
}

static void agrees_with_the_roles(void **state)
{
	static const uint64_t counts[] = { 0, 1, 1000, 70001 };
	static const unsigned int sizes[] = { 2, 3, 5 };
	static const unsigned int lanes[] = { 1, 3 };
	size_t s, l, c;

	(void)state;
	for (s = 0; s < ARRAY_SIZE(sizes); s++)
		for (l = 0; l < ARRAY_SIZE(lanes); l++)
			for (c = 0; c < ARRAY_SIZE(counts); c++)
				rings(counts[c], sizes[s], lanes[l]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define X(NAME, name, value, src, dst, reduces)	cmocka_unit_test(name##_is_right),
		ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
		cmocka_unit_test(blocks_of_a_check_join),
		cmocka_unit_test(sixty_four_members),
		cmocka_unit_test(unknown_pairs),
		cmocka_unit_test(specials_occur),
		cmocka_unit_test(order_shows_in_the_bits),
		cmocka_unit_test(results_tell_members_apart),
		cmocka_unit_test(poison_is_not_a_result),
		cmocka_unit_test(data_depend_on_everything),
		cmocka_unit_test(factors),
		cmocka_unit_test(sources_in_place),
		cmocka_unit_test(digests),
		cmocka_unit_test(agrees_with_the_roles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
