#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unload.sh - the module can go while rings exist, and not while a file is open.

. ./tap.sh

MODULE=/modules/allreduce.ko
RING="arctl -N"

up()
{
	local i

	for i in 0 1; do
		$RING "u$i" ring add r rank "$i" members 10.89.0.1,10.89.0.2 lanes 2 || return 1
	done
	$RING u0 ring up r nowait && $RING u1 ring up r wait 20 &&
		until_true 20 is_up u0
}

is_up() { $RING "$1" ring show r | grep -q '^ring r up'; }

loaded() { grep -q '^allreduce ' /proc/modules; }

gone() { rmmod allreduce && ! loaded; }

refused() { ! rmmod allreduce 2> /dev/null && loaded; }

plan 6
ip netns add u0
ip netns add u1
ip link add e0 netns u0 type veth peer name e1 netns u1
for i in 0 1; do
	ip -n "u$i" addr add 10.89.0.$((i + 1))/24 dev "e$i"
	ip -n "u$i" link set "e$i" up
done

check "a ring comes up" up
check "the module goes while a ring is up" gone
check "and comes again" insmod $MODULE
check "a ring comes up again" up
exec 9< /dev/allreduce
check "the module stays while its device is open" refused
exec 9<&-
check "and goes when it is closed" gone
insmod $MODULE
ip netns del u0
ip netns del u1
finish
