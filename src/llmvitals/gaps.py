"""Why a number is absent. A gap is never 0 and never green."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.series import Series, series


class GapKind(StrEnum):
    """The reasons for which a number may be absent."""

    UNSUPPORTED = "unsupported"  # this engine, in this version, cannot say
    MISSING = "missing"  # it should be on the page and is not
    NO_TRAFFIC = "no-traffic"  # 0/0: nothing happened that could be measured
    TOO_SHORT = "too-short"  # the window holds too few pages or too little time
    STALE = "stale"  # a gauge frozen while the counters are flat
    CENSORED = "censored"  # a finished-only histogram while the queue stands


@dataclass(frozen=True, slots=True)
class Gap:
    """A missing number: the kind, a sentence that says why, and the series that would settle it."""

    kind: GapKind
    why: str
    series: str = ""


def family_gap(family: str, kind: GapKind, reason: str, /, **labels: str) -> Series:
    """The sample, 1, that says why a family is not there (``llm_family_gap``); ``labels``: of whom it is said."""
    return series("llm_family_gap", **{**labels, "family": family, "gap": kind.value, "reason": reason})
