# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# common.sh - paths and small helpers that every script of this folder sources.
#
# Environment (all optional):
#   BUILD   build products, default <repo>/build
#   CACHE   downloads and unpacked kernels, default
#           ${XDG_CACHE_HOME:-~/.cache}/allreduce-uring

QEMU_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$QEMU_DIR/../.." && pwd)
BUILD=${BUILD:-$ROOT/build}
CACHE=${CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/allreduce-uring}
RESULTS=$BUILD/results

# sbin holds ip, depmod and modprobe; it is not in every user's PATH.
export PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

say() { echo "== $*"; }
die() { echo "${0##*/}: $*" >&2; exit 1; }

# usage: prints the comment block at the top of the calling script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | grep -v SPDX; }

# kernel_dir K: folder of kernel K (6.1, 6.12) as kernels.sh unpacked it.
kernel_dir()
{
	local dir=$CACHE/kernels/$1

	[ -e "$dir/.complete" ] || die "kernel $1 is not in the cache; run: make kernel-$1"
	readlink -f "$dir"
}

# result FILE pass|fail|skip NAME [REASON]: one line of the machine-readable
# summary. Tabs separate the fields, so none may be inside them.
result()
{
	local reason=${4-}

	printf '%s\t%s\t%s\n' "$2" "${3//$'\t'/ }" "${reason//$'\t'/ }" >> "$1"
}
