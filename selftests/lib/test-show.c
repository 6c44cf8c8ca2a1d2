// SPDX-License-Identifier: GPL-2.0
/*
 * What arctl ring show prints of a ring.
 */
#include <errno.h>

#include "libtest.h"

#include "arctl/arctl.h"

struct options options;

static char *text_of(const struct aru_ring *ring, bool stats)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ring_print_text(out, ring, stats);
	fclose(out);
	return text;
}

static void make(struct aru_ring *ring, struct aru_member *members,
		 struct aru_lane *lanes)
{
	int i;

	memset(ring, 0, sizeof(*ring));
	strcpy(ring->name, "demo");
	for (i = 0; i < ALLREDUCE_ID_SIZE; i++)
		ring->id[i] = i * 17;
	ring->rank = 1;
	ring->size = 2;
	ring->frame_max = 65536;
	ring->gather_max = 4096;
	ring->timeout_ms = 30000;
	ring->state = ALLREDUCE_RING_UP;
	ring->attached = true;
	ring->jobs_submitted = 12;
	strcpy(ring->isa, "avx2");
	aru_members_parse("10.0.0.1,10.0.0.2:7", members, 2, NULL, 0);
	ring->members = members;
	ring->n_members = 2;
	memset(lanes, 0, 2 * sizeof(*lanes));
	lanes[0].next_up = true;
	lanes[1].index = 1;
	lanes[1].prev_up = true;
	lanes[1].stats[ALLREDUCE_STAT_BYTES_REDUCED] = 98765;
	ring->lanes = lanes;
	ring->n_lanes = 2;
	ring->stats[ALLREDUCE_STAT_BYTES_SENT] = 18446744073709551615ULL;
}

static void shows_a_ring(void **state)
{
	struct aru_member members[2];
	struct aru_lane lanes[2];
	static const char expected[] =
		"ring demo up rank 1 size 2 lanes 2 frame-max 65536 gather 4096 timeout 30000\n"
		"    id 00112233445566778899aabbccddeeff\n"
		"    attached yes jobs submitted 12 in flight 0 isa avx2\n"
		"    member 0 10.0.0.1:18515\n"
		"    member 1 10.0.0.2:7 (this one)\n"
		"    lane 0 next up prev down\n"
		"    lane 1 next down prev up\n";
	struct aru_ring ring;
	char *text;

	(void)state;
	make(&ring, members, lanes);
	text = text_of(&ring, false);
	assert_string_equal(text, expected);
	free(text);
}

static void shows_what_broke_it(void **state)
{
	static const char why[] =
		"    error -104 (a neighbour's connection went away): rank 0 closed lane 1\n";
	struct aru_member members[2];
	struct aru_lane lanes[2];
	struct aru_ring ring;
	char *text;

	(void)state;
	make(&ring, members, lanes);
	ring.state = ALLREDUCE_RING_BROKEN;
	ring.error = -ECONNRESET;
	strcpy(ring.reason, "rank 0 closed lane 1");
	text = text_of(&ring, false);
	assert_non_null(strstr(text, "ring demo broken "));
	assert_non_null(strstr(text, why));
	free(text);
	ring.state = 99;
	text = text_of(&ring, false);
	assert_non_null(strstr(text, "ring demo unknown "));
	free(text);
}

static void shows_counters(void **state)
{
	struct aru_member members[2];
	struct aru_lane lanes[2];
	struct aru_ring ring;
	char *text;

	(void)state;
	make(&ring, members, lanes);
	text = text_of(&ring, true);
	assert_non_null(strstr(text, "\n    bytes_sent           18446744073709551615\n"));
	assert_non_null(strstr(text, "\n        bytes_reduced        98765\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_a_ring),
		cmocka_unit_test(shows_what_broke_it),
		cmocka_unit_test(shows_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
