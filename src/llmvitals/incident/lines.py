"""How the scope of a report went: its signals and its checks, asked again for windows that end at each of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.reading import Reading
from llmvitals.triage import history
from llmvitals.triage.course import Course, course
from llmvitals.triage.history import Trace
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose_with

MOST_MOMENTS = 24
"""Windows that are judged again, at some 20 ms each."""

PARTS = 3
"""Where there is no more than what was judged, windows of a third of it are drawn, if that is enough for a verdict."""


@dataclass(frozen=True, slots=True)
class Lines:
    """``traces`` by signal; ``course`` None where too little is known; ``seconds``: the length of each window.

    ``whole``: each window is as long as the one that was judged, so that a line ends on its number.
    """

    traces: dict[str, Trace]
    course: Course | None
    seconds: float
    whole: bool


def lines(window: Window, judged: Window, verdict: Verdict, settings: Settings) -> Lines:
    """From all pages that are known of a scope (``window``), and those that its verdict is about (``judged``)."""
    longer = window.seconds > 1.5 * judged.seconds > 0
    least = settings.thresholds.min_seconds
    seconds = judged.seconds if longer else max(judged.seconds / PARTS, least)
    ends = [page.t for page in window.snapshots if page.t - seconds >= window.start]
    stride = -(-len(ends) // MOST_MOMENTS) or 1
    points, moments = [], []
    readings: Mapping[str, Reading] = {}
    for end in ends[::-1][::stride][::-1]:  # counted from the newest, which is always drawn
        told, readings = diagnose_with(window.slice(end - seconds, end), settings, scope=dict(verdict.scope))
        points.append((end, {name: reading.value for name, reading in readings.items()}))
        moments.append((end, told))
    signals = history.wanted(e.signal for e in (verdict.leading.evidence if verdict.leading else ()))
    known = len(points) > 1
    return Lines(
        history.traced(points, signals, settings, readings) if known else {},
        course(moments, seconds) if known else None,
        seconds,
        longer,
    )
