#!/bin/sh
# Runs unmodified clients against a server of the scripted model. A developer's and CI's step: needs cargo, python3 and
# node, and fetches the clients from PyPI and npm into DIRECTORY (default: target/conformance) once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
directory=${1:-$root/target/conformance}
mkdir -p "$directory"
if [ ! -x "$directory/venv/bin/python" ]; then
    python3 -m venv "$directory/venv"
    "$directory/venv/bin/pip" install --quiet openai anthropic ollama litellm
fi
if [ ! -d "$directory/node_modules/openai" ]; then
    (cd "$directory" && npm install --silent --no-audit --no-fund openai ai @ai-sdk/openai-compatible zod)
fi
cd "$root"
cargo build --quiet -p doorbell-tests --example scripted_server
server=$root/target/debug/examples/scripted_server
"$directory/venv/bin/python" "$here/clients.py" "$server"
cp "$here/clients.mjs" "$directory/clients.mjs"
node "$directory/clients.mjs" "$server"
