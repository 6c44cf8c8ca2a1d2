// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "wire-peer.h"

/* The ranks that a sum is made of. */
#define P0	(1U << 0)
#define P1	(1U << 1)
#define P2	(1U << 2)
#define P_ALL	(P0 | P1 | P2)

/* Turns of the kernel that have to be over. */
#define AT_ONCE		0
#define AFTER(turn)	(1U << (turn))

#define R(chunk, parts, after)	{ AR_PHASE_REDUCE, chunk, parts, after }
#define G(chunk, parts, after)	{ AR_PHASE_GATHER, chunk, parts, after }
#define T(chunk, after)		{ AR_PHASE_TOKEN, chunk, 0, after }

/*
 * Written down from Documentation/protocol.rst, not computed: chunk c's sum
 * begins at rank c + 1 and ends at c, a copy goes from c to c - 1, a token from
 * the last rank to the first.
 */
const struct play plays[PLAYS] = {
	[PLAY_ALLREDUCE] = {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.count = SIZE * CHUNK_COUNT, .split = true,
		.in = { R(0, P1 | P2, AT_ONCE), R(1, P2, AT_ONCE),
			G(2, P_ALL, AFTER(0)), G(1, P_ALL, AFTER(1)) },
		.out = { R(2, P0, 0), R(1, P2 | P0, 0), G(0, P_ALL, 0),
			 G(2, P_ALL, 0) },
	},
	[PLAY_GATHER_PATH] = {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.count = CHUNK_COUNT,
		.in = { G(2, P2, AT_ONCE), G(1, P1, AT_ONCE) },
		.out = { G(0, P0, 0), G(2, P2, 0) },
	},
	[PLAY_REDUCE_SCATTER] = {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER,
		.count = CHUNK_COUNT, .split = true,
		.in = { R(0, P1 | P2, AT_ONCE), R(1, P2, AT_ONCE), T(2, AFTER(0)) },
		.out = { R(2, P0, 0), R(1, P2 | P0, 0), T(0, 0) },
	},
	[PLAY_ALLGATHER] = {
		.collective = ALLREDUCE_COLLECTIVE_ALLGATHER,
		.count = CHUNK_COUNT,
		.in = { G(2, P2, AT_ONCE), G(1, P1, AT_ONCE), T(0, AFTER(0)) },
		.out = { G(0, P0, 0), G(2, P2, 0), T(1, 0) },
	},
	[PLAY_BROADCAST_0] = {
		.collective = ALLREDUCE_COLLECTIVE_BROADCAST, .root = 0,
		.count = CHUNK_COUNT,
		.in = { T(0, AFTER(0)) },
		.out = { G(0, P0, 0) },
	},
	[PLAY_BROADCAST_1] = {
		.collective = ALLREDUCE_COLLECTIVE_BROADCAST, .root = 1,
		.count = CHUNK_COUNT,
		.in = { G(1, P1, AT_ONCE) },
		.out = { T(1, 0) },
	},
	[PLAY_BROADCAST_2] = {
		.collective = ALLREDUCE_COLLECTIVE_BROADCAST, .root = 2,
		.count = CHUNK_COUNT,
		.in = { G(2, P2, AT_ONCE) },
		.out = { G(2, P2, 0) },
	},
	[PLAY_REDUCE_0] = {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE, .root = 0,
		.count = CHUNK_COUNT,
		.in = { R(0, P1 | P2, AT_ONCE) },
		.out = { T(0, 0) },
	},
	[PLAY_REDUCE_1] = {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE, .root = 1,
		.count = CHUNK_COUNT,
		.in = { R(1, P2, AT_ONCE) },
		.out = { R(1, P2 | P0, 0) },
	},
	[PLAY_REDUCE_2] = {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE, .root = 2,
		.count = CHUNK_COUNT,
		.in = { T(2, AFTER(0)) },
		.out = { R(2, P0, 0) },
	},
	[PLAY_BARRIER] = {
		.collective = ALLREDUCE_COLLECTIVE_BARRIER,
		.in = { G(2, 0, AT_ONCE), G(1, 0, AT_ONCE) },
		.out = { G(0, 0, 0), G(2, 0, 0) },
	},
};

static const uint8_t ring_id[ALLREDUCE_ID_SIZE + 1] = "wire-test-ringid";
static const char * const addrs[SIZE] = { KERNEL_ADDR, NEXT_ADDR, PREV_ADDR };

static bool play_reduces(const struct play *play)
{
	return play->collective == ALLREDUCE_COLLECTIVE_ALLREDUCE ||
	       play->collective == ALLREDUCE_COLLECTIVE_REDUCE_SCATTER ||
	       play->collective == ALLREDUCE_COLLECTIVE_REDUCE;
}

/* ---- frames ------------------------------------------------------------------- */

static unsigned int turn_frame_bytes(const struct play *play, const struct turn *turn)
{
	return turn->phase == AR_PHASE_TOKEN || !play->count ? 0 : FRAME_MAX;
}

/* None of a turn that is not there. */
static unsigned int turn_frames(const struct play *play, const struct turn *turn)
{
	if (!turn->phase)
		return 0;
	return turn_frame_bytes(play, turn) ? FRAMES : 1;
}

static unsigned int turns_frames(const struct play *play, const struct turn *turns)
{
	unsigned int i, n = 0;

	for (i = 0; i < TURNS_MAX; i++)
		n += turn_frames(play, &turns[i]);
	return n;
}

unsigned int play_frames_in(const struct play *play)
{
	return turns_frames(play, play->in);
}

unsigned int play_frames_out(const struct play *play)
{
	return turns_frames(play, play->out);
}

static int32_t parts_sum(unsigned int parts, uint64_t element)
{
	uint32_t sum = 0;
	unsigned int rank;

	for (rank = 0; rank < SIZE; rank++)
		if (parts & (1U << rank))
			sum += vector_part(rank, element);
	return sum;
}

/* Frame @part of a turn. Its length with the header. */
static size_t frame_of_turn(struct frame *frame, const struct play *play,
			    uint64_t job, const struct turn *turn, unsigned int part)
{
	unsigned int bytes = turn_frame_bytes(play, turn), i;
	uint64_t element = (play->split ? turn->chunk * CHUNK_COUNT : 0) +
			   part * (FRAME_MAX / 4);

	memset(frame, 0, sizeof(*frame));
	frame->hdr.magic = cpu_to_le16(AR_FRAME_MAGIC);
	frame->hdr.phase = turn->phase;
	frame->hdr.len = cpu_to_le32(bytes);
	frame->hdr.job = cpu_to_le64(job);
	frame->hdr.offset = cpu_to_le64(part * FRAME_MAX);
	frame->hdr.count = cpu_to_le64(play->count);
	frame->hdr.chunk = cpu_to_le32(turn->chunk);
	frame->hdr.collective = play->collective;
	frame->hdr.root = cpu_to_le32(play->root);
	if (play->collective != ALLREDUCE_COLLECTIVE_BARRIER)
		frame->hdr.type = ALLREDUCE_I32;
	if (play_reduces(play))
		frame->hdr.op = ALLREDUCE_SUM;
	for (i = 0; i < bytes / 4; i++)
		frame->data[i] = parts_sum(turn->parts, element + i);
	return sizeof(frame->hdr) + bytes;
}

/* The turn that the peer's frame @number belongs to; which of it. */
static const struct turn *turn_of(const struct play *play, unsigned int number,
				  unsigned int *part)
{
	const struct turn *turn = play->in;

	while (number >= turn_frames(play, turn)) {
		number -= turn_frames(play, turn);
		if (++turn == play->in + TURNS_MAX)
			abort();
	}
	*part = number;
	return turn;
}

unsigned int play_frames_at_once(const struct play *play)
{
	unsigned int n, part;

	for (n = 0; n < play_frames_in(play); n++)
		if (turn_of(play, n, &part)->after)
			break;
	return n;
}

size_t frame_init(struct frame *frame, const struct play *play, uint64_t job,
		  unsigned int number)
{
	unsigned int part;
	const struct turn *turn = turn_of(play, number, &part);

	return frame_of_turn(frame, play, job, turn, part);
}

/* ---- greetings ---------------------------------------------------------------- */

static struct sockaddr_in addr_of(const char *text, unsigned short port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &sin.sin_addr) != 1)
		abort();
	return sin;
}

static uint64_t members_digest(void)
{
	uint64_t digest = AR_DIGEST64_INIT;
	int i;

	for (i = 0; i < SIZE; i++) {
		struct sockaddr_in sin = addr_of(addrs[i], ALLREDUCE_PORT_DEFAULT);

		digest = ar_digest64(digest, &sin.sin_addr, 4);
		digest = ar_digest64(digest, &sin.sin_port, 2);
	}
	return digest;
}

void hello_init(struct ar_hello *hello)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = cpu_to_le64(AR_HELLO_MAGIC);
	hello->version = cpu_to_le16(AR_PROTOCOL_VERSION);
	hello->bytes = cpu_to_le16(sizeof(*hello));
	hello->byte_order = AR_BYTE_ORDER;
	memcpy(hello->ring_id, ring_id, sizeof(hello->ring_id));
	hello->rank = cpu_to_le32(SIZE - 1);
	hello->to_rank = cpu_to_le32(0);
	hello->size = cpu_to_le32(SIZE);
	hello->lane = cpu_to_le32(0);
	hello->lanes = cpu_to_le32(1);
	hello->frame_max = cpu_to_le32(FRAME_MAX);
	hello->gather_max = cpu_to_le32(GATHER_MAX);
	hello->members_digest = cpu_to_le64(members_digest());
}

void welcome_init(struct ar_welcome *welcome)
{
	memset(welcome, 0, sizeof(*welcome));
	welcome->magic = cpu_to_le64(AR_WELCOME_MAGIC);
	welcome->version = cpu_to_le16(AR_PROTOCOL_VERSION);
	welcome->bytes = cpu_to_le16(sizeof(*welcome));
}

/* ---- sockets ------------------------------------------------------------------ */

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

/* To run a command takes longer than most tests do. */
int peer_add_addr(const char *addr)
{
	struct sockaddr_in sin = addr_of(addr, 0);
	int fd = peer_socket();
	bool there = !bind(fd, (struct sockaddr *)&sin, sizeof(sin));

	close(fd);
	return there ? 0 : env_shell("ip -n n1 addr add %s/24 dev eth0", addr);
}

static int peer_listen(void)
{
	struct sockaddr_in sin = addr_of(NEXT_ADDR, ALLREDUCE_PORT_DEFAULT);
	int fd = peer_socket();

	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) || listen(fd, 16))
		abort();
	return fd;
}

int peer_connect(const char *from)
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

bool send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

/* A completion that io_uring has to tell of interrupts, also half-way. */
static bool recv_all(int fd, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = recv(fd, p, len, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= n;
	}
	return true;
}

bool is_closed(int fd, int ms)
{
	uint64_t now = env_now_ms(), end = now + ms;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char junk[4096];
	ssize_t n;

	for (; now < end; now = env_now_ms()) {
		if (poll(&pfd, 1, end - now) <= 0)
			continue;
		n = recv(fd, junk, sizeof(junk), MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EINTR && errno != EAGAIN))
			return true;
	}
	return false;
}

void reset(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

/* ---- the ring and its peer ---------------------------------------------------- */

int read_welcome(int fd)
{
	struct ar_welcome welcome;

	if (!recv_all(fd, &welcome, sizeof(welcome)))
		return DROPPED;
	if (le64_to_cpu(welcome.magic) != AR_WELCOME_MAGIC ||
	    le16_to_cpu(welcome.bytes) != sizeof(welcome))
		abort();
	return le32_to_cpu(welcome.refusal);
}

static int wire_add(struct wire *w)
{
	struct aru_member members[SIZE];
	struct aru_ring_config config = {
		.sz = sizeof(config), .name = ENV_RING, .has_id = true,
		.members = members, .n_members = SIZE, .lanes = 1,
		.frame_max = FRAME_MAX, .timeout_ms = TIMEOUT_MS,
		.has_gather_max = true, .gather_max = w->gather_max,
	};

	memcpy(config.id, ring_id, sizeof(config.id));
	if (aru_members_parse(KERNEL_ADDR "," NEXT_ADDR "," PREV_ADDR, members, SIZE,
			      NULL, 0) != SIZE)
		abort();
	return aru_ring_add(w->nl, &config);
}

int wire_open(struct wire *w)
{
	memset(w, 0, sizeof(*w));
	w->fd = -1;
	w->in = -1;
	w->out = -1;
	w->gather_max = GATHER_MAX;
	if (env_namespaces() || env_enter(0) || aru_nl_open(&w->nl) ||
	    peer_add_addr(PREV_ADDR))
		return -1;
	/* Of a test that did not get as far as to its end. */
	aru_ring_del(w->nl, ENV_RING);
	w->listener = peer_listen();
	vector_alloc(&w->src, COUNT_MAX);
	vector_alloc(&w->dst, COUNT_MAX);
	vector_fill(&w->src, 0);
	w->pinned = pinned_pages();
	return io_uring_queue_init(8, &w->uring, IORING_SETUP_SQE128);
}

int wire_begin(struct wire *w)
{
	int ret = wire_add(w);

	if (ret)
		return ret;
	w->fd = aru_open_device();
	if (w->fd < 0)
		return w->fd;
	return submit_attach(&w->uring, w->fd, ENV_RING);
}

int wire_up(struct wire *w)
{
	ARU_OPTS(aru_ring_up_opts, opts);

	opts.nowait = true;
	opts.connect_timeout_ms = 2 * PATIENCE_MS;
	return aru_ring_up(w->nl, ENV_RING, &opts);
}

struct aru_ring wire_look(struct wire *w)
{
	struct aru_ring *ring, copy;

	if (aru_ring_get(w->nl, ENV_RING, &ring))
		abort();
	copy = *ring;
	aru_ring_free(ring);
	return copy;
}

bool wire_wait_state(struct wire *w, unsigned int state, unsigned int ms)
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

bool wire_wait_reason(struct wire *w, const char *text)
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

int wire_accept(struct wire *w, const void *welcome, size_t len)
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
	/* Its HELLO is what ours would be, from another place. */
	hello_init(&expected);
	expected.rank = cpu_to_le32(0);
	expected.to_rank = cpu_to_le32(1);
	expected.gather_max = cpu_to_le32(w->gather_max);
	if (memcmp(&hello, &expected, sizeof(hello)))
		return -1;
	return send_all(w->in, welcome, len) ? 0 : -1;
}

int wire_accept_honestly(struct wire *w)
{
	struct ar_welcome welcome;

	welcome_init(&welcome);
	return wire_accept(w, &welcome, sizeof(welcome));
}

int wire_connect(struct wire *w, const char *from, const struct ar_hello *hello)
{
	w->out = peer_connect(from);
	if (w->out < 0 || !send_all(w->out, hello, sizeof(*hello)))
		return DROPPED;
	return read_welcome(w->out);
}

int wire_connect_honestly(struct wire *w)
{
	struct ar_hello hello;

	hello_init(&hello);
	hello.gather_max = cpu_to_le32(w->gather_max);
	return wire_connect(w, PREV_ADDR, &hello);
}

int wire_join(struct wire *w)
{
	if (wire_up(w) || wire_accept_honestly(w) || wire_connect_honestly(w))
		return -1;
	return wire_wait_state(w, ALLREDUCE_RING_UP, PATIENCE_MS) ? 0 : -1;
}

void wire_hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void wire_end(struct wire *w)
{
	wire_hang_up(&w->in);
	wire_hang_up(&w->out);
	wire_hang_up(&w->fd);
	aru_ring_del(w->nl, ENV_RING);
}

void wire_close(struct wire *w)
{
	wire_end(w);
	io_uring_queue_exit(&w->uring);
	close(w->listener);
	vector_free(&w->src);
	vector_free(&w->dst);
	aru_nl_close(w->nl);
}

/* ---- jobs --------------------------------------------------------------------- */

int wire_submit(struct wire *w, const struct play *play)
{
	struct allreduce_call call = {
		.src = (uintptr_t)w->src.data, .dst = (uintptr_t)w->dst.data,
		.count = play->count, .collective = play->collective,
		.type = ALLREDUCE_I32, .root = play->root,
	};

	if (play_reduces(play))
		call.op = ALLREDUCE_SUM;
	if (play->collective == ALLREDUCE_COLLECTIVE_BARRIER) {
		call.src = 0;
		call.dst = 0;
		call.type = 0;
	}
	memset(w->dst.data, 0, COUNT_MAX * 4);
	memset(w->got, 0, sizeof(w->got));
	aru_prep_call(submit_sqe(&w->uring), w->fd, &call);
	return io_uring_submit(&w->uring) == 1 ? 0 : -1;
}

bool send_honest(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number)
{
	struct frame frame;
	size_t len = frame_init(&frame, play, job, number);

	return send_all(w->out, &frame, len);
}

static bool unexpected(const struct ar_frame_hdr *hdr, const char *what)
{
	fprintf(stderr, "# job %llu, phase %u, chunk %u, offset %llu, %u bytes: %s\n",
		(unsigned long long)le64_to_cpu(hdr->job), hdr->phase,
		le32_to_cpu(hdr->chunk),
		(unsigned long long)le64_to_cpu(hdr->offset),
		le32_to_cpu(hdr->len), what);
	return false;
}

/* A frame from the kernel: all fields and all elements as they must be. */
static bool recv_frame(struct wire *w, const struct play *play, uint64_t job)
{
	int32_t data[FRAME_MAX / 4];
	struct ar_frame_hdr hdr;
	struct frame expected;
	unsigned int i;
	size_t len;

	if (!recv_all(w->in, &hdr, sizeof(hdr)))
		return false;
	for (i = 0; i < TURNS_MAX; i++)
		if (play->out[i].phase && hdr.phase == play->out[i].phase &&
		    le32_to_cpu(hdr.chunk) == play->out[i].chunk)
			break;
	if (i == TURNS_MAX)
		return unexpected(&hdr, "not of this collective");
	if (w->got[i] == turn_frames(play, &play->out[i]))
		return unexpected(&hdr, "one too many");
	len = frame_of_turn(&expected, play, job, &play->out[i], w->got[i]++);
	if (memcmp(&hdr, &expected.hdr, sizeof(hdr)))
		return unexpected(&hdr, "not the header that is due");
	len -= sizeof(hdr);
	if (!recv_all(w->in, data, len))
		return unexpected(&hdr, "cut off");
	return !memcmp(data, expected.data, len) || unexpected(&hdr, "wrong payload");
}

bool recv_turns(struct wire *w, const struct play *play, uint64_t job,
		unsigned int turns)
{
	unsigned int i;

	for (i = 0; i < TURNS_MAX; i++) {
		if (!(turns & (1U << i)))
			continue;
		while (w->got[i] < turn_frames(play, &play->out[i]))
			if (!recv_frame(w, play, job))
				return false;
	}
	return true;
}

bool recv_before(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number)
{
	unsigned int part;

	return recv_turns(w, play, job, turn_of(play, number, &part)->after);
}

int honest_until(struct wire *w, const struct play *play, uint64_t job,
		 unsigned int number)
{
	unsigned int i;

	if (wire_submit(w, play))
		return 1;
	for (i = 0; i < number; i++) {
		if (!recv_before(w, play, job, i))
			return 2;
		if (!send_honest(w, play, job, i))
			return 3;
	}
	if (number < play_frames_in(play) && !recv_before(w, play, job, number))
		return 4;
	return 0;
}

/* What rank 0 has to find at element @i of its result; 0 is untouched. */
static int32_t result_at(const struct play *play, uint64_t i)
{
	if (play->collective == ALLREDUCE_COLLECTIVE_ALLGATHER)
		return vector_part(i / CHUNK_COUNT, i % CHUNK_COUNT);
	if (i >= play->count)
		return 0;
	switch (play->collective) {
	case ALLREDUCE_COLLECTIVE_BROADCAST:
		return vector_part(play->root, i);
	case ALLREDUCE_COLLECTIVE_REDUCE:
		return play->root ? 0 : vector_sum(SIZE, i);
	default:
		return vector_sum(SIZE, i);
	}
}

unsigned int wrong_result(const struct wire *w, const struct play *play)
{
	unsigned int i, n = 0;

	for (i = 0; i < COUNT_MAX; i++)
		n += w->dst.data[i] != result_at(play, i);
	return n;
}

int exchange(struct wire *w, const struct play *play, uint64_t job)
{
	int step = honest_until(w, play, job, play_frames_in(play));

	if (step)
		return step;
	if (!recv_turns(w, play, job, ALL_TURNS))
		return 5;
	if (submit_reap(&w->uring, PATIENCE_MS, NULL))
		return 6;
	if (wrong_result(w, play))
		return 7;
	return vector_spoilt(&w->dst) || vector_changed(&w->src, 0) ? 8 : 0;
}
