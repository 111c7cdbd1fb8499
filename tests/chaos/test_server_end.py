"""The end under load: whoever asks, drips, sleeps, sends traces or reads nothing, the exporter ends within its drain."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import requests

from llmvitals.exporters.lifecycle import DRAIN_SECONDS
from support import otlp, senders
from support.attackers import GET, Serving, closed, connected, repeated, sent, settings
from support.hostile import Hostile
from support.reliability import Part
from support.waiting import free_port, wait_for

SOURCES = ("127.0.0.2", "127.0.0.3")


def test_it_ends_within_its_drain_whatever_its_clients_do(tmp_path, reliability):
    with ExitStack() as stack:
        hostile = stack.enter_context(Hostile())
        words = settings(tmp_path, [hostile.url(f"/ok?{n}") for n in range(4)])
        serving = stack.enter_context(Serving(tmp_path, *words))
        held = [
            *connected(serving.address, 50, sources=SOURCES),
            *(reading := connected(serving.address, 50, sources=SOURCES)),
            *(dripping := connected(serving.address, 50, sources=SOURCES)),
        ]
        sent(reading, GET * 50)
        sent(dripping, b"GET /metrics HTTP/1.1\r\nHo")

        def drip() -> None:
            for one in dripping:
                with suppress(OSError):
                    one.send(b"s")

        def flood() -> None:
            made = connected(serving.address, 50, sources=SOURCES)
            sent(made, GET + b"GET /capture HTTP/1.1\r\nHost: x\r\n\r\n")
            closed(made)

        with repeated(drip), repeated(flood, every=0.0):
            wait_for(lambda: serving.own("llmvitals_http_connections") > 100, "the crowd")
            took = serving.terminated()
        closed(held)
        assert took < 2 * DRAIN_SECONDS
        assert serving.lines("stopped")
        assert "Traceback" not in serving.log()
    reliability(
        Part.PROCESS,
        "SIGTERM under a flood, with clients that drip, sleep and read nothing",
        f"it ends within its drain ({DRAIN_SECONDS} s) and a second",
        "exit status 0, in time",
    )


def test_it_ends_within_its_drain_while_traces_are_sent(tmp_path, reliability):
    ports = {"http": free_port(), "grpc": free_port()}
    with ExitStack() as stack:
        hostile = stack.enter_context(Hostile())
        name, path = settings(tmp_path, [hostile.url("/ok")])
        listening = {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}
        path.write_text(path.read_text() + f"spans: {listening}\n")
        serving = stack.enter_context(Serving(tmp_path, name, path))
        uploads = [senders.begun(listening["http"], 100_000, b"\n") for _ in range(20)]
        body = otlp.body([otlp.vllm_span() for _ in range(64)])

        def send() -> None:
            with suppress(requests.RequestException):
                senders.post(listening["http"], body)

        def upload() -> None:
            for one in uploads:
                with suppress(OSError):
                    one.send(b"\n")

        silent = connected(serving.address, 20)
        with repeated(send, every=0.0), repeated(upload):
            wait_for(lambda: serving.own('llmvitals_span_exports_total{protocol="http",result="ok"}') > 3, "exports")
            took = serving.terminated()
        closed([*uploads, *silent])
        assert took < 2 * DRAIN_SECONDS
        assert "Traceback" not in serving.log()
    reliability(
        Part.PROCESS,
        "SIGTERM while traces are sent, 20 of them byte by byte",
        f"it ends within its drain ({DRAIN_SECONDS} s) and a second",
        "exit status 0, in time",
    )
