"""What would change a verdict: one signal moved just beyond one bound, all else as it is, and the walk asked again.

Nothing is guessed: a move is told only where the checks then give another outcome or another cause. Signals hang together in
a real server, so that this says how near the verdict is to another, and not what a change of a setting would bring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.reading import Reading
from llmvitals.triage.checks import BY_CAUSE, CHECKS, HURT
from llmvitals.triage.judge import OPS, Results, bound_of
from llmvitals.triage.model import AGAINST, Check, Limit, Readings
from llmvitals.triage.verdict import Change, Outcome

MOST_TOLD, MOST_TRIED = 4, 8
"""Changes of one verdict at most, and moves that are walked for them: each costs about a tenth of a walk."""

NEAR, NEAR_WELL = 0.75, 0.5
"""Conditions that do not hold are told of only where they are nearer than this (see :func:`distance`), and where nothing is wrong
only much nearer: something else could always happen.
"""

LEAST_OF: Mapping[str, tuple[str, ...]] = {
    "harm_p": ("ttft_harm_p", "tpot_harm_p"),
    "users_harm_p": ("harm_p", "call_ttft_harm_p"),
}
"""Signals that are the least of others: they cannot move without them. The innermost come first."""

Again = Callable[[Readings, Collection[str]], tuple[Outcome, str]]
"""The walk on other readings, of which these signals differ: the outcome and the leading cause ('' where none leads)."""


@dataclass(frozen=True, slots=True)
class Standpoint:
    """A verdict as it stands, and what it stands on. ``cause``: the leading one, '' where none leads."""

    outcome: Outcome
    cause: str
    results: Results
    readings: Readings
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Move:
    """A signal, to the side ``op`` of ``bound``, where it is not now; ``far``: how far that is."""

    signal: str
    op: str
    bound: float
    far: tuple[bool, float]


@cache
def _signals() -> Mapping[str, frozenset[str]]:
    return {c.cause: frozenset(limit.signal for limit in _limits(c)) for c in CHECKS}


def signals_of(check: Check) -> frozenset[str]:
    """Every signal that a check looks at."""
    return _signals()[check.cause]


def _limits(check: Check) -> Iterator[Limit]:
    for rows in check.when:
        yield from rows
    yield from (*check.unless, *check.confirms, *(check.proof.limits if check.proof else ()))


def distance(value: float, bound: float) -> float:
    """How far a number is from a bound: the difference as a share of the larger of the two, from 0 to 2."""
    size = max(abs(value), abs(bound))
    return abs(value - bound) / size if size and math.isfinite(size) else math.inf if size else 0.0


def changes(now: Standpoint, again: Again) -> tuple[Change, ...]:
    """What would change this verdict, the nearest first; none where a healthy one is far from any other."""
    found: list[Change] = []
    seen = {(now.outcome, now.cause)}
    for move in sorted(_moves(now), key=lambda m: (m.far, m.signal))[:MOST_TRIED]:
        outcome, cause = again(*_moved(move, now.readings))
        if (outcome, cause) in seen:
            continue
        seen.add((outcome, cause))
        signal = BY_ID[move.signal]
        value = now.readings[move.signal].value
        found.append(Change(move.signal, signal.title, value, move.bound, signal.unit, move.op, outcome.value, cause))
        if len(found) == MOST_TOLD:
            break
    return tuple(found)


def _moves(now: Standpoint) -> set[_Move]:
    """What could change it: the conditions of what is named now, and what checks lack by one condition that could take the lead."""
    hold = _Holding(now.readings, now.settings)
    well = now.outcome is Outcome.HEALTHY
    checks = _before(now.cause) if now.outcome is Outcome.CAUSE else CHECKS
    lacking = (limit for check in checks if check.cause != now.cause for limit in hold.lacks(check))
    onto = {move for limit in (*lacking, *(HURT if well else ())) if (move := hold.onto(limit)) is not None}
    near = {move for move in onto if move.far[1] < (NEAR_WELL if well else NEAR)}
    return near | {move for limit in _standing_on(now) if (move := hold.away(limit)) is not None}


def _standing_on(now: Standpoint) -> Iterator[Limit]:
    """The conditions of the check that is named now."""
    named = [now.cause] if now.cause else []
    if now.outcome is Outcome.SHEDDING:
        named = [c.cause for c in CHECKS if c.outcome is Outcome.SHEDDING]
    hold = _Holding(now.readings, now.settings)
    for cause in named:
        for rows in BY_CAUSE[cause].when:
            if all(hold.holds(limit) for limit in rows):
                yield from rows


@cache
def _before(cause: str) -> tuple[Check, ...]:
    """Checks that would take the lead from this cause: those before it in the table, and those that explain it."""
    place = [check.cause for check in CHECKS].index(cause)
    return tuple(c for i, c in enumerate(CHECKS) if i < place or cause in c.explains)


@dataclass(frozen=True, slots=True)
class _Holding:
    readings: Readings
    settings: Settings

    def holds(self, limit: Limit) -> bool | None:
        value = self.readings[limit.signal].value
        return None if value is None else OPS[limit.op](value, bound_of(limit, self.settings))

    def lacks(self, check: Check) -> Iterator[Limit]:
        """Of every alternative that lacks one condition, that one."""
        for rows in check.when:
            missing: Limit | None = None
            for limit in rows:
                if not self.holds(limit):
                    if missing is not None or self.readings[limit.signal].value is None:
                        break
                    missing = limit
            else:
                if missing is not None:
                    yield missing

    def onto(self, limit: Limit) -> _Move | None:
        """To where a limit holds that does not now."""
        return None if self.holds(limit) is not False else self._move(limit, limit.op)

    def away(self, limit: Limit) -> _Move | None:
        """To where a limit does not hold that holds now."""
        return self._move(limit, AGAINST[limit.op]) if self.holds(limit) else None

    def _move(self, limit: Limit, op: str) -> _Move:
        bound, value = bound_of(limit, self.settings), self.readings[limit.signal].value
        assert value is not None
        # chances of 1e-9 and of 0.01 lie on another scale than shares and seconds do: they come last
        chance = BY_ID[limit.signal].unit == "probability"
        return _Move(limit.signal, op, bound, (chance, distance(value, bound)))


def _moved(move: _Move, readings: Readings) -> tuple[dict[str, Reading], frozenset[str]]:
    """The readings with one signal just beyond its bound, and with it those that are the least of several; which those are."""
    to = {"<": math.nextafter(move.bound, -math.inf), ">": math.nextafter(move.bound, math.inf)}.get(
        move.op, move.bound
    )
    other = dict(readings)
    moved = {move.signal}

    def put(name: str, value: float) -> None:
        other[name] = replace(other[name], value=value, gap=None)
        moved.add(name)

    put(move.signal, to)
    lifted = [move.signal]
    while (
        lifted
    ):  # what a least one is the least of is not below it; no function that calls itself, which is garbage of a cycle
        for part in LEAST_OF.get(lifted.pop(), ()):
            if (value := readings[part].value) is not None and value < to:
                put(part, to)
                lifted.append(part)
    for name, parts in LEAST_OF.items():
        was = readings[name].value
        if name not in moved and was is not None and not moved.isdisjoint(parts):
            before = min((v for part in parts if (v := readings[part].value) is not None), default=math.inf)
            after = min((v for part in parts if (v := other[part].value) is not None), default=math.inf)
            if was >= before or after < was:  # else something else keeps it low
                put(name, after)
    return other, frozenset(moved)
