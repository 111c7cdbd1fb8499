"""The score for machines: one JSON document. Shares and medians are numbers, None where there is nothing to count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llmvitals.lab.calibration import Bin, Calibration
from llmvitals.lab.cases import CaseScore, Grade
from llmvitals.lab.result import Played, fullest
from llmvitals.lab.score import SEVERITIES, Cause, Level, Part, Score, answer, truth
from llmvitals.lab.stats import Median, Share, median_of

GRADES: dict[Grade, str] = {
    Grade.RIGHT: "right",
    Grade.ABSTAINED: "abstained_rightly",
    Grade.SILENT: "abstained_though_known",
    Grade.WRONG: "wrong",
}
SHARES: tuple[str, ...] = ("top1", "among", "wrong_cause", "false_cause", "abstained", "lookalike_named", "first_right")
LEFT_OUT: tuple[str, ...] = ("untold", "known_before")
"""Counts of what a figure of a part leaves out."""
ONCE: tuple[str, ...] = ("first_right", "delay_scrapes", "known_before")
"""What is measured once per scenario, with all telemetry, and not at each level."""


def document(score: Score, *, seconds: float, failures: bool = False, **given: object) -> dict[str, Any]:
    """The whole score; ``given`` (seed, size, ...) goes first. ``seconds``: what it took. ``failures``: list the wrong ones."""
    whole = _part(score.whole)
    intervals = whole.pop("intervals")
    counted = whole.pop("counts")
    severe = score.by_severity.get(SEVERITIES[-1])
    found: dict[str, Any] = {
        **given,
        **{key: value for key, value in whole.items() if key not in ("n", *LEFT_OUT)},
        "missed": _number(score.missed.value),
        "delay_scrapes_severe": _number(severe.delay.value) if severe else None,
        "intervals": {
            **intervals,
            "missed": _ends(score.missed),
            "delay_scrapes_severe": _median_ends(severe.delay if severe else median_of(())),
        },
        "intervals_by_row": {name: _row_ends(ends) for name, ends in score.by_row.items()},
        "counts": {
            "played": score.played,
            "valid": score.whole.n,
            "invalid": len(score.invalid),
            **{str(kind): part.n for kind, part in score.by_kind.items()},
            **{name: getattr(score.whole, name) for name in LEFT_OUT},
            "by_cause": score.shows,
            "few": score.few,
            **counted,
            "missed": _counted(score.missed),
        },
        "by_cause": {cause: _cause(one) for cause, one in score.by_cause.items()},
        "by_kind": _parts(score.by_kind),
        "by_engine": _parts(score.by_engine),
        "by_severity": _parts(score.by_severity),
        "by_interval": _parts(score.by_interval),
        "by_telemetry": {key: _level(level) for key, level in score.by_telemetry.items()},
        "confusion": score.confusion,
        "calibration": _calibration(score.calibration),
        "seconds": round(seconds, 1),
    }
    if failures:
        found |= {
            "wrong": [wrong(one) for one in score.wrong],
            "silent": [silent(one) for one in score.silent],
            "invalid": invalid(score.invalid),
        }
    return found


def cases(score: CaseScore) -> dict[str, int]:
    """Incidents of the public cases by grade."""
    return {name: score.counts[grade] for grade, name in GRADES.items()}


def case_document(score: CaseScore, *, seconds: float) -> dict[str, Any]:
    """The public cases: how many of each grade, and each report with its verdict."""
    return {
        "cases": cases(score),
        "incidents": score.incidents,
        "reports": [
            {
                "id": one.case.id,
                "source": one.case.source,
                "engine": one.case.engine.kind,
                "cause": one.case.cause,
                "leading": one.leading,
                "grade": GRADES[one.grade],
                "conditions": {"met": one.met, "against": one.against, "unstated": one.unstated},
                "missing": list(one.case.missing),
            }
            for one in score.judged
        ],
        "left_out": [{"source": one.source, "why": one.why} for one in score.left_out],
        "seconds": round(seconds, 1),
    }


def wrong(one: Played) -> dict[str, Any]:
    """One scenario that was judged wrongly: enough to play it again, what was injected, and what came instead."""
    heard = fullest(one)
    return {
        **_which(one),
        "engine": one.engine,
        "interval": one.interval,
        "expected": ", but ".join(filter(None, [f"not {one.mimics}", " or ".join(one.truth)]))
        if one.mimics
        else truth(one),
        "got": answer(heard),
        "confidence": heard.confidence,
        "contributing": list(heard.contributing),
    }


def invalid(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Those that do not count, and why."""
    return [{**_which(one), "why": one.why} for one in played]


def silent(one: Played) -> dict[str, Any]:
    """One scenario in which clients are hurt and nobody was called; ``valid``: whether it counts elsewhere."""
    return {**_which(one), "injected": truth(one), "got": answer(fullest(one)), "valid": one.valid}


def _which(one: Played) -> dict[str, Any]:
    """What it takes to play it again: the row, the seed, the number of the play and of its draw."""
    return {"scenario": one.scenario, "seed": one.seed, "number": one.number, "attempt": one.attempt}


def _parts(parts: Mapping[Any, Part]) -> dict[str, Any]:
    return {f"{key:g}" if isinstance(key, float) else str(key): _part(part) for key, part in parts.items()}


def _part(part: Part) -> dict[str, Any]:
    shares: dict[str, Share] = {name: getattr(part, name) for name in SHARES}
    return {
        "n": part.n,
        **{name: _number(share.value) for name, share in shares.items()},
        "delay_scrapes": _number(part.delay.value),
        "intervals": {
            **{name: _ends(share) for name, share in shares.items()},
            "delay_scrapes": _median_ends(part.delay),
        },
        **{name: getattr(part, name) for name in LEFT_OUT},
        "counts": {name: _counted(share) for name, share in shares.items()},
    }


def _cause(one: Cause) -> dict[str, Any]:
    part = _part(one.part)
    return {
        **part,
        "n": one.part.top1.n,
        "lookalikes": one.part.false_cause.n,
        "engine_only_top1": _number(one.engine_only.value),
        "led_right": _number(one.led_right.value),
        "led": one.led_right.n,
        "invalid": one.invalid,
        "only_in_compounds": one.only_in_compounds,
    }


def _level(level: Level) -> dict[str, Any]:
    part = _part(level.part)
    for name in ONCE:
        for figures in (part, part["intervals"], part["counts"]):
            figures.pop(name, None)
    return {
        **part,
        "blind": {
            "n": level.blind_abstained.n,
            "abstained": _number(level.blind_abstained.value),
            "wrong_cause": _number(level.blind_wrong_cause.value),
        },
    }


def _calibration(found: Calibration) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "bins": [{"from": one.low, "to": one.high, **_bin(one), "ok": one.ok} for one in found.bins],
        "by_cause": {
            cause: {**_bin(one), "map": [[raw, _number(right)] for raw, right in found.fitted[cause]]}
            for cause, one in found.by_cause.items()
        },
    }


def _bin(one: Bin) -> dict[str, Any]:
    return {
        "n": one.right.n,
        "mean_confidence": _number(one.mean),
        "right": _number(one.right.value),
        "interval": _ends(one.right),
    }


def _counted(share: Share) -> dict[str, int]:
    return {"hits": share.hits, "n": share.n}


def _row_ends(ends: tuple[float, float] | None) -> list[float | None]:
    return [_number(end) for end in ends or (None, None)]


def _ends(share: Share) -> list[float | None]:
    return [_number(end) for end in share.interval]


def _median_ends(found: Median) -> list[float | None]:
    return [_number(found.low), _number(found.high)]


def _number(value: float | None) -> float | None:
    """Four digits; None for what is not there or never came (JSON knows no infinity)."""
    return None if value is None or math.isinf(value) else round(value, 4)
