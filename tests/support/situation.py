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


def merged(*tables: tuple[Situation, ...]) -> tuple[Situation, ...]:
    """One situation for each cause: what several tables show of it, together. Names of windows must differ."""
    found: dict[str, Situation] = {}
    for situation in (s for table in tables for s in table):
        before = found.get(situation.cause, Situation(situation.cause, {}, {}))
        assert not {*before.shown, *before.alike} & {*situation.shown, *situation.alike}, situation.cause
        found[situation.cause] = Situation(
            situation.cause, {**before.shown, **situation.shown}, {**before.alike, **situation.alike}
        )
    return tuple(found.values())
