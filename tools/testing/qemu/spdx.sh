#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Every file of the tree says its licence in its first three lines. Prints those that do not.

cd "$(dirname "$0")/../../.." || exit 1
bad=0
while IFS= read -r -d '' file; do
	grep -Iq . "$file" || continue
	head -n 3 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0' && continue
	echo "$file: no SPDX-License-Identifier: GPL-2.0"
	bad=1
done < <(find . \( -name .git -o -name target -o -name build -o -name LICENSES \) -prune -o \
	-type f ! -name Cargo.lock ! -name COPYING ! -name '*.[oa]' ! -name '*.ko' ! -name '*.mod' \
	! -name '*.mod.c' ! -name '.*.cmd' ! -name '.*.d' ! -name modules.order ! -name Module.symvers \
	! -name '*_generated.rs' -print0)
exit $bad
