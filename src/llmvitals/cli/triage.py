"""``llmvitals triage``: from any source to the verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import structs

from llmvitals import settings as settings_file
from llmvitals.cli.duration import duration
from llmvitals.cli.named_source import ENDPOINT, endpoint, named, not_whole
from llmvitals.cli.screen import progress, remark, show
from llmvitals.cli.targets import apart, live_targets, reachable, watched
from llmvitals.errors import PageError
from llmvitals.exporters.watch import limits_of
from llmvitals.settings import Access, Settings, Target
from llmvitals.signals.window import scopes
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.assemble import companions, is_gpu_only, joined
from llmvitals.sources.capture import INDEX, read_capture
from llmvitals.sources.exporter import read_triage, triage_url
from llmvitals.sources.live import observe
from llmvitals.sources.node import Machine
from llmvitals.sources.page_file import read_page_file
from llmvitals.sources.place import base_url, fronts, name_of, without_secrets
from llmvitals.sources.probe import probe
from llmvitals.sources.stored import RAW_NOTE, read_stored
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.document import decode
from llmvitals.triage.report import document, report, scope_of, services_first, worst
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import diagnose

LIVE_SECONDS = 60.0
STORED_SECONDS = 90.0
"""A Prometheus is asked for more: it often scrapes every 15 s, and a verdict needs five pages."""

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


@dataclass(frozen=True, slots=True)
class _Span:
    """How long live targets are watched and how often they are asked, in seconds."""

    seconds: float
    interval: float


def moment(text: str) -> float:
    """Unix seconds of ``--at``: unix seconds, or ISO 8601 (UTC unless it says otherwise)."""
    try:
        given = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(given):
            raise click.BadParameter(f"'{text}' is no moment; write 2026-01-31T12:00:00Z or unix seconds.")
        return given
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is no moment; write 2026-01-31T12:00:00Z or unix seconds.") from None
    return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()


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
@click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file.")
@click.option("--slo-ttft", type=duration, metavar="DURATION", help="Promised time to first token, like 2s.")
@click.option("--slo-tpot", type=duration, metavar="DURATION", help="Promised time per output token, like 50ms.")
@click.option(
    "--prometheus",
    metavar=ENDPOINT,
    help="Read from a PromQL endpoint, or a source of the settings, instead of TARGETs.",
)
@click.option("--selector", default="", metavar="'{...}'", help="Which series there, like '{namespace=\"chat\"}'.")
@click.option("--at", type=moment, metavar="TIME", help="The moment to look at there; now by default.")
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
    settings = _settings(settings_path, slo_ttft, slo_tpot)
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
        )
        if stored.raw:
            remark(f"{without_secrets(base_url(url))}: {RAW_NOTE}")
        not_whole(without_secrets(base_url(url)), stored.told)
        verdicts = _judged(joined(stored.observed, settings.services, fronts(settings.targets)), settings)
    elif selector or at is not None:
        raise click.UsageError("--selector and --at need --prometheus.")
    else:
        verdicts = _of_targets(targets, _Span(seconds or LIVE_SECONDS, interval), settings)
    ordered = worst(verdicts)
    if as_json:
        click.echo(json.dumps(document(ordered), indent=2))
    else:
        for number, verdict in enumerate(services_first(ordered)):
            show(report(verdict, steps=number == 0))
    click.get_current_context().exit(EXIT_CODES[ordered[0].outcome])


def _settings(path: Path | None, ttft: float | None, tpot: float | None) -> Settings:
    settings = settings_file.load(path)
    given = {"ttft_seconds": ttft, "tpot_seconds": tpot}
    slo = structs.replace(settings.slo, **{key: value for key, value in given.items() if value is not None})
    return structs.replace(settings, slo=slo)


def _of_targets(words: Sequence[str], span: _Span, settings: Settings) -> list[Verdict]:
    stored = [word for word in words if _exists(word)]
    names = {target.known_as for target in settings.targets} | {service.name for service in settings.services}
    asked = [one for word in words if word not in names and (one := named(word, settings, "exporter")) is not None]
    left = [word for word in words if word not in {*stored, *(one.name for one in asked)}]
    live = live_targets(left, settings) if left else ()
    if not words:
        live = settings.targets
        if not live:
            raise click.UsageError("Give a TARGET, --prometheus, or --settings with targets.")
    verdicts = [v for word in stored for v in _judged(_stored(Path(word), settings), settings)]
    verdicts += [v for one in asked for v in _exported(one.url, one.access)]
    return verdicts + (_live(live, span, settings) if live else [])


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except OSError:  # no file can have that name
        return False


def _stored(path: Path, settings: Settings) -> tuple[Observed, ...]:
    limits = limits_of(settings)
    if path.is_dir() or path.name == INDEX:
        return read_capture(path, limits=limits, services=settings.services)
    return (read_page_file(path, limits=limits),)


def _live(targets: Sequence[Target], span: _Span, settings: Settings) -> list[Verdict]:
    timeout = settings.exporter.timeout_seconds
    limits = limits_of(settings)
    probed = probe(targets, timeout_s=timeout, limits=limits)
    reachable(probed)
    if told := apart(probed, settings):
        remark(told)
    verdicts = [v for one in probed if one.exporter for v in _exported(one.target.url)]
    engines = [one.target for one in probed if not one.exporter]
    if not engines:
        return verdicts
    total = (int(span.seconds / span.interval + 1e-9) + 1) * len(companions(engines))
    with progress(f"watching for {span.seconds:g} s", total) as advance:

        def shown(target: Target, page: RawPage) -> None:
            advance(f"{name_of(target)}: {page.error or page.status}")

        observed = observe(
            engines,
            seconds=span.seconds,
            interval=span.interval,
            timeout_s=timeout,
            on_page=shown,
            limits=limits,
            services=watched(engines, settings),
            machine=Machine(settings.node),
        )
    return verdicts + _judged(observed, settings)


def _exported(url: str, access: Access = NOBODY) -> list[Verdict]:
    place = without_secrets(triage_url(url))
    found = read_triage(url, access)
    targets = found.get("targets")
    several = targets if isinstance(targets, list) else []
    listed = [one["detail"] for one in several if isinstance(one, dict) and "detail" in one]
    return [decode(one, place=place) for one in listed or [found]]


def _judged(observed: Sequence[Observed], settings: Settings) -> list[Verdict]:
    engines = [one for one in observed if not is_gpu_only(one)]
    if not engines:
        raise PageError(
            "shows GPUs, but no engine to judge",
            place=", ".join(one.name for one in observed),
            remedy="Give the engine's URL; the settings join a GPU page to it (targets: gpu_url).",
        )
    for one in observed:
        if one not in engines:
            remark(f"{one.name}: {LEFT_OUT}")
    return settled(
        [
            diagnose(window, settings, scope=scope_of(instance, model, one.engines))
            for one in engines
            for (instance, model), window in scopes(one.snapshots).items()
        ]
    )
