#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command inside the Debian root, as root, with the tree at /project, objects at /build
# and the prepared kernel at /usr/src/linux.
#
# usage: enter.sh CMD...	ENTER_ROOT=DIR enters another root (set-up does, before its rename)
#
# All mounts live in a private namespace, so they end with the command, and deleting the cache
# can never reach this machine's /dev. The PID namespace takes everything the command started along.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

root=${ENTER_ROOT:-$ROOT}
source_dir=${ENTER_SOURCE:-$SOURCE}

# bind WHAT WHERE: does nothing for a part that is not there yet.
bind() {
	[ -e "$1" ] || return 0
	if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root$(dirname "$2")"; fi
	[ -e "$root$2" ] || : >"$root$2"
	mount --bind "$1" "$root$2"
}

mount_all() {
	local cargo=${CARGO_HOME:-${HOME:-/root}/.cargo} release
	mount -t proc proc "$root/proc"
	mount -t sysfs sys "$root/sys"
	mount --rbind /dev "$root/dev"
	bind "$TREE" /project
	mkdir -p "$BUILD" "$LOGS" "$CACHE/cargo"
	bind "$BUILD" /build
	bind "$CACHE/cargo" /root/.cargo
	bind "$(readlink -f "$cargo/config.toml")" /root/.cargo/config.toml
	bind "$(readlink -f /etc/resolv.conf)" /etc/resolv.conf
	bind /etc/hosts /etc/hosts
	bind /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
	bind "$source_dir" /usr/src/linux
	if [ -e "$KERNEL/release" ]; then
		release=$(kernel_release)
		bind "$KERNEL/modules/$release" "/usr/lib/modules/$release"
		bind "$KERNEL/boot" /boot
	fi
}

# Proxies and cargo settings go along; everything else of the caller's environment stays out.
client_env() {
	local name
	for name in $(compgen -e); do
		case $name in
		CARGO_HOME | CARGO_TARGET_DIR | CARGO_MANIFEST* | CARGO_PKG*) ;;
		CARGO_* | PROPTEST_* | COVERAGE_MIN | *_proxy | *_PROXY) printf '%s=%s\0' "$name" "${!name}" ;;
		esac
	done
}

if [ "${1:-}" != --inside ]; then
	[ $# -gt 0 ] || die "usage: enter.sh CMD..."
	need_root
	[ -d "$root" ] || die "the Debian root is not there yet" "make setup"
	# Held as long as the command runs; keeps a newer set-up from pruning what is in use.
	exec 8<"$root" && flock -s 8
	if [ -d "$source_dir" ]; then exec 7<"$source_dir" && flock -s 7; fi
	exec unshare --mount --propagation private --pid --fork --kill-child \
		"$BASH" "$0" --inside "$@"
fi

shift
mount_all
mapfile -d '' client < <(client_env)
exec env -i "${client[@]}" HOME=/root XDG_CACHE_HOME=/build PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
	TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive CARGO_TARGET_DIR=/build/cargo \
	VHOST_START="$START" chroot "$root" /bin/sh -c 'cd /project && exec "$@"' sh "$@"
