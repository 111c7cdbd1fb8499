#!/bin/sh
# schemas.sh FOLDER [KUBERNETES] : writes the JSON Schemas of Grafana's dashboard and panel models into FOLDER, and those of the
# custom resources of Kubernetes that the manifests use into KUBERNETES, where that is given (tools/schemas).
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh
command -v npm >/dev/null 2>&1 || die "making the schemas needs Node.js (18 or later) with npm." "https://nodejs.org/"
for version in . 10; do
  mkdir -p "build/schemas/$version"
  cp "tools/schemas/$version/package.json" "build/schemas/$version/"
  npm install --prefix "build/schemas/$version" --no-package-lock --no-audit --no-fund --legacy-peer-deps --loglevel=error >&2
done
say "writing schemas into $1"
node tools/schemas/make.mjs build/schemas "$1"
if [ -n "${2:-}" ]; then
  scripts/venv.sh build/schemas/kubernetes tools/schemas/kubernetes.txt
  say "writing schemas into $2"
  build/schemas/kubernetes/bin/python tools/schemas/kubernetes.py "$2"
fi
