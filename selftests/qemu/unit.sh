#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# unit.sh - run the tests that need no kernel.
#
# Usage: unit.sh NAME...
#   NAME   unit (`make check` in selftests/unit), lib (in selftests/lib), or one
#          of these and another way to run them: unit-valgrind is
#          `make check-valgrind` in selftests/unit
#
# The target prints TAP; each result counts, and so does its exit status.
# Verdicts: $BUILD/results/NAME.tsv, logs: $BUILD/run/NAME.tap.
set -u

. "$(dirname "$0")/common.sh"

[ $# -gt 0 ] || { usage >&2; exit 2; }
mkdir -p "$BUILD/run" "$RESULTS"
failed=
for name; do
	log=$BUILD/run/$name.tap
	dir=$ROOT/selftests/${name%%-*}
	target=check${name#"${name%%-*}"}
	# each program has a time limit of its own, this is for the rest
	timeout -k 5 3600 make -s --no-print-directory -C "$dir" BUILD="$BUILD" \
		"$target" < /dev/null > "$log" 2>&1
	rc=$?
	# the same reader as for guests; it wants to know how the run ended
	printf '\n@@end %d\n' $rc >> "$log"
	awk -v prefix="$name" -f "$QEMU_DIR/tap.awk" "$log" > "$RESULTS/$name.tsv" ||
		result "$RESULTS/$name.tsv" fail "$name/@report" "the results could not be read"
	if grep -q '^fail' "$RESULTS/$name.tsv"; then
		failed=y
		tail -n 40 "$log"
	fi
done
[ -z "$failed" ]
