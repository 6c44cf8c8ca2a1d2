// SPDX-License-Identifier: GPL-2.0
/*
 * arbench - time all-reduce on a ring, and check every element of the results
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

static int run_pair(struct run *run, struct report *report,
		    const struct options *options, unsigned int type, unsigned int op)
{
	uint64_t bytes;
	int ret;

	for (bytes = options->min_bytes; bytes; bytes = next_size(options, bytes)) {
		struct row row = {
			.count = bytes / aru_type_size(type),
			.type = type,
			.op = op,
		};

		row.bytes = row.count * aru_type_size(type);
		ret = run_row(run, &row);
		if (ret)
			return ret;
		report_row(report, &row);
	}
	return EXIT_OK;
}

static int run_all(struct run *run, struct report *report,
		   const struct options *options)
{
	unsigned int type, op;
	int ret;

	for (type = 1; type < 256; type++) {
		if (!aru_type_name(type) || (options->type && options->type != type))
			continue;
		for (op = 1; op < 256; op++) {
			if (!aru_op_name(op) || (options->op && options->op != op))
				continue;
			ret = run_pair(run, report, options, type, op);
			if (ret)
				return ret;
		}
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
