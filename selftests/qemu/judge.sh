#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# judge.sh - decide whether a guest's run was good.
#
# Usage: judge.sh [-s FILE] OUTDIR NAME
#   OUTDIR  what guest.sh left: status, console.log, tap.log
#   NAME    prefix of the test names, such as kselftest-6.1
#   -s      list of allowed skips instead of the one beside this script
#
# Writes OUTDIR/result.tsv (pass|fail|skip, name, reason), prints everything
# that is not a pass and a summary, and fails unless nothing failed:
#   - every planned test reported, and none "not ok" (tap.awk)
#   - skips are failures, except for the allowed ones
#   - no line of the console matches console-patterns
#   - the guest reported its end and left through the exit device, having
#     unloaded the module and found its counters unchanged (guest-init)
set -u

. "$(dirname "$0")/common.sh"

skips=$QEMU_DIR/allowed-skips
while getopts s:h opt; do
	case $opt in
	s) skips=$OPTARG ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 2 ] || { usage >&2; exit 2; }
out=$1 name=$2
res=$out/result.tsv
: > "$res"

judge_exit()
{
	local status

	status=$(cat "$out/status" 2> /dev/null)
	case $status in
	"exit "*) result "$res" pass "$name/@exit" ;;
	timeout*) result "$res" fail "$name/@exit" "the guest hung: $status" ;;
	gone) result "$res" fail "$name/@exit" \
		"the guest went away without reporting (panic or power-off)" ;;
	"") result "$res" fail "$name/@exit" "the guest was not started" ;;
	*) result "$res" fail "$name/@exit" "$status" ;;
	esac
}

judge_console()
{
	local clean=y line

	[ -s "$out/console.log" ] || {
		result "$res" fail "$name/@console" "the console is empty"
		return
	}
	while IFS= read -r line; do
		clean=
		result "$res" fail "$name/@console" "$line"
	done < <(tr -d '\r\000' < "$out/console.log" |
		grep -aE -f <(grep -v -e '^#' -e '^$' "$QEMU_DIR/console-patterns"))
	[ -z "$clean" ] || result "$res" pass "$name/@console"
}

judge_tap()
{
	local status test reason

	while IFS=$'\t' read -r status test reason; do
		if [ "$status" = skip ] &&
		   ! grep -qE -f <(grep -v -e '^#' -e '^$' "$skips") <<< "$test: $reason"; then
			status=fail
			reason="skipped, which is not allowed: $reason"
		fi
		result "$res" "$status" "$test" "$reason"
	done < <(tr -d '\000' < "$out/tap.log" 2> /dev/null |
		awk -v prefix="$name" -f "$QEMU_DIR/tap.awk")
	# the reader's last word: without it the log was not read to its end
	grep -qF "	$name/@report	" "$res" ||
		result "$res" fail "$name/@report" "the results could not be read"
}

judge_exit
judge_console
judge_tap

# A forgotten process is a fault of the test, worth a line.
grep -a '^@@note processes' "$out/tap.log" 2> /dev/null | sed "s|^@@note|NOTE: $name:|"

# The counts need no further parsing: show what is not a pass.
awk -F '\t' '$1 != "pass" { printf "%s: %s: %s\n", toupper($1), $2, $3 }' "$res"
awk -F '\t' -v name="$name" '{ n[$1]++ }
	END {
		printf "%s: %d passed, %d failed, %d skipped\n",
			name, n["pass"], n["fail"], n["skip"]
		exit n["fail"] > 0
	}' "$res"
