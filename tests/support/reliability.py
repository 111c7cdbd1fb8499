"""The table of docs/reliability.md, printed by the tests that hold it.

A test takes the fixture ``reliability`` and says what it held, once it holds::

    def test_slow_headers(reliability):
        ...
        reliability(Part.SCRAPER, "headers that drip", "the connection ends, others are answered", "cut off after 10 s")

A row is known by its part and behaviour. After a run the rows that were said are compared with the table: a row that it
lacks or words otherwise fails the run, and so does one of a test file that ran whole and did not say it. Files that did not
run, or of which a test was left out, are not asked for theirs. With ``LLMVITALS_WRITE_RELIABILITY=1`` (``make reliability``)
the rows of the files that ran whole are written instead. Rows travel as properties of reports, so workers may run the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

PROPERTY = "reliability"
WRITE = "LLMVITALS_WRITE_RELIABILITY"
TABLE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN = "<!-- written by tests: make reliability -->"
END = "<!-- end of written part -->"
_HEAD = "| what happens | what must hold | what came of it | test |\n|---|---|---|---|\n"


class Part(StrEnum):
    """The tables of the page, in their order: who misbehaves, or what happens."""

    TARGET = "A target misbehaves"
    CHANGE = "A target changes under way"
    MANY = "Many of everything"
    SCRAPER = "Who asks the exporter misbehaves"
    SPANS = "A sender of traces misbehaves"
    SOURCE = "What the app or a triage asks misbehaves"
    PROCESS = "A process is stopped, told or killed"
    DISK = "There is no room to write"
    CLOCK = "The clock steps"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was done, what must hold, what came of it, and the file (from the root) of the test that did it."""

    part: str
    behaviour: str
    holds: str
    outcome: str
    file: str

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by."""
        return self.part, self.behaviour


Say = Callable[[Part, str, str, str], None]


def sayer(node: str, record: Callable[[str, object], None]) -> Say:
    """What the fixture gives: notes a row of the test ``node`` (its id) with ``record`` (pytest's ``record_property``)."""

    def say(part: Part, behaviour: str, holds: str, outcome: str) -> None:
        record(PROPERTY, json.dumps([Part(part).value, behaviour, holds, outcome, node.split("::", maxsplit=1)[0]]))

    return say


@dataclass(slots=True)
class Heard:
    """What the reports of a run say: rows, and files that ran. ``broken``: files of which a test did not pass."""

    rows: list[Row] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def note(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        file = report.nodeid.split("::")[0]
        self.files.add(file)
        if not report.passed:
            self.broken.add(file)
        elif report.when == "teardown":
            self.rows += [Row(*json.loads(str(value))) for name, value in report.user_properties if name == PROPERTY]

    def whole(self, *, narrowed: bool) -> set[str]:
        """The files all of whose tests ran and passed; none where the run was ``narrowed`` to some tests of a file."""
        return set() if narrowed else self.files - self.broken


def differences(said: Iterable[Row], table: Iterable[Row], whole: Iterable[str]) -> Iterator[str]:
    """What is wrong with the table after a run that said these rows and ran the ``whole`` files to their end."""
    said, known, whole = list(said), {row.key: row for row in table}, set(whole)
    by_key: dict[tuple[str, str], Row] = {}
    for row in said:
        if by_key.setdefault(row.key, row) != row:
            yield f"said twice, in different words: {row.part}: {row.behaviour}"
        elif row.key not in known:
            yield f"not in the table: {row.part}: {row.behaviour}"
        elif known[row.key] != row:
            yield f"otherwise in the table: {row.part}: {row.behaviour}: {known[row.key].outcome!r}, not {row.outcome!r}"
    for row in known.values():
        if row.file in whole and row.key not in by_key:
            yield f"in the table, but {row.file} no longer does it: {row.part}: {row.behaviour}"


def renewed(
    said: Sequence[Row], table: Sequence[Row], whole: Iterable[str], exists: Callable[[str], bool]
) -> list[Row]:
    """The table with the rows of the ``whole`` files as they were said; those of files that are gone go."""
    whole = set(whole)
    fresh = {row.key: row for row in said if row.file in whole}
    kept = [row for row in table if row.file not in whole and row.key not in fresh and exists(row.file)]
    parts = [part.value for part in Part]
    return sorted([*kept, *fresh.values()], key=lambda row: (parts.index(row.part), row.file))


def text(rows: Sequence[Row]) -> str:
    """The rows as the written part of the page."""
    found = []
    for part in Part:
        lines = [_line(row) for row in rows if row.part == part]
        if lines:
            found.append(f"## {part.value}\n\n{_HEAD}{''.join(lines)}")
    return "\n".join(found)


def rows_of(page: str) -> list[Row]:
    """The rows of the page's written part."""
    part, found = "", []
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith("## "):
            part = line[3:]
        elif line.startswith("| ") and not _HEAD.startswith(line):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.append(Row(part, *cells[:3], _file(cells[3])))
    return found


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with these rows in its written part."""
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n\n{text(rows)}\n{END}{after}"


def settle(heard: Heard, *, narrowed: bool, environment: Mapping[str, str], table: Path = TABLE) -> list[str]:
    """Compare with the table, or write it where the environment says so; gives what is wrong."""
    page = table.read_text(encoding="utf-8") if table.is_file() else ""
    known, whole = rows_of(page), heard.whole(narrowed=narrowed)
    if environment.get(WRITE):
        known = renewed(heard.rows, known, whole, lambda file: (TABLE.parents[1] / file).exists())
        table.write_text(written(page, known), encoding="utf-8")
    return list(differences(heard.rows, known, whole))


def _line(row: Row) -> str:
    *cells, file = (cell.replace("|", "\\|").replace("\n", " ") for cell in astuple(row)[1:])
    return f"| {' | '.join(cells)} | [{Path(file).stem.removeprefix('test_')}](../{file}) |\n"


def _file(cell: str) -> str:
    return cell.rpartition("(../")[2].removesuffix(")")
