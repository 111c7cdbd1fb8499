"""The incident report on a page: prepared on a click, then there to be taken."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import streamlit as st

import parts
import words
from llmvitals.errors import LlmvitalsError
from llmvitals.incident.asked import Wish, Zip, zipped
from llmvitals.settings import Settings, Source
from llmvitals.triage.view import NOTICES
from words import t, tell

HELD = "report-made"
"""The report that was made last in this browser, and of what: it stays while the page is refreshed."""


def report_button(source: Source, scope: Mapping[str, str], at: float | None, settings: Settings) -> None:
    """A button that makes the report of this scope, then one that hands it over; what fails is said in one line."""
    about = (source.name, source.url, tuple(sorted(scope.items())), at)
    with st.container(key="report"):
        asked = st.button(t("Prepare the incident report"), key="report-prepare")
        with st.expander(t("A note for it, and aliases for names")):
            note = st.text_area(t("What else is known"), key="report-note", max_chars=4000)
            anonymised = st.checkbox(
                t("Replace the names of hosts, pods, instances, models and tenants by aliases"), key="report-anonymise"
            )
        if asked:
            st.session_state.pop(HELD, None)
            wish = Wish(note, anonymised, words.language())
            try:
                with st.spinner(t("The window is recorded, redacted and judged.")):
                    st.session_state[HELD] = (about, zipped(source, scope, at, settings, wish))
            except LlmvitalsError as error:
                st.html(parts.failed(NOTICES["no-report"], error))
        held = st.session_state.get(HELD)
        if held is not None and held[0] == about:
            _handed(held[1])


def _handed(made: Zip) -> None:
    """The finished report: what it says, and the file."""
    st.download_button(
        t("Save {name}", name=made.name), made.body, made.name, "application/zip", key="report-save", on_click="ignore"
    )
    said = t("Report, verdict and a recording to replay it; secrets are taken out.")
    st.html(
        f'<div class="lv lv-note" data-report="{escape(made.name)}">{escape(said)} {escape(tell(made.sentence))}</div>'
    )
