"""The page pushed over OTLP to collectors over real sockets: every series as on the page, whatever the collector does."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest

from llmvitals.errors import SettingsError
from llmvitals.exporters.cycle import Cycle, Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.exporters.logs import LOGGER
from llmvitals.exporters.otlp.parts import parts
from llmvitals.exporters.otlp.push import FAILED, OK, Push
from llmvitals.exporters.otlp.values import Values
from llmvitals.exporters.otlp.wire import data_of
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Otlp, Settings, Target, load
from llmvitals.telemetry.ingest import RawPage
from support import tls
from support.collector import COLLECTORS, GrpcCollector, HttpCollector, metrics, shown
from support.hostile import vllm_page
from support.waiting import wait_for

GOLDEN = Path(__file__).parents[1] / "golden"
PAGES = {
    "vllm": "pages/0.26.0.prom",
    "sglang": "sglang/pages/0.5.9.prom",
    "tgi": "tgi/pages/3.3.7.prom",
    "llamacpp": "llamacpp/pages/2026.prom",
    "triton": "triton/pages/documented.prom",
    "litellm": "litellm/pages/light.prom",
    "gateway": "gateway/pages/everything.prom",
    "mooncake": "mooncake/pages/master.prom",
}
BOTH = pytest.mark.parametrize("protocol", sorted(COLLECTORS))
DEAD = "127.0.0.1:1"


def targets() -> tuple[Target, ...]:
    return tuple(Target(url=f"http://{name}:8000", name=name) for name in PAGES)


def whole_cycle() -> Cycle:
    """A cycle over pages of many kinds that were read three times while they moved."""

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        name = url.split("//")[1].split(":", maxsplit=1)[0]
        return RawPage(moment[0], 0.01, 200, (GOLDEN / PAGES[name]).read_bytes())

    moment = [1e9]
    engine = Engine(
        Settings(targets=targets(), exporter=Limits(window_seconds=60)), fetch=fetch, clock=lambda: moment[0]
    )
    for _ in range(2):
        engine.step()
        moment[0] += 30
    return engine.step()


@pytest.fixture(scope="module")
def cycle() -> Cycle:
    return whole_cycle()


def own() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("llmvitals_made", "Made.", registry=registry).inc(3)
    return registry


def push(cycle: Cycle | None, **given: object) -> Push:
    otlp = Otlp(**{"timeout_seconds": 5.0, **given})  # type: ignore[arg-type]
    return Push(Settings(otlp=otlp), lambda: cycle, own().collect, clock=lambda: 1e9 + 61)


# -- the same numbers --------------------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize("packed", [True, False])
def test_every_series_of_the_page_arrives_with_its_number_and_no_other(cycle, protocol, packed):
    with COLLECTORS[protocol]() as collector:
        assert push(cycle, endpoint=collector.endpoint, protocol=protocol, gzip=packed).once() is True
        got = collector.samples
    wanted = shown(cycle.page)
    assert len(wanted) > 1500, "a page worth comparing"
    assert {key[0].rsplit("_", 1)[-1] for key in wanted} >= {"bucket", "total", "ratio", "state", "verdict", "gap"}
    assert got.pop(("llmvitals_made_total", frozenset())) == 3.0
    assert got == wanted


def test_kinds_units_and_help_are_those_of_the_schema(cycle):
    with HttpCollector() as collector:
        push(cycle, endpoint=collector.endpoint).once()
        found = {m.name: m for m in metrics([got.request for got in collector.got])}
    ttft, made, running = (
        found[name] for name in ("llm_request_ttft_seconds", "llm_generation_tokens_total", "llm_requests_running")
    )
    assert (ttft.unit, ttft.WhichOneof("data"), ttft.histogram.aggregation_temporality) == ("s", "histogram", 2)
    assert (made.unit, made.sum.is_monotonic, made.sum.aggregation_temporality) == ("{token}", True, 2)
    assert (running.unit, running.WhichOneof("data")) == ("", "gauge")
    assert ttft.description == "Time from arrival to the first token, counted at the first token."
    assert {p.time_unix_nano for m in found.values() for p in getattr(m, m.WhichOneof("data")).data_points} == {
        int(cycle.ended * 1e9),
        int((1e9 + 61) * 1e9),
    }


def test_an_instance_stays_the_server_and_only_our_own_metrics_have_one_of_ours(cycle):
    """Translators put a resource's service.instance.id in place of the label ``instance``."""
    with HttpCollector() as collector:
        push(cycle, endpoint=collector.endpoint).once()
    resources = [
        (
            {a.key: a.value.string_value for a in r.resource.attributes},
            {m.name for s in r.scope_metrics for m in s.metrics},
        )
        for got in collector.got
        for r in got.request.resource_metrics
    ]
    for attributes, names in resources:
        assert attributes["service.name"] == "llmvitals"
        assert attributes["service.version"]
        assert ("service.instance.id" in attributes) is (names == {"llmvitals_made_total"})
    assert len(resources) == 2


def test_a_translator_to_prometheus_gives_the_names_of_the_page_again(cycle):
    """OpenTelemetry's own, of its Prometheus exporter for Python. It tells no targets apart, so one point each is compared."""
    reader = PrometheusMetricReader(disable_target_info=True)
    try:
        for part in parts(Values().of(cycle)):
            reader._receive_metrics(data_of(part, {}))
            page = generate_latest(REGISTRY)
    finally:
        reader.shutdown()
    names = {name for name, _ in shown(page)}
    assert {name for name, _ in shown(cycle.page)} <= names


# -- collectors that do not take it -------------------------------------------------------------------------------------
@contextmanager
def events() -> Iterator[list[str]]:
    """What the exporter logs meanwhile."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield found
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


@pytest.mark.parametrize(("protocol", "endpoint"), [("http/protobuf", f"http://{DEAD}/v1/metrics"), ("grpc", DEAD)])
def test_nobody_there_is_counted_and_told_once(cycle, protocol, endpoint):
    with events() as told:
        pushing = push(cycle, endpoint=endpoint, protocol=protocol, timeout_seconds=0.3)
        assert [pushing.once(), pushing.once()] == [False, False]
    assert pushing.exports == {OK: 0, FAILED: 2}
    assert pushing.last_success is None
    (line,) = told
    assert "event=otlp-failed" in line
    assert f"endpoint={endpoint}" in line
    assert "detail=" in line


@pytest.mark.parametrize(
    ("protocol", "status"),
    [("http/protobuf", 302), ("http/protobuf", 401), ("http/protobuf", 413), ("grpc", 16), ("grpc", 3)],
)
def test_a_refusal_is_counted_not_repeated_and_told_over_when_it_is_over(cycle, protocol, status):
    with COLLECTORS[protocol](status=status) as collector, events() as told:
        pushing = push(cycle, endpoint=collector.endpoint, protocol=protocol)
        assert pushing.once() is False
        assert collector.asked == 1
        collector.status = 0
        assert pushing.once() is True, "the cycle that was not taken is still the newest"
        assert pushing.once() is None, "one that was taken is not sent again"
    assert pushing.exports == {OK: 1, FAILED: 1}
    assert pushing.last_success == 1e9 + 61
    assert [line.split()[0] for line in told] == ["event=otlp-failed", "event=otlp-works"]


def test_an_export_that_breaks_is_a_failure_like_others_and_says_only_its_kind(cycle, monkeypatch):
    pushing = push(cycle, endpoint=f"http://{DEAD}/v1/metrics")

    def breaks(*_: object, **__: object) -> None:
        raise ValueError("illegal header value b'Bearer s3cret'")

    monkeypatch.setattr(pushing._exporter, "export", breaks)
    with events() as told:
        assert pushing.once() is False
    assert pushing.exports == {OK: 0, FAILED: 1}
    assert "detail=ValueError" in told[0]
    assert "s3cret" not in told[0]


def test_before_the_first_cycle_there_is_nothing_to_push():
    pushing = push(None, endpoint=f"http://{DEAD}/v1/metrics")
    assert pushing.once() is None
    assert pushing.exports == {OK: 0, FAILED: 0}
    pushing.stop()


@pytest.mark.parametrize(("protocol", "status"), [("http/protobuf", 503), ("grpc", 14)])
def test_one_that_is_busy_for_a_moment_is_asked_again(cycle, protocol, status):
    with COLLECTORS[protocol](status=status) as collector:
        threading.Timer(0.4, lambda: setattr(collector, "status", 0)).start()
        assert push(cycle, endpoint=collector.endpoint, protocol=protocol).once() is True
        assert collector.asked >= 2


@BOTH
def test_a_collector_that_hangs_delays_no_cycle_and_no_page_and_not_the_end(protocol):
    with COLLECTORS[protocol](wait=30.0) as collector:
        otlp = Otlp(endpoint=collector.endpoint, protocol=protocol, interval_seconds=0.05, timeout_seconds=20.0)
        with exporter(otlp) as running:
            wait_for(lambda: collector.asked == 1)
            before = running.board.cycles
            wait_for(lambda: running.board.cycles >= before + 5)
            began = time.monotonic()
            page = requests.get(running.url + "/metrics", timeout=5).text
            assert time.monotonic() - began < 1.0
            assert 'llmvitals_otlp_exports_total{result="ok"} 0.0' in page
            assert collector.asked == 1, "one export at a time"
            began = time.monotonic()
        assert time.monotonic() - began < 3.0
        collector.released.set()


# -- in the exporter -----------------------------------------------------------------------------------------------------
def inside(url: str, *, timeout_s: float, **_: object) -> RawPage:
    return RawPage(time.time(), 0.01, 200, vllm_page())


def settings(otlp: Otlp) -> Settings:
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.05, timeout_seconds=2.0)
    return Settings(targets=(Target(url="http://engine:8000", name="a"),), exporter=limits, otlp=otlp)


def exporter(otlp: Otlp) -> Exporter:
    return Exporter(settings(otlp), fetch=inside)


@BOTH
def test_the_exporter_pushes_and_says_so_on_its_page(protocol):
    with COLLECTORS[protocol]() as collector:
        otlp = Otlp(endpoint=collector.endpoint, protocol=protocol, interval_seconds=0.1)
        with exporter(otlp) as running:
            wait_for(lambda: running._site.own.push.exports[OK] >= 2)
            page = shown(requests.get(running.url + "/metrics", timeout=5).content)
        got = collector.samples
    key = frozenset({"instance": "a", "model": "m", "engine": "vllm", "rank": "0"}.items())
    assert got["llm_requests_running", key] == 2.0
    assert got["llmvitals_otlp_exports_total", frozenset({("result", "failed")})] == 0.0
    assert ("llmvitals_cycles_total", frozenset()) in got
    assert page["llmvitals_otlp_exports_total", frozenset({("result", "ok")})] >= 2
    assert abs(page["llmvitals_otlp_last_success_timestamp_seconds", frozenset()] - time.time()) < 10
    assert page["llmvitals_otlp_left_out_points", frozenset()] == 0.0


def test_without_an_endpoint_nothing_is_pushed_or_told():
    with exporter(Otlp()) as running:
        wait_for(lambda: running.newest)
        assert "llmvitals_otlp" not in requests.get(running.url + "/metrics", timeout=5).text
        assert not any(thread.name == "otlp" for thread in threading.enumerate())


def test_a_reload_pushes_elsewhere_and_goes_on_counting():
    with (
        HttpCollector() as first,
        GrpcCollector() as second,
        exporter(Otlp(endpoint=first.endpoint, interval_seconds=0.05)) as running,
    ):
        wait_for(lambda: len(first.got) >= 4)
        running.reload(settings(Otlp(endpoint=second.endpoint, protocol="grpc", interval_seconds=0.05)))
        wait_for(lambda: len(second.got) >= 2)
        before = len(first.got)
        wait_for(lambda: len(second.got) >= 6)
        assert len(first.got) == before
        assert running._site.own.push.exports[OK] >= 4
        running.reload(settings(Otlp()))
        assert not any(thread.name == "otlp" for thread in threading.enumerate())
    starts = [
        {
            point.start_time_unix_nano
            for metric in metrics([got.request])
            if metric.name == "llm_generation_tokens_total"
            for point in metric.sum.data_points
        }
        for got in (first.got[0], second.got[0])
    ]
    assert starts[0] == starts[1] != set(), "since when a counter counts does not change with the collector"


def test_settings_that_cannot_be_used_leave_what_pushes_as_it_is():
    with HttpCollector() as collector, exporter(Otlp(endpoint=collector.endpoint, interval_seconds=0.05)) as running:
        wait_for(lambda: collector.got)
        with pytest.raises(SettingsError, match="cannot be read"):
            running.reload(settings(Otlp(endpoint=collector.endpoint, headers_file="/nowhere/headers.yaml")))
        before = len(collector.got)
        wait_for(lambda: len(collector.got) > before)


# -- headers, TLS, settings ----------------------------------------------------------------------------------------------
@BOTH
def test_headers_of_settings_and_of_the_file_are_sent_and_never_logged(tmp_path, cycle, protocol):
    file = tmp_path / "headers.yaml"
    file.write_text("Authorization: Bearer s3cret-key\n")
    with COLLECTORS[protocol](status=0) as collector, events() as told:
        pushing = push(
            cycle, endpoint=collector.endpoint, protocol=protocol, headers={"X-Scope": "a"}, headers_file=str(file)
        )
        assert pushing.once() is True
        collector.status = 7 if protocol == "grpc" else 403
        pushing._sent = None
        assert pushing.once() is False
    headers = collector.got[0].headers
    assert (headers["authorization"], headers["x-scope"]) == ("Bearer s3cret-key", "a")
    assert len(told) == 2
    assert "s3cret" not in " ".join(told)


@pytest.mark.tls
@BOTH
@pytest.mark.parametrize("bundle", ["", "/etc/ssl/certs/ca-certificates.crt"])
def test_tls_by_an_authority_of_one_s_own(tmp_path, monkeypatch, cycle, protocol, bundle):
    """Also where the environment names a bundle for everything that Python asks over HTTPS."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, bundle)
    ca, other = tls.authority(tmp_path, "ca"), tls.authority(tmp_path, "other")
    with COLLECTORS[protocol](tls=tls.signed(tmp_path, "collector", ca)) as collector:
        known = push(cycle, endpoint=collector.endpoint, protocol=protocol, ca_file=str(ca.cert))
        assert known.once() is True
        for unknown in (str(other.cert), ""):
            strange = push(cycle, endpoint=collector.endpoint, protocol=protocol, ca_file=unknown, timeout_seconds=0.5)
            assert strange.once() is False
    assert len(collector.got) == 2, "of the targets and our own, by the one that knows the authority"


@pytest.mark.tls
def test_host_and_port_alone_are_spoken_to_over_tls_once_an_authority_is_named(tmp_path, cycle):
    ca = tls.authority(tmp_path, "ca")
    with GrpcCollector(tls=tls.signed(tmp_path, "collector", ca)) as collector:
        bare = collector.endpoint.removeprefix("https://")
        assert push(cycle, endpoint=bare, protocol="grpc", ca_file=str(ca.cert)).once() is True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endpoint": "collector:4318"}, "is no endpoint. Write it like http://collector:4318/v1/metrics."),
        ({"endpoint": "ftp://collector/x", "protocol": "grpc"}, "is no endpoint. Write it like collector:4317"),
        ({"endpoint": "http://collector:port/"}, "is no endpoint"),
        ({"endpoint": "http://me:s3cret@collector/v1/metrics"}, "Put them into otlp.headers_file"),
        ({"endpoint": "me:s3cret@collector:4317", "protocol": "grpc"}, "Put them into otlp.headers_file"),
        ({"endpoint": "http://collector/v1/metrics?key=s3cret"}, "Put them into otlp.headers_file"),
        ({"endpoint": "http://collector/", "ca_file": "/nowhere/ca.pem"}, "otlp.ca_file is set. Write https://."),
        (
            {"endpoint": "https://collector/", "ca_file": "/nowhere/ca.pem"},
            "cannot be used (No such file or directory)",
        ),
        ({"endpoint": "https://collector/", "ca_file": __file__}, "cannot be used (no certificate in it)"),
        ({"endpoint": "http://collector/", "headers": {"a b": "s3cret"}}, "otlp.headers: 'a b' is no header's name"),
        ({"endpoint": "http://collector/", "headers": {"a": "s3cret\r\nx: y"}}, "cannot be sent"),
        ({"endpoint": "http://collector/", "headers_file": "/nowhere/h.yaml"}, "/nowhere/h.yaml: cannot be read"),
    ],
)
def test_settings_that_cannot_be_used_are_told_at_the_start_without_secrets(given, said):
    with pytest.raises(SettingsError) as error:
        exporter(Otlp(**given))
    assert said in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("protocol", "module"), [("http/protobuf", "opentelemetry"), ("grpc", "grpc"), ("grpc", "opentelemetry")]
)
def test_without_the_extra_the_start_says_what_to_install(monkeypatch, protocol, module):
    for name in [n for n in sys.modules if n.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError, match=r"pip install 'llmvitals\[otel\]'"):
        exporter(Otlp(endpoint=f"http://{DEAD}/v1/metrics", protocol=protocol))


def test_files_of_the_section_are_meant_from_the_settings_own_folder(tmp_path):
    file = tmp_path / "llmvitals.yaml"
    file.write_text("otlp: {endpoint: 'https://c/', headers_file: keys.yaml, ca_file: ca.pem}\n")
    otlp = load(file).otlp
    assert (otlp.headers_file, otlp.ca_file) == (str(tmp_path / "keys.yaml"), str(tmp_path / "ca.pem"))


# -- large pages -----------------------------------------------------------------------------------------------------------
def test_a_page_of_many_targets_goes_in_several_exports_that_a_plain_grpc_server_takes():
    page = vllm_page()
    many = tuple(Target(url=f"http://engine-{i}:8000", name=f"engine-{i}.serving.example") for i in range(60))
    engine = Engine(
        Settings(targets=many), fetch=lambda url, *, timeout_s, access: RawPage(1e9, 0.01, 200, page), clock=lambda: 1e9
    )
    cycle = engine.step()
    with GrpcCollector() as collector:
        assert push(cycle, endpoint=collector.endpoint, protocol="grpc", timeout_seconds=20.0).once() is True
        sizes = [got.size for got in collector.got]
        got = collector.samples
    assert len(sizes) > 2
    assert max(sizes) < 4 * 1024 * 1024
    got.pop(("llmvitals_made_total", frozenset()))
    assert got == shown(cycle.page)


def test_a_connection_that_is_cut_in_the_middle_is_a_failure():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def cut() -> None:
            for _ in range(10):
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.recv(100)
                connection.close()

        thread = threading.Thread(target=cut, daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/metrics"
        assert push(whole(), endpoint=endpoint, timeout_seconds=0.4).once() is False


@pytest.mark.parametrize(
    ("begin", "piece", "pause"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", 0.05),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", 0.05),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b"x", 0.05),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, 0.0),
    ],
    ids=["drips-headers", "drips", "drips-of-a-length", "floods"],
)
def test_an_answer_without_end_is_a_failure_in_time_and_is_not_kept(begin, piece, pause):
    over, sent = threading.Event(), []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(begin)
            while not over.wait(pause):
                connection.sendall(piece)
                sent.append(len(piece))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        pushing = push(
            whole(), endpoint=f"http://127.0.0.1:{listening.getsockname()[1]}/v1/metrics", timeout_seconds=0.5
        )
        told: list[bool | None] = []
        one = threading.Thread(target=lambda: told.append(pushing.once()), daemon=True)
        one.start()
        one.join(5.0)
        over.set()
        assert told == [False]
        assert pushing.exports == {OK: 0, FAILED: 1}
        assert sum(sent) < 32 * 1024 * 1024  # what fits into buffers of sockets, and not what comes in half a second


whole: Callable[[], Cycle] = lambda: Engine(Settings(), clock=lambda: 1e9).step()  # noqa: E731
