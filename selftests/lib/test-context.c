// SPDX-License-Identifier: GPL-2.0
/*
 * The context against a fake io_uring (fake-uring.h).
 */
#include <errno.h>

#include "fake-uring.h"

#define DEVICE	"/dev/null"

static int setup(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static struct aru *open_depth(unsigned int depth)
{
	struct aru *aru;

	ARU_OPTS(aru_open_opts, opts);
	opts.device = DEVICE;
	opts.depth = depth;
	opts.close_timeout_ms = 50;
	assert_int_equal(aru_open(&aru, "demo", &opts), 0);
	return aru;
}

static void close_ok(struct aru *aru)
{
	assert_int_equal(aru_close(aru), 0);
	assert_int_equal(fake.rings, 0);
	assert_int_equal(fake.in_flight, 0);
}

static struct aru_request *start(struct aru *aru, const int *src, int *dst, uint64_t n)
{
	struct aru_request *req;

	assert_int_equal(aru_iallreduce(aru, src, dst, n, ALLREDUCE_I32, ALLREDUCE_SUM,
					NULL, &req), 0);
	assert_non_null(req);
	return req;
}

/* ---- open ---------------------------------------------------------------- */

static void opens(void **state)
{
	struct allreduce_info info;
	struct aru *aru;

	(void)state;
	fake.info.rank = 2;
	fake.info.size = 5;
	aru = open_depth(0);
	assert_string_equal(fake.attached, "demo");
	assert_int_equal(aru_rank(aru), 2);
	assert_int_equal(aru_size(aru), 5);
	assert_int_equal(aru_poll_fd(aru), 1000);
	assert_true(aru_fd(aru) >= 0);
	fake.info.jobs_submitted = 77;
	assert_int_equal(aru_info(aru, &info, sizeof(info)), 0);
	assert_int_equal(info.jobs_submitted, 77);
	memset(&info, 0xff, sizeof(info));
	assert_int_equal(aru_info(aru, &info, 8), 0);
	assert_int_equal(info.size, 5);
	assert_int_equal(info.lanes, 0xffffffff);
	close_ok(aru);
	assert_int_equal(aru_close(NULL), 0);
}

static void open_fails(const struct aru_open_opts *opts, const char *name, int error)
{
	struct aru *aru = (void *)1;

	assert_int_equal(aru_open(&aru, name, opts), error);
	assert_null(aru);
	assert_int_equal(fake.rings, 0);
}

static void open_errors(void **state)
{
	ARU_OPTS(aru_open_opts, opts);

	(void)state;
	opts.device = DEVICE;
	/* However io_uring is denied, it is told apart from all else. */
	fake.init_error = -EPERM;
	open_fails(&opts, "demo", -ENOSYS);
	fake.init_error = -ENOSYS;
	open_fails(&opts, "demo", -ENOSYS);
	fake.init_error = -EINVAL;
	open_fails(&opts, "demo", -ENOSYS);
	fake.init_error = -ENOMEM;
	open_fails(&opts, "demo", -ENOMEM);
	fake.init_error = 0;
	fake.attach_res = -ENODEV;
	open_fails(&opts, "demo", -ENODEV);
	fake.attach_res = -EBUSY;
	open_fails(&opts, "demo", -EBUSY);
	fake.attach_res = 0;
	opts.device = "/nonexistent/allreduce";
	open_fails(&opts, "demo", -ENOENT);
	opts.device = DEVICE;
	open_fails(&opts, "", -EINVAL);
	open_fails(&opts, "01234567890123456789012345678901", -EINVAL);
	open_fails(&opts, "a/b", -EINVAL);
	opts.depth = ARU_DEPTH_MAX + 1;
	open_fails(&opts, "demo", -EINVAL);
	opts.depth = ARU_DEPTH_MAX;
	opts.sz = 1;
	open_fails(&opts, "demo", -EINVAL);
}

static void open_survives_signals(void **state)
{
	(void)state;
	fake.interrupts = 7;
	close_ok(open_depth(0));
	assert_int_equal(fake.interrupts, 0);
}

/* ---- jobs ---------------------------------------------------------------- */

static void blocking_call(void **state)
{
	int src[3] = { 1, 2, 3 }, dst[3] = { 0 };
	struct aru *aru = open_depth(0);

	(void)state;
	assert_int_equal(aru_allreduce(aru, src, dst, 3, ALLREDUCE_I32, ALLREDUCE_SUM,
				       NULL), 0);
	assert_memory_equal(src, dst, sizeof(src));
	assert_int_equal(fake.jobs[0].call.timeout_ms, 0);
	assert_int_equal(aru_allreduce(aru, NULL, NULL, 0, ALLREDUCE_F64, ALLREDUCE_SUM,
				       NULL), 0);
	fake.job_res = -ECONNRESET;
	assert_int_equal(aru_allreduce(aru, src, dst, 3, ALLREDUCE_I32, ALLREDUCE_SUM,
				       NULL), -ECONNRESET);
	close_ok(aru);
}

static void call_options(void **state)
{
	struct aru *aru = open_depth(0);
	int v = 1;

	ARU_OPTS(aru_call_opts, opts);
	(void)state;
	opts.timeout_ms = 100;
	assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM,
				       &opts), 0);
	assert_int_equal(fake.jobs[0].call.timeout_ms, 100);
	opts.timeout_ms = 99;
	assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM,
				       &opts), -EINVAL);
	opts.timeout_ms = 86400001;
	assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM,
				       &opts), -EINVAL);
	close_ok(aru);
}

static void call_fails(struct aru *aru, const void *src, void *dst, uint64_t count,
		       unsigned int type, unsigned int op)
{
	struct aru_request *req = (void *)1;

	assert_int_equal(aru_iallreduce(aru, src, dst, count, type, op, NULL, &req),
			 -EINVAL);
	assert_null(req);
}

static void bad_calls_are_not_submitted(void **state)
{
	struct aru *aru = open_depth(0);
	double v[4];
	char *c = (char *)v;

	(void)state;
	call_fails(aru, v, v, 1, 0, ALLREDUCE_SUM);
	call_fails(aru, v, v, 1, 256 + ALLREDUCE_F32, ALLREDUCE_SUM);
	call_fails(aru, v, v, 1, ALLREDUCE_F32, 0);
	call_fails(aru, v, v, ALLREDUCE_COUNT_MAX + 1, ALLREDUCE_F32, ALLREDUCE_SUM);
	call_fails(aru, c + 1, v, 1, ALLREDUCE_F32, ALLREDUCE_SUM);
	call_fails(aru, v, c + 4, 1, ALLREDUCE_F64, ALLREDUCE_SUM);
	/* Overlap, either way; but touching is all right. */
	call_fails(aru, v, v + 1, 2, ALLREDUCE_F64, ALLREDUCE_SUM);
	call_fails(aru, v + 1, v, 2, ALLREDUCE_F64, ALLREDUCE_SUM);
	assert_int_equal(fake.n_jobs, 0);
	memset(v, 0, sizeof(v));
	assert_int_equal(aru_allreduce(aru, v, v + 2, 2, ALLREDUCE_F64, ALLREDUCE_SUM,
				       NULL), 0);
	close_ok(aru);
}

static void more_than_the_depth(void **state)
{
	enum { N = 100, DEPTH = 3 };
	struct aru_request *reqs[N];
	struct aru *aru = open_depth(DEPTH);
	int src[N], dst[N], i;

	(void)state;
	for (i = 0; i < N; i++) {
		src[i] = i;
		dst[i] = -1;
		reqs[i] = start(aru, &src[i], &dst[i], 1);
	}
	/* In another order than they were made in. */
	for (i = N - 1; i >= 0; i -= 2)
		assert_int_equal(aru_wait(reqs[i], -1), 0);
	for (i = 0; i < N; i += 2)
		assert_int_equal(aru_wait(reqs[i], -1), 0);
	assert_memory_equal(src, dst, sizeof(src));
	assert_int_equal(fake.n_jobs, N);
	assert_int_equal(fake.most, DEPTH);
	for (i = 0; i < N; i++)
		assert_int_equal(fake.jobs[i].call.src, (uintptr_t)&src[i]);
	close_ok(aru);
}

static void wait_can_run_out(void **state)
{
	struct aru *aru = open_depth(0);
	struct aru_request *req;
	int src = 4, dst = 0;
	uint64_t begin;

	(void)state;
	fake.hold = true;
	req = start(aru, &src, &dst, 1);
	assert_int_equal(aru_wait(req, 0), -ETIME);
	begin = aru_now_ms();
	assert_int_equal(aru_wait(req, 30), -ETIME);
	assert_in_range(aru_now_ms() - begin, 29, 5000);
	assert_int_equal(aru_test(req), -EINPROGRESS);
	assert_int_equal(fake.in_flight, 1);
	fake_run_one();
	assert_int_equal(aru_test(req), 0);
	assert_int_equal(dst, 4);
	close_ok(aru);
}

static void signals_do_not_surface(void **state)
{
	struct aru *aru = open_depth(0);
	int src = 4, dst = 0;

	(void)state;
	fake.interrupts = 100;
	assert_int_equal(aru_allreduce(aru, &src, &dst, 1, ALLREDUCE_I32, ALLREDUCE_SUM,
				       NULL), 0);
	assert_int_equal(dst, 4);
	assert_int_equal(fake.interrupts, 0);
	close_ok(aru);
}

static void no_room_for_a_while(void **state)
{
	struct aru *aru = open_depth(2);
	struct aru_request *a, *b, *c;
	int v[3] = { 0 };

	(void)state;
	fake.refusals = 3;
	a = start(aru, &v[0], &v[0], 1);
	b = start(aru, &v[1], &v[1], 1);
	c = start(aru, &v[2], &v[2], 1);
	assert_int_equal(fake.n_jobs, 0);
	assert_int_equal(aru_wait(c, -1), 0);
	assert_int_equal(aru_wait(a, -1), 0);
	assert_int_equal(aru_wait(b, -1), 0);
	assert_int_equal(fake.jobs[0].call.src, (uintptr_t)&v[0]);
	assert_int_equal(fake.jobs[2].call.src, (uintptr_t)&v[2]);
	close_ok(aru);
}

static void broken_uring_is_told_apart(void **state)
{
	struct aru *aru = open_depth(0);
	struct aru_request *req;
	int v = 0;

	(void)state;
	fake.hold = true;
	req = start(aru, &v, &v, 1);
	fake.broken = -EBADF;
	assert_int_equal(aru_wait(req, -1), -ENOTRECOVERABLE);
	fake.broken = 0;
	fake.hold = false;
	/* The handle is still there. */
	assert_int_equal(aru_wait(req, -1), 0);
	close_ok(aru);
}

/* ---- cancel and close ---------------------------------------------------- */

static void cancels(void **state)
{
	struct aru *aru = open_depth(2);
	struct aru_request *reqs[5];
	int v[5] = { 0 }, i;

	(void)state;
	fake.hold = true;
	for (i = 0; i < 5; i++)
		reqs[i] = start(aru, &v[i], &v[i], 1);
	/* Two in the kernel, three in the library: one of those. */
	assert_int_equal(aru_cancel(reqs[3]), 0);
	assert_int_equal(fake.n_cancels, 1);
	for (i = 0; i < 5; i++)
		assert_int_equal(aru_wait(reqs[i], 0), -ECANCELED);
	assert_int_equal(fake.n_jobs, 2);
	close_ok(aru);
}

static void cancels_too_late(void **state)
{
	struct aru *aru = open_depth(0);
	struct aru_request *req;
	int v = 3;

	(void)state;
	fake.hold = true;
	req = start(aru, &v, &v, 1);
	fake_run_one();
	assert_int_equal(aru_cancel(req), -EALREADY);
	assert_int_equal(fake.n_cancels, 0);
	assert_int_equal(aru_wait(req, 0), 0);
	close_ok(aru);
}

static void close_cancels(void **state)
{
	struct aru *aru = open_depth(2);
	int v[5] = { 0 }, i;

	(void)state;
	fake.hold = true;
	for (i = 0; i < 5; i++)
		start(aru, &v[i], &v[i], 1);
	/* Handles that nobody waited for are freed (ASan looks). */
	close_ok(aru);
	assert_int_equal(fake.n_cancels, 1);
	assert_int_equal(fake.n_jobs, 2);
}

static void close_takes_finished_requests(void **state)
{
	struct aru *aru = open_depth(0);
	int v = 0;

	(void)state;
	fake.hold = true;
	start(aru, &v, &v, 1);
	fake_run_one();
	close_ok(aru);
	assert_int_equal(fake.n_cancels, 0);
}

static void close_never_frees_what_the_kernel_holds(void **state)
{
	struct aru *aru = open_depth(0);
	int v = 0;

	(void)state;
	fake.hold = true;
	fake.deaf = true;
	start(aru, &v, &v, 1);
	assert_int_equal(aru_close(aru), -ETIMEDOUT);
	assert_int_equal(fake.rings, 1);
	fake.deaf = false;
	close_ok(aru);
}

/* ---- registered buffers -------------------------------------------------- */

static void uses_registered_buffers(void **state)
{
	struct aru *aru = open_depth(0);
	int a[16] = { 0 }, b[16] = { 0 }, c[16] = { 0 };
	struct iovec iov[2] = { { a, sizeof(a) }, { b, sizeof(b) } };
	const struct {
		int *src;
		int *dst;
		uint64_t count;
		unsigned int flags;
		int index;
	} calls[] = {
		{ a, a, 16, ALLREDUCE_CALL_FLAGS, 0 },
		{ b, b + 8, 8, ALLREDUCE_CALL_FLAGS, 1 },
		{ a, b, 16, ALLREDUCE_CALL_FIXED_DST, 1 },
		{ b, a, 16, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ b, c, 16, ALLREDUCE_CALL_FIXED_SRC, 1 },
		{ c, a + 15, 1, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ c, c, 16, 0, 0 },
		{ a, a, 0, 0, 0 },
	};
	size_t i;

	(void)state;
	assert_int_equal(aru_unregister_buffers(aru), -ENXIO);
	assert_int_equal(aru_register_buffers(aru, iov, 0), -EINVAL);
	assert_int_equal(aru_register_buffers(aru, iov, 16385), -EINVAL);
	fake.register_error = -ENOMEM;
	assert_int_equal(aru_register_buffers(aru, iov, 2), -ENOMEM);
	fake.register_error = 0;
	fake.interrupts = 2;
	assert_int_equal(aru_register_buffers(aru, iov, 2), 0);
	assert_int_equal(aru_register_buffers(aru, iov, 2), -EBUSY);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(aru_allreduce(aru, calls[i].src, calls[i].dst,
					       calls[i].count, ALLREDUCE_I32,
					       ALLREDUCE_SUM, NULL), 0);
		assert_int_equal(fake.jobs[i].call.flags, calls[i].flags);
		assert_int_equal(fake.jobs[i].buf_index, calls[i].index);
	}
	assert_int_equal(aru_unregister_buffers(aru), 0);
	assert_int_equal(aru_allreduce(aru, a, a, 16, ALLREDUCE_I32, ALLREDUCE_SUM, NULL),
			 0);
	assert_int_equal(fake.jobs[i].call.flags, 0);
	close_ok(aru);
}

static void reaching_out_of_a_buffer(void **state)
{
	struct aru *aru = open_depth(0);
	int area[32] = { 0 };
	struct iovec iov = { area + 8, 16 * sizeof(int) };

	(void)state;
	assert_int_equal(aru_register_buffers(aru, &iov, 1), 0);
	aru_allreduce(aru, area + 7, area + 7, 4, ALLREDUCE_I32, ALLREDUCE_SUM, NULL);
	aru_allreduce(aru, area + 23, area + 23, 2, ALLREDUCE_I32, ALLREDUCE_SUM, NULL);
	aru_allreduce(aru, area + 8, area + 8, 16, ALLREDUCE_I32, ALLREDUCE_SUM, NULL);
	assert_int_equal(fake.jobs[0].call.flags, 0);
	assert_int_equal(fake.jobs[1].call.flags, 0);
	assert_int_equal(fake.jobs[2].call.flags, ALLREDUCE_CALL_FLAGS);
	close_ok(aru);
}

static void unregister_waits_for_nobody(void **state)
{
	struct aru *aru = open_depth(1);
	struct aru_request *req;
	int v = 0;
	struct iovec iov = { &v, sizeof(v) };

	(void)state;
	assert_int_equal(aru_register_buffers(aru, &iov, 1), 0);
	fake.hold = true;
	req = start(aru, &v, &v, 1);
	assert_int_equal(aru_unregister_buffers(aru), -EBUSY);
	fake_run_one();
	assert_int_equal(aru_unregister_buffers(aru), 0);
	assert_int_equal(aru_wait(req, 0), 0);
	close_ok(aru);
}

/* ---- errors of the ring -------------------------------------------------- */

static void tells_what_broke_the_ring(void **state)
{
	struct aru *aru = open_depth(0);
	const char *text;
	int error;

	(void)state;
	assert_int_equal(aru_ring_error(aru, &error, &text), 0);
	assert_int_equal(error, 0);
	assert_string_equal(text, "");
	fake.info.error = -ECONNRESET;
	/* Not even a text without its end is read beyond it. */
	memset(fake.info.reason, 'x', sizeof(fake.info.reason));
	assert_int_equal(aru_ring_error(aru, &error, &text), 0);
	assert_int_equal(error, -ECONNRESET);
	assert_int_equal(strlen(text), ALLREDUCE_REASON_SIZE - 1);
	assert_int_equal(aru_ring_error(aru, NULL, NULL), 0);
	close_ok(aru);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(opens, setup),
		cmocka_unit_test_setup(open_errors, setup),
		cmocka_unit_test_setup(open_survives_signals, setup),
		cmocka_unit_test_setup(blocking_call, setup),
		cmocka_unit_test_setup(call_options, setup),
		cmocka_unit_test_setup(bad_calls_are_not_submitted, setup),
		cmocka_unit_test_setup(more_than_the_depth, setup),
		cmocka_unit_test_setup(wait_can_run_out, setup),
		cmocka_unit_test_setup(signals_do_not_surface, setup),
		cmocka_unit_test_setup(no_room_for_a_while, setup),
		cmocka_unit_test_setup(broken_uring_is_told_apart, setup),
		cmocka_unit_test_setup(cancels, setup),
		cmocka_unit_test_setup(cancels_too_late, setup),
		cmocka_unit_test_setup(close_cancels, setup),
		cmocka_unit_test_setup(close_takes_finished_requests, setup),
		cmocka_unit_test_setup(close_never_frees_what_the_kernel_holds, setup),
		cmocka_unit_test_setup(uses_registered_buffers, setup),
		cmocka_unit_test_setup(reaching_out_of_a_buffer, setup),
		cmocka_unit_test_setup(unregister_waits_for_nobody, setup),
		cmocka_unit_test_setup(tells_what_broke_the_ring, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
