#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mkbase.sh - make the part of a guest's initramfs that all its runs share.
#
# Usage: mkbase.sh KERNEL
#
# Writes $BUILD/qemu/base-KERNEL.cpio, uncompressed: busybox, the tools below
# with their libraries, the kernel's modules that tests need, guest-init.
# The kernel takes several archives one after the other: payload.sh makes the
# rest. Does nothing if the file is newer than all it is made from.
set -eu

. "$(dirname "$0")/common.sh"

# guest-init loads those of the devices it uses, the kernel itself the rest when
# somebody asks for them. What they depend on comes along.
MODULES="virtio_pci virtio_net 9pnet_virtio 9p veth bridge vrf dummy
	 sch_netem sch_tbf sch_fq sch_ingress sch_prio sch_fq_codel
	 cls_u32 cls_matchall act_mirred act_gact af_packet nf_tables nft_limit"
# the real ones: those of busybox lack options (ip: no namespaces)
TOOLS="modprobe bash dash ip tc ss bridge ethtool tcpdump jq taskset unshare nsenter prlimit nstat dmesg"

[ $# -eq 1 ] || { usage >&2; exit 2; }
kernel=$1
tree=$(kernel_dir "$kernel")
release=$(cat "$tree/release")
base=$BUILD/qemu/base-$kernel.cpio

if [ -s "$base" ] && [ "$base" -nt "$tree/.complete" ] &&
   [ "$base" -nt "$QEMU_DIR/guest-init" ] && [ "$base" -nt "$QEMU_DIR/mkbase.sh" ] &&
   [ "$base" -nt "$QEMU_DIR/payload.sh" ] && [ "$base" -nt "$QEMU_DIR/barrier" ] &&
   [ "$(cat "$base.release" 2> /dev/null)" = "$tree" ]; then
	exit 0
fi

mkdir -p "$BUILD/qemu"
root=$(mktemp -d "$BUILD/qemu/base-XXXXXX")
trap 'rm -rf "$root"' EXIT
# the guest's /, which users other than root must be able to enter
chmod 755 "$root"
mkdir -p "$root"/{bin,sbin,etc,dev,proc,sys,tmp,run,root,lib/modules,lib64,usr/bin,usr/sbin,usr/lib,var,modules}
ln -s ../run "$root/var/run"

busybox=$(command -v busybox) || die "busybox is missing; run: make setup"
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done

# depends MODULE: "insmod FILE" or "builtin NAME" lines, in loading order
depends() { modprobe -d "$tree" -S "$release" --show-depends "$1" 2> /dev/null; }

dest=lib/modules/$release
mkdir -p "$root/$dest"
cp "$tree/$dest"/modules.{order,builtin,builtin.modinfo} "$root/$dest/"
for module in $MODULES; do
	list=$(depends "$module") || die "kernel $kernel has no module $module"
	while read -r kind file _; do
		[ "$kind" = insmod ] || continue
		name=$(basename "${file%.xz}")
		case $file in
		*.xz) xz -dc "$file" > "$root/$dest/$name" ;;
		*) cp "$file" "$root/$dest/$name" ;;
		esac
	done <<< "$list"
done
depmod -b "$root" "$release"

install -m 755 "$QEMU_DIR/guest-init" "$root/init"
files=("$QEMU_DIR/barrier:/bin/barrier")
for tool in $TOOLS; do
	path=$(command -v "$tool") || die "$tool is missing; run: make setup"
	rm -f "$root/bin/$tool" "$root/sbin/$tool"
	files+=("$path:/bin/$tool")
done
# The kselftest runner looks for this path, and its sed must not hold back
# what a test printed before the guest died.
files+=("$(command -v timeout):/usr/bin/timeout" "$(command -v sed):/usr/bin/sed.gnu")
rm -f "$root/bin/sed" "$root/bin/sh" "$root/bin/timeout"
printf '#!/bin/dash\nexec /usr/bin/sed.gnu -u "$@"\n' > "$root/bin/sed"
chmod 755 "$root/bin/sed"
ln -s dash "$root/bin/sh"
# where the kernel looks for it
ln -s ../bin/modprobe "$root/sbin/modprobe"
printf '%s\n' root:x:0:0:root:/root:/bin/bash tcpdump:x:100:100::/:/bin/sh \
	nobody:x:65534:65534:nobody:/:/bin/sh > "$root/etc/passwd"
printf '%s\n' root:x:0: tcpdump:x:100: nogroup:x:65534: > "$root/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n' > "$root/etc/hosts"

"$QEMU_DIR/payload.sh" "$base.tools" "${files[@]}"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) > "$base.new"
cat "$base.tools" >> "$base.new"
rm -f "$base.tools"
echo "$tree" > "$base.release"
mv "$base.new" "$base"
