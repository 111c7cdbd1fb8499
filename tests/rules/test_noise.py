"""A healthy day wakes nobody, and is healthy: `make noise` is a week of it.

A verdict every two minutes here, where a minute's work has to do; counters and rules every 30 s, as in production.
"""

from __future__ import annotations

from collections import Counter

import pytest

from llmvitals.backtest.healthy import Noise, noise
from llmvitals.settings import Settings

OBJECTIVE = 1 - Settings().slo.objective


@pytest.fixture(scope="module")
def day() -> Noise:
    return noise(2, Settings(), days=1, judged=120.0)


def test_users_get_what_they_were_promised_in_every_hour(day) -> None:
    assert {hour.model for hour in day.hours} == {"chat", "coder", "summaries"}
    assert len(day.hours) == 3 * 24
    assert day.calls > 50_000
    for hour in day.hours:
        assert hour.broken <= max(1, OBJECTIVE * hour.calls), hour
    assert any(hour.broken > 0.01 * hour.calls > 10 for hour in day.hours)  # a rush makes some requests late
    assert any(hour.calls == 0 for hour in day.hours)


def test_nobody_is_woken(day) -> None:
    assert day.pages == ()
    assert [one for one in day.notices if one.receiver == "pager"] == []


def test_few_tickets_are_written(day) -> None:
    assert sum(Counter(one.alert for one in day.tickets).values()) <= 2, day.tickets
