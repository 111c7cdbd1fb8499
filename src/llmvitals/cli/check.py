"""``llmvitals engines --check``: one page against the support matrix, printed."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from llmvitals.cli.screen import show
from llmvitals.errors import LlmvitalsError
from llmvitals.sources.page_file import contents
from llmvitals.sources.place import is_url, without_secrets
from llmvitals.telemetry.ingest import Fetcher, page_url
from llmvitals.telemetry.ingest.check import FamilyState, PageReport, check
from llmvitals.telemetry.ingest.recorded import recorded

EXIT_MAPPED, EXIT_PARTLY, EXIT_REFUSED = 0, 2, 3
TIMEOUT_SECONDS = 10.0
_SHOWN = 3  # samples of a family in the table
_SOURCES = 2  # series that a family may come from, in the table
_ROWS = 200  # rows of a list, beyond which its length has to do


def run(target: str, *, kind: str, as_json: bool) -> int:
    """Check a live or saved page, print the report, and give the exit code."""
    report = _checked(target, kind)
    if as_json:
        click.echo(json.dumps(report.document(), indent=2, allow_nan=False))
    else:
        _print(report)
    if report.refused:
        return EXIT_REFUSED
    return EXIT_MAPPED if report.whole else EXIT_PARTLY


def _checked(target: str, kind: str) -> PageReport:
    if not is_url(target):
        return _saved(Path(target), kind)
    try:
        url = page_url(target, kind)
    except LlmvitalsError as error:
        return PageReport("", "", "", str(error))
    return check(Fetcher().fetch(url, timeout_s=TIMEOUT_SECONDS), place=without_secrets(url), kind=kind)


def _saved(file: Path, kind: str) -> PageReport:
    try:
        content, t = contents(file)
    except LlmvitalsError as error:
        return PageReport("", "", "", " ".join(str(error).split()))
    page = recorded(content, t, lambda name: _beside(file, name))
    return check(page, place=str(file), kind=kind)


def _beside(file: Path, name: str) -> bytes | None:
    try:
        return contents(file.parent / name)[0]
    except LlmvitalsError:
        return None


def _print(report: PageReport) -> None:
    if report.refused:
        click.echo(report.refused, err=True)
    else:
        show(Text(_headline(report)))
        states = [_row(family) for family in report.families]
        show(_table(("Family", "How", "Source series", "Samples", "Why"), states), whole=True)
    lists: tuple[tuple[str, list[tuple[str, ...]]], ...] = (
        ("Known and unused", [(unused.name, unused.why) for unused in report.known_unused]),
        ("Unknown to this version of llmvitals", [(name,) for name in report.unknown]),
        ("Warnings", [(w.family, f"line {w.line}" if w.line else "", w.what) for w in report.warnings]),
    )
    for title, rows in lists:
        if rows:
            show(Text(f"\n{title} ({len(rows)})"))
            show(_table((), rows[:_ROWS]), whole=True)
        if len(rows) > _ROWS:
            show(Text(f"... and {len(rows) - _ROWS} more: --json lists all"))


def _headline(report: PageReport) -> str:
    states = [family.state for family in report.families]
    counts = ", ".join(f"{states.count(s)} {s}" for s in ("mapped", "derived", "missing", "unsupported"))
    return f"{report.title} ({report.kind}, {report.format}): {counts}\n"


def _row(family: FamilyState) -> tuple[str, ...]:
    return (family.family, family.state, _sources(family.source), _values(family), family.why)


def _sources(text: str) -> str:
    """The first of many: a family that came under a dozen names would make every row as wide as all of them."""
    names = text.split(", ")
    more = f" and {len(names) - _SOURCES} more" if len(names) > _SOURCES else ""
    return ", ".join(names[:_SOURCES]) + more


def _values(family: FamilyState) -> str:
    values = [f"{sample.value:g}" for sample in family.samples]
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(head))
    for title in head or rows[0]:
        table.add_column(title if head else "", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
