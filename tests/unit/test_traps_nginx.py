"""What misleads on NGINX's pages: idle connections are no queue, requests without status, summaries, hosts that add up."""

from __future__ import annotations

import pytest

from llmvitals.errors import PageError
from llmvitals.telemetry.gateways.nginx import ADAPTER
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.gateway_pages import canonical, gaps, shared_pages, unknown

STUB = "Active connections: 41 \nserver accepts handled requests\n 25 25 270 \nReading: 2 Writing: 9 Waiting: 30 \n"


def names(found: dict[str, float]) -> set[str]:
    return {name.partition("{")[0] for name in found}


def test_waiting_connections_are_idle_and_no_queue() -> None:
    page = "nginx_connections_active 41\nnginx_connections_waiting 30\nnginx_connections_writing 9\n"
    found = canonical(page)
    assert "llm_gateway_queue_waiting" not in names(found)
    assert 30 not in found.values()
    assert "idle" in gaps(page)["llm_gateway_queue_waiting"][1]


def test_the_status_page_does_not_count_itself_as_a_call_in_hand() -> None:
    assert canonical("nginx_connections_writing 9\n")['llm_gateway_calls_running{gateway="nginx"}'] == 8


def test_requests_without_a_status_are_no_answers_by_status() -> None:
    found = canonical("nginx_http_requests_total 58\nnginx_connections_active 1\n")
    assert found['llm_gateway_calls_total{gateway="nginx"}'] == 58
    assert "llm_gateway_requests_total" not in names(found)


def test_the_same_name_with_a_status_is_one() -> None:
    found = canonical('nginx_http_requests_total{host="a",status="503"} 5\nnginx_metric_errors_total 0\n')
    assert found['llm_gateway_requests_total{gateway="nginx",status="503"}'] == 5
    assert "llm_gateway_calls_total" not in names(found)


def test_the_text_of_stub_status_reads_as_its_exporter() -> None:
    own = '{gateway="nginx"}'
    found = canonical(STUB)
    assert found[f"llm_gateway_calls_total{own}"] == 270
    assert found[f"llm_gateway_connections{own}"] == 41
    assert found[f"llm_gateway_calls_running{own}"] == 8


@pytest.mark.parametrize("cut", [30, 60, len(STUB) - 14])
def test_a_cut_stub_status_is_refused(cut: int) -> None:
    with pytest.raises(PageError, match="stub_status"):
        canonical(STUB[:cut])


def test_an_exporter_whose_nginx_is_down_is_a_target_that_is_down() -> None:
    page = "# TYPE nginx_up gauge\nnginx_up 0\n"
    assert canonical(page)["llm_target_up{}"] == 0
    assert canonical("nginx_up 1\nnginx_http_requests_total 4\n")["llm_target_up{}"] == 1
    kind, why = gaps(page)["llm_gateway_calls_total"]
    assert (kind, "nginx_up" in why) == ("missing", True)
    assert gaps(page)["llm_gateway_tokens_total"][0] == "unsupported", "NGINX never tells it"
    alive = Ingest(instance="it")
    bodies = (b"nginx_up 1\nnginx_connections_active 3\n", page.encode(), b"nginx_up 1\nnginx_connections_active 3\n")
    ups = [
        value
        for body in bodies
        for series, value in alive.snapshot(RawPage(0.0, None, 200, body)).samples.items()
        if series.name == "llm_target_up"
    ]
    assert ups == [1, 0, 1]


def test_clients_that_left_are_told_by_the_exact_status_only() -> None:
    log = 'nginx_http_response_count_total{{method="POST",status="{}"}} {}\n'
    found = canonical(log.format(200, 9) + log.format(499, 4))
    assert found['llm_gateway_disconnects_total{gateway="nginx"}'] == 4
    assert canonical(log.format(200, 9))['llm_gateway_disconnects_total{gateway="nginx"}'] == 0
    by_class = 'nginx_vts_server_requests_total{host="*",code="4xx"} 7\n'
    assert gaps(by_class)["llm_gateway_disconnects_total"][0] == "unsupported"


def test_a_499_without_a_number_is_not_0() -> None:
    log = 'nginx_http_response_count_total{{method="POST",status="{}"}} {}\n'
    page = log.format(200, 9) + log.format(499, "NaN")
    assert gaps(page)["llm_gateway_disconnects_total"][0] == "missing"
    assert "llm_gateway_disconnects_total" not in names(canonical(page))


def test_a_summary_is_no_histogram() -> None:
    log = 'nginx_http_response_count_total{method="POST",status="200"} 9\n'
    found = canonical(log + 'nginx_http_response_time_seconds{method="POST",status="200",quantile="0.99"} 3\n')
    assert "llm_gateway_request_seconds" not in {name.removesuffix("_bucket") for name in names(found)}


def test_lists_of_models_are_no_calls() -> None:
    log = 'nginx_http_response_count_total{{method="{}",status="200"}} {}\n'
    found = canonical(log.format("POST", 9) + log.format("GET", 400))
    assert found['llm_gateway_requests_total{gateway="nginx",status="200"}'] == 9


def test_the_host_that_adds_up_is_not_added_again() -> None:
    page = "".join(
        f'nginx_server_requests{{host="{host}",code="{code}"}} {n}\n'
        for host, code, n in (("a", "5xx", 3), ("b", "5xx", 4), ("*", "5xx", 7), ("*", "total", 90))
    )
    assert canonical(page)['llm_gateway_requests_total{gateway="nginx",status="5xx"}'] == 7
    alone = "".join(line for line in page.splitlines(True) if '"*"' not in line)
    assert canonical(alone)['llm_gateway_requests_total{gateway="nginx",status="5xx"}'] == 7


def test_a_log_exporter_before_its_first_line() -> None:
    assert gaps("nginx_parse_errors_total 0\n")["llm_gateway_requests_total"][0] == "no-traffic"


def test_the_ingress_controller_counts_calls_by_status() -> None:
    own = 'nginx_ingress_controller_requests{{ingress="llm",service="vllm",status="{}",method="POST"}} {}\n'
    found = canonical(own.format(200, 8) + own.format(503, 2))
    assert found['llm_gateway_requests_total{gateway="nginx",status="503"}'] == 2


def test_nothing_on_real_pages_is_unknown() -> None:
    for page in shared_pages("nginx-exporter"):
        body = page.read_bytes()
        read = ADAPTER.document(body) if ADAPTER.document else None
        assert unknown((read or body).decode(), "nginx") == set(), page.name
