#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes the guest's initramfs, /build/guest.cpio: busybox, iperf3, ethtool, the virtio-net driver
# and guest-init. Runs inside the Debian root.
#
# usage: guest-image.sh RELEASE

set -euo pipefail

release=$1
modules="virtio_pci virtio_net"
tools="iperf3 ethtool"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Copies a program with the shared libraries it asks for.
copy_program() {
	local program=$1 file
	for file in "$program" $(ldd "$program" | grep -oE '/[^ ]+'); do
		install -D -m 755 "$file" "$dir$file"
	done
}

# Modules go in uncompressed, listed in the order in which to load them.
copy_modules() {
	local kind path name
	mkdir -p "$dir/modules"
	# shellcheck disable=SC2086 # a list
	modprobe -S "$release" --show-depends -a $modules | while read -r kind path; do
		name=$(basename "$path" | sed 's/\.ko.*/.ko/')
		if [ "$kind" != insmod ] || [ -e "$dir/modules/$name" ]; then continue; fi
		case $path in
		*.xz) xz -dc "$path" ;;
		*.zst) zstd -dcq "$path" ;;
		*) cat "$path" ;;
		esac >"$dir/modules/$name"
		echo "$name" >>"$dir/modules/order"
	done
}

mkdir -p "$dir"/{bin,dev,proc,sys,tmp,etc}
install -m 755 /bin/busybox "$dir/bin/busybox"
for applet in $(busybox --list | grep -vx busybox); do
	ln -s busybox "$dir/bin/$applet"
done
for tool in $tools; do
	copy_program "$(command -v "$tool")"
done
# iperf3 ends its threads with pthread_cancel(), which loads this library only then.
install -D "$(gcc -print-file-name=libgcc_s.so.1)" "$dir/lib/libgcc_s.so.1"
copy_modules
install -m 755 /project/tools/testing/qemu/guest-init "$dir/init"
# Not compressed: unpacking costs more than loading when the CPU is emulated.
(cd "$dir" && find . | cpio -o -H newc --quiet) >/build/guest.cpio.part
mv /build/guest.cpio.part /build/guest.cpio
