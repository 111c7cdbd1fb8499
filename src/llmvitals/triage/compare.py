"""Now beside before: what moved between two moments of one scope, what matters first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.changes import distance
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.history import VITALS
from llmvitals.triage.sides import UP, bad_side
from llmvitals.triage.units import with_unit


@dataclass(frozen=True, slots=True)
class Moment:
    """One scope at one moment ``t`` (unix seconds).

    ``values``: signal to value in base units, None or absent where there was none. ``noise``: how much a signal varies by itself
    around that moment (robust standard deviation, base units); absent where not known. ``outcome``, ``cause``: slugs of the
    verdict then, '' where not known or none leads. ``facts``: what was set, as text (version, KV capacity).
    """

    t: float
    values: Mapping[str, float | None]
    noise: Mapping[str, float] = field(default_factory=dict)
    outcome: str = ""
    cause: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One signal then and now (base ``unit``).

    ``worse``: whether it moved to the side that checks call bad; None where they do not say, or it did not move.
    ``changed``: beyond noise; None where the noise is not known. ``decides``: whether the verdict of now, or of then, rests on it.
    """

    signal: str
    title: str
    unit: str
    before: float | None
    now: float | None
    worse: bool | None = None
    changed: bool | None = None
    decides: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was set, then and now; '' where not known."""

    name: str
    before: str
    now: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two moments side by side. ``rows``: what decides and changed first. ``facts``: only those that differ."""

    before: Moment
    now: Moment
    rows: tuple[Row, ...] = ()
    facts: tuple[Fact, ...] = ()


MOST_ROWS = 16
"""Rows of a comparison at most: what a person reads during an incident."""

SIGMAS, SHARE, POINTS = 4.0, 0.1, 0.02
"""A number has changed that moved by four times its noise, by a tenth of the larger of the two, and (a ratio) by two points.
Four, not three, as the windows behind neighbouring numbers overlap, so that they vary less than independent ones would; a tenth,
as less changes nothing for anybody. An estimate: noise is taken from few numbers.
"""

SETTINGS: tuple[str, ...] = (
    "kv_capacity_tokens",
    "memory_utilization_setting",
    "prefix_caching_enabled",
    "tensor_parallel_gpus",
    "lora_slots",
    "gpu_mig_slices",
    "planned_calls",
)
"""Signals that are what somebody set: told as facts, where they differ at all."""

_OF_NOBODY = frozenset({"pages", "window_seconds", "activity", "uptime_seconds", "first_tokens", "span_coverage_ratio"})
"""What says how much was seen, and nothing of the server."""

_VITAL = frozenset(vital.signal for vital in VITALS)


def compare(before: Moment, now: Moment) -> Comparison:
    """Two moments of one scope side by side: rows that a verdict rests on, that changed, and the vital signs.

    What changed for the worse and decides comes first. Chances (p-values) are left out: the verdicts say what they mean.
    """
    deciding = _deciding(before.cause) | _deciding(now.cause)
    rows = [
        _row(name, before, now, decides=name in deciding)
        for name in BY_ID
        if name not in _OF_NOBODY and name not in SETTINGS and BY_ID[name].unit != "probability"
        if before.values.get(name) is not None or now.values.get(name) is not None
    ]
    shown = sorted((row for row in rows if row.decides or row.changed or row.signal in _VITAL), key=_order)
    return Comparison(before, now, tuple(shown[:MOST_ROWS]), tuple(_facts(before, now)))


def _deciding(cause: str) -> frozenset[str]:
    """The signals that a cause is named by."""
    check = BY_CAUSE.get(cause)
    return frozenset(limit.signal for rows in check.when for limit in rows) if check else frozenset()


def _row(name: str, before: Moment, now: Moment, *, decides: bool) -> Row:
    then, at = before.values.get(name), now.values.get(name)
    signal = BY_ID[name]
    changed = _changed(then, at, signal.unit, before.noise.get(name, now.noise.get(name)))
    side = bad_side(name)
    worse = None if then is None or at is None or then == at or not side else (at > then) is (side == UP)
    return Row(name, signal.title, signal.unit, then, at, worse, changed, decides)


def _changed(then: float | None, now: float | None, unit: str, noise: float | None) -> bool | None:
    if then is None or now is None:
        return None
    moved, size = abs(now - then), max(abs(then), abs(now))
    if moved == 0 or moved < SHARE * size or (unit == "ratio" and moved < POINTS):
        return False
    return None if noise is None else moved > SIGMAS * noise


def _order(row: Row) -> tuple[bool, bool, bool, float, str]:
    moved = distance(row.before, row.now) if row.before is not None and row.now is not None else 0.0
    return not (row.decides and row.changed), not row.changed, not row.worse, -moved, row.signal


def _facts(before: Moment, now: Moment) -> Iterator[Fact]:
    for name in dict.fromkeys((*before.facts, *now.facts)):
        then, at = before.facts.get(name, ""), now.facts.get(name, "")
        if then and at and then != at:
            yield Fact(name, then, at)
    for name in SETTINGS:
        old, new = before.values.get(name), now.values.get(name)
        if old is not None and new is not None and old != new:
            signal = BY_ID[name]
            yield Fact(signal.title, with_unit(old, signal.unit), with_unit(new, signal.unit))
