// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol, spoken by a program (wire-peer.c): first it is honest, which
 * shows that it knows the protocol; then it lies, once in each test.
 *
 * Whatever is sent, the ring must break with the right error in bounded time,
 * the job must end with it, and nothing but the vectors may be written or kept.
 */
#include <sys/socket.h>
#include <time.h>

#include "wire-peer.h"
#include "kselftest_harness.h"

/* Frames of PLAY_ALLREDUCE's peer, by the first of each turn. */
#define ENDS_SUM	0	/* of chunk 0: complete here, and passed on */
#define SUM		2	/* of chunk 1: added to, and passed on */
#define RESULT		4	/* chunk 2: delivered, and passed on */
#define LAST_RESULT	6	/* chunk 1: delivered */
#define ALL_FRAMES	8

#define FRAME_BYTES	(sizeof(struct ar_frame_hdr) + FRAME_MAX)

/* ---- honesty -------------------------------------------------------------- */

FIXTURE(honest)
{
	struct wire w;
	const struct play *play;
};

FIXTURE_VARIANT(honest)
{
	unsigned int play;
	unsigned int sent;	/* frames of a job that the kernel sends */
};

#define HONEST(label, play_, sent_) \
	FIXTURE_VARIANT_ADD(honest, label) { .play = play_, .sent = sent_ }

/* Hops of a chunk from end to end: 2(N - 1) on the ring path, else N - 1. */
HONEST(allreduce, PLAY_ALLREDUCE, 2 * (SIZE - 1) * FRAMES);
HONEST(gather_path, PLAY_GATHER_PATH, (SIZE - 1) * FRAMES);
HONEST(reduce_scatter, PLAY_REDUCE_SCATTER, (SIZE - 1) * FRAMES + 1);
HONEST(allgather, PLAY_ALLGATHER, (SIZE - 1) * FRAMES + 1);
HONEST(broadcast_from_kernel, PLAY_BROADCAST_0, FRAMES);
HONEST(broadcast_from_next, PLAY_BROADCAST_1, 1);
HONEST(broadcast_from_prev, PLAY_BROADCAST_2, FRAMES);
HONEST(reduce_to_kernel, PLAY_REDUCE_0, 1);
HONEST(reduce_to_next, PLAY_REDUCE_1, FRAMES);
HONEST(reduce_to_prev, PLAY_REDUCE_2, FRAMES);
HONEST(barrier, PLAY_BARRIER, SIZE - 1);

FIXTURE_SETUP(honest)
{
	self->play = &plays[variant->play];
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(honest)
{
	wire_close(&self->w);
}

/*
 * The result, and as many frames as the protocol says, counted on both ends. The
 * first of all tests makes the namespaces, too.
 */
TEST_F_TIMEOUT(honest, exchanges, 60)
{
	struct wire *w = &self->w;
	uint64_t job, sent, received;

	for (job = 1; job <= 5; job++) {
		ASSERT_EQ(0, exchange(w, self->play, job));
		sent = wire_look(w).stats[ALLREDUCE_STAT_FRAMES_SENT];
		received = wire_look(w).stats[ALLREDUCE_STAT_FRAMES_RECEIVED];
		EXPECT_EQ(job * variant->sent, sent);
		EXPECT_EQ(job * play_frames_in(self->play), received);
	}
	EXPECT_EQ(w->pinned, pinned_pages());
}

/* Byte by byte: every cut of headers and elements. */
TEST_F(honest, in_small_pieces)
{
	struct wire *w = &self->w;
	static const size_t pieces[] = { 1, 3, 7, 61, 63, 64, 65, 1001 };
	struct frame frame;
	unsigned int number, i = 0;

	ASSERT_EQ(0, wire_submit(w, self->play));
	for (number = 0; number < play_frames_in(self->play); number++) {
		size_t len, sent = 0;

		ASSERT_TRUE(recv_before(w, self->play, 1, number));
		len = frame_init(&frame, self->play, 1, number);
		while (sent < len) {
			size_t n = pieces[i++ % (sizeof(pieces) / sizeof(pieces[0]))];

			n = n < len - sent ? n : len - sent;
			ASSERT_TRUE(send_all(w->out, (char *)&frame + sent, n));
			sent += n;
		}
	}
	ASSERT_TRUE(recv_turns(w, self->play, 1, ALL_TURNS));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, wrong_result(w, self->play));
	EXPECT_EQ(0, vector_spoilt(&w->dst));
}

/*
 * Frames that are early wait for the job, and the ring is not disturbed; what
 * has to wait for the kernel's is not sent early.
 */
TEST_F(honest, early)
{
	struct wire *w = &self->w;
	const struct play *play = self->play;
	unsigned int early = play_frames_at_once(play), number;

	for (number = 0; number < early; number++) {
		ASSERT_TRUE(send_honest(w, play, 1, number));
	}
	usleep(300000);
	ASSERT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	ASSERT_EQ(0, wire_submit(w, play));
	for (number = early; number < play_frames_in(play); number++) {
		ASSERT_TRUE(recv_before(w, play, 1, number));
		ASSERT_TRUE(send_honest(w, play, 1, number));
	}
	ASSERT_TRUE(recv_turns(w, play, 1, ALL_TURNS));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, wrong_result(w, play));
}

/* Nothing is over before the last frame that it needs has come. */
TEST_F(honest, but_withholds_the_last_frame)
{
	struct wire *w = &self->w;
	const struct play *play = self->play;
	unsigned int last = play_frames_in(play) - 1;

	ASSERT_EQ(0, honest_until(w, play, 1, last));
	EXPECT_EQ(SUBMIT_NO_CQE, submit_reap(&w->uring, 300, NULL));
	ASSERT_TRUE(send_honest(w, play, 1, last));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_TRUE(recv_turns(w, play, 1, ALL_TURNS));
	EXPECT_EQ(0, wrong_result(w, play));
}

/* ---- lies ----------------------------------------------------------------- */

FIXTURE(peer)
{
	struct wire w;
};

FIXTURE_SETUP(peer)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(peer)
{
	wire_close(&self->w);
}

/* All collectives one after the other, on one ring. */
TEST_F(peer, is_honest_about_all_collectives)
{
	uint64_t job = 0;
	unsigned int round, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < PLAYS; i++) {
			ASSERT_EQ(0, exchange(&self->w, &plays[i], ++job))
				fprintf(stderr, "# play %u\n", i);
		}
	}
	EXPECT_EQ(self->w.pinned, pinned_pages());
}

/* What must hold once the ring is broken, apart from the error. */
static int check_aftermath(struct wire *w)
{
	if (!wire_wait_state(w, ALLREDUCE_RING_BROKEN, 3000))
		return 1;
	if (!wire_look(w).reason[0])
		return 2;
	if (w->in >= 0 && !is_closed(w->in, 3000))
		return 3;
	if (w->out >= 0 && !is_closed(w->out, 3000))
		return 4;
	if (vector_spoilt(&w->dst))
		return 5;
	if (vector_spoilt(&w->src) || vector_changed(&w->src, 0))
		return 6;
	if (pinned_pages() != w->pinned)
		return 7;
	if (wire_submit(w, &plays[PLAY_ALLREDUCE]) ||
	    submit_reap(&w->uring, PATIENCE_MS, NULL) != -EPIPE)
		return 8;
	return 0;
}

FIXTURE(lie)
{
	struct wire w;
};

/*
 * The lie is in frame @number of job 2; frames before it are honest. @len bytes
 * of the frame are sent (0: all that a truthful one has). The ring's reason has
 * to contain @reason.
 */
FIXTURE_VARIANT(lie)
{
	unsigned int play;
	unsigned int number;
	void (*tell)(struct ar_frame_hdr *hdr);
	size_t len;
	int error;
	const char *reason;
};

#define LIE(label, play_, number_, len_, error_, reason_, ...) \
	static void tell_##label(struct ar_frame_hdr *hdr) \
	{ \
		(void)hdr; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(lie, label) { \
		.play = play_, .number = number_, .tell = tell_##label, \
		.len = len_, .error = error_, .reason = reason_, \
	}

/* A frame that the protocol does not allow: what is named is @field. */
#define BAD_OF(play, label, number, len, field, ...) \
	LIE(label, play, number, len, -EBADMSG, "rank 2 sent a frame with " field " ", \
	    __VA_ARGS__)
#define BAD(label, number, field, ...) \
	BAD_OF(PLAY_ALLREDUCE, label, number, 0, field, __VA_ARGS__)

BAD(magic, ENDS_SUM, "magic", hdr->magic = cpu_to_le16(0x4653));
BAD(magic_zero, RESULT, "magic", memset(hdr, 0, sizeof(*hdr)));
BAD(codec, SUM, "codec", hdr->codec = 1);
BAD(flags, ENDS_SUM, "flags", hdr->flags = 0x80);
BAD(weight, SUM, "weight", hdr->weight = cpu_to_le32(1));
BAD(reserved, ENDS_SUM, "reserved", hdr->reserved[0] = cpu_to_le64(1));
BAD(reserved_last, RESULT + 1, "reserved", hdr->reserved[1] = cpu_to_le64(1ULL << 63));
BAD(job_0, ENDS_SUM, "job", hdr->job = 0);
BAD(job_of_the_past, SUM, "a job that is over, number", hdr->job = cpu_to_le64(1));
BAD(chunk_is_size, ENDS_SUM, "chunk", hdr->chunk = cpu_to_le32(SIZE));
BAD(chunk_all_ones, SUM, "chunk", hdr->chunk = cpu_to_le32(UINT32_MAX));
BAD(chunk_that_begins_there, ENDS_SUM, "chunk", hdr->chunk = cpu_to_le32(2));
BAD(chunk_that_was_made_there, RESULT, "chunk", hdr->chunk = cpu_to_le32(0));
BAD(phase_0, ENDS_SUM, "phase", hdr->phase = 0);
BAD(phase_4, SUM, "phase", hdr->phase = 4);
BAD(phase_255, RESULT, "phase", hdr->phase = 255);
BAD(phase_gather_too_soon, ENDS_SUM, "chunk", hdr->phase = AR_PHASE_GATHER);
BAD(phase_reduce_again, RESULT, "chunk", hdr->phase = AR_PHASE_REDUCE);
BAD(offset_of_the_second, ENDS_SUM, "offset", hdr->offset = cpu_to_le64(FRAME_MAX));
BAD(offset_64, SUM, "offset", hdr->offset = cpu_to_le64(64));
BAD(offset_1, ENDS_SUM + 1, "offset", hdr->offset = cpu_to_le64(FRAME_MAX + 1));
BAD(offset_of_the_end, SUM + 1, "offset", hdr->offset = cpu_to_le64(CHUNK_BYTES));
BAD(offset_top_bit, ENDS_SUM, "offset", hdr->offset = cpu_to_le64(1ULL << 63));
BAD(offset_wraps, SUM + 1, "offset", hdr->offset = cpu_to_le64(-4096ULL));
BAD(repeated, ENDS_SUM + 1, "offset", hdr->offset = 0);
BAD(repeated_result, RESULT + 1, "offset", hdr->offset = 0);
BAD(repeated_last_result, LAST_RESULT + 1, "offset", hdr->offset = 0);
BAD(repeated_chunk, SUM, "offset", hdr->chunk = cpu_to_le32(0));
BAD(length_less, ENDS_SUM, "length", hdr->len = cpu_to_le32(FRAME_MAX - 4));
BAD(length_odd, RESULT, "length", hdr->len = cpu_to_le32(FRAME_MAX - 1));
BAD(length_all_ones, RESULT, "length", hdr->len = cpu_to_le32(UINT32_MAX));
BAD_OF(PLAY_ALLREDUCE, length_0, SUM, sizeof(struct ar_frame_hdr), "length",
	hdr->len = 0);
BAD_OF(PLAY_ALLREDUCE, length_more, SUM, FRAME_BYTES + 4, "length",
	hdr->len = cpu_to_le32(FRAME_MAX + 4));
BAD_OF(PLAY_ALLREDUCE, length_double, LAST_RESULT, FRAME_BYTES + FRAME_MAX, "length",
	hdr->len = cpu_to_le32(2 * FRAME_MAX));

/* What a collective has no use for: phases, and chunks of others than the root. */
#define NOT_OF(play, label, number, phase_, chunk_) \
	BAD_OF(play, label, number, 0, "chunk", \
	       hdr->phase = phase_; hdr->chunk = cpu_to_le32(chunk_))

NOT_OF(PLAY_GATHER_PATH, reduce_on_the_gather_path, 0, AR_PHASE_REDUCE, 1);
NOT_OF(PLAY_GATHER_PATH, own_vector_back, 2, AR_PHASE_GATHER, 0);
NOT_OF(PLAY_ALLGATHER, reduce_in_allgather, 0, AR_PHASE_REDUCE, 1);
NOT_OF(PLAY_ALLGATHER, own_block_back, 2, AR_PHASE_GATHER, 0);
NOT_OF(PLAY_BROADCAST_2, reduce_in_broadcast, 0, AR_PHASE_REDUCE, 2);
NOT_OF(PLAY_BROADCAST_2, broadcast_of_another, 0, AR_PHASE_GATHER, 1);
NOT_OF(PLAY_BROADCAST_0, broadcast_back, 0, AR_PHASE_GATHER, 0);
NOT_OF(PLAY_REDUCE_SCATTER, gather_in_reduce_scatter, 0, AR_PHASE_GATHER, 1);
NOT_OF(PLAY_REDUCE_0, gather_in_reduce, 0, AR_PHASE_GATHER, 0);
NOT_OF(PLAY_REDUCE_1, reduce_to_another, 0, AR_PHASE_REDUCE, 0);
NOT_OF(PLAY_REDUCE_2, reduce_from_who_begins, 0, AR_PHASE_REDUCE, 2);
NOT_OF(PLAY_BARRIER, reduce_in_barrier, 0, AR_PHASE_REDUCE, 1);
NOT_OF(PLAY_BARRIER, own_barrier_back, 1, AR_PHASE_GATHER, 0);
BAD_OF(PLAY_BARRIER, barrier_with_payload, 0, sizeof(struct ar_frame_hdr) + 4, "length",
	hdr->len = cpu_to_le32(4));
BAD_OF(PLAY_BARRIER, barrier_with_offset, 0, 0, "offset", hdr->offset = cpu_to_le64(64));
BAD_OF(PLAY_BARRIER, barrier_twice, 1, 0, "offset", hdr->chunk = cpu_to_le32(2));

/* Tokens where the collective has none, or not for this rank. */
#define NO_TOKEN(play, label, number, chunk_) \
	BAD_OF(play, label, number, sizeof(struct ar_frame_hdr), "chunk", \
	       hdr->phase = AR_PHASE_TOKEN; hdr->len = 0; hdr->offset = 0; \
	       hdr->chunk = cpu_to_le32(chunk_))

NO_TOKEN(PLAY_ALLREDUCE, token_in_allreduce, ENDS_SUM, 2);
NO_TOKEN(PLAY_GATHER_PATH, token_on_the_gather_path, 0, 0);
NO_TOKEN(PLAY_BARRIER, token_in_barrier, 0, 0);
NO_TOKEN(PLAY_REDUCE_SCATTER, token_for_who_ends_the_sum, 4, 0);
NO_TOKEN(PLAY_REDUCE_SCATTER, token_for_who_adds, 4, 1);
NO_TOKEN(PLAY_ALLGATHER, token_for_next, 4, 1);
NO_TOKEN(PLAY_ALLGATHER, token_of_prev, 4, 2);
NO_TOKEN(PLAY_BROADCAST_1, token_for_another_root, 1, 1);
NO_TOKEN(PLAY_BROADCAST_0, token_of_another_root, 0, 1);
NO_TOKEN(PLAY_REDUCE_0, token_for_the_root, 1, 0);
NO_TOKEN(PLAY_REDUCE_2, token_of_another_sum, 0, 1);

/* Tokens with something in them. */
BAD_OF(PLAY_REDUCE_SCATTER, token_with_payload, 4, sizeof(struct ar_frame_hdr) + 4,
	"length", hdr->len = cpu_to_le32(4));
BAD_OF(PLAY_ALLGATHER, token_with_length, 4, 0, "length",
	hdr->len = cpu_to_le32(FRAME_MAX));
BAD_OF(PLAY_BROADCAST_0, token_with_offset, 0, 0, "offset",
	hdr->offset = cpu_to_le64(FRAME_MAX));
BAD_OF(PLAY_REDUCE_2, token_with_small_offset, 0, 0, "offset",
	hdr->offset = cpu_to_le64(64));

/* Another call than this member's: both are named. */
#define DIFFERS(play, label, number, theirs, ours, ...) \
	LIE(label, play, number, 0, -EINVAL, \
	    "job 2: rank 2 calls " theirs ", rank 0 " ours, __VA_ARGS__)
#define DIFFERS_FROM_SUM(label, number, theirs, ...) \
	DIFFERS(PLAY_ALLREDUCE, label, number, theirs, "allreduce sum i32 count 6144", \
		__VA_ARGS__)

DIFFERS_FROM_SUM(count_less, ENDS_SUM, "allreduce sum i32 count 6143",
		 hdr->count = cpu_to_le64(6143));
DIFFERS_FROM_SUM(count_huge, RESULT, "allreduce sum i32 count 18446744073709551615",
		 hdr->count = cpu_to_le64(UINT64_MAX));
DIFFERS_FROM_SUM(count_of_the_gather_path, SUM, "allreduce sum i32 count 16",
		 hdr->count = cpu_to_le64(16));
DIFFERS_FROM_SUM(type, ENDS_SUM, "allreduce sum bf16 count 6144", hdr->type = ALLREDUCE_BF16);
DIFFERS_FROM_SUM(type_unknown, SUM, "allreduce sum - count 6144", hdr->type = 255);
DIFFERS_FROM_SUM(op, ENDS_SUM, "allreduce bxor i32 count 6144", hdr->op = ALLREDUCE_BXOR);
DIFFERS_FROM_SUM(op_unknown, SUM, "allreduce - i32 count 6144", hdr->op = 77);
DIFFERS_FROM_SUM(collective, ENDS_SUM, "reduce_scatter sum i32 count 6144",
		 hdr->collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER);
DIFFERS_FROM_SUM(collective_unknown, ENDS_SUM, "collective 99", hdr->collective = 99);
DIFFERS_FROM_SUM(reduce_instead, SUM, "reduce sum i32 count 6144 root 2",
		 hdr->collective = ALLREDUCE_COLLECTIVE_REDUCE; hdr->root = cpu_to_le32(2));
DIFFERS_FROM_SUM(barrier_instead, ENDS_SUM, "barrier sum i32 count 6144",
		 hdr->collective = ALLREDUCE_COLLECTIVE_BARRIER);
LIE(root_without_one, PLAY_ALLREDUCE, ENDS_SUM, 0, -EINVAL, "job 2: rank 2 calls ",
	hdr->root = cpu_to_le32(1));
DIFFERS(PLAY_GATHER_PATH, gather_path_count, 0, "allreduce sum i32 count 2049",
	"allreduce sum i32 count 2048", hdr->count = cpu_to_le64(2049));
DIFFERS(PLAY_REDUCE_SCATTER, reduce_scatter_op, 1, "reduce_scatter max i32 count 2048",
	"reduce_scatter sum i32 count 2048", hdr->op = ALLREDUCE_MAX);
DIFFERS(PLAY_REDUCE_SCATTER, reduce_scatter_token, 4, "reduce_scatter sum u32 count 2048",
	"reduce_scatter sum i32 count 2048", hdr->type = ALLREDUCE_U32);
DIFFERS(PLAY_ALLGATHER, allgather_type, 0, "allgather f32 count 2048", "allgather i32 count 2048",
	hdr->type = ALLREDUCE_F32);
DIFFERS(PLAY_ALLGATHER, allgather_as_broadcast, 0, "broadcast i32 count 2048 root 2",
	"allgather i32 count 2048", hdr->root = cpu_to_le32(2);
	hdr->collective = ALLREDUCE_COLLECTIVE_BROADCAST);
DIFFERS(PLAY_BROADCAST_1, broadcast_root, 0, "broadcast i32 count 2048 root 2",
	"broadcast i32 count 2048 root 1", hdr->root = cpu_to_le32(2));
DIFFERS(PLAY_BROADCAST_0, broadcast_token_root, 0, "broadcast i32 count 2048 root 1",
	"broadcast i32 count 2048 root 0", hdr->root = cpu_to_le32(1));
DIFFERS(PLAY_REDUCE_0, reduce_root, 0, "reduce sum i32 count 2048 root 63",
	"reduce sum i32 count 2048 root 0", hdr->root = cpu_to_le32(63));
DIFFERS(PLAY_REDUCE_1, reduce_op, 1, "reduce premulsum i32 count 2048 root 1",
	"reduce sum i32 count 2048 root 1", hdr->op = ALLREDUCE_PREMULSUM);
DIFFERS(PLAY_BARRIER, allreduce_for_barrier, 0, "allreduce sum f64 count 0", "barrier",
	hdr->collective = ALLREDUCE_COLLECTIVE_ALLREDUCE;
	hdr->type = ALLREDUCE_F64; hdr->op = ALLREDUCE_SUM);

/* It skips job 2 on this lane, so its job 2 is another one than this member's. */
LIE(job_of_the_future, PLAY_ALLREDUCE, ENDS_SUM, 0, -EINVAL,
	"rank 2 sent job 3 where job 2 is due", hdr->job = cpu_to_le64(3));
LIE(job_of_the_far_future, PLAY_ALLREDUCE, RESULT, 0, -EINVAL,
	"rank 2 sent job 18446744073709551615 where job 2 is due",
	hdr->job = cpu_to_le64(UINT64_MAX));

/* The truth, but not all of it: time runs out. */
#define LATE(play, label, number, len) \
	LIE(label, play, number, len, -ETIMEDOUT, "job 2", (void)0)

LATE(PLAY_ALLREDUCE, half_a_header, ENDS_SUM, 32);
LATE(PLAY_ALLREDUCE, header_only, SUM + 1, sizeof(struct ar_frame_hdr));
LATE(PLAY_ALLREDUCE, half_an_element, SUM, sizeof(struct ar_frame_hdr) + 1022);
LATE(PLAY_ALLREDUCE, half_a_result, RESULT + 1, 2000);
LATE(PLAY_GATHER_PATH, half_a_vector, 3, 2000);
LATE(PLAY_REDUCE_SCATTER, half_a_token, 4, 63);
LATE(PLAY_BARRIER, half_a_barrier, 1, 1);

FIXTURE_SETUP(lie)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
	ASSERT_EQ(0, exchange(&self->w, &plays[variant->play], 1));
}

FIXTURE_TEARDOWN(lie)
{
	wire_close(&self->w);
}

TEST_F(lie, breaks_the_ring)
{
	struct wire *w = &self->w;
	const struct play *play = &plays[variant->play];
	uint64_t begin, ms;
	struct frame frame;
	size_t len;

	ASSERT_EQ(0, honest_until(w, play, 2, variant->number));
	len = frame_init(&frame, play, 2, variant->number);
	variant->tell(&frame.hdr);
	begin = env_now_ms();
	ASSERT_TRUE(send_all(w->out, &frame, variant->len ? variant->len : len));
	EXPECT_EQ(variant->error, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	if (variant->error == -ETIMEDOUT) {
		EXPECT_LE(EARLIEST_MS(TIMEOUT_MS), ms);
		EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	} else {
		EXPECT_GE(SLACK_MS, ms);
	}
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_EQ(variant->error, wire_look(w).error);
	EXPECT_TRUE(wire_wait_reason(w, variant->reason));
}

/* ---- the same lies about every collective --------------------------------- */

#define FIELD_LIE(name, error_, reason_, ...) \
	static void tell_field_##name(struct ar_frame_hdr *hdr) \
	{ \
		__VA_ARGS__; \
	}
#define FOR_EACH_FIELD_LIE(X) \
	X(magic, -EBADMSG, "with magic", hdr->magic ^= cpu_to_le16(0x100)) \
	X(codec, -EBADMSG, "with codec", hdr->codec = 255) \
	X(flags, -EBADMSG, "with flags", hdr->flags = 1) \
	X(weight, -EBADMSG, "with weight", hdr->weight = cpu_to_le32(1U << 31)) \
	X(reserved, -EBADMSG, "with reserved", hdr->reserved[0] = cpu_to_le64(2)) \
	X(job, -EBADMSG, "with job", hdr->job = 0) \
	X(phase, -EBADMSG, "with phase", hdr->phase = 4) \
	X(chunk, -EBADMSG, "with chunk", hdr->chunk = cpu_to_le32(SIZE)) \
	X(offset, -EBADMSG, "with offset", hdr->offset = cpu_to_le64(4)) \
	X(length, -EBADMSG, "with length", \
	  hdr->len = cpu_to_le32(le32_to_cpu(hdr->len) + 4)) \
	X(count, -EINVAL, "calls", hdr->count = cpu_to_le64(le64_to_cpu(hdr->count) + 1)) \
	X(collective, -EINVAL, "calls", hdr->collective++) \
	X(type, -EINVAL, "calls", hdr->type++) \
	X(op, -EINVAL, "calls", hdr->op++) \
	X(root, -EINVAL, "calls", hdr->root = cpu_to_le32(le32_to_cpu(hdr->root) + 1))

FOR_EACH_FIELD_LIE(FIELD_LIE)

static const struct field_lie {
	const char *name;
	int error;
	const char *reason;
	void (*tell)(struct ar_frame_hdr *hdr);
} field_lies[] = {
#define FIELD_LIE_ROW(name, error, reason, ...) \
	{ #name, error, reason, tell_field_##name },
	FOR_EACH_FIELD_LIE(FIELD_LIE_ROW)
};

/* A new ring; the lie is in the first frame of its first job. */
static int try_field_lie(struct wire *w, const struct play *play,
			 const struct field_lie *lie)
{
	struct frame frame;
	size_t len;

	if (wire_begin(w) || wire_join(w) || honest_until(w, play, 1, 0))
		return 1;
	len = frame_init(&frame, play, 1, 0);
	lie->tell(&frame.hdr);
	if (!send_all(w->out, &frame, len))
		return 2;
	if (submit_reap(&w->uring, PATIENCE_MS, NULL) != lie->error)
		return 3;
	if (wire_look(w).error != lie->error || !wire_wait_reason(w, lie->reason))
		return 4;
	if (vector_spoilt(&w->dst) || vector_spoilt(&w->src) ||
	    vector_changed(&w->src, 0))
		return 5;
	wire_end(w);
	return 0;
}

FIXTURE(every_field)
{
	struct wire w;
};

FIXTURE_VARIANT(every_field)
{
	unsigned int play;
};

#define EVERY_FIELD(label, play_) \
	FIXTURE_VARIANT_ADD(every_field, label) { .play = play_ }

EVERY_FIELD(allreduce, PLAY_ALLREDUCE);
EVERY_FIELD(gather_path, PLAY_GATHER_PATH);
EVERY_FIELD(reduce_scatter, PLAY_REDUCE_SCATTER);
EVERY_FIELD(allgather, PLAY_ALLGATHER);
EVERY_FIELD(broadcast_token, PLAY_BROADCAST_0);
EVERY_FIELD(broadcast_that_ends, PLAY_BROADCAST_1);
EVERY_FIELD(broadcast, PLAY_BROADCAST_2);
EVERY_FIELD(reduce_that_ends, PLAY_REDUCE_0);
EVERY_FIELD(reduce, PLAY_REDUCE_1);
EVERY_FIELD(reduce_token, PLAY_REDUCE_2);
EVERY_FIELD(barrier, PLAY_BARRIER);

FIXTURE_SETUP(every_field)
{
	ASSERT_EQ(0, wire_open(&self->w));
}

FIXTURE_TEARDOWN(every_field)
{
	wire_close(&self->w);
}

TEST_F(every_field, is_checked)
{
	size_t i;

	for (i = 0; i < sizeof(field_lies) / sizeof(field_lies[0]); i++) {
		EXPECT_EQ(0, try_field_lie(&self->w, &plays[variant->play],
					   &field_lies[i])) {
			fprintf(stderr, "# %s\n", field_lies[i].name);
			wire_end(&self->w);
		}
	}
	EXPECT_EQ(self->w.pinned, pinned_pages());
}

/* ---- tokens --------------------------------------------------------------- */

FIXTURE(token)
{
	struct wire w;
	const struct play *play;
	unsigned int number;	/* of the token, the last frame */
};

FIXTURE_VARIANT(token)
{
	unsigned int play;
};

#define TOKEN(label, play_)	FIXTURE_VARIANT_ADD(token, label) { .play = play_ }

TOKEN(reduce_scatter, PLAY_REDUCE_SCATTER);
TOKEN(allgather, PLAY_ALLGATHER);
TOKEN(broadcast, PLAY_BROADCAST_0);
TOKEN(reduce, PLAY_REDUCE_2);

FIXTURE_SETUP(token)
{
	self->play = &plays[variant->play];
	self->number = play_frames_in(self->play) - 1;
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(token)
{
	wire_close(&self->w);
}

/* It is there before the job is, so before anything can have been consumed. */
TEST_F(token, too_early)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_honest(w, self->play, 1, self->number));
	usleep(300000);
	ASSERT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	ASSERT_EQ(0, wire_submit(w, self->play));
	EXPECT_EQ(-EBADMSG, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_TRUE(wire_wait_reason(w, "a token too early, job 1"));
}

/* Before all of the last frame is there, if there is more than the token. */
TEST_F(token, twice)
{
	struct wire *w = &self->w;
	const struct play *play = self->play;

	ASSERT_EQ(0, wire_submit(w, play));
	ASSERT_TRUE(recv_before(w, play, 1, self->number));
	ASSERT_TRUE(send_honest(w, play, 1, self->number));
	if (!self->number) {
		/* The job is over: the second one is of the past. */
		EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
		ASSERT_TRUE(send_honest(w, play, 1, self->number));
		EXPECT_TRUE(wire_wait_state(w, ALLREDUCE_RING_BROKEN, 3000));
		EXPECT_TRUE(wire_wait_reason(w, "a job that is over, number 1"));
		return;
	}
	ASSERT_TRUE(send_honest(w, play, 1, self->number));
	EXPECT_EQ(-EBADMSG, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_TRUE(wire_wait_reason(w, "with offset 0"));
}

/* It may come before frames that it says nothing about. */
TEST_F(token, before_other_frames)
{
	struct wire *w = &self->w;
	const struct play *play = self->play;
	unsigned int number;

	ASSERT_EQ(0, wire_submit(w, play));
	ASSERT_TRUE(recv_before(w, play, 1, self->number));
	ASSERT_TRUE(send_honest(w, play, 1, self->number));
	for (number = 0; number < self->number; number++) {
		ASSERT_TRUE(send_honest(w, play, 1, number));
	}
	ASSERT_TRUE(recv_turns(w, play, 1, ALL_TURNS));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, wrong_result(w, play));
}

/* All of the payload does not end the job, and without the token time runs out. */
TEST_F(token, never)
{
	struct wire *w = &self->w;
	uint64_t begin = env_now_ms(), ms;

	ASSERT_EQ(0, honest_until(w, self->play, 1, self->number));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(EARLIEST_MS(TIMEOUT_MS), ms);
	EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	EXPECT_EQ(0, check_aftermath(w));
}

/* ---- other ways to break it ----------------------------------------------- */

/* The result before the contribution: this can't be its sum. */
TEST_F(peer, sends_the_result_too_early)
{
	struct wire *w = &self->w;
	struct play small = plays[PLAY_ALLREDUCE];
	struct frame frame;
	unsigned int i;

	/* So short that all is there at once, and yet on the ring path. */
	wire_end(w);
	w->gather_max = 0;
	ASSERT_EQ(0, wire_begin(w));
	ASSERT_EQ(0, wire_join(w));
	small.count = 16 * SIZE;
	for (i = 0; i < ALL_FRAMES; i += FRAMES) {
		frame_init(&frame, &small, 1, i);
		frame.hdr.len = cpu_to_le32(64);
		ASSERT_TRUE(send_all(w->out, &frame, sizeof(frame.hdr) + 64));
	}
	usleep(300000);
	ASSERT_EQ(0, wire_submit(w, &small));
	EXPECT_EQ(-EBADMSG, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_TRUE(wire_wait_reason(w, "a result too early, job 1"));
}

/* Where both sides have to agree on the path, both ends of the limit fit. */
TEST_F(peer, agrees_on_the_gather_path)
{
	static const unsigned int limits[] = { 0, CHUNK_BYTES - 4, CHUNK_BYTES, 65536 };
	struct wire *w = &self->w;
	struct play gathered = plays[PLAY_GATHER_PATH], empty = gathered;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		wire_end(w);
		w->gather_max = limits[i];
		ASSERT_EQ(0, wire_begin(w));
		ASSERT_EQ(0, wire_join(w));
		/* An empty vector takes it whatever the limit. */
		empty.count = 0;
		ASSERT_EQ(0, exchange(w, &empty, 1));
		if (limits[i] >= CHUNK_BYTES) {
			EXPECT_EQ(0, exchange(w, &gathered, 2));
			continue;
		}
		ASSERT_EQ(0, wire_submit(w, &gathered));
		ASSERT_TRUE(send_honest(w, &gathered, 2, 0));
		EXPECT_EQ(-EBADMSG, submit_reap(&w->uring, PATIENCE_MS, NULL));
	}
}

TEST_F(peer, is_silent)
{
	struct wire *w = &self->w;
	uint64_t begin = env_now_ms(), ms;

	ASSERT_EQ(0, wire_submit(w, &plays[PLAY_ALLREDUCE]));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(EARLIEST_MS(TIMEOUT_MS), ms);
	EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	EXPECT_EQ(0, check_aftermath(w));
}

/* A job's own time-out is kept as well as the ring's. */
TEST_F(peer, is_silent_for_an_impatient_job)
{
	struct wire *w = &self->w;
	uint64_t begin = env_now_ms(), ms;

	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, w->src.data, w->dst.data,
			   COUNT_MAX, ALLREDUCE_I32, ALLREDUCE_SUM, 200, 0);
	ASSERT_EQ(1, io_uring_submit(&w->uring));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(EARLIEST_MS(200), ms);
	EXPECT_GE(200 + SLACK_MS, ms);
	EXPECT_EQ(0, check_aftermath(w));
}

/* It takes nothing: far more than the buffers hold stays here. */
TEST_F(peer, does_not_read)
{
	struct wire *w = &self->w;
	struct vector big;
	uint64_t begin = env_now_ms(), ms;

	vector_alloc(&big, 16 * 1024 * 1024 / 4);
	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, big.data, big.data, big.count,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	ASSERT_EQ(1, io_uring_submit(&w->uring));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(EARLIEST_MS(TIMEOUT_MS), ms);
	EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	EXPECT_EQ(0, vector_spoilt(&big));
	EXPECT_EQ(0, check_aftermath(w));
	vector_free(&big);
}

TEST_F(peer, talks_back)
{
	struct wire *w = &self->w;

	ASSERT_EQ(0, wire_submit(w, &plays[PLAY_ALLREDUCE]));
	ASSERT_TRUE(send_all(w->in, "x", 1));
	EXPECT_EQ(-EPROTO, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
}

TEST_F(peer, talks_back_while_idle)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_all(w->in, "x", 1));
	EXPECT_TRUE(wire_wait_state(w, ALLREDUCE_RING_BROKEN, 3000));
	EXPECT_EQ(-EPROTO, wire_look(w).error);
	EXPECT_EQ(0, check_aftermath(w));
}

TEST_F(peer, sends_urgent_data)
{
	struct wire *w = &self->w;
	int res;

	ASSERT_EQ(0, wire_submit(w, &plays[PLAY_ALLREDUCE]));
	ASSERT_TRUE(send_honest(w, &plays[PLAY_ALLREDUCE], 1, ENDS_SUM));
	ASSERT_EQ(1, send(w->out, "x", 1, MSG_OOB));
	send_honest(w, &plays[PLAY_ALLREDUCE], 1, ENDS_SUM + 1);
	res = submit_reap(&w->uring, PATIENCE_MS, NULL);
	/* However TCP puts it into the stream. */
	EXPECT_TRUE(res == -EBADMSG || res == -ETIMEDOUT || res == -EINVAL);
	EXPECT_EQ(0, check_aftermath(w));
}

/* A frame of a job that never comes must not disturb; the next job finds out. */
TEST_F(peer, is_far_ahead)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_honest(w, &plays[PLAY_ALLREDUCE], 1000000, ENDS_SUM));
	usleep((TIMEOUT_MS + 500) * 1000);
	ASSERT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	ASSERT_EQ(0, wire_submit(w, &plays[PLAY_ALLREDUCE]));
	EXPECT_EQ(-EINVAL, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
}

/* ---- connections that end ------------------------------------------------- */

FIXTURE(loss)
{
	struct wire w;
};

/*
 * After @number honest frames and @len bytes of the next, the connections in
 * @ends (1: in, 2: out) go.
 */
FIXTURE_VARIANT(loss)
{
	unsigned int play;
	unsigned int number;
	size_t len;
	unsigned int ends;
	enum { CLOSE, RESET, SHUT_THEN_RESET } how;
};

#define LOSS_OF(play_, label, number_, len_, ends_, how_) \
	FIXTURE_VARIANT_ADD(loss, label) { \
		.play = play_, .number = number_, .len = len_, .ends = ends_, \
		.how = how_, \
	}
#define LOSS(...)	LOSS_OF(PLAY_ALLREDUCE, __VA_ARGS__)

LOSS(closed_at_once, ENDS_SUM, 0, 3, CLOSE);
LOSS(closed_between_frames, SUM, 0, 3, CLOSE);
LOSS(closed_in_header, SUM, 17, 3, CLOSE);
LOSS(closed_in_payload, RESULT, 1001, 3, CLOSE);
LOSS(closed_in_last_payload, LAST_RESULT + 1, FRAME_BYTES - 1, 3, CLOSE);
LOSS(out_closed_in_header, SUM, 63, 2, CLOSE);
LOSS(out_closed_in_payload, ENDS_SUM, 65, 2, CLOSE);
LOSS(in_closed, ENDS_SUM, 0, 1, CLOSE);
LOSS(reset_at_once, ENDS_SUM, 0, 3, RESET);
LOSS(reset_in_payload, ENDS_SUM, 1001, 3, RESET);
LOSS(out_reset, SUM, 0, 2, RESET);
LOSS(in_reset, SUM, 0, 1, RESET);
LOSS(in_shut_then_reset, SUM, 0, 1, SHUT_THEN_RESET);
LOSS(out_shut_then_reset, SUM, 30, 2, SHUT_THEN_RESET);
LOSS(both_shut_then_reset, RESULT, 2000, 3, SHUT_THEN_RESET);
LOSS_OF(PLAY_GATHER_PATH, gather_path_closed, 1, 100, 3, CLOSE);
LOSS_OF(PLAY_REDUCE_SCATTER, closed_before_token, 4, 0, 3, CLOSE);
LOSS_OF(PLAY_ALLGATHER, closed_in_token, 4, 63, 3, CLOSE);
LOSS_OF(PLAY_BROADCAST_0, broadcast_reset_before_token, 0, 0, 3, RESET);
LOSS_OF(PLAY_REDUCE_1, reduce_out_closed, 1, 0, 2, CLOSE);
LOSS_OF(PLAY_BARRIER, barrier_closed, 1, 0, 3, CLOSE);

FIXTURE_SETUP(loss)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(loss)
{
	wire_close(&self->w);
}

static void lose(int *fd, int how)
{
	if (how == SHUT_THEN_RESET)
		shutdown(*fd, SHUT_WR);
	if (how == CLOSE)
		close(*fd);
	else
		reset(*fd);
	*fd = -1;
}

TEST_F(loss, breaks_the_ring)
{
	struct wire *w = &self->w;
	const struct play *play = &plays[variant->play];
	uint64_t begin;
	struct frame frame;

	ASSERT_EQ(0, honest_until(w, play, 1, variant->number));
	frame_init(&frame, play, 1, variant->number);
	ASSERT_TRUE(send_all(w->out, &frame, variant->len));
	begin = env_now_ms();
	if (variant->ends & 2)
		lose(&w->out, variant->how);
	if (variant->ends & 1)
		lose(&w->in, variant->how);
	EXPECT_EQ(-ECONNRESET, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_GE(SLACK_MS, env_now_ms() - begin);
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_EQ(-ECONNRESET, wire_look(w).error);
}

/* ---- greetings that are not right ----------------------------------------- */

FIXTURE(greeting)
{
	struct wire w;
};

FIXTURE_SETUP(greeting)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(greeting)
{
	wire_close(&self->w);
}

FIXTURE(hello)
{
	struct wire w;
};

FIXTURE_VARIANT(hello)
{
	const char *from;
	void (*tell)(struct ar_hello *hello);
	int answer;
};

#define HELLO_FROM(label, from_, answer_, ...) \
	static void tell_hello_##label(struct ar_hello *hello) \
	{ \
		(void)hello; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(hello, label) { \
		.from = from_, .tell = tell_hello_##label, .answer = answer_, \
	}
#define HELLO(label, answer_, ...) HELLO_FROM(label, PREV_ADDR, answer_, __VA_ARGS__)

HELLO(magic, DROPPED, hello->magic = cpu_to_le64(AR_WELCOME_MAGIC));
HELLO(zeros, DROPPED, memset(hello, 0, sizeof(*hello)));
HELLO(ring_id, DROPPED, hello->ring_id[15] ^= 1);
HELLO(to_rank, DROPPED, hello->to_rank = cpu_to_le32(1));
HELLO(to_rank_all_ones, DROPPED, hello->to_rank = cpu_to_le32(UINT32_MAX));
HELLO(version_of_the_past, AR_REFUSAL_VERSION, hello->version = cpu_to_le16(1));
HELLO(version, AR_REFUSAL_VERSION,
	hello->version = cpu_to_le16(AR_PROTOCOL_VERSION + 1));
HELLO(bytes, AR_REFUSAL_VERSION, hello->bytes = cpu_to_le16(112));
HELLO(reserved, AR_REFUSAL_VERSION, hello->reserved[3] = cpu_to_le64(1));
HELLO(byte_order, AR_REFUSAL_BYTE_ORDER, hello->byte_order = 0x04030201);
HELLO(rank, AR_REFUSAL_RANK, hello->rank = cpu_to_le32(0));
HELLO(rank_of_next, AR_REFUSAL_RANK, hello->rank = cpu_to_le32(1));
HELLO(rank_all_ones, AR_REFUSAL_RANK, hello->rank = cpu_to_le32(UINT32_MAX));
HELLO(size, AR_REFUSAL_SIZE, hello->size = cpu_to_le32(SIZE + 1));
HELLO(lanes, AR_REFUSAL_LANES, hello->lanes = cpu_to_le32(2));
HELLO(lane_is_lanes, AR_REFUSAL_LANES, hello->lane = cpu_to_le32(1));
HELLO(lane_all_ones, AR_REFUSAL_LANES, hello->lane = cpu_to_le32(UINT32_MAX));
HELLO(frame_max, AR_REFUSAL_FRAME_MAX, hello->frame_max = cpu_to_le32(8192));
HELLO(gather_max, AR_REFUSAL_GATHER_MAX, hello->gather_max = cpu_to_le32(4096));
HELLO(gather_max_0, AR_REFUSAL_GATHER_MAX, hello->gather_max = 0);
HELLO(members, AR_REFUSAL_MEMBERS, hello->members_digest ^= cpu_to_le64(1));
HELLO(epoch, AR_REFUSAL_EPOCH, hello->epoch = cpu_to_le32(1));
HELLO_FROM(address, "10.88.0.99", AR_REFUSAL_ADDRESS, (void)0);
HELLO_FROM(address_of_next, NEXT_ADDR, AR_REFUSAL_ADDRESS, (void)0);

FIXTURE_SETUP(hello)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, peer_add_addr(variant->from));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(hello)
{
	wire_close(&self->w);
}

TEST_F(hello, is_refused)
{
	struct wire *w = &self->w;
	struct ar_hello hello;

	ASSERT_EQ(0, wire_up(w));
	ASSERT_EQ(0, wire_accept_honestly(w));
	hello_init(&hello);
	variant->tell(&hello);
	EXPECT_EQ(variant->answer, wire_connect(w, variant->from, &hello));
	/* Who was told why is to close; a stranger is dropped. */
	if (variant->answer == DROPPED) {
		EXPECT_TRUE(is_closed(w->out, 3000));
	}
	wire_hang_up(&w->out);
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	/* It has not spoilt anything for the right one. */
	ASSERT_EQ(0, wire_connect_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

TEST_F(greeting, while_down)
{
	struct wire *w = &self->w;

	EXPECT_EQ(AR_REFUSAL_STATE, wire_connect_honestly(w));
	wire_hang_up(&w->out);
	ASSERT_EQ(0, wire_join(w));
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

/*
 * Once up, a second connection of the same lane is refused and changes nothing,
 * also if its owner does not close it as it should.
 */
TEST_F(greeting, while_up)
{
	struct wire *w = &self->w;
	int first;

	ASSERT_EQ(0, wire_join(w));
	first = w->out;
	EXPECT_EQ(AR_REFUSAL_STATE, wire_connect_honestly(w));
	EXPECT_TRUE(is_closed(w->out, PATIENCE_MS));
	wire_hang_up(&w->out);
	w->out = first;
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

/* While connecting, the newer connection counts. */
TEST_F(greeting, twice)
{
	struct wire *w = &self->w;
	int first;

	ASSERT_EQ(0, wire_up(w));
	ASSERT_EQ(0, wire_connect_honestly(w));
	first = w->out;
	ASSERT_EQ(0, wire_connect_honestly(w));
	EXPECT_TRUE(is_closed(first, 3000));
	close(first);
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

TEST_F(greeting, in_two_halves)
{
	struct wire *w = &self->w;
	struct ar_hello hello;
	struct ar_welcome welcome;

	ASSERT_EQ(0, wire_up(w));
	welcome_init(&welcome);
	ASSERT_EQ(0, wire_accept(w, &welcome, 13));
	hello_init(&hello);
	w->out = peer_connect(PREV_ADDR);
	ASSERT_LE(0, w->out);
	ASSERT_TRUE(send_all(w->out, &hello, 53));
	usleep(200000);
	ASSERT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	ASSERT_TRUE(send_all(w->out, (char *)&hello + 53, sizeof(hello) - 53));
	ASSERT_TRUE(send_all(w->in, (char *)&welcome + 13, sizeof(welcome) - 13));
	EXPECT_EQ(0, read_welcome(w->out));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

/* HELLO and the first frame in one piece: the frame is not lost. */
TEST_F(greeting, with_a_frame_behind)
{
	struct wire *w = &self->w;
	const struct play *play = &plays[PLAY_REDUCE_0];
	struct {
		struct ar_hello hello;
		struct ar_frame_hdr hdr;
	} both;
	struct frame frame;

	ASSERT_EQ(0, wire_up(w));
	frame_init(&frame, play, 1, 0);
	hello_init(&both.hello);
	both.hdr = frame.hdr;
	w->out = peer_connect(PREV_ADDR);
	ASSERT_LE(0, w->out);
	ASSERT_TRUE(send_all(w->out, &both, sizeof(both)));
	EXPECT_EQ(0, read_welcome(w->out));
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	ASSERT_EQ(0, wire_submit(w, play));
	ASSERT_TRUE(send_all(w->out, frame.data, FRAME_MAX));
	ASSERT_TRUE(send_honest(w, play, 1, 1));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, wrong_result(w, play));
}

#define GREETING_MS	5000

static bool is_closed_in_time(int fd, uint64_t begin)
{
	uint64_t ms;

	if (!is_closed(fd, PATIENCE_MS))
		return false;
	ms = env_now_ms() - begin;
	if (ms >= EARLIEST_MS(GREETING_MS) && ms <= GREETING_MS + 2000)
		return true;
	fprintf(stderr, "# closed after %llu ms\n", (unsigned long long)ms);
	return false;
}

/* Each has its own five seconds, whoever came before. */
TEST_F(greeting, never_finished)
{
	struct wire *w = &self->w;
	struct ar_hello hello;
	uint64_t begin[2];

	hello_init(&hello);
	begin[0] = env_now_ms();
	w->in = peer_connect(PREV_ADDR);
	ASSERT_LE(0, w->in);
	ASSERT_TRUE(send_all(w->in, &hello, sizeof(hello) - 1));
	usleep(2500000);
	begin[1] = env_now_ms();
	w->out = peer_connect(PREV_ADDR);
	ASSERT_LE(0, w->out);
	EXPECT_TRUE(is_closed_in_time(w->in, begin[0]));
	EXPECT_TRUE(is_closed_in_time(w->out, begin[1]));
}

#define SILENT	200

TEST_F(greeting, among_silent_strangers)
{
	struct wire *w = &self->w;
	uint64_t begin;
	int fd[SILENT], i, open = 0;

	for (i = 0; i < SILENT; i++) {
		fd[i] = peer_connect(PREV_ADDR);
		open += fd[i] >= 0;
	}
	EXPECT_LE(100, open);
	begin = env_now_ms();
	EXPECT_EQ(0, wire_join(w));
	EXPECT_GE(4000, env_now_ms() - begin);
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
	for (i = 0; i < SILENT; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

static uint32_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static uint64_t random_seed(void)
{
	const char *given = getenv("SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	fprintf(stderr, "# SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

TEST_F(greeting, garbage_for_a_running_ring)
{
	struct wire *w = &self->w;
	uint64_t state = random_seed();
	static uint8_t garbage[1024 * 1024];
	unsigned int i;
	int fd;

	ASSERT_EQ(0, wire_join(w));
	for (i = 0; i < sizeof(garbage); i++)
		garbage[i] = random_next(&state);
	ASSERT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
	fd = peer_connect(PREV_ADDR);
	ASSERT_LE(0, fd);
	send_all(fd, garbage, sizeof(garbage));
	EXPECT_TRUE(is_closed(fd, PATIENCE_MS));
	close(fd);
	EXPECT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 2));
}

/* ---- answers that are not right ------------------------------------------- */

FIXTURE(welcome)
{
	struct wire w;
};

FIXTURE_VARIANT(welcome)
{
	void (*tell)(struct ar_welcome *welcome);
	const char *text;
};

#define WELCOME(label, text_, ...) \
	static void tell_welcome_##label(struct ar_welcome *welcome) \
	{ \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(welcome, label) { \
		.tell = tell_welcome_##label, .text = text_, \
	}

WELCOME(magic, "rank 1 (10.88.0.2:18515)",
	welcome->magic = cpu_to_le64(AR_HELLO_MAGIC));
WELCOME(bytes, "rank 1 (10.88.0.2:18515)", welcome->bytes = cpu_to_le16(31));
WELCOME(refusal_lanes, "numbers of lanes differ",
	welcome->refusal = cpu_to_le32(AR_REFUSAL_LANES));
WELCOME(refusal_gather_max, "limits of the gather path differ",
	welcome->refusal = cpu_to_le32(AR_REFUSAL_GATHER_MAX));
WELCOME(refusal_unknown, "for an unknown reason",
	welcome->refusal = cpu_to_le32(UINT32_MAX));
WELCOME(refusal_state, "rank 1 (10.88.0.2:18515) is not connecting",
	welcome->refusal = cpu_to_le32(AR_REFUSAL_STATE));

FIXTURE_SETUP(welcome)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(welcome)
{
	wire_close(&self->w);
}

TEST_F(welcome, is_refused)
{
	struct wire *w = &self->w;
	struct ar_welcome welcome;

	ASSERT_EQ(0, wire_up(w));
	welcome_init(&welcome);
	variant->tell(&welcome);
	ASSERT_EQ(0, wire_accept(w, &welcome, sizeof(welcome)));
	EXPECT_TRUE(wire_wait_reason(w, variant->text));
	EXPECT_TRUE(is_closed(w->in, 3000));
	wire_hang_up(&w->in);
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	/* It tries again, and nothing is left of the first attempt. */
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_EQ(0, wire_connect_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, &plays[PLAY_ALLREDUCE], 1));
}

/* ---- chance --------------------------------------------------------------- */

#define MUTATIONS	200
#define MUTATIONS_MS	20000

FIXTURE(chance)
{
	struct wire w;
};

FIXTURE_SETUP(chance)
{
	ASSERT_EQ(0, wire_open(&self->w));
}

FIXTURE_TEARDOWN(chance)
{
	wire_close(&self->w);
}

/* The peer's frames of a job, one behind the other. */
struct stream {
	uint8_t bytes[ALL_FRAMES * FRAME_BYTES];
	size_t len;
	unsigned int frames;
	size_t start[ALL_FRAMES];
};

static void stream_init(struct stream *s, const struct play *play)
{
	struct frame frame;
	size_t len;

	s->len = 0;
	for (s->frames = 0; s->frames < play_frames_in(play); s->frames++) {
		len = frame_init(&frame, play, 1, s->frames);
		s->start[s->frames] = s->len;
		memcpy(s->bytes + s->len, &frame, len);
		s->len += len;
	}
}

/* Change something of it. */
static void mutate(struct stream *s, uint64_t *random)
{
	size_t frame = s->start[random_next(random) % s->frames];
	size_t at = frame + random_next(random) % sizeof(struct ar_frame_hdr);
	size_t n;

	switch (random_next(random) % 6) {
	case 0:		/* a bit of a header */
		s->bytes[at] ^= 1U << random_next(random) % 8;
		break;
	case 1:		/* a byte of a header */
		s->bytes[at] = random_next(random);
		break;
	case 2:		/* several of them */
		for (n = random_next(random) % 8; n; n--)
			s->bytes[frame + random_next(random) %
				 sizeof(struct ar_frame_hdr)] = random_next(random);
		break;
	case 3:		/* the end is missing */
		s->len = random_next(random) % s->len;
		break;
	case 4:		/* a piece is missing */
		n = random_next(random) % (s->len - at);
		memmove(s->bytes + at, s->bytes + at + n, s->len - at - n);
		s->len -= n;
		break;
	default:	/* anywhere, so mostly in payload */
		for (n = 0; n < 64; n++)
			s->bytes[random_next(random) % s->len] = random_next(random);
		break;
	}
}

/* One ring, one job, one stream that is not quite right. 0, or what is wrong. */
static int try_mutation(struct wire *w, const struct play *play, uint64_t *random)
{
	unsigned int at_once = play_frames_at_once(play);
	static struct stream s;
	uint64_t begin;
	size_t cut;
	int res;

	if (wire_begin(w) || wire_join(w))
		return 1;
	stream_init(&s, play);
	mutate(&s, random);
	if (wire_submit(w, play))
		return 2;
	/* The rest must not come before the kernel's part has been taken. */
	cut = s.len;
	if (at_once < s.frames && s.start[at_once] < s.len)
		cut = s.start[at_once];
	begin = env_now_ms();
	if (send_all(w->out, s.bytes, cut) && cut < s.len &&
	    recv_before(w, play, 1, at_once))
		send_all(w->out, s.bytes + cut, s.len - cut);
	shutdown(w->out, SHUT_WR);
	res = submit_reap(&w->uring, PATIENCE_MS, NULL);
	/* A time-out: it waited for the rest of a frame, we for it to inject. */
	if (res && res != -EBADMSG && res != -EINVAL && res != -EPROTO &&
	    res != -ECONNRESET && res != -ETIMEDOUT) {
		fprintf(stderr, "# result %d\n", res);
		return 3;
	}
	if (env_now_ms() - begin > TIMEOUT_MS + SLACK_MS)
		return 4;
	if (vector_spoilt(&w->dst))
		return 5;
	if (vector_spoilt(&w->src) || vector_changed(&w->src, 0))
		return 6;
	if (pinned_pages() != w->pinned)
		return 7;
	wire_end(w);
	return 0;
}

TEST_F_TIMEOUT(chance, finds_nothing, 60)
{
	uint64_t random = random_seed(), end = env_now_ms() + MUTATIONS_MS;
	unsigned int i;

	for (i = 0; i < MUTATIONS && env_now_ms() < end; i++) {
		unsigned int play = random_next(&random) % PLAYS;

		ASSERT_EQ(0, try_mutation(&self->w, &plays[play], &random))
			fprintf(stderr, "# mutation %u, play %u\n", i, play);
	}
	fprintf(stderr, "# %u mutations\n", i);
	EXPECT_LT(20, i);
	EXPECT_EQ(self->w.pinned, pinned_pages());
}

TEST_HARNESS_MAIN
