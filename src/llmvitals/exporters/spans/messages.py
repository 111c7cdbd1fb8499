"""What senders are answered, as the protocol's own messages. They come with an extra, which is loaded by the first answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmvitals.exporters.spans.result import RETRY_SECONDS, Answer, Result

CODES: Mapping[Result, str] = {
    Result.MALFORMED: "INVALID_ARGUMENT",
    Result.TOO_LARGE: "INVALID_ARGUMENT",
    Result.UNSUPPORTED: "UNIMPLEMENTED",
    Result.UNAUTHORIZED: "UNAUTHENTICATED",
    Result.BUSY: "UNAVAILABLE",
    Result.INCOMPLETE: "DEADLINE_EXCEEDED",
    Result.FAILED: "INTERNAL",
}
"""The code of what was not taken in, by its name in ``google.rpc.Code`` and in gRPC. Senders send again what is UNAVAILABLE or
DEADLINE_EXCEEDED, and drop the rest (OTLP specification, "OTLP/gRPC Response")."""


def response(answer: Answer) -> bytes:
    """The answer to an export that was taken in, with what of it was not."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415  # an extra
        ExportTraceServiceResponse,
    )

    told = ExportTraceServiceResponse()
    if answer.rejected:
        told.partial_success.rejected_spans = answer.rejected
        told.partial_success.error_message = answer.message
    body: bytes = told.SerializeToString()
    return body


def code_of(answer: Answer) -> int:
    """The number of its code."""
    from google.rpc.code_pb2 import Code  # noqa: PLC0415  # an extra

    return int(Code.Value(CODES[answer.result]))


def status(answer: Answer) -> bytes:
    """The body of a failure: a ``google.rpc.Status``, which says when to come again where that helps."""
    from google.rpc.status_pb2 import Status  # noqa: PLC0415  # an extra

    told = Status(code=code_of(answer), message=answer.message)
    if answer.result is Result.BUSY:
        told.details.add().Pack(_retry())
    body: bytes = told.SerializeToString()
    return body


def trailers(answer: Answer) -> tuple[tuple[str, bytes], ...]:
    """The same for gRPC: in its own place for details, and where OpenTelemetry for Python looks."""
    if answer.result is not Result.BUSY:
        return ()
    return (
        ("grpc-status-details-bin", status(answer)),
        ("google.rpc.retryinfo-bin", _retry().SerializeToString()),
    )


def _retry() -> Any:  # noqa: ANN401  # a message without types
    from google.rpc.error_details_pb2 import RetryInfo  # noqa: PLC0415  # an extra

    retry = RetryInfo()
    retry.retry_delay.seconds = RETRY_SECONDS
    return retry
