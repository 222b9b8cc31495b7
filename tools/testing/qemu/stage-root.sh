#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes the Debian root in the folder $1. Part of its cache key: whatever changes here makes a new root.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

out=$1
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
log=$LOGS/setup-root.log
: >"$log"

install_mmdebstrap() {
	[ -e "$keyring" ] && command -v mmdebstrap >/dev/null && return
	command -v apt-get >/dev/null || die "mmdebstrap is missing and this machine has no apt" \
		"install mmdebstrap and debian-archive-keyring"
	say "host: installing mmdebstrap"
	run_logged "$log" apt-get update
	run_logged "$log" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
		--no-install-recommends mmdebstrap debian-archive-keyring
}

packages() { sed 's/#.*//' "$QEMU_DIR/packages" | xargs | tr ' ' ','; }

install_mmdebstrap
"$QEMU_DIR/apt-config.sh" "$log" "$CACHE/apt"
say "root: installing Debian $SUITE ($(packages | tr ',' '\n' | wc -l) packages and what they need)"
# The kernel's suite is left out here, so that apt can't take a compiler from it.
grep -v backports "$CACHE/apt/sources.list" >"$CACHE/apt/sources-main.list"
run_logged "$log" unshare --mount --propagation private \
	mmdebstrap --mode=root --variant=apt --architectures=amd64 --keyring="$keyring" \
	--aptopt="$CACHE/apt/apt.conf" --dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--include="$(packages)" "$SUITE" "$out" "$CACHE/apt/sources-main.list"
# Folders that enter.sh mounts on exist from the start: a VM sees the root read-only.
mkdir -p "$out/project" "$out/build" "$out/usr/src/linux" "$out/usr/lib/modules" "$out/boot"
