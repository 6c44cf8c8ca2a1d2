#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# checkpatch.sh - the kernel's style checker on the C files of this tree.
#
# Usage: checkpatch.sh
#
# The checker comes from Debian's linux-source-6.1 (kernels.sh source). What it
# is told to leave alone, and why, is below; nothing else may be reported.
set -u

. "$(dirname "$0")/common.sh"

ignore=(
	# there is no MAINTAINERS file to update
	FILE_PATH_CHANGES
	# the library's licence is not one of the kernel's
	SPDX_LICENSE_TAG
	# Tables as lists of X(...), and macros that define one function for
	# each type: neither can have parentheses or a do-while around it, and
	# their arguments are names
	COMPLEX_MACRO MULTISTATEMENT_MACRO_USE_DO_WHILE TRAILING_SEMICOLON
	MACRO_ARG_REUSE MACRO_ARG_PRECEDENCE
	# files that userspace compiles too have no BIT() and no __aligned()
	BIT_MACRO PREFER_DEFINED_ATTRIBUTE_MACRO
	# vector types can only be named with a typedef; portable.h makes u32
	# and its kin out of stdint.h
	NEW_TYPEDEFS PREFER_KERNEL_TYPES
	# _Static_assert
	CAMELCASE
)
# programs: no ARRAY_SIZE() in libc, ENOSYS is what io_uring_setup() returns,
# cmocka's wrapped functions are declared where they are wrapped
programs=(ARRAY_SIZE ENOSYS AVOID_EXTERNS CONSTANT_COMPARISON)
# faulty.c is a collection of what must not be done
harness=(AVOID_BUG)

join() { local IFS=,; echo "$*"; }
failed=0

check()
{
	local list=$1 files

	shift
	mapfile -t files < <(find "$@" -name '*.[ch]' | sort)
	[ ${#files[@]} -eq 0 ] && return
	perl "$CACHE/source/6.1/scripts/checkpatch.pl" --strict --no-tree --root="$ROOT" \
		--no-summary --terse --show-types --max-line-length=100 \
		--ignore "$list" -f "${files[@]}" | sed "s|^$ROOT/||"
	[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}

# it leaves a cache in the current folder
mkdir -p "$BUILD/checkpatch"
cd "$BUILD/checkpatch" || exit 1
check "$(join "${ignore[@]}")" "$ROOT/kmod" "$ROOT/include/uapi"
check "$(join "${ignore[@]}" "${programs[@]}" "${harness[@]}")" "$ROOT/selftests"
[ $failed -eq 0 ] || exit 1
echo "checkpatch: clean"
