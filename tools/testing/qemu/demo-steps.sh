# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # DETAIL is read by demo-vm.sh
#
# The demo's steps, one function each: 0 if it held, and DETAIL says what was seen.

GUEST_IP=10.10.0.2
PEER_IP=10.10.0.3
FILE_MIB=8
TCP_SECONDS=3
# Limits are for hangs only: a busy machine may be ten times slower than an idle one.
BOOT_SECONDS=400
BAD_LOG='WARNING: |BUG: |Oops|Call Trace:|blocked for more than|rcu.*(stall|detected)|soft lockup|general protection|refcount_t:|Bad page|list_(add|del) corruption'

peer() { ip netns exec peer "$@"; }

# until_true SECONDS CMD...: waits for a condition, not for a time.
until_true() {
	local i tries=$(($1 * 10))
	shift
	for ((i = 0; i < tries; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	return 1
}

listening() { peer ss -Hltn "sport = :$1" | grep -q .; }

load_module() {
	local error ko=/build/module/vhost_net_rs.ko
	if [ "$MODULE" = c ]; then
		error=$(modprobe vhost max_mem_regions=128 2>&1 && modprobe vhost_net 2>&1)
	else
		# insmod alone does not load what the module links to.
		modinfo -F depends $ko | tr , '\n' | xargs -r modprobe -a
		error=$(insmod $ko max_mem_regions=128 2>&1)
	fi || { DETAIL=$error; return 1; }
	until_true 5 test -c /dev/vhost-net || { DETAIL="no /dev/vhost-net"; return 1; }
	DETAIL="max_mem_regions=128, node minor $((0x$(stat -c %T /dev/vhost-net)))"
}

# Prints name=value of all parameters; the C module's are spread over two modules.
parameters() {
	local file
	for file in /sys/module/{vhost_net_rs,vhost_net,vhost}/parameters/*; do
		[ ! -f "$file" ] || echo "$(basename "$file")=$(cat "$file")"
	done
}

show_parameters() {
	local all
	all=$(parameters)
	printf '       %s\n' "${all//$'\n'/$'\n'       }"
	DETAIL="$(echo "$all" | wc -l) in /sys/module/$NAME/parameters"
	grep -qx 'max_mem_regions=128' <<<"$all"
}

make_network() {
	local error
	error=$({
		modprobe -a tun bridge veth && ip netns add peer &&
			ip link add br0 type bridge && ip link set br0 up &&
			ip tuntap add tap0 mode tap vnet_hdr && ip link set tap0 master br0 up &&
			ip link add veth0 type veth peer name eth0 netns peer &&
			ip link set veth0 master br0 up &&
			peer ip addr add "$PEER_IP/24" dev eth0 && peer ip link set eth0 up
	} 2>&1) || { DETAIL=$error; return 1; }
	DETAIL="tap0 - br0 - veth0 - peer $PEER_IP"
}

boot_guest() {
	modprobe -a kvm_amd kvm_intel 2>/dev/null
	[ -e /dev/kvm ] || { DETAIL="no /dev/kvm in the VM"; return 1; }
	guest_start tap0 "/boot/vmlinuz-$(uname -r)" /build/guest.cpio
	guest_wait '@@ready' "$BOOT_SECONDS" || { DETAIL="no sign of life in $BOOT_SECONDS s"; return 1; }
	guest "ip addr add $GUEST_IP/24 dev eth0 && ip link set eth0 up" || { DETAIL=$GUEST_OUT; return 1; }
	DETAIL="QEMU pid $GUEST_PID, vhost=on, eth0 $GUEST_IP"
}

module_in_use() {
	local count fds
	count=$(cat "/sys/module/$NAME/refcnt")
	fds=$(find "/proc/$GUEST_PID/fd" -lname /dev/vhost-net | wc -l)
	DETAIL="refcnt $count, QEMU holds /dev/vhost-net"
	[ "$count" -ge 1 ] && [ "$fds" -ge 1 ] || return 1
	[ "$MODULE" = c ] || [ ! -e /sys/module/vhost_net ] || {
		DETAIL="the C module is loaded as well"
		return 1
	}
}

# A kthread, or a thread of QEMU's, depending on fork_from_owner_default.
worker_tid() { ps -eLo tid=,comm= | awk -v n="vhost-$GUEST_PID" '$2 == n { print $1; exit }'; }

worker_thread() {
	local tid parent
	tid=$(worker_tid)
	[ -n "$tid" ] || { DETAIL="no thread vhost-$GUEST_PID"; return 1; }
	parent=$(awk '/^Tgid/ { print $2 }' "/proc/$tid/status")
	DETAIL="vhost-$GUEST_PID, tid $tid, process $parent"
}

# bit N of the features the guest's driver took, which sysfs shows as a string, lowest bit first.
guest_offloads() {
	local bits bit missing='' feature
	guest 'cat /sys/class/net/eth0/device/features' || return 1
	bits=${GUEST_OUT//[^01]/}
	for feature in CSUM:0 GUEST_CSUM:1 GUEST_TSO4:7 HOST_TSO4:11 MRG_RXBUF:15; do
		bit=${feature#*:}
		[ "${bits:bit:1}" = 1 ] || missing+=" ${feature%:*}"
	done
	guest "ethtool -k eth0 | grep -E '^(tx-checksumming|tcp-segmentation-offload|generic-receive-offload): on'"
	printf '       guest: %s\n' "$(paste -sd, <<<"${GUEST_OUT%$'\n'}" | tr -d '\r' | sed 's/,/, /g')"
	DETAIL="CSUM, TSO4, MRG_RXBUF on"
	[ -z "$missing" ] || { DETAIL="missing:$missing"; return 1; }
	[ "$(grep -c ': on' <<<"$GUEST_OUT")" = 3 ] || { DETAIL="ethtool says some are off"; return 1; }
}

# Takes the statistics off ping's output; all of the packets must have come back.
ping_result() {
	DETAIL=$(grep -oE '[0-9]+ packets transmitted, [0-9]+ (packets )?received' <<<"$1" |
		sed -E 's/ packets transmitted, / sent, /; s/ (packets )?received/ back/' | tail -n 1)
	DETAIL+=$(grep -oE '= [0-9.]+/[0-9.]+' <<<"$1" | sed -E 's|= [0-9.]+/|, avg |; s/$/ ms/' | tail -n 1)
	grep -qE '(^|[^0-9])20 packets transmitted, 20 ' <<<"$1"
}

ping_from_guest() {
	guest "ping -c 20 -i 0.1 -w 30 $PEER_IP"
	ping_result "$GUEST_OUT"
}

ping_to_guest() {
	ping_result "$(peer ping -c 20 -i 0.1 -w 30 -s 1400 "$GUEST_IP" 2>&1)"
}

# iperf PORT [OPTION]: the guest is the client; the rate the receiver saw goes to DETAIL.
iperf() {
	local server rate
	peer iperf3 -s -1 -p "$1" >/run/iperf.log 2>&1 &
	server=$!
	until_true 10 listening "$1" || { DETAIL="iperf3 does not listen"; return 1; }
	GUEST_SECONDS=200 guest "iperf3 -c $PEER_IP -p $1 -t $TCP_SECONDS -f m ${2:-}" || {
		kill "$server"
		DETAIL=$(tail -n 1 <<<"${GUEST_OUT%$'\n'}")
		return 1
	}
	wait "$server"
	rate=$(awk '/receiver/ { for (i = 2; i <= NF; i++) if ($i ~ /bits\/sec/) print $(i - 1) }' <<<"$GUEST_OUT")
	DETAIL="$rate Mbit/s for $TCP_SECONDS s"
	awk -v r="${rate:-0}" 'BEGIN { exit !(r > 0) }'
}

tcp_from_guest() { iperf 5201; }
tcp_to_guest() { iperf 5202 -R; }

# Frames larger than the wire's 1514 bytes can only be whole TSO segments.
large_segments() {
	local stats=/sys/class/net/tap0/statistics out in
	out=$(($(cat $stats/rx_bytes) / $(cat $stats/rx_packets)))
	in=$(($(cat $stats/tx_bytes) / $(cat $stats/tx_packets)))
	DETAIL="bytes a frame: $out sent, $in received"
	[ $((out > in ? out : in)) -gt 1514 ]
}

make_file() { [ -s /run/pattern ] || dd if=/dev/urandom of=/run/pattern bs=1M count=$FILE_MIB status=none; }
sha() { sha256sum "$1" | cut -d' ' -f1; }

same_sum() {
	DETAIL="${1:0:16}.. at both ends"
	if [ -z "$1" ] || [ "$1" != "$2" ]; then
		DETAIL="sums differ: ${1:0:12} ${2:0:12}"
		return 1
	fi
}

file_to_guest() {
	make_file
	peer socat -u FILE:/run/pattern TCP-LISTEN:5203 &
	until_true 10 listening 5203
	guest "nc $PEER_IP 5203 </dev/null >/tmp/in" || { DETAIL=$GUEST_OUT; return 1; }
	guest "sha256sum /tmp/in | cut -d' ' -f1"
	same_sum "$(sha /run/pattern)" "${GUEST_OUT//[^0-9a-f]/}"
}

file_from_guest() {
	local listener sum
	guest "dd if=/dev/urandom of=/tmp/out bs=1M count=$FILE_MIB 2>/dev/null; sha256sum /tmp/out | cut -d' ' -f1"
	sum=${GUEST_OUT//[^0-9a-f]/}
	peer socat -u TCP-LISTEN:5204 CREATE:/run/from-guest &
	listener=$!
	until_true 10 listening 5204
	guest "nc $PEER_IP 5204 </tmp/out" || { DETAIL=$GUEST_OUT; return 1; }
	wait "$listener"
	same_sum "$sum" "$(sha /run/from-guest)"
}

worker_time() {
	local tid ticks
	tid=$(worker_tid)
	# Below task/, since /proc/TID/stat of a thread sums up its whole process.
	ticks=$(awk '{ print $14 + $15 }' "/proc/$tid/task/$tid/stat")
	DETAIL="$(awk -v t="$ticks" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.1f", t / hz }') s of CPU time"
	[ "$ticks" -gt 0 ]
}

unload_refused() {
	DETAIL="rmmod: module is in use"
	! rmmod "$NAME" 2>/run/rmmod.log && grep -q 'in use' /run/rmmod.log
}

stop_guest() {
	guest_stop 60 || { DETAIL="QEMU did not end well"; return 1; }
	GUEST_ENDED=$GUEST_PID GUEST_PID=
	DETAIL="QEMU exit code 0"
}

worker_gone() {
	DETAIL="vhost-$GUEST_ENDED ended with its owner"
	# shellcheck disable=SC2016 # for the inner shell
	until_true 10 sh -c '! ps -eLo comm= | grep -qx "vhost-$0"' "$GUEST_ENDED"
}

unload_module() {
	local error
	error=$(rmmod "$NAME" 2>&1) || { DETAIL=$error; return 1; }
	until_true 5 test ! -e /dev/vhost-net || { DETAIL="/dev/vhost-net is still there"; return 1; }
	DETAIL="$NAME and /dev/vhost-net are gone"
}

kernel_log() {
	local bad
	bad=$(dmesg | grep -E "$BAD_LOG")
	DETAIL="no WARN, BUG, Oops, hang or stall"
	[ -z "$bad" ] || { DETAIL=$(head -n 1 <<<"$bad"); return 1; }
}
