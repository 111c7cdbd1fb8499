#!/bin/sh
# Prints a Python >= 3.11 that can make virtual environments, or says the one line that brings it.
# PYTHON=/path/to/python chooses one by hand.
set -eu
. "$(dirname "$0")/say.sh"

usable() { # a pyenv shim exists for versions that are not switched on, so running it is the only proof
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
can_make_venvs() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

found=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    usable "$candidate" || continue
    found=${found:-$candidate}
    if can_make_venvs "$candidate" || command -v uv >/dev/null 2>&1; then
        found=$candidate
        break
    fi
done

[ -n "$found" ] || die "no Python >= 3.11 here (looked for ${PYTHON:-python3, python3.13, python3.12, python3.11})." \
    "$(apt_line python3 python3-venv)"

if ! command -v uv >/dev/null 2>&1 && ! can_make_venvs "$found"; then
    package="python$("$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    apt_install "$package" || true
    can_make_venvs "$found" || die "$found cannot make virtual environments (Debian ships that part as $package)." \
        "$(apt_line "$package")"
fi
"$found" -c 'import sys; print(sys.executable)'
