#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# verify.sh OUTDIR: on the host, after guest.sh: compare OUTDIR/out/result-R.f32
# bit for bit with the sum made here. BUILD is the folder of build products.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}
out=${1:?usage: verify.sh OUTDIR}
inputs=() results=()

for ((r = 0; ; r++)); do
	[ -e "$out/member-$r.f32" ] || break
	inputs+=("$out/member-$r.f32")
	results+=("$out/out/result-$r.f32")
done
if [ $r = 0 ] || [ ! -d "$out/out" ]; then
	echo "demo: FAIL: $out holds no run"
	exit 1
fi
exec "$build/demo/demo-verify" "${inputs[@]}" -- "${results[@]}"
