#!/bin/sh
# Runs unmodified clients, schemathesis, Chromium and coding agents against a server of the scripted model, and clients against `doorbell serve` with a real one if
# models/smollm2.gguf is there. Needs cargo and python3, for the clients of JavaScript node 18 and npm. The clients
# come once from PyPI and npm into DIRECTORY (default: target/conformance). What can't be had is skipped with a
# word; with nothing left to run the exit status is 77.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
directory=${1:-$root/target/conformance}
mkdir -p "$directory"
cd "$directory"
skip() { echo "skipped: $1"; }

python=$directory/venv/bin/python
if ! cmp -s "$here/requirements.txt" requirements.done; then
    if ! python3 -m venv venv; then
        skip "no python3 with venv here"
        python=
    elif ! timeout 300 venv/bin/pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"; then
        skip "the Python clients can't be had from PyPI"
        python=
    else
        cp "$here/requirements.txt" requirements.done
    fi
fi
javascript=yes
if ! command -v npm >/dev/null; then
    skip "no npm here for the clients of JavaScript"
    javascript=
elif ! cmp -s "$here/package.json" package.done; then
    cp "$here/package.json" package.json
    if timeout 300 npm install --silent --no-audit --no-fund; then
        cp "$here/package.json" package.done
    else
        skip "the clients of JavaScript can't be had from npm"
        javascript=
    fi
fi
# apart from the clients, because they take 1.3 GB
agents=
mkdir -p agents
if [ -z "$javascript" ]; then
    skip "no npm here for the coding agents"
elif cmp -s "$here/agents/package.json" agents/package.done; then
    agents=yes
else
    cp "$here/agents/package.json" agents/package.json
    # their scripts would only copy the programs
    if (cd agents && timeout 300 npm install --silent --no-audit --no-fund --ignore-scripts); then
        cp "$here/agents/package.json" agents/package.done
        agents=yes
    else
        skip "the coding agents can't be had from npm"
    fi
fi
[ -n "$python$javascript" ] || exit 77

cd "$root"
# all packages, as for tests: other features would build most of them once more
cargo build --quiet --workspace --bin doorbell --example scripted_server
server=$root/target/debug/examples/scripted_server
if [ -n "$python" ]; then
    "$python" "$here/clients.py" "$server"
    "$python" "$here/fuzz.py" "$server"
fi
if [ -n "$javascript" ]; then
    cp "$here/clients.mjs" "$directory/clients.mjs"
    node "$directory/clients.mjs" "$server"
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
    if [ -n "$chromium" ]; then
        cp "$here/page.mjs" "$directory/page.mjs"
        node "$directory/page.mjs" "$server" "$chromium"
    else
        skip "no chromium here for the chat page"
    fi
fi
if [ -n "$agents" ]; then
    node "$here/agents/agents.mjs" "$server" "$directory/agents"
fi
model=$root/models/smollm2.gguf
if [ -n "$python" ] && [ -f "$model" ]; then
    if [ -n "$javascript" ]; then
        cp "$here/model.mjs" "$directory/model.mjs"
        "$python" "$here/model.py" "$root/target/debug/doorbell" "$model" "$directory"
    else
        "$python" "$here/model.py" "$root/target/debug/doorbell" "$model"
    fi
else
    skip "no Python clients, or no models/smollm2.gguf: \`cargo xtask model smollm2\` fetches it"
fi
