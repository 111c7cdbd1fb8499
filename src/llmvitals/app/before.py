"""One scope at two moments, to hold "now" against "before": its signals, how much they vary by themselves, its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from llmvitals.app.answer import Key
from llmvitals.app.past import long_window, remembered
from llmvitals.errors import LlmvitalsError, PageError
from llmvitals.series import Window
from llmvitals.settings import Settings, Source
from llmvitals.sources.exporter import place_of
from llmvitals.triage.compare import Comparison, Moment, compare
from llmvitals.triage.course import Course, Runs, began
from llmvitals.triage.history import Trace
from llmvitals.triage.outliers import spread
from llmvitals.triage.report import scope_of
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose_with

NOISE_SECONDS = 180.0
"""How far before a moment it is looked how much a signal varies by itself."""

NOISE_POINTS = 5
"""Fewer numbers than these say nothing of their spread; so many windows are judged for it where each is computed anew."""

EVERY = "*"
"""Every signal that an exporter remembers (exporters/trail.py)."""

INFO, VERSION = "llm_target_info", "version"


def ask_comparison(
    source: Source, key: Key, seconds: float, at: float | None, settings: Settings, *, scopes: int = 0
) -> Comparison | str:
    """A scope at the moment ``at`` (unix seconds; None is now) beside ``seconds`` earlier; a sentence where that cannot be had.

    ``scopes``: how many the source has, as far as known.
    """
    asked = _KINDS.get(source.kind)
    if asked is None:
        return f"The source has the unknown kind '{source.kind}'."
    try:
        before, now = asked(source, key, seconds, at, settings, scopes)
    except LlmvitalsError as error:
        return f"{error.place}: {error.thing}. {error.remedy}"
    return compare(before, now)


def onset(verdict: Verdict, told: Course | None) -> float | None:
    """Seconds from the last moment whose whole window lies before the leading cause began to the one that is shown.

    None where none leads, or nobody knows when it began.
    """
    leading, end = verdict.leading, verdict.window.get("end")
    start = began(told).get(leading.cause) if leading is not None and told is not None else None
    if start is None or start.before or not isinstance(end, (int, float)):
        return None
    return end - (start.t - float(verdict.window.get("seconds") or 0.0))


def _exporter(
    source: Source, key: Key, seconds: float, at: float | None, settings: Settings, scopes: int
) -> tuple[Moment, Moment]:
    traces, told = remembered(source, key, (EVERY,))
    place = place_of(source, "/history")
    times = next((trace.times for trace in traces.values() if trace.times), ())
    if not times:
        raise PageError("has no history of this scope yet", place=place, remedy="Wait for its next cycles.")
    slack = settings.exporter.interval_seconds
    then = [t for t in times if t <= times[-1] - seconds + slack]
    if not then:
        kept = (times[-1] - times[0]) / 60
        raise PageError(
            f"remembers only the last {kept:.0f} min",
            place=place,
            remedy="Choose less, or a PromQL source, which has what was stored.",
        )
    return at_moment(traces, told, then[-1]), at_moment(traces, told, times[-1])


def at_moment(traces: Mapping[str, Trace], told: Course | None, t: float) -> Moment:
    """One moment of a history: every signal's value then, and its spread in the minutes before."""
    values: dict[str, float | None] = {}
    noise: dict[str, float] = {}
    for name, trace in traces.items():
        points = [(at, v) for at, v in zip(trace.times, trace.values, strict=True) if t - NOISE_SECONDS <= at <= t]
        values[name] = points[-1][1] if points and points[-1][0] == t else None
        if (spread := spread_of(v for _, v in points)) is not None:
            noise[name] = spread
    outcome, cause = (_then(runs, t) for runs in ((told.outcomes, told.leading) if told is not None else ((), ())))
    return Moment(t, values, noise, outcome, cause)


def spread_of(values: Iterable[float | None]) -> float | None:
    """The robust standard deviation of the numbers among these; None where they are too few."""
    known = [v for v in values if v is not None]
    if len(known) < NOISE_POINTS:
        return None
    return spread(known)


def _then(runs: Runs, t: float) -> str:
    return next((slug for start, slug in reversed(runs) if start <= t), "")


def _prometheus(
    source: Source, key: Key, seconds: float, at: float | None, settings: Settings, scopes: int
) -> tuple[Moment, Moment]:
    end = time.time() if at is None else at
    found = [_stored(source, key, moment, settings, scopes) for moment in (end - seconds, end)]
    return found[0], found[1]


def _stored(source: Source, key: Key, end: float, settings: Settings, scopes: int) -> Moment:
    """A moment of a PromQL endpoint: the window that ends there is judged, and some before it for their spread."""
    length = settings.exporter.window_seconds
    found = long_window(source, key, end, NOISE_SECONDS + length, settings, scopes=scopes)
    if found is None or not found[1].snapshots:
        raise PageError(
            f"holds nothing of {key[0]} at that moment",
            place=source.url,
            remedy="Choose another moment to compare with.",
        )
    engines, window = found
    ends = [page.t for page in window.snapshots if page.t - length >= window.start] or [window.snapshots[-1].t]
    shown = ends[::-1][:: -(-len(ends) // (2 * NOISE_POINTS)) or 1][::-1]
    scope = scope_of(*key, engines)
    judged = [diagnose_with(window.slice(t - length, t), settings, scope=scope) for t in shown]
    verdict, readings = judged[-1]
    values = {name: reading.value for name, reading in readings.items()}
    spreads = {name: spread_of(r[name].value for _, r in judged if name in r) for name in values}
    return Moment(
        shown[-1],
        values,
        {name: spread for name, spread in spreads.items() if spread is not None},
        verdict.outcome.value,
        verdict.leading.cause if verdict.leading else "",
        facts(window),
    )


def facts(window: Window) -> dict[str, str]:
    """What was set, as text, on the newest page."""
    versions: Sequence[str] = sorted(
        {key.label(VERSION) for key in window.snapshots[-1].samples if key.name == INFO and key.label(VERSION)}
    )
    return {"Version": ", ".join(versions)} if versions else {}


_Asked = Callable[[Source, Key, float, float | None, Settings, int], tuple[Moment, Moment]]
_KINDS: Mapping[str, _Asked] = {"exporter": _exporter, "prometheus": _prometheus}
