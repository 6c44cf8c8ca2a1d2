/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ARBENCH_H
#define _ARBENCH_H

#include <allreduce-uring.h>
#include <json-c/json.h>

#include "../common.h"
#include "reference.h"

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
 * @collective: enum allreduce_collective, 0 for all of them
 * @type: enum allreduce_type, 0 for all of them
 * @op: enum allreduce_op, 0 for all of them that there are for a type
 * @root: rank of the root
 * @all_roots: every rank is the root in turn
 * @misaligned: elements from a page's start to where buffers start
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
	unsigned int collective;
	unsigned int type;
	unsigned int op;
	uint64_t root;
	bool all_roots;
	uint64_t misaligned;
	uint64_t in_flight;
	bool registered;
	uint64_t seed;
	uint64_t timeout_ms;
	bool verbose;
	const char *json_file;
	const char *digest_file;
};

/**
 * struct column - figures of one half of a row
 * @time_us: time of a job, mean over the iterations and the members
 * @algbw: row bytes a second, in GB/s
 * @busbw: @algbw times the collective's factor, as nccl-tests has them
 * @checked: the figures from here to @differ are known
 * @wrong: wrong elements on all members
 * @wrong_here: wrong elements on this member
 * @digest: of the checked results; where members get different ones the sum of
 *	the members' digests
 * @differ: the members' digests differ, and should not
 * @has_stats: @stats is known
 * @stats: what the timed jobs added to the module's counters here
 */
struct column {
	double time_us;
	double algbw;
	double busbw;
	bool checked;
	uint64_t wrong;
	uint64_t wrong_here;
	uint64_t digest;
	bool differ;
	bool has_stats;
	uint64_t stats[ARU_STAT_SLOTS];
};

/**
 * struct row - one line of the table
 * @bytes: of the larger one of a member's buffers, of all members' blocks
 * @count: elements, as in struct allreduce_call
 * @collective: enum allreduce_collective
 * @type: enum allreduce_type, 0 for a barrier
 * @op: enum allreduce_op, 0 if the collective has none
 * @root: rank of the root, 0 if the collective has none
 * @out_of_place: the left half
 * @in_place: the right half, nothing for a barrier
 */
struct row {
	uint64_t bytes;
	uint64_t count;
	unsigned int collective;
	unsigned int type;
	unsigned int op;
	unsigned int root;
	struct column out_of_place;
	struct column in_place;
};

/**
 * struct traits - what the table of collectives says of one
 * @has_vectors: has a type and a count
 * @has_op: has an operation
 * @has_root: has a root
 * @has_blocks: the larger buffer has a block for each member
 */
struct traits {
	bool has_vectors;
	bool has_op;
	bool has_root;
	bool has_blocks;
};

/* Elements from a page's start that buffers may begin at: less than a page of any. */
#define MISALIGNED_MAX	511

/* options.c APIs: */

/* All false for an unknown collective. */
struct traits traits_of(uint8_t collective);

/* Exit code, or -1 to go on. */
int options_parse(struct options *options, int argc, char **argv);

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
