"""Calls that fail without making any first token late: nothing is well then, and no cause is made up for it."""

from __future__ import annotations

import pytest

from llmvitals.settings import Settings, Thresholds
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.walk import diagnose
from support.made import Server, healthy, run
from support.situations_gateway import Gate, fronted

SETTINGS = Settings()


def failing(failed: float, load=healthy, *, ok: float = 60, status: str = "500"):
    """A gateway that fails so many calls beside those that it serves, in front of a server under ``load``."""

    def each(gate: Gate, _: int) -> None:
        gate.pass_on(ok=ok, small=(ok, 0.1))
        gate.call(failed, "a", status)

    return fronted(load, each)


def idle(server: Server, i: int) -> None:
    if i == 0:
        server.serve(100)
    server.gauges()


@pytest.mark.parametrize("status", ["500", "502", "504", "error"])
def test_an_engine_that_is_fine_is_not_called_well_where_calls_fail_in_front_of_it(status):
    verdict = diagnose(failing(20, status=status), SETTINGS)  # 20 of 80
    assert (verdict.outcome, verdict.leading) == (Outcome.UNDETERMINED, None)
    assert "25 % of the calls at the gateway failed or were refused, but no check explains it" in verdict.sentence


def test_an_idle_engine_is_not_without_traffic_where_every_call_fails_before_it():
    quiet = diagnose(failing(0, idle, ok=0), SETTINGS)
    assert quiet.outcome is Outcome.NO_TRAFFIC
    verdict = diagnose(failing(30, idle, ok=0, status="503"), SETTINGS)
    assert (verdict.outcome, verdict.leading) == (Outcome.UNDETERMINED, None)
    assert "100 % of the calls at the gateway" in verdict.sentence


def test_fewer_failed_calls_are_told_beside_a_healthy_verdict_and_a_trickle_is_not():
    told = diagnose(failing(10, ok=90), SETTINGS)
    assert told.outcome is Outcome.HEALTHY
    assert "10 % of the calls at the gateway failed or were refused." in told.sentence
    assert "gateway" not in diagnose(failing(3, ok=97), SETTINGS).sentence


def test_the_share_from_which_on_nothing_is_well_is_that_of_a_breaker():
    patient = Settings(thresholds=Thresholds(error_ratio=0.5))
    assert diagnose(failing(20), patient).outcome is Outcome.HEALTHY


@pytest.mark.parametrize("status", ["400", "404", "499"])
def test_what_clients_got_wrong_or_gave_up_is_no_failure(status):
    assert diagnose(failing(20, status=status), SETTINGS).outcome is Outcome.HEALTHY


@pytest.mark.parametrize(("failed", "outcome"), [(15, Outcome.UNDETERMINED), (4, Outcome.HEALTHY)])
def test_failed_answers_of_the_engine_itself_count_as_much(failed, outcome):
    def each(server: Server, i: int) -> None:
        healthy(server, i)
        server.answer(failed, "5xx")

    verdict = diagnose(run(12, each), SETTINGS)
    assert verdict.outcome is outcome
    assert "of the HTTP answers were 5xx" in verdict.sentence
