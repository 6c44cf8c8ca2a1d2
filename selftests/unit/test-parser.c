// SPDX-License-Identifier: GPL-2.0
/*
 * The frame parser, fed every split of a stream. Each piece of a stream is
 * copied to memory of its own, of exactly its size, so that AddressSanitizer
 * and valgrind see a read beyond it.
 */
#include <stdlib.h>
#include <string.h>

#include "parser.h"
#include "unit.h"

#define FRAMES_MAX	32
#define STREAM_MAX	16384

/* A stream and what it is made of. */
struct stream {
	u8 bytes[STREAM_MAX];
	size_t len;
	size_t frames;
	size_t start[FRAMES_MAX];	/* of the header */
	u32 payload[FRAMES_MAX];	/* bytes */
	u32 grain[FRAMES_MAX];
};

static void stream_add(struct stream *s, u32 payload, u32 grain)
{
	struct ar_frame_hdr hdr = {
		.magic = cpu_to_le16(AR_FRAME_MAGIC),
		.len = cpu_to_le32(payload),
		.job = cpu_to_le64(s->frames + 1),
		.root = cpu_to_le32(0xa5a5a5a5),
	};
	u32 i;

	assert_true(s->frames < FRAMES_MAX);
	assert_true(s->len + sizeof(hdr) + payload <= STREAM_MAX);
	assert_int_equal(payload % grain, 0);
	s->start[s->frames] = s->len;
	s->payload[s->frames] = payload;
	s->grain[s->frames] = grain;
	s->frames++;
	memcpy(s->bytes + s->len, &hdr, sizeof(hdr));
	s->len += sizeof(hdr);
	for (i = 0; i < payload; i++, s->len++)
		s->bytes[s->len] = s->len * 7 + s->len / 256;
}

/* Where an error or a wait is to be injected. */
enum point { POINT_NONE, POINT_HEADER, POINT_PAYLOAD, POINT_END };

/* The owner of a parser: checks each callback against the stream. */
struct owner {
	const struct stream *s;
	struct ar_parser parser;
	size_t frame;		/* frames whose header was accepted */
	bool open;
	u32 got;		/* payload bytes of the open frame */
	u64 carries;
	const u8 *piece;	/* what is being fed */
	size_t piece_len;
	u32 park;		/* answer -EAGAIN so often before a header */
	u32 parked;
	u64 asked;		/* header() calls */
	enum point fail_at;
	size_t fail_frame;
	int error;
	bool failed;
};

static bool fail_here(struct owner *o, enum point at, size_t frame)
{
	assert_false(o->failed);
	if (o->fail_at != at || o->fail_frame != frame)
		return false;
	o->failed = true;
	return true;
}

static int on_header(void *ctx, const struct ar_frame_hdr *hdr, u32 *grain)
{
	struct owner *o = ctx;

	o->asked++;
	assert_false(o->open);
	assert_true(o->frame < o->s->frames);
	assert_memory_equal(hdr, o->s->bytes + o->s->start[o->frame],
			    sizeof(*hdr));
	if (o->parked < o->park) {
		o->parked++;
		return -EAGAIN;
	}
	o->parked = 0;
	if (fail_here(o, POINT_HEADER, o->frame))
		return o->error;
	/* A grain of 1 may be left as it is. */
	if (o->s->grain[o->frame] != 1)
		*grain = o->s->grain[o->frame];
	o->open = true;
	o->got = 0;
	o->frame++;
	return 0;
}

static int on_payload(void *ctx, const u8 *data, u32 len, bool carried)
{
	struct owner *o = ctx;
	size_t frame = o->frame - 1;
	u32 grain = o->s->grain[frame];

	assert_true(o->open);
	assert_true(len > 0);
	assert_int_equal(len % grain, 0);
	assert_true(o->got + len <= o->s->payload[frame]);
	assert_memory_equal(data, o->s->bytes + o->s->start[frame] +
			    AR_FRAME_HDR_BYTES + o->got, len);
	if (carried) {
		assert_int_equal(len, grain);
		assert_true(data >= o->parser.carry);
		assert_true(data + len <= o->parser.carry +
			    sizeof(o->parser.carry));
		o->carries++;
	} else {
		assert_true(data >= o->piece);
		assert_true(data + len <= o->piece + o->piece_len);
	}
	if (fail_here(o, POINT_PAYLOAD, frame))
		return o->error;
	o->got += len;
	return 0;
}

static int on_end(void *ctx)
{
	struct owner *o = ctx;
	size_t frame = o->frame - 1;

	assert_true(o->open);
	assert_int_equal(o->got, o->s->payload[frame]);
	if (fail_here(o, POINT_END, frame))
		return o->error;
	o->open = false;
	return 0;
}

static const struct ar_parser_ops owner_ops = {
	.header = on_header,
	.payload = on_payload,
	.end = on_end,
};

/*
 * Feed bytes [@from, @to) of the stream as one piece, asking again for as long
 * as the parser is parked. Returns 0 or the error.
 */
static int feed_piece(struct owner *o, size_t from, size_t to)
{
	size_t len = to - from, used = 0;
	u8 *piece = malloc(len ? len : 1);
	ssize_t ret;

	assert_non_null(piece);
	memcpy(piece, o->s->bytes + from, len);
	o->piece = piece;
	o->piece_len = len;
	do {
		ret = ar_parser_feed(&o->parser, piece + used, len - used,
				     &owner_ops, o);
		if (ret < 0)
			break;
		assert_true((size_t)ret <= len - used);
		used += ret;
		if (used < len)
			assert_int_equal(o->parser.state, AR_PARSER_PARKED);
	} while (used < len);
	free(piece);
	o->piece = NULL;
	o->piece_len = 0;
	return ret < 0 ? ret : 0;
}

/* A header may be parked at the stream's very end: ask without bytes. */
static void feed_nothing(struct owner *o)
{
	while (o->parser.state == AR_PARSER_PARKED)
		assert_int_equal(ar_parser_feed(&o->parser, NULL, 0, &owner_ops,
						o), 0);
}

/* Elements that one of the cuts goes through. */
static u64 straddled(const struct stream *s, const size_t *cuts, size_t n)
{
	u64 sum = 0;
	size_t f, c, last = SIZE_MAX;

	for (c = 0; c < n; c++) {
		for (f = 0; f < s->frames; f++) {
			size_t first = s->start[f] + AR_FRAME_HDR_BYTES;
			size_t element;

			if (cuts[c] <= first || cuts[c] >= first + s->payload[f])
				continue;
			if ((cuts[c] - first) % s->grain[f] == 0)
				continue;
			element = cuts[c] - (cuts[c] - first) % s->grain[f];
			if (element != last)
				sum++;
			last = element;
		}
	}
	return sum;
}

/* @cuts in rising order; equal ones make empty pieces. */
static void feed_cut(const struct stream *s, const size_t *cuts, size_t n,
		     u32 park)
{
	struct owner o = { .s = s, .park = park };
	size_t from = 0, i;

	for (i = 0; i < n; i++) {
		assert_int_equal(feed_piece(&o, from, cuts[i]), 0);
		from = cuts[i];
	}
	assert_int_equal(feed_piece(&o, from, s->len), 0);
	feed_nothing(&o);
	assert_int_equal(o.frame, s->frames);
	assert_false(o.open);
	assert_int_equal(o.parser.state, AR_PARSER_HEADER);
	assert_int_equal(o.parser.have, 0);
	assert_int_equal(o.carries, straddled(s, cuts, n));
}

/* Empty frames first, in the middle, twice, last; one element; several. */
static void short_stream(struct stream *s, u32 grain)
{
	memset(s, 0, sizeof(*s));
	stream_add(s, 0, grain);
	stream_add(s, grain, grain);
	stream_add(s, 3 * grain, grain);
	stream_add(s, 0, grain);
	stream_add(s, 0, grain);
	stream_add(s, 2 * grain, grain);
	stream_add(s, 0, grain);
}

static const u32 grains[] = { 1, 2, 4, 8 };

static void test_whole(void **state)
{
	struct stream s;
	size_t g;

	(void)state;
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		short_stream(&s, grains[g]);
		feed_cut(&s, NULL, 0, 0);
	}
}

static void test_every_cut(void **state)
{
	struct stream s;
	size_t g, cut;
	u32 park;

	(void)state;
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		short_stream(&s, grains[g]);
		for (park = 0; park < 3; park++) {
			for (cut = 0; cut <= s.len; cut++)
				feed_cut(&s, &cut, 1, park);
		}
	}
}

static void test_every_pair_of_cuts(void **state)
{
	struct stream s;
	size_t cuts[2], g;

	(void)state;
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		memset(&s, 0, sizeof(s));
		stream_add(&s, 2 * grains[g], grains[g]);
		stream_add(&s, 0, grains[g]);
		stream_add(&s, 3 * grains[g], grains[g]);
		for (cuts[0] = 0; cuts[0] <= s.len; cuts[0]++) {
			for (cuts[1] = cuts[0]; cuts[1] <= s.len; cuts[1]++)
				feed_cut(&s, cuts, 2, cuts[1] & 1);
		}
	}
}

static void test_byte_by_byte(void **state)
{
	size_t *cuts = malloc(STREAM_MAX * sizeof(*cuts)), g, i;
	struct stream s;

	(void)state;
	assert_non_null(cuts);
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		short_stream(&s, grains[g]);
		for (i = 0; i < s.len; i++)
			cuts[i] = i;
		feed_cut(&s, cuts, s.len, 0);
		feed_cut(&s, cuts, s.len, 2);
	}
	free(cuts);
}

static int compare_size(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Long streams whose frames have different grains, cut at random. */
static void test_random_cuts(void **state)
{
	struct stream *s = malloc(sizeof(*s));
	uint64_t rnd = 1;
	size_t cuts[64];
	int round;

	(void)state;
	assert_non_null(s);
	for (round = 0; round < 2000; round++) {
		size_t n = random_below(&rnd, ARRAY_SIZE(cuts)), i;

		memset(s, 0, sizeof(*s));
		for (i = random_below(&rnd, FRAMES_MAX); i; i--) {
			u32 grain = grains[random_below(&rnd, ARRAY_SIZE(grains))];

			stream_add(s, grain * random_below(&rnd, 50), grain);
		}
		for (i = 0; i < n; i++)
			cuts[i] = random_below(&rnd, s->len + 1);
		qsort(cuts, n, sizeof(cuts[0]), compare_size);
		feed_cut(s, cuts, n, random_below(&rnd, 3));
	}
	free(s);
}

/* A parked header stops the stream right behind itself, for as long as it is. */
static void test_parked_consumes_nothing(void **state)
{
	struct owner o = { .park = UINT32_MAX };
	struct stream s = { 0 };
	int i;

	(void)state;
	stream_add(&s, 8, 4);
	stream_add(&s, 0, 1);
	o.s = &s;
	o.piece = s.bytes;
	o.piece_len = s.len;
	assert_int_equal(ar_parser_feed(&o.parser, s.bytes, s.len, &owner_ops, &o),
			 AR_FRAME_HDR_BYTES);
	for (i = 0; i < 3; i++) {
		assert_int_equal(o.parser.state, AR_PARSER_PARKED);
		assert_memory_equal(&o.parser.hdr, s.bytes, AR_FRAME_HDR_BYTES);
		assert_int_equal(o.asked, 1 + 2 * i);
		assert_int_equal(ar_parser_feed(&o.parser, NULL, 0, &owner_ops,
						&o), 0);
		assert_int_equal(ar_parser_feed(&o.parser,
						s.bytes + AR_FRAME_HDR_BYTES,
						s.len - AR_FRAME_HDR_BYTES,
						&owner_ops, &o), 0);
		assert_int_equal(o.asked, 3 + 2 * i);
	}
	/* Accepted without bytes: payload is waited for, the frame is open. */
	o.park = 0;
	assert_int_equal(ar_parser_feed(&o.parser, NULL, 0, &owner_ops, &o), 0);
	assert_int_equal(o.parser.state, AR_PARSER_PAYLOAD);
	assert_true(o.open);
	assert_int_equal(ar_parser_feed(&o.parser, s.bytes + AR_FRAME_HDR_BYTES,
					s.len - AR_FRAME_HDR_BYTES, &owner_ops,
					&o), s.len - AR_FRAME_HDR_BYTES);
	assert_int_equal(o.frame, 2);
	assert_false(o.open);
}

/* An empty frame parked at the end of the stream ends without more bytes. */
static void test_parked_empty_frame(void **state)
{
	struct owner o = { .park = 1 };
	struct stream s = { 0 };

	(void)state;
	stream_add(&s, 0, 8);
	o.s = &s;
	o.piece = s.bytes;
	o.piece_len = s.len;
	assert_int_equal(ar_parser_feed(&o.parser, s.bytes, s.len, &owner_ops, &o),
			 s.len);
	assert_int_equal(o.parser.state, AR_PARSER_PARKED);
	assert_int_equal(ar_parser_feed(&o.parser, NULL, 0, &owner_ops, &o), 0);
	assert_int_equal(o.parser.state, AR_PARSER_HEADER);
	assert_int_equal(o.frame, 1);
	assert_false(o.open);
}

/* Nothing in, nothing asked: in every state but PARKED. */
static void test_nothing(void **state)
{
	struct owner o = { 0 };
	struct stream s = { 0 };
	size_t i;

	(void)state;
	stream_add(&s, 16, 8);
	o.s = &s;
	for (i = 0; i < s.len; i++) {
		assert_int_equal(ar_parser_feed(&o.parser, NULL, 0, &owner_ops,
						&o), 0);
		assert_int_equal(o.asked, i >= AR_FRAME_HDR_BYTES);
		assert_int_equal(feed_piece(&o, i, i + 1), 0);
	}
	assert_int_equal(ar_parser_feed(&o.parser, NULL, 0, &owner_ops, &o), 0);
	assert_int_equal(o.asked, 1);
	assert_int_equal(o.frame, 1);
}

/* feed() returns each callback's error, whatever the cut, and stops there. */
static void check_error(const struct stream *s, enum point at, size_t frame,
			int error, size_t cut, u32 park)
{
	struct owner o = { .s = s, .fail_at = at, .fail_frame = frame,
			   .error = error, .park = park };
	int ret = feed_piece(&o, 0, cut);

	if (!ret) {
		assert_false(o.failed);
		ret = feed_piece(&o, cut, s->len);
	}
	while (!ret && o.parser.state == AR_PARSER_PARKED)
		ret = ar_parser_feed(&o.parser, NULL, 0, &owner_ops, &o);
	assert_int_equal(ret, error);
	assert_true(o.failed);
	/* Frames before the faulty one were handed over, none after it. */
	assert_int_equal(o.frame, at == POINT_HEADER ? frame : frame + 1);
}

static void test_errors(void **state)
{
	struct stream s;
	size_t g, frame, cut;
	u32 park;

	(void)state;
	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		short_stream(&s, grains[g]);
		for (frame = 0; frame < s.frames; frame++) {
			for (cut = 0; cut <= s.len; cut++) {
				park = cut % 2;
				check_error(&s, POINT_HEADER, frame, -EINVAL, cut,
					    park);
				check_error(&s, POINT_END, frame, -EPROTO, cut,
					    park);
				/* Only header()'s -EAGAIN means "later". */
				check_error(&s, POINT_END, frame, -EAGAIN, cut,
					    park);
				if (!s.payload[frame])
					continue;
				check_error(&s, POINT_PAYLOAD, frame, -EBADMSG,
					    cut, park);
				check_error(&s, POINT_PAYLOAD, frame, -EAGAIN,
					    cut, park);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_every_pair_of_cuts),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_random_cuts),
		cmocka_unit_test(test_parked_consumes_nothing),
		cmocka_unit_test(test_parked_empty_frame),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests_name("parser", tests, NULL, NULL);
}
