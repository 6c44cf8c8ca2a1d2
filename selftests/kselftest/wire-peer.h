/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The neighbours of a member, played by a program: rank 0 of a ring of three is
 * the kernel's, ranks 1 and 2 are here, as far as rank 0 hears of them.
 *
 *      n0: rank 0, the module              n1: ranks 1 and 2, this program
 *
 *      lane 0, to next   ----------->      rank 1: listener, then "in"
 *      listener, prev    <-----------      rank 2: "out"
 */
#ifndef WIRE_PEER_H
#define WIRE_PEER_H

#include "frame.h"
#include "partition.h"
#include "submit.h"

#define SIZE		3
#define FRAME_MAX	4096
/* Every chunk has two frames, in every collective but barrier. */
#define FRAMES		2
#define CHUNK_BYTES	(FRAMES * FRAME_MAX)
#define CHUNK_COUNT	(CHUNK_BYTES / 4)
/* An allreduce of one chunk takes the gather path, one of three the ring's. */
#define GATHER_MAX	CHUNK_BYTES
#define COUNT_MAX	(SIZE * CHUNK_COUNT)
#define TIMEOUT_MS	1500
/*
 * jiffies, by which the kernel measures, can lag behind while a virtual CPU is not
 * run, and so make a time shorter that begins then.
 */
#define EARLIEST_MS(ms)	((ms) * 2 / 3)
/* On a quiet machine a second is enough. */
#define SLACK_MS	4000
/* Beyond any time-out that is tested, and short of the test's own. */
#define PATIENCE_MS	8000

#define KERNEL_ADDR	"10.88.0.1"
#define NEXT_ADDR	"10.88.0.2"
#define PREV_ADDR	"10.88.0.98"

/* ---- what is said ----------------------------------------------------------- */

/**
 * struct turn - frames of one phase of a chunk
 * @phase: enum ar_phase
 * @chunk: the chunk
 * @parts: ranks whose contributions are summed in the payload, as bits
 * @after: of what the peer says: not before these turns of the kernel's, as bits
 */
struct turn {
	unsigned char phase;
	unsigned char chunk;
	unsigned char parts;
	unsigned char after;
};

#define TURNS_MAX	4

/**
 * struct play - a job as rank 0 hears and sends it
 * @collective: enum allreduce_collective
 * @root: of the call
 * @count: of the call
 * @split: chunk c's values are those of the elements from c * CHUNK_COUNT on
 * @in: what comes to rank 0, in this order
 * @out: what rank 0 sends, in any order
 */
struct play {
	unsigned char collective;
	unsigned char root;
	unsigned int count;
	bool split;
	struct turn in[TURNS_MAX];
	struct turn out[TURNS_MAX];
};

enum {
	PLAY_ALLREDUCE,		/* on the ring path */
	PLAY_GATHER_PATH,
	PLAY_REDUCE_SCATTER,
	PLAY_ALLGATHER,
	PLAY_BROADCAST_0,	/* from rank 0 */
	PLAY_BROADCAST_1,
	PLAY_BROADCAST_2,
	PLAY_REDUCE_0,		/* to rank 0 */
	PLAY_REDUCE_1,
	PLAY_REDUCE_2,
	PLAY_BARRIER,
	PLAYS,
};

extern const struct play plays[PLAYS];

struct frame {
	struct ar_frame_hdr hdr;
	int32_t data[FRAME_MAX / 4];
	/* Room for a length that lies. */
	int32_t more[FRAME_MAX / 4];
};

/* Frames of the peer in @play, and those of the kernel. */
unsigned int play_frames_in(const struct play *play);
unsigned int play_frames_out(const struct play *play);

/* How many of the peer's, from the first on, need not wait for the kernel's. */
unsigned int play_frames_at_once(const struct play *play);

/* The peer's frame @number of @play, as job @job. Its length with the header. */
size_t frame_init(struct frame *frame, const struct play *play, uint64_t job,
		  unsigned int number);

void hello_init(struct ar_hello *hello);
void welcome_init(struct ar_welcome *welcome);

/* ---- sockets ------------------------------------------------------------------ */

bool send_all(int fd, const void *data, size_t len);

/* Give the peer's host an address that it may have already. 0 or a status. */
int peer_add_addr(const char *addr);

/* A connection to the kernel's listener from @from; -1 if it is refused. */
int peer_connect(const char *from);

/* True if the other side closes or resets the connection within @ms. */
bool is_closed(int fd, int ms);

/* Close with a reset. */
void reset(int fd);

/* ---- the ring and its peer ---------------------------------------------------- */

/* What became of a HELLO: a refusal's number, or: */
#define DROPPED		(-1)		/* closed without an answer */

struct wire {
	struct aru_nl *nl;
	struct io_uring uring;
	int fd;
	struct vector src;
	struct vector dst;
	long long pinned;
	unsigned int gather_max;
	int listener;
	int in;			/* from the kernel's lane */
	int out;		/* to it */
	unsigned int got[TURNS_MAX];	/* the kernel's frames of this job */
};

/* Everything but the ring. 0 or -1. */
int wire_open(struct wire *w);
void wire_close(struct wire *w);

/* A new ring, down, with its file attached; 0 or an error. Its end. */
int wire_begin(struct wire *w);
void wire_end(struct wire *w);

/* Tell the kernel to come up. */
int wire_up(struct wire *w);

/* Take the kernel's connection and greet it: 0 or -1. */
int wire_accept(struct wire *w, const void *welcome, size_t len);
int wire_accept_honestly(struct wire *w);

/* Connect and greet: 0, a refusal, or DROPPED. */
int wire_connect(struct wire *w, const char *from, const struct ar_hello *hello);
int wire_connect_honestly(struct wire *w);
int read_welcome(int fd);

/* From down to up, honestly. 0 or -1. */
int wire_join(struct wire *w);

void wire_hang_up(int *fd);

struct aru_ring wire_look(struct wire *w);
bool wire_wait_state(struct wire *w, unsigned int state, unsigned int ms);
bool wire_wait_reason(struct wire *w, const char *text);

/* ---- jobs --------------------------------------------------------------------- */

/* Submit the kernel's call, after clearing the result. 0 or -1. */
int wire_submit(struct wire *w, const struct play *play);

bool send_honest(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number);

/* The kernel's frames up to the last of @turns (bits); of others some may come. */
bool recv_turns(struct wire *w, const struct play *play, uint64_t job,
		unsigned int turns);
#define ALL_TURNS	((1U << TURNS_MAX) - 1)

/* What the peer's frame @number has to wait for. */
bool recv_before(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number);

/*
 * Honest up to frame @number, not including it, but with everything that it has
 * to wait for. 0 or the step that failed.
 */
int honest_until(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number);

/* A job, honestly, from its submission to its result; 0 or the step that failed. */
int exchange(struct wire *w, const struct play *play, uint64_t job);

/* Elements of the result that are not as they have to be, touched ones too. */
unsigned int wrong_result(const struct wire *w, const struct play *play);

#endif /* WIRE_PEER_H */
