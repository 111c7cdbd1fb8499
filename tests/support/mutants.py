"""The table of checks, and the same table with one limit wrong: its operator turned round, its bound doubled or halved."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from unittest import mock

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.context import Context
from llmvitals.signals.reading import Reading
from llmvitals.triage import walk
from llmvitals.triage.checks import BY_CAUSE, CHECKS, HURT
from llmvitals.triage.judge import bound_of, judge, proved
from llmvitals.triage.model import Check, Limit
from llmvitals.triage.verdict import CheckResult, State, Verdict

SETTINGS = Settings()
INVERTED = {"<": ">=", ">=": "<", "<=": ">", ">": "<="}
OPS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
FACTORS = {"doubled": 2.0, "halved": 0.5}

WHOLE: frozenset[str] = frozenset(
    {
        "dead_tail_pages",
        "gpu_links_unknown",
        "gpu_remap_pending",
        "gpu_ecc_errors",
        "gpu_xid_errors",
        "kv_transfer_failures",
        "late_ttft_breaches",
        "lost_by_restarts",
        "device_oom_restarts",
        "oom_restarts",
        "planned_restarts",
        "prefix_caching_enabled",
        "processes_behind",
        "core_families_missing",
        "restarts",
        "restarts_not_crashed",
        "running_max",
        "spare_seats",
        "waiting_last",
    }
)
"""Signals that count: between 0.5 and 1 of them there is nothing, so that no window could tell the two bounds apart."""

Readings = Mapping[str, Reading]
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a walk looks at: the moments of a window's pages (``window`` holds no more), the readings of the whole, and those
    of the parts that it may ask by themselves, in its order: the last third, the newest pages.
    """

    window: Window
    whole: Readings
    parts: tuple[Readings, ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A limit of the table gone wrong. ``cause``: the check it belongs to, '' for the limits that say who is hurt."""

    cause: str
    place: str
    limit: Limit
    wrong: Limit
    how: str

    @property
    def proved(self) -> bool:
        """Whether its check has a proof, whose limits are found again by signal and operator."""
        return self.cause != "" and BY_CAUSE[self.cause].proof is not None

    @property
    def name(self) -> str:
        """``cause when.0.2 signal >= 0.5 doubled``."""
        bound = f"{self.limit.bound}" + (f" x {self.limit.factor:g}" if self.limit.factor != 1 else "")
        return f"{self.cause or 'hurt'} {self.place} {self.limit.signal} {self.limit.op} {bound} {self.how}"


def mutants() -> tuple[Mutant, ...]:
    """Every limit of every check, three times wrong where that can make a difference."""
    return tuple(m for m in every() if not ruled_out(m))


def every() -> tuple[Mutant, ...]:
    """The same, and those that make none because what lies between the bounds rules the check out."""
    places = [(c.cause, place, limit) for c in CHECKS for place, limit in _limits(c)]
    places += [("", f"{i}", limit) for i, limit in enumerate(HURT)]
    return tuple(
        Mutant(cause, place, limit, wrong, how)
        for cause, place, limit in places
        for how, wrong in _wrong(limit)
        if not _alike(limit, wrong)
    )


def _limits(check: Check) -> Iterator[tuple[str, Limit]]:
    for i, row in enumerate(check.when):
        yield from ((f"when.{i}.{j}", limit) for j, limit in enumerate(row))
    yield from ((f"confirms.{j}", limit) for j, limit in enumerate(check.confirms))
    yield from ((f"unless.{j}", limit) for j, limit in enumerate(check.unless))
    yield from ((f"proof.{j}", limit) for j, limit in enumerate(check.proof.limits if check.proof else ()))


def _wrong(limit: Limit) -> Iterator[tuple[str, Limit]]:
    yield "inverted", replace(limit, op=INVERTED[limit.op])
    if bound_of(limit, SETTINGS):
        for how, factor in FACTORS.items():
            yield how, replace(limit, factor=limit.factor * factor)


def _alike(limit: Limit, wrong: Limit) -> bool:
    """Whether no number that the signal can have lies between the two bounds."""
    if limit.op != wrong.op or limit.signal not in WHOLE:
        return False
    low, high = sorted((bound_of(limit, SETTINGS), bound_of(wrong, SETTINGS)))
    whole = range(math.floor(low), math.ceil(high) + 1)
    return all(_holds(limit, Reading(float(n)), SETTINGS) is _holds(wrong, Reading(float(n)), SETTINGS) for n in whole)


def ruled_out(mutant: Mutant) -> bool:
    """Whether every number that lies between the two bounds rules the check out anyway, so that it is clear both times.

    So it is for head-of-line-blocking: small prompts that the gateway shows to be served well rule it out from the very
    bound on below which their lateness is asked for and proves it. The limit stays for its row of evidence.
    """
    limit, wrong = mutant.limit, mutant.wrong
    if not mutant.cause or mutant.place.startswith("unless") or limit.op != wrong.op:
        return False
    low, high = sorted((bound_of(limit, SETTINGS), bound_of(wrong, SETTINGS)))
    ends = [Reading(x) for x in (low, math.nextafter(low, math.inf), math.nextafter(high, -math.inf), high)]
    between = [x for x in ends if _holds(limit, x, SETTINGS) is not _holds(wrong, x, SETTINGS)]
    return any(
        other.signal == limit.signal and all(_holds(other, x, SETTINGS) for x in between)
        for other in BY_CAUSE[mutant.cause].unless
    )


def _holds(limit: Limit, reading: Reading, settings: Settings) -> bool | None:
    """What :func:`weigh` says, without the words."""
    if reading.value is None:
        return False if reading.gap is not None and reading.gap.kind is GapKind.NO_TRAFFIC else None
    return OPS[limit.op](reading.value, bound_of(limit, settings))


# -- judging -----------------------------------------------------------------------------------------------------------
def key(verdict: Verdict) -> Key:
    """What counts of a verdict: outcome, causes with their confidence, and the state of every check."""
    leading = verdict.leading
    return (
        str(verdict.outcome),
        leading.cause if leading else "",
        leading.confidence if leading else 0.0,
        tuple((f.cause, f.confidence) for f in verdict.contributing),
        tuple(sorted((check.cause, str(check.state)) for step in verdict.steps for check in step.checks)),
    )


class Judged:
    """What the walk says of a situation, with the table as it is and with one limit wrong."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        parts = parts_of(seen.window, seen.whole)
        self._every = ((seen.whole, SETTINGS), *zip(seen.parts, (own for _, own in parts), strict=True))
        self._at = {span(part): readings for (part, _), readings in zip(parts, seen.parts, strict=True)}
        self._known: dict[tuple[int, str], CheckResult] = {}
        self._failing: dict[tuple[int, str], list[int]] = {}
        self.key = self._walk(CHECKS, HURT)

    def changes(self, mutant: Mutant) -> bool:
        """Whether the verdict differs with this limit wrong; walked anew only where that can be."""
        return self._may_change(mutant) and self.wrong(mutant) != self.key

    def wrong(self, mutant: Mutant, *, every_check: bool = False) -> Key:
        """The verdict with this limit wrong: only its check is judged again, or ``every_check``."""
        if not mutant.cause:
            return self._walk(CHECKS, _put(HURT, int(mutant.place), mutant.wrong))
        checks = tuple(with_wrong(c, mutant) if c.cause == mutant.cause else c for c in CHECKS)
        return self._walk(checks, HURT, every_check=every_check)

    def _may_change(self, mutant: Mutant) -> bool:
        """Whether what a walk reads of the check that has the limit differs, or whether somebody is hurt."""
        moved = [(r, own) for r, own in self._every if self._moves(mutant, r, own)]
        if not mutant.cause:
            return bool(moved)
        moved = [(r, own) for r, own in moved if not self._clear_anyway(mutant, r, own)]
        if not moved:
            return False
        right = BY_CAUSE[mutant.cause]
        wrong = with_wrong(right, mutant)
        return any(_read(wrong, judge(wrong, r, own)) != _read(right, self._judge(right, r, own)) for r, own in moved)

    @staticmethod
    def _moves(mutant: Mutant, readings: Readings, settings: Settings) -> bool:
        """A limit that holds as before leaves its check as it was; a proof's is found again by its operator, too."""
        reading = readings[mutant.limit.signal]
        if reading.value is None:
            return mutant.proved and mutant.how == "inverted"
        return _holds(mutant.limit, reading, settings) is not _holds(mutant.wrong, reading, settings)

    def _clear_anyway(self, mutant: Mutant, readings: Readings, settings: Settings) -> bool:
        """Whether every alternative of the check fails, with the limit right and wrong: then it is clear both times."""
        place = (id(readings), mutant.cause)
        if place not in self._failing:
            rows = BY_CAUSE[mutant.cause].when
            self._failing[place] = [sum(_holds(x, readings[x.signal], settings) is False for x in row) for row in rows]
        failing = self._failing[place]
        if not all(failing):
            return False
        part, *at = mutant.place.split(".")
        if part != "when":
            return True
        reading = readings[mutant.limit.signal]
        was, now = (_holds(limit, reading, settings) is False for limit in (mutant.limit, mutant.wrong))
        return failing[int(at[0])] - was + now > 0

    def _judge(self, check: Check, readings: Readings, settings: Settings) -> CheckResult:
        place = (id(readings), check.cause)
        if place not in self._known:
            self._known[place] = judge(check, readings, settings)
        return self._known[place]

    def _walk(self, checks: tuple[Check, ...], hurt: tuple[Limit, ...], *, every_check: bool = False) -> Key:
        def compute(window: Window, settings: Settings, *, only: Collection[str] = ()) -> Readings:
            return self.seen.whole if window is self.seen.window else self._at[span(window)]

        def computed(context: Context) -> Readings:
            return compute(context.window, context.settings)

        def once(check: Check, readings: Readings, settings: Settings) -> CheckResult:
            known = check is BY_CAUSE[check.cause]
            return (self._judge if known else judge)(check, readings, settings)

        table = {c.cause: c for c in checks}
        blind = mock.Mock(return_value=())  # what the walk could not see is no part of what counts
        judged = judge if every_check else once
        with mock.patch.multiple(
            walk,
            CHECKS=checks,
            BY_CAUSE=table,
            HURT=hurt,
            compute=compute,
            computed=computed,
            judge=judged,
            blind_spots=blind,
        ):
            return key(walk.diagnose(self.seen.window, SETTINGS))


def parts_of(window: Window, readings: Readings) -> list[tuple[Window, Settings]]:
    """The parts of a window that a walk may ask by themselves, and the settings that it holds them to: all of them, as if
    everybody were hurt.
    """
    with mock.patch.multiple(walk, _hurt=lambda *_: True, compute=lambda *_, **__: {}):
        return list(walk._parts(window, dict(readings), SETTINGS))


def span(window: Window) -> tuple[float, float]:
    """What tells the parts of a window apart."""
    return (window.start, window.end)


def _read(check: Check, result: CheckResult) -> Key:
    """What a walk reads of a check that it has judged: of one that is clear or has no say, no more than that."""
    if result.state in {State.CLEAR, State.NOT_APPLICABLE}:
        return (result.state,)
    return (result.state, proved(check, result), tuple((e.holds, e.gap) for e in result.evidence))


def _put(row: tuple[Limit, ...], at: int, limit: Limit) -> tuple[Limit, ...]:
    return (*row[:at], limit, *row[at + 1 :])


def with_wrong(check: Check, mutant: Mutant) -> Check:
    """The check with its limit wrong."""
    part, *at = mutant.place.split(".")
    numbers = [int(n) for n in at]
    if part == "when":
        i, j = numbers
        return replace(check, when=(*check.when[:i], _put(check.when[i], j, mutant.wrong), *check.when[i + 1 :]))
    if part == "proof":
        assert check.proof is not None
        return replace(check, proof=replace(check.proof, limits=_put(check.proof.limits, numbers[0], mutant.wrong)))
    return replace(check, **{part: _put(getattr(check, part), numbers[0], mutant.wrong)})
