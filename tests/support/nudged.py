"""The same window with more or less of one thing, so that a signal comes to lie between a bound and a wrong one.

A made server shows its cause well and its look-alike not at all; what tells a bound from its double lies between them: half
as many refusals, a card that is active for less of the time, late first tokens among more that came in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from unittest import mock

from llmvitals.schema import Kind, family_of
from llmvitals.series import Series, Track, Window
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.context import Context
from llmvitals.signals.evaluate import evaluate
from llmvitals.signals.reading import Reading
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.judge import bound_of, weigh
from support.made import Server
from support.mutants import SETTINGS, Judged, Mutant, Readings
from support.stored import Stored, look

STARTED = "llm_process_start_time_seconds"
ANSWERED = "llm_target_answer_seconds"
AMOUNTS = tuple(2 ** (step / 2) for step in range(-14, 15))
"""Factors from 1/128 to 128 that are tried first; what lies between two of them is sought by halving."""

TRIED = (1 / 64, 0.25, 4.0, 64.0)
"""Amounts that show whether a knob moves a signal at all, and whether the quick way of turning it is the whole one."""

BASES, EACH = 18, 2
"""Made windows that are tried for a limit, and amounts of each knob."""

Pairs = tuple[tuple[float, float], ...]
"""The moments and values of a series."""

Turn = Callable[[Series, Pairs, float], tuple[float, ...]]
"""A series and an amount: other values for its moments."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that a window can have more or less of. ``chosen``: the series that it moves."""

    name: str
    chosen: Callable[[Series], bool]
    turn: Turn

    def turned(self, window: Window, amount: float) -> Window:
        """The window with so much of it."""
        moved = self._tracks(window, amount)
        at = {key: dict(zip(track.times, track.values, strict=True)) for key, track in moved.items()}
        pages = (
            replace(s, samples={k: at[k][s.t] if k in at else v for k, v in s.samples.items()})
            for s in window.snapshots
        )
        return Window.of(pages, start=window.start, end=window.end)

    def quickly(self, window: Window, amount: float) -> Window:
        """The same for signals that read series alone: the pages themselves stay as they were."""
        moved = self._tracks(window, amount)
        tracks = {
            name: tuple(moved.get(Series(name, t.labels), t) for t in found) for name, found in window._index.items()
        }
        return Window(window.snapshots, window.start, window.end, tracks)

    def _tracks(self, window: Window, amount: float) -> dict[Series, Track]:
        found = {}
        for name, tracks in window._index.items():
            for track in tracks:
                key = Series(name, track.labels)
                if self.chosen(key):
                    born = [(track.times[0], 0.0)] if track.times[0] > window.start else []
                    pairs = (*born, *zip(track.times, track.values, strict=True))
                    found[key] = Track(track.labels, track.times, self.turn(key, pairs, amount)[len(born) :])
        return found


def _scaled(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
    """A gauge so many times as high, a counter that grows so many times as quickly."""
    family = family_of(key.name)
    if family is not None and family.kind is Kind.GAUGE:
        top = 1.0 if family.unit == "ratio" else math.inf
        return tuple(min(top, v * amount) for _, v in pairs)
    return _grown(pairs, lambda grown: grown * amount)


def _counted(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
    """As :func:`_scaled`, in whole numbers."""
    return tuple(float(round(v)) for v in _scaled(key, pairs, amount))


def _older(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
    """A process so many times as old."""
    last = pairs[-1][0]
    return tuple(last - (last - v) * amount for _, v in pairs)


def _grown(pairs: Pairs, change: Callable[[float], float]) -> tuple[float, ...]:
    values, total = [pairs[0][1]], pairs[0][1]
    for (_, before), (_, now) in pairwise(pairs):
        total = total + change(now - before) if now >= before else change(now)
        values.append(total)
    return tuple(values)


def _some(pairs: Pairs, amount: float) -> Iterator[tuple[float, bool]]:
    """The values, and whether each is one of so many pages, spread evenly over the window; all from 16 on."""
    share = min(1.0, amount / 16)
    for i, (_, v) in enumerate(pairs):
        yield v, math.floor((i + 1) * share) > math.floor(i * share)


def _partly(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
    """As it is on some pages, 0 on the others."""
    return tuple(v if here else 0.0 for v, here in _some(pairs, amount))


def _one_more(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
    """One more on some pages, as it is on the others."""
    return tuple(v + here for v, here in _some(pairs, amount))


def _traffic(key: Series) -> bool:
    """All that counts requests and what became of them: a server that is asked less."""
    family = family_of(key.name)
    counts = family is not None and family.kind is not Kind.GAUGE
    return counts and not key.name.startswith(("llm_process_", "llm_gpu_", "llm_host_"))


def _spread(pages: int, amount: float) -> Iterator[int]:
    """Whole requests, 256 at the amount of 1, that come evenly from the first page to the last."""
    return (round(256 * amount * i / max(1, pages - 1)) for i in range(pages))


def _mixed(edge: float) -> Turn:
    """For each observation of the window, so many more at an edge."""

    def turn(key: Series, pairs: Pairs, amount: float) -> tuple[float, ...]:
        each = 0.0 if key.name.endswith("_bucket") and float(key.label("le")) < edge else 1.0
        each = edge if key.name.endswith("_sum") else each
        return tuple(v + each * more for (_, v), more in zip(pairs, _spread(len(pairs), amount), strict=True))

    return turn


def crowds(window: Window, readings: Readings) -> Iterator[Knob]:
    """More requests beside those of a made server, as long as its own, that are served well; or only begin in time."""
    prompt, output = (max(2.0, round(readings[f"{n}_mean_tokens"].value or 100.0)) for n in ("prompt", "generation"))
    slow = readings["tpot_mean_seconds"].value or 0.02
    for name, ttft, tpot in (
        ("served well", 0.05, 0.008),
        ("begun in time", 0.05, slow),
        ("streamed well", 3.0, 0.008),
    ):
        server = Server()
        before = dict(server.values)
        server.serve(1, ttft=ttft, tpot=tpot, prompt=prompt, output=output, prefill=0.02)
        more = {key: v - before.get(key, 0.0) for key, v in server.values.items() if v != before.get(key, 0.0)}

        def turn(key: Series, pairs: Pairs, amount: float, more: Mapping[Series, float] = more) -> tuple[float, ...]:
            return tuple(v + more[key] * n for (_, v), n in zip(pairs, _spread(len(pairs), amount), strict=True))

        yield Knob(f"requests {name}", more.__contains__, turn)


# -- which knobs a signal has ------------------------------------------------------------------------------------------
def families(window: Window, signal: str) -> tuple[str, ...]:
    """The families that a signal reads on this window."""
    asked: dict[str, None] = {}
    tracks = Window.tracks

    def noted(self: Window, name: str, match: Mapping[str, str] | None = None) -> tuple[Track, ...]:
        found = tracks(self, name, match)
        family = family_of(name)
        if found and family is not None:
            asked[family.name] = None
        return found

    with mock.patch.object(Window, "tracks", noted):
        value_of(window, signal)
    return tuple(asked)


def value_of(window: Window, signal: str) -> float | None:
    """One signal's number on a window."""
    found, context = BY_ID[signal], Context(window, SETTINGS)
    reading = found.derive(context) if found.derive is not None else None
    if reading is None:
        assert found.expr is not None
        reading = evaluate(found.expr, context.good)
    return reading.value


SPLIT = ("status", "reason", "tenant", "size", "source", "process", "gpu", "state", "link")
"""Labels of which one value may have more or less than the others."""


def knobs(window: Window, signal: str) -> Iterator[Knob]:
    """What can be turned to move a signal: the families that it reads, whole and by label."""
    for name in families(window, signal):
        family = family_of(name)
        if family is None or (name.startswith(("llm_target_", "llm_family_")) and name != ANSWERED):
            continue
        if name == STARTED:
            yield Knob(f"{name} older", lambda key: key.name == STARTED, _older)
            continue
        turn = _counted if family.unit == "" else _scaled
        for which, chosen in _parts(window, name):
            if family.kind is Kind.HISTOGRAM:
                yield from (Knob(f"{name}{which} at {edge:g}", chosen, _mixed(edge)) for edge in _edges(window, name))
            yield Knob(f"{name}{which}", chosen, turn)
            if family.kind is Kind.GAUGE:
                yield Knob(f"{name}{which} on some pages", chosen, _partly)
                yield Knob(f"{name}{which} one more on some pages", chosen, _one_more)
    yield Knob("traffic", _traffic, _counted)


def _parts(window: Window, family: str) -> Iterator[tuple[str, Callable[[Series], bool]]]:
    """All of a family, and what has one value of a label."""
    names = {n for n in window.names() if (found := family_of(n)) is not None and found.name == family}
    yield "", lambda key: key.name in names
    values = {(k, v) for n in names for t in window.tracks(n) for k, v in t.labels if k in SPLIT}
    for label, value in sorted(values):
        yield f"{{{label}={value}}}", lambda key, p=(label, value): key.name in names and p in key.labels


def _edges(window: Window, family: str) -> tuple[float, ...]:
    """Every third edge of a histogram: from one to the next it is a matter of how many."""
    found = {float(t.label("le", "nan")) for t in window.tracks(f"{family}_bucket")}
    return tuple(sorted(e for e in found if math.isfinite(e)))[1::3]


Side = Callable[[float], int]
"""Where a number lies: -1 below, 1 above, 0 where it is wanted."""


def amounts(window: Window, knob: Knob, signal: str, side: Side) -> Iterator[float]:
    """Amounts at which a signal lies where it is wanted, as far as the first amounts tried straddle it."""

    def value(amount: float) -> float | None:
        return value_of((knob.quickly if quick else knob.turned)(window, amount), signal)

    swift = [value_of(knob.quickly(window, x), signal) for x in TRIED]
    whole = [value_of(knob.turned(window, x), signal) for x in TRIED]
    quick = swift == whole
    if len(set(whole)) == 1 and side_of(whole[0], side) != 0:
        return
    before: tuple[float, int] | None = None
    for amount in AMOUNTS:
        where = side_of(value(amount), side)
        now = None if where is None else (amount, where)
        if now is not None and now[1] == 0:
            yield amount
        elif now is not None and before is not None and now[1] == -before[1]:
            yield from _halved(value, side, before, now)
        before = now


def side_of(value: float | None, side: Side) -> int | None:
    """Where a number lies; None where there is none."""
    return None if value is None else side(value)


def _halved(
    value: Callable[[float], float | None], side: Side, left: tuple[float, int], right: tuple[float, int]
) -> Iterator[float]:
    for _ in range(14):
        middle = math.sqrt(left[0] * right[0])
        where = side_of(value(middle), side)
        if where is None:
            return
        if where == 0:
            yield middle
            return
        left, right = ((middle, where), right) if where == left[1] else (left, (middle, where))


# -- a limit's own window ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Base:
    """A made window with its name and the verdict on it."""

    name: str
    window: Window
    judged: Judged


def told_apart(mutant: Mutant, bases: Sequence[Base]) -> Stored | None:
    """A made window with more or less of one thing, on which the wrong limit changes the verdict; None: none was found."""
    low, _ = sorted((bound_of(mutant.limit, SETTINGS), bound_of(mutant.wrong, SETTINGS)))

    def side(value: float) -> int:
        right, wrong = (weigh(x, {x.signal: Reading(value)}, SETTINGS).holds for x in (mutant.limit, mutant.wrong))
        return 0 if right is not wrong else -1 if value <= low else 1

    for base in _nearest(mutant, bases):
        for knob in _all_knobs(mutant, base):
            for amount in islice(amounts(base.window, knob, mutant.limit.signal, side), EACH):
                seen = look(knob.turned(base.window, amount))
                if (judged := Judged(seen)).changes(mutant):
                    return Stored(f"{base.name}, with {knob.name} x {amount:.4g}", seen, judged.key)
    return None


def _nearest(mutant: Mutant, bases: Sequence[Base]) -> tuple[Base, ...]:
    """Made windows that the limit may decide: those near a bound, those of its own cause, and others."""
    near = [b for b in bases if _near(mutant, b.judged.seen.whole)]
    own = f" {mutant.cause}," if mutant.cause else ": well:"
    kinds = ([b for b in near if ": near a bound:" in b.name], [b for b in near if own in b.name], near)
    return tuple({b.name: b for kind in kinds for b in kind[: BASES // 3]}.values())


def _all_knobs(mutant: Mutant, base: Base) -> Iterator[Knob]:
    if mutant.limit.signal.endswith("harm_p"):
        yield from crowds(base.window, base.judged.seen.whole)
    yield from knobs(base.window, mutant.limit.signal)


def _near(mutant: Mutant, readings: Readings) -> bool:
    """Whether a window may be what the limit is about: everything else that its check asks for holds there."""
    if readings[mutant.limit.signal].value is None:
        return False
    if not mutant.cause:
        return True
    check = BY_CAUSE[mutant.cause]
    part, *at = mutant.place.split(".")
    rows = [r for i, r in enumerate(check.when) if part != "when" or i == int(at[0])]
    if part == "when":
        rows = [tuple(limit for j, limit in enumerate(rows[0]) if j != int(at[1]))]
    return any(all(weigh(limit, readings, SETTINGS).holds for limit in row) for row in rows)
