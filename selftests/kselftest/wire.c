// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol, spoken by a program: rank 0 of a ring of two is the kernel's,
 * rank 1 is here, both its next and its prev. First it is honest, which shows
 * that it knows the protocol; then it lies, once in each test.
 *
 *      n0: rank 0, the module              n1: rank 1, this program
 *
 *      lane 0, to next   ----------->      listener, then "in"
 *      listener, prev    <-----------      "out"
 *
 * Whatever is sent, the ring must break with the right error in bounded time,
 * the job must end with it, and nothing but the vectors may be written or kept.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "frame.h"
#include "partition.h"
#include "submit.h"
#include "kselftest_harness.h"

#define FRAME_MAX	4096
#define FRAMES		2			/* of each of the two chunks */
#define CHUNK_BYTES	(FRAMES * FRAME_MAX)
#define CHUNK_COUNT	(CHUNK_BYTES / 4)
#define COUNT		(2 * CHUNK_COUNT)
#define TIMEOUT_MS	1500
/* On a quiet machine a second is enough. */
#define SLACK_MS	4000
#define KERNEL_ADDR	"10.88.0.1"
#define PEER_ADDR	"10.88.0.2"
/* Beyond any time-out that is tested, and short of the test's own. */
#define PATIENCE_MS	8000

static const uint8_t ring_id[ALLREDUCE_ID_SIZE + 1] = "wire-test-ringid";

/* ---- sockets -------------------------------------------------------------- */

static struct sockaddr_in addr_of(const char *text, unsigned short port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &sin.sin_addr) != 1)
		abort();
	return sin;
}

/* Sockets belong to the peer's namespace; nothing else here does. */
static int peer_socket(void)
{
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int one = 1, fd;

	if (env_enter(1))
		abort();
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (env_enter(0) || fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)))
		abort();
	return fd;
}

static int peer_listen(void)
{
	struct sockaddr_in sin = addr_of(PEER_ADDR, ALLREDUCE_PORT_DEFAULT);
	int fd = peer_socket();

	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 16))
		abort();
	return fd;
}

/* A connection to the kernel's listener; -1 if it is refused. */
static int peer_connect(const char *from)
{
	struct sockaddr_in own = addr_of(from, 0);
	struct sockaddr_in sin = addr_of(KERNEL_ADDR, ALLREDUCE_PORT_DEFAULT);
	int fd = peer_socket();

	if (bind(fd, (struct sockaddr *)&own, sizeof(own)))
		abort();
	if (!connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
		return fd;
	close(fd);
	return -1;
}

static bool send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

static bool recv_all(int fd, void *data, size_t len)
{
	return recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

/* True if the other side closes or resets the connection within @ms. */
static bool is_closed(int fd, int ms)
{
	uint64_t end = env_now_ms() + ms;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char junk[4096];
	ssize_t n;

	do {
		if (poll(&pfd, 1, end - env_now_ms()) <= 0)
			return false;
		n = recv(fd, junk, sizeof(junk), MSG_DONTWAIT);
	} while (n > 0 && env_now_ms() < end);
	return n <= 0;
}

/* Close with a reset. */
static void reset(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

/* ---- greetings ------------------------------------------------------------ */

static uint64_t members_digest(void)
{
	static const char * const addrs[] = { KERNEL_ADDR, PEER_ADDR };
	uint64_t digest = AR_DIGEST64_INIT;
	int i;

	for (i = 0; i < 2; i++) {
		struct sockaddr_in sin = addr_of(addrs[i], ALLREDUCE_PORT_DEFAULT);

		digest = ar_digest64(digest, &sin.sin_addr, 4);
		digest = ar_digest64(digest, &sin.sin_port, 2);
	}
	return digest;
}

static void hello_init(struct ar_hello *hello)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = cpu_to_le64(AR_HELLO_MAGIC);
	hello->version = cpu_to_le16(AR_PROTOCOL_VERSION);
	hello->bytes = cpu_to_le16(sizeof(*hello));
	hello->byte_order = AR_BYTE_ORDER;
	memcpy(hello->ring_id, ring_id, sizeof(hello->ring_id));
	hello->rank = cpu_to_le32(1);
	hello->to_rank = cpu_to_le32(0);
	hello->size = cpu_to_le32(2);
	hello->lane = cpu_to_le32(0);
	hello->lanes = cpu_to_le32(1);
	hello->frame_max = cpu_to_le32(FRAME_MAX);
	hello->members_digest = cpu_to_le64(members_digest());
}

static void welcome_init(struct ar_welcome *welcome)
{
	memset(welcome, 0, sizeof(*welcome));
	welcome->magic = cpu_to_le64(AR_WELCOME_MAGIC);
	welcome->version = cpu_to_le16(AR_PROTOCOL_VERSION);
	welcome->bytes = cpu_to_le16(sizeof(*welcome));
}

/* What became of a HELLO: a refusal's number, or: */
#define DROPPED		(-1)		/* closed without an answer */

static int read_welcome(int fd)
{
	struct ar_welcome welcome;

	if (!recv_all(fd, &welcome, sizeof(welcome)))
		return DROPPED;
	if (le64_to_cpu(welcome.magic) != AR_WELCOME_MAGIC ||
	    le16_to_cpu(welcome.bytes) != sizeof(welcome))
		abort();
	return le32_to_cpu(welcome.refusal);
}

/* ---- the ring and its peer ------------------------------------------------ */

struct wire {
	struct aru_nl *nl;
	struct io_uring uring;
	int fd;
	struct vector src;
	struct vector dst;
	long long pinned;
	int listener;
	int in;			/* from the kernel's lane */
	int out;		/* to it */
	int32_t chunk[2][CHUNK_COUNT];	/* what came: injected, and final */
	unsigned int got[2];		/* frames of them, of this job */
};

static int wire_add(struct wire *w)
{
	struct aru_member members[2];
	struct aru_ring_config config = {
		.sz = sizeof(config), .name = ENV_RING, .has_id = true,
		.members = members, .n_members = 2, .lanes = 1,
		.frame_max = FRAME_MAX, .timeout_ms = TIMEOUT_MS,
	};

	memcpy(config.id, ring_id, sizeof(config.id));
	if (aru_members_parse(KERNEL_ADDR "," PEER_ADDR, members, 2, NULL, 0) != 2)
		abort();
	return aru_ring_add(w->nl, &config);
}

static int wire_open(struct wire *w)
{
	memset(w, 0, sizeof(*w));
	w->fd = -1;
	w->in = -1;
	w->out = -1;
	if (env_namespaces() || env_enter(0) || aru_nl_open(&w->nl))
		return -1;
	/* Of a test that did not get as far as to its end. */
	aru_ring_del(w->nl, ENV_RING);
	w->listener = peer_listen();
	vector_alloc(&w->src, COUNT);
	vector_alloc(&w->dst, COUNT);
	vector_fill(&w->src, 0);
	w->pinned = pinned_pages();
	return io_uring_queue_init(8, &w->uring, IORING_SETUP_SQE128);
}

/* A new ring, down; its file. */
static int wire_begin(struct wire *w)
{
	int ret = wire_add(w);

	if (ret)
		return ret;
	w->fd = aru_open_device();
	if (w->fd < 0)
		return w->fd;
	return submit_attach(&w->uring, w->fd, ENV_RING);
}

static int wire_up(struct wire *w)
{
	ARU_OPTS(aru_ring_up_opts, opts);

	opts.nowait = true;
	opts.connect_timeout_ms = 2 * PATIENCE_MS;
	return aru_ring_up(w->nl, ENV_RING, &opts);
}

static struct aru_ring wire_look(struct wire *w)
{
	struct aru_ring *ring, copy;

	if (aru_ring_get(w->nl, ENV_RING, &ring))
		abort();
	copy = *ring;
	aru_ring_free(ring);
	return copy;
}

static bool wire_wait_state(struct wire *w, unsigned int state, unsigned int ms)
{
	uint64_t end = env_now_ms() + ms;
	struct aru_ring ring;

	for (;;) {
		ring = wire_look(w);
		if (ring.state == state)
			return true;
		if (env_now_ms() > end) {
			fprintf(stderr, "# state %u, error %d: %s\n", ring.state,
				ring.error, ring.reason);
			return false;
		}
		usleep(2000);
	}
}

/* Take the kernel's connection and greet it: 0 or -1. */
static int wire_accept(struct wire *w, const void *welcome, size_t len)
{
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	struct pollfd pfd = { .fd = w->listener, .events = POLLIN };
	struct ar_hello hello, expected;

	if (poll(&pfd, 1, PATIENCE_MS) != 1)
		return -1;
	w->in = accept(w->listener, NULL, NULL);
	if (w->in < 0)
		return -1;
	setsockopt(w->in, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!recv_all(w->in, &hello, sizeof(hello)))
		return -1;
	/* Its HELLO is what ours would be, from the other end. */
	hello_init(&expected);
	expected.rank = cpu_to_le32(0);
	expected.to_rank = cpu_to_le32(1);
	if (memcmp(&hello, &expected, sizeof(hello)))
		return -1;
	return send_all(w->in, welcome, len) ? 0 : -1;
}

static int wire_accept_honestly(struct wire *w)
{
	struct ar_welcome welcome;

	welcome_init(&welcome);
	return wire_accept(w, &welcome, sizeof(welcome));
}

/* Connect and greet: 0, a refusal, or DROPPED. */
static int wire_connect(struct wire *w, const char *from, const struct ar_hello *hello)
{
	w->out = peer_connect(from);
	if (w->out < 0 || !send_all(w->out, hello, sizeof(*hello)))
		return DROPPED;
	return read_welcome(w->out);
}

static int wire_connect_honestly(struct wire *w)
{
	struct ar_hello hello;

	hello_init(&hello);
	return wire_connect(w, PEER_ADDR, &hello);
}

/* Down to up, honestly. */
static int wire_join(struct wire *w)
{
	if (wire_up(w) || wire_accept_honestly(w) || wire_connect_honestly(w))
		return -1;
	return wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS) ? 0 : -1;
}

static void wire_hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void wire_end(struct wire *w)
{
	wire_hang_up(&w->in);
	wire_hang_up(&w->out);
	wire_hang_up(&w->fd);
	aru_ring_del(w->nl, ENV_RING);
}

static void wire_close(struct wire *w)
{
	wire_end(w);
	io_uring_queue_exit(&w->uring);
	close(w->listener);
	vector_free(&w->src);
	vector_free(&w->dst);
	aru_nl_close(w->nl);
}

/* ---- jobs ----------------------------------------------------------------- */

static int wire_submit(struct wire *w)
{
	memset(w->dst.data, 0, COUNT * 4);
	memset(w->got, 0, sizeof(w->got));
	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, w->src.data, w->dst.data,
			   COUNT, ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	return io_uring_submit(&w->uring) == 1 ? 0 : -1;
}

struct frame {
	struct ar_frame_hdr hdr;
	int32_t data[FRAME_MAX / 4];
	/* Room for a length that lies. */
	int32_t more[FRAME_MAX / 4];
};

/* The peer's four frames of a job, in the order in which it sends them. */
#define OWN		0	/* partial sums of chunk 1, which it injects */
#define FINAL		2	/* sums of chunk 0, which it completes */
#define ALL_FRAMES	4

static void frame_init(struct frame *frame, uint64_t job, unsigned int number)
{
	unsigned int chunk = number < FINAL;
	unsigned int part = number % FRAMES;
	unsigned int i;

	memset(frame, 0, sizeof(*frame));
	frame->hdr.magic = cpu_to_le16(AR_FRAME_MAGIC);
	frame->hdr.phase = number < FINAL ? AR_PHASE_REDUCE : AR_PHASE_FINAL;
	frame->hdr.len = cpu_to_le32(FRAME_MAX);
	frame->hdr.job = cpu_to_le64(job);
	frame->hdr.offset = cpu_to_le64(part * FRAME_MAX);
	frame->hdr.count = cpu_to_le64(COUNT);
	frame->hdr.chunk = cpu_to_le32(chunk);
	frame->hdr.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE;
	frame->hdr.type = ALLREDUCE_I32;
	frame->hdr.op = ALLREDUCE_SUM;
	for (i = 0; i < FRAME_MAX / 4; i++) {
		uint64_t element = chunk * CHUNK_COUNT + part * (FRAME_MAX / 4) + i;

		frame->data[i] = number < FINAL ? vector_part(1, element) :
				 vector_sum(2, element);
	}
}

static bool send_frame(struct wire *w, const struct frame *frame, size_t len)
{
	return send_all(w->out, frame, len);
}

#define FRAME_BYTES	(sizeof(struct ar_frame_hdr) + FRAME_MAX)

static bool send_honest(struct wire *w, uint64_t job, unsigned int number)
{
	struct frame frame;

	frame_init(&frame, job, number);
	return send_frame(w, &frame, FRAME_BYTES);
}

/* A frame from the kernel into w->chunk: all fields as they must be. */
static bool recv_frame(struct wire *w, uint64_t job)
{
	struct ar_frame_hdr hdr;
	struct frame expected;
	unsigned int chunk, part;

	if (!recv_all(w->in, &hdr, sizeof(hdr)))
		return false;
	chunk = hdr.phase == AR_PHASE_FINAL;
	part = w->got[chunk]++;
	if (part == FRAMES)
		return false;
	frame_init(&expected, job, part);
	expected.hdr.phase = chunk ? AR_PHASE_FINAL : AR_PHASE_REDUCE;
	expected.hdr.chunk = cpu_to_le32(chunk);
	return !memcmp(&hdr, &expected.hdr, sizeof(hdr)) &&
	       recv_all(w->in, (char *)w->chunk[chunk] + part * FRAME_MAX, FRAME_MAX);
}

/* All frames of one chunk; those of the other may come between. */
static bool recv_chunk(struct wire *w, uint64_t job, unsigned int phase)
{
	while (w->got[phase == AR_PHASE_FINAL] < FRAMES)
		if (!recv_frame(w, job))
			return false;
	return true;
}

/* Elements of what the kernel sent that are not as they have to be. */
static unsigned int wrong_chunks(struct wire *w)
{
	unsigned int i, n = 0;

	for (i = 0; i < CHUNK_COUNT; i++) {
		n += w->chunk[0][i] != vector_part(0, i);
		n += w->chunk[1][i] != vector_sum(2, CHUNK_COUNT + i);
	}
	return n;
}

/* One job, honestly; 0 or the step that failed. */
static int exchange(struct wire *w, uint64_t job)
{
	if (wire_submit(w))
		return 1;
	if (!send_honest(w, job, OWN) || !send_honest(w, job, OWN + 1))
		return 2;
	if (!recv_chunk(w, job, AR_PHASE_REDUCE))
		return 3;
	if (!send_honest(w, job, FINAL) || !send_honest(w, job, FINAL + 1))
		return 4;
	if (!recv_chunk(w, job, AR_PHASE_FINAL))
		return 5;
	if (submit_reap(&w->uring, PATIENCE_MS, NULL))
		return 6;
	if (wrong_chunks(w) || vector_wrong(&w->dst, 2))
		return 7;
	return vector_spoilt(&w->dst) || vector_changed(&w->src, 0) ? 8 : 0;
}

/* ---- honesty -------------------------------------------------------------- */

FIXTURE(peer)
{
	struct wire w;
};

FIXTURE_SETUP(peer)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(peer)
{
	wire_close(&self->w);
}

TEST_F(peer, is_honest)
{
	uint64_t job;

	for (job = 1; job <= 5; job++) {
		ASSERT_EQ(0, exchange(&self->w, job));
	}
	EXPECT_EQ(self->w.pinned, pinned_pages());
}

/* Byte by byte: every cut of headers and elements. */
TEST_F(peer, is_honest_in_small_pieces)
{
	struct wire *w = &self->w;
	static const size_t pieces[] = { 1, 3, 7, 61, 63, 64, 65, 1001 };
	struct frame frame;
	unsigned int number, i = 0;

	ASSERT_EQ(0, wire_submit(w));
	for (number = 0; number < ALL_FRAMES; number++) {
		size_t sent = 0;

		if (number == FINAL) {
			ASSERT_TRUE(recv_chunk(w, 1, AR_PHASE_REDUCE));
		}
		frame_init(&frame, 1, number);
		while (sent < FRAME_BYTES) {
			size_t n = pieces[i++ % (sizeof(pieces) / sizeof(pieces[0]))];

			n = n < FRAME_BYTES - sent ? n : FRAME_BYTES - sent;
			ASSERT_TRUE(send_all(w->out, (char *)&frame + sent, n));
			sent += n;
		}
	}
	ASSERT_TRUE(recv_chunk(w, 1, AR_PHASE_FINAL));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, wrong_chunks(w));
	EXPECT_EQ(0, vector_wrong(&w->dst, 2));
	EXPECT_EQ(0, vector_spoilt(&w->dst));
}

/* Frames that are early wait for the job, and the ring is not disturbed. */
TEST_F(peer, is_early)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_honest(w, 1, OWN));
	usleep(300000);
	ASSERT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	ASSERT_EQ(0, wire_submit(w));
	ASSERT_TRUE(send_honest(w, 1, OWN + 1));
	ASSERT_TRUE(recv_chunk(w, 1, AR_PHASE_REDUCE));
	ASSERT_TRUE(send_honest(w, 1, FINAL));
	ASSERT_TRUE(send_honest(w, 1, FINAL + 1));
	ASSERT_TRUE(recv_chunk(w, 1, AR_PHASE_FINAL));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, vector_wrong(&w->dst, 2));
}

/* ---- lies ----------------------------------------------------------------- */

/* What must hold once the ring is broken, apart from the error. */
static int check_aftermath(struct wire *w)
{
	if (!wire_wait_state(w, ALLREDUCE_RING_BROKEN, 3000))
		return 1;
	if (!wire_look(w).reason[0])
		return 2;
	if (w->in >= 0 && !is_closed(w->in, 3000))
		return 3;
	if (w->out >= 0 && !is_closed(w->out, 3000))
		return 4;
	if (vector_spoilt(&w->dst))
		return 5;
	if (vector_spoilt(&w->src) || vector_changed(&w->src, 0))
		return 6;
	if (pinned_pages() != w->pinned)
		return 7;
	if (wire_submit(w) || submit_reap(&w->uring, PATIENCE_MS, NULL) != -EPIPE)
		return 8;
	return 0;
}

FIXTURE(lie)
{
	struct wire w;
};

/*
 * The lie is in frame @number of job 2; frames before it are honest. @len bytes
 * of the frame are sent (0: all that a truthful one has).
 */
FIXTURE_VARIANT(lie)
{
	unsigned int number;
	void (*tell)(struct ar_frame_hdr *hdr);
	size_t len;
	int error;
};

#define LIE(label, number_, len_, error_, ...) \
	static void tell_##label(struct ar_frame_hdr *hdr) \
	{ \
		(void)hdr; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(lie, label) { \
		.number = number_, .tell = tell_##label, .len = len_, \
		.error = error_, \
	}

LIE(magic, OWN, 0, -EBADMSG, hdr->magic = cpu_to_le16(0x4653));
LIE(magic_zero, FINAL, 0, -EBADMSG, memset(hdr, 0, sizeof(*hdr)));
LIE(codec, OWN, 0, -EBADMSG, hdr->codec = 1);
LIE(flags, OWN, 0, -EBADMSG, hdr->flags = 0x80);
LIE(weight, OWN, 0, -EBADMSG, hdr->weight = cpu_to_le32(1));
LIE(reserved, OWN, 0, -EBADMSG, hdr->reserved[0] = cpu_to_le64(1));
LIE(reserved_last, FINAL + 1, 0, -EBADMSG, hdr->reserved[1] = cpu_to_le64(1ULL << 63));
LIE(job_0, OWN, 0, -EBADMSG, hdr->job = 0);
LIE(job_of_the_past, OWN, 0, -EBADMSG, hdr->job = cpu_to_le64(1));
/* It skips job 2 on this lane, so its job 2 is another one than this member's. */
LIE(job_of_the_future, OWN, 0, -EINVAL, hdr->job = cpu_to_le64(3));
LIE(job_of_the_far_future, FINAL, 0, -EINVAL, hdr->job = cpu_to_le64(UINT64_MAX));
LIE(count_less, OWN, 0, -EINVAL, hdr->count = cpu_to_le64(COUNT - 1));
LIE(count_huge, FINAL, 0, -EINVAL, hdr->count = cpu_to_le64(UINT64_MAX));
LIE(type, OWN, 0, -EINVAL, hdr->type = ALLREDUCE_F32);
LIE(type_unknown, OWN, 0, -EINVAL, hdr->type = 255);
LIE(op, OWN, 0, -EINVAL, hdr->op = 2);
LIE(collective, OWN, 0, -EINVAL, hdr->collective = 2);
LIE(root, OWN, 0, -EINVAL, hdr->root = cpu_to_le32(1));
LIE(chunk_is_size, OWN, 0, -EBADMSG, hdr->chunk = cpu_to_le32(2));
LIE(chunk_all_ones, OWN, 0, -EBADMSG, hdr->chunk = cpu_to_le32(UINT32_MAX));
LIE(chunk_of_the_receiver, OWN, 0, -EBADMSG, hdr->chunk = cpu_to_le32(0));
LIE(final_chunk_that_ends_there, FINAL, 0, -EBADMSG, hdr->chunk = cpu_to_le32(1));
LIE(phase_0, OWN, 0, -EBADMSG, hdr->phase = 0);
LIE(phase_3, OWN, 0, -EBADMSG, hdr->phase = 3);
LIE(phase_255, FINAL, 0, -EBADMSG, hdr->phase = 255);
LIE(phase_final_too_soon, OWN, 0, -EBADMSG, hdr->phase = AR_PHASE_FINAL);
LIE(phase_reduce_again, FINAL, 0, -EBADMSG, hdr->phase = AR_PHASE_REDUCE);
LIE(offset_of_the_second, OWN, 0, -EBADMSG, hdr->offset = cpu_to_le64(FRAME_MAX));
LIE(offset_64, OWN, 0, -EBADMSG, hdr->offset = cpu_to_le64(64));
LIE(offset_1, OWN + 1, 0, -EBADMSG, hdr->offset = cpu_to_le64(FRAME_MAX + 1));
LIE(offset_of_the_end, OWN + 1, 0, -EBADMSG, hdr->offset = cpu_to_le64(CHUNK_BYTES));
LIE(offset_top_bit, OWN, 0, -EBADMSG, hdr->offset = cpu_to_le64(1ULL << 63));
LIE(offset_wraps, OWN + 1, 0, -EBADMSG, hdr->offset = cpu_to_le64(-4096ULL));
LIE(repeated, OWN + 1, 0, -EBADMSG, hdr->offset = 0);
LIE(repeated_final, FINAL + 1, 0, -EBADMSG, hdr->offset = 0);
LIE(length_0, OWN, sizeof(struct ar_frame_hdr), -EBADMSG, hdr->len = 0);
LIE(length_less, OWN, 0, -EBADMSG, hdr->len = cpu_to_le32(FRAME_MAX - 4));
LIE(length_odd, FINAL, 0, -EBADMSG, hdr->len = cpu_to_le32(FRAME_MAX - 1));
LIE(length_more, OWN, FRAME_BYTES + 4, -EBADMSG, hdr->len = cpu_to_le32(FRAME_MAX + 4));
LIE(length_double, FINAL, FRAME_BYTES + FRAME_MAX, -EBADMSG,
	hdr->len = cpu_to_le32(2 * FRAME_MAX));
LIE(length_all_ones, FINAL, 0, -EBADMSG, hdr->len = cpu_to_le32(UINT32_MAX));
/* The truth, but not all of it: time runs out. */
LIE(half_a_header, OWN, 32, -ETIMEDOUT, (void)0);
LIE(header_only, OWN + 1, sizeof(struct ar_frame_hdr), -ETIMEDOUT, (void)0);
LIE(half_an_element, OWN, sizeof(struct ar_frame_hdr) + 1022, -ETIMEDOUT, (void)0);
LIE(half_a_final_frame, FINAL + 1, 2000, -ETIMEDOUT, (void)0);

FIXTURE_SETUP(lie)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
	ASSERT_EQ(0, exchange(&self->w, 1));
}

FIXTURE_TEARDOWN(lie)
{
	wire_close(&self->w);
}

/* Honest up to frame @number of @job, not including it. */
static int honest_until(struct wire *w, uint64_t job, unsigned int number)
{
	unsigned int i;

	if (wire_submit(w))
		return 1;
	for (i = 0; i < number; i++) {
		if (i == FINAL && !recv_chunk(w, job, AR_PHASE_REDUCE))
			return 2;
		if (!send_honest(w, job, i))
			return 3;
	}
	if (number == FINAL && !recv_chunk(w, job, AR_PHASE_REDUCE))
		return 4;
	return 0;
}

TEST_F(lie, breaks_the_ring)
{
	struct wire *w = &self->w;
	uint64_t begin, ms;
	struct frame frame;

	ASSERT_EQ(0, honest_until(w, 2, variant->number));
	frame_init(&frame, 2, variant->number);
	variant->tell(&frame.hdr);
	begin = env_now_ms();
	ASSERT_TRUE(send_frame(w, &frame, variant->len ? variant->len : FRAME_BYTES));
	EXPECT_EQ(variant->error, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	if (variant->error == -ETIMEDOUT) {
		EXPECT_LE(TIMEOUT_MS - 100, ms);
		EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	} else {
		EXPECT_GE(SLACK_MS, ms);
	}
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_EQ(variant->error, wire_look(w).error);
}

/* ---- other ways to break it ----------------------------------------------- */

/* The result before the contribution: this can't be its sum. */
TEST_F(peer, sends_the_result_too_early)
{
	struct wire *w = &self->w;
	struct frame frame;
	unsigned int i;

	/* So short that all is there at once: a frame for each chunk. */
	for (i = 0; i < ALL_FRAMES; i += FRAMES) {
		frame_init(&frame, 1, i);
		frame.hdr.count = cpu_to_le64(32);
		frame.hdr.len = cpu_to_le32(64);
		ASSERT_TRUE(send_frame(w, &frame, sizeof(frame.hdr) + 64));
	}
	usleep(300000);
	memset(w->dst.data, 0, COUNT * 4);
	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, w->src.data, w->dst.data, 32,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	ASSERT_EQ(1, io_uring_submit(&w->uring));
	EXPECT_EQ(-EBADMSG, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
}

TEST_F(peer, is_silent)
{
	struct wire *w = &self->w;
	uint64_t begin = env_now_ms(), ms;

	ASSERT_EQ(0, wire_submit(w));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(TIMEOUT_MS, ms);
	EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	EXPECT_EQ(0, check_aftermath(w));
}

/* A job's own time-out is kept as well as the ring's. */
TEST_F(peer, is_silent_for_an_impatient_job)
{
	struct wire *w = &self->w;
	uint64_t begin = env_now_ms(), ms;

	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, w->src.data, w->dst.data,
			   COUNT, ALLREDUCE_I32, ALLREDUCE_SUM, 200, 0);
	ASSERT_EQ(1, io_uring_submit(&w->uring));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(200, ms);
	EXPECT_GE(200 + SLACK_MS, ms);
	EXPECT_EQ(0, check_aftermath(w));
}

/* It takes nothing: far more than the buffers hold stays here. */
TEST_F(peer, does_not_read)
{
	struct wire *w = &self->w;
	struct vector big;
	uint64_t begin = env_now_ms(), ms;

	vector_alloc(&big, 16 * 1024 * 1024 / 4);
	aru_prep_allreduce(submit_sqe(&w->uring), w->fd, big.data, big.data, big.count,
			   ALLREDUCE_I32, ALLREDUCE_SUM, 0, 0);
	ASSERT_EQ(1, io_uring_submit(&w->uring));
	EXPECT_EQ(-ETIMEDOUT, submit_reap(&w->uring, PATIENCE_MS, NULL));
	ms = env_now_ms() - begin;
	EXPECT_LE(TIMEOUT_MS, ms);
	EXPECT_GE(TIMEOUT_MS + SLACK_MS, ms);
	EXPECT_EQ(0, vector_spoilt(&big));
	EXPECT_EQ(0, check_aftermath(w));
	vector_free(&big);
}

TEST_F(peer, talks_back)
{
	struct wire *w = &self->w;

	ASSERT_EQ(0, wire_submit(w));
	ASSERT_TRUE(send_all(w->in, "x", 1));
	EXPECT_EQ(-EPROTO, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
}

TEST_F(peer, talks_back_while_idle)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_all(w->in, "x", 1));
	EXPECT_TRUE(wire_wait_state(w, ALLREDUCE_RING_BROKEN, 3000));
	EXPECT_EQ(-EPROTO, wire_look(w).error);
	EXPECT_EQ(0, check_aftermath(w));
}

TEST_F(peer, sends_urgent_data)
{
	struct wire *w = &self->w;
	int res;

	ASSERT_EQ(0, wire_submit(w));
	ASSERT_TRUE(send_honest(w, 1, OWN));
	ASSERT_EQ(1, send(w->out, "x", 1, MSG_OOB));
	send_honest(w, 1, OWN + 1);
	res = submit_reap(&w->uring, PATIENCE_MS, NULL);
	/* However TCP puts it into the stream. */
	EXPECT_TRUE(res == -EBADMSG || res == -ETIMEDOUT || res == -EINVAL);
	EXPECT_EQ(0, check_aftermath(w));
}

/* A frame of a job that never comes must not disturb; the next job finds out. */
TEST_F(peer, is_far_ahead)
{
	struct wire *w = &self->w;

	ASSERT_TRUE(send_honest(w, 1000000, OWN));
	usleep((TIMEOUT_MS + 500) * 1000);
	ASSERT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	ASSERT_EQ(0, wire_submit(w));
	EXPECT_EQ(-EINVAL, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, check_aftermath(w));
}

/* ---- connections that end ------------------------------------------------- */

FIXTURE(loss)
{
	struct wire w;
};

/*
 * After @number honest frames and @len bytes of the next, the connections in
 * @ends (1: in, 2: out) go.
 */
FIXTURE_VARIANT(loss)
{
	unsigned int number;
	size_t len;
	unsigned int ends;
	enum { CLOSE, RESET, SHUT_THEN_RESET } how;
};

#define LOSS(label, number_, len_, ends_, how_) \
	FIXTURE_VARIANT_ADD(loss, label) { \
		.number = number_, .len = len_, .ends = ends_, .how = how_, \
	}

LOSS(closed_at_once, OWN, 0, 3, CLOSE);
LOSS(closed_between_frames, OWN + 1, 0, 3, CLOSE);
LOSS(closed_in_header, OWN + 1, 17, 3, CLOSE);
LOSS(closed_in_payload, FINAL, 1001, 3, CLOSE);
LOSS(closed_in_last_payload, FINAL + 1, FRAME_BYTES - 1, 3, CLOSE);
LOSS(out_closed_in_header, OWN, 63, 2, CLOSE);
LOSS(out_closed_in_payload, OWN, 65, 2, CLOSE);
LOSS(in_closed, OWN, 0, 1, CLOSE);
LOSS(reset_at_once, OWN, 0, 3, RESET);
LOSS(reset_in_payload, OWN, 1001, 3, RESET);
LOSS(out_reset, OWN + 1, 0, 2, RESET);
LOSS(in_reset, OWN + 1, 0, 1, RESET);
LOSS(in_shut_then_reset, OWN + 1, 0, 1, SHUT_THEN_RESET);
LOSS(out_shut_then_reset, OWN + 1, 30, 2, SHUT_THEN_RESET);
LOSS(both_shut_then_reset, FINAL, 2000, 3, SHUT_THEN_RESET);

FIXTURE_SETUP(loss)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
	ASSERT_EQ(0, wire_join(&self->w));
}

FIXTURE_TEARDOWN(loss)
{
	wire_close(&self->w);
}

static void lose(int *fd, int how)
{
	if (how == SHUT_THEN_RESET)
		shutdown(*fd, SHUT_WR);
	if (how == CLOSE)
		close(*fd);
	else
		reset(*fd);
	*fd = -1;
}

TEST_F(loss, breaks_the_ring)
{
	struct wire *w = &self->w;
	uint64_t begin;
	struct frame frame;

	ASSERT_EQ(0, honest_until(w, 1, variant->number));
	frame_init(&frame, 1, variant->number);
	ASSERT_TRUE(send_frame(w, &frame, variant->len));
	begin = env_now_ms();
	if (variant->ends & 2)
		lose(&w->out, variant->how);
	if (variant->ends & 1)
		lose(&w->in, variant->how);
	EXPECT_EQ(-ECONNRESET, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_GE(SLACK_MS, env_now_ms() - begin);
	EXPECT_EQ(0, check_aftermath(w));
	EXPECT_EQ(-ECONNRESET, wire_look(w).error);
}

/* ---- greetings that are not right ----------------------------------------- */

FIXTURE(greeting)
{
	struct wire w;
};

FIXTURE_SETUP(greeting)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(greeting)
{
	wire_close(&self->w);
}

FIXTURE(hello)
{
	struct wire w;
};

FIXTURE_VARIANT(hello)
{
	const char *from;
	void (*tell)(struct ar_hello *hello);
	int answer;
};

#define HELLO_FROM(label, from_, answer_, ...) \
	static void tell_hello_##label(struct ar_hello *hello) \
	{ \
		(void)hello; \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(hello, label) { \
		.from = from_, .tell = tell_hello_##label, .answer = answer_, \
	}
#define HELLO(label, answer_, ...) HELLO_FROM(label, PEER_ADDR, answer_, __VA_ARGS__)

HELLO(magic, DROPPED, hello->magic = cpu_to_le64(AR_WELCOME_MAGIC));
HELLO(zeros, DROPPED, memset(hello, 0, sizeof(*hello)));
HELLO(ring_id, DROPPED, hello->ring_id[15] ^= 1);
HELLO(to_rank, DROPPED, hello->to_rank = cpu_to_le32(1));
HELLO(to_rank_all_ones, DROPPED, hello->to_rank = cpu_to_le32(UINT32_MAX));
HELLO(version, AR_REFUSAL_VERSION, hello->version = cpu_to_le16(2));
HELLO(bytes, AR_REFUSAL_VERSION, hello->bytes = cpu_to_le16(112));
HELLO(reserved0, AR_REFUSAL_VERSION, hello->reserved0 = cpu_to_le32(1));
HELLO(reserved, AR_REFUSAL_VERSION, hello->reserved[3] = cpu_to_le64(1));
HELLO(byte_order, AR_REFUSAL_BYTE_ORDER, hello->byte_order = 0x04030201);
HELLO(rank, AR_REFUSAL_RANK, hello->rank = cpu_to_le32(0));
HELLO(rank_all_ones, AR_REFUSAL_RANK, hello->rank = cpu_to_le32(UINT32_MAX));
HELLO(size, AR_REFUSAL_SIZE, hello->size = cpu_to_le32(3));
HELLO(lanes, AR_REFUSAL_LANES, hello->lanes = cpu_to_le32(2));
HELLO(lane_is_lanes, AR_REFUSAL_LANES, hello->lane = cpu_to_le32(1));
HELLO(lane_all_ones, AR_REFUSAL_LANES, hello->lane = cpu_to_le32(UINT32_MAX));
HELLO(frame_max, AR_REFUSAL_FRAME_MAX, hello->frame_max = cpu_to_le32(8192));
HELLO(members, AR_REFUSAL_MEMBERS, hello->members_digest ^= cpu_to_le64(1));
HELLO(epoch, AR_REFUSAL_EPOCH, hello->epoch = cpu_to_le32(1));
HELLO_FROM(address, "10.88.0.99", AR_REFUSAL_ADDRESS, (void)0);

FIXTURE_SETUP(hello)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, env_shell("ip -n n1 addr replace 10.88.0.99/24 dev eth0"));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(hello)
{
	wire_close(&self->w);
	env_shell("ip -n n1 addr del 10.88.0.99/24 dev eth0");
}

TEST_F(hello, is_refused)
{
	struct wire *w = &self->w;
	struct ar_hello hello;

	ASSERT_EQ(0, wire_up(w));
	ASSERT_EQ(0, wire_accept_honestly(w));
	hello_init(&hello);
	variant->tell(&hello);
	EXPECT_EQ(variant->answer, wire_connect(w, variant->from, &hello));
	/* Who was told why is to close; a stranger is dropped. */
	if (variant->answer == DROPPED) {
		EXPECT_TRUE(is_closed(w->out, 3000));
	}
	wire_hang_up(&w->out);
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	/* It has not spoilt anything for the right one. */
	ASSERT_EQ(0, wire_connect_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, 1));
}

TEST_F(greeting, while_down)
{
	struct wire *w = &self->w;

	EXPECT_EQ(AR_REFUSAL_STATE, wire_connect_honestly(w));
	wire_hang_up(&w->out);
	ASSERT_EQ(0, wire_join(w));
	EXPECT_EQ(0, exchange(w, 1));
}

/*
 * Once up, a second connection of the same lane is refused and changes nothing,
 * also if its owner does not close it as it should.
 */
TEST_F(greeting, while_up)
{
	struct wire *w = &self->w;
	int first;

	ASSERT_EQ(0, wire_join(w));
	first = w->out;
	EXPECT_EQ(AR_REFUSAL_STATE, wire_connect_honestly(w));
	EXPECT_TRUE(is_closed(w->out, PATIENCE_MS));
	wire_hang_up(&w->out);
	w->out = first;
	EXPECT_EQ(0, exchange(w, 1));
}

/* While connecting, the newer connection counts. */
TEST_F(greeting, twice)
{
	struct wire *w = &self->w;
	int first;

	ASSERT_EQ(0, wire_up(w));
	ASSERT_EQ(0, wire_connect_honestly(w));
	first = w->out;
	ASSERT_EQ(0, wire_connect_honestly(w));
	EXPECT_TRUE(is_closed(first, 3000));
	close(first);
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, 1));
}

TEST_F(greeting, in_two_halves)
{
	struct wire *w = &self->w;
	struct ar_hello hello;
	struct ar_welcome welcome;

	ASSERT_EQ(0, wire_up(w));
	welcome_init(&welcome);
	ASSERT_EQ(0, wire_accept(w, &welcome, 13));
	hello_init(&hello);
	w->out = peer_connect(PEER_ADDR);
	ASSERT_LE(0, w->out);
	ASSERT_TRUE(send_all(w->out, &hello, 53));
	usleep(200000);
	ASSERT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	ASSERT_TRUE(send_all(w->out, (char *)&hello + 53, sizeof(hello) - 53));
	ASSERT_TRUE(send_all(w->in, (char *)&welcome + 13, sizeof(welcome) - 13));
	EXPECT_EQ(0, read_welcome(w->out));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, 1));
}

/* HELLO and the first frame in one piece: the frame is not lost. */
TEST_F(greeting, with_a_frame_behind)
{
	struct wire *w = &self->w;
	struct {
		struct ar_hello hello;
		struct ar_frame_hdr hdr;
	} both;
	struct frame frame;

	ASSERT_EQ(0, wire_up(w));
	frame_init(&frame, 1, OWN);
	hello_init(&both.hello);
	both.hdr = frame.hdr;
	w->out = peer_connect(PEER_ADDR);
	ASSERT_LE(0, w->out);
	ASSERT_TRUE(send_all(w->out, &both, sizeof(both)));
	EXPECT_EQ(0, read_welcome(w->out));
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	ASSERT_EQ(0, wire_submit(w));
	ASSERT_TRUE(send_all(w->out, frame.data, FRAME_MAX));
	ASSERT_TRUE(send_honest(w, 1, OWN + 1));
	ASSERT_TRUE(recv_chunk(w, 1, AR_PHASE_REDUCE));
	ASSERT_TRUE(send_honest(w, 1, FINAL));
	ASSERT_TRUE(send_honest(w, 1, FINAL + 1));
	EXPECT_EQ(0, submit_reap(&w->uring, PATIENCE_MS, NULL));
	EXPECT_EQ(0, vector_wrong(&w->dst, 2));
}

#define GREETING_MS	5000

static bool is_closed_in_time(int fd, uint64_t begin)
{
	uint64_t ms;

	if (!is_closed(fd, PATIENCE_MS))
		return false;
	ms = env_now_ms() - begin;
	if (ms >= GREETING_MS - 100 && ms <= GREETING_MS + 2000)
		return true;
	fprintf(stderr, "# closed after %llu ms\n", (unsigned long long)ms);
	return false;
}

/* Each has its own five seconds, whoever came before. */
TEST_F(greeting, never_finished)
{
	struct wire *w = &self->w;
	struct ar_hello hello;
	uint64_t begin[2];

	hello_init(&hello);
	begin[0] = env_now_ms();
	w->in = peer_connect(PEER_ADDR);
	ASSERT_LE(0, w->in);
	ASSERT_TRUE(send_all(w->in, &hello, sizeof(hello) - 1));
	usleep(2500000);
	begin[1] = env_now_ms();
	w->out = peer_connect(PEER_ADDR);
	ASSERT_LE(0, w->out);
	EXPECT_TRUE(is_closed_in_time(w->in, begin[0]));
	EXPECT_TRUE(is_closed_in_time(w->out, begin[1]));
}

#define SILENT	200

TEST_F(greeting, among_silent_strangers)
{
	struct wire *w = &self->w;
	uint64_t begin;
	int fd[SILENT], i, open = 0;

	for (i = 0; i < SILENT; i++) {
		fd[i] = peer_connect(PEER_ADDR);
		open += fd[i] >= 0;
	}
	EXPECT_LE(100, open);
	begin = env_now_ms();
	EXPECT_EQ(0, wire_join(w));
	EXPECT_GE(4000, env_now_ms() - begin);
	EXPECT_EQ(0, exchange(w, 1));
	for (i = 0; i < SILENT; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

static uint32_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 33;
}

static uint64_t random_seed(void)
{
	const char *given = getenv("SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	fprintf(stderr, "# SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

TEST_F(greeting, garbage_for_a_running_ring)
{
	struct wire *w = &self->w;
	uint64_t state = random_seed();
	static uint8_t garbage[1024 * 1024];
	unsigned int i;
	int fd;

	ASSERT_EQ(0, wire_join(w));
	for (i = 0; i < sizeof(garbage); i++)
		garbage[i] = random_next(&state);
	ASSERT_EQ(0, exchange(w, 1));
	fd = peer_connect(PEER_ADDR);
	ASSERT_LE(0, fd);
	send_all(fd, garbage, sizeof(garbage));
	EXPECT_TRUE(is_closed(fd, PATIENCE_MS));
	close(fd);
	EXPECT_EQ(ALLREDUCE_RING_UP, wire_look(w).state);
	EXPECT_EQ(0, exchange(w, 2));
}

/* ---- answers that are not right ------------------------------------------- */

FIXTURE(welcome)
{
	struct wire w;
};

FIXTURE_VARIANT(welcome)
{
	void (*tell)(struct ar_welcome *welcome);
	const char *text;
};

#define WELCOME(label, text_, ...) \
	static void tell_welcome_##label(struct ar_welcome *welcome) \
	{ \
		__VA_ARGS__; \
	} \
	FIXTURE_VARIANT_ADD(welcome, label) { \
		.tell = tell_welcome_##label, .text = text_, \
	}

WELCOME(magic, "rank 1 (10.88.0.2:18515)",
	welcome->magic = cpu_to_le64(AR_HELLO_MAGIC));
WELCOME(bytes, "rank 1 (10.88.0.2:18515)", welcome->bytes = cpu_to_le16(31));
WELCOME(refusal_lanes, "numbers of lanes differ",
	welcome->refusal = cpu_to_le32(AR_REFUSAL_LANES));
WELCOME(refusal_unknown, "for an unknown reason",
	welcome->refusal = cpu_to_le32(UINT32_MAX));
WELCOME(refusal_state, "rank 1 (10.88.0.2:18515) is not connecting",
	welcome->refusal = cpu_to_le32(AR_REFUSAL_STATE));

FIXTURE_SETUP(welcome)
{
	ASSERT_EQ(0, wire_open(&self->w));
	ASSERT_EQ(0, wire_begin(&self->w));
}

FIXTURE_TEARDOWN(welcome)
{
	wire_close(&self->w);
}

static bool wait_reason(struct wire *w, const char *text)
{
	uint64_t end = env_now_ms() + 3000;
	struct aru_ring ring;

	do {
		ring = wire_look(w);
		if (strstr(ring.reason, text))
			return true;
		usleep(2000);
	} while (env_now_ms() < end);
	fprintf(stderr, "# \"%s\" does not say \"%s\"\n", ring.reason, text);
	return false;
}

TEST_F(welcome, is_refused)
{
	struct wire *w = &self->w;
	struct ar_welcome welcome;

	ASSERT_EQ(0, wire_up(w));
	welcome_init(&welcome);
	variant->tell(&welcome);
	ASSERT_EQ(0, wire_accept(w, &welcome, sizeof(welcome)));
	EXPECT_TRUE(wait_reason(w, variant->text));
	EXPECT_TRUE(is_closed(w->in, 3000));
	wire_hang_up(&w->in);
	EXPECT_EQ(ALLREDUCE_RING_CONNECTING, wire_look(w).state);
	/* It tries again, and nothing is left of the first attempt. */
	ASSERT_EQ(0, wire_accept_honestly(w));
	ASSERT_EQ(0, wire_connect_honestly(w));
	ASSERT_TRUE(wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS));
	EXPECT_EQ(0, exchange(w, 1));
}

/* ---- chance --------------------------------------------------------------- */

#define MUTATIONS	200
#define MUTATIONS_MS	20000

FIXTURE(chance)
{
	struct wire w;
};

FIXTURE_SETUP(chance)
{
	ASSERT_EQ(0, wire_open(&self->w));
}

FIXTURE_TEARDOWN(chance)
{
	wire_close(&self->w);
}

/* Change something of a stream of frames; how long it is afterwards. */
static size_t mutate(uint8_t *bytes, size_t len, uint64_t *random)
{
	size_t frame = random_next(random) % ALL_FRAMES * FRAME_BYTES;
	size_t at = frame + random_next(random) % sizeof(struct ar_frame_hdr);
	size_t n;

	switch (random_next(random) % 6) {
	case 0:		/* a bit of a header */
		bytes[at] ^= 1U << random_next(random) % 8;
		break;
	case 1:		/* a byte of a header */
		bytes[at] = random_next(random);
		break;
	case 2:		/* several of them */
		for (n = random_next(random) % 8; n; n--)
			bytes[frame + random_next(random) % sizeof(struct ar_frame_hdr)] =
				random_next(random);
		break;
	case 3:		/* the end is missing */
		len = random_next(random) % len;
		break;
	case 4:		/* a piece is missing */
		n = random_next(random) % (len - at);
		memmove(bytes + at, bytes + at + n, len - at - n);
		len -= n;
		break;
	default:	/* anywhere, so mostly in payload */
		for (n = 0; n < 64; n++)
			bytes[random_next(random) % len] = random_next(random);
		break;
	}
	return len;
}

/* One ring, one job, one stream that is not quite right. 0, or what is wrong. */
static int try_mutation(struct wire *w, uint64_t *random)
{
	static uint8_t stream[ALL_FRAMES * FRAME_BYTES];
	unsigned int number;
	size_t len, cut;
	uint64_t begin;
	int res;

	if (wire_begin(w) || wire_join(w))
		return 1;
	for (number = 0; number < ALL_FRAMES; number++) {
		struct frame frame;

		frame_init(&frame, 1, number);
		memcpy(stream + number * FRAME_BYTES, &frame, FRAME_BYTES);
	}
	len = mutate(stream, sizeof(stream), random);
	if (wire_submit(w))
		return 2;
	/* The sum must not come before the contribution has been taken. */
	cut = len < FINAL * FRAME_BYTES ? len : FINAL * FRAME_BYTES;
	begin = env_now_ms();
	if (send_all(w->out, stream, cut) && cut < len &&
	    recv_chunk(w, 1, AR_PHASE_REDUCE))
		send_all(w->out, stream + cut, len - cut);
	shutdown(w->out, SHUT_WR);
	res = submit_reap(&w->uring, PATIENCE_MS, NULL);
	/* A time-out: it waited for the rest of a frame, we for it to inject. */
	if (res && res != -EBADMSG && res != -EINVAL && res != -EPROTO &&
	    res != -ECONNRESET && res != -ETIMEDOUT) {
		fprintf(stderr, "# result %d\n", res);
		return 3;
	}
	if (env_now_ms() - begin > TIMEOUT_MS + SLACK_MS)
		return 4;
	if (vector_spoilt(&w->dst))
		return 5;
	if (vector_spoilt(&w->src) || vector_changed(&w->src, 0))
		return 6;
	if (pinned_pages() != w->pinned)
		return 7;
	wire_end(w);
	return 0;
}

TEST_F_TIMEOUT(chance, finds_nothing, 60)
{
	uint64_t random = random_seed(), end = env_now_ms() + MUTATIONS_MS;
	unsigned int i;

	for (i = 0; i < MUTATIONS && env_now_ms() < end; i++) {
		ASSERT_EQ(0, try_mutation(&self->w, &random))
			fprintf(stderr, "# mutation %u\n", i);
	}
	fprintf(stderr, "# %u mutations\n", i);
	EXPECT_LT(20, i);
	EXPECT_EQ(self->w.pinned, pinned_pages());
}

TEST_HARNESS_MAIN
