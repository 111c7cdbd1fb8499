#!/bin/sh
# schemas.sh FOLDER : writes the JSON Schemas of Grafana's dashboard and panel models into FOLDER (tools/schemas).
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh
command -v npm >/dev/null 2>&1 || die "making the schemas needs Node.js (18 or later) with npm." "https://nodejs.org/"
mkdir -p build/schemas
cp tools/schemas/package.json build/schemas/
npm install --prefix build/schemas --no-package-lock --no-audit --no-fund --loglevel=error >&2
say "writing schemas into $1"
node tools/schemas/make.mjs build/schemas "$1"
