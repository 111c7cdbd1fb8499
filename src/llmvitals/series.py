"""Canonical samples over time: what telemetry produces and what signals read.

A :class:`Snapshot` is everything known of one target at one moment, as flat samples in the canonical schema (the same
names and labels that the exporter's page shows), so that a capture, a live scrape and a Prometheus give the same window.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import eq
from types import MappingProxyType
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]


class Series(NamedTuple):
    """A sample's identity: its exposed name (``..._bucket``, ``_sum``, ``_count`` included) and its sorted labels."""

    name: str
    labels: Labels

    def label(self, key: str, default: str = "") -> str:
        """The value of one label, or ``default``."""
        for name, value in self.labels:
            if name == key:
                return value
        return default

    def plus(self, /, **labels: str) -> Series:
        """The same series with these labels added, or in place of its own."""
        return series(self.name, **{**dict(self.labels), **labels})


def series(name: str, /, **labels: str) -> Series:
    """Build a :class:`Series` with its labels in order."""
    return Series(name, tuple(sorted(labels.items())))


class Exemplar(NamedTuple):
    """One observation of a bucket and the trace that it came from: its value, when (unix seconds), the trace id (hex)."""

    value: float
    t: float
    trace_id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One target at one moment.

    ``t``: unix seconds at which the page had arrived (what it says may be older by up to its answer time). ``samples``:
    canonical series to value. A failed scrape is a snapshot too: it holds ``llm_target_up`` 0 and little else.
    ``detail``: a sentence for people when it failed. ``exemplars``: by the bucket that they lie in.
    """

    t: float
    samples: Mapping[Series, float]
    detail: str = ""
    exemplars: Mapping[Series, Exemplar] = field(default_factory=dict)


_NONE: Mapping[Series, float] = MappingProxyType({})


class Packed(Mapping[Series, float]):
    """Samples to keep for long: their numbers in a row of eight bytes each, beside names that snapshots of one target share."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: dict[Series, int], values: Iterable[float]) -> None:
        self._places = places
        self._values = array("d", values)

    def __getitem__(self, key: Series) -> float:
        return self._values[self._places[key]]

    def __iter__(self) -> Iterator[Series]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def items(self) -> ItemsView[Series, float]:
        """As a dictionary's; made at once, since whoever asks for them goes through them all."""
        return dict(zip(self._places, self._values, strict=True)).items()

    @classmethod
    def of(cls, samples: Mapping[Series, float], before: Mapping[Series, float] = _NONE) -> Packed:
        """The same samples in the same order. What ``before`` names alike (the snapshot before, packed) is held once."""
        known = before._places if isinstance(before, Packed) else {}
        if len(known) != len(samples) or not all(map(eq, known, samples)):
            names = dict(zip(known, known, strict=True))
            known = {names.get(key, key): place for place, key in enumerate(samples)}
        return cls(known, samples.values())


@dataclass(frozen=True, slots=True)
class Track:
    """One series over a window: its labels, and time/value pairs in order of time (unix seconds)."""

    labels: Labels
    times: tuple[float, ...]
    values: tuple[float, ...]

    def label(self, key: str, default: str = "") -> str:
        """The value of one label, or ``default``."""
        for name, value in self.labels:
            if name == key:
                return value
        return default


@dataclass(frozen=True, slots=True)
class Window:
    """The snapshots of one scope (one target, one model) in order of time, the newest last.

    ``start`` and ``end`` are unix seconds; by default those of the first and last snapshot.
    """

    snapshots: tuple[Snapshot, ...]
    start: float
    end: float
    _index: dict[str, tuple[Track, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot], *, start: float | None = None, end: float | None = None) -> Window:
        """Build a window; the snapshots may come in any order. Of several at one moment the last one given counts."""
        ordered = tuple({s.t: s for s in sorted(snapshots, key=lambda s: s.t)}.values())
        first = ordered[0].t if ordered else 0.0
        last = ordered[-1].t if ordered else 0.0
        window = cls(ordered, first if start is None else start, last if end is None else end)
        window._index.update(_index(ordered))
        return window

    @property
    def seconds(self) -> float:
        """The window's length in seconds."""
        return self.end - self.start

    def tracks(self, name: str, match: Mapping[str, str] | None = None) -> tuple[Track, ...]:
        """All series with this exposed name whose labels equal ``match``; empty when there is none."""
        found = self._index.get(name, ())
        if not match:
            return found
        wanted = tuple(match.items())
        return tuple(t for t in found if all(t.label(k) == v for k, v in wanted))

    def names(self) -> frozenset[str]:
        """Every exposed sample name seen in the window."""
        return frozenset(self._index)

    def slice(self, start: float, end: float) -> Window:
        """The part between two moments, both included."""
        first = bisect_left(self.snapshots, start, key=lambda s: s.t)
        last = bisect_right(self.snapshots, end, key=lambda s: s.t)
        return Window(self.snapshots[first:last], start, end, _cut(self._index, start, end))


def _cut(index: Mapping[str, tuple[Track, ...]], start: float, end: float) -> dict[str, tuple[Track, ...]]:
    """What an index holds between two moments; windows that move over the same pages need not look at each sample again."""
    found: dict[str, tuple[Track, ...]] = {}
    for name, tracks in index.items():
        kept: list[Track] = []
        for track in tracks:
            first, last = bisect_left(track.times, start), bisect_right(track.times, end)
            if first < last:
                kept.append(Track(track.labels, track.times[first:last], track.values[first:last]))
        if kept:
            found[name] = tuple(kept)
    return found


def _index(snapshots: tuple[Snapshot, ...]) -> dict[str, tuple[Track, ...]]:
    times: dict[Series, list[float]] = {}
    values: dict[Series, list[float]] = {}
    for snapshot in snapshots:
        for key, value in snapshot.samples.items():
            if key in times:
                times[key].append(snapshot.t)
                values[key].append(value)
            else:
                times[key] = [snapshot.t]
                values[key] = [value]
    grouped: dict[str, list[Track]] = {}
    for key, moments in times.items():
        grouped.setdefault(key.name, []).append(Track(key.labels, tuple(moments), tuple(values[key])))
    return {name: tuple(tracks) for name, tracks in grouped.items()}
