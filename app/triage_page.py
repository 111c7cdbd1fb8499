"""The triage page: the verdict on top, what speaks for it, what to change, and every step of the walk below."""

from __future__ import annotations

import os
import sys

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import charts
import parts
from llmvitals import settings as settings_file
from llmvitals.app import choices
from llmvitals.app.answer import Answer
from llmvitals.app.ask import Failure, ask, is_old
from llmvitals.app.runbook import runbook
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.triage.chart import Chart, leading_charts, vital_charts
from llmvitals.triage.view import NOTICES, Card, View, present

COLUMNS = 3

Slots = dict[str, DeltaGenerator]


@st.cache_data(ttl=2.0, show_spinner=False, max_entries=64)
def poll(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> Answer | Failure:
    """One answer serves everybody who looks at the same thing within two seconds."""
    return ask(source, scope, at, settings)


def main() -> None:
    """Lay the page out for the chosen source, scope and moment."""
    st.html(parts.STYLE)
    sidebar = {name: st.sidebar.container() for name in ("source", "scope", "time", "url")}
    try:
        settings = settings_file.load(choices.settings_path(sys.argv, os.environ))
        source = choose_source(settings, sidebar)
        if source is None:
            notice(
                "no-source",
                remedy="Name one under `sources` in the settings file, or type a URL where that is offered.",
            )
            return
        at = choose_moment(source, sidebar)
    except LlmvitalsError as error:
        notice("settings", error.thing, error.place, error.remedy)
        return
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


def choose_source(settings: Settings, sidebar: Slots) -> Source | None:
    """A source by its name; a URL by hand only where nobody but this machine reaches the page."""
    names = [source.name for source in settings.sources]
    wanted = st.query_params.get("source", "")
    free = choices.is_loopback(st.get_option("server.address"))
    if wanted and wanted not in names:
        notice("unknown-source", f"There is no source '{wanted}' in the settings.")
    name = ""
    if names:
        index = names.index(wanted) if wanted in names else 0
        name = sidebar["source"].selectbox("Source", names, index=index, on_change=forget_scope)
        st.query_params["source"] = name
    if free:
        with sidebar["url"].expander("Another URL", expanded=not names):
            kind = st.selectbox("Kind", ("exporter", "prometheus"))
            url = st.text_input("URL", placeholder="http://127.0.0.1:9464", on_change=forget_scope)
        if url:
            return choices.entered(url, kind)
    return choices.named(settings, name)


def forget_scope() -> None:
    """Another source has other targets."""
    for key in ("instance", "model", "at"):
        st.query_params.pop(key, None)
    st.session_state.pop("kept", None)


def choose_moment(source: Source, sidebar: Slots) -> float | None:
    """Now, or any moment that a PromQL endpoint still knows."""
    if source.kind != "prometheus":
        return None
    text = sidebar["time"].text_input("Time (UTC)", value=st.query_params.get("at", ""), placeholder="now")
    at = choices.moment(text)
    if at is None:
        st.query_params.pop("at", None)
    else:
        st.query_params["at"] = text
    return at


def choose_scope(answer: Answer | Failure, scope: dict[str, str], sidebar: Slots) -> dict[str, str]:
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
    if view.leading:
        st.html(parts.action(view.leading, stale=stale))
        show_runbook(view.leading)
        st.html(parts.heading("Evidence"))
        grid(leading_charts(answer.verdict, answer.traces), "leading")
    st.html(parts.heading("Vital signs"))
    grid(vital_charts(answer.verdict, answer.traces), "vital")
    show_contributing(view)
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


def show_runbook(card: Card) -> None:
    """The runbook of a cause, folded."""
    with st.expander(f"Runbook: {card.title}"):
        text = runbook(card.cause)
        if text:
            st.markdown(text)
        else:
            notice("no-runbook", f"'{card.cause}' has no page in this installation.")


def show_contributing(view: View) -> None:
    """Causes that hold beside the leading one."""
    if not view.contributing:
        return
    st.html(parts.heading("Also holds"))
    for card in view.contributing:
        st.html(parts.contributing(card))
        with st.expander(f"Evidence and runbook: {card.title}"):
            st.html(parts.rows(card.title, card.rows))
            st.markdown(runbook(card.cause) or "")


def show_steps(view: View) -> None:
    """Every step in order, with each check's state and reason; what was measured is folded."""
    st.html(parts.heading("The walk, step by step"))
    with st.container(key="walk"):
        for stage in view.stages:
            st.html(parts.step(stage))
            with st.expander(f"Measured in step {stage.number}"):
                for check in stage.checks:
                    st.html(parts.rows(check.title, check.rows) if check.rows else parts.unmeasured(check))


def notice(name: str, thing: str = "", place: str = "", remedy: str = "") -> None:
    """A state of the page in one line."""
    st.html(parts.line(NOTICES[name], thing, place, remedy))


main()
