#!/bin/sh
# Writes requirements/*.txt anew from pyproject.toml and requirements/*.in: exact versions for every supported Python,
# no hashes and no index addresses, so that any mirror serves them.
set -eu
. "$(dirname "$0")/say.sh"
command -v uv >/dev/null 2>&1 || die "making pins needs uv on the PATH." "pip install uv"
compile() {
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url --no-annotate \
        --custom-compile-command "make pins" "$@"
}
compile pyproject.toml --extra all -o requirements/run.txt
# What the image installs, of the same versions: all that it runs, and the exporter alone (exporters/Dockerfile).
compile pyproject.toml --extra app --extra kubernetes --extra otel -c requirements/run.txt -o requirements/image.txt
compile pyproject.toml --extra kubernetes --extra otel -c requirements/run.txt -o requirements/exporter.txt
compile requirements/build.in -c requirements/run.txt -o requirements/build.txt
compile requirements/test.in -c requirements/run.txt -c requirements/build.txt -o requirements/test.txt
