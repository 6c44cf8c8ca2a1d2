// SPDX-License-Identifier: GPL-2.0
/*
 * The context against a fake io_uring (fake-uring.h).
 */
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

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

static void says_why(struct aru *aru, int ret, const char *why)
{
	assert_int_equal(ret, -EINVAL);
	assert_string_equal(aru_refusal(aru), why);
}

static struct aru *open_as(unsigned int rank, unsigned int size)
{
	fake.info.rank = rank;
	fake.info.size = size;
	return open_depth(0);
}

static void assert_job(unsigned int collective, const void *src, const void *dst,
		       uint64_t count, unsigned int type, unsigned int op,
		       unsigned int root)
{
	const struct fake_job *job = &fake.jobs[fake.n_jobs - 1];
	struct allreduce_call expected = {
		.src = (uintptr_t)src, .dst = (uintptr_t)dst, .count = count,
		.tag = job->call.tag, .timeout_ms = 4321, .collective = collective,
		.type = type, .op = op, .root = root,
	};

	assert_memory_equal(&job->call, &expected, sizeof(expected));
}

static void all_collectives(void **state)
{
	struct aru *aru = open_as(1, 3);
	int a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 0 };
	const int block[6] = { 3, 4 }, gathered[6] = { 0, 0, 1, 2, 0, 0 };

	ARU_OPTS(aru_call_opts, opts);
	(void)state;
	opts.timeout_ms = 4321;
	assert_int_equal(aru_allreduce(aru, a, b, 6, ALLREDUCE_I32, ALLREDUCE_MAX, &opts), 0);
	assert_job(1, a, b, 6, ALLREDUCE_I32, ALLREDUCE_MAX, 0);
	assert_memory_equal(b, a, sizeof(a));
	memset(b, 0, sizeof(b));
	assert_int_equal(aru_reduce_scatter(aru, a, b, 2, ALLREDUCE_I32, ALLREDUCE_SUM,
					    &opts), 0);
	assert_job(2, a, b, 2, ALLREDUCE_I32, ALLREDUCE_SUM, 0);
	assert_memory_equal(b, block, sizeof(block));
	memset(b, 0, sizeof(b));
	assert_int_equal(aru_allgather(aru, a, b, 2, ALLREDUCE_I32, &opts), 0);
	assert_job(3, a, b, 2, ALLREDUCE_I32, 0, 0);
	assert_memory_equal(b, gathered, sizeof(gathered));
	assert_int_equal(aru_broadcast(aru, a, b, 6, ALLREDUCE_I32, 1, &opts), 0);
	assert_job(4, a, b, 6, ALLREDUCE_I32, 0, 1);
	/* Not the root: it has no src, and a reduce no dst. */
	assert_int_equal(aru_broadcast(aru, NULL, b, 6, ALLREDUCE_I32, 2, &opts), 0);
	assert_job(4, NULL, b, 6, ALLREDUCE_I32, 0, 2);
	assert_int_equal(aru_reduce(aru, a, b, 6, ALLREDUCE_I32, ALLREDUCE_BAND, 1, &opts), 0);
	assert_job(5, a, b, 6, ALLREDUCE_I32, ALLREDUCE_BAND, 1);
	assert_int_equal(aru_reduce(aru, a, NULL, 6, ALLREDUCE_I32, ALLREDUCE_BAND, 0,
				    &opts), 0);
	assert_job(5, a, NULL, 6, ALLREDUCE_I32, ALLREDUCE_BAND, 0);
	assert_int_equal(aru_barrier(aru, &opts), 0);
	assert_job(6, NULL, NULL, 0, 0, 0, 0);
	assert_int_equal(aru_barrier(aru, NULL), 0);
	assert_string_equal(aru_refusal(aru), "");
	close_ok(aru);
}

static void all_collectives_in_place(void **state)
{
	struct aru *aru = open_as(1, 3);
	int a[6] = { 1, 2, 3, 4, 5, 6 };

	(void)state;
	assert_int_equal(aru_reduce_scatter(aru, a, a + 2, 2, ALLREDUCE_I32, ALLREDUCE_SUM,
					    NULL), 0);
	assert_int_equal(aru_allgather(aru, a + 2, a, 2, ALLREDUCE_I32, NULL), 0);
	assert_int_equal(aru_broadcast(aru, a, a, 6, ALLREDUCE_I32, 1, NULL), 0);
	assert_int_equal(aru_reduce(aru, a, a, 6, ALLREDUCE_I32, ALLREDUCE_SUM, 1, NULL), 0);
	says_why(aru, aru_allgather(aru, a, a, 2, ALLREDUCE_I32, NULL),
		 "src and dst overlap, but src is not block 1 of dst, the own one");
	assert_int_equal(fake.n_jobs, 4);
	close_ok(aru);
}

/* Started together, ended in any order. */
static void all_collectives_under_way(void **state)
{
	struct aru *aru = open_as(1, 3);
	struct aru_request *reqs[7];
	struct allreduce_call call;
	int a[6] = { 0 }, b[6] = { 0 }, i;

	(void)state;
	fake.hold = true;
	assert_int_equal(aru_iallreduce(aru, a, b, 6, ALLREDUCE_I32, ALLREDUCE_SUM, NULL,
					&reqs[0]), 0);
	assert_int_equal(aru_ireduce_scatter(aru, a, b, 2, ALLREDUCE_I32, ALLREDUCE_SUM,
					     NULL, &reqs[1]), 0);
	assert_int_equal(aru_iallgather(aru, a, b, 2, ALLREDUCE_I32, NULL, &reqs[2]), 0);
	assert_int_equal(aru_ibroadcast(aru, a, b, 6, ALLREDUCE_I32, 2, NULL, &reqs[3]), 0);
	assert_int_equal(aru_ireduce(aru, a, b, 6, ALLREDUCE_I32, ALLREDUCE_SUM, 2, NULL,
				     &reqs[4]), 0);
	assert_int_equal(aru_ibarrier(aru, NULL, &reqs[5]), 0);
	aru_call_init(&call, ALLREDUCE_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0);
	assert_int_equal(aru_icall(aru, &call, &reqs[6]), 0);
	assert_int_equal(fake.in_flight, 7);
	assert_int_equal(aru_test(reqs[6]), -EINPROGRESS);
	for (i = 0; i < 6; i++)
		assert_int_equal(fake.jobs[i].call.collective, i + 1);
	assert_int_equal(fake.jobs[6].call.collective, ALLREDUCE_COLLECTIVE_BARRIER);
	fake.hold = false;
	for (i = 6; i >= 0; i--)
		assert_int_equal(aru_wait(reqs[i], -1), 0);
	close_ok(aru);
}

static void generic_call(void **state)
{
	struct aru *aru = open_as(0, 2);
	struct aru_request *req = (void *)1;
	double src[2] = { 1, 2 }, dst[2] = { 0 };
	struct allreduce_call call;

	(void)state;
	aru_call_init(&call, ALLREDUCE_COLLECTIVE_REDUCE, src, dst, 2, ALLREDUCE_F64,
		      ALLREDUCE_PREMULSUM);
	call.factor = 0x3ff8000000000000;
	call.timeout_ms = 200;
	assert_int_equal(aru_call(aru, &call), 0);
	assert_memory_equal(src, dst, sizeof(src));
	assert_int_equal(fake.jobs[0].call.timeout_ms, 200);
	assert_true(fake.jobs[0].call.factor == 0x3ff8000000000000);
	/* Each job has a tag of its own, which the call must not have. */
	assert_int_equal(aru_call(aru, &call), 0);
	assert_int_not_equal(fake.jobs[0].call.tag, fake.jobs[1].call.tag);
	call.tag = 5;
	says_why(aru, aru_call(aru, &call),
		 "tag and flags must be 0: they are the library's own");
	call.tag = 0;
	call.root = 2;
	says_why(aru, aru_icall(aru, &call, &req), "root 2 is not from 0 to 1");
	assert_null(req);
	assert_int_equal(fake.n_jobs, 2);
	close_ok(aru);
}

static void premulsum_has_a_factor(void **state)
{
	struct aru *aru = open_as(0, 2);
	struct aru_redop redop = { .type = ALLREDUCE_F32 };
	float v[2] = { 0 };

	ARU_OPTS(aru_call_opts, opts);
	(void)state;
	says_why(aru, aru_allreduce(aru, v, v, 2, ALLREDUCE_F32, ALLREDUCE_PREMULSUM, NULL),
		 "op premulsum needs a redop");
	says_why(aru, aru_allreduce(aru, v, v, 2, ALLREDUCE_F32, ALLREDUCE_PREMULSUM, &opts),
		 "op premulsum needs a redop");
	opts.redop = &redop;
	redop.factor.f32 = 0.5f;
	says_why(aru, aru_allreduce(aru, v, v, 2, ALLREDUCE_F32, ALLREDUCE_SUM, &opts),
		 "redop must be NULL without op premulsum");
	says_why(aru, aru_broadcast(aru, v, v, 2, ALLREDUCE_F32, 0, &opts),
		 "redop must be NULL without op premulsum");
	says_why(aru, aru_barrier(aru, &opts), "redop must be NULL without op premulsum");
	assert_int_equal(aru_allreduce(aru, v, v, 2, ALLREDUCE_BF16, ALLREDUCE_PREMULSUM,
				       &opts), 0);
	assert_true(fake.jobs[0].call.factor == 0x3fe0000000000000);
	redop.type = ALLREDUCE_F64;
	redop.factor.f64 = 0.1;
	assert_int_equal(aru_reduce(aru, v, v, 1, ALLREDUCE_F32, ALLREDUCE_PREMULSUM, 0,
				    &opts), 0);
	assert_true(fake.jobs[1].call.factor == 0x3fb999999999999a);
	/* A member may leave itself out. */
	redop.factor.f64 = 0;
	assert_int_equal(aru_allreduce(aru, v, v, 1, ALLREDUCE_F32, ALLREDUCE_PREMULSUM,
				       &opts), 0);
	redop.type = ALLREDUCE_BF16;
	says_why(aru, aru_allreduce(aru, v, v, 2, ALLREDUCE_F32, ALLREDUCE_PREMULSUM, &opts),
		 "redop: type 6 is neither f32 (1) nor f64 (2)");
	redop.type = ALLREDUCE_F64;
	says_why(aru, aru_allreduce(aru, v, v, 2, ALLREDUCE_I32, ALLREDUCE_PREMULSUM, &opts),
		 "op premulsum is for floats only, not for type i32");
	assert_int_equal(fake.n_jobs, 3);
	close_ok(aru);
}

/* A program built with the struct as it was before redop. */
static void older_options(void **state)
{
	struct aru *aru = open_depth(0);
	struct aru_call_opts opts;
	int v = 0;

	(void)state;
	memset(&opts, 0xff, sizeof(opts));
	opts.sz = offsetof(struct aru_call_opts, redop);
	opts.timeout_ms = 5000;
	assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM, &opts),
			 0);
	opts.sz = 1;
	says_why(aru, aru_barrier(aru, &opts), "opts: sz is not the struct's size");
	close_ok(aru);
}

/* ---- why a call was refused ---------------------------------------------- */

static void library_says_why(void **state)
{
	struct aru *aru = open_depth(0);
	int v[2] = { 0 };

	(void)state;
	assert_string_equal(aru_refusal(aru), "");
	says_why(aru, aru_allreduce(aru, v, v, 1, 256 + ALLREDUCE_I32, ALLREDUCE_SUM, NULL),
		 "type 259 is unknown");
	says_why(aru, aru_allreduce(aru, v, v, 1, ALLREDUCE_I32, 256, NULL),
		 "op 256 is unknown");
	says_why(aru, aru_allreduce(aru, v, v, 1, ALLREDUCE_I32, 99, NULL),
		 "op 99 is unknown: there are sum prod min max avg band bor bxor premulsum");
	/* It stays, whatever is done well. */
	assert_int_equal(aru_allreduce(aru, v, v, 1, ALLREDUCE_I32, ALLREDUCE_SUM, NULL), 0);
	assert_non_null(strstr(aru_refusal(aru), "op 99"));
	/* The kernel was asked for nothing. */
	assert_int_equal(fake.n_infos, 0);
	close_ok(aru);
}

static void kernel_says_why(void **state)
{
	static const int refusals[] = { -EINVAL, -ENOMEM, -EFAULT };
	struct aru *aru = open_depth(0);
	int v = 0;
	size_t i;

	(void)state;
	strcpy(fake.info.refusal, "the kernel's words");
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		/* Whoever refused last is heard. */
		says_why(aru, aru_allreduce(aru, &v, &v, 1, 0, ALLREDUCE_SUM, NULL),
			 "type 0 is unknown: there are f32 f64 f16 bf16 i32 i64 i8 u8 u32 u64");
		fake.job_res = refusals[i];
		assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM,
					       NULL), refusals[i]);
		assert_int_equal(fake.n_infos, i);
		assert_string_equal(aru_refusal(aru), "the kernel's words");
		assert_int_equal(fake.n_infos, i + 1);
	}
	/* What befell the ring refuses no call. */
	says_why(aru, aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, 10, NULL),
		 "op 10 is unknown: there are sum prod min max avg band bor bxor premulsum");
	fake.job_res = -ECONNRESET;
	assert_int_equal(aru_barrier(aru, NULL), -ECONNRESET);
	assert_non_null(strstr(aru_refusal(aru), "op 10 is unknown"));
	/* Not even a text without its end is read beyond it. */
	fake.job_res = -ENOMEM;
	assert_int_equal(aru_barrier(aru, NULL), -ENOMEM);
	memset(fake.info.refusal, 'y', sizeof(fake.info.refusal));
	assert_int_equal(strlen(aru_refusal(aru)), ALLREDUCE_REASON_SIZE - 1);
	/* Accepted, and failed: the text is not about this one. */
	strcpy(fake.info.refusal, "of another call");
	fake.info.state = ALLREDUCE_RING_BROKEN;
	fake.info.error = -EINVAL;
	fake.job_res = -EINVAL;
	assert_int_equal(aru_barrier(aru, NULL), -EINVAL);
	assert_string_equal(aru_refusal(aru), "");
	/* But a ring that broke for another reason does not hide it, */
	fake.info.error = -ETIMEDOUT;
	assert_string_equal(aru_refusal(aru), "of another call");
	/* nor does one that has not come up so far. */
	fake.info.state = ALLREDUCE_RING_DOWN;
	fake.info.error = -EINVAL;
	assert_string_equal(aru_refusal(aru), "of another call");
	/* A kernel that can't be asked. */
	fake.broken = -EBADF;
	assert_string_equal(aru_refusal(aru), "");
	fake.broken = 0;
	close_ok(aru);
}

/* ---- many ----------------------------------------------------------------- */

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
	says_why(aru, aru_register_buffers(aru, iov, 0), "n 0 is not from 1 to 16384");
	says_why(aru, aru_register_buffers(aru, iov, 16385), "n 16385 is not from 1 to 16384");
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

/* What the kernel refuses to register, it says no more of. */
static void register_says_why(void **state)
{
	struct aru *aru = open_depth(0);
	uint64_t page = sysconf(_SC_PAGESIZE);
	/* 2 pages, 3 pages, nothing: they are only looked at. */
	const struct iovec iov[3] = {
		{ (void *)(uintptr_t)(16 * page - 1), 2 },
		{ (void *)(uintptr_t)(32 * page), 2 * page + 1 },
		{ (void *)(uintptr_t)(64 * page + 1), 0 },
	};
	struct rlimit before, limit;
	char expected[128];
	int v = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit = before;
	limit.rlim_cur = 3 * 1024 + 1023;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* A refusal by the kernel must not be what is told. */
	fake.job_res = -EINVAL;
	strcpy(fake.info.refusal, "the kernel's words");
	assert_int_equal(aru_allreduce(aru, &v, &v, 1, ALLREDUCE_I32, ALLREDUCE_SUM, NULL),
			 -EINVAL);
	fake.register_error = -ENOMEM;
	assert_int_equal(aru_register_buffers(aru, iov, 3), -ENOMEM);
	snprintf(expected, sizeof(expected),
		 "RLIMIT_MEMLOCK: %llu KiB to register, limit 3 KiB",
		 5 * (unsigned long long)page / 1024);
	assert_string_equal(aru_refusal(aru), expected);
	fake.register_error = -EFAULT;
	assert_int_equal(aru_register_buffers(aru, iov, 3), -EFAULT);
	assert_string_equal(aru_refusal(aru),
			    "iov: an area is not mapped, or not from 1 byte to 1 GiB");
	/* An error without a reason has none, not another one's. */
	fake.register_error = -EOPNOTSUPP;
	assert_int_equal(aru_register_buffers(aru, iov, 3), -EOPNOTSUPP);
	assert_string_equal(aru_refusal(aru), "");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	assert_int_equal(aru_unregister_buffers(aru), -ENXIO);
	close_ok(aru);
}

/* src and dst of one call differ in size, or are not there. */
static void registered_buffers_by_collective(void **state)
{
	struct aru *aru = open_as(1, 4);
	int a[32] = { 0 }, b[8] = { 0 };
	struct iovec iov[2] = { { a, sizeof(a) }, { b, sizeof(b) } };
	const struct {
		unsigned int collective;
		int *src;
		int *dst;
		unsigned int root;
		unsigned int flags;
		int index;
	} calls[] = {
		/* 8 elements, 4 members. */
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, a, a + 8, 0, ALLREDUCE_CALL_FLAGS, 0 },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, a, b, 0, ALLREDUCE_CALL_FIXED_DST, 1 },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, a + 8, a, 0, ALLREDUCE_CALL_FLAGS, 0 },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, b, a, 0, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ ALLREDUCE_COLLECTIVE_BROADCAST, b, a, 1, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ ALLREDUCE_COLLECTIVE_BROADCAST, a, a, 1, ALLREDUCE_CALL_FLAGS, 0 },
		/* What is not used is not counted, wherever it points. */
		{ ALLREDUCE_COLLECTIVE_BROADCAST, a, a + 1, 0, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ ALLREDUCE_COLLECTIVE_BROADCAST, a, b, 0, ALLREDUCE_CALL_FIXED_DST, 1 },
		{ ALLREDUCE_COLLECTIVE_REDUCE, b, a, 0, ALLREDUCE_CALL_FIXED_SRC, 1 },
		{ ALLREDUCE_COLLECTIVE_REDUCE, b, NULL, 0, ALLREDUCE_CALL_FIXED_SRC, 1 },
		{ ALLREDUCE_COLLECTIVE_REDUCE, b, a, 1, ALLREDUCE_CALL_FIXED_DST, 0 },
		{ ALLREDUCE_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0 },
	};
	struct allreduce_call call;
	size_t i;

	(void)state;
	assert_int_equal(aru_register_buffers(aru, iov, 2), 0);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		unsigned int c = calls[i].collective;
		bool reduces = c == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER ||
			       c == ALLREDUCE_COLLECTIVE_REDUCE;
		bool bare = c == ALLREDUCE_COLLECTIVE_BARRIER;

		aru_call_init(&call, c, calls[i].src, calls[i].dst, bare ? 0 : 8,
			      bare ? 0 : ALLREDUCE_I32, reduces ? ALLREDUCE_SUM : 0);
		call.root = calls[i].root;
		assert_int_equal(aru_call(aru, &call), 0);
		assert_int_equal(fake.jobs[i].call.flags, calls[i].flags);
		assert_int_equal(fake.jobs[i].buf_index, calls[i].index);
	}
	/* All blocks count: a src of 32 does not lie in what holds one block. */
	assert_int_equal(aru_unregister_buffers(aru), 0);
	iov[0].iov_len = 31 * sizeof(int);
	assert_int_equal(aru_register_buffers(aru, iov, 1), 0);
	assert_int_equal(aru_reduce_scatter(aru, a, a + 8, 8, ALLREDUCE_I32, ALLREDUCE_SUM,
					    NULL), 0);
	assert_int_equal(fake.jobs[i].call.flags, ALLREDUCE_CALL_FIXED_DST);
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
		cmocka_unit_test_setup(all_collectives, setup),
		cmocka_unit_test_setup(all_collectives_in_place, setup),
		cmocka_unit_test_setup(all_collectives_under_way, setup),
		cmocka_unit_test_setup(generic_call, setup),
		cmocka_unit_test_setup(premulsum_has_a_factor, setup),
		cmocka_unit_test_setup(older_options, setup),
		cmocka_unit_test_setup(library_says_why, setup),
		cmocka_unit_test_setup(kernel_says_why, setup),
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
		cmocka_unit_test_setup(register_says_why, setup),
		cmocka_unit_test_setup(registered_buffers_by_collective, setup),
		cmocka_unit_test_setup(reaching_out_of_a_buffer, setup),
		cmocka_unit_test_setup(unregister_waits_for_nobody, setup),
		cmocka_unit_test_setup(tells_what_broke_the_ring, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
