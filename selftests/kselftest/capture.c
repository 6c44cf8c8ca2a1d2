// SPDX-License-Identifier: GPL-2.0
/*
 * A packet capture that holds what it sees holds the module's pages: it must
 * read later what was sent, not what the pages would be used for next.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "env.h"
#include "frame.h"
#include "partition.h"
#include "../../tools/arbench/reference.h"
#include "kselftest_harness.h"

#define SIZE		2
#define LANES		1
/* Together several times what a lane's pool of pages has. */
#define JOBS		30
#define COUNT		50003
#define BYTES		(COUNT * sizeof(float))
#define STREAMS		16
/* Pages that are reused at once stop TCP too: end before the harness does. */
#define TIMEOUT_MS	5000
#define PACKET_MAX	(256 * 1024)

/* What a connection from rank 0 to rank 1 has carried. */
struct stream {
	unsigned int port;
	uint32_t next_seq;
	unsigned char *data;
	size_t len;
	size_t room;
};

struct capture {
	int fd;
	struct stream streams[STREAMS];
	unsigned int n_streams;
};

/* Sources and results of all jobs, which stay until the capture is read. */
struct vectors {
	float *src[SIZE][JOBS];
	float *dst[SIZE][JOBS];
};

/*
 * What the frames of the capture came to; bytes for each job, since a frame
 * that was written again whole passes for one of a later job.
 */
struct seen {
	uint64_t reduce_bytes[JOBS];
	uint64_t gather_bytes[JOBS];
	uint64_t gather_frames;
	uint64_t wrong_frames;
};

/* ---- capture --------------------------------------------------------------- */

static int capture_socket(void)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL) };
	int fd, bytes = 256 * 1024 * 1024;

	/* protocol 0: nothing is captured before it is bound */
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	addr.sll_ifindex = if_nametoindex("eth0");
	if (addr.sll_ifindex &&
	    !setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) &&
	    !bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fd;
	bytes = -errno;
	close(fd);
	return bytes;
}

/* A socket that sees rank 0's interface; nobody reads it before the end. */
static int capture_open(struct capture *c)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	memset(c, 0, sizeof(*c));
	c->fd = -1;
	if (here < 0)
		return -errno;
	if (!env_enter(0))
		c->fd = capture_socket();
	if (setns(here, CLONE_NEWNET))
		abort();
	close(here);
	return c->fd < 0 ? c->fd : 0;
}

static void capture_close(struct capture *c)
{
	if (c->fd >= 0)
		close(c->fd);
	while (c->n_streams)
		free(c->streams[--c->n_streams].data);
}

static int stream_append(struct stream *s, const unsigned char *data, size_t len)
{
	if (s->len + len > s->room) {
		size_t room = 2 * (s->len + len);
		unsigned char *grown = realloc(s->data, room);

		if (!grown)
			return -ENOMEM;
		s->data = grown;
		s->room = room;
	}
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->next_seq += len;
	return 0;
}

static struct stream *capture_stream(struct capture *c, const struct tcphdr *tcp)
{
	unsigned int port = ntohs(tcp->source), i;
	struct stream *s;

	for (i = 0; i < c->n_streams; i++)
		if (c->streams[i].port == port)
			return &c->streams[i];
	if (!tcp->syn || c->n_streams == STREAMS)
		return NULL;
	s = &c->streams[c->n_streams++];
	s->port = port;
	s->next_seq = ntohl(tcp->seq) + 1;
	return s;
}

/* What TCP sends again is dropped: only what was sent first is looked at. */
static int capture_segment(struct capture *c, const struct tcphdr *tcp, size_t len)
{
	struct stream *s = capture_stream(c, tcp);
	const unsigned char *data = (const unsigned char *)tcp + 4 * tcp->doff;
	int32_t old;

	if (!s)
		return -EPROTO;
	if (len < 4U * tcp->doff)
		return -EBADMSG;
	len -= 4 * tcp->doff;
	if (tcp->syn || !len)
		return 0;
	old = s->next_seq - ntohl(tcp->seq);
	/* a gap: the capture missed something */
	if (old < 0)
		return -ENODATA;
	if ((size_t)old >= len)
		return 0;
	return stream_append(s, data + old, len - old);
}

static int capture_packet(struct capture *c, const unsigned char *packet, size_t len)
{
	const struct ethhdr *eth = (const struct ethhdr *)packet;
	const struct iphdr *ip = (const struct iphdr *)(eth + 1);
	const struct tcphdr *tcp;

	if (len < sizeof(*eth) + sizeof(*ip) || eth->h_proto != htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_TCP || ip->saddr != inet_addr("10.88.0.1") ||
	    ip->daddr != inet_addr("10.88.0.2"))
		return 0;
	if (len < sizeof(*eth) + ntohs(ip->tot_len) ||
	    ntohs(ip->tot_len) < 4 * ip->ihl + sizeof(*tcp))
		return -EBADMSG;
	tcp = (const struct tcphdr *)((const unsigned char *)ip + 4 * ip->ihl);
	if (tcp->dest != htons(ALLREDUCE_PORT_DEFAULT))
		return 0;
	return capture_segment(c, tcp, ntohs(ip->tot_len) - 4 * ip->ihl);
}

/* Put together all that was captured. 0 or a negative errno. */
static int capture_read(struct capture *c)
{
	unsigned char *packet = malloc(PACKET_MAX);
	struct sockaddr_ll from;
	socklen_t from_len;
	ssize_t len;
	int ret = 0;

	if (!packet)
		return -ENOMEM;
	while (!ret) {
		from_len = sizeof(from);
		len = recvfrom(c->fd, packet, PACKET_MAX, MSG_TRUNC,
			       (struct sockaddr *)&from, &from_len);
		if (len < 0) {
			ret = errno == EAGAIN ? 0 : -errno;
			break;
		}
		if (len > PACKET_MAX)
			ret = -EMSGSIZE;
		else if (from.sll_pkttype == PACKET_OUTGOING)
			ret = capture_packet(c, packet, len);
	}
	free(packet);
	return ret;
}

/* Packets that there was no room for, or -1. */
static long capture_drops(struct capture *c)
{
	struct tpacket_stats stats;
	socklen_t len = sizeof(stats);

	if (getsockopt(c->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len))
		return -1;
	return stats.tp_drops;
}

/* ---- jobs ------------------------------------------------------------------ */

static struct job job_of(unsigned int i)
{
	return (struct job) { .seed = 11, .count = COUNT, .iteration = i, .size = SIZE,
			      .collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
			      .type = ALLREDUCE_F32, .op = ALLREDUCE_SUM };
}

static int vectors_alloc(struct vectors *v)
{
	unsigned int rank, i;

	memset(v, 0, sizeof(*v));
	for (rank = 0; rank < SIZE; rank++) {
		for (i = 0; i < JOBS; i++) {
			v->src[rank][i] = malloc(BYTES);
			v->dst[rank][i] = calloc(1, BYTES);
			if (!v->src[rank][i] || !v->dst[rank][i])
				return -ENOMEM;
		}
	}
	return 0;
}

static void vectors_free(struct vectors *v)
{
	unsigned int rank, i;

	for (rank = 0; rank < SIZE; rank++) {
		for (i = 0; i < JOBS; i++) {
			free(v->src[rank][i]);
			free(v->dst[rank][i]);
		}
	}
}

static int run_jobs(struct env_member *m)
{
	struct vectors *v = m->arg;
	unsigned int i;
	int ret;

	for (i = 0; i < JOBS; i++) {
		struct job job = job_of(i);

		reference_fill(&job, m->rank, v->src[m->rank][i]);
		ret = aru_allreduce(m->aru, v->src[m->rank][i], v->dst[m->rank][i],
				    job.count, job.type, job.op, NULL);
		if (ret)
			return ret;
	}
	return 0;
}

static uint64_t wrong_results(const struct vectors *v)
{
	uint64_t wrong = 0;
	unsigned int rank, i;

	for (rank = 0; rank < SIZE; rank++) {
		for (i = 0; i < JOBS; i++) {
			struct job job = job_of(i);

			wrong += reference_check(&job, rank, v->dst[rank][i]);
		}
	}
	return wrong;
}

/* ---- frames ---------------------------------------------------------------- */

/* The elements of a chunk, all in one piece: there is one lane. */
static struct ar_range chunk_of(unsigned int chunk)
{
	struct ar_plan plan;

	ar_plan_init(&plan, ALLREDUCE_COLLECTIVE_ALLREDUCE, COUNT, sizeof(float), 0, SIZE,
		     LANES, ALLREDUCE_FRAME_MAX_DEFAULT, ALLREDUCE_GATHER_MAX_DEFAULT);
	return ar_plan_chunk(&plan, chunk);
}

/* A frame of rank 0: sums are the result's, what it injects is its source's. */
static int check_frame(const struct ar_frame_hdr *hdr, const unsigned char *payload,
		       const struct vectors *v, struct seen *seen)
{
	bool gather = hdr->phase == AR_PHASE_GATHER;
	uint64_t number = le64_to_cpu(hdr->job), offset = le64_to_cpu(hdr->offset);
	uint32_t chunk = le32_to_cpu(hdr->chunk), len = le32_to_cpu(hdr->len);
	const float *vector;
	struct ar_range r;

	if (!number || number > JOBS || chunk >= SIZE)
		return -EBADMSG;
	r = chunk_of(chunk);
	if (offset + len > r.count * sizeof(float))
		return -EBADMSG;
	vector = gather ? v->dst[0][number - 1] : v->src[0][number - 1];
	if (memcmp(payload, (const char *)(vector + r.start) + offset, len)) {
		fprintf(stderr, "# job %llu chunk %u offset %llu: the %s frame was written again\n",
			(unsigned long long)number, chunk, (unsigned long long)offset,
			gather ? "GATHER" : "REDUCE");
		seen->wrong_frames++;
	}
	(gather ? seen->gather_bytes : seen->reduce_bytes)[number - 1] += len;
	seen->gather_frames += gather;
	return 0;
}

static int check_frames(const unsigned char *data, size_t len,
			const struct vectors *v, struct seen *seen)
{
	const unsigned char *start = data;
	struct ar_frame_hdr hdr;
	int ret = 0;

	while (len && !ret) {
		uint32_t payload;

		if (len < sizeof(hdr))
			return -ENODATA;
		memcpy(&hdr, data, sizeof(hdr));
		data += sizeof(hdr);
		len -= sizeof(hdr);
		payload = le32_to_cpu(hdr.len);
		/* what was written over with other frames shows here */
		ret = -EBADMSG;
		if (le16_to_cpu(hdr.magic) == AR_FRAME_MAGIC && payload <= len)
			ret = check_frame(&hdr, data, v, seen);
		if (ret)
			fprintf(stderr, "# no frame header of rank 0 at byte %zu of the stream\n",
				(size_t)(data - start) - sizeof(hdr));
		else
			len -= payload;
		data += payload;
	}
	return ret;
}

/* Every frame of every connection. 0 or a negative errno. */
static int check_streams(const struct capture *c, const struct vectors *v,
			 struct seen *seen)
{
	struct ar_hello hello;
	unsigned int i;
	int ret = 0;

	memset(seen, 0, sizeof(*seen));
	for (i = 0; i < c->n_streams && !ret; i++) {
		const struct stream *s = &c->streams[i];

		/* an attempt that nobody answered */
		if (!s->len)
			continue;
		if (s->len < sizeof(hello))
			return -ENODATA;
		memcpy(&hello, s->data, sizeof(hello));
		if (le64_to_cpu(hello.magic) != AR_HELLO_MAGIC)
			return -EBADMSG;
		ret = check_frames(s->data + sizeof(hello), s->len - sizeof(hello), v, seen);
	}
	return ret;
}

/* Jobs of which @bytes is not all of chunk @chunk. */
static unsigned int jobs_incomplete(const uint64_t *bytes, unsigned int chunk)
{
	unsigned int incomplete = 0, i;

	for (i = 0; i < JOBS; i++)
		incomplete += bytes[i] != chunk_of(chunk).count * sizeof(float);
	return incomplete;
}

/* ---- the test -------------------------------------------------------------- */

FIXTURE(capture)
{
	struct env env;
	struct capture capture;
	struct vectors vectors;
};

FIXTURE_SETUP(capture)
{
	struct env_config config = { .size = SIZE, .lanes = LANES, .family = AF_INET,
				     .timeout_ms = TIMEOUT_MS };

	ASSERT_EQ(0, env_namespaces());
	ASSERT_EQ(0, vectors_alloc(&self->vectors));
	/* from the first packet on, so that streams are read from their start */
	ASSERT_EQ(0, capture_open(&self->capture));
	ASSERT_EQ(0, env_up(&self->env, &config));
}

FIXTURE_TEARDOWN(capture)
{
	env_down(&self->env);
	capture_close(&self->capture);
	vectors_free(&self->vectors);
}

/* Rank 0 injects chunk 1 and completes chunk 0, of every job. */
TEST_F_TIMEOUT(capture, held_pages_keep_what_was_sent, 120)
{
	struct seen seen;

	EXPECT_EQ(0, env_run(&self->env, run_jobs, &self->vectors));
	EXPECT_EQ(0, wrong_results(&self->vectors));
	ASSERT_EQ(0, capture_read(&self->capture));
	EXPECT_EQ(0, capture_drops(&self->capture));
	EXPECT_EQ(0, check_streams(&self->capture, &self->vectors, &seen));
	EXPECT_EQ(0, seen.wrong_frames);
	EXPECT_LT(0, seen.gather_frames);
	EXPECT_EQ(0, jobs_incomplete(seen.reduce_bytes, 1));
	EXPECT_EQ(0, jobs_incomplete(seen.gather_bytes, 0));
	/* had it been copied to the pages, they would prove nothing */
	EXPECT_EQ(0, env_stat(&self->env, 0, ALLREDUCE_STAT_BYTES_COPIED));
}

TEST_HARNESS_MAIN
