"""Answers from a PromQL endpoint: stored samples become windows again, and the same walk judges them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from llmvitals.app.answer import Key, Member
from llmvitals.errors import PageError
from llmvitals.series import Labels, Window
from llmvitals.settings import Service, Settings, Source
from llmvitals.signals.window import scopes
from llmvitals.sources import Observed
from llmvitals.sources.assemble import is_gpu_only, joined
from llmvitals.sources.place import fronts, name_of
from llmvitals.sources.stored import Found, read_stored
from llmvitals.triage.report import scope_of, worst
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose

INSTANCE_LABELS = ("instance", "exported_instance")
"""Where a Prometheus that scrapes our exporter keeps our ``instance``: with or without ``honor_labels``."""


def observed(
    source: Source, end: float, seconds: float, settings: Settings, *, only: str = "", place: Labels = ()
) -> tuple[Observed, ...]:
    """What is stored of the ``seconds`` up to ``end`` (unix seconds): every target, services and gateways joined as in a live
    triage; or ``only`` one of them, of a service with its engines.

    ``place``: labels, as they are stored, of the one that is meant of several of that name. Raises the errors of
    :func:`read_stored`; () where only one is asked for that is not there.
    """
    found, services = members_of(source, end, seconds, settings, only=only, place=place)
    whole = joined(found, services, fronts(settings.targets))
    engines = {only, *(name for service in services for name in service.engines)}
    return tuple(one for one in whole if not only or one.name in engines)


def members_of(
    source: Source, end: float, seconds: float, settings: Settings, *, only: str = "", place: Labels = ()
) -> tuple[tuple[Observed, ...], tuple[Service, ...]]:
    """As :func:`observed`, before anything is joined, and the services that they make."""
    if not only:
        return read(source, "", end, seconds, settings).observed, settings.services
    front = fronts(settings.targets)
    service = next((one for one in settings.services if one.name == only), None)
    engines = service.engines if service else (only,)
    names = dict.fromkeys((*engines, *(service.gateways if service else ()), *filter(None, map(front.get, engines))))
    beside = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in place)
    for label in INSTANCE_LABELS:
        selector = f"{any_of(label, names)}{',' if beside else ''}{beside}"
        try:
            found = read(source, f"{{{selector}}}", end, seconds, settings).observed
        except PageError:
            continue
        if any(one.name in engines for one in found):
            return found, (service,) if service else ()
    return (), ()


def any_of(label: str, values: Iterable[str]) -> str:
    """A matcher for one of these values."""
    return f"{label}=~{json.dumps('|'.join(map(re.escape, values)), ensure_ascii=False)}"


def read(source: Source, selector: str, end: float, seconds: float, settings: Settings) -> Found:
    """What is stored of the targets that a selector finds, farther back where they are scraped seldom. Raises the errors of
    :func:`read_stored`.
    """
    return read_stored(
        source.url,
        selector=selector,
        at=end,
        seconds=seconds,
        instances=tuple(map(name_of, settings.targets)),
        access=source.access,
        pages=settings.thresholds.min_pages,
    )


def judge(targets: Sequence[Observed], settings: Settings) -> list[Verdict]:
    """Every scope's verdict, worst first, a service's held against those of its engines."""
    found = [diagnose(window, settings, scope=scope_of(*key, engines)) for key, engines, window in windows_of(targets)]
    return worst(settled(found))


def windows_of(targets: Sequence[Observed]) -> Iterator[tuple[Key, Sequence[str], Window]]:
    """Every scope with the engines that it is made of (of a service), and its window."""
    for one in targets:
        if not is_gpu_only(one):
            for key, window in scopes(one.snapshots).items():
                yield key, one.engines, window


def key_of(verdict: Verdict) -> Key:
    """Which scope a verdict is about."""
    return str(verdict.scope.get("instance") or ""), str(verdict.scope.get("model") or "")


def member(key: Key, verdict: Verdict) -> Member:
    """A scope that was judged, as one to choose."""
    leading = verdict.leading
    cause, confidence = (leading.cause, leading.confidence) if leading else ("", 0.0)
    return Member(*key, verdict.outcome.value, cause, confidence, verdict.hurt)
