#!/bin/sh
# editable.sh DIR : lets the environment DIR run this checkout, so that an edit counts at once.
set -eu
here=$(dirname "$0")
. "$here/say.sh"
dir=$1
wanted=$(cat pyproject.toml "$dir/.stamp" "$here/editable.sh" | sha256sum | cut -d ' ' -f 1)
[ "$(cat "$dir/.stamp-project" 2>/dev/null || true)" = "$wanted" ] && exit 0
say "installing this checkout into $dir"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --no-deps --no-index --no-build-isolation --editable . >&2
echo "$wanted" > "$dir/.stamp-project"
