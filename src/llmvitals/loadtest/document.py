"""Sweeps as JSON, and the words for their numbers: a bound is never shown as a number."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.loadtest.goodput import Kept, Promises
from llmvitals.loadtest.model import Note
from llmvitals.loadtest.suggest import SEATS, STEP, Suggestion
from llmvitals.loadtest.sweep import Point, Sweep


def rate_text(low: float, high: float) -> str:
    """Requests per second: one number where it is known, else both bounds."""
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def kept_text(kept: Kept) -> str:
    """The share of requests that kept both promises."""
    if not kept.ended:
        return ""
    low, high = (count / kept.ended for count in kept.both)
    return f"{low:.1%}" if kept.exact else f"{low:.1%} to {high:.1%}"


def document(found: Iterable[tuple[Sweep, Suggestion]], more: Iterable[Note], promises: Promises) -> dict[str, object]:
    """What was found, for programs. Rates are requests per second."""
    return {
        "slo": {"ttft_seconds": promises.ttft, "tpot_seconds": promises.tpot},
        "sweeps": [_sweep(sweep, suggested) for sweep, suggested in found],
        "notes": [str(note) for note in more],
    }


def _sweep(sweep: Sweep, suggested: Suggestion) -> dict[str, object]:
    peak = sweep.peak
    return {
        "model": sweep.model,
        "server": dict(sweep.server),
        "points": [_point(point) for point in sweep.points],
        "peak": None
        if peak is None
        else {
            "low": peak.low.level,
            "high": peak.high.level,
            "lower_tested": peak.below_tested,
            "higher_tested": peak.above_tested,
        },
        "suggested": {
            SEATS: list(suggested.seats) if suggested.seats else None,
            f"{STEP}_above": suggested.step_tokens,
        },
        "notes": [str(note) for note in (*sweep.notes, *suggested.notes)],
    }


def _point(point: Point) -> dict[str, object]:
    return {
        "in_flight": point.level,
        "in_flight_standing": "estimate" if point.measured else "exact",
        "goodput": [point.bound_low, point.bound_high],
        "goodput_exact": point.exact,
        "goodput_95": [point.low, point.high],
        "throughput": point.throughput,
        "kept_both": list(point.kept.both),
        "kept_ttft": list(point.kept.ttft),
        "kept_tpot": list(point.kept.tpot),
        "requests": point.kept.ended,
        "failed": point.failed,
        "files": [run.place for run in point.runs],
        "tools": sorted({run.tool for run in point.runs}),
        "notes": [str(note) for note in point.notes],
    }
