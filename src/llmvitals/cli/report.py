"""``llmvitals report``: an incident as a folder and a zip file: what it was, what speaks for it, and a recording to replay it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import endpoint
from llmvitals.cli.options import judging
from llmvitals.cli.targets import LIVE_SECONDS, STORED_SECONDS, Span, look, meant
from llmvitals.cli.triage import settings_of
from llmvitals.incident.gather import Gathered, from_exporter, from_feeds, from_path, from_prometheus
from llmvitals.incident.model import About
from llmvitals.incident.package import make
from llmvitals.settings import Settings, Source


@click.command(name="report")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write, a new one.")
@click.option("--from", "recorded", type=click.Path(path_type=Path), metavar="CAPTURE", help="A recording, or a page.")
@click.option(
    "--for",
    "seconds",
    type=duration,
    metavar="DURATION",
    show_default="60s live; 90s from Prometheus",
    help="How long to watch, or how much to judge.",
)
@click.option(
    "--interval", type=duration, default="3s", show_default=True, metavar="DURATION", help="Time between two pages."
)
@click.option("--note", default="", metavar="TEXT", help="What is known besides: it stands under the verdict.")
@click.option("--anonymise", is_flag=True, help="Aliases for hosts, pods, instances, models and tenants.")
@judging
def command(
    *,
    targets: tuple[str, ...],
    output: Path,
    recorded: Path | None,
    seconds: float | None,
    interval: float,
    note: str,
    anonymise: bool,
    settings_path: Path | None,
    slo_ttft: float | None,
    slo_tpot: float | None,
    prometheus: str | None,
    selector: str,
    at: float | None,
) -> None:
    """Write an incident's report: Markdown, HTML, the verdict, and the recording that anyone can replay.

    TARGETs are those of 'llmvitals triage': engines that are watched, or one exporter, or one recording. Secrets are taken out
    of everything that is written.
    """
    settings = settings_of(settings_path, slo_ttft, slo_tpot)
    ways = [bool(targets), recorded is not None, prometheus is not None]
    if sum(ways) > 1:
        raise click.UsageError("Give TARGETs, --from or --prometheus, one of them.")
    if prometheus is None and (selector or at is not None):
        raise click.UsageError("--selector and --at need --prometheus.")
    if recorded is not None:
        found = from_path(recorded, settings)
    elif prometheus is not None:
        url, source = endpoint(prometheus, settings)
        span = seconds or STORED_SECONDS
        end = time.time() if at is None else at
        found = from_prometheus(source or _source(url), end, span, settings, selector=selector)
    else:
        found = _of_targets(targets, Span(seconds or LIVE_SECONDS, interval), settings)
    if settings_path is not None or slo_ttft is not None or slo_tpot is not None:
        found = found.judged_by(settings)
    about = About(
        origin=found.origin,
        made=time.time(),
        note=note,
        scope=found.scope,
        notes=found.notes,
        anonymised=anonymise,
        past=found.past,
    )
    made = make(found.recording, settings, about, output)
    click.echo(made.incident.main.sentence)
    click.echo(f"{made.folder / 'report.html'} is the report, {made.zip} all of it with the recording.")


def _source(url: str) -> Source:
    return Source(name=url, url=url, kind="prometheus")


def _of_targets(words: Sequence[str], span: Span, settings: Settings) -> Gathered:
    given = meant(words, settings)
    if len(given.stored) + len(given.exporters) + bool(given.live) > 1:
        raise click.UsageError("A report is of one recording, of one exporter, or of servers that are watched.")
    if given.stored:
        return from_path(given.stored[0], settings)
    if given.exporters:
        return from_exporter(given.exporters[0], settings)
    looked = look(given.live, span, settings)
    if len(looked.exporters) + bool(looked.feeds) > 1:
        raise click.UsageError("A report is of one exporter, or of servers that are watched.")
    if looked.exporters:
        return from_exporter(looked.exporters[0], settings)
    return from_feeds(looked.feeds, looked.services, span.seconds)
