"""Precision, recall and delay of alerts, on incidents whose course was written by hand."""

from __future__ import annotations

from llmvitals.backtest.incidents import Fired, Incident, Sent
from llmvitals.backtest.rating import harmless, passed, rates, severe, well
from llmvitals.backtest.report import lab_sheets
from llmvitals.lab.result import Kind


def incident(**changes) -> Incident:
    """A severe incident with too few seats, whose first tokens were late from 10 s after its onset to its end."""
    given = {
        "scenario": "batch-too-small",
        "kind": Kind.FAULT,
        "severity": "severe",
        "seed": 1,
        "number": 0,
        "engine": "vllm",
        "interval": 15.0,
        "truth": frozenset({"batch-too-small"}),
        "injected": frozenset({"batch-too-small"}),
        "why": "",
        "hurt": frozenset({"", "ttft"}),
        "broke": 10.0,
        "before": False,
        "lasted": True,
        "seconds": 560.0,
        "fired": (),
        "sent": (),
    }
    return Incident(**given | changes)


def page(after: float, *alerts: str, leading: str = "batch-too-small", lasts: float = 60.0) -> Sent:
    return Sent(after, after - 10, after + lasts, "pager", alerts or ("LLMUsersHurt",), leading)


def ticket(after: float, alert: str) -> Sent:
    return Sent(after, after - 180, after + 60, "tickets", (alert,), "")


def rate(name: str, *incidents: Incident):
    return next(one for one in rates(incidents) if one.alert == name)


WELL = incident(
    scenario="chat",
    kind=Kind.HEALTHY,
    severity="",
    truth=frozenset(),
    injected=frozenset(),
    hurt=frozenset(),
    broke=None,
    lasted=False,
)


def test_a_cause_is_right_where_it_is_there_and_found_where_it_was_injected() -> None:
    told = Fired("LLMBatchTooSmall", 360.0)
    found = rate(
        "LLMBatchTooSmall",
        incident(fired=(told,)),
        incident(),
        incident(scenario="everybody-waits", kind=Kind.LOOKALIKE, injected=frozenset(), fired=(told,)),
        WELL,
        incident(scenario="idle", truth=frozenset(), injected=frozenset(), kind=Kind.HEALTHY, fired=(told,)),
    )
    assert (found.right.hits, found.right.n) == (2, 3)
    assert (found.found.hits, found.found.n) == (1, 2)
    assert found.delay.value == 360


def test_a_symptom_is_right_where_clients_were_hurt_and_not_before_they_were() -> None:
    late = Fired("LLMFirstTokensLate", 95.0)
    early = Fired("LLMFirstTokensLate", -200.0)
    found = rate(
        "LLMFirstTokensLate",
        incident(fired=(late,)),
        incident(fired=(early,), before=True),
        incident(fired=(early, late)),
        incident(fired=(late,), hurt=frozenset(), broke=None),
        incident(hurt=frozenset({"", "tpot"})),
        incident(),
    )
    assert (found.right.hits, found.right.n) == (2, 4)
    assert (found.found.hits, found.found.n) == (3, 4)
    assert found.delay.value == 95  # what had fired before says nothing of a delay


def test_plays_that_do_not_count_are_left_out() -> None:
    found = rate("LLMBatchTooSmall", incident(why="nobody is hurt", fired=(Fired("LLMBatchTooSmall", 1.0),)))
    assert (found.right.n, found.found.n) == (0, 0)


def test_a_severe_incident_is_told_in_time_from_the_first_broken_promise_on() -> None:
    in_time, late, never = severe(
        [
            incident(sent=(ticket(200, "LLMRolloutAndProbes"), page(309.0))),
            incident(sent=(page(311.0, leading=""), page(371.0), page(431.0))),
            incident(),
        ]
    )
    assert (in_time.delay, in_time.in_time, in_time.named, in_time.notifications, in_time.few) == (
        299,
        True,
        True,
        2,
        True,
    )
    assert (late.delay, late.in_time, late.named, late.notifications, late.few) == (301, False, False, 3, False)
    assert (never.delay, never.in_time) == (None, False)


def test_a_page_before_anybody_was_hurt_is_none_on_the_incident() -> None:
    (early,) = severe([incident(sent=(page(-100.0), page(90.0)))])
    (wrong_from_the_start,) = severe([incident(sent=(page(-100.0),), broke=-280.0)])
    assert early.delay == 80
    assert wrong_from_the_start.delay == 180


def test_a_page_that_still_fires_when_clients_are_hurt_again_is_not_told_twice() -> None:
    (stands,) = severe([incident(before=True, sent=(page(-200.0, lasts=500.0),))])
    (over,) = severe([incident(before=True, sent=(page(-200.0, lasts=100.0),))])
    assert (stands.delay, stands.in_time, stands.named) == (0, True, True)
    assert (over.delay, over.in_time) == (None, False)


def test_a_ticket_on_what_was_there_before_is_no_notification_of_the_incident() -> None:
    (found,) = severe([incident(sent=(ticket(170.0, "LLMPreemptionThrash"), page(90.0), page(270.0)))])
    assert found.notifications == 2


def test_what_passed_and_what_hurts_nobody_is_counted_apart() -> None:
    short = incident(lasted=False)
    quiet = incident(hurt=frozenset(), broke=None, lasted=False)
    mild = incident(severity="mild")
    everything = [short, quiet, mild, WELL, incident(why="nobody is hurt"), incident()]
    assert [one.incident for one in severe(everything)] == [everything[-1]]
    assert passed(everything) == (short,)
    assert harmless(everything) == (quiet,)
    assert well(everything) == (WELL,)


def test_what_is_not_as_it_should_be_is_listed_play_by_play() -> None:
    woken = incident(number=7, hurt=frozenset(), broke=None, sent=(page(50.0),))
    *_, failures = lab_sheets([incident(number=3), incident(number=4, sent=(page(90.0, leading="fan-out"),)), woken])
    assert failures.rows == (
        ("batch-too-small", "3", "nobody woken"),
        ("batch-too-small", "4", "the page names fan-out"),
        ("batch-too-small", "7", "woken by LLMUsersHurt"),
    )
    assert lab_sheets([incident(sent=(page(90.0),))])[-1].title == "Alerts"
