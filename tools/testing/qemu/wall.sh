#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Checks the wall between the crates: only rust/kext and rust/bindings may be unsafe or name the
# kernel's C bindings; rust/vring names nothing of the kernel. Prints what breaks it.

cd "$(dirname "$0")/../../.." || exit 1
broken=0

# Rust files below the given folders, as FILE:LINE:CODE, without comments.
code() {
	find "$@" -name '*.rs' -print0 | sort -z | xargs -0r grep -nH '' | sed -E 's,//.*$,,'
}

# forbid WHY PATTERN FOLDER...
forbid() {
	local why=$1 pattern=$2 hits
	shift 2
	hits=$(code "$@" | grep -P "^[^:]+:\d+:.*$pattern")
	[ -z "$hits" ] || { echo "$why:"; echo "$hits"; broken=1; }
}

# attribute FILE: the compiler's own guard must be there as well.
attribute() {
	grep -qE '^#!\[forbid\(.*unsafe_code.*\)\]' "$1" || { echo "$1: no #![forbid(unsafe_code)]"; broken=1; }
}

# attribute() also fails when a folder is not there, so an empty search can't pass.
forbid "unsafe outside rust/kext and rust/bindings" '\bunsafe\b' rust/vring rust/vhost
forbid "C bindings outside rust/kext and rust/bindings" '\b(\w*bindings)::' rust/vring rust/vhost
forbid "the kernel crate in rust/vring" '\bkernel::' rust/vring
forbid "a lint level that opens the wall" 'allow\([^)]*unsafe_code' rust/vring rust/vhost
attribute rust/vring/vring.rs
attribute rust/vhost/vhost_net_rs.rs
exit $broken
