#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes what the VM needs, in three cached stages: root, kernel, source. Each is made in a folder
# of its own and renamed when it is done, so an interrupted set-up goes on with the stage it was
# at, and nothing half-made is ever used.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

NEEDED_GIB=6

check_disk() {
	local free
	free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$free" -ge "$NEEDED_GIB" ] || die \
		"only $free GiB free for $CACHE, $NEEDED_GIB are needed" \
		"free some space, or point XDG_CACHE_HOME to a larger disk"
}

take_lock() {
	exec 9>"$CACHE/lock"
	flock -n 9 && return
	say "another set-up is at work; waiting for it"
	flock 9
}

# stage NAME FOLDER: the folder's name holds the hash of everything it depends on.
stage() {
	local name=$1 folder=$2
	if [ ! -d "$folder" ]; then
		check_disk
		rm -rf "$folder.part"
		mkdir "$folder.part"
		"$QEMU_DIR/stage-$name.sh" "$folder.part" 9>&-
		mv "$folder.part" "$folder"
		say "$name: done ($(du -sh "$folder" | cut -f1))"
	fi
	prune "$name" "$folder"
}

# What another version of the scripts has made is of no use any more, unless a VM still runs on it.
prune() {
	local name=$1 keep=$2 old
	for old in "$CACHE/$name"-*; do
		if [ ! -d "$old" ] || [ "$old" = "$keep" ]; then continue; fi
		exec 8<"$old"
		if flock -n 8; then rm -rf "$old"; fi
		exec 8<&-
	done
}

ready() { [ -d "$ROOT" ] && [ -d "$KERNEL" ] && [ -d "$SOURCE" ]; }

if ready && [ -z "${REFRESH:-}" ]; then
	[ "${1:-}" = --quiet ] || say "set-up: ready, linux $(kernel_release), in $CACHE"
	exit 0
fi
need_root
command -v unshare >/dev/null || die "the command unshare is missing" "install util-linux"
mkdir -p "$CACHE" "$LOGS"
take_lock
[ -z "${REFRESH:-}" ] || rm -rf "$KERNEL"
stage root "$ROOT"
stage kernel "$KERNEL"
# The source's key holds the kernel's release, which is known only now.
SOURCE=$CACHE/source-$(source_key)
stage source "$SOURCE"
say "set-up: ready, linux $(kernel_release), in $CACHE"
