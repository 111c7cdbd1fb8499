"""The triage page: the verdict on top, what speaks for it, what to change, and every step of the walk below."""

from __future__ import annotations

import streamlit as st

import charts
import parts
import picked
from llmvitals.app.answer import Answer
from llmvitals.app.ask import Failure, ask, is_old
from llmvitals.app.runbook import HURT, title
from llmvitals.settings import Settings, Source
from llmvitals.triage.chart import Chart, leading_charts, vital_charts
from llmvitals.triage.view import NOTICES, View, binds, present

COLUMNS = 3


@st.cache_data(ttl=2.0, show_spinner=False, max_entries=64)
def poll(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> Answer | Failure:
    """One answer serves everybody who looks at the same thing within two seconds."""
    return ask(source, scope, at, settings)


def main() -> None:
    """Lay the page out for the chosen source, scope and moment."""
    st.html(parts.STYLE)
    sidebar = {name: st.sidebar.container() for name in ("source", "scope", "time", "url")}
    found = picked.opened(sidebar, forget_scope)
    if found is None:
        return
    settings, source, at = found
    scope = {key: st.query_params.get(key, "") for key in ("instance", "model")}
    connecting = st.empty()
    if not st.session_state.get("kept"):
        connecting.html(parts.line(NOTICES["connecting"], "", source.url))
    first = poll(source, scope, at, settings)
    connecting.empty()
    if isinstance(first, Answer) or first.members:
        scope = choose_scope(first, scope, sidebar)
    every = None if at is not None else settings.exporter.interval_seconds
    st.fragment(panel, run_every=every)(source, scope, at, settings)


def forget_scope() -> None:
    """Another source has other targets."""
    for key in ("instance", "model", "at"):
        st.query_params.pop(key, None)
    st.session_state.pop("kept", None)


def choose_scope(answer: Answer | Failure, scope: dict[str, str], sidebar: picked.Slots) -> dict[str, str]:
    """One of the targets that the source knows, with its verdict beside the name."""
    labels = answer.choices(scope)
    keys = list(labels)
    current = answer.current(scope)
    chosen = sidebar["scope"].selectbox("Scope", keys, index=keys.index(current), format_func=labels.__getitem__)
    if chosen != current:
        st.query_params.update(dict(zip(("instance", "model"), chosen, strict=True)))
        st.rerun()
    return dict(zip(("instance", "model"), chosen, strict=True))


def panel(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> None:
    """What is refreshed. The last good answer stays, marked as stale, while the source does not answer."""
    top = st.empty()
    answer = poll(source, scope, at, settings)
    key = (source.url, *scope.values(), at)
    kept: dict[object, Answer] = st.session_state.setdefault("kept", {})
    failed = isinstance(answer, Failure)
    if isinstance(answer, Failure):
        known = kept.get(key)
        word = "unknown-scope" if answer.members else "unreachable-stale" if known else "unreachable"
        top.html(parts.line(NOTICES[word], answer.thing, answer.place, answer.remedy))
        if known is None:
            return
        answer = known
    else:
        kept[key] = answer
    old = at is None and is_old(answer, settings)
    if old and not failed:
        top.html(parts.line(NOTICES["old"], answer.age_text(), source.url))
    show(answer, source, stale=failed or old, live=at is None)


def show(answer: Answer, source: Source, *, stale: bool, live: bool) -> None:
    """One answer, from the verdict down to the steps."""
    view = present(answer.verdict)
    facts = (f"source {source.name}", view.scope, view.window, answer.age_text() if live else "")
    st.html(parts.verdict(view, facts, stale=stale))
    if answer.verdict.binding.why:
        st.html(parts.binds(binds(answer.verdict.binding.resource), answer.verdict.binding.why))
    if view.leading:
        st.html(parts.action(view.leading, stale=stale))
    language = show_runbooks(view, hurt=answer.verdict.hurt)
    if view.leading:
        st.html(parts.heading("Evidence"))
        grid(leading_charts(answer.verdict, answer.traces), "leading")
    if view.classes:
        st.html(parts.heading("Requests by class, one by one"))
        st.html(parts.classes(view.classes))
    st.html(parts.heading("Vital signs"))
    grid(vital_charts(answer.verdict, answer.traces), "vital")
    show_contributing(view, language)
    show_steps(view)
    st.html(parts.heading("What this cannot see"))
    st.html(parts.blind(view.blind) if view.blind else parts.line(NOTICES["nothing-blind"], ""))


def grid(drawn: tuple[Chart, ...], name: str) -> None:
    """Small charts side by side, under one another on a phone."""
    for start in range(0, len(drawn), COLUMNS):
        for column, chart in zip(st.columns(COLUMNS), drawn[start : start + COLUMNS], strict=False):
            with column:
                st.html(parts.evidence(chart.row))
                if chart.points:
                    st.altair_chart(charts.draw(chart), width="stretch", key=f"{name}-{chart.row.signal}")


def show_runbooks(view: View, *, hurt: bool) -> str:
    """The runbook of the leading cause, and of the symptom while users are hurt, folded; gives the language of runbooks."""
    named = {view.leading.cause: view.leading.title} if view.leading else {}
    if hurt:
        named[HURT] = title(HURT)
    language = picked.language((*named, *(card.cause for card in view.contributing)))
    for slug, name in named.items():
        with st.expander(f"Runbook: {name}"):
            picked.show_runbook(slug, language)
    return language


def show_contributing(view: View, language: str) -> None:
    """Causes that hold beside the leading one."""
    if not view.contributing:
        return
    st.html(parts.heading("Also holds"))
    for card in view.contributing:
        st.html(parts.contributing(card))
        with st.expander(f"Evidence and runbook: {card.title}"):
            st.html(parts.rows(card.title, card.rows))
            picked.show_runbook(card.cause, language)


def show_steps(view: View) -> None:
    """Every step in order, with each check's state and reason; what was measured is folded."""
    st.html(parts.heading("The walk, step by step"))
    with st.container(key="walk"):
        for stage in view.stages:
            st.html(parts.step(stage))
            with st.expander(f"Measured in step {stage.number}"):
                for check in stage.checks:
                    st.html(parts.rows(check.title, check.rows) if check.rows else parts.unmeasured(check))


main()
