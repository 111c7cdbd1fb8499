"""``llmvitals triage``: from any source to the verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import endpoint, not_whole
from llmvitals.cli.options import judging
from llmvitals.cli.screen import remark, show
from llmvitals.cli.targets import LIVE_SECONDS, STORED_SECONDS, Span, look, meant
from llmvitals.errors import PageError
from llmvitals.exporters.watch import limits_of
from llmvitals.settings import Settings, Source
from llmvitals.signals.window import scopes
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.assemble import is_gpu_only, joined, observed
from llmvitals.sources.capture import INDEX, judged_by, read_capture
from llmvitals.sources.exporter import read_triage, triage_url
from llmvitals.sources.page_file import read_page_file
from llmvitals.sources.place import base_url, fronts, name_of, without_secrets
from llmvitals.sources.stored import RAW_NOTE, read_stored
from llmvitals.triage.document import decode
from llmvitals.triage.printed import report
from llmvitals.triage.report import document, scope_of, services_first, worst
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import diagnose

LEFT_OUT = (
    "shows GPUs, but not which engine runs on them, and is left out. "
    "Say it with 'engine' in capture.json, or with 'gpu_url' in the settings."
)

EXIT_CODES: dict[Outcome, int] = {
    Outcome.CAUSE: 1,
    Outcome.UNDETERMINED: 2,
    Outcome.SHEDDING: 0,
    Outcome.HEALTHY: 0,
    Outcome.NO_TRAFFIC: 0,
}


@click.command(name="triage")
@click.argument("targets", nargs=-1, metavar="TARGET...")
@click.option(
    "--for",
    "seconds",
    type=duration,
    metavar="DURATION",
    show_default="60s live; 90s from Prometheus",
    help="How long to watch, or how much to read.",
)
@click.option(
    "--interval", type=duration, default="3s", show_default=True, metavar="DURATION", help="Time between two pages."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON only, on stdout.")
@judging
def command(
    *,
    targets: tuple[str, ...],
    seconds: float | None,
    interval: float,
    as_json: bool,
    settings_path: Path | None,
    slo_ttft: float | None,
    slo_tpot: float | None,
    prometheus: str | None,
    selector: str,
    at: float | None,
) -> None:
    """Name the cause of slowness, and the setting to change.

    A TARGET is the URL of an engine, of a gateway or of an llmvitals exporter, a saved metrics page, a capture folder, or the
    name of a target, a service or a source (an exporter) in the settings. One gateway beside one engine is taken to stand in
    front of it. Exit codes: 0 healthy, no traffic or shedding; 1 a cause leads; 2 undetermined; 3 bad input.
    """
    settings = settings_of(settings_path, slo_ttft, slo_tpot)
    if prometheus is not None:
        if targets:
            raise click.UsageError("Give either TARGETs or --prometheus, not both.")
        span = seconds or STORED_SECONDS
        names = tuple(map(name_of, settings.targets))
        url, source = endpoint(prometheus, settings)
        stored = read_stored(
            url,
            selector=selector,
            at=at,
            seconds=span,
            limits=limits_of(settings),
            instances=names,
            access=source.access if source else NOBODY,
            pages=0 if seconds else settings.thresholds.min_pages,
        )
        if stored.note:
            remark(f"{without_secrets(base_url(url))}: {stored.note}")
        if stored.raw:
            remark(f"{without_secrets(base_url(url))}: {RAW_NOTE}")
        not_whole(without_secrets(base_url(url)), stored.told)
        verdicts = _judged(joined(stored.observed, settings.services, fronts(settings.targets)), settings)
    elif selector or at is not None:
        raise click.UsageError("--selector and --at need --prometheus.")
    else:
        own = settings_path is not None or slo_ttft is not None or slo_tpot is not None
        verdicts = _of_targets(targets, Span(seconds or LIVE_SECONDS, interval), settings, as_recorded=not own)
    ordered = worst(verdicts)
    if as_json:
        click.echo(json.dumps(document(ordered), indent=2))
    else:
        for number, verdict in enumerate(services_first(ordered)):
            show(report(verdict, steps=number == 0))
    click.get_current_context().exit(EXIT_CODES[ordered[0].outcome])


def settings_of(path: Path | None, ttft: float | None, tpot: float | None) -> Settings:
    """The settings file, with what was promised for this run (seconds)."""
    settings = settings_file.load(path)
    given = {"ttft_seconds": ttft, "tpot_seconds": tpot}
    slo = structs.replace(settings.slo, **{key: value for key, value in given.items() if value is not None})
    return structs.replace(settings, slo=slo)


def _of_targets(words: Sequence[str], span: Span, settings: Settings, *, as_recorded: bool) -> list[Verdict]:
    found = meant(words, settings)
    verdicts = [v for path in found.stored for v in _stored(path, settings, as_recorded=as_recorded)]
    verdicts += [v for one in found.exporters for v in _exported(one)]
    if not found.live:
        return verdicts
    looked = look(found.live, span, settings)
    verdicts += [v for one in looked.exporters for v in _exported(one)]
    if not looked.feeds:
        return verdicts
    return verdicts + _judged(observed(looked.feeds, limits_of(settings), looked.services), settings)


def _stored(path: Path, settings: Settings, *, as_recorded: bool) -> list[Verdict]:
    """The verdicts on a file or a folder. ``as_recorded``: by the promises and thresholds that the recording says, if it does."""
    limits = limits_of(settings)
    if not (path.is_dir() or path.name == INDEX):
        return _judged((read_page_file(path, limits=limits),), settings)
    told = judged_by(path)
    own = told.settings(settings) if told is not None and as_recorded else settings
    return _judged(read_capture(path, limits=limits, services=settings.services), own)


def _exported(source: Source) -> list[Verdict]:
    place = without_secrets(triage_url(source.url))
    found = read_triage(source.url, source.access)
    targets = found.get("targets")
    several = targets if isinstance(targets, list) else []
    listed = [one["detail"] for one in several if isinstance(one, dict) and "detail" in one]
    return [decode(one, place=place) for one in listed or [found]]


def _judged(seen: Sequence[Observed], settings: Settings) -> list[Verdict]:
    engines = [one for one in seen if not is_gpu_only(one)]
    if not engines:
        raise PageError(
            "shows GPUs, but no engine to judge",
            place=", ".join(one.name for one in seen),
            remedy="Give the engine's URL; the settings join a GPU page to it (targets: gpu_url).",
        )
    for one in seen:
        if one not in engines:
            remark(f"{one.name}: {LEFT_OUT}")
    return settled(
        [
            diagnose(window, settings, scope=scope_of(instance, model, one.engines))
            for one in engines
            for (instance, model), window in scopes(one.snapshots).items()
        ]
    )
