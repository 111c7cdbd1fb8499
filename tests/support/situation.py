"""What a situation is: a cause, the windows that show it, and those that only look like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmvitals.series import Window

PAGES = 14  # intervals of 5 s: 70 s


@dataclass(frozen=True, slots=True)
class Situation:
    """A cause, the windows that show it, and those that look like it and must not be called so."""

    cause: str
    shown: Mapping[str, Callable[[], Window]]
    alike: Mapping[str, Callable[[], Window]]
