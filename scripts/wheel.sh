#!/bin/sh
# wheel.sh DIR : builds the wheel into DIR with the pinned build tools of .venv-test.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh
say "building the wheel"
rm -rf "$1"
.venv-test/bin/python -m build --wheel --no-isolation --outdir "$1" . >&2
