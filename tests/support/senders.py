"""Who sends traces: OpenTelemetry's own exporters, bare HTTP and bare gRPC, and those that do it badly."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Mapping, Sequence

import grpc
import requests
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from support.otlp import VLLM_SCOPE, vllm_resource

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}

PROTOCOLS = ("http", "http-gzip", "grpc", "grpc-gzip", "grpc-deflate")


def sdk(protocol: str, address: str, **more: object) -> SpanExporter:
    """OpenTelemetry's exporter for one of :data:`PROTOCOLS`, as an application configures it."""
    kind, _, packing = protocol.partition("-")
    if kind == "http":
        compression = Compression.Gzip if packing else Compression.NoCompression
        return HttpExporter(endpoint=f"http://{address}/v1/traces", compression=compression, **more)  # type: ignore[arg-type]
    packed = {"": grpc.Compression.NoCompression, "gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}
    return GrpcExporter(endpoint=address, insecure=True, compression=packed[packing], **more)  # type: ignore[arg-type]


def spans(count: int, *, pid: int = 12002, seconds: float = 0.75, **values: object) -> list[ReadableSpan]:
    """Spans of vLLM as its SDK hands them to an exporter: each a request that ended now."""
    now = time.time_ns()
    given = {
        "gen_ai.latency.time_to_first_token": 0.25,
        "gen_ai.latency.e2e": seconds,
        "gen_ai.latency.time_in_queue": 0.0625,
        "gen_ai.latency.time_in_model_prefill": 0.125,
        "gen_ai.latency.time_in_model_decode": 0.5,
        "gen_ai.usage.prompt_tokens": 100,
        "gen_ai.usage.completion_tokens": 11,
        **values,
    }
    return [
        ReadableSpan(
            name="llm_request",
            context=SpanContext(random.getrandbits(128), random.getrandbits(64), False, TraceFlags(1)),
            kind=SpanKind.SERVER,
            resource=Resource(vllm_resource(pid)),  # type: ignore[arg-type]
            attributes=given,  # type: ignore[arg-type]
            start_time=now - round(seconds * 1e9),
            end_time=now,
            instrumentation_scope=InstrumentationScope(VLLM_SCOPE),
        )
        for _ in range(count)
    ]


def post(address: str, body: bytes, headers: Mapping[str, str] = PROTOBUF, **more: object) -> requests.Response:
    """One export over bare HTTP."""
    return requests.post(f"http://{address}/v1/traces", body, headers=dict(headers), timeout=20, **more)  # type: ignore[arg-type]


def call(
    address: str, body: bytes, *, metadata: Sequence[tuple[str, str]] = (), channel: grpc.Channel | None = None
) -> ExportTraceServiceResponse:
    """One export over bare gRPC. Raises ``grpc.RpcError`` for all but success."""
    with channel or grpc.insecure_channel(address) as one:
        answer = one.unary_unary(EXPORT)(body, timeout=20, metadata=metadata)
    return ExportTraceServiceResponse.FromString(answer)


def begun(address: str, length: int, sent: bytes = b"") -> socket.socket:
    """A connection over which an export of ``length`` bytes was announced and only ``sent`` came."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    head = f"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: {length}\r\n\r\n"
    connection.sendall(head.encode() + sent)
    return connection
