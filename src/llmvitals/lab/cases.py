"""The triage held against public incident reports: what it names from the figures of each, and whether that is right.

A report states a few figures; a metrics page shows all of them. So most reports do not allow a verdict, and the right answer
to them is *undetermined* together with what is missing. What must never happen is another cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from llmvitals.lab.case_file import Case, LeftOut, left_out, load
from llmvitals.lab.snapshot import snapshot, unremarkable
from llmvitals.settings import Settings
from llmvitals.triage.verdict import Blind, Outcome, Verdict
from llmvitals.triage.walk import diagnose_readings, states


class Grade(StrEnum):
    """How a verdict compares with what the report's thread establishes, the worst first."""

    WRONG = "wrong"
    """Another cause leads, or all is called well that is not."""
    SILENT = "abstained although the figures suffice"
    ABSTAINED = "abstained rightly"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Judged:
    """One case with its verdict.

    ``pressed``: what leads where all that the report leaves out is taken for unremarkable, '' for nothing: no doubt holds a
    cause back then, so that a wrong one would show. ``met``, ``against``, ``unstated``: conditions of the check of the
    established cause, in the alternative that comes closest. ``missing``: what the walk was blind to, what would settle the
    case first.
    """

    case: Case
    verdict: Verdict
    grade: Grade
    pressed: str
    met: int
    against: int
    unstated: int
    missing: tuple[Blind, ...]

    @property
    def leading(self) -> str:
        """The leading cause, or the outcome where none leads."""
        return self.verdict.leading.cause if self.verdict.leading else str(self.verdict.outcome)


@dataclass(frozen=True, slots=True)
class CaseScore:
    """All cases. ``counts``: incidents by grade; reports of one root are one incident, as good as the worst of them."""

    judged: tuple[Judged, ...]
    counts: dict[Grade, int]
    left_out: tuple[LeftOut, ...]

    @property
    def incidents(self) -> int:
        """Incidents, groups counted once."""
        return sum(self.counts.values())


def score_cases(settings: Settings | None = None) -> CaseScore:
    """Every public case judged by the walk over its figures, with the default promises and thresholds unless given."""
    judged = tuple(judge_case(case, settings or Settings()) for case in load())
    return CaseScore(judged, _counts(judged), left_out())


def judge_case(case: Case, settings: Settings) -> Judged:
    """One case: its figures as readings, the verdict on them, and the grade."""
    readings = snapshot(case, settings)
    verdict = diagnose_readings(readings, settings, scope={"case": case.id})
    pressed = diagnose_readings(unremarkable(readings), settings)
    check = states(verdict).get(case.cause)
    holds = [e.holds for e in check.evidence] if check else []
    wanted = set(case.missing)
    return Judged(
        case,
        verdict,
        _grade(case, verdict),
        pressed.leading.cause if pressed.leading else "",
        sum(h is True for h in holds),
        sum(h is False for h in holds),
        sum(h is None for h in holds),
        tuple(sorted(verdict.blind, key=lambda b: b.series not in wanted)),
    )


def _grade(case: Case, verdict: Verdict) -> Grade:
    if verdict.leading is not None:
        return Grade.RIGHT if verdict.leading.cause in case.accepted else Grade.WRONG
    elsewhere = case.cause.startswith("other: ")
    if verdict.outcome in {Outcome.HEALTHY, Outcome.SHEDDING} and not elsewhere:
        return Grade.WRONG
    return Grade.SILENT if case.expects == "answer" else Grade.ABSTAINED


def _counts(judged: Iterable[Judged]) -> dict[Grade, int]:
    order = list(Grade)
    roots: dict[str, Grade] = {}
    for one in judged:
        worst = roots.get(one.case.root, one.grade)
        roots[one.case.root] = min(worst, one.grade, key=order.index)
    counted = Counter(roots.values())
    return {grade: counted[grade] for grade in Grade}


def cases_table(score: CaseScore | None = None) -> str:
    """The cases as Markdown: totals, one row per case, where figures and checks disagree, and what was left out."""
    score = score or score_cases()
    totals = ", ".join(f"{count} {grade}" for grade, count in reversed(score.counts.items()))
    met, against = (sum(getattr(one, name) for one in score.judged) for name in ("met", "against"))
    lines = [
        f"{len(score.judged)} reports of {score.incidents} incidents: {totals}. Of the conditions by which the established "
        f"causes are told, the reports state {met + against}; {met} hold.",
        "",
        "| report | engine | established cause | leads | pressed | conditions met, against, unstated | grade | would settle it |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(one) for one in score.judged),
    ]
    lines += _list(
        "Where figures and checks disagree:", ((j.case, j.case.differs) for j in score.judged if j.case.differs)
    )
    lines += _list("Left out:", ((one, one.why) for one in score.left_out))
    return "\n".join(lines) + "\n"


def _row(one: Judged) -> str:
    cells = (
        one.case.source,
        one.case.engine.kind,
        one.case.cause,
        one.leading,
        one.pressed or "-",
        f"{one.met}, {one.against}, {one.unstated}" if one.met + one.against + one.unstated else "-",
        str(one.grade),
        ", ".join(f"`{family}`" for family in one.case.missing) or "-",
    )
    return f"| {' | '.join(cells)} |"


def _list(title: str, rows: Iterable[tuple[Case | LeftOut, str]]) -> list[str]:
    found = [f"- {of.source} ({of.cause}): {why}" for of, why in rows]
    return ["", title, "", *found] if found else []
