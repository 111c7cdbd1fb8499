"""Collectors of OTLP metrics in this process, over HTTP and gRPC, and what their exports say in a page's words."""

from __future__ import annotations

import gzip
import math
import ssl
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as service
from prometheus_client.parser import text_string_to_metric_families

from support.tls import Pair

Key = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name and labels; the value of ``le`` is a number's shortest text."""


def edge(text: str) -> str:
    """An upper edge as one text, however a page spells it."""
    return repr(float(text))


@dataclass(frozen=True)
class Got:
    """One export: the request, its size on the wire before packing, its headers (names in lower case), how it was packed."""

    request: Any
    size: int
    headers: Mapping[str, str]
    packing: str = ""


@dataclass
class Collector:
    """What the two have in common. ``answer`` is read for each export: seconds to wait, and a status."""

    wait: float = 0.0
    status: int = 0  # of HTTP, or the number of a gRPC code; 0 is well
    got: list[Got] = field(default_factory=list)
    asked: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def take(self) -> int:
        self.asked += 1
        if self.wait:
            self.released.wait(self.wait)
        return self.status

    @property
    def samples(self) -> dict[Key, float]:
        """The newest value of each series of all exports."""
        return samples([got.request for got in self.got])


class HttpCollector(Collector):
    """OTLP over HTTP on 127.0.0.1."""

    def __init__(self, tls: Pair | None = None, **given: Any) -> None:
        super().__init__(**given)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                packing = self.headers.get("content-encoding", "")
                body = self.rfile.read(int(self.headers["content-length"]))
                status = owner.take()
                if not status:
                    whole = gzip.decompress(body) if packing == "gzip" else body
                    request = pb.ExportMetricsServiceRequest.FromString(whole)
                    headers = {"path": self.path, **{k.lower(): v for k, v in self.headers.items()}}
                    owner.got.append(Got(request, len(whole), headers, packing))
                self.send_response(status or 200)
                self.send_header("content-length", "0")
                if status == HTTPStatus.FOUND:
                    self.send_header("location", "/login")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.endpoint = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}/v1/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class GrpcCollector(Collector, service.MetricsServiceServicer):
    """OTLP over gRPC on 127.0.0.1, with the limits of a server that nobody configured."""

    def __init__(self, tls: Pair | None = None, **given: Any) -> None:
        super().__init__(**given)
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        service.add_MetricsServiceServicer_to_server(self, self._server)
        if tls is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (Path(tls.key).read_bytes(), Path(tls.cert).read_bytes())
            port = self._server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        self.endpoint = f"{'https://' if tls else ''}127.0.0.1:{port}"

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's own name
        status = self.take()
        if status:
            context.abort(next(code for code in grpc.StatusCode if code.value[0] == status), "as told")
        headers = {k: v for k, v in context.invocation_metadata() if isinstance(v, str)}
        self.got.append(Got(request, request.ByteSize(), headers))
        return pb.ExportMetricsServiceResponse()

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.stop(0).wait(5)


COLLECTORS = {"http/protobuf": HttpCollector, "grpc": GrpcCollector}


def metrics(requests: Iterable[Any]) -> list[Any]:
    """Every metric of some exports."""
    return [m for r in requests for resource in r.resource_metrics for s in resource.scope_metrics for m in s.metrics]


def samples(requests: Sequence[Any]) -> dict[Key, float]:
    """All points as the samples that a page shows: histograms cumulated again, each edge in its shortest form."""
    found: dict[Key, float] = {}
    for metric in metrics(requests):
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = {a.key: a.value.string_value for a in point.attributes}
            if kind != "histogram":
                found[metric.name, frozenset(labels.items())] = point.as_double
                continue
            below = 0
            for bound, count in zip([*point.explicit_bounds, math.inf], point.bucket_counts, strict=True):
                below += count
                if point.explicit_bounds:  # without edges a page has the count alone
                    found[f"{metric.name}_bucket", frozenset({**labels, "le": repr(bound)}.items())] = below
            found[f"{metric.name}_count", frozenset(labels.items())] = point.count
            if point.HasField("sum"):
                found[f"{metric.name}_sum", frozenset(labels.items())] = point.sum
    return found


def shown(page: bytes) -> dict[Key, float]:
    """The samples of a page by the client library's parser."""
    return {
        (s.name, frozenset((k, edge(v) if k == "le" else v) for k, v in s.labels.items())): s.value
        for family in text_string_to_metric_families(page.decode())
        for s in family.samples
    }
