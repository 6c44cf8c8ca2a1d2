#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh - self-test of the test harness.
#
# Usage: run.sh [CASE...]
#
# Boots guests that misbehave in one way each and demands that each is judged
# failed for that reason and no other, and a good one passed. Verdicts:
# $BUILD/results/harness.tsv, logs: $BUILD/run/harness/CASE. With names of cases
# only these run.
#
# Environment: JOBS, guests at the same time (default 2); KERNEL (default 6.1).
set -u

HARNESS=$(cd "$(dirname "$0")" && pwd)
. "$HARNESS/../qemu/common.sh"

KERNEL=${KERNEL:-6.1}
JOBS=${JOBS:-2}
out=$BUILD/run/harness
res=$RESULTS/harness.tsv
ksft=$CACHE/source/6.1/tools/testing/selftests
only=" $* "

mkdir -p "$out" "$RESULTS"
: > "$res"
trap 'kill $(jobs -p) 2> /dev/null' EXIT
trap 'exit 1' INT TERM HUP

give_up()
{
	result "$res" fail "harness/$1" "$2"
	exit 1
}

build()
{
	local dir=$BUILD/kmod-faulty tests=$out/tests

	mkdir -p "$dir"
	cp "$HARNESS"/{Kbuild,faulty.c} "$dir/"
	make -C "$(kernel_dir "$KERNEL")/kdir" M="$dir" W=1 KCFLAGS=-Werror \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules > "$dir.log" 2>&1 ||
		give_up build "faulty.ko does not build, see $dir.log"

	rm -rf "$tests"
	mkdir -p "$tests/install/harness" "$tests/obj"
	{
		make -C "$HARNESS/tests" KSFT="$ksft" OUTPUT="$tests/obj" \
			CFLAGS="-O2 -Wall -D_GNU_SOURCE -isystem $ksft" \
			INSTALL_PATH="$tests/install/harness" install &&
		make -s -C "$HARNESS/tests" KSFT="$ksft" OUTPUT="$tests/obj" \
			COLLECTION=harness emit_tests > "$tests/install/kselftest-list.txt" &&
		cp -r "$ksft/run_kselftest.sh" "$ksft/kselftest" "$tests/install/"
	} > "$out/tests.log" 2>&1 ||
		give_up build "the bad tests do not build, see $out/tests.log"
	${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE \
		"$ROOT/selftests/kselftest/fpu-load.c" -o "$out/fpu-load" \
		> "$out/fpu-load.log" 2>&1 ||
		give_up build "fpu-load does not build, see $out/fpu-load.log"
}

# --- cases -----------------------------------------------------------------
#
# test_NAME is the guest's /test.sh; must_NAME are the failures that the judge
# has to report, may_NAME those that it may report as well, one regular
# expression a line, matched against "NAME: REASON". Anything else is a wrong
# verdict. No must_NAME: the guest has to pass.

declare -A test must may append limit
commit() { printf 'echo 1..2\necho ok 1 before\necho %s > /sys/module/faulty/parameters/fault\n%s\n' \
	"$1" "echo ok 2 after"; }

test[good]='echo 1..1; echo ok 1 all is well'

test[warn]=$(commit warn)
must[warn]='@console: .*WARNING: '
may[warn]='@console: .*RIP: |@taint: '

test[bug]=$(commit bug)
must[bug]='@console: .*kernel BUG at .*faulty
@console: .*Kernel panic
@exit: .*went away
@fpu: started, but never reported
@report: .*never reported
plan: planned 2, reported 1'
may[bug]='@console: .*RIP: '

test[oops]=$(commit oops)
must[oops]='@console: .*BUG: kernel NULL pointer dereference
@console: .*Oops
@console: .*Kernel panic
@exit: .*went away
@fpu: started, but never reported
@report: .*never reported
plan: planned 2, reported 1'
may[oops]='@console: .*RIP: '

test[atomic]=$(commit atomic)
must[atomic]='@console: .*BUG: scheduling while atomic'
may[atomic]='@console: .*(WARNING: |RIP: )|@taint: '

test[stall]=$(commit stall)
append[stall]='rcupdate.rcu_cpu_stall_timeout=3'
must[stall]='@console: .*rcu.*detected( expedited)? stall'
may[stall]='@console: .*(rcu.*stall|RIP: )|@taint: '

test[reference]=$(commit reference)
must[reference]='@unload: faulty cannot be unloaded, references: 1'

test[counters]="$(commit pin)
echo socket > /sys/module/faulty/parameters/fault"
must[counters]='@counters: nr_foll_pin_acquired-released was 0, is 1
@counters: sockstat.TCP.inuse was 0, is 1'
may[counters]='@counters: sockstat.TCP.alloc '

# What follows is for the guest's shell. fpu-load says something as soon as it has
# found a difference.
# shellcheck disable=SC2016
fpu_fault() { printf '%s\n' 'echo 1..1; sleep 1' \
	"echo $1 > /sys/module/faulty/parameters/fault" \
	'for i in $(seq 100); do [ ! -s /tmp/fpu-load.log ] || break; sleep 0.1; done' \
	'echo ok 1 after'; }

test[fpuvector]=$(fpu_fault fpu-vector)
must[fpuvector]='@fpu: fpu-load: CPU .*mm13 was .*, is [0-9a-f]*f{32}$'

test[fpucontrol]=$(fpu_fault fpu-control)
must[fpucontrol]='@fpu: fpu-load: CPU .*mxcsr was .*, is 00001f80'

# shellcheck disable=SC2016
test[fpukilled]='echo 1..1; sleep 1; kill -9 $(pidof fpu-load); echo ok 1 after'
must[fpukilled]='@fpu: fpu-load: '

# a payload without it, which is asked for
test[fpumissing]=${test[good]}
append[fpumissing]=aru.fpu=1
must[fpumissing]='@fpu: there is no fpu-load'

test[assertion]='echo 1..2; echo ok 1 good; echo not ok 2 bad'
must[assertion]='/bad: not ok'

test[status]='echo 1..1; echo ok 1 good; exit 7'
must[status]='@report: .*exit status 7'

test[shortplan]='echo 1..3; echo ok 1 one; echo ok 2 two; kill -9 $$'
must[shortplan]='plan: planned 3, reported 2'

test[poweroff]='echo 1..1; echo ok 1 good; sync; poweroff -f; sleep 60'
must[poweroff]='@exit: .*went away
@fpu: started, but never reported
@report: .*never reported'

test[hang]='echo 1..1; echo ok 1 good; sleep 1000'
limit[hang]=60
must[hang]='@exit: .*hung
@fpu: started, but never reported
@report: .*never reported'

# every bad program of tests/, through the kernel's own runner
test[kselftest]='cd /kselftest && ./run_kselftest.sh -c harness'
must[kselftest]='assertions/.*bad: not ok
assertions/.*crash: not ok
short-plan.sh/plan: planned 3, reported 2
dies.sh/plan: planned 2, reported 1
no-plan.sh/plan: 2 results but no plan
skips.sh/two: .*not allowed
nested.sh/nested:
slow.sh/plan: planned 1, reported 0'
# not demanded: how the runner's shell words a program that was killed
may[kselftest]=''

order="hang good warn bug oops atomic stall reference counters fpuvector fpucontrol
       fpukilled fpumissing assertion status shortplan poweroff kselftest"

# run_case NAME: boots and judges, leaves a line in $out/NAME.verdict.
run_case()
{
	local name=$1 dir=$out/$1 fails regex why='' got=pass files

	rm -rf "$dir"
	mkdir -p "$dir"
	printf '#!/bin/bash\n%s\n' "${test[$name]}" > "$dir/test.sh"
	chmod 755 "$dir/test.sh"
	files=("$dir/test.sh:/test.sh" "$out/tests/install:/kselftest"
	       "$BUILD/kmod-faulty/faulty.ko:/modules/faulty.ko")
	[ "$name" = fpumissing ] || files+=("$out/fpu-load:/usr/bin/fpu-load")
	"$QEMU_DIR/payload.sh" "$dir/payload.cpio" "${files[@]}"
	"$QEMU_DIR/guest.sh" -p "$dir/payload.cpio" -m 512 -t "${limit[$name]:-120}" \
		-a "${append[$name]-}" "$KERNEL" "$dir"
	"$QEMU_DIR/judge.sh" "$dir" "$name" > "$dir/judge.log" 2>&1 || got=fail
	fails=$(awk -F '\t' '$1 == "fail" { print $2 ": " $3 }' "$dir/result.tsv")

	if [ -z "${must[$name]-}" ]; then
		[ $got = pass ] || why="judged failed: $fails"
	elif [ $got = pass ]; then
		why="judged passed"
	else
		while IFS= read -r regex; do
			grep -qE "$regex" <<< "$fails" || why="not noticed: $regex"
		done <<< "${must[$name]}"
		# what is left after the expected ones must be nothing
		fails=$(grep -vE -f <(printf '%s\n' "${must[$name]}") <<< "$fails")
		[ -z "${may[$name]-}" ] || fails=$(grep -vE "${may[$name]}" <<< "$fails")
		[ -z "$fails" ] || why="failed for another reason as well: ${fails//$'\n'/; }"
	fi
	if [ -z "$why" ]; then
		echo "judged as it should be: $name ($got)"
		printf 'pass\tharness/%s\t\n' "$name" > "$dir/verdict"
	else
		echo "WRONG VERDICT: $name: $why"
		printf 'fail\tharness/%s\t%s\n' "$name" "${why//$'\t'/ }" > "$dir/verdict"
	fi
}

# One of two guests panics: its neighbour must hear of it and end by itself.
run_cluster()
{
	local dir=$out/cluster why='' id

	rm -rf "$dir"
	mkdir -p "$dir"
	cat > "$dir/test.sh" <<-'END'
	#!/bin/bash
	echo 1..1
	[ "$ID" -ne 1 ] || echo c > /proc/sysrq-trigger
	barrier after-the-panic 100 && echo "not ok 1 barrier" || echo "ok 1 barrier gave up"
	END
	chmod 755 "$dir/test.sh"
	"$QEMU_DIR/payload.sh" "$dir/payload.cpio" "$dir/test.sh:/test.sh"
	"$QEMU_DIR/cluster.sh" -n 2 -m 512 -t 200 -p "$dir/payload.cpio" "$KERNEL" "$dir" &&
		why="cluster.sh reports success"
	for id in 0 1; do
		"$QEMU_DIR/judge.sh" "$dir/$id" "guest$id" > "$dir/judge$id.log" 2>&1
	done
	grep -q '^fail' "$dir/0/result.tsv" && why="the good guest failed: $(cat "$dir/judge0.log")"
	grep -q '^fail.*@exit.*went away' "$dir/1/result.tsv" ||
		why="the guest that panicked: $(cat "$dir/judge1.log")"
	if [ -z "$why" ]; then
		echo "judged as it should be: cluster"
		result "$res" pass harness/cluster
	else
		echo "WRONG VERDICT: cluster: $why"
		result "$res" fail harness/cluster "${why//$'\n'/; }"
	fi
}

for name in "${!test[@]}"; do
	[[ " ${order//[$'\n\t']/ } " == *" $name "* ]] ||
		give_up order "case $name is not in the order"
done

wanted() { [ "$only" = "  " ] || [[ $only == *" $1 "* ]]; }

if wanted judge; then
	"$HARNESS/judge-cases.sh" "$out/judge" > "$out/judge.tap" 2>&1
	{ cat "$out/judge.tap"; printf '\n@@end %d\n' $?; } |
		awk -v prefix=harness/judge -f "$QEMU_DIR/tap.awk" >> "$res"
	grep '^not ok' "$out/judge.tap"
fi
build
"$QEMU_DIR/mkbase.sh" "$KERNEL" || give_up build "no initramfs"

cases=()
for name in $order; do
	wanted "$name" && cases+=("$name")
done
for name in ${cases[@]+"${cases[@]}"}; do
	# the guest that hangs only sleeps: it is no load, so it is not counted
	while [ "$(jobs -rp | wc -l)" -ge $((JOBS + 1)) ]; do
		wait -n
	done
	run_case "$name" &
done
wait
for name in ${cases[@]+"${cases[@]}"}; do
	cat "$out/$name/verdict" >> "$res" ||
		result "$res" fail "harness/$name" "no verdict"
done
wanted cluster && run_cluster
! grep -q '^fail' "$res"
