"""The board of tenants and the gateway: what its own arithmetic finds over series that are written down."""

from __future__ import annotations

import re

import pytest

from llmvitals.dashboards.boards import tenants
from llmvitals.dashboards.boards.tenants_calls import STATUSES
from llmvitals.series import series
from llmvitals.signals.derived.gateway import LOST_LABELS
from support.boards import filled, of
from support.made_servers import END, START, STEP, counted, counter, gauge, numbers
from support.prometheus import prometheus_of

pytestmark = pytest.mark.prometheus

MANY = {"a": 100, "b": 50, "c": 40, "d": 30, "e": 20, "f": 10, "g": 6}
FEW = {"x": 60, "y": 30, "z": 30, "quiet": 0}
LARGE, SMALL = {"instance": "large"}, {"instance": "small"}
TOKENS, CALLS = "llm_gateway_tokens_total", "llm_gateway_requests_total"
ENDED = {"200": 10, "429": 2, "503": 1, "500": 1, "499": 3, "400": 1}


def points() -> dict:
    found: dict = {}
    for tenant, tokens in MANY.items():
        found |= counter(TOKENS, tokens, **LARGE, tenant=tenant)
        found |= counter(CALLS, 1, **LARGE, tenant=tenant, status="200")
    for tenant, tokens in FEW.items():
        found |= counter(TOKENS, tokens, **SMALL, tenant=tenant)
    for tenant, weight in (("x", 3.0), ("y", 1.0), ("quiet", 9.0)):
        found |= gauge("llm_gateway_tenant_weight", weight, **SMALL, tenant=tenant)
    for status, calls in ENDED.items():
        found |= counter(CALLS, calls, **SMALL, tenant="x", status=status)
    found |= counter(CALLS, 5, **SMALL, tenant="y", status="200")
    found |= counter("llm_gateway_calls_total", 20, **SMALL) | counter("llm_gateway_disconnects_total", 3, **SMALL)
    found |= gauge("llm_shared_prefix_ratio", 0.75, **SMALL)
    found |= counter("llm_prefix_cache_query_tokens_total", 100, **SMALL)
    found |= counter("llm_prefix_cache_hit_tokens_total", 25, **SMALL)
    for tenant, calls in (("x", 20), ("y", 1)):
        found |= counted("llm_gateway_queue_seconds", 1.5, {"1": 0, "2": calls, "+Inf": 0}, **SMALL, tenant=tenant)
    for upstream, bad in (("one", 0), ("two", 5)):
        for status, calls in (("2xx", 10 - bad), ("5xx", bad)):
            labels = {"upstream": upstream, "status": status}
            found |= counter("llm_gateway_upstream_requests_total", calls, **SMALL, **labels) if calls else {}
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("tenants"), points()) as found:
        yield found


def test_the_largest_tenants_and_the_rest_are_all(server):
    found = numbers(server, "tenants", "Tokens by tenant", "tenant", instance="large")
    assert found["tokens"] == {(name,): pytest.approx(MANY[name] / 15) for name in "abcde"}
    assert found["other tenants"][()] == pytest.approx((MANY["f"] + MANY["g"]) / 15)


def test_where_all_tenants_are_shown_the_rest_is_none(server):
    found = numbers(server, "tenants", "Tokens by tenant", "tenant", instance="small")
    assert found["tokens"].keys() == {("x",), ("y",), ("z",)}, "who takes nothing is no line"
    assert found["other tenants"][()] == 0.0


def test_without_weights_shares_are_equal_among_those_that_are_active(server):
    found = numbers(server, "tenants", "Share of tokens against the entitled share", "tenant", instance="large")
    assert found["entitled"] == {(name,): pytest.approx(1 / 7) for name in "abcde"}
    assert found["takes"]["a",] == pytest.approx(100 / 256)


def test_a_tenant_without_a_weight_has_the_mean_of_the_others(server):
    found = numbers(server, "tenants", "Share of tokens against the entitled share", "tenant", instance="small")
    assert found["entitled"] == {
        ("x",): pytest.approx(3 / 6),
        ("y",): pytest.approx(1 / 6),
        ("z",): pytest.approx(2 / 6),
    }
    assert found["takes"]["x",] == pytest.approx(0.5)


def test_calls_of_a_tenant_that_got_no_answer(server):
    found = numbers(server, "tenants", "What each tenant gets: calls without an answer", "tenant", instance="small")
    assert found["lost"] == {("x",): pytest.approx(4 / 18), ("y",): 0.0}


def test_each_call_ends_in_one_way(server):
    found = {name: value[()] for name, value in numbers(server, "tenants", STATUSES.title, instance="small").items()}
    assert found == pytest.approx(
        {
            "served": 15 / 15,
            "refused (429, 503)": 3 / 15,
            "failed": 1 / 15,
            "given up by clients (499)": 3 / 15,
            "the client's fault": 1 / 15,
        }
    )


def test_every_status_is_in_one_band():
    bands = [re.search(r'status=~?"([^"]*)"', query.promql)[1] for query in STATUSES.queries]
    classes = [f"{first}xx" for first in range(1, 6)]
    for status in (*map(str, range(100, 600)), *classes, "ok", "error", "answered"):
        assert sum(re.fullmatch(band, status) is not None for band in bands) == 1, status
    refused, failed = bands[1:3]
    assert all(re.fullmatch(f"{refused}|{failed}", status) for status in LOST_LABELS), "what alerts count as lost"


def test_who_left_is_a_share_of_the_calls_that_came(server):
    title = "Clients that left, and calls that went on without them"
    assert numbers(server, "tenants", title)["left"][()] == pytest.approx(3 / 20)


def test_the_gap_is_what_is_shared_and_not_found(server):
    found = numbers(server, "tenants", "Shared prefixes: what could hit, and what hits")
    assert found["gap"][()] == pytest.approx(0.75 - 0.25)


def test_a_wait_of_few_calls_is_no_quantile(server):
    found = numbers(server, "tenants", "Wait in the gateway's queue by tenant, p95", "tenant")
    assert found["p95"] == {("x",): pytest.approx(1.95)}, "y has four calls in the window, and 20 are needed"


def test_an_upstream_without_failures_has_none_and_not_no_number(server):
    found = numbers(server, "tenants", "Failed calls by upstream", "upstream")
    assert found["failed"] == {("one",): 0.0, ("two",): pytest.approx(0.5)}


def test_what_needs_one_kind_of_gateway_is_a_click_away_and_says_so():
    for row in tenants.BOARD.rows:
        special = any(panel.apart for panel in row.panels)
        assert row.collapsed == special == ("needs a gateway that" in row.title), row.title


def test_no_line_comes_and_goes_with_a_rank_that_changes():
    for row in tenants.BOARD.rows:
        for query in (query for panel in row.panels for query in panel.queries):
            ranked = re.findall(r"topk .*", query.promql)
            assert all("[$__range] @ end()" in one for one in ranked), query.promql


# -- gateways that name neither model nor tenant, tenants that come and go -------------------------------------------------


def of_no_model() -> dict:
    """A gateway that counts the calls of all models together, and one that does not count by tenant."""
    plain, busy = {"instance": "plain"}, {"instance": "busy"}
    found = counter(CALLS, 15, **plain, status="200") | counter(CALLS, 5, **plain, status="429")
    found |= counted("llm_gateway_ttft_seconds", 1.0, {"1": 10, "+Inf": 0}, **plain)
    found |= gauge("llm_gateway_connections", 7, **plain) | gauge("llm_gateway_upstream_up", 1, **plain, upstream="one")
    for tenant, tokens in MANY.items():
        found |= counter(TOKENS, tokens, **busy, tenant=tenant)
        found |= gauge("llm_gateway_tenant_weight", 0.0, **busy, tenant=tenant)
    return {
        series(key.name, **{name: value for name, value in key.labels if name != "model"}): (
            samples if key.label("tenant") not in ("a", "b", "c", "d", "e") else samples[12:]
        )
        for key, samples in found.items()
    }


@pytest.fixture(scope="module")
def nameless(tmp_path_factory):
    with prometheus_of(tmp_path_factory.mktemp("nameless"), of_no_model()) as found:
        yield found


def test_a_gateway_that_names_no_model_is_there_for_each(nameless):
    def shown(title: str, *labels: str) -> dict:
        return numbers(nameless, "tenants", title, *labels, instance="plain", model="m")

    assert shown(STATUSES.title)["served"][()] == pytest.approx(1.0)
    assert shown("Time to first token, as the gateway saw it")["mean"][()] == pytest.approx(1.0)
    assert shown("Connections of the gateway")["open"][()] == 7
    assert shown("Upstreams that the gateway holds fit", "upstream") == {"": {("one",): 1.0}}
    assert shown("Where first tokens of calls lie", "le")[""]["1",] == pytest.approx(40)


def test_calls_of_no_tenant_are_no_tenants(nameless):
    assert numbers(nameless, "tenants", "Calls by tenant", instance="plain") == {"calls": {}, "other tenants": {}}


def test_the_other_tenants_are_there_before_the_largest_come(nameless):
    tokens, others = (filled(asked.expr, instance="busy") for asked in of("Tokens by tenant", "tenants").asked)
    before = START + 10 * STEP
    ranged = {"start": str(before), "end": str(END), "step": "150"}
    (one,) = nameless.get("query_range", query=others, **ranged)["result"]
    assert float(one["values"][0][1]) == pytest.approx((MANY["f"] + MANY["g"]) / 15)
    assert len(nameless.get("query_range", query=tokens, **ranged)["result"]) == 5


def test_weights_that_are_all_0_entitle_nobody_to_no_number(nameless):
    found = numbers(nameless, "tenants", "Share of tokens against the entitled share", "tenant", instance="busy")
    assert found["entitled"] == {}
    assert len(found["takes"]) == 5
