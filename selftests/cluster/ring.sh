#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ring.sh - a ring whose members are machines: each guest is one. Sums are
# checked on every guest, and all guests and runs have the same bits.

. ./tap.sh

members()
{
	local i list=

	for ((i = 0; i < N; i++)); do
		list+=${list:+,}$1$((1 + i))$2
	done
	echo "$list"
}

# ring_up NAME MEMBERS LANES
ring_up()
{
	arctl ring add "$1" rank "$ID" members "$2" lanes "$3" || return 1
	barrier "$1-added" 60 || return 1
	arctl ring up "$1" wait 60
}

# sums NAME RUN MAX: 0 wrong, and digests for the others to see
sums()
{
	arbench -r "$1" -b 4 -e "$3" -f 16 -n 1 -w 0 -c 1 -d all -t 60000 -v \
		-x "/tmp/digest-$1-$2" || return 1
	cp "/tmp/digest-$1-$2" "/share/.digest-$1-$2-$ID" &&
		mv "/share/.digest-$1-$2-$ID" "/share/digest-$1-$2-$ID"
}

# same_bits NAME: on all guests and in both runs
same_bits()
{
	local i run

	barrier "$1-digests" 300 || return 1
	for run in 1 2; do
		for ((i = 0; i < N; i++)); do
			cmp "/tmp/digest-$1-1" "/share/digest-$1-$run-$i" || return 1
		done
	done
	[ -s "/tmp/digest-$1-1" ]
}

ring_del()
{
	barrier "$1-done" 300 && arctl ring del "$1"
}

# Bytes sent, without the headers of packets (Ethernet, IPv4 and TCP with time
# stamps), whose number is TCP's affair, and without what TCP had to send again.
sent()
{
	local stats=/sys/class/net/eth0/statistics segments

	segments=$(awk '/^Tcp: [0-9]/ { print $13 }' /proc/net/snmp)
	echo $(($(cat "$stats/tx_bytes") - 66 * $(cat "$stats/tx_packets") - 1448 * segments))
}

# Vectors of 4 MiB: what goes out is 2 (N - 1) / N of it and 1 % at most.
sent_no_more_than_due()
{
	local bytes=$((4 << 20)) before after due

	arctl ring add counted rank "$ID" members "$(members 10.77.0. "")" lanes 2 &&
		barrier counted-added 60 && arctl ring up counted wait 60 || return 1
	before=$(sent)
	arbench -r counted -b "$bytes" -e "$bytes" -n 1 -w 0 -c 1 -t 60000 -v || return 1
	after=$(sent)
	# a timed job and a checked one, out of place and in place
	due=$((4 * 2 * (N - 1) * bytes / N))
	echo "sent $((after - before)), due $due bytes"
	[ $((after - before)) -ge $((due * 99 / 100)) ] &&
		[ $((after - before)) -le $((due * 101 / 100)) ]
}

# What came by virtio-net, a real driver's receive path, went on by reference.
nothing_copied()
{
	arctl -j -s ring show counted > /tmp/counted.json || return 1
	jq -c '.[0].stats' /tmp/counted.json
	jq -e '.[0].stats | .bytes_forwarded > 0 and .bytes_copied == 0' /tmp/counted.json
}

plan 13
for family in v4 v6; do
	lanes=4
	list=$(members 10.77.0. "")
	[ $family = v4 ] || { list=$(members "[fd77::" "]"); lanes=1; }
	check "$family: ring of $N guests, $lanes lanes, is up" ring_up $family "$list" $lanes
	check "$family: sums of all types up to 1 MiB" sums $family 1 1M
	check "$family: and again" sums $family 2 1M
	check "$family: same bits on all guests and in both runs" same_bits $family
	check "$family: deleted when all are done" ring_del $family
done
check "bytes sent" sent_no_more_than_due
check "bytes forwarded, none of them copied" nothing_copied
check "counted: deleted when all are done" ring_del counted
finish
