#!/usr/bin/env bash
# record.sh DIR [LOAD.json...] : for each load (all of loads/ by default) starts a server with its flags, drives the load,
# and ends the server. Recordings go to DIR/recordings/; one that is there already is kept. PORT chooses the port, VENV an
# environment with a vLLM. With URL a server that runs already is driven instead, as it is: name loads that it suits. MODEL is
# its model there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?usage: record.sh DIR [LOAD.json...]}
shift
[ $# -gt 0 ] || set -- "$here"/loads/*.json
port=${PORT:-8000}
url=${URL:-http://127.0.0.1:$port}
url=${url%/}
model=${MODEL:-tiny-llama}
python=${VENV:-$dir/venv}/bin/python
ready_seconds=1200 # the first start makes the environment
mkdir -p "$dir/logs" "$dir/recordings"

server=
finish() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}
trap finish EXIT

ask() { curl --silent --fail --max-time 60 --output /dev/null "$@"; }

start() { # flags of the server, the log
    # shellcheck disable=SC2086  # flags are words
    [ -z "${URL:-}" ] || return 0
    "$here/serve.sh" "$dir" "$port" $1 > "$2" 2>&1 &
    server=$!
    for _ in $(seq "$ready_seconds"); do
        ask "$url/health" && return 0
        kill -0 "$server" 2>/dev/null || { echo "the server ended; see $2" >&2; return 1; }
        sleep 1
    done
    echo "the server was not ready within $ready_seconds s; see $2" >&2
    return 1
}

if [ -n "${URL:-}" ]; then
    ask "$url/health" || { echo "nothing answers at $url" >&2; exit 1; }
elif ask "$url/health"; then
    echo "something answers at $url already; choose another PORT" >&2
    exit 1
fi
for load in "$@"; do
    name=$(basename "$load" .json)
    if [ -e "$dir/recordings/$name" ]; then
        echo "kept: $name"
        continue
    fi
    flags=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("server_flags", ""))' "$load")
    start "$flags" "$dir/logs/$name.log"
    for _ in 1 2 3; do # the first requests of a server are slow, which is a cause of its own
        ask "$url/v1/completions" -H 'Content-Type: application/json' \
            -d "{\"model\": \"$model\", \"prompt\": \"def main\", \"max_tokens\": 16, \"ignore_eos\": true}"
    done
    "$python" "$here/load.py" "$load" -o "$dir/recordings/$name" --url "$url" --model "$model"
    finish
done
