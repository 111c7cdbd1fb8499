"""What a person or a link chose, for every page: the settings, a source, a moment. What is wrong is said in one line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import parts
import sign_in
from llmvitals import settings as settings_file
from llmvitals.app import choices, link
from llmvitals.app.ask import Failure
from llmvitals.app.runbook import ENGLISH, Picture
from llmvitals.app.runbook import parts as parts_of
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.triage.view import NOTICES
from words import t

Slots = dict[str, DeltaGenerator]


def settings_of_app() -> Settings:
    """The settings that the app was started with. Raises :class:`SettingsError` for a file that is not valid."""
    return settings_file.load(choices.settings_path(sys.argv, os.environ))


def slots() -> Slots:
    """Places in the sidebar, in their order."""
    return {name: st.sidebar.container() for name in ("source", "scope", "time", "url")}


def forget_scope() -> None:
    """Another source has other scopes."""
    for key in ("instance", "model", "at"):
        st.query_params.pop(key, None)


def opened(
    sidebar: Slots, forget: Callable[[], None], known: Settings | None = None
) -> tuple[Settings, Source, float | None] | None:
    """The settings, the chosen source and the chosen moment; None where the page said why there are none.

    ``forget``: what another source makes void; ``known``: the settings, where the page has them.
    """
    try:
        settings = known or settings_of_app()
        source = _source(settings, sidebar, forget)
        if source is None:
            notice(
                "no-source",
                remedy=t("Name one under `sources` in the settings file, or type a URL where that is offered."),
            )
            return None
        _follow(source)
        return settings, source, _moment(source, sidebar)
    except LlmvitalsError as error:
        wrong(error)
        return None


def _source(settings: Settings, sidebar: Slots, forget: Callable[[], None]) -> Source | None:
    """A source by its name; a URL by hand only where nobody but this machine reaches the page, and no proxy brings people who
    sign in.
    """
    names = [source.name for source in settings.sources]
    wanted = st.query_params.get("source", "")
    free = choices.is_loopback(st.get_option("server.address")) and not sign_in.asked_for(settings.app)
    if wanted and wanted not in names:
        notice("unknown-source", t("There is no source '{name}' in the settings.", name=wanted))
    name = ""
    if names:
        index = names.index(wanted) if wanted in names else 0
        name = sidebar["source"].selectbox(t("Source"), names, index=index, on_change=forget)
        st.query_params["source"] = name
    if free:
        with sidebar["url"].expander(t("Another URL"), expanded=not names):
            kind = st.selectbox(t("Kind"), ("exporter", "prometheus"))
            url = st.text_input(t("URL"), placeholder="http://127.0.0.1:9464", on_change=forget)
        if url:
            return choices.entered(url, kind)
    return choices.named(settings, name)


def _follow(source: Source) -> None:
    """Put a dashboard's link into the app's own words, in the address too."""
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    found = link.understood(query, keeps_past=source.kind == "prometheus", now=time.time())
    if found is not None:
        st.query_params.from_dict(found)


def _moment(source: Source, sidebar: Slots) -> float | None:
    """Now, or any moment that a PromQL endpoint still knows."""
    if source.kind != "prometheus":
        return None
    text = sidebar["time"].text_input(t("Time (UTC)"), value=st.query_params.get("at", ""), placeholder=t("now"))
    at = choices.moment(text)
    if at is None:
        st.query_params.pop("at", None)
    else:
        st.query_params["at"] = text
    return at


def show_runbook(slug: str, chosen: str) -> None:
    """A runbook in the chosen language; in English, and saying so, where it is there in no other."""
    found = parts_of(slug, chosen)
    if found is None and chosen != ENGLISH:
        st.caption(t("This page is there in English only."))
        found = parts_of(slug)
    if found is None:
        notice("no-runbook", t("'{slug}' has no page in this installation.", slug=slug))
        return
    for part in found:
        if not isinstance(part, Picture):
            st.markdown(part)
        else:
            st.image(part.svg, caption=part.words)  # Streamlit puts it into the page itself: nothing is loaded


def notice(name: str, thing: str = "", place: str = "", remedy: str = "") -> None:
    """A state of the page in one line."""
    st.html(parts.line(NOTICES[name], thing, place, remedy))


def wrong(error: LlmvitalsError | Failure, name: str = "settings") -> None:
    """What is wrong with what was given, or (by the ``name`` of another notice) what failed, in one line."""
    st.html(parts.failed(NOTICES[name], error))
