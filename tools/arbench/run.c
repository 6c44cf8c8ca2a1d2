// SPDX-License-Identifier: GPL-2.0
/*
 * The jobs of one line of the table.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "arbench.h"

#define PAGE		4096UL
#define GUARD_BYTE	0xc3
#define POISON_BYTE	0xff
#define REGISTERED_MAX	(1UL << 30)

/**
 * struct slot - the buffers of one job in flight
 * @area: page of guard bytes, src, guard, dst, guard
 * @src: contribution
 * @dst: result, and contribution in place
 * @req: the job, NULL if there is none
 */
struct slot {
	char *area;
	char *src;
	char *dst;
	struct aru_request *req;
};

/**
 * struct run - a context and its buffers
 * @aru: the context
 * @nl: for the counters, NULL if they can't be had
 * @options: the command line
 * @info: the ring
 * @slots: one for each job in flight
 * @area: all slots
 * @area_bytes: all slots
 * @slot_bytes: one slot's area
 * @vector_bytes: room of src, of dst
 */
struct run {
	struct aru *aru;
	struct aru_nl *nl;
	const struct options *options;
	struct allreduce_info info;
	struct slot *slots;
	char *area;
	size_t area_bytes;
	size_t slot_bytes;
	size_t vector_bytes;
};

/**
 * struct half - which column is being run
 * @row: the line
 * @column: where its figures go
 * @in_place: which column
 */
struct half {
	const struct row *row;
	struct column *column;
	bool in_place;
};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

const struct allreduce_info *run_info(const struct run *run)
{
	return &run->info;
}

/* ---- buffers ------------------------------------------------------------- */

static int alloc_slots(struct run *run)
{
	uint64_t q = run->options->in_flight, i;

	run->vector_bytes = (run->options->max_bytes + PAGE - 1) & ~(PAGE - 1);
	run->slot_bytes = 2 * run->vector_bytes + 3 * PAGE;
	if (__builtin_mul_overflow(run->slot_bytes, q, &run->area_bytes))
		return usage_error("-e and -q ask for too much memory");
	run->slots = calloc(q, sizeof(*run->slots));
	run->area = mmap(NULL, run->area_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!run->slots || run->area == MAP_FAILED) {
		run->area = NULL;
		return usage_error("no memory for %zu bytes of buffers", run->area_bytes);
	}
	for (i = 0; i < q; i++) {
		run->slots[i].area = run->area + i * run->slot_bytes;
		run->slots[i].src = run->slots[i].area + PAGE;
		run->slots[i].dst = run->slots[i].src + run->vector_bytes + PAGE;
	}
	return EXIT_OK;
}

static int register_slots(struct run *run)
{
	uint64_t q = run->options->in_flight, i;
	struct iovec *iov;
	int ret;

	if (run->slot_bytes > REGISTERED_MAX)
		return usage_error("-z: registered buffers allow vectors of at most %lu bytes",
				   (REGISTERED_MAX - 3 * PAGE) / 2);
	iov = calloc(q, sizeof(*iov));
	if (!iov)
		return usage_error("no memory");
	for (i = 0; i < q; i++) {
		iov[i].iov_base = run->slots[i].area;
		iov[i].iov_len = run->slot_bytes;
	}
	ret = aru_register_buffers(run->aru, iov, q);
	free(iov);
	return ret ? kernel_error("registering %zu bytes: %s", run->area_bytes,
				  aru_strerror(ret)) : EXIT_OK;
}

/* The bytes around a vector, which no job may touch. */
static void set_guards(struct slot *slot, uint64_t bytes)
{
	memset(slot->area, GUARD_BYTE, PAGE);
	memset(slot->src + bytes, GUARD_BYTE, PAGE);
	memset(slot->dst - PAGE, GUARD_BYTE, PAGE);
	memset(slot->dst + bytes, GUARD_BYTE, PAGE);
}

static uint64_t wrong_guards(const char *guard)
{
	uint64_t wrong = 0;
	size_t i;

	for (i = 0; i < PAGE; i++)
		wrong += guard[i] != (char)GUARD_BYTE;
	return wrong;
}

static uint64_t check_guards(const struct slot *slot, uint64_t bytes)
{
	return wrong_guards(slot->area) + wrong_guards(slot->src + bytes) +
	       wrong_guards(slot->dst - PAGE) + wrong_guards(slot->dst + bytes);
}

/* ---- jobs ---------------------------------------------------------------- */

static int job_failed(struct run *run, int error)
{
	const char *text = "";
	int broken = 0;

	aru_ring_error(run->aru, &broken, &text);
	return kernel_error("ring \"%s\" rank %u: %s%s%s%s", run->options->ring,
			    run->info.rank, aru_strerror(error),
			    broken ? " (the ring broke: " : "",
			    broken ? *text ? text : aru_strerror(broken) : "",
			    broken ? ")" : "");
}

static int start(struct run *run, const struct half *half, struct slot *slot)
{
	const struct row *row = half->row;
	int ret;

	ARU_OPTS(aru_call_opts, opts);
	opts.timeout_ms = run->options->timeout_ms;
	ret = aru_iallreduce(run->aru, half->in_place ? slot->dst : slot->src,
			     slot->dst, row->count, row->type, row->op, &opts,
			     &slot->req);
	return ret ? job_failed(run, ret) : EXIT_OK;
}

static int end(struct run *run, struct slot *slot)
{
	int ret;

	if (!slot->req)
		return EXIT_OK;
	ret = aru_wait(slot->req, -1);
	slot->req = NULL;
	return ret ? job_failed(run, ret) : EXIT_OK;
}

static int end_all(struct run *run)
{
	uint64_t i;
	int ret;

	for (i = 0; i < run->options->in_flight; i++) {
		ret = end(run, &run->slots[i]);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

static int run_jobs(struct run *run, const struct half *half, uint64_t jobs)
{
	uint64_t i;
	int ret;

	for (i = 0; i < jobs; i++) {
		struct slot *slot = &run->slots[i % run->options->in_flight];

		ret = end(run, slot);
		if (!ret)
			ret = start(run, half, slot);
		if (ret)
			return ret;
	}
	return end_all(run);
}

/* Sums over the members; also a barrier. */
static int sum_i64(struct run *run, uint64_t *values, uint64_t n)
{
	int ret = aru_allreduce(run->aru, values, values, n, ALLREDUCE_I64,
				ALLREDUCE_SUM, NULL);

	return ret ? job_failed(run, ret) : EXIT_OK;
}

static int sum_f64(struct run *run, double *value)
{
	int ret = aru_allreduce(run->aru, value, value, 1, ALLREDUCE_F64, ALLREDUCE_SUM,
				NULL);

	return ret ? job_failed(run, ret) : EXIT_OK;
}

static int barrier(struct run *run)
{
	uint64_t zero = 0;

	return sum_i64(run, &zero, 1);
}

/* ---- a column ------------------------------------------------------------ */

static void job_of(const struct run *run, const struct half *half, uint64_t iteration,
		   struct job *job)
{
	*job = (struct job) {
		.seed = run->options->seed,
		.count = half->row->count,
		.type = half->row->type,
		.op = half->row->op,
		.iteration = iteration,
	};
}

static void fill_slot(struct run *run, const struct half *half, struct slot *slot,
		      uint64_t iteration)
{
	struct job job;

	job_of(run, half, iteration, &job);
	set_guards(slot, half->row->bytes);
	/* What is not delivered must not look right by chance: poison. */
	memset(slot->dst, POISON_BYTE, half->row->bytes);
	reference_fill(&job, run->info.rank, half->in_place ? slot->dst : slot->src);
}

static void fill_slots(struct run *run, const struct half *half, uint64_t iteration)
{
	uint64_t i;

	for (i = 0; i < run->options->in_flight; i++)
		fill_slot(run, half, &run->slots[i], iteration + i);
}

static void check_slot(struct run *run, const struct half *half, struct slot *slot,
		       uint64_t iteration)
{
	struct column *column = half->column;
	struct job job;

	job_of(run, half, iteration, &job);
	column->wrong_here += reference_check(&job, run->info.size, run->info.lanes,
					      slot->dst);
	if (!half->in_place)
		column->wrong_here += reference_check_src(&job, run->info.rank, slot->src);
	column->wrong_here += check_guards(slot, half->row->bytes);
	column->digest = reference_digest(column->digest, slot->dst, half->row->bytes);
}

static int run_checks(struct run *run, const struct half *half)
{
	uint64_t q = run->options->in_flight, check, i, values[2];
	struct column *column = half->column;
	int ret;

	column->digest = run->options->seed;
	for (check = 0; check < run->options->checks; check++) {
		fill_slots(run, half, check * q);
		ret = run_jobs(run, half, q);
		if (ret)
			return ret;
		for (i = 0; i < q; i++)
			check_slot(run, half, &run->slots[i], check * q + i);
	}
	values[0] = column->wrong_here;
	values[1] = column->digest;
	ret = sum_i64(run, values, 2);
	column->wrong = values[0];
	column->differ = values[1] != column->digest * run->info.size;
	return ret;
}

/* Counters, if they can be had: 1 adds them, -1 takes them off. */
static bool count_stats(struct run *run, uint64_t *stats, int sign)
{
	struct aru_ring *ring;
	unsigned int i;

	if (!run->nl || aru_ring_get(run->nl, run->options->ring, &ring))
		return false;
	for (i = 0; i < ARU_STAT_SLOTS; i++)
		stats[i] += sign * ring->stats[i];
	aru_ring_free(ring);
	return true;
}

static int run_timed(struct run *run, const struct half *half)
{
	struct column *column = half->column;
	double begin;
	int ret;

	fill_slots(run, half, 0);
	ret = run_jobs(run, half, run->options->warmup);
	if (!ret)
		ret = barrier(run);
	if (ret)
		return ret;
	column->has_stats = count_stats(run, column->stats, -1);
	/* Nobody may begin while another one still counts. */
	ret = barrier(run);
	if (ret)
		return ret;
	begin = now_us();
	ret = run_jobs(run, half, run->options->iterations);
	column->time_us = (now_us() - begin) / run->options->iterations;
	/* Frames that others still wait for may be on their way out of here. */
	if (!ret)
		ret = barrier(run);
	if (ret)
		return ret;
	column->has_stats = column->has_stats && count_stats(run, column->stats, 1);
	return sum_f64(run, &column->time_us);
}

static int run_half(struct run *run, const struct half *half)
{
	double n = run->info.size;
	struct column *column = half->column;
	int ret;

	ret = run_timed(run, half);
	if (ret)
		return ret;
	column->time_us /= n;
	if (column->time_us > 0)
		column->algbw = half->row->bytes / column->time_us / 1e3;
	column->busbw = column->algbw * 2 * (n - 1) / n;
	return run->options->checks ? run_checks(run, half) : EXIT_OK;
}

int run_row(struct run *run, struct row *row)
{
	struct half out_of_place = { row, &row->out_of_place, false };
	struct half in_place = { row, &row->in_place, true };
	int ret;

	if (run->options->checks && !reference_known(row->type, row->op))
		return usage_error("no reference for type %s, operation %s: use -c 0",
				   aru_type_name(row->type), aru_op_name(row->op));
	ret = run_half(run, &out_of_place);
	return ret ? ret : run_half(run, &in_place);
}

/* ---- open and close ------------------------------------------------------ */

int run_open(struct run **out, const struct options *options)
{
	struct run *run;
	int ret;

	ARU_OPTS(aru_open_opts, opts);
	*out = NULL;
	run = calloc(1, sizeof(*run));
	if (!run)
		return usage_error("no memory");
	run->options = options;
	if (options->in_flight > ARU_DEPTH_DEFAULT)
		opts.depth = options->in_flight;
	ret = aru_open(&run->aru, options->ring, &opts);
	if (ret)
		ret = kernel_error("ring \"%s\": %s", options->ring, aru_strerror(ret));
	if (!ret) {
		ret = aru_info(run->aru, &run->info, sizeof(run->info));
		if (ret)
			ret = kernel_error("ring \"%s\": %s", options->ring,
					   aru_strerror(ret));
	}
	if (!ret)
		ret = alloc_slots(run);
	if (!ret && options->registered)
		ret = register_slots(run);
	if (ret) {
		run_close(run);
		return ret;
	}
	/* Without it the counters are left out. */
	aru_nl_open(&run->nl);
	*out = run;
	return EXIT_OK;
}

void run_close(struct run *run)
{
	aru_nl_close(run->nl);
	/* If the kernel does not let go of the buffers, they must stay. */
	if (!aru_close(run->aru)) {
		if (run->area)
			munmap(run->area, run->area_bytes);
		free(run->slots);
		free(run);
	}
}
