"""Traps of NVIDIA Dynamo's pages: a queue that is none, models in two spellings, a prefix of one's own, copies of engines."""

from __future__ import annotations

import pytest

from llmvitals.telemetry.gateways.dynamo import document
from support.page_text import gap, read, values

GENERATE = 'dynamo_component="{part}",dynamo_endpoint="generate",dynamo_namespace="d"'


def front(name: str, value: float, model: str = "m", more: str = "") -> str:
    return f'dynamo_frontend_{name}{{model="{model}"{more}}} {value}\n'


CALL = front("inflight_requests", 3)


# -- front end -------------------------------------------------------------------------------------------------------
def test_t44_queued_requests_are_no_queue() -> None:
    snapshot = read(CALL + front("queued_requests", 90))
    assert not values(snapshot, "llm_gateway_queue_waiting")
    assert "first token" in gap(snapshot, "llm_gateway_queue_waiting")[1]
    assert values(snapshot, "llm_gateway_calls_running") == [3.0]


def test_two_names_of_calls_in_hand_are_not_added() -> None:
    assert values(read(CALL + front("active_requests", 3)), "llm_gateway_calls_running") == [3.0]


def test_t44_models_in_two_spellings_are_one() -> None:
    page = front("output_tokens_total", 50, "acme/big") + front("model_context_length", 4096, "Acme/Big")
    assert values(read(page), "llm_gateway_tokens_total", model="Acme/Big") == [50.0]
    assert len(values(read(page), "llm_gateway_tokens_total")) == 1


def test_two_models_that_differ_in_case_alone_are_not_guessed_at() -> None:
    page = front("output_tokens_total", 50, "a") + front("model_context_length", 1, "A")
    assert values(read(page), "llm_gateway_tokens_total", model="A") == [50.0]
    both = read(page + front("model_context_length", 1, "a"))
    assert values(both, "llm_gateway_tokens_total", model="a") == [50.0]


def test_t44_a_prefix_of_one_s_own_is_understood() -> None:
    page = CALL + front("model_max_num_seqs", 8) + "dynamo_frontend_disconnected_clients 0\n"
    renamed = page.replace("dynamo_frontend_", "edge_")
    assert read(renamed).samples == read(page).samples


@pytest.mark.parametrize(
    "body",
    [
        b"edge_disconnected_clients 0\n",
        b"vllm:num_requests_running 1\nx_disconnected_clients 0\n",
        b"dynamo_frontend_disconnected_clients 0\ndynamo_frontend_model_max_num_seqs 1\n",
    ],
)
def test_another_page_is_not_renamed(body: bytes) -> None:
    assert document(body) is None


def test_t44_what_the_first_worker_said_of_itself_is_no_capacity() -> None:
    snapshot = read(CALL + front("model_total_kv_blocks", 20000) + front("model_kv_cache_block_size", 16))
    assert not [s for s in snapshot.samples if s.name.startswith(("llm_kv_", "llm_max_"))]


def test_t10_a_gauge_of_clients_that_left_is_no_counter() -> None:
    before, after = (read(f"{CALL}dynamo_frontend_disconnected_clients {n}\n") for n in (0, 40))
    assert before.samples == after.samples


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (',status="success"', "2xx"),
        (',status="error"', "error"),
        (',status="error",error_type="overload"', "503"),
        (',status="error",error_type="not_found"', "404"),
        (',status="error",error_type="internal"', "500"),
        (',status="error",error_type="of tomorrow"', "error"),
    ],
)
def test_every_call_that_has_ended_has_a_status(more: str, status: str) -> None:
    assert values(read(CALL + front("requests_total", 4, more=more)), "llm_gateway_requests_total", status=status) == [
        4.0
    ]


def test_endpoints_and_kinds_of_calls_are_added() -> None:
    page = "".join(
        front("requests_total", n, more=f',endpoint="{end}",request_type="{how}",status="success"')
        for end, how, n in (
            ("chat_completions", "stream", 5),
            ("chat_completions", "unary", 6),
            ("completions", "unary", 7),
        )
    )
    assert values(read(page), "llm_gateway_requests_total") == [18.0]


def test_nobody_has_called_yet_is_a_gap_and_not_zero() -> None:
    snapshot = read(front("model_context_length", 4096))
    assert gap(snapshot, "llm_gateway_requests_total")[0] == "no-traffic"
    assert not values(snapshot, "llm_gateway_requests_total")


# -- workers ---------------------------------------------------------------------------------------------------------
def test_requests_in_the_handler_s_hands_are_neither_running_nor_waiting() -> None:
    inside = GENERATE.format(part="backend")
    page = f"dynamo_component_inflight_requests{{{inside}}} 12\n"
    page += f"dynamo_component_request_duration_seconds_count{{{inside}}} 3\n"
    snapshot = read(page)
    assert not values(snapshot, "llm_requests_running")
    assert "run or wait" in gap(snapshot, "llm_requests_running")[1]
    assert values(snapshot, "llm_requests_finished_total") == [3.0]


def test_endpoints_that_serve_no_requests_are_left_out() -> None:
    other = GENERATE.format(part="backend").replace("generate", "load_lora")
    page = f"dynamo_component_request_duration_seconds_count{{{GENERATE.format(part='backend')}}} 3\n"
    page += f"dynamo_component_request_duration_seconds_count{{{other}}} 50\n"
    assert values(read(page), "llm_request_e2e_seconds_count") == [3.0]


@pytest.mark.parametrize("name", ["gpu_cache_usage_percent", "kvstats_gpu_cache_usage_percent"])
def test_t2_percent_is_a_ratio(name: str) -> None:
    page = f'dynamo_component_{name}{{dynamo_component="backend",model="m"}} 0.4\n'
    assert values(read(page), "llm_kv_usage_ratio") == [0.4]


def test_no_blocks_means_that_the_engine_did_not_say() -> None:
    page = 'dynamo_component_uptime_seconds 5\ndynamo_component_total_blocks{dynamo_component="backend"} 0\n'
    snapshot = read(page)
    assert not values(snapshot, "llm_kv_blocks")
    assert gap(snapshot, "llm_kv_blocks")[0] == "no-traffic"


def test_a_worker_s_component_is_its_role() -> None:
    page = f"dynamo_component_requests_total{{{GENERATE.format(part='prefill')}}} 9\n"
    assert values(read(page), "llm_engine_role", role="prefill") == [1.0]


def test_an_engine_beside_it_is_read_instead() -> None:
    page = f"dynamo_component_request_duration_seconds_count{{{GENERATE.format(part='backend')}}} 3\n"
    snapshot = read(page + 'vllm:num_requests_running{engine="0",model_name="m"} 2\n')
    assert values(snapshot, "llm_requests_running", engine="vllm") == [2.0]
    assert not values(snapshot, "llm_request_e2e_seconds_count")
