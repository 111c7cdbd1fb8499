"""Each trap of four routers' pages: names that lie, names of others, states, summaries, and what is shown only once it happened."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.gateways.workers import place
from support.gateway_pages import canonical, gaps


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def named(text: str, start: str) -> dict[str, float]:
    return {s: v for s, v in canonical(text).items() if s.startswith(start)}


def kind(text: str) -> str:
    return next(s for s in canonical(text) if s.startswith("llm_target_info")).split('engine="')[1].split('"')[0]


# -- the production-stack router repeats its engines' names (T43, T10) ---------------------------------------------------
ENGINE = page(
    "# TYPE vllm:num_requests_running gauge",
    'vllm:num_requests_running{engine="0",model_name="m"} 3',
    "# TYPE vllm:num_requests_waiting gauge",
    'vllm:num_requests_waiting{engine="0",model_name="m"} 1',
    "# TYPE vllm:generation_tokens counter",
    'vllm:generation_tokens_total{engine="0",model_name="m"} 900',
)
ROUTER = page(
    "# TYPE vllm:num_requests_running gauge",
    'vllm:num_requests_running{server="http://10.0.0.5:8000"} 7',
    "# TYPE vllm:num_requests_waiting gauge",
    "# TYPE vllm:num_requests_swapped gauge",
    'vllm:num_requests_swapped{server="http://10.0.0.5:8000"} 0',
    "# TYPE vllm:gpu_prefix_cache_hits_total gauge",
    'vllm:gpu_prefix_cache_hits_total{server="http://10.0.0.5:8000"} 0',
    "# TYPE vllm:gpu_prefix_cache_queries_total gauge",
    'vllm:gpu_prefix_cache_queries_total{server="http://10.0.0.5:8000"} 0',
    "# TYPE vllm:avg_itl gauge",
    'vllm:avg_itl{server="http://10.0.0.5:8000"} -1',
    "# TYPE vllm:healthy_pods_total gauge",
    'vllm:healthy_pods_total{server="http://10.0.0.5:8000"} 1',
    "# TYPE vllm:num_incoming_requests_total counter",
    'vllm:num_incoming_requests_total{model="m"} 40',
    "# TYPE vllm:input_tokens_total counter",
    'vllm:input_tokens_total{model="m",server="http://10.0.0.5:8000"} 100',
)


def test_the_router_is_no_vllm_and_vllm_is_no_router():
    assert kind(ROUTER) == "production-stack"
    assert kind(ENGINE) == "vllm"


def test_nothing_that_the_router_repeats_is_counted_beside_the_engines():
    taken = [s for s in canonical(ROUTER) if not s.startswith(("llm_gateway_", "llm_target_", "llm_family_gap"))]
    assert taken == []


def test_pods_that_are_healthy_are_a_gauge_and_no_proof():
    """With static discovery a router says 1 for an engine that fails every call: what it saw fail is said beside it."""
    text = ROUTER + page(
        "# TYPE vllm:request_latency_seconds histogram",
        'vllm:request_latency_seconds_count{model="m",server="http://10.0.0.5:8000",status="error"} 10',
        'vllm:request_latency_seconds_sum{model="m",server="http://10.0.0.5:8000",status="error"} 0.1',
    )
    assert named(text, "llm_gateway_upstream_") == {
        'llm_gateway_upstream_up{gateway="production-stack",upstream="10.0.0.5:8000"}': 1.0,
        'llm_gateway_upstream_requests_total{gateway="production-stack",model="m",status="error",upstream="10.0.0.5:8000"}': 10.0,
    }


def test_calls_that_fail_stay_in_its_count_of_running_ones_so_it_is_not_taken():
    assert named(ROUTER, "llm_gateway_calls_running") == {}
    assert "stay in it" in gaps(ROUTER)["llm_gateway_calls_running"][1]


def test_times_of_failures_are_no_times_of_answers():
    def timed(server: str, status: str, n: int) -> str:
        labels = f'model="m",server="http://{server}",status="{status}"'
        name = "vllm:request_latency_seconds"
        return page(
            f'{name}_bucket{{{labels},le="0.5"}} {n}',
            f'{name}_bucket{{{labels},le="+Inf"}} {n}',
            f"{name}_sum{{{labels}}} {n / 4}",
            f"{name}_count{{{labels}}} {n}",
        )

    text = ROUTER + timed("a:1", "success", 8) + timed("b:1", "success", 4) + timed("b:1", "error", 100)
    found = canonical(text)
    assert found['llm_gateway_request_seconds_count{gateway="production-stack",model="m"}'] == 12
    assert found['llm_gateway_request_seconds_sum{gateway="production-stack",model="m"}'] == 3
    assert found['llm_gateway_requests_total{gateway="production-stack",model="m",status="answered"}'] == 12
    assert found['llm_gateway_requests_total{gateway="production-stack",model="m",status="error"}'] == 100


def test_tokens_of_calls_that_do_not_stream_are_not_all_tokens():
    assert named(ROUTER, "llm_gateway_tokens_total") == {}


def test_escaped_names_are_the_same_names():
    """OpenMetrics of the newer client library: underscores for colons, TYPE lines without _total (T8)."""
    escaped = ROUTER.replace("vllm:", "vllm_").replace(
        "# TYPE vllm_num_incoming_requests_total", "# TYPE vllm_num_incoming_requests"
    )
    assert named(escaped + "# EOF\n", "llm_gateway_") == named(ROUTER, "llm_gateway_")


# -- vllm-router --------------------------------------------------------------------------------------------------------
VLLM = page(
    "# TYPE vllm_router_worker_health gauge",
    'vllm_router_worker_health{worker="http://10.0.0.5:8000"} 1',
    'vllm_router_worker_health{worker="http://10.0.0.6:8000"} 0',
    "# TYPE vllm_router_active_workers gauge",
    "vllm_router_active_workers 2",
)


def test_active_workers_are_not_the_healthy_ones():
    assert named(VLLM, "llm_gateway_upstream_up") == {
        'llm_gateway_upstream_up{gateway="vllm-router",upstream="10.0.0.5:8000"}': 1.0,
        'llm_gateway_upstream_up{gateway="vllm-router",upstream="10.0.0.6:8000"}': 0.0,
    }


@pytest.mark.parametrize(("code", "open_"), [(0, 0.0), (1, 1.0), (2, 0.0)])
def test_a_breakers_state_is_a_code(code, open_):
    text = VLLM + page(f'vllm_router_cb_state{{worker="http://10.0.0.5:8000"}} {code}')
    assert list(named(text, "llm_gateway_breaker_open").values()) == [open_]


def test_requests_are_those_that_succeeded_and_the_rest_is_told():
    text = VLLM + page(
        'vllm_router_requests_total{route="/v1/chat/completions"} 70',
        'vllm_router_requests_total{route="/v1/completions"} 7',
        'vllm_router_retries_exhausted_total{route="/v1/chat/completions"} 15',
        'vllm_router_request_errors_total{route="/v1/chat/completions",error_type="non_retryable_error"} 2',
        'vllm_router_request_errors_total{route="/v1/chat/completions",error_type="no_available_workers"} 9',
        'vllm_router_retries_total{route="/v1/chat/completions"} 20',
    )
    assert named(text, "llm_gateway_requests_total") == {
        'llm_gateway_requests_total{gateway="vllm-router",status="2xx"}': 77.0,
        'llm_gateway_requests_total{gateway="vllm-router",status="error"}': 15.0,
        'llm_gateway_requests_total{gateway="vllm-router",status="4xx"}': 2.0,
    }


def test_its_cache_hits_are_no_answers_from_a_cache():
    text = VLLM + page("vllm_router_cache_hits_total 400", "vllm_router_cache_misses_total 100")
    assert named(text, "llm_gateway_cache_hits_total") == {}
    assert gaps(text)["llm_gateway_cache_hits_total"][0] == "unsupported"


def test_the_time_until_a_streams_head_is_no_time_of_an_answer():
    text = VLLM + page(
        'vllm_router_generate_duration_seconds_bucket{le="0.05"} 30',
        'vllm_router_generate_duration_seconds_bucket{le="+Inf"} 30',
        "vllm_router_generate_duration_seconds_sum 1.2",
        "vllm_router_generate_duration_seconds_count 30",
    )
    assert named(text, "llm_gateway_request_seconds") == {}
    assert "head" in gaps(text)["llm_gateway_request_seconds"][1]


# -- sglang-router and smg ------------------------------------------------------------------------------------------------
SGLANG = page(
    "# TYPE smg_worker_health gauge",
    'smg_worker_health{worker="http://10.0.0.5:8000"} 1',
)
SMG = SGLANG + page("# TYPE smg_tokio_workers gauge", "smg_tokio_workers 2")
HISTOGRAM = page(
    "# TYPE smg_router_ttft_seconds histogram",
    'smg_router_ttft_seconds_bucket{backend_type="regular",le="0.5"} 9',
    'smg_router_ttft_seconds_bucket{backend_type="regular",le="+Inf"} 10',
    'smg_router_ttft_seconds_sum{backend_type="regular"} 4',
    'smg_router_ttft_seconds_count{backend_type="regular"} 10',
)
SUMMARY = page(
    "# TYPE smg_router_ttft_seconds summary",
    'smg_router_ttft_seconds{backend_type="regular",quantile="0.5"} 0.3',
    'smg_router_ttft_seconds{backend_type="regular",quantile="0.99"} 0.9',
    'smg_router_ttft_seconds_sum{backend_type="regular"} 4',
    'smg_router_ttft_seconds_count{backend_type="regular"} 10',
)


def test_two_gateways_speak_the_same_names_and_are_told_apart():
    assert (kind(SGLANG), kind(SMG)) == ("sglang-router", "smg")


@pytest.mark.parametrize("gateway", [SGLANG, SMG])
def test_one_name_may_be_a_histogram_or_a_summary_and_quantiles_are_no_buckets(gateway):
    as_histogram = named(gateway + HISTOGRAM, "llm_gateway_ttft_seconds")
    as_summary = named(gateway + SUMMARY, "llm_gateway_ttft_seconds")
    assert len([s for s in as_histogram if "_bucket" in s]) == 2
    assert sorted(as_summary.values()) == [4.0, 10.0]
    assert all(s.startswith(("llm_gateway_ttft_seconds_sum", "llm_gateway_ttft_seconds_count")) for s in as_summary)


@pytest.mark.parametrize("gateway", [SGLANG, SMG])
@pytest.mark.parametrize(
    "lines",
    [
        (
            'smg_worker_retry_backoff_seconds_bucket{attempt="1",le="0.05"} 3',
            'smg_worker_retry_backoff_seconds_count{attempt="1"} 3',
        ),
        (
            'smg_worker_retry_backoff_seconds{attempt="1",quantile="0.5"} 0.05',
            'smg_worker_retry_backoff_seconds_count{attempt="1"} 3',
        ),
    ],
)
def test_the_pause_before_a_retry_is_no_wait_of_a_call(gateway, lines):
    assert named(gateway + page(*lines), "llm_gateway_") == named(gateway, "llm_gateway_")


@pytest.mark.parametrize("gateway", [SGLANG, SMG])
def test_a_worker_that_was_removed_is_no_worker_that_fails(gateway):
    text = gateway + page(
        'smg_worker_health{worker="http://10.0.0.7:8000"} -1', 'smg_worker_cb_state{worker="http://10.0.0.7:8000"} -1'
    )
    assert [s for s in canonical(text) if "10.0.0.7" in s] == []
    assert "llm_gateway_upstream_up" not in gaps(text)


def test_a_state_that_nobody_knows_is_a_gap():
    text = SGLANG + page('smg_worker_cb_state{worker="http://10.0.0.5:8000"} 3')
    assert named(text, "llm_gateway_breaker_open") == {}
    assert gaps(text)["llm_gateway_breaker_open"][0] == "missing"


def test_a_list_of_models_and_a_health_check_are_no_calls():
    """sglang-router counts answers of every route as one: what succeeded is taken from its timed calls."""
    text = SGLANG + page(
        'smg_http_responses_total{status_code="200",error_code=""} 9031',
        'smg_http_responses_total{status_code="429",error_code=""} 4',
        'smg_http_requests_total{method="GET",path="/health"} 9000',
        'smg_http_requests_total{method="GET",path="/v1/models"} 1',
        'smg_http_requests_total{method="POST",path="/v1/chat/completions"} 34',
        'smg_router_request_duration_seconds_count{router_type="http",endpoint="chat"} 30',
    )
    assert named(text, "llm_gateway_requests_total") == {
        'llm_gateway_requests_total{gateway="sglang-router",status="2xx"}': 30.0,
        'llm_gateway_requests_total{gateway="sglang-router",status="429"}': 4.0,
    }
    assert named(text, "llm_gateway_calls_total") == {'llm_gateway_calls_total{gateway="sglang-router"}': 34.0}


def test_connections_are_requests_and_no_connections():
    text = SMG + page("smg_http_connections_active 31")
    assert named(text, "llm_gateway_connections") == {}


def test_without_a_limit_there_is_no_queue_and_with_one_nobody_waited():
    assert gaps(SMG)["llm_gateway_queue_waiting"][0] == "unsupported"
    limited = SMG + page("smg_admission_inflight 3")
    assert list(named(limited, "llm_gateway_queue_waiting").values()) == [0.0]
    assert named(limited, "llm_gateway_queue_dropped_total") == {
        'llm_gateway_queue_dropped_total{gateway="smg",reason="full"}': 0.0,
        'llm_gateway_queue_dropped_total{gateway="smg",reason="ttl"}': 0.0,
    }


def test_a_queue_of_classes_is_one_queue():
    text = SMG + page(
        'smg_scheduler_queue_depth{class="interactive"} 3',
        'smg_scheduler_queue_depth{class="bulk"} 40',
        'smg_scheduler_queue_size_limit{class="interactive"} 20',
        'smg_scheduler_queue_size_limit{class="bulk"} 100',
        'smg_scheduler_admit_total{class="bulk",outcome="admitted"} 900',
        'smg_scheduler_admit_total{class="bulk",outcome="rejected_queue_timeout"} 6',
        'smg_scheduler_admit_total{class="bulk",outcome="client_cancelled"} 2',
        'smg_scheduler_queue_wait_seconds{class="bulk",quantile="0.99"} 9.5',
        'smg_scheduler_queue_wait_seconds_sum{class="bulk"} 90',
        'smg_scheduler_queue_wait_seconds_count{class="bulk"} 908',
    )
    assert named(text, "llm_gateway_queue_") == {
        'llm_gateway_queue_waiting{gateway="smg"}': 43.0,
        'llm_gateway_queue_limit{gateway="smg"}': 120.0,
        'llm_gateway_queue_dropped_total{gateway="smg",reason="ttl"}': 6.0,
        'llm_gateway_queue_dropped_total{gateway="smg",reason="left"}': 2.0,
        'llm_gateway_queue_seconds_sum{gateway="smg"}': 90.0,
        'llm_gateway_queue_seconds_count{gateway="smg"}': 908.0,
    }


def test_what_it_repeats_of_its_engines_is_not_taken():
    text = SMG + page(
        'smg_engine_running_requests{worker="http://10.0.0.5:8000",dp_rank="0"} 9',
        'smg_engine_waiting_requests{worker="http://10.0.0.5:8000",dp_rank="0"} -1',
        'smg_engine_token_usage{worker="http://10.0.0.5:8000",dp_rank="0"} 0.12',
    )
    assert named(text, "llm_") == named(SMG, "llm_")


def test_a_disaggregated_retry_counts_once():
    text = SGLANG + page(
        'smg_worker_retries_total{worker_type="prefill",endpoint="chat"} 4',
        'smg_worker_retries_total{worker_type="decode",endpoint="chat"} 4',
    )
    assert list(named(text, "llm_gateway_retries_total").values()) == [4.0]


# -- all of them ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "label"),
    [
        (VLLM + 'vllm_router_requests_total{route="/v1/completions"} 5\n', 'gateway="vllm-router"'),
        (SGLANG + 'smg_router_request_duration_seconds_count{endpoint="chat"} 5\n', 'gateway="sglang-router"'),
    ],
)
def test_retries_that_never_happened_are_0_once_calls_are_counted(text, label):
    assert named(text, "llm_gateway_retries_total") == {f'llm_gateway_retries_total{{by="gateway",{label}}}': 0.0}


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://10.0.0.5:8000", "10.0.0.5:8000"),
        ("http://10.0.0.5:8000/v1", "10.0.0.5:8000"),
        ("grpc://worker-0.pool:9000", "worker-0.pool:9000"),
        ("http://10.0.0.5:8000@1", "10.0.0.5:8000@1"),
        ("http://user:secret@10.0.0.5:8000", "10.0.0.5:8000"),
        ("10.0.0.5:8000", "10.0.0.5:8000"),
        ("", ""),
    ],
)
def test_a_worker_is_named_by_host_and_port(url, host):
    assert place(url) == host
