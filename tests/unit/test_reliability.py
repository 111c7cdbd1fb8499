"""The table of docs/reliability.md: what a run is held to, and what is written of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.reliability import BEGIN, END, Part, Row, differences, renewed, rows_of, text, written

A = Row(Part.TARGET, "drip", "cut off", "down: too slow", "tests/chaos/test_a.py")
B = Row(Part.TARGET, "reset | or worse", "the page stands", "down", "tests/chaos/test_b.py")
EMPTY = f"# Head\n\n{BEGIN}\n\n{END}\n\ntail\n"
CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


def test_what_is_written_is_what_is_read():
    page = written(EMPTY, [A, B])
    assert rows_of(page) == [A, B]
    assert written(page, rows_of(page)) == page
    assert (page.startswith("# Head"), page.endswith("tail\n")) == (True, True)
    assert rows_of(written(page, [])) == []


def test_parts_come_in_their_order():
    late = Row(Part.CLOCK, "back", "x", "y", "tests/chaos/test_a.py")
    assert [row.part for row in renewed([late, A], [], {A.file}, lambda _: True)] == [Part.TARGET, Part.CLOCK]
    assert text([A, late]).index("## A target misbehaves") < text([A, late]).index("## The clock steps")


@pytest.mark.parametrize(
    ("said", "table", "whole", "wrong"),
    [
        ([A], [A, B], {A.file}, []),
        ([A], [A], set(), []),
        ([], [A], set(), []),
        ([], [A], {A.file}, ["in the table, but"]),
        ([A], [], set(), ["not in the table"]),
        ([A], [Row(*A.key, A.holds, "up", A.file)], {A.file}, ["otherwise in the table"]),
        ([A, Row(*A.key, A.holds, "up", A.file)], [A], set(), ["said twice"]),
        ([A, A], [A], {A.file}, []),
    ],
)
def test_a_run_is_held_against_the_rows_of_what_ran(said, table, whole, wrong):
    found = list(differences(said, table, whole))
    assert len(found) == len(wrong)
    assert all(one.startswith(start) for one, start in zip(found, wrong, strict=True))


def test_only_files_that_ran_whole_are_written_anew():
    other = Row(Part.TARGET, "drip slowly", "cut off", "down", A.file)
    gone = Row(Part.TARGET, "gone", "x", "y", "tests/chaos/test_gone.py")
    assert renewed([other, B], [A, B, gone], {A.file}, lambda file: file != gone.file) == [other, B]
    assert renewed([other], [A], set(), lambda _: True) == [A]


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")])
def test_a_run_of_pytest_fails_by_its_rows(tmp_path, workers):
    """The hooks themselves: a table that lacks a row fails a green run; a narrowed run is not asked for the others."""
    row = '    reliability("A target misbehaves", "{0}", "h", "o")\n'
    body = "def test_{0}(reliability):\n" + row
    (tmp_path / "test_rows.py").write_text("\n".join(body.format(name) for name in ("one", "two")))
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(CONFTEST.parent)!r})\nfrom pathlib import Path\n"
        "from support import reliability as it\n"
        f"it.settle.__kwdefaults__['table'] = Path({str(tmp_path / 'page.md')!r})\n"
        f"exec(compile(open({str(CONFTEST)!r}).read(), {str(CONFTEST)!r}, 'exec'))\n"
    )
    page = tmp_path / "page.md"

    def run(*more, **environment):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, *more, str(tmp_path)]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "LLMVITALS_"))}
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=tmp_path, env=env | environment, timeout=60, check=False
        )
        return done.returncode, done.stdout + done.stderr

    page.write_text(EMPTY)
    code, out = run()
    assert (code, "not in the table: A target misbehaves: one" in out) == (1, True), out
    assert run(LLMVITALS_WRITE_RELIABILITY="1")[0] == 0
    assert [row.behaviour for row in rows_of(page.read_text())] == ["one", "two"]
    if workers:
        return
    (tmp_path / "test_rows.py").write_text(body.format("one"))
    assert run("-k", "one")[0] == 0
    code, out = run()
    assert (code, "no longer does it: A target misbehaves: two" in out) == (1, True), out
