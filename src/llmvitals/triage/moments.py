"""Moments in documents from elsewhere: what no clock can show is refused where it is read, not where it is shown."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.errors import PageError

SHOWN = (-6e10, 2.5e11)
"""Unix seconds that can be written as a date, with room for what is added to them (years 69 to 9892)."""


def check(told: Iterable[object], *, place: str) -> None:
    """Raises :class:`PageError` where one of these is neither a moment (unix seconds) nor None."""
    for t in told:
        known = isinstance(t, (int, float)) and SHOWN[0] < t < SHOWN[1]
        if t is not None and not known:
            raise PageError(
                f"answered with a time that no clock shows ({str(t)[:40]})",
                place=place,
                remedy="Look at the clock of the machine that it runs on.",
            )
