"""``llmvitals backtest --noise`` and ``--lab``: the alerts over simulated pasts whose truth is known."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from llmvitals.backtest import healthy, incidents, report
from llmvitals.backtest.replay import EVERY_SECONDS
from llmvitals.backtest.summary import DAY_SECONDS
from llmvitals.backtest.week import week
from llmvitals.cli.score import renew
from llmvitals.cli.screen import progress
from llmvitals.cli.sheet import show_sheet
from llmvitals.lab.sheets import Sheet
from llmvitals.settings import Settings, seconds_of


def days(text: str) -> int:
    """Whole days, like ``7d``, for ``click.option(type=days)``."""
    try:
        found = seconds_of(text.strip()) / DAY_SECONDS
    except ValueError:
        found = 0.0
    if found < 1 or found % 1:
        raise click.BadParameter(f"'{text}' is no number of days; write it like 7d.")
    return int(found)


def noise(
    length: int, seed: int, every: float, settings: Settings, jobs: int | None, page: Path | None, *, as_json: bool
) -> None:
    """Watch healthy days, and show what the alerts said."""
    total = length * len(week(seed, length))
    with progress("watching", total, of="days", quiet=as_json) as advance:
        found = healthy.noise(seed, settings, days=length, every=every, processes=jobs, on_day=advance)
    words = {"noise": f"{length}d", "seed": seed} | ({"every": f"{every:g}s"} if every != EVERY_SECONDS else {})
    _tell(report.noise_sheets(found), report.noise_document(found), report.NOISE, words, page, as_json=as_json)


def lab(
    seed: int,
    causes: tuple[str, ...] | None,
    size: float,
    severity: str,
    settings: Settings,
    jobs: int | None,
    page: Path | None,
    *,
    as_json: bool,
) -> None:
    """Watch the lab's incidents, and show who was told when."""
    planned = incidents.planned(seed, causes, size, severity)
    if not planned:
        raise click.UsageError(f"No scenario injects {', '.join(causes or ())}.")
    with progress("watching", len(planned), of="plays", quiet=as_json) as advance:
        found = incidents.watch_all(planned, settings, processes=jobs, on_watched=advance)
    words: dict[str, Any] = {"lab": "", "seed": seed, "size": f"{size:g}"}
    words |= {"severity": severity} if severity else {}
    words |= {"causes": ",".join(causes)} if causes else {}
    _tell(report.lab_sheets(found), report.lab_document(found), report.LAB, words, page, as_json=as_json)


def _tell(
    sheets: Iterable[Sheet],
    document: dict[str, Any],
    part: str,
    words: dict[str, Any],
    page: Path | None,
    *,
    as_json: bool,
) -> None:
    given = [word for name, value in words.items() for word in (f"--{name}", str(value)) if word]
    command = shlex.join(["llmvitals", "backtest", *given])
    if page is not None:
        renew(page, {part: report.markdown(sheets, command)})
    if as_json:
        click.echo(json.dumps({"command": command, **document}, indent=2))
        return
    for sheet in sheets:
        show_sheet(sheet)
