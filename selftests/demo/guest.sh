#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh [DATA]: in the guest, as root, with the module loaded and arctl,
# arbench and demo-member in PATH. Sums DATA/member-R.f32 over a ring and writes
# DATA/out/result-R.f32.
#
#        ring "demo", LANES lanes
#     m0        m1        m2        m3        one network namespace a member
#     | eth0    | eth0    | eth0    | eth0    10.77.0.1, .2, .3, .4
#     | v0      | v1      | v2      | v3      veth pairs
#     +---------+----+----+---------+
#                  br0                        in namespace sw
set -eu
data=${1:-/data}
members=${MEMBERS:-4}
lanes=${LANES:-4}
ring=demo

last=$((members - 1))
list=$(for r in $(seq 0 $last); do printf '%s10.77.0.%d' "${sep-}" $((r + 1)); sep=,; done)

say() {
	printf '\n== %s\n' "$*"
}

cleanup() {
	local r

	for r in $(seq 0 $last); do
		arctl -N "m$r" ring del $ring 2>/dev/null || :
		ip netns del "m$r" 2>/dev/null || :
	done
	ip netns del sw 2>/dev/null || :
}

network() {
	local r

	ip netns add sw
	ip -n sw link add br0 type bridge
	ip -n sw link set br0 up
	for r in $(seq 0 $last); do
		ip netns add "m$r"
		ip -n sw link add "v$r" type veth peer name eth0 netns "m$r"
		ip -n sw link set "v$r" master br0 up
		ip -n "m$r" addr add 10.77.0.$((r + 1))/24 dev eth0
		ip -n "m$r" link set lo up
		ip -n "m$r" link set eth0 up
	done
}

# each COMMAND...: run it for all members at once, with {R} replaced by the rank; fails if
# one of them does.
each() {
	local r pids=() bad=0 pid

	for r in $(seq 0 $last); do
		(eval "${*//\{R\}/$r}") &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || bad=1
	done
	return $bad
}

tx_bytes() {
	ip netns exec "m$1" cat /sys/class/net/eth0/statistics/tx_bytes
}

trap cleanup EXIT
mkdir -p "$data/out"

say "network: $members members on a bridge"
network

say "ring: arctl ring add $ring rank R members $list lanes $lanes"
for r in $(seq 0 $last); do
	arctl -N "m$r" ring add $ring rank "$r" members "$list" lanes "$lanes"
done
each arctl -N 'm{R}' ring up $ring wait 60
arctl -N m0 ring show $ring

say "job: the sum of $members vectors, read from files"
tx0=$(tx_bytes 0)
each ip netns exec 'm{R}' demo-member $ring "$data/member-{R}.f32" "$data/out/result-{R}.f32"
echo "rank 0: interface eth0 sent $(($(tx_bytes 0) - tx0)) bytes, TCP/IP headers and acknowledgements included"

say "table: arbench, one process for each member"
each ip netns exec 'm{R}' arbench -r $ring -b 4 -e "${ARBENCH_MAX:-4M}" -f 16 -n 5 -w 1

say "done"
