// SPDX-License-Identifier: GPL-2.0
/*
 * The lane: one path around the ring, driven by one work item.
 *
 * States follow from the ring's and the links':
 *
 *   ring DOWN, BROKEN  the work lets go of sockets, queue and jobs (stop)
 *   ring CONNECTING    it connects to next, greets, and takes the connection
 *                      that the listener offers as prev (setup)
 *   ring UP            it receives, injects and sends until nothing moves (run)
 *
 * A frame's way, in receive(): parser -> header() checks it against the job
 * and this member's place, waits (-EAGAIN) for a job that is not submitted yet,
 * for own frames of an earlier job to be sent, or for room in the queue, and
 * puts the outgoing header into the queue; payload() then does, run by run, what
 * the frame is for (payload.c); end() counts and, where the chunk's way ends
 * here, queues the token for its first rank.
 *
 * The outgoing bytes leave in send(), after the receiving socket's lock was
 * released, whether or not the rest of the frame has come: cut-through.
 */
#include <linux/bvec.h>
#include <linux/jiffies.h>
#include <linux/mm.h>

#include "allreduce.h"

/* Payload bytes taken in one go under the socket's lock. */
#define AR_RX_BATCH		(128 * 1024)
/* Rounds of receive, inject, send before other work gets its turn. */
#define AR_ROUNDS		16
#define AR_SEND_VECS		32
/* TCP had no memory for even one packet. */
#define AR_NO_MEMORY_RETRY_MS	10

#define AR_BACKOFF_MIN_MS	20
#define AR_BACKOFF_MAX_MS	1000
/* While connecting, deadlines are looked at so often. */
#define AR_SETUP_POLL_MS	250

void ar_lane_queue(struct ar_lane *lane)
{
	queue_work(ar_wq, &lane->work);
}

static const union ar_addr *ar_lane_next_addr(struct ar_lane *lane)
{
	return &lane->ring->config.members[ar_ring_next_rank(lane->ring)];
}

static const union ar_addr *ar_lane_prev_addr(struct ar_lane *lane)
{
	return &lane->ring->config.members[ar_ring_prev_rank(lane->ring)];
}

/* ---- receive ------------------------------------------------------------- */

static int ar_lane_bad_frame(struct ar_lane *lane, const char *field, u64 value)
{
	ar_ring_break(lane->ring, -EBADMSG,
		      "lane %u: rank %u sent a frame with %s %llu",
		      lane->index, ar_ring_prev_rank(lane->ring), field, value);
	return -EBADMSG;
}

static int ar_lane_bad_chunk(struct ar_lane *lane, u32 chunk, u8 phase)
{
	ar_ring_break(lane->ring, -EBADMSG,
		      "lane %u: rank %u sent a frame with chunk %u in phase %u, against its place in the job",
		      lane->index, ar_ring_prev_rank(lane->ring), chunk, phase);
	return -EBADMSG;
}

/* The part whose frames are due from prev, or NULL. */
static struct ar_job_lane *ar_lane_receiving(struct ar_lane *lane)
{
	struct ar_job_lane *jl;

	list_for_each_entry(jl, &lane->jobs, node)
		if (jl->left.to_receive)
			return jl;
	return NULL;
}

/*
 * The part that an incoming frame belongs to: the first of the FIFO that has
 * frames to come, since prev sends jobs in order. NULL if the job has not been
 * submitted here yet; @passed if the frame is of another job than the one due,
 * which is returned if any is.
 */
static struct ar_job_lane *ar_lane_part(struct ar_lane *lane, u64 number,
					bool *passed)
{
	struct ar_ring *ring = lane->ring;
	struct ar_job_lane *jl;

	spin_lock(&ring->lock);
	jl = ar_lane_receiving(lane);
	if (jl)
		*passed = jl->job->number != number;
	else
		*passed = number <= ring->jobs_submitted;
	spin_unlock(&ring->lock);
	return jl;
}

static int ar_lane_mismatch(struct ar_lane *lane, const struct ar_frame_hdr *hdr,
			    const struct allreduce_call *call)
{
	struct allreduce_call theirs = {
		.collective = hdr->collective,
		.type = hdr->type,
		.op = hdr->op,
		.count = le64_to_cpu(hdr->count),
		.root = le32_to_cpu(hdr->root),
	};
	char their_text[72], our_text[72];

	ar_call_describe(their_text, sizeof(their_text), &theirs);
	ar_call_describe(our_text, sizeof(our_text), call);
	ar_ring_break(lane->ring, -EINVAL,
		      "job %llu: rank %u calls %s, rank %u %s",
		      le64_to_cpu(hdr->job), ar_ring_prev_rank(lane->ring),
		      their_text, lane->ring->config.rank, our_text);
	return -EINVAL;
}

static bool ar_lane_same_call(const struct ar_frame_hdr *hdr,
			      const struct allreduce_call *call)
{
	return le64_to_cpu(hdr->count) == call->count &&
	       hdr->collective == call->collective && hdr->type == call->type &&
	       hdr->op == call->op && le32_to_cpu(hdr->root) == call->root;
}

/* The call of a job in flight, whatever lanes it uses. */
static bool ar_ring_find_call(struct ar_ring *ring, u64 number,
			      struct allreduce_call *call)
{
	struct ar_job *job;
	bool found = false;

	spin_lock(&ring->lock);
	list_for_each_entry(job, &ring->jobs, node) {
		if (job->number == number) {
			*call = job->call;
			found = true;
			break;
		}
	}
	spin_unlock(&ring->lock);
	return found;
}

/*
 * A frame of another job than @due, the lane's next. Which lanes a job uses
 * follows from its call, so a member whose calls differ can be the reason.
 */
static int ar_lane_out_of_turn(struct ar_lane *lane, const struct ar_frame_hdr *hdr,
			       const struct ar_job_lane *due)
{
	u64 number = le64_to_cpu(hdr->job);
	struct allreduce_call call;

	if (ar_ring_find_call(lane->ring, number, &call) &&
	    !ar_lane_same_call(hdr, &call))
		return ar_lane_mismatch(lane, hdr, &call);
	if (!due || number < due->job->number)
		return ar_lane_bad_frame(lane, "a job that is over, number", number);
	ar_ring_break(lane->ring, -EINVAL,
		      "lane %u: rank %u sent job %llu where job %llu is due: their calls of it differ",
		      lane->index, ar_ring_prev_rank(lane->ring), number,
		      due->job->number);
	return -EINVAL;
}

/* Fields whose value does not depend on the job. */
static int ar_lane_check_fixed(struct ar_lane *lane, const struct ar_frame_hdr *hdr)
{
	if (le16_to_cpu(hdr->magic) != AR_FRAME_MAGIC)
		return ar_lane_bad_frame(lane, "magic", le16_to_cpu(hdr->magic));
	if (hdr->codec)
		return ar_lane_bad_frame(lane, "codec", hdr->codec);
	if (hdr->flags)
		return ar_lane_bad_frame(lane, "flags", hdr->flags);
	if (hdr->weight)
		return ar_lane_bad_frame(lane, "weight", le32_to_cpu(hdr->weight));
	if (hdr->reserved[0] || hdr->reserved[1])
		return ar_lane_bad_frame(lane, "reserved",
					 le64_to_cpu(hdr->reserved[0]));
	if (!hdr->job)
		return ar_lane_bad_frame(lane, "job", 0);
	return 0;
}

/**
 * struct ar_place - where a frame belongs in its job
 * @action: what is to be done with it
 * @chunk: its chunk
 * @offset: of its first byte in the chunk
 * @len: payload bytes
 * @owes_token: the chunk's way ends with it, and its first rank waits for that
 */
struct ar_place {
	enum ar_action action;
	u32 chunk;
	u64 offset;
	u32 len;
	bool owes_token;
};

/* Phase, chunk, offset and length must be those of the next frame due. */
static int ar_lane_check_place(struct ar_lane *lane, const struct ar_frame_hdr *hdr,
			       struct ar_job_lane *jl, struct ar_place *place)
{
	const struct ar_ring_config *config = &lane->ring->config;
	const struct ar_plan *plan = &jl->job->plan;
	u32 element_bytes = jl->job->element_bytes;
	u32 chunk = le32_to_cpu(hdr->chunk);
	struct ar_range piece;
	u64 bytes = 0, offset, number;

	if (!hdr->phase || hdr->phase > AR_PHASES)
		return ar_lane_bad_frame(lane, "phase", hdr->phase);
	place->chunk = chunk;
	place->action = ar_plan_action(plan, hdr->phase, chunk, config->rank);
	if (place->action == AR_REFUSE)
		return ar_lane_bad_chunk(lane, chunk, hdr->phase);
	piece = ar_plan_piece(plan, chunk, jl->index);
	if (hdr->phase != AR_PHASE_TOKEN)
		bytes = piece.count * element_bytes;
	number = jl->next_frame[hdr->phase - 1][chunk];
	offset = number * config->frame_max;
	if (le64_to_cpu(hdr->offset) != offset || (offset && offset >= bytes))
		return ar_lane_bad_frame(lane, "offset", le64_to_cpu(hdr->offset));
	place->len = min_t(u64, config->frame_max, bytes - offset);
	if (le32_to_cpu(hdr->len) != place->len)
		return ar_lane_bad_frame(lane, "length", le32_to_cpu(hdr->len));
	if (place->action == AR_TAKE_TOKEN && jl->left.to_inject)
		return ar_lane_bad_frame(lane, "a token too early, job",
					 jl->job->number);
	place->offset = piece.start * element_bytes + offset;
	place->owes_token = place->action != AR_TAKE_TOKEN &&
			    ar_plan_sends_token(plan, chunk, config->rank) &&
			    number + 1 == ar_frames(bytes, config->frame_max);
	return 0;
}

static int ar_lane_put_header(struct ar_lane *lane, struct ar_job_lane *jl,
			      enum ar_phase phase, u32 chunk, u64 offset, u32 len)
{
	const struct allreduce_call *call = &jl->job->call;
	struct ar_frame_hdr *hdr;

	hdr = (struct ar_frame_hdr *)ar_txq_reserve_header(&lane->txq);
	if (!hdr)
		return -ENOMEM;
	*hdr = (struct ar_frame_hdr) {
		.magic = cpu_to_le16(AR_FRAME_MAGIC),
		.phase = phase,
		.len = cpu_to_le32(len),
		.job = cpu_to_le64(jl->job->number),
		.offset = cpu_to_le64(offset),
		.count = cpu_to_le64(call->count),
		.chunk = cpu_to_le32(chunk),
		.collective = call->collective,
		.type = call->type,
		.op = call->op,
		.root = cpu_to_le32(call->root),
	};
	ar_txq_commit(&lane->txq, sizeof(*hdr));
	return 0;
}

static void ar_lane_open_frame(struct ar_lane *lane, const struct ar_frame_hdr *hdr,
			       struct ar_job_lane *jl, const struct ar_place *place)
{
	struct ar_rx_frame *rx = &lane->rx;

	rx->jl = jl;
	rx->action = place->action;
	rx->chunk = place->chunk;
	rx->sending = ar_action_sends(place->action);
	rx->owes_token = place->owes_token;
	jl->next_frame[hdr->phase - 1][place->chunk]++;
	if (ar_action_reduces(place->action))
		ar_payload_seek_src(&rx->local, jl->job, place->chunk, place->offset);
	if (ar_action_delivers(place->action))
		ar_payload_seek_dst(&rx->result, jl->job, place->chunk, place->offset);
}

/*
 * May a frame be taken whose coming makes this member send @bytes? Not before
 * everything of the jobs before it has been sent, and there is room.
 */
static bool ar_lane_may_send(struct ar_lane *lane, struct ar_job_lane *jl, u32 bytes)
{
	bool first, room;

	spin_lock(&lane->ring->lock);
	first = list_is_first(&jl->sending, &lane->sending);
	spin_unlock(&lane->ring->lock);
	room = ar_txq_may_forward(&lane->txq, bytes);
	WRITE_ONCE(lane->needs_room, !room);
	return first && room;
}

static int ar_lane_header(void *ctx, const struct ar_frame_hdr *hdr, u32 *grain)
{
	struct ar_lane *lane = ctx;
	struct ar_job_lane *jl;
	struct ar_place place;
	bool passed, sends;
	int ret;

	ret = ar_lane_check_fixed(lane, hdr);
	if (ret)
		return ret;
	jl = ar_lane_part(lane, le64_to_cpu(hdr->job), &passed);
	if (passed)
		return ar_lane_out_of_turn(lane, hdr, jl);
	if (!jl)
		return -EAGAIN;
	if (!ar_lane_same_call(hdr, &jl->job->call))
		return ar_lane_mismatch(lane, hdr, &jl->job->call);
	ret = ar_lane_check_place(lane, hdr, jl, &place);
	if (ret)
		return ret;
	sends = ar_action_sends(place.action);
	if ((sends || place.owes_token) &&
	    !ar_lane_may_send(lane, jl, sizeof(*hdr) + place.len))
		return -EAGAIN;
	if (sends) {
		ret = ar_lane_put_header(lane, jl, place.action == AR_REDUCE ?
					 AR_PHASE_REDUCE : AR_PHASE_GATHER,
					 place.chunk, le64_to_cpu(hdr->offset),
					 place.len);
		if (ret)
			return ret;
	}
	ar_lane_open_frame(lane, hdr, jl, &place);
	if (ar_action_reduces(place.action))
		*grain = jl->job->element_bytes;
	return 0;
}

static int ar_lane_payload(void *ctx, const u8 *data, u32 len, bool carried)
{
	struct ar_lane *lane = ctx;

	if (carried)
		ar_stat_add(&lane->stats, elements_straddled, 1);
	return ar_payload_receive(lane, data, len);
}

static void ar_lane_part_over(struct ar_lane *lane, struct ar_job_lane *jl)
{
	spin_lock(&lane->ring->lock);
	list_move_tail(&jl->node, &lane->finished);
	spin_unlock(&lane->ring->lock);
}

/* One frame less to be sent; the next job's turn if it was the last. */
static void ar_lane_part_sent(struct ar_lane *lane, struct ar_job_lane *jl,
			      u64 *frames)
{
	--*frames;
	if (ar_part_owes_next(jl))
		return;
	spin_lock(&lane->ring->lock);
	list_del_init(&jl->sending);
	spin_unlock(&lane->ring->lock);
}

/*
 * All frames of the part have come. Where pages of the user's have gone out,
 * fact 2 says that all have; copies and nothing can still be to be sent.
 */
static int ar_lane_part_received(struct ar_lane *lane, struct ar_job_lane *jl)
{
	const struct ar_plan *plan = &jl->job->plan;

	if (!jl->left.to_inject)
		ar_lane_part_over(lane, jl);
	else if (plan->token || plan->reduce)
		return ar_lane_bad_frame(lane, "a result too early, job",
					 jl->job->number);
	return 0;
}

static int ar_lane_end(void *ctx)
{
	struct ar_lane *lane = ctx;
	struct ar_rx_frame *rx = &lane->rx;
	struct ar_job_lane *jl = rx->jl;
	int ret;

	ar_stat_add(&lane->stats, frames_received, 1);
	if (rx->owes_token) {
		ret = ar_lane_put_header(lane, jl, AR_PHASE_TOKEN, rx->chunk, 0, 0);
		if (ret)
			return ret;
	}
	if (rx->sending || rx->owes_token) {
		ar_stat_add(&lane->stats, frames_sent, 1);
		lane->forwarded++;
		ar_lane_part_sent(lane, jl, &jl->left.to_forward);
	}
	rx->sending = false;
	rx->owes_token = false;
	rx->jl = NULL;
	if (--jl->left.to_receive)
		return 0;
	return ar_lane_part_received(lane, jl);
}

static const struct ar_parser_ops ar_lane_parser_ops = {
	.header = ar_lane_header,
	.payload = ar_lane_payload,
	.end = ar_lane_end,
};

static ssize_t ar_lane_feed(struct ar_lane *lane, struct page *page, u32 offset,
			    const u8 *data, size_t len)
{
	lane->run.page = page;
	lane->run.offset = offset;
	lane->run.base = data;
	return ar_parser_feed(&lane->parser, data, len, &ar_lane_parser_ops, lane);
}

/* Take what prev has sent, a batch at most: bytes, 0 or an error. */
static int ar_lane_receive(struct ar_lane *lane)
{
	ssize_t ret;

	if (lane->parser.state == AR_PARSER_PARKED) {
		ret = ar_lane_feed(lane, NULL, 0, NULL, 0);
		if (ret < 0)
			return ret;
		if (lane->parser.state == AR_PARSER_PARKED)
			return 0;
	}
	ret = ar_link_receive(&lane->prev, AR_RX_BATCH, ar_lane_feed);
	if (ret > 0)
		ar_stat_add(&lane->stats, bytes_received, ret);
	return ret;
}

/* ---- inject -------------------------------------------------------------- */

/*
 * The part to inject from. Jobs are serial on a lane: nothing of a job is sent
 * before all of the one before it has been.
 */
static struct ar_job_lane *ar_lane_injectable(struct ar_lane *lane)
{
	struct ar_job_lane *jl;

	spin_lock(&lane->ring->lock);
	jl = list_first_entry_or_null(&lane->sending, struct ar_job_lane, sending);
	spin_unlock(&lane->ring->lock);
	return jl && jl->left.to_inject ? jl : NULL;
}

static int ar_lane_inject_frame(struct ar_lane *lane, struct ar_job_lane *jl)
{
	const struct ar_ring_config *config = &lane->ring->config;
	const struct ar_plan *plan = &jl->job->plan;
	u32 element_bytes = jl->job->element_bytes;
	u32 chunk = ar_plan_own_chunk(plan, config->rank);
	struct ar_range piece = ar_plan_piece(plan, chunk, jl->index);
	u64 offset = jl->inject_offset;
	u32 len = min_t(u64, config->frame_max, piece.count * element_bytes - offset);
	int ret;

	ret = ar_lane_put_header(lane, jl, plan->reduce ? AR_PHASE_REDUCE :
				 AR_PHASE_GATHER, chunk, offset, len);
	if (!ret)
		ret = ar_payload_inject(lane, jl, chunk,
					piece.start * element_bytes + offset, len);
	if (ret)
		return ret;
	jl->inject_offset += len;
	lane->forwarded = 0;
	ar_stat_add(&lane->stats, frames_sent, 1);
	ar_lane_part_sent(lane, jl, &jl->left.to_inject);
	if (!jl->left.to_inject && !jl->left.to_receive)
		ar_lane_part_over(lane, jl);
	return 0;
}

/*
 * One frame of the own chunk, if there is one and it is its turn: about one for
 * each ar_plan_share() that pass through, which is the share that keeps all
 * members equally fast; as many as fit when nothing comes. Frames, 0 or an error.
 */
static int ar_lane_inject(struct ar_lane *lane, bool prev_is_idle)
{
	struct ar_job_lane *jl;
	int ret;

	if (lane->rx.sending || !ar_txq_may_inject(&lane->txq))
		return 0;
	jl = ar_lane_injectable(lane);
	if (!jl)
		return 0;
	if (!prev_is_idle && lane->forwarded < ar_plan_share(&jl->job->plan))
		return 0;
	ret = ar_lane_inject_frame(lane, jl);
	return ret ?: 1;
}

/* ---- send ---------------------------------------------------------------- */

static void ar_lane_retry_later(struct ar_lane *lane, u32 ms)
{
	mod_delayed_work(ar_wq, &lane->retry, msecs_to_jiffies(ms));
}

static int ar_lane_lost_next(struct ar_lane *lane, int error)
{
	ar_ring_break(lane->ring, error,
		      "lane %u: connection to rank %u (%pISpc) lost",
		      lane->index, ar_ring_next_rank(lane->ring),
		      &ar_lane_next_addr(lane)->sa);
	return error;
}

static int ar_lane_lost_prev(struct ar_lane *lane, int error)
{
	ar_ring_break(lane->ring, error,
		      "lane %u: connection from rank %u (%pISpc) lost",
		      lane->index, ar_ring_prev_rank(lane->ring),
		      &ar_lane_prev_addr(lane)->sa);
	return error;
}

/* Hand the queue to TCP as far as it takes it: bytes, 0 or an error. */
static ssize_t ar_lane_send(struct ar_lane *lane)
{
	struct bio_vec bv[AR_SEND_VECS];
	struct ar_txq *q = &lane->txq;
	ssize_t sent = 0;
	size_t bytes;
	u32 nr;

	while ((nr = ar_txq_peek(q, bv, AR_SEND_VECS, &bytes))) {
		bool more = bytes < q->bytes || lane->rx.sending;
		ssize_t ret = ar_link_send(&lane->next, bv, nr, bytes, more);

		if (ret == -EAGAIN) {
			/* No acknowledgment is due that would queue the work. */
			if (ar_link_is_idle(&lane->next))
				ar_lane_retry_later(lane, AR_NO_MEMORY_RETRY_MS);
			break;
		}
		if (ret < 0)
			return ar_lane_lost_next(lane, ret);
		ar_txq_consume(q, ret);
		sent += ret;
		ar_stat_add(&lane->stats, bytes_sent, ret);
		if (!ar_link_sends_by_reference(&lane->next))
			ar_stat_add(&lane->stats, bytes_copied, ret);
	}
	if (sent && !q->bytes && wq_has_sleeper(&lane->ring->idle))
		wake_up_all(&lane->ring->idle);
	return sent;
}

/* ---- run ----------------------------------------------------------------- */

static void ar_lane_report_finished(struct ar_lane *lane)
{
	struct ar_job_lane *jl, *tmp;

	/* Only this work item adds to or takes from the list. */
	list_for_each_entry_safe(jl, tmp, &lane->finished, node) {
		list_del(&jl->node);
		if (jl->job->plan.copies)
			ar_payload_sum_copies(lane, jl->job);
		ar_job_part_done(jl, 0);
	}
}

/*
 * A ring of one: the result is the contribution. A part whose copy is cut off
 * stays on the FIFO for ar_lane_stop(), which the broken ring has queued.
 */
static void ar_lane_run_alone(struct ar_lane *lane)
{
	struct ar_ring *ring = lane->ring;
	struct ar_job_lane *jl;

	while (ar_ring_is_up(ring)) {
		spin_lock(&ring->lock);
		jl = list_first_entry_or_null(&lane->jobs, struct ar_job_lane, node);
		spin_unlock(&ring->lock);
		if (!jl || !ar_payload_run_alone(lane, jl))
			return;
		spin_lock(&ring->lock);
		list_del(&jl->node);
		spin_unlock(&ring->lock);
		WRITE_ONCE(lane->progress, jiffies);
		ar_job_part_done(jl, 0);
	}
}

static bool ar_lane_owes_next(struct ar_lane *lane)
{
	bool owes;

	spin_lock(&lane->ring->lock);
	owes = lane->txq.bytes || !list_empty(&lane->sending);
	spin_unlock(&lane->ring->lock);
	return owes;
}

static bool ar_lane_awaits_prev(struct ar_lane *lane)
{
	bool awaits;

	spin_lock(&lane->ring->lock);
	awaits = ar_lane_receiving(lane);
	spin_unlock(&lane->ring->lock);
	return awaits;
}

static void ar_lane_check_links(struct ar_lane *lane)
{
	struct ar_ring *ring = lane->ring;
	int prev = ar_link_status(&lane->prev);
	int next = ar_link_status(&lane->next);

	WRITE_ONCE(lane->prev_closed, prev > 0);
	WRITE_ONCE(lane->next_closed, next > 0);
	if (prev < 0 || (prev > 0 && ar_lane_awaits_prev(lane)))
		ar_lane_lost_prev(lane, prev < 0 ? prev : -ECONNRESET);
	else if (next < 0 || (next > 0 && ar_lane_owes_next(lane)))
		ar_lane_lost_next(lane, next < 0 ? next : -ECONNRESET);
	else if (ar_link_has_data(&lane->next))
		ar_ring_break(ring, -EPROTO,
			      "lane %u: rank %u sent data against the ring's direction",
			      lane->index, ar_ring_next_rank(ring));
	else if (prev > 0 || next > 0 || READ_ONCE(ring->link_closed))
		ar_ring_neighbour_closed(ring);
}

/* Until nothing moves or it is the others' turn; true if something moved last. */
static bool ar_lane_run(struct ar_lane *lane)
{
	int round, received, injected;
	ssize_t sent;

	if (lane->ring->config.size == 1) {
		ar_lane_run_alone(lane);
		return false;
	}
	for (round = 0; round < AR_ROUNDS; round++) {
		received = ar_lane_receive(lane);
		injected = received < 0 ? received :
			   ar_lane_inject(lane, !received);
		sent = injected < 0 ? injected : ar_lane_send(lane);
		if (sent < 0) {
			/* Most errors have broken the ring with a better reason. */
			ar_ring_break(lane->ring, sent, "lane %u: error %zd",
				      lane->index, sent);
			return false;
		}
		/* Not before the sends: a ring that breaks completes nothing. */
		ar_lane_report_finished(lane);
		if (!received && !injected && !sent) {
			ar_lane_check_links(lane);
			return false;
		}
		WRITE_ONCE(lane->progress, jiffies);
		cond_resched();
	}
	return true;
}

/* ---- setup --------------------------------------------------------------- */

static void ar_lane_connect_failed(struct ar_lane *lane, int error)
{
	struct ar_ring *ring = lane->ring;

	ar_link_close(&lane->next);
	/* A refusal has been noted with its reason already. */
	if (error != -EPROTO)
		ar_ring_note(ring, error, "rank %u (%pISpc) %s, error %d",
			     ar_ring_next_rank(ring), &ar_lane_next_addr(lane)->sa,
			     error == -EAGAIN ? "is not connecting yet" :
			     "can't be reached", error);
	lane->backoff_ms = clamp_t(u32, 2 * lane->backoff_ms, AR_BACKOFF_MIN_MS,
				   AR_BACKOFF_MAX_MS);
	ar_lane_retry_later(lane, lane->backoff_ms);
}

static void ar_lane_setup_next(struct ar_lane *lane)
{
	int ret = 0;

	switch (lane->next.state) {
	case AR_LINK_CLOSED:
		ret = ar_link_connect(&lane->next);
		break;
	case AR_LINK_CONNECTING:
	case AR_LINK_GREETING:
		ret = ar_link_greet(&lane->next);
		break;
	case AR_LINK_UP:
		ret = ar_link_status(&lane->next);
		if (ret > 0)
			ret = -ECONNRESET;
		break;
	}
	if (ret < 0)
		ar_lane_connect_failed(lane, ret);
	else if (lane->next.state != AR_LINK_UP)
		ar_lane_retry_later(lane, AR_SETUP_POLL_MS);
}

static struct socket *ar_lane_take_offered(struct ar_lane *lane)
{
	struct socket *sock;

	spin_lock(&lane->ring->lock);
	sock = lane->offered;
	lane->offered = NULL;
	spin_unlock(&lane->ring->lock);
	return sock;
}

static void ar_lane_setup_prev(struct ar_lane *lane)
{
	struct socket *sock = ar_lane_take_offered(lane);

	if (sock) {
		/* A second connection means that prev has given up the first. */
		ar_link_close(&lane->prev);
		if (ar_link_adopt(&lane->prev, sock))
			ar_link_close(&lane->prev);
	}
	if (lane->prev.state == AR_LINK_UP && ar_link_status(&lane->prev))
		ar_link_close(&lane->prev);
}

static void ar_lane_setup(struct ar_lane *lane)
{
	if (lane->ring->config.size > 1) {
		ar_lane_setup_prev(lane);
		/* Not before the back-off is over. */
		if (lane->next.state != AR_LINK_CLOSED ||
		    !delayed_work_pending(&lane->retry))
			ar_lane_setup_next(lane);
		ar_ring_lane_up(lane, lane->next.state == AR_LINK_UP &&
				lane->prev.state == AR_LINK_UP);
	} else {
		ar_ring_lane_up(lane, true);
	}
}

/* ---- stop ---------------------------------------------------------------- */

static void ar_lane_abandon(struct ar_lane *lane, struct list_head *parts)
{
	struct ar_ring *ring = lane->ring;
	struct ar_job_lane *jl;
	int error;

	for (;;) {
		spin_lock(&ring->lock);
		error = ring->error ?: -ECANCELED;
		jl = list_first_entry_or_null(parts, struct ar_job_lane, node);
		if (jl) {
			list_del(&jl->node);
			list_del_init(&jl->sending);
		}
		spin_unlock(&ring->lock);
		if (!jl)
			return;
		ar_job_part_done(jl, error);
	}
}

static void ar_lane_stop(struct ar_lane *lane)
{
	struct socket *sock = ar_lane_take_offered(lane);

	if (sock)
		ar_link_release_socket(sock);
	cancel_delayed_work(&lane->retry);
	if (READ_ONCE(lane->ring->draining)) {
		ar_link_shutdown(&lane->next);
		ar_link_shutdown(&lane->prev);
	}
	ar_link_close(&lane->next);
	ar_link_close(&lane->prev);
	ar_ring_lane_up(lane, false);
	ar_txq_purge(&lane->txq);
	memset(&lane->parser, 0, sizeof(lane->parser));
	memset(&lane->rx, 0, sizeof(lane->rx));
	lane->forwarded = 0;
	lane->needs_room = false;
	lane->prev_closed = false;
	lane->next_closed = false;
	lane->backoff_ms = 0;
	ar_lane_abandon(lane, &lane->finished);
	ar_lane_abandon(lane, &lane->jobs);
}

static void ar_lane_work(struct work_struct *work)
{
	struct ar_lane *lane = container_of(work, struct ar_lane, work);

	switch (READ_ONCE(lane->ring->state)) {
	case ALLREDUCE_RING_CONNECTING:
		ar_lane_setup(lane);
		break;
	case ALLREDUCE_RING_UP:
		if (ar_lane_run(lane))
			ar_lane_queue(lane);
		break;
	case ALLREDUCE_RING_DOWN:
	case ALLREDUCE_RING_BROKEN:
		ar_lane_stop(lane);
		break;
	}
}

static void ar_lane_retry(struct work_struct *work)
{
	struct ar_lane *lane = container_of(to_delayed_work(work), struct ar_lane,
					    retry);

	ar_lane_queue(lane);
}

/**
 * ar_lane_offer - hand an accepted connection from prev to its lane
 * @lane: the lane
 * @sock: the socket, greeted; belongs to the lane after success
 *
 * Return: 0, or -ENOTCONN if the ring is not connecting.
 */
int ar_lane_offer(struct ar_lane *lane, struct socket *sock)
{
	struct ar_ring *ring = lane->ring;
	struct socket *old = NULL;
	int ret = -ENOTCONN;

	spin_lock(&ring->lock);
	if (ring->state == ALLREDUCE_RING_CONNECTING) {
		old = lane->offered;
		lane->offered = sock;
		ar_lane_queue(lane);
		ret = 0;
	}
	spin_unlock(&ring->lock);
	if (old)
		ar_link_release_socket(old);
	return ret;
}

void ar_lane_init(struct ar_lane *lane, struct ar_ring *ring, u32 index)
{
	lane->ring = ring;
	lane->index = index;
	INIT_WORK(&lane->work, ar_lane_work);
	INIT_DELAYED_WORK(&lane->retry, ar_lane_retry);
	INIT_LIST_HEAD(&lane->jobs);
	INIT_LIST_HEAD(&lane->sending);
	INIT_LIST_HEAD(&lane->finished);
	ar_link_init(&lane->next, lane);
	ar_link_init(&lane->prev, lane);
}

/* The ring is broken for good: wait until the lane has let go of everything. */
void ar_lane_exit(struct ar_lane *lane)
{
	cancel_delayed_work_sync(&lane->retry);
	ar_lane_queue(lane);
	flush_work(&lane->work);
	cancel_delayed_work_sync(&lane->retry);
	flush_work(&lane->work);
	ar_txq_exit(&lane->txq);
}
