"""Runs at several levels of load: goodput at each, and where its peak lies as far as that can be told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmvitals.loadtest import texts
from llmvitals.loadtest.goodput import Count, Kept, Promises, Z, kept, wilson
from llmvitals.loadtest.model import Note, Run

FEW = 100
"""Requests below which a run is called small: a share of 95 % is then uncertain by over 4 points."""

ROUNDS = 5
"""Requests per one in flight below which filling up and emptying are a large part of a run."""

Server = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Point:
    """All runs at one level of load. Rates are requests per second.

    ``bound_low`` and ``bound_high``: what the files allow; equal where they settle it. ``low`` and ``high``: with the noise of
    sampling added (95 %).
    """

    level: float
    runs: tuple[Run, ...]
    kept: Kept
    throughput: float
    bound_low: float
    bound_high: float
    low: float
    high: float
    measured: bool
    notes: tuple[Note, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether goodput is known but for sampling noise."""
        return self.kept.exact

    @property
    def failed(self) -> int:
        """Requests that failed."""
        return sum(run.failed for run in self.runs)


@dataclass(frozen=True, slots=True)
class Peak:
    """The levels among which goodput peaks (lowest, highest), and whether lower and higher ones were tested and are worse."""

    low: Point
    high: Point
    below_tested: bool
    above_tested: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points of one model under one set of the server's settings, by rising load. ``peak``: None where there is none."""

    model: str
    server: Server
    points: tuple[Point, ...]
    peak: Peak | None
    notes: tuple[Note, ...]


def remarks(sweep: Sweep) -> tuple[tuple[Note, tuple[float, ...]], ...]:
    """What is to be said of single points, each once with the levels that it is said of."""
    found: list[tuple[Note, list[float]]] = []
    for point in sweep.points:
        for note in point.notes:
            levels = next((levels for other, levels in found if other == note), None)
            if levels is None:
                found.append((note, [point.level]))
            else:
                levels.append(point.level)
    return tuple((note, tuple(levels)) for note, levels in found)


def sweeps(runs: Iterable[Run], promises: Promises) -> tuple[Sweep, ...]:
    """What runs say, apart by model and by the server's settings where these are known."""
    groups: dict[tuple[str, Server], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.model, run.server), []).append(run)
    named = {model for model, _ in groups if model}
    if len(named) == 1:  # files that name no model are of the one that others name
        (only,) = named
        for model, server in [key for key in groups if not key[0]]:
            groups.setdefault((only, server), []).extend(groups.pop((model, server)))
    return tuple(_sweep(model, server, found, promises) for (model, server), found in groups.items())


def _sweep(model: str, server: Server, runs: Sequence[Run], promises: Promises) -> Sweep:
    levels: dict[tuple[float, bool], list[Run]] = {}
    for run in runs:
        if run.level is not None:
            measured = run.rate is not None or run.concurrency is None
            levels.setdefault((run.level, measured), []).append(run)
    points = tuple(_point(*key, levels[key], promises) for key in sorted(levels))
    peak, notes = _peak(points)
    return Sweep(model, server, points, peak, notes)


def _point(level: float, measured: bool, runs: Sequence[Run], promises: Promises) -> Point:
    counts = [kept(run, promises) for run in runs]
    ended = sum(one.ended for one in counts)
    whole = Kept(ended, *(_sum(side) for side in zip(*((c.ttft, c.tpot, c.both) for c in counts), strict=True)))
    seconds = sum(run.duration for run in runs)
    throughput = ended / seconds
    spreads = [run.latency_cv for run in runs]
    noise = max((cv or 0.0 for cv in spreads), default=0.0) * Z / math.sqrt(ended) if ended else 0.0
    low, high = wilson(whole.both[0], ended)[0], wilson(whole.both[1], ended)[1]
    return Point(
        level,
        tuple(runs),
        whole,
        throughput,
        whole.both[0] / seconds,
        whole.both[1] / seconds,
        low * throughput / (1 + noise),
        high * throughput * (1 + noise),
        measured,
        tuple(_remarks(level, runs, ended)),
    )


def _sum(counts: Iterable[Count]) -> Count:
    low, high = zip(*counts, strict=True)
    return sum(low), sum(high)


def _remarks(level: float, runs: Sequence[Run], ended: int) -> Iterable[Note]:
    failed = sum(run.failed for run in runs)
    if failed:
        yield Note(texts.FAILING, {"failed": failed, "count": ended})
    if ended < FEW:
        yield Note(texts.FEW, {"count": ended})
    elif ended < ROUNDS * level * len(runs):
        yield Note(texts.SHORT, {"count": ended, "level": level, "rounds": ROUNDS})
    if any(run.latency_cv is None for run in runs):
        yield Note(texts.NOISE_UNKNOWN)
    told: list[Note] = []
    for note in (note for run in runs for note in run.notes):
        if note not in told:
            told.append(note)
    yield from told


def _peak(points: Sequence[Point]) -> tuple[Peak | None, tuple[Note, ...]]:
    """Every level that is not certainly worse than another may be the peak."""
    if not points:
        return None, (Note(texts.NO_POINTS),)
    best = max(point.low for point in points)
    if best <= 0:
        return None, (Note(texts.NONE_GOOD),)
    may_be = [point for point in points if point.high >= best]
    low, high = may_be[0], may_be[-1]
    peak = Peak(low, high, below_tested=low.level > points[0].level, above_tested=high.level < points[-1].level)
    if len(points) < 3:
        return peak, (Note(texts.FEW_LEVELS, {"count": len(points)}),)
    if not peak.above_tested:
        return peak, (Note(texts.STILL_RISING, {"level": points[-1].level}),)
    around = {
        "below": max((p.level for p in points if p.level < low.level), default=0.0),
        "above": min(p.level for p in points if p.level > high.level),
    }
    if low.level == high.level:
        return peak, (Note(texts.PEAK, {"level": low.level, **around}),)
    return peak, (Note(texts.PEAK_RANGE, {"low": low.level, "high": high.level, **around}),)


def compared(found: Sequence[Sweep]) -> tuple[Note, ...]:
    """Which of a model's settings of the server give the most goodput; nothing where one was tested, or peaks are not known."""
    by_model: dict[str, list[Sweep]] = {}
    for sweep in found:
        by_model.setdefault(sweep.model, []).append(sweep)
    notes = []
    for several in by_model.values():
        peaks = [(max(p.low for p in s.points), max(p.high for p in s.points), s) for s in several if s.points]
        if len(peaks) < 2:
            continue
        most = max(low for low, _, _ in peaks)
        best = [told(s.server) for _, high, s in peaks if high >= most]
        text = texts.BEST_SERVER if len(best) == 1 else texts.SERVERS_ALIKE
        notes.append(Note(text, {"best": best[0], "alike": "; ".join(best)}))
    return tuple(notes)


def told(server: Server) -> str:
    """Settings of a server in words; '' for none that are known."""
    return ", ".join(f"{name} {value:g}" for name, value in server)
