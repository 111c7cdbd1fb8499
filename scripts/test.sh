#!/bin/sh
# test.sh [PYTEST ARGUMENTS] : builds the wheel, installs it beside the pinned tools, and tests that, not the tree.
set -eu
cd "$(dirname "$0")/.."
. scripts/say.sh

scripts/debian.sh
scripts/venv.sh .venv-test requirements/run.txt requirements/build.txt requirements/test.txt
scripts/wheel.sh build/wheel

wheel=$(ls "$PWD"/build/wheel/*.whl)
pip() { .venv-test/bin/python -m pip --disable-pip-version-check "$@" >&2; }
pip install --quiet --no-input --no-deps --no-index --force-reinstall "$wheel"
pip check

say "running the tests on $(basename "$wheel")"
# Nothing of the checkout may stand in for the wheel, and no cache may make two runs differ.
unset PYTHONPATH
LLMVITALS_TEST_WHEEL=$wheel exec .venv-test/bin/pytest -p no:cacheprovider -n "${WORKERS:-2}" --dist loadfile "$@"
