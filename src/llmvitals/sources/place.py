"""What a person types as a target, and what is asked for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

from llmvitals.errors import SettingsError
from llmvitals.settings import Target

_BARE = re.compile(r"^[A-Za-z0-9._-]+:\d{1,5}(/|$)|^\[[0-9A-Fa-f:]+\]:\d{1,5}(/|$)")


def is_url(text: str) -> bool:
    """Whether a target is meant as a URL: with a scheme, or ``host:port``."""
    return "://" in text or _BARE.match(text) is not None


def base_url(text: str) -> str:
    """The URL with its scheme, without a slash at the end. Raises :class:`SettingsError` when it is none."""
    url = text.strip()
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # brackets that do not close, a port that is no number
        known = False
    if not known:
        shown = text.rpartition("@")[2].partition("?")[0]  # a password's own marks may be what makes it no URL
        raise SettingsError("is not a URL", place=shown, remedy="Write it like http://host:8000.")
    return urlunsplit(parts).rstrip("/")


def name_of(target: Target) -> str:
    """A target's instance name: its own, else host and port, as Prometheus names it. Raises ``SettingsError``."""
    if not target.name:
        base_url(target.url)  # a name made of it must stand for something
    return target.known_as


def fronts(targets: Iterable[Target]) -> dict[str, str]:
    """The gateway in front of each engine, as the settings say."""
    return {name_of(target): target.gateway for target in targets if target.gateway}


def without_secrets(url: str) -> str:
    """The URL as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
