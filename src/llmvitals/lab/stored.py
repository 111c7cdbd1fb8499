"""Recordings that say what they are, judged like a played scenario: real servers scored by the same command.

A recording's truth is its entry in a file of truths by folder name; or its own ``truth.json``, like
``{"causes": ["kv-cache-saturation"]}``; or what its ``about.json`` expects, as the load driver of ``e2e/`` writes it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

from llmvitals.errors import CaptureError
from llmvitals.lab.parallel import LabError
from llmvitals.lab.result import SHEDDING, TELEMETRY, Kind, Played, heard, level_of
from llmvitals.schema import origin_of
from llmvitals.series import Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.window import scopes
from llmvitals.sources.assemble import is_gpu_only
from llmvitals.sources.capture import INDEX, read_capture
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.report import worst
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import diagnose

T = TypeVar("T")
TRUTH = "truth.json"
ABOUT = "about.json"
_REMEDY = f'Write {TRUTH} like {{"causes": ["kv-cache-saturation"]}}, or name a file of truths (--truth).'


class Truth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a recording is. ``kind`` follows from the rest unless it is given; ``onset``: unix seconds, the first page if absent.

    ``shown_by``: the sources that are needed to see the causes.
    """

    causes: tuple[str, ...] = ()
    kind: Kind | None = None
    mimics: str = ""
    severity: str = ""
    onset: float | None = None
    shown_by: tuple[str, ...] = TELEMETRY[:1]


class _Expected(msgspec.Struct, frozen=True):
    """The label of a load: the verdict that it makes right. ``also`` is what a triage should mention beside it."""

    verdict: str
    leading: str | None = None


class _About(msgspec.Struct, frozen=True):
    """The part of ``about.json`` that matters here."""

    expected: _Expected | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder with its truth: a job for :func:`llmvitals.lab.parallel.play_all`."""

    folder: Path
    truth: Truth
    seed: int = 0

    @property
    def scenario(self) -> str:
        """Its name in the score."""
        return self.folder.name


def recordings(folders: Sequence[Path], truths: Path | None = None) -> tuple[Recording, ...]:
    """The recordings that folders are or hold, each with its truth. Raises :class:`CaptureError`, :class:`LabError`."""
    given = _decoded(truths, dict[str, Truth]) if truths is not None else {}
    return tuple(Recording(folder, _truth(folder, given)) for one in folders for folder in _inside(one))


def play(recording: Recording, telemetry: tuple[str, ...] | None = None) -> Played:
    """Judge a recording as ``llmvitals triage`` does. All of its telemetry counts: ``telemetry`` belongs to simulated ones."""
    seen = [one for one in read_capture(recording.folder) if not is_gpu_only(one)]
    if not seen:
        raise CaptureError("shows no engine", place=str(recording.folder), remedy="Record its metrics page too.")
    windows = [window for one in seen for window in scopes(one.snapshots).values()]
    snapshots = [snapshot for one in seen for snapshot in one.snapshots]
    truth = recording.truth
    return Played(
        scenario=recording.scenario,
        kind=truth.kind or _kind(truth),
        causes=truth.causes,
        mimics=truth.mimics,
        severity=truth.severity,
        engine="+".join(sorted({one.kind for one in seen})),
        interval=_interval(windows[0]),
        seed=recording.seed,
        shown_by=frozenset(truth.shown_by),
        verdicts=((_level(snapshots), heard(_judged(windows))),),
        delay=_delay(windows, truth) if truth.causes else None,
        valid=True,
    )


def _inside(folder: Path) -> Iterator[Path]:
    if (folder / INDEX).is_file():
        yield folder
        return
    found = sorted(path.parent for path in folder.glob(f"*/{INDEX}"))
    if not found:
        raise CaptureError(
            f"holds no recording (no {INDEX} in it or one level below)",
            place=str(folder),
            remedy="Name another folder.",
        )
    yield from found


def _truth(folder: Path, given: Mapping[str, Truth]) -> Truth:
    own, about = folder / TRUTH, folder / ABOUT
    if folder.name in given:
        truth = given[folder.name]
    elif own.is_file():
        truth = _decoded(own, Truth)
    elif about.is_file() and (label := _decoded(about, _About).expected) is not None:
        cause = SHEDDING if label.verdict == Outcome.SHEDDING else label.leading
        truth = Truth(causes=(cause,) if cause else ())
    else:
        raise LabError("does not say what it is", place=str(folder), remedy=_REMEDY)
    for cause in (*truth.causes, *filter(None, [truth.mimics])):
        if cause not in BY_CAUSE:
            near = difflib.get_close_matches(cause, BY_CAUSE, n=1, cutoff=0.0)[0]
            raise LabError(f"names the unknown cause '{cause}'", place=str(folder), remedy=f"Did you mean '{near}'?")
    return truth


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise LabError(f"cannot be read ({error.strerror})", place=str(path), remedy="Check the path.") from None
    except msgspec.DecodeError as error:
        raise LabError(f"is not a truth ({error})", place=str(path), remedy=_REMEDY) from None


def _kind(truth: Truth) -> Kind:
    if truth.mimics:
        return Kind.LOOKALIKE
    return (Kind.HEALTHY, Kind.FAULT, Kind.COMPOUND)[min(2, len(truth.causes))]


def _judged(windows: Sequence[Window]) -> Verdict:
    return worst([diagnose(window, Settings()) for window in windows])[0]


def _level(snapshots: Sequence[Snapshot]) -> str:
    return level_of({str(origin_of(key.name)) for snapshot in snapshots for key in snapshot.samples})


def _interval(window: Window) -> float:
    """Seconds between two pages, to a tenth: the usual one, so that a gap does not count."""
    times = [snapshot.t for snapshot in window.snapshots]
    gaps = [after - before for before, after in pairwise(times)]
    return round(median(gaps), 1) if gaps else 0.0


def _delay(windows: Sequence[Window], truth: Truth) -> float | None:
    """Pages from the onset to the first right verdict of a triage that was started with the recording; None: never."""
    moments = sorted({snapshot.t for window in windows for snapshot in window.snapshots})
    onset = truth.onset if truth.onset is not None else moments[0]
    after = [t for t in moments if t > onset]
    for count, t in enumerate(after, start=1):
        seen = [Window.of(s for s in window.snapshots if s.t <= t) for window in windows]
        verdict = _judged([window for window in seen if window.snapshots])
        if heard(verdict).leading in truth.causes:
            return float(count)
    return None
