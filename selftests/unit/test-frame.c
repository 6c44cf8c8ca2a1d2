// SPDX-License-Identifier: GPL-2.0
/*
 * The wire format as a table: a member of another build, or another
 * architecture, must find every field where this table says.
 */
#include <string.h>

#include "frame.h"
#include "partition.h"
#include "unit.h"

#include <linux/allreduce.h>

struct field {
	const char *name;
	size_t offset;
	size_t bytes;
	size_t want_offset;
	size_t want_bytes;
};

#define FIELD(type, field, want_offset, want_bytes) \
	{ #type "." #field, offsetof(struct type, field), \
	  sizeof(((struct type *)0)->field), want_offset, want_bytes }

/* The fields follow each other from 0 to @total, without a hole. */
static void check_fields(const struct field *f, size_t n, size_t total)
{
	size_t at = 0, i;

	for (i = 0; i < n; i++) {
		if (f[i].offset != f[i].want_offset ||
		    f[i].bytes != f[i].want_bytes)
			fail_msg("%s: %zu bytes at %zu, want %zu at %zu",
				 f[i].name, f[i].bytes, f[i].offset,
				 f[i].want_bytes, f[i].want_offset);
		if (f[i].offset != at)
			fail_msg("%s: hole or overlap at %zu", f[i].name, at);
		at += f[i].bytes;
	}
	assert_int_equal(at, total);
}

static void test_hello_layout(void **state)
{
	static const struct field fields[] = {
		FIELD(ar_hello, magic, 0, 8),
		FIELD(ar_hello, version, 8, 2),
		FIELD(ar_hello, bytes, 10, 2),
		FIELD(ar_hello, byte_order, 12, 4),
		FIELD(ar_hello, ring_id, 16, 16),
		FIELD(ar_hello, epoch, 32, 4),
		FIELD(ar_hello, rank, 36, 4),
		FIELD(ar_hello, to_rank, 40, 4),
		FIELD(ar_hello, size, 44, 4),
		FIELD(ar_hello, lane, 48, 4),
		FIELD(ar_hello, lanes, 52, 4),
		FIELD(ar_hello, frame_max, 56, 4),
		FIELD(ar_hello, gather_max, 60, 4),
		FIELD(ar_hello, members_digest, 64, 8),
		FIELD(ar_hello, reserved, 72, 32),
	};

	(void)state;
	check_fields(fields, ARRAY_SIZE(fields), 104);
	assert_int_equal(sizeof(struct ar_hello), 104);
}

static void test_welcome_layout(void **state)
{
	static const struct field fields[] = {
		FIELD(ar_welcome, magic, 0, 8),
		FIELD(ar_welcome, version, 8, 2),
		FIELD(ar_welcome, bytes, 10, 2),
		FIELD(ar_welcome, refusal, 12, 4),
		FIELD(ar_welcome, reserved, 16, 16),
	};

	(void)state;
	check_fields(fields, ARRAY_SIZE(fields), 32);
	assert_int_equal(sizeof(struct ar_welcome), 32);
}

static void test_frame_layout(void **state)
{
	static const struct field fields[] = {
		FIELD(ar_frame_hdr, magic, 0, 2),
		FIELD(ar_frame_hdr, phase, 2, 1),
		FIELD(ar_frame_hdr, codec, 3, 1),
		FIELD(ar_frame_hdr, len, 4, 4),
		FIELD(ar_frame_hdr, job, 8, 8),
		FIELD(ar_frame_hdr, offset, 16, 8),
		FIELD(ar_frame_hdr, count, 24, 8),
		FIELD(ar_frame_hdr, chunk, 32, 4),
		FIELD(ar_frame_hdr, weight, 36, 4),
		FIELD(ar_frame_hdr, collective, 40, 1),
		FIELD(ar_frame_hdr, type, 41, 1),
		FIELD(ar_frame_hdr, op, 42, 1),
		FIELD(ar_frame_hdr, flags, 43, 1),
		FIELD(ar_frame_hdr, root, 44, 4),
		FIELD(ar_frame_hdr, reserved, 48, 16),
	};

	(void)state;
	check_fields(fields, ARRAY_SIZE(fields), 64);
	assert_int_equal(sizeof(struct ar_frame_hdr), 64);
	assert_int_equal(AR_FRAME_HDR_BYTES, 64);
}

static void test_magics_on_the_wire(void **state)
{
	struct ar_hello hello = { .magic = cpu_to_le64(AR_HELLO_MAGIC) };
	struct ar_welcome welcome = { .magic = cpu_to_le64(AR_WELCOME_MAGIC) };
	struct ar_frame_hdr hdr = { .magic = cpu_to_le16(AR_FRAME_MAGIC) };

	(void)state;
	assert_memory_equal(&hello, "AR-HELLO", 8);
	assert_memory_equal(&welcome, "AR-WELCM", 8);
	assert_memory_equal(&hdr, "RF", 2);
}

/* A header with a different value in each byte, as bytes. */
static void test_frame_is_little_endian(void **state)
{
	const struct ar_frame_hdr hdr = {
		.magic = cpu_to_le16(AR_FRAME_MAGIC),
		.phase = AR_PHASE_GATHER,
		.codec = 0x03,
		.len = cpu_to_le32(0x07060504),
		.job = cpu_to_le64(0x0f0e0d0c0b0a0908ULL),
		.offset = cpu_to_le64(0x1716151413121110ULL),
		.count = cpu_to_le64(0x1f1e1d1c1b1a1918ULL),
		.chunk = cpu_to_le32(0x23222120),
		.weight = cpu_to_le32(0x27262524),
		.collective = 0x28,
		.type = 0x29,
		.op = 0x2a,
		.flags = 0x2b,
		.root = cpu_to_le32(0x2f2e2d2c),
	};
	u8 want[64] = { 'R', 'F', 2 };
	size_t i;

	(void)state;
	for (i = 3; i < 48; i++)
		want[i] = i;
	assert_memory_equal(&hdr, want, sizeof(want));
}

/* Values that peers of another version would see. */
static void test_wire_values(void **state)
{
	(void)state;
	assert_int_equal(AR_PROTOCOL_VERSION, 2);
	assert_int_equal(AR_PHASE_REDUCE, 1);
	assert_int_equal(AR_PHASE_GATHER, 2);
	assert_int_equal(AR_PHASE_TOKEN, 3);
	assert_int_equal(AR_PHASES, 3);
	assert_int_equal(ALLREDUCE_COLLECTIVE_ALLREDUCE, 1);
	assert_int_equal(ALLREDUCE_COLLECTIVE_REDUCE_SCATTER, 2);
	assert_int_equal(ALLREDUCE_COLLECTIVE_ALLGATHER, 3);
	assert_int_equal(ALLREDUCE_COLLECTIVE_BROADCAST, 4);
	assert_int_equal(ALLREDUCE_COLLECTIVE_REDUCE, 5);
	assert_int_equal(ALLREDUCE_COLLECTIVE_BARRIER, 6);
	assert_int_equal(ALLREDUCE_F32, 1);
	assert_int_equal(ALLREDUCE_F64, 2);
	assert_int_equal(ALLREDUCE_I32, 3);
	assert_int_equal(ALLREDUCE_I64, 4);
	assert_int_equal(ALLREDUCE_F16, 5);
	assert_int_equal(ALLREDUCE_BF16, 6);
	assert_int_equal(ALLREDUCE_I8, 7);
	assert_int_equal(ALLREDUCE_U8, 8);
	assert_int_equal(ALLREDUCE_U32, 9);
	assert_int_equal(ALLREDUCE_U64, 10);
	assert_int_equal(ALLREDUCE_SUM, 1);
	assert_int_equal(ALLREDUCE_PROD, 2);
	assert_int_equal(ALLREDUCE_MIN, 3);
	assert_int_equal(ALLREDUCE_MAX, 4);
	assert_int_equal(ALLREDUCE_AVG, 5);
	assert_int_equal(ALLREDUCE_BAND, 6);
	assert_int_equal(ALLREDUCE_BOR, 7);
	assert_int_equal(ALLREDUCE_BXOR, 8);
	assert_int_equal(ALLREDUCE_PREMULSUM, 9);
}

static void test_refusal_values(void **state)
{
	(void)state;
	assert_int_equal(AR_REFUSAL_VERSION, 1);
	assert_int_equal(AR_REFUSAL_BYTE_ORDER, 2);
	assert_int_equal(AR_REFUSAL_RANK, 3);
	assert_int_equal(AR_REFUSAL_SIZE, 4);
	assert_int_equal(AR_REFUSAL_LANES, 5);
	assert_int_equal(AR_REFUSAL_FRAME_MAX, 6);
	assert_int_equal(AR_REFUSAL_MEMBERS, 7);
	assert_int_equal(AR_REFUSAL_EPOCH, 8);
	assert_int_equal(AR_REFUSAL_ADDRESS, 9);
	assert_int_equal(AR_REFUSAL_STATE, 10);
	assert_int_equal(AR_REFUSAL_GATHER_MAX, 11);
}

static void test_refusals_are_distinct(void **state)
{
	static const struct {
		u32 value;
		const char *text;
	} rows[] = {
#define X(NAME, value, text)	{ value, text },
		AR_FOR_EACH_REFUSAL(X)
#undef X
	};
	size_t i, j;

	(void)state;
	assert_int_equal(rows[0].value, 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(strlen(rows[i].text) > 0);
		for (j = 0; j < i; j++) {
			assert_int_not_equal(rows[i].value, rows[j].value);
			assert_string_not_equal(rows[i].text, rows[j].text);
		}
	}
}

/* Against the published test vectors of 64-bit FNV-1a. */
static void test_digest(void **state)
{
	static const struct {
		const char *text;
		u64 digest;
	} vectors[] = {
		{ "", 0xcbf29ce484222325ULL },
		{ "a", 0xaf63dc4c8601ec8cULL },
		{ "foobar", 0x85944171f73967e8ULL },
	};
	u64 parts;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(vectors); i++)
		assert_int_equal(ar_digest64(AR_DIGEST64_INIT, vectors[i].text,
					     strlen(vectors[i].text)),
				 vectors[i].digest);
	parts = ar_digest64(AR_DIGEST64_INIT, "foo", 3);
	assert_int_equal(ar_digest64(parts, "bar", 3), vectors[2].digest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_layout),
		cmocka_unit_test(test_welcome_layout),
		cmocka_unit_test(test_frame_layout),
		cmocka_unit_test(test_magics_on_the_wire),
		cmocka_unit_test(test_frame_is_little_endian),
		cmocka_unit_test(test_wire_values),
		cmocka_unit_test(test_refusal_values),
		cmocka_unit_test(test_refusals_are_distinct),
		cmocka_unit_test(test_digest),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
