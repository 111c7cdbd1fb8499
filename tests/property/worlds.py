"""Random worlds (series over time) and random expressions for the comparison of the two compilers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from llmvitals.schema import SCOPE
from llmvitals.series import Labels, Series, Snapshot, Window
from llmvitals.signals.algebra import (
    Agg,
    Binary,
    Const,
    Expr,
    FractionBelow,
    Gauge,
    Increase,
    Op,
    OverTime,
    Quantile,
    Rate,
    Slope,
    Stat,
)

COUNTERS, GAUGES, HISTOGRAMS = ("c_total", "d_total", "rare_total"), ("g", "f"), ("h", "k")
EDGES = (-1.0, 0.0, 0.005, 0.25, 1.0, 2.0, 2.5, 10.0, 1_000_000.0)
SPELLINGS: tuple[Callable[[float], str], ...] = (lambda e: format(e, "g"), repr)
Points = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class World:
    """One instance: its samples, and the range over which it is asked. Times in milliseconds."""

    instance: str
    points: dict[Series, Points]
    start: int
    end: int

    def window(self, model: str | None) -> Window:
        """The instance's series (of one model) as an in-memory window."""
        at: dict[int, dict[Series, float]] = {}
        for key, samples in self.points.items():
            if model is None or key.label("model") == model:
                for t, value in samples:
                    at.setdefault(t, {})[key] = value
        snapshots = [Snapshot(t / 1000, samples) for t, samples in at.items()]
        return Window.of(snapshots, start=self.start / 1000, end=self.end / 1000)


def world(rng: Random, index: int, base: int) -> World:
    """A world whose scrapes jitter, fall out, and whose series come late, reset, freeze, or turn NaN."""
    instance = f"w{index}"
    step = rng.choice((1000, 5000, 15_000, 60_000))
    times, t = [], base + rng.randrange(0, 100_000)
    for _ in range(rng.choice((0, 1, 2, 3, 8, 20, 40, 40))):
        times.append(t)
        t += step + rng.choice((0, 0, rng.randrange(0, step), step * 3))
    last = times[-1] if times else base
    end = last + rng.choice((0, 0, 1, rng.randrange(0, step), rng.randrange(0, step), rng.randrange(0, 400_000)))
    span = rng.choice((rng.randrange(3, 40) * step, rng.choice([end - m for m in times if m < end] or [1000])))
    points: dict[Series, Points] = {}
    for model in ("m0", "m1"):
        for rank in ("0", "1", "2")[: rng.choice((1, 1, 2, 3))]:
            labels = {"instance": instance, "model": model, "rank": rank}
            _fill(rng, points, labels, times)
    return World(instance, points, end - span, end)


def _fill(rng: Random, points: dict[Series, Points], labels: dict[str, str], times: list[int]) -> None:
    def put(name: str, values: list[float], **more: str) -> None:
        if rng.random() < 0.12:
            return
        poison = rng.random() < 0.06
        samples = [(t, v) for t, v in zip(times, values, strict=True) if rng.random() > 0.05]
        if poison:
            samples = [(t, math.nan if rng.random() < 0.3 else v) for t, v in samples]
        if rng.random() < 0.1:
            samples = samples[len(samples) // 2 :]
        if samples:
            points[Series(name, _sorted(labels | more))] = samples

    for name in COUNTERS[:2]:
        for reason in ("stop", "length"):
            put(name, _counter(rng, len(times), rng.choice((0, 3, 200))), reason=reason)
    put(COUNTERS[2], _counter(rng, len(times), rng.choice((0, 0, 1))))
    for name in GAUGES:
        put(name, _gauge(rng, len(times)))
    for name in HISTOGRAMS:
        busy = rng.choice((0, 1, 20))
        grown = [_counter(rng, len(times), busy) for _ in range(len(EDGES) + 1)]
        spell = rng.choice(SPELLINGS)
        total = [0.0] * len(times)
        for edge, values in zip((*EDGES[rng.randrange(3) :], math.inf), grown, strict=False):
            total = [a + b for a, b in zip(total, values, strict=True)]
            messy = [max(0.0, v - rng.choice((0, 0, 0, 2))) for v in total]
            put(f"{name}_bucket", messy, le="+Inf" if math.isinf(edge) else spell(edge))
        put(f"{name}_count", total)
        put(f"{name}_sum", [v * 0.5 for v in total])


def _sorted(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _counter(rng: Random, n: int, pace: int) -> list[float]:
    value, values, resets = float(rng.choice((0, 0, 7, 10_000))), [], rng.random() < 0.3
    for _ in range(n):
        value = float(rng.randrange(0, 5)) if resets and rng.random() < 0.15 else value + rng.randrange(0, pace + 1)
        values.append(value)
    return values


def _gauge(rng: Random, n: int) -> list[float]:
    if rng.random() < 0.2:
        return [rng.choice((0.0, 5.0, math.inf))] * n
    return [rng.choice((-3.0, 0.0, 0.25, 1.0, 17.0, 1e6)) * rng.random() for _ in range(n)]


def expression(rng: Random, depth: int = 0) -> Expr:
    """A random expression, at most four operators deep."""
    if depth < 4 and rng.random() < (0.5, 0.3, 0.3, 0.2)[depth]:
        op = rng.choice((*Op, Op.DIV))
        return Binary(op, expression(rng, depth + 1), expression(rng, depth + 1))
    return rng.choice(_LEAVES)(rng)


def _counter_name(rng: Random) -> tuple[str, tuple[tuple[str, str], ...]]:
    matches = ((), (("reason", "stop"),), (("reason", "none"),), (("rank", "1"), ("reason", "length")))
    names = (*COUNTERS, "h_count", "h_sum", "nowhere_total")
    return rng.choice(names), rng.choice(matches) if rng.random() < 0.5 else ()


_LEAVES: tuple[Callable[[Random], Expr], ...] = (
    lambda r: Const(r.choice((0.0, 1.0, -2.0, 0.5, 1e-7, 100.0))),
    lambda r: Gauge(r.choice((*GAUGES, "c_total", "nowhere")), agg=r.choice(tuple(Agg))),
    lambda r: OverTime(r.choice(tuple(Stat)), r.choice(GAUGES), agg=r.choice(tuple(Agg)), q=r.choice((0, 0.1, 0.5, 1))),
    lambda r: OverTime(Stat.QUANTILE, r.choice(GAUGES), (("rank", "0"),), q=0.9),
    lambda r: Increase(*_counter_name(r)),
    lambda r: Increase(*_counter_name(r)),
    lambda r: Rate(*_counter_name(r)),
    lambda r: Quantile(r.choice((0.0, 0.05, 0.5, 0.9, 0.99, 1.0)), r.choice(HISTOGRAMS)),
    lambda r: Quantile(0.95, r.choice(HISTOGRAMS)),
    lambda r: FractionBelow(r.choice((*EDGES, 3.0, math.inf)), r.choice(HISTOGRAMS)),
    lambda r: Slope(r.choice((*GAUGES, "c_total"))),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One question: an expression over one scope of one world. ``model`` None asks over all models of the instance."""

    world: World
    model: str | None
    expr: Expr

    @property
    def by(self) -> tuple[str, ...]:
        """The labels that the question keeps."""
        return SCOPE if self.model is not None else ("instance",)


def cases(seed: int, worlds: int, per_world: int) -> tuple[list[World], list[Case]]:
    """Everything that one seed gives. Worlds start an hour apart."""
    rng = Random(seed)
    made = [world(rng, i, 1_700_000_000_000 + i * 3_600_000) for i in range(worlds)]
    asked = [Case(w, rng.choice(("m0", "m1", None)), expression(rng)) for w in made for _ in range(per_world)]
    return made, asked
