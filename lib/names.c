// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Names of values and errors, and small helpers.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#define STR(x)	#x
#define XSTR(x)	STR(x)

ARU_API const char *aru_version(void)
{
	return XSTR(ARU_VERSION_MAJOR) "." XSTR(ARU_VERSION_MINOR) "."
	       XSTR(ARU_VERSION_PATCH);
}

ARU_API const char *aru_type_name(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return #name;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return NULL;
}

ARU_API unsigned int aru_type_size(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return bytes;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	}
	return 0;
}

ARU_API int aru_type_from_name(const char *text)
{
#define X(NAME, name, value, bytes)	if (!strcmp(text, #name)) return value;
	ALLREDUCE_FOR_EACH_TYPE(X)
#undef X
	return -EINVAL;
}

ARU_API const char *aru_op_name(unsigned int op)
{
	switch (op) {
#define X(NAME, name, value)	case value: return #name;
	ALLREDUCE_FOR_EACH_OP(X)
#undef X
	}
	return NULL;
}

ARU_API int aru_op_from_name(const char *text)
{
#define X(NAME, name, value)	if (!strcmp(text, #name)) return value;
	ALLREDUCE_FOR_EACH_OP(X)
#undef X
	return -EINVAL;
}

static bool is_float(unsigned int type)
{
	switch (type) {
#define X(NAME, name, value, bytes)	case value: return true;
	ALLREDUCE_FOR_EACH_FLOAT(X)
#undef X
	}
	return false;
}

ARU_API bool aru_op_valid(unsigned int type, unsigned int op)
{
	if (!aru_type_size(type))
		return false;
	switch (op) {
#define X(NAME, name, value)	case value:
	ALLREDUCE_FOR_EACH_ARITHMETIC_OP(X)
		return true;
	ALLREDUCE_FOR_EACH_BITWISE_OP(X)
		return !is_float(type);
	ALLREDUCE_FOR_EACH_SCALED_OP(X)
		return is_float(type);
#undef X
	}
	return false;
}

ARU_API const char *aru_collective_name(unsigned int collective)
{
	switch (collective) {
#define X(NAME, name, value, src, dst, reduces)	case value: return #name;
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	}
	return NULL;
}

ARU_API int aru_collective_from_name(const char *text)
{
#define X(NAME, name, value, src, dst, reduces) \
	if (!strcmp(text, #name)) return value;
	ALLREDUCE_FOR_EACH_COLLECTIVE(X)
#undef X
	return -EINVAL;
}

ARU_API const char *aru_stat_name(unsigned int stat)
{
	switch (stat) {
#define X(NAME, name, value, help)	case value: return #name;
	ALLREDUCE_FOR_EACH_STAT(X)
#undef X
	}
	return NULL;
}

ARU_API const char *aru_stat_help(unsigned int stat)
{
	switch (stat) {
#define X(NAME, name, value, help)	case value: return help;
	ALLREDUCE_FOR_EACH_STAT(X)
#undef X
	}
	return NULL;
}

ARU_API const char *aru_state_name(unsigned int state)
{
	switch (state) {
	case ALLREDUCE_RING_DOWN:
		return "down";
	case ALLREDUCE_RING_CONNECTING:
		return "connecting";
	case ALLREDUCE_RING_UP:
		return "up";
	case ALLREDUCE_RING_BROKEN:
		return "broken";
	}
	return NULL;
}

static const struct {
	int error;
	const char *text;
} error_texts[] = {
	{ 0, "success" },
	{ EACCES, "the permissions of " ARU_DEVICE " do not allow it" },
	{ EALREADY, "already done" },
	{ EBADMSG, "a message is malformed" },
	{ EBUSY, "in use: the ring is attached elsewhere, or requests are under way" },
	{ ECANCELED, "canceled, or the ring was deleted" },
	{ ECONNRESET, "a neighbour's connection went away" },
	{ EEXIST, "there is a ring of that name already" },
	{ EFAULT, "a buffer is not mapped, or not writable" },
	{ EINPROGRESS, "the request has not ended yet" },
	{ EINVAL, "an argument is out of range, or the members' calls differ" },
	{ ENODEV, "no such ring in this network namespace" },
	{ ENOENT, "the kernel has no allreduce interface: is the module loaded?" },
	{ ENOMEM, "no memory, or RLIMIT_MEMLOCK (ulimit -l) is too small to pin the buffers" },
	{ ENOSYS, "io_uring is not available: the kernel lacks it, or a seccomp filter or the sysctl kernel.io_uring_disabled denies it" },
	{ ENOSPC, "no room: a network namespace holds no more rings" },
	{ ENOTCONN, "the ring is not up" },
	{ ENOTRECOVERABLE, "the context's io_uring fails: who owns the buffers is unknown until aru_close()" },
	{ ENXIO, "not attached to a ring, or nothing registered" },
	{ EPERM, "not permitted: changes of rings need CAP_NET_ADMIN" },
	{ EPIPE, "the ring is broken" },
	{ EPROTO, "a neighbour sent what the protocol does not allow" },
	{ ETIME, "the wait ran out of time, the request goes on" },
	{ ETIMEDOUT, "no progress in time" },
	{ E2BIG, "an option is set that this version of the library does not know" },
};

ARU_API const char *aru_strerror(int error)
{
	const char *text;
	size_t i;

	/* Not by negating, which INT_MIN does not survive. */
	for (i = 0; i < sizeof(error_texts) / sizeof(error_texts[0]); i++)
		if (error_texts[i].error == error || error_texts[i].error == -(long)error)
			return error_texts[i].text;
	text = error < 0 && error > -4096 ? strerrordesc_np(-error) :
					    strerrordesc_np(error);
	return text ? text : "unknown error";
}

int aru_opts_copy(void *opts, size_t size, const void *user)
{
	size_t user_size, i;

	memset(opts, 0, size);
	if (!user)
		return 0;
	memcpy(&user_size, user, sizeof(user_size));
	if (user_size < sizeof(user_size))
		return -EINVAL;
	for (i = size; i < user_size; i++)
		if (((const char *)user)[i])
			return -E2BIG;
	memcpy(opts, user, user_size < size ? user_size : size);
	return 0;
}

void aru_phrase(char *text, size_t size, const char *fmt, ...)
{
	va_list ap;

	if (!text || !size)
		return;
	va_start(ap, fmt);
	vsnprintf(text, size, fmt, ap);
	va_end(ap);
}

uint64_t aru_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}
