"""The counters of promises kept and missed as families of the page: of each engine, and of each service rank by rank.

The ranks of a service stay apart, for a sum falls when an engine leaves, and a counter that falls reads as a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from llmvitals.exporters.page import Group
from llmvitals.schema import Kind
from llmvitals.series import Labels, Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.budget import JUDGED, MISSED, counters

NAMES = (JUDGED, MISSED)
_HELP: Mapping[str, str] = {
    JUDGED: "Requests whose time to first token or per token was measured against what was promised.",
    MISSED: "Requests that certainly missed it: beyond the histogram's edge at or above the threshold.",
}


class Newest(NamedTuple):
    """The newest page of a target, or of a service. ``place``: of a service, what its engines have in common of ``instead``:
    labels that then say where the service is, and not each engine of it.
    """

    page: Snapshot
    place: Labels = ()
    instead: frozenset[str] = frozenset()


def groups(newest: Iterable[Newest], settings: Settings) -> Iterator[Group]:
    """Both families, in a fixed order; they may hold no sample."""
    told: dict[str, dict[Labels, float]] = {name: {} for name in NAMES}
    for one in newest:
        for key, value in counters(one.page, settings).items():
            labels = key.labels
            if one.instead:
                labels = tuple(sorted((*(pair for pair in labels if pair[0] not in one.instead), *one.place)))
            told[key.name][labels] = value
    for name, samples in told.items():
        yield Group(name, "", _HELP[name], samples, Kind.COUNTER)
