"""The triage page: the verdict first, then what to change, what speaks for it, who differs, what moved, and the whole walk."""

from __future__ import annotations

import streamlit as st

import charts
import parts
import picked
import triage_more
import triage_parts
import words
from llmvitals.app.answer import Answer, Key
from llmvitals.app.ask import Failure, ask, is_old
from llmvitals.app.past import Past, ask_past, drawn
from llmvitals.app.runbook import HURT, title
from llmvitals.settings import Settings, Source
from llmvitals.triage.course import Began, began
from llmvitals.triage.view import NOTICES, View, binds, present
from words import t, tell

Kept = dict[object, "Answer | Past"]
"""What this browser was shown last of each scope: shown, marked as stale, while there is nothing newer."""

LINES_INTERVALS = 3.0
"""Intervals of the exporter for which lines of a PromQL endpoint are good: each costs as much as thirty verdicts."""


@st.cache_data(ttl=2.0, show_spinner=False, max_entries=64)
def poll(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> Answer | Failure:
    """One answer serves everybody who looks at the same thing within two seconds."""
    return ask(source, scope, at, settings)


@st.cache_data(ttl=2.0, show_spinner=False, max_entries=64)
def poll_past(
    source: Source, key: Key, signals: tuple[str, ...], at: float | None, settings: Settings, scopes: int, turn: int
) -> Past:
    """The same for the minutes before; ``turn`` changes when they are asked for again."""
    return ask_past(source, key, signals, at, settings, scopes=scopes)


def main() -> None:
    """Lay the page out for the chosen source, scope and moment."""
    st.html(parts.STYLE)
    st.html(charts.STYLE)
    sidebar = picked.slots()
    found = picked.opened(sidebar, forget)
    if found is None:
        return
    settings, source, at = found
    scope = {key: st.query_params.get(key, "") for key in ("instance", "model")}
    connecting = st.empty()
    if not kept():
        waited = t("The verdict of {what} is asked for.", what=" · ".join(filter(None, scope.values())) or source.name)
        connecting.html(parts.line(NOTICES["connecting"], waited, source.url))
    first = poll(source, scope, at, settings)
    connecting.empty()
    if isinstance(first, Answer) or first.members:
        scope = choose_scope(first, scope, sidebar)
    st.session_state["first"] = (scope, first)  # not asked for again under its full name
    every = None if at is not None else settings.exporter.interval_seconds
    st.fragment(panel, run_every=every)(source, scope, at, settings)


def kept() -> Kept:
    """What this browser was shown."""
    found: Kept = st.session_state.setdefault("kept", {})
    return found


def forget() -> None:
    """Another source has other targets."""
    picked.forget_scope()
    st.session_state.pop("kept", None)


def choose_scope(answer: Answer | Failure, scope: dict[str, str], sidebar: picked.Slots) -> dict[str, str]:
    """One of the targets that the source knows: how it stands first, so that a narrow box does not cut it off, then its name."""
    listed = answer.choices(scope)
    keys = list(listed)
    current = answer.current(scope)
    unknown = t("not known") if isinstance(answer, Failure) else ""

    def label(key: Key) -> str:
        stands = t(listed[key].stands) if listed[key].stands else unknown
        return " · ".join(filter(None, (stands, listed[key].name)))

    chosen = sidebar["scope"].selectbox(t("Scope"), keys, index=keys.index(current), format_func=label)
    sidebar["scope"].html(parts.scope_note(label(current)))
    if chosen is not None and chosen != current:
        st.query_params.update(dict(zip(("instance", "model"), chosen, strict=True)))
        st.rerun()
    return dict(zip(("instance", "model"), current, strict=True))


def panel(source: Source, scope: dict[str, str], at: float | None, settings: Settings) -> None:
    """What is refreshed. The last good answer stays, marked as stale, while the source does not answer."""
    top = st.empty()
    asked, first = st.session_state.pop("first", ({}, None))
    answer = first if asked == scope and first is not None else poll(source, scope, at, settings)
    key = (source.url, *scope.values(), at)
    failed = isinstance(answer, Failure)
    if isinstance(answer, Failure):
        known = kept().get(key)
        word = "unknown-scope" if answer.members else "unreachable-stale" if known else "unreachable"
        top.html(parts.failed(NOTICES[word], answer))
        if not isinstance(known, Answer):
            return
        answer = known
    else:
        kept()[key] = answer
    old = at is None and is_old(answer, settings)
    if old and not failed:
        top.html(parts.line(NOTICES["old"], t("data {age} old", age=answer.age_text()), source.url))
    show(answer, source, scope, at, settings, stale=failed or old)


def show(
    answer: Answer, source: Source, scope: dict[str, str], at: float | None, settings: Settings, *, stale: bool
) -> None:
    """One answer: first all that needs nothing else to be asked, then the rest, which may be slow or fail."""
    view, verdict = present(answer.verdict), answer.verdict
    age = t("data {age} old", age=answer.age_text()) if at is None else ""
    if at is None and (ahead := answer.ahead_text()):
        age = t("data {span} ahead of this machine's clock: one of the two is wrong", span=ahead)
    facts = (t("source {name}", name=source.name), view.scope, tell(view.window), age)
    key = ("past", source.url, *scope.values(), at)
    known = kept().get(key)
    before = _since(answer, known) if isinstance(known, Past) else None
    turn = triage_parts.turn_line(view.turns)
    # written at once, not into a place that is empty for a moment: the verdict is never gone while it is refreshed
    top = st.html(parts.verdict(view, facts, stale=stale, more=triage_parts.when(before) + turn))
    if answer.notes:
        st.html(parts.notes(source.name, answer.notes))
    if verdict.binding.why:
        st.html(parts.binds(binds(verdict.binding.resource), verdict.binding.why))
    if view.leading:
        st.html(parts.action(view.leading, stale=stale))
    triage_more.report(answer, source, at, settings)
    show_runbooks(view, hurt=verdict.hurt)
    if view.alike:
        st.html(parts.heading(t("Looks alike, and is not it")))
        st.html(triage_parts.alike(view.alike))
    if view.turns:
        with st.expander(t("What would change this verdict")):
            st.html(triage_parts.turns(view.turns))
    past = looked_back(answer, source, at, settings, known if isinstance(known, Past) else None)
    kept()[key] = past
    if (now := _since(answer, past)) != before:
        top.html(parts.verdict(view, facts, stale=stale, more=triage_parts.when(now) + turn))
    triage_more.evidence(answer, view, past)
    show_contributing(view)
    triage_more.different(answer, source, at, settings)
    triage_more.compared(answer, source, at, settings, past)
    show_steps(answer, view, past)
    st.html(parts.heading(t("What this cannot see")))
    st.html(parts.blind(view.blind) if view.blind else parts.line(NOTICES["nothing-blind"], ""))


def looked_back(answer: Answer, source: Source, at: float | None, settings: Settings, known: Past | None) -> Past:
    """The minutes before. What was drawn last stays where they cannot be had, and what is amiss is said."""
    waiting = st.empty()
    if known is None:
        waiting.html(parts.line(NOTICES["waiting"], t("The minutes before are asked for."), source.url))
    key, signals = answer.current({}), drawn(answer.verdict)
    end = float(answer.verdict.window.get("end") or 0.0)
    span = settings.exporter.interval_seconds * (LINES_INTERVALS if source.kind == "prometheus" else 1.0)
    past = poll_past(source, key, signals, at, settings, len(answer.members), int(end / span))
    waiting.empty()
    if past.why:
        waiting.html(parts.line(NOTICES["no-history"], past.why))
        return Past(known.traces, known.course, past.why) if known is not None else past
    return past


def _since(answer: Answer, past: Past) -> str:
    return triage_parts.leading_since(answer.verdict, _began(past), past.course)


def _began(past: Past) -> dict[str, Began]:
    return began(past.course) if past.course is not None else {}


def show_runbooks(view: View, *, hurt: bool) -> None:
    """The runbook of the leading cause, and of the symptom while users are hurt, folded."""
    named = {view.leading.cause: t(view.leading.title)} if view.leading else {}
    if hurt:
        named[HURT] = title(HURT, words.language()) or title(HURT)
    for slug, name in named.items():
        with st.expander(t("Runbook: {title}", title=name)):
            picked.show_runbook(slug, words.language())


def show_contributing(view: View) -> None:
    """Causes that hold beside the leading one."""
    if not view.contributing:
        return
    st.html(parts.heading(t("Also holds")))
    for card in view.contributing:
        st.html(parts.contributing(card))
        with st.expander(t("Evidence and runbook: {title}", title=t(card.title))):
            st.html(parts.rows(card.title, card.rows))
            picked.show_runbook(card.cause, words.language())


def show_steps(answer: Answer, view: View, past: Past) -> None:
    """Every step in order, with each check's state, its reason and since when it fires; what was measured is folded."""
    st.html(parts.heading(t("The walk, step by step")))
    found = _began(past)
    since = triage_parts.began_texts(found, float(answer.verdict.window.get("end") or 0.0))
    with st.container(key="walk"):
        for stage, step in zip(view.stages, answer.verdict.steps, strict=True):
            st.html(parts.step(stage, since))
            with st.expander(t("Measured in step {number}", number=stage.number)):
                for check, result in zip(stage.checks, step.checks, strict=True):
                    st.html(parts.rows(check.title, check.rows) if check.rows else parts.unmeasured(check))
                    triage_more.over_time(result, answer.verdict, past, found)


main()
