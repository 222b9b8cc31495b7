#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# usage: apt-config.sh LOG FOLDER
#
# Writes into FOLDER what apt inside the root needs of this machine's configuration: sources.list
# with the machine's own archives, and apt.conf with its proxies, time-outs and date checks.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

log=$1
out=$2
mkdir -p "$out"

"$QEMU_DIR/mirrors.sh" >"$out/mirrors"
archive=$(sed -n 's/^archive //p' "$out/mirrors")
security=$(sed -n 's/^security //p' "$out/mirrors")
cat >"$out/sources.list" <<LIST
deb $archive $SUITE main
deb $archive $SUITE-backports main
deb $security $SUITE-security main
LIST

# Files the configuration names (a private CA, say) exist on the host only; the root has its bundle.
apt-config dump 2>>"$log" |
	grep -E '^Acquire::((https?|ftp)::.*|Retries|Check-Valid-Until|Check-Date|ForceIPv[46]) ' |
	grep -viE '::(CAInfo|Verify-|SslCert|SslKey|ProxyAutoDetect|Proxy-Auto-Detect)' >"$out/apt.conf" || true
echo 'Acquire::Languages "none";' >>"$out/apt.conf"
