// SPDX-License-Identifier: GPL-2.0
/*
 * Module init and exit, per-namespace state.
 *
 * Order: namespaces before netlink and the device, which find their state
 * there; so exit closes both ways in before the namespaces' rings go.
 */
#include <linux/module.h>
#include <net/genetlink.h>
#include <net/netns/generic.h>

#include "allreduce.h"

struct workqueue_struct *ar_wq;

static unsigned int ar_net_id __read_mostly;

struct ar_net *ar_net(struct net *net)
{
	return net_generic(net, ar_net_id);
}

static int __net_init ar_net_init(struct net *net)
{
	struct ar_net *an = ar_net(net);

	an->net = net;
	ar_rings_init(an);
	return 0;
}

static void __net_exit ar_net_exit(struct net *net)
{
	ar_rings_exit(ar_net(net));
}

static struct pernet_operations ar_net_ops = {
	.init = ar_net_init,
	.exit = ar_net_exit,
	.id = &ar_net_id,
	.size = sizeof(struct ar_net),
};

static int __init ar_init(void)
{
	int ret;

	ret = ar_reduce_init();
	if (ret)
		return ret;
	/* A lane's work can be long; the scheduler is to place and share it. */
	ar_wq = alloc_workqueue("allreduce", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!ar_wq)
		return -ENOMEM;
	ret = register_pernet_subsys(&ar_net_ops);
	if (ret)
		goto err_wq;
	ret = ar_netlink_init();
	if (ret)
		goto err_pernet;
	ret = ar_uring_init();
	if (ret)
		goto err_netlink;
	return 0;

err_netlink:
	ar_netlink_exit();
err_pernet:
	unregister_pernet_subsys(&ar_net_ops);
err_wq:
	destroy_workqueue(ar_wq);
	return ret;
}

static void __exit ar_exit(void)
{
	ar_uring_exit();
	ar_netlink_exit();
	unregister_pernet_subsys(&ar_net_ops);
	destroy_workqueue(ar_wq);
}

module_init(ar_init);
module_exit(ar_exit);

MODULE_DESCRIPTION("All-reduce between NIC queues");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.2.0");
MODULE_ALIAS_GENL_FAMILY(ALLREDUCE_GENL_NAME);
