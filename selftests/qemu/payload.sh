#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# payload.sh - pack files for a guest.
#
# Usage: payload.sh OUT.cpio SOURCE:DESTINATION...
#   SOURCE       file or folder on this machine (links are followed)
#   DESTINATION  absolute path in the guest
#
# Dynamic programs and libraries take the libraries that they need along, those
# of this project from $BUILD/lib.
set -eu

. "$(dirname "$0")/common.sh"

[ $# -ge 1 ] || { usage >&2; exit 2; }
out=$1
shift
mkdir -p "$(dirname "$out")"
root=$(mktemp -d "$BUILD/payload-XXXXXX")
trap 'rm -rf "$root"' EXIT

for pair; do
	source=${pair%%:*}
	dest=$root/${pair#*:}
	[ -e "$source" ] || die "no such file: $source"
	mkdir -p "$(dirname "$dest")"
	cp -RL "$source" "$dest"
done

is_dynamic() { head -c 4 "$1" | grep -q ELF && readelf -l "$1" 2> /dev/null | grep -q INTERP; }

# The guest has no ld.so.cache: libraries keep this machine's directories,
# which the loader searches anyway; those of the project go to /usr/lib.
add_libraries()
{
	local lib

	LD_LIBRARY_PATH=$BUILD/lib ldd "$1" 2> /dev/null |
		grep -o '/[^ ]*' | while read -r lib; do
			case $lib in
			"$BUILD"/*) dest=$root/usr/lib/${lib##*/} ;;
			*) dest=$root$lib ;;
			esac
			[ -e "$dest" ] || install -D "$(readlink -f "$lib")" "$dest"
		done
}

while read -r file; do
	if is_dynamic "$file"; then
		missing=$(LD_LIBRARY_PATH=$BUILD/lib ldd "$file" 2> /dev/null |
			awk '/not found/ { print $1 }')
		[ -z "$missing" ] || die "${file#"$root"} needs $missing, which is not here"
		add_libraries "$file"
	fi
done < <(find "$root" -type f ! -name '*.ko' -perm /111)

(cd "$root" && find . -mindepth 1 | cpio -o -H newc -R 0:0 --quiet) > "$out"
