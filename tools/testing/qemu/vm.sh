#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boots the stock kernel in a VM whose / is the Debian root, runs a command in it as root, prints
# its output as it comes, and returns its exit code.
#
# usage: vm.sh NAME SECONDS CMD...	NAME is the console log's, SECONDS the command's limit
#        vm.sh --shell
#
# QEMU's emulator can die by itself. Only then, and only if no command of ours ended and the kernel
# did not panic, is the VM started again: a failed test is never repeated.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

BOOT_SECONDS=${VM_BOOT_SECONDS:-300}
MAX_STARTS=3

need_root
{ [ -d "$ROOT" ] && [ -d "$SOURCE" ]; } || die "the VM is not set up yet" "make setup"
mkdir -p "$LOGS"
accel=$("$QEMU_DIR/accel.sh")
say "vm: linux $(kernel_release), $accel"
case $accel in
kvm*) machine=() cpu="-cpu host" ;;
# SVM with nested paging is emulated, so that KVM works inside; with la57 nested paging is not.
*) machine=(--disable-kvm) cpu="-cpu max,+npt,-la57" ;;
esac
# Always 9p: virtiofs writes guest memory behind the emulator's back, which breaks under TCG.
machine+=(--run "/boot/vmlinuz-$(kernel_release)" --force-9p --user root
	--cpus "${VM_CPUS:-2}" --memory "${VM_MEMORY:-3G}")

if [ "${1:-}" = --shell ]; then
	[ -t 0 ] || die "a shell needs a terminal" "run it from one, or use vm.sh NAME SECONDS CMD"
	exec "$QEMU_DIR/enter.sh" vng "${machine[@]}" --qemu-opts="$cpu"
fi

name=$1
limit=$2
shift 2
command="/project/tools/testing/qemu/vm-inside.sh $limit $(printf '%q ' "$@")"
console=$LOGS/$name-console.log
rm -f "$console".*

marked() { grep -q "vm: command $1" "$console" 2>/dev/null; }

# Ends a VM that has not reached our command in time: it hangs in the firmware or in the kernel.
watch_boot() {
	local pid=$1 i
	for ((i = 0; i < BOOT_SECONDS; i++)); do
		sleep 1
		! marked starts && kill -0 "$pid" 2>/dev/null || return 0
	done
	kill "$pid" 2>/dev/null || true
}

# With --verbose the kernel's console is virtme-ng's stderr; vm-inside.sh keeps the command's own
# stderr out of it. QEMU opens both anew and would truncate a file, hence the cats.
run_once() {
	local rc=0 vm watcher copies
	: >"$console"
	exec 5> >(exec cat >"$console")
	copies=$!
	exec 6> >(exec cat)
	copies+=" $!"
	timeout --foreground -k 5 $((BOOT_SECONDS + limit + 60)) "$QEMU_DIR/enter.sh" \
		vng "${machine[@]}" --verbose --append loglevel=5 --qemu-opts="$cpu" -- "$command" \
		</dev/null >&6 2>&5 5>&- 6>&- &
	vm=$!
	exec 5>&- 6>&-
	watch_boot "$vm" &
	watcher=$!
	wait "$vm" || rc=$?
	kill "$watcher" 2>/dev/null || true
	# shellcheck disable=SC2086 # a list
	wait $copies || true
	return $rc
}

for ((start = 1; ; start++)); do
	rc=0
	run_once || rc=$?
	if marked ends; then
		exit $rc
	elif grep -qE 'Kernel panic|BUG:|Oops' "$console"; then
		tail -n 40 "$console"
		die "the VM's kernel crashed" "read $console"
	elif marked starts && [ $rc -ge 124 ] && [ $rc -le 137 ]; then
		die "the VM hung and was ended after $limit s" "read $console"
	elif [ $start = $MAX_STARTS ]; then
		die "the VM died $MAX_STARTS times (the emulator, not a test)" "read $console"
	fi
	mv "$console" "$console.$start"
	say "vm: the emulator died (exit code $rc), not a test: starting it again; see $console.$start"
done
