"""The server span of each call, by OpenTelemetry's GenAI conventions. Of prompts and answers it holds numbers, never text."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from llmvitals.instrument.call import Call
from llmvitals.instrument.metrics import SCOPE

W3C = TraceContextTextMapPropagator()
"""How a trace passes through the gateway, whatever its process has set for itself."""

_COMPLETIONS = ("/chat/completions", "/completions")
_LEFT = "client_disconnected"


class Spans:
    """Begins and ends the spans of calls; without a tracer provider they cost little and lead nowhere."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)

    def begin(self, call: Call, headers: Mapping[bytes, bytes]) -> Context:
        """Begin the span of a call below that of its caller; gives the context for what is done for it."""
        carrier = {
            name: value.decode("latin-1")
            for name in ("traceparent", "tracestate")
            if (value := headers.get(name.encode()))
        }
        parent = W3C.extract(carrier)
        operation = _operation(call.route)
        call.span = self._tracer.start_span(
            operation,
            parent,
            SpanKind.SERVER,
            {"gen_ai.operation.name": operation, "llm.route": call.route},
            start_time=call.began,
        )
        return trace.set_span_in_context(call.span, parent)

    def end(self, call: Call, ended: float, error: str) -> None:
        """End it with all that is known of the call, as of ``ended``. ``error``: what kind of thing went wrong, '' for nothing."""
        span = call.span
        if span is None:
            return
        if span.is_recording():
            _describe(span, call, _LEFT if call.left else error)
        span.end(call.began + int((ended - call.arrived) * 1e9))  # by the clock that nobody corrects meanwhile


def _operation(route: str) -> str:
    return "text_completion" if route.endswith(_COMPLETIONS[1]) and not route.endswith(_COMPLETIONS[0]) else "chat"


def _describe(span: Span, call: Call, error: str) -> None:
    if call.model:
        span.update_name(f"{_operation(call.route)} {call.model}")
    told: dict[str, str | int | float | None] = {
        "gen_ai.request.model": call.model or None,
        "gen_ai.request.max_tokens": call.max_tokens,
        "gen_ai.request.choice.count": call.sequences if call.sequences != 1 else None,
        "gen_ai.response.time_to_first_chunk": (None if call.first_token is None else call.first_token - call.arrived),
        "gen_ai.usage.input_tokens": call.prompt_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "http.response.status_code": call.status,
        "llm.tenant": call.tenant or None,
        "llm.gateway.queue_seconds": call.queued,
        "llm.gateway.refused": call.refused or None,
        "llm.gateway.stream_cut": call.cut or None,
        "error.type": error or None,
    }
    span.set_attributes({name: value for name, value in told.items() if value is not None})
    if error:
        span.set_status(Status(StatusCode.ERROR))
