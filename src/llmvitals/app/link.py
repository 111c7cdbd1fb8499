"""What a link from a dashboard means in the app's own words: its scope, and the moment at the right edge of its time range.

A panel's link brings the board's variables (``var-instance=a&var-instance=b&var-model=$__all``), a value's link the app's own
(``instance=a&model=m``); both bring ``from`` and ``to`` as Grafana writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from llmvitals.schema import SCOPE

_EVERY = frozenset({"", ".*", "$__all", "All"})
"""What a variable of a board says where nothing is chosen."""

_VARIABLE = "var-"
_TIMES = ("from", "to")

PAST_SECONDS = 60.0
"""A time range that ends no longer ago than this ends now: the link was followed, and pages take a moment to be stored."""

_UNITS: Mapping[str, float] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO = re.compile(r"now-(\d{1,9})([smhdw])")
_MILLISECONDS = re.compile(r"\d{10,15}")


def understood(query: Mapping[str, Sequence[str]], *, keeps_past: bool, now: float) -> dict[str, str] | None:
    """The app's own parameters for a link from a dashboard; None where this is none.

    What has nothing to do with a dashboard stays as it is. A scope is narrowed only by a variable that has one value, and one
    that is there in the app's own words wins. ``keeps_past``: whether the source knows the past; without one, a link to the
    past shows now, as does one whose time cannot be read. ``now``: unix seconds.
    """
    if not any(map(_foreign, query)):
        return None
    kept = {name: values[-1] for name, values in query.items() if values and not _foreign(name)}
    own = {name: value for name, value in kept.items() if name not in SCOPE or value not in _EVERY}
    for name in SCOPE:
        values = set(query.get(f"{_VARIABLE}{name}", ()))
        if name not in own and len(values) == 1 and not values & _EVERY:
            own[name] = values.pop()
    end = _moment(query["to"][-1], now) if query.get("to") else None
    if keeps_past and end is not None and end < now - PAST_SECONDS and "at" not in own:
        own["at"] = f"{datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M:%S}"
    return own


def _foreign(name: str) -> bool:
    return name.startswith(_VARIABLE) or name in _TIMES


def _moment(text: str, now: float) -> float | None:
    """The end of a time range as unix seconds: milliseconds, or ``now-5m``; None for now and for what cannot be read."""
    if _MILLISECONDS.fullmatch(text):
        return int(text) / 1000
    ago = _AGO.fullmatch(text)
    found = now - int(ago[1]) * _UNITS[ago[2]] if ago else None
    return found if found is not None and found > 0 else None  # nothing was measured before 1970
