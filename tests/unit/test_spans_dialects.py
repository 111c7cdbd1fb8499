"""Whose spans are understood: each sender's own names, how its requests end, and one request for one call."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from llmvitals.settings import Spans
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.dialects import DIALECTS
from llmvitals.telemetry.spans.model import Batch, Ended, Request, Vantage
from llmvitals.telemetry.spans.sound import REFUSALS
from support import otlp

ROOT = Path(__file__).resolve().parents[2]
Value = otlp.Value


def read(*spans: Span, scope: str) -> Batch:
    return decode(otlp.body(spans, scope=scope, resource={"service.name": "it"}), Spans())


def only(*spans: Span, scope: str, other: int = 0) -> Request:
    batch = read(*spans, scope=scope)
    assert (batch.other, batch.refused) == (other, {})
    (request,) = batch.sent[0].requests
    return request


def none(*spans: Span, scope: str) -> bool:
    batch = read(*spans, scope=scope)
    return (batch.other, batch.refused, batch.sent) == (len(spans), {}, ())


# -- vLLM -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["vllm.llm_engine", "vllm.tracing.otel", ""])
def test_vllm_is_known_by_its_tracer(scope: str) -> None:
    assert only(otlp.vllm_span(), scope=scope).dialect == "vllm"


def test_other_senders_may_name_a_span_llm_request_too() -> None:
    theirs = otlp.span("llm_request", values={"gen_ai.usage.input_tokens": 3, "gen_ai.request.model": "m"})
    assert none(theirs, otlp.vllm_span(), scope="livekit-agents")
    assert none(theirs, scope="vllm.llm_engine")  # not of the kind SERVER


def test_vllm_v0_tells_the_model_and_tokens_of_all_sequences() -> None:
    span = otlp.vllm_span(
        prefill=None,
        decode=None,
        n=3,
        output=33,
        gen_ai__response__model="old-chat",
        gen_ai__usage__num_sequences=3,
        gen_ai__latency__time_in_scheduler=0.01,
        gen_ai__latency__time_in_model_forward=0.4,
        gen_ai__latency__time_in_model_execute=0.5,
    )
    request = only(span, scope="vllm.llm_engine")
    assert (request.model, request.sequences, request.output_tokens) == ("old-chat", 3, 33)
    assert (request.ttft, request.queue, request.e2e) == (0.25, 0.0625, 0.75)
    assert (request.prefill, request.decode) == (None, None)
    assert request.tpot is None  # the time is the longest sequence's, the tokens are everybody's


def test_vllm_v0_with_one_sequence_tells_the_time_per_token() -> None:
    span = otlp.vllm_span(prefill=None, decode=None, gen_ai__usage__num_sequences=1)
    assert only(span, scope="vllm.llm_engine").tpot == 0.05  # (0.75 - 0.25) / 10


def test_embeddings_that_vllm_traces_are_no_generations() -> None:
    assert none(otlp.vllm_span(output=0, prefill=-1_000.0, decode=0.0), scope="vllm.tracing.otel")


# -- TensorRT-LLM -----------------------------------------------------------------------------------------------------


def trtllm(finish: str | None = '["stop"]', **told: Value | None) -> Span:
    values: dict[str, Value | None] = {
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.n": 1,
        "gen_ai.request.id": "17",
        "gen_ai.usage.prompt_tokens": 100,
        "gen_ai.usage.completion_tokens": 11,
        "gen_ai.latency.time_to_first_token": 0.25,
        "gen_ai.latency.e2e": 0.75,
        "gen_ai.latency.time_in_queue": 0.0625,
        "gen_ai.latency.kv_cache_transfer_time": 0.03125,
        "gen_ai.response.finish_reasons": finish,
    }
    return otlp.span(
        "llm_request", kind=otlp.SERVER, values=values | {k.replace("__", "."): v for k, v in told.items()}
    )


def test_trtllm_tells_of_a_request() -> None:
    request = only(trtllm(), scope="trt.llm")
    assert (request.dialect, request.vantage, request.ended) == ("trtllm", Vantage.ENGINE, Ended.OK)
    assert (request.ttft, request.queue, request.e2e, request.tpot) == (0.25, 0.0625, 0.75, 0.05)
    assert (request.prefill, request.decode) == (None, None)
    assert (request.prompt_tokens, request.output_tokens) == (100, 11)


def test_a_time_that_trtllm_does_not_have_is_not_known() -> None:
    request = only(
        trtllm(gen_ai__latency__time_to_first_token=-1, gen_ai__latency__time_in_queue=-1.0), scope="trt.llm"
    )
    assert (request.ttft, request.queue, request.tpot) == (None, None, None)
    absent_e2e = only(trtllm(gen_ai__latency__e2e=-1), scope="trt.llm")
    assert absent_e2e.e2e == 1.0  # the span's own length


def test_no_token_is_no_generation_of_trtllm_unless_it_was_cut() -> None:
    assert none(trtllm(gen_ai__usage__completion_tokens=0), scope="trt.llm")
    assert only(trtllm('["cancelled"]', gen_ai__usage__completion_tokens=0), scope="trt.llm").ended is Ended.LEFT


def test_handlers_of_the_disaggregated_server_are_no_requests_of_an_engine() -> None:
    handlers = [otlp.span(name, kind=otlp.SERVER) for name in ("openai_chat", "openai_completion")]
    assert none(*handlers, scope="trt.llm")


@pytest.mark.parametrize(
    ("finish", "ended"),
    [
        ('["stop"]', Ended.OK),
        ('["length"]', Ended.OK),
        ('["cancelled"]', Ended.LEFT),
        ('["timeout"]', Ended.ERROR),
        (None, Ended.OK),
    ],
)
def test_trtllm_tells_how_it_ended(finish: str | None, ended: Ended) -> None:
    assert only(trtllm(finish), scope="trt.llm").ended is ended


# -- SGLang -----------------------------------------------------------------------------------------------------------


def sglang(
    name: str = " Req 93ed8736", finish: str = '["stop"]', module: str | None = "sglang::request", **told: Value
) -> Span:
    values: dict[str, Value | None] = {
        "rid": "93ed8736aa",
        "module": module,
        "gen_ai.usage.completion_tokens": 11,
        "gen_ai.usage.prompt_tokens": 100,
        "gen_ai.usage.cached_tokens": 64,
        "gen_ai.request.id": "93ed8736aa",
        "gen_ai.response.model": "served",
        "gen_ai.response.finish_reasons": finish,
        "gen_ai.latency.time_to_first_token": 0.25,
        "gen_ai.latency.e2e": 0.75,
        "gen_ai.latency.time_in_model_decode": 0.5,
        "gen_ai.latency.time_in_model_inference": 0.70,
        "gen_ai.latency.time_in_model_prefill": 0.20,
    }
    for key, value in told.items():
        values[key.replace("__", ".")] = value
    return otlp.span(name, values=values)


def test_the_root_span_of_sglang_is_the_request_and_its_stages_are_none() -> None:
    root = sglang()
    parent = root.span_id.hex()
    thread = otlp.span("Tokenizer(host:01234567 | pid:42)", parent=parent, values={"pid": 42})
    stages = [otlp.span(name, parent=thread.span_id.hex()) for name in ("tokenize", "prefill_waiting", "decode_loop")]
    request = only(*stages, thread, root, scope="sglang server", other=4)
    assert (request.dialect, request.vantage, request.model) == ("sglang", Vantage.ENGINE, "served")
    assert (request.ttft, request.e2e, request.decode, request.tpot) == (0.25, 0.75, 0.5, 0.05)
    assert (request.prompt_tokens, request.output_tokens) == (100, 11)
    # its "prefill" begins when the request is sent to the scheduler, whose queue is in it
    assert (request.queue, request.prefill) == (None, None)


@pytest.mark.parametrize("name", [" Req 93ed8736", "prefill Req 93ed8736", "decode Req 1", "Req "])
def test_roots_of_sglang_go_by_their_role(name: str) -> None:
    assert only(sglang(name), scope="sglang server").output_tokens == 11


def test_the_first_sglang_that_traced_told_only_how_long_a_request_took() -> None:
    room = otlp.span("Bootstrap Room 0x0", values={"bootstrap_room": "0x0"})
    root = otlp.span(" Req 93ed8736", parent=room.span_id.hex(), seconds=0.5, values={"rid": "93ed8736aa"})
    request = only(root, room, scope="sglang server", other=1)
    assert (request.e2e, request.ttft, request.output_tokens) == (0.5, None, None)


def test_other_modules_of_sglang_trace_under_the_same_name() -> None:
    assert none(sglang(module="sglang::hicache"), scope="sglang server")


def test_embeddings_that_sglang_traces_are_no_generations() -> None:
    span = otlp.span(" Req 1", values={"module": "sglang::request", "gen_ai.usage.prompt_tokens": 9})
    assert none(span, scope="sglang server")


def test_an_aborted_request_of_sglang_was_left() -> None:
    request = only(sglang(finish='["abort"]', gen_ai__usage__completion_tokens=0), scope="sglang server")
    assert request.ended is Ended.LEFT


# -- gateways and clients ---------------------------------------------------------------------------------------------


def test_a_server_span_is_a_gateways_and_a_client_span_is_a_clients() -> None:
    server = only(otlp.server_span(e2e=2.0, ttft=0.5, output=16), scope="chat-gateway")
    assert (server.dialect, server.vantage, server.ended) == ("genai", Vantage.GATEWAY, Ended.OK)
    assert (server.ttft, server.e2e, server.model) == (0.5, 2.0, "small-chat")
    assert server.tpot == 0.1  # (2.0 - 0.5) / 15
    client = only(otlp.client_span(e2e=2.0), scope="opentelemetry.instrumentation.openai_v2")
    assert (client.vantage, client.e2e) == (Vantage.CLIENT, 2.0)


def test_older_names_of_the_conventions_are_read() -> None:
    span = otlp.span(
        "openai.chat",
        kind=otlp.CLIENT,
        values={
            "llm.request.type": "chat",
            "gen_ai.system": "OpenAI",
            "gen_ai.response.model": "m-0613",
            "gen_ai.usage.prompt_tokens": 7,
            "gen_ai.usage.completion_tokens": 5,
            "gen_ai.server.time_to_first_token": 0.5,
            "http.status_code": 200,
        },
    )
    request = only(span, scope="opentelemetry.instrumentation.openai.v1")
    assert (request.model, request.prompt_tokens, request.output_tokens, request.ttft) == ("m-0613", 7, 5, 0.5)


def test_todays_names_count_before_older_ones_and_the_kits_own_before_both() -> None:
    span = otlp.server_span(
        prompt=100,
        ttft=0.25,
        gen_ai__usage__prompt_tokens=1,
        gen_ai__response__model="snapshot",
        llm__time_to_first_token=0.5,
    )
    span.attributes.sort(key=lambda one: one.key, reverse=True)
    request = only(span, scope="x")
    assert (request.prompt_tokens, request.model, request.ttft) == (100, "small-chat", 0.5)


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content", "Chat"])
def test_generations_are_requests(operation: str) -> None:
    assert only(otlp.server_span(operation=operation), scope="x").output_tokens == 11


@pytest.mark.parametrize("operation", ["embeddings", "execute_tool", "invoke_agent", "rerank", None])
def test_other_operations_and_plain_http_spans_are_none(operation: str | None) -> None:
    assert none(otlp.server_span(operation=operation), otlp.client_span(operation=operation), scope="x")


@pytest.mark.parametrize("kind", [0, otlp.INTERNAL, 4, 5, 77])
def test_spans_of_other_kinds_are_none(kind: int) -> None:
    assert none(otlp.server_span(kind=kind), scope="x")


def test_several_choices_tell_no_time_per_token() -> None:
    request = only(otlp.server_span(gen_ai__request__choice__count=4), scope="x")
    assert (request.sequences, request.output_tokens, request.tpot) == (4, 11, None)


@pytest.mark.parametrize(
    ("given", "ended"),
    [
        ({"http": 200}, Ended.OK),
        ({"http": 200, "status": otlp.OK}, Ended.OK),
        ({"http": None}, Ended.OK),
        ({"http": 400}, Ended.CLIENT_ERROR),
        ({"http": 404}, Ended.CLIENT_ERROR),
        ({"http": 429}, Ended.REFUSED),
        ({"http": 503}, Ended.REFUSED),
        ({"http": 499}, Ended.LEFT),
        ({"http": 500}, Ended.ERROR),
        ({"http": 504, "status": otlp.ERROR}, Ended.ERROR),
        ({"http": None, "http__status_code": 429}, Ended.REFUSED),
        ({"http": 200, "error": "stream_error"}, Ended.ERROR),  # inside the stream
        ({"http": 200, "status": otlp.ERROR}, Ended.ERROR),
        ({"http": 200, "error": "client_disconnected"}, Ended.LEFT),
        ({"http": 200, "error": "asyncio.exceptions.CancelledError", "status": otlp.ERROR}, Ended.LEFT),
        ({"http": 200, "error": "starlette.requests.ClientDisconnect"}, Ended.LEFT),
        ({"http": 503, "error": "client_disconnected"}, Ended.LEFT),
        ({"http": 400, "error": "_OTHER", "status": otlp.ERROR}, Ended.CLIENT_ERROR),
        ({"http": None, "error": "429"}, Ended.REFUSED),
        ({"http": None, "error": "503"}, Ended.REFUSED),
        ({"http": None, "error": "500", "status": otlp.ERROR}, Ended.ERROR),
        ({"http": None, "error": "422"}, Ended.CLIENT_ERROR),
        ({"http": None, "error": "openai.RateLimitError", "status": otlp.ERROR}, Ended.REFUSED),
        ({"http": None, "error": "openai.BadRequestError"}, Ended.CLIENT_ERROR),
        ({"http": None, "error": "java.net.UnknownHostException"}, Ended.ERROR),
        ({"http": None, "error": ""}, Ended.OK),
    ],
)
def test_how_a_call_ended(given: dict[str, object], ended: Ended) -> None:
    assert only(otlp.server_span(**given), scope="x").ended is ended  # type: ignore[arg-type]


# -- one call, several layers -----------------------------------------------------------------------------------------


def test_a_call_that_two_layers_of_a_client_trace_is_one_request() -> None:
    outer = otlp.client_span(e2e=2.0, ttft=None, prompt=None, output=None, tenant="acme")
    trace, own = outer.trace_id.hex(), outer.span_id.hex()
    inner = otlp.client_span(trace=trace, parent=own, start=otlp.START + 0.5, e2e=1.25, ttft=0.25, model="alias")
    request = only(inner, outer, scope="x", other=1)
    assert (request.span_id, request.e2e, request.tenant, request.model) == (own, 2.0, "acme", "small-chat")
    assert (request.prompt_tokens, request.output_tokens) == (100, 11)
    assert request.ttft == 0.75  # as the outer one saw it


def test_a_gateway_and_its_call_upstream_are_two_vantages_of_one_request() -> None:
    server = otlp.server_span()
    client = otlp.client_span(trace=server.trace_id.hex(), parent=server.span_id.hex())
    (sent,) = read(client, server, scope="gateway").sent
    assert sorted(one.vantage for one in sent.requests) == [Vantage.CLIENT, Vantage.GATEWAY]


def test_calls_of_an_agent_are_each_a_request() -> None:
    agent = otlp.client_span(operation="invoke_agent")
    trace, own = agent.trace_id.hex(), agent.span_id.hex()
    calls = [otlp.client_span(trace=trace, parent=own) for _ in range(3)]
    batch = read(*calls, agent, scope="x")
    assert (len(batch.sent[0].requests), batch.other) == (3, 1)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 40])
def test_spans_in_a_ring_are_counted_all(count: int) -> None:
    ids = [f"{i + 1:016x}" for i in range(count)]
    ring = [otlp.client_span(trace="ab" * 16, own=own, parent=ids[i - 1]) for i, own in enumerate(ids)]
    batch = read(*ring, scope="x")
    assert (len(batch.sent[0].requests), batch.other) == (count, 0)


def test_layers_deeper_than_calls_go_lose_nothing() -> None:
    ids = [f"{i + 1:016x}" for i in range(300)]
    chain = [otlp.client_span(trace="ab" * 16, own=own, parent=ids[i - 1] if i else "") for i, own in enumerate(ids)]
    batch = read(*chain, scope="x")
    assert len(batch.sent[0].requests) + batch.other == 300


# -- LiteLLM ----------------------------------------------------------------------------------------------------------

PROXY = "Received Proxy Server Request"


def litellm_call(
    parent: Span | None = None, *, name: str = "litellm_request", seconds: float = 0.75, **told: Value
) -> Span:
    """Attributes that set_attributes writes with message logging off."""
    values: dict[str, Value | None] = {
        "metadata.user_api_key_team_alias": "acme",
        "gen_ai.request.model": "hosted_vllm/small-chat",
        "llm.request.type": "acompletion",
        "gen_ai.system": "hosted_vllm",
        "llm.is_streaming": "True",
        "gen_ai.response.model": "small-chat",
        "gen_ai.usage.output_tokens": 11,
        "gen_ai.usage.input_tokens": 100,
    }
    values |= {key.replace("__", "."): value for key, value in told.items()}
    return otlp.span(
        name,
        trace=parent.trace_id.hex() if parent else None,
        parent=parent.span_id.hex() if parent else "",
        start=otlp.START + 0.125,
        seconds=seconds,
        values=values,
        status=otlp.ERROR if "error.code" in values else otlp.OK,
    )


def litellm_raw(parent: Span) -> Span:
    return otlp.span(
        "raw_gen_ai_request",
        trace=parent.trace_id.hex(),
        parent=parent.span_id.hex(),
        values={"llm.hosted_vllm.model": "small-chat", "llm.hosted_vllm.usage": "{}"},
    )


@pytest.mark.parametrize("kind", [otlp.SERVER, otlp.INTERNAL])
def test_the_two_spans_of_litellms_proxy_are_one_request(kind: int) -> None:
    proxy = otlp.span(PROXY, kind=kind, seconds=1.0)
    call = litellm_call(proxy)
    request = only(call, litellm_raw(call), proxy, scope="litellm", other=2)
    assert (request.dialect, request.vantage) == ("litellm", Vantage.GATEWAY)
    assert (request.span_id, request.e2e, request.ended) == (proxy.span_id.hex(), 1.0, Ended.OK)
    assert (request.model, request.prompt_tokens, request.output_tokens) == ("hosted_vllm/small-chat", 100, 11)
    assert request.ttft is None


def test_a_proxy_span_that_holds_the_call_itself_is_the_request() -> None:
    proxy = litellm_call(name=PROXY, seconds=1.0)
    proxy.kind = otlp.SERVER  # type: ignore[assignment]
    request = only(litellm_raw(proxy), proxy, scope="litellm", other=1)
    assert (request.vantage, request.e2e, request.output_tokens) == (Vantage.GATEWAY, 1.0, 11)


def test_both_spans_with_the_call_are_still_one_request() -> None:
    proxy = litellm_call(name=PROXY, seconds=1.0)
    proxy.kind = otlp.SERVER  # type: ignore[assignment]
    request = only(litellm_call(proxy), proxy, scope="litellm", other=1)
    assert (request.vantage, request.e2e) == (Vantage.GATEWAY, 1.0)


def test_a_proxy_span_without_a_call_may_be_a_management_route() -> None:
    assert none(otlp.span(PROXY, kind=otlp.SERVER), scope="litellm")


def test_a_proxy_span_that_cannot_be_believed_and_tells_of_no_call_is_no_lost_request() -> None:
    assert none(otlp.span(PROXY, kind=otlp.SERVER, seconds=-1.0), scope="litellm")


def test_attempts_of_one_call_are_one_request_that_ended_as_the_last() -> None:
    proxy = otlp.span(PROXY, kind=otlp.SERVER, seconds=2.0)
    failed = litellm_call(proxy, seconds=0.25, error__code="500")
    request = only(failed, litellm_call(proxy, seconds=1.5), proxy, scope="litellm", other=2)
    assert (request.ended, request.output_tokens) == (Ended.OK, 11)


@pytest.mark.parametrize(
    ("code", "error", "ended"),
    [
        ("429", "RateLimitError", Ended.REFUSED),
        ("400", "BadRequestError", Ended.CLIENT_ERROR),
        ("500", "InternalServerError", Ended.ERROR),
        ("insufficient_quota", "RateLimitError", Ended.REFUSED),
        ("429", "APIError", Ended.REFUSED),
    ],
)
def test_a_call_of_litellm_that_failed(code: str, error: str, ended: Ended) -> None:
    proxy = otlp.span(PROXY, kind=otlp.SERVER, status=otlp.ERROR)
    call = litellm_call(proxy, error__code=code, error__type=error)
    assert only(call, proxy, scope="litellm", other=1).ended is ended


def test_litellm_as_a_library_is_a_client_whatever_the_call_is_named() -> None:
    request = only(litellm_call(name="summarise"), scope="litellm")
    assert (request.vantage, request.e2e) == (Vantage.CLIENT, 0.75)


def test_embeddings_guardrails_and_services_of_litellm_are_no_requests() -> None:
    spans = [
        litellm_call(llm__request__type="aembedding"),
        otlp.span("guardrail", values={"openinference.span.kind": "GUARDRAIL"}),
        otlp.span("redis", values={"call_type": "get", "service": "redis"}),
        otlp.span("Failed Proxy Server Request", values={"exception": "x"}, status=otlp.ERROR),
    ]
    assert none(*spans, scope="litellm")


def test_the_second_tracing_of_litellm_follows_the_conventions() -> None:
    server = otlp.span("POST /v1/chat/completions", kind=otlp.SERVER, values={"http.response.status_code": 200})
    call = otlp.client_span(trace=server.trace_id.hex(), parent=server.span_id.hex(), ttft=0.25)
    request = only(call, server, scope="litellm", other=1)
    assert (request.vantage, request.ttft) == (Vantage.CLIENT, 0.25)


def test_each_dialect_reads_each_field_under_names_of_its_own() -> None:
    for dialect in DIALECTS:
        names = [name for one in dialect.fields for name in one.attributes]
        assert len(names) == len(set(names)), dialect.name
        assert len({one.name for one in dialect.fields}) == len(dialect.fields), dialect.name


def test_the_page_about_requests_names_all_that_is_read_and_all_that_is_refused() -> None:
    page = (ROOT / "docs" / "requests.md").read_text(encoding="utf-8")
    names = {name for dialect in DIALECTS for one in dialect.fields for name in one.attributes}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert {reason for reason in REFUSALS if f"| `{reason}` |" not in page} == set()
