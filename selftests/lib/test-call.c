// SPDX-License-Identifier: GPL-2.0
/*
 * Which calls are refused before they get to the kernel, and in what words.
 */
#include <errno.h>

#include "libtest.h"

#define SIZE	4
#define RANK	2

/* Addresses that are only looked at. */
#define SRC	0x100000
#define DST	0x200000

/* The tables, written out. */
#define COLLECTIVES \
	": there are allreduce reduce_scatter allgather broadcast reduce barrier"
#define TYPES	": there are f32 f64 f16 bf16 i32 i64 i8 u8 u32 u64"
#define OPS	": there are sum prod min max avg band bor bxor premulsum"
#define BLOCKS	", 2^60 divided by the ring's size"
#define REACHES_OUT " reaches out of the address space"

static char text[ARU_ERROR_TEXT_SIZE];

static struct allreduce_call call_of(unsigned int collective, uint64_t count)
{
	struct allreduce_call call = {
		.collective = collective, .count = count, .src = SRC, .dst = DST,
		.type = ALLREDUCE_F32,
	};

	switch (collective) {
	case ALLREDUCE_COLLECTIVE_ALLREDUCE:
	case ALLREDUCE_COLLECTIVE_REDUCE_SCATTER:
	case ALLREDUCE_COLLECTIVE_REDUCE:
		call.op = ALLREDUCE_SUM;
		break;
	case ALLREDUCE_COLLECTIVE_BARRIER:
		memset(&call, 0, sizeof(call));
		call.collective = collective;
	}
	return call;
}

static void accepted_as(const struct allreduce_call *call, unsigned int rank,
			unsigned int size)
{
	int ret;

	strcpy(text, "untouched");
	ret = aru_call_check(call, rank, size, text, sizeof(text));
	if (ret)
		print_message("refused: %s\n", text);
	assert_int_equal(ret, 0);
	assert_string_equal(text, "untouched");
}

static void refused_as(const struct allreduce_call *call, unsigned int rank,
		       unsigned int size, const char *expected)
{
	strcpy(text, "accepted");
	assert_int_equal(aru_call_check(call, rank, size, text, sizeof(text)), -EINVAL);
	assert_string_equal(text, expected);
}

static void accepted(const struct allreduce_call *call)
{
	accepted_as(call, RANK, SIZE);
}

static void refused(const struct allreduce_call *call, const char *expected)
{
	refused_as(call, RANK, SIZE, expected);
}

#define FOR_EACH_COLLECTIVE(c) \
	for (c = ALLREDUCE_COLLECTIVE_ALLREDUCE; c <= ALLREDUCE_COLLECTIVE_BARRIER; c++)

#define FOR_EACH_WITH_VECTORS(c) \
	for (c = ALLREDUCE_COLLECTIVE_ALLREDUCE; c < ALLREDUCE_COLLECTIVE_BARRIER; c++)

static void all_are_accepted(void **state)
{
	struct allreduce_call call;
	unsigned int c;

	(void)state;
	FOR_EACH_COLLECTIVE(c) {
		call = call_of(c, 5);
		if (c == ALLREDUCE_COLLECTIVE_BARRIER)
			call.count = 0;
		accepted(&call);
		accepted_as(&call, 0, 1);
		accepted_as(&call, 63, 64);
	}
}

static void collectives(void **state)
{
	struct allreduce_call call = call_of(0, 1);

	(void)state;
	refused(&call, "collective 0 is unknown" COLLECTIVES);
	call.collective = 7;
	refused(&call, "collective 7 is unknown" COLLECTIVES);
	call.collective = 255;
	assert_int_equal(aru_call_check(&call, RANK, SIZE, NULL, 0), -EINVAL);
}

static void fields_that_are_nobodys(void **state)
{
	struct allreduce_call call;
	unsigned int c, i;

	(void)state;
	FOR_EACH_COLLECTIVE(c) {
		call = call_of(c, 0);
		call.tag = 1;
		refused(&call, "tag and flags must be 0: they are the library's own");
		call = call_of(c, 0);
		call.flags = ALLREDUCE_CALL_FIXED_DST;
		refused(&call, "tag and flags must be 0: they are the library's own");
		call = call_of(c, 0);
		call.reserved0 = 1;
		refused(&call, "reserved0 must be 0");
		for (i = 0; i < 3; i++) {
			call = call_of(c, 0);
			call.reserved[i] = 1ULL << 63;
			refused(&call, "reserved must be 0");
		}
		call = call_of(c, 0);
		call.factor = 1;
		refused(&call, "factor must be 0 without op premulsum");
	}
}

static void timeouts(void **state)
{
	struct allreduce_call call;
	unsigned int c;

	(void)state;
	FOR_EACH_COLLECTIVE(c) {
		call = call_of(c, 0);
		call.timeout_ms = 100;
		accepted(&call);
		call.timeout_ms = 86400000;
		accepted(&call);
		call.timeout_ms = 99;
		refused(&call, "timeout_ms 99 is neither 0 nor from 100 to 86400000");
		call.timeout_ms = 86400001;
		refused(&call, "timeout_ms 86400001 is neither 0 nor from 100 to 86400000");
	}
}

static void types_and_ops(void **state)
{
	struct allreduce_call call;
	unsigned int c;

	(void)state;
	FOR_EACH_WITH_VECTORS(c) {
		call = call_of(c, 1);
		call.type = 11;
		refused(&call, "type 11 is unknown" TYPES);
		call.type = 0;
		refused(&call, "type 0 is unknown" TYPES);
	}
	call = call_of(ALLREDUCE_COLLECTIVE_REDUCE, 1);
	call.op = 0;
	refused(&call, "op 0 is unknown" OPS);
	call.op = 10;
	refused(&call, "op 10 is unknown" OPS);
	call.op = ALLREDUCE_BOR;
	refused(&call, "op bor is for integers only, not for type f32");
	call.type = ALLREDUCE_U8;
	accepted(&call);
	call.op = ALLREDUCE_PREMULSUM;
	refused(&call, "op premulsum is for floats only, not for type u8");
	call.type = ALLREDUCE_BF16;
	call.factor = ~0ULL;
	accepted(&call);
	call = call_of(ALLREDUCE_COLLECTIVE_ALLGATHER, 1);
	call.op = ALLREDUCE_SUM;
	refused(&call, "op 1 must be 0 for allgather");
	call = call_of(ALLREDUCE_COLLECTIVE_BROADCAST, 1);
	call.op = 255;
	refused(&call, "op 255 must be 0 for broadcast");
}

static void roots(void **state)
{
	struct allreduce_call call;
	unsigned int c;

	(void)state;
	FOR_EACH_WITH_VECTORS(c) {
		call = call_of(c, 1);
		call.root = SIZE - 1;
		if (c == ALLREDUCE_COLLECTIVE_BROADCAST || c == ALLREDUCE_COLLECTIVE_REDUCE) {
			accepted(&call);
			call.root = SIZE;
			refused(&call, "root 4 is not from 0 to 3");
			call.root = UINT32_MAX;
			refused(&call, "root 4294967295 is not from 0 to 3");
		} else {
			assert_int_equal(aru_call_check(&call, RANK, SIZE, text,
							sizeof(text)), -EINVAL);
			assert_non_null(strstr(text, "root 3 must be 0 for "));
		}
	}
}

static void counts(void **state)
{
	static const char too_many[] =
		"count 384307168202282326 is not from 0 to 384307168202282325" BLOCKS;
	static const char reaches_out[] =
		"src 0x8000000000000008 with 1152921504606846975 elements" REACHES_OUT;
	struct allreduce_call call;

	(void)state;
	call = call_of(ALLREDUCE_COLLECTIVE_ALLREDUCE, 1ULL << 60);
	call.type = ALLREDUCE_U8;
	call.dst = call.src;
	accepted(&call);
	call.count++;
	refused(&call, "count 1152921504606846977 is not from 0 to 1152921504606846976");
	/* Blocks: all of them together. */
	call = call_of(ALLREDUCE_COLLECTIVE_ALLGATHER, (1ULL << 60) / 3);
	call.type = ALLREDUCE_I8;
	call.src = DST + 2 * call.count;
	accepted_as(&call, 2, 3);
	call.count++;
	refused_as(&call, 2, 3, too_many);
	call.collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER;
	call.op = ALLREDUCE_SUM;
	refused_as(&call, 2, 3, too_many);
	/* No wrap-around anywhere. */
	call.count = UINT64_MAX;
	assert_int_equal(aru_call_check(&call, 2, 3, NULL, 0), -EINVAL);
	/* Nearly 2^60 elements of 8 bytes: nearly half of all addresses. */
	call = call_of(ALLREDUCE_COLLECTIVE_ALLREDUCE, (1ULL << 60) - 1);
	call.type = ALLREDUCE_F64;
	call.src = 1ULL << 63;
	call.dst = 8;
	accepted(&call);
	call.dst = 16;
	refused(&call, "src and dst overlap and are not equal");
	/* An end at 2^64 is out, as the kernel has it. */
	call.src += 8;
	refused(&call, reaches_out);
	/* And one beyond does not come out at the other side. */
	call.src = -8ULL;
	assert_int_equal(aru_call_check(&call, RANK, SIZE, text, sizeof(text)), -EINVAL);
	assert_non_null(strstr(text, REACHES_OUT));
}

static void no_elements_no_buffers(void **state)
{
	struct allreduce_call call;
	unsigned int c;

	(void)state;
	FOR_EACH_WITH_VECTORS(c) {
		call = call_of(c, 0);
		call.src = 1;
		call.dst = 3;
		accepted(&call);
	}
}

static void alignment(void **state)
{
	struct allreduce_call call = call_of(ALLREDUCE_COLLECTIVE_ALLREDUCE, 1);

	(void)state;
	call.src = SRC + 2;
	refused(&call, "src 0x100002 is not a multiple of 4, the size of type f32");
	call.type = ALLREDUCE_BF16;
	accepted(&call);
	call.type = ALLREDUCE_I64;
	call.src = SRC;
	call.dst = DST + 4;
	refused(&call, "dst 0x200004 is not a multiple of 8, the size of type i64");
	call.type = ALLREDUCE_U8;
	call.dst = DST + 1;
	accepted(&call);
}

/* A buffer that the rank does not need is not looked at. */
static void roots_only(void **state)
{
	struct allreduce_call call;

	(void)state;
	call = call_of(ALLREDUCE_COLLECTIVE_BROADCAST, 8);
	call.src = DST + 1;
	accepted_as(&call, 1, 4);
	refused_as(&call, 0, 4, "src 0x200001 is not a multiple of 4, the size of type f32");
	call.src = DST + 4;
	accepted_as(&call, 1, 4);
	refused_as(&call, 0, 4, "src and dst overlap and are not equal");
	call = call_of(ALLREDUCE_COLLECTIVE_REDUCE, 8);
	call.root = 3;
	call.dst = SRC + 4;
	accepted_as(&call, 1, 4);
	refused_as(&call, 3, 4, "src and dst overlap and are not equal");
	call.dst = SRC;
	accepted_as(&call, 3, 4);
	call.dst = 0;
	call.src = SRC + 1;
	refused_as(&call, 1, 4, "src 0x100001 is not a multiple of 4, the size of type f32");
}

/*
 * Where dst may lie, for a src at SRC: its offset in elements from there, for a
 * count of 8 in a ring of 4, on rank 2.
 */
static void overlaps(void **state)
{
	static const char not_equal[] = "src and dst overlap and are not equal";
	static const char not_in_dst[] =
		"src and dst overlap, but src is not block 2 of dst, the own one";
	static const char not_in_src[] =
		"src and dst overlap, but dst is not block 2 of src, the own one";
	static const struct {
		unsigned int collective;
		int offset;
		const char *text;
	} cases[] = {
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, 0, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, 8, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, -8, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, 7, not_equal },
		{ ALLREDUCE_COLLECTIVE_ALLREDUCE, -7, not_equal },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 16, NULL },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 32, NULL },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, -8, NULL },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 0, not_in_src },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 8, not_in_src },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 15, not_in_src },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 24, not_in_src },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 31, not_in_src },
		{ ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, -7, not_in_src },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, -16, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, 8, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, -32, NULL },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, 0, not_in_dst },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, -8, not_in_dst },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, -17, not_in_dst },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, -31, not_in_dst },
		{ ALLREDUCE_COLLECTIVE_ALLGATHER, 7, not_in_dst },
	};
	struct allreduce_call call;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		call = call_of(cases[i].collective, 8);
		call.dst = call.src + 4 * cases[i].offset;
		if (cases[i].text)
			refused(&call, cases[i].text);
		else
			accepted(&call);
	}
}

static void barriers(void **state)
{
	const struct allreduce_call barrier = call_of(ALLREDUCE_COLLECTIVE_BARRIER, 0);
	struct allreduce_call call;

	(void)state;
	call = barrier;
	call.type = ALLREDUCE_F32;
	refused(&call, "type 1 must be 0 for barrier");
	call = barrier;
	call.op = ALLREDUCE_SUM;
	refused(&call, "op 1 must be 0 for barrier");
	call = barrier;
	call.count = 9;
	refused(&call, "count 9 must be 0 for barrier");
	call = barrier;
	call.root = 1;
	refused(&call, "root 1 must be 0 for barrier");
	call = barrier;
	call.src = SRC;
	refused(&call, "src and dst must be 0 for barrier");
	call = barrier;
	call.dst = DST;
	refused(&call, "src and dst must be 0 for barrier");
}

/* Short room for the text is no reason to write beyond it. */
static void texts_are_cut(void **state)
{
	struct allreduce_call call = call_of(0, 1);
	char room[8];

	(void)state;
	memset(room, 'x', sizeof(room));
	assert_int_equal(aru_call_check(&call, RANK, SIZE, room, 5), -EINVAL);
	assert_memory_equal(room, "coll\0xxx", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_accepted),
		cmocka_unit_test(collectives),
		cmocka_unit_test(fields_that_are_nobodys),
		cmocka_unit_test(timeouts),
		cmocka_unit_test(types_and_ops),
		cmocka_unit_test(roots),
		cmocka_unit_test(counts),
		cmocka_unit_test(no_elements_no_buffers),
		cmocka_unit_test(alignment),
		cmocka_unit_test(roots_only),
		cmocka_unit_test(overlaps),
		cmocka_unit_test(barriers),
		cmocka_unit_test(texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
