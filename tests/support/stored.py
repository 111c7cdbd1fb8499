"""Situations kept as the readings that a walk looks at: written by ``tools/store_scenarios.py``, read by tests."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmvitals.gaps import Gap, GapKind
from llmvitals.series import Window
from llmvitals.signals.catalogue import SIGNALS, compute
from llmvitals.signals.reading import Reading, Standing
from llmvitals.triage.walk import LATE_SECONDS
from support.mutants import SETTINGS, Key, Readings, Seen

FILE = Path(__file__).resolve().parents[1] / "fixtures" / "lab" / "scenarios.json.gz"
UNPINNED = FILE.with_name("unpinned.txt")
"""Wrong limits that no situation tells apart yet, one a line: limits that rest on their reasons alone."""

RENEW = "python tools/store_scenarios.py"
_STANDINGS: tuple[Standing, ...] = tuple(Standing)


@dataclass(frozen=True, slots=True)
class Stored:
    """One situation: where it comes from, what is seen of it, and the verdict on it."""

    source: str
    seen: Seen
    expected: Key


def look(window: Window) -> Seen:
    """What a walk sees of a window, its last third included where that is long enough to be asked."""
    third = window.seconds / 3
    late = compute(window.slice(window.end - third, window.end), SETTINGS) if third >= LATE_SECONDS else None
    return Seen(window.seconds, compute(window, SETTINGS), late)


# -- the file ----------------------------------------------------------------------------------------------------------
def write(found: Iterable[Stored], path: Path = FILE) -> int:
    """Write situations; the same ones give the same bytes. Returns how many bytes."""
    gaps: dict[Gap, int] = {}
    rows = [
        {
            "source": one.source,
            "seconds": one.seen.seconds,
            "whole": _columns(one.seen.whole, gaps),
            "late": None if one.seen.late is None else _columns(one.seen.late, gaps),
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
    return tuple(
        Stored(
            row["source"],
            Seen(
                row["seconds"],
                _readings(names, gaps, row["whole"]),
                None if row["late"] is None else _readings(names, gaps, row["late"]),
            ),
            _frozen(row["expected"]),
        )
        for row in document["scenarios"]
    )


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
