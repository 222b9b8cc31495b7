#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# First process of ours in the VM: runs the command under a time limit and marks its start and
# end in the kernel log, by which vm.sh tells a dead emulator from a command that failed.
#
# usage: vm-inside.sh SECONDS CMD...

limit=$1
shift
# stderr is the kernel's console here.
exec 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ip link set lo up
echo "<2>vm: command starts" >/dev/kmsg
timeout -k 10 "$limit" "$@"
rc=$?
if [ $rc = 124 ] || [ $rc = 137 ]; then
	echo "vm: the command did not end within $limit s; blocked tasks are in the console log" >&2
	echo 9 >/proc/sys/kernel/printk
	echo w >/proc/sysrq-trigger
fi
echo "<2>vm: command ends with $rc" >/dev/kmsg
# 255 is what virtme-ng says of a VM that died.
[ $rc != 255 ] || rc=254
exit $rc
