#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demo's part inside the VM: loads the module, runs a KVM guest's network through it, unloads it.
#
# usage: demo-vm.sh rust|c [color]

set -uo pipefail
here=$(dirname "$0")
# shellcheck source=tools/testing/qemu/guest.sh
. "$here/guest.sh"
# shellcheck source=tools/testing/qemu/demo-steps.sh
. "$here/demo-steps.sh"

MODULE=$1
if [ "${2:-}" = color ]; then
	GREEN=$'\e[32m' RED=$'\e[31m' BOLD=$'\e[1m' PLAIN=$'\e[0m'
else
	GREEN='' RED='' BOLD='' PLAIN=''
fi
ROWS=()
FAILED=0

row() { ROWS+=("$1|$2|$3"); }

# step LABEL FUNCTION: the function says in DETAIL what it saw.
step() {
	local label=$1 begin=$SECONDS
	DETAIL=''
	if "$2"; then
		printf '%s  ok  %s %-29s %s (%ss)\n' "$GREEN" "$PLAIN" "$label" "$DETAIL" $((SECONDS - begin))
		row ok "$label" "$DETAIL"
		return 0
	fi
	printf '%s FAIL %s %-29s %s\n' "$RED" "$PLAIN" "$label" "$DETAIL"
	row FAIL "$label" "$DETAIL"
	FAILED=$((FAILED + 1))
	return 1
}

# Everything behind a step that the rest stands on is not worth a try.
must() { step "$@" || finish; }

rule() { printf '%s%s%s\n' "$1" "$(printf '─%.0s' $(seq 78))" "$2"; }

table() {
	local entry state label detail color
	rule '┌' '┐'
	printf '│ %s%-76s%s │\n' "$BOLD" "A KVM guest's network through $NAME, Linux $(uname -r)" "$PLAIN"
	rule '├' '┤'
	for entry in "${ROWS[@]}"; do
		IFS='|' read -r state label detail <<<"$entry"
		[ "$state" = ok ] && color=$GREEN || color=$RED
		printf '│ %s%-4s%s %-29s %-41.41s │\n' "$color" "$state" "$PLAIN" "$label" "$detail"
	done
	rule '└' '┘'
}

show_logs() {
	echo "--- guest console"
	tail -n 20 "$GUEST_DIR/console" 2>/dev/null
	echo "--- QEMU"
	tail -n 5 "$GUEST_DIR/qemu.log" 2>/dev/null
	echo "--- kernel log"
	dmesg | tail -n 30
}

finish() {
	if [ -n "$GUEST_PID" ]; then kill "$GUEST_PID" 2>/dev/null; fi
	[ "$FAILED" = 0 ] || show_logs
	echo
	table
	[ "$FAILED" = 0 ]
	exit
}

case $MODULE in
rust) NAME=vhost_net_rs ;;
c) NAME=vhost_net ;;
*) echo "usage: demo-vm.sh rust|c" >&2; exit 2 ;;
esac

must "load the module" load_module
must "parameters" show_parameters
must "tap, bridge, peer namespace" make_network
must "KVM guest boots" boot_guest
step "module is in use" module_in_use
step "worker thread" worker_thread
step "guest offloads" guest_offloads
must "ping guest to peer" ping_from_guest
step "ping peer to guest" ping_to_guest
step "TCP guest to peer" tcp_from_guest
step "TCP peer to guest" tcp_to_guest
step "segments stay whole (TSO)" large_segments
step "8 MiB guest to peer, SHA-256" file_from_guest
step "8 MiB peer to guest, SHA-256" file_to_guest
step "worker did the work" worker_time
step "unload refused while in use" unload_refused
must "guest shuts down cleanly" stop_guest
step "worker thread is gone" worker_gone
step "unload the module" unload_module
step "kernel log" kernel_log
finish
