"""Signals against what the clients of a recording saw. The table of deviations is docs/accuracy.md."""

from __future__ import annotations

import pytest

from support.accuracy import AGE_SLACK, accuracy
from support.recordings import EXPECTED

CLIENT_LAG = 0.35
"""Seconds by which a client's quantile may lie beyond the neighbouring bucket: the load generator shared two cores with
the server, and its own event loop lagged. Pages show nothing of it."""


@pytest.mark.parametrize("name", EXPECTED)
def test_signals_agree_with_what_clients_saw(name, shared):
    found = accuracy(shared / "captures" / name)
    assert found is not None
    equal, compared = found.preempted
    assert equal >= 0.95 * compared
    if found.aborts is not None:
        seen, true = found.aborts
        assert abs(seen - true) <= max(3, 0.02 * true)
    _, most, _ = found.ages
    assert most <= AGE_SLACK
    if found.stalled:
        return  # clients waited on the stalled front end longer than the engine measured, which the verdict says
    assert all(q.off <= CLIENT_LAG for q in found.quantiles)
    if found.goodput is not None:
        low, truth, high = found.goodput
        assert low - 1e-9 <= truth <= high + 1e-9
