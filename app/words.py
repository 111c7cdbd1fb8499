"""What the pages say, in the language that a person chose: in the address (``lang``), before on another page, or in the browser."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from llmvitals.app.phrases import told
from llmvitals.app.runbook import ENGLISH, LANGUAGES
from llmvitals.app.translation import translated

CHOSEN = "language"
"""Where a session keeps it: a link from page to page has no address of the page before."""


def language() -> str:
    """The code of the language (``en``, ``tr``)."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return ENGLISH
    asked = st.query_params.get("lang", "")
    if asked in LANGUAGES:
        return asked
    kept = str(st.session_state.get(CHOSEN) or "")
    return kept if kept in LANGUAGES else _of_browser()


def t(text: str, **values: object) -> str:
    """A text of the pages in the chosen language. ``text`` is written out where it is used, with ``{names}`` for ``values``."""
    said = translated(text, language())
    return said.format(**values) if values else said


def later(text: str) -> str:
    """Marks a text that stands in a table and is said through :func:`t` where it is shown, for those who collect texts."""
    return text


def tell(sentence: str) -> str:
    """A sentence that the triage made, in the chosen language; in English where there is no translation of it."""
    return told(sentence, language())


def choose() -> None:
    """The switch. What is chosen stands in the address, so that a link shows the page as it was seen."""
    now = language()
    st.session_state[CHOSEN] = now
    if now != _of_browser() and st.query_params.get("lang") != now:
        st.query_params["lang"] = now  # a link to another page leaves it behind, and the address is what people copy
    st.sidebar.segmented_control(
        t("Language"),
        list(LANGUAGES),
        key=CHOSEN,
        format_func=LANGUAGES.__getitem__,
        required=True,
        on_change=_remember,
        label_visibility="collapsed",
    )


def _remember() -> None:
    st.query_params["lang"] = st.session_state[CHOSEN]


def _of_browser() -> str:
    found = (st.context.locale or "").partition("-")[0].lower()
    return found if found in LANGUAGES else ENGLISH
