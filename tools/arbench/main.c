// SPDX-License-Identifier: GPL-2.0
/*
 * arbench - time collectives on a ring, and check every element of the results
 *
 * One process for each member, with the same options.
 */
#include "arbench.h"

/* The next size, or 0 after the last. */
static uint64_t next_size(const struct options *options, uint64_t bytes)
{
	if (options->step)
		return options->max_bytes - bytes < options->step ? 0 :
		       bytes + options->step;
	return bytes > options->max_bytes / options->factor ? 0 :
	       bytes * options->factor;
}

static int run_one(struct run *run, struct report *report, const struct row *what,
		   uint64_t count)
{
	struct row row = *what;
	int ret;

	row.count = count;
	row.bytes = count * aru_type_size(row.type) *
		    (traits_of(row.collective).has_blocks ? run_info(run)->size : 1);
	ret = run_row(run, &row);
	if (!ret)
		report_row(report, &row);
	return ret;
}

static int run_sizes(struct run *run, struct report *report,
		     const struct options *options, const struct row *what)
{
	bool has_blocks = traits_of(what->collective).has_blocks;
	uint64_t element = aru_type_size(what->type), bytes;
	int ret;

	if (has_blocks)
		element *= run_info(run)->size;
	for (bytes = options->min_bytes; bytes; bytes = next_size(options, bytes)) {
		ret = run_one(run, report, what, bytes / element);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

static int run_roots(struct run *run, struct report *report,
		     const struct options *options, struct row *what)
{
	unsigned int root;
	int ret;

	what->root = 0;
	if (!traits_of(what->collective).has_root)
		return run_sizes(run, report, options, what);
	for (root = 0; root < run_info(run)->size; root++) {
		if (!options->all_roots && options->root != root)
			continue;
		what->root = root;
		ret = run_sizes(run, report, options, what);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

static int run_ops(struct run *run, struct report *report,
		   const struct options *options, struct row *what)
{
	unsigned int op;
	int ret;

	what->op = 0;
	if (!traits_of(what->collective).has_op)
		return run_roots(run, report, options, what);
	for (op = 1; op < 256; op++) {
		if (!aru_op_valid(what->type, op) || (options->op && options->op != op))
			continue;
		what->op = op;
		ret = run_roots(run, report, options, what);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

static int run_types(struct run *run, struct report *report,
		     const struct options *options, struct row *what)
{
	unsigned int type;
	int ret;

	if (!traits_of(what->collective).has_vectors)
		return run_one(run, report, what, 0);
	for (type = 1; type < 256; type++) {
		if (!aru_type_name(type) || (options->type && options->type != type))
			continue;
		what->type = type;
		ret = run_ops(run, report, options, what);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

static int run_all(struct run *run, struct report *report,
		   const struct options *options)
{
	unsigned int collective;
	int ret;

	for (collective = 1; collective < 256; collective++) {
		struct row what = { .collective = collective };

		if (!aru_collective_name(collective) ||
		    (options->collective && options->collective != collective))
			continue;
		ret = run_types(run, report, options, &what);
		if (ret)
			return ret;
	}
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	struct options options;
	struct report *report;
	struct run *run;
	int ret;

	prog_name = "arbench";
	ret = options_parse(&options, argc, argv);
	if (ret >= 0)
		return ret;
	ret = run_open(&run, &options);
	if (ret)
		return ret;
	report = report_open(&options, run_info(run));
	if (report)
		ret = report_close(report, run_all(run, report, &options));
	else
		ret = usage_error("no memory");
	run_close(run);
	return ret;
}
