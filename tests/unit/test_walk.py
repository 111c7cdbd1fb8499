"""The walk: one leading cause, what explains what, when it says less, and what its sentence carries."""

from __future__ import annotations

import msgspec
import pytest

from llmvitals.series import Window
from llmvitals.settings import Settings, Slo, Thresholds
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.model import STEPS
from llmvitals.triage.verdict import Outcome, State
from llmvitals.triage.walk import diagnose, diagnose_with, states
from support.made import Server, healthy, run, without
from support.recordings import name_of
from support.situations import (
    batch_too_small,
    growing_queue,
    idle,
    kv_full,
    shedding,
    stalled,
    thrash,
    unbounded_output,
)

SETTINGS = Settings()


# -- outcomes ---------------------------------------------------------------------------------------------------------
def test_idle_is_no_traffic():
    verdict = diagnose(idle(), SETTINGS)
    assert (verdict.outcome, verdict.leading) == (Outcome.NO_TRAFFIC, None)
    assert verdict.sentence.startswith("No traffic")


def test_well_is_healthy():
    verdict = diagnose(run(8, healthy), SETTINGS)
    assert (verdict.outcome, verdict.leading, verdict.contributing) == (Outcome.HEALTHY, None, ())


@pytest.mark.parametrize(
    ("pages", "step", "outcome"),
    [(4, 10.0, Outcome.UNDETERMINED), (5, 5.0, Outcome.HEALTHY), (9, 2.0, Outcome.UNDETERMINED)],
)
def test_too_few_pages_or_seconds_decide_nothing(pages, step, outcome):
    """Four pages; five over 20 s; nine over 16 s."""
    server = Server(step=step)
    for i in range(pages):
        healthy(server, i)
        server.page()
    verdict = diagnose(server.window(), SETTINGS)
    assert verdict.outcome is outcome
    assert ("watch longer" in verdict.sentence) == (outcome is Outcome.UNDETERMINED)


def test_the_least_window_is_a_setting():
    patient = msgspec.structs.replace(SETTINGS, thresholds=Thresholds(min_pages=30, min_seconds=20.0))
    assert diagnose(run(8, healthy), patient).outcome is Outcome.UNDETERMINED


def test_death_needs_no_minimum():
    server = Server()
    healthy(server, 0)
    server.page()
    for _ in range(3):
        server.fail()
    assert name_of(diagnose(server.window(), SETTINGS)) == "not-serving"


def test_hurt_without_a_cause_is_undetermined_and_says_so():
    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=6.0, prompt=20)
        server.gauges(running=3 + i % 2, kv=0.1)

    verdict = diagnose(run(12, each), SETTINGS)
    assert (verdict.outcome, verdict.leading) == (Outcome.UNDETERMINED, None)
    assert "users are hurt, but no check explains it" in verdict.sentence


def test_shedding_has_no_leader_and_capacity_causes_contribute():
    def each(server: Server, _: int) -> None:
        server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
        server.gauges(running=8, waiting=12, kv=0.1)
        server.count("llm_requests_rejected_total", 10, reason="max_num_queued_reqs")

    verdict = diagnose(run(12, each), SETTINGS)
    assert (verdict.outcome, verdict.leading) == (Outcome.SHEDDING, None)
    assert "batch-too-small" in {f.cause for f in verdict.contributing}
    assert "overloaded-and-shedding" not in {f.cause for f in verdict.contributing}
    assert states(verdict)["overloaded-and-shedding"].state is State.FIRING


def test_shedding_tells_the_share():
    # 30 of 30 + 50 in each interval
    assert "(37.5 % of the offered requests)" in diagnose(shedding(), SETTINGS).sentence


def test_wrong_requests_are_told_where_nothing_else_is_wrong():
    def each(server: Server, i: int) -> None:
        healthy(server, i)
        server.answer(50, "4xx")

    verdict = diagnose(run(8, each), SETTINGS)
    assert verdict.outcome is Outcome.HEALTHY
    assert "50 % of the HTTP answers were 4xx" in verdict.sentence


def test_a_trickle_of_wrong_requests_is_not_told():
    def each(server: Server, i: int) -> None:
        healthy(server, i)
        server.answer(2, "4xx")

    assert "4xx" not in diagnose(run(8, each), SETTINGS).sentence


# -- who leads --------------------------------------------------------------------------------------------------------
def test_what_is_explained_is_shadowed_and_does_not_contribute():
    verdict = diagnose(thrash(), SETTINGS)
    assert name_of(verdict) == "preemption-thrash"
    shadowed = states(verdict)["kv-cache-saturation"]
    assert (shadowed.state, shadowed.reason) == (State.SHADOWED, "explained by preemption-thrash")
    assert "kv-cache-saturation" not in {f.cause for f in verdict.contributing}


def test_what_is_not_explained_contributes():
    def each(server: Server, i: int) -> None:
        server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
        server.gauges(running=8, waiting=20 * i, kv=0.1)

    verdict = diagnose(run(14, each), SETTINGS)
    assert name_of(verdict) == "batch-too-small"
    assert "unbounded-queue" in {f.cause for f in verdict.contributing}


def test_a_hazard_leads_though_nobody_is_hurt_and_a_suspicion_is_only_mentioned():
    assert name_of(diagnose(unbounded_output(), SETTINGS)) == "unbounded-output"

    def each(server: Server, i: int) -> None:  # evicted prefixes, everybody served in time
        server.serve(20, ttft=0.3, prompt=2000 + (400 if i % 2 else -400), output=60, prefill=0.3)
        server.gauges(running=3 + i % 3, kv=0.3)

    verdict = diagnose(run(14, each), SETTINGS)
    assert verdict.outcome is Outcome.HEALTHY
    assert [f.cause for f in verdict.contributing] == ["prefix-cache-miss"]
    assert "Worth a look: prefix-cache-miss" in verdict.sentence


def test_a_stall_explains_the_queue_behind_it():
    server = Server()
    for i in range(6):
        healthy(server, i)
        server.page()
    for i in range(1, 8):
        server.gauges(running=20, waiting=0, kv=0.5)
        server.set("llm_process_open_fds", 50 + 10 * i)
        server.page()
    verdict = diagnose(server.window(), SETTINGS)
    assert name_of(verdict) == "not-serving"
    assert verdict.contributing == ()


def test_the_promise_decides_who_is_hurt():
    strict = msgspec.structs.replace(SETTINGS, slo=Slo(ttft_seconds=0.05))
    window = run(12, healthy)  # first tokens after 0.1 s
    assert diagnose(window, SETTINGS).outcome is Outcome.HEALTHY
    assert diagnose(window, strict).outcome is Outcome.UNDETERMINED


# -- doubt ------------------------------------------------------------------------------------------------------------
def test_a_finding_does_not_lead_while_an_earlier_check_is_open_for_want_of_a_family():
    verdict = diagnose(without(thrash(), "llm_preemptions_total"), SETTINGS)
    assert (verdict.outcome, verdict.leading) == (Outcome.UNDETERMINED, None)
    assert "preemption-thrash cannot be ruled out" in verdict.sentence
    assert "llm_preemptions_total" in verdict.sentence
    assert states(verdict)["preemption-thrash"].state is State.UNKNOWN


@pytest.mark.parametrize("family", ["llm_request_ttft_seconds", "llm_request_tpot_seconds"])
def test_a_promise_that_the_page_does_not_show_is_not_called_kept(family):
    verdict = diagnose(without(run(12, healthy), family), SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert "whether the SLO is kept cannot be told" in verdict.sentence
    assert family in {blind.series for blind in verdict.blind}


def test_what_a_version_cannot_show_raises_no_doubt():
    window = batch_too_small()  # its pages say that adapters, transfers and drafts are not switched on
    verdict = diagnose(window, SETTINGS)
    assert name_of(verdict) == "batch-too-small"
    for cause in ("kv-transfer-bound", "draft-rejected"):
        assert states(verdict)[cause].state is State.NOT_APPLICABLE, cause


def test_what_hurts_nobody_stands_by_itself():
    verdict = diagnose(without(unbounded_output(), "llm_request_n_param"), SETTINGS)
    assert name_of(verdict) == "unbounded-output"  # whether clients left is unknown, and no reason to be silent


# -- phases -----------------------------------------------------------------------------------------------------------
def phases(last: int) -> Window:
    """Well for 150 s, then too few seats for ``last`` intervals of 5 s."""

    def each(server: Server, i: int) -> None:
        if i <= 30:
            healthy(server, i)
            server.gauges(running=5 + i % 3, kv=0.1)
        else:
            server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
            server.gauges(running=8, waiting=12, kv=0.1)

    return run(30 + last, each)


def test_the_last_third_is_asked_where_the_whole_names_nothing():
    verdict, readings = diagnose_with(phases(15), SETTINGS)
    assert name_of(verdict) == "batch-too-small"
    assert verdict.leading is not None
    # 45 intervals: 225 s, of which the last 75 s
    assert "Holds for the last 75 s; the whole window has several phases." in verdict.leading.note
    assert "Holds for the last 75 s" in verdict.sentence
    assert verdict.window["seconds"] == 225.0
    assert readings["waiting_share_ratio"].value == pytest.approx(15 / 46)  # readings are those of the whole


def test_a_short_last_third_is_not_asked():
    def each(server: Server, i: int) -> None:
        if i <= 10:
            healthy(server, i)
        else:
            server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
            server.gauges(running=8, waiting=12, kv=0.1)

    verdict = diagnose(run(16, each), SETTINGS)  # 80 s: its last third is shorter than 30 s
    assert verdict.outcome is Outcome.UNDETERMINED


# -- form -------------------------------------------------------------------------------------------------------------
def test_every_check_is_walked_in_the_order_of_the_steps():
    verdict = diagnose(kv_full(), SETTINGS, scope={"instance": "a", "model": "m"})
    assert [(s.step, s.title) for s in verdict.steps] == list(enumerate(STEPS))
    assert {c.cause for s in verdict.steps for c in s.checks} == {c.cause for c in CHECKS}
    assert verdict.scope == {"instance": "a", "model": "m"}
    assert verdict.window == {"start": 1_000_000.0, "end": 1_000_070.0, "seconds": 70.0, "pages": 15, "readable": 15}


def test_the_sentence_carries_the_numbers_and_the_setting():
    verdict = diagnose(kv_full(), SETTINGS)
    assert verdict.leading is not None
    # large requests: 3,000 tokens in, 200 out, in whole blocks of 16: 3,200; a pool of 16,000 has room for 5
    assert verdict.leading.action.value == 5.0
    assert verdict.sentence.endswith("Set --max-num-seqs to 5.")
    assert "requests waiting at the end 5" in verdict.sentence


def test_the_queue_ceiling_is_the_service_rate_times_the_acceptable_wait():
    verdict = diagnose(growing_queue(), SETTINGS)
    assert name_of(verdict) == "unbounded-queue"
    assert verdict.leading is not None
    assert verdict.leading.action.value == 8.0 + 10  # 20 requests in 5 s, 2 s of wait; 10 run, which vLLM counts in


def test_evidence_of_a_leading_cause_holds():
    for window in (kv_full(), thrash(), stalled(), batch_too_small()):
        verdict = diagnose(window, SETTINGS)
        assert verdict.leading is not None
        required = [r for c in CHECKS if c.cause == verdict.leading.cause for r in c.when]
        names = {e.signal for e in verdict.leading.evidence if e.holds}
        assert any({limit.signal for limit in rows} <= names for rows in required)
        assert all(e.signal in BY_ID for e in verdict.leading.evidence)


def test_blind_lists_causes_that_no_page_shows():
    told = {b.series for b in diagnose(run(8, healthy), SETTINGS).blind}
    assert {"llm_gateway_*", "llm_host_*", "llm_gpu_*"} <= told


def test_the_same_window_gives_the_same_verdict():
    assert diagnose(kv_full(), SETTINGS) == diagnose(kv_full(), SETTINGS)
