"""``llmvitals backtest``: what the alerts would have done over a past."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from llmvitals import settings as settings_file
from llmvitals.backtest.history import LESS, RETRIES, History
from llmvitals.backtest.replay import EVERY_SECONDS, Replay, grid
from llmvitals.backtest.shown import document, moment, sheets
from llmvitals.backtest.summary import Summary, summary
from llmvitals.cli import backtest_made, named_source, options
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import ENDPOINT
from llmvitals.cli.score import SEED, causes
from llmvitals.cli.screen import progress, remark
from llmvitals.cli.sheet import show_sheet
from llmvitals.errors import PageError
from llmvitals.lab.draw import LEVELS_OF_SEVERITY
from llmvitals.settings import Settings, seconds_of
from llmvitals.sources.access import NOBODY
from llmvitals.sources.promql_api import Endpoint
from llmvitals.sources.stored import RAW_NOTE


def when(text: str) -> float:
    """Unix seconds of ``--from`` and ``--to``: ISO 8601, unix seconds, or a duration before now like ``7d`` or ``90m``."""
    try:
        before = seconds_of(text.strip())
    except ValueError:
        return options.moment(text)
    return round(time.time() - before)


@dataclass(frozen=True, slots=True)
class _Range:
    """What is replayed: moments from ``start`` to ``end`` (unix seconds), ``every`` so many seconds."""

    start: float
    end: float
    every: float


@click.command(name="backtest")
@click.option("--prometheus", metavar=ENDPOINT, help="The PromQL endpoint whose history is replayed, or a source.")
@click.option(
    "--from",
    "start",
    type=when,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Where it begins: a moment or 7d.",
)
@click.option("--to", "end", type=when, show_default="now", metavar="TIME", help="Where it ends.")
@click.option("--selector", default="", metavar="'{...}'", help="Which series there, like '{namespace=\"chat\"}'.")
@click.option(
    "--every",
    type=duration,
    default=f"{EVERY_SECONDS:g}s",
    show_default=True,
    metavar="DURATION",
    help="Time between two verdicts: the evaluation interval of the rules.",
)
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file to try.")
@click.option("--noise", type=backtest_made.days, metavar="7d", help="Watch so many simulated days without any fault.")
@click.option("--lab", is_flag=True, help="Watch the lab's incidents, whose truth is known.")
@click.option("--seed", type=click.IntRange(min=0), default=SEED, show_default=True, help="Of --noise and --lab.")
@click.option("--causes", "wanted", type=causes, metavar="a,b", help="Of --lab: only these and their look-alikes.")
@click.option(
    "--size",
    type=click.FloatRange(min=0, min_open=True),
    default=0.25,
    show_default=True,
    help="Of --lab: times as many plays as a score of size 1 has.",
)
@click.option(
    "--severity",
    type=click.Choice(LEVELS_OF_SEVERITY),
    help="Of --lab: only faults that are so bad, without look-alikes and healthy ones.",
)
@click.option(
    "--report", "page", type=click.Path(path_type=Path), help="Of --noise and --lab: renew that part of docs/alerts.md."
)
@click.option("--jobs", type=click.IntRange(min=1), show_default="one per core", help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON only, on stdout.")
def command(
    *,
    prometheus: str | None,
    start: float,
    end: float | None,
    selector: str,
    every: float,
    settings_path: Path | None,
    noise: int | None,
    lab: bool,
    seed: int,
    wanted: tuple[str, ...] | None,
    size: float,
    severity: str | None,
    page: Path | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Replay a past: which alerts would have fired, which causes be named, how often, how soon.

    Every moment of the range is judged as a triage would have judged it then, and the alerts are asked over these verdicts. Needs
    the series of an exporter, or those of engines that Prometheus scrapes itself. Nothing is written anywhere.
    --noise and --lab replay simulated pasts instead, whose truth is known: docs/alerts.md says what came of it.
    """
    settings = settings_file.load(settings_path)
    if [prometheus is not None, noise is not None, lab].count(True) != 1:
        raise click.UsageError("Give one of --prometheus URL, --noise 7d and --lab.")
    _of_this_past("--prometheus" if prometheus is not None else "--lab" if lab else "--noise")
    if noise is not None:
        backtest_made.noise(noise, seed, every, settings, jobs, page, as_json=as_json)
        return
    if prometheus is None:
        backtest_made.lab(seed, wanted, size, severity or "", settings, jobs, page, as_json=as_json)
        return
    found = _history(prometheus, selector, _range(start, end, every), settings, jobs, quiet=as_json)
    if as_json:
        click.echo(json.dumps(document(found), indent=2))
        return
    for sheet in sheets(found):
        show_sheet(sheet)


_BELONGS: dict[str, tuple[str, ...]] = {
    "start": ("--prometheus",),
    "end": ("--prometheus",),
    "selector": ("--prometheus",),
    "every": ("--prometheus", "--noise"),
    "seed": ("--noise", "--lab"),
    "wanted": ("--lab",),
    "size": ("--lab",),
    "severity": ("--lab",),
    "page": ("--noise", "--lab"),
}
"""The options that only some pasts have."""


def _of_this_past(which: str) -> None:
    """Refuse an option that was given and belongs to another past: it would change nothing."""
    context = click.get_current_context()
    for param in context.command.params:
        owners = _BELONGS.get(param.name or "", (which,))
        if which not in owners and context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[0]} belongs to {' and '.join(owners)}.")


def _range(start: float, end: float | None, every: float) -> _Range:
    last = round(time.time()) if end is None else end
    if not start < last:
        raise click.UsageError(f"--from ({moment(start)}) is not before --to ({moment(last)}).")
    return _Range(start, last, every)


def _history(word: str, selector: str, asked: _Range, settings: Settings, jobs: int | None, *, quiet: bool) -> Summary:
    """What a PromQL endpoint holds, replayed."""
    moments = grid(asked.start, asked.end, asked.every)
    url, source = named_source.endpoint(word, settings)
    with (
        Endpoint(url, access=source.access if source else NOBODY, retries=RETRIES, less=LESS) as endpoint,
        progress("replaying", len(moments), of="moments", quiet=quiet) as advance,
        Replay(settings, on_step=lambda: advance(""), processes=jobs) as replay,
    ):
        history = History(endpoint, settings, start=asked.start, end=asked.end, selector=selector)
        if history.raw:
            remark(f"{endpoint.place}: {RAW_NOTE}")
        for piece in history.pieces():
            replay.feed(piece.observed, moments[bisect_right(moments, piece.begin) : bisect_right(moments, piece.end)])
        courses = replay.courses()
        named_source.not_whole(endpoint.place, endpoint.told)
    if not courses:
        raise PageError(
            f"holds no page of a server from {moment(asked.start)} to {moment(asked.end)}",
            place=endpoint.place,
            remedy="Check --from, --to and --selector, and how long it keeps samples.",
        )
    return summary(courses, settings, start=asked.start, end=moments[-1], every=asked.every, lacks=replay.lacks())
