"""What a service's verdict owes to those of its engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmvitals.settings import Settings
from llmvitals.triage.report import scope_of
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Outcome, State, Verdict
from llmvitals.triage.walk import diagnose, states
from support import situations, situations_gateway
from support.made import healthy, run

SERVICE = scope_of("chat", "m", ["a", "b"])
WELL = run(14, healthy)


def of(name: str, window=WELL) -> Verdict:
    return diagnose(window, Settings(), scope=scope_of(name, "m"))


def service(window) -> Verdict:
    return diagnose(window, Settings(), scope=SERVICE)


def told(whole: Verdict, *engines: Verdict) -> Verdict:
    """The service's verdict, held against those of its engines; theirs stay as they are."""
    first, *rest = settled([whole, *engines])
    assert rest == list(engines)
    assert (first.scope, first.window) == (whole.scope, whole.window)
    return first


def test_a_cause_that_no_engine_has_gives_way_to_the_one_that_one_has():
    whole, ill = service(situations.prefill_bound()), of("a", situations.batch_too_small())
    assert whole.leading is not None
    assert whole.leading.cause == "prefill-bound"
    found = told(whole, ill, of("b"))
    assert (found.outcome, found.leading.cause) == (Outcome.CAUSE, "batch-too-small")
    assert found.sentence.startswith("a: ")
    assert found.leading.note.startswith("Seen on a by itself")
    assert states(found)["batch-too-small"].state is State.FIRING
    assert found.leading.action == ill.leading.action


def test_a_cause_that_an_engine_shows_stays():
    whole = service(situations.prefill_bound())
    assert told(whole, of("a", situations.prefill_bound()), of("b")) == whole
    assert told(whole, of("a"), of("b")) == whole  # more requests say more: nobody contradicts it


def test_what_only_the_gateway_in_front_shows_stays():
    whole = service(situations_gateway.storm())
    assert whole.leading is not None
    assert whole.leading.cause == "retry-storm"
    assert told(whole, of("a", situations.batch_too_small()), of("b")) == whole


def test_undecided_sums_let_the_engine_speak():
    open_ = replace(service(WELL), outcome=Outcome.UNDETERMINED, sentence="Undetermined.")
    found = told(open_, of("a", situations.batch_too_small()), of("b", situations.batch_too_small()))
    assert (found.outcome, found.leading.cause) == (Outcome.CAUSE, "batch-too-small")
    assert found.sentence.startswith("a, b: ")


def test_a_service_that_keeps_its_promises_does_and_names_who_is_ill():
    whole = service(WELL)
    found = told(whole, of("a", situations.batch_too_small()), of("b"))
    assert found.outcome is Outcome.HEALTHY
    assert found.sentence == f"{whole.sentence} By itself, a: batch-too-small."
    assert told(whole, of("a"), of("b")) == whole


def test_load_that_is_refused_is_the_services_own():
    whole = service(situations.shedding())
    assert whole.outcome is Outcome.SHEDDING
    assert told(whole, of("a", situations.batch_too_small()), of("b")) == whole


@pytest.mark.parametrize("name", ["a", "c"])
def test_only_its_own_engines_count(name: str):
    whole, other = service(situations.prefill_bound()), of(name, situations.batch_too_small())
    assert (told(whole, other, of("b")) == whole) is (name == "c")
