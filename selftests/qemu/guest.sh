#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh - boot one guest under QEMU and wait until it is done.
#
# Usage: guest.sh [OPTION]... KERNEL OUTDIR
#   KERNEL      6.1 or 6.12
#   OUTDIR      gets console.log, tap.log, qemu.log and status
#   -p FILE     payload made by payload.sh; repeatable. One has to bring /test.sh
#   -m MIB      memory (default 1024)      -s N    CPUs (default 2)
#   -c MODEL    CPU model (default max)    -t SEC  time limit (default 300)
#   -a WORDS    added to the kernel's command line
#   -d DIR      folder of this machine that the guest mounts at /data
#   -q ARGS     further arguments for QEMU, split at blanks
#
# Environment: ACCEL, the accelerator (default tcg,thread=multi).
#
# The status file says how the guest ended: "exit N" (it reported), "timeout",
# "gone" (panic, power-off, reset: QEMU left without a report) or an error.
# The exit status is 0 only for "exit 0"; judge.sh looks at the rest.
set -u

. "$(dirname "$0")/common.sh"

payloads=() memory=1024 cpus=2 model=max limit=300 append='' data='' extra=()
while getopts p:m:s:c:t:a:d:q:h opt; do
	case $opt in
	p) payloads+=("$OPTARG") ;;
	m) memory=$OPTARG ;;
	s) cpus=$OPTARG ;;
	c) model=$OPTARG ;;
	t) limit=$OPTARG ;;
	a) append=$OPTARG ;;
	d) data=$OPTARG ;;
	q) read -r -d '' -a words <<< "$OPTARG"; extra+=("${words[@]}") ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || { usage >&2; exit 2; }
kernel=$1 out=$2

tree=$(kernel_dir "$kernel") || exit 1
"$QEMU_DIR/mkbase.sh" "$kernel" || die "no initramfs for $kernel"
mkdir -p "$out"
rm -f "$out"/{console.log,tap.log,qemu.log,status,result.tsv}
cat "$BUILD/qemu/base-$kernel.cpio" ${payloads[@]+"${payloads[@]}"} > "$out/initrd" ||
	die "cannot write $out/initrd"

if [ -n "$data" ]; then
	extra+=(-virtfs "local,path=$data,mount_tag=data,security_model=none")
	append+=" aru.data=1"
fi

# What goes wrong in the kernel has to be on the console (warnings are level
# 4), and an oops has to end the guest.
timeout -k 10 "$limit" qemu-system-x86_64 \
	-accel "${ACCEL:-tcg,thread=multi}" -cpu "$model" -smp "$cpus" -m "$memory" \
	-nodefaults -no-user-config -display none -monitor none -no-reboot \
	-serial "file:$out/console.log" -serial "file:$out/tap.log" \
	-device isa-debug-exit,iobase=0xf4,iosize=0x04 \
	-kernel "$tree/vmlinux" -initrd "$out/initrd" \
	-append "console=ttyS0 loglevel=6 panic=-1 oops=panic $append" \
	${extra[@]+"${extra[@]}"} < /dev/null > "$out/qemu.log" 2>&1 &
pid=$!
trap 'kill $pid 2> /dev/null' EXIT
trap 'exit 1' INT TERM HUP
wait $pid
rc=$?
trap - EXIT

# 124 and 137 are timeout's own; QEMU's are odd when the guest used the device
case $rc in
0) status=gone ;;
124|137) status="timeout after $limit s" ;;
*)
	if [ $((rc & 1)) -eq 1 ] && grep -qa '^@@end' "$out/tap.log" 2> /dev/null; then
		status="exit $((rc >> 1))"
	elif [ -s "$out/qemu.log" ]; then
		status="QEMU failed ($rc): $(tail -n 1 "$out/qemu.log")"
	else
		status="QEMU failed ($rc)"
	fi
	;;
esac
echo "$status" > "$out/status"
rm -f "$out/initrd"
[ "$status" = "exit 0" ]
