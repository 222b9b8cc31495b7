#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fetches the stock kernel into the folder $1: image, modules, the headers' configuration, and the
# source. Part of its cache key.
#
# The packages come from the backports suite and are unpacked, never installed, so nothing else of
# that suite (a newer rustc, whose modules this kernel would refuse) can get into the root.

# shellcheck source=tools/testing/qemu/lib.sh
. "$(dirname "$0")/lib.sh"

out=$1
log=$LOGS/setup-kernel.log
: >"$log"

in_root() { "$QEMU_DIR/enter.sh" "$@"; }
in_apt() { in_root apt-get -o APT::Sandbox::User=root -o Dir::Etc::SourceParts=/none "$@"; }

update_lists() {
	"$QEMU_DIR/apt-config.sh" "$log" "$CACHE/apt"
	cp "$CACHE/apt/sources.list" "$ROOT/etc/apt/sources.list"
	cp "$CACHE/apt/apt.conf" "$ROOT/etc/apt/apt.conf.d/99host"
	rm -f "$ROOT"/etc/apt/sources.list.d/*
	run_logged "$log" in_apt update
}

# Prints "RELEASE VERSION" of the newest kernel that has image, headers and source of one version.
# An archive in the middle of an update may hold parts of two.
newest_kernel() {
	in_root sh -c "apt-cache madison linux-source-$SERIES |
		awk '{ print \$3 }' | sort -rV | uniq
		echo --
		apt-cache search --names-only '^linux-(image|headers)-$SERIES\\..*-amd64\$' |
		awk '{ print \$1 }' | xargs -r apt-cache madison" 2>>"$log" | awk '
		$1 == "--" { packages = 1; next }
		!packages { source[++n] = $1; next }
		$1 ~ /-(cloud|rt)-amd64$/ { next }
		{
			release = $1
			sub(/^linux-(image|headers)-/, "", release)
			kind[release, $3] = kind[release, $3] ($1 ~ /^linux-image/ ? "i" : "h")
			seen[release]
		}
		END {
			for (i = 1; i <= n; i++)
				for (r in seen)
					if (kind[r, source[i]] ~ /i/ && kind[r, source[i]] ~ /h/) {
						print r, source[i]
						exit
					}
		}'
}

# fetch FOLDER PACKAGE=VERSION...
fetch() {
	local dir=$1
	shift
	mkdir -p "$BUILD/$dir"
	# shellcheck disable=SC2016 # expanded inside
	run_logged "$log" in_root sh -c 'cd "/build/$0" && apt-get -o APT::Sandbox::User=root download "$@"' \
		"$dir" "$@"
}

# A kernel is cut into packages differently from series to series: take those that exist.
package_names() {
	local release=$1 version=$2 part
	for part in image binary modules base headers; do
		echo "linux-$part-$release"
	done | in_root xargs apt-cache madison 2>>"$log" |
		awk -v v="$version" '$3 == v { print $1 "=" v }' | sort -u
}

unpack() {
	local release=$1 deb image all=$BUILD/unpacked
	for deb in "$BUILD"/debs/*.deb; do
		run_logged "$log" in_root dpkg-deb -x "/build/debs/${deb##*/}" /build/unpacked
	done
	[ -e "$all/lib" ] || ln -s usr/lib "$all/lib"
	run_logged "$log" in_root depmod -b /build/unpacked "$release"
	mkdir -p "$out/boot" "$out/modules"
	for image in "$all/lib/modules/$release/vmlinuz" "$all/boot/vmlinuz-$release"; do
		[ ! -e "$image" ] || cp "$image" "$out/boot/vmlinuz-$release"
	done
	[ -e "$out/boot/vmlinuz-$release" ] ||
		die "the kernel packages hold no image" "the archive changed its layout: see $all"
	mv "$all/lib/modules/$release" "$out/modules/"
	cp "$all/usr/src/linux-headers-$release"/{.config,Module.symvers} "$out/"
	cp "$all/usr/src/linux-source-$SERIES.tar.xz" "$out/linux-source.tar.xz"
	rm -rf "$all" "$BUILD/debs"
}

say "kernel: reading the archive's package lists"
update_lists
read -r release version < <(newest_kernel) ||
	die "the archive has no $SERIES kernel whose image, headers and source agree" \
		"it may be in the middle of an update: try again later; if it has left the series, name an
       older archive with MIRROR=, or the new series in $QEMU_DIR/lib.sh"
say "kernel: fetching linux $release ($version)"
rm -rf "$BUILD/debs" "$BUILD/unpacked"
mapfile -t names < <(package_names "$release" "$version")
fetch debs "${names[@]}" "linux-source-$SERIES=$version"
say "kernel: unpacking ${#names[@]} packages and the source"
unpack "$release"
echo "$version" >"$out/version"
echo "$release" >"$out/release"
