"""The labels by which rules and people group what is told of a target: where it is, and what the settings group alerts by.

A target's samples carry all its own labels already; what is concluded about it (signals, verdicts, promises of a service)
carries these few, the same on every series of a scope, so that a rule may keep them and still join one series to another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from llmvitals.schema import IDENTITY
from llmvitals.series import Labels
from llmvitals.settings import PLACES, Settings


def grouping(settings: Settings) -> frozenset[str]:
    """The names of these labels; what says whose number it is (instance, model, rank) is on every series anyway."""
    return PLACES.union(settings.alerts.group_by).difference(IDENTITY)


def kept(labels: Mapping[str, str], names: Collection[str]) -> Labels:
    """Those of a target's labels with these names, in order."""
    return tuple(sorted((name, value) for name, value in labels.items() if name in names and value))


def shared(members: Sequence[Labels]) -> Labels:
    """What all engines of a service have in common: of a service that spans two places it cannot be said where it is."""
    first, *others = members or ((),)
    return tuple(pair for pair in first if all(pair in one for one in others))
