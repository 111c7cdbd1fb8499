"""Windows of played scenarios, of recordings and of made servers, each with the name under which it can be had again."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from unittest import mock

import msgspec

from llmvitals.lab.play import ORIGIN, Job, Run, watch
from llmvitals.lab.result import LEVELS, Kind
from llmvitals.schema import Origin, family_of, origin_of
from llmvitals.series import Series, Snapshot, Window, series
from llmvitals.settings import Settings
from llmvitals.signals.derived import gateway, queue
from llmvitals.signals.window import scopes
from llmvitals.sources.capture import read_capture
from llmvitals.triage import walk
from support.recordings import cuts
from support.situations import SITUATIONS, WELL
from support.situations_bounds import BOUNDS

ALONE, FULL = LEVELS[0], LEVELS[-1]


@lru_cache(maxsize=4)
def watched(job: Job, *, fault: bool = True) -> Run:
    """A draw, played once for all that is asked of it in a row."""
    return watch(job, fault=fault)


def moments(run: Run, count: int) -> tuple[float, ...]:
    """Seconds of simulated time at which a triage may look: so many pages from the onset on, the last one among them."""
    after = [s.t - ORIGIN for s in run.snapshots if s.t - ORIGIN > run.onset]
    return tuple(dict.fromkeys(after[-1 - round(i * (len(after) - 1) / count)] for i in range(count)))[::-1]


def played(job: Job, only: Container[str] | None = None) -> Iterator[tuple[str, Window]]:
    """The windows of a draw, with its fault and without, at several moments and every level of telemetry; all of them, or
    those with these names ``only``.
    """
    for fault in (True, False):
        run = watched(job, fault=fault)
        if not fault and run.pair.good is run.pair.bad:
            return
        name = f"{job.scenario} {job.severity} {job.seed}/{job.number}" + ("" if fault else " without")
        for moment in moments(run, 5 if fault else 2):
            for level in LEVELS:
                at = f"{name} at {moment:.3f} {level}"
                if only is None or at in only:
                    yield at, run.window(moment, level)


def made() -> Iterator[tuple[str, Window]]:
    """The windows of servers made by hand: what shows a cause, what only looks like it, what is well."""
    for situation in SITUATIONS:
        for kind, table in (("shown", situation.shown), ("alike", situation.alike)):
            for name, window in table.items():
                yield f"made: {situation.cause}, {kind}: {name}", window()
    for kind, others in (("well", WELL), ("near a bound", BOUNDS)):
        for name, window in others.items():
            yield f"made: {kind}: {name}", window()


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


# -- the same window told otherwise ------------------------------------------------------------------------------------
EVERYTHING = "everything of the "
OF_THE_READER = frozenset({"llm_family_gap", "llm_target_info", "llm_target_gauge_age_seconds"})
"""What whoever reads a page says of it: no input that could be missing."""


def names_of(window: Window) -> dict[str, frozenset[str]]:
    """What can be missing from a window: the exposed names of every family, and of all that one source shows."""
    found: dict[str, set[str]] = {}
    for name in window.names():
        family, origin = family_of(name), origin_of(name)
        if name not in OF_THE_READER:
            found.setdefault(family.name if family else name, set()).add(name)
        if origin in (Origin.GPU, Origin.HOST, Origin.GATEWAY):
            found.setdefault(f"{EVERYTHING}{origin}", set()).add(name)
    return {what: frozenset(names) for what, names in sorted(found.items())}


def less(window: Window, names: frozenset[str]) -> Window:
    """The window of a source that never showed these names."""
    kept = (replace(s, samples={k: v for k, v in s.samples.items() if k.name not in names}) for s in window.snapshots)
    tracks = {name: found for name, found in window._index.items() if name not in names}
    return Window(tuple(kept), window.start, window.end, tracks)


def told(
    window: Window,
    *,
    label: Callable[[str, str], str] = lambda name, value: value,
    more: Mapping[str, str] | None = None,
    value: Callable[[Series, float], float] = lambda key, value: value,
    moment: Callable[[float], float] = lambda t: t,
) -> Window:
    """The window with other labels (and ``more`` of them), values and moments."""
    keys: dict[Series, Series] = {}

    def renamed(key: Series) -> Series:
        if key not in keys:
            labels = {name: label(name, found) for name, found in key.labels} | dict(more or {})
            keys[key] = series(key.name, **labels)
        return keys[key]

    return Window.of(
        (
            Snapshot(moment(s.t), {renamed(k): value(k, v) for k, v in s.samples.items()}, s.detail)
            for s in window.snapshots
        ),
        start=moment(window.start),
        end=moment(window.end),
    )


def beside(window: Window, other: Window) -> Window:
    """The window as it comes out of pages that also hold another target's: some of its pages, and some between them."""
    pages = list(window.snapshots)
    theirs = list(other.snapshots)
    mixed = [
        replace(mine, samples={**mine.samples, **theirs[i % len(theirs)].samples}) if i % 3 else mine
        for i, mine in enumerate(pages)
    ]
    between = [Snapshot(mine.t + 0.25, theirs[i % len(theirs)].samples) for i, mine in enumerate(pages)]
    (scope,) = scopes(pages)
    return scopes([*mixed, *between])[scope]


# -- another clock -----------------------------------------------------------------------------------------------------
CLOCKS: tuple[tuple[ModuleType, str], ...] = (
    (walk, "LATE_SECONDS"),
    (walk, "JITTER_SECONDS"),
    (queue, "RECENT_SECONDS"),
    (gateway, "SESSION_SECONDS"),
)
"""Times that no setting holds: they belong to how pages are read, or to what a gateway calls a minute."""

PER_SECOND = frozenset({"bytes/second", "hertz", "watts"})


def stretched(window: Window, k: float) -> Window:
    """The same on a clock on which everything lasts ``k`` times as long; a power of 2 changes no digit."""

    def value(key: Series, v: float) -> float:
        family = family_of(key.name)
        assert family is not None, key.name
        if family.unit == "seconds" and not key.name.endswith(("_bucket", "_count")):
            return v * k
        return v / k if family.unit in PER_SECOND else v

    def series_of(key: Series) -> Series:
        family = family_of(key.name)
        if not key.name.endswith("_bucket") or family is None or family.unit != "seconds":
            return key
        return series(key.name, **{n: repr(float(x) * k) if n == "le" else x for n, x in key.labels})

    keys = {key: series_of(key) for s in window.snapshots for key in s.samples}
    return Window.of(
        (Snapshot(s.t * k, {keys[n]: value(n, v) for n, v in s.samples.items()}, s.detail) for s in window.snapshots),
        start=window.start * k,
        end=window.end * k,
    )


def settings_of(k: float) -> Settings:
    """The settings on that clock: seconds are as many times longer, and rates lower."""
    usual = Settings()
    t = usual.thresholds
    longer = {f: getattr(t, f) * k for f in t.__struct_fields__ if f.endswith("_seconds")}
    slower = {f: getattr(t, f) / k for f in t.__struct_fields__ if f.endswith("_per_minute")}
    return msgspec.structs.replace(
        usual,
        slo=msgspec.structs.replace(
            usual.slo, ttft_seconds=usual.slo.ttft_seconds * k, tpot_seconds=usual.slo.tpot_seconds * k
        ),
        thresholds=msgspec.structs.replace(t, **longer, **slower),
    )


@contextmanager
def clock(k: float) -> Iterator[Settings]:
    """Everything that lasts, lasts ``k`` times as long."""
    with ExitStack() as stack:
        for module, name in CLOCKS:
            stack.enter_context(mock.patch.object(module, name, getattr(module, name) * k))
        yield settings_of(k)
