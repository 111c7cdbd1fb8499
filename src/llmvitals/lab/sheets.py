"""The score as tables of text: the command line draws them, and a page holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmvitals.lab.calibration import ENOUGH
from llmvitals.lab.cases import CaseScore
from llmvitals.lab.result import LEVELS
from llmvitals.lab.score import SEVERITIES, Cause, Level, Part, Score
from llmvitals.lab.stats import Median, Share

NOTHING = "-"
CALIBRATION = "Calibration"

_ONCE = ("first named right", "delay")  # measured with all telemetry only
_PART_HEAD = ("scenarios", "top-1", "among", "another cause", "false cause", "undetermined", *_ONCE)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table, with a line under its title that says how to read it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Measure:
    """One figure of the summary and what is wanted of it."""

    name: str
    of: Callable[[Score], Share | Median | None]
    wanted: str = ""


def _engine_only(score: Score) -> Share | None:
    level = score.by_telemetry.get(LEVELS[0])
    return level.part.top1 if level else None


def _severe(score: Score) -> Median | None:
    part = score.by_severity.get(SEVERITIES[-1])
    return part.delay if part else None


_SUMMARY: tuple[_Measure, ...] = (
    _Measure("top-1 cause", lambda s: s.whole.top1, "at least 0.95"),
    _Measure("top-1 cause, engine page alone, causes it can show", _engine_only, "at least 0.85"),
    _Measure("cause leads or contributes", lambda s: s.whole.among),
    _Measure("another cause leads", lambda s: s.whole.wrong_cause),
    _Measure("false cause on healthy ones and look-alikes", lambda s: s.whole.false_cause, "at most 0.01"),
    _Measure("look-alikes called what they really are", lambda s: s.whole.lookalike_named),
    _Measure("hurt clients, called healthy or without traffic", lambda s: s.missed),
    _Measure("undetermined", lambda s: s.whole.abstained),
    _Measure("first cause named after the onset is right", lambda s: s.whole.first_right),
    _Measure("scrapes from onset to the right verdict, severe", _severe, "at most 2"),
    _Measure("scrapes from onset to the right verdict, all", lambda s: s.whole.delay),
)


def sheets(score: Score) -> tuple[Sheet, ...]:
    """Every table of the score; one without rows is left out."""
    found = (
        Sheet(
            "Summary", ("measure", "value", "95 % interval", "of", "wanted"), tuple(_summary(score)), _timeless(score)
        ),
        Sheet(
            "By telemetry",
            (
                "telemetry",
                *_PART_HEAD[: -len(_ONCE)],
                "look-alikes left out",
                "cannot be shown: undetermined",
                "cannot be shown: another cause",
            ),
            tuple((key, *_level(level)) for key, level in score.by_telemetry.items()),
            "Top-1 is over the causes that a level can show, a false cause over the look-alikes that it can tell from what they "
            "mimic; the last two columns are over the causes that it cannot show.",
        ),
        Sheet(
            "By cause",
            ("cause", "scenarios", "top-1", "engine page alone", "among", "delay", "look-alikes called", "led: right"),
            tuple((cause, *_cause(one)) for cause, one in score.by_cause.items()),
            "Delay is the median, in scrapes. Led: right is over every scenario in which the cause led."
            + _joint(score),
        ),
        _parts("By kind", "kind", score.by_kind),
        _parts("By engine", "engine", score.by_engine),
        _parts("By severity", "severity", score.by_severity),
        _parts("By scrape interval", "seconds", score.by_interval),
        Sheet(
            "What was answered",
            ("injected", "scenarios", "answers"),
            tuple(_confused(injected, answers) for injected, answers in score.confusion.items()),
            "The confusion matrix without its empty cells.",
        ),
        Sheet(
            CALIBRATION,
            ("stated confidence", "verdicts", "mean", "right", "95 % interval", "holds the mean"),
            tuple(_bins(score)),
            f"A bin is held to its mean from {ENOUGH} verdicts on.",
        ),
        Sheet("Not counted", ("why", "scenarios"), tuple(_not_counted(score))),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def case_sheets(score: CaseScore) -> tuple[Sheet, ...]:
    """The public cases: incidents by grade, then every report with what leads."""
    rows = tuple((j.case.id, j.case.engine.kind, j.case.cause, j.leading, str(j.grade)) for j in score.judged)
    return (
        Sheet(
            "Public cases", ("grade", "incidents"), tuple((str(g), str(n)) for g, n in reversed(score.counts.items()))
        ),
        Sheet("By report", ("report", "engine", "established cause", "leads", "grade"), rows),
    )


def _summary(score: Score) -> Iterable[tuple[str, ...]]:
    for measure in _SUMMARY:
        found = measure.of(score)
        if found is not None and found.n:
            yield measure.name, _value(found), _interval(found), str(found.n), measure.wanted


def _timeless(score: Score) -> str:
    n = score.whole.known_before
    return f"Left out of every delay: {n} whose right verdict stood before the onset." if n else ""


def _joint(score: Score) -> str:
    """Which causes are told over compounds, and how."""
    causes = ", ".join(cause for cause, one in score.by_cause.items() if one.only_in_compounds)
    return f" Only in compounds, where either cause is right (among is its own): {causes}." if causes else ""


def _parts(title: str, key: str, parts: Mapping[Any, Part]) -> Sheet:
    rows = tuple((f"{name:g}" if isinstance(name, float) else str(name), *_part(part)) for name, part in parts.items())
    return Sheet(title, (key, *_PART_HEAD), rows)


def _part(part: Part) -> tuple[str, ...]:
    shares = (part.top1, part.among, part.wrong_cause, part.false_cause, part.abstained)
    return (str(part.n), *map(_both, shares), _both(part.first_right), _value(part.delay))


def _level(level: Level) -> tuple[str, ...]:
    return (
        *_part(level.part)[: -len(_ONCE)],
        str(level.part.untold),
        _both(level.blind_abstained),
        _both(level.blind_wrong_cause),
    )


def _cause(one: Cause) -> tuple[str, ...]:
    part, called = one.part, one.part.false_cause
    return (
        str(part.top1.n),
        _both(part.top1),
        _both(one.engine_only),
        _value(part.among),
        _value(part.delay),
        f"{called.hits} of {called.n}" if called.n else NOTHING,
        f"{one.led_right.hits} of {one.led_right.n}" if one.led_right.n else NOTHING,
    )


def _confused(injected: str, answers: Mapping[str, int]) -> tuple[str, ...]:
    return injected, str(sum(answers.values())), ", ".join(f"{answer} {n}" for answer, n in answers.items())


def _bins(score: Score) -> Iterable[tuple[str, ...]]:
    for one in score.calibration.bins:
        verdict = NOTHING if one.right.n < ENOUGH else "yes" if one.ok else "no"
        stated = f"{one.low:.1f}-{one.high:.1f}"
        yield stated, str(one.right.n), f"{one.mean:.2f}", _value(one.right), _interval(one.right), verdict


def _not_counted(score: Score) -> Iterable[tuple[str, ...]]:
    whys: dict[str, int] = {}
    for one in score.invalid:
        why = f"{one.scenario}: {one.why}"
        whys[why] = whys.get(why, 0) + 1
    yield from ((why, str(n)) for why, n in sorted(whys.items()))


def _both(share: Share) -> str:
    """A share with its interval to two digits, so that tables with many of them stay readable."""
    low, high = share.interval
    return f"{_value(share)} ({low:.2f}-{high:.2f})" if share.n else NOTHING


def _value(found: Share | Median) -> str:
    return NOTHING if found.value is None else _number(found.value, found)


def _interval(found: Share | Median) -> str:
    low, high = found.interval if isinstance(found, Share) else (found.low, found.high)
    return NOTHING if low is None or high is None else f"{_number(low, found)}-{_number(high, found)}"


def _number(value: float, found: Share | Median) -> str:
    if math.isinf(value):
        return "never"
    return f"{value:.3f}" if isinstance(found, Share) else f"{value:g}"
