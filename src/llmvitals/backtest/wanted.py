"""What alerts read of a moment: the signals whose numbers they compare or tell."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.alerts.conditions import Compared, Condition, Either, Every, Fell, Steady, Unless
from llmvitals.alerts.policy import ALERTS
from llmvitals.signals.catalogue import BY_ID, Signal


def parts(condition: Condition) -> Iterator[Condition]:
    """A condition and all that it is made of."""
    yield condition
    match condition:
        case Every(several) | Either(several):
            for one in several:
                yield from parts(one)
        case Unless(what, but):
            yield from parts(what)
            yield from parts(but)


def _signals() -> Iterator[str]:
    for alert in ALERTS:
        yield from alert.evidence
        for part in parts(alert.when):
            if isinstance(part, Compared | Fell | Steady):
                yield part.signal


SIGNALS: tuple[Signal, ...] = tuple(BY_ID[name] for name in dict.fromkeys(_signals()))
"""Signals that alerts compare, or tell as evidence."""
