#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Everything about rust/vring that needs no kernel: format, lints, tests, documentation, coverage.
# Needs cargo 1.85 or newer with rustfmt and clippy, and the LLVM tools of rustc's own LLVM version.
#
#   PROPTEST_CASES     cases per property (default 1000: well under a minute on two cores)
#   PROPTEST_RNG_SEED  seed of the properties (default: a fixed one)
#   COVERAGE_MIN       least line coverage of rust/vring in percent (default 95)
#
# Output is KTAP-like, the last line says "N passed, N failed". Nothing is written into the tree.

set -u -o pipefail
export LC_ALL=C

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
out=${XDG_CACHE_HOME:-$HOME/.cache}/vhost-net-rs
logs=$out/host-logs
cover=$out/target/cover
coverage_min=${COVERAGE_MIN:-95}

export CARGO_TARGET_DIR=$out/target
export CARGO_TERM_COLOR=never
export RUST_BACKTRACE=0
export PROPTEST_CASES=${PROPTEST_CASES:-1000}
# Some optimisation pays off within one run; the overflow checks of the test profile stay on.
export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=0
# The caller's flags would hide warnings or rebuild everything.
unset RUSTFLAGS RUSTDOCFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET

number=0
passed=0
failed=0
tests=0

die() {
	echo "host.sh: $*" >&2
	exit 1
}

result() { # ok|not-ok NAME
	number=$((number + 1))
	if [ "$1" = ok ]; then
		passed=$((passed + 1))
		echo "ok $number - $2"
	else
		failed=$((failed + 1))
		echo "not ok $number - $2"
	fi
}

comment() { # stdin
	sed 's/^/# /'
}

# Runs a command under a time limit; its output is shown only if it fails.
run() { # NAME COMMAND...
	local name=$1 log=$logs/$1.log code
	shift
	timeout -k 10 900 "$@" >"$log" 2>&1 </dev/null
	code=$?
	[ $code -eq 0 ] && return 0
	[ $code -eq 124 ] && echo "$name took more than 900 s and was stopped" >>"$log"
	return 1
}

step() { # NAME COMMAND...
	if run "$@"; then
		result ok "$1"
	else
		tail -n 60 "$logs/$1.log" | comment
		result not-ok "$1"
	fi
}

# Reads cargo test's output and prints "ok NAME" or "not-ok NAME" for each Rust test.
list_tests() { # LOG
	awk '
		$1 == "Running" { suite = $2 == "unittests" ? $3 : $2; sub(/^.*tests\//, "", suite) }
		$1 == "Running" { crate = $NF; sub(/^.*\//, "", crate); sub(/-[0-9a-f]*\)$/, "", crate) }
		$1 == "Doc-tests" { crate = "doc " $2 }
		/^test .* \.\.\. / {
			name = $0
			sub(/^test /, "", name)
			sub(/ \.\.\. .*$/, "", name)
			if ($0 ~ / \.\.\. ok$/) print "ok", crate ": " name
			else if ($0 !~ / \.\.\. ignored/) print "not-ok", crate ": " name
		}' "$1"
}

# A test run is a step of its own: a crash or a failed build leaves no line of a single test.
test_step() { # NAME COMMAND...
	local name=$1 good=ok state rest
	run "$@" || good=not-ok
	while read -r state rest; do
		tests=$((tests + 1))
		result "$state" "$rest"
	done < <(list_tests "$logs/$name.log")
	[ $good = ok ] || grep -v '^test .* ok$' "$logs/$name.log" | tail -n 120 | comment
	result $good "$name"
}

find_llvm() { # TOOL
	local major own
	major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
	for own in "$(rustc --print sysroot)"/lib/rustlib/*/bin/"$1" \
		"/usr/lib/llvm-$major/bin/$1" "$(command -v "$1-$major")"; do
		[ -x "$own" ] && echo "$own" && return
	done
	echo "no $1 for rustc's LLVM $major: install llvm-$major, or rustup's llvm-tools" >&2
	return 1
}

# Test programs of the instrumented build, as arguments of llvm-cov.
objects() {
	local program
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$logs/cover-list.log" | while read -r program; do
		printf -- '-object\n%s\n' "$program"
	done
}

# Line coverage of each file from an lcov trace, without test modules; fails below the minimum.
sum_lines() {
	awk -v root="$tree/" -v min="$coverage_min" '
		/^SF:/ {
			path = substr($0, 4)
			name = path
			sub("^" root, "", name)
			limit = 1e9
			for (n = 1; (getline line < path) > 0; n++)
				if (line ~ /^#\[cfg\(test\)\]/ && n < limit) limit = n
			close(path)
			skip = name !~ /^rust\/vring\// || name ~ /(^|\/)(tests|testing)(\.rs$|\/)/
		}
		/^DA:/ && !skip {
			split(substr($0, 4), da, ",")
			if (da[1] + 0 >= limit) next
			lines[name]++
			if (da[2] + 0 > 0) hit[name]++
			else missed[name] = missed[name] " " da[1]
		}
		END {
			for (name in lines) {
				printf "%6.2f%% %4d/%-4d %s%s\n", 100 * hit[name] / lines[name], hit[name], \
					lines[name], name, missed[name] ? "  missed:" missed[name] : ""
				all += lines[name]
				covered += hit[name]
			}
			if (!all) { print "no line of rust/vring in the trace"; exit 1 }
			printf "%6.2f%% %4d/%-4d total, at least %s%% wanted\n", 100 * covered / all, covered, all, min
			exit 100 * covered < min * all
		}' "$1"
}

# One build serves tests, doctests and coverage. Doctests leave their counts aside: their programs
# are gone by the time the report is made.
instrumented() { # SUBFOLDER COMMAND...
	local counts=$cover/$1/%p-%m.profraw
	shift
	env CARGO_TARGET_DIR="$cover" RUSTFLAGS="-C instrument-coverage" \
		RUSTDOCFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE="$counts" "$@"
}
export -f instrumented
export cover

coverage() {
	local profdata cov args
	profdata=$(find_llvm llvm-profdata) && cov=$(find_llvm llvm-cov) || return 1
	run cover-list bash -c 'instrumented raw cargo test --workspace --all-targets --locked --no-run \
		--message-format=json' || return 1
	mapfile -t args < <(objects)
	[ ${#args[@]} -gt 1 ] || { echo "no test program was built"; return 1; }
	"$profdata" merge -sparse "$cover"/raw/*.profraw -o "$cover/all.profdata" || return 1
	"$cov" export -format=lcov -instr-profile="$cover/all.profdata" "${args[@]:1}" \
		>"$cover/all.lcov" || return 1
	sum_lines "$cover/all.lcov"
}

coverage_step() {
	local good=ok
	coverage >"$logs/coverage.log" 2>&1 || good=not-ok
	sort -k3 "$logs/coverage.log" | comment
	result $good coverage
}

[ $# -eq 0 ] || die "takes no arguments; see its first lines for the variables it reads"
[ -n "${HOME:-}${XDG_CACHE_HOME:-}" ] || die "no place for output: set HOME or XDG_CACHE_HOME"
for tool in cargo rustc rustfmt cargo-clippy; do
	command -v $tool >/dev/null || die "$tool is missing: install Rust 1.85 or newer (rustup, or Debian 13's rustc, cargo, rustfmt, rust-clippy)"
done
version=$(rustc -V | cut -d' ' -f2)
[ "$(printf '%s\n' 1.85.0 "$version" | sort -V | head -n 1)" = 1.85.0 ] ||
	die "rustc $version is too old: 1.85 or newer is needed"
mkdir -p "$logs" || die "cannot write $logs: set XDG_CACHE_HOME to a writable place"
rm -rf "$cover/raw" "$cover/doc"
cd "$tree" || exit 1

echo "KTAP version 1"
echo "# rustc $version, PROPTEST_CASES=$PROPTEST_CASES, PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-fixed}"
step fetch cargo fetch --locked
step fmt cargo fmt --all --check
step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
test_step tests bash -c 'instrumented raw cargo test --workspace --all-targets --locked --no-fail-fast'
test_step doctests bash -c 'instrumented doc cargo test --workspace --doc --locked --no-fail-fast'
step doc env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
coverage_step

[ $tests -gt 0 ] || echo "# no Rust test ran"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $tests -gt 0 ]
