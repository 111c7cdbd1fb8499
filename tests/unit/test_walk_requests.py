"""What traces and probes change in a verdict, and what they must not."""

from __future__ import annotations

import msgspec
import pytest

from llmvitals.series import Window
from llmvitals.settings import Settings, Slo, SloClass
from llmvitals.signals.catalogue import compute
from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.judge import belief
from llmvitals.triage.verdict import Outcome, State
from llmvitals.triage.walk import diagnose, diagnose_with, states
from support.made import Server, changed, healthy, run
from support.mutants import key
from support.situations import SITUATIONS, kv_full
from support.situations_gateway import ONE_TAKES_IT, Gate, tenants, usual
from support.situations_requests import (
    around_the_engine,
    busy_and_probed,
    busy_and_traced,
    late_tokens_at_the_gateway,
    nobody_answers,
    sizes,
    told_and_well,
    two_classes,
)

SETTINGS = Settings()


def apart(window: Window) -> Window:
    """The same window without traces and probes."""
    return changed(window, lambda k, v: None if k.name.startswith(("llm_slo_", "llm_span_", "llm_probe_")) else v)


# -- who is hurt ------------------------------------------------------------------------------------------------------
def test_a_class_that_is_hurt_is_named_where_no_check_explains_it():
    verdict = diagnose(two_classes(chat=0.7, batch=0.3), SETTINGS)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert "users are hurt" in verdict.sentence
    assert "Worst off is class chat: 0 % of its requests met their promise." in verdict.sentence
    assert diagnose(apart(two_classes(chat=0.7, batch=0.3)), SETTINGS).outcome is Outcome.HEALTHY


def test_work_that_was_promised_less_alarms_nobody():
    window = two_classes(batch=6.0)
    assert diagnose(window, SETTINGS).outcome is Outcome.HEALTHY
    assert diagnose(apart(window), SETTINGS).outcome is not Outcome.HEALTHY


def test_a_sample_alarms_nobody():
    assert diagnose(two_classes(chat=0.7, batch=0.3, told=0.5), SETTINGS).outcome is Outcome.HEALTHY


def test_what_only_the_gateways_traces_time_counts_as_hurt():
    assert diagnose(late_tokens_at_the_gateway(40), SETTINGS).outcome is Outcome.UNDETERMINED
    assert diagnose(late_tokens_at_the_gateway(5), SETTINGS).outcome is Outcome.HEALTHY


@pytest.mark.parametrize("vantage", ["engine", "gateway"])
def test_traces_of_a_server_that_is_well_change_no_check(vantage):
    window = told_and_well(vantage)
    assert (
        key(diagnose(window, SETTINGS))
        == key(diagnose(apart(window), SETTINGS))
        == key(diagnose(run(14, healthy), SETTINGS))
    )


# -- causes -----------------------------------------------------------------------------------------------------------
def test_small_prompts_that_are_late_by_traces_prove_what_is_a_suspicion_without():
    assert diagnose(sizes(), SETTINGS).leading.cause == "head-of-line-blocking"
    assert diagnose(apart(sizes()), SETTINGS).leading.cause != "head-of-line-blocking"


def test_what_is_around_the_engine_leads_only_where_the_page_is_slow_as_well():
    """A gateway's own queue is around the engine, too."""
    assert diagnose(around_the_engine(), SETTINGS).leading.cause == "api-server-bound"
    assert states(diagnose(around_the_engine(took=0.03), SETTINGS))["api-server-bound"].state is State.CLEAR


@pytest.mark.parametrize(
    ("with_it", "against_it"),
    [
        (lambda: busy_and_traced(front=0.8), lambda: busy_and_traced(front=0.05)),
        (lambda: busy_and_probed(ttft=4.0), lambda: busy_and_probed(ttft=0.05)),
    ],
    ids=["traces", "probes"],
)
def test_evidence_that_few_have_raises_confidence_and_never_lowers_it(with_it, against_it):
    check = BY_CAUSE["api-server-bound"]

    def sure(window: Window) -> float:
        return belief(check, states(diagnose(window, SETTINGS))["api-server-bound"])

    without = sure(apart(with_it()))
    assert sure(with_it()) > without
    assert sure(against_it()) == without
    rows = states(diagnose(against_it(), SETTINGS))["api-server-bound"].evidence
    assert not {e.signal for e in rows} & {"span_frontend_mean_seconds", "probe_gap_seconds"}


def test_a_server_that_nobody_asks_and_no_probe_reaches_does_not_serve():
    verdict = diagnose(nobody_answers(), SETTINGS)
    assert verdict.leading.cause == "not-serving"
    assert diagnose(apart(nobody_answers()), SETTINGS).outcome is Outcome.NO_TRAFFIC


def test_extras_that_are_not_there_stand_last_among_what_is_not_seen_and_once():
    blind = diagnose(run(14, healthy), SETTINGS).blind
    last = [b.series for b in blind if b.series in {"llm_span_*", "llm_probe_*"}]
    assert sorted(last) == ["llm_probe_*", "llm_span_*"]
    assert {b.series for b in blind[-2:]} == set(last)


# -- one promise for a whole model ------------------------------------------------------------------------------------
def test_a_walk_holds_a_model_to_its_class_everywhere():
    """Late against 7 s is nobody's breach; the ceiling that is advised follows the promise as well."""
    slow = SloClass(name="slow", models=("m",), ttft_seconds=7.5)
    patient = msgspec.structs.replace(SETTINGS, slo=Slo(classes=(slow,)))
    verdict, readings = diagnose_with(kv_full(ttft=6.0), patient)
    assert readings["ttft_harm_p"].value == compute(kv_full(ttft=6.0), patient)["ttft_harm_p"].value == 1.0
    assert verdict.outcome is Outcome.HEALTHY
    assert diagnose(kv_full(ttft=6.0), SETTINGS).leading.cause == "kv-cache-saturation"
    (growing,) = (s.shown["growing"]() for s in SITUATIONS if s.cause == "unbounded-queue")
    usually, patiently = (diagnose(growing, s).leading.action.value for s in (SETTINGS, patient))
    running = compute(growing, SETTINGS)["running_max"].value  # vLLM's ceiling counts them in
    assert patiently - running == pytest.approx((usually - running) * 7.5 / 2.0, rel=0.1)


# -- demand -----------------------------------------------------------------------------------------------------------
def test_the_rest_of_the_tenants_is_never_the_one_to_blame():
    """Nearly all tokens are those of tenants that the gateway does not list: that is many, and no quota fits it."""
    window = tenants(tokens=ONE_TAKES_IT, wait=6.0)
    loud = max(ONE_TAKES_IT, key=lambda t: ONE_TAKES_IT[t])
    leading = diagnose(window, SETTINGS).leading
    assert (leading.cause, loud in leading.note) == ("noisy-tenant", True)  # whose quota it is to be

    renamed = Window.of(
        type(s)(s.t, {k.plus(tenant="other") if k.label("tenant") == loud else k: v for k, v in s.samples.items()})
        for s in window.snapshots
    )
    assert states(diagnose(renamed, SETTINGS))["noisy-tenant"].state is not State.FIRING
    found = compute(renamed, SETTINGS)["tenant_share_ratio"]
    assert "other" not in found.note


def test_upstreams_that_a_gateway_holds_unfit_are_told_whatever_the_verdict():
    def down(pages: int) -> str:
        server = Server()
        gate = Gate(server)

        def each(s: Server, i: int) -> None:
            healthy(s, i)
            gate.pass_on()
            for name in ("a", "b", "c"):
                gate.put("upstream_up", float(name != "b" or i > pages), upstream=name)

        return diagnose(run(14, each, server), SETTINGS).sentence

    assert "The gateway sends nothing to 1 of 3 upstreams: b." in down(14)
    assert "upstreams" not in down(3)
    assert "upstreams" not in diagnose(usual(), SETTINGS).sentence
