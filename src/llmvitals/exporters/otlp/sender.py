"""OpenTelemetry's own OTLP exporters, made from the settings. Repetition, packing and TLS are theirs."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from llmvitals.errors import SettingsError, install
from llmvitals.settings import Otlp
from llmvitals.telemetry.headers import checked, read_headers
from llmvitals.telemetry.reach import ANYWHERE
from llmvitals.telemetry.watchdog import heed, watchdog

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

MOST_ANSWER = 64 * 1024
"""Bytes of an answer: a collector's is empty, or says what was wrong in a few lines."""


def exporter_of(otlp: Otlp) -> MetricExporter:
    """What sends to ``otlp.endpoint``. Raises :class:`SettingsError` for settings that cannot be used, and without the extra."""
    secure = _secure(otlp)
    headers = checked(otlp.headers, place="otlp.headers")
    if otlp.headers_file:
        headers |= read_headers(otlp.headers_file)
    if otlp.ca_file:
        _check_authority(otlp.ca_file)
    try:
        return _MAKERS[otlp.protocol](otlp, {name.lower(): value for name, value in headers.items()}, secure)
    except ImportError as error:
        raise SettingsError(f"needs the module {error.name}", place="otlp.endpoint", remedy=install("otel")) from None


def _secure(otlp: Otlp) -> bool:
    """Whether the endpoint is spoken to over TLS; ``host:port`` alone is as soon as an authority is given."""
    place, over_http = f"otlp.endpoint: {_shown(otlp.endpoint)}", otlp.protocol != "grpc"
    example = "http://collector:4318/v1/metrics" if over_http else "collector:4317 or https://collector:4317"
    try:
        parts = urlsplit(otlp.endpoint if "://" in otlp.endpoint else f"//{otlp.endpoint}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.scheme not in (("http", "https") if over_http else ("http", "https", "")):
        raise SettingsError("is no endpoint", place=place, remedy=f"Write it like {example}.")
    if "@" in parts.netloc or parts.query:
        remedy = "Put them into otlp.headers_file, since addresses are logged."
        raise SettingsError("holds credentials or parameters", place=place, remedy=remedy)
    if otlp.ca_file and parts.scheme == "http":
        raise SettingsError("is not spoken to over TLS, and otlp.ca_file is set", place=place, remedy="Write https://.")
    return parts.scheme == "https" or (not parts.scheme and bool(otlp.ca_file))


def _shown(endpoint: str) -> str:
    """The endpoint without what may be a secret in it."""
    head, at, tail = endpoint.partition("?")[0].rpartition("@")
    return f"{head.partition('://')[0]}://...@{tail}" if at and "://" in head else tail


def _check_authority(path: str) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "no certificate in it"
        raise SettingsError(
            f"cannot be used ({why})", place=f"otlp.ca_file: {path}", remedy="Name a PEM file of certificates."
        ) from None


class _Heeding(HTTPAdapter):
    """Connections that are cut off when the time of an export is over."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's own
        super().init_poolmanager(*args, **kwargs)
        heed(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the library's own
        return heed(super().proxy_manager_for(*args, **kwargs))


class _Session(requests.Session):
    """Connections to a collector, with four things put right that would be lost on the way.

    The variables REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, which many environments set, take precedence over a session's own
    authority, though not over a request's. The library takes a redirection, like one to where people log in, for an export that
    was taken; its time limit is one of each read, which an answer that drips outlives for ever; and it reads an answer whole,
    however long it is.
    """

    def __init__(self, authority: str) -> None:
        super().__init__()
        self._authority = authority
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Heeding())
        self.hooks["response"] += [_not_elsewhere, _read]

    def request(self, *args: Any, **given: Any) -> requests.Response:  # noqa: ANN401  # the library's own
        """Send one request and read its answer, all within its ``timeout``."""
        if self._authority:
            given["verify"] = self._authority
        seconds = given.get("timeout") or 0.0
        with watchdog(seconds, ANYWHERE) as dog:  # otlp.endpoint alone says where, and nothing leads elsewhere
            try:
                answer = super().request(*args, **{**given, "stream": True})  # the hook reads it
            except requests.RequestException:
                if not dog.fired:
                    raise
        if dog.fired:
            raise requests.Timeout(f"no whole answer within {seconds:.3g} s")
        return answer


def _not_elsewhere(answer: requests.Response, **_: object) -> None:
    if answer.is_redirect:
        raise requests.RequestException(f"redirected elsewhere ({answer.status_code})")


def _read(answer: requests.Response, **_: object) -> None:
    """Read an answer up to its bound, and keep it where the library looks for it."""
    body = b""
    for piece in answer.iter_content(MOST_ANSWER):
        body += piece
        if len(body) > MOST_ANSWER:
            answer.close()
            raise requests.RequestException(f"answered with more than {MOST_ANSWER} bytes")
    answer._content = body


def _http(otlp: Otlp, headers: Mapping[str, str], secure: bool) -> MetricExporter:
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415  # an extra
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415  # an extra

    return OTLPMetricExporter(
        endpoint=otlp.endpoint,
        certificate_file=otlp.ca_file or None,
        headers=dict(headers),
        timeout=otlp.timeout_seconds,
        compression=Compression.Gzip if otlp.gzip else Compression.NoCompression,
        session=_Session(otlp.ca_file),
    )


def _grpc(otlp: Otlp, headers: Mapping[str, str], secure: bool) -> MetricExporter:
    import grpc  # noqa: PLC0415  # an extra
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415  # an extra

    authority = Path(otlp.ca_file).read_bytes() if otlp.ca_file else None
    return OTLPMetricExporter(
        endpoint=otlp.endpoint,
        insecure=not secure,
        credentials=grpc.ssl_channel_credentials(root_certificates=authority) if secure else None,
        headers=tuple(headers.items()),
        timeout=otlp.timeout_seconds,
        compression=grpc.Compression.Gzip if otlp.gzip else grpc.Compression.NoCompression,
    )


_MAKERS: Mapping[str, Callable[[Otlp, Mapping[str, str], bool], MetricExporter]] = {
    "http/protobuf": _http,
    "grpc": _grpc,
}
