"""The healthy week: what its clients ask for, and that no deploy leaves a model without a server."""

from __future__ import annotations

import pytest

from llmvitals.backtest.week import DAY, DRAINED, week
from llmvitals.simulator.workload import Stream

SEEDS = (1, 2, 31)


def rate(streams: tuple[Stream, ...], t: float) -> float:
    """What a replica is sent of the usual traffic at a moment, without the day's shape."""
    return sum(s.rate for s in streams if s.name == "chat" and s.start <= t < s.end)


def test_a_seed_draws_one_week_and_another_seed_another() -> None:
    assert week(3, 7) == week(3, 7)
    assert week(3, 7) != week(4, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_replica_carries_the_load_while_the_other_one_is_away(seed) -> None:
    first, second = (one.setup for one in week(seed, 7) if one.model == "chat")
    usual = rate(first.workload.streams, 0.0)
    assert len(first.faults.restarts) == len(second.faults.restarts) == 4
    for own, other in ((first, second), (second, first)):
        for restart in own.faults.restarts:
            assert 60 <= restart.up - restart.down <= 240
            for t in (restart.down - DRAINED + 1, restart.down, restart.up - 1):
                assert rate(own.workload.streams, t) == 0
                assert rate(other.workload.streams, t) == pytest.approx(2 * usual)
                assert not any(r.down <= t < r.up for r in other.faults.restarts)
            assert rate(own.workload.streams, restart.up + 1) in (pytest.approx(usual), pytest.approx(2 * usual))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_single_server_is_deployed_while_nobody_uses_it(seed) -> None:
    (coder,) = (one.setup for one in week(seed, 7) if one.model == "coder")
    assert coder.faults.restarts
    for restart in coder.faults.restarts:
        assert not any(s.start < restart.up + 1800 and s.end > restart.down - 1800 for s in coder.workload.streams)


def test_a_shorter_time_has_whole_days_of_its_own() -> None:
    for one in week(1, 2):
        assert all(stream.start < 2 * DAY for stream in one.setup.workload.streams)
