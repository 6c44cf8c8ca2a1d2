#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# setup.sh - install the Debian packages that building and testing needs.
#
# Usage: setup.sh [--list]
#   --list   only print the names of the packages
#
# Asks dpkg first and calls apt-get (through sudo when not root) only when
# something is missing, so that it costs nothing the second time and works
# without a network then.
set -u

PACKAGES=(
	# compilers: the module, the library, the tools; of arm64, only the
	# reduction loops are run
	gcc libc6-dev make binutils pkg-config gcc-aarch64-linux-gnu
	libc6-dev-arm64-cross qemu-user
	# libraries of liballreduce-uring, arctl and the unit tests
	liburing-dev libnl-3-dev libnl-genl-3-dev libjson-c-dev libcmocka-dev
	# unpacking kernels, making initramfs images
	xz-utils zstd tar kmod cpio rsync busybox-static
	# guests and what they take along from this machine
	qemu-system-x86 iproute2 ethtool tcpdump jq procps util-linux
	# checkers: checkpatch is Perl
	perl sparse shellcheck valgrind
)

[ "${1-}" = --list ] && { printf '%s\n' "${PACKAGES[@]}"; exit 0; }

fail() { echo "setup: $*" >&2; exit 1; }

for tool in dpkg-query apt-get; do
	command -v $tool > /dev/null || fail "needs Debian 12 (no $tool here)"
done
[ "$(dpkg --print-architecture)" = amd64 ] ||
	fail "the guests need an amd64 host, this one is $(dpkg --print-architecture)"

missing=()
for pkg in "${PACKAGES[@]}"; do
	status=$(dpkg-query -W -f '${Status}' "$pkg" 2> /dev/null)
	[ "$status" = "install ok installed" ] || missing+=("$pkg")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}"
as_root=(env)
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo > /dev/null ||
		fail "not root and no sudo; as root, run: apt-get install ${missing[*]}"
	as_root=(sudo)
	# without a terminal nobody can type a password
	[ -t 0 ] || as_root+=(-n)
	as_root+=(env)
fi
as_root+=(DEBIAN_FRONTEND=noninteractive)
apt=(apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -qq -y)

"${as_root[@]}" "${apt[@]}" update < /dev/null ||
	echo "setup: apt-get update failed, trying with the lists there are" >&2
"${as_root[@]}" "${apt[@]}" install --no-install-recommends "${missing[@]}" < /dev/null ||
	fail "apt-get could not install: ${missing[*]}"
