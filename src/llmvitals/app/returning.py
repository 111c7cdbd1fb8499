"""Where somebody wanted to go before they were sent away to sign in: the provider sends everybody back to the first page."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

KEPT_SECONDS = 900.0
MOST_KEPT = 1000
MOST_CHARACTERS = 4000
"""Of one address: links have less, and nobody may fill the memory before they signed in."""

Query = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A page by its path in the address ('' for the first), and the words behind it."""

    page: str
    query: Query


def browser_of(cookie: str) -> str:
    """Who a browser is, by Streamlit's cookie against forged requests: ``2|mask|token|time``, the token masked anew on each
    page (Tornado's second form). '' for any other cookie.
    """
    parts = cookie.strip('"').split("|")
    try:
        mask, masked = (bytes.fromhex(part) for part in parts[1:3])
    except ValueError:
        return ""
    if parts[0] != "2" or not mask or not masked:
        return ""
    return bytes(byte ^ mask[i % len(mask)] for i, byte in enumerate(masked)).hex()


class Returning:
    """Remembers what browsers wanted, each known by a cookie that only it has; the oldest is forgotten first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Wanted]] = OrderedDict()

    def keep(self, browser: str, wanted: Wanted, now: float) -> None:
        """Remember the latest wish of a browser ('' is none); ``now`` in any seconds that go on.

        The first page without a word is no wish: it is where everybody comes back to.
        """
        size = len(wanted.page) + sum(len(k) + sum(map(len, v)) for k, v in wanted.query.items())
        if not browser or not 0 < size <= MOST_CHARACTERS:
            return
        with self._lock:
            self._kept.pop(browser, None)
            self._kept[browser] = (now, wanted)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def take(self, browser: str, now: float) -> Wanted | None:
        """What the browser wanted, once; None where that is unknown or long ago."""
        with self._lock:
            then, wanted = self._kept.pop(browser, (0.0, None))
        return wanted if wanted is not None and now - then <= KEPT_SECONDS else None
