"""What one played scenario gave: the truth that was injected and the verdicts of the triage, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from llmvitals.schema import Origin
from llmvitals.triage.calibration import calibrated
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.verdict import Outcome, Verdict

TELEMETRY: tuple[str, ...] = tuple(str(o) for o in (Origin.ENGINE, Origin.GPU, Origin.HOST, Origin.GATEWAY))
"""Sources of telemetry, in the order in which they add up to levels."""


class Kind(StrEnum):
    """What a scenario is for."""

    FAULT = "fault"
    """One cause is injected."""
    COMPOUND = "compound"
    """Two causes are injected at once; naming either is right."""
    LOOKALIKE = "lookalike"
    """Looks like a cause (``mimics``) and must not be called by its name."""
    HEALTHY = "healthy"
    """Nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One verdict: its outcome, the leading cause (``''``: none) with its confidence (0 to 1), and the contributing causes."""

    outcome: str
    leading: str = ""
    confidence: float = 0.0
    contributing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Played:
    """One scenario, played once.

    ``causes`` are those injected (two for a compound, none for healthy ones and look-alikes); ``mimics`` is the cause that a
    look-alike resembles; ``severity`` is mild, clear, severe or ``''``; ``engine`` is the dialect of its pages; ``interval`` is
    the time between scrapes in seconds. ``shown_by`` holds the sources that are needed, all of them, to see the cause.
    ``verdicts`` has one entry per level of telemetry, keyed as ``level_of`` writes it. ``delay`` is the time from onset to the
    first right verdict in scrape intervals (None: it never came). ``valid`` says whether it counts as showing its cause:
    the same seed without the fault meets the SLO (for a hazard: is without the hazard) and with it does not; ``why`` says
    why it does not count.

    ``known_before``: the right verdict stood already on the last page before the onset, so that the play says nothing about
    delay. ``first`` is the first cause that led after the onset (``''``: none did). ``hurt``: clients are clearly hurt in the
    judged window, whatever the kind and whether or not the play counts. ``truth``: the causes that a look-alike really has
    (empty: nothing is wrong with it). ``number`` and ``attempt`` say which play of its row it is, and which draw of it.
    """

    scenario: str
    kind: Kind
    causes: tuple[str, ...]
    mimics: str
    severity: str
    engine: str
    interval: float
    seed: int
    shown_by: frozenset[str]
    verdicts: tuple[tuple[str, Heard], ...]
    delay: float | None
    valid: bool
    why: str = ""
    known_before: bool = False
    first: str = ""
    hurt: bool = False
    truth: tuple[str, ...] = ()
    number: int = 0
    attempt: int = 0

    @property
    def real(self) -> frozenset[str]:
        """The causes that are there: injected ones, or what a look-alike really is. Any other name is wrong."""
        return frozenset({*self.causes, *self.truth})


SHEDDING = "overloaded-and-shedding"
"""The cause that an outcome of its own stands for: load is refused, and the rest is served."""


def heard(verdict: Verdict) -> Heard:
    """What a triage said, as the score counts it. A verdict of shedding states no confidence: its check's counts."""
    contributing = tuple(found.cause for found in verdict.contributing)
    if verdict.leading is not None:
        return Heard(str(verdict.outcome), verdict.leading.cause, verdict.leading.confidence, contributing)
    if verdict.outcome is Outcome.SHEDDING:
        return Heard(str(verdict.outcome), SHEDDING, calibrated(BY_CAUSE[SHEDDING].confidence), contributing)
    return Heard(str(verdict.outcome), "", 0.0, contributing)


def level_of(sources: Iterable[str]) -> str:
    """The key of a level of telemetry: its sources in the order of ``TELEMETRY``, joined by ``+``."""
    given = frozenset(sources)
    return "+".join(source for source in TELEMETRY if source in given)


LEVELS: tuple[str, ...] = tuple(level_of(TELEMETRY[: end + 1]) for end in range(len(TELEMETRY)))
"""The levels that a play without a choice of telemetry gives: the engine's page alone, then one source more each."""


def sources_of(level: str) -> frozenset[str]:
    """The sources of a level: the inverse of :func:`level_of`."""
    return frozenset(level.split("+")) if level else frozenset()


def top_level(one: Played) -> str:
    """The level with the most sources at which a scenario was judged."""
    return max((key for key, _ in one.verdicts), key=lambda key: len(sources_of(key)))


def heard_at(one: Played, level: str | None = None) -> Heard | None:
    """The verdict at a level, by default at the top one; None where the scenario was not judged there."""
    return dict(one.verdicts).get(level or top_level(one))


def fullest(one: Played) -> Heard:
    """The verdict with the most telemetry."""
    return dict(one.verdicts)[top_level(one)]
