"""What routers say of their workers: where each is, whether it is fit for calls, whether its breaker is open.

Rows of the kinds below are left to :func:`of_workers` (``special``), which names the worker by host and port: its URL may hold
a password, and a removed worker's gauges stay on the page at -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry.mapping import Entry, FamilyGap, Parts

HEALTH = "health"  # 1 fit, 0 not
BREAKER = "breaker"  # 0 closed, 1 open, 2 half open: trial calls pass, so it refuses none
CALLS = "calls"  # a counter

CALLED = "llm_gateway_requests_total"
RETRIES = "llm_gateway_retries_total"

REMOVED = -1.0  # what the gauges of a worker say once it is gone
_READ: Mapping[str, Callable[[float], float | None]] = {
    HEALTH: {0.0: 0.0, 1.0: 1.0}.get,
    BREAKER: {0.0: 0.0, 1.0: 1.0, 2.0: 0.0}.get,
    CALLS: lambda value: value if 0.0 <= value < math.inf else None,
}
_UNUSABLE = "the page holds no usable number: NaN, infinite, negative or a state that is not known"


def place(url: str) -> str:
    """Host and port of a worker's URL, with the data-parallel rank that some routers append (``host:8000@1``)."""
    rest = url.partition("://")[2] or url
    host = rest.partition("/")[0]
    head, _, tail = host.rpartition("@")
    return host if not head or tail.isdigit() else tail


def add_to(parts: Parts, name: str, entry: Entry, value: float, labels: Mapping[str, str]) -> None:
    """Add to the sample of this name what one source series says; ``labels`` beside those that its row gave."""
    series = Series(name, entry.series.labels).plus(**labels)
    parts.samples[series] = parts.samples.get(series, 0.0) + value


def of_workers(parts: Parts, label: str = "worker") -> None:
    """Put what rows of the kinds above say, by worker; ``label``: the source label that holds its URL.

    Counters of several series of one worker are added.
    """
    for entry, raw in parts.specials:
        read = _READ.get(entry.row.special)
        if read is None or raw == REMOVED:
            continue
        value, family = read(raw), entry.row.family
        if value is None:
            parts.gaps.append(FamilyGap(family, GapKind.MISSING, _UNUSABLE))
            continue
        named = {"upstream": place(entry.source.get(label, ""))}
        if entry.row.special == CALLS:
            add_to(parts, family, entry, value, named)
        else:
            parts.put(family, value, {**dict(entry.series.labels), **named})


def with_retries(parts: Parts) -> None:
    """Workers, and retries, which are not on the page before the first one: where calls are, their absence is 0."""
    of_workers(parts)
    names = {series.name for series in parts.samples}
    if CALLED in names and RETRIES not in names:
        gateway = next(series.label("gateway") for series in parts.samples if series.name == CALLED)
        parts.put(RETRIES, 0.0, {"gateway": gateway, "by": "gateway"})
