#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# demo.sh - the demonstration: data of this machine, summed in a guest.
#
# Usage: demo.sh KERNEL
#
#   selftests/demo/prepare.sh DIR   here: makes DIR/member-{0..3}.f32
#   selftests/demo/guest.sh         in the guest: DIR is /data, and what it
#                                   makes goes to /data/out
#   selftests/demo/verify.sh DIR    here: checks DIR/out
#
# The guest has arctl, arbench and demo-member in /usr/bin, the module loaded, and
# is judged like a test: a kernel warning or a module that cannot be unloaded
# fails it.
set -eu

. "$(dirname "$0")/common.sh"

[ $# -eq 1 ] || { usage >&2; exit 2; }
kernel=$1
out=$BUILD/run/demo
data=$BUILD/run/demo-data
demo=$ROOT/selftests/demo

for script in prepare.sh guest.sh verify.sh; do
	[ -x "$demo/$script" ] || die "selftests/demo/$script is missing"
done
rm -rf "$data" "$out"
mkdir -p "$data/out" "$out"

say "preparing the members' data"
"$demo/prepare.sh" "$data"

# The demonstration is one test for the judge; what it prints is for people.
cat > "$out/test.sh" <<'END'
#!/bin/bash
echo 1..1
bash /demo/guest.sh 2>&1 | sed -u 's/^/| /'
rc=${PIPESTATUS[0]}
[ "$rc" -eq 0 ] && echo "ok 1 demo" || echo "not ok 1 demo # exit=$rc"
END
chmod 755 "$out/test.sh"
files=("$out/test.sh:/test.sh" "$demo:/demo"
       "$BUILD/kmod-$kernel/allreduce.ko:/modules/allreduce.ko")
for file in "$BUILD"/tools/ar* "$BUILD"/demo/demo-member; do
	[ -f "$file" ] && [ -x "$file" ] && files+=("$file:/usr/bin/${file##*/}")
done
for file in "$BUILD"/lib/liballreduce-uring.so.*; do
	[ -e "$file" ] && files+=("$file:/usr/lib/${file##*/}")
done
"$QEMU_DIR/payload.sh" "$out/payload.cpio" "${files[@]}"

say "booting a guest with kernel $kernel (its boot takes some seconds)"
: > "$out/tap.log"
tail -n +1 -F "$out/tap.log" > >(sed -n -u 's/^| //p') 2> /dev/null &
follow=$!
trap 'kill $follow 2> /dev/null || true' EXIT
"$QEMU_DIR/guest.sh" -p "$out/payload.cpio" -d "$data" -m "${MEMORY:-2048}" \
	-t "${LIMIT:-600}" "$kernel" "$out" || true
sleep 0.5
kill $follow 2> /dev/null || true

"$QEMU_DIR/judge.sh" "$out" "demo-$kernel" || {
	echo "logs: $out"
	exit 1
}
say "checking the result on this machine"
"$demo/verify.sh" "$data"
