#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# total.sh - add up the results of runs.
#
# Usage: total.sh RUN...
#
# Reads $BUILD/results/RUN.tsv, repeats what is not a pass, and ends with the
# line "N passed, N failed". A run without results counts as failed. In a run
# of `make check` (ARU_PART set) the line gets a prefix, so that only the grand
# total stands alone.
set -u

. "$(dirname "$0")/common.sh"

[ $# -gt 0 ] || { usage >&2; exit 2; }
mkdir -p "$RESULTS"
sum=$(mktemp "$RESULTS/.sum-XXXXXX")
trap 'rm -f "$sum"' EXIT
for run; do
	if [ -s "$RESULTS/$run.tsv" ]; then
		cat "$RESULTS/$run.tsv" >> "$sum"
	else
		result "$sum" fail "$run" "no results"
	fi
done
[ -n "${ARU_PART-}" ] || cp "$sum" "$RESULTS/summary.tsv"

# a long list helps nobody: the rest is in the file
awk -F '\t' '$1 == "skip" { printf "skipped: %s: %s\n", $2, $3 }
	$1 == "fail" && ++n <= 60 { printf "FAILED: %s: %s\n", $2, $3 }
	END { if (n > 60) print "... and", n - 60, "more failures" }' "$sum"
awk -F '\t' -v part="${ARU_PART-}" '{ n[$1]++ }
	END {
		printf "%s%d passed, %d failed\n", part != "" ? part ": " : "",
			n["pass"], n["fail"]
		exit n["fail"] > 0 || n["pass"] == 0
	}' "$sum"
