"""What recorded series are called, and which labels rules keep and join by."""

from __future__ import annotations

from llmvitals.settings import OWN_LABELS, PLACES, Settings
from llmvitals.signals.catalogue import Signal

WINDOW = "5m"
"""The range for which every signal that compiles is recorded, and from which long windows of budgets are summed."""

WIDER = "3m"
"""A shorter window of a budget is taken to be this long where it holds less than two samples of a server that is up: one that is
scraped once a minute, as Prometheus does by default, has one, and of one nothing grew.
"""

INSTANCE: tuple[str, ...] = ("instance",)


def recorded(signal: Signal) -> str:
    """The name of a signal's recording rule."""
    return f"llm:{signal.id}:{WINDOW}"


def gauge(signal: Signal) -> str:
    """The name of a signal's gauge on the exporter's page."""
    return f"llm_{signal.id}"


def series_of(signal: Signal) -> str:
    """Where the signal's number stands in a Prometheus: its recording rule, else the exporter's gauge."""
    return recorded(signal) if signal.expr is not None else gauge(signal)


def missed(budget: str, window: str) -> str:
    """The recorded count of requests that missed what a budget is for, over a window."""
    return f"llm:{budget}_missed:{window}"


def judged(budget: str, window: str) -> str:
    """The recorded count of requests that were held against a budget's promise, over a window."""
    return f"llm:{budget}_judged:{window}"


USED = f"llm:used:{WINDOW}"
"""The recorded growth of what grows while a server is in use, requests or tokens; there only while its page is."""


def places(settings: Settings) -> tuple[str, ...]:
    """The labels that every rule keeps beside those of a scope: what the settings group by, each once. What the page's own
    families say (status, cause) is no place: kept, it would take errors apart from the answers they are a share of.
    """
    return tuple(name for name in dict.fromkeys(settings.alerts.group_by) if name not in OWN_LABELS)


def kept(settings: Settings, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels that a rule keeps: these, and what the settings group by."""
    return (*labels, *(name for name in places(settings) if name not in labels))


def joined(settings: Settings, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels by which one series is joined to another: these, and those that tell one cluster's server from another's of the
    same name. Where a server runs is left out: it is not on every series, and the instance tells.
    """
    return tuple(name for name in kept(settings, labels) if name in labels or name not in PLACES)
