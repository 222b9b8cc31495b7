#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module and the kselftests and runs them in the VM, on the C module first. Prints KTAP.
#
# usage: kselftest.sh [ARGUMENTS OF run.sh]	MODULE=c leaves our module out, FULL=1 takes the full counts

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

need_root
"$QEMU_DIR/setup.sh" --quiet
ko=
if [ "${MODULE:-rust}" = rust ]; then
	run_logged "$LOGS/build.log" "$QEMU_DIR/build.sh"
	ko=/build/module/vhost_net_rs.ko
fi
run_logged "$LOGS/build-selftests.log" user_make \
	-C tools/testing/selftests/vhost OUT=/build/selftests
if [ -n "${FULL:-}" ]; then set -- -f "$@"; fi
exec "$QEMU_DIR/vm.sh" kselftest "${KSELFTEST_SECONDS:-3600}" \
	env KO=$ko OUT=/build/selftests /project/tools/testing/selftests/vhost/run.sh "$@"
