// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The collectives by name, on top of aru_icall() and aru_wait().
 */
#include <errno.h>

#include "internal.h"

static int take_redop(struct aru *aru, struct allreduce_call *call,
		      const struct aru_redop *redop)
{
	uint64_t factor;

	if (!redop)
		return call->op == ALLREDUCE_PREMULSUM ?
		       aru_refuse(aru, -EINVAL, "op premulsum needs a redop") : 0;
	if (call->op != ALLREDUCE_PREMULSUM)
		return aru_refuse(aru, -EINVAL, "redop must be NULL without op premulsum");
	if (!aru_redop_bits(redop, &factor))
		return aru_refuse(aru, -EINVAL,
				  "redop: type %u is neither f32 (%u) nor f64 (%u)",
				  redop->type, ALLREDUCE_F32, ALLREDUCE_F64);
	call->factor = factor;
	return 0;
}

static int take_opts(struct aru *aru, struct allreduce_call *call,
		     const struct aru_call_opts *user)
{
	struct aru_call_opts opts;
	int ret = aru_opts_copy(&opts, sizeof(opts), user);

	if (ret)
		return aru_refuse(aru, ret, "opts: %s", ret == -E2BIG ?
				  "a field is set that this library does not know" :
				  "sz is not the struct's size");
	call->timeout_ms = opts.timeout_ms;
	return take_redop(aru, call, opts.redop);
}

/**
 * struct args - what the typed functions are given
 *
 * Wider than struct allreduce_call where that has bytes.
 */
struct args {
	enum allreduce_collective collective;
	const void *src;
	void *dst;
	uint64_t count;
	unsigned int type;
	unsigned int op;
	unsigned int root;
	const struct aru_call_opts *opts;
};

static int start(struct aru *aru, const struct args *args, struct aru_request **req)
{
	struct allreduce_call call;
	int ret;

	*req = NULL;
	/* A value that does not fit its byte is told as it was given. */
	if (args->type > UINT8_MAX)
		return aru_refuse(aru, -EINVAL, "type %u is unknown", args->type);
	if (args->op > UINT8_MAX)
		return aru_refuse(aru, -EINVAL, "op %u is unknown", args->op);
	aru_call_init(&call, args->collective, args->src, args->dst, args->count,
		      args->type, args->op);
	call.root = args->root;
	ret = take_opts(aru, &call, args->opts);
	return ret ? ret : aru_icall(aru, &call, req);
}

static int run(struct aru *aru, const struct args *args)
{
	struct aru_request *req;
	int ret = start(aru, args, &req);

	return ret ? ret : aru_wait(req, -1);
}

/* ---- allreduce ----------------------------------------------------------- */

ARU_API int aru_iallreduce(struct aru *aru, const void *src, void *dst,
			   uint64_t count, unsigned int type, unsigned int op,
			   const struct aru_call_opts *opts, struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.opts = opts,
	}, req);
}

ARU_API int aru_allreduce(struct aru *aru, const void *src, void *dst,
			  uint64_t count, unsigned int type, unsigned int op,
			  const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_ALLREDUCE,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.opts = opts,
	});
}

/* ---- reduce_scatter ------------------------------------------------------ */

ARU_API int aru_ireduce_scatter(struct aru *aru, const void *src, void *dst,
				uint64_t count, unsigned int type, unsigned int op,
				const struct aru_call_opts *opts,
				struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.opts = opts,
	}, req);
}

ARU_API int aru_reduce_scatter(struct aru *aru, const void *src, void *dst,
			       uint64_t count, unsigned int type, unsigned int op,
			       const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE_SCATTER,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.opts = opts,
	});
}

/* ---- allgather ----------------------------------------------------------- */

ARU_API int aru_iallgather(struct aru *aru, const void *src, void *dst,
			   uint64_t count, unsigned int type,
			   const struct aru_call_opts *opts, struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_ALLGATHER,
		.src = src, .dst = dst, .count = count, .type = type, .opts = opts,
	}, req);
}

ARU_API int aru_allgather(struct aru *aru, const void *src, void *dst,
			  uint64_t count, unsigned int type,
			  const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_ALLGATHER,
		.src = src, .dst = dst, .count = count, .type = type, .opts = opts,
	});
}

/* ---- broadcast ----------------------------------------------------------- */

ARU_API int aru_ibroadcast(struct aru *aru, const void *src, void *dst,
			   uint64_t count, unsigned int type, unsigned int root,
			   const struct aru_call_opts *opts, struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_BROADCAST,
		.src = src, .dst = dst, .count = count, .type = type, .root = root,
		.opts = opts,
	}, req);
}

ARU_API int aru_broadcast(struct aru *aru, const void *src, void *dst,
			  uint64_t count, unsigned int type, unsigned int root,
			  const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_BROADCAST,
		.src = src, .dst = dst, .count = count, .type = type, .root = root,
		.opts = opts,
	});
}

/* ---- reduce -------------------------------------------------------------- */

ARU_API int aru_ireduce(struct aru *aru, const void *src, void *dst, uint64_t count,
			unsigned int type, unsigned int op, unsigned int root,
			const struct aru_call_opts *opts, struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.root = root, .opts = opts,
	}, req);
}

ARU_API int aru_reduce(struct aru *aru, const void *src, void *dst, uint64_t count,
		       unsigned int type, unsigned int op, unsigned int root,
		       const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_REDUCE,
		.src = src, .dst = dst, .count = count, .type = type, .op = op,
		.root = root, .opts = opts,
	});
}

/* ---- barrier ------------------------------------------------------------- */

ARU_API int aru_ibarrier(struct aru *aru, const struct aru_call_opts *opts,
			 struct aru_request **req)
{
	return start(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_BARRIER, .opts = opts,
	}, req);
}

ARU_API int aru_barrier(struct aru *aru, const struct aru_call_opts *opts)
{
	return run(aru, &(struct args) {
		.collective = ALLREDUCE_COLLECTIVE_BARRIER, .opts = opts,
	});
}
