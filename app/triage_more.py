"""What the triage page asks for after the verdict: charts, who differs among replicas, now beside before, the report."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

import charts
import parts
import triage_parts
from llmvitals.app import choices
from llmvitals.app.answer import Answer, Key
from llmvitals.app.ask import Failure
from llmvitals.app.before import ask_comparison, onset
from llmvitals.app.fleet import Odd, ask_odd
from llmvitals.app.past import Past
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.triage.chart import Chart, check_charts, leading_charts, vital_charts
from llmvitals.triage.compare import Comparison
from llmvitals.triage.course import Began, began
from llmvitals.triage.outliers import LEAST_PEERS
from llmvitals.triage.verdict import CheckResult, State, Verdict
from llmvitals.triage.view import NOTICES, View
from report_parts import report_button
from words import t

ONSET = "onset"
BEFORE: Mapping[str, float] = {"5 min": 300.0, "15 min": 900.0, "1 h": 3600.0}
CUSTOM = "custom"
_FIRING = frozenset({State.FIRING, State.SHADOWED})


@st.cache_data(ttl=15.0, show_spinner=False, max_entries=16)
def poll_odd(source: Source, at: float | None, settings: Settings) -> Odd | Failure:
    """A fleet is asked for as a whole, so it is asked for seldom."""
    return ask_odd(source, at, settings)


@st.cache_data(ttl=5.0, show_spinner=False, max_entries=64)
def poll_comparison(
    source: Source, key: Key, seconds: float, at: float | None, settings: Settings, scopes: int
) -> Comparison | str:
    """Two moments serve everybody who looks at the same thing within a few seconds."""
    return ask_comparison(source, key, seconds, at, settings, scopes=scopes)


def report(answer: Answer, source: Source, at: float | None, settings: Settings) -> None:
    """The place of the incident report, after what is to be changed."""
    instance, model = answer.current({})
    report_button(source, {"instance": instance, "model": model}, at, settings)


def evidence(answer: Answer, view: View, past: Past) -> None:
    """What speaks for the leading cause and the vital signs, over time, and what classes of requests got."""
    since = began(past.course) if past.course is not None else {}
    if view.leading:
        st.html(parts.heading(t("Evidence")))
        grid(leading_charts(answer.verdict, past.traces, since))
    if view.classes:
        st.html(parts.heading(t("Requests by class, one by one")))
        st.html(parts.classes(view.classes))
    st.html(parts.heading(t("Vital signs")))
    grid(vital_charts(answer.verdict, past.traces))


def grid(drawn: tuple[Chart, ...]) -> None:
    """Small charts side by side, under one another on a phone; one piece, so that all are replaced at once."""
    st.html(f'<div class="lv lv-grid">{"".join(map(_drawn, drawn))}</div>')


def _drawn(chart: Chart) -> str:
    return f'<div class="lv-cell">{parts.evidence(chart.row)}{charts.draw(chart) if chart.points else ""}</div>'


def over_time(result: CheckResult, verdict: Verdict, past: Past, since: Mapping[str, Began]) -> None:
    """Under a check of the walk that fires: what it looked at, over time."""
    drawn = check_charts(result, verdict, past.traces, since) if result.state in _FIRING else ()
    if drawn:
        grid(drawn)


def different(answer: Answer, source: Source, at: float | None, settings: Settings) -> None:
    """Of several replicas of the model: who differs from the others, and why."""
    model = answer.current({})[1]
    if sum(member.model == model for member in answer.members) <= LEAST_PEERS:
        return
    st.html(parts.heading(t("Replicas: who is different")))
    odd = poll_odd(source, at, settings)
    if isinstance(odd, Failure):
        st.html(parts.failed(NOTICES["no-comparison"], odd))
        return
    if odd.notes:
        st.html(parts.notes(source.name, odd.notes))
    own = [one for one in odd.found if one.model == model]
    if own:
        st.html(triage_parts.outliers(own, source.name))
    elif odd.compared.get(model, 0) <= LEAST_PEERS:
        st.html(parts.line(NOTICES["no-comparison"], t("Too few replicas of {model} could be read.", model=model)))
    else:
        st.html(parts.line(NOTICES["nobody-differs"], t("No replica of {model} differs from the others.", model=model)))


def compared(answer: Answer, source: Source, at: float | None, settings: Settings, past: Past) -> None:
    """Now beside before, once a moment is chosen."""
    spans = dict(BEFORE)
    if (began_ago := onset(answer.verdict, past.course)) is not None:
        spans = {ONSET: began_ago, **spans}
    said = {CUSTOM: t("a moment"), ONSET: t("before it began")}
    st.html(parts.heading(t("Now beside before")))
    chosen = st.segmented_control(
        t("Compare with"),
        [*spans, CUSTOM],
        key="before",
        format_func=lambda one: said.get(one) or t("{span} earlier", span=one),
    )
    if chosen is None:
        return
    seconds = spans.get(str(chosen)) or _typed(answer)
    if seconds is None:
        return
    found = poll_comparison(source, answer.current({}), seconds, at, settings, len(answer.members))
    if isinstance(found, str):
        st.html(parts.line(NOTICES["no-comparison"], found))
    else:
        st.html(triage_parts.compared(found))


def _typed(answer: Answer) -> float | None:
    """Seconds from a moment that was typed in to the one that is shown."""
    text = st.text_input(t("Moment (UTC)"), key="before-moment", placeholder="2026-10-29 14:03:22")
    try:
        asked = choices.moment(text)
    except LlmvitalsError as error:
        st.html(parts.failed(NOTICES["settings"], error))
        return None
    end = float(answer.verdict.window.get("end") or 0.0)
    if asked is None:
        return None
    if asked >= end:
        st.html(parts.line(NOTICES["no-comparison"], t("That moment is not before the one that is shown.")))
        return None
    return end - asked
