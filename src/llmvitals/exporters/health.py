"""How the collectors of a cycle did, as families of the page, and how much is remembered of each target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmvitals.exporters.page import Block, Group, plain
from llmvitals.exporters.watch import Collected
from llmvitals.series import Labels

SUCCESS = "llmvitals_collector_success"
DURATION = "llmvitals_collector_duration_seconds"
HISTORY = "llmvitals_history_snapshots"
NAMES = (SUCCESS, DURATION, HISTORY)


def families(collected: Sequence[Collected], history: Mapping[str, int]) -> Iterator[Block]:
    """What the cycle did, as text."""
    return plain(groups(collected, history))


def groups(collected: Sequence[Collected], history: Mapping[str, int]) -> Iterator[Group]:
    """Success and duration per collector, and the number of snapshots kept of each target."""
    keys = {(("instance", one.instance), ("collector", one.collector)): one for one in collected}
    yield Group(SUCCESS, "", "1 when the collector worked in this cycle.", {k: float(c.ok) for k, c in keys.items()})
    yield Group(DURATION, "seconds", "Time that the collector took.", {k: c.seconds for k, c in keys.items()})
    kept: dict[Labels, float] = {(("instance", name),): float(count) for name, count in history.items()}
    yield Group(HISTORY, "", "Snapshots kept of a target.", kept)
