/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every difference between the kernels, and nothing else. A difference is found
 * by feature: a macro that a kernel defines, or a HAVE_... that kmod/Kbuild
 * finds in the kernel's headers; never by the kernel's version.
 */
#ifndef _AR_COMPAT_H
#define _AR_COMPAT_H

/* ---- sockets -------------------------------------------------------------- */

#include <linux/bvec.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/sock.h>

/* The task's page fragment is for sends of user tasks, not of a work item. */
static inline void compat_sk_no_task_frag(struct sock *sk)
{
#ifdef HAVE_SK_USE_TASK_FRAG
	sk->sk_use_task_frag = false;
#endif
}

/* Device memory has no kernel address. */
static inline bool compat_skb_readable(const struct sk_buff *skb)
{
#ifdef HAVE_SKB_FRAGS_READABLE
	return skb_frags_readable(skb);
#else
	return true;
#endif
}

/* Bytes taken from the front of @bv by reference, or an error. */
static inline ssize_t compat_send_pages(struct socket *sock, struct bio_vec *bv,
					u32 nr, size_t len, bool more)
{
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
#ifdef HAVE_SENDPAGE
	/* TCP of these kernels does not know MSG_SPLICE_PAGES, even if defined. */
	ssize_t sent = 0;
	int ret = 0;
	u32 i;

	lock_sock(sock->sk);
	for (i = 0; i < nr; i++) {
		bool last = i == nr - 1;

		ret = kernel_sendpage_locked(sock->sk, bv[i].bv_page,
					     bv[i].bv_offset, bv[i].bv_len,
					     flags | (more || !last ? MSG_MORE : 0) |
					     (last ? 0 : MSG_SENDPAGE_NOTLAST));
		if (ret <= 0)
			break;
		sent += ret;
		if (ret < bv[i].bv_len)
			break;
	}
	release_sock(sock->sk);
	return sent ?: ret;
#else
	struct msghdr msg = {
		.msg_flags = flags | MSG_SPLICE_PAGES | (more ? MSG_MORE : 0),
	};

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bv, nr, len);
	return sock_sendmsg(sock, &msg);
#endif
}

/* ---- io_uring commands ---------------------------------------------------- */

#ifdef HAVE_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

/* The command's payload: shared with userspace, to be copied at once. */
static inline const void *compat_uring_cmd_payload(const struct io_uring_cmd *cmd)
{
#ifdef HAVE_IO_URING_SQE_CMD
	return io_uring_sqe_cmd(cmd->sqe);
#else
	return cmd->cmd;
#endif
}

/*
 * Where commands can't be canceled, a process that dies is noticed when its
 * files are flushed.
 */
#ifdef HAVE_IO_URING_CANCELABLE
#define compat_uring_cmd_cancels(issue_flags)	((issue_flags) & IO_URING_F_CANCEL)
#define compat_uring_cmd_mark_cancelable(cmd, issue_flags) \
	io_uring_cmd_mark_cancelable(cmd, issue_flags)
#else
#define compat_uring_cmd_cancels(issue_flags)	false
#define compat_uring_cmd_mark_cancelable(cmd, issue_flags) do { } while (0)
#endif

/* ---- SIMD registers in the kernel: x86 ----------------------------------- */

#ifdef CONFIG_X86_64

#include <asm/cpufeature.h>
#include <asm/fpu/api.h>

/* Also sets MXCSR to its default: round to nearest, denormals kept. */
static inline void compat_simd_begin(void)
{
	kernel_fpu_begin();
}

static inline void compat_simd_end(void)
{
	kernel_fpu_end();
}

#endif /* CONFIG_X86_64 */

/* ---- SIMD registers in the kernel: arm64 --------------------------------- */

#ifdef CONFIG_ARM64

#include <linux/preempt.h>
#include <asm/neon.h>
#include <asm/sysreg.h>

/*
 * Newer kernels want memory for the registers of a section that is preempted.
 * Ours never is, on any kernel, so none is needed.
 */
#ifdef HAVE_NEON_BEGIN_STATE
#define compat_neon_begin()	kernel_neon_begin(NULL)
#define compat_neon_end()	kernel_neon_end(NULL)
#else
#define compat_neon_begin()	kernel_neon_begin()
#define compat_neon_end()	kernel_neon_end()
#endif

/*
 * Unlike x86, arm64 leaves the floating point control register as the last
 * user task had it: flush to zero or another rounding would change our sums.
 * The task gets its own value back with its registers.
 */
static inline void compat_simd_begin(void)
{
	preempt_disable();
	compat_neon_begin();
	if (read_sysreg(fpcr))
		write_sysreg(0, fpcr);
}

static inline void compat_simd_end(void)
{
	compat_neon_end();
	preempt_enable();
}

#endif /* CONFIG_ARM64 */

#endif /* _AR_COMPAT_H */
