"""Severe incidents of the lab, one of each kind: somebody is woken within five minutes, told the cause, and not more than twice.

All of the lab is `llmvitals backtest --lab`; docs/alerts.md has what came of it.
"""

from __future__ import annotations

import pytest

from llmvitals.backtest.incidents import incident
from llmvitals.backtest.rating import severe
from llmvitals.lab.play import Job
from llmvitals.settings import Settings

SEED = 7
KINDS = (
    "preemption-thrash",  # first tokens wait for memory
    "unbounded-queue",  # for others
    "batch-too-large",  # tokens are slow
    "prefill-decode-interference",  # now and then
    "api-server-bound",  # late before the engine's clock
    "hardware-throttled",
    "vram-headroom",  # a process that is started again and again
    "kept-out-by-probe",  # nobody is led to it
    "only-errors",
    "engine-stalled",
    "engine-died",
    "shedding",
)


@pytest.mark.parametrize("name", KINDS)
def test_who_is_hurt_is_told_of_in_time_with_the_cause_and_not_too_often(name) -> None:
    found = incident(Job(name, SEED, 2, "severe"), Settings())
    assert found.why == ""
    (answer,) = severe([found])
    assert answer.in_time, found.sent
    assert answer.named, found.sent
    assert answer.few, found.sent


@pytest.mark.parametrize("name", ["unbounded-output", "never-cancelled", "runaway-agent", "hardware-error"])
def test_what_hurts_nobody_wakes_nobody(name) -> None:
    found = incident(Job(name, SEED, 2, "severe"), Settings())
    assert (found.why, found.hurt, found.pages) == ("", frozenset(), ())


@pytest.mark.parametrize("name", ["scrapes-fail", "page-filtered", "two-behind-one-address"])
def test_telemetry_that_is_broken_wakes_somebody_by_its_name(name) -> None:
    found = incident(Job(name, SEED, 2, "severe"), Settings())
    assert {alert for sent in found.pages for alert in sent.alerts} == {"LLMTelemetryBroken"}
    assert found.pages[0].after <= 300
