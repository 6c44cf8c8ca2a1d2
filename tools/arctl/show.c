// SPDX-License-Identifier: GPL-2.0
/*
 * arctl ring show
 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "arctl.h"

const char ring_show_help[] =
	"usage: arctl [-j] [-s] ring show [NAME]\n"
	"\n"
	"Shows one ring, or all of this network namespace. -j answers in JSON, -s adds\n"
	"the counters, summed up and of each lane.\n";

static const char *state_name(uint32_t state)
{
	const char *name = aru_state_name(state);

	return name ? name : "unknown";
}

static void id_text(const uint8_t id[ALLREDUCE_ID_SIZE], char *text)
{
	int i;

	for (i = 0; i < ALLREDUCE_ID_SIZE; i++)
		sprintf(text + 2 * i, "%02x", id[i]);
}

/* ---- text ---------------------------------------------------------------- */

static void print_stats(FILE *out, const char *indent, const uint64_t *stats)
{
	unsigned int i;

	for (i = 0; i < ARU_STAT_SLOTS; i++)
		if (aru_stat_name(i))
			fprintf(out, "%s%-20s %llu\n", indent, aru_stat_name(i),
				(unsigned long long)stats[i]);
}

static void print_members(FILE *out, const struct aru_ring *ring)
{
	char text[ARU_MEMBER_TEXT_SIZE];
	unsigned int i;

	for (i = 0; i < ring->n_members; i++) {
		if (aru_member_format(&ring->members[i], text, sizeof(text)))
			strcpy(text, "?");
		fprintf(out, "    member %u %s%s\n", i, text,
			i == ring->rank ? " (this one)" : "");
	}
}

static void print_lanes(FILE *out, const struct aru_ring *ring, bool stats)
{
	unsigned int i;

	for (i = 0; i < ring->n_lanes; i++) {
		const struct aru_lane *lane = &ring->lanes[i];

		fprintf(out, "    lane %u next %s prev %s\n", lane->index,
			lane->next_up ? "up" : "down", lane->prev_up ? "up" : "down");
		if (stats)
			print_stats(out, "        ", lane->stats);
	}
}

void ring_print_text(FILE *out, const struct aru_ring *ring, bool stats)
{
	char id[2 * ALLREDUCE_ID_SIZE + 1];

	id_text(ring->id, id);
	fprintf(out, "ring %s %s rank %u size %u lanes %u frame-max %u gather %u timeout %u\n",
		ring->name, state_name(ring->state), ring->rank, ring->size,
		ring->n_lanes, ring->frame_max, ring->gather_max, ring->timeout_ms);
	fprintf(out, "    id %s\n", id);
	if (ring->error || ring->reason[0])
		fprintf(out, "    error %d (%s)%s%s\n", ring->error,
			aru_strerror(ring->error), ring->reason[0] ? ": " : "",
			ring->reason);
	fprintf(out, "    attached %s jobs submitted %llu in flight %u isa %s\n",
		ring->attached ? "yes" : "no", (unsigned long long)ring->jobs_submitted,
		ring->jobs_in_flight, ring->isa[0] ? ring->isa : "?");
	print_members(out, ring);
	if (stats)
		print_stats(out, "    ", ring->stats);
	print_lanes(out, ring, stats);
}

static int show_text(const struct aru_ring *ring, void *arg)
{
	(void)arg;
	ring_print_text(stdout, ring, options.stats);
	return 0;
}

/* ---- JSON ---------------------------------------------------------------- */

static void add_u64(struct json_object *to, const char *key, uint64_t value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
}

static void add_bool(struct json_object *to, const char *key, bool value)
{
	json_object_object_add(to, key, json_object_new_boolean(value));
}

static struct json_object *stats_json(const uint64_t *stats)
{
	struct json_object *object = json_object_new_object();
	unsigned int i;

	for (i = 0; i < ARU_STAT_SLOTS; i++)
		if (aru_stat_name(i))
			add_u64(object, aru_stat_name(i), stats[i]);
	return object;
}

static struct json_object *members_json(const struct aru_ring *ring)
{
	struct json_object *array = json_object_new_array();
	char text[ARU_MEMBER_TEXT_SIZE];
	unsigned int i;

	for (i = 0; i < ring->n_members; i++) {
		if (aru_member_format(&ring->members[i], text, sizeof(text)))
			strcpy(text, "?");
		json_object_array_add(array, json_object_new_string(text));
	}
	return array;
}

static struct json_object *lanes_json(const struct aru_ring *ring)
{
	struct json_object *array = json_object_new_array(), *object;
	unsigned int i;

	for (i = 0; i < ring->n_lanes; i++) {
		object = json_object_new_object();
		add_u64(object, "index", ring->lanes[i].index);
		add_bool(object, "next_up", ring->lanes[i].next_up);
		add_bool(object, "prev_up", ring->lanes[i].prev_up);
		if (options.stats)
			json_object_object_add(object, "stats",
					       stats_json(ring->lanes[i].stats));
		json_object_array_add(array, object);
	}
	return array;
}

static int show_json(const struct aru_ring *ring, void *arg)
{
	struct json_object *array = arg, *object = json_object_new_object();
	char id[2 * ALLREDUCE_ID_SIZE + 1];

	id_text(ring->id, id);
	add_text(object, "name", ring->name);
	add_text(object, "state", state_name(ring->state));
	add_text(object, "id", id);
	add_u64(object, "rank", ring->rank);
	add_u64(object, "size", ring->size);
	add_u64(object, "frame_max", ring->frame_max);
	add_u64(object, "gather_max", ring->gather_max);
	add_u64(object, "timeout_ms", ring->timeout_ms);
	json_object_object_add(object, "error", json_object_new_int(ring->error));
	add_text(object, "reason", ring->reason);
	add_bool(object, "attached", ring->attached);
	add_u64(object, "jobs_submitted", ring->jobs_submitted);
	add_u64(object, "jobs_in_flight", ring->jobs_in_flight);
	add_text(object, "isa", ring->isa);
	json_object_object_add(object, "members", members_json(ring));
	if (options.stats)
		json_object_object_add(object, "stats", stats_json(ring->stats));
	json_object_object_add(object, "lanes", lanes_json(ring));
	json_object_array_add(array, object);
	return 0;
}

/* ---- the verb ------------------------------------------------------------ */

static int show(struct aru_nl *nl, const char *name, aru_ring_fn fn, void *arg)
{
	struct aru_ring *ring;
	int ret;

	if (!name)
		return aru_ring_list(nl, fn, arg);
	ret = aru_ring_get(nl, name, &ring);
	if (ret)
		return ret;
	ret = fn(ring, arg);
	aru_ring_free(ring);
	return ret;
}

int ring_show(int argc, char **argv)
{
	struct json_object *array = NULL;
	const char *name = argc ? argv[0] : NULL;
	struct aru_nl *nl;
	int ret;

	if (argc > 1)
		return usage_error("ring show takes at most one name, not \"%s\" as well",
				   argv[1]);
	ret = aru_nl_open(&nl);
	if (ret)
		return kernel_error("%s", aru_strerror(ret));
	if (options.json)
		array = json_object_new_array();
	ret = show(nl, name, array ? show_json : show_text, array);
	if (ret)
		ret = kernel_error("ring show%s%s%s: %s", name ? " \"" : "",
				   name ? name : "", name ? "\"" : "",
				   aru_nl_error_text(nl));
	else if (array)
		printf("%s\n", json_object_to_json_string_ext(array,
							      JSON_C_TO_STRING_PRETTY));
	json_object_put(array);
	aru_nl_close(nl);
	return ret;
}
