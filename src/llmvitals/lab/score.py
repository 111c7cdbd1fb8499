"""What played scenarios add up to: shares and medians with their intervals, by what the scenarios differ in.

The definitions:

- *top1*: the leading cause is the injected one (either one of a compound), over the scenarios that have one and count as showing
  it. Healthy, shedding or undetermined instead is wrong. *among*: an injected cause leads or contributes.
- *wrong cause*: over the same, another cause leads. What remains named no cause.
- *false cause*: over healthy ones and look-alikes, any cause leads on a healthy one, or the mimicked one on a look-alike.
- *abstained*: undetermined, over all.
- *look-alike named*: over look-alikes that really have another cause, that one leads.
- *delay*: scrape intervals from onset to the first right verdict; one that never came is longer than any. What was called rightly
  before its onset, a setting that is wrong from the start, says nothing about delay and is left out.
- *first right*: over those in which any cause led after the onset, the first one named is an injected one.
- *missed*: over all scenarios in which clients are clearly hurt, also those that do not count: called healthy, or without traffic.

At a level of telemetry, the first two are over the causes that it can show. What it cannot show is *blind*: there the right answer
names no other cause. A look-alike that only further telemetry tells from what it mimics is no false cause there, and is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from llmvitals.lab.calibration import Calibration, calibration
from llmvitals.lab.result import LEVELS, Heard, Kind, Played, fullest, heard_at, sources_of, top_level
from llmvitals.lab.stats import Median, Share, median_of, resampled
from llmvitals.triage.verdict import Outcome

UNDETERMINED = str(Outcome.UNDETERMINED)
SILENT: frozenset[str] = frozenset(map(str, (Outcome.HEALTHY, Outcome.NO_TRAFFIC)))
"""Outcomes by which nobody is called: where clients are hurt, a silent miss."""
SEVERITIES: tuple[str, ...] = ("mild", "clear", "severe")
FEW = 10
"""Valid plays of a cause below which its figures say next to nothing: Wilson's interval of 9 of 9 begins at 0.70."""
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of some of the scenarios; ``n`` counts all of them that are valid.

    ``untold``: look-alikes left out of ``false_cause``, as the telemetry does not tell them from what they mimic.
    ``known_before``: scenarios left out of ``delay``, as the right verdict stood before the onset.
    """

    n: int
    top1: Share
    among: Share
    wrong_cause: Share
    false_cause: Share
    abstained: Share
    lookalike_named: Share
    first_right: Share
    delay: Median
    untold: int = 0
    known_before: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A level of telemetry: the figures there, and what it does about causes that it cannot show."""

    part: Part
    blind_abstained: Share
    blind_wrong_cause: Share


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: scenarios in which it alone was injected, its look-alikes, how often it led, and how often rightly.

    ``part`` is over the first two. ``invalid`` counts scenarios that did not show it. ``only_in_compounds``: it was never
    injected alone, and ``part`` is over the compounds instead: either cause is right, but ``among`` is this one's own.
    """

    part: Part
    engine_only: Share
    led_right: Share
    invalid: int
    only_in_compounds: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """Everything that is reported. Keys of ``confusion``: what was injected, then what was answered.

    ``shows``: by cause, the valid scenarios in which it was injected, alone or with another. ``silent``: those that were
    ``missed``. ``by_row``: intervals of shares of ``whole`` that allow for plays of one row being alike.
    """

    played: int
    invalid: tuple[Played, ...]
    wrong: tuple[Played, ...]
    silent: tuple[Played, ...]
    missed: Share
    whole: Part
    by_row: Mapping[str, tuple[float, float] | None]
    by_kind: Mapping[Kind, Part]
    by_cause: Mapping[str, Cause]
    by_engine: Mapping[str, Part]
    by_severity: Mapping[str, Part]
    by_interval: Mapping[float, Part]
    by_telemetry: Mapping[str, Level]
    confusion: Mapping[str, Mapping[str, int]]
    calibration: Calibration
    shows: Mapping[str, int]

    @property
    def few(self) -> dict[str, int]:
        """The causes that fewer than ``FEW`` valid scenarios show, with how many do."""
        return {cause: n for cause, n in self.shows.items() if n < FEW}


def score(played: Sequence[Played]) -> Score:
    """Add up what was played. Each scenario's verdict is the one with the most telemetry, except by level."""
    valid = [one for one in played if one.valid]
    invalid = tuple(one for one in played if not one.valid)
    levels = {key for one in valid for key, _ in one.verdicts}
    return Score(
        played=len(played),
        invalid=invalid,
        wrong=tuple(one for one in valid if _is_wrong(one)),
        silent=tuple(one for one in played if one.hurt and _is_silent(one)),
        missed=Share.of(_is_silent(one) for one in played if one.hurt),
        whole=_part(valid),
        by_row=_by_row(valid),
        by_kind={kind: _part(some) for kind, some in _grouped(valid, lambda one: one.kind, order=tuple(Kind)).items()},
        by_cause=_by_cause(valid, invalid),
        by_engine={key: _part(some) for key, some in _grouped(valid, lambda one: one.engine).items()},
        by_severity={
            key: _part(some) for key, some in _grouped(valid, lambda one: one.severity, order=SEVERITIES).items() if key
        },
        by_interval={key: _part(some) for key, some in _grouped(valid, lambda one: one.interval).items()},
        by_telemetry={key: _level(valid, key) for key in sorted(levels, key=lambda key: (len(sources_of(key)), key))},
        confusion=_confusion(valid),
        calibration=calibration(valid),
        shows=_shows(played),
    )


def answer(heard: Heard) -> str:
    """A verdict in one word: the leading cause, or the outcome where none leads."""
    return heard.leading or heard.outcome


def truth(one: Played) -> str:
    """What a scenario is, in few words."""
    return " + ".join(one.causes) or (f"like {one.mimics}" if one.mimics else str(one.kind))


def is_false(one: Played, heard: Heard) -> bool:
    """Whether a healthy scenario or a look-alike was called what it is not."""
    return heard.leading == one.mimics if one.mimics else bool(heard.leading)


def _is_wrong(one: Played) -> bool:
    heard = fullest(one)
    if one.causes:
        return _shown(one) and heard.leading not in one.causes
    return _told(one) and is_false(one, heard)


def _is_silent(one: Played) -> bool:
    return fullest(one).outcome in SILENT


def _shown(one: Played, level: str | None = None) -> bool:
    return one.shown_by <= sources_of(level or top_level(one))


def _told(one: Played, level: str | None = None) -> bool:
    """Whether a cause would be false here: always where nothing is wrong, on a look-alike where something tells it."""
    return not one.causes and (not one.mimics or _shown(one, level))


def _shows(played: Iterable[Played]) -> dict[str, int]:
    found = Counter({cause: 0 for one in played for cause in one.causes})
    found.update(cause for one in played if one.valid for cause in one.causes)
    return dict(sorted(found.items()))


def _part(valid: Iterable[Played], level: str | None = None) -> Part:
    """The figures at a level of telemetry, or with all that each scenario has."""
    given = [(one, heard) for one in valid if (heard := heard_at(one, level)) is not None]
    faulty = [(one, heard) for one, heard in given if one.causes and _shown(one, level)]
    return Part(
        n=len(given),
        top1=Share.of(heard.leading in one.causes for one, heard in faulty),
        among=Share.of(not {heard.leading, *heard.contributing}.isdisjoint(one.causes) for one, heard in faulty),
        wrong_cause=Share.of(bool(heard.leading) and heard.leading not in one.causes for one, heard in faulty),
        false_cause=Share.of(is_false(one, heard) for one, heard in given if _told(one, level)),
        abstained=Share.of(heard.outcome == UNDETERMINED for _, heard in given),
        lookalike_named=Share.of(
            heard.leading in one.truth for one, heard in given if one.truth and _shown(one, level)
        ),
        first_right=Share.of(one.first in one.causes for one, _ in faulty if one.first),
        delay=median_of(one.delay for one, _ in faulty if not one.known_before),
        untold=sum(not one.causes and not _told(one, level) for one, _ in given),
        known_before=sum(one.known_before for one, _ in faulty),
    )


def _by_row(valid: Sequence[Played]) -> dict[str, tuple[float, float] | None]:
    rows = [_part(some) for some in _grouped(valid, lambda one: one.scenario).values()]
    return {"top1": resampled([row.top1 for row in rows]), "false_cause": resampled([row.false_cause for row in rows])}


def _level(valid: Sequence[Played], level: str) -> Level:
    blind = [
        (one, heard)
        for one in valid
        if one.causes and not _shown(one, level) and (heard := heard_at(one, level)) is not None
    ]
    return Level(
        part=_part(valid, level),
        blind_abstained=Share.of(heard.outcome == UNDETERMINED for _, heard in blind),
        blind_wrong_cause=Share.of(bool(heard.leading) and heard.leading not in one.causes for one, heard in blind),
    )


def _by_cause(valid: Sequence[Played], invalid: Sequence[Played]) -> dict[str, Cause]:
    everything = [*valid, *invalid]
    alone = {one.causes[0] for one in everything if len(one.causes) == 1}
    injected = {cause for one in everything for cause in one.causes}
    led = _grouped(valid, _led)
    return {
        cause: _cause(cause, valid, invalid, led.get(cause, ()), only_in_compounds=cause in injected - alone)
        for cause in sorted({*injected, *map(_subject, everything)} - {""})
    }


def _cause(
    cause: str, valid: Sequence[Played], invalid: Sequence[Played], led: Sequence[Played], *, only_in_compounds: bool
) -> Cause:
    def about(some: Sequence[Played]) -> list[Played]:
        return [one for one in some if _subject(one) == cause or (only_in_compounds and cause in one.causes)]

    part = _part(some := about(valid))
    if only_in_compounds:
        own = Share.of(
            cause in {(heard := fullest(one)).leading, *heard.contributing}
            for one in some
            if one.causes and _shown(one)
        )
        part = replace(part, among=own)
    return Cause(
        part=part,
        engine_only=_part(some, LEVELS[0]).top1,
        led_right=Share.of(cause in one.real for one in led),
        invalid=len(about(invalid)),
        only_in_compounds=only_in_compounds,
    )


def _subject(one: Played) -> str:
    """The one cause that a scenario is about, '' where it is about several or none."""
    return one.mimics or (one.causes[0] if len(one.causes) == 1 else "")


def _led(one: Played) -> str:
    return fullest(one).leading


def _confusion(valid: Sequence[Played]) -> dict[str, dict[str, int]]:
    return {
        injected: dict(Counter(answer(fullest(one)) for one in some).most_common())
        for injected, some in _grouped(valid, truth).items()
    }


def _grouped(played: Iterable[Played], key: Callable[[Played], K], *, order: Sequence[K] = ()) -> dict[K, list[Played]]:
    """Scenarios by a key: in a given order, else sorted."""
    found: dict[K, list[Played]] = {}
    for one in played:
        found.setdefault(key(one), []).append(one)
    keys = [k for k in order if k in found] if order else sorted(found, key=_sortable)
    return {k: found[k] for k in keys}


def _sortable(key: object) -> tuple[float, str]:
    return (key, "") if isinstance(key, float) else (0.0, str(key))
