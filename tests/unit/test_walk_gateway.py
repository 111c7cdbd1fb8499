"""What a gateway adds to a verdict: causes that only it shows, what it proves or rules out, and what its absence leaves."""

from __future__ import annotations

import pytest

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.triage.verdict import Outcome, State
from llmvitals.triage.walk import diagnose, states
from support.made import changed, healthy, run, without
from support.recordings import name_of
from support.situations import SITUATIONS, head_of_line, kv_full, prefill_bound, prefix_miss, thrash
from support.situations_gateway import (
    ONE_TAKES_IT,
    by_size,
    calls_for_one,
    full,
    gateway_queue,
    leaving,
    prompts,
    refusing,
    same_length,
    sessions,
    storm,
    storm_after_a_restart,
    tenants,
    usual,
)

SETTINGS = Settings()
ONLY_A_GATEWAY = ("retry-storm", "runaway-agent", "noisy-tenant", "fan-out", "uncached-repeats")


def apart(window: Window) -> Window:
    """The same window without the gateway."""
    return changed(window, lambda k, v: None if k.name.startswith("llm_gateway_") else v)


# -- no gateway -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [kv_full, thrash, prefill_bound, head_of_line, prefix_miss, lambda: run(8, healthy)])
def test_without_a_gateway_its_causes_do_not_apply_and_cast_no_doubt(make):
    verdict = diagnose(make(), SETTINGS)
    assert verdict.outcome is not Outcome.UNDETERMINED, verdict.sentence
    for cause in ONLY_A_GATEWAY:
        assert states(verdict)[cause].state is State.NOT_APPLICABLE, cause


@pytest.mark.parametrize("cause", ONLY_A_GATEWAY)
def test_what_only_a_gateway_shows_is_not_guessed_without_it(cause):
    (situation,) = (s for s in SITUATIONS if s.cause == cause)
    for make in situation.shown.values():
        assert name_of(diagnose(apart(make()), SETTINGS)) != cause


# -- what leads -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "window",
    [
        lambda: storm(refused=0, left=40, retries=30, load=full),
        sessions,
        lambda: tenants(tokens=ONE_TAKES_IT),
        calls_for_one,
        lambda: usual(full, repeats=30),
        lambda: leaving(full),
    ],
)
def test_where_demand_is_the_cause_the_full_cache_is_its_consequence(window):
    verdict = diagnose(window(), SETTINGS)
    assert verdict.leading is not None
    assert states(verdict)["kv-cache-saturation"].state is State.SHADOWED
    assert name_of(diagnose(apart(window()), SETTINGS)) == "kv-cache-saturation"


def test_a_storm_is_no_load_well_refused():
    verdict = diagnose(storm(), SETTINGS)
    assert name_of(verdict) == "retry-storm"
    assert states(verdict)["overloaded-and-shedding"].state is State.SHADOWED
    assert name_of(diagnose(storm(retries=0), SETTINGS)) == "shedding"


def test_calls_repeated_because_the_engine_was_away_are_explained():
    verdict = diagnose(storm_after_a_restart(), SETTINGS)
    assert name_of(verdict) == "rollout-and-probes"
    assert states(verdict)["retry-storm"].state is State.SHADOWED


@pytest.mark.parametrize(
    ("make", "cause"),
    [(lambda: usual(repeats=30), "uncached-repeats"), (lambda: calls_for_one(healthy), "fan-out")],
)
def test_what_costs_and_hurts_nobody_is_mentioned(make, cause):
    verdict = diagnose(make(), SETTINGS)
    assert verdict.outcome is Outcome.HEALTHY
    assert [f.cause for f in verdict.contributing] == [cause]


def test_users_that_only_the_gateway_sees_hurt_are_not_well():
    slow = usual(small=(60, 6.0))
    verdict = diagnose(slow, SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert "users are hurt" in verdict.sentence
    assert diagnose(apart(slow), SETTINGS).outcome is Outcome.HEALTHY


# -- the number in the advice -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "setting", "number"),
    [
        (lambda: tenants(tokens=ONE_TAKES_IT), "TPM quota", 200_000),  # a third of 50,000 tokens in 5 s
        (storm, "retry budget (retries per minute)", 90),  # a tenth of 75 first calls in 5 s
        (lambda: sessions(median=3), "calls per session and minute", 15),  # five times the median
        (lambda: calls_for_one(plan=2), "model calls per user request", 2),
        (by_size, "split between pools (prompt tokens)", 1024),
        (gateway_queue, "--max-num-queued-reqs", 20 + 20),  # 10 served per second, 2 s of patience; 20 run
    ],
)
def test_the_advice_carries_its_number(make, setting, number):
    leading = diagnose(make(), SETTINGS).leading
    assert leading is not None
    assert (leading.action.setting, leading.action.value) == (setting, number)


# -- proved and ruled out ---------------------------------------------------------------------------------------------
def test_blocking_by_size_leads_only_when_a_gateway_proves_it():
    alone, proved = diagnose(apart(by_size()), SETTINGS), diagnose(by_size(), SETTINGS)
    assert name_of(alone) == "prefill-bound"
    assert {f.cause: f.confidence for f in alone.contributing}["head-of-line-blocking"] <= 0.5
    assert name_of(proved) == "head-of-line-blocking"
    assert proved.leading is not None
    assert proved.leading.confidence >= 0.8
    assert states(proved)["prefill-bound"].state is State.SHADOWED


def test_small_prompts_that_are_served_rule_blocking_out():
    verdict = diagnose(by_size(small=(18, 0.1)), SETTINGS)
    found = states(verdict)["head-of-line-blocking"]
    assert (found.state, found.reason.endswith("that rules it out")) == (State.CLEAR, True)


def test_a_proof_that_should_be_there_and_is_not_leaves_the_verdict_open():
    verdict = diagnose(without(by_size(), "llm_gateway_ttft_seconds"), SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert "head-of-line-blocking cannot be ruled out" in verdict.sentence


def test_shared_prompts_make_a_missed_cache_certain():
    alone, seen = (diagnose(usual(same_length, blocks=10_000, shared=s), SETTINGS) for s in (0.2, 0.8))
    for verdict in (alone, seen):
        assert name_of(verdict) == "prefix-cache-miss"
    assert alone.leading is not None
    assert seen.leading is not None
    assert alone.leading.confidence <= 0.5
    assert seen.leading.confidence >= 0.7
    assert "gateway shows" in seen.leading.note


def test_a_queue_of_shared_prompts_is_the_caches_doing():
    verdict = diagnose(usual(prompts, blocks=10_000, shared=0.8), SETTINGS)
    assert name_of(verdict) == "prefix-cache-miss"
    assert states(verdict)["prefill-bound"].state is State.SHADOWED


def test_refusals_are_not_called_well_while_what_explains_them_is_missing():
    verdict = diagnose(without(storm(), "llm_gateway_retries_total"), SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert "retry-storm cannot be ruled out" in verdict.sentence


def test_refused_calls_are_told_as_the_gateway_counted_them():
    verdict = diagnose(refusing(refused=15), SETTINGS)
    assert verdict.outcome is Outcome.SHEDDING
    assert "20 % of the offered requests" in verdict.sentence
