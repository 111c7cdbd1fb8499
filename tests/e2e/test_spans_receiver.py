"""Traces into a running exporter over real sockets: OpenTelemetry's own senders, every status, TLS and users, reload, the end."""

from __future__ import annotations

import gzip
import json
import shlex
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import urlsplit

import bcrypt
import grpc
import pytest
import requests
import yaml
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace.export import SpanExportResult
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from llmvitals.errors import SettingsError
from llmvitals.exporters import protect, selfmetrics
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.schema import family_of
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Slo, SloClass, Spans, Target
from llmvitals.signals.catalogue import SIGNALS
from support import otlp, senders, tls
from support.command import argv
from support.hostile import Hostile
from support.prometheus import PrometheusServer, free_port, wait_for
from support.spans import SECRET, at, inside

TARGETS = (Target(url="http://127.0.0.1:8000", name="chat"),)
BOTH = Spans(http="127.0.0.1:0", grpc="127.0.0.1:0")


def settings(spans: Spans = BOTH, *, web: str | Path = "", listen: str = "127.0.0.1:0", **more: object) -> Settings:
    limits = Limits(listen=listen, interval_seconds=0.1, timeout_seconds=2.0, web_config=str(web))
    return Settings(targets=TARGETS, exporter=limits, spans=spans, **more)  # type: ignore[arg-type]


def exporter(spans: Spans = BOTH, **more: object) -> Exporter:
    return Exporter(settings(spans, **more), fetch=inside)  # type: ignore[arg-type]


@pytest.fixture
def running():
    with exporter() as one:
        wait_for(lambda: one.newest, "the first cycle")
        yield one


def samples(one: Exporter) -> list[Sample]:
    text = requests.get(one.url + "/metrics", timeout=10).text
    return [sample for family in parse_text(text) for sample in family.samples]


def page(one: Exporter) -> dict[str, float]:
    return {f"{s.name}{dict(sorted(s.labels.items()))}": s.value for s in samples(one)}


def total(one: Exporter, name: str, **labels: str) -> float:
    """The sum of a family's samples with these labels; fails where there is none."""
    found = [s.value for s in samples(one) if s.name == name and labels.items() <= s.labels.items()]
    assert found, (name, labels)
    return sum(found)


def exports(one: Exporter) -> dict[tuple[str, str], float]:
    """Exports by protocol and result, those that happened."""
    return {
        (s.labels["protocol"], s.labels["result"]): s.value
        for s in samples(one)
        if s.name == "llmvitals_span_exports_total" and s.value
    }


def counted(one: Exporter, requests_: int) -> None:
    """Wait until the page tells of so many requests."""
    wait_for(lambda: _requests(one) >= requests_, f"{requests_} requests on the page", seconds=10)
    assert _requests(one) == requests_


def _requests(one: Exporter) -> float:
    return sum(v for k, v in page(one).items() if k.startswith("llm_span_requests_total"))


# -- OpenTelemetry's senders ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", senders.PROTOCOLS)
def test_what_opentelemetry_sends_is_on_the_page_request_by_request(running, protocol):
    kind = protocol.partition("-")[0]
    sender = senders.sdk(protocol, at(running, kind))
    told = senders.spans(20) + senders.spans(
        5, **{"gen_ai.latency.time_to_first_token": 2.5, "gen_ai.latency.e2e": 3.0}, seconds=3.0
    )
    assert sender.export(told) is SpanExportResult.SUCCESS
    sender.shutdown()
    counted(running, 25)
    assert exports(running) == {(kind, "ok"): 1.0}
    assert total(running, "llm_slo_requests_total", met="yes", slo_class="default", vantage="engine") == 20
    assert total(running, "llm_slo_requests_total", met="no", slo_class="default", vantage="engine") == 5
    assert total(running, "llm_slo_missed_total", objective="ttft") == 5
    assert total(running, "llm_span_tokens_total", kind="output") == 25 * 11
    assert total(running, "llm_span_queue_seconds_sum") == pytest.approx(25 * 0.0625)
    assert total(running, "llmvitals_spans_total", dialect="vllm") == 25
    assert total(running, "llmvitals_span_pending_bytes") == 0


def test_everything_is_there_as_zero_before_anybody_sends(running):
    families = {name for name in selfmetrics.NAMES if name.startswith("llmvitals_span")}
    text = requests.get(running.url + "/metrics", timeout=10).text
    samples = [s for f in parse_text(text) for s in f.samples if s.name in families]
    assert {s.name for s in samples} == families
    assert {s.value for s in samples} == {0.0}
    assert {
        (s.labels["protocol"], s.labels["result"]) for s in samples if s.name == "llmvitals_span_exports_total"
    } >= {(protocol, result) for protocol in ("http", "grpc") for result in ("ok", "busy", "malformed", "incomplete")}
    assert {"vllm", "other"} <= {s.labels["dialect"] for s in samples if s.name == "llmvitals_spans_total"}
    assert {"duplicate", "failed"} <= {s.labels["reason"] for s in samples if s.name == "llmvitals_spans_dropped_total"}


def test_without_the_settings_nothing_of_it_is_there():
    with exporter(Spans()) as one:
        wait_for(lambda: one.newest, "the first cycle")
        assert one.receiver is None
        assert [key for key in page(one) if key.startswith(("llm_span", "llm_slo", "llmvitals_span"))] == []


def test_what_was_sent_twice_counts_once(running):
    body = otlp.body([otlp.vllm_span() for _ in range(3)])
    for _ in range(2):
        assert senders.post(at(running, "http"), body).status_code == 200
    senders.call(at(running, "grpc"), body)
    counted(running, 3)
    assert total(running, "llmvitals_spans_dropped_total", reason="duplicate") == 6


def test_spans_that_cannot_be_used_are_told_to_their_sender(running):
    bad = [otlp.vllm_span(trace="ab") for _ in range(2)]
    body = otlp.body([otlp.vllm_span(), *bad])
    by_http = ExportTraceServiceResponse.FromString(senders.post(at(running, "http"), body).content)
    by_grpc = senders.call(at(running, "grpc"), body)
    for answer in (by_http, by_grpc):
        assert answer.partial_success.rejected_spans == 2
        assert "trace id" in answer.partial_success.error_message
    assert exports(running) == {("http", "partial"): 1.0, ("grpc", "partial"): 1.0}
    assert total(running, "llmvitals_spans_dropped_total", reason="ids") == 4
    good = senders.post(at(running, "http"), otlp.body([otlp.vllm_span()]))
    assert (good.status_code, good.content, good.headers["content-type"]) == (200, b"", "application/x-protobuf")


# -- statuses -------------------------------------------------------------------------------------------------------
GOOD = otlp.body([otlp.vllm_span()])
GZIP = senders.PROTOBUF | {"content-encoding": "gzip"}
LIMIT = 20_000
SMALL = Spans(http="127.0.0.1:0", grpc="127.0.0.1:0", max_body_bytes=LIMIT)

REFUSED = [
    # method, path, headers, body, status, result, what its text must say
    ("POST", "/v1/traces", senders.PROTOBUF, b"\xff\xff\xff", 400, "malformed", "OTLP"),
    ("POST", "/v1/traces", GZIP, b"no gzip", 400, "malformed", "damaged"),
    ("POST", "/v1/traces", GZIP, gzip.compress(GOOD)[:-5], 400, "malformed", "too early"),
    ("POST", "/v1/traces", senders.PROTOBUF, b"\0" * (LIMIT + 1), 413, "too-large", "max_body_bytes"),
    ("POST", "/v1/traces", senders.PROTOBUF, (b"\0" * (LIMIT + 1),), 413, "too-large", "max_body_bytes"),  # in chunks
    ("POST", "/v1/traces", GZIP, gzip.compress(b"\0" * 10_000_000), 413, "too-large", "MAX_EXPORT_BATCH_SIZE"),
    ("POST", "/v1/traces", senders.PROTOBUF | {"content-encoding": "br"}, GOOD, 415, "unsupported", "gzip"),
    (
        "POST",
        "/v1/traces",
        {"content-type": "application/json"},
        b"{}",
        415,
        "unsupported",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ),
    ("POST", "/v1/traces", {"content-type": "text/plain"}, GOOD, 415, "unsupported", "application/x-protobuf"),
    ("POST", "/v1/traces", {}, GOOD, 415, "unsupported", "application/x-protobuf"),
    ("POST", "/v1/metrics", senders.PROTOBUF, b"", 404, "unsupported", "/v1/traces"),
    ("GET", "/v1/traces", senders.PROTOBUF, b"", 405, "unsupported", "POST"),
]


@pytest.fixture(scope="module")
def small():
    with exporter(SMALL) as one:
        wait_for(lambda: one.newest, "the first cycle")
        yield one


@pytest.mark.parametrize(("method", "path", "headers", "body", "status", "result", "says"), REFUSED)
def test_what_is_refused_says_why_in_the_protocols_own_words_and_is_counted(
    small, method, path, headers, body, status, result, says
):
    before = exports(small).get(("http", result), 0.0)
    data = iter(body) if isinstance(body, tuple) else body
    with requests.Session() as session:
        url = f"http://{at(small, 'http')}"
        answer = session.request(method, url + path, data=data, headers=headers, timeout=10)
        # the connection is as good as before
        assert session.post(f"{url}/v1/traces", GOOD, headers=senders.PROTOBUF, timeout=10).status_code == 200
    assert answer.status_code == status
    if headers.get("content-type") == "application/json":
        assert answer.headers["content-type"] == "application/json"
        message = json.loads(answer.content)["message"]
    else:
        assert answer.headers["content-type"] == "application/x-protobuf"
        message = Status.FromString(answer.content).message
    assert says in message
    assert exports(small)["http", result] == before + 1


def test_what_http_has_decompressed_is_the_same(small):
    for body, headers in ((GOOD, senders.PROTOBUF), (gzip.compress(GOOD), GZIP), (b"", senders.PROTOBUF)):
        assert senders.post(at(small, "http"), body, headers).status_code == 200
    charset = {"content-type": "application/x-protobuf; charset=utf-8", "content-encoding": "identity"}
    assert senders.post(at(small, "http"), GOOD, charset).status_code == 200


@pytest.mark.parametrize(
    ("body", "code", "result"),
    [
        (b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT, "malformed"),
        (b"\0" * (LIMIT + 1), grpc.StatusCode.INVALID_ARGUMENT, "too-large"),
        (b"\0" * (3 * LIMIT), grpc.StatusCode.RESOURCE_EXHAUSTED, "incomplete"),
        (gzip.compress(b"\0" * 10_000_000), grpc.StatusCode.INVALID_ARGUMENT, "too-large"),
        (gzip.compress(GOOD)[:-5], grpc.StatusCode.INVALID_ARGUMENT, "malformed"),
    ],
)
def test_what_is_refused_over_grpc_says_why_and_is_counted(small, body, code, result):
    before = exports(small).get(("grpc", result), 0.0)
    with pytest.raises(grpc.RpcError) as caught:
        senders.call(at(small, "grpc"), body)
    assert caught.value.code() is code
    assert caught.value.details()
    wait_for(lambda: exports(small).get(("grpc", result)) == before + 1, "the count", seconds=5)


def test_other_services_over_grpc_are_not_there(small):
    with grpc.insecure_channel(at(small, "grpc")) as channel:
        metrics = channel.unary_unary("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
        with pytest.raises(grpc.RpcError) as caught:
            metrics(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


# -- addresses ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_address_in_use_is_one_clear_error_and_leaves_nothing_behind(protocol):
    page_port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        one = exporter(Spans(**{protocol: address}), listen=f"127.0.0.1:{page_port}")
        with pytest.raises(SettingsError, match="cannot be used") as caught:
            one.start()
    assert caught.value.place == f"spans.{protocol}: {address}"
    with exporter(Spans(**{protocol: address}), listen=f"127.0.0.1:{page_port}") as again:
        assert at(again, protocol) == address


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("address", ["4318", "127.0.0.1:none", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_one_clear_error(protocol, address):
    with pytest.raises(SettingsError, match="not an address") as caught:
        exporter(Spans(**{protocol: address})).start()
    assert caught.value.place == f"spans.{protocol}: {address}"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_every_interface_is_listened_on_where_only_a_port_is_named(protocol):
    port = free_port()
    with exporter(Spans(**{protocol: f":{port}"})) as one:
        sender = senders.sdk(protocol, f"127.0.0.1:{port}")
        assert sender.export(senders.spans(2)) is SpanExportResult.SUCCESS
        sender.shutdown()
        counted(one, 2)  # and its sender is known by the address that IPv4 has


# -- reload ---------------------------------------------------------------------------------------------------------
def test_a_reload_keeps_addresses_and_counts_and_takes_new_limits_and_classes(running, caplog):
    address = at(running, "http")
    assert senders.post(address, otlp.body([otlp.vllm_span() for _ in range(4)])).status_code == 200
    counted(running, 4)
    strict = Slo(classes=(SloClass(name="all", models=("*",), ttft_seconds=0.1),))
    with caplog.at_level("WARNING", logger="llmvitals.exporter"):
        running.reload(settings(Spans(http="127.0.0.1:1", grpc="127.0.0.1:0", max_body_bytes=2000), slo=strict))
    assert "event=reload-keeps-address spans_http=127.0.0.1:0" in caplog.text
    assert senders.post(address, b"\0" * 2001).status_code == 413
    assert senders.post(address, otlp.body([otlp.vllm_span()])).status_code == 200
    wait_for(lambda: _of_class(running, "all") == 1.0, "the new class", seconds=10)
    assert total(running, "llm_slo_requests_total", slo_class="all", met="no") == 1.0
    assert total(running, "llmvitals_spans_total", dialect="vllm") == 5


def _of_class(one: Exporter, name: str) -> float:
    return sum(
        v for k, v in page(one).items() if k.startswith("llm_span_requests_total") and f"'slo_class': '{name}'" in k
    )


# -- users and TLS --------------------------------------------------------------------------------------------------
def write(folder: Path, config: dict) -> Path:
    path = folder / "web.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def users(**passwords: str) -> dict[str, str]:
    return {name: bcrypt.hashpw(word.encode(), bcrypt.gensalt(4)).decode() for name, word in passwords.items()}


BASIC = "Basic YWxpY2U6cmlnaHQ="  # alice:right


@pytest.mark.parametrize(
    ("protocol", "refused"), [("http", 429), ("grpc", grpc.StatusCode.UNAVAILABLE)], ids=["http", "grpc"]
)
def test_a_sender_whose_password_waits_behind_too_many_is_told_to_come_again(tmp_path, monkeypatch, protocol, refused):
    gate = threading.Event()
    monkeypatch.setattr(protect, "_right", lambda *_: gate.wait(20))
    web = write(tmp_path, {"basic_auth_users": users(alice="right")})
    with exporter(web=web) as one, ThreadPoolExecutor(protect.GUESSES + 1) as pool:

        def told() -> object:
            try:
                if protocol == "http":
                    return senders.post(at(one, "http"), GOOD, auth=("alice", "right")).status_code
                senders.call(at(one, "grpc"), GOOD, metadata=(("authorization", BASIC),))
            except grpc.RpcError as error:
                return error.code()
            return 200

        asked = [pool.submit(told) for _ in range(protect.GUESSES + 1)]
        # the others' passwords are being looked at
        done, waiting = wait(asked, timeout=10, return_when=FIRST_COMPLETED)
        gate.set()
        assert [each.result() for each in done] == [refused]
        assert [each.result(20) for each in waiting] == [200] * protect.GUESSES
        assert one.receiver is not None
        exports = {result.value: n for (_, result), n in one.receiver.intake.exports().items()}
        assert exports == {"ok": protect.GUESSES, "busy": 1}


def test_only_users_of_the_web_configuration_may_send(tmp_path):
    web = write(tmp_path, {"basic_auth_users": users(alice="right")})
    with exporter(web=web) as one:
        http, by_grpc = at(one, "http"), at(one, "grpc")
        assert [
            senders.post(http, GOOD, auth=auth).status_code for auth in (None, ("alice", "wrong"), ("bob", "right"))
        ] == [401] * 3
        for metadata in ((), (("authorization", "Basic bm86bm8="),), (("authorization", "Bearer x"),)):
            with pytest.raises(grpc.RpcError) as caught:
                senders.call(by_grpc, GOOD, metadata=metadata)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert senders.post(http, GOOD, auth=("alice", "right")).status_code == 200
        senders.call(by_grpc, GOOD, metadata=(("authorization", BASIC),))
        for protocol, address in (("http", http), ("grpc", by_grpc)):  # as OTEL_EXPORTER_OTLP_HEADERS says it
            sender = senders.sdk(protocol, address, headers={"authorization": BASIC})
            assert sender.export(senders.spans(1)) is SpanExportResult.SUCCESS
            sender.shutdown()
        write(tmp_path, {"basic_auth_users": users(bob="new")})
        one.reload(settings(web=web))
        assert senders.post(http, GOOD, auth=("alice", "right")).status_code == 401
        assert senders.post(http, GOOD, auth=("bob", "new")).status_code == 200
        assert one.receiver is not None
        assert {(p, r.value): n for (p, r), n in one.receiver.intake.exports().items()} == {
            ("http", "unauthorized"): 4,
            ("grpc", "unauthorized"): 3,
            ("http", "ok"): 3,
            ("grpc", "ok"): 2,
        }


def secured(folder: Path, pair: tls.Pair, **more: str) -> Path:
    return write(folder, {"tls_server_config": {"cert_file": pair.cert.name, "key_file": pair.key.name, **more}})


def over_tls(one: Exporter, ca: tls.Pair, client: tls.Pair | None = None) -> bool:
    """Whether a sender over gRPC that trusts ``ca`` is served."""
    shown = (client.key.read_bytes(), client.cert.read_bytes()) if client else (None, None)
    secrets = grpc.ssl_channel_credentials(ca.cert.read_bytes(), *shown)
    try:
        senders.call(at(one, "grpc"), GOOD, channel=grpc.secure_channel(at(one, "grpc"), secrets))
    except grpc.RpcError as error:
        return error.code() is not grpc.StatusCode.UNAVAILABLE  # which is what a failed handshake is
    return True


def over_https(one: Exporter, ca: tls.Pair, client: tls.Pair | None = None) -> bool:
    """The same over HTTP."""
    cert = (client.cert, client.key) if client else None
    try:
        url = f"https://{at(one, 'http')}/v1/traces"
        answer = requests.post(url, GOOD, headers=senders.PROTOBUF, verify=ca.cert, cert=cert, timeout=10)
    except requests.exceptions.ConnectionError:
        return False
    return answer.status_code == 200


@pytest.mark.tls
@pytest.mark.parametrize("served", [over_https, over_tls])
def test_certificates_guard_the_receivers_as_they_do_the_page_and_are_renewed_by_a_reload(tmp_path, served):
    old, new = tls.authority(tmp_path, "old"), tls.authority(tmp_path, "new")
    policy = {"client_auth_type": "RequireAndVerifyClientCert"}
    of_old, of_new = tls.signed(tmp_path, "a", old), tls.signed(tmp_path, "b", new)
    web = secured(tmp_path, tls.signed(tmp_path, "first", old), client_ca_file="old.crt", **policy)
    with exporter(web=web) as one:
        assert [served(one, old, of_old), served(one, old), served(one, old, of_new), served(one, new, of_old)] == [
            True,
            False,
            False,
            False,
        ]
        web = secured(tmp_path, tls.signed(tmp_path, "second", new), client_ca_file="new.crt", **policy)
        one.reload(settings(web=web))
        assert [served(one, new, of_new), served(one, old, of_old)] == [True, False]
        one.reload(settings())  # TLS stays on until a restart
        assert [served(one, new, of_new), served(one, old, of_old)] == [True, False]


@pytest.mark.tls
@pytest.mark.parametrize(
    "policy",
    [
        {"min_version": "TLS13"},
        {"max_version": "TLS12"},
        {"cipher_suites": ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]},
        {"client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "ca.crt"},
    ],
)
def test_a_protection_that_grpc_cannot_keep_is_refused_and_http_keeps_it(tmp_path, policy):
    ca = tls.authority(tmp_path, "ca")
    web = secured(tmp_path, tls.signed(tmp_path, "server", ca), **policy)
    with pytest.raises(SettingsError, match=f"{next(iter(policy))}.* cannot be kept over gRPC") as caught:
        exporter(Spans(grpc="127.0.0.1:0"), web=web)
    assert "spans.http" in caught.value.remedy
    with exporter(Spans(http="127.0.0.1:0"), web=web) as one:
        assert over_https(one, ca)


# -- exemplars ------------------------------------------------------------------------------------------------------
@pytest.mark.prometheus
def test_a_prometheus_stores_the_traces_of_buckets_and_plain_text_shows_none(running, tmp_path):
    slow = otlp.vllm_span(ttft=0.25, start=time.time() - 1.0)
    assert senders.post(at(running, "http"), otlp.body([slow])).status_code == 200
    counted(running, 1)
    plain = requests.get(running.url + "/metrics", headers={"accept": "text/plain"}, timeout=10).text
    assert "trace_id" not in plain
    asked = {"accept": "application/openmetrics-text; version=1.0.0"}
    text = requests.get(running.url + "/metrics", headers=asked, timeout=10).text
    seen = {
        (s.name, float(s.labels["le"])): s.exemplar
        for f in parse_openmetrics(text)
        for s in f.samples
        if s.exemplar is not None
    }
    own = seen["llm_request_ttft_seconds_bucket", 1.0]  # the engine's edges are 0.1 and 1.0
    assert (own.labels, own.value) == ({"trace_id": slow.trace_id.hex()}, 0.25)
    assert {name for name, _ in seen} >= {
        f"llm_span_{what}_seconds_bucket" for what in ("ttft", "tpot", "e2e", "queue")
    }
    address = urlsplit(running.url).netloc
    flags = ["--enable-feature=exemplar-storage"]
    with PrometheusServer(tmp_path, scrape={"llmvitals": address}, flags=flags) as prometheus:

        def stored(name: str) -> list[tuple[dict[str, str], dict]]:
            span = {"start": str(time.time() - 600), "end": str(time.time() + 60)}
            data = prometheus.get("query_exemplars", query=name, **span)
            return [(one["seriesLabels"], exemplar) for one in data for exemplar in one["exemplars"]]

        wait_for(lambda: stored("llm_request_ttft_seconds_bucket"), "an exemplar in Prometheus", seconds=30)
        ((labels, exemplar),) = stored("llm_request_ttft_seconds_bucket")
        assert (labels["instance"], float(labels["le"]), exemplar["value"]) == ("chat", 1.0, "0.25")
        assert exemplar["labels"] == {"trace_id": slow.trace_id.hex()}
        assert {e["labels"]["trace_id"] for _, e in stored("llm_span_ttft_seconds_bucket")} == {slow.trace_id.hex()}
        names = set(prometheus.get("label/__name__/values"))
        ours = {name for name in names if name.startswith(("llm_span", "llm_slo", "llmvitals_span"))}
        derived = {f"llm_{signal.id}" for signal in SIGNALS}
        assert {name for name in ours if family_of(name) is None} <= {*selfmetrics.NAMES, *derived}


# -- the process ----------------------------------------------------------------------------------------------------
def test_a_prompt_that_a_sender_put_into_its_spans_is_nowhere_and_the_end_is_orderly(tmp_path):
    with Hostile() as hostile:
        config = {
            "targets": [{"url": hostile.url("/ok"), "name": "chat"}],
            "exporter": {"listen": "127.0.0.1:0", "interval_seconds": 0.1, "timeout_seconds": 1.0},
            "spans": {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
        }
        file, log = tmp_path / "llmvitals.yaml", tmp_path / "log"
        file.write_text(yaml.safe_dump(config))
        with log.open("wb") as sink:
            process = subprocess.Popen(argv("serve", "--settings", file), stderr=sink, stdout=sink)
        try:
            wait_for(lambda: "event=listening" in log.read_text(), "the exporter")
            said = [
                dict(word.partition("=")[::2] for word in shlex.split(line)) for line in log.read_text().splitlines()
            ]
            addresses = {words["protocol"]: words["address"] for words in said if words["event"] == "spans-listening"}
            url = next(words["url"] for words in said if words["event"] == "listening")
            prompts = {"gen_ai.prompt": SECRET, "llm.prompts.0.content": SECRET, "gen_ai.input.messages": SECRET}
            for protocol, address in addresses.items():
                sender = senders.sdk(protocol, address)
                assert sender.export(senders.spans(3, **prompts)) is SpanExportResult.SUCCESS
                sender.shutdown()
            assert senders.post(addresses["http"], b"\xff" + SECRET.encode()).status_code == 400
            wait_for(lambda: 'ended="ok"' in requests.get(url + "/metrics", timeout=10).text, "requests on the page")
            asked = {"accept": "application/openmetrics-text"}
            for path in ("/metrics", "/triage", "/history", "/", "/replicas"):
                assert SECRET not in requests.get(url + path, headers=asked, timeout=10).text
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()
            process.wait(timeout=10)
        assert SECRET not in log.read_text()
        assert "event=stopped" in log.read_text()
