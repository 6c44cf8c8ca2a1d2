// SPDX-License-Identifier: GPL-2.0
/*
 * arctl ring add, del, up; show is in show.c
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arctl.h"

#define UP_WAIT_MAX_S	(ALLREDUCE_TIMEOUT_MS_MAX / 1000)

/* ---- the words of a command ---------------------------------------------- */

/**
 * struct words - a cursor over the words of a command
 * @argc: words left
 * @argv: the next one
 */
struct words {
	int argc;
	char **argv;
};

static const char *next_word(struct words *words)
{
	if (!words->argc)
		return NULL;
	words->argc--;
	return *words->argv++;
}

/* The value behind @keyword; complains if there is none. */
static const char *value_of(struct words *words, const char *keyword)
{
	const char *value = next_word(words);

	if (!value)
		usage_error("%s needs a value", keyword);
	return value;
}

static bool number_of(struct words *words, const char *keyword, uint64_t min,
		      uint64_t max, unsigned int *out)
{
	const char *text = value_of(words, keyword);
	uint64_t value;

	if (!text || !parse_number(keyword, text, min, max, &value))
		return false;
	*out = value;
	return true;
}

/* ---- netlink ------------------------------------------------------------- */

static int open_nl(struct aru_nl **nl)
{
	int ret = aru_nl_open(nl);

	return ret ? kernel_error("%s", aru_strerror(ret)) : EXIT_OK;
}

static int done(struct aru_nl *nl, int ret, const char *verb, const char *name)
{
	if (ret)
		ret = kernel_error("ring %s \"%s\": %s", verb, name,
				   aru_nl_error_text(nl));
	aru_nl_close(nl);
	return ret;
}

/* ---- add ----------------------------------------------------------------- */

static const char add_help[] =
	"usage: arctl ring add NAME { rank RANK | local ADDR } MEMBERS\n"
	"                      [lanes N] [frame-max BYTES] [gather BYTES]\n"
	"                      [timeout MS] [id HEX]\n"
	"MEMBERS: members ADDR,ADDR,... | member ADDR [member ADDR]...\n"
	"ADDR:    IPV4 | IPV4:PORT | IPV6 | [IPV6]:PORT | IPV6%INTERFACE\n"
	"\n"
	"Creates a ring; \"arctl ring up\" connects it. The list of members is the same,\n"
	"in the same order, on every member; only rank differs, the own position in it\n"
	"from 0. Instead of a rank, local names the own entry of the list.\n"
	"\n"
	"  lanes      parallel connections, 1 to 16 (default 4)\n"
	"  frame-max  payload bytes of a frame, 4096 to 1048576, a multiple of 64\n"
	"             (default 65536)\n"
	"  gather     vectors of an allreduce up to so many bytes go around whole, which\n"
	"             halves their latency; 0 to 65536, 0: none (default 4096)\n"
	"  timeout    a job without progress for so many ms fails, 100 to 86400000\n"
	"             (default 30000)\n"
	"  id         32 hexadecimal digits, the same on every member (default: made\n"
	"             from the name and the members)\n"
	"\n"
	"The default port is 18515. Members on one host need different ports.\n";

/**
 * struct add - what "ring add" collects
 * @config: the ring
 * @members: its members
 * @has_rank: rank was given
 * @local: the own entry, instead of a rank
 */
struct add {
	struct aru_ring_config config;
	struct aru_member members[ALLREDUCE_SIZE_MAX];
	bool has_rank;
	const char *local;
};

static int hex_digit(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static bool parse_id(const char *text, uint8_t id[ALLREDUCE_ID_SIZE])
{
	bool zero = true;
	int i;

	if (strlen(text) != 2 * ALLREDUCE_ID_SIZE)
		goto bad;
	for (i = 0; i < ALLREDUCE_ID_SIZE; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			goto bad;
		id[i] = high << 4 | low;
		zero = zero && !id[i];
	}
	if (!zero)
		return true;
bad:
	usage_error("id \"%s\" is not %d hexadecimal digits, not all of them 0", text,
		    2 * ALLREDUCE_ID_SIZE);
	return false;
}

static bool add_members(struct add *add, const char *text)
{
	unsigned int n = add->config.n_members;
	char error[256];
	int ret;

	ret = aru_members_parse(text, add->members + n, ALLREDUCE_SIZE_MAX - n, error,
				sizeof(error));
	if (ret < 0) {
		usage_error("%s", n && !(ALLREDUCE_SIZE_MAX - n) ?
			    "a ring has at most 64 members" : error);
		return false;
	}
	add->config.n_members += ret;
	return true;
}

static bool add_keyword(struct add *add, const char *keyword, struct words *words)
{
	struct aru_ring_config *config = &add->config;
	const char *text;

	if (!strcmp(keyword, "rank")) {
		add->has_rank = true;
		return number_of(words, keyword, 0, ALLREDUCE_SIZE_MAX - 1, &config->rank);
	}
	if (!strcmp(keyword, "lanes"))
		return number_of(words, keyword, ALLREDUCE_LANES_MIN, ALLREDUCE_LANES_MAX,
				 &config->lanes);
	if (!strcmp(keyword, "frame-max"))
		return number_of(words, keyword, ALLREDUCE_FRAME_MAX_MIN,
				 ALLREDUCE_FRAME_MAX_MAX, &config->frame_max);
	if (!strcmp(keyword, "gather")) {
		config->has_gather_max = true;
		return number_of(words, keyword, 0, ALLREDUCE_GATHER_MAX_MAX,
				 &config->gather_max);
	}
	if (!strcmp(keyword, "timeout"))
		return number_of(words, keyword, ALLREDUCE_TIMEOUT_MS_MIN,
				 ALLREDUCE_TIMEOUT_MS_MAX, &config->timeout_ms);
	if (strcmp(keyword, "members") && strcmp(keyword, "member") &&
	    strcmp(keyword, "local") && strcmp(keyword, "id")) {
		usage_error("ring add: unknown word \"%s\" (see arctl ring add help)",
			    keyword);
		return false;
	}
	text = value_of(words, keyword);
	if (!text)
		return false;
	if (!strcmp(keyword, "local")) {
		add->local = text;
		return true;
	}
	if (!strcmp(keyword, "id")) {
		config->has_id = true;
		return parse_id(text, config->id);
	}
	return add_members(add, text);
}

static bool add_find_local(struct add *add)
{
	struct aru_member local;
	char error[256];
	unsigned int i;

	if (aru_member_parse(add->local, &local, error, sizeof(error))) {
		usage_error("local: %s", error);
		return false;
	}
	for (i = 0; i < add->config.n_members; i++) {
		if (!memcmp(&add->members[i], &local, sizeof(local))) {
			add->config.rank = i;
			return true;
		}
	}
	usage_error("local \"%s\" is not one of the members", add->local);
	return false;
}

static bool add_check(struct add *add)
{
	const struct aru_ring_config *config = &add->config;
	char error[256];

	if (add->has_rank == !!add->local) {
		usage_error("ring add needs either rank or local");
		return false;
	}
	if (!config->n_members) {
		usage_error("ring add needs members");
		return false;
	}
	if (aru_members_check(add->members, config->n_members, error, sizeof(error))) {
		usage_error("%s", error);
		return false;
	}
	if (add->local)
		return add_find_local(add);
	if (config->rank >= config->n_members) {
		usage_error("rank %u is not from 0 to %u: there are %u members",
			    config->rank, config->n_members - 1, config->n_members);
		return false;
	}
	if (config->frame_max % 64) {
		usage_error("frame-max %u is not a multiple of 64", config->frame_max);
		return false;
	}
	return true;
}

static int ring_add(int argc, char **argv)
{
	struct words words = { argc, argv };
	struct add add = { 0 };
	const char *keyword;
	struct aru_nl *nl;
	int ret;

	add.config.sz = sizeof(add.config);
	add.config.members = add.members;
	add.config.name = next_word(&words);
	if (!add.config.name)
		return usage_error("ring add needs a name (see arctl ring add help)");
	while ((keyword = next_word(&words)))
		if (!add_keyword(&add, keyword, &words))
			return EXIT_USAGE;
	if (!add_check(&add))
		return EXIT_USAGE;
	ret = open_nl(&nl);
	if (ret)
		return ret;
	return done(nl, aru_ring_add(nl, &add.config), "add", add.config.name);
}

/* ---- del ----------------------------------------------------------------- */

static const char del_help[] =
	"usage: arctl ring del NAME\n"
	"\n"
	"Deletes a ring in whatever state. Jobs on it end with an error, here and on the\n"
	"other members.\n";

static int ring_del(int argc, char **argv)
{
	struct aru_nl *nl;
	int ret;

	if (argc != 1)
		return usage_error("ring del needs one name");
	ret = open_nl(&nl);
	if (ret)
		return ret;
	return done(nl, aru_ring_del(nl, argv[0]), "del", argv[0]);
}

/* ---- up ------------------------------------------------------------------ */

static const char up_help[] =
	"usage: arctl ring up NAME [wait SECONDS | nowait]\n"
	"\n"
	"Connects a ring to its neighbours and waits until it is up, for at most SECONDS\n"
	"(1 to 86400, default 30), after which the ring is down again. With nowait the\n"
	"command returns at once, and \"arctl ring show\" tells what became of it.\n"
	"Every member runs it, in any order, within that time.\n";

static int ring_up(int argc, char **argv)
{
	struct words words = { argc, argv };
	const char *name, *keyword;
	unsigned int seconds = 0;
	struct aru_nl *nl;
	int ret;

	ARU_OPTS(aru_ring_up_opts, opts);
	name = next_word(&words);
	if (!name)
		return usage_error("ring up needs a name (see arctl ring up help)");
	while ((keyword = next_word(&words))) {
		if (!strcmp(keyword, "nowait"))
			opts.nowait = true;
		else if (strcmp(keyword, "wait"))
			return usage_error("ring up: unknown word \"%s\" (see arctl ring up help)",
					   keyword);
		else if (!number_of(&words, keyword, 1, UP_WAIT_MAX_S, &seconds))
			return EXIT_USAGE;
	}
	if (opts.nowait && seconds)
		return usage_error("wait and nowait exclude each other");
	opts.connect_timeout_ms = seconds * 1000;
	ret = open_nl(&nl);
	if (ret)
		return ret;
	return done(nl, aru_ring_up(nl, name, &opts), "up", name);
}

/* ---- table --------------------------------------------------------------- */

static const struct verb verbs[] = {
	{ "add", ring_add, add_help },
	{ "del", ring_del, del_help },
	{ "show", ring_show, ring_show_help },
	{ "up", ring_up, up_help },
};

#define N_VERBS	(sizeof(verbs) / sizeof(verbs[0]))

static int all_help(void)
{
	size_t i;

	for (i = 0; i < N_VERBS; i++)
		printf("%s%s", i ? "\n" : "", verbs[i].help);
	return EXIT_OK;
}

int ring_main(int argc, char **argv)
{
	size_t i;

	if (!argc)
		return ring_show(0, argv);
	if (is_help(argv[0]))
		return all_help();
	for (i = 0; i < N_VERBS; i++) {
		if (strcmp(argv[0], verbs[i].name))
			continue;
		/* A ring can be called help, so only the last word asks for it. */
		if (argc == 2 && is_help(argv[1])) {
			fputs(verbs[i].help, stdout);
			return EXIT_OK;
		}
		return verbs[i].run(argc - 1, argv + 1);
	}
	return usage_error("ring has no verb \"%s\": there are add, del, show, up", argv[0]);
}
