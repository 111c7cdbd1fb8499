"""A fleet on a page, for the pages that show one: the last good answer stays while its source does not answer, and is said to be
old.
"""

from __future__ import annotations

import time

import streamlit as st

import parts
from llmvitals.app.ask import Failure, too_old
from llmvitals.settings import Settings, Source
from llmvitals.triage.replica import Fleet
from llmvitals.triage.units import with_unit
from llmvitals.triage.view import NOTICES, clock
from words import t


def latest(asked: Fleet | Failure, source: Source, at: float | None, settings: Settings) -> Fleet | None:
    """What there is to show; None where nothing is, and the page said why."""
    note = st.empty()
    kept: dict[object, Fleet] = st.session_state.setdefault("kept_fleets", {})
    if isinstance(asked, Failure):
        known = kept.get((source.url, at))
        note.html(parts.failed(NOTICES["unreachable-stale" if known else "unreachable"], asked))
        return known
    if at is None and too_old(time.time() - asked.end, settings):
        note.html(parts.line(NOTICES["old"], "", source.url))
    kept[source.url, at] = asked
    return asked


def head(title: str, about: str, fleet: Fleet, source: Source, at: float | None) -> None:
    """The page's heading with which source and window is shown, and what is to be said of how the list came about."""
    window = t("{span} ending {moment}", span=with_unit(fleet.seconds, "seconds"), moment=clock(fleet.end))
    if at is None:
        window += ", " + t("{span} ago", span=with_unit(max(1.0, round(time.time() - fleet.end)), "seconds"))
    st.html(parts.top(title, about, (t("source {name}", name=source.name), window)))
    if fleet.notes:
        st.html(parts.notes(source.name, fleet.notes))
