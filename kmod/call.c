// SPDX-License-Identifier: GPL-2.0
/*
 * What a call must look like, and how it is named in messages.
 *
 * Whoever refuses a call writes into a caller's text (ALLREDUCE_REASON_SIZE
 * bytes) which field is wrong and what is allowed.
 */
#include <linux/kernel.h>

#include "allreduce.h"

static __printf(2, 3) int ar_refuse(char *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vscnprintf(why, ALLREDUCE_REASON_SIZE, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* ---- properties of collectives and types -------------------------------------- */

static const char *ar_collective_name(u8 collective)
{
	switch (collective) {
#define AR_X_NAME(NAME, name, value, src, dst, reduces) \
	case ALLREDUCE_COLLECTIVE_##NAME: \
		return #name;
	ALLREDUCE_FOR_EACH_COLLECTIVE(AR_X_NAME)
#undef AR_X_NAME
	}
	return NULL;
}

static bool ar_collective_reduces(u8 collective)
{
	switch (collective) {
#define AR_X_REDUCES(NAME, name, value, src, dst, reduces) \
	case ALLREDUCE_COLLECTIVE_##NAME: \
		return reduces;
	ALLREDUCE_FOR_EACH_COLLECTIVE(AR_X_REDUCES)
#undef AR_X_REDUCES
	}
	return false;
}

static const char *ar_type_name(u8 type)
{
	switch (type) {
#define AR_X_NAME(NAME, name, value, bytes) \
	case ALLREDUCE_##NAME: \
		return #name;
	ALLREDUCE_FOR_EACH_TYPE(AR_X_NAME)
#undef AR_X_NAME
	}
	return "-";
}

static const char *ar_op_name(u8 op)
{
	switch (op) {
#define AR_X_NAME(NAME, name, value) \
	case ALLREDUCE_##NAME: \
		return #name;
	ALLREDUCE_FOR_EACH_OP(AR_X_NAME)
#undef AR_X_NAME
	}
	return "-";
}

/**
 * ar_call_describe - a call in words
 * @text: where to
 * @size: bytes there
 * @call: the call; only what all members share is named
 *
 * Return: characters written.
 */
int ar_call_describe(char *text, size_t size, const struct allreduce_call *call)
{
	const char *name = ar_collective_name(call->collective);
	int n;

	if (!name)
		return scnprintf(text, size, "collective %u", call->collective);
	n = scnprintf(text, size, "%s", name);
	/* What a collective lacks is named only where a peer pretends to have it. */
	if (call->collective == ALLREDUCE_COLLECTIVE_BARRIER && !call->type &&
	    !call->op && !call->count && !call->root)
		return n;
	if (ar_collective_reduces(call->collective) || call->op)
		n += scnprintf(text + n, size - n, " %s", ar_op_name(call->op));
	n += scnprintf(text + n, size - n, " %s count %llu", ar_type_name(call->type),
		       call->count);
	if (allreduce_has_root(call->collective) || call->root)
		n += scnprintf(text + n, size - n, " root %u", call->root);
	return n;
}

/* NULL if the call reduces nothing, or there is no such operation. */
const struct ar_reduce_kernel *ar_call_kernel(const struct allreduce_call *call)
{
	if (!ar_collective_reduces(call->collective))
		return NULL;
	return ar_reduce_get(call->type, call->op);
}

/* Of an unknown type, and of a barrier, 1. */
u32 ar_call_element_bytes(const struct allreduce_call *call)
{
	return ar_element_bytes(call->type) ?: 1;
}

/* ---- checks ------------------------------------------------------------------- */

static int ar_check_operation(const struct allreduce_call *call, char *why)
{
	if (!ar_collective_name(call->collective))
		return ar_refuse(why, "collective: %u is none", call->collective);
	if (call->collective == ALLREDUCE_COLLECTIVE_BARRIER)
		return call->type || call->op || call->count || call->src ||
		       call->dst ?
		       ar_refuse(why, "barrier: type, op, count, src and dst must be 0") :
		       0;
	if (!ar_element_bytes(call->type))
		return ar_refuse(why, "type: %u is none", call->type);
	if (!ar_collective_reduces(call->collective))
		return call->op ?
		       ar_refuse(why, "op: must be 0 for %s",
				 ar_collective_name(call->collective)) : 0;
	if (!ar_reduce_get(call->type, call->op))
		return ar_refuse(why, "op: %u (%s) is none for type %s", call->op,
				 ar_op_name(call->op), ar_type_name(call->type));
	return 0;
}

static int ar_check_numbers(const struct ar_ring_config *config,
			    const struct allreduce_call *call, char *why)
{
	u32 timeout_ms = call->timeout_ms ?: config->timeout_ms;
	const struct ar_reduce_kernel *kernel = ar_call_kernel(call);
	u64 most = ALLREDUCE_COUNT_MAX;

	if (allreduce_has_blocks(call->collective))
		most /= config->size;
	if (call->count > most)
		return ar_refuse(why, "count: 0 to %llu, not %llu", most, call->count);
	if (allreduce_has_root(call->collective) && call->root >= config->size)
		return ar_refuse(why, "root: 0 to %u, not %u", config->size - 1,
				 call->root);
	if (!allreduce_has_root(call->collective) && call->root)
		return ar_refuse(why, "root: must be 0 for %s",
				 ar_collective_name(call->collective));
	if (call->factor && !(kernel && kernel->scale))
		return ar_refuse(why, "factor: must be 0 but for premulsum");
	if (timeout_ms < ALLREDUCE_TIMEOUT_MS_MIN ||
	    timeout_ms > ALLREDUCE_TIMEOUT_MS_MAX)
		return ar_refuse(why, "timeout_ms: 0 or %u to %u, not %u",
				 ALLREDUCE_TIMEOUT_MS_MIN,
				 ALLREDUCE_TIMEOUT_MS_MAX, timeout_ms);
	if (call->flags & ~ALLREDUCE_CALL_FLAGS)
		return ar_refuse(why, "flags: 0x%x are unknown",
				 call->flags & ~ALLREDUCE_CALL_FLAGS);
	if (call->reserved0 || memchr_inv(call->reserved, 0, sizeof(call->reserved)))
		return ar_refuse(why, "reserved: must be 0");
	return 0;
}

static int ar_check_buffer(const char *name, u64 addr, u64 bytes,
			   u32 element_bytes, char *why)
{
	if (!bytes)
		return 0;
	if (addr % element_bytes)
		return ar_refuse(why, "%s: 0x%llx is not a multiple of %u bytes",
				 name, addr, element_bytes);
	if (addr + bytes < addr)
		return ar_refuse(why, "%s: 0x%llx + %llu bytes leave the address space",
				 name, addr, bytes);
	return 0;
}

/* In place: the smaller buffer is the larger one's part for this rank. */
bool ar_call_in_place(const struct allreduce_call *call,
		      const struct allreduce_buffers *buffers, u32 element_bytes)
{
	return buffers->src && buffers->dst &&
	       call->src + buffers->dst_in_src * element_bytes ==
	       call->dst + buffers->src_in_dst * element_bytes;
}

static int ar_check_buffers(const struct ar_ring_config *config,
			    const struct allreduce_call *call, char *why)
{
	u32 element_bytes = ar_call_element_bytes(call);
	struct allreduce_buffers buffers =
		allreduce_buffers(call->collective, call->count, config->rank,
				  config->size, call->root);
	u64 src_bytes = buffers.src * element_bytes;
	u64 dst_bytes = buffers.dst * element_bytes;
	int ret;

	ret = ar_check_buffer("src", call->src, src_bytes, element_bytes, why) ?:
	      ar_check_buffer("dst", call->dst, dst_bytes, element_bytes, why);
	if (ret || !src_bytes || !dst_bytes ||
	    ar_call_in_place(call, &buffers, element_bytes))
		return ret;
	if (call->src + src_bytes <= call->dst || call->dst + dst_bytes <= call->src)
		return 0;
	return ar_refuse(why, "src, dst: they overlap, and this is not in place");
}

/**
 * ar_call_check - is a call one that this member can make
 * @config: of its ring
 * @call: the caller's words, copied already
 * @why: if not, the reason; ALLREDUCE_REASON_SIZE bytes
 *
 * Return: 0 or -EINVAL.
 */
int ar_call_check(const struct ar_ring_config *config,
		  const struct allreduce_call *call, char *why)
{
	return ar_check_operation(call, why) ?:
	       ar_check_numbers(config, call, why) ?:
	       ar_check_buffers(config, call, why);
}
