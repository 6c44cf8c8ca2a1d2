// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "env.h"

/* Not stdout: what a child of the harness has buffered there is lost. */
#define SAY(fmt, ...)	fprintf(stderr, "# " fmt "\n", ##__VA_ARGS__)

/* Where the process started; commands run there, whatever the thread's place. */
static int home = -1;

__attribute__((constructor)) static void env_remember_home(void)
{
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		abort();
}

static int env_system(const char *command)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int ret;

	if (here < 0 || setns(home, CLONE_NEWNET))
		abort();
	ret = system(command);
	if (setns(here, CLONE_NEWNET))
		abort();
	close(here);
	return ret;
}

int env_shell(const char *fmt, ...)
{
	char command[512];
	va_list args;
	int ret;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	ret = env_system(command);
	if (ret)
		SAY("status %d: %s", ret, command);
	return ret;
}

#define ENV_IPV6_MTU_MIN	1280

static int env_make_member(unsigned int rank)
{
	return env_shell("ip netns add n%u", rank) ||
	       env_shell("ip link add v%u type veth peer name eth0 netns n%u",
			 rank, rank) ||
	       env_shell("ip link set v%u master arbr up", rank) ||
	       env_shell("ip -n n%u link set lo up && ip -n n%u link set eth0 up",
			 rank, rank) ||
	       env_shell("ip -n n%u addr add 10.88.0.%u/24 dev eth0", rank, rank + 1) ||
	       env_shell("ip -n n%u addr add fd88::%u/64 dev eth0 nodad", rank, rank + 1);
}

int env_namespaces(void)
{
	char last[32];
	unsigned int i;

	snprintf(last, sizeof(last), "/run/netns/n%u", ENV_MEMBERS_MAX - 1);
	if (!access(last, F_OK))
		return 0;
	if (env_shell("ip link add arbr type bridge forward_delay 0 mcast_snooping 0") ||
	    env_shell("ip link set arbr up"))
		return -1;
	for (i = 0; i < ENV_MEMBERS_MAX; i++)
		if (env_make_member(i))
			return -1;
	return 0;
}

int env_restore(unsigned int rank)
{
	/* The veth pair goes with the namespace, but not at once. */
	env_shell("ip link del v%u 2> /dev/null || true", rank);
	return env_make_member(rank);
}

int env_mtu(unsigned int mtu)
{
	unsigned int i;

	/* The bridge follows its ports. */
	for (i = 0; i < ENV_MEMBERS_MAX; i++)
		if (env_shell("ip link set v%u mtu %u && ip -n n%u link set eth0 mtu %u",
			      i, mtu, i, mtu))
			return -1;
	if (mtu < ENV_IPV6_MTU_MIN)
		return 0;
	/* Below that the kernel had taken IPv6, and its address, from the device. */
	for (i = 0; i < ENV_MEMBERS_MAX; i++)
		if (env_shell("ip -n n%u addr replace fd88::%u/64 dev eth0 nodad", i, i + 1))
			return -1;
	return 0;
}

int env_enter(unsigned int rank)
{
	char path[32];
	int fd, ret;

	snprintf(path, sizeof(path), "/run/netns/n%u", rank);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		SAY("%s: %s", path, strerror(errno));
		return -1;
	}
	ret = setns(fd, CLONE_NEWNET);
	close(fd);
	return ret;
}

static void env_member_addr(const struct env_config *config, unsigned int rank,
			    struct aru_member *member)
{
	char text[ARU_MEMBER_TEXT_SIZE];

	if (config->family == AF_INET)
		snprintf(text, sizeof(text), "10.88.0.%u", rank + 1);
	else
		snprintf(text, sizeof(text), "[fd88::%u]", rank + 1);
	if (aru_member_parse(text, member, NULL, 0))
		abort();
}

void env_ring_config(const struct env_config *config, unsigned int rank,
		     struct aru_member *members, struct aru_ring_config *ring)
{
	unsigned int i;

	for (i = 0; i < config->size; i++)
		env_member_addr(config, i, &members[i]);
	memset(ring, 0, sizeof(*ring));
	ring->sz = sizeof(*ring);
	ring->name = ENV_RING;
	ring->rank = rank;
	ring->members = members;
	ring->n_members = config->size;
	ring->lanes = config->lanes;
	ring->frame_max = config->frame_max;
	ring->timeout_ms = config->timeout_ms;
	ring->has_gather_max = config->has_gather_max;
	ring->gather_max = config->gather_max;
}

static int env_add(struct env *env, unsigned int rank)
{
	struct aru_member members[ENV_MEMBERS_MAX];
	struct aru_ring_config ring;
	int ret;

	if (env_enter(rank))
		return -1;
	ret = aru_nl_open(&env->nl[rank]);
	if (ret) {
		SAY("rank %u: netlink: %s", rank, aru_strerror(ret));
		return -1;
	}
	env_ring_config(&env->config, rank, members, &ring);
	ret = aru_ring_add(env->nl[rank], &ring);
	if (ret)
		SAY("rank %u: add: %d %s", rank, ret,
		    aru_nl_error_text(env->nl[rank]));
	if (setns(home, CLONE_NEWNET))
		abort();
	return ret;
}

int env_up(struct env *env, const struct env_config *config)
{
	ARU_OPTS(aru_ring_up_opts, opts);
	unsigned int i;
	int ret;

	memset(env, 0, sizeof(*env));
	env->config = *config;
	for (i = 0; i < config->size; i++)
		if (env_add(env, i))
			return -1;
	opts.nowait = true;
	for (i = 0; i < config->size; i++) {
		ret = aru_ring_up(env->nl[i], ENV_RING, &opts);
		if (ret) {
			SAY("rank %u: up: %d %s", i, ret,
			    aru_nl_error_text(env->nl[i]));
			return -1;
		}
	}
	for (i = 0; i < config->size; i++) {
		if (!env_wait_state(env, i, ALLREDUCE_RING_UP, 30000)) {
			SAY("rank %u is not up", i);
			return -1;
		}
	}
	return 0;
}

void env_down(struct env *env)
{
	unsigned int i;

	for (i = 0; i < env->config.size; i++) {
		if (!env->nl[i])
			continue;
		aru_ring_del(env->nl[i], ENV_RING);
		aru_nl_close(env->nl[i]);
		env->nl[i] = NULL;
	}
}

struct env_thread {
	struct env_member member;
	env_fn fn;
	pthread_t thread;
	int ret;
};

static void *env_thread_main(void *arg)
{
	ARU_OPTS(aru_open_opts, opts);
	struct env_thread *t = arg;
	int ret;

	t->ret = env_enter(t->member.rank);
	if (t->ret)
		return NULL;
	opts.depth = t->member.env->config.depth;
	ret = aru_open(&t->member.aru, ENV_RING, &opts);
	if (ret) {
		SAY("rank %u: open: %s", t->member.rank, aru_strerror(ret));
		t->ret = ret;
		return NULL;
	}
	t->ret = t->fn(&t->member);
	ret = aru_close(t->member.aru);
	if (ret) {
		SAY("rank %u: close: %s", t->member.rank, aru_strerror(ret));
		t->ret = t->ret ? t->ret : ret;
	}
	return NULL;
}

int env_run_some(struct env *env, unsigned int ranks, env_fn fn, void *arg)
{
	struct env_thread threads[ENV_MEMBERS_MAX];
	unsigned int i;
	int ret = 0;

	for (i = 0; i < env->config.size; i++) {
		struct env_thread *t = &threads[i];

		if (!(ranks & 1U << i))
			continue;
		memset(t, 0, sizeof(*t));
		t->member.env = env;
		t->member.rank = i;
		t->member.arg = arg;
		t->fn = fn;
		if (pthread_create(&t->thread, NULL, env_thread_main, t))
			abort();
	}
	for (i = 0; i < env->config.size; i++) {
		if (!(ranks & 1U << i))
			continue;
		pthread_join(threads[i].thread, NULL);
		if (threads[i].ret) {
			SAY("rank %u: %d", i, threads[i].ret);
			ret = threads[i].ret;
		}
	}
	return ret;
}

int env_run(struct env *env, env_fn fn, void *arg)
{
	return env_run_some(env, (1U << env->config.size) - 1, fn, arg);
}

uint64_t env_stat(struct env *env, unsigned int rank, enum allreduce_stat stat)
{
	struct aru_ring *ring;
	uint64_t value;
	int ret = aru_ring_get(env->nl[rank], ENV_RING, &ring);

	if (ret) {
		SAY("rank %u: get: %s", rank, aru_strerror(ret));
		exit(1);
	}
	value = ring->stats[stat];
	aru_ring_free(ring);
	return value;
}

unsigned int env_state(struct env *env, unsigned int rank)
{
	struct aru_ring *ring;
	unsigned int state;

	if (aru_ring_get(env->nl[rank], ENV_RING, &ring))
		return 0;
	state = ring->state;
	aru_ring_free(ring);
	return state;
}

bool env_wait_state(struct env *env, unsigned int rank, unsigned int state,
		    unsigned int ms)
{
	uint64_t end = env_now_ms() + ms;

	while (env_state(env, rank) != state) {
		if (env_now_ms() > end)
			return false;
		usleep(5000);
	}
	return true;
}

/* The number that follows @skip others behind @key in a file of /proc/net. */
static long long proc_net(const char *file, const char *key, int skip)
{
	char path[64], line[1024], *p;
	long long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/thread-self/net/%s", file);
	f = fopen(path, "r");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		p = strstr(line, key);
		/* snmp has a line of names, then one of numbers */
		if (!p || !strpbrk(p + strlen(key), "0123456789"))
			continue;
		p += strlen(key);
		do {
			value = strtoll(p, &p, 10);
		} while (skip--);
		break;
	}
	fclose(f);
	return value;
}

int env_traffic(unsigned int rank, struct env_traffic *traffic)
{
	if (env_enter(rank))
		return -1;
	traffic->tx_bytes = proc_net("dev", "eth0:", 8);
	traffic->tx_packets = proc_net("dev", "eth0:", 9);
	traffic->sent_again = proc_net("snmp", "Tcp:", 11);
	if (setns(home, CLONE_NEWNET))
		abort();
	return traffic->tx_bytes < 0 || traffic->tx_packets < 0 ||
	       traffic->sent_again < 0 ? -1 : 0;
}

uint64_t env_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}
