// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * What a call must be: the rules of the uapi header, in words.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/**
 * struct check - a call that is looked at
 * @call: the call
 * @what: the collective's name
 * @rank: the caller's
 * @size: members of the ring
 * @text: where the first fault is put into words
 * @text_size: bytes there
 */
struct check {
	const struct allreduce_call *call;
	const char *what;
	unsigned int rank;
	unsigned int size;
	char *text;
	size_t text_size;
};

#define refuse(check, ...) \
	(aru_phrase((check)->text, (check)->text_size, __VA_ARGS__), -EINVAL)

static bool reduces(uint8_t collective)
{
	switch (collective) {
#define X(NAME, name, value, src, dst, reduces)	case value: return reduces;
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	}
	return false;
}

#define NAME_1(NAME, name, ...)	" " #name

static int check_collective(struct check *c)
{
	c->what = aru_collective_name(c->call->collective);
	if (!c->what)
		return refuse(c, "collective %u is unknown: there are"
			      ALLREDUCE_FOR_EACH_COLLECTIVE(NAME_1),
			      c->call->collective);
	return 0;
}

static int check_timeout(struct check *c)
{
	uint32_t ms = c->call->timeout_ms;

	if (ms && (ms < ALLREDUCE_TIMEOUT_MS_MIN || ms > ALLREDUCE_TIMEOUT_MS_MAX))
		return refuse(c, "timeout_ms %u is neither 0 nor from %u to %u", ms,
			      ALLREDUCE_TIMEOUT_MS_MIN, ALLREDUCE_TIMEOUT_MS_MAX);
	return 0;
}

static int must_be_zero(struct check *c, const char *field, uint64_t value)
{
	if (!value)
		return 0;
	return refuse(c, "%s %llu must be 0 for %s", field, (unsigned long long)value,
		      c->what);
}

/* A call without buffers has nothing to say of what is in them. */
static int check_bare(struct check *c)
{
	const struct allreduce_call *call = c->call;
	int ret;

	ret = must_be_zero(c, "type", call->type);
	if (!ret)
		ret = must_be_zero(c, "op", call->op);
	if (!ret)
		ret = must_be_zero(c, "count", call->count);
	if (!ret)
		ret = must_be_zero(c, "root", call->root);
	if (!ret && (call->src || call->dst))
		ret = refuse(c, "src and dst must be 0 for %s", c->what);
	return ret;
}

static int check_type(struct check *c)
{
	if (!aru_type_size(c->call->type))
		return refuse(c, "type %u is unknown: there are"
			      ALLREDUCE_FOR_EACH_TYPE(NAME_1), c->call->type);
	return 0;
}

static int check_op(struct check *c)
{
	unsigned int op = c->call->op, type = c->call->type;

	if (!reduces(c->call->collective))
		return must_be_zero(c, "op", op);
	if (!aru_op_name(op))
		return refuse(c, "op %u is unknown: there are"
			      ALLREDUCE_FOR_EACH_OP(NAME_1), op);
	if (!aru_op_valid(type, op))
		return refuse(c, "op %s is for %s only, not for type %s", aru_op_name(op),
			      aru_op_valid(ALLREDUCE_F32, op) ? "floats" : "integers",
			      aru_type_name(type));
	return 0;
}

static int check_factor(struct check *c)
{
	if (c->call->factor && c->call->op != ALLREDUCE_PREMULSUM)
		return refuse(c, "factor must be 0 without op premulsum");
	return 0;
}

static int check_root(struct check *c, bool has_root)
{
	if (!has_root)
		return must_be_zero(c, "root", c->call->root);
	if (c->call->root >= c->size)
		return refuse(c, "root %u is not from 0 to %u", c->call->root, c->size - 1);
	return 0;
}

static int check_count(struct check *c, bool has_blocks)
{
	uint64_t max = ALLREDUCE_COUNT_MAX / (has_blocks ? c->size : 1);

	if (c->call->count > max)
		return refuse(c, "count %llu is not from 0 to %llu%s",
			      (unsigned long long)c->call->count, (unsigned long long)max,
			      has_blocks ? ", 2^60 divided by the ring's size" : "");
	return 0;
}

static int check_buffer(struct check *c, const char *field, uint64_t addr,
			uint64_t elements)
{
	unsigned int bytes = aru_type_size(c->call->type);

	if (!elements)
		return 0;
	if (addr % bytes)
		return refuse(c, "%s %#llx is not a multiple of %u, the size of type %s",
			      field, (unsigned long long)addr, bytes,
			      aru_type_name(c->call->type));
	/* As the kernel has it, an end at 2^64 is out of it as well. */
	if (elements * bytes > UINTPTR_MAX - addr)
		return refuse(c, "%s %#llx with %llu elements reaches out of the address space",
			      field, (unsigned long long)addr,
			      (unsigned long long)elements);
	return 0;
}

/* Both in bytes, neither reaching out of the address space. */
static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b ? b - a < a_bytes : a - b < b_bytes;
}

static int check_buffers(struct check *c)
{
	const struct allreduce_call *call = c->call;
	unsigned int bytes = aru_type_size(call->type);
	struct allreduce_buffers b;
	int ret;

	b = allreduce_buffers(call->collective, call->count, c->rank, c->size, call->root);
	ret = check_buffer(c, "src", call->src, b.src);
	if (!ret)
		ret = check_buffer(c, "dst", call->dst, b.dst);
	if (ret || !b.src || !b.dst)
		return ret;
	if (call->src + b.dst_in_src * bytes == call->dst + b.src_in_dst * bytes)
		return 0;
	if (!overlap(call->src, b.src * bytes, call->dst, b.dst * bytes))
		return 0;
	if (b.src == b.dst)
		return refuse(c, "src and dst overlap and are not equal");
	return refuse(c, "src and dst overlap, but %s is not block %u of %s, the own one",
		      b.src < b.dst ? "src" : "dst", c->rank,
		      b.src < b.dst ? "dst" : "src");
}

static int check_vectors(struct check *c)
{
	int ret;

	ret = check_type(c);
	if (!ret)
		ret = check_op(c);
	if (!ret)
		ret = check_root(c, allreduce_has_root(c->call->collective));
	if (!ret)
		ret = check_count(c, allreduce_has_blocks(c->call->collective));
	return ret ? ret : check_buffers(c);
}

/* Fields that are nobody's, or the library's. */
static int check_reserved(struct check *c)
{
	const struct allreduce_call *call = c->call;
	size_t i;

	if (call->tag || call->flags)
		return refuse(c, "tag and flags must be 0: they are the library's own");
	if (call->reserved0)
		return refuse(c, "reserved0 must be 0");
	for (i = 0; i < sizeof(call->reserved) / sizeof(call->reserved[0]); i++)
		if (call->reserved[i])
			return refuse(c, "reserved must be 0");
	return 0;
}

int aru_call_check(const struct allreduce_call *call, unsigned int rank,
		   unsigned int size, char *text, size_t text_size)
{
	struct check c = {
		.call = call,
		.rank = rank,
		.size = size,
		.text = text,
		.text_size = text_size,
	};
	int ret;

	ret = check_collective(&c);
	if (!ret)
		ret = check_reserved(&c);
	if (!ret)
		ret = check_timeout(&c);
	if (ret)
		return ret;
	if (!allreduce_src_extent(call->collective) &&
	    !allreduce_dst_extent(call->collective))
		ret = check_bare(&c);
	else
		ret = check_vectors(&c);
	return ret ? ret : check_factor(&c);
}
