"""What misleads on pages of the endpoint picker: means over pods, two names for one thing, failures among the answers."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.gateways.epp import ADAPTER
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.gateway_pages import canonical, gaps, shared_pages, unknown

MODEL = 'model_name="m",target_model_name="t"'


def of(found: dict[str, float], family: str) -> dict[str, float]:
    return {name: value for name, value in found.items() if name.startswith(f"{family}{{")}


def test_means_over_pods_are_no_queue_and_no_kv_usage() -> None:
    page = (
        'inference_pool_average_queue_size{name="p"} 7.5\ninference_pool_average_kv_cache_utilization{name="p"} 0.4\n'
        'inference_pool_per_pod_queue_size{name="p",model_server_pod="a"} 15\ninference_pool_ready_pods{name="p"} 2\n'
    )
    found = canonical(page)
    assert not {7.5, 0.4, 15.0} & set(found.values())
    assert not any(name.startswith(("llm_requests_waiting", "llm_gateway_queue_waiting")) for name in found)
    assert unknown(page, "llm-d-epp") == set()
    assert any("mean" in u.why for u in ADAPTER.unused if u.name == "inference_pool_average_*")


@pytest.mark.parametrize("prefix", ["inference_model_", "inference_objective_", "llm_d_router_epp_", "llm_d_epp_"])
def test_calls_under_each_of_the_names(prefix: str) -> None:
    found = canonical(f"{prefix}request_total{{{MODEL}}} 5\n")
    assert of(found, "llm_gateway_calls_total") == {'llm_gateway_calls_total{gateway="llm-d-epp",model="m"}': 5}


def test_two_names_for_the_same_calls_count_once() -> None:
    page = "".join(f"{prefix}request_total{{{MODEL}}} 5\n" for prefix in ("inference_objective_", "llm_d_epp_"))
    assert sum(of(canonical(page), "llm_gateway_calls_total").values()) == 5


def test_targets_and_priorities_of_one_model_are_added() -> None:
    page = "".join(
        f'inference_objective_request_total{{model_name="m",target_model_name="{t}",priority="{p}"}} 2\n'
        for t in "ab"
        for p in (0, 1)
    )
    assert sum(of(canonical(page), "llm_gateway_calls_total").values()) == 8


def test_an_answer_may_be_a_failure_of_the_model_server() -> None:
    """Every answer is counted, then, beside it, what failed: no call stands under two statuses and no counter can fall."""
    failed = f'llm_d_epp_request_error_total{{error_code="ModelServerError",{MODEL}}}'
    page = f"llm_d_epp_request_duration_seconds_count{{{MODEL}}} 10\n{failed}"
    before, after = canonical(f"{page} 4\n"), canonical(f"{page} 5\n")
    calls = of(after, "llm_gateway_requests_total")
    assert calls == {'llm_gateway_requests_total{gateway="llm-d-epp",model="m",status="answered"}': 10}
    own = 'gateway="llm-d-epp",model="m",status="error"'
    assert after[f"llm_gateway_upstream_requests_total{{{own}}}"] == 5
    assert all(after[name] >= value for name, value in before.items())


@pytest.mark.parametrize(
    ("code", "status"),
    [("ResourceExhausted", "429"), ("InferencePoolResourceExhausted", "429"), ("ServiceUnavailable", "503")],
)
def test_refusals_have_the_status_that_clients_get(code: str, status: str) -> None:
    found = canonical(f'llm_d_epp_request_error_total{{error_code="{code}",{MODEL}}} 3\n')
    assert found[f'llm_gateway_requests_total{{gateway="llm-d-epp",model="m",status="{status}"}}'] == 3
    assert sum(of(found, "llm_gateway_calls_total").values()) == 3, "they came in and were never sent on"


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("RejectedCapacity", "full"),
        ("EvictedTTL", "ttl"),
        ("EvictedContextCancelled", "left"),
        ("EvictedOther", "other"),
    ],
)
def test_outcomes_of_flow_control_are_reasons(outcome: str, reason: str) -> None:
    name = "inference_extension_flow_control_request_queue_duration_seconds_count"
    found = canonical(f'{name}{{fairness_id="a",outcome="{outcome}",{MODEL}}} 6\n')
    dropped = of(found, "llm_gateway_queue_dropped_total")
    assert dropped[f'llm_gateway_queue_dropped_total{{gateway="llm-d-epp",model="m",reason="{reason}"}}'] == 6
    assert sum(dropped.values()) == 6


def test_a_dispatched_call_was_not_given_up() -> None:
    name = "llm_d_epp_flow_control_request_queue_duration_seconds_count"
    found = canonical(f'{name}{{fairness_id="a",outcome="Dispatched",{MODEL}}} 6\n')
    assert set(of(found, "llm_gateway_queue_dropped_total").values()) == {0}
    assert found['llm_gateway_queue_seconds_count{gateway="llm-d-epp",model="m",tenant="a"}'] == 6


def test_without_flow_control_there_is_no_queue_to_be_empty() -> None:
    told = gaps(f"llm_d_epp_request_total{{{MODEL}}} 5\n")
    assert {told[f][0] for f in ("llm_gateway_queue_waiting", "llm_gateway_queue_dropped_total")} == {"unsupported"}


def test_the_whole_time_over_the_tokens_is_no_time_per_token() -> None:
    page = f"llm_d_epp_request_ntpot_seconds_sum{{{MODEL}}} 3\nllm_d_epp_request_total{{{MODEL}}} 5\n"
    assert not of(canonical(page), "llm_gateway_tpot_seconds_sum")


def test_a_pool_without_a_ready_pod_is_down() -> None:
    ready = 'llm_gateway_upstream_up{gateway="llm-d-epp",upstream="p"}'
    assert canonical('llm_d_epp_ready_endpoints{name="p"} 0\n')[ready] == 0
    assert canonical('inference_pool_ready_pods{name="p"} 4\n')[ready] == 1


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf"])
def test_a_number_that_cannot_be_takes_its_family_with_it(value: str) -> None:
    page = f"llm_d_epp_request_total{{{MODEL}}} 5\nllm_d_epp_request_running{{{MODEL}}} {value}\n"
    assert gaps(page)["llm_gateway_calls_running"][0] == "missing"


def test_nothing_on_real_pages_is_unknown() -> None:
    for page in shared_pages("llm-d-epp"):
        text = page.read_text()
        assert unknown(text, "llm-d-epp") == set(), page.name
        Ingest(instance="it").read(RawPage(0.0, None, 200, text.encode()))


def test_a_sum_that_lacks_a_part_is_withheld() -> None:
    """Calls that came in are those sent on and those refused: without one of them the counter would seem to fall."""
    sent = f"llm_d_epp_request_total{{{MODEL}}} 5\n"
    refused = f'llm_d_epp_request_error_total{{error_code="ResourceExhausted",{MODEL}}} NaN\n'
    assert gaps(sent + refused)["llm_gateway_calls_total"][0] == "missing"
    assert not of(canonical(sent + refused), "llm_gateway_calls_total")
