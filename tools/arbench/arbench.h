/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ARBENCH_H
#define _ARBENCH_H

#include <allreduce-uring.h>
#include <json-c/json.h>

#include "../common.h"

#define EXIT_WRONG	3

/**
 * struct options - the command line
 * @ring: name of the ring
 * @min_bytes: first size
 * @max_bytes: last size
 * @factor: each size is the last one times this, or
 * @step: plus this, if it is not 0
 * @iterations: timed jobs for each column
 * @warmup: jobs before them
 * @checks: checked jobs for each column
 * @type: enum allreduce_type, 0 for all of them
 * @op: enum allreduce_op, 0 for all of them
 * @in_flight: jobs under way at a time, each with buffers of its own
 * @registered: use registered buffers
 * @seed: of the data
 * @timeout_ms: of a job, 0 for the ring's
 * @verbose: every rank prints the table
 * @json_file: where to write results as JSON, or NULL
 * @digest_file: where to write digests of the results, or NULL
 */
struct options {
	const char *ring;
	uint64_t min_bytes;
	uint64_t max_bytes;
	uint64_t factor;
	uint64_t step;
	uint64_t iterations;
	uint64_t warmup;
	uint64_t checks;
	unsigned int type;
	unsigned int op;
	uint64_t in_flight;
	bool registered;
	uint64_t seed;
	uint64_t timeout_ms;
	bool verbose;
	const char *json_file;
	const char *digest_file;
};

/**
 * struct job - what the data of one vector depend on, apart from the rank
 * @seed: of the run
 * @count: elements
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @iteration: number of the vector
 */
struct job {
	uint64_t seed;
	uint64_t count;
	unsigned int type;
	unsigned int op;
	uint64_t iteration;
};

/**
 * struct column - figures of one half of a row
 * @time_us: time of a job, mean over the iterations and the members
 * @algbw: vector bytes a second, in GB/s
 * @busbw: @algbw times 2 (size - 1) / size
 * @wrong: wrong elements on all members
 * @wrong_here: wrong elements on this member
 * @digest: of the checked results
 * @differ: the members' digests differ
 * @has_stats: @stats is known
 * @stats: what the timed jobs added to the module's counters here
 */
struct column {
	double time_us;
	double algbw;
	double busbw;
	uint64_t wrong;
	uint64_t wrong_here;
	uint64_t digest;
	bool differ;
	bool has_stats;
	uint64_t stats[ARU_STAT_SLOTS];
};

/**
 * struct row - one line of the table
 * @bytes: of the vector
 * @count: elements
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @out_of_place: the left half
 * @in_place: the right half
 */
struct row {
	uint64_t bytes;
	uint64_t count;
	unsigned int type;
	unsigned int op;
	struct column out_of_place;
	struct column in_place;
};

/* options.c APIs: */

/* Exit code, or -1 to go on. */
int options_parse(struct options *options, int argc, char **argv);

/* reference.c APIs: */

/* False if this program has no reference for a pair. */
bool reference_known(unsigned int type, unsigned int op);

/* Rank @rank's contribution to @job. */
void reference_fill(const struct job *job, unsigned int rank, void *dst);

/* Elements of @result that are not, bit for bit, the sum in the ring's order. */
uint64_t reference_check(const struct job *job, unsigned int size,
			 unsigned int lanes, const void *result);

/* Elements of @src that are not what reference_fill() put there. */
uint64_t reference_check_src(const struct job *job, unsigned int rank,
			     const void *src);

uint64_t reference_digest(uint64_t digest, const void *data, uint64_t bytes);

/* run.c APIs: */

struct run;

/* Exit codes. */
int run_open(struct run **run, const struct options *options);
int run_row(struct run *run, struct row *row);
void run_close(struct run *run);

const struct allreduce_info *run_info(const struct run *run);

/* report.c APIs: */

struct report;

struct report *report_open(const struct options *options,
			   const struct allreduce_info *info);
void report_row(struct report *report, const struct row *row);

/* Writes what is to be written; @ret is the exit code so far. Exit code. */
int report_close(struct report *report, int ret);

#endif /* _ARBENCH_H */
