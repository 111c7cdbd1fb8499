"""What a source says, in one form whatever its kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmvitals.errors import PageError
from llmvitals.triage.history import Trace
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Verdict

Scope = Mapping[str, str]
"""``instance`` and ``model``; an empty one leaves the choice to the source."""


@dataclass(frozen=True, slots=True)
class Member:
    """One scope of a source and how it stands: slugs of its verdict and of its leading cause ('' where none leads)."""

    instance: str
    model: str
    verdict: str
    leading: str

    @property
    def label(self) -> str:
        """As listed: what it is, then how it stands."""
        name = " · ".join(part for part in (self.instance, self.model) if part)
        return f"{name} ({self.leading or self.verdict})"


class UnknownScopeError(PageError):
    """The source answers, and does not have the scope that was asked for; ``members`` are those that it has."""

    def __init__(self, thing: str, *, place: str, remedy: str, members: tuple[Member, ...]) -> None:
        super().__init__(thing, place=place, remedy=remedy)
        self.members = members


def listed(members: tuple[Member, ...], current: tuple[str, str], note: str = "") -> dict[tuple[str, str], str]:
    """(instance, model) to label, the current one among them even where the source does not list it (``note``: then)."""
    found = {(m.instance, m.model): m.label for m in members}
    found.setdefault(current, " · ".join(part for part in current if part) + note)
    return found


def meant(scope: Scope, known: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Which of the known (instance, model) a scope means, None where none of them.

    A target that has given no page for a while names no model any more: a link to it and its model finds it by its instance.
    """
    keys = tuple(known)
    instance, model = scope.get("instance", ""), scope.get("model", "")
    asked = (key for key in keys if instance in ("", key[0]) and model in ("", key[1]))
    return next(asked, (instance, "") if (instance, "") in keys else None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said of one scope, how its signals moved, the scopes to choose from, when it was asked (unix s)."""

    verdict: Verdict
    traces: Mapping[str, Trace]
    members: tuple[Member, ...]
    asked: float

    def age(self, now: float) -> float | None:
        """Seconds from the window's end to ``now``; None where the window has no end."""
        end = self.verdict.window.get("end")
        return max(0.0, now - end) if isinstance(end, (int, float)) else None

    def age_text(self) -> str:
        """How old the data are, for people."""
        age = self.age(time.time())
        return "" if age is None else f"data {with_unit(max(1, round(age)), 'seconds')} old"

    def choices(self, scope: Scope) -> dict[tuple[str, str], str]:
        """(instance, model) to label, the current one among them even where the source no longer lists it."""
        return listed(self.members, self.current(scope))

    def current(self, scope: Scope) -> tuple[str, str]:
        """The scope that the verdict is about."""
        told = self.verdict.scope
        instance, model = (str(told.get(key) or scope.get(key, "")) for key in ("instance", "model"))
        return instance, model
