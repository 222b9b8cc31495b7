#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the vhost selftests on the in-tree module and, if one is given, on ours,
# in one boot. To be run as root inside a test VM.
#
#   KO=vhost_net_rs.ko ./run.sh [-i c|rs] [-t TOPIC]... [-f] [part of a test name]...
#
#   KO      our module; without it only the C module is tested
#   -i      only this module
#   -t      only this topic: ioctl, traffic, chains, lifecycle
#   -f      full counts (100,000 frames, 1,000 rounds) instead of the quick ones
#
# Exit: 0 all passed, 1 something failed or the kernel log is not clean,
# 2 nothing could be run.

here=$(cd "$(dirname "$0")" && pwd)
bin=${OUT:-$here/build}
node=vhost-net-rs
impls=""
topics=""
ours_loaded=""

die() {
	echo "run.sh: $*" >&2
	exit 2
}

while getopts "i:t:fh" opt; do
	case $opt in
	i) impls="$impls $OPTARG" ;;
	t) topics="$topics $OPTARG" ;;
	f) export VHOST_FRAMES=100000 VHOST_ROUNDS=1000 VHOST_PATIENCE=10 ;;
	*) sed -n '3,18s/^# \{0,1\}//p' "$0"; exit 2 ;;
	esac
done
shift $((OPTIND - 1))

for i in $impls; do
	case $i in c | rs) ;; *) die "-i $i: say c or rs" ;; esac
done
[ -n "$impls" ] || impls="c${KO:+ rs}"
[ -n "$topics" ] || topics="ioctl traffic chains lifecycle"
[ "$(id -u)" = 0 ] || die "needs root; run it inside the test VM"
for t in $topics; do
	[ -x "$bin/vhost_$t" ] || die "$bin/vhost_$t is missing: run make -C $here first"
done

load_modules() {
	local m

	for m in tun tap macvtap veth bridge sch_tbf; do
		modprobe -q "$m" || echo "# no module $m; its tests may skip or fail"
	done
	case $impls in *c*)
		modprobe vhost_net || die "cannot load the in-tree vhost_net: modprobe vhost_net"
	esac
	case $impls in *rs*)
		[ -f "${KO:-}" ] || die "no module file '${KO:-}': set KO to vhost_net_rs.ko"
		KO=$(realpath "$KO")
		if ! grep -q '^vhost_net_rs ' /proc/modules; then
			insmod "$KO" "name=$node" || die "cannot load $KO: see dmesg"
			ours_loaded=1
		fi
	esac
}

unload_ours() {
	[ -z "$ours_loaded" ] || rmmod vhost_net_rs || {
		echo "# vhost_net_rs cannot be unloaded: something still holds its node"
		return 1
	}
}

setup_impl() {
	export VHOST_IMPL=$1
	if [ "$1" = rs ]; then
		export VHOST_NODE=/dev/$node VHOST_KMOD=vhost_net_rs
		export VHOST_KO=$KO VHOST_KO_ARGS="name=$node"
	else
		export VHOST_NODE=/dev/vhost-net VHOST_KMOD=vhost_net
		export VHOST_KO="" VHOST_KO_ARGS=""
	fi
	[ -c "$VHOST_NODE" ] || die "$VHOST_NODE is not there although the module is loaded"
}

# Passes KTAP of one program on with numbers that run through, and counts.
renumber() {
	awk -v start="$1" -v counts="$2" '
	/^(ok|not ok) [0-9]+ / {
		bad = $1 == "not"
		sub(/^(ok|not ok) [0-9]+ /, "")
		start++
		print (bad ? "not ok " : "ok ") start " " $0
		if (bad) failed++
		else if (/ # SKIP /) skipped++
		else passed++
		fflush()
		next
	}
	/^(KTAP|TAP|1\.\.)/ { next }
	{ print; fflush() }
	END { print passed + 0, skipped + 0, failed + 0 > counts }'
}

count_tests() {
	local n=0 t i name want

	for i in $impls; do
		for t in $topics; do
			for name in $("$bin/vhost_$t" -l); do
				[ $# -gt 0 ] || n=$((n + 1))
				for want in "$@"; do
					case $name in *"$want"*) n=$((n + 1)); break ;; esac
				done
			done
		done
	done
	echo $n
}

# The log since the mark; all of it if the mark has been overwritten.
log_since() {
	if dmesg | grep -q "$1"; then
		dmesg | sed "0,/$1/d"
	else
		dmesg
	fi
}

# Lines that a healthy kernel does not print.
bad_lines='WARNING:|BUG:|Oops|general protection|Call Trace|KASAN|refcount_t'
bad_lines="$bad_lines|hung task|blocked for more than|soft lockup|rcu.*(stall|detected)"
bad_lines="$bad_lines|waiting for .* to become free|kmemleak: [1-9]"

# Shows them; false if there are none.
check_log() {
	log_since "$1" | grep -E "$bad_lines"
}

main() {
	local mark total nr=0 passed=0 skipped=0 failed=0 counts p s f t i

	load_modules
	mark="vhost-selftest-start-$$-$RANDOM"
	echo "$mark" > /dev/kmsg
	total=$(count_tests "$@")
	echo "TAP version 14"
	echo "1..$total"
	counts=$(mktemp)
	for i in $impls; do
		setup_impl "$i"
		for t in $topics; do
			echo "# $i: $t"
			: > "$counts"
			"$bin/vhost_$t" "$@" 2>&1 | renumber $nr "$counts"
			read -r p s f < "$counts"
			nr=$((nr + p + s + f))
			passed=$((passed + p)) skipped=$((skipped + s)) failed=$((failed + f))
		done
	done
	rm -f "$counts"
	unload_ours || failed=$((failed + 1))
	echo "# passed $passed, skipped $skipped, failed $failed, of $total in ${SECONDS} s"
	if check_log "$mark"; then
		echo "# the kernel log is not clean (lines above)"
		exit 1
	fi
	[ $nr = "$total" ] || { echo "# $((total - nr)) tests did not report"; exit 1; }
	[ "$passed" -gt 0 ] || { echo "# nothing ran"; exit 2; }
	[ "$failed" = 0 ] || exit 1
}

main "$@"
