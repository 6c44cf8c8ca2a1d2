#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernels.sh - fetch Debian's kernels and headers into the cache.
#
# Usage: kernels.sh [-u] WHAT...
#   WHAT   6.1     image and headers of Debian 12's kernel
#          6.12    the same from bookworm-backports
#          arm64   headers of Debian 12's kernel for arm64
#          source  the kselftest core and the checkers of linux-source-6.1
#   -u     look for a newer version even if one is in the cache
#
# Nothing is installed: packages are downloaded with a private apt
# configuration (its mirror is the one that this system's apt uses for Debian)
# and unpacked with dpkg -x. The result, with V the package's version:
#
#   $CACHE/kernels/NAME_V/    vmlinux  uncompressed kernel image
#                             release  the kernel's release string
#                             kdir     link to the headers, for make -C
#                             lib/modules/RELEASE
#   $CACHE/kernels/{6.1,6.12,arm64}   links to the newest of these
#   $CACHE/source/6.1                 link: tools/testing/selftests, scripts
set -eu -o pipefail

. "$(dirname "$0")/common.sh"

APT_DIR=$CACHE/apt

# debian_uri SUITE: the mirror that this system's apt is configured with.
debian_uri()
{
	# shellcheck disable=SC2016 # apt replaces the variables
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 2> /dev/null |
		awk -v suite="$1" '
		$2 == suite && $3 == "main" {
			# other archives may use the same suite name
			if ($1 ~ /debian(-security)?\/?$/) { print $1; found = 1; exit }
			if (!other) other = $1
		}
		END { if (!found && other) print other }'
}

# apt_setup NAME ARCH SUITE...: a private apt configuration in $apt[].
apt_setup()
{
	local name=$1 arch=$2 dir=$APT_DIR/$1 opts suite uri main
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg

	shift 2
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	opts="arch=$arch"
	[ -e "$keyring" ] && opts+=" signed-by=$keyring"
	main=$(debian_uri bookworm)
	[ -n "$main" ] || die "apt has no source for Debian bookworm main; add one"

	: > "$dir/sources.list"
	for suite; do
		uri=$(debian_uri "$suite")
		# the backports are on the mirror of the main archive
		if [ -z "$uri" ] && [ "$suite" = bookworm-security ]; then
			continue
		fi
		echo "deb [$opts] ${uri:-$main} $suite main" >> "$dir/sources.list"
	done

	apt=(-q -o Dir::Etc::sourcelist="$dir/sources.list"
	     -o Dir::Etc::sourceparts=/dev/null
	     -o Dir::Etc::preferences=/dev/null
	     -o Dir::Etc::preferencesparts=/dev/null
	     -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache"
	     -o Dir::State::status="$dir/status"
	     -o APT::Architecture="$arch" -o APT::Architectures="$arch"
	     -o Acquire::Languages=none -o Acquire::Retries=3)
	# root's sandbox user cannot read a cache in root's home
	[ "$(id -u)" -ne 0 ] || apt+=(-o APT::Sandbox::User=root)

	# what is installed here must not decide what is the newest
	: > "$dir/status"
	apt-get "${apt[@]}" update > "$dir/update.log" 2>&1 || {
		cat "$dir/update.log" >&2
		die "apt-get update failed for $name"
	}
}

# depends_of PACKAGE REGEX: the first direct dependency that matches.
depends_of()
{
	apt-cache "${apt[@]}" depends "$1" 2> /dev/null |
		awk -v re="^$2\$" '$1 == "Depends:" && $2 ~ re { print $2; exit }'
}

version_of()
{
	apt-cache "${apt[@]}" policy "$1" | awk '$1 == "Candidate:" { print $2 }'
}

# fetch DIR PACKAGE...: downloads and unpacks the packages below DIR.
fetch()
{
	local dir=$1 debs=$1/debs deb

	shift
	mkdir -p "$debs"
	echo "kernels: downloading $*"
	(cd "$debs" && apt-get "${apt[@]}" download "$@" > download.log 2>&1) || {
		cat "$debs/download.log" >&2
		die "cannot download $*"
	}
	for deb in "$debs"/*.deb; do
		dpkg -x "$deb" "$dir"
	done
	rm -rf "$debs"
}

# The headers name their own place under /usr/src; move that to the cache.
relocate_headers()
{
	local tree=$1 file link target

	for file in "$tree"/usr/src/*/Makefile "$tree"/usr/src/*/.kernelvariables; do
		[ ! -f "$file" ] ||
			sed -i "s#\([ =]\)/usr/\(src\|lib\)/linux-#\1$2/usr/\2/linux-#g" "$file"
	done
	while read -r link; do
		target=$(readlink "$link")
		case $target in
		/usr/*) ln -sfn "$2$target" "$link" ;;
		esac
	done < <(find "$tree/usr/src" "$tree/usr/lib" -type l)
}

# extract_vmlinux IMAGE OUT: booting the plain ELF file saves the guest
# several seconds of decompression under emulation. The payload of a bzImage
# is found by the magic number of its compression.
extract_vmlinux()
{
	local image=$1 out=$2 magic tool offset

	while read -r magic tool; do
		# more than one place can look like a magic number: try each
		# shellcheck disable=SC2013 # the words are numbers
		for offset in $(grep -abo -P "$magic" "$image" | cut -d: -f1); do
			tail -c +$((offset + 1)) "$image" | $tool > "$out" 2> /dev/null || true
			if [ "$(head -c 4 "$out")" = $'\x7fELF' ]; then
				return 0
			fi
		done
	done <<-'END'
	\xfd7zXZ\x00 xz -dc
	\x28\xb5\x2f\xfd zstd -dc
	\x1f\x8b\x08 gzip -dc
	END
	rm -f "$out"
	die "no known compression in $image"
}

# publish TREE PATH LINK: makes a finished tree visible in one step.
publish()
{
	local final=$CACHE/$2 link=$CACHE/$3

	touch "$1/.complete"
	rm -rf "$final"
	mv "$1" "$final"
	ln -sfn "${final##*/}" "$link"
}

# get_kernel K DEBARCH SUITE...
get_kernel()
{
	local name=$1 arch=$2 series=$1 image headers common version final kbuild
	local packages

	[ "$name" != arm64 ] || series=6.1
	shift
	apt_setup "$name" "$@"

	headers=$(depends_of "linux-headers-$arch" "linux-headers-${series}[.].*-$arch")
	[ -n "$headers" ] || die "no linux-headers $series for $arch in: ${*:2}"
	version=$(version_of "$headers")
	final=kernels/${headers}_$version
	if [ -e "$CACHE/$final/.complete" ]; then
		ln -sfn "${final##*/}" "$CACHE/kernels/$name"
		return
	fi
	common=$(depends_of "$headers" "linux-headers-$series.*-common")
	[ -n "$common" ] || die "$headers depends on no common headers"
	kbuild=$(depends_of "$headers" "linux-kbuild-.*")
	[ -n "$kbuild" ] || die "$headers depends on no linux-kbuild"
	packages=("$headers" "$common")

	mkdir -p "$CACHE/kernels"
	tree=$(mktemp -d "$CACHE/kernels/.new-XXXXXX")
	trap 'rm -rf "$tree"' EXIT

	if [ "$name" = arm64 ]; then
		# the programs that kbuild runs are those of this machine
		fetch "$tree" "${packages[@]}"
		apt_setup "$name-kbuild" amd64 bookworm bookworm-security
		fetch "$tree" "$kbuild"
	else
		image=linux-image-${headers#linux-headers-}
		[ -n "$(version_of "$image")" ] || image+=-unsigned
		fetch "$tree" "${packages[@]}" "$image" "$kbuild"
		echo "${headers#linux-headers-}" > "$tree/release"
		[ -d "$tree/lib/modules" ] || ln -s usr/lib "$tree/lib"
		extract_vmlinux "$tree/boot/vmlinuz-${headers#linux-headers-}" "$tree/vmlinux"
		depmod -b "$tree" "${headers#linux-headers-}"
		rm -rf "${tree:?}/boot" "${tree:?}/usr/share"
	fi
	relocate_headers "$tree" "$CACHE/$final"
	ln -s "usr/src/$headers" "$tree/kdir"
	publish "$tree" "$final" "kernels/$name"
	trap - EXIT
	echo "kernels: $name is $headers $version"
}

get_source()
{
	local package=linux-source-6.1 version final

	apt_setup source amd64 bookworm bookworm-security
	version=$(version_of "$package")
	[ -n "$version" ] || die "no $package at the mirror"
	final=source/${package}_$version
	if [ -e "$CACHE/$final/.complete" ]; then
		ln -sfn "${final##*/}" "$CACHE/source/6.1"
		return
	fi
	mkdir -p "$CACHE/source"
	tree=$(mktemp -d "$CACHE/source/.new-XXXXXX")
	trap 'rm -rf "$tree"' EXIT
	fetch "$tree" "$package"
	tar -C "$tree" --strip-components=1 -xJf "$tree/usr/src/$package.tar.xz" \
		"$package"/scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch} \
		"$package"/tools/testing/selftests/{lib.mk,kselftest.h,kselftest_harness.h} \
		"$package"/tools/testing/selftests/{run_kselftest.sh,kselftest}
	rm -rf "${tree:?}/usr"
	publish "$tree" "$final" source/6.1
	trap - EXIT
	echo "kernels: $package $version"
}

update=
while getopts uh opt; do
	case $opt in
	u) update=y ;;
	h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { usage >&2; exit 2; }

mkdir -p "$CACHE"
# two makes at the same time must not unpack into the same place
exec 9> "$CACHE/.lock"
flock -w 1800 9 || die "another download holds $CACHE/.lock"

for what; do
	case $what in
	source) link=source/6.1 ;;
	6.1|6.12|arm64) link=kernels/$what ;;
	*) die "unknown kernel '$what': expected 6.1, 6.12, arm64 or source" ;;
	esac
	[ -n "$update" ] || [ ! -e "$CACHE/$link/.complete" ] || continue
	case $what in
	6.1) get_kernel 6.1 amd64 bookworm bookworm-security ;;
	6.12) get_kernel 6.12 amd64 bookworm-backports ;;
	arm64) get_kernel arm64 arm64 bookworm bookworm-security ;;
	source) get_source ;;
	esac
done
