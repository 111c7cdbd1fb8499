"""Simulated clients: arrivals and closed loops obey queueing arithmetic, and every call ends once."""

import math
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.simulator.workload import Lengths, Stream
from support.stations import Station


def moments(here: Station) -> list[float]:
    return [at for at, _ in here.server.came]


streams = st.builds(
    Stream,
    end=st.just(30.0),
    rate=st.sampled_from((0.0, 2.0, 10.0)),
    clients=st.integers(0, 4),
    think=st.sampled_from((0.0, 0.5)),
    think_spread=st.sampled_from((0.0, 1.0, 2.0)),
    timeout=st.sampled_from((math.inf, 0.4, 3.0)),
    patience=st.sampled_from((math.inf, 0.5)),
    retries=st.integers(0, 3),
    backoff=st.sampled_from((0.0, 1.0)),
    jitter=st.booleans(),
    retry_budget=st.sampled_from((math.inf, 0.1)),
    leaves=st.sampled_from((0.0, 0.5)),
    fan_out=st.sampled_from((1.0, 2.5)),
    sessions=st.integers(0, 3),
    repeats=st.sampled_from((0.0, 0.5)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(streams, min_size=1, max_size=2), st.sampled_from(("ok", "error")), st.integers(0, 3))
def test_every_call_ends_exactly_once(kinds, outcome, seed):
    here = Station(*kinds, seed=seed)
    here.server.outcome = outcome
    for tick in range(1, 60):
        here.run(tick * 0.5)
        assert here.clients.sent == len(here.clients.log) + len(here.clients.open) == len(here.server.came)
    here.run(200.0)
    ended = [answer.request.number for answer in here.clients.log]
    assert len(ended) == len(set(ended)) == here.clients.sent
    assert not here.clients.open
    assert here.clients.retries == sum(answer.request.attempt > 0 for answer in here.clients.log)
    for answer in here.clients.log:
        assert answer.sent <= answer.ended
        assert answer.outcome


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 2.0])
def test_arrivals_have_the_rate_and_the_burstiness_that_were_asked_for(burstiness):
    here = Station(Stream(rate=5.0, burstiness=burstiness), seconds=0.01).run(4000.0)
    came = moments(here)
    gaps = [b - a for a, b in pairwise(came)]
    # Standard error of the mean of n gaps is burstiness / sqrt(n) of it: five of them.
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=5 * burstiness / math.sqrt(20_000))
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(burstiness, rel=0.06)


@pytest.mark.parametrize("burstiness", [0.5, 1.0])
def test_a_day_swings_around_its_mean_and_no_arrival_gets_lost_in_a_night_without_traffic(burstiness):
    period = 1000.0
    here = Station(Stream(rate=4.0, swing=1.0, period=period, burstiness=burstiness), seconds=0.01).run(8 * period)
    quarters = [0, 0, 0, 0]
    for moment in moments(here):
        quarters[int(moment % period / (period / 4))] += 1
    # The integral of 1 + sin over a quarter: half of the period has 1 + 2/pi of the mean, the other half 1 - 2/pi.
    assert sum(quarters) == pytest.approx(32_000, rel=5 / math.sqrt(32_000))
    high, low = 8_000 * (1 + 2 / math.pi), 8_000 * (1 - 2 / math.pi)
    assert quarters[0] + quarters[1] == pytest.approx(2 * high, rel=0.03)
    assert quarters[2] + quarters[3] == pytest.approx(2 * low, rel=0.08)


def test_a_phase_moves_the_day():
    noon = Station(Stream(rate=4.0, swing=1.0, period=1000.0, phase=250.0), seconds=0.01).run(500.0)
    first, second = (sum(a <= moment < a + 250.0 for moment in moments(noon)) for a in (0.0, 250.0))
    assert first > 1.8 * second  # 1 + 2/pi against 1 - 2/pi is 4.5


def test_closed_loop_throughput_is_clients_over_answer_and_think_time():
    """The response time law of closed systems: X = N / (R + Z)."""
    here = Station(Stream(clients=20, think=3.0, think_spread=1.0), seconds=1.0).run(2000.0)
    assert len(here.clients.log) / 2000.0 == pytest.approx(20 / (1.0 + 3.0), rel=0.03)
    assert here.server.busiest <= 20


def test_an_agent_calls_again_as_soon_as_it_is_answered():
    here = Station(Stream(clients=1, sessions=1, loops=True), seconds=1.0).run(100.5)
    assert len(here.server.came) == 101  # at 0, and one network round trip after each answer
    assert {answer.request.session for answer in here.clients.log} == {0}


def test_a_closed_loop_client_waits_for_all_calls_of_its_request():
    """Three calls a request and two clients: never more than six at once, however long it goes on."""
    here = Station(Stream(clients=2, fan_out=3.0), seconds=1.0).run(50.0)
    assert here.server.busiest == 6
    assert here.clients.user_requests == pytest.approx(2 * 50, abs=4)


def test_fan_out_is_calls_for_each_request_of_a_user():
    here = Station(Stream(rate=10.0, fan_out=4.3), seconds=0.1).run(1000.0)
    assert here.clients.sent / here.clients.user_requests == pytest.approx(4.3, rel=0.01)
    of_one = [answer.request.user for answer in here.clients.log]
    assert {of_one.count(user) for user in set(of_one[:400])} <= {4, 5}


def test_a_closed_loop_client_stays_in_its_session_and_open_ones_are_spread_over_all():
    closed = Station(Stream(clients=6, sessions=6), seconds=1.0).run(20.0)
    numbers = [answer.request.session for answer in closed.clients.log]
    assert {numbers.count(session) for session in range(6)} <= {19, 20}
    opened = Station(Stream(rate=20.0, sessions=5), seconds=0.1).run(200.0)
    numbers = [answer.request.session for answer in opened.clients.log]
    assert all(numbers.count(session) == pytest.approx(800, rel=0.2) for session in range(5))


def test_a_client_gives_up_at_its_timeout_and_its_door_hears_of_it():
    here = Station(Stream(rate=2.0, timeout=0.7), seconds=1.0).run(100.0)
    assert here.outcomes() == {"timeout": len(here.clients.log)}
    assert all(answer.ended - answer.sent == pytest.approx(0.7) for answer in here.clients.log)
    assert len(here.server.cancelled) == len(here.clients.log)


def test_patience_is_exponential_and_ends_with_the_first_token():
    """A client whose first token comes after w seconds stays with chance exp(-w / patience), and is not lost then."""
    here = Station(Stream(rate=20.0, patience=2.0, retries=3), seconds=4.0).run(500.0)
    outcomes = here.outcomes()
    stayed = outcomes["ok"] / (outcomes["ok"] + outcomes["left"])
    assert stayed == pytest.approx(math.exp(-2.0 / 2.0), abs=0.025)
    assert here.clients.retries == 0


def test_retries_multiply_what_arrives_while_everything_fails():
    kind = Stream(rate=5.0, retries=3, backoff=0.5)
    here = Station(kind, seconds=0.1)
    here.server.outcome = "error"
    here.run(400.0)
    assert here.clients.sent / here.clients.user_requests == pytest.approx(4.0, rel=0.03)


def test_a_budget_holds_retries_to_its_share():
    """Ten retries at once at most (100 first attempts' worth), then a tenth of the first attempts."""
    here = Station(Stream(rate=5.0, retries=3, backoff=0.5, retry_budget=0.1), seconds=0.1)
    here.server.outcome = "error"
    here.run(400.0)
    first = here.clients.sent - here.clients.retries
    assert 0.08 * first <= here.clients.retries <= 10 + 0.1 * first


def waves(*, jitter: bool) -> int:
    """The most retries within a tenth of a second after 200 calls have failed together, from the second wave on."""
    here = Station(Stream(end=0.5, clients=200, retries=4, backoff=1.0, jitter=jitter), seconds=0.1)
    here.server.outcome = "error"
    here.run(60.0)
    late = [moment for moment, call in here.server.came if call.request.attempt >= 2]
    return max(sum(a <= moment < a + 0.1 for moment in late) for a in late)


def test_without_jitter_retries_come_in_waves_and_full_jitter_spreads_them():
    assert waves(jitter=False) == 200
    assert waves(jitter=True) < 40


def test_without_jitter_the_pauses_double():
    here = Station(Stream(end=0.1, clients=1, retries=3, backoff=1.0, jitter=False), seconds=0.25)
    here.server.outcome = "rejected"
    here.run(60.0)
    assert moments(here) == pytest.approx([0.0, 1.25, 3.5, 7.75])


def test_a_client_whose_request_failed_for_good_pauses_before_the_next():
    here = Station(Stream(clients=1, backoff=2.0), seconds=0.0)
    here.server.outcome = "error"
    here.run(20.5)
    assert moments(here) == pytest.approx([2.0 * n for n in range(11)])


def test_repeats_are_equal_word_for_word():
    here = Station(Stream(rate=10.0, repeats=0.4, prompt=Lengths(500, 1.0)), seconds=0.1).run(300.0)
    texts: dict[int, set[int]] = {}
    for answer in here.clients.log:
        texts.setdefault(answer.request.text, set()).add(answer.request.prompt)
    assert all(len(lengths) == 1 for lengths in texts.values())
    assert 1 - len(texts) / len(here.clients.log) == pytest.approx(0.4, abs=0.04)


def test_a_failing_server_sees_the_same_requests_as_a_working_one():
    kind = Stream(rate=10.0, prompt=Lengths(300, 1.0), timeout=5.0, retries=2, leaves=0.2, patience=4.0)
    asked = []
    for outcome in ("ok", "error"):
        here = Station(kind)
        here.server.outcome = outcome
        here.run(100.0)
        asked.append([(at, call.request.prompt) for at, call in here.server.came if not call.request.attempt])
    assert asked[0] == asked[1]


def test_an_agent_of_a_dead_server_does_not_spin():
    here = Station(replace(Stream(clients=3, retries=2), backoff=0.0), seconds=0.0)
    here.server.outcome = "error"
    here.run(1.0)
    assert len(here.server.came) <= 3 * 1001
