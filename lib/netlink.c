// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * The socket to the module's generic netlink family, requests, events, and the
 * kernel's words about a refusal.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <netlink/errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "internal.h"

/**
 * struct aru_nl - see the public header
 * @sock: for requests
 * @family: the family's number
 * @group: number of the multicast group of events
 * @text: why the last call failed
 */
struct aru_nl {
	struct nl_sock *sock;
	int family;
	int group;
	char text[ARU_ERROR_TEXT_SIZE];
};

struct aru_nl_events {
	struct nl_sock *sock;
	aru_nl_fn fn;
	void *arg;
	int ret;
};

static int errno_of_nle(int nle)
{
	switch (nle < 0 ? -nle : nle) {
	case NLE_SUCCESS:
		return 0;
	case NLE_AGAIN:
		return -ETIMEDOUT;
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_PERM:
		return -EPERM;
	case NLE_OBJ_NOTFOUND:
		return -ENOENT;
	case NLE_AF_NOSUPPORT:
		return -EAFNOSUPPORT;
	case NLE_MSG_TRUNC:
	case NLE_MSG_TOOSHORT:
	case NLE_MSGSIZE:
		return -EMSGSIZE;
	case NLE_DUMP_INTR:
		return -EAGAIN;
	}
	return -EIO;
}

static void set_option(struct nl_sock *sock, int option)
{
	int one = 1;

	/* A kernel without it only tells less: not an error. */
	setsockopt(nl_socket_get_fd(sock), SOL_NETLINK, option, &one, sizeof(one));
}

static int socket_open(struct nl_sock **sock)
{
	struct timeval timeout = { .tv_sec = ARU_NL_TIMEOUT_MS / 1000 };
	int nle;

	*sock = nl_socket_alloc();
	if (!*sock)
		return -ENOMEM;
	nle = genl_connect(*sock);
	if (nle) {
		nl_socket_free(*sock);
		*sock = NULL;
		return errno_of_nle(nle);
	}
	/*
	 * The kernel sizes the messages of a dump by the buffer it has seen; a
	 * ring with all its lanes and members needs more than the default.
	 */
	nl_socket_set_msg_buf_size(*sock, ARU_NL_BUFFER_BYTES);
	setsockopt(nl_socket_get_fd(*sock), SOL_SOCKET, SO_RCVTIMEO, &timeout,
		   sizeof(timeout));
	set_option(*sock, NETLINK_EXT_ACK);
	set_option(*sock, NETLINK_CAP_ACK);
	return 0;
}

ARU_API int aru_nl_open(struct aru_nl **out)
{
	struct aru_nl *nl;
	int ret;

	*out = NULL;
	nl = calloc(1, sizeof(*nl));
	if (!nl)
		return -ENOMEM;
	ret = socket_open(&nl->sock);
	if (ret)
		goto err_free;
	nl->family = genl_ctrl_resolve(nl->sock, ALLREDUCE_GENL_NAME);
	if (nl->family < 0) {
		ret = errno_of_nle(nl->family);
		goto err_close;
	}
	nl->group = genl_ctrl_resolve_grp(nl->sock, ALLREDUCE_GENL_NAME,
					  ALLREDUCE_GENL_EVENTS);
	if (nl->group < 0) {
		ret = errno_of_nle(nl->group);
		goto err_close;
	}
	*out = nl;
	return 0;

err_close:
	nl_socket_free(nl->sock);
err_free:
	free(nl);
	return ret;
}

ARU_API void aru_nl_close(struct aru_nl *nl)
{
	if (!nl)
		return;
	nl_socket_free(nl->sock);
	free(nl);
}

ARU_API const char *aru_nl_error_text(const struct aru_nl *nl)
{
	return nl->text;
}

void aru_nl_clear(struct aru_nl *nl)
{
	nl->text[0] = '\0';
}

int aru_nl_fail(struct aru_nl *nl, int error, const char *fmt, ...)
{
	va_list ap;

	if (!nl->text[0]) {
		va_start(ap, fmt);
		vsnprintf(nl->text, sizeof(nl->text), fmt, ap);
		va_end(ap);
	}
	return error;
}

/* ---- what the kernel says about a refusal -------------------------------- */

static const char *attr_name(int type)
{
	switch (type) {
	case ALLREDUCE_A_NAME:
		return "name";
	case ALLREDUCE_A_ID:
		return "id";
	case ALLREDUCE_A_RANK:
		return "rank";
	case ALLREDUCE_A_LANES:
		return "lanes";
	case ALLREDUCE_A_FRAME_MAX:
		return "frame-max";
	case ALLREDUCE_A_TIMEOUT_MS:
		return "timeout";
	case ALLREDUCE_A_GATHER_MAX:
		return "gather";
	case ALLREDUCE_A_CONNECT_TIMEOUT_MS:
		return "connect timeout";
	case ALLREDUCE_A_MEMBERS:
		return "members";
	}
	return NULL;
}

static void member_text(struct nlattr *members, const char *at, char *text,
			size_t size)
{
	unsigned int index = 0;
	struct nlattr *member;
	int rem;

	nla_for_each_nested(member, members, rem) {
		if (at >= (char *)member && at < (char *)nla_data(member) + nla_len(member)) {
			aru_phrase(text, size, "member %u", index);
			return;
		}
		index++;
	}
	aru_phrase(text, size, "members");
}

/* The attribute of @request at @offset, as "rank 7". */
static void value_text(struct nlmsghdr *request, uint32_t offset, char *text,
		       size_t size)
{
	const char *at = (char *)request + offset, *name;
	struct nlattr *attr;
	int rem;

	nla_for_each_attr(attr, genlmsg_attrdata(nlmsg_data(request), 0),
			  genlmsg_attrlen(nlmsg_data(request), 0), rem) {
		if (at < (char *)attr || at >= (char *)nla_data(attr) + nla_len(attr))
			continue;
		name = attr_name(nla_type(attr));
		if (!name)
			return;
		if (nla_type(attr) == ALLREDUCE_A_MEMBERS)
			member_text(attr, at, text, size);
		else if (nla_type(attr) == ALLREDUCE_A_NAME)
			aru_phrase(text, size, "name \"%.*s\"", nla_len(attr),
				   (char *)nla_data(attr));
		else if (nla_len(attr) == 4)
			aru_phrase(text, size, "%s %u", name, nla_get_u32(attr));
		else
			aru_phrase(text, size, "%s", name);
		return;
	}
}

/* Where the attributes of an acknowledgement begin, and how long they are. */
static struct nlattr *ack_attrs(struct nlmsghdr *ack, int *len)
{
	size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(int));
	struct nlmsgerr *err = nlmsg_data(ack);

	*len = 0;
	if (!(ack->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (ack->nlmsg_type == NLMSG_ERROR) {
		skip = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(*err));
		if (ack->nlmsg_len < skip)
			return NULL;
		if (!(ack->nlmsg_flags & NLM_F_CAPPED) &&
		    err->msg.nlmsg_len > NLMSG_HDRLEN)
			skip += NLMSG_ALIGN(err->msg.nlmsg_len - NLMSG_HDRLEN);
	}
	if (ack->nlmsg_len <= skip)
		return NULL;
	*len = ack->nlmsg_len - skip;
	return (struct nlattr *)((char *)ack + skip);
}

void aru_nl_ack_text(struct nlmsghdr *ack, struct nlmsghdr *request, char *text,
		     size_t size)
{
	const char *said = NULL, *missing = NULL;
	char value[64] = "";
	struct nlattr *attr;
	int len, said_len = 0;

	text[0] = '\0';
	attr = ack_attrs(ack, &len);
	for (; attr && nla_ok(attr, len); attr = nla_next(attr, &len)) {
		switch (nla_type(attr)) {
		case NLMSGERR_ATTR_MSG:
			said = nla_data(attr);
			said_len = strnlen(said, nla_len(attr));
			break;
		case NLMSGERR_ATTR_OFFS:
			if (request && nla_len(attr) >= 4 &&
			    nla_get_u32(attr) < request->nlmsg_len)
				value_text(request, nla_get_u32(attr), value,
					   sizeof(value));
			break;
		case NLMSGERR_ATTR_MISS_TYPE:
			if (nla_len(attr) >= 4)
				missing = attr_name(nla_get_u32(attr));
			break;
		}
	}
	if (said)
		snprintf(text, size, "%.*s%s%s%s", said_len, said,
			 *value ? " (" : "", value, *value ? ")" : "");
	else if (*value)
		snprintf(text, size, "%s is refused", value);
	else if (missing)
		snprintf(text, size, "%s is missing", missing);
}

/* ---- requests ------------------------------------------------------------ */

/**
 * struct exchange - one request and its answers
 * @nl: the handle
 * @request: the request
 * @fn: sees the answers, may be NULL
 * @arg: for @fn
 * @done: the acknowledgement, or the end of the dump, was seen
 * @ret: result of @fn, else the acknowledgement's
 */
struct exchange {
	struct aru_nl *nl;
	struct nlmsghdr *request;
	aru_nl_fn fn;
	void *arg;
	bool done;
	int ret;
};

/* Answers to an earlier request that was given up. */
static int on_seq_check(struct nl_msg *msg, void *arg)
{
	struct exchange *x = arg;

	return nlmsg_hdr(msg)->nlmsg_seq == x->request->nlmsg_seq ? NL_OK : NL_SKIP;
}

static int on_valid(struct nl_msg *msg, void *arg)
{
	struct exchange *x = arg;

	if (x->fn && !x->ret)
		x->ret = x->fn(nlmsg_hdr(msg), x->arg);
	return NL_OK;
}

static int on_ack(struct nl_msg *msg, void *arg)
{
	struct exchange *x = arg;

	(void)msg;
	x->done = true;
	return NL_STOP;
}

static void refused(struct exchange *x, int error, struct nlmsghdr *ack)
{
	x->done = true;
	x->ret = error;
	aru_nl_ack_text(ack, x->request, x->nl->text, sizeof(x->nl->text));
}

/* A dump reports its error, and its extended acknowledgement, at its end. */
static int on_finish(struct nl_msg *msg, void *arg)
{
	struct nlmsghdr *nlh = nlmsg_hdr(msg);
	struct exchange *x = arg;
	int error = 0;

	x->done = true;
	if (nlmsg_datalen(nlh) >= (int)sizeof(error))
		memcpy(&error, nlmsg_data(nlh), sizeof(error));
	if (error < 0)
		refused(x, error, nlh);
	return NL_STOP;
}

static int on_error(struct sockaddr_nl *from, struct nlmsgerr *err, void *arg)
{
	struct exchange *x = arg;

	(void)from;
	refused(x, err->error, (struct nlmsghdr *)((char *)err - NLMSG_HDRLEN));
	return NL_STOP;
}

static int receive(struct aru_nl *nl, struct exchange *x)
{
	uint64_t deadline = aru_now_ms() + ARU_NL_TIMEOUT_MS;
	struct nl_cb *cb;
	int nle, ret = 0;

	cb = nl_cb_alloc(NL_CB_DEFAULT);
	if (!cb)
		return -ENOMEM;
	nl_cb_set(cb, NL_CB_SEQ_CHECK, NL_CB_CUSTOM, on_seq_check, x);
	nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, on_valid, x);
	nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, on_ack, x);
	nl_cb_set(cb, NL_CB_FINISH, NL_CB_CUSTOM, on_finish, x);
	nl_cb_err(cb, NL_CB_CUSTOM, on_error, x);
	while (!x->done) {
		nle = nl_recvmsgs(nl->sock, cb);
		if (nle < 0 && (!x->done || nle == -NLE_DUMP_INTR)) {
			ret = errno_of_nle(nle);
			break;
		}
		if (!x->done && aru_now_ms() > deadline) {
			ret = -ETIMEDOUT;
			break;
		}
	}
	nl_cb_put(cb);
	return x->ret ? x->ret : ret;
}

int aru_nl_begin(struct aru_nl *nl, uint8_t cmd, int flags, struct nl_msg **out)
{
	struct nl_msg *msg;

	*out = NULL;
	msg = nlmsg_alloc_size(ARU_NL_BUFFER_BYTES);
	if (!msg)
		return -ENOMEM;
	if (!genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, nl->family, 0, flags, cmd,
			 ALLREDUCE_GENL_VERSION)) {
		nlmsg_free(msg);
		return -ENOMEM;
	}
	*out = msg;
	return 0;
}

int aru_nl_request(struct aru_nl *nl, struct nl_msg *msg, aru_nl_fn fn, void *arg)
{
	struct exchange x = { .nl = nl, .fn = fn, .arg = arg };
	int ret;

	ret = nl_send_auto(nl->sock, msg);
	if (ret >= 0) {
		x.request = nlmsg_hdr(msg);
		ret = receive(nl, &x);
	} else {
		ret = errno_of_nle(ret);
	}
	nlmsg_free(msg);
	return ret;
}

/* ---- events -------------------------------------------------------------- */

static int on_event(struct nl_msg *msg, void *arg)
{
	struct aru_nl_events *events = arg;

	if (!events->ret)
		events->ret = events->fn(nlmsg_hdr(msg), events->arg);
	return NL_OK;
}

int aru_nl_events_open(struct aru_nl *nl, struct aru_nl_events **out)
{
	struct aru_nl_events *events;
	int ret;

	*out = NULL;
	events = calloc(1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	ret = socket_open(&events->sock);
	if (ret)
		goto err_free;
	nl_socket_disable_seq_check(events->sock);
	nl_socket_modify_cb(events->sock, NL_CB_VALID, NL_CB_CUSTOM, on_event, events);
	ret = errno_of_nle(nl_socket_set_nonblocking(events->sock));
	if (!ret)
		ret = errno_of_nle(nl_socket_add_membership(events->sock, nl->group));
	if (ret)
		goto err_close;
	*out = events;
	return 0;

err_close:
	nl_socket_free(events->sock);
err_free:
	free(events);
	return ret;
}

void aru_nl_events_close(struct aru_nl_events *events)
{
	if (!events)
		return;
	nl_socket_free(events->sock);
	free(events);
}

int aru_nl_events_read(struct aru_nl_events *events, int timeout_ms, aru_nl_fn fn,
		       void *arg)
{
	struct pollfd pfd = {
		.fd = nl_socket_get_fd(events->sock),
		.events = POLLIN,
	};
	int n, nle;

	n = poll(&pfd, 1, timeout_ms);
	if (n < 0)
		return errno == EINTR ? -ETIME : -errno;
	if (!n)
		return -ETIME;
	events->fn = fn;
	events->arg = arg;
	events->ret = 0;
	do {
		nle = nl_recvmsgs_default(events->sock);
	} while (nle >= 0 && !events->ret && poll(&pfd, 1, 0) > 0);
	if (events->ret)
		return events->ret;
	/* libnl tells an overrun of the socket (ENOBUFS) as lack of memory. */
	if (nle == -NLE_NOMEM)
		return -ENOBUFS;
	return nle < 0 && nle != -NLE_AGAIN ? errno_of_nle(nle) : 0;
}
