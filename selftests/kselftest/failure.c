// SPDX-License-Identifier: GPL-2.0
/*
 * When something breaks, every job of every member ends with an error in
 * bounded time, no page stays pinned and the rings can be deleted.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env.h"
#include "kselftest_harness.h"

#define SIZE		3
#define TIMEOUT_MS	1000
/* What a slow, shared machine may add to a bound. */
#define SLACK_MS	4000
#define COUNT		(2 * 1024 * 1024)
#define ALL		((1U << SIZE) - 1)

FIXTURE(failure)
{
	struct env env;
	uint64_t start;
};

static long long vmstat_value(const char *name)
{
	char key[64];
	long long value, found = -1;
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		return -1;
	while (fscanf(f, "%63s %lld", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(f);
	return found;
}

static bool nothing_pinned(void)
{
	uint64_t end = env_now_ms() + SLACK_MS;

	while (vmstat_value("nr_foll_pin_acquired") !=
	       vmstat_value("nr_foll_pin_released")) {
		if (env_now_ms() > end)
			return false;
		usleep(10000);
	}
	return true;
}

FIXTURE_SETUP(failure)
{
	struct env_config config = { .size = SIZE, .lanes = 2, .family = AF_INET,
				     .timeout_ms = TIMEOUT_MS };

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_up(&self->env, &config));
	self->start = env_now_ms();
}

FIXTURE_TEARDOWN(failure)
{
	env_down(&self->env);
	EXPECT_TRUE(nothing_pinned());
}

/* What a member does, and what came of it. */
struct member_job {
	uint64_t count;
	unsigned int type;
	unsigned int delay_ms;
	unsigned int timeout_ms;	/* 0: the ring's */
	int result;
	int second;
	uint64_t done_ms;
};

struct jobs {
	struct member_job of[SIZE];
};

static void jobs_init(struct jobs *jobs)
{
	int i;

	memset(jobs, 0, sizeof(*jobs));
	for (i = 0; i < SIZE; i++) {
		jobs->of[i].count = COUNT;
		jobs->of[i].type = ALLREDUCE_F32;
		jobs->of[i].second = 1;
	}
}

static int run_job(struct env_member *m)
{
	struct member_job *job = &((struct jobs *)m->arg)->of[m->rank];
	size_t bytes = job->count * aru_type_size(job->type);
	void *buf = calloc(1, bytes + 64);
	ARU_OPTS(aru_call_opts, opts);

	if (!buf)
		return -ENOMEM;
	opts.timeout_ms = job->timeout_ms;
	usleep(job->delay_ms * 1000);
	job->result = aru_allreduce(m->aru, buf, buf, job->count, job->type,
				    ALLREDUCE_SUM, &opts);
	job->done_ms = env_now_ms();
	if (job->result)
		job->second = aru_allreduce(m->aru, buf, buf, 1, job->type,
					    ALLREDUCE_SUM, NULL);
	free(buf);
	return 0;
}

/* All of @ranks failed in time, and their rings refuse the next job at once. */
static bool all_failed(const struct jobs *jobs, unsigned int ranks, uint64_t start,
		       unsigned int bound_ms)
{
	bool ok = true;
	int i;

	for (i = 0; i < SIZE; i++) {
		const struct member_job *job = &jobs->of[i];
		uint64_t took = job->done_ms - start;

		if (!(ranks & 1U << i))
			continue;
		if (job->result < 0 && job->second == -EPIPE &&
		    took <= bound_ms + SLACK_MS)
			continue;
		fprintf(stderr, "# rank %d: result %d after %llu ms, then %d\n", i,
		       job->result, (unsigned long long)took, job->second);
		ok = false;
	}
	return ok;
}

static bool all_broken(struct env *env, unsigned int ranks)
{
	unsigned int i;

	for (i = 0; i < SIZE; i++)
		if (ranks & 1U << i &&
		    !env_wait_state(env, i, ALLREDUCE_RING_BROKEN, SLACK_MS))
			return false;
	return true;
}

/* More than the ring's timeout: the job's counts. Enough for a busy machine. */
static void patient(struct jobs *jobs)
{
	int i;

	for (i = 0; i < SIZE; i++)
		jobs->of[i].timeout_ms = 15 * TIMEOUT_MS;
}

TEST_F(failure, nobody_fails_without_a_reason)
{
	struct jobs jobs;
	int i;

	jobs_init(&jobs);
	patient(&jobs);
	ASSERT_EQ(0, env_run(&self->env, run_job, &jobs));
	for (i = 0; i < SIZE; i++)
		EXPECT_EQ(0, jobs.of[i].result);
}

TEST_F(failure, a_late_member_within_the_timeout_is_waited_for)
{
	struct jobs jobs;
	int i;

	jobs_init(&jobs);
	patient(&jobs);
	jobs.of[1].delay_ms = 2 * TIMEOUT_MS;
	ASSERT_EQ(0, env_run(&self->env, run_job, &jobs));
	for (i = 0; i < SIZE; i++)
		EXPECT_EQ(0, jobs.of[i].result);
}

TEST_F(failure, a_member_that_never_submits)
{
	struct jobs jobs;

	jobs_init(&jobs);
	ASSERT_EQ(0, env_run_some(&self->env, ALL & ~2U, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, ALL & ~2U, self->start, 2 * TIMEOUT_MS));
	EXPECT_TRUE(all_broken(&self->env, ALL));
}

static int cancel_late(struct env_member *m)
{
	struct member_job *job = &((struct jobs *)m->arg)->of[m->rank];
	struct aru_request *req;
	void *buf;
	int ret;

	if (m->rank == 2)
		return 0;
	if (m->rank == 1)
		return run_job(m);
	buf = calloc(COUNT, 4);
	if (!buf)
		return -ENOMEM;
	ret = aru_iallreduce(m->aru, buf, buf, COUNT, ALLREDUCE_F32, ALLREDUCE_SUM,
			     NULL, &req);
	if (ret)
		return ret;
	usleep(100000);
	ret = aru_cancel(req);
	job->result = aru_wait(req, -1);
	job->done_ms = env_now_ms();
	job->second = aru_allreduce(m->aru, buf, buf, 1, ALLREDUCE_F32,
				    ALLREDUCE_SUM, NULL);
	free(buf);
	return ret;
}

TEST_F(failure, cancel)
{
	struct jobs jobs;

	jobs_init(&jobs);
	ASSERT_EQ(0, env_run(&self->env, cancel_late, &jobs));
	EXPECT_TRUE(all_failed(&jobs, 3, self->start, 100));
	EXPECT_EQ(-ECANCELED, jobs.of[0].result);
	EXPECT_TRUE(all_broken(&self->env, ALL));
}

/* Delete a ring while its members wait for each other. */
static int delete_ring(struct env_member *m)
{
	if (m->rank != 1)
		return run_job(m);
	usleep(200000);
	return aru_ring_del(m->env->nl[1], ENV_RING);
}

TEST_F(failure, ring_deleted)
{
	struct jobs jobs;

	jobs_init(&jobs);
	ASSERT_EQ(0, env_run(&self->env, delete_ring, &jobs));
	EXPECT_TRUE(all_failed(&jobs, ALL & ~2U, self->start, 200));
	EXPECT_TRUE(all_broken(&self->env, ALL & ~2U));
	EXPECT_EQ(0, env_state(&self->env, 1));
}

/* True if @text has the words of @words, and they end there. */
static bool names(const char *text, const char *words)
{
	const char *p = text;

	while ((p = strstr(p, words))) {
		p += strlen(words);
		if (!isalnum((unsigned char)*p))
			return true;
	}
	return false;
}

/* Some member has seen that calls differ, and its ring says what in both. */
static bool calls_named(struct env *env, const struct jobs *jobs, const char *one,
			const char *other)
{
	struct aru_ring *ring;
	bool found = false;
	int i;

	for (i = 0; i < SIZE; i++) {
		if (aru_ring_get(env->nl[i], ENV_RING, &ring))
			return false;
		if (jobs->of[i].result == -EINVAL && ring->error == -EINVAL &&
		    names(ring->reason, one) && names(ring->reason, other))
			found = true;
		else
			fprintf(stderr, "# rank %d: %d, %s\n", i, jobs->of[i].result,
				ring->reason);
		aru_ring_free(ring);
	}
	return found;
}

static bool counts_named(struct env *env, const struct jobs *jobs, uint64_t one,
			 uint64_t other)
{
	char words[2][64];

	snprintf(words[0], sizeof(words[0]), "f32 count %llu", (unsigned long long)one);
	snprintf(words[1], sizeof(words[1]), "f32 count %llu", (unsigned long long)other);
	return calls_named(env, jobs, words[0], words[1]);
}

/* Calls that differ: an error on every member, not a hang, not a sum. */
TEST_F(failure, counts_differ)
{
	struct jobs jobs;

	jobs_init(&jobs);
	jobs.of[1].count--;
	ASSERT_EQ(0, env_run(&self->env, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, ALL, self->start, 2 * TIMEOUT_MS));
	EXPECT_TRUE(counts_named(&self->env, &jobs, COUNT, COUNT - 1));
}

TEST_F(failure, one_count_is_zero)
{
	struct jobs jobs;

	jobs_init(&jobs);
	jobs.of[2].count = 0;
	ASSERT_EQ(0, env_run(&self->env, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, ALL, self->start, 2 * TIMEOUT_MS));
	EXPECT_TRUE(counts_named(&self->env, &jobs, COUNT, 0));
}

TEST_F(failure, types_differ)
{
	struct jobs jobs;

	jobs_init(&jobs);
	jobs.of[0].type = ALLREDUCE_I32;
	ASSERT_EQ(0, env_run(&self->env, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, ALL, self->start, 2 * TIMEOUT_MS));
	EXPECT_TRUE(calls_named(&self->env, &jobs, "sum f32", "sum i32"));
}

/* A cable that is cut says nothing: only the job's timeout notices. */
static int cut_cable(struct env_member *m)
{
	struct jobs *jobs = m->arg;

	if (m->rank == 0) {
		if (env_shell("ip link set v1 down"))
			return -EIO;
		jobs->of[0].delay_ms = 0;
	} else {
		jobs->of[m->rank].delay_ms = 100;
	}
	return run_job(m);
}

TEST_F(failure, cable_cut)
{
	struct jobs jobs;

	jobs_init(&jobs);
	EXPECT_EQ(0, env_run(&self->env, cut_cable, &jobs));
	EXPECT_EQ(0, env_shell("ip link set v1 up"));
	EXPECT_TRUE(all_failed(&jobs, ALL, self->start, 3 * TIMEOUT_MS));
}

/* A process with a job in flight, which ends itself or is ended. */
static pid_t start_process(unsigned int rank, bool exits, int *ready)
{
	struct aru_request *req;
	struct aru *aru;
	int pipefd[2];
	void *buf;
	pid_t pid;

	if (pipe(pipefd))
		return -1;
	pid = fork();
	if (pid) {
		close(pipefd[1]);
		*ready = pipefd[0];
		return pid;
	}
	/* The netlink handles of the parent are of no use here. */
	buf = mmap(NULL, COUNT * 4, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED || env_enter(rank) || aru_open(&aru, ENV_RING, NULL) ||
	    aru_iallreduce(aru, buf, buf, COUNT, ALLREDUCE_F32, ALLREDUCE_SUM, NULL,
			   &req))
		_exit(1);
	/* Past the queue of the library, into the kernel. */
	aru_test(req);
	if (write(pipefd[1], "x", 1) != 1)
		_exit(1);
	if (exits)
		_exit(0);
	pause();
	_exit(1);
}

static bool process_ended(pid_t pid, unsigned int bound_ms)
{
	uint64_t end = env_now_ms() + bound_ms;

	while (waitpid(pid, NULL, WNOHANG) != pid) {
		if (env_now_ms() > end)
			return false;
		usleep(5000);
	}
	return true;
}

static bool wait_ready(int fd)
{
	char c;
	bool ok = read(fd, &c, 1) == 1;

	close(fd);
	return ok;
}

TEST_F(failure, process_killed)
{
	struct jobs jobs;
	int ready;
	pid_t pid = start_process(0, false, &ready);

	ASSERT_LT(0, pid);
	ASSERT_TRUE(wait_ready(ready));
	self->start = env_now_ms();
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_TRUE(process_ended(pid, 1000 + SLACK_MS));
	EXPECT_TRUE(env_wait_state(&self->env, 0, ALLREDUCE_RING_BROKEN, SLACK_MS));
	/* The others learn it when they next use the ring, if not before. */
	jobs_init(&jobs);
	ASSERT_EQ(0, env_run_some(&self->env, 6, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, 6, self->start, 2 * TIMEOUT_MS));
	EXPECT_TRUE(nothing_pinned());
}

TEST_F(failure, process_exits)
{
	int ready;
	pid_t pid = start_process(2, true, &ready);

	ASSERT_LT(0, pid);
	ASSERT_TRUE(wait_ready(ready));
	EXPECT_TRUE(process_ended(pid, 1000 + SLACK_MS));
	EXPECT_TRUE(all_broken(&self->env, ALL));
	EXPECT_TRUE(nothing_pinned());
}

/* A member that is done may go at once: the others still get their sums. */
static int run_and_delete(struct env_member *m)
{
	struct member_job *job = &((struct jobs *)m->arg)->of[m->rank];
	void *buf = calloc(COUNT, 4);

	if (!buf)
		return -ENOMEM;
	job->result = aru_allreduce(m->aru, buf, buf, COUNT, ALLREDUCE_F32,
				    ALLREDUCE_SUM, NULL);
	free(buf);
	return job->result ? job->result : aru_ring_del(m->env->nl[m->rank], ENV_RING);
}

TEST_F(failure, deleting_when_done_takes_nothing_from_others)
{
	struct env_config config = self->env.config;
	struct jobs jobs;
	int i;

	for (i = 0; i < 5; i++) {
		jobs_init(&jobs);
		ASSERT_EQ(0, env_run(&self->env, run_and_delete, &jobs));
		env_down(&self->env);
		ASSERT_EQ(0, env_up(&self->env, &config));
	}
}

/* One call more than the others make. */
static int run_once_or_twice(struct env_member *m)
{
	struct jobs *jobs = m->arg;
	float buf[1000] = {};
	int ret;

	ret = aru_allreduce(m->aru, buf, buf, 1000, ALLREDUCE_F32, ALLREDUCE_SUM, NULL);
	if (ret)
		return ret;
	return m->rank ? 0 : run_job(&(struct env_member) {
		.env = m->env, .rank = 0, .aru = m->aru, .arg = jobs });
}

TEST_F(failure, one_call_more_than_the_others)
{
	struct jobs jobs;

	jobs_init(&jobs);
	ASSERT_EQ(0, env_run(&self->env, run_once_or_twice, &jobs));
	EXPECT_TRUE(all_failed(&jobs, 1, self->start, 2 * TIMEOUT_MS));
}

/* A namespace that goes away takes its ring with it. */
TEST_F(failure, namespace_deleted)
{
	struct jobs jobs;

	/* Its netlink handle would keep the namespace. */
	aru_nl_close(self->env.nl[2]);
	self->env.nl[2] = NULL;
	ASSERT_EQ(0, env_shell("ip netns del n2"));
	jobs_init(&jobs);
	ASSERT_EQ(0, env_run_some(&self->env, 3, run_job, &jobs));
	EXPECT_TRUE(all_failed(&jobs, 3, self->start, 2 * TIMEOUT_MS));
	env_down(&self->env);
	EXPECT_EQ(0, env_restore(2));
}

TEST_HARNESS_MAIN
