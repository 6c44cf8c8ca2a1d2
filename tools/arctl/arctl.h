/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ARCTL_H
#define _ARCTL_H

#include <allreduce-uring.h>

#include "../common.h"

/**
 * struct options - what stands before the object
 * @json: answer in JSON
 * @stats: show counters
 */
struct options {
	bool json;
	bool stats;
};

extern struct options options;

/**
 * struct verb - a row of an object's table
 * @name: what the user types
 * @run: gets the words behind the verb; returns the exit code
 * @help: usage and explanation
 */
struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

/* True for "help", "-h", "--help". */
bool is_help(const char *word);

/* ring.c APIs: */
int ring_main(int argc, char **argv);

/* show.c APIs: */
extern const char ring_show_help[];
int ring_show(int argc, char **argv);
void ring_print_text(FILE *out, const struct aru_ring *ring, bool stats);

#endif /* _ARCTL_H */
