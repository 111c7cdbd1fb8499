"""``llmvitals backtest --noise`` and ``--lab``: the alerts over simulated pasts whose truth is known."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from llmvitals.backtest import report
from llmvitals.cli.screen import progress
from llmvitals.cli.sheet import show_sheet
from llmvitals.errors import SettingsError
from llmvitals.lab.report import renewed
from llmvitals.lab.sheets import Sheet
from llmvitals.settings import Settings, seconds_of

DAY = 86_400.0


def days(text: str) -> int:
    """Whole days, like ``7d``, for ``click.option(type=days)``."""
    try:
        found = seconds_of(text.strip()) / DAY
    except ValueError:
        found = 0.0
    if found < 1 or found % 1:
        raise click.BadParameter(f"'{text}' is no number of days; write it like 7d.")
    return int(found)


def noise(
    length: int, seed: int, every: float, settings: Settings, jobs: int | None, page: Path | None, *, as_json: bool
) -> None:
    """Watch healthy days, and show what the alerts said."""
    from llmvitals.backtest import healthy  # noqa: PLC0415 - a replay of a user's own past needs no simulator

    total = length * len(healthy.week(seed, length))
    with progress("watching", total, of="days", quiet=as_json) as advance:
        found = healthy.noise(seed, settings, days=length, every=every, processes=jobs, on_day=advance)
    words = {"noise": f"{length}d", "seed": seed} | ({"every": f"{every:g}s"} if every != healthy.EVERY_SECONDS else {})
    _tell(report.noise_sheets(found), report.noise_document(found), report.NOISE, words, page, as_json=as_json)


def lab(
    seed: int,
    causes: tuple[str, ...] | None,
    size: float,
    settings: Settings,
    jobs: int | None,
    page: Path | None,
    *,
    as_json: bool,
) -> None:
    """Watch the lab's incidents, and show who was told when."""
    from llmvitals.backtest import incidents  # noqa: PLC0415 - a replay of a user's own past needs no simulator

    planned = incidents.planned(seed, causes, size)
    if not planned:
        raise click.UsageError(f"No scenario injects {', '.join(causes or ())}.")
    with progress("watching", len(planned), of="plays", quiet=as_json) as advance:
        found = incidents.watch_all(planned, settings, processes=jobs, on_watched=advance)
    words: dict[str, Any] = {"lab": "", "seed": seed, "size": f"{size:g}"}
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
        _renew(page, part, report.markdown(sheets, command))
    if as_json:
        click.echo(json.dumps({"command": command, **document}, indent=2))
        return
    for sheet in sheets:
        show_sheet(sheet)


def _renew(page: Path, part: str, block: str) -> None:
    try:
        text = renewed(page.read_text(encoding="utf-8"), block, place=str(page), part=part)
        page.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot be renewed ({error})", place=str(page), remedy="Check the page.") from None
    click.echo(f"renewed: {page}", err=True)
