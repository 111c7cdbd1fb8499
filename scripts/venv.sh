#!/usr/bin/env bash
# venv.sh DIR REQUIREMENTS... : makes DIR a virtual environment with exactly those pins, once.
# The stamp holds a hash of everything the environment was made from: with the same hash there is nothing to do, with
# another one the environment is made anew, so that no leftover of an older pin can make a difference.
set -euo pipefail
here=$(dirname "$0")
. "$here/say.sh"
dir=$1
shift

wanted=$(cat "$@" "$here/venv.sh" | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$dir/.stamp" 2>/dev/null || true)" = "$wanted" ] && "$dir/bin/python" -c '' 2>/dev/null && exit 0

python=$("$here/python.sh")
rm -rf "$dir"
if command -v uv >/dev/null 2>&1; then
    say "making $dir with $("$python" -V) and uv"
    uv venv --quiet --no-project --python "$python" "$dir"
    for pins in "$@"; do set -- "$@" -r "$pins"; shift; done
    uv pip install --python "$dir/bin/python" "$@" >&2
else
    say "making $dir with $("$python" -V) and pip (a minute or two, this once)"
    "$python" -m venv "$dir"
    for pins in "$@"; do set -- "$@" -r "$pins"; shift; done
    # pip tells far more than anybody wants to read, or with --quiet nothing: one line a package is enough.
    "$dir/bin/python" -m pip install --disable-pip-version-check --no-input "$@" |
        sed -un -e 's/^Collecting \([^ ]*\).*/    \1/p' -e 's/^Installing collected packages.*/    installing them/p' >&2
fi
echo "$wanted" > "$dir/.stamp"
