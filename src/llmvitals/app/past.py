"""How one scope came to be as it is: lines of its signals, and since when each check fires. Asked for after the verdict, which
never waits for it and never fails with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.app.answer import Key
from llmvitals.app.promql import observed, windows_of
from llmvitals.errors import LlmvitalsError
from llmvitals.series import Window
from llmvitals.settings import Settings, Source
from llmvitals.signals.promised import promised
from llmvitals.signals.reading import Reading
from llmvitals.sources.exporter import fetch_json, place_of
from llmvitals.sources.reach import far_enough
from llmvitals.triage import history
from llmvitals.triage.course import Course, course
from llmvitals.triage.course import decode as decode_course
from llmvitals.triage.history import Trace
from llmvitals.triage.report import scope_of
from llmvitals.triage.verdict import State, Verdict
from llmvitals.triage.walk import diagnose_with

PAST_SECONDS = 600.0
"""How far back a PromQL endpoint is asked."""

ALONE = 2
"""Of more targets than these none is joined to another unless the settings say so, and one can be read by itself."""

_DRAWN = frozenset({State.FIRING, State.SHADOWED})


@dataclass(frozen=True, slots=True)
class Past:
    """Lines by signal, and what every check said over time (None where the source does not say).

    ``why``: what is amiss where there is nothing, '' else.
    """

    traces: Mapping[str, Trace] = field(default_factory=dict)
    course: Course | None = None
    why: str = ""


def drawn(verdict: Verdict) -> tuple[str, ...]:
    """The signals that are drawn for a verdict: vital signs, and the evidence of every check that fires."""
    told = [check.evidence for step in verdict.steps for check in step.checks if check.state in _DRAWN]
    told += [found.evidence for found in (verdict.leading, *verdict.contributing) if found is not None]
    return history.wanted(e.signal for evidence in told for e in evidence)


def ask_past(
    source: Source, key: Key, signals: tuple[str, ...], at: float | None, settings: Settings, *, scopes: int = 0
) -> Past:
    """The minutes up to the moment ``at`` (unix seconds; None is now) of one scope. Never raises an :class:`LlmvitalsError`.

    ``scopes``: how many the source has, as far as known: among many, one is read by itself.
    """
    asked = _KINDS.get(source.kind)
    if asked is None:
        return Past(why=f"the source has the unknown kind '{source.kind}'")
    try:
        return asked(source, key, signals, at, settings, scopes)
    except LlmvitalsError as error:
        return Past(why=f"{error.place}: {error.thing}")


def _exporter(
    source: Source, key: Key, signals: tuple[str, ...], at: float | None, settings: Settings, scopes: int
) -> Past:
    traces, told = remembered(source, key, signals)
    return Past(traces, told)


def remembered(source: Source, key: Key, signals: Sequence[str]) -> tuple[dict[str, Trace], Course | None]:
    """What an exporter remembers of a scope: these signals over time, and its course.

    Raises the errors of :func:`fetch_json`, and :class:`PageError` for what cannot be read.
    """
    place = place_of(source, "/history")
    found = fetch_json(source, "/history", {"instance": key[0], "model": key[1], "signal": tuple(signals)})
    return history.decode(found, place=place), decode_course(found, place=place)


def _prometheus(
    source: Source, key: Key, signals: tuple[str, ...], at: float | None, settings: Settings, scopes: int
) -> Past:
    seconds = settings.exporter.window_seconds
    end = time.time() if at is None else at
    found = long_window(source, key, end, PAST_SECONDS + seconds, settings, scopes=scopes)
    if found is None:
        return Past(why=f"{source.url}: holds nothing of {key[0]} in the minutes before")
    return replayed(found[1], signals, seconds, settings, key, found[0])


def long_window(
    source: Source, key: Key, end: float, seconds: float, settings: Settings, *, scopes: int = 0
) -> tuple[Sequence[str], Window] | None:
    """The engines of a scope (of a service) and its samples of the ``seconds`` up to ``end``; None where there are none.

    Of many the chosen one alone is read (of a service, its engines), so that a fleet's Prometheus is not asked for everybody's
    last minutes.
    """
    targets = observed(source, end, seconds, settings, only=key[0] if scopes > ALONE else "")
    return next(((engines, window) for found, engines, window in windows_of(targets) if found == key), None)


def lines(source: Source, key: Key, end: float, signals: Sequence[str], settings: Settings) -> dict[str, Trace]:
    """How signals of one engine moved in the minutes before ``end`` (unix seconds); empty where that cannot be had."""
    seconds = settings.exporter.window_seconds
    try:
        found = long_window(source, key, end, PAST_SECONDS + seconds, settings, scopes=ALONE + 1)
    except LlmvitalsError:
        return {}
    return history.replay(found[1], seconds, signals, settings) if found is not None else {}


@dataclass(frozen=True, slots=True)
class _Judged:
    """One moment: the verdict on the window that ends there, and its signals."""

    verdict: Verdict
    readings: Mapping[str, Reading]


def replayed(
    window: Window, signals: Sequence[str], seconds: float, settings: Settings, key: Key, engines: Sequence[str] = ()
) -> Past:
    """Signals and checks over a long window, judged again for windows of ``seconds`` that end at some of its pages.

    Between the two moments where the leading cause changes every page is asked, so that it is known to the page since when.
    """
    seconds = _as_judged([page.t for page in window.snapshots], seconds, settings.thresholds.min_pages)
    ends = [snapshot.t for snapshot in window.snapshots if snapshot.t - seconds >= window.start]
    stride = -(-len(ends) // history.MOST_POINTS) or 1
    scope = scope_of(*key, engines)

    def judged(end: float) -> _Judged:
        return _Judged(*diagnose_with(window.slice(end - seconds, end), settings, scope=scope))

    found = {end: judged(end) for end in ends[::-1][::stride]}  # counted from the newest, which is always drawn
    for end in tuple(_between(found, ends)):
        found[end] = judged(end)
    moments = sorted(found)
    points = [(t, {name: reading.value for name, reading in found[t].readings.items()}) for t in moments]
    told = course(((t, found[t].verdict) for t in moments), seconds) if moments else None
    newest = found[moments[-1]].readings if moments else {}
    return Past(history.traced(points, signals, promised(window, settings), newest), told)


def _as_judged(times: Sequence[float], seconds: float, pages: int) -> float:
    """How long the verdict's own window is (sources/reach.py): longer than ``seconds`` only where that holds too few pages."""
    newest = sum(t >= times[-1] - seconds for t in times) if times else 0
    return seconds if newest >= pages else far_enough(times, seconds, pages)


def _between(found: Mapping[float, _Judged], ends: Sequence[float]) -> Iterator[float]:
    """The pages between the last moment of another leading cause and the first of today's."""
    moments = sorted(found)
    if not moments:
        return
    leads = [_leading(found[t].verdict) for t in moments]
    if not leads[-1]:
        return
    other = next((i for i in range(len(leads) - 1, -1, -1) if leads[i] != leads[-1]), None)
    if other is not None:
        yield from (t for t in ends if moments[other] < t < moments[other + 1])


def _leading(verdict: Verdict) -> str:
    return verdict.leading.cause if verdict.leading is not None else ""


_Asked = Callable[[Source, Key, tuple[str, ...], float | None, Settings, int], Past]
_KINDS: Mapping[str, _Asked] = {"exporter": _exporter, "prometheus": _prometheus}
