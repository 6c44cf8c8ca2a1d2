#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh - arbench on four members: 0 wrong from 4 B to 8 MiB; the bits of
# ten runs are the same, also while packets are captured on the interface, a
# tap being one more reader of the pages that are sent by reference. All
# collectives, types and operations, misaligned.
#
# With aru.sizes on the kernel's command line (make check-sizes, and, with EXTRA=1,
# one kernel of make check) up to 64 MiB, in steps of 2, and every type.

. ./tap.sh

SIZE=4
max=8M factor=8
# each kind, and with it each loop's shape; property has all of them
TYPES=(bf16 u8) N_TYPES=2
if grep -qw aru.sizes /proc/cmdline; then
	max=64M factor=2
	TYPES=(all) N_TYPES=10
fi
MEMBERS=10.90.0.1,10.90.0.2,10.90.0.3,10.90.0.4

topology()
{
	local i

	ip link add bebr type bridge forward_delay 0 && ip link set bebr up || return 1
	for ((i = 0; i < SIZE; i++)); do
		ip netns add "b$i" &&
			ip link add "bv$i" type veth peer name eth0 netns "b$i" &&
			ip link set "bv$i" master bebr up &&
			ip -n "b$i" addr add 10.90.0.$((1 + i))/24 dev eth0 &&
			ip -n "b$i" link set eth0 up || return 1
	done
}

rings()
{
	local i

	for ((i = 0; i < SIZE; i++)); do
		arctl -N "b$i" ring add r rank "$i" members "$MEMBERS" lanes 4 &&
			arctl -N "b$i" ring up r nowait || return 1
	done
	for ((i = 0; i < SIZE; i++)); do
		until_true 30 is_up "$i" || return 1
	done
}

is_up() { arctl -N "b$1" ring show r | grep -q '^ring r up'; }

# on_all NAME OPTION...: arbench on every member; digests in /tmp/NAME.RANK,
# figures in /tmp/NAME.json.RANK
on_all()
{
	local name=$1 i pids=() failed=0

	shift
	rm -f "/tmp/$name".*
	for ((i = 0; i < SIZE; i++)); do
		arbench -N "b$i" -r r -t 120000 -x "/tmp/$name.$i" \
			-J "/tmp/$name.json.$i" "$@" > "/tmp/$name.out.$i" 2>&1 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || failed=1
	done
	for ((i = 0; i < SIZE; i++)); do
		# members that wrote no digests would have the same ones
		[ -s "/tmp/$name.$i" ] && cmp "/tmp/$name.0" "/tmp/$name.$i" || failed=1
	done
	cat "/tmp/$name.out.0"
	[ "$failed" -eq 0 ]
}

# Every size of the table: one timed and one checked job a column.
all_sizes() { on_all sizes -b 4 -e "$max" -f "$factor" -n 1 -w 0 -c 1; }

run_mixed() { on_all "$1" -b 300000 -e 300000 -n 1 -w 0 -c 1; }

ten_runs()
{
	local i

	for ((i = 0; i < 10; i++)); do
		run_mixed "run$i" && cmp /tmp/run0.0 "/tmp/run$i.0" || return 1
	done
}

captured()
{
	local i pids=() ret

	for i in 0 2; do
		ip netns exec "b$i" tcpdump -i eth0 -s 0 -w "/tmp/cap.$i" 2> "/tmp/cap.log.$i" &
		pids+=($!)
		until_true 20 grep -q "listening on" "/tmp/cap.log.$i" || return 1
	done
	run_mixed captured && cmp /tmp/run0.0 /tmp/captured.0
	ret=$?
	kill "${pids[@]}"
	wait "${pids[@]}"
	# a capture that saw nothing would prove nothing
	for i in 0 2; do
		[ "$(stat -c %s "/tmp/cap.$i")" -gt 500000 ] || return 1
		rm "/tmp/cap.$i"
	done
	return "$ret"
}

everything()
{
	local type

	for type in "${TYPES[@]}"; do
		on_all "every-$type" -C all -d "$type" -o all -R 2 -u 3 -b 6000 -e 6000 \
			-n 1 -w 0 -c 1 || return 1
	done
}

# all_rows FILTER: jq's answer about the rows of the runs of everything
all_rows() { jq -es "[.[].rows[]] | $1" /tmp/every-*.json.0; }

# The gather path, on which each member sums by itself.
small() { on_all small -d all -o all -u 1 -b 100 -e 100 -n 1 -w 0 -c 1; }

# What arbench was asked for it has done: three collectives with six operations for
# a float and eight for an integer, two without one, and the barrier.
# shellcheck disable=SC2016 # the variables are jq's
nothing_left_out()
{
	all_rows '([.[].type | select(. != null and . != "-")] | unique) as $types |
		([$types[] | select(startswith("f") or startswith("b"))] | length) as $floats |
		([.[] | [.collective, .type, .op]] | unique | length) ==
			3 * ($floats * 6 + (($types | length) - $floats) * 8) +
			2 * ($types | length) + 1' &&
		[ "$(all_rows '[.[].type | select(. != null and . != "-")] | unique | length')" = "$N_TYPES" ]
}

# By the definitions of README.md, for four members: a vector's size is that of its
# elements, or of all members' blocks where there are such; busbw is what a member
# has to send at the least.
# shellcheck disable=SC2016 # the variables are jq's
figures_right()
{
	all_rows '. as $rows | { allreduce: 1.5, reduce_scatter: 0.75, allgather: 0.75, broadcast: 1, reduce: 1 }
			as $factor |
		{ reduce_scatter: 4, allgather: 4 } as $blocks |
		def near($want): (. - $want) | fabs <= 1e-6 * $want;
		[$rows[] | select(.collective != "barrier")] |
		([.[].collective] | unique | length == 5) and all(.[];
			.size == .count * (.type | capture("(?<bits>[0-9]+)$").bits | tonumber / 8) *
				($blocks[.collective] // 1) and
			.size > 0 and
			(.size as $size | $factor[.collective] as $by |
				all(.out_of_place, .in_place; . as $column | .algbw_gbps > 0 and
				(.algbw_gbps | near($size / $column.time_us / 1000)) and
				(.busbw_gbps | near($column.algbw_gbps * $by)))))'
}

# Every root, several jobs at a time, in registered buffers.
all_roots()
{
	local collective

	for collective in broadcast reduce; do
		on_all roots -C "$collective" -R all -q 3 -z 1 -u 1 -b 1000 -e 300000 -f 300 \
			-n 1 -w 0 -c 2 &&
			jq -e "[.rows[].root] | unique | length == $SIZE" /tmp/roots.json.0 || return 1
	done
}

nothing_copied()
{
	local i

	for ((i = 0; i < SIZE; i++)); do
		arctl -j -s -N "b$i" ring show r > /tmp/show.json || return 1
		jq -c '.[0].stats' /tmp/show.json
		jq -e '.[0].stats | .bytes_copied == 0 and .bytes_forwarded > 0' /tmp/show.json ||
			return 1
	done
}

plan 11
check "four members" topology
check "ring up" rings
check "0 wrong from 4 B to $max" all_sizes
check "ten runs, the same bits" ten_runs
check "the same bits under a packet capture" captured
check "0 wrong of every collective and operation of ${TYPES[*]}, misaligned" everything
check "none was left out" nothing_left_out
check "sizes, algbw and busbw by their definitions" figures_right
check "0 wrong of every type and operation on the gather path" small
check "0 wrong for every root" all_roots
check "no payload byte copied" nothing_copied
for ((i = 0; i < SIZE; i++)); do
	ip netns del "b$i"
done
ip link del bebr
finish
