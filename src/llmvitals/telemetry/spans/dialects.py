"""Whose spans are understood: tables of the attributes that engines, gateways and clients write, and what each becomes.

A dialect is found by the tracer's name (scope), the span's name and its kind; the first row that fits takes the span. It is
a request when the word that its ``asks`` field holds is one of ``operations``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llmvitals.telemetry.spans import attributes as read
from llmvitals.telemetry.spans.model import Vantage

INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans, as OTLP numbers them (trace.proto, Span.SpanKind)."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that a span may tell. ``attributes``: names it goes by; the first that is there counts. Times are in seconds."""

    name: str
    attributes: tuple[str, ...]
    read: Callable[[object], object]


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The words of one kind of sender.

    ``scope``, ``span``: the whole name of the tracer and of the span, None any. ``kinds``: the vantage by kind of span.
    ``operations``: words of the field ``asks`` that mean a generation, empty where the names alone say so; ``unsaid``: a span
    without the word is one too. ``absent``: a time that stands for none. ``generates``: where no output tokens came of it, it was
    no generation (engines trace embeddings under the same name). ``shell``: it may tell nothing itself of the call inside it.
    """

    name: str
    kinds: Mapping[int, Vantage]
    fields: tuple[Field, ...]
    scope: re.Pattern[str] | None = None
    span: re.Pattern[str] | None = None
    operations: frozenset[str] = field(default_factory=frozenset)
    unsaid: bool = False
    absent: float | None = None
    generates: bool = False
    shell: bool = False

    def fits(self, scope: str, name: str, kind: int) -> bool:
        """Whether spans of this name are this dialect's."""
        return (
            kind in self.kinds
            and (self.scope is None or self.scope.fullmatch(scope) is not None)
            and (self.span is None or self.span.fullmatch(name) is not None)
        )


def _engine(*more: Field) -> tuple[Field, ...]:
    """What vLLM's names say; TensorRT-LLM and SGLang took them over. All of them are in seconds.

    vLLM: SpanAttributes in vllm/tracing.py, later vllm/tracing/utils.py; what is set: do_tracing in v1/engine/output_processor.py.
    """
    return (
        Field("ttft", ("gen_ai.latency.time_to_first_token",), read.seconds),
        Field("e2e", ("gen_ai.latency.e2e",), read.seconds),
        Field("queue", ("gen_ai.latency.time_in_queue",), read.seconds),
        # the old names of the conventions stand in all engines; the new ones are read for the day they change
        Field("prompt_tokens", ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"), read.count),
        Field("output_tokens", ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"), read.count),
        Field("model", ("gen_ai.response.model", "gen_ai.request.model"), read.text),
        *more,
    )


_ENGINE = {SERVER: Vantage.ENGINE}

VLLM = Dialect(
    "vllm",
    # scope: "vllm.llm_engine" (init_tracer in v1/engine/async_llm.py), later "vllm.tracing.otel" (seen of 0.32); '' where a
    # collector lost it. Applications name spans llm_request too, of the kind INTERNAL.
    scope=re.compile(r"(vllm.*)?"),
    span=re.compile("llm_request"),
    kinds=_ENGINE,
    generates=True,
    fields=_engine(
        Field("prefill", ("gen_ai.latency.time_in_model_prefill",), read.seconds),
        Field("decode", ("gen_ai.latency.time_in_model_decode",), read.seconds),
        # V0, engine/llm_engine.py: one span for all n sequences, with the tokens of all of them; V1 sends one for each
        Field("sequences", ("gen_ai.usage.num_sequences",), read.count),
    ),
)

TRTLLM = Dialect(
    "trtllm",
    # tensorrt_llm/llmapi/llm.py: init_tracer("trt.llm", ...); attributes: llmapi/otel_tracing.py, later
    # llmapi/tracing.py. Its spans of HTTP handlers (trace_span, kind SERVER) carry none of them and other names.
    scope=re.compile(r"(trt|tensorrt).*"),
    span=re.compile("llm_request"),
    kinds=_ENGINE,
    generates=True,
    absent=-1.0,  # executor/result.py: -1 for a time it has no statistics of
    fields=_engine(Field("finish", ("gen_ai.response.finish_reasons",), read.words)),
)

SGLANG = Dialect(
    "sglang",
    # srt/tracing/trace.py, later srt/observability/trace.py: the root of a request is "{role} Req {rid[:8]}"; spans of threads
    # and stages below it are sent by other processes and so in other exports. Only the root is a request.
    scope=re.compile(r"sglang.*"),
    span=re.compile(r"\s*(\S+ )?Req \S{0,8}"),
    kinds={INTERNAL: Vantage.ENGINE},
    operations=frozenset({"sglang::request", "sglang::"}),
    unsaid=True,  # the older ones had no attribute `module`
    generates=True,
    # time_in_model_prefill runs from dispatch to the first token there (observability/req_time_stats.py): the scheduler's
    # queue is in it, so that it is no prefill
    fields=_engine(
        Field("decode", ("gen_ai.latency.time_in_model_decode",), read.seconds),
        Field("finish", ("gen_ai.response.finish_reasons",), read.words),
        Field("asks", ("module",), read.word),
    ),
)

_CALL = (
    # semantic-conventions-genai, docs/gen-ai/client-inference.md; older names: semantic-conventions up to 1.27 (prompt,
    # completion) and OpenLLMetry (llm.request.type)
    Field("asks", ("gen_ai.operation.name", "llm.request.type", "gen_ai.request.type"), read.word),
    Field("model", ("gen_ai.request.model", "gen_ai.response.model"), read.text),
    Field("prompt_tokens", ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"), read.count),
    Field("output_tokens", ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"), read.count),
    Field("sequences", ("gen_ai.request.choice.count",), read.count),
    Field(
        "ttft",
        (
            "llm.time_to_first_token",
            "gen_ai.response.time_to_first_chunk",  # the conventions' own; seconds since the request was sent
            "gen_ai.server.time_to_first_token",  # their metric's name, written on spans by some
        ),
        read.seconds,
    ),
    Field("http", ("http.response.status_code", "http.status_code"), read.status),
    Field("error", ("error.type",), read.word),
)

_GENERATIONS = frozenset({"chat", "text_completion", "generate_content"})

_LITELLM_CALL = (
    *_CALL,
    # ErrorAttributes of litellm/integrations/_types/open_inference.py, LiteLLMError of litellm/integrations/otel/model/semconv.py
    Field("code", ("error.code", "litellm.provider.error.code"), read.status),
)

# call types of litellm/types/utils.py that generate text; with message logging on, gen_ai.operation.name is "chat" for them
_LITELLM_GENERATIONS = _GENERATIONS | {
    *("completion", "acompletion", "atext_completion", "responses", "aresponses", "anthropic_messages"),
    *("agenerate_content", "generate_content_stream", "agenerate_content_stream"),
}

LITELLM_PROXY = Dialect(
    "litellm",
    # proxy/auth/user_api_key_auth.py: a span around every request, INTERNAL first, SERVER later. What is known of the call stands
    # on litellm_request inside it first, later on itself unless USE_OTEL_LITELLM_REQUEST_SPAN is set.
    span=re.compile("Received Proxy Server Request"),
    kinds={SERVER: Vantage.GATEWAY, INTERNAL: Vantage.GATEWAY},
    operations=_LITELLM_GENERATIONS,
    shell=True,
    fields=_LITELLM_CALL,
)

LITELLM_CALL = Dialect(
    "litellm",
    # named litellm_request or as the caller's generation_name says; raw_gen_ai_request, guardrails and services in the same
    # scope carry no call type
    scope=re.compile(r"litellm.*"),
    kinds={INTERNAL: Vantage.CLIENT, CLIENT: Vantage.CLIENT},
    operations=_LITELLM_GENERATIONS,
    fields=_LITELLM_CALL,
)

GENAI = Dialect(
    "genai",
    kinds={SERVER: Vantage.GATEWAY, CLIENT: Vantage.CLIENT},
    operations=_GENERATIONS | {"completion"},  # OpenLLMetry's word
    fields=_CALL,
)

DIALECTS: tuple[Dialect, ...] = (VLLM, TRTLLM, SGLANG, LITELLM_PROXY, LITELLM_CALL, GENAI)
"""The first that fits takes a span."""
