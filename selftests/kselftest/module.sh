#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# module.sh - load and unload the module several times, and with parameters.
#
# Each time nobody may hold a reference to it once it is loaded, it has to go
# when asked to, and the kernel must have nothing to warn of. Loops that are
# asked for are used, or refused in plain words.

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

ring_of_two()
{
	local i

	ip netns add m0 && ip netns add m1 &&
		ip link add e0 netns m0 type veth peer name e1 netns m1 || return 1
	for i in 0 1; do
		ip -n "m$i" addr add 10.87.0.$((i + 1))/24 dev "e$i" &&
			ip -n "m$i" link set "e$i" up &&
			arctl -N "m$i" ring add r rank "$i" members 10.87.0.1,10.87.0.2 \
				lanes 2 || return 1
	done
	arctl -N m0 ring up r nowait && arctl -N m1 ring up r wait 20 &&
		until_true 20 is_up m0
}

is_up() { arctl -N "$1" ring show r | grep -q '^ring r up'; }

isa() { arctl -N m0 -j ring show r | jq -r '.[0].isa'; }

isa_is()
{
	[ "$(isa)" = "$1" ] || { echo "isa is '$(isa)'"; return 1; }
}

# 0 wrong elements of all types, on both members; arbench fails if there are any
sums()
{
	local i pids=() failed=0

	for i in 0 1; do
		arbench -N "m$i" -r r -t 60000 -b 4 -e 256K -f 16 -n 1 -w 0 -c 1 -d all \
			> "/tmp/module.$i" 2>&1 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || failed=1
	done
	cat /tmp/module.[01]
	[ "$failed" -eq 0 ]
}

# load_uses SIMD: the module has to come, and to calculate with that
load_uses()
{
	insmod "$KO" "simd=$1" && ring_of_two && isa_is "$1" && sums
}

# refused SIMD TEXT: no module, and the kernel's log says what it did not like
refused()
{
	local lines said

	lines=$(dmesg | wc -l)
	insmod "$KO" "simd=$1" 2> /dev/null && { echo "loaded"; return 1; }
	loaded && { echo "left behind"; return 1; }
	said=$(dmesg | tail -n +$((lines + 1)))
	echo "$said"
	[[ $said == *"allreduce: parameter simd=$1: $2"* ]]
}

clean()
{
	local i failed=0

	rmmod allreduce && until_true 10 unloaded || failed=1
	for i in 0 1; do
		ip netns del "m$i" || failed=1
	done
	return $failed
}

# has FLAG...: of the CPU
has()
{
	local flag

	for flag; do
		grep -qw "$flag" /proc/cpuinfo || return 1
	done
}

plan $((4 * ROUNDS + 8))

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
check "simd=sse2: used, and sums are right" load_uses sse2
check "simd=sse2: unload" clean
if has avx f16c; then
	check "simd=avx: used, and sums are right" load_uses avx
	check "simd=avx: unload" clean
else
	check "simd=avx: refused by a CPU without it" \
		refused avx "not supported by this CPU"
	check "simd=avx: not loaded" unloaded
fi
check "simd=bogus: refused" refused bogus "unknown, expected one of auto, "
if has avx512f avx512bw avx512dq avx512vl f16c; then
	check "simd=avx512: used, and sums are right" load_uses avx512
	clean
else
	check "simd=avx512: refused by a CPU without it" \
		refused avx512 "not supported by this CPU"
fi
# leave it as the other tests expect it
check "and comes again without parameters" insmod "$KO"
finish
