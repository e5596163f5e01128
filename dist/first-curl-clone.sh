#!/bin/bash
# Prints how long a newcomer waits: from `make run` in a fresh clone until the first curl is answered.
#
#   dist/first-curl-clone.sh             with an empty registry, as after the installation of Rust: crates are downloaded
#   KEEP_REGISTRY=1 dist/first-curl-clone.sh   with the crates that this machine has already
#
# It clones the commit that is checked out, not the changes to it. Ports 8787, 8788 and 8790 must be free. Run it on an idle
# machine; it prints the load beside the time.
set -euo pipefail

repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
work=$(mktemp -d)
run=
stop() {
    # make, cargo and the gateway are a process group of their own.
    if [ -n "$run" ]; then kill -TERM -- "-$run" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap stop EXIT

if curl --silent --output /dev/null http://127.0.0.1:8787/livez; then
    echo "something answers on port 8787 already" >&2
    exit 1
fi
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR RUSTFLAGS CARGO_INCREMENTAL
if [ -z "${KEEP_REGISTRY:-}" ]; then
    old=${CARGO_HOME:-$HOME/.cargo}
    export PATH="$PATH:$old/bin" CARGO_HOME="$work/cargo"
    mkdir "$CARGO_HOME"
    # A mirror of the registry, if the machine has one.
    if [ -e "$old/config.toml" ]; then cp "$old/config.toml" "$CARGO_HOME"; fi
fi

load=$(cut -d' ' -f1 /proc/loadavg)
begin=$(date +%s%N)
tenths() { echo $((($(date +%s%N) - begin) / 100000000)) | sed 's/.$/.&/; s/^\./0./'; }

git clone --quiet "$repository" "$work/turnpike"
cloned=$(tenths)
setsid make -C "$work/turnpike" run >"$work/log" 2>&1 &
run=$!
compiling=
until answer=$(curl --silent --fail --max-time 2 http://127.0.0.1:8787/v1/chat/completions -H 'content-type: application/json' \
    -d '{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'); do
    if ! kill -0 "$run" 2>/dev/null; then
        tail -n 30 "$work/log" >&2
        exit 1
    fi
    if [ -z "$compiling" ] && grep -q '^ *Compiling' "$work/log"; then compiling=$(tenths); fi
    sleep 0.2
done
answered=$(tenths)
grep -q '"content"' <<<"$answer"

grep '^ *Finished' "$work/log" || true
echo "cloned after $cloned s, compiling after ${compiling:-0} s, first curl answered after $answered s"
echo "($(nproc) CPUs, load $load when it began)"
