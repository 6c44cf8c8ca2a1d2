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
 * @dst: result; in place, what both lie in
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
 * @vector_bytes: room of src, of dst, wherever they start
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
 * @element: bytes of an element
 * @buffers: elements of this rank's buffers
 */
struct half {
	const struct row *row;
	struct column *column;
	bool in_place;
	unsigned int element;
	struct allreduce_buffers buffers;
};

/**
 * struct place - where a job's buffers are
 * @src: contribution
 * @dst: result
 */
struct place {
	char *src;
	char *dst;
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

	run->vector_bytes = (run->options->max_bytes + 2 * PAGE - 1) & ~(PAGE - 1);
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
	const char *why;
	int ret;

	/* What alloc_slots() makes of a vector, backwards. */
	if (run->slot_bytes > REGISTERED_MAX)
		return usage_error("-z: registered buffers allow vectors of at most %lu bytes",
				   ((REGISTERED_MAX / PAGE - 3) / 2 - 1) * PAGE);
	iov = calloc(q, sizeof(*iov));
	if (!iov)
		return usage_error("no memory");
	for (i = 0; i < q; i++) {
		iov[i].iov_base = run->slots[i].area;
		iov[i].iov_len = run->slot_bytes;
	}
	ret = aru_register_buffers(run->aru, iov, q);
	free(iov);
	if (!ret)
		return EXIT_OK;
	why = aru_refusal(run->aru);
	return kernel_error("registering %zu bytes: %s%s%s%s", run->area_bytes,
			    aru_strerror(ret), *why ? " (" : "", why, *why ? ")" : "");
}

/* Elements of src are in slot->src, those of dst in slot->dst, or all of them there. */
static struct place place_of(const struct run *run, const struct half *half,
			     const struct slot *slot)
{
	uint64_t skip = run->options->misaligned * half->element;
	struct place place = { slot->src + skip, slot->dst + skip };

	if (half->in_place) {
		place.src = place.dst + half->buffers.src_in_dst * half->element;
		place.dst += half->buffers.dst_in_src * half->element;
	}
	return place;
}

/**
 * struct extent - memory that a job may use
 * @start: first byte
 * @bytes: how many
 */
struct extent {
	char *start;
	uint64_t bytes;
};

/* Both buffers' extents; in place one has all and the other nothing. */
static void extents_of(const struct run *run, const struct half *half,
		       const struct slot *slot, struct extent extents[2])
{
	uint64_t skip = run->options->misaligned * half->element;
	uint64_t src = half->buffers.src, dst = half->buffers.dst;

	if (half->in_place) {
		dst = dst > src ? dst : src;
		src = 0;
	}
	extents[0] = (struct extent) { slot->src + skip, src * half->element };
	extents[1] = (struct extent) { slot->dst + skip, dst * half->element };
}

/* The bytes around each extent, which no job may touch. */
static void set_guards(const struct extent extents[2])
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		memset(extents[i].start - PAGE, GUARD_BYTE, PAGE);
		memset(extents[i].start + extents[i].bytes, GUARD_BYTE, PAGE);
	}
}

static uint64_t wrong_guards(const char *guard)
{
	uint64_t wrong = 0;
	size_t i;

	for (i = 0; i < PAGE; i++)
		wrong += guard[i] != (char)GUARD_BYTE;
	return wrong;
}

static uint64_t check_guards(const struct extent extents[2])
{
	uint64_t wrong = 0;
	unsigned int i;

	for (i = 0; i < 2; i++)
		wrong += wrong_guards(extents[i].start - PAGE) +
			 wrong_guards(extents[i].start + extents[i].bytes);
	return wrong;
}

/* ---- jobs ---------------------------------------------------------------- */

/* What the ring or the kernel has to say beyond the error, "" if nothing. */
static const char *explanation(struct run *run, const char **before)
{
	const char *text = "";
	int broken = 0;

	*before = "the ring broke: ";
	aru_ring_error(run->aru, &broken, &text);
	if (broken)
		return *text ? text : aru_strerror(broken);
	*before = "";
	return aru_refusal(run->aru);
}

static int job_failed(struct run *run, unsigned int collective, int error)
{
	const char *before, *text = explanation(run, &before);

	return kernel_error("ring \"%s\" rank %u: %s: %s%s%s%s%s", run->options->ring,
			    run->info.rank, aru_collective_name(collective),
			    aru_strerror(error), *text ? " (" : "", *text ? before : "",
			    text, *text ? ")" : "");
}

static void job_of(const struct run *run, const struct half *half, uint64_t iteration,
		   struct job *job)
{
	*job = (struct job) {
		.seed = run->options->seed,
		.count = half->row->count,
		.iteration = iteration,
		.size = run->info.size,
		.collective = half->row->collective,
		.type = half->row->type,
		.op = half->row->op,
		.root = half->row->root,
	};
}

/* @iteration says which factor goes with the slot's data. */
static int start(struct run *run, const struct half *half, struct slot *slot,
		 uint64_t iteration)
{
	struct place place = place_of(run, half, slot);
	const struct row *row = half->row;
	struct allreduce_call call;
	struct job job;
	int ret;

	/* A barrier's would have to be 0. */
	if (!traits_of(row->collective).has_vectors)
		place = (struct place) { NULL, NULL };
	job_of(run, half, iteration, &job);
	aru_call_init(&call, row->collective, place.src, place.dst, row->count, row->type,
		      row->op);
	call.root = row->root;
	call.timeout_ms = run->options->timeout_ms;
	call.factor = reference_factor(&job, run->info.rank);
	ret = aru_icall(run->aru, &call, &slot->req);
	return ret ? job_failed(run, row->collective, ret) : EXIT_OK;
}

static int end(struct run *run, const struct half *half, struct slot *slot)
{
	int ret;

	if (!slot->req)
		return EXIT_OK;
	ret = aru_wait(slot->req, -1);
	slot->req = NULL;
	return ret ? job_failed(run, half->row->collective, ret) : EXIT_OK;
}

static int end_all(struct run *run, const struct half *half)
{
	uint64_t i;
	int ret;

	for (i = 0; i < run->options->in_flight; i++) {
		ret = end(run, half, &run->slots[i]);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

/* @iteration is that of the first slot's data. */
static int run_jobs(struct run *run, const struct half *half, uint64_t jobs,
		    uint64_t iteration)
{
	uint64_t q = run->options->in_flight, i;
	int ret;

	for (i = 0; i < jobs; i++) {
		struct slot *slot = &run->slots[i % q];

		ret = end(run, half, slot);
		if (!ret)
			ret = start(run, half, slot, iteration + i % q);
		if (ret)
			return ret;
	}
	return end_all(run, half);
}

/* Sums over the members. */
static int sum_u64(struct run *run, uint64_t *values, uint64_t n)
{
	int ret = aru_allreduce(run->aru, values, values, n, ALLREDUCE_U64,
				ALLREDUCE_SUM, NULL);

	return ret ? job_failed(run, ALLREDUCE_COLLECTIVE_ALLREDUCE, ret) : EXIT_OK;
}

static int sum_f64(struct run *run, double *value)
{
	int ret = aru_allreduce(run->aru, value, value, 1, ALLREDUCE_F64, ALLREDUCE_SUM,
				NULL);

	return ret ? job_failed(run, ALLREDUCE_COLLECTIVE_ALLREDUCE, ret) : EXIT_OK;
}

static int barrier(struct run *run)
{
	int ret = aru_barrier(run->aru, NULL);

	return ret ? job_failed(run, ALLREDUCE_COLLECTIVE_BARRIER, ret) : EXIT_OK;
}

/* ---- a column ------------------------------------------------------------ */

static void fill_slot(struct run *run, const struct half *half, struct slot *slot,
		      uint64_t iteration)
{
	struct extent extents[2];
	struct job job;

	job_of(run, half, iteration, &job);
	extents_of(run, half, slot, extents);
	set_guards(extents);
	/* What is not delivered must not look right by chance: poison. */
	memset(extents[1].start, POISON_BYTE, extents[1].bytes);
	reference_fill(&job, run->info.rank, place_of(run, half, slot).src);
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
	struct place place = place_of(run, half, slot);
	struct column *column = half->column;
	struct extent extents[2];
	struct job job;

	job_of(run, half, iteration, &job);
	extents_of(run, half, slot, extents);
	column->wrong_here += reference_check(&job, run->info.rank, place.dst) +
			      reference_check_src(&job, run->info.rank, place.src,
						  half->in_place) +
			      check_guards(extents);
	column->digest = reference_digest(column->digest, place.dst,
					  half->buffers.dst * half->element);
}

/* Whether all members get the same result. */
static bool same_everywhere(unsigned int collective)
{
	return collective != ALLREDUCE_COLLECTIVE_REDUCE_SCATTER &&
	       collective != ALLREDUCE_COLLECTIVE_REDUCE;
}

static int run_checks(struct run *run, const struct half *half)
{
	uint64_t q = run->options->in_flight, check, i, values[2];
	struct column *column = half->column;
	int ret;

	column->digest = run->options->seed;
	for (check = 0; check < run->options->checks; check++) {
		fill_slots(run, half, check * q);
		ret = run_jobs(run, half, q, check * q);
		if (ret)
			return ret;
		for (i = 0; i < q; i++)
			check_slot(run, half, &run->slots[i], check * q + i);
	}
	values[0] = column->wrong_here;
	values[1] = column->digest;
	ret = sum_u64(run, values, 2);
	column->checked = !ret;
	column->wrong = values[0];
	if (same_everywhere(half->row->collective))
		column->differ = values[1] != column->digest * run->info.size;
	else
		column->digest = values[1];
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
	ret = run_jobs(run, half, run->options->warmup, 0);
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
	ret = run_jobs(run, half, run->options->iterations, 0);
	column->time_us = (now_us() - begin) / run->options->iterations;
	/* Frames that others still wait for may be on their way out of here. */
	if (!ret)
		ret = barrier(run);
	if (ret)
		return ret;
	column->has_stats = column->has_stats && count_stats(run, column->stats, 1);
	return sum_f64(run, &column->time_us);
}

/*
 * What each member has to send at the least, by the size column, as nccl-tests
 * counts it: so rings of different sizes can be compared.
 */
static double busbw_factor(unsigned int collective, double n)
{
	switch (collective) {
	case ALLREDUCE_COLLECTIVE_ALLREDUCE:
		return 2 * (n - 1) / n;
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
	case ALLREDUCE_COLLECTIVE_ALLGATHER:
		return (n - 1) / n;
	}
	return 1;
}

static int run_half(struct run *run, const struct row *row, struct column *column,
		    bool in_place)
{
	struct half half = {
		.row = row,
		.column = column,
		.in_place = in_place,
		.element = aru_type_size(row->type),
		.buffers = allreduce_buffers(row->collective, row->count, run->info.rank,
					     run->info.size, row->root),
	};
	int ret;

	ret = run_timed(run, &half);
	if (ret)
		return ret;
	column->time_us /= run->info.size;
	if (column->time_us > 0)
		column->algbw = row->bytes / column->time_us / 1e3;
	column->busbw = column->algbw * busbw_factor(row->collective, run->info.size);
	/* A barrier has no result to check. */
	if (!run->options->checks || !traits_of(row->collective).has_vectors)
		return EXIT_OK;
	return run_checks(run, &half);
}

int run_row(struct run *run, struct row *row)
{
	struct traits traits = traits_of(row->collective);
	int ret;

	if (run->options->checks && traits.has_op && !reference_known(row->type, row->op))
		return usage_error("no reference for type %s, operation %s: use -c 0",
				   aru_type_name(row->type), aru_op_name(row->op));
	ret = run_half(run, row, &row->out_of_place, false);
	if (ret || !traits.has_vectors)
		return ret;
	return run_half(run, row, &row->in_place, true);
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
	if (!ret && !options->all_roots && options->root >= run->info.size)
		ret = usage_error("-R %llu is not from 0 to %u, the ranks of ring \"%s\"",
				  (unsigned long long)options->root, run->info.size - 1,
				  options->ring);
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
