#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All tests and checks. The last line is "N passed, N failed"; exits 0 only if something ran and
# nothing failed.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

need_root
"$QEMU_DIR/setup.sh"
mkdir -p "$LOGS"

PASSED=0
FAILED=0
SUMMARY=()

in_root() { "$QEMU_DIR/enter.sh" "$@"; }

# stage NAME FUNCTION: the function's output goes to a log and the screen. It counts as one test,
# or as those it reports in COUNTS as "PASSED FAILED".
stage() {
	local name=$1 log=$LOGS/check-$1.log begin=$SECONDS passed=0 failed=0 rc=0
	printf '\n[%4ss] === %s\n' "$(elapsed)" "$name"
	rm -f "$log.counts"
	COUNTS=$log.counts "$2" </dev/null 2>&1 | tee "$log" || rc=$?
	if [ -s "$log.counts" ]; then
		read -r passed failed <"$log.counts"
		# A run that broke off fails even if every test it came to passed.
		if [ "$rc" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
	elif [ "$rc" = 0 ]; then
		passed=1
	else
		failed=1
	fi
	PASSED=$((PASSED + passed))
	FAILED=$((FAILED + failed))
	SUMMARY+=("$(printf '%-12s %5s passed %4s failed %5ss' "$name" "$passed" "$failed" $((SECONDS - begin)))")
	[ "$failed" = 0 ] || SUMMARY+=("             see $log")
}

# no_warning CMD...: fails if the command does, or warns.
no_warning() {
	local out rc=0
	out=$("$@" 2>&1) || rc=$?
	echo "$out"
	[ $rc = 0 ] && ! grep -qiE '(^|[^-_a-z])warning' <<<"$out"
}

# Builds from nothing, because make does not repeat the warnings of what is up to date.
build_anew() {
	rm -rf "${BUILD:?}/$1"
	OBJECTS=$1 no_warning "$QEMU_DIR/build.sh" "${@:2}"
}

host_tests() {
	local rc=0 out=$LOGS/host.out
	in_root tools/testing/host.sh 2>&1 | tee "$out" || rc=$?
	sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$out" >"$COUNTS"
	[ $rc = 0 ] && [ -s "$COUNTS" ]
}

build_strict() { build_anew strict W=1; }
build_clippy() { build_anew clippy CLIPPY=1; }
format() { in_root sh -c 'find rust tools samples -name "*.rs" | xargs rustfmt --check'; }
wall() { "$QEMU_DIR/wall.sh"; }
spdx() { "$QEMU_DIR/spdx.sh"; }
scripts() {
	in_root sh -c 'find . .ci -name .git -prune -o \( -name "*.sh" -o -name guest-init -o -path "./.ci/run" \) -print | xargs shellcheck'
}

sample() {
	rm -rf "$BUILD/samples"
	mkdir -p "$BUILD/samples"
	no_warning user_make -C /build/samples -f /project/samples/Makefile VPATH=/project/samples
}

test_programs() {
	rm -rf "$BUILD/selftests"
	no_warning user_make -C tools/testing/selftests/vhost OUT=/build/selftests
}

kselftests() {
	local rc=0 out=$LOGS/kselftest.out
	"$QEMU_DIR/kselftest.sh" 2>&1 | tee "$out" || rc=$?
	awk '/^not ok / { failed++ } /^ok / && !/ # SKIP/ { passed++ }
		END { print passed + 0, failed + 0 }' "$out" >"$COUNTS"
	return $rc
}

# In a function, so that the shell has read it all before someone edits the file during a run.
main() {
	stage spdx spdx
	stage wall wall
	stage rustfmt format
	stage shellcheck scripts
	stage build build_strict
	stage clippy build_clippy
	stage sample sample
	stage test-build test_programs
	stage host host_tests
	stage kselftest kselftests

	printf '\n[%4ss] === summary\n' "$(elapsed)"
	printf '%s\n' "${SUMMARY[@]}"
	echo
	echo "$PASSED passed, $FAILED failed"
	[ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
}

main
