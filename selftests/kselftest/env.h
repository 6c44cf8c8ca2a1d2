/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring on one machine, for tests: a namespace for each member, joined by a
 * bridge.
 *
 *      n0          n1                n4
 *     eth0        eth0              eth0      10.88.0.(1 + rank)/24
 *      |           |                 |        fd88::(1 + rank)/64
 *   ---v0----------v1------ ... -----v4---    bridge arbr
 *
 * The namespaces outlive a test (kselftest_harness.h forks for each) and are
 * made once; rings are made and deleted by each test.
 */
#ifndef ENV_H
#define ENV_H

#include <allreduce-uring.h>
#include <stdbool.h>

#define ENV_MEMBERS_MAX	5
#define ENV_RING	"r"

struct env_config {
	unsigned int size;
	unsigned int lanes;
	int family;
	unsigned int frame_max;		/* 0: the kernel's default */
	unsigned int timeout_ms;	/* 0: the kernel's default */
	bool has_gather_max;		/* false: the kernel's default */
	unsigned int gather_max;
	unsigned int depth;		/* of contexts; 0: the library's default */
};

struct env {
	struct env_config config;
	struct aru_nl *nl[ENV_MEMBERS_MAX];
};

/* Make the namespaces if they are not there. 0, or -1 after saying why. */
int env_namespaces(void);

/* Make a member's namespace again that was deleted. 0 or -1. */
int env_restore(unsigned int rank);

/* Move the calling thread into a member's namespace. 0 or -1. */
int env_enter(unsigned int rank);

/* Run a shell command, printf-like. Its exit status. */
int env_shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Set the MTU of all links. 0 or -1. */
int env_mtu(unsigned int mtu);

/* Fill in a ring's configuration; members is of ENV_MEMBERS_MAX. */
void env_ring_config(const struct env_config *config, unsigned int rank,
		     struct aru_member *members, struct aru_ring_config *ring);

/* Add the rings of all members and bring them up. 0, or -1 after saying why. */
int env_up(struct env *env, const struct env_config *config);

/* Delete what is left of the rings, close handles. */
void env_down(struct env *env);

/* A member of a running test. */
struct env_member {
	struct env *env;
	unsigned int rank;
	struct aru *aru;
	void *arg;
};

typedef int (*env_fn)(struct env_member *member);

/*
 * Run a function for each member, each in a thread of its own with an open
 * context. Returns 0 if all did, else the last rank's value that was not 0.
 */
int env_run(struct env *env, env_fn fn, void *arg);

/* The same for the members whose bit is set in @ranks. */
int env_run_some(struct env *env, unsigned int ranks, env_fn fn, void *arg);

/* A counter of a member's ring; exits the test if it can't be had. */
uint64_t env_stat(struct env *env, unsigned int rank, enum allreduce_stat stat);

/* State of a member's ring, 0 if there is none. */
unsigned int env_state(struct env *env, unsigned int rank);

/* Wait at most @ms until the state is @state. */
bool env_wait_state(struct env *env, unsigned int rank, unsigned int state,
		    unsigned int ms);

/* What a member's interface has sent, and its TCP again, in segments. */
struct env_traffic {
	long long tx_bytes;
	long long tx_packets;
	long long sent_again;
};

/* 0, or -1 if the numbers can't be had. */
int env_traffic(unsigned int rank, struct env_traffic *traffic);

/* Milliseconds on the monotonic clock. */
uint64_t env_now_ms(void);

#endif
