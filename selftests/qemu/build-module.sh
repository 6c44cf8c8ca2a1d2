#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build-module.sh - build allreduce.ko, warnings being failures.
#
# Usage: build-module.sh [-s] TARGET
#   TARGET  6.1, 6.12   Debian's kernels in the cache -> $BUILD/kmod-TARGET
#           arm64       Debian's 6.1 for arm64 (compiled only)
#           local       the running kernel, or KDIR=folder -> $BUILD/kmod
#   -s      check with sparse as well -> $BUILD/kmod-TARGET-sparse
#
# Builds a copy of kmod/ and include/uapi, so that several kernels do not get
# in each other's way. The log is beside the copy, as kmod-TARGET.log.
set -eu

. "$(dirname "$0")/common.sh"

sparse=
while getopts sh opt; do
	case $opt in
	s) sparse=y ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { usage >&2; exit 2; }
target=$1

args=(W=1 KCFLAGS=-Werror
      # the 6.12 headers would want pahole, the 6.1 ones cannot make BTF
      CONFIG_DEBUG_INFO_BTF_MODULES=)
dir=$BUILD/kmod-$target
case $target in
6.1|6.12) kdir=$(kernel_dir "$target")/kdir ;;
arm64)
	kdir=$(kernel_dir arm64)/kdir
	# the headers set CROSS_COMPILE from these and override any other
	args+=(DEB_BUILD_ARCH=amd64 DEB_HOST_ARCH=arm64
	       DEB_HOST_GNU_TYPE=aarch64-linux-gnu)
	;;
local)
	kdir=${KDIR:-/lib/modules/$(uname -r)/build}
	[ -e "$kdir/Makefile" ] ||
		die "no kernel headers in $kdir; install those of the kernel, or set KDIR"
	dir=$BUILD/kmod
	# what a distribution's compiler has to say about its own headers
	# is not for this project to fail on
	args=()
	;;
*) die "unknown target '$target': expected 6.1, 6.12, arm64 or local" ;;
esac
if [ -n "$sparse" ]; then
	dir+=-sparse
	command -v sparse > /dev/null || die "sparse is missing; run: make setup"
	# every file, compiled again
	rm -rf "$dir"
	args+=(C=2)
fi

mkdir -p "$dir"
# -c, no times: only changed files are built again; what the build made stays
rsync -rlpc --delete --exclude='/include' --filter='P *.o' --filter='P *.ko' \
	--filter='P *.cmd' --filter='P *.mod' --filter='P *.mod.c' --filter='P *.d' \
	--filter='P Module.symvers' --filter='P modules.order' \
	"$ROOT/kmod/" "$dir/"
mkdir -p "$dir/include"
rsync -rlpc --delete "$ROOT/include/uapi" "$dir/include/"

log=$dir.log
make -j"$(nproc)" -C "$kdir" M="$dir" "${args[@]}" modules < /dev/null > "$log" 2>&1 || {
	cat "$log"
	die "allreduce.ko does not build for $target"
}
[ -e "$dir/allreduce.ko" ] || die "no allreduce.ko after building for $target, see $log"
if [ "$target" != local ]; then
	# a compiler update after the kernel's build is no fault of the module
	if grep -E '[Ww]arning:|WARNING:' "$log" |
	   grep -v 'compiler differs from the one used to build the kernel'; then
		# a second make would not repeat the warnings: do not let it pass
		rm -f "$dir/allreduce.ko"
		die "building for $target gave warnings, see $log"
	fi
fi
echo "built $dir/allreduce.ko"
