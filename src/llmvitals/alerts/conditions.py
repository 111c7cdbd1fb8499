"""What an alert asks of one scope (instance, model) at one moment. One definition, two readings: ``compile.py`` writes it as
PromQL, ``holds.py`` answers it over a course in memory, so that a replay of history tells what Prometheus would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llmvitals.settings import Settings
from llmvitals.signals.promql_ast import Node


@dataclass(frozen=True, slots=True)
class Fires:
    """The check of a cause fires, and the verdict is not healthy: what hurts nobody is mentioned, and wakes nobody."""

    cause: str


@dataclass(frozen=True, slots=True)
class Hurt:
    """Users are hurt, by the triage's own test (``llm_triage_hurt``)."""


@dataclass(frozen=True, slots=True)
class Concludes:
    """The verdict is one of these outcomes."""

    outcomes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A signal's newest number against a bound: a number, or the dotted name of a setting (``thresholds.kv_lines.0``: the first of
    several), times ``factor``. Without a number it does not hold.
    """

    signal: str
    op: str
    bound: float | str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Fell:
    """A signal is below ``to`` times what it was ``ago``, both over 5 minutes."""

    signal: str
    to: float
    ago: str


@dataclass(frozen=True, slots=True)
class Steady:
    """A signal is within ``within`` (0-1) of what it was ``ago``, either way, both over 5 minutes."""

    signal: str
    within: float
    ago: str


@dataclass(frozen=True, slots=True)
class Burns:
    """An error budget (a row of ``budgets.py``) burns as fast as one of the settings' rows of this severity says, over both its
    windows, with enough requests in the long one. Never true where the page has no histogram for it.
    """

    budget: str
    severity: str


@dataclass(frozen=True, slots=True)
class Busy:
    """At least as many requests finished in the last 5 minutes as ``alerts.least_requests`` asks."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The target gives no readable page.

    ``alone``: or it vanished from the exporter's within ``model.GONE_MEMORY``; it was in use in the 5 minutes before it went,
    at most ``model.USED_MEMORY`` ago; and nothing else that is up serves its model: users get no answer. A replica that vanishes
    while others serve is a rollout, or a smaller fleet; one that nobody used was switched off, by a scaler or for the night.
    """

    alone: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """PromQL on the watching itself, which no course of a server can answer: a replay leaves such alerts out and says so.

    ``write``: the expression, from the settings.
    """

    write: Callable[[Settings], Node]


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; the alert's value is that of the first."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Unless:
    """``what`` holds and ``but`` does not."""

    what: Condition
    but: Condition


Condition = (
    Fires | Hurt | Concludes | Compared | Fell | Steady | Burns | Busy | Gone | Written | Every | Either | Unless
)


def parts_of(condition: Condition) -> Iterator[Condition]:
    """A condition, and all that it is made of."""
    yield condition
    match condition:
        case Every(parts) | Either(parts):
            for part in parts:
                yield from parts_of(part)
        case Unless(what, but):
            yield from parts_of(what)
            yield from parts_of(but)
