// SPDX-License-Identifier: GPL-2.0
/*
 * fpu-load - a user of floating point whose registers must stay its own.
 *
 * Usage: fpu-load [-d PERCENT] [-t SECONDS]
 *   -d  part of each CPU's time that it asks for, at the lowest priority
 *       (default 25)
 *   -t  how long; without it until SIGTERM or SIGINT
 *
 * One process a CPU keeps known values in all x87, SSE, AVX and AVX-512
 * registers that the CPU has, and control words that are not the default, while
 * it is preempted and interrupted, and repeats computations whose bits it knows.
 * Code of the kernel that uses such a register without kernel_fpu_begin(), or
 * lets go of it wrongly, shows here. Exit status 0: nothing was ever different;
 * 1: something was, or a CPU had no turn, or, in PREEMPTED_NS and more, nothing ever
 * preempted it, so that it can't have noticed anything; 2: wrong usage.
 */
#include <cpuid.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/random.h"

#define HOLD_NS		2000000		/* registers loaded, at a time */
#define HOLDS		4		/* in a turn */
#define CPUS_MAX	256
#define PREEMPTED_NS	5000000000ULL

enum level { SSE, AVX, AVX512 };

static const char *const level_names[] = { "sse", "avx", "avx512" };

/* The registers, as the loops below load and store them. */
struct registers {
	uint8_t vector[32][64];
	uint8_t x87[8][16];
	uint64_t mask[8];
	uint32_t mxcsr;
	uint16_t fcw;
} __attribute__((aligned(64)));

/* What the processes tell the first one. */
struct shared {
	struct {
		uint64_t rounds;
		uint64_t preempted;
	} cpu[CPUS_MAX];
	char text[512];
};

static struct shared *shared;
static atomic_bool stopped;		/* lock-free: a signal handler may set it */
static enum level level;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ---- registers that are held ------------------------------------------- */

/* .irp is the assembler's loop: \r is each number in turn. */
#define ALL_8	"0,1,2,3,4,5,6,7"
#define ALL_16	ALL_8 ",8,9,10,11,12,13,14,15"
#define ALL_32	ALL_16 ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"

/*
 * One block of assembly from the first load to the last store, so that no code
 * of the compiler's or the library's touches a register in between. The stack
 * of the x87 is empty before and after it.
 */
#define DEFINE_HOLD(name, load, store, end) \
static void hold_##name(const struct registers *in, struct registers *out, \
			uint64_t spins) \
{ \
	uint32_t mxcsr; \
	uint16_t fcw; \
\
	asm volatile("stmxcsr %[mxcsr]\n" \
		     "fnstcw %[fcw]\n" \
		     ".irp r," ALL_8 "\n" \
		     "fldt %c[x87]+16*\\r(%[in])\n" \
		     ".endr\n" \
		     load \
		     "ldmxcsr %c[csr](%[in])\n" \
		     "fldcw %c[cw](%[in])\n" \
		     "1: subq $1, %[spins]\n" \
		     "jnz 1b\n" \
		     "fnstcw %c[cw](%[out])\n" \
		     "stmxcsr %c[csr](%[out])\n" \
		     store \
		     ".irp r,7,6,5,4,3,2,1,0\n" \
		     "fstpt %c[x87]+16*\\r(%[out])\n" \
		     ".endr\n" \
		     end \
		     "fldcw %[fcw]\n" \
		     "ldmxcsr %[mxcsr]\n" \
		     : [spins] "+&r" (spins), [mxcsr] "=m" (mxcsr), [fcw] "=m" (fcw) \
		     : [in] "r" (in), [out] "r" (out), \
		       [x87] "i" (offsetof(struct registers, x87)), \
		       [k] "i" (offsetof(struct registers, mask)), \
		       [csr] "i" (offsetof(struct registers, mxcsr)), \
		       [cw] "i" (offsetof(struct registers, fcw)) \
		     : "memory", "cc", \
		       "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", \
		       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
		       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", \
		       "xmm15"); \
}

#define EACH(registers, insn)	".irp r," registers "\n" insn "\n.endr\n"

DEFINE_HOLD(sse,
	    EACH(ALL_16, "movups 64*\\r(%[in]), %%xmm\\r"),
	    EACH(ALL_16, "movups %%xmm\\r, 64*\\r(%[out])"),
	    "")
DEFINE_HOLD(avx,
	    EACH(ALL_16, "vmovups 64*\\r(%[in]), %%ymm\\r"),
	    EACH(ALL_16, "vmovups %%ymm\\r, 64*\\r(%[out])"),
	    "vzeroupper\n")
DEFINE_HOLD(avx512,
	    EACH(ALL_32, "vmovups 64*\\r(%[in]), %%zmm\\r")
	    EACH(ALL_8, "kmovw %c[k]+8*\\r(%[in]), %%k\\r"),
	    EACH(ALL_32, "vmovups %%zmm\\r, 64*\\r(%[out])")
	    EACH(ALL_8, "kmovw %%k\\r, %c[k]+8*\\r(%[out])"),
	    "vzeroupper\n")

static const struct {
	void (*hold)(const struct registers *in, struct registers *out,
		     uint64_t spins);
	int vectors;
	int vector_bytes;
	int masks;
} levels[] = {
	[SSE] = { hold_sse, 16, 16, 0 },
	[AVX] = { hold_avx, 16, 32, 0 },
	[AVX512] = { hold_avx512, 32, 64, 8 },
};

/* Control words: all exceptions masked, the rest by @random. */
#define MXCSR_MASKED	0x1f80
#define MXCSR_DAZ	0x0040
#define MXCSR_FTZ	0x8000
#define MXCSR_ROUND(r)	((r) << 13)
#define FCW_MASKED	0x007f
#define FCW_ROUND(r)	((r) << 10)
#define FCW_DOUBLE	0x0200

static uint32_t mxcsr_of(uint64_t random)
{
	uint32_t round = 1 + random % 3;

	return MXCSR_MASKED | MXCSR_ROUND(round) |
	       (random & 4 ? MXCSR_FTZ : 0) | (random & 8 ? MXCSR_DAZ : 0);
}

/* Not normal numbers alone: any bits must survive. */
static void registers_fill(struct registers *r, uint64_t *state)
{
	uint64_t word;
	size_t i, j;

	memset(r, 0, sizeof(*r));
	for (i = 0; i < sizeof(r->vector); i += sizeof(word)) {
		word = random_u64(state);
		memcpy((uint8_t *)r->vector + i, &word, sizeof(word));
	}
	for (i = 0; i < 8; i++) {
		/* a normal long double: loading anything else could change it */
		word = random_u64(state) | 1ULL << 63;
		memcpy(r->x87[i], &word, sizeof(word));
		r->x87[i][8] = random_u64(state);
		r->x87[i][9] = 0x3f | (i & 1) << 7;
	}
	for (j = 0; j < 8; j++)
		r->mask[j] = random_u64(state) & 0xffff;
	r->mxcsr = mxcsr_of(random_u64(state));
	r->fcw = FCW_MASKED | FCW_DOUBLE | FCW_ROUND(1 + (random_u64(state) & 1));
}

static void hex(char *text, size_t size, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	size_t i;

	for (i = 0; i < bytes && 2 * i + 2 < size; i++)
		snprintf(text + 2 * i, size - 2 * i, "%02x", p[bytes - 1 - i]);
}

/* True if @got is @want; else says so for all to read, if nobody did before. */
static bool same(const char *what, int index, const void *want, const void *got,
		 size_t bytes)
{
	char name[32], was[129], is[129];

	if (!memcmp(want, got, bytes))
		return true;
	snprintf(name, sizeof(name), index < 0 ? "%s" : "%s%d", what, index);
	hex(was, sizeof(was), want, bytes);
	hex(is, sizeof(is), got, bytes);
	if (!shared->text[0])
		snprintf(shared->text, sizeof(shared->text),
			 "CPU %d: %s was %s, is %s", sched_getcpu(), name, was, is);
	return false;
}

static bool registers_same(const struct registers *want, const struct registers *got)
{
	static const char *const names[] = { "xmm", "ymm", "zmm" };
	bool ok = true;
	int i;

	for (i = 0; i < levels[level].vectors; i++)
		ok &= same(names[level], i, want->vector[i], got->vector[i],
			   levels[level].vector_bytes);
	for (i = 0; i < 8; i++)
		ok &= same("st", 7 - i, want->x87[i], got->x87[i], 10);
	for (i = 0; i < levels[level].masks; i++)
		ok &= same("k", i, &want->mask[i], &got->mask[i], 2);
	ok &= same("mxcsr", -1, &want->mxcsr, &got->mxcsr, sizeof(want->mxcsr));
	ok &= same("x87 control word", -1, &want->fcw, &got->fcw, sizeof(want->fcw));
	return ok;
}

/* Of this process; the least of some, since a machine can be busy or emulated. */
static uint64_t time_of(const struct registers *in, struct registers *out,
			uint64_t spins)
{
	uint64_t least = UINT64_MAX, start, took;
	int i;

	for (i = 0; i < 5; i++) {
		start = now_ns(CLOCK_THREAD_CPUTIME_ID);
		levels[level].hold(in, out, spins);
		took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
		least = took < least ? took : least;
	}
	return least;
}

/* Passes of the empty loop that take at least HOLD_NS. */
static uint64_t calibrate(void)
{
	static struct registers in, out;
	uint64_t state = 1, spins = 1000;

	registers_fill(&in, &state);
	while (time_of(&in, &out, spins) < HOLD_NS && spins < 1ULL << 32)
		spins *= 2;
	return spins;
}

/* ---- computations that are repeated ------------------------------------- */

/*
 * Chaotic maps: one wrong bit, or one rounding in another direction, changes
 * all that follows. Many variables, so that most registers are in use.
 */
#define LANES	8
#define STEPS	400

#define ITERATE(x, r) do { \
	int step, lane; \
\
	for (step = 0; step < STEPS; step++) \
		for (lane = 0; lane < LANES; lane++) \
			(x)[lane] = (r) * (x)[lane] * (1 - (x)[lane]); \
} while (0)

typedef double v4df __attribute__((vector_size(32)));
typedef float v4sf __attribute__((vector_size(16)));

struct results {
	long double x87[LANES];
	v4sf sse[LANES];
	v4df avx[LANES];
};

/* Calls, so that the compiler can't move them across changes of MXCSR. */
static __attribute__((target("avx"), noinline)) void run_avx(struct results *results)
{
	const v4df r = { 3.71, 3.83, 3.91, 3.99 };
	int i;

	for (i = 0; i < LANES; i++)
		results->avx[i] = (v4df){ 0.1, 0.2, 0.3, 0.4 } + 0.05 * i;
	ITERATE(results->avx, r);
}

static __attribute__((noinline)) void run_others(struct results *results)
{
	const v4sf r = { 3.71f, 3.83f, 3.91f, 3.99f };
	int i;

	for (i = 0; i < LANES; i++) {
		results->sse[i] = (v4sf){ 0.1f, 0.2f, 0.3f, 0.4f } + 0.05f * i;
		results->x87[i] = 0.1L + 0.1L * i;
	}
	ITERATE(results->sse, r);
	ITERATE(results->x87, 3.87L);
}

/* Round up, whatever the default: the control word is part of what is tested. */
static void compute(struct results *results)
{
	uint32_t normal = __builtin_ia32_stmxcsr();

	memset(results, 0, sizeof(*results));
	__builtin_ia32_ldmxcsr(MXCSR_MASKED | MXCSR_ROUND(2));
	if (level >= AVX)
		run_avx(results);
	run_others(results);
	__builtin_ia32_ldmxcsr(normal);
}

static bool results_same(const struct results *want, const struct results *got)
{
	bool ok = true;
	int i;

	for (i = 0; i < LANES; i++) {
		ok &= same("avx result ", i, &want->avx[i], &got->avx[i], sizeof(want->avx[i]));
		ok &= same("sse result ", i, &want->sse[i], &got->sse[i], sizeof(want->sse[i]));
		ok &= same("x87 result ", i, &want->x87[i], &got->x87[i], 10);
	}
	return ok;
}

/* ---- processes ----------------------------------------------------------- */

static enum level cpu_level(void)
{
	unsigned int a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return SSE;
	/* what the kernel saves: SSE and YMM, opmask and both parts of ZMM */
	asm("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
	if ((low & 0x6) != 0x6)
		return SSE;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX512F) ||
	    (low & 0xe0) != 0xe0)
		return AVX;
	return AVX512;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&ts, NULL);
}

static bool turn(uint64_t *state, uint64_t spins, const struct results *want)
{
	static struct registers in, out;
	static struct results got;
	int i;

	for (i = 0; i < HOLDS; i++) {
		registers_fill(&in, state);
		memset(&out, 0, sizeof(out));
		levels[level].hold(&in, &out, spins);
		if (!registers_same(&in, &out))
			return false;
	}
	compute(&got);
	return results_same(want, &got);
}

static int run_on(int cpu, unsigned int duty)
{
	static struct results want;
	uint64_t state = cpu + 1, spins, start, took;
	struct rusage usage;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		snprintf(shared->text, sizeof(shared->text), "CPU %d: %s", cpu,
			 strerror(errno));
		return 1;
	}
	if (setpriority(PRIO_PROCESS, 0, 19))
		return 1;
	spins = calibrate();
	compute(&want);
	do {
		start = now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (!turn(&state, spins, &want))
			return 1;
		took = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
		shared->cpu[cpu].rounds++;
		if (!stopped)
			sleep_ns(took * (100 - duty) / duty);
	} while (!stopped);
	getrusage(RUSAGE_SELF, &usage);
	shared->cpu[cpu].preempted = usage.ru_nivcsw;
	return 0;
}

static pid_t start_on(int cpu, unsigned int duty)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	/* nobody would be left to stop it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(run_on(cpu, duty));
}

static int wrong_usage(void)
{
	fprintf(stderr, "usage: fpu-load [-d PERCENT] [-t SECONDS]\n"
		"PERCENT: 1 to 100, SECONDS: 1 to 86400\n");
	return 2;
}

static int number(const char *text, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || end == text || value < 1 || value > max ? -1 : value;
}

static void stop_children(const pid_t *pids, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGTERM);
}

/* The first bad status, else 0. */
static int wait_for(pid_t *pids, int n)
{
	int left = n, bad = 0, status, i;
	bool told = false;
	pid_t pid;

	while (left) {
		if (stopped && !told) {
			stop_children(pids, n);
			told = true;
		}
		/* a signal that comes right before this is seen after 100 ms */
		pid = waitpid(-1, &status, WNOHANG);
		if (!pid) {
			sleep_ns(100000000);
			continue;
		}
		if (pid < 0) {
			if (errno == EINTR)
				continue;
			return 1;
		}
		for (i = 0; i < n; i++)
			if (pids[i] == pid)
				pids[i] = 0;
		left--;
		if (status) {
			bad = bad ? bad : status;
			stopped = 1;
		}
	}
	return bad;
}

static int report(int status, const int *cpus, int n, uint64_t ran_ns)
{
	uint64_t rounds = 0, preempted = 0;
	int i;

	if (WIFSIGNALED(status)) {
		printf("fpu-load: a process was killed by signal %d\n", WTERMSIG(status));
		return 1;
	}
	if (status || shared->text[0]) {
		printf("fpu-load: %s\n", shared->text[0] ? shared->text : "failed");
		return 1;
	}
	for (i = 0; i < n; i++) {
		if (!shared->cpu[cpus[i]].rounds) {
			printf("fpu-load: CPU %d had no turn\n", cpus[i]);
			return 1;
		}
		rounds += shared->cpu[cpus[i]].rounds;
		preempted += shared->cpu[cpus[i]].preempted;
	}
	if (!preempted && ran_ns >= PREEMPTED_NS) {
		printf("fpu-load: never preempted in %llu s\n",
		       (unsigned long long)ran_ns / 1000000000);
		return 1;
	}
	printf("fpu-load: %s registers and computations, %d CPUs, ", level_names[level], n);
	printf("%llu rounds, %llu times preempted, no difference\n",
	       (unsigned long long)rounds, (unsigned long long)preempted);
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	int duty = 25, seconds = 0, n = 0, cpu, opt;
	static int cpus[CPUS_MAX];
	static pid_t pids[CPUS_MAX];
	uint64_t start;
	cpu_set_t set;
	int status;

	while ((opt = getopt(argc, argv, "d:t:")) != -1) {
		if (opt == 'd')
			duty = number(optarg, 100);
		else if (opt == 't')
			seconds = number(optarg, 86400);
		else
			return wrong_usage();
		if (duty < 0 || seconds < 0)
			return wrong_usage();
	}
	if (optind != argc)
		return wrong_usage();

	level = cpu_level();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || sched_getaffinity(0, sizeof(set), &set)) {
		perror("fpu-load");
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	start = now_ns(CLOCK_MONOTONIC);
	for (cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		pids[n] = start_on(cpu, duty);
		if (pids[n] < 0) {
			perror("fpu-load: fork");
			stop_children(pids, n);
			return 1;
		}
		cpus[n++] = cpu;
	}
	alarm(seconds);
	status = wait_for(pids, n);
	return report(status, cpus, n, now_ns(CLOCK_MONOTONIC) - start);
}
