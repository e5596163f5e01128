#!/bin/bash
# Makes a tarball and a Debian package of a binary: dist/package.sh BINARY DIRECTORY [TARGET [RUNS]]
#
# TARGET: what the binary was built for, such as aarch64-unknown-linux-gnu; by default this machine. For another machine RUNS is a binary
# of the same commit for this one, which prints the completions and manual pages.
# `make dist` calls it with the release build. Both packages contain the binary, the settings, their schema, the unit, the
# completions, the manual pages, boards and alert rules, the documentation, the licences of everything that is linked in and an SBOM (inventory.py). The same commit,
# toolchain and checkout directory give the same bytes: times are those of the commit, or $SOURCE_DATE_EPOCH. Needs python3,
# binutils (which a C compiler needs as well) and, for the Debian package, dpkg-deb; without dpkg-deb there is only the tarball.
set -euo pipefail
umask 022

host=$(rustc -vV | sed -n 's/^host: //p')
target=${3:-$host}
# Debian's binutils for another machine have its name as a prefix.
tools=
if [ "${target%%-*}" != "${host%%-*}" ]; then tools=${target/-unknown/}-; fi
for tool in python3 "${tools}objdump" "${tools}strip" gzip; do
    command -v "$tool" >/dev/null || { echo "$tool is needed to make the packages" >&2; exit 1; }
done
binary=$(realpath "$1")
runs=$(realpath "${4:-$1}")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
case "$target" in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) architecture=${target%%-*} ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# put MODE TARGET: a file from standard input.
put() {
    mkdir -p "$(dirname "$2")"
    cat >"$2"
    chmod "$1" "$2"
}

# tree ROOT PREFIX ZSH: what both packages have below their prefix; where zsh looks for completions.
tree() {
    local prefix=$1$2 doc=$1$2/share/doc/turnpike
    put 755 "$prefix/bin/turnpike" <"$work/turnpike"
    put 644 "$prefix/share/bash-completion/completions/turnpike" <"$work/completions.bash"
    put 644 "$prefix/share/zsh/$3/_turnpike" <"$work/completions.zsh"
    put 644 "$prefix/share/fish/vendor_completions.d/turnpike.fish" <"$work/completions.fish"
    for page in "$work"/man/*.1; do gzip -9n <"$page" | put 644 "$prefix/share/man/man1/${page##*/}.gz"; done
    put 644 "$prefix/share/turnpike/turnpike.schema.json" <conf/turnpike.schema.json
    put 644 "$prefix/share/turnpike/monitoring/turnpike.rules.yml" <dist/monitoring/turnpike.rules.yml
    for file in dist/monitoring/grafana/*.json; do
        put 644 "$prefix/share/turnpike/monitoring/grafana/${file##*/}" <"$file"
    done
    put 644 "$prefix/lib/systemd/system/turnpike.service" <"$work/turnpike.service"
    put 644 "$prefix/lib/sysusers.d/turnpike.conf" <dist/sysusers.conf
    put 644 "$prefix/lib/tmpfiles.d/turnpike.conf" <dist/tmpfiles.conf
    put 644 "$doc/README.md" <README.md
    for file in docs/*.md docs/openapi.json; do put 644 "$doc/$file" <"$file"; done
    put 644 "$doc/LICENSE" <LICENSE
    gzip -9n <CHANGELOG.md | put 644 "$doc/changelog.gz"
    gzip -9n <"$work/licences.txt" | put 644 "$doc/third-party-licences.txt.gz"
    put 644 "$doc/turnpike.cdx.json" <"$work/sbom.json"
    if [ -e "$work/rust.html" ]; then gzip -9n <"$work/rust.html" | put 644 "$doc/rust-standard-library.html.gz"; fi
}

# The settings, which name their schema to editors where the package puts it.
settings() { sed "1s|=turnpike.schema.json|=$1/share/turnpike/turnpike.schema.json|" conf/turnpike.yaml; }

# The unit with the binary where the package puts it.
unit() { sed "s|/usr/local/bin/turnpike|$1/bin/turnpike|g" systemd/turnpike.service >"$work/turnpike.service"; }

# The lowest glibc that has every symbol the binary cannot do without (flag 0x02 marks those it can).
glibc() {
    "${tools}objdump" -p "$work/turnpike" | sed -n 's/^ *0x[0-9a-f]* 0x00 [0-9]* GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1
}

"${tools}strip" -o "$work/turnpike" "$binary"
"$runs" man --to "$work/man"
for shell in bash zsh fish; do "$runs" completions "$shell" >"$work/completions.$shell"; done
python3 dist/inventory.py "$target" "$work/sbom.json" "$work/licences.txt"
notices=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
if [ -e "$notices" ]; then cp "$notices" "$work/rust.html"; fi

# --- The tarball: to be unpacked into /usr/local ---------------------------------------------------------------------------------

name=turnpike-$version-linux-$architecture
unit /usr/local
tree "$work/$name" "" site-functions
settings /usr/local | put 644 "$work/$name/etc/turnpike/turnpike.yaml"
tar --create --directory "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$name" |
    gzip -n >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"

# The sums of what was made, and a signature of them if MINISIGN_KEY names a secret key of minisign.
sums() {
    (cd "$out" && sha256sum "$@" >SHA256SUMS)
    if [ -n "${MINISIGN_KEY:-}" ]; then minisign -S -s "$MINISIGN_KEY" -m "$out/SHA256SUMS" </dev/null; fi
    echo "$out/SHA256SUMS"
}

# --- The Debian package ----------------------------------------------------------------------------------------------------------

if ! command -v dpkg-deb >/dev/null; then
    echo "no Debian package: dpkg-deb is not installed" >&2
    sums "$name.tar.gz"
    exit 0
fi
root=$work/deb
unit /usr
tree "$root" /usr vendor-completions
settings /usr | put 644 "$root/etc/turnpike/turnpike.yaml"
put 644 "$root/usr/share/doc/turnpike/copyright" <<COPYRIGHT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: turnpike

Files: *
Copyright: the authors of Turnpike
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0.
 .
 The libraries that the binary contains, and their licences, are in third-party-licences.txt.gz in this directory; those of
 Rust's standard library in rust-standard-library.html.gz.
COPYRIGHT
for script in postinst prerm postrm; do put 755 "$root/DEBIAN/$script" <"dist/debian/$script"; done
echo /etc/turnpike/turnpike.yaml | put 644 "$root/DEBIAN/conffiles"
put 644 "$root/DEBIAN/control" <<CONTROL
Package: turnpike
Version: $version
Architecture: $architecture
Maintainer: The authors of Turnpike <turnpike@localhost>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= $(glibc)), libgcc-s1
Recommends: ca-certificates
Section: net
Priority: optional
Description: AI gateway on Pingora
 One HTTP endpoint in front of many model providers. Clients speak OpenAI's,
 Anthropic's or Google's API; the gateway chooses the provider, translates,
 retries, falls back and resumes broken streams.
CONTROL
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | sort | xargs -d '\n' md5sum) | put 644 "$root/DEBIAN/md5sums"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
deb=turnpike_${version}_$architecture.deb
dpkg-deb --build --root-owner-group "$root" "$out/$deb" >/dev/null
echo "$out/$deb"
sums "$name.tar.gz" "$deb"
