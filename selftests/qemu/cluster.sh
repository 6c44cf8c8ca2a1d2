#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# cluster.sh - boot several guests on one network and run a test in each.
#
#   guest 0      guest 1      guest 2        10.77.0.1, .2, .3; fd77::1, ...
#    eth0         eth0         eth0          virtio-net
#      |            |            |
#    tap0         tap1         tap2          in a network namespace of
#      +--- br0 ----+------------+           their own, without other links
#
# Usage: cluster.sh [OPTION]... KERNEL OUTDIR
#   OUTDIR  gets a folder for each guest (0, 1, ...) as guest.sh leaves it, and
#           share/, which all guests have at /share
#   -n N    number of guests (default 3)
#   -p FILE payload, as for guest.sh; repeatable. Its /test.sh finds its number
#           in $ID, how many there are in $N, and can call barrier
#   -m MIB  memory of each (default 768)   -t SEC  time limit (default 600)
#   -s N    CPUs of each (default 1)       -M MTU  (default 1500)
#   -a WORDS, -q ARGS  as for guest.sh
#
# The namespace has no name: it ends with the processes in it, whatever ends
# them. Without root it is made in a user namespace.
set -u

. "$(dirname "$0")/common.sh"

if [ "${ARU_CLUSTER_NS-}" != y ]; then
	ns=(unshare --net)
	[ "$(id -u)" -eq 0 ] || ns+=(--user --map-root-user)
	export ARU_CLUSTER_NS=y
	exec "${ns[@]}" "$0" "$@"
fi

n=3 memory=768 limit=600 cpus=1 mtu=1500 append='' extra='' pass=()
while getopts n:p:m:t:s:M:a:q:h opt; do
	case $opt in
	n) n=$OPTARG ;;
	p) pass+=(-p "$OPTARG") ;;
	m) memory=$OPTARG ;;
	t) limit=$OPTARG ;;
	s) cpus=$OPTARG ;;
	M) mtu=$OPTARG ;;
	a) append=$OPTARG ;;
	q) extra=$OPTARG ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || { usage >&2; exit 2; }
[[ $n =~ ^[0-9]+$ ]] && [ "$n" -ge 1 ] && [ "$n" -le 16 ] ||
	die "-n: number of guests must be 1 to 16, not '$n'"
kernel=$1 out=$2

# QEMU runs in the namespace, so its paths must not depend on the folder
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/share" "$out"/[0-9]*
mkdir -p "$out/share"
"$QEMU_DIR/mkbase.sh" "$kernel" || exit 1

[ -c /dev/net/tun ] || die "no /dev/net/tun: the guests' network cards need it"
ip link set lo up
ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ||
	die "cannot make a bridge"
ip link set br0 mtu "$mtu" up
pids=()
trap 'kill ${pids[@]+"${pids[@]}"} 2> /dev/null; wait' EXIT
trap 'exit 1' INT TERM HUP

run_member()
{
	local id=$1

	# one guest's death is news for the others: barrier looks for the file
	trap '[ -z "${pid-}" ] || kill $pid 2> /dev/null; : > "$out/share/gone-$id"' EXIT
	trap 'exit 1' INT TERM HUP
	"$QEMU_DIR/guest.sh" ${pass[@]+"${pass[@]}"} -m "$memory" -s "$cpus" -t "$limit" \
		-a "aru.id=$id aru.n=$n aru.share=1 $append" \
		-q "-netdev tap,id=n0,ifname=tap$id,script=no,downscript=no,vhost=off
		    -device virtio-net-pci,netdev=n0,mac=52:54:00:77:00:$(printf %02x $((id + 1))),romfile=,host_mtu=$mtu
		    -virtfs local,path=$out/share,mount_tag=share,security_model=none $extra" \
		"$kernel" "$out/$id" &
	pid=$!
	wait $pid
	rc=$?
	pid=
	exit $rc
}

for ((i = 0; i < n; i++)); do
	ip tuntap add "tap$i" mode tap vnet_hdr || die "cannot make a tap device"
	ip link set "tap$i" mtu "$mtu" master br0 up
	run_member $i &
	pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do
	wait "$pid" || failed=$((failed + 1))
done
pids=()
[ $failed -eq 0 ] || die "$failed of $n guests failed"
