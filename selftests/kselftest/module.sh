#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# module.sh - load and unload the module several times.
#
# Each time nobody may hold a reference to it once it is loaded, it has to go
# when asked to, and the kernel must have nothing to warn of.

. ./tap.sh

KO=${KO:-/modules/allreduce.ko}
ROUNDS=5

loaded() { grep -q '^allreduce ' /proc/modules; }
unloaded() { ! loaded; }
references() { awk '$1 == "allreduce" { print $3 }' /proc/modules; }
warnings() { dmesg -l emerg,alert,crit,err,warn | wc -l; }

unused()
{
	local refs

	refs=$(references)
	[ "$refs" = 0 ] || { echo "reference count is '$refs'"; return 1; }
}

unload() { rmmod allreduce && until_true 10 unloaded; }

no_new_warnings()
{
	local now

	now=$(warnings)
	[ "$now" -eq "$before" ] ||
		{ dmesg -l emerg,alert,crit,err,warn | tail -n $((now - before)); return 1; }
}

plan $((4 * ROUNDS + 1))

# The first time a kernel loads any module of ours it notes that it is from
# outside its tree; that is over before counting starts.
loaded || insmod "$KO"
rmmod allreduce
check "not loaded at the start" unloaded
before=$(warnings)
for ((i = 1; i <= ROUNDS; i++)); do
	check "load $i" insmod "$KO"
	check "no references $i" unused
	check "unload $i" unload
	check "no warnings $i" no_new_warnings
done
# leave it as the other tests expect it
insmod "$KO"
finish
