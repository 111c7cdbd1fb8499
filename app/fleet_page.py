"""The fleet: services and replicas worst first, where they stand, where their time goes, and who differs from its peers."""

from __future__ import annotations

import streamlit as st

import fleet_answer
import fleet_parts
import parts
import picked
import triage_parts
from llmvitals.app.ask import Failure
from llmvitals.app.fleet import ask_fleet
from llmvitals.app.matrix import NO_MATCH
from llmvitals.app.quadrant import picture
from llmvitals.app.services import Board, board, narrowed
from llmvitals.settings import Settings, Source
from llmvitals.triage.replica import Fleet
from words import later, t

TITLE = later("Fleet")
ABOUT = later("Services and replicas, the worst first. A name leads to its triage.")
SLOWEST_REFRESH = 15.0
"""Seconds between two looks at a fleet: a list of many that moves at every scrape cannot be read."""


@st.cache_data(ttl=5.0, show_spinner=False, max_entries=16)
def poll(source: Source, at: float | None, settings: Settings) -> Fleet | Failure:
    """One answer serves everybody who looks at the same fleet within a few seconds."""
    return ask_fleet(source, at, settings)


def main() -> None:
    """Lay the page out for the chosen source and moment."""
    st.html(parts.STYLE + fleet_parts.STYLE)
    sidebar = picked.slots()
    found = picked.opened(sidebar, forget)
    if found is None:
        return
    settings, source, at = found
    every = None if at is not None else max(SLOWEST_REFRESH, settings.exporter.interval_seconds)
    st.fragment(panel, run_every=every)(source, at, settings)


def forget() -> None:
    """Another source has other replicas."""
    for key in ("find", "page", "at"):
        st.query_params.pop(key, None)


def panel(source: Source, at: float | None, settings: Settings) -> None:
    """What is refreshed. The last good answer stays while the source does not answer, and is said to be old."""
    fleet = fleet_answer.latest(poll(source, at, settings), source, at, settings)
    if fleet is not None:
        show(fleet, source, at, settings)


def show(fleet: Fleet, source: Source, at: float | None, settings: Settings) -> None:
    """One answer, from the whole to the single replica."""
    fleet_answer.head(t(TITLE), t(ABOUT), fleet, source, at)
    if not fleet.replicas and not fleet.services:
        picked.notice("no-replicas", remedy=t("Give the exporter targets, or choose another source."))
        return
    words = ask_words()
    found = board(fleet, settings, words, asked_page())
    if not found.matching and not found.services:
        st.html(parts.line(NO_MATCH, t("No service or replica here holds '{words}'", words=words)))
        return
    st.html(fleet_parts.counts(found))
    st.html(parts.heading(t("Services")))
    st.html(fleet_parts.services(found.services, source.name))
    if found.more_services:
        st.caption(t("{count} more; the filter finds them", count=found.more_services))
    show_picture(narrowed(fleet, words), found, source)
    if found.odd:
        st.html(parts.heading(t("Replicas: who is different")))
        st.html(triage_parts.outliers(found.odd, source.name))
        if found.more_odd:
            st.caption(t("{count} more; the filter finds them", count=found.more_odd))
    st.html(parts.heading(t("Replicas, worst first")))
    st.html(fleet_parts.replicas(found.rows, source.name))
    choose_page(found)


def show_picture(fleet: Fleet, found: Board, source: Source) -> None:
    """Where the replicas stand, beside where the time of the slowest goes."""
    left, right = st.columns(2, gap="medium")
    drawn = picture(fleet, plain=True)
    with left:
        st.html(parts.heading(t("KV usage against compute")))
        if drawn.points:
            st.html(fleet_parts.plot(drawn))
        unplaced = len(fleet.replicas) - len(drawn.points)
        if unplaced:
            st.caption(
                t(
                    "{count} of {total} have no place: KV usage or GPU activity is not known",
                    count=unplaced,
                    total=len(fleet.replicas),
                )
            )
    with right:
        st.html(parts.heading(t("Where time goes: the slowest replicas")))
        if found.bars:
            st.html(fleet_parts.bars(found.bars, source.name))
        else:
            st.caption(t("No replica here times its requests, or none finished one."))


def ask_words() -> str:
    """What a service's or replica's name, model, cause or state must hold."""
    asked = st.query_params.get("find", "")
    if st.session_state.get("find") != asked:
        st.session_state["find"] = asked
    return (
        st.text_input(
            t("Find"),
            key="find",
            type="search",
            placeholder=t("all; for example: preemption llama"),
            on_change=remember,
        )
        or ""
    )


def remember() -> None:
    """The address says what is looked for; another search begins with its first page."""
    st.query_params.pop("page", None)
    if st.session_state["find"]:
        st.query_params["find"] = st.session_state["find"]
    else:
        st.query_params.pop("find", None)


def asked_page() -> int:
    """The page of the table that the address names."""
    text = st.query_params.get("page", "1")
    return int(text) if text.isdecimal() and len(text) < 7 else 1


def choose_page(found: Board) -> None:
    """The rest of the table, page by page."""
    if found.pages < 2:
        return
    if st.session_state.get("rows") != found.page:
        st.session_state["rows"] = found.page
    names = fleet_parts.pages(found)
    st.selectbox(t("Show"), list(names), key="rows", format_func=names.__getitem__, on_change=turn)


def turn() -> None:
    """The address says which page is shown."""
    st.query_params["page"] = str(st.session_state["rows"])


main()
