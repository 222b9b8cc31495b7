#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpacks the kernel's source into the folder $1 and makes in it what the headers package leaves
# out: the Rust metadata that a module is compiled against. Part of its cache key.
#
# Signing is the only option turned off, as its key is Debian's. Any other change may alter the
# layout of the kernel's structures, and insmod would refuse the module.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

out=$1
log=$LOGS/setup-source.log
: >"$log"
release=$(kernel_release)

in_root() { ENTER_SOURCE=$out "$QEMU_DIR/enter.sh" "$@"; }

# A compiler of another version writes metadata and symbols that the kernel's own do not match.
check_compiler() {
	local wanted have
	wanted=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"/\1/p' "$KERNEL/.config")
	have=$(in_root rustc --version)
	[ -n "$wanted" ] || die "the kernel $release was built without Rust" \
		"this archive can't serve; use one with a CONFIG_RUST=y kernel"
	[ "$wanted" = "$have" ] || die "rustc does not match the kernel: it was built by
         $wanted, the root has
         $have" "delete $ROOT and run again; if it stays, the archive is between two updates"
}

# An option that differs is only harmless if it names a file, a version or a salt.
check_config() {
	local changed
	changed=$(in_root diff -U0 /build/config.debian /usr/src/linux/.config | grep -E '^[-+](CONFIG|# CONFIG)' |
		grep -vE 'VERSION_TEXT|BUILD_SALT|MODULE_SIG_ALL|MODULE_SIG_KEY|SYSTEM_TRUSTED_KEYS' || true)
	[ -z "$changed" ] || die "the kernel's configuration changed while it was prepared:
$changed" "a build tool is missing: compare $QEMU_DIR/packages with the kernel's Build-Depends"
}

check_compiler
say "source: unpacking linux-source-$SERIES"
cp "$KERNEL/.config" "$BUILD/config.debian"
run_logged "$log" tar -xJf "$KERNEL/linux-source.tar.xz" -C "$out" --strip-components=1
cp "$KERNEL/.config" "$KERNEL/Module.symvers" "$out/"
say "source: preparing the Rust metadata of $release (a minute or two)"
run_logged "$log" in_root /usr/src/linux/scripts/config --file /usr/src/linux/.config -d MODULE_SIG_ALL
run_logged "$log" in_root make -C /usr/src/linux olddefconfig
check_config
run_logged "$log" in_root make -C /usr/src/linux -j"$(nproc)" KERNELRELEASE="$release" modules_prepare
# The root's own user-space headers are those of an older kernel; the tests want this one's.
run_logged "$log" in_root make -C /usr/src/linux headers
[ -e "$out/rust/libkernel.rmeta" ] || die "the kernel's build made no Rust metadata" "read $log"
