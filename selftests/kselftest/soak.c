// SPDX-License-Identifier: GPL-2.0
/*
 * soak - very many random jobs on one ring that stays, every element checked.
 *
 * Environment, or the kernel's command line, which the harness can set:
 *   JOBS        aru.jobs=N         default: 3000
 *   SEED        aru.seed=N         default: a new one each time
 *   TIME_LIMIT  aru.limit=SECONDS  fails after that; default: 900
 *   SPOIL       aru.spoil=INDEX    job whose result, or memory beside it, is changed
 *                                  before it is checked, so that it has to fail;
 *                                  default: none
 *
 * Four members, four lanes; up to 256 jobs in flight on each, of changing
 * collective, type, operation, size and contents (jobs.h). Most are small: under
 * emulation making and checking data takes nearly all the time.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "kselftest.h"

#define JOBS		3000
#define JOBS_MAX	100000000
#define TIME_LIMIT_S	900
#define TELL_MS		10000
#define SIZE		4
#define LANES		4

/* Jobs that the members run before they meet: the time limit is looked at then. */
#define PART		2000

static uint64_t start_ms, told_ms, total, before, wrong;

static void tell(const struct jobs *jobs, uint64_t done)
{
	uint64_t now = env_now_ms(), all = before + done;

	if (now - told_ms < TELL_MS)
		return;
	told_ms = now;
	printf("# soak: %llu of %llu jobs, %llu wrong, %llu s, %llu jobs/s\n",
	       (unsigned long long)all, (unsigned long long)total,
	       (unsigned long long)(wrong + atomic_load(&jobs->wrong)),
	       (unsigned long long)(now - start_ms) / 1000,
	       (unsigned long long)(all * 1000 / (now - start_ms)));
}

static void again(const struct jobs *jobs, uint64_t index, char *words)
{
	char kernel[JOBS_KERNEL_SIZE];

	jobs_kernel(kernel);
	snprintf(words, JOBS_WORDS_SIZE, "make soak SEED=%llu JOBS=%llu KERNEL=%s",
		 (unsigned long long)jobs->seed, (unsigned long long)index + 1, kernel);
}

static void derive(struct jobs *jobs, uint64_t seed)
{
	unsigned int rank;

	memset(jobs, 0, sizeof(*jobs));
	jobs->seed = seed;
	jobs->config = (struct env_config){
		.size = SIZE, .lanes = LANES, .family = AF_INET,
		.depth = JOBS_WINDOW_MAX,
	};
	jobs->elements_max = 192 * 1024;
	jobs->small_max = 1024;
	jobs->tail_percent = 1;
	jobs->spoil = jobs_spoil();
	jobs->tell = tell;
	jobs->again = again;
	for (rank = 0; rank < SIZE; rank++)
		jobs->window[rank] = JOBS_WINDOW_MAX >> rank % 2;
}

/* True if all jobs of this part ended rightly on all members. */
static bool run_part(struct env *env, struct jobs *jobs)
{
	static atomic_uchar passed[PART];
	bool good;
	uint64_t i;

	memset(passed, 0, sizeof(passed));
	jobs->passed = passed;
	atomic_store(&jobs->wrong, 0);
	good = !env_run(env, jobs_run, jobs);
	for (i = jobs->first; i < jobs->first + jobs->count; i++)
		wrong += !jobs_passed(jobs, i);
	return good && !wrong;
}

int main(void)
{
	uint64_t seed, limit_ms;
	struct jobs jobs;
	struct env env;
	bool good;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ksft_print_header();
	total = jobs_setting("JOBS", "aru.jobs", JOBS);
	seed = jobs_seed();
	limit_ms = jobs_setting("TIME_LIMIT", "aru.limit", TIME_LIMIT_S) * 1000;
	if (total < 1 || total > JOBS_MAX)
		ksft_exit_fail_msg("JOBS must be 1 to %u, not %llu\n", JOBS_MAX,
				   (unsigned long long)total);
	printf("# soak: seed %llu\n", (unsigned long long)seed);
	derive(&jobs, seed);
	if (env_namespaces())
		ksft_exit_fail_msg("no namespaces\n");
	ksft_set_plan(1);
	start_ms = env_now_ms();
	told_ms = start_ms;
	good = !env_up(&env, &jobs.config);
	while (good && before < total) {
		jobs.first = before;
		jobs.count = total - before < PART ? total - before : PART;
		good = run_part(&env, &jobs);
		before += jobs.count;
		if (env_now_ms() - start_ms > limit_ms && before < total) {
			printf("# soak: time is up\n");
			good = false;
		}
	}
	env_down(&env);
	printf("# result: soak: %llu jobs, %llu wrong, seed %llu, %llu s\n",
	       (unsigned long long)before, (unsigned long long)wrong,
	       (unsigned long long)seed,
	       (unsigned long long)(env_now_ms() - start_ms) / 1000);
	ksft_test_result(good, "%llu jobs\n", (unsigned long long)total);
	ksft_finished();
}
