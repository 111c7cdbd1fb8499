"""Pieces of HTML of the triage page alone: since when, what would change it, look-alikes, who differs, now beside before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

import parts
from llmvitals.triage.compare import Comparison
from llmvitals.triage.compare import Row as Moved
from llmvitals.triage.course import Began, Course
from llmvitals.triage.outliers import Outlier
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.view import OUTCOMES, Alike, Turn, cause_title, clock, moment
from parts import cell
from words import t, tell


def since(began: Began, now: float) -> str:
    """Since when a check fires, in words. ``now``: the end of the window that was judged (unix seconds)."""
    at = moment(began.t, now)
    said = t("since before {moment}", moment=at) if began.before else t("since {moment}", moment=at)
    return f"{said} ({t('with interruptions')})" if began.broken else said


def began_texts(found: Mapping[str, Began], now: float) -> dict[str, str]:
    """The same for every check that fires, by its cause."""
    return {cause: since(one, now) for cause, one in found.items()}


def leading_since(verdict: Verdict, found: Mapping[str, Began], course: Course | None) -> str:
    """Since when it is as the verdict says: since its cause fires, or since the outcome is this one; '' where nobody knows."""
    now = float(verdict.window.get("end") or 0.0)
    if verdict.leading is not None:
        began = found.get(verdict.leading.cause)
        return since(began, now) if began is not None else ""
    if course is None or not course.outcomes or course.outcomes[-1][1] != verdict.outcome.value:
        return ""
    return since(Began(course.outcomes[-1][0], before=len(course.outcomes) == 1), now)


def when(text: str | None) -> str:
    """The line in the verdict that says since when; None while that is being asked for, so that it keeps its place."""
    if text is None:
        text = t("since when is being looked up …")
    shown = escape(text[:1].upper() + text[1:]) or escape(t("Since when is not known."))
    return f'<div class="lv-since" data-since>{shown}</div>'


def turn_line(turns: Iterable[Turn]) -> str:
    """What would change the verdict soonest, as one line of it."""
    nearest = next(iter(turns), None)
    if nearest is None:
        return ""
    return (
        f'<div class="lv-turn" data-turn>{escape(t("Would change at"))}: {escape(t(nearest.title))} '
        f"<b>{escape(nearest.to)}</b> ({escape(t('now'))} {escape(nearest.now)}) → {escape(_then(nearest))}</div>"
    )


def _then(turn: Turn) -> str:
    return t(turn.cause) if turn.cause else t(turn.then.word)


def turns(listed: Iterable[Turn]) -> str:
    """What would change the verdict, the nearest first."""
    heads = (t("Signal"), t("Now"), t("Would have to be"), t("Verdict then"))
    body = "".join(
        f'<tr data-turn="{escape(one.signal)}"><td>{escape(t(one.title))}</td>{cell(heads[1], one.now, bold=True)}'
        f"{cell(heads[2], one.to)}{cell(heads[3], _then(one))}</tr>"
        for one in listed
    )
    return parts.table(heads, body)


def alike(listed: Iterable[Alike]) -> str:
    """What it looks like and is not, why, and the number that decides."""
    heads = (t("Looks like"), t("Why it is not"), t("Decided by"))
    body = "".join(
        f'<tr data-alike="{escape(one.cause)}"><td><b>{escape(t(one.title))}</b></td>'
        f"{cell(heads[1], tell(one.why))}{cell(heads[2], _decides(one))}</tr>"
        for one in listed
    )
    return parts.table(heads, body)


def _decides(one: Alike) -> str:
    if one.row is None:
        return "–"
    limit = f" ({t('limit')} {one.row.limit})" if one.row.limit else ""
    return f"{t(one.row.title)}: {t(one.row.value)}{limit}"


def outliers(listed: Iterable[Outlier], source: str) -> str:
    """Who differs from its peers, in what and why; a name leads to that replica's own triage."""
    heads = (t("Replica"), t("Differs in"), t("It has"), t("Its peers have"), t("Why"))
    body = "".join(
        f'<tr data-outlier="{escape(one.instance)}"><td><b>{parts.link(source, one.instance, one.model)}</b></td>'
        f"{cell(heads[1], t(one.title))}"
        f"{cell(heads[2], with_unit(one.value, one.unit), bold=True)}{cell(heads[3], _peers(one))}"
        f"{cell(heads[4], tell(one.reason) or t('its own numbers do not tell'))}</tr>"
        for one in listed
    )
    return parts.table(heads, body)


def _peers(one: Outlier) -> str:
    middle = t("median of {count}: {value}", count=one.others, value=with_unit(one.peers, one.unit))
    return f"{middle} ± {with_unit(one.spread, one.unit)}" if one.spread else middle


def compared(found: Comparison) -> str:
    """Then and now, side by side: the verdicts, what was set otherwise, and every number that is shown."""
    then, now = found.before, found.now
    heads = (t("Number"), clock(then.t), clock(now.t), t("Moved"))
    verdicts = _verdict(then.outcome, then.cause), _verdict(now.outcome, now.cause)
    body = f"<tr><td><b>{escape(t('Verdict'))}</b></td>{cell(heads[1], verdicts[0])}{cell(heads[2], verdicts[1])}<td></td></tr>"
    body += "".join(
        f'<tr data-fact="{escape(one.name)}"><td>{escape(t(one.name))}</td>{cell(heads[1], one.before or "–")}'
        f"{cell(heads[2], one.now or '–')}{cell(heads[3], t('set otherwise'))}</tr>"
        for one in found.facts
    )
    body += "".join(
        f'<tr data-moved="{escape(one.signal)}"><td>{escape(t(one.title))}</td>{cell(heads[1], _number(one.before, one.unit))}'
        f"{cell(heads[2], _number(one.now, one.unit), bold=True)}{cell(heads[3], _moved(one))}</tr>"
        for one in found.rows
    )
    return parts.table(heads, body)


def _verdict(outcome: str, cause: str) -> str:
    if cause:
        return t(cause_title(cause))
    return next((t(badge.word) for slug, badge in OUTCOMES.items() if slug.value == outcome), t("not known"))


def _number(value: float | None, unit: str) -> str:
    return t("no data") if value is None else with_unit(value, unit)


def _moved(one: Moved) -> str:
    """An arrow with a word; within its own noise nothing moved."""
    if one.before is None or one.now is None:
        return "–"
    if one.changed is False or one.now == one.before:
        return t("within its noise") if one.changed is False else t("the same")
    arrow = "↑" if one.now > one.before else "↓"
    judged = {True: t("worse"), False: t("better"), None: ""}[one.worse]
    return f"{arrow} {judged}".rstrip()
