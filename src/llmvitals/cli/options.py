"""Options that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llmvitals.app.choices import seconds_of
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import ENDPOINT

Function = Callable[..., Any]


def moment(text: str) -> float:
    """Unix seconds of ``--at``: unix seconds, or ISO 8601 (UTC unless it says otherwise)."""
    found = seconds_of(text)
    if found is None:
        raise click.BadParameter(f"'{text}' is no moment; write 2026-01-31T12:00:00Z or unix seconds.")
    return found


_JUDGING: tuple[Callable[[Function], Function], ...] = (
    click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file."),
    click.option("--slo-ttft", type=duration, metavar="DURATION", help="Promised time to first token, like 2s."),
    click.option("--slo-tpot", type=duration, metavar="DURATION", help="Promised time per output token, like 50ms."),
    click.option(
        "--prometheus",
        metavar=ENDPOINT,
        help="Read from a PromQL endpoint, or a source of the settings, instead of TARGETs.",
    ),
    click.option("--selector", default="", metavar="'{...}'", help="Which series there, like '{namespace=\"chat\"}'."),
    click.option("--at", type=moment, metavar="TIME", help="The moment to look at there; now by default."),
)
"""By which settings and promises is judged, and where it is read from if not from targets; in the order of the help."""


def judging(command: Function) -> Function:
    """Give a command these options."""
    for option in reversed(_JUDGING):
        command = option(command)
    return command
