/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random jobs whose results are checked: what property.c and soak.c share.
 *
 * Everything about a job follows from a seed, the job's index and the ring; what
 * each member does with it (where its buffers are, whether they are registered,
 * how late it comes) also from its rank. So all members derive the same jobs
 * without a word between them, and any job can be made again from its two numbers.
 */
#ifndef JOBS_H
#define JOBS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "env.h"
#include "../unit/random.h"
#include "../../tools/arbench/reference.h"

#define JOBS_WINDOW_MAX	256
#define JOBS_SPOIL_NONE	UINT64_MAX
#define JOBS_WORDS_SIZE	256

/**
 * struct jobs - a stream of jobs on one ring
 * @seed: of the stream
 * @config: the ring
 * @first: index of the first job
 * @count: how many jobs there are
 * @elements_max: of all elements of a buffer
 * @small_max: the same for small jobs
 * @tail_percent: jobs of up to @elements_max; the others are small
 * @window: jobs that a member has under way at most, by rank
 * @huge_pages: ask for such for the buffers
 * @spoil: index of a job in whose memory a byte is changed, on all members, before
 *	it is checked: it must then fail; JOBS_SPOIL_NONE for no job
 * @tell: says how far it has got, from rank 0; or NULL
 * @again: words of a command, on the host, that does a job again; of JOBS_WORDS_SIZE
 * @passed: for each job, members on which it was right
 * @wrong: jobs that failed on a member; a job can count on several
 * @said: failures that were described
 */
struct jobs {
	uint64_t seed;
	struct env_config config;
	uint64_t first;
	uint64_t count;
	uint64_t elements_max;
	uint64_t small_max;
	unsigned int tail_percent;
	unsigned int window[ENV_MEMBERS_MAX];
	bool huge_pages;
	uint64_t spoil;
	void (*tell)(const struct jobs *jobs, uint64_t done);
	void (*again)(const struct jobs *jobs, uint64_t index, char *words);
	atomic_uchar *passed;
	atomic_ullong wrong;
	atomic_uint said;
};

/* A triple of collective, type and operation, 0 where a collective has none. */
struct jobs_row {
	unsigned int collective;
	unsigned int type;
	unsigned int op;
};

/* All there are; returns how many. Jobs take them in turn, so all come up. */
unsigned int jobs_rows(const struct jobs_row **rows);

/* Job @index of a stream. */
struct job jobs_job(const struct jobs *jobs, uint64_t index);

/* A job in words, of JOBS_WORDS_SIZE, without what differs between the members. */
void jobs_words(const struct jobs *jobs, const struct job *job, char *words);

/* An env_fn: all jobs on one member; arg is the struct jobs. */
int jobs_run(struct env_member *member);

/* True if the job was right on all members. */
bool jobs_passed(const struct jobs *jobs, uint64_t index);

/* The state, for random.h, from which sequence @index of @seed starts. */
uint64_t jobs_state(uint64_t seed, uint64_t index);

/*
 * What is given as environment variable @variable, or else as word @word=TEXT of the
 * kernel's command line; "" if neither is. Valid until the next call.
 */
const char *jobs_text(const char *variable, const char *word);

/* The same if it is a number, else @value. Exits if it is no number. */
uint64_t jobs_setting(const char *variable, const char *word, uint64_t value);

/* The seed: SEED or aru.seed, else a new one each time. */
uint64_t jobs_seed(void);

/* The job to be spoilt: SPOIL or aru.spoil, else none. */
uint64_t jobs_spoil(void);

/* The running kernel as the makefile names it, 6.1 or so; of JOBS_KERNEL_SIZE. */
#define JOBS_KERNEL_SIZE	65
void jobs_kernel(char *kernel);

/* A number, decimal or 0x; false if @text isn't one. */
bool jobs_number(const char *text, uint64_t *value);

#endif /* JOBS_H */
