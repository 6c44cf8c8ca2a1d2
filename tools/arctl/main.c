// SPDX-License-Identifier: GPL-2.0
/*
 * arctl - configure and look at all-reduce rings
 */
#include <string.h>

#include "arctl.h"

struct options options;

static const char usage[] =
	"usage: arctl [-j] [-s] [-N NETNS] ring VERB ...\n"
	"       arctl ring add NAME { rank RANK | local ADDR } members ADDR,ADDR,...\n"
	"       arctl ring up NAME [wait SECONDS | nowait]\n"
	"       arctl ring show [NAME]\n"
	"       arctl ring del NAME\n"
	"       arctl ring [VERB] help\n"
	"options:\n"
	"  -j  answer in JSON\n"
	"  -s  show counters, also of each lane\n"
	"  -N  act in this network namespace (ip-netns(8))\n"
	"  -V  print the version\n"
	"exit status: 0 done, 1 wrong usage, 2 refused by the kernel\n";

bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "-h") || !strcmp(word, "--help");
}

static int run_object(int argc, char **argv)
{
	if (!argc) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (is_help(argv[0])) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[0], "ring"))
		return ring_main(argc - 1, argv + 1);
	return usage_error("\"%s\" is not an object: there is only \"ring\" (see arctl help)",
			   argv[0]);
}

/* The words behind the options, or an exit code. */
static int parse_options(int *argc, char ***argv)
{
	for (; *argc && (**argv)[0] == '-'; (*argc)--, (*argv)++) {
		const char *word = **argv;

		if (is_help(word))
			return -1;
		if (!strcmp(word, "-V") || !strcmp(word, "--version")) {
			printf("arctl %s\n", aru_version());
			return EXIT_OK;
		}
		if (!strcmp(word, "-j") || !strcmp(word, "--json")) {
			options.json = true;
		} else if (!strcmp(word, "-s") || !strcmp(word, "--stats")) {
			options.stats = true;
		} else if (!strcmp(word, "-N") || !strcmp(word, "--netns")) {
			if (*argc < 2)
				return usage_error("%s needs the name of a network namespace",
						   word);
			(*argc)--;
			(*argv)++;
			if (!enter_netns(**argv))
				return EXIT_USAGE;
		} else {
			return usage_error("unknown option \"%s\" (see arctl help)", word);
		}
	}
	return -1;
}

int main(int argc, char **argv)
{
	int ret;

	prog_name = "arctl";
	argc--;
	argv++;
	ret = parse_options(&argc, &argv);
	if (ret < 0)
		ret = run_object(argc, argv);
	if (fflush(stdout) || ferror(stdout))
		return usage_error("can't write the answer");
	return ret;
}
