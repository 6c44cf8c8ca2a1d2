#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# spoil.sh - do property and soak notice a wrong result? They are told to change one
# byte of a job's memory before they check it (SPOIL): that job has to fail, no other,
# with the command that repeats it; and none if nothing is changed.

. ./tap.sh

export SEED=1 COMBINATIONS=20 JOBS=20 ISA='' INDEX=''
log=/tmp/spoil.log

# spoilt PROGRAM INDEX FAULT AGAIN
spoilt()
{
	local status=0

	SPOIL=$2 "./$1" > "$log" 2>&1 || status=$?
	cat "$log"
	echo "exit status $status, not 1"
	[ "$status" -eq 1 ] || return 1
	# of which job they speak, and that of no other
	grep -q "^# job $2 of seed $SEED: " "$log" || return 1
	! grep "^# job " "$log" | grep -qv "^# job $2 of seed $SEED: " || return 1
	grep -qE "^# job $2 .*: rank [0-9]: $3" "$log" && grep -q "^#   again: $4" "$log"
}

good()
{
	local status=0

	"./$1" > "$log" 2>&1 || status=$?
	cat "$log"
	[ "$status" -eq 0 ]
}

guard_noticed()
{
	spoilt property 7 '0 elements wrong, 0 .* 1 bytes outside' \
		"make check-property SEED=$SEED INDEX=7 " &&
		grep -q '^# result: property: 19 of 20 combinations passed' "$log"
}

result_noticed()
{
	spoilt property 12 '1 elements wrong, 0 .* 0 bytes outside' \
		"make check-property SEED=$SEED INDEX=12 " &&
		grep -q '^# result: property: 19 of 20 combinations passed' "$log"
}

soak_noticed()
{
	spoilt soak 7 '0 elements wrong, 0 .* 1 bytes outside' "make soak SEED=$SEED JOBS=8 " &&
		grep -q '^# result: soak: 20 jobs, 1 wrong' "$log"
}

plan 5
check "property passes" good property
check "property notices a byte beside the result" guard_noticed
check "property notices a wrong element" result_noticed
check "soak passes" good soak
check "soak notices a byte beside the result" soak_noticed
rm -f "$log"
finish
