"""Bodies of trace exports as senders make them: OTLP protobuf, spans in the shapes of engines and gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

Value = str | bool | int | float | bytes | Sequence[str]

INTERNAL, SERVER, CLIENT = Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT
OK, ERROR = Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR

VLLM_SCOPE = "vllm.tracing.otel"
START = 1_795_957_333.25
"""Unix seconds at which spans start that are not told otherwise; a whole number of binary fractions, so that sums are exact."""

_ids = iter(range(1, 1 << 62))


def trace_id() -> str:
    """A trace id that no other call of this process gave out."""
    return f"{0xA0000000_00000000_00000000_00000000 | next(_ids):032x}"


def span_id() -> str:
    """A span id that no other call of this process gave out."""
    return f"{0xB0000000_00000000 | next(_ids):016x}"


def vllm_resource(pid: int = 12002, **more: Value) -> dict[str, Value]:
    """What a vLLM process says of itself."""
    return {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": "1.45.2",
        "service.instance.id": f"00000000-0000-4000-8000-{pid:012d}",
        "vllm.instrumenting_module_name": "vllm.llm_engine",
        "vllm.process_id": str(pid),
        "service.name": "unknown_service:python3.11",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def body(spans: Sequence[Span] = (), *, resource: Mapping[str, Value] | None = None, scope: str = VLLM_SCOPE) -> bytes:
    """One export of one process through one tracer."""
    return bodies([(vllm_resource() if resource is None else resource, scope, spans)])


def bodies(sent: Sequence[tuple[Mapping[str, Value], str, Sequence[Span]]]) -> bytes:
    """One export of several processes, as a collector batches them: resource, scope, spans of each."""
    export = ExportTraceServiceRequest()
    for resource, scope, spans in sent:
        of_resource = export.resource_spans.add()
        of_resource.resource.attributes.extend(attributes(resource))
        of_scope = of_resource.scope_spans.add()
        of_scope.scope.name = scope
        of_scope.spans.extend(spans)
    return export.SerializeToString()


def attributes(values: Mapping[str, Value | None]) -> list[KeyValue]:
    """Attributes as the SDK encodes them; None leaves one out."""
    return [KeyValue(key=name, value=_any(value)) for name, value in values.items() if value is not None]


def _any(value: Value) -> AnyValue:
    kinds = (
        (bool, "bool_value"),
        (int, "int_value"),
        (float, "double_value"),
        (str, "string_value"),
        (bytes, "bytes_value"),
    )
    for kind, field in kinds:
        if isinstance(value, kind):
            return AnyValue(**{field: value})
    made = AnyValue()
    made.array_value.values.extend(AnyValue(string_value=one) for one in value)  # type: ignore[union-attr]
    return made


def span(
    name: str,
    *,
    kind: int = INTERNAL,
    trace: str | None = None,
    own: str | None = None,
    parent: str = "",
    start: float = START,
    seconds: float = 1.0,
    values: Mapping[str, Value | None] | None = None,
    status: int = 0,
) -> Span:
    """Any span. ``trace``, ``own``, ``parent``: ids in hex, made up where None. ``seconds``: from its start to its end."""
    begin = int(start) * 1_000_000_000 + round(start % 1 * 1e9)  # a float of nanoseconds would be 256 off
    return Span(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        trace_id=bytes.fromhex(trace_id() if trace is None else trace),
        span_id=bytes.fromhex(span_id() if own is None else own),
        parent_span_id=bytes.fromhex(parent),
        start_time_unix_nano=begin,
        end_time_unix_nano=begin + round(seconds * 1e9),
        attributes=attributes(values or {}),
        status=Status(code=status) if status else None,  # type: ignore[arg-type]
    )


def vllm_span(
    *,
    trace: str | None = None,
    own: str | None = None,
    parent: str = "",
    start: float = START,
    ttft: float | None = 0.25,
    queue: float | None = 0.0625,
    prefill: float | None = 0.125,
    decode: float | None = 0.5,
    e2e: float | None = 0.75,
    prompt: int | None = 100,
    output: int | None = 11,
    request: str = "chatcmpl-93ed873689c109d5",
    n: int = 1,
    **more: Value,
) -> Span:
    """A span as vLLM 0.32 sends it for each finished sequence; times in seconds, None leaves an attribute out.

    ``more``: further attributes, with ``__`` for each dot of their names.
    """
    inference = prefill + decode if prefill is not None and decode is not None else None
    return span(
        "llm_request",
        kind=SERVER,
        trace=trace,
        own=own,
        parent=parent,
        start=start,
        seconds=e2e if e2e is not None else 1.0,
        values={
            "gen_ai.latency.time_to_first_token": ttft,
            "gen_ai.latency.e2e": e2e,
            "gen_ai.latency.time_in_queue": queue,
            "gen_ai.usage.prompt_tokens": prompt,
            "gen_ai.usage.completion_tokens": output,
            "gen_ai.latency.time_in_model_prefill": prefill,
            "gen_ai.latency.time_in_model_decode": decode,
            "gen_ai.latency.time_in_model_inference": inference,
            "gen_ai.request.id": request,
            "gen_ai.request.top_p": 1.0,
            "gen_ai.request.max_tokens": 20,
            "gen_ai.request.temperature": 1.0,
            "gen_ai.request.n": n,
            **{name.replace("__", "."): value for name, value in more.items()},
        },
    )


def server_span(
    *,
    name: str = "POST /v1/chat/completions",
    kind: int = SERVER,
    trace: str | None = None,
    own: str | None = None,
    parent: str = "",
    start: float = START,
    e2e: float = 1.0,
    ttft: float | None = 0.3125,
    prompt: int | None = 100,
    output: int | None = 11,
    model: str | None = "small-chat",
    operation: str | None = "chat",
    http: int | None = 200,
    error: str | None = None,
    status: int = 0,
    tenant: str | None = None,
    route: str | None = None,
    **more: Value,
) -> Span:
    """A gateway's span by the GenAI conventions; None leaves an attribute out."""
    return span(
        name,
        kind=kind,
        trace=trace,
        own=own,
        parent=parent,
        start=start,
        seconds=e2e,
        status=status,
        values={
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": prompt,
            "gen_ai.usage.output_tokens": output,
            "gen_ai.response.time_to_first_chunk": ttft,
            "http.response.status_code": http,
            "error.type": error,
            "llm.tenant": tenant,
            "llm.route": route,
            **{name.replace("__", "."): value for name, value in more.items()},
        },
    )


def client_span(**given: object) -> Span:
    """A client's span by the GenAI conventions: :func:`server_span` of the kind CLIENT, which tells no HTTP status."""
    return server_span(**{"name": "chat small-chat", "kind": CLIENT, "http": None, **given})  # type: ignore[arg-type]
