/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The frame parser: a byte-exact state machine over a stream that may be cut
 * anywhere, also inside a header or an element.
 *
 *             64 bytes                       header() == 0
 *   HEADER ------------> (header()) ----------------------> PAYLOAD
 *     ^                      | -EAGAIN                         |
 *     |                      v                                 |
 *     |                    PARKED -- ar_parser_feed() asks --> |
 *     |                              header() again            |
 *     +----------------- end() after the last byte ------------+
 *
 * While PARKED nothing is consumed. An error of a callback is final: the
 * stream must not be fed again.
 *
 * header() says in which grain payload() wants the bytes: with a grain of
 * g > 1 every payload() call gets a multiple of g bytes; the g bytes of an
 * element that is split between two runs of the stream are put together in
 * the parser first. That is the only payload it ever touches.
 */
#ifndef _AR_PARSER_H
#define _AR_PARSER_H

#include "frame.h"

#define AR_ELEMENT_BYTES_MAX	8

enum ar_parser_state {
	AR_PARSER_HEADER,
	AR_PARSER_PARKED,
	AR_PARSER_PAYLOAD,
};

/**
 * struct ar_parser - one incoming stream of frames; all zero to begin with
 * @hdr: the current frame's header, valid in PARKED and PAYLOAD
 * @have: bytes of @hdr that are there
 * @left: payload bytes that have not been handed to payload()
 * @grain: bytes of an element, or 1
 * @carried: bytes in @carry
 * @carry: first part of an element whose rest has not come yet
 */
struct ar_parser {
	struct ar_frame_hdr hdr;
	enum ar_parser_state state;
	u32 have;
	u32 left;
	u32 grain;
	u32 carried;
	u8 carry[AR_ELEMENT_BYTES_MAX] __attribute__((aligned(8)));
};

/**
 * struct ar_parser_ops - what the owner of a parser does with frames
 * @header: a header is complete; set *grain (1 to AR_ELEMENT_BYTES_MAX, a
 *	divisor of the frame's length) and return 0, -EAGAIN to be asked again,
 *	or an error
 * @payload: @len more bytes of payload, at an address without alignment;
 *	@carried if they lie in the parser, not in the stream
 * @end: all payload of the frame has been handed over
 */
struct ar_parser_ops {
	int (*header)(void *ctx, const struct ar_frame_hdr *hdr, u32 *grain);
	int (*payload)(void *ctx, const u8 *data, u32 len, bool carried);
	int (*end)(void *ctx);
};

static inline int ar_parser_open(struct ar_parser *p,
				 const struct ar_parser_ops *ops, void *ctx)
{
	int ret;

	p->grain = 1;
	ret = ops->header(ctx, &p->hdr, &p->grain);
	if (ret) {
		p->state = AR_PARSER_PARKED;
		return ret;
	}
	p->left = le32_to_cpu(p->hdr.len);
	p->carried = 0;
	p->state = AR_PARSER_PAYLOAD;
	return 0;
}

/* After the payload's last byte: on to the next header. */
static inline int ar_parser_close(struct ar_parser *p,
				  const struct ar_parser_ops *ops, void *ctx)
{
	if (p->left)
		return 0;
	p->state = AR_PARSER_HEADER;
	p->have = 0;
	return ops->end(ctx);
}

static inline u32 ar_parser_take_header(struct ar_parser *p, const u8 *data,
					size_t len)
{
	u32 n = min_t(size_t, len, sizeof(p->hdr) - p->have);

	memcpy((u8 *)&p->hdr + p->have, data, n);
	p->have += n;
	return n;
}

/* Bring the carried element nearer to its end. */
static inline int ar_parser_take_carry(struct ar_parser *p, const u8 *data,
				       size_t len,
				       const struct ar_parser_ops *ops, void *ctx)
{
	u32 n = min_t(size_t, len, p->grain - p->carried);
	int ret;

	memcpy(p->carry + p->carried, data, n);
	p->carried += n;
	if (p->carried == p->grain) {
		ret = ops->payload(ctx, p->carry, p->grain, true);
		if (ret)
			return ret;
		p->carried = 0;
		p->left -= p->grain;
	}
	return n;
}

static inline int ar_parser_take_payload(struct ar_parser *p, const u8 *data,
					 size_t len,
					 const struct ar_parser_ops *ops,
					 void *ctx)
{
	u32 n = min_t(size_t, len, p->left);
	int ret;

	if (p->carried)
		return ar_parser_take_carry(p, data, len, ops, ctx);
	if (n % p->grain)
		n -= n % p->grain;
	if (!n)
		return ar_parser_take_carry(p, data, len, ops, ctx);
	ret = ops->payload(ctx, data, n, false);
	if (ret)
		return ret;
	p->left -= n;
	return n;
}

/**
 * ar_parser_feed - hand the next bytes of a stream to a parser
 * @p: the parser
 * @data: the bytes; may be NULL if @len is 0
 * @len: how many; 0 only asks a parked header again
 * @ops: what to do with frames
 * @ctx: argument of the callbacks
 *
 * Return: the number of bytes consumed, less than @len only if the parser is
 * parked afterwards, or the negative errno of a callback.
 */
static inline ssize_t ar_parser_feed(struct ar_parser *p, const u8 *data,
				     size_t len, const struct ar_parser_ops *ops,
				     void *ctx)
{
	size_t used = 0;
	int ret;

	for (;;) {
		/* Also keeps a NULL @data away from memcpy(). */
		if (used == len && p->state != AR_PARSER_PARKED)
			return used;
		if (p->state == AR_PARSER_HEADER) {
			used += ar_parser_take_header(p, data + used, len - used);
			if (p->have < sizeof(p->hdr))
				return used;
			p->state = AR_PARSER_PARKED;
		}
		if (p->state == AR_PARSER_PARKED) {
			ret = ar_parser_open(p, ops, ctx);
			if (ret == -EAGAIN)
				return used;
		} else {
			ret = ar_parser_take_payload(p, data + used, len - used,
						     ops, ctx);
			if (ret > 0)
				used += ret;
		}
		if (ret >= 0)
			ret = ar_parser_close(p, ops, ctx);
		if (ret < 0)
			return ret;
	}
}

#endif /* _AR_PARSER_H */
