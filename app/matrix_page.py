"""The support matrix: what each source can say, from which series, and why it cannot say the rest."""

from __future__ import annotations

import streamlit as st

import matrix_parts
import parts
from llmvitals.app import matrix
from llmvitals.telemetry.mapping import EngineMap
from llmvitals.telemetry.registry import engines
from llmvitals.triage.view import NOTICES
from words import later, t

ABOUT = later(
    "Of the families that are read, how many a source gives, and how each comes about: mapped from a series of its own, "
    "derived from others, or not available, and why. What the target you look at lacks right now is on the triage page."
)
CHOICES = ("view", "kind", "family")
Known = tuple[EngineMap, ...]


def main() -> None:
    """The view that the address names, and what is chosen in it."""
    st.html(parts.STYLE + matrix_parts.STYLE)
    st.html(parts.top(t("What each source can say"), t(ABOUT)))
    known = engines()
    chosen = {name: st.query_params.get(name, "") for name in CHOICES}
    view = matrix.view(chosen["view"], chosen["kind"])
    told("view", view)
    st.segmented_control(
        t("View"),
        list(matrix.VIEWS),
        key="view",
        format_func=lambda one: t(matrix.VIEWS[one]),
        required=True,
        on_change=remember,
        label_visibility="collapsed",
    )
    if view == matrix.OVERVIEW:
        show_all(known)
    elif view == matrix.ONE:
        show_one(known, chosen)
    else:
        show_side(known, view, chosen["family"])


def told(name: str, value: str | None) -> None:
    """A widget shows what the address says, so that links and the browser's back button work."""
    if st.session_state.get(name) != value:
        st.session_state[name] = value


def remember() -> None:
    """The address says what was chosen."""
    for name in CHOICES:
        if name in st.session_state:
            st.query_params[name] = st.session_state[name] or ""
        if not st.query_params.get(name):
            st.query_params.pop(name, None)


def show_all(known: Known) -> None:
    """The short tables: engines on the left, what stands before and below them on the right."""
    left, right = st.columns((6, 5), gap="medium")
    for number, table in enumerate(matrix.overviews(known)):
        with right if number else left:
            st.html(matrix_parts.overview(table))


def show_one(known: Known, chosen: dict[str, str]) -> None:
    """Every family of one source."""
    by_kind = {engine.kind: engine for engine in known}
    kind = chosen["kind"]
    if kind and kind not in by_kind:
        st.html(parts.line(NOTICES["unknown-source"], t("There is no kind of source '{kind}'", kind=kind)))
    told("kind", kind if kind in by_kind else None)
    left, right = st.columns(2)
    left.selectbox(
        t("Source"),
        list(by_kind),
        key="kind",
        format_func=lambda named: f"{by_kind[named].title} ({by_kind[named].versions})",
        placeholder=t("Choose a source"),
        on_change=remember,
    )
    with right:
        words = ask_words(chosen["family"])
    if kind not in by_kind:
        return
    found = matrix.one(by_kind[kind], words)
    for part in found:
        st.html(matrix_parts.families(part))
    if not found:
        no_match(words)


def show_side(known: Known, view: str, words: str) -> None:
    """All sources of one group, family by family."""
    words = ask_words(words)
    group = next(group for group in matrix.GROUPS if group.origin.value == view)
    table = matrix.side(known, group, words)
    if table.parts:
        st.html(matrix_parts.side(table))
    else:
        no_match(words)


def ask_words(words: str) -> str:
    """What a family's name, or that of its series, must hold."""
    told("family", words)
    return (
        st.text_input(
            t("Family or series"),
            key="family",
            type="search",
            placeholder=t("all of them; for example: kv usage"),
            live=True,
            on_change=remember,
        )
        or ""
    )


def no_match(words: str) -> None:
    """Nothing passes the filter."""
    st.html(parts.line(matrix.NO_MATCH, t("No family or series here holds '{words}'", words=words)))


main()
