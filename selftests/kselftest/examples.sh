#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# examples.sh - the library's example programs, on a ring of three members on
# this host; they check their results themselves.

. ./tap.sh

SIZE=3
MEMBERS=127.0.0.1:5001,127.0.0.1:5002,127.0.0.1:5003

rings()
{
	local i

	ip netns add ex || return 1
	ip -n ex link set lo up
	for ((i = 0; i < SIZE; i++)); do
		arctl -N ex ring add "ex$i" rank "$i" members "$MEMBERS" \
			id 0123456789abcdef0123456789abcdef || return 1
	done
	for ((i = 0; i < SIZE; i++)); do
		arctl -N ex ring up "ex$i" nowait || return 1
	done
	until_true 20 all_up
}

all_up() { [ "$(arctl -N ex ring show | grep -c '^ring ex. up')" = "$SIZE" ]; }

# all_members PROGRAM WORD...: the ring's name comes first
all_members()
{
	local i pids=() failed=0 program=$1

	shift
	for ((i = 0; i < SIZE; i++)); do
		timeout 120 ip netns exec ex "$program" "ex$i" "$@" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || failed=1
	done
	return "$failed"
}

# A layer that no allreduce of the same size splits evenly into frames or grains.
overlap() { all_members overlap 3 5 10007; }

# as wrong usage, not for another reason
refuses()
{
	local status=0

	ip netns exec ex overlap ex0 0 2> /dev/null || status=$?
	echo "exit status $status, not 2"
	[ "$status" -eq 2 ]
}

plan 5
check "rings up" rings
check "allreduce" all_members allreduce
check "overlap of communication and computation" overlap
check "overlap of one element" all_members overlap 2 2 1
check "overlap refuses no steps" refuses
for ((i = 0; i < SIZE; i++)); do
	arctl -N ex ring del "ex$i"
done
ip netns del ex
finish
