"""Windows of played scenarios, of recordings and of made servers, each with the name under which it can be had again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path

from llmvitals.lab.play import ORIGIN, Job, Run, watch
from llmvitals.lab.result import LEVELS, Kind
from llmvitals.series import Window
from llmvitals.signals.window import scopes
from llmvitals.sources.capture import read_capture
from support.recordings import cuts
from support.situations import SITUATIONS, WELL

ALONE, FULL = LEVELS[0], LEVELS[-1]


@lru_cache(maxsize=4)
def watched(job: Job, *, fault: bool = True) -> Run:
    """A draw, played once for all that is asked of it in a row."""
    return watch(job, fault=fault)


def moments(run: Run, count: int) -> tuple[float, ...]:
    """Seconds of simulated time at which a triage may look: so many pages from the onset on, the last one among them."""
    after = [s.t - ORIGIN for s in run.snapshots if s.t - ORIGIN > run.onset]
    return tuple(dict.fromkeys(after[-1 - round(i * (len(after) - 1) / count)] for i in range(count)))[::-1]


def played(job: Job) -> Iterator[tuple[str, Window]]:
    """The windows of a draw, with its fault and without, at several moments and every level of telemetry."""
    for fault in (True, False):
        run = watched(job, fault=fault)
        if not fault and run.pair.good is run.pair.bad:
            return
        name = f"{job.scenario} {job.severity} {job.seed}/{job.number}" + ("" if fault else " without")
        for moment in moments(run, 5 if fault else 2):
            for level in LEVELS:
                yield f"{name} at {moment:.3f} {level}", run.window(moment, level)


def made() -> Iterator[tuple[str, Window]]:
    """The windows of servers made by hand: what shows a cause, what only looks like it, what is well."""
    for situation in SITUATIONS:
        for kind, table in (("shown", situation.shown), ("alike", situation.alike)):
            for name, window in table.items():
                yield f"made: {situation.cause}, {kind}: {name}", window()
    for name, window in WELL.items():
        yield f"made: well: {name}", window()


def recorded(folder: Path) -> Iterator[tuple[str, Window]]:
    """The windows of a recording: whole, in parts, and as it would have been seen from page to page."""
    for observed in read_capture(folder):
        for (_, model), window in scopes(observed.snapshots).items():
            name = f"recording: {folder.name} {model}"
            yield name, window
            for part, cut in chain(cuts(window), _trailing(window)):
                yield f"{name}, {part}", cut


def _trailing(window: Window, seconds: float = 60.0) -> Iterator[tuple[str, Window]]:
    for snapshot in window.snapshots[::3]:
        if snapshot.t - window.start >= seconds / 2:
            yield f"at {snapshot.t - window.start:.0f}", window.slice(snapshot.t - seconds, snapshot.t)


def graded(kind: Kind) -> bool:
    """Whether a scenario of this kind has severities."""
    return kind in (Kind.FAULT, Kind.COMPOUND)
