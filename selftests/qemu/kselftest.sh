#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kselftest.sh - run a collection of selftests in a guest, or in three.
#
# Usage: kselftest.sh [-c] [-f REGEX] [-n N] [-r RUN] KERNEL
#   KERNEL  6.1 or 6.12
#   -c      selftests/cluster in a cluster of guests instead of
#           selftests/kselftest in one
#   -f      print lines of the tests in one guest that match, as they come
#   -n N    number of guests of the cluster (default 3)
#   -r RUN  name of the run, default kselftest-KERNEL or cluster-KERNEL
#
# Environment:
#   TESTS    run only these tests, such as "module.sh ring"
#   MEMORY   MiB of a guest, CPUS, CPU (model), LIMIT (seconds)
#   APPEND   added to the guest's kernel command line
#   TIMEOUT  seconds for each test, instead of what its settings file says
#
# Everything has to be built (see the root Makefile). The guest finds the
# programs in /usr/bin, the library in /usr/lib, the module loaded and in
# /modules; fpu-load runs beside the tests. Logs go to $BUILD/run/RUN, verdicts to
# $BUILD/results/RUN.tsv. Lines of tests that begin with "# result: " are repeated
# at the end, as "result: ", and so are commands that repeat a failure, "again: ".
set -u

. "$(dirname "$0")/common.sh"

collection=allreduce n=3 run='' follow=''
while getopts cf:n:r:h opt; do
	case $opt in
	c) collection=cluster ;;
	f) follow=$OPTARG ;;
	n) n=$OPTARG ;;
	r) run=$OPTARG ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { usage >&2; exit 2; }
kernel=$1
[ -n "$run" ] || case $collection in
allreduce) run=kselftest-$kernel ;;
*) run=$collection-$kernel ;;
esac
out=$BUILD/run/$run
res=$RESULTS/$run.tsv

mkdir -p "$out" "$RESULTS"
: > "$res"

selection="-c $collection"
if [ -n "${TESTS-}" ]; then
	selection=
	for test in $TESTS; do
		selection+=" -t $collection:$test"
	done
fi
{
	echo '#!/bin/sh'
	[ -z "${TIMEOUT-}" ] || echo "echo timeout=$TIMEOUT > /kselftest/$collection/settings"
	echo "cd /kselftest && exec ./run_kselftest.sh $selection"
} > "$out/test.sh"
chmod 755 "$out/test.sh"

files=("$out/test.sh:/test.sh" "$BUILD/kselftest/install:/kselftest"
       "$BUILD/kselftest/install/allreduce/fpu-load:/usr/bin/fpu-load"
       "$BUILD/kmod-$kernel/allreduce.ko:/modules/allreduce.ko")
for file in "$BUILD"/tools/ar* "$BUILD"/examples/*; do
	[ -f "$file" ] && [ -x "$file" ] && files+=("$file:/usr/bin/${file##*/}")
done
for file in "$BUILD"/lib/liballreduce-uring.so.*; do
	[ -e "$file" ] && files+=("$file:/usr/lib/${file##*/}")
done
"$QEMU_DIR/payload.sh" "$out/payload.cpio" "${files[@]}" || {
	result "$res" fail "$run/@payload" "cannot pack the tests"
	exit 1
}

# tests name the CPU in the command that repeats them
append="aru.fpu=1 ${CPU:+aru.cpu=$CPU} ${APPEND-}"

# The verdict is judge.sh's, which also reads how each guest ended.
if [ $collection = cluster ]; then
	"$QEMU_DIR/cluster.sh" -n "$n" -p "$out/payload.cpio" -m "${MEMORY:-768}" \
		-s "${CPUS:-1}" -t "${LIMIT:-1200}" -a "$append" "$kernel" "$out"
	for ((i = 0; i < n; i++)); do
		mkdir -p "$out/$i"
		"$QEMU_DIR/judge.sh" "$out/$i" "$run/guest$i" || failed=y
		cat "$out/$i/result.tsv" >> "$res"
	done
else
	if [ -n "$follow" ]; then
		: > "$out/tap.log"
		tail -n +1 -F "$out/tap.log" > >(sed -u 's/^# # //' |
			grep --line-buffered -aE -e "$follow") 2> /dev/null &
		tail=$!
		trap 'kill $tail 2> /dev/null' EXIT
	fi
	"$QEMU_DIR/guest.sh" -p "$out/payload.cpio" -m "${MEMORY:-2048}" -s "${CPUS:-2}" \
		-c "${CPU:-max}" -t "${LIMIT:-1800}" -a "$append" "$kernel" "$out"
	"$QEMU_DIR/judge.sh" "$out" "$run" || failed=y
	cat "$out/result.tsv" >> "$res"
	sed -nE 's/^# # (result: |  again: )/\1/p' "$out/tap.log" | awk '!seen[$0]++'
fi
[ -z "${failed-}" ] || {
	echo "logs: $out"
	exit 1
}
