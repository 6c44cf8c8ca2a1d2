/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wire format, and nothing else. Documentation/protocol.rst explains it.
 *
 * All header fields are little-endian. Payload is in the members' own byte
 * order, which HELLO compares.
 */
#ifndef _AR_FRAME_H
#define _AR_FRAME_H

#include "portable.h"

#define AR_PROTOCOL_VERSION	2

/* ---- handshake: one HELLO from the connecting side, one WELCOME back ---- */

#define AR_HELLO_MAGIC		0x4f4c4c45482d5241ULL	/* "AR-HELLO" on the wire */
#define AR_WELCOME_MAGIC	0x4d434c45572d5241ULL	/* "AR-WELCM" on the wire */

/* Written in host order: tells a member of the other byte order apart. */
#define AR_BYTE_ORDER		0x01020304U

/**
 * struct ar_hello - first bytes of a connection, from a member to its next
 * @magic: AR_HELLO_MAGIC
 * @version: AR_PROTOCOL_VERSION
 * @bytes: sizeof(struct ar_hello)
 * @byte_order: AR_BYTE_ORDER in the sender's order
 * @ring_id: the ring
 * @epoch: the ring's epoch
 * @rank: the sender's rank
 * @to_rank: the rank it expects to reach
 * @size: members
 * @lane: the lane that this connection is for
 * @lanes: lanes
 * @frame_max: payload bytes of a frame at most
 * @gather_max: bytes of the largest vector that takes the gather path
 * @members_digest: ar_digest64() over the member list
 * @reserved: 0
 */
struct ar_hello {
	__le64 magic;
	__le16 version;
	__le16 bytes;
	__u32 byte_order;
	__u8 ring_id[16];
	__le32 epoch;
	__le32 rank;
	__le32 to_rank;
	__le32 size;
	__le32 lane;
	__le32 lanes;
	__le32 frame_max;
	__le32 gather_max;
	__le64 members_digest;
	__le64 reserved[4];
};

/* Why a HELLO was refused: X(NAME, value, text). */
#define AR_FOR_EACH_REFUSAL(X) \
	X(NONE, 0, "accepted") \
	X(VERSION, 1, "protocol versions differ") \
	X(BYTE_ORDER, 2, "byte orders differ") \
	X(RANK, 3, "not the rank that is expected here") \
	X(SIZE, 4, "ring sizes differ") \
	X(LANES, 5, "numbers of lanes differ") \
	X(FRAME_MAX, 6, "frame sizes differ") \
	X(MEMBERS, 7, "member lists differ") \
	X(EPOCH, 8, "epochs differ") \
	X(ADDRESS, 9, "not the address of the previous member") \
	X(STATE, 10, "the ring is not connecting") \
	X(GATHER_MAX, 11, "limits of the gather path differ")

#define AR_X_REFUSAL(NAME, value, text)	AR_REFUSAL_##NAME = value,
enum ar_refusal {
	AR_FOR_EACH_REFUSAL(AR_X_REFUSAL)
};

/**
 * struct ar_welcome - the answer to a HELLO
 * @magic: AR_WELCOME_MAGIC
 * @version: AR_PROTOCOL_VERSION
 * @bytes: sizeof(struct ar_welcome)
 * @refusal: enum ar_refusal; after a refusal the connection is closed
 * @reserved: 0
 */
struct ar_welcome {
	__le64 magic;
	__le16 version;
	__le16 bytes;
	__le32 refusal;
	__le64 reserved[2];
};

/* FNV-1a, 64 bit (Fowler, Noll, Vo): start with AR_DIGEST64_INIT. */
#define AR_DIGEST64_INIT	0xcbf29ce484222325ULL

static inline u64 ar_digest64(u64 digest, const void *data, size_t len)
{
	const u8 *p = data;

	while (len--)
		digest = (digest ^ *p++) * 0x100000001b3ULL;
	return digest;
}

/* ---- frames -------------------------------------------------------------- */

#define AR_FRAME_MAGIC		0x4652		/* "RF" on the wire */

/**
 * struct ar_frame_hdr - precedes up to frame_max bytes of one chunk
 * @magic: AR_FRAME_MAGIC
 * @phase: enum ar_phase of partition.h
 * @codec: 0, payload is plain elements
 * @len: payload bytes that follow
 * @job: number of the job on the ring, from 1
 * @offset: byte offset of the payload in the lane's piece of the chunk
 * @count: of the call, elements
 * @chunk: the chunk
 * @weight: 0, for partial reductions
 * @collective: enum allreduce_collective
 * @type: enum allreduce_type
 * @op: enum allreduce_op
 * @flags: 0
 * @root: root of the collective, 0 where it has none
 * @reserved: 0
 *
 * 64 bytes, so that a payload behind it in one page stays on a cache line.
 * @count to @root repeat the sender's call in every frame: a receiver compares
 * them with its own call before it touches payload, and can name both when
 * they differ.
 */
struct ar_frame_hdr {
	__le16 magic;
	__u8 phase;
	__u8 codec;
	__le32 len;
	__le64 job;
	__le64 offset;
	__le64 count;
	__le32 chunk;
	__le32 weight;
	__u8 collective;
	__u8 type;
	__u8 op;
	__u8 flags;
	__le32 root;
	__le64 reserved[2];
};

#define AR_FRAME_HDR_BYTES	64

_Static_assert(sizeof(struct ar_frame_hdr) == AR_FRAME_HDR_BYTES,
	       "a frame header has no holes");
_Static_assert(sizeof(struct ar_hello) == 104, "HELLO has no holes");
_Static_assert(sizeof(struct ar_welcome) == 32, "WELCOME has no holes");

#endif /* _AR_FRAME_H */
