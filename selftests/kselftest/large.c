// SPDX-License-Identifier: GPL-2.0
/*
 * One vector of bytes, as large as asked for: `make check-large` makes it larger
 * than what 32 bits can count, in bytes and in elements; by default it is small,
 * so that the test itself is tested each time.
 *
 * Each page of a member's vector begins with its number, times a number of the
 * member's own, and goes on with a byte that depends on both: a page that comes
 * out at another place, or twice, shows, and pages are quick to make and to
 * compare.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "env.h"
#include "jobs.h"
#include "kselftest.h"

#define SIZE		2
#define PAGE		4096
#define MIB		(1024 * 1024ULL)
#define MIB_DEFAULT	17
/* Not a whole page, so that the last frame is short. */
#define ODD_BYTES	1237

static uint64_t bytes;

/* Byte @at of page @page of rank @rank. */
static unsigned char page_byte(uint64_t page, unsigned int at, unsigned int rank)
{
	unsigned char mixed = page * 7 + (page >> 8) * 5 + (page >> 16) * 3;

	/* Factors with an odd sum: no bit of it gets lost. */
	return at < 8 ? (page >> 8 * at) * (rank + 1) : mixed * (rank + 1);
}

static void make_page(unsigned char *to, uint64_t page, unsigned int rank, size_t n)
{
	unsigned int i;

	memset(to, page_byte(page, 8, rank), n);
	for (i = 0; i < 8 && i < n; i++)
		to[i] = page_byte(page, i, rank);
}

static void make_sum(unsigned char *to, uint64_t page, size_t n)
{
	unsigned char head[9] = {};
	unsigned int rank, i;

	for (rank = 0; rank < SIZE; rank++)
		for (i = 0; i < 9; i++)
			head[i] += page_byte(page, i, rank);
	memset(to, head[8], n);
	memcpy(to, head, n < 8 ? n : 8);
}

static uint64_t wrong_pages(const unsigned char *vector)
{
	unsigned char want[PAGE];
	uint64_t at, wrong = 0;

	for (at = 0; at < bytes; at += PAGE) {
		size_t n = bytes - at < PAGE ? bytes - at : PAGE;

		make_sum(want, at / PAGE, n);
		wrong += !!memcmp(want, vector + at, n);
	}
	return wrong;
}

static int run_vector(struct env_member *m)
{
	unsigned char *vector;
	uint64_t at, wrong;
	int ret;

	vector = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (vector == MAP_FAILED)
		return -errno;
	/* Only to save time; it works without. */
	madvise(vector, bytes, MADV_HUGEPAGE);
	for (at = 0; at < bytes; at += PAGE)
		make_page(vector + at, at / PAGE, m->rank,
			  bytes - at < PAGE ? bytes - at : PAGE);
	ret = aru_allreduce(m->aru, vector, vector, bytes, ALLREDUCE_U8,
			    ALLREDUCE_SUM, NULL);
	if (!ret) {
		wrong = wrong_pages(vector);
		if (wrong)
			printf("# rank %u: %llu pages of %llu wrong\n", m->rank,
			       (unsigned long long)wrong,
			       (unsigned long long)(bytes / PAGE + 1));
		ret = wrong ? -EIO : 0;
	} else {
		printf("# rank %u: %s %s\n", m->rank, aru_strerror(ret),
		       aru_refusal(m->aru));
	}
	munmap(vector, bytes);
	return ret;
}

int main(void)
{
	struct env_config config = {
		.size = SIZE, .lanes = 4, .family = AF_INET, .timeout_ms = 600000,
	};
	struct env env;
	uint64_t start;
	bool good;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ksft_print_header();
	bytes = jobs_setting("MIB", "aru.mib", MIB_DEFAULT) * MIB + ODD_BYTES;
	if (env_namespaces())
		ksft_exit_fail_msg("no namespaces\n");
	ksft_set_plan(1);
	start = env_now_ms();
	good = !env_up(&env, &config) && !env_run(&env, run_vector, NULL);
	env_down(&env);
	printf("# result: large: %llu elements of u8 on %u members, %llu s\n",
	       (unsigned long long)bytes, SIZE,
	       (unsigned long long)(env_now_ms() - start) / 1000);
	ksft_test_result(good, "%llu bytes\n", (unsigned long long)bytes);
	ksft_finished();
}
