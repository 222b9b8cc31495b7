#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Prints the two package archives this machine's own apt uses, so that none is written into the
# project: a line "archive URI" and a line "security URI".
#
# usage: mirrors.sh [FOLDER]	FOLDER stands in for /etc/apt
#
# MIRROR= and SECURITY_MIRROR= in the environment win over what apt says.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

apt_dir=${1:-/etc/apt}

# Prints "SUITE URI" for every pair of a one-line source file.
one_line() {
	sed -E 's/#.*//; s/\[[^]]*\]//' "$@" | awk '$1 == "deb" && NF >= 3 { print $3, $2 }'
}

# The same for deb822 files, whose fields may run over several lines.
deb822() {
	awk '
	function flush(  u, s, i, j, nu, ns) {
		if (types ~ /(^| )deb( |$)/ && tolower(enabled) !~ /no|false/) {
			nu = split(uris, u, " "); ns = split(suites, s, " ")
			for (i = 1; i <= ns; i++) for (j = 1; j <= nu; j++) print s[i], u[j]
		}
		types = uris = suites = enabled = field = ""
	}
	FNR == 1 { flush() }
	/^#/ { next }
	/^[ \t]*$/ { flush(); next }
	/^[^ \t]/ { field = tolower($1); sub(/:.*/, "", field); sub(/^[^:]*:/, "") }
	{
		if (field == "types") types = types " " $0
		if (field == "uris") uris = uris " " $0
		if (field == "suites") suites = suites " " $0
		if (field == "enabled") enabled = enabled $0
	}
	END { flush() }' "$@"
}

pairs() {
	local lists sources
	shopt -s nullglob
	lists=("$apt_dir"/sources.lis[t] "$apt_dir"/sources.list.d/*.list)
	sources=("$apt_dir"/sources.list.d/*.sources)
	[ ${#sources[@]} = 0 ] || deb822 "${sources[@]}"
	[ ${#lists[@]} = 0 ] || one_line "${lists[@]}"
}

# Cloud images name a file of mirrors; its first one will do.
resolve() {
	local uri=$1
	case $uri in
	mirror+file:*) grep -m1 -oE '^[a-z]+:[^[:space:]]+' "/${uri#mirror+file:*/}" || true ;;
	*) echo "$uri" ;;
	esac
}

# first_uri PATTERN: the URI of the first suite that matches.
first_uri() {
	local suite uri
	while read -r suite uri; do
		if [[ $suite =~ ^($1)/?$ ]]; then
			resolve "$uri"
			return
		fi
	done < <(pairs)
}

# No codename on a host that is not Debian: then only the suite we want can be meant.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
name="${codename:-$SUITE}|$SUITE|stable|oldstable"

archive=${MIRROR:-$(first_uri "$name")}
security=${SECURITY_MIRROR:-$(first_uri "($name)(-security|/updates)")}
[ -n "$archive" ] || die "no Debian archive found in $apt_dir" \
	"name one: make setup MIRROR=URI SECURITY_MIRROR=URI"
[ -n "$security" ] || die "no Debian security archive found in $apt_dir" \
	"name one: make setup SECURITY_MIRROR=URI"
echo "archive $archive"
echo "security $security"
