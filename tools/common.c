// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define NETNS_DIR	"/run/netns"

const char *prog_name = "?";

static void complain(const char *fmt, va_list ap)
{
	fflush(stdout);
	fprintf(stderr, "%s: ", prog_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int usage_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return EXIT_USAGE;
}

int kernel_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	return EXIT_KERNEL;
}

/* Digits, then what @end is set to; false if there is none or too many. */
static bool digits(const char *text, uint64_t *value, char **end)
{
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, end, 10);
	return !errno;
}

bool parse_number(const char *field, const char *text, uint64_t min, uint64_t max,
		  uint64_t *value)
{
	char *end;

	if (digits(text, value, &end) && !*end && *value >= min && *value <= max)
		return true;
	usage_error("%s \"%s\" is not a number from %llu to %llu", field, text,
		    (unsigned long long)min, (unsigned long long)max);
	return false;
}

static int suffix_shift(const char *suffix)
{
	if (!*suffix)
		return 0;
	if (suffix[1])
		return -1;
	switch (toupper((unsigned char)*suffix)) {
	case 'K':
		return 10;
	case 'M':
		return 20;
	case 'G':
		return 30;
	}
	return -1;
}

bool parse_size(const char *field, const char *text, uint64_t min, uint64_t max,
		uint64_t *value)
{
	char *end;
	int shift;

	if (digits(text, value, &end)) {
		shift = suffix_shift(end);
		if (shift >= 0 && *value <= max >> shift) {
			*value <<= shift;
			if (*value >= min)
				return true;
		}
	}
	usage_error("%s \"%s\" is not a number from %llu to %llu, with or without a suffix K, M or G",
		    field, text, (unsigned long long)min, (unsigned long long)max);
	return false;
}

bool enter_netns(const char *name)
{
	char path[4096];
	int fd, len;

	len = snprintf(path, sizeof(path), "%s%s",
		       strchr(name, '/') ? "" : NETNS_DIR "/", name);
	if (len < 0 || (size_t)len >= sizeof(path)) {
		usage_error("the name of the network namespace is too long");
		return false;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		usage_error("network namespace \"%s\": %s", name, strerror(errno));
		return false;
	}
	if (setns(fd, CLONE_NEWNET)) {
		usage_error("network namespace \"%s\" can't be entered: %s", name,
			    strerror(errno));
		close(fd);
		return false;
	}
	close(fd);
	return true;
}
