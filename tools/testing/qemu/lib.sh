# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # the variables are for the scripts that source this file
#
# Places, progress lines and failure messages shared by the scripts of this folder.

set -euo pipefail
umask 022

SUITE=trixie
SERIES=7.3

QEMU_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TREE=$(cd "$QEMU_DIR/../../.." && pwd)
CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/vhost-net-rs
# Two checkouts share root and kernel, but never each other's objects.
BUILD=$CACHE/build/$(printf %s "$TREE" | sha256sum | cut -c1-12)
LOGS=$BUILD/log

# make exports START, so that all the steps of one command count from the same zero.
START=${VHOST_START:-$(date +%s)}
export VHOST_START=$START

elapsed() { echo $(($(date +%s) - START)); }
say() { printf '[%4ss] %s\n' "$(elapsed)" "$*"; }

# die CAUSE REMEDY
die() {
	printf '\nerror: %s\n' "$1" >&2
	[ -z "${2:-}" ] || printf '  fix: %s\n' "$2" >&2
	exit 1
}

need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root: it makes a Debian root and enters it" \
		"run it again as root, for example with sudo"
}

# hash12 FILES...: reads nothing but the files' contents, so that a moved tree keeps its cache.
hash12() { cat "$@" | sha256sum | cut -c1-12; }

root_key() { echo "$SUITE" | hash12 - "$QEMU_DIR/packages" "$QEMU_DIR/stage-root.sh"; }
kernel_key() { echo "$SERIES" | hash12 - "$QEMU_DIR/stage-kernel.sh"; }
source_key() {
	echo "$(root_key) $(kernel_key) $(cat "$KERNEL/release" 2>/dev/null)" |
		hash12 - "$QEMU_DIR/stage-source.sh"
}

ROOT=$CACHE/root-$(root_key)
KERNEL=$CACHE/kernel-$(kernel_key)
SOURCE=$CACHE/source-$(source_key)

# The kernel's release, such as 7.3.4+deb13-amd64; known once the kernel stage is done.
kernel_release() { cat "$KERNEL/release"; }

# user_make ARGUMENTS: make for user-space programs, with the kernel's own uAPI headers first.
user_make() {
	"$QEMU_DIR/enter.sh" env C_INCLUDE_PATH=/usr/src/linux/usr/include make "$@"
}

# explain LOG: turns the usual failures of apt and make into a cause and a remedy.
explain() {
	local log=$1
	if grep -qi 'no space left on device' "$log"; then
		die "the disk is full" "free some space, or point XDG_CACHE_HOME to a larger disk"
	elif grep -qiE 'temporary failure resolving|could not (resolve|connect)|network is unreachable|connection (timed out|refused)|failed to fetch.*(timed out|connect)' "$log"; then
		die "the package archive can't be reached" \
			"check the network, the mirror in /etc/apt and its proxy, then run again"
	elif grep -qiE 'NO_PUBKEY|not signed|signatures.*(invalid|verified)' "$log"; then
		die "the archive's signature can't be verified" \
			"upgrade the package debian-archive-keyring on this machine"
	elif grep -qiE 'unable to locate package|has no installation candidate|404 +not found' "$log"; then
		die "a package is not in the archive any more" \
			"run apt-get update; if it stays, compare $QEMU_DIR/packages with the archive"
	fi
}

# run_logged LOG CMD...: keeps noisy output out of sight until it is wanted.
run_logged() {
	local log=$1
	shift
	mkdir -p "$(dirname "$log")"
	echo "+ $*" >>"$log"
	"$@" >>"$log" 2>&1 </dev/null && return 0
	local rc=$?
	printf '\n--- last lines of %s\n' "$log" >&2
	tail -n 15 "$log" >&2
	(explain "$log") || exit 1
	die "a step failed with exit code $rc: $*" "read $log"
}
