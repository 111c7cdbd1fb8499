"""Settings that a sweep suggests: seats from the peak of goodput, and the least that a step must carry.

Beyond its peak an engine that runs more requests at once serves fewer of them in time; those above ``max_num_seqs`` wait outside
and leave the running ones their pace. A peak is used only where a higher level was tested and is certainly worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmvitals.loadtest import texts
from llmvitals.loadtest.model import Note
from llmvitals.loadtest.sweep import Peak, Point, Sweep

SEATS, STEP = "max_num_seqs", "max_num_batched_tokens"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """``seats``: lowest and highest max_num_seqs that may be best, the lowest to begin with; None where the sweep does not say.

    ``step_tokens``: tokens that max_num_batched_tokens must exceed.
    """

    seats: tuple[int, int] | None
    step_tokens: int | None
    notes: tuple[Note, ...]


def suggest(sweep: Sweep, *, engines: int = 1, seats: float | None = None) -> Suggestion:
    """What a sweep suggests for each of ``engines`` that shared the load; ``seats``: max_num_seqs that they ran with."""
    peak = sweep.peak
    if peak is None or not peak.above_tested or len(sweep.points) < 3:
        return Suggestion(None, None, ())
    ran_with = dict(sweep.server).get(SEATS, seats)
    broken = _broken(sweep.points, peak)
    notes = [] if broken is None else [broken]
    if ran_with is not None and ran_with * engines < peak.high.level:
        capped = Note(texts.SEATS_CAPPED, {"seats": f"{ran_with:g}", "level": peak.high.level})
        return Suggestion(None, None, (*notes, capped))
    low, high = (max(1, math.floor(point.level / engines + 1e-9)) for point in (peak.low, peak.high))
    notes += _seats(peak, low, high, engines, known=ran_with is not None)
    step = _step_tokens(peak.low, engines)
    if step is not None:
        notes.append(Note(texts.STEP_TOKENS, {"tokens": step}))
        if broken is not None:
            notes.append(Note(texts.STEP_SMALLER if broken.text == texts.FALLS_TPOT else texts.STEP_LARGER))
    return Suggestion((low, high), step, tuple(notes))


def _seats(peak: Peak, low: int, high: int, engines: int, *, known: bool) -> Iterator[Note]:
    if engines > 1:
        yield Note(texts.SEATS_ENGINES, {"level": peak.low.level, "engines": engines, "low": low})
    if low == high:
        yield Note(texts.SEATS, {"low": low})
    else:
        yield Note(texts.SEATS_RANGE, {"low": low, "high": high})
    if not peak.below_tested:
        yield Note(texts.SEATS_BELOW, {"low": low})
    if not known:
        yield Note(texts.SEATS_ASSUMED, {"high": high})


def _broken(points: Sequence[Point], peak: Peak) -> Note | None:
    """Which promise breaks above the peak, by the first level there whose counts settle it."""
    for point in points:
        if point.level <= peak.high.level or not point.kept.ended:
            continue
        n = sum(run.succeeded for run in point.runs)
        ttft, tpot = (
            (((n - side[1]) / n, (n - side[0]) / n) for side in (point.kept.ttft, point.kept.tpot))
            if n
            else ((0, 1), (0, 1))
        )
        if tpot[0] > ttft[1]:
            return Note(texts.FALLS_TPOT, {"ttft": ttft[1], "tpot": tpot[0]})
        if ttft[0] > tpot[1]:
            return Note(texts.FALLS_TTFT, {"ttft": ttft[0], "tpot": tpot[1]})
    return None


def _step_tokens(point: Point, engines: int) -> int | None:
    """Tokens per engine step on average: each running request gets one token a step, so a step takes a token's time."""
    needs = []
    for run in point.runs:
        if run.mean_tpot is None or run.prompt_tokens is None or run.output_tokens is None:
            return None
        rate = run.succeeded / run.duration
        needs.append(rate * (run.prompt_tokens + run.output_tokens) * run.mean_tpot / engines)
    return math.ceil(max(needs)) if needs else None
