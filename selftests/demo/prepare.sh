#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# prepare.sh OUTDIR: on the host, make the members' vectors OUTDIR/member-R.f32
# from files of this machine. BUILD is the folder of build products.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}
out=${1:?usage: prepare.sh OUTDIR}
members=${MEMBERS:-4}

mkdir -p "$out"
rm -rf "$out"/member-*.f32 "$out/out"
"$build/demo/demo-histogram" "$out" "$members" /usr/share /usr/lib /usr/include /usr/bin
