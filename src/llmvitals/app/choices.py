"""What a person or a link may choose: the settings file, a source, a scope, a moment. Wrong input is one clear line."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from datetime import time as time_of_day
from ipaddress import ip_address
from urllib.parse import urlsplit

from llmvitals.errors import SettingsError
from llmvitals.settings import Settings, Source, secret_in

SETTINGS_VARIABLE = "LLMVITALS_SETTINGS"
SIGN_IN_VARIABLE, REQUIRED = "LLMVITALS_SIGN_IN", "required"
"""How ``llmvitals app`` tells the app that people must sign in, should the file that says so go away."""

CALENDAR = (-62_135_596_800.0, 253_402_300_800.0)
"""Unix seconds of the first moment that a date can be written for (year 1), and of the first that has none (year 10000)."""

DAY_SECONDS = 86_400.0

_FLAG = "--settings"


def settings_path(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The settings file: ``--settings PATH`` or ``--settings=PATH``, else what LLMVITALS_SETTINGS says, else None."""
    for i, argument in enumerate(arguments):
        if argument == _FLAG and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"{_FLAG}="):
            return argument.removeprefix(f"{_FLAG}=")
    return environment.get(SETTINGS_VARIABLE) or None


def is_loopback(address: str | None) -> bool:
    """Whether a server bound to ``address`` is reached from this machine alone. Unset means every interface: no."""
    if not address:
        return False
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address == "localhost"


def named(settings: Settings, name: str) -> Source | None:
    """The source of that name; the first one for an empty name; None where there is none."""
    if not name:
        return settings.sources[0] if settings.sources else None
    return next((source for source in settings.sources if source.name == name), None)


def entered(url: str, kind: str) -> Source:
    """A source typed in by hand. Raises :class:`SettingsError` for anything but an http(s) URL with a host."""
    text = url.strip()
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = text.rpartition("@")[2].partition("?")[0]
        raise SettingsError("is not a URL", place=shown or "the URL field", remedy="Write it as http://host:9464.")
    if told := secret_in(text):
        remedy = "Name a source with its access in the settings file."
        raise SettingsError(f"an address may not hold {told}", place="the URL field", remedy=remedy)
    return Source(name=text, url=text, kind=kind)


def moment(text: str, now: float | None = None) -> float | None:
    """A moment as unix seconds: None for an empty text or ``now``; else unix seconds or ISO 8601 (UTC by default), of which a time
    of day by itself is the last such one before ``now`` (unix seconds).

    Raises :class:`SettingsError` for anything else.
    """
    cleaned = text.strip().removesuffix("UTC").strip()
    if cleaned.lower() in ("", "now"):
        return None
    found = seconds_of(cleaned)
    if found is None:
        found = _of_day(cleaned, time.time() if now is None else now)
    if found is None:
        raise SettingsError(
            "is not a moment", place=f"time '{text}'", remedy="Write 'now', or UTC as 14:03 or 2026-10-29 14:03:22."
        )
    return found


def _of_day(text: str, now: float) -> float | None:
    """The last time of that name before ``now``."""
    try:
        told = time_of_day.fromisoformat(text) if ":" in text else None
    except ValueError:
        return None
    if told is None or told.tzinfo is not None:
        return None
    at = datetime.combine(datetime.fromtimestamp(now, UTC).date(), told, UTC).timestamp()
    return at if at <= now else at - DAY_SECONDS


def seconds_of(text: str) -> float | None:
    """The moment that a text names, in unix seconds: those themselves, or ISO 8601 (UTC unless it says otherwise).

    None for what is no moment, and for one that no calendar has (:data:`CALENDAR`).
    """
    try:
        found = float(text)
    except ValueError:
        try:
            told = datetime.fromisoformat(text)
        except ValueError:
            return None
        found = (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    return found if CALENDAR[0] <= found < CALENDAR[1] else None
