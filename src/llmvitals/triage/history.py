"""How signals moved: lines over time beside a verdict. Pure; where the points come from is the caller's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from llmvitals.errors import PageError
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import compute
from llmvitals.signals.promised import promised
from llmvitals.signals.reading import Reading, Standing
from llmvitals.triage import moments

MOST_POINTS = 30
"""Points of one line at most where each costs an evaluation of all signals."""

Bound = Callable[[Settings], float]


@dataclass(frozen=True, slots=True)
class Vital:
    """A signal that is drawn whatever the verdict; ``bound``: the line in it, None where it has none.

    ``promised``: the line was promised to users, so that a number beyond it is a breach; any other line is for the eye.
    """

    signal: str
    bound: Bound | None = None
    promised: bool = False


VITALS: tuple[Vital, ...] = (
    Vital("ttft_p95_seconds", lambda s: s.slo.ttft_seconds, promised=True),
    Vital("tpot_p95_seconds", lambda s: s.slo.tpot_seconds, promised=True),
    Vital("requests_waiting"),
    Vital("requests_running"),
    Vital("kv_usage_ratio", lambda s: s.thresholds.kv_lines[0]),
    Vital("generation_tokens_rate"),
)
"""In this order: what users feel, what is queued, what is held, what comes out."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One signal over time: ``times`` in unix seconds, ``values`` and ``bound`` in base units, None where absent.

    ``standing``: how far the newest value may be trusted; ``why``: why there is none.
    """

    times: tuple[float, ...]
    values: tuple[float | None, ...]
    bound: float | None = None
    standing: str = Standing.EXACT.value
    why: str = ""


def bounds(settings: Settings) -> dict[str, float]:
    """The line of each vital signal that has one."""
    return {vital.signal: vital.bound(settings) for vital in VITALS if vital.bound is not None}


def wanted(signals: Iterable[str]) -> tuple[str, ...]:
    """The vital signals, then these, each once."""
    return tuple(dict.fromkeys((*(vital.signal for vital in VITALS), *signals)))


def traced(
    points: Iterable[tuple[float, Mapping[str, float | None]]],
    signals: Iterable[str],
    settings: Settings,
    newest: Mapping[str, Reading] | None = None,
) -> dict[str, Trace]:
    """Traces of these signals from (unix seconds, signal to value) in order of time. ``newest``: the readings of the last one."""
    rows = tuple(points)
    lines = bounds(settings)
    times = tuple(t for t, _ in rows)
    return {
        s: Trace(times, tuple(values.get(s) for _, values in rows), lines.get(s), *_standing((newest or {}).get(s)))
        for s in signals
    }


def _standing(newest: Reading | None) -> tuple[str, str]:
    """How far a number may be trusted, and why there is none."""
    if newest is None:
        return Standing.EXACT.value, ""
    return newest.standing.value, f"{newest.gap.kind}: {newest.gap.why}" if newest.gap is not None else ""


def replay(window: Window, seconds: float, signals: Iterable[str], settings: Settings) -> dict[str, Trace]:
    """Traces over a long window: every signal is computed again for windows of ``seconds`` that end at its pages."""
    ends = [snapshot.t for snapshot in window.snapshots if snapshot.t - seconds >= window.start]
    stride = -(-len(ends) // MOST_POINTS) or 1
    settings = promised(window, settings)
    points, readings = [], {}
    for end in ends[::-1][::stride][::-1]:  # counted from the newest, which is always drawn
        readings = compute(window.slice(end - seconds, end), settings)
        points.append((end, {name: reading.value for name, reading in readings.items()}))
    return traced(points, signals, settings, readings)


def encode(traces: Mapping[str, Trace]) -> dict[str, Any]:
    """The JSON form: ``{"signals": {signal: {"times": [...], "values": [... or null], "bound": number or null, "standing": word,
    "why": text}}}``.
    """
    return {"signals": {name: msgspec.to_builtins(trace) for name, trace in traces.items()}}


def decode(document: object, *, place: str) -> dict[str, Trace]:
    """Reads :func:`encode` back. Raises :class:`PageError` where it is something else."""
    try:
        found = msgspec.convert(document["signals"] if isinstance(document, dict) else None, dict[str, Trace])
        if uneven := next((name for name, one in found.items() if len(one.times) != len(one.values)), ""):
            raise ValueError(f"{uneven}: as many times as values")
    except (ValueError, KeyError) as error:
        raise PageError(
            f"answered with a history that cannot be read ({error})",
            place=place,
            remedy="Bring the exporter and this reader to the same version.",
        ) from None
    moments.check((t for one in found.values() for t in one.times), place=place)
    return found
