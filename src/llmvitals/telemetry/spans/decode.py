"""One export of spans, from OTLP's bytes to requests. Nothing that holds a prompt or an answer is ever made a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from llmvitals.errors import MissingExtraError, SpansError, install
from llmvitals.settings import Spans
from llmvitals.telemetry.spans import attributes, sound
from llmvitals.telemetry.spans.density import is_dense
from llmvitals.telemetry.spans.dialects import DIALECTS, Dialect
from llmvitals.telemetry.spans.ending import ended
from llmvitals.telemetry.spans.model import Batch, Ended, Request, Sent
from llmvitals.telemetry.spans.nested import fold

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

_REMEDY = (
    "Send OTLP traces as protobuf (OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, or grpc); "
    "JSON, metrics and logs are not taken."
)

_NANOSECONDS = 10**9
"""In a second; whole, because only a division of two whole numbers rounds a nanosecond of today once."""

_Slots = Mapping[str, tuple[str, int, Callable[[Any], object]]]
"""By attribute: the field that it fills, how many names of it come first, and how it is read."""


@dataclass(slots=True)
class _Process:
    """What one process sent, as it is read."""

    requests: list[Request] = field(default_factory=list)
    shells: list[Request] = field(default_factory=list)


def decode(body: bytes, config: Spans) -> Batch:
    """Read an ExportTraceServiceRequest. Every span of it is in exactly one of requests, other and refused.

    Raises :class:`SpansError` where the bytes are none, :class:`MissingExtraError` where OTLP's messages are not installed.
    """
    messages, malformed = _messages()
    if is_dense(body):
        raise SpansError(
            "more spans than so many bytes can tell of", place=f"body of {len(body)} bytes", remedy=_REMEDY
        )
    try:
        export = messages.FromString(body)
    except (malformed, ValueError, RecursionError):  # its message may quote the body
        raise SpansError("not an OTLP export of spans", place=f"body of {len(body)} bytes", remedy=_REMEDY) from None
    sent: list[Sent] = []
    refused: Counter[str] = Counter()
    spans = told = 0
    for group in export.resource_spans:
        process = _Process()
        for scope in group.scope_spans:
            spans += len(scope.spans)
            _read_scope(scope, config, process, refused)
        requests = fold(process.requests, process.shells)
        if requests:
            told += len(requests)
            sent.append(Sent(attributes.resource(group.resource.attributes), tuple(requests)))
    return Batch(tuple(sent), spans - told - refused.total(), dict(refused), spans)


@cache
def _messages() -> tuple[type[ExportTraceServiceRequest], type[Exception]]:
    """The message of an export and the error of one that is none; an extra, loaded by who takes spans."""
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415  # an extra
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError(
            "spans need the messages of OTLP, which are not installed",
            place="spans",
            remedy=install("otel"),
        ) from None
    return trace_service_pb2.ExportTraceServiceRequest, DecodeError


def _read_scope(scope: ScopeSpans, config: Spans, process: _Process, refused: Counter[str]) -> None:
    tracer = scope.scope.name
    known: dict[tuple[str, int], Dialect | None] = {}
    for span in scope.spans:
        key = (span.name, span.kind)
        if key not in known:
            known[key] = next((one for one in DIALECTS if one.fits(tracer, *key)), None)
        dialect = known[key]
        if dialect is not None:
            _read_span(span, dialect, _slots(dialect, config.tenant, config.route), process, refused)


def _read_span(span: Span, dialect: Dialect, slots: _Slots, process: _Process, refused: Counter[str]) -> None:
    told, wrong = _told(span, slots)
    how = ended(told, span.status.code)
    asked = _is_asked(dialect, told, wrong or how is not Ended.OK)
    if not asked and not dialect.shell:
        return
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    own, parent = span.span_id, span.parent_span_id
    if dialect.absent is not None:
        told = {name: value for name, value in told.items() if value != dialect.absent}
    seconds = (end - start) / _NANOSECONDS
    reason = (
        ("attributes" if wrong else None)
        or sound.refusal_of_span(span.trace_id, own, parent, start, end)
        or sound.refusal_of_values(told, told.get("e2e", seconds))
    )
    if reason is not None:
        if asked:  # a shell is a request only once a call is found in it
            refused[reason] += 1
        return
    settled = sound.settled
    (process.requests if asked else process.shells).append(
        Request(
            dialect=dialect.name,
            vantage=dialect.kinds[span.kind],
            trace_id=span.trace_id.hex(),
            span_id=own.hex(),
            parent_id=parent.hex() if any(parent) else "",
            start=start / _NANOSECONDS,
            end=end / _NANOSECONDS,
            ended=how,
            ttft=settled(told.get("ttft")),
            e2e=settled(told.get("e2e", seconds)),
            queue=settled(told.get("queue")),
            prefill=settled(told.get("prefill")),
            decode=settled(told.get("decode")),
            prompt_tokens=told.get("prompt_tokens"),
            output_tokens=told.get("output_tokens"),
            model=told.get("model", ""),
            tenant=told.get("tenant", ""),
            route=told.get("route", ""),
            sequences=max(told.get("sequences", 1), 1),
        )
    )


def _told(span: Span, slots: _Slots) -> tuple[dict[str, Any], bool]:
    """What the attributes say by field, and whether one of them was of a wrong type. Others are not looked at."""
    told: dict[str, Any] = {}
    ranks: dict[str, int] = {}
    wrong = False
    for attribute in span.attributes:
        slot = slots.get(attribute.key)
        if slot is None:
            continue
        name, rank, read = slot
        if rank >= ranks.get(name, 99):
            continue
        value = read(attribute.value)
        if value is attributes.WRONG:
            wrong = True
        elif value is not None:
            told[name] = value
            ranks[name] = rank
    return told, wrong


def _is_asked(dialect: Dialect, told: Mapping[str, Any], cut: bool) -> bool:
    """Whether it was a generation that was asked for. ``cut``: it ended early or is not all told, so that no tokens say nothing."""
    if dialect.operations and not (told["asks"] in dialect.operations if "asks" in told else dialect.unsaid):
        return False
    if not dialect.generates or cut or "prompt_tokens" not in told:
        return True
    return bool(told.get("output_tokens"))


@lru_cache(maxsize=64)
def _slots(dialect: Dialect, tenant: tuple[str, ...], route: tuple[str, ...]) -> _Slots:
    fields = ((one.name, one.attributes, one.read) for one in dialect.fields)
    named = (("tenant", tenant, attributes.text), ("route", route, attributes.text))
    slots: dict[str, tuple[str, int, Callable[[Any], object]]] = {}
    for name, names, read in (*fields, *named):
        for rank, attribute in enumerate(names):
            slots.setdefault(attribute, (name, rank, read))
    return slots
