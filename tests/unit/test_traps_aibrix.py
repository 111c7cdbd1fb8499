"""What misleads on AIBrix's pages: ranges that look like buckets, failures counted by stage, calls in hand twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gateway_pages import canonical, gaps, unknown

OWN = 'gateway="aibrix",model="m"'
PAGE = (Path(__file__).resolve().parents[1] / "golden" / "aibrix" / "pages" / "made.prom").read_text(encoding="utf-8")


def test_ranges_are_no_histogram() -> None:
    """Not cumulative, and without a sum: read as buckets they would put nearly every call into the last one."""
    ranges = "".join(
        f'gateway_{what}_bucket_total{{bucket="{span}",model="m"}} 5\n'
        for what in ("ttft", "tpot", "total_time", "routing_time", "prompt_token")
        for span in ("0-1ms", "1-2ms", "5000ms+")
    )
    page = ranges + 'gateway_in_flight_requests{gateway_pod="g"} 3\n'
    found = canonical(page)
    assert not any("_bucket" in name or "_count" in name for name in found)
    kind, why = gaps(page)["llm_gateway_ttft_seconds"]
    assert (kind, "ranges" in why) == ("unsupported", True)
    assert unknown(page, "aibrix") == set()


def test_the_closing_of_a_failed_calls_stream_is_no_second_failure() -> None:
    fail = 'gateway_request_model_fail_total{{model="m",status="s",status_code="{}"}} {}\n'
    found = canonical(fail.format(429, 7) + fail.format(499, 7))
    calls = {name: value for name, value in found.items() if name.startswith("llm_gateway_requests_total")}
    assert calls == {f'llm_gateway_requests_total{{{OWN},status="429"}}': 7}


@pytest.mark.parametrize("code", ["1", "13", "14", ""])
def test_a_number_of_grpc_is_no_http_status(code: str) -> None:
    found = canonical(f'gateway_request_model_fail_total{{model="m",status_code="{code}"}} 7\n')
    assert found[f'llm_gateway_requests_total{{{OWN},status="error"}}'] == 7


def test_calls_in_hand_are_counted_once() -> None:
    total = 'gateway_in_flight_requests{gateway_pod="g"} 9\n'
    by_model = "".join(f'gateway_model_in_flight_requests{{gateway_pod="g",model="{m}"}} 4\n' for m in "mn")
    running = [v for name, v in canonical(total + by_model).items() if name.startswith("llm_gateway_calls_running")]
    assert running == [4, 4]
    assert canonical(total)['llm_gateway_calls_running{gateway="aibrix"}'] == 9


def test_adapters_and_pods_of_one_model_are_added() -> None:
    page = "".join(f'gateway_input_tokens_total{{model="m",pod="p{i}",lora_adapter="l{i}"}} 10\n' for i in range(3))
    found = canonical(page + 'gateway_in_flight_requests{gateway_pod="g"} 0\n')
    assert found[f"llm_gateway_tokens_total{{{OWN}}}"] == 30
    assert found[f"llm_gateway_prompt_tokens_total{{{OWN}}}"] == 30


def test_nothing_on_the_page_is_unknown() -> None:
    assert unknown(PAGE, "aibrix") == set()
