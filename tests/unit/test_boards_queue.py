"""The board of the queue over made servers in a real Prometheus: what its panels say is what was put in."""

import pytest

from llmvitals.dashboards.boards import queue
from llmvitals.dashboards.boards.queue_admission import DEMAND, FLOW, MISSING, OUTCOMES, TURNED_AWAY
from llmvitals.settings import Settings, Slo
from support.made_servers import grows, histogram, level, says, server
from support.prometheus import prometheus_of

pytestmark = pytest.mark.prometheus


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    points = {
        # 3 come and 2 go each second: the queue grows by 1; nobody tells why they wait
        **server(
            "grows",
            requests_running=level(10),
            requests_waiting=grows(1.0),
            requests_finished_total__reason__stop=grows(1.5),
            requests_finished_total__reason__length=grows(0.4),
            requests_finished_total__reason__abort=grows(0.1),
            arrival_rate=level(3.0),
            aborted_requests=level(30),
            window_seconds=level(60),
        ),
        # half a request more goes than comes
        **server(
            "drains",
            requests_running=level(10),
            requests_waiting=grows(-0.5),
            requests_waiting_by_reason__reason__capacity=grows(-0.5),
            requests_waiting_by_reason__reason__deferred=level(0),
            requests_finished_total__reason__stop=grows(2.0),
            requests_rejected_total__reason__full=grows(0.25),
        ),
        **server("idle", requests_running=level(0), requests_waiting=level(0), requests_finished_total=level(7)),
        # in a queue for 3 s on average; a quarter for longer than 2 s
        **histogram("grows", "request_queue_seconds", 2.0, 3.0, {"1.0": 0.5, "2.0": 0.75, "2.5": 0.8, "10.0": 1.0}),
        **histogram("grows", "request_ttft_seconds", 2.0, 4.0, {"5.0": 1.0}),
        **histogram("coarse", "request_queue_seconds", 2.0, 3.0, {"1.0": 0.5, "2.5": 0.9, "10.0": 1.0}),
        **histogram("idle", "request_queue_seconds", 0.0, 0.0, {"1.0": 1.0, "2.0": 1.0}),
        # 10 calls come each second, 1 is given up in front, 2 are refused behind, 5 finish, 0.5 stay inside: 1.5 are nowhere
        **server(
            "gateway",
            gateway_calls_total=grows(10.0),
            gateway_user_requests_total=grows(4.0),
            gateway_retries_total__by__client=grows(3.0),
            gateway_queue_dropped_total__reason__ttl=grows(1.0),
            gateway_requests_total__status__503=grows(2.0),
            gateway_requests_total__status__200=grows(5.0),
            requests_rejected_total__reason__full=grows(2.0),
            requests_finished_total__reason__stop=grows(5.0),
            requests_running=level(8),
            requests_waiting=grows(0.5),
        ),
        # two ranks, each with a pool of its own
        **server("ranks", kv_capacity_tokens__rank__0=level(1000), kv_capacity_tokens__rank__1=level(1000)),
    }
    with prometheus_of(tmp_path_factory.mktemp("queue"), points) as found:
        yield found


def test_a_queue_that_drains_says_when_it_is_empty_and_no_other_one_does(prometheus):
    (drained,) = says(prometheus, queue.DRAIN).values()
    assert drained.keys() == {"drains"}
    waiting = says(prometheus, queue.EACH_REPLICA)["waiting"]["drains"]
    assert drained["drains"] == pytest.approx(waiting / 0.5)


def test_the_pool_beside_waiting_tokens_is_that_of_all_ranks(prometheus):
    assert says(prometheus, queue.WAITING_TOKENS)["KV pool"] == {"ranks": 2000}


def test_without_a_gateway_no_call_is_looked_for(prometheus):
    assert not any(says(prometheus, MISSING, "grows").values())


def test_what_comes_in_beyond_what_leaves_is_how_those_inside_grow(prometheus):
    found = says(prometheus, FLOW)
    assert found["inside grows by"] == pytest.approx({"grows": 1.0, "drains": -0.5, "idle": 0.0, "gateway": 0.5})
    assert found["finish"]["grows"] == pytest.approx(2.0)


def test_bands_of_waiting_add_up_whether_or_not_the_engine_says_why(prometheus):
    for one, told in (("grows", False), ("drains", True)):
        bands = {legend: values[""] for legend, values in says(prometheus, queue.WHY_WAITING, one).items() if values}
        assert sum(bands.values()) == pytest.approx(says(prometheus, queue.RUNNING_WAITING, one)["waiting"][""])
        assert (bands["the engine does not say"] == 0) is told


@pytest.mark.parametrize(
    ("promise", "late"),
    [
        (2.0, {"grows": 0.25, "coarse": 0.1}),  # at its own edge, and else at the next one: at least so many
        (2.5, {"grows": 0.2, "coarse": 0.1}),
        (3.0, {"grows": 0.0, "coarse": 0.0}),
    ],
)
def test_who_queued_for_longer_than_the_promise_is_counted_at_a_real_edge(prometheus, promise, late):
    (found,) = says(prometheus, queue.QUEUED_LATE, settings=Settings(slo=Slo(ttft_seconds=promise))).values()
    assert found == pytest.approx(late)


def test_the_most_that_may_wait_is_what_is_served_within_the_promise(prometheus):
    found = says(prometheus, queue.CEILING)
    assert found["served within the promise"]["grows"] == pytest.approx(2.0 * Settings().slo.ttft_seconds)
    assert "idle" not in found["served within the promise"], "who serves nobody allows for no number"
    assert found["waiting"]["idle"] == 0


def test_the_queues_share_of_the_first_token_is_of_means(prometheus):
    assert says(prometheus, queue.QUEUE_SHARE)["of the wait for the first token"] == pytest.approx({"grows": 0.75})


def test_calls_are_finished_kept_back_inside_or_missing(prometheus):
    found = {legend: values[""] for legend, values in says(prometheus, MISSING, "gateway").items()}
    seconds = 600
    assert found == pytest.approx(
        {
            "came to the gateway": 10.0 * seconds,
            "kept back or from a cache": 3.0 * seconds,
            "finished at the engines": 5.0 * seconds,
            "more inside than before": 0.5 * seconds,
            "missing": 1.5 * seconds,
        }
    )


def test_without_a_gateway_nothing_is_called_missing(prometheus):
    found = says(prometheus, MISSING, "grows")
    assert found["missing"] == found["came to the gateway"] == {}


def test_demand_is_told_layer_by_layer(prometheus):
    found = {legend: values.get("gateway") for legend, values in says(prometheus, DEMAND).items()}
    assert found["requests of users"] == pytest.approx(4.0)
    assert found["calls at the gateway"] == pytest.approx(10.0)
    assert found["of these, retries"] == pytest.approx(3.0)
    assert found["finish"] == pytest.approx(5.0)


def test_who_was_turned_away_is_told_by_layer_and_reason(prometheus):
    away = says(prometheus, TURNED_AWAY)
    assert away["engine:"] == pytest.approx({"drains/full": 0.25, "gateway/full": 2.0})
    assert away["gateway's queue:"] == pytest.approx({"gateway/ttl": 1.0})
    assert away["gateway's answer:"] == pytest.approx({"gateway/503": 2.0})
    assert says(prometheus, OUTCOMES)["clients left (estimate)"] == pytest.approx({"grows": 0.5})


def test_the_first_row_answers_most_and_what_needs_more_says_so():
    assert queue.BOARD.rows[0] is queue.QUEUE
    assert all("needs" in row.title for row in queue.BOARD.rows if row.collapsed)
