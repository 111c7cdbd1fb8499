"""What a source says, in one form whatever its kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmvitals.errors import PageError
from llmvitals.triage.report import severity
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.view import OUTCOMES, cause_title

Scope = Mapping[str, str]
"""``instance`` and ``model``; an empty one leaves the choice to the source."""

Key = tuple[str, str]
"""(instance, model)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One scope of a source and how it stands: slugs of its verdict and of its leading cause ('' where none leads).

    ``confidence``: in that cause, 0-1.
    """

    instance: str
    model: str
    verdict: str
    leading: str
    confidence: float = 0.0
    hurt: bool = False

    @property
    def key(self) -> Key:
        """Which scope it is."""
        return self.instance, self.model

    @property
    def choice(self) -> Choice:
        """As it is listed."""
        return Choice(named(*self.key), cause_title(self.leading) if self.leading else _word(self.verdict))


@dataclass(frozen=True, slots=True)
class Choice:
    """One scope in a list: its name, and how it stands ('' where that is not known), which is said first."""

    name: str
    stands: str = ""


def named(instance: str, model: str) -> str:
    """A scope as people name it."""
    return " · ".join(part for part in (instance, model) if part)


def _word(verdict: str) -> str:
    return next((badge.word for outcome, badge in OUTCOMES.items() if outcome.value == verdict), verdict)


AHEAD_SECONDS = 5.0
"""Clocks that are kept in step (NTP) differ by far less."""


class UnknownScopeError(PageError):
    """The source answers, and does not have the scope that was asked for; ``members`` are those that it has."""

    def __init__(self, thing: str, *, place: str, remedy: str, members: tuple[Member, ...]) -> None:
        super().__init__(thing, place=place, remedy=remedy)
        self.members = members


def ordered(members: Iterable[Member]) -> tuple[Member, ...]:
    """Worst first, as every list of scopes is."""
    return tuple(sorted(members, key=lambda one: severity(one.verdict, one.confidence, hurt=one.hurt)))


def listed(members: Iterable[Member], current: Key) -> dict[Key, Choice]:
    """The scopes to choose from, the current one among them even where the source does not list it."""
    found = {one.key: one.choice for one in members}
    found.setdefault(current, Choice(named(*current)))
    return found


def meant(scope: Scope, known: Iterable[Key]) -> Key | None:
    """Which of the known (instance, model) a scope means, None where none of them.

    A target that has given no page for a while names no model any more: a link to it and its model finds it by its instance.
    """
    keys = tuple(known)
    instance, model = scope.get("instance", ""), scope.get("model", "")
    asked = (key for key in keys if instance in ("", key[0]) and model in ("", key[1]))
    return next(asked, (instance, "") if (instance, "") in keys else None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said of one scope, the scopes to choose from (worst first), and when it was asked (unix s)."""

    verdict: Verdict
    members: tuple[Member, ...]
    asked: float
    notes: tuple[str, ...] = ()

    def age(self, now: float) -> float | None:
        """Seconds from the window's end to ``now``; None where the window has no end."""
        end = self.verdict.window.get("end")
        return max(0.0, now - end) if isinstance(end, (int, float)) else None

    def ahead_text(self) -> str:
        """How far the data lie in the future, which no clock that is right makes; '' where they do not."""
        end = self.verdict.window.get("end")
        ahead = end - time.time() if isinstance(end, (int, float)) else 0.0
        return with_unit(round(ahead), "seconds") if ahead > AHEAD_SECONDS else ""

    def age_text(self) -> str:
        """How old the data are, for people."""
        age = self.age(time.time())
        return "" if age is None else with_unit(max(1, round(age)), "seconds")

    def choices(self, scope: Scope) -> dict[Key, Choice]:
        """The scopes to choose from, the current one among them even where the source no longer lists it."""
        return listed(self.members, self.current(scope))

    def current(self, scope: Scope) -> Key:
        """The scope that the verdict is about."""
        told = self.verdict.scope
        instance, model = (str(told.get(key) or scope.get(key, "")) for key in ("instance", "model"))
        return instance, model
