#!/bin/bash
# Prints how long an operator waits: from the installation of a package until the first curl is answered.
#
#   dist/first-curl-package.sh target/dist/turnpike_0.2.0_amd64.deb        (as root: installs it, and purges it afterwards)
#   dist/first-curl-package.sh target/dist/turnpike-0.2.0-linux-amd64.tar.gz      (unpacks it into a directory of its own)
#
# Where systemd runs, the Debian package has started the service; elsewhere the binary is started by hand, with the settings of the
# package. Ports 8787, 8788 and 8790 must be free, and no turnpike installed.
set -euo pipefail

package=$(realpath "$1")
work=$(mktemp -d)
run=
installed=
stop() {
    # It drains for a moment.
    if [ -n "$run" ]; then kill -TERM "$run" 2>/dev/null && wait "$run" || true; fi
    if [ -n "$installed" ]; then dpkg --purge turnpike >/dev/null; fi
    rm -rf "$work"
}
trap stop EXIT

if curl --silent --output /dev/null http://127.0.0.1:8787/livez || [ -e /etc/turnpike ]; then
    echo "something answers on port 8787 already, or a turnpike is installed" >&2
    exit 1
fi
begin=$(date +%s%N)
case "$package" in
    *.deb)
        installed=yes
        PATH="$PATH:/usr/sbin:/sbin" dpkg --install "$package" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
        binary=/usr/bin/turnpike settings=/etc/turnpike/turnpike.yaml
        ;;
    *)
        tar -xf "$package" -C "$work" --strip-components=1
        binary=$work/bin/turnpike settings=$work/etc/turnpike/turnpike.yaml
        ;;
esac
if [ -z "$installed" ] || [ ! -d /run/systemd/system ]; then
    "$binary" run -c "$settings" >"$work/out" 2>&1 &
    run=$!
fi
until answer=$(curl --silent --fail --max-time 2 http://127.0.0.1:8787/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'); do
    if [ -n "$run" ] && ! kill -0 "$run" 2>/dev/null; then
        cat "$work/out" >&2
        exit 1
    fi
    sleep 0.05
done
end=$(date +%s%N)
grep -q '"content"' <<<"$answer"
echo "first curl answered $(((end - begin) / 1000000)) ms after the installation began"
