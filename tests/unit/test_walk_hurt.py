"""A verdict says by itself whether users are hurt: with a cause, without one, whatever part of the window decided."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from llmvitals.settings import Settings, Slo
from llmvitals.triage.document import decode
from llmvitals.triage.report import document, scope_of
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Outcome, Verdict
from llmvitals.triage.walk import NEWEST_PAGES, diagnose, diagnose_with
from support import situations
from support.made import Server, healthy, run

SETTINGS = Settings()


def late(server: Server, seats: int = 8) -> None:
    server.serve(20, ttft=8.0, queue=7.9, prompt=100, output=200)
    server.gauges(running=seats, waiting=12, kv=0.1)


def well(server: Server, i: int) -> None:
    healthy(server, i)
    server.gauges(running=5 + i % 3, kv=0.1)


def only_the_newest_pages(late_pages: int = NEWEST_PAGES):
    """A long window of which only the end is ill: too little to be more than what may miss."""

    def each(server: Server, i: int) -> None:
        if i <= 140 - late_pages:
            well(server, i)
        else:
            late(server)

    return run(140, each, Server(step=12.0))


def test_who_is_well_served_or_idle_is_not_hurt():
    assert not diagnose(run(12, healthy), SETTINGS).hurt
    assert not diagnose(situations.idle(), SETTINGS).hurt


def test_a_cause_that_leads_as_a_hazard_hurts_nobody_yet():
    verdict = diagnose(situations.unbounded_output(), SETTINGS)
    assert (verdict.outcome, verdict.hurt) == (Outcome.CAUSE, False)


@pytest.mark.parametrize("make", [situations.batch_too_small, situations.kv_full, situations.thrash])
def test_who_waits_beyond_the_promise_is_hurt(make):
    verdict = diagnose(make(), SETTINGS)
    assert (verdict.outcome, verdict.hurt) == (Outcome.CAUSE, True)


def test_hurt_needs_no_cause_and_goes_by_the_promise():
    window = run(12, healthy)  # first tokens after 0.1 s
    verdict = diagnose(window, msgspec.structs.replace(SETTINGS, slo=Slo(ttft_seconds=0.05)))
    assert (verdict.outcome, verdict.hurt) == (Outcome.UNDETERMINED, True)


def test_where_the_newest_pages_decide_it_is_they_who_are_hurt():
    verdict, readings = diagnose_with(only_the_newest_pages(), SETTINGS)
    assert readings["users_harm_p"].value > SETTINGS.thresholds.harm_p, "over the whole window nobody is"
    assert verdict.leading is not None
    assert verdict.leading.note.startswith("Holds for the last 24 s")
    assert verdict.hurt
    assert not diagnose(only_the_newest_pages(0), SETTINGS).hurt


def test_a_service_stays_hurt_when_one_of_its_engines_speaks_for_it():
    scope = scope_of("chat", "m", ["a", "b"])
    whole = replace(diagnose(run(12, healthy), SETTINGS, scope=scope), outcome=Outcome.UNDETERMINED)
    hazard = diagnose(situations.unbounded_output(), SETTINGS, scope=scope_of("a", "m"))
    ill = diagnose(situations.batch_too_small(), SETTINGS, scope=scope_of("a", "m"))
    assert settled([replace(whole, hurt=True), hazard])[0].hurt
    assert settled([whole, ill])[0].hurt
    assert not settled([whole, hazard])[0].hurt


@pytest.mark.parametrize("hurt", [True, False])
def test_the_document_carries_it(hurt):
    verdict = Verdict(Outcome.UNDETERMINED, "Said.", None, (), (), (), hurt=hurt)
    told = json.loads(json.dumps(document([verdict])))
    assert told["hurt"] is hurt
    assert decode(told, place="here").hurt is hurt


def test_an_older_document_says_nothing_of_it():
    assert not decode({"verdict": "healthy"}, place="here").hurt
