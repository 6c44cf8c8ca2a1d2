// SPDX-License-Identifier: GPL-2.0
#include <string.h>
#include <unistd.h>

#include "arbench.h"

static const char usage[] =
	"usage: arbench -r RING [options]\n"
	"One process for each member of the ring, all with the same options.\n"
	"  -r RING    the ring\n"
	"  -N NETNS   act in this network namespace (ip-netns(8))\n"
	"  -b BYTES   smallest vector (default 4); K, M, G may follow a number of bytes\n"
	"  -e BYTES   largest vector (default 64M)\n"
	"  -f FACTOR  multiply the size from line to line (default 4)\n"
	"  -i BYTES   or add to it\n"
	"  -n N       timed jobs a column (default 20)\n"
	"  -w N       jobs before them (default 5)\n"
	"  -c N       checked jobs a column, 0 for none (default 1)\n"
	"  -C COLL    collective: allreduce (default), reduce_scatter, allgather,\n"
	"             broadcast, reduce, barrier or all\n"
	"  -d TYPE    f32 (default), f64, f16, bf16, i8, u8, i32, u32, i64, u64 or all\n"
	"  -o OP      sum (default), prod, min, max, avg; band, bor, bxor for integers;\n"
	"             premulsum for floats; or all that there are for the type\n"
	"  -R ROOT    rank of the root of broadcast and reduce (default 0), or all\n"
	"  -u N       start the buffers N elements behind a page's start (default 0)\n"
	"  -q N       jobs in flight, each with buffers of its own (default 1)\n"
	"  -z 0|1     register the buffers (default 0)\n"
	"  -s SEED    of the data (default 1)\n"
	"  -t MS      a job without progress for so long fails (default: the ring's)\n"
	"  -J FILE    write the results as JSON as well\n"
	"  -x FILE    write a digest of each checked result, to compare members and runs\n"
	"  -v         print the table on every rank, not only on rank 0\n"
	"  -h, -V     print this, the version\n"
	"Exit status: 0 all right, 1 wrong usage, 2 a job failed, 3 wrong results.\n";

#define JOBS_MAX	1000000000ULL
#define BYTES_MAX	(1ULL << 40)
#define TYPE_DEFAULT	ALLREDUCE_F32

static bool parse_named(const char *field, const char *text, unsigned int *out,
			int (*from_name)(const char *))
{
	int value;

	if (!strcmp(text, "all")) {
		*out = 0;
		return true;
	}
	value = from_name(text);
	if (value < 0) {
		usage_error("%s \"%s\" is not known", field, text);
		return false;
	}
	*out = value;
	return true;
}

static bool parse_root(struct options *options, const char *text)
{
	options->all_roots = !strcmp(text, "all");
	return options->all_roots ||
	       parse_number("-R", text, 0, ALLREDUCE_SIZE_MAX - 1, &options->root);
}

static bool parse_flag(const char *field, const char *text, bool *out)
{
	uint64_t value;

	if (!parse_number(field, text, 0, 1, &value))
		return false;
	*out = value;
	return true;
}

static bool parse_option(struct options *options, int c, const char *text)
{
	switch (c) {
	case 'r':
		options->ring = text;
		return true;
	case 'N':
		return enter_netns(text);
	case 'b':
		return parse_size("-b", text, 1, BYTES_MAX, &options->min_bytes);
	case 'e':
		return parse_size("-e", text, 1, BYTES_MAX, &options->max_bytes);
	case 'f':
		return parse_number("-f", text, 2, 1 << 30, &options->factor);
	case 'i':
		return parse_size("-i", text, 1, BYTES_MAX, &options->step);
	case 'n':
		return parse_number("-n", text, 1, JOBS_MAX, &options->iterations);
	case 'w':
		return parse_number("-w", text, 0, JOBS_MAX, &options->warmup);
	case 'c':
		return parse_number("-c", text, 0, JOBS_MAX, &options->checks);
	case 'C':
		return parse_named("-C", text, &options->collective,
				   aru_collective_from_name);
	case 'd':
		return parse_named("-d", text, &options->type, aru_type_from_name);
	case 'o':
		return parse_named("-o", text, &options->op, aru_op_from_name);
	case 'R':
		return parse_root(options, text);
	case 'u':
		return parse_number("-u", text, 0, MISALIGNED_MAX, &options->misaligned);
	case 'q':
		return parse_number("-q", text, 1, ARU_DEPTH_MAX, &options->in_flight);
	case 'z':
		return parse_flag("-z", text, &options->registered);
	case 's':
		return parse_number("-s", text, 0, UINT64_MAX, &options->seed);
	case 't':
		return parse_number("-t", text, ALLREDUCE_TIMEOUT_MS_MIN,
				    ALLREDUCE_TIMEOUT_MS_MAX, &options->timeout_ms);
	case 'J':
		options->json_file = text;
		return true;
	case 'x':
		options->digest_file = text;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	}
	/* getopt() has complained. */
	return false;
}

struct traits traits_of(uint8_t collective)
{
	static const bool has_op[256] = {
#define X(NAME, name, value, src, dst, reduces)	[value] = reduces,
		ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	};

	return (struct traits) {
		.has_vectors = allreduce_src_extent(collective) ||
			       allreduce_dst_extent(collective),
		.has_op = has_op[collective],
		.has_root = allreduce_has_root(collective),
		.has_blocks = allreduce_has_blocks(collective),
	};
}

/* Pairs that are named, not those that "all" leaves out. */
static bool check_op(const struct options *options)
{
	if (!options->op || !options->type || aru_op_valid(options->type, options->op))
		return true;
	/* Without an operation there is nothing that could not be done. */
	if (options->collective && !traits_of(options->collective).has_op)
		return true;
	usage_error("-o %s is for %s only, not for -d %s%s", aru_op_name(options->op),
		    aru_op_valid(ALLREDUCE_F32, options->op) ? "floats" : "integers",
		    aru_type_name(options->type),
		    options->type == TYPE_DEFAULT ? ", the default" : "");
	return false;
}

static bool check_options(const struct options *options, bool has_factor)
{
	if (!options->ring) {
		usage_error("-r RING is needed (see arbench -h)");
		return false;
	}
	if (options->min_bytes > options->max_bytes) {
		usage_error("-b %llu is more than -e %llu",
			    (unsigned long long)options->min_bytes,
			    (unsigned long long)options->max_bytes);
		return false;
	}
	if (has_factor && options->step) {
		usage_error("-f and -i exclude each other");
		return false;
	}
	if (options->digest_file && !options->checks) {
		usage_error("-x needs checked jobs, which -c 0 turns off");
		return false;
	}
	return check_op(options);
}

int options_parse(struct options *options, int argc, char **argv)
{
	bool has_factor = false;
	int c;

	*options = (struct options) {
		.min_bytes = 4,
		.max_bytes = 64 << 20,
		.factor = 4,
		.iterations = 20,
		.warmup = 5,
		.checks = 1,
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.type = TYPE_DEFAULT,
		.op = ALLREDUCE_SUM,
		.in_flight = 1,
		.seed = 1,
	};
	if (argc == 2 && !strcmp(argv[1], "--help"))
		argv[1] = "-h";
	while ((c = getopt(argc, argv, "r:N:b:e:f:i:n:w:c:C:d:o:R:u:q:z:s:t:J:x:vVh")) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return EXIT_OK;
		}
		if (c == 'V') {
			printf("arbench %s\n", aru_version());
			return EXIT_OK;
		}
		has_factor |= c == 'f';
		if (!parse_option(options, c, optarg))
			return EXIT_USAGE;
	}
	if (optind < argc)
		return usage_error("unexpected word \"%s\" (see arbench -h)", argv[optind]);
	return check_options(options, has_factor) ? -1 : EXIT_USAGE;
}
