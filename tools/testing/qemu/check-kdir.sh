#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Says in one line why a module in Rust can't be built against the kernel folder $1, if so.

kdir=$1
config=$kdir/.config

die() {
	echo "error: $1" >&2
	echo "  fix: $2" >&2
	echo "       (make demo needs none of this: it brings a kernel of its own)" >&2
	exit 1
}

[ -e "$kdir/Makefile" ] || die "no kernel headers in $kdir" \
	"install the headers of that kernel, or say make KDIR=FOLDER"
[ -e "$config" ] || config=$kdir/include/config/auto.conf
grep -q '^CONFIG_RUST=y' "$config" || die "the kernel of $kdir was built without Rust (CONFIG_RUST)" \
	"use a kernel with CONFIG_RUST=y, such as Debian's 7.3"
[ -e "$kdir/rust/libkernel.rmeta" ] || die "$kdir lacks the kernel's Rust metadata (rust/*.rmeta)" \
	"prepare the kernel's source as $(dirname "$0")/stage-source.sh does, then say make KDIR=THAT-FOLDER"
