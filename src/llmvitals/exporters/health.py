"""How the collectors of a cycle did, as families of the page, how much is remembered of each target, and who is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmvitals.exporters.page import Block, Group, plain
from llmvitals.exporters.watch import Collected
from llmvitals.series import Labels

SUCCESS = "llmvitals_collector_success"
DURATION = "llmvitals_collector_duration_seconds"
HISTORY = "llmvitals_history_snapshots"
LEFT = "llmvitals_target_left_out"
NAMES = (SUCCESS, DURATION, HISTORY, LEFT)


def families(collected: Sequence[Collected], history: Mapping[str, int], left: Mapping[str, str]) -> Iterator[Block]:
    """What the cycle did, as text."""
    return plain(groups(collected, history, left))


def groups(collected: Sequence[Collected], history: Mapping[str, int], left: Mapping[str, str]) -> Iterator[Group]:
    """Success and duration per collector, the snapshots kept of each target, and the pods in ``left`` with the reason."""
    keys = {(("instance", one.instance), ("collector", one.collector)): one for one in collected}
    yield Group(SUCCESS, "", "1 when the collector worked in this cycle.", {k: float(c.ok) for k, c in keys.items()})
    yield Group(DURATION, "seconds", "Time that the collector took.", {k: c.seconds for k, c in keys.items()})
    kept: dict[Labels, float] = {(("instance", name),): float(count) for name, count in history.items()}
    yield Group(HISTORY, "", "Snapshots kept of a target.", kept)
    out: dict[Labels, float] = {(("instance", name), ("reason", why)): 1.0 for name, why in left.items()}
    yield Group(LEFT, "", "1 for a pod that asks to be scraped and is not; the label says why.", out)
