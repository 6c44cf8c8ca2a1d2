// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "jobs.h"

#define GUARD		0x5a
#define GUARD_BYTES	64
#define PAGE		4096UL
#define HUGE_PAGE	(2UL << 20)
#define LINE		64UL

/* No job takes so long: its own time limit would have ended it before. */
#define WAIT_MS		180000

/* Different sequences from one seed. */
#define ORDER_SALT	0x6f72646572000000ULL

/* Failures of a stream that are described one by one. */
#define SAY_MAX		6

/* ---- random numbers and settings ----------------------------------------- */

uint64_t jobs_state(uint64_t seed, uint64_t index)
{
	uint64_t state = random_u64(&seed) + index;

	return random_u64(&state);
}

static bool one_in(uint64_t *state, unsigned int n)
{
	return !random_below(state, n);
}

/* 1 to @max, each power of two as often as the next. */
static uint64_t log_uniform(uint64_t *state, uint64_t max)
{
	uint64_t top = 1ULL << random_below(state, 64 - __builtin_clzll(max));
	uint64_t value = top | (random_u64(state) & (top - 1));

	return value > max ? max : value;
}

bool jobs_number(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && !*end;
}

const char *jobs_text(const char *variable, const char *word)
{
	static char line[4096];
	const char *found = getenv(variable);
	size_t len = strlen(word);
	char *token, *next;
	FILE *f;

	if (found && *found)
		return found;
	found = "";
	f = fopen("/proc/cmdline", "r");
	if (!f)
		return found;
	if (fgets(line, sizeof(line), f)) {
		for (token = strtok_r(line, "\n ", &next); token;
		     token = strtok_r(NULL, "\n ", &next))
			if (!strncmp(token, word, len) && token[len] == '=')
				found = token + len + 1;
	}
	fclose(f);
	return found;
}

uint64_t jobs_setting(const char *variable, const char *word, uint64_t value)
{
	const char *text = jobs_text(variable, word);

	if (*text && !jobs_number(text, &value)) {
		fprintf(stderr, "%s or %s: '%s' is not a number from 0 to 2^64 - 1\n",
			variable, word, text);
		exit(1);
	}
	return value;
}

uint64_t jobs_seed(void)
{
	uint64_t seed;

	/* Not the clock: runs that start together would do the same jobs. */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
		perror("getrandom");
		exit(1);
	}
	return jobs_setting("SEED", "aru.seed", seed);
}

uint64_t jobs_spoil(void)
{
	return jobs_setting("SPOIL", "aru.spoil", JOBS_SPOIL_NONE);
}

void jobs_kernel(char *kernel)
{
	struct utsname name;
	char *end;

	uname(&name);
	snprintf(kernel, JOBS_KERNEL_SIZE, "%s", name.release);
	/* two numbers of it */
	end = strchr(kernel, '.');
	if (end)
		end[1 + strspn(end + 1, "0123456789")] = '\0';
}

/* ---- what a job is -------------------------------------------------------- */

static bool has_data(unsigned int collective)
{
	return collective != ALLREDUCE_COLLECTIVE_BARRIER;
}

static const unsigned int types[] = {
#define X_TYPE(NAME, name, value, bytes)	value,
	ALLREDUCE_FOR_EACH_TYPE(X_TYPE)
};

static const unsigned int ops[] = {
#define X_OP(NAME, name, value)			value,
	ALLREDUCE_FOR_EACH_OP(X_OP)
};

static const struct {
	unsigned int collective;
	bool reduces;
} collectives[] = {
#define X_COLLECTIVE(NAME, name, value, src, dst, reduces)	{ value, reduces },
	ALLREDUCE_FOR_EACH_COLLECTIVE(X_COLLECTIVE)
};

#define N_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define ROWS_MAX	(N_OF(collectives) * N_OF(types) * N_OF(ops))

static struct jobs_row row_table[ROWS_MAX];
static unsigned int n_rows;

static void add_row(unsigned int collective, unsigned int type, unsigned int op)
{
	row_table[n_rows++] = (struct jobs_row){ collective, type, op };
}

/* Before main(): from then on several threads read the table. */
__attribute__((constructor)) static void make_rows(void)
{
	size_t c, t, o;

	for (c = 0; c < N_OF(collectives); c++) {
		if (!has_data(collectives[c].collective)) {
			add_row(collectives[c].collective, 0, 0);
			continue;
		}
		for (t = 0; t < N_OF(types); t++) {
			if (!collectives[c].reduces)
				add_row(collectives[c].collective, types[t], 0);
			for (o = 0; collectives[c].reduces && o < N_OF(ops); o++)
				if (aru_op_valid(types[t], ops[o]))
					add_row(collectives[c].collective, types[t],
						ops[o]);
		}
	}
}

unsigned int jobs_rows(const struct jobs_row **rows)
{
	*rows = row_table;
	return n_rows;
}

/* In each n_rows jobs every row comes up once, in an order of their own. */
static const struct jobs_row *row_of(uint64_t seed, uint64_t index)
{
	static _Thread_local struct {
		bool known;
		uint64_t seed;
		uint64_t round;
		uint16_t rows[ROWS_MAX];
	} order;
	uint64_t round = index / n_rows, state;
	unsigned int i, j;

	if (order.known && order.seed == seed && order.round == round)
		return &row_table[order.rows[index % n_rows]];
	state = jobs_state(seed ^ ORDER_SALT, round);
	for (i = 0; i < n_rows; i++) {
		j = random_below(&state, i + 1);
		order.rows[i] = order.rows[j];
		order.rows[j] = i;
	}
	order.known = true;
	order.seed = seed;
	order.round = round;
	return &row_table[order.rows[index % n_rows]];
}

/* Counts beside which something changes: see partition.h. */
static uint64_t edge_count(const struct jobs *jobs, uint64_t *state,
			   unsigned int bytes, unsigned int parts)
{
	const struct env_config *c = &jobs->config;
	unsigned int frame = c->frame_max ? c->frame_max : ALLREDUCE_FRAME_MAX_DEFAULT;
	unsigned int gather = c->has_gather_max ? c->gather_max :
						  ALLREDUCE_GATHER_MAX_DEFAULT;
	unsigned int grain = LINE / bytes;
	const uint64_t edges[] = {
		0, 1, c->size, grain, (uint64_t)c->size * grain,
		(uint64_t)c->lanes * c->size * grain, PAGE / bytes, gather / bytes,
		frame / bytes, (uint64_t)frame / bytes * c->size,
		(uint64_t)c->lanes * 65536 / bytes / parts,
	};
	uint64_t edge = edges[random_below(state, N_OF(edges))];
	uint64_t count = edge + random_below(state, 3);

	return count ? count - 1 : 0;
}

static uint64_t random_count(const struct jobs *jobs, uint64_t *state,
			     const struct jobs_row *row)
{
	unsigned int parts = allreduce_has_blocks(row->collective) ? jobs->config.size : 1;
	bool tail = random_below(state, 100) < jobs->tail_percent;
	uint64_t max = (tail ? jobs->elements_max : jobs->small_max) / parts, count;

	if (random_u64(state) & 1)
		return log_uniform(state, max);
	count = edge_count(jobs, state, aru_type_size(row->type), parts);
	return count <= max ? count : count % (max + 1);
}

struct job jobs_job(const struct jobs *jobs, uint64_t index)
{
	const struct jobs_row *row = row_of(jobs->seed, index);
	uint64_t state = jobs_state(jobs->seed, index);
	struct job job = {
		.seed = jobs->seed,
		.iteration = index,
		.size = jobs->config.size,
		.collective = row->collective,
		.type = row->type,
		.op = row->op,
	};

	if (has_data(row->collective))
		job.count = random_count(jobs, &state, row);
	if (allreduce_has_root(row->collective))
		job.root = random_below(&state, jobs->config.size);
	return job;
}

void jobs_words(const struct jobs *jobs, const struct job *job, char *words)
{
	const struct env_config *c = &jobs->config;
	char gather[16] = "default", frame[16] = "default", what[64] = "";

	if (c->has_gather_max)
		snprintf(gather, sizeof(gather), "%u", c->gather_max);
	if (c->frame_max)
		snprintf(frame, sizeof(frame), "%u", c->frame_max);
	if (has_data(job->collective))
		snprintf(what, sizeof(what), " %s%s%s, count %llu",
			 aru_type_name(job->type), job->op ? " " : "",
			 job->op ? aru_op_name(job->op) : "",
			 (unsigned long long)job->count);
	snprintf(words, JOBS_WORDS_SIZE,
		 "%s%s, root %u; %u members, %u lanes, %s, frame_max %s, gather_max %s",
		 aru_collective_name(job->collective), what, job->root, c->size, c->lanes,
		 c->family == AF_INET ? "IPv4" : "IPv6", frame, gather);
}

/* ---- what a member makes of it --------------------------------------------- */

/* Where a buffer starts. */
enum place {
	AT_LINE,		/* on a cache line */
	AT_ELEMENT,		/* anywhere that the type allows */
	AT_PAGE,		/* at the start of a page */
	ACROSS_PAGES,		/* some elements before the end of a page */
	PLACES,
};

struct choice {
	bool in_place;
	bool registered;
	enum place src;
	enum place dst;
	unsigned int src_shift;		/* elements */
	unsigned int dst_shift;
	void *unneeded;			/* pointer where no buffer is needed */
	unsigned int late_us;
};

static enum place random_place(uint64_t *state)
{
	/* half of them as odd as can be */
	return one_in(state, 2) ? AT_ELEMENT : random_below(state, PLACES);
}

static struct choice choose(const struct jobs *jobs, uint64_t index,
			    unsigned int rank)
{
	uint64_t state = jobs_state(jobs->seed ^ (rank + 1ULL) << 48, index);
	struct choice c = {};

	c.in_place = one_in(&state, 2);
	c.registered = one_in(&state, 2);
	c.src = random_place(&state);
	c.dst = random_place(&state);
	c.src_shift = random_below(&state, LINE);
	c.dst_shift = random_below(&state, LINE);
	c.unneeded = one_in(&state, 2) ? NULL : (void *)3;
	if (one_in(&state, 128))
		c.late_us = random_below(&state, 40000);
	else if (one_in(&state, 16))
		c.late_us = random_below(&state, 4000);
	return c;
}

/* Memory of a member, from which areas for its jobs are cut. */
struct arena {
	unsigned char *base;
	size_t bytes;
	struct {
		size_t start;
		size_t end;
	} used[JOBS_WINDOW_MAX];	/* in order */
	unsigned int n_used;
};

static int arena_open(struct arena *a, size_t bytes, bool huge)
{
	unsigned char *p;
	size_t ahead;

	a->bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	p = mmap(NULL, a->bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	ahead = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (ahead)
		munmap(p, ahead);
	munmap(p + ahead + a->bytes, HUGE_PAGE - ahead);
	a->base = p + ahead;
	if (huge)
		madvise(a->base, a->bytes, MADV_HUGEPAGE);
	return 0;
}

static void arena_close(struct arena *a)
{
	if (a->base)
		munmap(a->base, a->bytes);
}

/* First fit. NULL if there is no room now. */
static unsigned char *arena_cut(struct arena *a, size_t bytes)
{
	size_t start = 0;
	unsigned int i;

	for (i = 0; i < a->n_used; i++) {
		if (a->used[i].start - start >= bytes)
			break;
		start = a->used[i].end;
	}
	if (a->n_used == JOBS_WINDOW_MAX || a->bytes - start < bytes)
		return NULL;
	memmove(&a->used[i + 1], &a->used[i],
		(a->n_used - i) * sizeof(a->used[0]));
	a->used[i].start = start;
	a->used[i].end = (start + bytes + LINE - 1) & ~(LINE - 1);
	a->n_used++;
	return a->base + start;
}

static void arena_give_back(struct arena *a, const unsigned char *area)
{
	size_t start = area - a->base;
	unsigned int i = 0;

	while (a->used[i].start != start)
		i++;
	a->n_used--;
	memmove(&a->used[i], &a->used[i + 1],
		(a->n_used - i) * sizeof(a->used[0]));
}

/* A job under way on a member. */
struct task {
	uint64_t index;
	struct job job;
	struct choice choice;
	struct aru_request *req;
	struct arena *arena;
	unsigned char *area;
	size_t area_bytes;
	unsigned char *src;		/* NULL if not needed */
	unsigned char *dst;
	size_t src_bytes;
	size_t dst_bytes;
	bool in_place;
};

struct member {
	struct jobs *jobs;
	struct env_member *env;
	struct arena plain;
	struct arena registered;
	struct task *tasks;
	unsigned int n_tasks;
	uint64_t random;
};

static size_t room_for(size_t bytes, enum place place)
{
	bool page = place == AT_PAGE || place == ACROSS_PAGES;

	return GUARD_BYTES + LINE + (page ? PAGE : 0) + LINE * sizeof(uint64_t) + bytes;
}

static uintptr_t align_up(uintptr_t p, uintptr_t to)
{
	return (p + to - 1) & ~(to - 1);
}

static unsigned char *place_at(unsigned char *cursor, enum place place,
			       unsigned int shift, unsigned int bytes)
{
	uintptr_t p = (uintptr_t)cursor + GUARD_BYTES;

	switch (place) {
	case AT_ELEMENT:
		return (unsigned char *)align_up(p, LINE) + (size_t)shift * bytes;
	case AT_PAGE:
		return (unsigned char *)align_up(p, PAGE);
	case ACROSS_PAGES:
		shift = 1 + shift % 8;
		return (unsigned char *)align_up(p + shift * bytes, PAGE) -
		       (size_t)shift * bytes;
	default:
		return (unsigned char *)align_up(p, LINE);
	}
}

/* The area that the job needs, with nothing in it yet; -EAGAIN if it is full. */
static int task_place(struct member *m, struct task *t)
{
	struct allreduce_buffers b = job_buffers(&t->job, m->env->rank);
	unsigned int bytes = t->job.type ? aru_type_size(t->job.type) : 1;
	const struct choice *c = &t->choice;
	unsigned char *end;

	t->src_bytes = b.src * bytes;
	t->dst_bytes = b.dst * bytes;
	/* in place takes two buffers, which are then one */
	t->in_place = c->in_place && b.src && b.dst;
	t->area_bytes = room_for(t->src_bytes, c->src) +
			room_for(t->dst_bytes, c->dst) + GUARD_BYTES;
	t->arena = c->registered ? &m->registered : &m->plain;
	t->area = arena_cut(t->arena, t->area_bytes);
	if (!t->area)
		return -EAGAIN;
	memset(t->area, GUARD, t->area_bytes);

	t->src = place_at(t->area, c->src, c->src_shift, bytes);
	end = t->src + t->src_bytes;
	t->dst = place_at(end, c->dst, c->dst_shift, bytes);
	if (t->in_place && b.dst >= b.src)
		t->src = t->dst + b.src_in_dst * bytes;
	else if (t->in_place)
		t->dst = t->src + b.dst_in_src * bytes;
	return 0;
}

static size_t count_spoilt(const unsigned char *p, const unsigned char *end)
{
	size_t spoilt = 0;

	if (p >= end || (*p == GUARD && !memcmp(p, p + 1, end - p - 1)))
		return 0;
	for (; p < end; p++)
		spoilt += *p != GUARD;
	return spoilt;
}

/* Bytes of the area outside of both buffers that were written to. */
static size_t task_spoilt(const struct task *t)
{
	const unsigned char *end = t->area + t->area_bytes;
	const unsigned char *first = t->src, *second = t->dst;
	size_t first_bytes = t->src_bytes, second_bytes = t->dst_bytes;

	if (t->in_place) {
		/* the larger holds the other */
		bool src = t->src_bytes >= t->dst_bytes;

		first = src ? t->src : t->dst;
		first_bytes = src ? t->src_bytes : t->dst_bytes;
		return count_spoilt(t->area, first) +
		       count_spoilt(first + first_bytes, end);
	}
	return count_spoilt(t->area, first) +
	       count_spoilt(first + first_bytes, second) +
	       count_spoilt(second + second_bytes, end);
}

/* Room for what differs between members, behind the words about the job. */
static void say(struct member *m, const struct task *t, const char *what)
{
	static const char *const places[PLACES] = {
		"cache line", "element", "page", "page's end",
	};
	const struct choice *c = &t->choice;
	struct jobs *jobs = m->jobs;
	char words[JOBS_WORDS_SIZE], again[JOBS_WORDS_SIZE];

	if (atomic_fetch_add(&jobs->said, 1) >= SAY_MAX)
		return;
	jobs_words(jobs, &t->job, words);
	jobs->again(jobs, t->index, again);
	/* one piece, whatever other members say */
	flockfile(stdout);
	printf("# job %llu of seed %llu: rank %u: %s\n#   %s\n",
	       (unsigned long long)t->index, (unsigned long long)jobs->seed,
	       m->env->rank, what, words);
	printf("#   %s, %s, src at %s, dst at %s, shifts %u and %u, ",
	       t->in_place ? "in place" : "out of place",
	       c->registered ? "registered" : "not registered", places[c->src],
	       places[c->dst], c->src_shift, c->dst_shift);
	printf("late by %u us, at most %u in flight\n#   again: %s\n", c->late_us,
	       jobs->window[m->env->rank], again);
	funlockfile(stdout);
	fflush(stdout);
}

static void say_error(struct member *m, const struct task *t, const char *where,
		      int ret)
{
	const char *refusal = aru_refusal(m->env->aru), *reason = "";
	char what[512], kept[ALLREDUCE_REASON_SIZE];
	int error = 0;

	snprintf(kept, sizeof(kept), "%s", refusal);
	aru_ring_error(m->env->aru, &error, &reason);
	snprintf(what, sizeof(what), "%s: %s%s%s%s%s", where, aru_strerror(ret),
		 *kept ? "; refused: " : "", kept,
		 reason && *reason ? "; ring: " : "", reason ? reason : "");
	say(m, t, what);
}

static void task_done(struct member *m, const struct task *t, bool good)
{
	if (good)
		atomic_fetch_add(&m->jobs->passed[t->index - m->jobs->first], 1);
	else
		atomic_fetch_add(&m->jobs->wrong, 1);
}

static bool task_check(struct member *m, const struct task *t)
{
	uint64_t wrong = 0, changed = 0;
	size_t spoilt = task_spoilt(t);
	char what[160];

	if (t->dst_bytes)
		wrong = reference_check(&t->job, m->env->rank, t->dst);
	if (t->src_bytes)
		changed = reference_check_src(&t->job, m->env->rank, t->src, t->in_place);
	if (!wrong && !changed && !spoilt)
		return true;
	snprintf(what, sizeof(what),
		 "%llu elements wrong, %llu of the source changed, %zu bytes outside of the buffers written",
		 (unsigned long long)wrong, (unsigned long long)changed, spoilt);
	say(m, t, what);
	return false;
}

/*
 * As if the module had done wrong: where @spoil is odd, or there is no result, in
 * the area's first bytes, which are a guard, else in the middle of the result.
 */
static void task_spoil(const struct task *t)
{
	if (t->index & 1 || !t->dst_bytes)
		t->area[0] ^= 1;
	else
		t->dst[t->dst_bytes / 2] ^= 1;
}

/* Wait for one of the jobs under way and check it. */
static int task_finish(struct member *m, unsigned int i)
{
	struct task t = m->tasks[i];
	int ret = aru_wait(t.req, WAIT_MS);

	if (ret) {
		say_error(m, &t, "wait", ret);
		task_done(m, &t, false);
		/* the kernel still has it, and its memory */
		if (ret == -ETIME || ret == -ENOTRECOVERABLE)
			return ret;
	} else {
		if (t.index == m->jobs->spoil)
			task_spoil(&t);
		task_done(m, &t, task_check(m, &t));
	}
	arena_give_back(t.arena, t.area);
	m->tasks[i] = m->tasks[--m->n_tasks];
	return ret;
}

static int task_finish_any(struct member *m)
{
	return task_finish(m, random_below(&m->random, m->n_tasks));
}

static int task_start(struct member *m, uint64_t index)
{
	struct task *t = &m->tasks[m->n_tasks];
	struct allreduce_call call;
	void *unneeded;
	int ret;

	memset(t, 0, sizeof(*t));
	t->index = index;
	t->job = jobs_job(m->jobs, index);
	t->choice = choose(m->jobs, index, m->env->rank);
	while (task_place(m, t)) {
		/* a job alone always has room: arenas are made so large */
		if (!m->n_tasks)
			return -ENOSPC;
		ret = task_finish_any(m);
		if (ret)
			return ret;
		/* the slot is another one now */
		m->tasks[m->n_tasks] = *t;
		t = &m->tasks[m->n_tasks];
	}
	if (t->src_bytes)
		reference_fill(&t->job, m->env->rank, t->src);
	if (t->choice.late_us)
		usleep(t->choice.late_us);

	unneeded = has_data(t->job.collective) ? t->choice.unneeded : NULL;
	aru_call_init(&call, t->job.collective, t->src_bytes ? t->src : unneeded,
		      t->dst_bytes ? t->dst : unneeded, t->job.count, t->job.type,
		      t->job.op);
	call.root = t->job.root;
	call.factor = reference_factor(&t->job, m->env->rank);
	ret = aru_icall(m->env->aru, &call, &t->req);
	if (ret) {
		say_error(m, t, "call", ret);
		task_done(m, t, false);
		arena_give_back(t->arena, t->area);
		return ret;
	}
	m->n_tasks++;
	return 0;
}

static int member_open(struct member *m, struct env_member *env)
{
	struct jobs *jobs = env->arg;
	/* two buffers of the largest elements, out of place */
	size_t bytes = 2 * jobs->elements_max * sizeof(uint64_t) + 8 * PAGE;
	struct iovec iov;
	int ret;

	memset(m, 0, sizeof(*m));
	m->jobs = jobs;
	m->env = env;
	m->random = jobs_state(jobs->seed + env->rank, jobs->first);
	m->tasks = calloc(JOBS_WINDOW_MAX + 1, sizeof(*m->tasks));
	if (!m->tasks)
		return -ENOMEM;
	ret = arena_open(&m->plain, bytes, jobs->huge_pages);
	if (!ret)
		ret = arena_open(&m->registered, bytes, jobs->huge_pages);
	if (ret)
		return ret;
	iov.iov_base = m->registered.base;
	iov.iov_len = m->registered.bytes;
	ret = aru_register_buffers(env->aru, &iov, 1);
	if (ret)
		printf("# rank %u: cannot register %zu bytes: %s\n", env->rank,
		       iov.iov_len, aru_strerror(ret));
	return ret;
}

/* Waits for all that is still under way, whatever the result. */
static int member_drain(struct member *m)
{
	int err = 0, ret;

	while (m->n_tasks) {
		ret = task_finish_any(m);
		err = err ? err : ret;
		if (ret == -ETIME || ret == -ENOTRECOVERABLE)
			break;
	}
	return err;
}

static void member_close(struct member *m)
{
	/* memory that the kernel may still write to stays */
	if (m->n_tasks)
		return;
	if (m->registered.base)
		aru_unregister_buffers(m->env->aru);
	arena_close(&m->plain);
	arena_close(&m->registered);
	free(m->tasks);
}

int jobs_run(struct env_member *env)
{
	struct jobs *jobs = env->arg;
	struct member m;
	uint64_t i;
	int ret, end;

	ret = member_open(&m, env);
	for (i = 0; !ret && i < jobs->count; i++) {
		if (m.n_tasks == jobs->window[env->rank])
			ret = task_finish_any(&m);
		if (!ret)
			ret = task_start(&m, jobs->first + i);
		if (!ret && !env->rank && jobs->tell)
			jobs->tell(jobs, i + 1);
	}
	end = member_drain(&m);
	member_close(&m);
	return ret ? ret : end;
}

bool jobs_passed(const struct jobs *jobs, uint64_t index)
{
	return atomic_load(&jobs->passed[index - jobs->first]) == jobs->config.size;
}
