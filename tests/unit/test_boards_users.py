"""The users' board: what its own arithmetic finds over series that are written down."""

from __future__ import annotations

import pytest

from llmvitals.dashboards.boards import users
from llmvitals.dashboards.model import Kind
from llmvitals.series import series
from support.made_servers import counted, counter, gauge, numbers
from support.prometheus import prometheus_of

pytestmark = pytest.mark.prometheus

TTFT, QUEUE, PREFILL = "llm_request_ttft_seconds", "llm_request_queue_seconds", "llm_request_prefill_seconds"
AT = ("instance",)
INSIDE = {"0.5": 10, "1": 8, "2.5": 2, "+Inf": 0}  # the 19th of 20 lies between 1 and 2.5
OPEN = {"0.5": 10, "1": 5, "2.5": 2, "+Inf": 3}  # in the open bucket
LOWEST = {"0.5": 20, "1": 0, "2.5": 0, "+Inf": 0}  # in the lowest one
ALL = {"+Inf": 20}


def of_server(name: str, ttft: dict[str, int], mean: float, queue: float, errors: int) -> dict:
    at = {"instance": name}
    found = counted(TTFT, mean, ttft, **at) | counted(QUEUE, queue, ALL, **at) | counted(PREFILL, 1.0, ALL, **at)
    found |= counted("llm_gateway_ttft_seconds", 3.0, ALL, **at, size="small")
    found |= gauge("llm_requests_running", 4, **at)
    for status, count in (("2xx", 20 - errors), ("5xx", errors)):
        found |= counter("llm_http_requests_total", count, **at, status=status)
    return found


def points() -> dict:
    found = (
        of_server("a", INSIDE, 2.0, 0.5, 1) | of_server("b", OPEN, 1.0, 0.8, 3) | of_server("c", LOWEST, 2.0, 0.5, 0)
    )
    a = {"instance": "a"}
    for reason, count in (("stop", 12), ("length", 6), ("abort", 1), ("error", 1), ("repetition", 0)):
        found |= counter(
            "llm_requests_finished_total", lambda page, n=count: n if page < 30 else 2 * n, **a, reason=reason
        )
    for objective, missed, edge in (("ttft", 1, "2.5"), ("tpot", 4, "0.05")):
        found |= counter("llm_promise_requests_total", 20, **a, objective=objective)
        found |= counter("llm_promise_missed_total", missed, **a, objective=objective, edge=edge)
    for vantage, met in (("engine", 15), ("gateway", 10)):
        found |= counter("llm_slo_requests_total", met, **a, slo_class="default", vantage=vantage, met="yes")
        found |= counter("llm_slo_requests_total", 20 - met, **a, slo_class="default", vantage=vantage, met="no")
        for ended, count in (("ok", 18), ("error", 2 if vantage == "gateway" else 0)):
            found |= counter("llm_span_requests_total", count, **a, slo_class="default", vantage=vantage, ended=ended)
    found |= gauge("llm_goodput_low_ratio", 0.5, **a) | gauge("llm_goodput_high_ratio", 0.75, **a)
    return found | counter("llm_generation_tokens_total", 600, **a) | counter("llm_prompt_tokens_total", 1200, **a)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("users"), points()) as found:
        yield found


def test_a_quantile_lies_between_the_edges_of_its_bucket(server):
    found = numbers(server, "users", "Between which edges p95 of first tokens lies", *AT)
    assert found["at least"] == {("a",): 1.0, ("b",): 2.5, ("c",): 0.0}
    assert found["at most"] == {("a",): 2.5, ("c",): 0.5}, "nothing is known above the last finite edge"
    drawn = found["p95, as drawn"]
    assert 1.0 < drawn["a",] < 2.5
    assert drawn["b",] == 2.5


def test_the_share_beyond_the_last_edge_is_what_no_bucket_holds(server):
    found = numbers(server, "users", "Share beyond the last finite edge", *AT)["first tokens"]
    assert found == {("a",): pytest.approx(0), ("b",): pytest.approx(0.15), ("c",): pytest.approx(0)}


def test_observations_are_counted_beside_the_fewest_that_alerts_judge(server):
    found = numbers(server, "users", "Observations behind the quantiles", *AT, instance="a")
    assert found["first tokens"]["a",] == pytest.approx(80), "four pages of 20"
    assert found["fewest that alerts judge"]["a",] == 20


def test_reasons_are_shares_of_one_and_length_is_truncation(server):
    found = {name: value[()] for name, value in numbers(server, "users", "How answers end").items()}
    assert found == pytest.approx({"said all": 0.6, "cut off (length)": 0.3, "aborted": 0.05, "other reasons": 0.05})


def test_the_wait_for_a_first_token_is_split_up_without_a_rest(server):
    found = numbers(server, "users", "Whose time is the wait for the first token", instance="a")
    bands = {name: value[()] for name, value in found.items()}
    assert bands == pytest.approx(
        {"gateway and network": 1.0, "front end and scheduling": 0.5, "engine's queue": 0.5, "prefill": 1.0}
    )
    assert sum(bands.values()) == pytest.approx(3.0), "what the gateway saw"


def test_a_band_that_would_be_negative_is_left_out(server):
    found = numbers(server, "users", "Whose time is the wait for the first token", instance="b")
    assert found["front end and scheduling"] == {}, "queue and prefill are more than the whole"
    assert found["engine's queue"][()] == pytest.approx(0.8)


def test_kept_promises_are_named_by_the_edge_that_they_are_counted_by(server):
    found = numbers(server, "users", "Promises kept, and the edge that is counted by", "edge")
    assert found["first tokens, s:"] == {("2.5",): pytest.approx(0.95)}
    assert found["pace, s:"] == {("0.05",): pytest.approx(0.8)}


def test_a_budget_is_used_up_where_as_many_missed_as_may(server):
    found = numbers(server, "users", "Error budget left, of the time shown", "instance", instance="a")
    assert found["first tokens"]["a",] == pytest.approx(0.0, abs=1e-9)
    assert found["pace"]["a",] == pytest.approx(-3.0)
    assert found["answers"]["a",] == pytest.approx(0.0, abs=1e-9)


def test_goodput_a_second_is_an_interval_and_exact_by_who_told(server):
    title = "Goodput: requests and tokens a second inside every promise"
    found = numbers(server, "users", title, "vantage")
    finished = 40 / 15
    assert found["requests, at least"][()] == pytest.approx(0.5 * finished)
    assert found["requests, at most"][()] == pytest.approx(0.75 * 41 / 15), "of those that failed, too"
    assert found["requests, exact by"] == {("engine",): pytest.approx(1.0), ("gateway",): pytest.approx(10 / 15)}
    assert found["tokens, about"][()] == pytest.approx(20.0)


def test_callers_are_told_apart_and_none_failed_is_0(server):
    found = numbers(server, "users", "What callers saw fail", "vantage")
    assert found["failed, by"] == {("engine",): 0.0, ("gateway",): pytest.approx(0.1)}
    assert found["refused, by"] == {("engine",): 0.0, ("gateway",): 0.0}


def test_a_model_is_all_its_replicas_together(server):
    found = numbers(server, "users", "What users of each model get", "model")
    assert found["5xx"]["m",] == pytest.approx(4 / 60)
    assert found["First tokens in time"]["m",] == pytest.approx(0.95)
    # of 60 first tokens 57 lie below 2.5 s, which is where the 95th percentile is
    assert found["TTFT p95"]["m",] == pytest.approx(2.5)


def test_the_time_shown_is_compared_with_as_much_before_it(server):
    found = numbers(server, "users", "Against the time before", "model", span="150s")
    assert found["Requests"]["m",] == pytest.approx(1.0), "twice as many since the tenth page before the end"
    assert found["TTFT, mean"]["m",] == pytest.approx(0.0, abs=1e-9)


def test_tokens_out_for_each_token_in(server):
    found = numbers(server, "users", "Length of prompts", "instance")
    assert found["generated per 1 of prompt"]["a",] == pytest.approx(0.5)


def test_what_needs_telemetry_of_its_own_is_a_click_away_and_says_so():
    for row in users.BOARD.rows:
        if any(panel.empty.startswith("no traffic, or no traces") for panel in row.panels) and row.collapsed:
            assert "needs traces" in row.title or row.title.startswith("Promises")
    apart = {panel.title for row in users.BOARD.rows for panel in row.panels if panel.apart and not row.collapsed}
    assert apart == {"Against the time before"}


def test_a_click_on_a_point_leads_to_its_trace_where_the_page_has_traces():
    exemplars = {
        panel.title
        for row in users.BOARD.rows
        for panel in row.panels
        if any(query.exemplar for query in panel.queries)
    }
    assert exemplars == {"Time to first token by class, p95", "Time per output token by class, p95"}
    heats = [panel for row in users.BOARD.rows for panel in row.panels if panel.kind is Kind.HEATMAP]
    assert len(heats) == 5
    assert all(len(panel.queries) == 1 for panel in heats)


# -- engines that are not alike, a service of several, classes that name no model -----------------------------------------

E2E, DECODE = "llm_request_e2e_seconds", "llm_request_decode_seconds"
CLASS = {"instance": "whole", "slo_class": "chat"}


def nameless(points: dict) -> dict:
    """What is said of a target and of no model."""
    return {
        series(key.name, **{name: value for name, value in key.labels if name != "model"}): samples
        for key, samples in points.items()
    }


def mixed() -> dict:
    whole, undivided, part = ({"instance": name} for name in ("whole", "undivided", "part"))
    found: dict = {}
    # one tells all phases: 1 + 2 + 4 s and 1 s outside; one, three times as busy, its queue only
    for family, mean in ((E2E, 8.0), (QUEUE, 1.0), (PREFILL, 2.0), (DECODE, 4.0)):
        found |= counted(family, mean, {"+Inf": 10}, **whole)
    found |= counted(E2E, 4.0, {"+Inf": 30}, **undivided) | counted(QUEUE, 2.0, {"+Inf": 30}, **undivided)
    # edges that differ between them but for 1 and 4 s
    found |= counted(TTFT, 1.5, {"1": 10, "2": 0, "4": 10, "+Inf": 0}, **whole)
    found |= counted(TTFT, 1.5, {"0.5": 10, "1": 10, "4": 10, "+Inf": 0}, **undivided)
    found |= counter("llm_requests_finished_total", 10, **whole, reason="stop")
    found |= counter("llm_requests_finished_total", 30, **undivided)
    # a service counts the requests of its engines once more; another engine of that model is in none
    for name, rank, missed in (("whole", "0", 5), ("service", "whole/0", 5), ("part", "0", 1)):
        labels = {"instance": name, "rank": rank, "objective": "ttft"}
        found |= counter("llm_promise_requests_total", 10, **labels)
        found |= counter("llm_promise_missed_total", missed, **labels, edge="2.5")
    for met, count in (("yes", 8), ("no", 2)):
        found |= counter("llm_slo_requests_total", count, **CLASS, vantage="engine", met=met)
    found |= nameless(gauge("llm_slo_objective_ratio", 0.9, **CLASS))
    # three of four calls were refused; of those that were let in none missed
    found |= gauge("llm_goodput_high_ratio", 0.25, **part) | counter("llm_requests_rejected_total", 30, **part)
    return found | counter("llm_requests_finished_total", 10, **part, reason="stop")


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("unlike"), mixed()) as found:
        yield found


@pytest.mark.parametrize(
    ("board", "title", "front"),
    [
        ("users", "Where a request spends its time", "outside queue and engine"),
        ("service", "Where the time goes: queue, prefill, decode, front end", "front end"),
    ],
)
def test_bands_add_up_to_the_whole_where_one_engine_times_no_phases(unlike, board, title, front):
    bands = {name: value[()] for name, value in numbers(unlike, board, title).items()}
    # means over all forty requests of a page, of which ten are told phase by phase
    expected = {
        "queue": (10 + 60) / 40,
        "prefill": 20 / 40,
        "decode": 40 / 40,
        front: 10 / 40,
        "not told apart": 60 / 40,
    }
    assert bands == pytest.approx(expected)
    assert sum(bands.values()) == pytest.approx((80 + 120) / 40)
    alone = {name: value for name, value in numbers(unlike, board, title, instance="undivided").items() if value}
    assert {name: value[()] for name, value in alone.items()} == pytest.approx({"queue": 2.0, "not told apart": 2.0})


def test_the_wait_for_a_first_token_is_that_of_engines_which_time_their_prefill(unlike):
    bands = numbers(unlike, "users", "Whose time is the wait for the first token")
    assert bands["engine's queue"] == {(): pytest.approx(1.0)}


def test_buckets_of_engines_with_other_edges_are_counted_where_all_have_one(unlike):
    ((_, buckets),) = numbers(unlike, "users", "Where first tokens lie", "le").items()
    assert buckets == {
        ("1",): pytest.approx(4 * (10 + 20)),
        ("4",): pytest.approx(4 * (20 + 30)),
        ("+Inf",): pytest.approx(4 * (20 + 30)),
    }
    found = numbers(unlike, "users", "What users of each model get", "model")
    # of 50 first tokens 30 lie below 1 s, so the 25th at 25/30 of it; the 47.5th at 17.5 of the 20 up to 4 s
    assert found["TTFT p50"]["m",] == pytest.approx(25 / 30)
    assert found["TTFT p95"]["m",] == pytest.approx(1 + 3 * 17.5 / 20)


def test_a_service_counts_no_request_of_its_engines_again(unlike):
    assert numbers(unlike, "users", "What users of each model get", "model")["First tokens in time"][
        "m",
    ] == pytest.approx(1 - 6 / 20)


def test_sequences_without_a_reason_did_not_end_for_another(unlike):
    found = numbers(unlike, "users", "How answers end")
    assert found == {
        "said all": {(): pytest.approx(1.0)},
        "cut off (length)": {},
        "aborted": {},
        "other reasons": {},
    }


def test_a_class_keeps_its_objective_where_a_model_is_chosen(unlike):
    found = numbers(unlike, "users", "Goodput by class, exact", "slo_class", model="m")
    assert found["goodput"] == {("chat",): pytest.approx(0.8)}
    assert found["objective"] == {("chat",): 0.9}
    burn = numbers(unlike, "users", "How fast a class uses up what may miss", "slo_class", model="m")
    assert burn["burn"] == {("chat",): pytest.approx(2.0)}
    left = numbers(unlike, "users", "Error budget left, of the time shown", "instance", model="m")
    assert left["whole promise"] == {("whole",): pytest.approx(-1.0)}


def test_as_many_as_finished_may_have_been_well_though_most_were_refused(unlike):
    title = "Goodput: requests and tokens a second inside every promise"
    assert numbers(unlike, "users", title, "instance")["requests, at most"] == {("part",): pytest.approx(10 / 15)}
