// SPDX-License-Identifier: GPL-2.0
/*
 * faulty.c - a module that does what a module must not do, on request.
 *
 * Writing the name of a fault to /sys/module/faulty/parameters/fault commits
 * it, in the context of the writer. The harness has to notice each.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/in.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/net.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/string.h>
#include <net/net_namespace.h>

static int fault_warn(void)
{
	WARN_ON(1);
	return 0;
}

static int fault_bug(void)
{
	BUG();
	return 0;
}

static int fault_oops(void)
{
	int *nowhere = NULL;

	/* the compiler must not see that it is NULL and trap instead */
	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
	return 0;
}

static int fault_atomic(void)
{
	preempt_disable();
	schedule_timeout_uninterruptible(1);
	/* The scheduler's report has set the count right: no preempt_enable(). */
	return 0;
}

/* Long enough for rcupdate.rcu_cpu_stall_timeout=3, too short for soft lockups */
static int fault_stall(void)
{
	ktime_t end = ktime_add_ms(ktime_get(), 8000);

	/* without somebody waiting there is nothing to stall */
	start_poll_synchronize_rcu();
	preempt_disable();
	while (ktime_before(ktime_get(), end))
		cpu_relax();
	preempt_enable();
	return 0;
}

static int fault_reference(void)
{
	__module_get(THIS_MODULE);
	return 0;
}

/* Pins a page of the writer's stack and forgets it. */
static int fault_pin(void)
{
	unsigned long start = current->mm->start_stack & PAGE_MASK;
	struct page *page;
	int ret;

	ret = pin_user_pages_fast(start, 1, FOLL_WRITE, &page);
	return ret == 1 ? 0 : -EFAULT;
}

/* Leaves a listening socket behind, which counts as in use. */
static int fault_socket(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct socket *sock;
	int ret;

	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ret;
	ret = kernel_bind(sock, (struct sockaddr *)&addr, sizeof(addr));
	if (!ret)
		ret = kernel_listen(sock, 1);
	if (ret)
		sock_release(sock);
	return ret;
}

/*
 * Vector code in an interrupt without kernel_fpu_begin(): what it leaves behind is
 * in the registers of the process that was interrupted. Only fpu-load has to
 * suffer: it is what has to notice, and nothing else of the guest should die first.
 */
static struct hrtimer fpu_timer;
static int fpu_ticks;
static void (*fpu_spoil)(void);

#define FPU_TICK_NS	1000000
#define FPU_TICKS	20000

static void spoil_vector(void)
{
	asm volatile("pcmpeqd %xmm13, %xmm13");
}

static void spoil_control(void)
{
	u32 mxcsr = 0x1f80;

	asm volatile("ldmxcsr %0" : : "m" (mxcsr));
}

static enum hrtimer_restart fpu_tick(struct hrtimer *timer)
{
	if (!strcmp(current->comm, "fpu-load"))
		fpu_spoil();
	if (!--fpu_ticks)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(FPU_TICK_NS));
	return HRTIMER_RESTART;
}

static int fault_fpu(void (*spoil)(void))
{
	hrtimer_cancel(&fpu_timer);
	fpu_spoil = spoil;
	fpu_ticks = FPU_TICKS;
	hrtimer_start(&fpu_timer, ns_to_ktime(FPU_TICK_NS), HRTIMER_MODE_REL);
	return 0;
}

static int fault_fpu_vector(void)
{
	return fault_fpu(spoil_vector);
}

static int fault_fpu_control(void)
{
	return fault_fpu(spoil_control);
}

static const struct {
	const char *name;
	int (*commit)(void);
} faults[] = {
	{ "warn", fault_warn },
	{ "bug", fault_bug },
	{ "oops", fault_oops },
	{ "atomic", fault_atomic },
	{ "stall", fault_stall },
	{ "reference", fault_reference },
	{ "pin", fault_pin },
	{ "socket", fault_socket },
	{ "fpu-vector", fault_fpu_vector },
	{ "fpu-control", fault_fpu_control },
};

static int fault_set(const char *val, const struct kernel_param *kp)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (sysfs_streq(val, faults[i].name))
			return faults[i].commit();
	pr_err("no such fault\n");
	return -EINVAL;
}

static const struct kernel_param_ops fault_ops = {
	.set = fault_set,
};

module_param_cb(fault, &fault_ops, NULL, 0200);
MODULE_PARM_DESC(fault, "fault to commit when written");
MODULE_DESCRIPTION("Faults for the self-test of the test harness");
MODULE_LICENSE("GPL");

static int __init faulty_init(void)
{
	hrtimer_init(&fpu_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	fpu_timer.function = fpu_tick;
	return 0;
}

static void __exit faulty_exit(void)
{
	hrtimer_cancel(&fpu_timer);
}

module_init(faulty_init);
module_exit(faulty_exit);
