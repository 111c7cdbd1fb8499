"""A planted secret in prompts, answers and names of sessions is nowhere but where it was going."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import logging
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import yaml
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import otlp
from support.command import argv, llmvitals
from support.gateway import PATH, ROOT, serve
from support.gateway_calls import has, raw
from support.hostile import vllm_page
from support.upstream import Asked, Plan, Upstream
from support.waiting import free_port, wait_for

ASKED, ANSWERED, NAMED = "mandrake7f3a", "zanzibar91c2", "quokka55d8"
SECRETS = (ASKED, ANSWERED, NAMED)
"""In prompts, in answers, in the names of sessions and requests; one word each, so that no way of writing splits them."""

HEADERS = {
    "x-tenant": "search",
    "x-session": NAMED,
    "x-user-request": NAMED,
    "idempotency-key": NAMED,
    "x-request-id": NAMED,
}


def secret_body(**more: object) -> dict[str, object]:
    """A call that holds the secret wherever text can be."""
    called = {"id": ASKED, "type": "function", "function": {"name": ASKED, "arguments": json.dumps({ASKED: ASKED})}}
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": f"You keep {ASKED}. " * 100},
            {"role": "user", "name": ASKED, "content": [{"type": "text", "text": f"what is {ASKED}?"}]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": ASKED, "content": ASKED},
        ],
        "user": ASKED,
        "metadata": {ASKED: ASKED},
        "stop": [ASKED],
        **more,
    }


def in_all_ways(url: str, engine: Upstream, port: int) -> None:
    """Calls that end well, are repeated, fail, break off, are left, and cannot be read: each in the hands of a gateway."""
    engine.usual, engine.planned = Plan(text=ANSWERED), ASKED.encode()  # probes may come at any time

    def mine() -> list[Asked]:
        return [call for call in engine.asked if ASKED in json.dumps(call.body)]

    with httpx.Client(base_url=url, timeout=10, headers=HEADERS) as client:
        for stream in (True, False, True):
            assert ANSWERED in client.post(PATH, json=secret_body(stream=stream)).text
        completion = {"model": "m", "prompt": [ASKED, ASKED], "stream": False}
        assert client.post("/v1/completions", json=completion).status_code == 200
        engine.next.extend([Plan(status=500, text=ANSWERED), Plan(tokens=5, cut_after=2, text=ANSWERED)])
        assert client.post(PATH, json=secret_body()).status_code == 500
        client.post(PATH, json=secret_body(stream=True))
        engine.next.append(Plan(tokens=5, cut_after=5, text=ANSWERED))
        assert client.post(PATH, json=secret_body()).status_code == 502
        assert client.post(PATH, content=f'{{"messages": "{ASKED}'.encode()).status_code == 400
        assert client.post(PATH, content=f'["{ASKED}"]'.encode()).status_code == 400
    engine.next.append(Plan(tokens=9, allowed=1, text=ANSWERED))
    leaving = raw(port, secret_body(stream=True), HEADERS)
    has(leaving, ANSWERED.encode())
    leaving.close()
    wait_for(lambda: mine()[-1].ended == "left")
    assert len(mine()) == 8, "it did reach the engine"


def clean(told: Mapping[str, str | bytes]) -> None:
    """None of these texts holds a secret; none of them is empty."""
    for name, text in told.items():
        assert text, f"nothing to look at: {name}"
        whole = text.encode() if isinstance(text, str) else text
        for secret in SECRETS:
            at = whole.find(secret.encode())
            assert at < 0, f"{secret} in {name}: {whole[max(0, at - 80) : at + 40]!r}"


# -- inside the gateway's process -------------------------------------------------------------------------------------
@pytest.fixture
def engine() -> Iterator[Upstream]:
    with Upstream(lambda: vllm_page(tokens=1000.0)) as upstream:
        yield upstream


def test_nothing_of_it_is_in_the_gateways_page_log_spans_or_memory(engine, caplog):
    caplog.set_level(logging.DEBUG, logger="llmvitals")
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with serve(engine.url, kit={"tracer_provider": provider}) as gateway:
        in_all_ways(gateway.url, engine, gateway.port)
        wait_for(lambda: not gateway.kit.calls.live)
        clean({"page": gateway.text(), "spans": "\n".join(span.to_json() for span in spans.get_finished_spans())})
        assert gateway.shows("exact_repeats_total"), "prompts were looked at"
        assert gateway.shows("session_calls_peak")
        gc.collect()
        held = list(held_by(gateway.kit))
        assert len(held) > 20, "it holds the names of what it counts"
        clean({f"memory {i}, in a {where}": text for i, (where, text) in enumerate(held)})
    assert [m for m in map(logging.LogRecord.getMessage, caplog.records) if any(s in m for s in SECRETS)] == []


def held_by(thing: object) -> Iterator[tuple[str, str | bytes]]:
    """Every text that can be reached from a value, through all that it holds but code and modules."""
    code = (
        type,
        types.ModuleType,
        types.FunctionType,
        types.BuiltinFunctionType,
        types.CodeType,
        types.FrameType,
        logging.Logger,
    )
    seen, rest = {id(thing)}, [thing]
    while rest:
        here = rest.pop()
        for each in gc.get_referents(here):
            if id(each) in seen or isinstance(each, code):
                continue
            seen.add(id(each))
            if isinstance(each, str | bytes | bytearray):
                if each:
                    yield type(here).__name__, bytes(each) if isinstance(each, bytearray) else each
            else:
                rest.append(each)


# -- across processes -------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def running(log: Path, words: list[str], sign: str, **env: str) -> Iterator[None]:
    """A process whose output goes to ``log``, from when it has said ``sign`` on."""
    with log.open("wb") as sink:
        process = subprocess.Popen(words, stdout=sink, stderr=sink, env={**os.environ, "PYTHONUNBUFFERED": "1", **env})
    try:
        wait_for(lambda: sign in log.read_text() or process.poll() is not None, sign, 20)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(15)


def test_nothing_of_it_is_on_pages_in_logs_captures_or_reports(engine, tmp_path):
    ports = {name: free_port() for name in ("gateway", "exporter", "spans")}
    at = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    settings = tmp_path / "settings.yaml"
    targets = [
        {"name": "chat", "url": engine.url, "kind": "vllm", "gateway": "front", "probe_seconds": 5},
        {
            "name": "front",
            "url": at["gateway"],
            "probe_seconds": 5,
            "probe_model": "m",
            "spans": {"service.name": "front"},
        },
    ]
    limits = {"listen": f"127.0.0.1:{ports['exporter']}", "interval_seconds": 0.2}
    spans = {"http": f"127.0.0.1:{ports['spans']}", "join_seconds": 0.5}
    settings.write_text(yaml.safe_dump({"targets": targets, "exporter": limits, "spans": spans}))
    uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples" / "gateway"), "--factory"]
    gateway = [*uvicorn, "gateway:application", "--port", str(ports["gateway"]), "--log-level", "debug"]
    env = {"OTEL_SERVICE_NAME": "front", "OTEL_EXPORTER_OTLP_ENDPOINT": at["spans"], "OTEL_BSP_SCHEDULE_DELAY": "100"}
    logs = {"gateway's log": tmp_path / "gateway.log", "exporter's log": tmp_path / "exporter.log"}
    with (
        running(logs["gateway's log"], gateway, "Uvicorn running", GATEWAY_UPSTREAMS=engine.url, **env),
        running(logs["exporter's log"], argv("serve", "--settings", settings), "event=listening"),
    ):
        in_all_ways(at["gateway"], engine, ports["gateway"])
        known = len(engine.asked)
        foreign(at["spans"])
        capture = tmp_path / "capture"
        assert (
            llmvitals("capture", "--settings", settings, "--for", "2s", "--interval", "500ms", "-o", capture).code == 0
        )
        exporter = httpx.Client(base_url=at["exporter"], timeout=10)
        counted = re.compile(r'^llm_span_requests_total\{.*ended="ok".*vantage="gateway"\} [1-9]', re.M)
        wait_for(lambda: counted.search(exporter.get("/metrics").text), "the gateway's spans", 10)
        probed = re.compile(r'^llm_probe_requests_total\{.*outcome="ok".*\} [1-9]', re.M)
        wait_for(lambda: probed.search(exporter.get("/metrics").text), "a probe whose answer holds the secret", 10)
        assert all(call.plan.text == ANSWERED for call in engine.asked[known:])
        told = {path: exporter.get(path).content for path in ("/metrics", "/triage", "/history", "/replicas", "/")}
        told["OpenMetrics"] = exporter.get("/metrics", headers={"accept": "application/openmetrics-text"}).content
        told["gateway's page"] = httpx.get(f"{at['gateway']}/metrics").content
        exporter.close()
    for path in capture.rglob("*"):
        if path.is_file():
            told[path.name] = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for words in ((), ("--json",)):
        told[f"triage {words}"] = llmvitals("triage", capture, *words).out
    clean({**told, **{name: log.read_bytes() for name, log in logs.items()}})


def foreign(url: str) -> None:
    """What other senders put into their spans, and what is no export at all."""
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.prompt.0.content": ASKED,
        "gen_ai.input.messages": json.dumps([ASKED]),
        "gen_ai.completion.0.content": ANSWERED,
        "gen_ai.output.messages": ANSWERED,
        "llm.request": [ASKED],
        "session.id": NAMED,
        "gen_ai.usage.output_tokens": ASKED,
    }
    resource = {"service.name": "front", "process.command_args": ASKED}
    good, bad = (
        otlp.span("chat m", kind=otlp.SERVER, values=values) for values in (dict(list(told.items())[:-1]), told)
    )
    for one in (good, bad):
        event = one.events.add(name="gen_ai.content.prompt")
        event.attributes.extend(otlp.attributes({"gen_ai.prompt": ASKED, "exception.message": ANSWERED}))
    vllm = otlp.vllm_span(**{"gen_ai__prompt": ASKED})
    exports = {
        "application/x-protobuf": (
            otlp.body([good, bad], resource=resource, scope="foreign"),
            otlp.body([vllm]),
            otlp.body([good])[:-3] + ASKED.encode(),
            ASKED.encode(),
        ),
        "application/json": (json.dumps({"resourceSpans": ASKED}).encode(),),
    }
    for kind, bodies in exports.items():
        for body in bodies:
            answer = httpx.post(f"{url}/v1/traces", content=body, headers={"content-type": kind})
            clean({"answer": b"." + answer.content})
