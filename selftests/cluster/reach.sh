#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# reach.sh - what the tests of a cluster build upon: the guests reach each
# other over IPv4 and IPv6, bytes arrive unchanged over TCP, the barrier holds
# every guest until the last has come, and the module is loaded.

. ./tap.sh

reach_all()
{
	local i

	for ((i = 0; i < N; i++)); do
		ping -q -c 1 -W 5 "$1$((1 + i))" || return 1
	done
}

# Without a barrier guest 0 would read long before the last guest has written.
barrier_holds()
{
	[ "$ID" -eq 0 ] || sleep "$ID"
	echo here > "/share/reach.$ID"
	barrier reach-held 60 || return 1
	[ "$(cat /share/reach.* | grep -c here)" -eq "$N" ]
}

# Each guest sends to the next what the next can compute for itself.
pattern() { seq "$1" 7 $((100000 + $1)); }

stream_arrives()
{
	local next=$(((ID + 1) % N)) prev=$(((ID + N - 1) % N))

	# nc closes the connection when its input ends: give it one that does not
	mkfifo /tmp/never
	exec 3<> /tmp/never
	timeout 60 nc -l -p 5777 <&3 > /tmp/stream &
	sleep 0.5
	barrier reach-listening 60 || return 1
	# the receiver ends with the stream, and the sender with the receiver
	pattern "$ID" | timeout 60 nc -w 10 "10.77.0.$((1 + next))" 5777 > /dev/null || return 1
	wait
	exec 3>&-
	pattern "$prev" | cmp - /tmp/stream
}

plan 5
check "IPv4" reach_all 10.77.0.
check "IPv6" reach_all fd77::
check "barrier" barrier_holds
check "TCP stream" stream_arrives
check "module loaded" grep -q '^allreduce ' /proc/modules
finish
