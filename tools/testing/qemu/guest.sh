# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Starts a KVM guest on a tap with vhost=on, and drives it over a pair of pipes. To be sourced.

GUEST_DIR=/run/guest
GUEST_PID=

# guest_start TAP KERNEL INITRD
guest_start() {
	mkdir -p "$GUEST_DIR"
	mkfifo "$GUEST_DIR/ctl.in" "$GUEST_DIR/ctl.out"
	qemu-system-x86_64 -accel kvm -cpu host -smp 1 -m 256M \
		-nodefaults -display none -no-reboot \
		-kernel "$2" -initrd "$3" -append 'console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on' \
		-serial "file:$GUEST_DIR/console" \
		-chardev "pipe,id=ctl,path=$GUEST_DIR/ctl" -serial chardev:ctl \
		-netdev "tap,id=net0,ifname=$1,script=no,downscript=no,vhost=on" \
		-device virtio-net-pci,netdev=net0,mrg_rxbuf=on,csum=on,guest_csum=on,host_tso4=on,guest_tso4=on,host_tso6=on,guest_tso6=on,romfile= \
		>"$GUEST_DIR/qemu.log" 2>&1 </dev/null &
	GUEST_PID=$!
	exec 3<>"$GUEST_DIR/ctl.in" 4<>"$GUEST_DIR/ctl.out"
}

# guest_wait MARK SECONDS: reads until a line starts with MARK; its rest goes to GUEST_MARK, what
# came before it to GUEST_OUT. Ends early when the guest dies.
guest_wait() {
	local mark=$1 end=$((SECONDS + $2)) line rc
	GUEST_OUT='' GUEST_MARK=''
	while [ "$SECONDS" -lt "$end" ]; do
		rc=0
		IFS= read -r -t 2 line <&4 || rc=$?
		if [ $rc -gt 128 ]; then
			kill -0 "$GUEST_PID" 2>/dev/null || return 1
		elif [[ $line == "$mark"* ]]; then
			GUEST_MARK=${line#"$mark"}
			return 0
		else
			GUEST_OUT+=$line$'\n'
		fi
	done
	return 1
}

# guest CMD: runs CMD in the guest, within GUEST_SECONDS; output in GUEST_OUT, its exit code returned.
guest() {
	printf '%s\n' "$1" >&3
	guest_wait '@@done ' "${GUEST_SECONDS:-120}" || {
		GUEST_OUT+="no answer to: $1"
		return 1
	}
	return "${GUEST_MARK//[^0-9]/}"
}

# guest_stop SECONDS: a clean shutdown; fails if QEMU does not end, or not well.
guest_stop() {
	local i
	printf 'poweroff -f\n' >&3
	for ((i = 0; i < $1 * 10; i++)); do
		if ! kill -0 "$GUEST_PID" 2>/dev/null; then
			wait "$GUEST_PID"
			return
		fi
		sleep 0.1
	done
	kill -KILL "$GUEST_PID"
	return 1
}
