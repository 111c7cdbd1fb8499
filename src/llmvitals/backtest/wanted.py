"""What alerts read of a moment: the signals whose numbers they compare or tell."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.alerts.conditions import Compared, Fell, Steady, parts_of
from llmvitals.alerts.policy import ALERTS
from llmvitals.signals.catalogue import BY_ID, Signal


def _signals() -> Iterator[str]:
    for alert in ALERTS:
        yield from alert.evidence
        for part in parts_of(alert.when):
            if isinstance(part, Compared | Fell | Steady):
                yield part.signal


SIGNALS: tuple[Signal, ...] = tuple(BY_ID[name] for name in dict.fromkeys(_signals()))
"""Signals that alerts compare, or tell as evidence."""
