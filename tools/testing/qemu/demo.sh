#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demo: sets up what is missing, builds the module, and shows a KVM guest's network on it.
#
# usage: demo.sh	MODULE=c runs the kernel's own C module through the same steps

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

module=${MODULE:-rust}
case $module in rust | c) ;; *) die "MODULE=$module is unknown" "say MODULE=rust or MODULE=c" ;; esac

need_root
"$QEMU_DIR/setup.sh"
if [ "$module" = rust ]; then
	say "module: building for linux $(kernel_release)"
	run_logged "$LOGS/build.log" "$QEMU_DIR/build.sh"
fi
say "guest: making its initramfs"
run_logged "$LOGS/guest-image.log" "$QEMU_DIR/enter.sh" \
	tools/testing/qemu/guest-image.sh "$(kernel_release)"
color=()
if [ -t 1 ]; then color=(color); fi
rc=0
"$QEMU_DIR/vm.sh" demo 1200 /project/tools/testing/qemu/demo-vm.sh "$module" "${color[@]}" || rc=$?
if [ $rc = 0 ]; then
	say "demo: all of it held"
else
	say "demo: FAILED; the VM's console log is $LOGS/demo-console.log"
fi
exit $rc
