"""From the words on a command line, or the settings, to targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from llmvitals.cli.named_source import named
from llmvitals.cli.screen import progress, remark
from llmvitals.cli.wanted import live_targets, watched
from llmvitals.errors import UnreachableError
from llmvitals.exporters.watch import limits_of
from llmvitals.schema import Origin
from llmvitals.settings import Service, Settings, Source, Target
from llmvitals.sources.assemble import Feed, companions
from llmvitals.sources.live import watch
from llmvitals.sources.node import Machine
from llmvitals.sources.place import name_of
from llmvitals.sources.probe import Probed, probe
from llmvitals.sources.views import Placed, views
from llmvitals.telemetry.ingest import RawPage

LIVE_SECONDS = 60.0
STORED_SECONDS = 90.0
"""A Prometheus is asked for more: it often scrapes every 15 s, and a verdict needs five pages."""


@dataclass(frozen=True, slots=True)
class Span:
    """How long live targets are watched and how often they are asked, in seconds."""

    seconds: float
    interval: float


@dataclass(frozen=True, slots=True)
class Meant:
    """What the words of a command line mean: files and folders, exporters, and targets to be watched."""

    stored: tuple[Path, ...]
    exporters: tuple[Source, ...]
    live: tuple[Target, ...]


def meant(words: Sequence[str], settings: Settings) -> Meant:
    """Without a word, all targets of the settings. Raises :class:`SettingsError`, and :class:`click.UsageError` for nothing."""
    stored = [word for word in words if _exists(word)]
    names = {target.known_as for target in settings.targets} | {service.name for service in settings.services}
    asked = [one for word in words if word not in names and (one := named(word, settings, "exporter")) is not None]
    left = [word for word in words if word not in {*stored, *(one.name for one in asked)}]
    live = live_targets(left, settings) if left else ()
    if not words:
        live = settings.targets
        if not live:
            raise click.UsageError("Give a TARGET, --prometheus, or --settings with targets.")
    return Meant(tuple(map(Path, stored)), tuple(asked), live)


def _exists(word: str) -> bool:
    try:
        return Path(word).exists()
    except OSError:  # no file can have that name
        return False


@dataclass(frozen=True, slots=True)
class Looked:
    """What answered: the pages of engines and gateways that were watched, the ``services`` of them, and exporters."""

    feeds: tuple[Feed, ...]
    services: tuple[Service, ...]
    exporters: tuple[Source, ...]


def look(targets: Sequence[Target], span: Span, settings: Settings) -> Looked:
    """Watch targets for a span, a bar on stderr meanwhile; exporters among them have their window already.

    Raises :class:`SettingsError`, and as :func:`reachable`.
    """
    timeout = settings.exporter.timeout_seconds
    limits = limits_of(settings)
    probed = probe(targets, timeout_s=timeout, limits=limits)
    reachable(probed)
    if told := apart(probed, settings):
        remark(told)
    exporters = tuple(Source(name_of(one.target), one.target.url) for one in probed if one.exporter)
    engines = [one.target for one in probed if not one.exporter]
    if not engines:
        return Looked((), (), exporters)
    total = (int(span.seconds / span.interval + 1e-9) + 1) * len(companions(engines))
    with progress(f"watching for {span.seconds:g} s", total) as advance:

        def shown(target: Target, page: RawPage) -> None:
            advance(f"{name_of(target)}: {page.error or page.status}")

        feeds = watch(
            engines,
            seconds=span.seconds,
            interval=span.interval,
            timeout_s=timeout,
            on_page=shown,
            limits=limits,
            machine=Machine(settings.node),
        )
    return Looked(feeds, watched(engines, settings), exporters)


def reachable(probed: Sequence[Probed]) -> tuple[Target, ...]:
    """All targets, when at least one of them answers; one that is down is part of the answer for the others.

    Raises the error of the first target when none answers, and of any that answers with something else than a page.
    """
    errors = [one.error for one in probed if one.error is not None]
    for error in errors:
        if not isinstance(error, UnreachableError) or len(errors) == len(probed):
            raise error
    return tuple(one.target for one in probed)


def apart(probed: Sequence[Probed], settings: Settings) -> str:
    """What to say of gateways that stand beside engines and are joined to none of them, and how that is done; '' for none."""
    shown = [one for one in probed if not one.exporter and one.origin is not Origin.GPU]
    placed = [Placed(name_of(one.target), one.target.gateway, one.origin is Origin.GATEWAY) for one in shown]
    named = {one.gateway for one in placed if one.gateway}
    placed = [replace(one, in_front=one.in_front or one.name in named) for one in placed]
    found = views(placed, watched([one.target for one in shown], settings))
    alone = [one.name for one in placed if one.in_front and one.name not in found.joined]
    engines = [one.name for one in placed if not one.in_front]
    if not alone or not engines:
        return ""
    return (
        f"{', '.join(alone)}: a gateway that is joined to no engine, for which of {', '.join(engines)} stand behind it is "
        "not said. Say it under 'services' in a settings file, and give that with --settings."
    )
