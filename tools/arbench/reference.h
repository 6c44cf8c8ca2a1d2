/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data that every member can compute for every other, and what the collectives
 * have to make of them, bit for bit. Used by arbench and by the selftests.
 */
#ifndef _ARBENCH_REFERENCE_H
#define _ARBENCH_REFERENCE_H

#include <linux/allreduce.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct job - what the data of a call depend on, apart from the rank
 * @seed: of the run
 * @count: elements, as in struct allreduce_call
 * @iteration: number of the call
 * @size: members of the ring
 * @collective: enum allreduce_collective
 * @type: enum allreduce_type, 0 for a barrier
 * @op: enum allreduce_op, 0 for collectives without one
 * @root: rank of the root, 0 for collectives without one
 */
struct job {
	uint64_t seed;
	uint64_t count;
	uint64_t iteration;
	unsigned int size;
	unsigned int collective;
	unsigned int type;
	unsigned int op;
	unsigned int root;
};

/* Elements of @rank's buffers. */
static inline struct allreduce_buffers job_buffers(const struct job *job,
						   unsigned int rank)
{
	return allreduce_buffers(job->collective, job->count, rank, job->size, job->root);
}

/* True if there is a reference for @op on @type. */
bool reference_known(unsigned int type, unsigned int op);

/*
 * @rank's contribution: job_buffers().src elements, aligned as the type needs.
 * What a member contributes depends on all of @job, so a result of another job
 * does not pass for one of this.
 */
void reference_fill(const struct job *job, unsigned int rank, void *src);

/* @rank's factor as in struct allreduce_call: bits of an f64, 0 but for premulsum. */
uint64_t reference_factor(const struct job *job, unsigned int rank);

/*
 * Elements of @rank's result (job_buffers().dst of them) that are not right, bit
 * for bit. Takes a bounded amount of memory, whatever the count.
 */
uint64_t reference_check(const struct job *job, unsigned int rank, const void *dst);

/*
 * Elements of @rank's source that are not what reference_fill() put there; in
 * place, of those only that are not also elements of the result.
 */
uint64_t reference_check_src(const struct job *job, unsigned int rank,
			     const void *src, bool in_place);

/* @digest, carried on over @bytes bytes. */
uint64_t reference_digest(uint64_t digest, const void *data, uint64_t bytes);

#endif /* _ARBENCH_REFERENCE_H */
