"""The exporter over real HTTP: routes, forms, limits, one cycle for all, and the signals that a process obeys."""

from __future__ import annotations

import contextlib
import gzip
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from llmvitals.errors import SettingsError
from llmvitals.exporters import guard, lifecycle
from llmvitals.exporters.lifecycle import MOST_FILES, Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.telemetry.ingest import RawPage
from support.hostile import Hostile, vllm_page
from support.prometheus import wait_for

URL = "http://engine:8000"


def settings(*targets: Target, interval: float = 0.2) -> Settings:
    limits = Limits(listen="127.0.0.1:0", interval_seconds=interval, timeout_seconds=2.0)
    return Settings(targets=targets or (Target(url=URL, name="a"),), exporter=limits)


class Inside:
    """A target inside this process: a page with growing counters, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, url: str, *, timeout_s: float, **_: object) -> RawPage:
        self.asked += 1
        return RawPage(time.time(), 0.01, 200, vllm_page(tokens=1000.0 + 100 * self.asked))


@pytest.fixture
def exporter():
    with Exporter(settings(), fetch=Inside()) as running:
        wait_for(lambda: running.newest, "the first cycle")
        yield running


def get(exporter: Exporter, path: str, **headers: str) -> requests.Response:
    return requests.get(exporter.url + path, headers=headers, timeout=10)


def values(body: str) -> dict[str, float]:
    return {f"{s.name}{dict(sorted(s.labels.items()))}": s.value for f in parse_text(body) for s in f.samples}


def test_the_page_holds_families_gauges_verdict_and_own_metrics(exporter):
    answer = get(exporter, "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    page = values(answer.text)
    at = "'instance': 'a', 'model': 'm'"
    assert page["llm_target_up{'instance': 'a'}"] == 1.0
    assert page[f"llm_requests_running{{'engine': 'vllm', {at}, 'rank': '0'}}"] == 2.0
    assert sum(page[f"llm_triage_verdict{{{at}, 'verdict': '{v}'}}"] for v in ("cause", "undetermined", "healthy")) <= 1
    assert page["llmvitals_collector_success{'collector': 'engine', 'instance': 'a'}"] == 1.0
    assert page["llmvitals_cycle_age_seconds{}"] >= 0.0
    assert "process_resident_memory_bytes{}" in page


def test_replicas_are_told_side_by_side(exporter):
    told = get(exporter, "/replicas").json()
    assert [(r["instance"], r["model"], r["running"]) for r in told["replicas"]] == [("a", "m", 2.0)]
    assert told["replicas"][0]["activity"] is None
    assert "no GPU is joined" in told["replicas"][0]["activity_why"]
    assert told["limits"] == {"kv": 0.95, "activity": 0.6}


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(
    ("accept", "kind", "end"),
    [
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text",
            True,
        ),
        ("text/plain;version=0.0.4", "text/plain", False),
        ("*/*", "text/plain", False),
        ("application/openmetrics-text;version=nonsense", "application/openmetrics-text", True),
    ],
)
def test_forms_and_compression_are_negotiated(exporter, accept, kind, end, encoding):
    with requests.get(
        exporter.url + "/metrics", headers={"accept": accept, "accept-encoding": encoding}, stream=True, timeout=10
    ) as answer:
        wire = answer.raw.read(decode_content=False)
    assert answer.headers["content-type"].startswith(kind)
    body = gzip.decompress(wire) if encoding == "gzip" else wire
    assert body.endswith(b"# EOF\n") is end
    assert b"llm_target_up" in body
    assert b"llmvitals_build_info" in body
    assert wire.startswith(b"\x1f\x8b") is (encoding == "gzip")


def test_triage_is_the_document_and_can_be_narrowed_to_known_scopes_only(exporter):
    whole = get(exporter, "/triage").json()
    assert {"verdict", "leading", "contributing", "steps", "blind", "window", "scope", "binding", "targets"} <= set(
        whole
    )
    assert get(exporter, "/triage?instance=a&model=m").json()["scope"] == {"instance": "a", "model": "m"}
    assert get(exporter, "/triage?instance=http://169.254.169.254/").status_code == 404


def test_history_follows_the_cycles(exporter):
    wait_for(lambda: exporter.board.cycles >= 3, "three cycles")
    signals = get(exporter, "/history?instance=a").json()["signals"]
    assert len(signals["requests_running"]["times"]) >= 3
    assert signals["requests_running"]["values"][-1] == 2.0


def test_the_landing_page_says_the_verdict_and_loads_nothing(exporter):
    answer = get(exporter, "/")
    sentence = get(exporter, "/triage").json()["sentence"]
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for path in ("/metrics", "/triage", "/healthz", "/readyz"):
        assert f'href="{path}"' in answer.text
    assert "src=" not in answer.text
    assert sentence.split(",")[0].split("'")[0][:20] in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(exporter, method):
    answer = requests.request(method, exporter.url + "/metrics", timeout=10)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_a_request_with_a_body_is_refused(exporter):
    assert requests.get(exporter.url + "/metrics", data=b"x" * 10, timeout=10).status_code == 413
    assert requests.get(exporter.url + "/metrics", data=iter([b"x"]), timeout=10).status_code == 413


def test_head_has_no_body_and_other_paths_are_counted_together(exporter):
    assert requests.head(exporter.url + "/metrics", timeout=10).content == b""
    for path in ("/nothing", "/here"):
        assert get(exporter, path).status_code == 404
    page = values(get(exporter, "/metrics").text)
    assert page["llmvitals_http_requests_total{'code': '404', 'path': 'other'}"] == 2.0


def connected(exporter: Exporter) -> socket.socket:
    parts = urlsplit(exporter.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=10)


def test_headers_that_are_too_long_end_the_connection(exporter):
    with connected(exporter) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nx: " + b"a" * 40_000)
        assert client.recv(1024).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("start", [b"", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"])
def test_a_request_that_does_not_arrive_ends_the_connection(monkeypatch, start):
    """Silence after connecting, and headers that drip: both are cut by an absolute limit."""
    monkeypatch.setattr(guard, "REQUEST_SECONDS", 0.3)
    with Exporter(settings(), fetch=Inside()) as running, connected(running) as client:
        client.sendall(start)
        ended = threading.Event()

        def drip() -> None:
            while start and not ended.wait(0.05):
                try:
                    client.sendall(b"x: y\r\n")
                except OSError:
                    return

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1024) == b""
        ended.set()
        assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("limit", ["STALLED_SECONDS", "ANSWER_SECONDS"])
def test_an_answer_that_nobody_reads_ends_the_connection(monkeypatch, limit):
    monkeypatch.setattr(guard, limit, 0.3)
    many = tuple(Target(url=f"http://engine-{i}:8000", name=f"t{i}") for i in range(30))
    with Exporter(settings(*many, interval=5.0), fetch=Inside()) as running:
        wait_for(lambda: running.newest, "the first cycle")
        client = connected(running)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        state = running._server.server_state
        wait_for(lambda: state.connections, "the connection")
        for _ in range(8):
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: not state.connections, "the end of the connection", seconds=10)
        client.close()


def test_an_answer_does_not_wait_for_nagle():
    with Exporter(settings(), fetch=Inside()) as running, connected(running):
        (connection,) = wait_for(lambda: list(running._server.server_state.connections), "the connection")
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_two_scrapers_share_one_cycle():
    inside = Inside()
    with Exporter(settings(interval=60.0), fetch=inside) as running, ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(lambda _: get(running, "/metrics"), range(8)))
        assert inside.asked == 1
        assert {p.status_code for p in pages} == {200}
        assert all("llm_target_up" in p.text for p in pages)


def test_before_the_first_cycle_it_is_alive_but_not_ready_and_a_scrape_waits_no_longer_than_asked():
    with Hostile() as hostile, Exporter(settings(Target(url=hostile.url("/gate"), name="a"))) as running:
        assert get(running, "/readyz").status_code == 503
        assert get(running, "/healthz").status_code == 200
        assert get(running, "/triage").status_code == 503
        assert get(running, "/").status_code == 200
        began = time.monotonic()
        page = get(running, "/metrics", **{"x-prometheus-scrape-timeout-seconds": "0.7"})
        assert 0.15 <= time.monotonic() - began < 1.5
        assert page.status_code == 200
        assert "llmvitals_build_info" in page.text
        assert "llm_target_up" not in page.text
        hostile.gate.set()
        wait_for(lambda: get(running, "/readyz").status_code == 200, "readiness")


def test_an_address_in_use_is_one_clear_error(exporter):
    host, port = urlsplit(exporter.url).hostname, urlsplit(exporter.url).port
    taken = Settings(exporter=Limits(listen=f"{host}:{port}"))
    with pytest.raises(SettingsError, match=r"exporter\.listen.*in use.*another port"):
        Exporter(taken).start()


@pytest.mark.parametrize("listen", ["", "9464", "127.0.0.1:-1", "127.0.0.1:http", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_one_clear_error(listen):
    with pytest.raises(SettingsError, match=r"exporter\.listen"):
        Exporter(Settings(exporter=Limits(listen=listen))).start()


# -- as a process ---------------------------------------------------------------------------------------------------
SERVE = (
    "import sys; from llmvitals import settings; from llmvitals.exporters.lifecycle import serve; "
    "serve(lambda: settings.load(sys.argv[1]))"
)


class Process:
    """``serve`` on a settings file, in a process of its own."""

    def __init__(self, folder, config: dict, *before: str) -> None:
        self.file = folder / "settings.yaml"
        self.log = folder / "log"
        self.write(config)
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen([*before, sys.executable, "-c", SERVE, str(self.file)], stderr=sink)
        line = wait_for(lambda: self.line("listening"), "the listening line")
        self.url = next(w for w in line.split() if w.startswith("url=")).removeprefix("url=")

    def write(self, config: dict | str) -> None:
        self.file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))

    def line(self, event: str) -> str | None:
        return next((x for x in self.log.read_text().splitlines() if f"event={event}" in x), None)

    def page(self) -> dict[str, float]:
        return values(requests.get(self.url + "/metrics", timeout=10).text)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)


@pytest.fixture
def process(tmp_path):
    with Hostile() as hostile:
        limits = {"listen": "127.0.0.1:0", "interval_seconds": 0.2, "timeout_seconds": 1.0}
        config = {"targets": [{"url": hostile.url("/ok"), "name": "a"}], "exporter": limits}
        running = Process(tmp_path, config)
        running.hostile, running.config = hostile, config
        yield running
        running.close()


def test_sighup_takes_good_settings_and_keeps_the_old_ones_when_the_new_are_bad(process):
    up = "llm_target_up{{'instance': '{}'}}"
    wait_for(lambda: process.page().get(up.format("a")) == 1.0, "target a")
    process.write("targets: [{url: http://x, nam: b}]")
    process.process.send_signal(signal.SIGHUP)
    refused = wait_for(lambda: process.line("reload-refused"), "the refusal")
    assert "unknown key 'nam'" in refused
    assert "Did you mean 'name'?" in refused
    page = process.page()
    assert page["llmvitals_config_last_reload_successful{}"] == 0.0
    assert page[up.format("a")] == 1.0
    kept = page["llmvitals_history_snapshots{'instance': 'a'}"]
    process.write(
        process.config | {"targets": [*process.config["targets"], {"url": process.hostile.url("/b"), "name": "b"}]}
    )
    process.process.send_signal(signal.SIGHUP)
    wait_for(lambda: process.page().get(up.format("b")) == 1.0, "target b")
    page = process.page()
    assert page["llmvitals_config_last_reload_successful{}"] == 1.0
    assert page["llmvitals_history_snapshots{'instance': 'a'}"] >= kept


def test_settings_that_nobody_foresaw_end_nothing(exporter, caplog):
    def read() -> Settings:
        raise ZeroDivisionError("foreseen by nobody")

    lifecycle._reload(exporter, read)
    assert "event=reload-refused error=" in caplog.text
    assert "foreseen by nobody" in caplog.text
    assert values(get(exporter, "/metrics").text)["llmvitals_config_last_reload_successful{}"] == 0.0


def test_it_may_open_as_many_files_as_the_system_lets_it(tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 256:
        pytest.skip(f"this machine allows {hard} open files")
    config = {"targets": [{"url": "http://127.0.0.1:9"}], "exporter": {"listen": "127.0.0.1:0"}}
    running = Process(tmp_path, config, "sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh")
    try:
        most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
        assert running.page()["process_max_fds{}"] == most
    finally:
        running.close()


def test_sigterm_finishes_the_answer_under_way_and_ends_cleanly(tmp_path):
    with Hostile() as hostile:
        limits = {"listen": "127.0.0.1:0", "interval_seconds": 0.2, "timeout_seconds": 1.5}
        config = {"targets": [{"url": hostile.url("/hang"), "name": "a"}], "exporter": limits}
        running = Process(tmp_path, config)
        try:
            with ThreadPoolExecutor(1) as pool:
                scrape = pool.submit(requests.get, running.url + "/metrics", timeout=10)  # waits for the first cycle
                wait_for(lambda: hostile.asked["/hang"], "the exporter's own scrape")
                time.sleep(0.2)
                running.process.send_signal(signal.SIGTERM)
                assert scrape.result(10).status_code == 200
            assert running.process.wait(timeout=10) == 0
        finally:
            running.close()
        log = running.log.read_text()
        assert "event=stopped" in log
        assert "Traceback" not in log


def test_every_log_line_is_key_value_pairs(process):
    wait_for(lambda: process.line("target-up"), "a log line")
    for line in process.log.read_text().splitlines():
        pairs = dict(word.split("=", 1) for word in shlex.split(line))
        assert {"ts", "level", "event"} <= set(pairs)
