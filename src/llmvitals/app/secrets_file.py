"""Streamlit's own file of secrets, as far as signing in needs it: looked at before the app starts, so that a half one is one line
instead of a page that lets nobody in, or everybody. No message repeats a value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from llmvitals.errors import SettingsError

CALLBACK = "/oauth2callback"
"""Where Streamlit takes people back from a provider."""

LEAST_COOKIE_SECRET = 32
"""Characters: the cookie that says who somebody is, is signed with nothing else."""

NEEDED = ("client_id", "client_secret", "server_metadata_url")
_PAGE = "See docs/sign-in.md."


@dataclass(frozen=True, slots=True)
class SignIn:
    """Where people are sent back to, and the providers ('default' where the section itself is one)."""

    redirect_uri: str
    providers: tuple[str, ...]

    @property
    def origin(self) -> str:
        """The address under which people must open the app, for its cookie holds for no other."""
        parts = urlsplit(self.redirect_uri)
        return f"{parts.scheme}://{parts.netloc}"


def usual(home: Path, folder: Path, script: Path) -> tuple[Path, ...]:
    """Where Streamlit looks by itself: at home, where it is started, beside its script."""
    return tuple(dict.fromkeys(place / ".streamlit" / "secrets.toml" for place in (home, folder, script)))


def sign_in(files: Iterable[Path]) -> SignIn | None:
    """What the files say of signing in (later ones win, key by key), None where they say nothing.

    Raises :class:`SettingsError` for a file that cannot be read, and for an ``[auth]`` that could let nobody in.
    """
    place = ""
    auth: object = None
    for file in files:
        found = _read(file)
        if "auth" in found:
            place, auth = str(file), found["auth"]
    if not place:
        return None
    if not isinstance(auth, dict):
        raise SettingsError("auth is no section", place=place, remedy=_PAGE)
    redirect, cookie = (str(auth.get(key) or "") for key in ("redirect_uri", "cookie_secret"))
    if not redirect.endswith(CALLBACK) or urlsplit(redirect).scheme not in ("http", "https"):
        raise SettingsError(
            "auth.redirect_uri is not the app's address",
            place=place,
            remedy=f"Write the address that people open, with {CALLBACK} behind it.",
        )
    if len(cookie) < LEAST_COOKIE_SECRET:
        raise SettingsError(
            f"auth.cookie_secret has less than {LEAST_COOKIE_SECRET} characters",
            place=place,
            remedy="Make one with: openssl rand -hex 32.",
        )
    return SignIn(redirect, _checked(auth, place))


def providers(auth: Mapping[str, object]) -> tuple[str, ...]:
    """The providers that a section ``[auth]`` names; 'default' where it is one itself."""
    named = tuple(name for name, section in auth.items() if isinstance(section, Mapping) and "client_id" in section)
    return (("default",) if "client_id" in auth else ()) + named


def _checked(auth: Mapping[str, object], place: str) -> tuple[str, ...]:
    found = providers(auth)
    if not found:
        raise SettingsError("auth names no provider", place=place, remedy=f"Give it {', '.join(NEEDED)}. {_PAGE}")
    for name in found:
        section = auth if name == "default" else auth[name]
        lacks = [key for key in NEEDED if not (isinstance(section, Mapping) and section.get(key))]
        where = "auth" if name == "default" else f"auth.{name}"
        if lacks:
            raise SettingsError(f"{where} lacks {', '.join(lacks)}", place=place, remedy=_PAGE)
        if "_" in name:
            raise SettingsError(f"{where}: a provider's name has no '_'", place=place, remedy="Write '-'.")
    return found


def _read(file: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        thing, remedy = f"cannot be read ({error.strerror})", "Check the path and its permissions."
    except ValueError:  # its message would show a line of the file
        thing, remedy = "is not valid TOML", "Put values into quotes; [auth] stands before its keys."
    raise SettingsError(thing, place=str(file), remedy=remedy)
