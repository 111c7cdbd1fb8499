"""Who sees the pages: without a provider in Streamlit's secrets everybody who reaches the app; with one, who has signed in and may.

Whatever is amiss with that closes the app: nothing is asked of a source before somebody is let in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

import parts
from llmvitals import settings as settings_file
from llmvitals.app import choices, people
from llmvitals.app.returning import Returning, Wanted, browser_of
from llmvitals.app.secrets_file import providers
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import App
from llmvitals.triage.view import NOTICES
from words import t

RECHECK_SECONDS = 60.0
"""How often a page that stays open looks whether its reader still may."""

_COOKIE = "_streamlit_xsrf"
"""A cookie of Streamlit that each browser has one of, before and after signing in."""

_RETURNING = Returning()


def let_in(page: Page, pages: Iterable[Page]) -> bool:
    """Whether the page may be run; where not, says why and offers to sign in. Who signed in is sent where they wanted to go."""
    try:
        allowed = settings_file.load(choices.settings_path(sys.argv, os.environ)).app
    except LlmvitalsError as error:
        if not asked_for(App()):
            return True  # the page says what is wrong with the settings
        _notice("settings", error.thing, error.place, error.remedy)
        return False
    if not asked_for(allowed):
        return True
    auth = _auth()
    if auth is None:
        _notice("sign-in-broken", t("there is no provider to sign in with"), "secrets.toml", t("See docs/sign-in.md."))
        return False
    claims = st.user.to_dict()
    if claims.get("is_logged_in") is not True:
        _offer(page, auth, t("These pages are for people who are known here."))
        return False
    refused = people.refusal(claims, allowed, time.time())
    if refused is not None:
        said = t(refused.thing, name=people.known_as(claims))
        if refused is people.OLD:
            _offer(page, auth, said, t(refused.remedy))
        else:
            _notice("not-allowed", said, remedy=t(refused.remedy))
            st.button(t("Sign out"), on_click=st.logout)
        return False
    _return(pages)
    _reader(claims, allowed)
    return True


def asked_for(allowed: App) -> bool:
    """Whether somebody wants people to sign in, be it set up rightly or not."""
    return (
        os.environ.get(choices.SIGN_IN_VARIABLE) == choices.REQUIRED
        or people.limited(allowed)
        or _auth() is not None
        or _unreadable()
    )


def _auth() -> Mapping[str, object] | None:
    """The section of Streamlit's secrets that says who knows people; None where there is none."""
    found = st.secrets.get("auth") if st.secrets.load_if_toml_exists() else None
    return found if isinstance(found, Mapping) and providers(found) else None


def _unreadable() -> bool:
    """Whether there are secrets that could not be read: they may have said that people must sign in."""
    return not st.secrets.load_if_toml_exists() and any(Path(file).exists() for file in st.get_option("secrets.files"))


def _offer(page: Page, auth: Mapping[str, object], why: str, remedy: str = "") -> None:
    """A button for each provider. What was asked for is kept until they are back."""
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    _RETURNING.keep(_browser(), Wanted(page.url_path, query), time.monotonic())
    _notice("sign-in", why, remedy=remedy)
    for name in providers(auth):
        one = name == "default"
        label = t("Sign in") if one else t("Sign in with {name}", name=name)
        st.button(label, key=f"sign-in-{name}", on_click=st.login, args=() if one else (name,), type="primary")


def _return(pages: Iterable[Page]) -> None:
    """Once after signing in: the page and the words of the link that somebody came with."""
    if st.session_state.get("let-in"):
        return
    st.session_state["let-in"] = True
    wanted = _RETURNING.take(_browser(), time.monotonic())
    if wanted is None or len(st.query_params) > 0:
        return
    found = next((page for page in pages if page.url_path == wanted.page), None)
    if found is not None and (wanted.page or wanted.query):
        st.switch_page(found, query_params=wanted.query)


def _reader(claims: Mapping[str, object], allowed: App) -> None:
    """Who reads, and the way out; the sign-in is looked at again while the page stays open."""
    with st.sidebar:
        st.caption(t("Signed in as {name}", name=people.called(claims)))
        st.button(t("Sign out"), on_click=st.logout, key="sign-out")

        @st.fragment(run_every=RECHECK_SECONDS)
        def recheck() -> None:
            if people.refusal(claims, allowed, time.time()) is not None:
                st.rerun(scope="app")

        recheck()


def _browser() -> str:
    return browser_of(st.context.cookies.get(_COOKIE, ""))


def _notice(name: str, thing: str, place: str = "", remedy: str = "") -> None:
    st.html(parts.STYLE + parts.line(NOTICES[name], thing, place, remedy))
