"""Whether traces told every request: held against the page's own counts, as far as the newest of them reaches."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from llmvitals.gaps import GapKind
from llmvitals.series import Track
from llmvitals.signals.context import Context, once
from llmvitals.signals.derived.common import STALL_SHARE, absent, longest_answer, missing, no_traffic, number
from llmvitals.signals.measure import Line, line
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.told import ENDED, ENGINE, GATEWAY, REQUESTS, VANTAGES, Told, told

FINISHED = "llm_requests_finished_total"
CALLS = "llm_gateway_requests_total"
LAST_END = "llm_span_last_end_seconds"

COVERED = 0.98
"""Share of the requests from which on traces are taken for all of them: senders hold theirs for some seconds."""

MORE = 1.1
"""A gateway's calls over one engine's requests from which on other engines must stand behind it, too."""

STOPPED_SECONDS, STOPPED_REQUESTS = 30.0, 10.0
"""Traces have stopped when so many requests finished later than so long after the newest that was told: OpenTelemetry's batches
leave after 5 s (OTEL_BSP_SCHEDULE_DELAY), and a span waits 10 s for its caller's.
"""

SEEN = {ENGINE: "as the engine saw them", GATEWAY: "as callers saw them"}


@dataclass(frozen=True, slots=True)
class Trust:
    """How far counts of one vantage may be trusted, and why no further."""

    standing: Standing
    note: str


@once
def classes(c: Context, vantage: str = "") -> tuple[str, tuple[Told, ...]]:
    """The vantage whose counts hold: a gateway's where it judged anybody, as users see what it sees, else the engine's."""
    for seen in (vantage,) if vantage else VANTAGES:
        found = told(c.good, c.settings.slo, seen)
        if any(one.judged > 0 for one in found):
            return seen, found
    return "", ()


def nobody(c: Context) -> Reading:
    """Why no class has a count: nobody asked, or no traces come."""
    if not c.good.tracks(REQUESTS):
        return missing(c, REQUESTS)
    course = _course(c, FINISHED, _of_engine)
    finished = course.last if course is not None else 0.0
    if finished < STOPPED_REQUESTS:
        return no_traffic("requests that traces told of")
    return absent(GapKind.STALE, f"{finished:.0f} requests finished, and no trace of one came", ENDED)


@dataclass(frozen=True, slots=True)
class Due:
    """``told``: requests that spans told of; ``due``: those that the page counted meanwhile; ``spread``: by how much that may be
    off by chance, where a page says how many ended, and not when.
    """

    told: float
    due: float
    spread: float = 0.0

    @property
    def ratio(self) -> float:
        """Share of the requests that spans told of, at most 1; where no more is missing than chance may bring, :data:`COVERED` at
        least.
        """
        share = min(1.0, self.told / self.due) if self.due > 0 else 1.0
        return max(share, COVERED) if self.told >= COVERED * self.due - 2.0 * self.spread else share


def _told_by(vantage: str) -> Callable[[Track], bool]:
    """The spans of requests that the page counts too: refused ones and those whose callers left are not among an engine's
    finished ones.
    """
    return lambda track: (
        track.label("vantage") == vantage and (vantage == GATEWAY or track.label("ended") in {"ok", "error"})
    )


def _of_engine(track: Track) -> bool:
    """Requests that the engine finished by its own page, those given up left out: they have no span."""
    return not track.label("reason").startswith("abort")


def _due(c: Context, vantage: str, counter: str, keep: Callable[[Track], bool]) -> Due | None:
    """What spans told, against what they should have. None where one of the two is not counted.

    Senders hold their spans for some seconds. So where the counts of the window do not agree, those up to the newest request that
    was told are held against each other: from the first page to the last that knew one of the window. Inside a page's interval
    requests are taken to have ended evenly; how many of n random ones end before a moment has a standard deviation of sqrt(n)/2 at
    most (binomial), and there are two such moments.
    """
    counted, spans = _course(c, counter, keep), _course(c, ENDED, _told_by(vantage))
    if counted is None or spans is None:
        return None
    plain = Due(spans.last, counted.last)
    ends = line(c.good, LAST_END, {"vantage": vantage}, peak=True)
    known = [(t, e) for t, e in zip(ends.times, ends.values, strict=True) if e >= counted.times[0]] if ends else []
    if plain.ratio >= COVERED or len(known) < 2 or known[-1][1] <= known[0][1]:
        return plain
    (first, since), (last, until) = known[0], known[-1]
    (before, loose), (after, free) = _at(counted, since), _at(counted, until)
    late = Due(_at(spans, last)[0] - _at(spans, first)[0], after - before, (math.sqrt(loose) + math.sqrt(free)) / 2.0)
    return late if late.ratio > plain.ratio else plain


def _course(c: Context, name: str, keep: Callable[[Track], bool]) -> Line | None:
    """How the counters of a name grew since the first page, page by page; None when there is none."""
    tracks = [track for track in c.good.tracks(name) if keep(track)]
    if not tracks:
        return None
    moments = tuple(page.t for page in c.good.snapshots)
    steps: dict[float, float] = dict.fromkeys(moments, 0.0)
    for track in tracks:
        for t, grown in _steps(track, moments[0]):
            steps[t] += grown
    return Line(moments, tuple(accumulate(steps.values())))


def _steps(track: Track, first: float) -> Iterator[tuple[float, float]]:
    """What a counter grew by on each page, a step down counted as a restart from 0; one born later began at 0."""
    if track.times[0] > first:
        yield track.times[0], track.values[0]
    for t, before, now in zip(track.times[1:], track.values, track.values[1:], strict=False):
        yield t, now - before if now >= before else now


def _at(course: Line, moment: float) -> tuple[float, float]:
    """A course at a moment, and how much it grows in the interval in which that lies; 0 at a page's own moment."""
    i = bisect_right(course.times, moment)
    if i == 0 or i == len(course.times):
        return course.values[max(0, i - 1)], 0.0
    (start, end), (low, high) = course.times[i - 1 : i + 1], course.values[i - 1 : i + 1]
    return low + (high - low) * (moment - start) / (end - start), high - low if moment > start else 0.0


@once
def coverage(c: Context, vantage: str) -> Reading:
    """Requests that spans of one vantage told of over those that its page counts; a gap where they stopped coming."""
    stopped = _stopped(c, vantage)
    if stopped is not None:
        return stopped
    if not c.good.tracks(ENDED, {"vantage": vantage}):
        return absent(GapKind.MISSING, "traces tell of requests, and not how many they are", ENDED)
    calls = _due(c, vantage, CALLS, lambda _: True) if vantage == GATEWAY else None
    if calls is not None and calls.due > 0:
        return number(calls.ratio, note=f"{calls.told:.0f} of {calls.due:.0f} calls at the gateway")
    if not c.good.tracks(FINISHED) and c.lost(FINISHED):
        return missing(c, FINISHED)
    found = _due(c, vantage, FINISHED, _of_engine)
    if found is None:
        return absent(GapKind.UNSUPPORTED, "no page counts the requests that traces are to tell of", ENDED)
    if found.due <= 0:
        return no_traffic("finished requests")
    if vantage == GATEWAY and found.told > MORE * found.due:
        return absent(GapKind.UNSUPPORTED, "the gateway has no page, and calls other engines as well", ENDED)
    return number(found.ratio, note=f"{found.told:.0f} of {found.due:.0f} finished requests")


def _stopped(c: Context, vantage: str) -> Reading | None:
    ends = [t.values[-1] for t in c.good.tracks(LAST_END, {"vantage": vantage})]
    counted = line(c.good, CALLS) if vantage == GATEWAY and c.good.tracks(CALLS) else line(c.good, FINISHED)
    if not ends or counted is None:
        return None
    late = counted.after(max(ends) + STOPPED_SECONDS)
    since = late.last - late.values[0] if late.values else 0.0
    if since < STOPPED_REQUESTS:
        return None
    ago = c.good.end - max(ends)
    return absent(GapKind.STALE, f"the newest trace is {ago:.0f} s old, and {since:.0f} requests ended since", ENDED)


def span_coverage_ratio(c: Context) -> Reading:
    """Share of the requests that traces told of: spans over finished requests (of a gateway, over its calls). Less than all
    means sampling, or losses on the way.
    """
    vantage, found = classes(c)
    return coverage(c, vantage) if found else nobody(c)


@once
def trust(c: Context, vantage: str) -> Trust | Reading:
    """How far the counts of a vantage hold; a gap where traces have stopped."""
    covered = coverage(c, vantage)
    if covered.gap is not None and covered.gap.kind is GapKind.STALE:
        return covered
    if covered.value is None:
        return Trust(Standing.ESTIMATE, "how many requests were not told is not known")
    if covered.value < COVERED:
        return Trust(Standing.ESTIMATE, f"traces told of {covered.note}")
    stall = longest_answer(c)
    if vantage == ENGINE and stall >= STALL_SHARE * c.settings.slo.ttft_seconds:
        return Trust(
            Standing.UPPER, f"the API process stalled for {stall:.1f} s: callers waited longer than it measured"
        )
    return Trust(Standing.EXACT, SEEN[vantage])


def whole(c: Context, vantage: str) -> bool:
    """Whether every request was told, so that a test on them is one on all."""
    found = coverage(c, vantage)
    return found.value is not None and found.value >= COVERED
