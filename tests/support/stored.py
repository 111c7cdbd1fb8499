"""Situations kept as the readings that a walk looks at: written by ``tools/store_scenarios.py``, read by tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmvitals.gaps import Gap, GapKind
from llmvitals.series import Snapshot, Window
from llmvitals.signals.catalogue import SIGNALS, compute
from llmvitals.signals.reading import Reading, Standing
from support.mutants import SETTINGS, Key, Readings, Seen, parts_of

FILE = Path(__file__).resolve().parents[1] / "fixtures" / "lab" / "scenarios.json.gz"
RENEW = "python tools/store_scenarios.py"
_STANDINGS: tuple[Standing, ...] = tuple(Standing)


@dataclass(frozen=True, slots=True)
class Stored:
    """One situation: where it comes from, what is seen of it, and the verdict on it."""

    source: str
    seen: Seen
    expected: Key


def look(window: Window) -> Seen:
    """What a walk sees of a window, the parts included that it may ask by themselves. Time begins at the window's start."""
    readings = compute(window, SETTINGS)
    moments = tuple(s.t - window.start for s in window.snapshots)
    parts = tuple(compute(part, own) for part, own in parts_of(window, readings))
    return Seen(bare(moments, window.seconds), readings, parts)


def bare(moments: Iterable[float], seconds: float) -> Window:
    """A window of which only the moments of its pages are known."""
    return Window.of((Snapshot(t, {}) for t in moments), start=0.0, end=seconds)


# -- the file ----------------------------------------------------------------------------------------------------------
def write(found: Iterable[Stored], path: Path = FILE) -> int:
    """Write situations; the same ones give the same bytes. Returns how many bytes."""
    gaps: dict[Gap, int] = {}
    rows = [
        {
            "source": one.source,
            "seconds": one.seen.window.seconds,
            "moments": [s.t for s in one.seen.window.snapshots],
            "readings": [_columns(r, gaps) for r in (one.seen.whole, *one.seen.parts)],
            "expected": one.expected,
        }
        for one in found
    ]
    document = {
        "signals": [signal.id for signal in SIGNALS],
        "gaps": [[str(gap.kind), gap.why, gap.series] for gap in gaps],
        "scenarios": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    data = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0)
    path.write_bytes(data)
    return len(data)


def read(path: Path = FILE) -> tuple[Stored, ...]:
    """The situations of the file."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    names, gaps = document["signals"], [Gap(GapKind(kind), why, series) for kind, why, series in document["gaps"]]
    found = []
    for row in document["scenarios"]:
        whole, *parts = (_readings(names, gaps, columns) for columns in row["readings"])
        seen = Seen(bare(row["moments"], row["seconds"]), whole, tuple(parts))
        found.append(Stored(row["source"], seen, _frozen(row["expected"])))
    return tuple(found)


def _columns(readings: Readings, gaps: dict[Gap, int]) -> list[Any]:
    """Values (or ``[number of the gap]``), and how far each may be trusted as one letter each."""
    found = [readings[signal.id] for signal in SIGNALS]
    values = [r.value if r.gap is None else [gaps.setdefault(r.gap, len(gaps))] for r in found]
    return [values, "".join(str(_STANDINGS.index(r.standing)) for r in found)]


def _readings(names: Sequence[str], gaps: Sequence[Gap], columns: Sequence[Any]) -> dict[str, Reading]:
    return {
        name: Reading(
            value=None if isinstance(value, list) else float(value),
            gap=gaps[value[0]] if isinstance(value, list) else None,
            standing=_STANDINGS[int(standing)],
        )
        for name, value, standing in zip(names, *columns, strict=True)
    }


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
