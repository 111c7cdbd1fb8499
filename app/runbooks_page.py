"""Every runbook: the pages that alerts and verdicts lead to."""

from __future__ import annotations

import streamlit as st

import parts
import picked
from llmvitals.app.runbook import Page, pages, title
from words import language, later, t

OF = {True: later("Symptom"), False: later("Cause")}


def main() -> None:
    """The page that the address names, or the first one."""
    st.html(parts.STYLE)
    known = {page.slug: page for page in pages()}
    if not known:
        picked.notice("no-runbook", t("This installation has no folder of runbooks."))
        return
    asked = st.query_params.get("page", "")
    if asked and asked not in known:
        picked.notice("no-runbook", t("'{slug}' has no page in this installation.", slug=asked))
    slug = asked if asked in known else next(iter(known))
    if st.session_state.get("page") != slug:
        st.session_state["page"] = slug  # a link, or the browser's way back
    st.selectbox(t("Runbook"), list(known), key="page", format_func=lambda one: _named(known[one]), on_change=remember)
    chosen = language()
    st.title(title(slug, chosen) if chosen in known[slug].languages else known[slug].title)
    picked.show_runbook(slug, chosen)


def _named(page: Page) -> str:
    return f"{t(OF[page.symptom])}: {title(page.slug, language()) if language() in page.languages else page.title}"


def remember() -> None:
    """The address says what was chosen."""
    st.query_params["page"] = st.session_state["page"]


main()
