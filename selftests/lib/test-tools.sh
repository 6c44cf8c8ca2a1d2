#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test-tools.sh BUILD: the command lines of arctl and arbench, and the demo's
# verification, as far as they need no module. TAP on stdout.
build=${1:?usage: test-tools.sh BUILD}
arctl=$build/tools/arctl
arbench=$build/tools/arbench
demo=$build/demo
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0 bad=0

result() {
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		sed 's/^/# /' "$tmp/out"
		bad=1
	fi
}

# expect CODE PATTERN COMMAND...: its exit code, and an extended regular
# expression for its output
expect() {
	local code=$1 pattern=$2 rc

	shift 2
	timeout 60 "$@" > "$tmp/out" 2>&1
	rc=$?
	[ $rc = "$code" ] && grep -Eq -- "$pattern" "$tmp/out"
	result $? "${1##*/} ${*:2}"
}

add=("$arctl" ring add r rank 0)

expect 0 'usage: arctl' "$arctl" help
expect 0 'usage: arctl' "$arctl" --help
expect 1 'usage: arctl' "$arctl"
expect 0 '^arctl [0-9.]+$' "$arctl" -V
for verb in add del show up; do
	expect 0 "usage: arctl .*ring $verb" "$arctl" ring $verb help
	expect 0 "usage: arctl .*ring $verb" "$arctl" ring help
done
expect 1 '"rong" is not an object' "$arctl" rong
expect 1 'no verb "ad": there are add, del, show, up' "$arctl" ring ad
expect 1 'unknown option "-x"' "$arctl" -x ring
expect 1 'network namespace "no such"' "$arctl" -N 'no such' ring
expect 1 '-N needs' "$arctl" -N
expect 1 'needs a name' "$arctl" ring add
expect 1 'either rank or local' "$arctl" ring add r members 10.0.0.1
expect 1 'either rank or local' "${add[@]}" local 10.0.0.1 members 10.0.0.1
expect 1 'needs members' "${add[@]}"
expect 1 'rank "64" is not a number from 0 to 63' "$arctl" ring add r rank 64 members 10.0.0.1
expect 1 'rank "1x" is not a number' "$arctl" ring add r rank 1x members 10.0.0.1
expect 1 'rank 1 is not from 0 to 0: there are 1 members' "$arctl" ring add r rank 1 members 10.0.0.1
expect 1 'lanes "0" is not a number from 1 to 16' "${add[@]}" members 10.0.0.1 lanes 0
expect 1 'lanes "17" is not a number from 1 to 16' "${add[@]}" members 10.0.0.1 lanes 17
expect 1 'lanes needs a value' "${add[@]}" members 10.0.0.1 lanes
expect 1 'frame-max "4095" is not a number from 4096 to 1048576' "${add[@]}" members 10.0.0.1 frame-max 4095
expect 1 'frame-max 4097 is not a multiple of 64' "${add[@]}" members 10.0.0.1 frame-max 4097
expect 1 'gather "65537" is not a number from 0 to 65536' "${add[@]}" members 10.0.0.1 gather 65537
expect 1 'gather "-1" is not' "${add[@]}" members 10.0.0.1 gather -1
expect 1 'gather needs a value' "${add[@]}" members 10.0.0.1 gather
expect 1 'timeout "99" is not a number from 100 to 86400000' "${add[@]}" members 10.0.0.1 timeout 99
expect 1 'timeout "-1" is not' "${add[@]}" members 10.0.0.1 timeout -1
expect 1 'id "12" is not 32 hexadecimal digits' "${add[@]}" members 10.0.0.1 id 12
expect 1 'id "0{32}" is not' "${add[@]}" members 10.0.0.1 id 00000000000000000000000000000000
expect 1 'id ".*g" is not' "${add[@]}" members 10.0.0.1 id 0123456789abcdef0123456789abcdeg
expect 1 'both 10.0.0.1:18515: members on one host need different ports' "${add[@]}" members 10.0.0.1,10.0.0.1
expect 1 'both 10.0.0.1:18515' "${add[@]}" member 10.0.0.1 member 10.0.0.1
expect 1 '"node1" is not an IPv4 or IPv6 address' "${add[@]}" members node1
expect 1 'local "10.0.0.9" is not one of the members' "$arctl" ring add r local 10.0.0.9 members 10.0.0.1
expect 1 'unknown word "colour"' "${add[@]}" members 10.0.0.1 colour red
expect 1 'at most 64 members|more than 64' "${add[@]}" members "$(seq -s, -f '10.0.0.1:%g' 65)"
expect 1 'needs one name' "$arctl" ring del
expect 1 'needs a name' "$arctl" ring up
expect 1 'wait "0" is not a number from 1 to 86400' "$arctl" ring up r wait 0
expect 1 'wait and nowait exclude each other' "$arctl" ring up r wait 1 nowait
expect 1 'at most one name' "$arctl" ring show a b
expect 0 'usage: arbench' "$arbench" -h
expect 1 '-r RING is needed' "$arbench"
expect 1 '-b "0" is not a number from 1' "$arbench" -r r -b 0
expect 1 '-b "1T" is not' "$arbench" -r r -b 1T
expect 1 '-b "" is not' "$arbench" -r r -b ''
expect 1 '-b "99999999999999999999G" is not' "$arbench" -r r -b 99999999999999999999G
expect 1 '-b 8192 is more than -e 4096' "$arbench" -r r -b 8K -e 4K
expect 1 '-f "1" is not a number from 2' "$arbench" -r r -f 1
expect 1 'exclude each other' "$arbench" -r r -f 2 -i 4
expect 1 '-n "0" is not a number from 1' "$arbench" -r r -n 0
expect 1 '-d "f33" is not known' "$arbench" -r r -d f33
expect 1 '-o band is for integers only, not for -d f32, the default' "$arbench" -r r -C all -o band
expect 1 '-o premulsum is for floats only, not for -d u8' "$arbench" -r r -o premulsum -d u8
expect 1 '-C "scatter" is not known' "$arbench" -r r -C scatter
expect 1 '-R "64" is not a number from 0 to 63' "$arbench" -r r -R 64
expect 1 '-u "512" is not a number from 0 to 511' "$arbench" -r r -u 512
expect 1 '-z "2" is not a number from 0 to 1' "$arbench" -r r -z 2
expect 1 '-x needs checked jobs' "$arbench" -r r -x /dev/null -c 0
expect 1 'unexpected word "r"' "$arbench" -r r r

if [ ! -e /dev/allreduce ]; then
	# Without the module, the tools say so.
	expect 2 'is the module loaded' "$arctl" ring
	expect 2 'is the module loaded' "${add[@]}" members 10.0.0.1
	expect 2 'is the module loaded|io_uring is not available' "$arbench" -r r
fi

examples=$build/examples
expect 2 'usage: allreduce RING' "$examples/allreduce"
expect 2 'usage: overlap RING' "$examples/overlap"
expect 2 'STEPS "0" is not a number from 1 to 512' "$examples/overlap" r 0
expect 2 'LAYERS "1025" is not a number from 1 to 1024' "$examples/overlap" r 1 1025
expect 2 'COUNT "1k" is not a number from 1' "$examples/overlap" r 1 1 1k

# The demo's verification, on vectors that are small enough to check by hand:
# three members, 48 elements, so 16 (one grain) a chunk. 2^24, 1 and -2^24 add up
# to 0 or 1, depending on where the sum starts.
floats() { # HEX COUNT: little-endian
	local i

	for ((i = 0; i < $2; i++)); do printf '%b' "$1"; done
}
big='\x00\x00\x80\x4b' one='\x00\x00\x80\x3f' minus='\x00\x00\x80\xcb'
zero='\x00\x00\x00\x00'
floats "$big" 48 > "$tmp/in0"
floats "$one" 48 > "$tmp/in1"
floats "$minus" 48 > "$tmp/in2"
# Chunk 0: (1 - 2^24) + 2^24 = 1. Chunk 1: (-2^24 + 2^24) + 1 = 1. Chunk 2:
# (2^24 + 1) - 2^24 = 0.
{ floats "$one" 32; floats "$zero" 16; } > "$tmp/right"
{ floats "$one" 31; floats "$zero" 17; } > "$tmp/wrong"
floats "$one" 47 > "$tmp/short"
in=("$tmp/in0" "$tmp/in1" "$tmp/in2")
ok=("$tmp/right" "$tmp/right")
expect 0 'demo: PASS' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}" "$tmp/right"
expect 0 'change 32 elements' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}" "$tmp/right"
expect 1 'FAIL .*wrong: 1 of 48 elements differ' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}" "$tmp/wrong"
expect 1 'demo: FAIL' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}" "$tmp/short"
expect 1 'not there' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}" "$tmp/none"
expect 1 'usage' "$demo/demo-verify" "${in[@]}" -- "${ok[@]}"

echo "1..$n"
exit $bad
