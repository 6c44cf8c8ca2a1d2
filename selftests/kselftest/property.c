// SPDX-License-Identifier: GPL-2.0
/*
 * property - random collectives on random rings, every element checked.
 *
 * Usage: property [SEED INDEX]
 *
 * A combination is a job (collective, type, operation, root, count, placement of
 * buffers, registered or not, late or not) on a ring (size, lanes, address family,
 * frame_max, gather_max) with a number of jobs in flight. Rings follow from the
 * seed, as the jobs do (jobs.h): SEED INDEX makes one combination again, alone and
 * then among the other jobs of its ring.
 *
 * Environment, or the kernel's command line, which the harness can set:
 *   SEED          aru.seed=N          default: a new one each time
 *   INDEX         aru.index=N         as the argument, with SEED
 *   COMBINATIONS  aru.combinations=N  default: 1100
 *   TIME_LIMIT    aru.limit=SECONDS   no new ring after that; default: 900
 *   ISA           aru.isa=NAME        instruction set that the module has to have
 *                                     chosen; default: any
 *   SPOIL         aru.spoil=INDEX     combination whose result, or memory beside it,
 *                                     is changed before it is checked, so that it
 *                                     has to fail; default: none
 *   CPU           aru.cpu=MODEL       QEMU's CPU, only to name it when a combination
 *                                     failed
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "jobs.h"
#include "kselftest.h"

#define COMBINATIONS		1100
#define COMBINATIONS_MAX	1000000
#define TIME_LIMIT_S		900
#define ELEMENTS_MAX		(256 * 1024)

static atomic_uchar *passed;
static char isa[16] = "unknown";
static char cpu[64];
static uint64_t spoil;

static void again(const struct jobs *jobs, uint64_t index, char *words)
{
	char kernel[JOBS_KERNEL_SIZE];

	jobs_kernel(kernel);
	snprintf(words, JOBS_WORDS_SIZE,
		 "make check-property SEED=%llu INDEX=%llu KERNELS=%s%s%s",
		 (unsigned long long)jobs->seed, (unsigned long long)index, kernel,
		 *cpu ? " CPU=" : "", cpu);
}

/* The ring whose first combination is @first, and its jobs. */
static void derive_ring(struct jobs *jobs, uint64_t seed, unsigned int number,
			uint64_t first)
{
	static const unsigned int sizes[] = { 1, 2, 2, 2, 3, 3, 3, 4, 4, 5 };
	static const unsigned int lanes[] = { 1, 2, 4, 8 };
	static const unsigned int frames[] = { 0, 4096, 4160, 65536, 1048576 };
	static const unsigned int gathers[] = { 0, 4096, 65536 };
	uint64_t state = jobs_state(~seed, number);
	bool burst = number % 16 == 1;
	unsigned int window, rank;

	memset(jobs, 0, sizeof(*jobs));
	jobs->seed = seed;
	jobs->first = first;
	jobs->spoil = spoil;
	jobs->again = again;
	jobs->config.size = sizes[random_below(&state, ARRAY_SIZE(sizes))];
	jobs->config.lanes = lanes[random_below(&state, ARRAY_SIZE(lanes))];
	jobs->config.family = random_u64(&state) & 1 ? AF_INET : AF_INET6;
	jobs->config.frame_max = random_below(&state, 3) ?
		frames[random_below(&state, ARRAY_SIZE(frames))] :
		64 * (64 + random_below(&state, 2048));
	jobs->config.has_gather_max = random_below(&state, 4);
	jobs->config.gather_max = random_below(&state, 3) ?
		gathers[random_below(&state, ARRAY_SIZE(gathers))] :
		random_below(&state, ALLREDUCE_GATHER_MAX_MAX + 1);
	if (!jobs->config.has_gather_max)
		jobs->config.gather_max = 0;
	jobs->huge_pages = random_u64(&state) & 1;

	jobs->count = burst ? 300 : 16 + random_below(&state, 33);
	jobs->elements_max = ELEMENTS_MAX;
	jobs->small_max = 8192;
	jobs->tail_percent = burst ? 1 : 12;
	window = burst ? JOBS_WINDOW_MAX : 1 + random_below(&state, 64) * random_below(&state, 2) +
					   random_below(&state, 8);
	if (window > 64 && !burst)
		window = 64;
	/* the context hands over no more than its depth; the library keeps the rest */
	jobs->config.depth = burst ? JOBS_WINDOW_MAX : 1 + random_below(&state, 64);
	for (rank = 0; rank < jobs->config.size; rank++)
		jobs->window[rank] = burst || random_below(&state, 4) ? window :
				     1 + random_below(&state, window);
}

static void learn_isa(struct env *env)
{
	struct aru_ring *ring;

	if (aru_ring_get(env->nl[0], ENV_RING, &ring))
		return;
	snprintf(isa, sizeof(isa), "%s", ring->isa);
	aru_ring_free(ring);
}

/* All jobs on one ring. True if all were right on all members. */
static bool run_ring(struct jobs *jobs)
{
	struct env env;
	uint64_t i;
	bool good;

	jobs->passed = passed + jobs->first;
	memset(passed + jobs->first, 0, jobs->count * sizeof(*passed));
	good = !env_up(&env, &jobs->config);
	if (good) {
		learn_isa(&env);
		good = !env_run(&env, jobs_run, jobs);
	}
	env_down(&env);
	for (i = jobs->first; i < jobs->first + jobs->count; i++)
		good &= jobs_passed(jobs, i);
	return good;
}

/* Rings of the first @total combinations. */
static unsigned int count_rings(uint64_t seed, uint64_t total)
{
	unsigned int number = 0;
	uint64_t first = 0;
	struct jobs jobs;

	for (; first < total; first += jobs.count)
		derive_ring(&jobs, seed, number++, first);
	return number;
}

struct coverage {
	unsigned int collective[16];
	unsigned int type[16];
	unsigned int op[16];
};

static void print_counts(const char *what, const unsigned int *counts,
			 const char *(*name)(unsigned int value))
{
	unsigned int i;

	printf("# %s:", what);
	for (i = 1; i < 16; i++)
		if (name(i))
			printf(" %s %u", name(i), counts[i]);
	printf("\n");
}

static void print_coverage(uint64_t seed, uint64_t total, uint64_t good)
{
	static struct coverage c;
	static bool seen[16][16][16];
	const struct jobs_row *rows;
	unsigned int n = jobs_rows(&rows), number = 0, missing = 0, r;
	struct utsname kernel;
	uint64_t first = 0, i;
	struct jobs jobs;

	for (; first < total; first += jobs.count) {
		derive_ring(&jobs, seed, number++, first);
		jobs.passed = passed + first;
		for (i = first; i < first + jobs.count && i < total; i++) {
			struct job job = jobs_job(&jobs, i);

			if (!jobs_passed(&jobs, i))
				continue;
			c.collective[job.collective]++;
			c.type[job.type]++;
			c.op[job.op]++;
			seen[job.collective][job.type][job.op] = true;
		}
	}
	for (r = 0; r < n; r++)
		missing += !seen[rows[r].collective][rows[r].type][rows[r].op];
	print_counts("collectives", c.collective, aru_collective_name);
	print_counts("types", c.type, aru_type_name);
	print_counts("operations", c.op, aru_op_name);
	uname(&kernel);
	printf("# result: property: %llu of %llu combinations passed on %s with %s loops, ",
	       (unsigned long long)good, (unsigned long long)total, kernel.release, isa);
	printf("%u of %u collectives x types x operations among them, seed %llu\n",
	       n - missing, n, (unsigned long long)seed);
}

static void run_all(uint64_t seed)
{
	uint64_t total = jobs_setting("COMBINATIONS", "aru.combinations", COMBINATIONS);
	uint64_t limit_ms = jobs_setting("TIME_LIMIT", "aru.limit", TIME_LIMIT_S) * 1000;
	uint64_t start = env_now_ms(), first = 0, good = 0, i;
	const char *want = jobs_text("ISA", "aru.isa");
	unsigned int rings, number;
	struct jobs jobs;

	if (total < 1 || total > COMBINATIONS_MAX)
		ksft_exit_fail_msg("COMBINATIONS must be 1 to %u, not %llu\n",
				   COMBINATIONS_MAX, (unsigned long long)total);
	rings = count_rings(seed, total);
	ksft_set_plan(rings + 1 + !!*want);
	/* the last ring may have more jobs than are asked for */
	passed = calloc(total + 1024, sizeof(*passed));
	if (!passed)
		ksft_exit_fail_msg("no memory\n");

	for (number = 0; number < rings; number++, first += jobs.count) {
		derive_ring(&jobs, seed, number, first);
		if (jobs.count > total - first)
			jobs.count = total - first;
		if (env_now_ms() - start > limit_ms) {
			ksft_test_result_fail("ring %u: no time left\n", number);
			continue;
		}
		ksft_test_result(run_ring(&jobs), "ring %u\n", number);
		for (i = first; i < first + jobs.count; i++)
			good += jobs_passed(&jobs, i);
	}
	print_coverage(seed, total, good);
	printf("# %llu ms\n", (unsigned long long)(env_now_ms() - start));
	ksft_test_result(good == total, "combinations\n");
	if (*want)
		ksft_test_result(!strcmp(isa, want), "%s loops\n", want);
	ksft_finished();
}

static void run_one(uint64_t seed, uint64_t index)
{
	unsigned int number = 0;
	char words[JOBS_WORDS_SIZE];
	struct jobs jobs, alone;
	uint64_t first = 0;
	struct job job;

	for (;; first += jobs.count) {
		derive_ring(&jobs, seed, number++, first);
		if (index < first + jobs.count)
			break;
	}
	job = jobs_job(&jobs, index);
	jobs_words(&jobs, &job, words);
	printf("# combination %llu of seed %llu, on ring %u: %s\n",
	       (unsigned long long)index, (unsigned long long)seed, number - 1, words);
	passed = calloc(first + 1024, sizeof(*passed));
	if (!passed)
		ksft_exit_fail_msg("no memory\n");

	ksft_set_plan(2);
	alone = jobs;
	alone.first = index;
	alone.count = 1;
	ksft_test_result(run_ring(&alone), "alone\n");
	run_ring(&jobs);
	ksft_test_result(jobs_passed(&jobs, index), "among the jobs of its ring\n");
	ksft_finished();
}

static int wrong_usage(void)
{
	ksft_exit_fail_msg("usage: property [SEED INDEX]: two numbers, INDEX below %u\n",
			   COMBINATIONS_MAX);
	return 1;
}

int main(int argc, char **argv)
{
	const char *one = argc == 3 ? argv[2] : jobs_text("INDEX", "aru.index");
	uint64_t seed, index = 0;
	bool all = !*one;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ksft_print_header();
	if ((argc != 1 && argc != 3) ||
	    (!all && (!jobs_number(one, &index) || index >= COMBINATIONS_MAX)))
		return wrong_usage();
	/* an index says nothing without its seed */
	if (argc == 1 && !all && !*jobs_text("SEED", "aru.seed"))
		return wrong_usage();
	seed = jobs_seed();
	spoil = jobs_spoil();
	snprintf(cpu, sizeof(cpu), "%s", jobs_text("CPU", "aru.cpu"));
	if (argc == 3 && !jobs_number(argv[1], &seed))
		return wrong_usage();
	printf("# property: seed %llu\n", (unsigned long long)seed);
	if (env_namespaces())
		ksft_exit_fail_msg("no namespaces\n");
	if (all)
		run_all(seed);
	else
		run_one(seed, index);
	return 1;
}
