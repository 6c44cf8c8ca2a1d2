# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# tap.sh - TAP output for test scripts.
#
#	. ./tap.sh
#	plan 3
#	check "the ring is up" ring_is_up	# runs a command
#	ok "description"			# or say it yourself
#	skip "description" "reason"
#	finish					# exit status by the results

tap_count=0
tap_failed=0
tap_skipped=0

plan()
{
	tap_plan=$1
	echo "TAP version 13"
	echo "1..$1"
}

diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

ok()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count $*"
}

not_ok()
{
	tap_count=$((tap_count + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_count $*"
}

skip()
{
	tap_count=$((tap_count + 1))
	tap_skipped=$((tap_skipped + 1))
	echo "ok $tap_count $1 # SKIP $2"
}

# check DESCRIPTION COMMAND...: what the command prints is shown if it fails.
check()
{
	local desc=$1 output

	shift
	if output=$("$@" 2>&1); then
		ok "$desc"
	else
		[ -z "$output" ] || diag "$output"
		not_ok "$desc"
	fi
}

# until_true SECONDS COMMAND...: polls; fails when the time is over.
until_true()
{
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

finish()
{
	if [ "$tap_count" -ne "$tap_plan" ]; then
		diag "planned $tap_plan tests, ran $tap_count"
		exit 1
	fi
	[ "$tap_failed" -eq 0 ] || exit 1
	# 4 means skipped to the kselftest runner
	[ "$tap_skipped" -lt "$tap_count" ] || exit 4
	exit 0
}
