"""Asks a source for all its replicas at once, and for the way that one of them came. What fails comes back as a value."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from llmvitals.app.ask import Failure, not_whole
from llmvitals.app.chosen import judged_fleet
from llmvitals.app.fleet_stored import stored_fleet
from llmvitals.app.past import lines, remembered
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.sources.exporter import fetch_json, place_of
from llmvitals.sources.promql_api import warned
from llmvitals.triage.history import Trace
from llmvitals.triage.outliers import Outlier, outliers
from llmvitals.triage.replica import TRAIL, Fleet, Replica, decode


@dataclass(frozen=True, slots=True)
class Odd:
    """Who differs from its peers. ``compared``: how many replicas of each model were there to be compared; ``notes``: what is to be
    said of how they were found.
    """

    found: tuple[Outlier, ...]
    compared: Mapping[str, int]
    notes: tuple[str, ...] = ()


Ask = Callable[[Source, float | None, Settings], Fleet]
Trails = Callable[[Source, Replica, float | None, Settings], Mapping[str, Trace]]


def ask_fleet(source: Source, at: float | None, settings: Settings) -> Fleet | Failure:
    """The replicas of a source now, or at the moment ``at`` (unix seconds) of a PromQL endpoint."""
    if source.kind not in _KINDS:
        kinds = " or ".join(_KINDS)
        return Failure(f"has the unknown kind '{source.kind}'", f"source '{source.name}'", f"Write kind: {kinds}.")
    try:
        with warned() as told:
            found = _KINDS[source.kind][0](source, at, settings)
        return replace(found, notes=(*found.notes, *not_whole(told)))
    except LlmvitalsError as error:
        return Failure(error.thing, error.place, error.remedy)


def ask_odd(source: Source, at: float | None, settings: Settings) -> Odd | Failure:
    """The replicas of a source that differ from their peers, at the same moments."""
    fleet = ask_fleet(source, at, settings)
    if isinstance(fleet, Failure):
        return fleet
    return Odd(outliers(fleet), Counter(one.model for one in fleet.replicas if not one.gone), fleet.notes)


def ask_trail(source: Source, one: Replica, at: float | None, settings: Settings) -> Mapping[str, Trace]:
    """How the signals of the picture moved for one replica; empty where the source does not say."""
    try:
        return _KINDS[source.kind][1](source, one, at, settings)
    except LlmvitalsError:
        return {}


def _exporter(source: Source, at: float | None, settings: Settings) -> Fleet:
    return decode(fetch_json(source, "/replicas"), place=place_of(source, "/replicas"))


def _exporter_trail(source: Source, one: Replica, at: float | None, settings: Settings) -> Mapping[str, Trace]:
    return remembered(source, one.key, TRAIL)[0]


def _prometheus(source: Source, at: float | None, settings: Settings) -> Fleet:
    """By the verdicts and signals that are stored; where there are none, so many are judged here as a person waits for."""
    end = time.time() if at is None else at
    found = stored_fleet(source, end, settings)
    return found if found is not None else judged_fleet(source, end, settings)


def _prometheus_trail(source: Source, one: Replica, at: float | None, settings: Settings) -> Mapping[str, Trace]:
    return lines(source, one.key, time.time() if at is None else at, TRAIL, settings)


_KINDS: Mapping[str, tuple[Ask, Trails]] = {
    "exporter": (_exporter, _exporter_trail),
    "prometheus": (_prometheus, _prometheus_trail),
}
