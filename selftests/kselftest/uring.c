// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of /dev/allreduce: every field out of range, every kind of buffer,
 * and what is left behind by a refusal, which is nothing.
 *
 * Refusals are tried on a ring of one member, whose jobs need no peer. Jobs in
 * flight are those of a ring of two: the first member's waits for the second's.
 */
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "submit.h"
#include "kselftest_harness.h"

#define COUNT		20000
#define HUGE_BYTES	(2UL * 1024 * 1024)
#define NOWHERE		0xffff888000000000ULL	/* a kernel's address */
#define TAG		77

/* ---- one member ----------------------------------------------------------- */

/* A ring of one, an attached file, two vectors. */
struct solo {
	struct env env;
	struct io_uring uring;
	int fd;
	struct vector src;
	struct vector dst;
	long long pinned;	/* before anything was submitted */
};

static int solo_open(struct solo *s)
{
	struct env_config config = { .size = 1, .lanes = 2, .family = AF_INET };

	memset(s, 0, sizeof(*s));
	if (env_namespaces() || env_up(&s->env, &config) || env_enter(0))
		return -1;
	s->fd = aru_open_device();
	if (s->fd < 0)
		return s->fd;
	vector_alloc(&s->src, COUNT);
	vector_alloc(&s->dst, COUNT);
	vector_fill(&s->src, 0);
	s->pinned = pinned_pages();
	return io_uring_queue_init(32, &s->uring, IORING_SETUP_SQE128);
}

static void solo_close(struct solo *s)
{
	io_uring_queue_exit(&s->uring);
	close(s->fd);
	vector_free(&s->src);
	vector_free(&s->dst);
	env_down(&s->env);
}

static struct io_uring_sqe *solo_prep(struct solo *s)
{
	struct io_uring_sqe *sqe = submit_sqe(&s->uring);

	aru_prep_allreduce(sqe, s->fd, s->src.data, s->dst.data, COUNT,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, TAG);
	return sqe;
}

/* 0 if a good job works and nothing was written that should not have been. */
static int solo_works(struct solo *s)
{
	int ret;

	memset(s->dst.data, 0, COUNT * 4);
	solo_prep(s);
	ret = submit_wait(&s->uring);
	if (ret)
		return ret;
	return vector_wrong(&s->dst, 1) || vector_changed(&s->src, 0) ||
	       vector_spoilt(&s->dst) || vector_spoilt(&s->src) ? -EIO : 0;
}

/* 0 if no page is left pinned. */
static int solo_holds_nothing(struct solo *s)
{
	long long pinned = pinned_pages() - s->pinned;

	if (!pinned)
		return 0;
	fprintf(stderr, "# %lld pages pinned\n", pinned);
	return -1;
}

/* ---- fields of a call ----------------------------------------------------- */

FIXTURE(call)
{
	struct solo solo;
	void *small;		/* a page, and a hole behind it */
	void *read_only;
};

FIXTURE_VARIANT(call)
{
	void (*spoil)(struct allreduce_call *call, struct io_uring_sqe *sqe,
		      void *small, void *read_only);
	int error;
	const char *names;	/* what struct allreduce_info's refusal says */
};

#define CALL(label, error_, names_, ...) \
	static void spoil_##label(struct allreduce_call *call, \
				  struct io_uring_sqe *sqe, void *small, \
				  void *read_only) \
	{ \
		(void)call; \
		(void)sqe; \
		(void)small; \
		(void)read_only; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(call, label) { \
		.spoil = spoil_##label, .error = error_, .names = names_, \
	}

CALL(type_0, -EINVAL, "type: ", call->type = 0);
CALL(type_11, -EINVAL, "type: ", call->type = 11);
CALL(type_255, -EINVAL, "type: ", call->type = 255);
CALL(op_0, -EINVAL, "op: ", call->op = 0);
CALL(op_10, -EINVAL, "op: ", call->op = 10);
CALL(op_255, -EINVAL, "op: ", call->op = 255);
CALL(collective_0, -EINVAL, "collective: ", call->collective = 0);
CALL(collective_7, -EINVAL, "collective: ", call->collective = 7);
CALL(root_1, -EINVAL, "root: ", call->root = 1);
CALL(op_bitwise_of_floats, -EINVAL, "op: ",
	call->type = ALLREDUCE_F32;
	call->op = ALLREDUCE_BAND);
CALL(op_premulsum_of_integers, -EINVAL, "op: ", call->op = ALLREDUCE_PREMULSUM);
CALL(op_without_reduction, -EINVAL, "op: ",
	call->collective = ALLREDUCE_COLLECTIVE_ALLGATHER);
CALL(factor_without_premulsum, -EINVAL, "factor: ", call->factor = 1);
CALL(root_beyond, -EINVAL, "root: 0 to 0, not 1",
	call->collective = ALLREDUCE_COLLECTIVE_REDUCE;
	call->root = 1);
CALL(root_all_ones, -EINVAL, "root: ",
	call->collective = ALLREDUCE_COLLECTIVE_BROADCAST;
	call->op = 0;
	call->root = UINT32_MAX);
CALL(barrier_of_something, -EINVAL, "barrier: ",
	call->collective = ALLREDUCE_COLLECTIVE_BARRIER);
CALL(barrier_with_buffers, -EINVAL, "barrier: ",
	call->collective = ALLREDUCE_COLLECTIVE_BARRIER;
	call->type = 0;
	call->op = 0;
	call->count = 0);
CALL(allgather_overlap, -EINVAL, "overlap",
	call->collective = ALLREDUCE_COLLECTIVE_ALLGATHER;
	call->op = 0;
	call->src = call->dst + 4);
CALL(reserved0, -EINVAL, "reserved: ", call->reserved0 = 1);
CALL(reserved_first, -EINVAL, "reserved: ", call->reserved[0] = 1);
CALL(reserved_last, -EINVAL, "reserved: ", call->reserved[2] = 1ULL << 63);
CALL(flags_4, -EINVAL, "flags: ", call->flags = 4);
CALL(flags_top, -EINVAL, "flags: ", call->flags = 1U << 31);
CALL(count_above_max, -EINVAL, "count: ", call->count = ALLREDUCE_COUNT_MAX + 1);
CALL(count_all_ones, -EINVAL, "count: ", call->count = UINT64_MAX);
/* 4 times this is small again. */
CALL(count_wraps, -EINVAL, "count: ", call->count = (1ULL << 62) + 1);
CALL(count_max, -EFAULT, "",
	call->count = ALLREDUCE_COUNT_MAX;
	call->dst = call->src);
CALL(timeout_99, -EINVAL, "timeout_ms: ", call->timeout_ms = 99);
CALL(timeout_86400001, -EINVAL, "timeout_ms: ", call->timeout_ms = 86400001);
CALL(src_misaligned, -EINVAL, "src: ", call->src += 2);
CALL(dst_misaligned, -EINVAL, "dst: ", call->dst += 1);
CALL(src_misaligned_for_its_type, -EINVAL, "src: ",
	call->type = ALLREDUCE_F64;
	call->count /= 2;
	call->src += 4);
CALL(overlap_above, -EINVAL, "overlap", call->dst = call->src + 4);
CALL(overlap_below, -EINVAL, "overlap", call->dst = call->src - 4);
CALL(overlap_by_one, -EINVAL, "overlap", call->dst = call->src + 4 * (COUNT - 1));
CALL(src_wraps, -EINVAL, "src: ", call->src = -4096ULL);
CALL(dst_wraps, -EINVAL, "dst: ", call->dst = -4096ULL);
CALL(src_in_kernel, -EFAULT, "src: ", call->src = NOWHERE);
CALL(dst_in_kernel, -EFAULT, "dst: ", call->dst = NOWHERE);
CALL(in_place_in_kernel, -EFAULT, "", call->src = NOWHERE; call->dst = NOWHERE);
CALL(src_across_the_border, -EFAULT, "", call->src = 0x7fffffffe000ULL);
CALL(src_null, -EFAULT, "src: ", call->src = 0);
CALL(dst_null, -EFAULT, "dst: ", call->dst = 0);
CALL(src_unmapped, -EFAULT, "src: ", call->src = (uintptr_t)small + 4096);
CALL(dst_unmapped, -EFAULT, "dst: ", call->dst = (uintptr_t)small + 4096);
CALL(src_ends_unmapped, -EFAULT, "src: ", call->src = (uintptr_t)small);
CALL(dst_ends_unmapped, -EFAULT, "dst: ", call->dst = (uintptr_t)small);
CALL(dst_read_only, -EFAULT, "mapped and writable", call->dst = (uintptr_t)read_only);
CALL(in_place_read_only, -EFAULT, "", call->src = (uintptr_t)read_only; call->dst = call->src);
/* More than any machine has: to be refused before tables for it are made. */
CALL(dst_of_8_TiB, -ENOMEM, "",
	call->src = 0x100000;
	call->dst = 0x100000;
	call->count = 1ULL << 41);
CALL(dst_of_512_GiB, -ENOMEM, "",
	call->src = 0x100000;
	call->dst = 0x100000;
	call->count = 1ULL << 37);
CALL(fixed_flag_without_sqe_flag, -EINVAL, "flags: ", call->flags = ALLREDUCE_CALL_FIXED_SRC);
CALL(sqe_flag_without_fixed_flag, -EINVAL, "flags: ",
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED);
CALL(sqe_flag_unknown, -EINVAL, "", sqe->uring_cmd_flags = 1U << 30);
CALL(fixed_index_too_large, -EFAULT, "",
	call->flags = ALLREDUCE_CALL_FIXED_SRC;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	sqe->buf_index = 1);
CALL(fixed_index_65535, -EFAULT, "",
	call->flags = ALLREDUCE_CALL_FIXED_DST;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	sqe->buf_index = 65535);
/* Registered is src's data, without a guard. */
CALL(fixed_dst_elsewhere, -EFAULT, "in the registered buffer",
	call->flags = ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED);
CALL(fixed_src_before, -EFAULT, "src: ",
	call->flags = ALLREDUCE_CALL_FIXED_SRC;
	call->src -= 4;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED);
CALL(fixed_src_beyond, -EFAULT, "src: ",
	call->flags = ALLREDUCE_CALL_FIXED_SRC;
	call->src += 4;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED);
CALL(fixed_in_place_beyond, -EFAULT, "",
	call->flags = ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST;
	call->dst = call->src;
	call->count++;
	sqe->uring_cmd_flags = IORING_URING_CMD_FIXED);

FIXTURE_SETUP(call)
{
	struct iovec iov;

	ASSERT_EQ(0, solo_open(&self->solo));
	ASSERT_EQ(0, submit_attach(&self->solo.uring, self->solo.fd, ENV_RING));
	iov.iov_base = self->solo.src.data;
	iov.iov_len = COUNT * 4;
	ASSERT_EQ(0, io_uring_register_buffers(&self->solo.uring, &iov, 1));
	/* Registered memory is pinned as long as it is. */
	self->solo.pinned = pinned_pages();
	self->small = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ASSERT_NE(MAP_FAILED, self->small);
	ASSERT_EQ(0, munmap((char *)self->small + 4096, 63 * 4096));
	self->read_only = mmap(NULL, COUNT * 4, PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->read_only);
}

FIXTURE_TEARDOWN(call)
{
	/* Now, or the next test would see them go. */
	io_uring_unregister_buffers(&self->solo.uring);
	solo_close(&self->solo);
	munmap(self->small, 4096);
	munmap(self->read_only, COUNT * 4);
}

TEST_F(call, is_refused)
{
	struct solo *s = &self->solo;
	struct allreduce_info info;
	struct io_uring_sqe *sqe;
	int res;

	sqe = solo_prep(s);
	variant->spoil((void *)((char *)sqe + ARU_SQE_BYTES - ARU_SQE_CMD_BYTES),
		       sqe, self->small, self->read_only);
	res = submit_wait(&s->uring);
	/* Which of the two is seen first does not matter. */
	if (variant->error == -ENOMEM && res == -EFAULT)
		res = -ENOMEM;
	EXPECT_EQ(variant->error, res);
	EXPECT_EQ(0, solo_holds_nothing(s));
	ASSERT_EQ(0, submit_info(&s->uring, s->fd, &info));
	EXPECT_EQ(ALLREDUCE_RING_UP, info.state);
	EXPECT_EQ(0, info.jobs_submitted);
	EXPECT_NE(NULL, strstr(info.refusal, variant->names)) {
		TH_LOG("not named: \"%s\" in \"%s\"", variant->names, info.refusal);
	}
	EXPECT_EQ(0, solo_works(s));
	EXPECT_EQ(0, solo_holds_nothing(s));
}

/* ---- fields of the other commands ----------------------------------------- */

union payload {
	struct allreduce_attach attach;
	struct allreduce_cancel cancel;
	struct allreduce_info_query info;
	uint8_t bytes[ARU_SQE_CMD_BYTES];
};

FIXTURE(command)
{
	struct solo solo;
	struct allreduce_info info;
};

FIXTURE_VARIANT(command)
{
	unsigned int op;
	bool attached;
	void (*spoil)(union payload *payload);
	int error;
};

#define COMMAND(label, op_, attached_, error_, ...) \
	static void spoil_##label(union payload *payload) \
	{ \
		(void)payload; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(command, label) { \
		.op = op_, .attached = attached_, .spoil = spoil_##label, \
		.error = error_, \
	}

#define ATTACH	ALLREDUCE_URING_ATTACH
#define SUBMIT	ALLREDUCE_URING_SUBMIT
#define CANCEL	ALLREDUCE_URING_CANCEL
#define INFO	ALLREDUCE_URING_INFO

COMMAND(attach_flags, ATTACH, false, -EINVAL, payload->attach.flags = 1);
COMMAND(attach_reserved, ATTACH, false, -EINVAL, payload->attach.reserved[0] = 1);
COMMAND(attach_reserved_last, ATTACH, false, -EINVAL,
	payload->attach.reserved[3] = 1);
COMMAND(attach_no_nul, ATTACH, false, -EINVAL,
	memset(payload->attach.ring, 'r', sizeof(payload->attach.ring)));
COMMAND(attach_no_name, ATTACH, false, -ENODEV, payload->attach.ring[0] = '\0');
COMMAND(attach_unknown, ATTACH, false, -ENODEV, payload->attach.ring[0] = 'x');
COMMAND(attach_bad_info, ATTACH, false, -EFAULT, payload->attach.info = 4096);
COMMAND(attach_info_in_kernel, ATTACH, false, -EFAULT, payload->attach.info = NOWHERE);
COMMAND(attach_twice, ATTACH, true, -EALREADY, (void)0);
COMMAND(submit_unattached, SUBMIT, false, -ENXIO, (void)0);
COMMAND(cancel_unattached, CANCEL, false, -ENXIO, (void)0);
COMMAND(info_unattached, INFO, false, -ENXIO, (void)0);
COMMAND(cancel_flags, CANCEL, true, -EINVAL, payload->cancel.flags = 2);
COMMAND(cancel_reserved0, CANCEL, true, -EINVAL, payload->cancel.reserved0 = 1);
COMMAND(cancel_reserved, CANCEL, true, -EINVAL, payload->cancel.reserved[0] = 1);
COMMAND(cancel_reserved_last, CANCEL, true, -EINVAL,
	payload->cancel.reserved[7] = 1);
COMMAND(cancel_nothing, CANCEL, true, -ENOENT, payload->cancel.tag = TAG);
COMMAND(cancel_all_of_nothing, CANCEL, true, -ENOENT,
	payload->cancel.flags = ALLREDUCE_CANCEL_ALL);
COMMAND(info_reserved0, INFO, true, -EINVAL, payload->info.reserved0 = 1);
COMMAND(info_reserved, INFO, true, -EINVAL, payload->info.reserved[0] = 1);
COMMAND(info_reserved_last, INFO, true, -EINVAL, payload->info.reserved[7] = 1);
COMMAND(info_null, INFO, true, -EFAULT, payload->info.info = 0);
COMMAND(info_in_kernel, INFO, true, -EFAULT, payload->info.info = NOWHERE);
COMMAND(number_0, 0, true, -ENOTTY, (void)0);
COMMAND(number_all_ones, UINT32_MAX, true, -ENOTTY, (void)0);
/* The number of a command with another direction or size is another command. */
COMMAND(number_of_another_direction,
	_IOR(ALLREDUCE_IOC_MAGIC, 4, struct allreduce_info_query), true,
	-ENOTTY, (void)0);
COMMAND(number_5, _IOW(ALLREDUCE_IOC_MAGIC, 5, struct allreduce_call), true, -ENOTTY,
	(void)0);

FIXTURE_SETUP(command)
{
	ASSERT_EQ(0, solo_open(&self->solo));
	if (variant->attached) {
		ASSERT_EQ(0, submit_attach(&self->solo.uring, self->solo.fd,
					   ENV_RING));
	}
}

FIXTURE_TEARDOWN(command)
{
	solo_close(&self->solo);
}

TEST_F(command, is_refused)
{
	struct solo *s = &self->solo;
	union payload payload = {};

	if (variant->op == ATTACH) {
		strcpy(payload.attach.ring, ENV_RING);
		payload.attach.info = (uintptr_t)&self->info;
		payload.attach.info_size = sizeof(self->info);
	} else if (variant->op == INFO) {
		payload.info.info = (uintptr_t)&self->info;
		payload.info.info_size = sizeof(self->info);
	}
	variant->spoil(&payload);
	EXPECT_EQ(variant->error, submit_command(&s->uring, s->fd, variant->op,
						 &payload, sizeof(payload)));
	/* A refused ATTACH leaves both the file and the ring free. */
	if (!variant->attached) {
		ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	}
	EXPECT_EQ(0, solo_works(s));
	EXPECT_EQ(0, solo_holds_nothing(s));
}

/* ---- files and io_urings -------------------------------------------------- */

FIXTURE(file)
{
	struct solo solo;
};

FIXTURE_SETUP(file)
{
	ASSERT_EQ(0, solo_open(&self->solo));
}

FIXTURE_TEARDOWN(file)
{
	solo_close(&self->solo);
}

TEST_F(file, attach_tells_about_the_ring)
{
	struct solo *s = &self->solo;
	struct {
		struct allreduce_info info;
		char newer[8];
		char guard[8];
	} seen, part;
	struct allreduce_attach attach = { .ring = ENV_RING };
	struct allreduce_info_query query = { .info = (uintptr_t)&part };

	memset(&seen, GUARD_VALUE, sizeof(seen));
	memset(&part, GUARD_VALUE, sizeof(part));
	attach.info = (uintptr_t)&seen;
	/* Of a newer program: what is not known here is 0. */
	attach.info_size = offsetof(typeof(seen), guard);
	ASSERT_EQ(0, submit_command(&s->uring, s->fd, ATTACH, &attach, sizeof(attach)));
	EXPECT_EQ(0, seen.info.rank);
	EXPECT_EQ(1, seen.info.size);
	EXPECT_EQ(2, seen.info.lanes);
	EXPECT_EQ(ALLREDUCE_RING_UP, seen.info.state);
	EXPECT_EQ(0, seen.newer[0]);
	EXPECT_EQ(0, seen.newer[7]);
	EXPECT_EQ(GUARD_VALUE, seen.guard[0]);
	/* Of an older one: as far as it goes. */
	query.info_size = 8;
	ASSERT_EQ(0, submit_command(&s->uring, s->fd, INFO, &query, sizeof(query)));
	EXPECT_EQ(1, part.info.size);
	EXPECT_EQ(GUARD_VALUE * 0x01010101U, part.info.lanes);
	query.info_size = ALLREDUCE_INFO_SIZE_MAX + 1;
	EXPECT_EQ(-EINVAL,
		  submit_command(&s->uring, s->fd, INFO, &query, sizeof(query)));
}

TEST_F(file, is_exclusive)
{
	struct solo *s = &self->solo;
	int other = aru_open_device();

	ASSERT_LE(0, other);
	ASSERT_EQ(0, submit_attach(&s->uring, other, ENV_RING));
	EXPECT_EQ(-EBUSY, submit_attach(&s->uring, s->fd, ENV_RING));
	close(other);
	EXPECT_EQ(0, submit_attach_soon(&s->uring, s->fd, ENV_RING));
	EXPECT_EQ(0, solo_works(s));
}

/* Names are those of the namespace in which the file was opened. */
TEST_F(file, belongs_to_its_namespace)
{
	struct solo *s = &self->solo;
	int other;

	ASSERT_EQ(0, env_enter(1));
	other = aru_open_device();
	ASSERT_LE(0, other);
	EXPECT_EQ(-ENODEV, submit_attach(&s->uring, other, ENV_RING));
	EXPECT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	EXPECT_EQ(0, solo_works(s));
	close(other);
}

TEST_F(file, outlives_its_ring)
{
	struct solo *s = &self->solo;
	struct env_config config = s->env.config;
	struct allreduce_info info;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	ASSERT_EQ(0, solo_works(s));
	env_down(&s->env);
	solo_prep(s);
	EXPECT_EQ(-EPIPE, submit_wait(&s->uring));
	ASSERT_EQ(0, submit_info(&s->uring, s->fd, &info));
	EXPECT_EQ(ALLREDUCE_RING_BROKEN, info.state);
	EXPECT_EQ(-ECANCELED, info.error);
	EXPECT_EQ(1, info.jobs_submitted);
	EXPECT_EQ(0, solo_holds_nothing(s));
	/* A new ring of that name is another ring. */
	ASSERT_EQ(0, env_up(&s->env, &config));
	EXPECT_EQ(-EALREADY, submit_attach(&s->uring, s->fd, ENV_RING));
	solo_prep(s);
	EXPECT_EQ(-EPIPE, submit_wait(&s->uring));
}

TEST_F(file, needs_large_sqes)
{
	struct solo *s = &self->solo;
	struct io_uring small;
	struct io_uring_sqe *sqe;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	ASSERT_EQ(0, io_uring_queue_init(4, &small, 0));
	sqe = submit_sqe(&small);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = s->fd;
	sqe->cmd_op = ALLREDUCE_URING_INFO;
	EXPECT_EQ(-EINVAL, submit_wait(&small));
	io_uring_queue_exit(&small);
	EXPECT_EQ(0, solo_works(s));
}

TEST_F(file, can_not_be_polled_for_completion)
{
	struct solo *s = &self->solo;
	struct io_uring polled;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	ASSERT_EQ(0, io_uring_queue_init(4, &polled,
					 IORING_SETUP_SQE128 | IORING_SETUP_IOPOLL));
	aru_prep_allreduce(submit_sqe(&polled), s->fd, s->src.data,
			   s->dst.data, COUNT, ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	EXPECT_EQ(-EOPNOTSUPP, submit_wait(&polled));
	io_uring_queue_exit(&polled);
	EXPECT_EQ(0, solo_works(s));
	EXPECT_EQ(0, solo_holds_nothing(s));
}

static int unprivileged_submit(struct io_uring *uring, struct solo *s, uint64_t count)
{
	aru_prep_allreduce(submit_sqe(uring), s->fd, s->src.data, s->dst.data,
			   count, ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	return submit_wait(uring);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct hdr = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct none[2] = {};

	return syscall(SYS_capset, &hdr, none);
}

/* Number of the first thing that is not as it has to be, or 0. */
static int try_memlock(struct solo *s)
{
	/* One vector fits, two do not. */
	struct rlimit limit = { 120 * 1024, 120 * 1024 };
	struct allreduce_info info;
	struct io_uring uring;
	int i;

	if (io_uring_queue_init(4, &uring, IORING_SETUP_SQE128))
		return 1;
	if (setrlimit(RLIMIT_MEMLOCK, &limit) || drop_capabilities())
		return 2;
	/* What is charged is given back, or the second round would not fit. */
	for (i = 0; i < 3; i++) {
		if (unprivileged_submit(&uring, s, COUNT) != -ENOMEM)
			return 3;
		if (submit_info(&uring, s->fd, &info) ||
		    !strstr(info.refusal, "RLIMIT_MEMLOCK: 160 KiB to pin, ") ||
		    !strstr(info.refusal, "limit 120 KiB"))
			return 10;
		if (solo_holds_nothing(s))
			return 4;
		if (unprivileged_submit(&uring, s, COUNT / 2))
			return 5;
		if (solo_holds_nothing(s))
			return 6;
	}
	/* The first of the two alone is too much. */
	limit.rlim_cur = 4096;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return 7;
	if (unprivileged_submit(&uring, s, COUNT) != -ENOMEM)
		return 8;
	if (solo_holds_nothing(s))
		return 9;
	return 0;
}

TEST_F(file, charges_locked_memory)
{
	struct solo *s = &self->solo;
	int status;
	pid_t pid;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	pid = fork();
	if (!pid)
		_exit(try_memlock(s));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_F(file, ring_is_down)
{
	struct solo *s = &self->solo;
	struct aru_member member;
	struct aru_ring_config config;

	ASSERT_EQ(0, aru_ring_del(s->env.nl[0], ENV_RING));
	env_ring_config(&s->env.config, 0, &member, &config);
	ASSERT_EQ(0, aru_ring_add(s->env.nl[0], &config));
	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	solo_prep(s);
	EXPECT_EQ(-ENOTCONN, submit_wait(&s->uring));
	EXPECT_EQ(0, solo_holds_nothing(s));
	ASSERT_EQ(0, aru_ring_up(s->env.nl[0], ENV_RING, NULL));
	EXPECT_EQ(0, solo_works(s));
}

TEST_F(file, read_only_source)
{
	struct solo *s = &self->solo;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	ASSERT_EQ(0, mprotect(s->src.map, s->src.map_bytes, PROT_READ));
	EXPECT_EQ(0, solo_works(s));
	EXPECT_EQ(0, solo_holds_nothing(s));
}

/* A source that was never written to: pages of zeros, not the shared zero page's. */
TEST_F(file, untouched_source)
{
	struct solo *s = &self->solo;
	uint64_t i, wrong = 0;
	void *zeros = mmap(NULL, COUNT * 4, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	ASSERT_NE(MAP_FAILED, zeros);
	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	aru_prep_allreduce(submit_sqe(&s->uring), s->fd, zeros, s->dst.data,
			   COUNT, ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	EXPECT_EQ(0, submit_wait(&s->uring));
	for (i = 0; i < COUNT; i++)
		wrong += s->dst.data[i] != 0;
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, solo_holds_nothing(s));
}

TEST_F(file, empty_vectors)
{
	struct solo *s = &self->solo;

	ASSERT_EQ(0, submit_attach(&s->uring, s->fd, ENV_RING));
	aru_prep_allreduce(submit_sqe(&s->uring), s->fd, NULL, NULL, 0,
			   ALLREDUCE_F64, ALLREDUCE_SUM, 0, 0);
	EXPECT_EQ(0, submit_wait(&s->uring));
	/* Nothing is read or written there. */
	aru_prep_allreduce(submit_sqe(&s->uring), s->fd, (void *)NOWHERE,
			   (void *)(NOWHERE + 8), 0, ALLREDUCE_F64, ALLREDUCE_SUM,
			   0, 0);
	EXPECT_EQ(0, submit_wait(&s->uring));
	EXPECT_EQ(0, solo_works(s));
}

/* ---- two members, one thread ---------------------------------------------- */

FIXTURE(pair)
{
	struct env env;
	struct io_uring uring;
	int fd[2];
	struct vector src[2];
	struct vector dst[2];
	long long pinned;
};

#define PAIR_COUNT	200000
#define PAIR_TIMEOUT_MS	2000

FIXTURE_SETUP(pair)
{
	struct env_config config = { .size = 2, .lanes = 2, .family = AF_INET,
				     .timeout_ms = PAIR_TIMEOUT_MS };
	int i;

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, env_up(&self->env, &config));
	ASSERT_EQ(0, io_uring_queue_init(8, &self->uring, IORING_SETUP_SQE128));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, env_enter(i));
		self->fd[i] = aru_open_device();
		ASSERT_LE(0, self->fd[i]);
		ASSERT_EQ(0, submit_attach(&self->uring, self->fd[i], ENV_RING));
		vector_alloc(&self->src[i], PAIR_COUNT);
		vector_alloc(&self->dst[i], PAIR_COUNT);
		vector_fill(&self->src[i], i);
	}
	self->pinned = pinned_pages();
}

FIXTURE_TEARDOWN(pair)
{
	int i;

	io_uring_queue_exit(&self->uring);
	for (i = 0; i < 2; i++) {
		close(self->fd[i]);
		if (self->src[i].map)
			vector_free(&self->src[i]);
		if (self->dst[i].map)
			vector_free(&self->dst[i]);
	}
	env_down(&self->env);
}

static void pair_prep(struct io_uring *uring, int fd, struct vector *src,
		      struct vector *dst)
{
	struct io_uring_sqe *sqe = submit_sqe(uring);

	aru_prep_allreduce(sqe, fd, src->data, dst->data, src->count,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, TAG);
	sqe->user_data = fd;
}

/* Submit member @i's job; its completion is for pair_end(). */
#define pair_begin(self, i) ({ \
	pair_prep(&(self)->uring, (self)->fd[i], &(self)->src[i], &(self)->dst[i]); \
	io_uring_submit(&(self)->uring) == 1 ? 0 : -1; })

/* The first job must not end before the second is there. */
#define pair_waits(self) (submit_reap(&(self)->uring, 200, NULL) == SUBMIT_NO_CQE)

/* Two completions: 0, or the first error. */
static int pair_end(struct io_uring *uring)
{
	int a = submit_reap(uring, SUBMIT_PATIENCE_MS, NULL);
	int b = submit_reap(uring, SUBMIT_PATIENCE_MS, NULL);

	return a ? a : b;
}

TEST_F(pair, sums)
{
	int i;

	ASSERT_EQ(0, pair_begin(self, 0));
	EXPECT_TRUE(pair_waits(self));
	EXPECT_LT(self->pinned, pinned_pages());
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, vector_wrong(&self->dst[i], 2));
		EXPECT_EQ(0, vector_spoilt(&self->dst[i]));
		EXPECT_EQ(0, vector_changed(&self->src[i], i));
	}
	EXPECT_EQ(self->pinned, pinned_pages());
}

static void over_mapping(struct vector *v, int flags, int fd, size_t bytes, uint64_t count)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (map == MAP_FAILED) {
		fprintf(stderr, "# mmap: %s\n", strerror(errno));
		abort();
	}
	vector_over(v, map, bytes, count);
}

TEST_F(pair, file_backed_memory)
{
	size_t bytes = 1024 * 1024;
	int i, fd[2];

	for (i = 0; i < 2; i++) {
		fd[i] = memfd_create("vector", 0);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, ftruncate(fd[i], bytes));
		vector_free(i ? &self->dst[0] : &self->src[0]);
		over_mapping(i ? &self->dst[0] : &self->src[0], MAP_SHARED, fd[i],
			     bytes, PAIR_COUNT);
	}
	vector_fill(&self->src[0], 0);
	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&self->dst[0], 2));
	EXPECT_EQ(0, vector_spoilt(&self->dst[0]));
	EXPECT_EQ(0, vector_wrong(&self->dst[1], 2));
	/* The file has it. */
	vector_free(&self->dst[0]);
	self->dst[0].map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd[1], 0);
	ASSERT_NE(MAP_FAILED, self->dst[0].map);
	self->dst[0].data = (int32_t *)(self->dst[0].map + GUARD_BYTES);
	EXPECT_EQ(0, vector_wrong(&self->dst[0], 2));
	EXPECT_EQ(self->pinned, pinned_pages());
	close(fd[0]);
	close(fd[1]);
}

/* One page, many times: its runs of memory are not what its addresses are. */
TEST_F(pair, one_page_mapped_many_times)
{
	uint64_t i, wrong = 0;
	char *map = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("page", 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 4096));
	for (i = 0; i < 64; i++) {
		ASSERT_NE(MAP_FAILED, mmap(map + i * 4096, 4096, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, 0));
	}
	for (i = 0; i < 1024; i++)
		((int32_t *)map)[i] = i;
	aru_prep_allreduce(submit_sqe(&self->uring), self->fd[0], map + 8,
			   self->dst[0].data, 65000, ALLREDUCE_I32, ALLREDUCE_SUM,
			   0, 0);
	aru_prep_allreduce(submit_sqe(&self->uring), self->fd[1],
			   self->src[1].data, self->dst[1].data, 65000,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	ASSERT_EQ(2, io_uring_submit(&self->uring));
	EXPECT_EQ(0, pair_end(&self->uring));
	for (i = 0; i < 65000; i++)
		wrong += self->dst[0].data[i] != (int32_t)((uint32_t)vector_part(1, i) +
							   (i + 2) % 1024);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(self->pinned, pinned_pages());
	munmap(map, 64 * 4096);
	close(fd);
}

static long long nr_hugepages(long long n)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "w");

	if (!f)
		return -1;
	fprintf(f, "%lld\n", n);
	fclose(f);
	f = fopen("/proc/sys/vm/nr_hugepages", "r");
	if (!f || fscanf(f, "%lld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

TEST_F(pair, huge_pages)
{
	/* Across the border of two pages. */
	uint64_t count = (HUGE_BYTES + 4096) / 4;

	ASSERT_EQ(4, nr_hugepages(4));
	vector_free(&self->src[0]);
	vector_free(&self->dst[0]);
	over_mapping(&self->src[0], MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		     2 * HUGE_BYTES, count);
	over_mapping(&self->dst[0], MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		     2 * HUGE_BYTES, count);
	vector_free(&self->src[1]);
	vector_free(&self->dst[1]);
	vector_alloc(&self->src[1], count);
	vector_alloc(&self->dst[1], count);
	vector_fill(&self->src[0], 0);
	vector_fill(&self->src[1], 1);
	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&self->dst[0], 2));
	EXPECT_EQ(0, vector_spoilt(&self->dst[0]));
	EXPECT_EQ(0, vector_wrong(&self->dst[1], 2));
	EXPECT_EQ(self->pinned, pinned_pages());
	vector_free(&self->src[0]);
	vector_free(&self->dst[0]);
	self->src[0].map = NULL;
	self->dst[0].map = NULL;
	EXPECT_EQ(0, nr_hugepages(0));
}

/* Transparent huge pages, where there are some. */
TEST_F(pair, large_folios)
{
	size_t bytes = 2 * HUGE_BYTES;
	int i;

	for (i = 0; i < 2; i++) {
		struct vector *v = i ? &self->dst[0] : &self->src[0];

		vector_free(v);
		v->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, v->map);
		madvise(v->map, bytes, MADV_HUGEPAGE);
		vector_over(v, v->map, bytes, PAIR_COUNT);
	}
	vector_fill(&self->src[0], 0);
	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&self->dst[0], 2));
	EXPECT_EQ(0, vector_spoilt(&self->dst[0]));
	EXPECT_EQ(self->pinned, pinned_pages());
}

TEST_F(pair, unmapped_in_flight)
{
	ASSERT_EQ(0, pair_begin(self, 0));
	EXPECT_TRUE(pair_waits(self));
	vector_free(&self->src[0]);
	vector_free(&self->dst[0]);
	self->src[0].map = NULL;
	self->dst[0].map = NULL;
	/* The pages stay with the job: the other member gets the right sum. */
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&self->dst[1], 2));
	EXPECT_EQ(self->pinned, pinned_pages());
}

/* A child has the descriptors too; its end is not the submitter's. */
TEST_F(pair, fork_in_flight)
{
	int status, i;
	pid_t pid;

	ASSERT_EQ(0, pair_begin(self, 0));
	EXPECT_TRUE(pair_waits(self));
	for (i = 0; i < 3; i++) {
		pid = fork();
		if (!pid) {
			/* One just ends, one closes first, one writes first. */
			if (i == 1)
				close(self->fd[0]);
			if (i == 2)
				memset(self->src[0].data, 0, PAIR_COUNT * 4);
			_exit(0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	EXPECT_TRUE(pair_waits(self));
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, vector_wrong(&self->dst[i], 2));
	EXPECT_EQ(self->pinned, pinned_pages());
}

/* A descriptor that is closed does not end a job that has the file. */
TEST_F(pair, closed_in_flight)
{
	int copy = dup(self->fd[0]);

	ASSERT_LE(0, copy);
	ASSERT_EQ(0, pair_begin(self, 0));
	close(self->fd[0]);
	self->fd[0] = copy;
	EXPECT_TRUE(pair_waits(self));
	ASSERT_EQ(0, pair_begin(self, 1));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&self->dst[0], 2));
}

static int cancel(struct io_uring *uring, int fd, uint64_t tag, unsigned int flags)
{
	struct allreduce_cancel payload = { .tag = tag, .flags = flags };
	struct io_uring_sqe *sqe = submit_sqe(uring);

	aru_prep_cmd(sqe, fd, ALLREDUCE_URING_CANCEL, &payload, sizeof(payload));
	sqe->user_data = TAG;
	return io_uring_submit(uring) == 1 ? 0 : -1;
}

TEST_F(pair, canceled)
{
	struct allreduce_info info;
	uint64_t user_data;
	int i, res, jobs = 0;

	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, cancel(&self->uring, self->fd[0], TAG + 1, 0));
	EXPECT_EQ(-ENOENT, submit_reap(&self->uring, SUBMIT_PATIENCE_MS, NULL));
	EXPECT_TRUE(pair_waits(self));
	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, cancel(&self->uring, self->fd[0], TAG, 0));
	for (i = 0; i < 3; i++) {
		res = submit_reap(&self->uring, SUBMIT_PATIENCE_MS, &user_data);
		if (user_data == TAG) {
			EXPECT_EQ(2, res);
		} else {
			EXPECT_EQ(-ECANCELED, res);
			jobs++;
		}
	}
	EXPECT_EQ(2, jobs);
	EXPECT_EQ(self->pinned, pinned_pages());
	EXPECT_EQ(0, vector_spoilt(&self->dst[0]));
	EXPECT_EQ(0, vector_changed(&self->src[0], 0));
	pair_prep(&self->uring, self->fd[0], &self->src[0], &self->dst[0]);
	EXPECT_EQ(-EPIPE, submit_wait(&self->uring));
	ASSERT_EQ(0, submit_info(&self->uring, self->fd[0], &info));
	EXPECT_EQ(ALLREDUCE_RING_BROKEN, info.state);
	EXPECT_EQ(-ECANCELED, info.error);
	EXPECT_NE(0, info.reason[0]);
	/* The other member hears of it. */
	EXPECT_TRUE(env_wait_state(&self->env, 1, ALLREDUCE_RING_BROKEN, 5000));
	EXPECT_EQ(self->pinned, pinned_pages());
}

/*
 * Calls whose counts differ so much that they use different lanes: one of them
 * alone, or all. It is a difference between calls, not a broken protocol.
 */
TEST_F(pair, counts_of_different_lanes)
{
	struct aru_ring *ring;
	bool named = false;
	int i, res;

	self->src[0].count = 10;
	self->dst[0].count = 10;
	ASSERT_EQ(0, pair_begin(self, 0));
	ASSERT_EQ(0, pair_begin(self, 1));
	for (i = 0; i < 2; i++) {
		res = submit_reap(&self->uring, SUBMIT_PATIENCE_MS, NULL);
		/* The second to see it may see the first one's end instead. */
		EXPECT_TRUE(res == -EINVAL || res == -ECONNRESET)
			fprintf(stderr, "# result %d\n", res);
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, aru_ring_get(self->env.nl[i], ENV_RING, &ring));
		named = named || (ring->error == -EINVAL &&
				  strstr(ring->reason, "count 10") &&
				  strstr(ring->reason, "count 200000"));
		if (!named)
			fprintf(stderr, "# rank %d: %s\n", i, ring->reason);
		aru_ring_free(ring);
	}
	EXPECT_TRUE(named);
	self->src[0].count = PAIR_COUNT;
	self->dst[0].count = PAIR_COUNT;
}

/* The io_uring goes while a job is in flight: it ends, at the latest in time. */
TEST_F(pair, io_uring_closed_in_flight)
{
	struct io_uring other;
	uint64_t end = env_now_ms() + PAIR_TIMEOUT_MS + 3000;

	ASSERT_EQ(0, io_uring_queue_init(8, &other, IORING_SETUP_SQE128));
	pair_prep(&other, self->fd[0], &self->src[0], &self->dst[0]);
	ASSERT_EQ(1, io_uring_submit(&other));
	io_uring_queue_exit(&other);
	EXPECT_TRUE(env_wait_state(&self->env, 0, ALLREDUCE_RING_BROKEN,
				   end - env_now_ms()));
	EXPECT_TRUE(env_wait_state(&self->env, 1, ALLREDUCE_RING_BROKEN, 3000));
	while (pinned_pages() != self->pinned && env_now_ms() < end)
		usleep(10000);
	EXPECT_EQ(self->pinned, pinned_pages());
}

TEST_F(pair, submission_queue_polling)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_SQPOLL,
		.sq_thread_idle = 100,
	};
	struct io_uring polled;
	int i;

	ASSERT_EQ(0, io_uring_queue_init_params(8, &polled, &params));
	for (i = 0; i < 2; i++)
		pair_prep(&polled, self->fd[i], &self->src[i], &self->dst[i]);
	ASSERT_EQ(2, io_uring_submit(&polled));
	EXPECT_EQ(0, pair_end(&polled));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, vector_wrong(&self->dst[i], 2));
	EXPECT_EQ(self->pinned, pinned_pages());
	io_uring_queue_exit(&polled);
}

static void pair_prep_fixed(struct io_uring *uring, int fd, struct vector *src,
			    struct vector *dst, unsigned int fixed, uint16_t index)
{
	struct io_uring_sqe *sqe = submit_sqe(uring);

	aru_prep_allreduce(sqe, fd, src->data, dst->data, src->count, ALLREDUCE_I32,
			   ALLREDUCE_SUM, 0, 0);
	aru_sqe_set_fixed(sqe, fixed, index);
}

TEST_F(pair, registered_buffers)
{
	/* Both vectors of member 0 from one area, as they have one index. */
	size_t bytes = 2 * HUGE_BYTES;
	struct vector both[2];
	struct iovec iov[2];
	unsigned int fixed;
	void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, area);
	vector_over(&both[0], area, HUGE_BYTES, PAIR_COUNT);
	vector_over(&both[1], (char *)area + HUGE_BYTES, HUGE_BYTES, PAIR_COUNT);
	iov[0].iov_base = self->src[1].map;
	iov[0].iov_len = 4096;
	iov[1].iov_base = area;
	iov[1].iov_len = bytes;
	ASSERT_EQ(0, io_uring_register_buffers(&self->uring, iov, 2));
	for (fixed = 1; fixed <= 3; fixed++) {
		vector_fill(&both[0], 0);
		memset(both[1].data, 0, PAIR_COUNT * 4);
		pair_prep_fixed(&self->uring, self->fd[0], &both[0], &both[1], fixed, 1);
		pair_prep(&self->uring, self->fd[1], &self->src[1], &self->dst[1]);
		ASSERT_EQ(2, io_uring_submit(&self->uring));
		EXPECT_EQ(0, pair_end(&self->uring));
		EXPECT_EQ(0, vector_wrong(&both[1], 2));
		EXPECT_EQ(0, vector_spoilt(&both[1]));
		EXPECT_EQ(0, vector_changed(&both[0], 0));
		}
	/* In place. */
	pair_prep_fixed(&self->uring, self->fd[0], &both[0], &both[0], 3, 1);
	pair_prep(&self->uring, self->fd[1], &self->src[1], &self->dst[1]);
	ASSERT_EQ(2, io_uring_submit(&self->uring));
	EXPECT_EQ(0, pair_end(&self->uring));
	EXPECT_EQ(0, vector_wrong(&both[0], 2));
	EXPECT_EQ(0, vector_spoilt(&both[0]));
	ASSERT_EQ(0, io_uring_unregister_buffers(&self->uring));
	EXPECT_EQ(self->pinned, pinned_pages());
	munmap(area, bytes);
}

TEST_HARNESS_MAIN
