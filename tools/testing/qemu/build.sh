#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module for the VM's kernel. Objects go to the cache, none into the tree.
#
# usage: build.sh [MAKE ARGUMENTS]	such as W=1 CLIPPY=1

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$BUILD/${OBJECTS:=module}"
exec "$QEMU_DIR/enter.sh" make -C /usr/src/linux KERNELRELEASE="$(kernel_release)" \
	-j"$(nproc)" M=/project MO="/build/$OBJECTS" "$@" modules
