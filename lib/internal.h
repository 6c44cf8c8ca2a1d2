/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * What the library's files share, and its tests reach.
 */
#ifndef _ARU_INTERNAL_H
#define _ARU_INTERNAL_H

#include <allreduce-uring.h>

struct nl_msg;
struct nlattr;
struct nlmsghdr;

#define ARU_API __attribute__((visibility("default")))

#define ARU_ERROR_TEXT_SIZE	512

/* names.c APIs: */

/*
 * Copy options of @user_size bytes (*(size_t *)user) into @opts of @size bytes;
 * a field that this library doesn't know must be 0. 0, -EINVAL or -E2BIG.
 */
int aru_opts_copy(void *opts, size_t size, const void *user);

/* Formats a phrase about an error, if there is room for one. */
__attribute__((format(printf, 3, 4)))
void aru_phrase(char *text, size_t size, const char *fmt, ...);

/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t aru_now_ms(void);

/* call.c APIs: */

/*
 * Whether a member of @rank in a ring of @size may make this call; tag and flags
 * are still 0. 0 or -EINVAL, with the field, its value and its range in @text.
 */
int aru_call_check(const struct allreduce_call *call, unsigned int rank,
		   unsigned int size, char *text, size_t text_size);

/* context.c APIs: */

/* Keeps why a call is refused, for aru_refusal(); returns @error. */
__attribute__((format(printf, 3, 4)))
int aru_refuse(struct aru *aru, int error, const char *fmt, ...);

/* member.c APIs: */
bool aru_name_valid(const char *name);

/* ring.c APIs: */

/* Fill in the attributes of RING_ADD; the caller has checked @config. */
int aru_ring_add_fill(struct nl_msg *msg, const struct aru_ring_config *config);

/* A ring from a RING_GET or RING_EVENT message. 0, -ENOMEM or -EBADMSG. */
int aru_ring_parse(struct nlmsghdr *nlh, struct aru_ring **ring);

/* netlink.c APIs: */

#define ARU_NL_TIMEOUT_MS	10000
#define ARU_NL_BUFFER_BYTES	65536

/* Begin a request; *msg is to be given to aru_nl_request(), which frees it. */
int aru_nl_begin(struct aru_nl *nl, uint8_t cmd, int flags, struct nl_msg **msg);

typedef int (*aru_nl_fn)(struct nlmsghdr *nlh, void *arg);

/* Send @msg and hand each answer to @fn; the acknowledgement's errno or 0. */
int aru_nl_request(struct aru_nl *nl, struct nl_msg *msg, aru_nl_fn fn,
		   void *arg);

/* Clears the error text of the last call. */
void aru_nl_clear(struct aru_nl *nl);

/* Sets the error text, unless there is one; returns @error. */
__attribute__((format(printf, 3, 4)))
int aru_nl_fail(struct aru_nl *nl, int error, const char *fmt, ...);

/* A socket that hears the family's events. */
struct aru_nl_events;
int aru_nl_events_open(struct aru_nl *nl, struct aru_nl_events **events);
void aru_nl_events_close(struct aru_nl_events *events);

/*
 * Hand events to @fn until there is none left or @timeout_ms is over; waits only
 * if there is none at first. 0; -ETIME if none came; -ENOBUFS if some were lost.
 */
int aru_nl_events_read(struct aru_nl_events *events, int timeout_ms,
		       aru_nl_fn fn, void *arg);

/*
 * The kernel's account of a refusal: the text of the extended acknowledgement
 * @ack (an NLMSG_ERROR or NLMSG_DONE message) and the attribute of @request it
 * points at, "" if it says nothing.
 */
void aru_nl_ack_text(struct nlmsghdr *ack, struct nlmsghdr *request, char *text,
		     size_t size);

#endif /* _ARU_INTERNAL_H */
