#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh - the whole of `make check`.
#
# Usage: check.sh
#
# Builds everything, runs every kind of test, and ends with the one line
# "N passed, N failed". A step that does not build is a failed test, and those
# that do not depend on it still run. Logs: $BUILD/log; verdicts: $BUILD/results
# (all in summary.tsv).
#
# Environment: KERNELS, default "6.1 6.12"; EXTRA=1 adds what takes make check over
# its 20 minutes (.ci/run). Of the random jobs: SEED, the first run's, the others
# having SEED + 1 and so on; COMBINATIONS of each kernel, default 1100.
set -u

. "$(dirname "$0")/common.sh"

# fewer kernels or combinations than usual
chosen="${KERNELS:+ KERNELS=$KERNELS}${COMBINATIONS:+ COMBINATIONS=$COMBINATIONS}"
KERNELS=${KERNELS:-6.1 6.12}
COMBINATIONS=${COMBINATIONS:-1100}
# of CPUs without AVX2, for each of which there is a run of its own
FEWER_COMBINATIONS=250
COMBINATIONS_MIN=2000
logs=$BUILD/log
steps=$RESULTS/build.tsv
runs=(build)
export ARU_PART

rm -rf "$RESULTS" "$logs"
mkdir -p "$RESULTS" "$logs"
cd "$ROOT" || exit 1
# this script's make calls are no part of the make that called it
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
trap 'kill $(jobs -p) 2> /dev/null' EXIT
trap 'exit 1' INT TERM HUP
start=$SECONDS

stamp() { printf '== [%3d s] %s\n' $((SECONDS - start)) "$*"; }

# build TARGET [JOBS]: one test, passed if make does it.
build()
{
	local log=$logs/$1.log

	stamp "$1"
	if make -j"${2:-1}" "$1" < /dev/null > "$log" 2>&1; then
		result "$steps" pass "build/$1"
		return 0
	fi
	tail -n 30 "$log"
	result "$steps" fail "build/$1" "$(grep -m 1 -E 'error:|[Ww]arning:|Error ' "$log"), log: $log"
	return 1
}

# run NAME COMMAND...: results come from the command, in NAME.tsv.
run()
{
	local name=$1

	shift
	runs+=("$name")
	stamp "$name"
	"$@" < /dev/null > "$logs/$name.log" 2>&1
	sum_up "$name"
}

# sum_up NAME: what a run has to say, its numbers, and what is wrong with it.
sum_up()
{
	sed -n 's/^result: //p; /^  again: /p' "$logs/$1.log"
	ARU_PART=$1 "$QEMU_DIR/total.sh" "$1" ||
		{ echo "-- end of $logs/$1.log:"; tail -n 15 "$logs/$1.log"; }
}

# run_beside NAME COMMAND... : the same in the background, until collect.
beside=()
run_beside()
{
	local name=$1

	shift
	runs+=("$name")
	beside+=("$name")
	stamp "$name (in the background)"
	"$@" < /dev/null > "$logs/$name.log" 2>&1 &
}

collect()
{
	local name

	wait
	stamp "done: ${beside[*]}"
	for name in "${beside[@]}"; do
		sum_up "$name"
	done
	beside=()
}

# next_seed: words for the next random jobs, none if no seed was given. Sets $seed.
seeds=0 seed=''
next_seed()
{
	seed=
	[ -n "${SEED-}" ] || return 0
	seed=aru.seed=$(printf '%u' $((SEED + seeds)))
	seeds=$((seeds + 1))
}

# numbers NAME...: what was given under these names has to be a number.
numbers()
{
	local name

	for name; do
		[ -n "${!name-}" ] || continue
		# printf complains of what is none, or too large, and prints another one
		[ "$(printf '%u' "${!name}" 2> /dev/null)" != "${!name}" ] || continue
		result "$steps" fail "build/settings" \
			"$name: '${!name}' is not a decimal number from 0 to 2^64 - 1"
		return 1
	done
}

# combinations WANTED: one test, passed if the random jobs, of all runs together,
# were as many as they have to be.
combinations()
{
	local wanted=$1 least=$COMBINATIONS_MIN res=$RESULTS/combinations.tsv passed total

	if [ -n "$chosen" ]; then
		least=$wanted
		echo "combinations: with$chosen no $COMBINATIONS_MIN, but $least are demanded"
	fi
	read -r passed total < <(sed -nE \
		's/^result: property: ([0-9]+) of ([0-9]+) combinations passed .*/\1 \2/p' \
		"$logs"/*.log |
		awk '{ passed += $1; total += $2 } END { print passed + 0, total + 0 }')
	runs+=(combinations)
	if [ "$passed" -ge "$least" ]; then
		result "$res" pass combinations
	else
		result "$res" fail combinations "$passed of $total passed, $least are demanded"
	fi
	echo "combinations: $passed of $total passed in all"
}

finish()
{
	stamp "all done"
	ARU_PART='' "$QEMU_DIR/total.sh" "${runs[@]}"
	exit $?
}

numbers SEED COMBINATIONS || finish
build setup || finish
for kernel in $KERNELS; do
	build "kernel-$kernel"
done
build kernel-source
build kernel-arm64

build lib
build tools
for kernel in $KERNELS; do
	build "module-$kernel"
done
build module-arm64
build kselftest
build unit "$(nproc)"
run_beside unit "$QEMU_DIR/unit.sh" unit
run_beside unit-neon "$QEMU_DIR/unit.sh" unit-neon
run lib "$QEMU_DIR/unit.sh" lib
collect

first=${KERNELS%% *} last=${KERNELS##* } planned=0
# the best that QEMU's default CPU has
best=aru.isa=avx2
[ -z "${CPU-}${ACCEL-}" ] || best=
# Two guests at a time keep two cores busy; more would only slow each other
# down and bring their time limits near.
for kernel in $KERNELS; do
	# the long soak on the first one; with EXTRA, on the last one arbench up to
	# 64 MiB, as make check-sizes does it
	memory=2048 jobs=300 append=''
	[ "$kernel" != "$first" ] || jobs=3000
	[ -z "${EXTRA-}" ] || [ "$kernel" != "$last" ] || { memory=3072; append=aru.sizes; }
	next_seed
	run_beside "kselftest-$kernel" env MEMORY=$memory \
		APPEND="$append $best aru.jobs=$jobs $seed aru.combinations=$COMBINATIONS" \
		"$QEMU_DIR/kselftest.sh" "$kernel"
	planned=$((planned + COMBINATIONS))
done
collect
# The harness boots one guest after the other; beside it the CPUs for which the
# module has to choose other loops.
run_beside harness selftests/harness/run.sh
for pair in "$first sse2 Nehalem" "$last avx max,-avx2"; do
	read -r kernel isa cpu <<< "$pair"
	next_seed
	run "property-$isa" env TESTS=property CPU="$cpu" \
		APPEND="aru.isa=$isa aru.combinations=$FEWER_COMBINATIONS $seed" \
		"$QEMU_DIR/kselftest.sh" -r "property-$isa" "$kernel"
	planned=$((planned + FEWER_COMBINATIONS))
done
collect
combinations $planned
for kernel in $KERNELS; do
	run "cluster-$kernel" "$QEMU_DIR/kselftest.sh" -c "$kernel"
done
# The demo checks its results itself.
build demo
finish
