// SPDX-License-Identifier: GPL-2.0
/*
 * What aru_prep_*() puts where in a 128-byte SQE: by byte offsets, since that is
 * what the kernel reads.
 */
#include "libtest.h"

static uint8_t sqe[ARU_SQE_BYTES + 8];

static uint64_t get(size_t offset, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, sqe + offset, bytes);
	return value;
}

static int setup(void **state)
{
	(void)state;
	memset(sqe, 0xee, sizeof(sqe));
	return 0;
}

/* opcode 0, flags 1, ioprio 2, fd 4, cmd_op 8, pad 12, addr 16, len 24, ... */
static void assert_header(int fd, uint32_t cmd_op, uint32_t cmd_flags, int buf_index)
{
	assert_int_equal(get(0, 1), IORING_OP_URING_CMD);
	assert_int_equal(get(1, 1), 0);
	assert_int_equal(get(2, 2), 0);
	assert_int_equal((int)get(4, 4), fd);
	assert_int_equal(get(8, 4), cmd_op);
	assert_int_equal(get(12, 4), 0);
	assert_int_equal(get(16, 8), 0);
	assert_int_equal(get(24, 4), 0);
	assert_int_equal(get(28, 4), cmd_flags);
	assert_int_equal(get(32, 8), 0);
	assert_int_equal(get(40, 2), buf_index);
	assert_int_equal(get(42, 6), 0);
	/* Not a byte beyond it. */
	assert_int_equal(get(ARU_SQE_BYTES, 8), 0xeeeeeeeeeeeeeeeeULL);
}

static void contract_sizes(void **state)
{
	(void)state;
	/* ALLREDUCE_URING_* carry the sizes; all must fit the command area. */
	assert_int_equal(sizeof(struct allreduce_attach), 80);
	assert_int_equal(sizeof(struct allreduce_call), 80);
	assert_int_equal(sizeof(struct allreduce_cancel), 80);
	assert_int_equal(sizeof(struct allreduce_info_query), 80);
}

static void attach(void **state)
{
	struct allreduce_info info;
	struct allreduce_attach *cmd = (void *)(sqe + 48);

	(void)state;
	aru_prep_attach((void *)sqe, 7, "demo", &info);
	assert_header(7, ALLREDUCE_URING_ATTACH, 0, 0);
	assert_string_equal(cmd->ring, "demo");
	assert_int_equal(cmd->info, (uintptr_t)&info);
	assert_int_equal(cmd->info_size, sizeof(info));
	assert_int_equal(cmd->flags, 0);
	aru_prep_attach((void *)sqe, 7, "demo", NULL);
	assert_int_equal(cmd->info, 0);
	assert_int_equal(cmd->info_size, 0);
}

static void attach_never_cuts_a_name(void **state)
{
	struct allreduce_attach *cmd = (void *)(sqe + 48);

	(void)state;
	aru_prep_attach((void *)sqe, 7, "0123456789012345678901234567890", NULL);
	assert_int_equal(cmd->ring[31], '\0');
	/* 32 characters: without a NUL, so that the kernel refuses it. */
	aru_prep_attach((void *)sqe, 7, "01234567890123456789012345678901234", NULL);
	assert_null(memchr(cmd->ring, '\0', sizeof(cmd->ring)));
}

static void allreduce(void **state)
{
	struct allreduce_call *cmd = (void *)(sqe + 48);
	char src[4], dst[4];

	(void)state;
	aru_prep_allreduce((void *)sqe, 9, src, dst, 1ULL << 40, ALLREDUCE_F64,
			   ALLREDUCE_SUM, 1234, 0x1122334455667788ULL);
	assert_header(9, ALLREDUCE_URING_SUBMIT, 0, 0);
	assert_int_equal(get(48, 8), (uintptr_t)src);
	assert_int_equal(get(56, 8), (uintptr_t)dst);
	assert_int_equal(get(64, 8), 1ULL << 40);
	assert_int_equal(get(72, 8), 0x1122334455667788ULL);
	assert_int_equal(get(80, 4), 1234);
	assert_int_equal(cmd->flags, 0);
	assert_int_equal(cmd->collective, ALLREDUCE_COLLECTIVE_ALLREDUCE);
	assert_int_equal(cmd->type, ALLREDUCE_F64);
	assert_int_equal(cmd->op, ALLREDUCE_SUM);
	assert_int_equal(cmd->reserved0, 0);
	assert_int_equal(cmd->root, 0);
	assert_int_equal(cmd->factor, 0);
	assert_int_equal(cmd->reserved[0] | cmd->reserved[1] | cmd->reserved[2], 0);
}

static void allreduce_keeps_bad_values_bad(void **state)
{
	struct allreduce_call *cmd = (void *)(sqe + 48);

	(void)state;
	/* 256 + F32 must not become F32, nor 256 the 0 of a call without an op. */
	aru_prep_allreduce((void *)sqe, 9, NULL, NULL, 0, 256 + ALLREDUCE_F32,
			   256, 0, 0);
	assert_null(aru_type_name(cmd->type));
	assert_null(aru_op_name(cmd->op));
	assert_int_not_equal(cmd->op, 0);
}

/* Everything of a prepared collective that is no argument of its own kind. */
static void assert_call(unsigned int collective, const void *src, const void *dst,
			uint64_t count, unsigned int type, unsigned int op,
			unsigned int root)
{
	struct allreduce_call expected = {
		.src = (uintptr_t)src, .dst = (uintptr_t)dst, .count = count,
		.tag = 77, .timeout_ms = 1234, .collective = collective, .type = type,
		.op = op, .root = root,
	};

	assert_header(9, ALLREDUCE_URING_SUBMIT, 0, 0);
	assert_memory_equal(sqe + 48, &expected, sizeof(expected));
}

static void all_collectives(void **state)
{
	struct io_uring_sqe *p = (void *)sqe;
	struct allreduce_call call;
	char src[8] = { 0 }, dst[8] = { 0 };

	(void)state;
	aru_prep_allreduce(p, 9, src, dst, 3, ALLREDUCE_I8, ALLREDUCE_BXOR, 1234, 77);
	assert_call(1, src, dst, 3, ALLREDUCE_I8, ALLREDUCE_BXOR, 0);
	aru_prep_reduce_scatter(p, 9, src, dst, 4, ALLREDUCE_F16, ALLREDUCE_AVG, 1234, 77);
	assert_call(2, src, dst, 4, ALLREDUCE_F16, ALLREDUCE_AVG, 0);
	aru_prep_allgather(p, 9, src, dst, 5, ALLREDUCE_U64, 1234, 77);
	assert_call(3, src, dst, 5, ALLREDUCE_U64, 0, 0);
	aru_prep_broadcast(p, 9, src, dst, 6, ALLREDUCE_BF16, 63, 1234, 77);
	assert_call(4, src, dst, 6, ALLREDUCE_BF16, 0, 63);
	aru_prep_reduce(p, 9, src, dst, 7, ALLREDUCE_U32, ALLREDUCE_MAX, 1u << 31, 1234,
			77);
	assert_call(5, src, dst, 7, ALLREDUCE_U32, ALLREDUCE_MAX, 1u << 31);
	aru_prep_barrier(p, 9, 1234, 77);
	assert_call(6, NULL, NULL, 0, 0, 0, 0);
	/* Whatever it is: the kernel judges. */
	memset(&call, 0xa5, sizeof(call));
	aru_prep_call(p, 9, &call);
	assert_header(9, ALLREDUCE_URING_SUBMIT, 0, 0);
	assert_memory_equal(sqe + 48, &call, sizeof(call));
}

static void fixed(void **state)
{
	struct allreduce_call *cmd = (void *)(sqe + 48), before;
	char buf[8];

	(void)state;
	aru_prep_allreduce((void *)sqe, 9, buf, buf, 2, ALLREDUCE_I32, ALLREDUCE_SUM, 0, 1);
	before = *cmd;
	aru_sqe_set_fixed((void *)sqe, ALLREDUCE_CALL_FLAGS, 513);
	assert_header(9, ALLREDUCE_URING_SUBMIT, IORING_URING_CMD_FIXED, 513);
	assert_int_equal(cmd->flags, ALLREDUCE_CALL_FIXED_SRC | ALLREDUCE_CALL_FIXED_DST);
	before.flags = cmd->flags;
	assert_memory_equal(cmd, &before, sizeof(before));
}

static uint64_t factor_of(struct aru_redop redop)
{
	struct allreduce_call *cmd = (void *)(sqe + 48), before;

	aru_prep_reduce((void *)sqe, 9, NULL, NULL, 2, ALLREDUCE_F16, ALLREDUCE_PREMULSUM,
			1, 0, 1);
	before = *cmd;
	aru_sqe_set_redop((void *)sqe, &redop);
	assert_header(9, ALLREDUCE_URING_SUBMIT, 0, 0);
	before.factor = cmd->factor;
	before.op = cmd->op;
	assert_memory_equal(cmd, &before, sizeof(before));
	return cmd->factor;
}

static void redop(void **state)
{
	struct allreduce_call *cmd = (void *)(sqe + 48);
	struct aru_redop f32 = { .type = ALLREDUCE_F32 }, f64 = { .type = ALLREDUCE_F64 };
	struct aru_redop none = { .type = ALLREDUCE_F16 };

	(void)state;
	f32.factor.f32 = 0.1f;
	f64.factor.f64 = 0.1;
	assert_true(factor_of(f64) == 0x3fb999999999999aULL);
	assert_true(factor_of(f32) == 0x3fb99999a0000000ULL);
	f32.factor.f32 = -0.0f;
	assert_true(factor_of(f32) == 1ULL << 63);
	assert_int_equal(cmd->op, ALLREDUCE_PREMULSUM);
	/* The kernel has to refuse it. */
	factor_of(none);
	assert_null(aru_op_name(cmd->op));
	assert_int_not_equal(cmd->op, 0);
}

static void cancel(void **state)
{
	struct allreduce_cancel *cmd = (void *)(sqe + 48);

	(void)state;
	aru_prep_cancel((void *)sqe, 3, 99, ALLREDUCE_CANCEL_ALL);
	assert_header(3, ALLREDUCE_URING_CANCEL, 0, 0);
	assert_int_equal(cmd->tag, 99);
	assert_int_equal(cmd->flags, ALLREDUCE_CANCEL_ALL);
}

static void info(void **state)
{
	struct allreduce_info_query *cmd = (void *)(sqe + 48);
	struct allreduce_info answer;

	(void)state;
	aru_prep_info((void *)sqe, 3, &answer);
	assert_header(3, ALLREDUCE_URING_INFO, 0, 0);
	assert_int_equal(cmd->info, (uintptr_t)&answer);
	assert_int_equal(cmd->info_size, sizeof(answer));
}

static void liburing_agrees(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct io_uring_sqe, cmd), 48);
	assert_int_equal(offsetof(struct io_uring_sqe, cmd_op), 8);
	assert_int_equal(offsetof(struct io_uring_sqe, uring_cmd_flags), 28);
	assert_int_equal(offsetof(struct io_uring_sqe, user_data), 32);
	assert_int_equal(offsetof(struct io_uring_sqe, buf_index), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contract_sizes),
		cmocka_unit_test(liburing_agrees),
		cmocka_unit_test_setup(attach, setup),
		cmocka_unit_test_setup(attach_never_cuts_a_name, setup),
		cmocka_unit_test_setup(allreduce, setup),
		cmocka_unit_test_setup(allreduce_keeps_bad_values_bad, setup),
		cmocka_unit_test_setup(all_collectives, setup),
		cmocka_unit_test_setup(fixed, setup),
		cmocka_unit_test_setup(redop, setup),
		cmocka_unit_test_setup(cancel, setup),
		cmocka_unit_test_setup(info, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
