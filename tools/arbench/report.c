// SPDX-License-Identifier: GPL-2.0
/*
 * The table, the JSON, the digests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arbench.h"

/**
 * struct report - what has been told so far
 * @options: the command line
 * @info: the ring
 * @print: this rank prints the table
 * @rows: the lines as JSON
 * @n_columns: columns with a bandwidth so far
 * @busbw: sum over them
 * @wrong: sum over the columns
 * @differ: some results differ between members
 */
struct report {
	const struct options *options;
	const struct allreduce_info *info;
	bool print;
	struct json_object *rows;
	unsigned int n_columns;
	double busbw;
	uint64_t wrong;
	bool differ;
};

static void print_head(const struct report *report)
{
	const struct options *options = report->options;

	printf("# arbench %s: ring %s, rank %u of %u, %u lanes\n", aru_version(),
	       options->ring, report->info->rank, report->info->size,
	       report->info->lanes);
	printf("# iterations %llu, warm-up %llu, checked %llu, in flight %llu, buffers %s, seed %llu\n",
	       (unsigned long long)options->iterations,
	       (unsigned long long)options->warmup, (unsigned long long)options->checks,
	       (unsigned long long)options->in_flight,
	       options->registered ? "registered" : "pinned for each job",
	       (unsigned long long)options->seed);
	if (options->misaligned)
		printf("# buffers start %llu elements behind a page's start\n",
		       (unsigned long long)options->misaligned);
	printf("#\n#%70s%-38s  %s\n", "", "out-of-place", "in-place");
	printf("#%12s %13s %14s %5s %9s %4s", "size", "count", "collective", "type", "op",
	       "root");
	printf(" %12s %8s %8s %7s", "time", "algbw", "busbw", "#wrong");
	printf("  %12s %8s %8s %7s\n", "time", "algbw", "busbw", "#wrong");
	printf("#%12s %13s %14s %5s %9s %4s", "(B)", "(elements)", "", "", "", "");
	printf(" %12s %8s %8s %7s", "(us)", "(GB/s)", "(GB/s)", "");
	printf("  %12s %8s %8s %7s\n", "(us)", "(GB/s)", "(GB/s)", "");
}

struct report *report_open(const struct options *options,
			   const struct allreduce_info *info)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	report->options = options;
	report->info = info;
	report->print = options->verbose || !info->rank;
	report->rows = json_object_new_array();
	if (report->print)
		print_head(report);
	return report;
}

/* ---- a line -------------------------------------------------------------- */

static void print_column(const struct column *column)
{
	printf(" %12.2f %8.3f %8.3f", column->time_us, column->algbw, column->busbw);
	if (!column->checked)
		printf(" %7s", "n/a");
	else
		printf(" %6llu%s", (unsigned long long)column->wrong,
		       column->differ ? "!" : " ");
}

/* "-" for what a collective does not have. */
static const char *or_none(const char *name)
{
	return name ? name : "-";
}

static void print_row(const struct row *row)
{
	struct traits traits = traits_of(row->collective);

	printf(" %12llu %13llu %14s %5s %9s", (unsigned long long)row->bytes,
	       (unsigned long long)row->count, aru_collective_name(row->collective),
	       or_none(aru_type_name(row->type)), or_none(aru_op_name(row->op)));
	if (traits.has_root)
		printf(" %4u", row->root);
	else
		printf(" %4s", or_none(NULL));
	print_column(&row->out_of_place);
	if (traits.has_vectors) {
		printf(" ");
		print_column(&row->in_place);
	}
	printf("\n");
	fflush(stdout);
}

static void add_u64(struct json_object *to, const char *key, uint64_t value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

static void add_double(struct json_object *to, const char *key, double value)
{
	json_object_object_add(to, key, json_object_new_double(value));
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
}

/* What all timed jobs together, and two barriers, added to the counters. */
static struct json_object *stats_json(const struct column *column)
{
	struct json_object *object = json_object_new_object();
	unsigned int i;

	for (i = 0; i < ARU_STAT_SLOTS; i++)
		if (aru_stat_name(i))
			add_u64(object, aru_stat_name(i), column->stats[i]);
	return object;
}

static struct json_object *column_json(const struct column *column)
{
	struct json_object *object = json_object_new_object();
	char digest[17];

	add_double(object, "time_us", column->time_us);
	add_double(object, "algbw_gbps", column->algbw);
	add_double(object, "busbw_gbps", column->busbw);
	if (column->checked) {
		add_u64(object, "wrong", column->wrong);
		add_u64(object, "wrong_here", column->wrong_here);
		snprintf(digest, sizeof(digest), "%016llx",
			 (unsigned long long)column->digest);
		add_text(object, "digest", digest);
		json_object_object_add(object, "members_differ",
				       json_object_new_boolean(column->differ));
	}
	if (column->has_stats)
		json_object_object_add(object, "stats", stats_json(column));
	return object;
}

/* What carries no bytes has no bandwidth that could count. */
static void count_column(struct report *report, const struct row *row,
			 const struct column *column)
{
	if (row->bytes) {
		report->n_columns++;
		report->busbw += column->busbw;
	}
	report->wrong += column->wrong;
	report->differ |= column->differ;
}

/* What a collective does not have is null. */
static struct json_object *row_json(const struct row *row)
{
	struct json_object *object = json_object_new_object();
	struct traits traits = traits_of(row->collective);

	add_u64(object, "size", row->bytes);
	add_u64(object, "count", row->count);
	add_text(object, "collective", aru_collective_name(row->collective));
	json_object_object_add(object, "type", !traits.has_vectors ? NULL :
			       json_object_new_string(aru_type_name(row->type)));
	json_object_object_add(object, "op", !traits.has_op ? NULL :
			       json_object_new_string(aru_op_name(row->op)));
	json_object_object_add(object, "root", !traits.has_root ? NULL :
			       json_object_new_uint64(row->root));
	json_object_object_add(object, "out_of_place", column_json(&row->out_of_place));
	json_object_object_add(object, "in_place", !traits.has_vectors ? NULL :
			       column_json(&row->in_place));
	return object;
}

void report_row(struct report *report, const struct row *row)
{
	count_column(report, row, &row->out_of_place);
	if (traits_of(row->collective).has_vectors)
		count_column(report, row, &row->in_place);
	if (report->print)
		print_row(row);
	json_object_array_add(report->rows, row_json(row));
}

/* ---- the end ------------------------------------------------------------- */

static void print_foot(const struct report *report)
{
	printf("#\n# average busbw %.3f GB/s\n",
	       report->n_columns ? report->busbw / report->n_columns : 0);
	if (report->options->checks)
		printf("# wrong elements on all members %llu%s\n",
		       (unsigned long long)report->wrong,
		       report->differ ? "; RESULTS DIFFER BETWEEN MEMBERS" : "");
	fflush(stdout);
}

static struct json_object *whole_json(struct report *report, int ret)
{
	struct json_object *object = json_object_new_object();
	const struct options *options = report->options;

	add_text(object, "arbench", aru_version());
	add_text(object, "ring", options->ring);
	add_u64(object, "rank", report->info->rank);
	add_u64(object, "members", report->info->size);
	add_u64(object, "lanes", report->info->lanes);
	add_u64(object, "iterations", options->iterations);
	add_u64(object, "warmup", options->warmup);
	add_u64(object, "checks", options->checks);
	add_u64(object, "in_flight", options->in_flight);
	json_object_object_add(object, "registered",
			       json_object_new_boolean(options->registered));
	add_u64(object, "misaligned", options->misaligned);
	add_u64(object, "seed", options->seed);
	json_object_object_add(object, "rows", json_object_get(report->rows));
	add_u64(object, "wrong", report->wrong);
	json_object_object_add(object, "members_differ",
			       json_object_new_boolean(report->differ));
	add_u64(object, "exit_status", ret);
	return object;
}

static int write_json(struct report *report, int ret)
{
	struct json_object *object = whole_json(report, ret);
	int failed = json_object_to_file_ext(report->options->json_file, object,
					     JSON_C_TO_STRING_PRETTY);

	json_object_put(object);
	if (failed)
		return usage_error("-J %s: %s", report->options->json_file,
				   strerror(errno));
	return ret;
}

/* One line for each row, the same text on every member and in every run. */
static void write_digest(FILE *file, struct json_object *row)
{
	static const char *const fields[] = { "collective", "size", "count", "type", "op",
					      "root" };
	static const char *const columns[] = { "out_of_place", "in_place" };
	struct json_object *value, *column;
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		json_object_object_get_ex(row, fields[i], &value);
		fprintf(file, "%s ", value ? json_object_get_string(value) : "-");
	}
	for (i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		value = NULL;
		if (json_object_object_get_ex(row, columns[i], &column) && column)
			json_object_object_get_ex(column, "digest", &value);
		fprintf(file, "%s%s", value ? json_object_get_string(value) : "-",
			i ? "\n" : " ");
	}
}

static int write_digests(struct report *report, int ret)
{
	FILE *file = fopen(report->options->digest_file, "w");
	size_t i;
	int bad;

	if (file) {
		for (i = 0; i < json_object_array_length(report->rows); i++)
			write_digest(file, json_object_array_get_idx(report->rows, i));
		bad = ferror(file);
		if (!fclose(file) && !bad)
			return ret;
	}
	return usage_error("-x %s: %s", report->options->digest_file, strerror(errno));
}

int report_close(struct report *report, int ret)
{
	if (report->print)
		print_foot(report);
	if (!ret && (report->wrong || report->differ))
		ret = EXIT_WRONG;
	if (report->options->digest_file)
		ret = write_digests(report, ret);
	if (report->options->json_file)
		ret = write_json(report, ret);
	json_object_put(report->rows);
	free(report);
	return ret;
}
