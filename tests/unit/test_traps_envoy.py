"""What misleads on Envoy's pages: milliseconds, its own pages, members that stay healthy, exact codes, hidden counters.

Envoy AI Gateway's page, which is another one, is here as well.
"""

from __future__ import annotations

import pytest

from llmvitals.errors import PageError
from support.gateway_pages import adapter, canonical, gaps, shared_pages, unknown

CLUSTER = '{envoy_cluster_name="llm"}'


def rq(code: str, n: int, cluster: str = "llm") -> str:
    return f'envoy_cluster_upstream_rq{{envoy_response_code="{code}",envoy_cluster_name="{cluster}"}} {n}\n'


def downstream(which: str, n: int, prefix: str = "ingress") -> str:
    labels = f'envoy_response_code_class="{which}",envoy_http_conn_manager_prefix="{prefix}"'
    return f"envoy_http_downstream_rq_xx{{{labels}}} {n}\n"


def test_times_are_milliseconds() -> None:
    page = "".join(
        f'envoy_cluster_upstream_rq_time_bucket{{envoy_cluster_name="llm",le="{le}"}} {n}\n'
        for le, n in (("0.5", 0), ("250", 3), ("+Inf", 4))
    )
    found = canonical(page + f"envoy_cluster_upstream_rq_time_sum{CLUSTER} 1500\n")
    own = 'gateway="envoy"'
    assert found[f'llm_gateway_upstream_seconds_bucket{{{own},le="0.25",upstream="llm"}}'] == 3
    assert found[f'llm_gateway_upstream_seconds_bucket{{{own},le="0.0005",upstream="llm"}}'] == 0
    assert found[f'llm_gateway_upstream_seconds_sum{{{own},upstream="llm"}}'] == pytest.approx(1.5)


def test_the_total_of_attempts_is_no_answer_by_status() -> None:
    """``upstream_rq_total`` is a counter of its own beside ``upstream_rq`` by code, whose exposed name it shares."""
    found = canonical(rq("200", 5) + f"envoy_cluster_upstream_rq_total{CLUSTER} 9\n")
    assert [v for k, v in found.items() if k.startswith("llm_gateway_upstream_requests_total")] == [5]


@pytest.mark.parametrize(
    "helper", ["xds_cluster", "xds-grpc", "ext_authz", "ai-gateway-extproc-uds", "agent", "zipkin"]
)
def test_clusters_of_the_control_plane_are_no_upstreams(helper: str) -> None:
    found = canonical(rq("200", 5) + rq("503", 2, helper) + downstream("2", 5))
    assert not any(helper in name for name in found)
    assert not any('status="503"' in name for name in found)


@pytest.mark.parametrize("cluster", ["agents-llm", "outbound|8000||vllm.default.svc.cluster.local", "vllm_stats_team"])
def test_clusters_with_like_names(cluster: str) -> None:
    assert any(cluster in name for name in canonical(rq("200", 5, cluster)))


def test_the_admin_page_is_no_call() -> None:
    found = canonical(downstream("2", 7, "admin") + downstream("2", 3) + rq("200", 3))
    assert found['llm_gateway_requests_total{gateway="envoy",status="2xx"}'] == 3


def test_members_stay_healthy_while_all_answer_500() -> None:
    """Health is what active checks found last; the failures are in the answers."""
    page = f"envoy_cluster_membership_healthy{CLUSTER} 2\n" + rq("500", 20) + downstream("5", 20)
    found = canonical(page)
    assert found['llm_gateway_upstream_up{gateway="envoy",upstream="llm"}'] == 1
    assert found['llm_gateway_requests_total{gateway="envoy",status="500"}'] == 20


def test_a_local_limit_answers_429_and_no_cluster_counts_it() -> None:
    page = rq("200", 8) + downstream("2", 8) + downstream("4", 5)
    found = canonical(page + 'envoy_http_local_rate_limit_enforced{envoy_local_http_ratelimit_prefix="rl"} 5\n')
    calls = {name: v for name, v in found.items() if name.startswith("llm_gateway_requests_total")}
    assert calls == {
        'llm_gateway_requests_total{gateway="envoy",status="2xx"}': 8,
        'llm_gateway_requests_total{gateway="envoy",status="429"}': 5,
    }


def test_without_clusters_on_the_page_failures_are_known_by_class() -> None:
    found = canonical(downstream("2", 8) + downstream("4", 5))
    assert found['llm_gateway_requests_total{gateway="envoy",status="4xx"}'] == 5


def test_calls_by_status_never_fall_while_an_answer_is_on_its_way() -> None:
    """A cluster's 429 is counted before the class that goes downstream: nothing is taken off it."""
    before = canonical(rq("429", 5) + downstream("4", 9) + rq("200", 1))
    after = canonical(rq("429", 6) + downstream("4", 9) + rq("200", 1))
    assert all(after[name] >= value for name, value in before.items() if name.startswith("llm_gateway_requests"))


def test_hidden_counters_stand_at_0_once_their_like_is_shown() -> None:
    assert gaps(f"envoy_cluster_membership_healthy{CLUSTER} 2\n")["llm_gateway_retries_total"][0] == "no-traffic"
    found = canonical(f"envoy_cluster_upstream_cx_total{CLUSTER} 2\n")
    assert found['llm_gateway_retries_total{by="gateway",gateway="envoy"}'] == 0
    assert found['llm_gateway_queue_dropped_total{gateway="envoy",reason="full"}'] == 0


def test_a_limit_needs_what_every_cluster_has_left() -> None:
    waiting, left = (
        "envoy_cluster_upstream_rq_pending_active",
        "envoy_cluster_circuit_breakers_default_remaining_pending",
    )
    both = f'{waiting}{CLUSTER} 3\n{waiting}{{envoy_cluster_name="b"}} 1\n'
    assert "llm_gateway_queue_limit" in gaps(both + f"{left}{CLUSTER} 7\n")
    found = canonical(both + f'{left}{CLUSTER} 7\n{left}{{envoy_cluster_name="b"}} 9\n')
    assert found['llm_gateway_queue_limit{gateway="envoy"}'] == 20


def test_istio_spells_the_tags_without_envoy() -> None:
    found = canonical('envoy_cluster_upstream_rq{response_code="503",cluster_name="outbound|80||vllm"} 4\n')
    own = 'gateway="envoy",status="503",upstream="outbound|80||vllm"'
    assert found[f"llm_gateway_upstream_requests_total{{{own}}}"] == 4


@pytest.mark.parametrize("body", ['{"stats":[{"name":"a","value":1}]}', "cluster.a.b: 1\nserver.live: 1\n"])
def test_other_statistics_of_envoy_are_explained(body: str) -> None:
    with pytest.raises(PageError, match="not as a metrics page") as caught:
        canonical(body)
    assert "/stats/prometheus" in str(caught.value)


def test_nothing_on_real_pages_is_unknown() -> None:
    for page in shared_pages("envoy"):
        assert unknown(page.read_text(), "envoy") == set(), page.name


def test_a_target_without_a_path_is_asked_where_envoy_has_its_page() -> None:
    assert adapter("envoy").path == "/stats/prometheus"


def test_reasons_are_given_for_what_a_proxy_cannot_say() -> None:
    cannot = adapter("envoy").cannot
    assert {"llm_gateway_tokens_total", "llm_gateway_ttft_seconds"} <= cannot.keys()


@pytest.mark.parametrize("name", ["envoy_cluster_upstream_rq", "envoy_cluster_retry_upstream_rq"])
def test_a_sum_that_lacks_a_part_is_withheld(name: str) -> None:
    """A counter without one of its parts would look like one that was reset."""
    labels = 'envoy_response_code="503",envoy_cluster_name="llm"'
    page = rq("200", 9) + rq("503", 4) + downstream("2", 9)
    told = gaps(page + f"envoy_cluster_retry_upstream_rq{{{labels}}} 2\n{name}{{{labels}}} NaN\n")
    assert told["llm_gateway_upstream_requests_total"][0] == "missing"
    assert told["llm_gateway_requests_total"][0] == "missing"


# -- Envoy AI Gateway -------------------------------------------------------------------------------------------------
AI = 'gen_ai_provider_name="openai",gen_ai_request_model="m"'


def usage(kind: str, tokens: int, name: str = "gen_ai_client_token_usage_sum") -> str:
    return f'{name}{{{AI},gen_ai_token_type="{kind}"}} {tokens}\n'


def test_only_input_and_output_are_tokens() -> None:
    page = usage("input", 100) + usage("output", 40)
    parts = "".join(usage(kind, 30) for kind in ("cached_input", "cache_creation_input", "reasoning", "total"))
    own = '{gateway="envoy-ai-gateway",model="m"}'
    assert canonical(page + parts)[f"llm_gateway_tokens_total{own}"] == 140
    assert canonical(page + parts)[f"llm_gateway_prompt_tokens_total{own}"] == 100


@pytest.mark.parametrize("name", ["gen_ai_client_token_usage_sum", "gen_ai_client_token_usage_token_sum"])
def test_a_suffix_for_the_unit_of_tokens_may_stand_there(name: str) -> None:
    assert canonical(usage("input", 7, name))['llm_gateway_tokens_total{gateway="envoy-ai-gateway",model="m"}'] == 7


@pytest.mark.parametrize(("error", "status"), [("", "ok"), ("503", "503"), ("_OTHER", "error"), ("timeout", "error")])
def test_what_is_known_of_an_end_is_an_error_type(error: str, status: str) -> None:
    named = f',error_type="{error}"' if error else ""
    found = canonical(f"gen_ai_server_request_duration_seconds_count{{{AI}{named}}} 4\n")
    assert found[f'llm_gateway_requests_total{{gateway="envoy-ai-gateway",model="m",status="{status}"}}'] == 4


def test_response_models_of_one_model_are_added() -> None:
    page = "".join(
        f'gen_ai_server_request_duration_seconds_count{{{AI},gen_ai_response_model="m-{i}"}} 4\n' for i in range(3)
    )
    found = canonical(page)
    assert found['llm_gateway_request_seconds_count{gateway="envoy-ai-gateway",model="m"}'] == 12


def test_nothing_on_the_real_page_of_the_ai_gateway_is_unknown() -> None:
    for page in shared_pages("envoy-ai-gateway"):
        text = page.read_text()
        assert unknown(text, "envoy-ai-gateway") == set()
        assert canonical(text)['llm_gateway_tokens_total{gateway="envoy-ai-gateway",model="qwen2.5:0.5b"}'] == 58
