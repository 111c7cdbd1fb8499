"""Requests that are malformed, ambiguous, nosy or costly, sent to a whole exporter: it answers them, tells nothing and goes on."""

from __future__ import annotations

import base64
import io
import itertools
import logging
import socket
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import bcrypt
import pytest
import requests
import yaml

from llmvitals.exporters import server as site
from llmvitals.exporters import shared
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import RawPage
from support.attackers import answer, closed, connected, sent
from support.hostile import vllm_page
from support.reliability import Part
from support.waiting import wait_for

TARGETS = tuple(Target(url=f"http://engine-{n}:8000", name=f"t{n}") for n in range(4))
PATHS = ("/", "/metrics", "/triage", "/history", "/replicas", "/capture", "/healthz", "/readyz")


class Inside:
    """Every target, and what was asked of them."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __call__(self, url: str, *, timeout_s: float, access: object = None) -> RawPage:
        self.asked.add(url)
        return RawPage(time.time(), 0.01, 200, vllm_page())


def started(interval: float) -> tuple[Exporter, Inside]:
    inside = Inside()
    limits = Limits(listen="127.0.0.1:0", interval_seconds=interval, timeout_seconds=2.0)
    return Exporter(Settings(targets=TARGETS, exporter=limits), fetch=inside), inside


@pytest.fixture(scope="module")
def running():
    with started(0.3)[0] as one:
        wait_for(lambda: one.newest, "the first cycle")
        yield one


def address(one: Exporter) -> tuple[str, int]:
    host, _, port = one.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def statuses(told: bytes) -> list[int]:
    """The statuses of the answers on one connection."""
    heads = [part for part in told.split(b"HTTP/1.1 ") if part[:3].isdigit()]
    return [int(part[:3]) for part in heads]


HEAD = b"HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
ODD = {
    "two lengths": (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n", [400]),
    "length and encoding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / " + HEAD,
        [400],
    ),
    "bare LF": (b"GET /metrics HTTP/1.1\nHost: x\n\n", [400]),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\na: b\r\n c\r\n\r\n", [400]),
    "an absolute URI": (b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
    "a tunnel": (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
    "trace": (b"TRACE / " + HEAD + b"cookie: secret\r\n\r\n", [405]),
    "options for all": (b"OPTIONS * " + HEAD + b"\r\n", [405]),
    "a made-up method": (b"G%T / " + HEAD + b"\r\n", [405]),
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", [200]),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", [400]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505]),
    "broken escapes": (b"GET /%zz%c0%ae%00%2e%2e%2fetc/passwd " + HEAD + b"\r\n", [404]),
    "dots": (b"GET /../../etc/passwd " + HEAD + b"\r\n", [404]),
    "a range": (b"GET /healthz " + HEAD + b"Range: bytes=0-0,1-1,2-2\r\n\r\n", [200]),
    "an upgrade": (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n",
        [200],
    ),
    "a packed body": (
        b"GET /metrics " + HEAD + b"Content-Encoding: gzip\r\nContent-Length: 1000000000\r\n\r\n\x1f\x8b",
        [413],
    ),
    "a promise of a body": (b"POST / " + HEAD + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", [405]),
    "crumbs": (b"POST / " + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 20_000, [405]),
    "a huge accept": (b"GET /metrics " + HEAD + b"Accept: " + b"text/plain;q=0.1," * 900 + b"\r\n\r\n", [200]),
    "a larger one": (b"GET /metrics " + HEAD + b"Accept: " + b"text/plain;q=0.1," * 1000 + b"\r\n\r\n", [431]),
    "a hundred headers": (b"GET / " + HEAD + b"a: b\r\n" * 100 + b"\r\n", [431]),
    "a long query": (b"GET /history?" + b"signal=a&" * 1000 + b" " + HEAD + b"\r\n", [414]),
    "bytes beyond ASCII": (b"GET / " + HEAD + b"a: \xff\xfe\r\n\r\n", [200]),
    "NUL": (b"GET / " + HEAD + b"a: \0\r\n\r\n", [400]),
    "two requests at once": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz " + HEAD + b"\r\n", [200, 200]),
    "one good, one bad": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\nHost: x\n\n", [200, 400]),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_answered_once_and_the_exporter_goes_on(running, caplog, name):
    sent, expected = ODD[name]
    with caplog.at_level(logging.WARNING):
        told = answer(address(running), sent)
    assert statuses(told) == expected
    assert requests.get(running.url + "/metrics", timeout=10).status_code == 200
    warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [record for record in warned if record.name.startswith(("uvicorn", "asyncio"))] == []
    for word in (b"secret", b"Traceback", b"uvicorn", b"starlette", b"python/", b"/llmvitals/"):
        assert word not in told.split(b"\r\n\r\n")[0]
    assert b"secret" not in told
    if expected[-1] >= 400:
        assert b"connection: close" in told.lower()


def test_the_table_of_odd_requests_is_told(running, reliability):
    reliability(
        Part.SCRAPER,
        f"{len(ODD)} shapes of requests: smuggling, tunnels, escapes, crumbs, too long, too many",
        "each is answered by its own status, once, and the next scrape is answered",
        "no line in the log, nothing of the request in the answer",
    )


def test_who_still_sends_a_body_can_read_why_it_is_not_wanted(running):
    """Without a pause before the end, the peer's bytes on their way would wipe the answer out."""
    with socket.create_connection(address(running), timeout=10) as one:
        one.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(200):
            one.sendall(b"x")
        assert one.recv(65536).startswith(b"HTTP/1.1 405 ")


def test_every_answer_is_safe_in_a_browser_and_says_nothing_of_what_runs(running):
    for path in (*PATHS, "/elsewhere", "/history?instance=nobody"):
        headers = requests.get(running.url + path, timeout=10).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY", path
        assert headers["referrer-policy"] == "no-referrer", path
        assert {"server", "x-powered-by"}.isdisjoint(name.lower() for name in headers), path


def test_names_from_targets_are_text_on_the_landing_page():
    name = "<script>alert(1)</script>"
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.3, timeout_seconds=2.0)
    page = vllm_page(model="<img src=x onerror=alert(2)>")
    settings = Settings(targets=(Target(url="http://engine:8000", name=name),), exporter=limits)
    with Exporter(settings, fetch=lambda *_, **__: RawPage(time.time(), 0.01, 200, page)) as one:
        wait_for(lambda: one.newest, "the first cycle")
        told = requests.get(one.url + "/", timeout=10).text
    assert "<script" not in told
    assert "<img" not in told
    assert "&lt;script&gt;" in told


# -- nothing in a request makes it ask anybody ------------------------------------------------------------------------
def test_no_request_makes_the_exporter_reach_anything(reliability):
    exporter, inside = started(0.3)
    with socket.create_server(("127.0.0.1", 0)) as canary, exporter as one:
        wait_for(lambda: one.newest, "the first cycle")
        canary.settimeout(0.5)
        there = f"127.0.0.1:{canary.getsockname()[1]}"
        url = f"http://{there}/metrics"
        keys = ("target", "url", "host", "instance", "module", "source", "redirect", "endpoint", "signal", "model")
        asks = [f"{path}?" + "&".join(f"{key}={url}" for key in keys) for path in PATHS]
        names = ("Host", "Forwarded", "X-Forwarded-Host", "X-Forwarded-For", "Referer", "Origin", "X-Target")
        names += ("X-Original-URL", "X-Rewrite-URL", "X-Prometheus-Target", "Via", "Proxy")
        headers = "".join(f"{name}: {there}\r\n" for name in names)
        for ask, method in itertools.product([*asks, url, f"//{there}/"], ("GET", "HEAD", "POST", "CONNECT")):
            answer(address(one), f"{method} {ask} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
        cycles = one.board.cycles
        wait_for(lambda: one.board.cycles > cycles, "another cycle")
        with pytest.raises(TimeoutError):
            canary.accept()
    assert {asked.partition("//")[2].partition(":")[0] for asked in inside.asked} == {f"engine-{n}" for n in range(4)}
    reliability(
        Part.SCRAPER,
        "requests that name an address in path, query, method and headers",
        "no request makes the exporter ask anybody",
        "nobody was asked but the targets of the settings",
    )


# -- what costs something ---------------------------------------------------------------------------------------------
def test_who_asks_for_the_same_capture_shares_one(monkeypatch, reliability):
    made: list[tuple[str, ...]] = []
    gate = threading.Event()
    real = site.packed

    def packed(cycle, settings, wanted):
        made.append(wanted)
        gate.wait(20)
        return real(cycle, settings, wanted)

    monkeypatch.setattr(site, "packed", packed)
    with started(3600.0)[0] as one, ThreadPoolExecutor(12) as pool:
        wait_for(lambda: one.newest, "the first cycle")
        asked = [pool.submit(requests.get, one.url + "/capture", timeout=30) for _ in range(12)]
        wait_for(lambda: made, "the first to ask")
        assert requests.get(one.url + "/metrics", timeout=10).status_code == 200  # others are answered meanwhile
        gate.set()
        bodies = {found.result(30).content for found in asked}
        assert requests.get(one.url + "/capture?instance=t1&instance=t1", timeout=10).status_code == 200
        assert requests.get(one.url + "/capture?instance=nobody", timeout=10).status_code == 404
    assert len(bodies) == 1
    assert zipfile.ZipFile(io.BytesIO(bodies.pop())).testzip() is None
    assert made == [(), ("t1",)]
    reliability(
        Part.SCRAPER, "12 clients that ask for the same capture", "it is packed once a cycle", "packed once, same bytes"
    )


def test_more_who_wait_than_may_are_told_to_come_again(monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(shared, "WAITING", 2)
    monkeypatch.setattr(site, "packed", lambda *_: gate.wait(20) and b"zip")
    with started(3600.0)[0] as one, ThreadPoolExecutor(6) as pool:
        wait_for(lambda: one.newest, "the first cycle")
        asked = [pool.submit(requests.get, f"{one.url}/capture?instance=t{n % 4}", timeout=30) for n in range(6)]
        wait_for(lambda: sum(found.done() for found in asked) == 4, "those who are turned away")
        gate.set()
        found = [one.result(30) for one in asked]
    assert sorted(one.status_code for one in found) == [200, 200, 503, 503, 503, 503]
    assert {one.headers.get("retry-after") for one in found if one.status_code == 503} == {"1"}


def test_a_document_is_encoded_once_a_cycle_for_all(monkeypatch):
    made: list[int] = []
    real = site.document
    monkeypatch.setattr(site, "document", lambda verdicts: made.append(len(verdicts)) or real(verdicts))
    with started(3600.0)[0] as one:
        wait_for(lambda: one.newest, "the first cycle")
        whole = {requests.get(one.url + "/triage", timeout=10).content for _ in range(5)}
        assert requests.get(one.url + "/triage?instance=t1", timeout=10).json()["sentence"]
        for unknown in ("instance=nobody", "model=none", "instance=t1&model=none"):
            assert requests.get(f"{one.url}/triage?{unknown}", timeout=10).status_code == 404
    assert len(whole) == 1
    assert made == [4, 1]


def test_a_hundred_unknown_signals_cost_what_none_costs():
    with started(3600.0)[0] as one:
        wait_for(lambda: one.newest, "the first cycle")
        plain = requests.get(one.url + "/history?instance=t1", timeout=10).content
        query = "&".join(f"signal=unknown_{n}" for n in range(100))
        assert requests.get(f"{one.url}/history?instance=t1&{query}", timeout=10).content == plain
        twice = requests.get(f"{one.url}/history?instance=t1&{'&'.join(['signal=*'] * 100)}", timeout=10)
        assert twice.content == requests.get(f"{one.url}/history?instance=t1&signal=*", timeout=10).content


# -- who guesses ------------------------------------------------------------------------------------------------------
def test_who_guesses_passwords_keeps_nobody_else_out(tmp_path, reliability):
    right = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    web = tmp_path / "web.yml"
    web.write_text(yaml.safe_dump({"basic_auth_users": {"prometheus": right}}))
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.3, timeout_seconds=2.0, web_config=str(web))
    with Exporter(Settings(targets=TARGETS, exporter=limits), fetch=Inside()) as one:
        guess = base64.b64encode(b"prometheus:wrong").decode()
        asked = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {guess}\r\n\r\n".encode()
        guessers = connected(address(one), 200, sources=["127.0.0.2"])
        sent(guessers, asked * 20)
        told = [
            requests.get(one.url + "/metrics", auth=("prometheus", "right"), timeout=10).status_code for _ in range(3)
        ]
        codes = one._site.own.requests
        wait_for(lambda: codes["/metrics", "429"] and codes["/metrics", "401"], "both answers to guesses")
        closed(guessers)
    assert told == [200, 200, 200]
    reliability(
        Part.SCRAPER,
        "200 connections of one address that guess passwords, 20 times each",
        "a scraper elsewhere is let in within its time limit",
        "let in; most guesses are answered 429 without a hash",
    )


@pytest.mark.parametrize("password", ["a\0b", "x" * 5000, "ä" * 100, ""])
def test_a_password_of_any_form_is_wrong_and_no_fault(tmp_path, password):
    web = tmp_path / "web.yml"
    web.write_text(yaml.safe_dump({"basic_auth_users": {"a": bcrypt.hashpw(b"b", bcrypt.gensalt(4)).decode()}}))
    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.3, timeout_seconds=2.0, web_config=str(web))
    with Exporter(Settings(targets=TARGETS, exporter=limits), fetch=Inside()) as one:
        for user in ("a", "nobody"):
            answered = requests.get(one.url + "/", auth=(user, password.encode()), timeout=10)
            assert (answered.status_code, answered.text) == (401, "Unauthorized\n")
