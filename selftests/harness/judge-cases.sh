#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# judge-cases.sh - judge.sh against made-up logs, without a guest.
#
# Usage: judge-cases.sh DIR    (DIR: scratch folder)
#
# Prints TAP. Every case is a good log with one thing wrong in it.
set -u

QEMU=$(cd "$(dirname "$0")/../qemu" && pwd)
dir=$1
count=0
failed=0
mkdir -p "$dir"

# good_run: what a guest without faults leaves behind.
good_run()
{
	rm -rf "$dir/run"
	mkdir -p "$dir/run"
	echo "exit 0" > "$dir/run/status"
	printf '[    0.000000] Linux version 6.1\r\n[    1.0] allreduce: loaded\r\n' \
		> "$dir/run/console.log"
	cat > "$dir/run/tap.log" <<-'END'

	@@note 6.1.0, 2 CPUs
	@@pass load
	TAP version 13
	1..2
	# selftests: allreduce: module.sh
	# TAP version 13
	# 1..2
	# ok 1 load
	# ok 2 unload
	ok 1 selftests: allreduce: module.sh
	# selftests: allreduce: plain
	ok 2 selftests: allreduce: plain

	@@pass unload
	@@pass counters
	@@end 0
	END
}

# expect NAME pass|fail [REGEX]: judges the run; a failure has to be the one
# that REGEX describes, and the only one.
expect()
{
	local name=$1 want=$2 regex=${3-} got=pass why=

	count=$((count + 1))
	"$QEMU/judge.sh" -s "$dir/skips" "$dir/run" t > "$dir/out" 2>&1 || got=fail
	if [ $got != "$want" ]; then
		why="judged $got"
	elif [ "$got" = fail ] && [ "$(grep -c '^fail' "$dir/run/result.tsv")" -ne 1 ]; then
		why="not exactly one failure"
	elif [ "$got" = fail ] && ! grep '^fail' "$dir/run/result.tsv" | grep -qE "$regex"; then
		why="failed for another reason"
	elif [ "$got" = pass ] && [ -n "$regex" ] && ! grep -qE "$regex" "$dir/run/result.tsv"; then
		why="passed without $regex"
	fi
	if [ -z "$why" ]; then
		echo "ok $count $name"
	else
		failed=$((failed + 1))
		sed 's/^/# /' "$dir/out"
		echo "not ok $count $name # $why"
	fi
	good_run
}

edit() { sed -i "$1" "$dir/run/tap.log"; }
: > "$dir/skips"

mapfile -t reports <<'END'
WARNING: CPU: 0 PID: 1 at kernel/fork.c:1 f+0x1/0x2
BUG: kernel NULL pointer dereference, address: 0000000000000000
kernel BUG at kmod/lane.c:10!
BUG kmalloc-64 (Tainted: G           OE     ): Poison overwritten
BUG ar_job (Not tainted): Objects remaining in ar_job on __kmem_cache_shutdown()
Oops: 0002 [#1] PREEMPT SMP
general protection fault, probably for non-canonical address
RIP: 0010:lane_work+0x10/0x20 [allreduce]
BUG: KASAN: use-after-free in f
UBSAN: shift-out-of-bounds in a.c:1:2
WARNING: possible recursive locking detected
WARNING: possible circular locking dependency detected
WARNING: suspicious RCU usage
rcu: INFO: rcu_preempt self-detected stall on CPU
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }
BUG: scheduling while atomic: sh/12/0x00000002
BUG: sleeping function called from invalid context at mm/slab.h:1
watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [sh:1]
INFO: task kworker/0:1:12 blocked for more than 45 seconds.
refcount_t: underflow; use-after-free.
ref_tracker: net notrefcnt@ffff8880 has 1/1 users at
list_del corruption. prev->next should be ffff8880
BUG: Bad page state in process sh  pfn:01234
sh: page allocation failure: order:4, mode:0x40cc0
Out of memory: Killed process 12 (sh)
Kernel panic - not syncing: Fatal exception
unregister_netdevice: waiting for lo to become free. Usage count = 2
END

echo "TAP version 13"
echo "1..$((${#reports[@]} + 37))"
good_run

expect "a good run" pass '^pass.t/module.sh/unload'

# --- the console
for report in "${reports[@]}"; do
	printf '[   12.345678] %s\r\n' "$report" >> "$dir/run/console.log"
	expect "console: ${report%%[:(0-9]*}" fail '@console'
done
: > "$dir/run/console.log"
expect "empty console" fail '@console.*empty'
printf '[  1.0] rcu: Hierarchical RCU implementation.\r\n[  2.0] Key type .fscrypt registered, no debug\r\n' \
	>> "$dir/run/console.log"
expect "harmless lines" pass

# --- how the guest ended
echo gone > "$dir/run/status"
expect "gone" fail '@exit.*went away'
echo "timeout after 3 s" > "$dir/run/status"
expect "hung" fail '@exit.*hung'
rm "$dir/run/status"
expect "never started" fail '@exit.*not started'
echo "QEMU failed (1): no such device" > "$dir/run/status"
expect "QEMU failed" fail '@exit.*no such device'
edit '/^@@end/d'
expect "no report" fail '@report.*never reported'
edit 's/^@@end 0/@@end 3/'
expect "exit status of the test script" fail '@report.*status 3'
edit 's/^@@pass unload/@@fail unload: allreduce cannot be unloaded, references: 1/'
expect "module stays" fail '@unload.*references: 1'
mkdir -p "$dir/bin"
printf '#!/bin/sh\ncase "$*" in *tap.awk*) exit 2 ;; esac\nexec %s "$@"\n' \
	"$(command -v awk)" > "$dir/bin/awk"
chmod 755 "$dir/bin/awk"
PATH=$dir/bin:$PATH expect "no reader of results" fail '@report.*could not be read'
edit 's/^@@pass load/@@started fpu\n&/'
expect "check without a verdict" fail '@fpu.*never reported'
edit 's/^@@pass load/@@started fpu\n&/; s/^@@pass unload/@@pass fpu\n&/'
expect "check with a verdict" pass '^pass.t/@fpu'
edit 's/^@@pass load/@@started fpu\n&/; s/^@@pass unload/@@fail fpu: xmm1 was 0, is 1\n&/'
expect "check with a bad verdict" fail '@fpu.*xmm1 was 0'
edit 's/^@@pass counters/@@fail counters: sockstat.TCP inuse was 0, is 2/'
expect "counter differs" fail '@counters.*inuse was 0, is 2'

# --- results
edit 's/^# ok 2 unload/# not ok 2 unload/; s/^ok 1/not ok 1/'
expect "subtest fails" fail 'module.sh/unload'
edit 's/^# ok 2 unload/# not ok 2 unload/'
expect "subtest fails, its program says ok" fail 'module.sh/unload'
edit 's/^ok 1/not ok 1/; s/: module.sh$/& # exit=1/'
expect "program fails, its subtests say ok" fail 'module.sh.*exit=1'
edit 's/^ok 2/not ok 2/'
expect "program without subtests fails" fail 't/plain'
edit '/^# ok 2 unload/d'
expect "subtest missing" fail 'module.sh/plan.*planned 2, reported 1'
edit 's/^# ok 2 unload/# ok 1 unload/'
expect "subtest reported twice" fail 'module.sh/plan.*planned 2, reported 1'
edit 's/^# ok 2 unload/&\n# ok 1 second program\n# 1..1/'
expect "two programs in one, the second with its plan at the end" pass 'second program'
edit 's/^# ok 2 unload/&\n# ok 1 second program/'
expect "two programs in one, the second without a plan" fail 'module.sh/plan.*1 results but no plan'
edit '/^# 1\.\./d; s/^# ok 2 unload/&\n# 1..2/'
expect "plan at the end" pass '^pass.t/module.sh/unload'
edit '/^# 1\.\./d'
expect "subtests without a plan" fail 'module.sh/plan.*no plan'
edit '/^ok 2/d'
expect "program missing" fail 't/plan.*planned 2, reported 1'
edit '/^1\.\./d'
expect "no plan" fail 't/plan'
edit '/ok [12]/d; /^# 1\.\./d; s/^1\.\.2/1..0/'
expect "nothing planned" fail 't/plan.*planned no tests'
edit '/^# ok/d; s/^# 1\.\.2/# 1..0/'
expect "program with nothing planned" fail 'module.sh/plan.*planned no tests'
edit 's/^# ok 2 unload/# ok 2 unload # SKIP no rmmod/'
expect "skip" fail 'module.sh/unload.*not allowed.*no rmmod'
edit 's/^# ok 2 unload/# ok 2 unload # SKIP no rmmod/'
echo '^t/module.sh/unload: SKIP no rmmod' > "$dir/skips"
expect "allowed skip" pass '^skip.t/module.sh/unload'
: > "$dir/skips"
edit 's/^ok 2.*/& # SKIP/'
expect "program skipped" fail 't/plain.*not allowed'
edit 's/^# ok 2 unload/# ok 2 unload # TODO later/'
expect "todo" fail 'module.sh/unload.*TODO'
edit 's/^# ok 2 unload/# # not ok 3 deeper\n&/'
expect "failure further down" fail 'module.sh/nested'
edit 's/^# ok 2 unload/#     not ok 3 deeper\n&/'
expect "failure further down, indented" fail 'module.sh/nested'
edit 's/^# ok 2 unload/&\n# Bail out! no memory/'
expect "bail out" fail 'module.sh/bail out'
edit 's/^ok 2.*/&\r/; s/^# ok 2 unload/&\r/'
expect "carriage returns" pass '^pass.t/module.sh/unload.$'

[ $failed -eq 0 ]
