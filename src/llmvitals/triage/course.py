"""Since when: the state of every check from moment to moment, and when those that fire now began to.

A moment is the end of a window that was judged. What a check says at a moment is about the window before it, so that what
it names began at most ``seconds`` earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from llmvitals.errors import PageError
from llmvitals.triage import moments
from llmvitals.triage.verdict import State, Verdict

Runs = tuple[tuple[float, str], ...]
"""(unix seconds, slug) where a state begins, in order of time; it lasts to the next one or to the end."""


@dataclass(frozen=True, slots=True)
class Course:
    """What every check said from ``start`` to ``end`` (unix seconds of the first and the last moment judged).

    ``seconds``: length of the window of each moment. ``states``: by cause, the newest :data:`MOST_RUNS` changes; ``outcomes``,
    ``leading``: of the verdicts ('' where none leads).
    """

    start: float
    end: float
    seconds: float
    states: Mapping[str, Runs]
    outcomes: Runs = ()
    leading: Runs = ()


@dataclass(frozen=True, slots=True)
class Began:
    """When a check began to fire: at the moment ``t`` (unix seconds); ``before``: or earlier, as the course begins with it firing.

    ``after``: the state that it was in before (unknown is no proof that it was well), '' where ``before``. ``broken``: how many
    interruptions shorter than a window lie between; what hardly covers a window is no end.
    """

    t: float
    before: bool = False
    after: str = ""
    broken: int = 0


MOST_RUNS = 32
"""Changes that are kept of each cause: what flutters for hours is not written down whole."""


def course(moments: Iterable[tuple[float, Verdict]], seconds: float) -> Course | None:
    """The course of verdicts in order of time (unix seconds of each window's end); None of none. ``seconds``: the length of the
    windows.
    """
    found: Course | None = None
    for t, verdict in moments:
        found = extended(found, t, verdict, seconds)
    return found


def extended(before: Course | None, t: float, verdict: Verdict, seconds: float) -> Course:
    """A course and one moment more (unix seconds)."""
    old = before or Course(t, t, seconds, {})
    new = {check.cause: check.state.value for step in verdict.steps for check in step.checks}
    same = new.keys() == old.states.keys() and all(old.states[cause][-1][1] == state for cause, state in new.items())
    return Course(
        old.start,
        t,
        seconds,
        old.states if same else {cause: _with(old.states.get(cause, ()), t, state) for cause, state in new.items()},
        _with(old.outcomes, t, verdict.outcome.value),
        _with(old.leading, t, verdict.leading.cause if verdict.leading else ""),
    )


def _with(runs: Runs, t: float, state: str) -> Runs:
    return runs if runs and runs[-1][1] == state else (*runs, (t, state))[-MOST_RUNS:]


_HOLDING = frozenset({State.FIRING.value, State.SHADOWED.value})


def began(course: Course) -> dict[str, Began]:
    """Of every cause that holds at the end of the course (fires, or is explained by another): when it began to."""
    return {cause: _began(runs, course) for cause, runs in course.states.items() if runs and runs[-1][1] in _HOLDING}


def _began(runs: Runs, course: Course) -> Began:
    """Back from the end over whatever holds, and over interruptions that are shorter than a window."""
    first, broken, over = len(runs) - 1, 0, False
    for i in range(len(runs) - 2, -1, -1):
        if runs[i][1] in _HOLDING:
            broken += first - i > 1
            first = i
        elif runs[first][0] - runs[i][0] >= course.seconds:
            over = True
            break
    # what was before the first of these was not seen, or is not kept
    lost = runs[0][0] > course.start and not over
    if first == 0 or lost:
        return Began(runs[first][0], before=True, broken=broken)
    return Began(runs[first][0], after=runs[first - 1][1], broken=broken)


def encode(course: Course) -> dict[str, Any]:
    """The JSON form: the fields of :class:`Course`, runs as ``[[t, slug], ...]``."""
    found: dict[str, Any] = msgspec.to_builtins(course)
    return found


def decode(document: object, *, place: str) -> Course | None:
    """The course in an answer of ``/history``; None where it has none (an older exporter). Raises :class:`PageError`."""
    told = document.get("course") if isinstance(document, dict) else None
    if told is None:
        return None
    try:
        found = msgspec.convert(told, Course)
    except msgspec.ValidationError as error:
        raise PageError(
            f"answered with a course that cannot be read ({error})",
            place=place,
            remedy="Bring the exporter and this reader to the same version.",
        ) from None
    runs = (*found.states.values(), found.outcomes, found.leading)
    moments.check((found.start, found.end, *(t for run in runs for t, _ in run)), place=place)
    return found
