// SPDX-License-Identifier: GPL-2.0
/*
 * The library against the module: two members of one ring, both driven from
 * here, on the loopback interface of a network namespace of its own. What the
 * library does without a module is tested in selftests/lib.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "libtest.h"

#define N	5000

/* Bounds of waits: far above what they take, far below for ever. */
#define SOON_MS	20000

static const char *const names[2] = { "lib0", "lib1" };
static struct aru_nl *nl;
static struct aru *aru[2];
static int src[2][N], dst[2][N];

static int own_netns(void **state)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	(void)state;
	if (unshare(CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr))
		return -1;
	close(fd);
	return aru_nl_open(&nl);
}

static int end_netns(void **state)
{
	(void)state;
	aru_nl_close(nl);
	return 0;
}

static void add_ring(int i)
{
	struct aru_member members[2];

	ARU_OPTS(aru_ring_config, config);
	assert_int_equal(aru_members_parse("127.0.0.1:7001,127.0.0.1:7002", members, 2,
					   NULL, 0), 2);
	config.name = names[i];
	/* Two objects for one ring: the default id would differ by their names. */
	config.has_id = true;
	memset(config.id, 7, sizeof(config.id));
	config.rank = i;
	config.members = members;
	config.n_members = 2;
	config.lanes = 2;
	assert_int_equal(aru_ring_add(nl, &config), 0);
}

static int rings_down(void **state)
{
	int i, k;

	(void)state;
	for (i = 0; i < 2; i++) {
		add_ring(i);
		for (k = 0; k < N; k++) {
			src[i][k] = 1000 * i + k;
			dst[i][k] = -1;
		}
	}
	return 0;
}

static int rings_up(void **state)
{
	ARU_OPTS(aru_ring_up_opts, opts);

	rings_down(state);
	opts.nowait = true;
	assert_int_equal(aru_ring_up(nl, names[0], &opts), 0);
	assert_int_equal(aru_ring_up(nl, names[1], NULL), 0);
	/* Up already, or up soon. */
	if (aru_ring_up(nl, names[0], NULL)) {
		struct aru_ring *ring;
		int tries = 100;

		do {
			usleep(50000);
			assert_int_equal(aru_ring_get(nl, names[0], &ring), 0);
			tries = ring->state == ALLREDUCE_RING_UP ? 0 : tries - 1;
			if (!tries)
				assert_int_equal(ring->state, ALLREDUCE_RING_UP);
			aru_ring_free(ring);
		} while (tries);
	}
	return 0;
}

static int contexts(void **state)
{
	int i;

	rings_up(state);
	for (i = 0; i < 2; i++)
		assert_int_equal(aru_open(&aru[i], names[i], NULL), 0);
	return 0;
}

static int clean(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(aru_close(aru[i]), 0);
		aru[i] = NULL;
		assert_int_equal(aru_ring_del(nl, names[i]), 0);
	}
	return 0;
}

static struct aru_request *start(int i, const struct aru_call_opts *opts)
{
	struct aru_request *req;

	assert_int_equal(aru_iallreduce(aru[i], src[i], dst[i], N, ALLREDUCE_I32,
					ALLREDUCE_SUM, opts, &req), 0);
	return req;
}

static void assert_sums(const int *result, int n)
{
	int k;

	for (k = 0; k < n; k++)
		if (result[k] != 1000 + 2 * k)
			fail_msg("element %d is %d", k, result[k]);
}

static bool is_one_of(int error, int a, int b, int c)
{
	return error == a || error == b || error == c;
}

/* ---- on an io_uring of one's own ----------------------------------------- */

/**
 * struct own - an io_uring and a device
 * @uring: with 128-byte SQEs
 * @fd: the device
 */
struct own {
	struct io_uring uring;
	int fd;
};

static struct io_uring_sqe *own_sqe(struct own *own)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&own->uring);

	if (!sqe)
		abort();
	return sqe;
}

static int own_wait(struct own *own)
{
	struct __kernel_timespec ts = { .tv_sec = SOON_MS / 1000 };
	struct io_uring_cqe *cqe;
	int res;

	assert_int_equal(io_uring_wait_cqe_timeout(&own->uring, &cqe, &ts), 0);
	res = cqe->res;
	io_uring_cqe_seen(&own->uring, cqe);
	return res;
}

static int own_run(struct own *own)
{
	assert_int_equal(io_uring_submit(&own->uring), 1);
	return own_wait(own);
}

static void own_open(struct own *own, const char *name, struct allreduce_info *info)
{
	assert_int_equal(io_uring_queue_init(8, &own->uring, IORING_SETUP_SQE128), 0);
	own->fd = aru_open_device();
	assert_true(own->fd >= 0);
	aru_prep_attach(own_sqe(own), own->fd, name, info);
	assert_int_equal(own_run(own), 0);
}

static void own_close(struct own *own)
{
	io_uring_queue_exit(&own->uring);
	close(own->fd);
}

static void own_uring(void **state)
{
	struct iovec iov = { dst[1], sizeof(dst[1]) };
	struct allreduce_info info[2];
	struct io_uring_sqe *sqe;
	struct own own[2];
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		own_open(&own[i], names[i], &info[i]);
		assert_int_equal(info[i].rank, i);
		assert_int_equal(info[i].size, 2);
	}
	aru_prep_allreduce(own_sqe(&own[0]), own[0].fd, src[0], dst[0], N,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, 42);
	assert_int_equal(io_uring_submit(&own[0].uring), 1);
	/* In place, and registered. */
	assert_int_equal(io_uring_register_buffers(&own[1].uring, &iov, 1), 0);
	memcpy(dst[1], src[1], sizeof(dst[1]));
	sqe = own_sqe(&own[1]);
	aru_prep_allreduce(sqe, own[1].fd, dst[1], dst[1], N, ALLREDUCE_I32,
			   ALLREDUCE_SUM, 0, 43);
	aru_sqe_set_fixed(sqe, ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST, 0);
	assert_int_equal(own_run(&own[1]), 0);
	assert_sums(dst[1], N);
	assert_int_equal(own_wait(&own[0]), 0);
	assert_sums(dst[0], N);
	aru_prep_info(own_sqe(&own[0]), own[0].fd, &info[0]);
	assert_int_equal(own_run(&own[0]), 0);
	assert_int_equal(info[0].jobs_submitted, 1);
	aru_prep_cancel(own_sqe(&own[1]), own[1].fd, 43, 0);
	assert_int_equal(own_run(&own[1]), -ENOENT);
	for (i = 0; i < 2; i++)
		own_close(&own[i]);
}

/* ---- contexts ------------------------------------------------------------ */

static void attaches_once(void **state)
{
	struct aru *second;

	(void)state;
	assert_int_equal(aru_open(&second, names[0], NULL), -EBUSY);
	assert_null(second);
	assert_int_equal(aru_open(&second, "nosuchring", NULL), -ENODEV);
}

static void wait_runs_out_and_goes_on(void **state)
{
	struct aru_request *req = start(0, NULL), *other;

	(void)state;
	assert_int_equal(aru_test(req), -EINPROGRESS);
	assert_int_equal(aru_wait(req, 50), -ETIME);
	other = start(1, NULL);
	assert_int_equal(aru_wait(req, SOON_MS), 0);
	assert_int_equal(aru_wait(other, SOON_MS), 0);
	assert_sums(dst[0], N);
	assert_sums(dst[1], N);
}

static void more_than_the_depth(void **state)
{
	enum { JOBS = 40 };
	struct aru_request *reqs[2][JOBS];
	int values[2][JOBS], i, k;

	ARU_OPTS(aru_open_opts, opts);
	(void)state;
	opts.depth = 3;
	assert_int_equal(aru_close(aru[0]), 0);
	assert_int_equal(aru_open(&aru[0], names[0], &opts), 0);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < JOBS; k++) {
			values[i][k] = 100 * i + k;
			assert_int_equal(aru_iallreduce(aru[i], &values[i][k],
							&values[i][k], 1, ALLREDUCE_I32,
							ALLREDUCE_SUM, NULL, &reqs[i][k]),
					 0);
		}
	}
	for (k = 0; k < JOBS; k++)
		for (i = 0; i < 2; i++)
			assert_int_equal(aru_wait(reqs[i][k], SOON_MS), 0);
	for (k = 0; k < JOBS; k++)
		for (i = 0; i < 2; i++)
			assert_int_equal(values[i][k], 100 + 2 * k);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void signals_do_not_surface(void **state)
{
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	/* Without SA_RESTART: calls that sleep return EINTR. */
	struct sigaction action = { .sa_handler = on_alarm };
	struct aru_request *req;
	int i, ret = -ETIME;

	(void)state;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	req = start(0, NULL);
	for (i = 0; i < 5 && ret == -ETIME; i++)
		ret = aru_wait(req, 60);
	assert_int_equal(ret, -ETIME);
	assert_int_equal(aru_wait(start(1, NULL), SOON_MS), 0);
	assert_int_equal(aru_wait(req, SOON_MS), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	assert_sums(dst[0], N);
}

static void stalled_job_ends(void **state)
{
	const char *text;
	int error, ret;
	uint64_t begin;

	ARU_OPTS(aru_call_opts, opts);
	(void)state;
	opts.timeout_ms = 300;
	begin = aru_now_ms();
	assert_int_equal(aru_wait(start(0, &opts), SOON_MS), -ETIMEDOUT);
	assert_in_range(aru_now_ms() - begin, 250, SOON_MS);
	assert_int_equal(aru_ring_error(aru[0], &error, &text), 0);
	assert_int_equal(error, -ETIMEDOUT);
	assert_true(strlen(text) > 0);
	/* A broken ring refuses jobs, here and there. */
	assert_int_equal(aru_wait(start(0, NULL), SOON_MS), -EPIPE);
	ret = aru_wait(start(1, NULL), SOON_MS);
	if (!is_one_of(ret, -EPIPE, -ECONNRESET, -ETIMEDOUT))
		fail_msg("the other member: %d", ret);
}

static void cancel_breaks_the_ring(void **state)
{
	struct aru_request *reqs[3];
	int i, ret;

	(void)state;
	for (i = 0; i < 3; i++)
		reqs[i] = start(0, NULL);
	assert_int_equal(aru_cancel(reqs[1]), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(aru_wait(reqs[i], SOON_MS), -ECANCELED);
	ret = aru_wait(start(1, NULL), SOON_MS);
	if (!is_one_of(ret, -EPIPE, -ECONNRESET, -ECANCELED))
		fail_msg("the other member: %d", ret);
}

static void close_lets_go_of_buffers(void **state)
{
	struct aru *second;
	uint64_t begin;
	int i;

	(void)state;
	for (i = 0; i < 5; i++)
		start(0, NULL);
	begin = aru_now_ms();
	assert_int_equal(aru_close(aru[0]), 0);
	assert_in_range(aru_now_ms() - begin, 0, SOON_MS);
	aru[0] = NULL;
	/* The ring is free for another one, though broken. */
	assert_int_equal(aru_open(&second, names[0], NULL), 0);
	aru[0] = second;
	assert_int_equal(aru_wait(start(0, NULL), SOON_MS), -EPIPE);
}

static void differing_calls(void **state)
{
	struct aru_request *a, *b;

	(void)state;
	a = start(0, NULL);
	assert_int_equal(aru_iallreduce(aru[1], src[1], dst[1], N - 1, ALLREDUCE_I32,
					ALLREDUCE_SUM, NULL, &b), 0);
	/* Whoever sees it first says so; the other may only see the ring break. */
	{
		int ra = aru_wait(a, SOON_MS), rb = aru_wait(b, SOON_MS);

		assert_true(ra == -EINVAL || rb == -EINVAL);
		assert_true(is_one_of(ra, -EINVAL, -ECONNRESET, -EPIPE));
		assert_true(is_one_of(rb, -EINVAL, -ECONNRESET, -EPIPE));
	}
}

static void bad_buffers(void **state)
{
	size_t bytes = 1 << 16;
	char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(map, MAP_FAILED);
	/* A dst that can't be written, then a src that is not there. */
	assert_int_equal(aru_allreduce(aru[0], src[0], map, N, ALLREDUCE_I32,
				       ALLREDUCE_SUM, NULL), -EFAULT);
	munmap(map, bytes);
	assert_int_equal(aru_allreduce(aru[0], map, dst[0], N, ALLREDUCE_I32,
				       ALLREDUCE_SUM, NULL), -EFAULT);
}

static void needs_the_ring_up(void **state)
{
	(void)state;
	assert_int_equal(aru_open(&aru[0], names[0], NULL), 0);
	assert_int_equal(aru_wait(start(0, NULL), SOON_MS), -ENOTCONN);
}

/* ---- netlink ------------------------------------------------------------- */

static int count_ring(const struct aru_ring *ring, void *arg)
{
	assert_int_equal(ring->size, 2);
	assert_int_equal(ring->n_members, 2);
	assert_int_equal(ring->n_lanes, 2);
	++*(int *)arg;
	return 0;
}

static void configures(void **state)
{
	struct aru_ring *ring;
	int n = 0;

	(void)state;
	assert_int_equal(aru_ring_list(nl, count_ring, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(aru_ring_get(nl, names[1], &ring), 0);
	assert_int_equal(ring->rank, 1);
	assert_int_equal(ring->state, ALLREDUCE_RING_DOWN);
	assert_int_equal(ring->members[1].port, 7002);
	assert_int_equal(ring->frame_max, ALLREDUCE_FRAME_MAX_DEFAULT);
	assert_int_equal(ring->timeout_ms, ALLREDUCE_TIMEOUT_MS_DEFAULT);
	aru_ring_free(ring);
	assert_int_equal(aru_ring_get(nl, "nosuchring", &ring), -ENODEV);
	assert_null(ring);
	assert_true(strlen(aru_nl_error_text(nl)) > 0);
}

static void refusals_name_the_value(void **state)
{
	struct aru_member member;

	ARU_OPTS(aru_ring_config, config);
	(void)state;
	assert_int_equal(aru_member_parse("127.0.0.1:7003", &member, NULL, 0), 0);
	config.name = "other";
	config.members = &member;
	config.n_members = 1;
	config.rank = 5;
	assert_int_equal(aru_ring_add(nl, &config), -EINVAL);
	assert_non_null(strstr(aru_nl_error_text(nl), "rank 5"));
	config.rank = 0;
	config.lanes = 17;
	assert_int_equal(aru_ring_add(nl, &config), -EINVAL);
	assert_non_null(strstr(aru_nl_error_text(nl), "lanes 17"));
	config.lanes = 0;
	config.name = names[0];
	assert_int_equal(aru_ring_add(nl, &config), -EEXIST);
	assert_true(strlen(aru_nl_error_text(nl)) > 0);
}

static void up_gives_up(void **state)
{
	uint64_t begin = aru_now_ms();

	ARU_OPTS(aru_ring_up_opts, opts);
	(void)state;
	opts.connect_timeout_ms = 400;
	assert_int_equal(aru_ring_up(nl, names[0], &opts), -ETIMEDOUT);
	assert_in_range(aru_now_ms() - begin, 350, SOON_MS);
	assert_true(strlen(aru_nl_error_text(nl)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(configures, rings_down, clean),
		cmocka_unit_test_setup_teardown(refusals_name_the_value, rings_down, clean),
		cmocka_unit_test_setup_teardown(up_gives_up, rings_down, clean),
		cmocka_unit_test_setup_teardown(needs_the_ring_up, rings_down, clean),
		cmocka_unit_test_setup_teardown(own_uring, rings_up, clean),
		cmocka_unit_test_setup_teardown(attaches_once, contexts, clean),
		cmocka_unit_test_setup_teardown(wait_runs_out_and_goes_on, contexts, clean),
		cmocka_unit_test_setup_teardown(more_than_the_depth, contexts, clean),
		cmocka_unit_test_setup_teardown(signals_do_not_surface, contexts, clean),
		cmocka_unit_test_setup_teardown(stalled_job_ends, contexts, clean),
		cmocka_unit_test_setup_teardown(cancel_breaks_the_ring, contexts, clean),
		cmocka_unit_test_setup_teardown(close_lets_go_of_buffers, contexts, clean),
		cmocka_unit_test_setup_teardown(differing_calls, contexts, clean),
		cmocka_unit_test_setup_teardown(bad_buffers, contexts, clean),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, own_netns, end_netns);
}
