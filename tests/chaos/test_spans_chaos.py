"""Senders that flood, drip, die and lie: the page stays quick, memory bounded, and every export and span is in a count."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import psutil
import pytest
import requests
from opentelemetry.sdk.trace.export import SpanExportResult
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.exporters import guard
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.exporters.spans.result import Answer, Result
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Spans, Target
from support import otlp, senders
from support.hostile import MIB
from support.prometheus import wait_for
from support.spans import at, inside

QUICK = 2.0  # a scrape's deadline in these tests; Prometheus' own is 10 s


def exporter(**spans: object) -> Exporter:
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.2, timeout_seconds=QUICK)
    both = Spans(http="127.0.0.1:0", grpc="127.0.0.1:0", **spans)  # type: ignore[arg-type]
    targets = (Target(url="http://127.0.0.1:8000", name="chat"),)
    return Exporter(Settings(targets=targets, exporter=limits, spans=both), fetch=inside)


@pytest.fixture
def running():
    with exporter() as one:
        wait_for(lambda: one.newest, "the first cycle")
        yield one


def page(one: Exporter) -> tuple[float, dict[tuple[str, ...], float]]:
    """How long a scrape took, and what the receivers say of themselves in it."""
    began = time.monotonic()
    answer = requests.get(one.url + "/metrics", timeout=10)
    took = time.monotonic() - began
    assert answer.status_code == 200
    return took, {
        (s.name, *(s.labels[label] for label in sorted(s.labels))): s.value
        for f in parse_text(answer.text)
        for s in f.samples
        if s.name.startswith("llmvitals_span") and s.value
    }


def results(one: Exporter, protocol: str) -> dict[str, float]:
    """Exports of one protocol by result."""
    found = page(one)[1]
    return {key[2]: value for key, value in found.items() if key[:2] == ("llmvitals_span_exports_total", protocol)}


def spans(one: Exporter) -> float:
    """All spans that were taken in, whatever became of them."""
    found = page(one)[1]
    names = {"llmvitals_spans_total", "llmvitals_spans_dropped_total", "llmvitals_spans_open"}
    return sum(value for key, value in found.items() if key[0] in names)


# -- floods ---------------------------------------------------------------------------------------------------------
BATCH = 256


def flood_http(one: Exporter, over: threading.Event, body: bytes) -> list[str]:
    told = []
    with requests.Session() as session:
        url = f"http://{at(one, 'http')}/v1/traces"
        while not over.is_set():
            status = session.post(url, body, headers=senders.PROTOBUF, timeout=20).status_code
            told.append({200: "ok", 400: "malformed", 503: "busy"}[status])
    return told


def flood_grpc(one: Exporter, over: threading.Event, body: bytes) -> list[str]:
    told = []
    codes = {grpc.StatusCode.UNAVAILABLE: "busy", grpc.StatusCode.INVALID_ARGUMENT: "malformed"}
    with grpc.insecure_channel(at(one, "grpc")) as channel:
        export = channel.unary_unary(senders.EXPORT)
        while not over.is_set():
            try:
                export(body, timeout=20)
                told.append("ok")
            except grpc.RpcError as error:
                told.append(codes[error.code()])
    return told


@pytest.mark.parametrize(
    "made",
    [
        lambda: otlp.body([otlp.vllm_span() for _ in range(BATCH)]),
        lambda: b"\xff" * 300_000,
    ],
    ids=["spans", "nonsense"],
)
def test_a_flood_is_held_off_and_counted_while_the_page_answers_in_time(made):
    body = made()
    over = threading.Event()
    with exporter(max_pending_bytes=2 * len(body)) as one:
        wait_for(lambda: one.newest, "the first cycle")
        with ThreadPoolExecutor(8) as pool:
            floods = {
                "http": [pool.submit(flood_http, one, over, body) for _ in range(4)],
                "grpc": [pool.submit(flood_grpc, one, over, body) for _ in range(4)],
            }
            cycles = one.board.cycles
            until = time.monotonic() + 1.5
            took = []
            while time.monotonic() < until:
                seconds, found = page(one)
                took.append(seconds)
                assert found.get(("llmvitals_span_pending_bytes",), 0.0) <= 2 * len(body)
            assert one.board.cycles > cycles  # the cycle goes on too
            over.set()
            told = {protocol: [x for flood in many for x in flood.result(30)] for protocol, many in floods.items()}
        assert max(took) < QUICK
        for protocol, answers in told.items():
            assert results(one, protocol) == {answer: answers.count(answer) for answer in set(answers)}
        everything = [answer for answers in told.values() for answer in answers]
        assert "busy" in everything
        good = everything.count("ok")
        assert spans(one) == good * (BATCH if good else 0)
        assert page(one)[1].get(("llmvitals_span_pending_bytes",), 0.0) == 0.0


@pytest.mark.parametrize("protocol", ["http", "http-gzip", "grpc", "grpc-gzip"])
def test_a_sender_that_was_told_to_wait_comes_again_and_nothing_is_lost(protocol):
    kind = protocol.partition("-")[0]
    with exporter(max_pending_bytes=1000) as one:
        wait_for(lambda: one.newest, "the first cycle")
        assert one.receiver is not None
        hold = one.receiver.intake.hold()
        assert hold.grow(900)  # somebody else's export is being worked off
        sender = senders.sdk(protocol, at(one, kind), timeout=10)
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(sender.export, senders.spans(30))
            wait_for(lambda: results(one, kind).get("busy", 0) >= 1, "the refusal", seconds=10)
            hold.drop()
            assert sent.result(20) is SpanExportResult.SUCCESS
        sender.shutdown()
        assert results(one, kind)["ok"] == 1.0
        assert spans(one) == 30


def test_who_is_told_to_wait_is_told_how_long():
    with exporter(max_pending_bytes=1000) as one:
        assert one.receiver is not None
        hold = one.receiver.intake.hold()
        assert hold.grow(900)
        body = otlp.body([otlp.vllm_span()])
        answer = senders.post(at(one, "http"), body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert b"google.rpc.RetryInfo" in answer.content
        with pytest.raises(grpc.RpcError) as caught:
            senders.call(at(one, "grpc"), body)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        details = dict(caught.value.trailing_metadata())
        assert b"google.rpc.RetryInfo" in details["grpc-status-details-bin"]
        hold.drop()
        assert senders.post(at(one, "http"), body).status_code == 200


# -- senders that are slow or die -----------------------------------------------------------------------------------
def test_senders_that_drip_are_cut_off_in_time_and_keep_nobody_out(running, monkeypatch):
    monkeypatch.setattr(guard, "REQUEST_SECONDS", 0.4)
    dripping = [senders.begun(at(running, "http"), 100_000, b"\n") for _ in range(30)]
    over = threading.Event()

    def endless():
        over.wait(20)
        yield b""

    with grpc.insecure_channel(at(running, "grpc")) as channel:
        export = channel.stream_unary(senders.EXPORT)
        # more than may arrive at once: the others wait for their turn
        calls = [export.future(endless(), timeout=20) for _ in range(20)]
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            for connection in dripping:
                with contextlib.suppress(ConnectionError):  # it was cut off already
                    connection.sendall(b"\n")
            assert page(running)[0] < QUICK
        body = otlp.body([otlp.vllm_span() for _ in range(3)])
        assert senders.post(at(running, "http"), body).status_code == 200
        senders.call(at(running, "grpc"), otlp.body([otlp.vllm_span() for _ in range(2)]))
        for connection in dripping:
            connection.settimeout(10)
            assert _is_cut(connection)
            connection.close()
        codes = {call.code() for call in calls}
        over.set()
    assert codes == {grpc.StatusCode.DEADLINE_EXCEEDED}
    wait_for(lambda: results(running, "http") == {"ok": 1.0, "incomplete": 30.0}, "the counts over HTTP", seconds=10)
    wait_for(lambda: results(running, "grpc") == {"ok": 1.0, "incomplete": 20.0}, "the counts over gRPC", seconds=10)
    assert spans(running) == 5
    assert page(running)[1].get(("llmvitals_span_pending_bytes",), 0.0) == 0.0


def _is_cut(connection) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionError:
        return True


def test_a_sender_that_dies_in_the_middle_is_counted_and_leaves_no_bytes(running):
    whole = otlp.body([otlp.vllm_span() for _ in range(50)])
    connection = senders.begun(at(running, "http"), len(whole), whole[: len(whole) // 2])
    assert running.receiver is not None
    intake = running.receiver.intake
    wait_for(lambda: intake.pending == len(whole) // 2, "half of it", seconds=10)
    connection.close()
    wait_for(lambda: results(running, "http") == {"incomplete": 1.0}, "the count over HTTP", seconds=10)
    begun = threading.Event()

    def never():
        begun.set()
        time.sleep(0.5)
        yield whole

    with grpc.insecure_channel(at(running, "grpc")) as channel:
        call = channel.stream_unary(senders.EXPORT).future(never(), timeout=20)
        assert begun.wait(10)
        time.sleep(0.1)
        call.cancel()
    wait_for(lambda: results(running, "grpc") == {"incomplete": 1.0}, "the count over gRPC", seconds=10)
    assert (intake.pending, spans(running)) == (0, 0.0)
    assert senders.post(at(running, "http"), whole).status_code == 200
    assert spans(running) == 50


def test_more_connections_than_may_be_are_closed_and_the_page_has_its_own(monkeypatch):
    monkeypatch.setattr(guard, "CONNECTIONS", 5)
    with exporter() as one:
        idle = [senders.begun(at(one, "http"), 100) for _ in range(12)]
        wait_for(lambda: results(one, "http").get("busy") == 7.0, "the count", seconds=10)
        assert page(one)[0] < QUICK
        for connection in idle:
            connection.close()
        wait_for(lambda: results(one, "http").get("incomplete") == 5.0, "the end of the others", seconds=10)
        assert senders.post(at(one, "http"), b"").status_code == 200


# -- senders that lie -----------------------------------------------------------------------------------------------
def test_a_bomb_is_not_unpacked(running):
    bomb = gzip.compress(b"\0" * (100 * MIB), 1)
    before = psutil.Process().memory_info().rss
    for _ in range(3):
        assert (
            senders.post(at(running, "http"), bomb, senders.PROTOBUF | {"content-encoding": "gzip"}).status_code == 413
        )
        with pytest.raises(grpc.RpcError) as caught:
            senders.call(at(running, "grpc"), bomb)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert psutil.Process().memory_info().rss - before < 40 * MIB
    assert (results(running, "http"), results(running, "grpc")) == ({"too-large": 3.0}, {"too-large": 3.0})


def test_what_is_no_export_is_refused_and_the_next_one_taken(running):
    body = otlp.body([otlp.vllm_span() for _ in range(4)])
    broken = [b"\xff", body[:-3], b"\x0a\xff\xff\xff\xff\x0f", b"GET / HTTP/1.1", body[1:]]
    for one in broken:
        assert senders.post(at(running, "http"), one).status_code == 400
        with pytest.raises(grpc.RpcError) as caught:
            senders.call(at(running, "grpc"), one)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert senders.post(at(running, "http"), body).status_code == 200
    assert results(running, "http") == {"malformed": 5.0, "ok": 1.0}
    assert results(running, "grpc") == {"malformed": 5.0}
    assert spans(running) == 4


def test_bytes_that_are_no_http_end_their_connection_alone(running):
    head = b"POST /v1/traces HTTP/1.1\r\n"
    for sent in (b"\x16\x03\x01 a TLS hello", b"\0" * 100_000, head + b"x: " + b"y" * 100_000):
        connection = senders.begun(at(running, "http"), 0)  # one good request first
        connection.recv(1000)
        try:
            connection.sendall(sent)
            while connection.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass
        connection.close()
    assert senders.post(at(running, "http"), b"").status_code == 200
    assert results(running, "http") == {"ok": 4.0}


def test_a_fault_of_ours_is_told_counted_and_stops_nothing(running, monkeypatch):
    assert running.receiver is not None
    numbers = itertools.count()

    def failing(body, config):
        if next(numbers) % 2:
            raise RuntimeError("a fault")
        return real(body, config)

    real = running.receiver.intake._decode
    monkeypatch.setattr(running.receiver.intake, "_decode", failing)
    bodies = [otlp.body([otlp.vllm_span()]) for _ in range(4)]
    assert [senders.post(at(running, "http"), body).status_code for body in bodies] == [200, 500, 200, 500]
    assert results(running, "http") == {"ok": 2.0, "failed": 2.0}
    answer = running.receiver.intake.take(b"", "http", "").result(10)
    assert answer == Answer(Result.OK)
