#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Prints "kvm" or "tcg", then why. A /dev/kvm that opens may still run no guest, or none that can
# run a guest itself, so the verdict comes from a trial boot; it is kept per kernel and CPU.
#
# ACCEL=kvm or ACCEL=tcg in the environment overrules it.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

TRIAL_SECONDS=15

if [ -n "${ACCEL:-}" ]; then
	case $ACCEL in kvm | tcg) ;; *) die "ACCEL=$ACCEL is unknown" "say ACCEL=kvm or ACCEL=tcg" ;; esac
	echo "$ACCEL (asked for by ACCEL=)"
	exit 0
fi
if ! { : <>/dev/kvm; } 2>/dev/null; then
	echo "tcg (/dev/kvm can't be opened)"
	exit 0
fi

host=$( (uname -r && grep -m1 'model name' /proc/cpuinfo) | sha256sum | cut -c1-12)
verdict=$CACHE/accel-$host
if [ ! -s "$verdict" ]; then
	# shellcheck disable=SC2016 # expanded in the trial VM
	if timeout -k 1 "$TRIAL_SECONDS" "$QEMU_DIR/enter.sh" vng \
		--run "/boot/vmlinuz-$(kernel_release)" --force-9p --user root --cpus 1 --memory 1G \
		--qemu-opts='-cpu host' -- 'modprobe -a kvm_amd kvm_intel; test -e /dev/kvm' \
		</dev/null >"$LOGS/accel.log" 2>&1; then
		echo "kvm (a trial guest booted with it)" >"$verdict"
	else
		echo "tcg (a trial guest with /dev/kvm did not boot within $TRIAL_SECONDS s; ACCEL=kvm tries it all the same)" >"$verdict"
	fi
fi
cat "$verdict"
