"""The page on security: every row names tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "security.md"
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")

ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]


def test_there_are_rows():
    assert len(ROWS) > 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[2].strip()[:40])
def test_a_row_says_who_what_and_why_not_and_names_tests_that_exist(row):
    *_, could, stops, proof = [cell.strip() for cell in row.strip("|").split("|")]
    assert could
    assert stops
    named = NAMED.findall(proof)
    assert named
    assert NAMED.sub("", proof).strip(" ,") == ""
    for file, test in named:
        (path,) = TESTS.rglob(file)
        assert f"def {test}(" in path.read_text(encoding="utf-8"), f"{file}::{test}"


def test_it_is_one_page():
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 70
