"""Spans as OpenTelemetry's senders write them: ExportTraceServiceRequest in protobuf."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

from llmvitals.errors import MissingExtraError, install

Value = str | int | float
Attributes = tuple[tuple[str, Value], ...]


class Span(NamedTuple):
    """A span as it will be sent. ``start``, ``end``: seconds of simulated time; ids as bytes, ``parent`` empty for a root."""

    name: str
    start: float
    end: float
    trace_id: bytes
    span_id: bytes
    parent: bytes
    attributes: Attributes
    failed: bool = False


def export(resource: Attributes, scope: str, spans: Iterable[Span], origin: int) -> bytes:
    """One export of one process. ``origin``: the unix moment of simulated time 0 in nanoseconds."""
    m = messages()
    scoped = m.ScopeSpans(scope=m.InstrumentationScope(name=scope))
    scoped.spans.extend(
        m.Span(
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_span_id=span.parent,
            name=span.name,
            kind=m.Span.SPAN_KIND_SERVER,
            start_time_unix_nano=origin + round(span.start * 1e9),
            end_time_unix_nano=origin + round(span.end * 1e9),
            attributes=_pairs(m, span.attributes),
            status=m.Status(code=m.Status.STATUS_CODE_ERROR if span.failed else m.Status.STATUS_CODE_UNSET),
        )
        for span in spans
    )
    whole = m.ResourceSpans(resource=m.Resource(attributes=_pairs(m, resource)), scope_spans=[scoped])
    return bytes(m.ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString())


def _pairs(m: SimpleNamespace, attributes: Attributes) -> list[object]:
    kinds = {str: "string_value", int: "int_value", float: "double_value"}
    return [m.KeyValue(key=key, value=m.AnyValue(**{kinds[type(value)]: value})) for key, value in attributes]


@cache
def messages() -> SimpleNamespace:
    """OTLP's messages by their names: an extra, which only who asks for spans loads. Raises :class:`MissingExtraError`."""
    try:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415  # an extra
        from opentelemetry.proto.common.v1 import common_pb2  # noqa: PLC0415  # an extra
        from opentelemetry.proto.resource.v1 import resource_pb2  # noqa: PLC0415  # an extra
        from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError(
            "spans need the messages of OTLP, which are not installed",
            place="simulate",
            remedy=install("otel"),
        ) from None
    modules = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)
    return SimpleNamespace(**{name: value for module in modules for name, value in vars(module).items()})
