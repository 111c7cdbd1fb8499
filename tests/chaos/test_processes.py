"""Processes that are told, stopped, starved and killed: each ends or goes on as it was promised, and nothing promised is lost."""

from __future__ import annotations

import gzip
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Target
from llmvitals.simulator.scenarios import scenario
from llmvitals.sources.capture import read_capture
from llmvitals.telemetry.ingest import RawPage
from support.command import argv, llmvitals
from support.hostile import Hostile
from support.prometheus import PrometheusServer
from support.reliability import Part
from support.storm import DEADLINE, Seen, Served
from support.waiting import free_port, wait_for

OK, REFUSED = "llmvitals_config_last_reload_successful", "reload-refused"


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with Hostile() as server:
        yield server


def status(url: str) -> int:
    return requests.get(url, timeout=DEADLINE).status_code


# -- signals --------------------------------------------------------------------------------------------------------
def test_sigterm_in_the_middle_of_a_scrape_of_slow_targets(hostile, tmp_path, reliability):
    slow = {f"slow-{n}": hostile.url(f"/drip?{n}") for n in range(20)}
    with Served(tmp_path, slow, interval_seconds=1, timeout_seconds=30) as served:
        wait_for(lambda: sum(hostile.asked.values()) >= 20, "the scrapes")
        assert served.stop() == 0  # `stop` waits 30 s at most, and these scrapes would take as long
        assert served.events("draining")
        assert served.events("stopped")
        assert "Traceback" not in served.log.read_text()
    reliability(Part.PROCESS, "SIGTERM while 20 targets drip", "the exporter ends in time, with 0", "ended with 0")


def test_reloads_good_bad_and_by_the_hundred(hostile, tmp_path, reliability):
    a, b = {"a": hostile.url("/fine?a")}, {"a": hostile.url("/fine?a"), "b": hostile.url("/fine?b")}
    with Served(tmp_path, a, interval_seconds=0.5, timeout_seconds=2) as served:
        served.cycles(2)
        kept = served.settings.read_text()
        for bad in ("targets: [", "targts: []\n", "targets: [{url: 'ftp://x'}]\n", "\x00\xff", "[]\n"):
            served.settings.write_text(bad)
            before = len(served.events(REFUSED))
            served.process.send_signal(signal.SIGHUP)
            wait_for(lambda before=before: len(served.events(REFUSED)) > before, f"the refusal of {bad!r}")
            assert served.own(OK) == 0.0
            served.cycles()
        seen = Seen()
        served.scrape(seen)
        assert seen.up == {"a": {1.0}}  # the old ones stay in use
        served.settings.write_text(kept)
        served.reload(b)
        assert served.own(OK) == 1.0
        served.cycles(2)
        before = served.held()
        for number in range(300):
            if number % 10 == 0:
                served.write(a if number % 20 else b)
            served.process.send_signal(signal.SIGHUP)
        served.reload(b)
        served.cycles(2)
        seen = Seen()
        served.scrape(seen)
        assert seen.up == {"a": {1.0}, "b": {1.0}}
        wait_for(lambda: served.held().files <= before.files + 4, "the files as before")
        wait_for(lambda: served.held().threads <= before.threads + 4, "the threads as before")
        assert served.stop() == 0
    reliability(
        Part.PROCESS,
        "SIGHUP with settings that cannot be used",
        f"the ones before stay in use, and `{OK}` is 0 until good ones come",
        "kept; 0, then 1",
    )
    reliability(Part.PROCESS, "300 SIGHUPs in a row", "the last settings hold, nothing piles up", "as with one")


def test_an_exporter_that_was_stopped_goes_on(hostile, tmp_path, reliability):
    with Served(tmp_path, {"a": hostile.url("/fine")}, interval_seconds=0.5, timeout_seconds=1) as served:
        served.cycles(2)
        served.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: psutil.Process(served.process.pid).status() == psutil.STATUS_STOPPED, "the stop")
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > 3.5, "more than three intervals and a time limit")
        served.process.send_signal(signal.SIGCONT)
        served.cycles(2)
        assert status(f"{served.url}/healthz") == 200
        seen = Seen()
        served.scrape(seen)
        assert seen.up == {"a": {1.0}}
        assert served.stop() == 0
    reliability(
        Part.PROCESS, "the exporter is stopped (SIGSTOP) and goes on", "it serves and cycles again", "as before"
    )


def test_a_target_that_is_stopped_is_down_until_it_goes_on(tmp_path, reliability):
    port = free_port()
    engine = subprocess.Popen(argv("simulate", "healthy", "--serve", f"127.0.0.1:{port}"), stderr=subprocess.DEVNULL)
    try:
        targets = {"a": f"http://127.0.0.1:{port}"}
        with Served(tmp_path, targets, interval_seconds=0.5, timeout_seconds=1) as served:

            def up() -> set[float]:
                seen = Seen()
                served.scrape(seen)
                return seen.up.get("a", set())

            wait_for(lambda: up() == {1.0}, "the target")
            engine.send_signal(signal.SIGSTOP)
            wait_for(lambda: up() == {0.0}, "its silence")
            assert status(f"{served.url}/healthz") == 200
            engine.send_signal(signal.SIGCONT)
            wait_for(lambda: up() == {1.0}, "its return")
            assert served.stop() == 0
    finally:
        engine.send_signal(signal.SIGCONT)
        engine.kill()
        engine.wait(10)
    reliability(Part.PROCESS, "a target is stopped (SIGSTOP) and goes on", "down meanwhile, then up", "down, then up")


def test_a_cycle_that_hangs_is_told_by_healthz_and_over_when_it_is_over(reliability):
    """The machine stands still under the cycle: its clock does not return."""
    free, hang = threading.Event(), threading.Event()
    free.set()

    def clock() -> float:
        if hang.is_set():
            free.wait(60)
        return time.time()

    limits = Limits(listen="127.0.0.1:0", interval_seconds=0.2, timeout_seconds=0.3)
    settings = Settings(targets=(Target(url="http://127.0.0.1:9", name="a"),), exporter=limits)
    with Exporter(settings, clock=clock) as running:
        wait_for(lambda: running.board.cycles >= 2, "cycles")
        assert status(f"{running.url}/healthz") == 200
        free.clear()
        hang.set()
        wait_for(lambda: status(f"{running.url}/healthz") == 503, "stuck")
        assert status(f"{running.url}/metrics") == 200  # the page before, and its age says so
        hang.clear()
        free.set()
        wait_for(lambda: status(f"{running.url}/healthz") == 200, "ok again")
    reliability(Part.PROCESS, "a cycle hangs", "`/healthz` says 503 meanwhile; the page before stays", "503, then 200")


# -- kill -9 --------------------------------------------------------------------------------------------------------
def test_an_exporter_that_is_killed_starts_again(hostile, tmp_path, reliability):
    with Served(tmp_path, {"a": hostile.url("/fine")}, interval_seconds=0.5, timeout_seconds=1) as served:
        served.cycles(3)
        served.process.kill()
        served.process.wait(10)
        with served:  # the same port, at once
            served.cycles(2)
            seen = Seen()
            served.scrape(seen)
            assert seen.up == {"a": {1.0}}
            assert served.own("llmvitals_cycles_total") < 10  # its own counters begin again, as a restart's do
            assert served.stop() == 0
    reliability(Part.PROCESS, "the exporter is killed (SIGKILL)", "it starts again on its port", "serves at once")


def test_a_recording_that_is_killed_can_be_read(hostile, tmp_path, reliability):
    folder = tmp_path / "recording"
    words = argv("capture", hostile.url("/fine"), "--for", "60s", "--interval", "0.2s", "-o", folder)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(list(folder.glob("0-*.prom.gz"))) >= 5, "five pages of it")
    finally:
        process.kill()
        process.wait(10)
    (one,) = read_capture(folder)
    assert len(one.snapshots) >= 1  # the index is at most 10 s old; the pages after it lie beside it
    assert llmvitals("triage", folder).code == 2  # too short for a verdict, and no error
    reliability(
        Part.PROCESS,
        "`llmvitals capture` is killed (SIGKILL)",
        "what is recorded can be read, but for the last 10 s",
        "read",
    )


def test_a_run_that_is_killed_takes_its_app_along_and_starts_again(hostile, tmp_path, reliability):
    def begun(port: int, app: int) -> subprocess.Popen[bytes]:
        words = argv("run", "--engine", hostile.url("/fine"), "--port", port, "--app-port", app)
        one = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        wait_for(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), "the exporter")
        wait_for(lambda: _answers(f"http://127.0.0.1:{app}/_stcore/health"), "the app")
        return one

    port, app = free_port(), free_port()
    first = begun(port, app)
    children = psutil.Process(first.pid).children(recursive=True)
    assert children
    first.kill()
    first.wait(10)
    _, left = psutil.wait_procs(children, timeout=20)
    assert not left
    second = begun(port, app)
    second.send_signal(signal.SIGTERM)
    assert second.wait(30) == 0
    reliability(
        Part.PROCESS, "`llmvitals run` is killed (SIGKILL)", "its app ends too; it starts again", "no child left"
    )


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=DEADLINE).status_code == 200
    except requests.RequestException:
        return False


# -- no room --------------------------------------------------------------------------------------------------------
def small_files(most: int) -> None:
    """In the child: no file may grow beyond ``most`` bytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.parametrize("most", [64, 3000], ids=["at once", "under way"])
def test_a_capture_without_room_says_so_and_keeps_what_was_whole(hostile, tmp_path, reliability, most):
    folder = tmp_path / "recording"
    done = subprocess.run(
        argv("capture", hostile.url("/fine"), "--for", "30s", "--interval", "0.1s", "-o", folder),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=partial(small_files, most),
        check=False,
    )
    assert done.returncode == 3, done
    assert "cannot be written (File too large)" in done.stderr
    assert "Traceback" not in done.stderr
    if most > 64:
        (one,) = read_capture(folder)
        assert len(one.snapshots) >= 1
        reliability(
            Part.DISK,
            "the disk is full while a capture is recorded",
            "a clear error; what was written whole can be read, no half file passes for one",
            "ended with 3, readable",
        )
    else:
        assert not list(folder.glob("*.prom.gz"))
        assert not (folder / "capture.json").exists()
        assert llmvitals("triage", folder).code == 3
        reliability(
            Part.DISK, "no room at all for a capture", "a clear error, and nothing that passes for one", "ended with 3"
        )


RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "captures" / "kv-full"


@pytest.mark.parametrize("what", ["a simulation", "a report"])
def test_other_files_without_room(tmp_path, reliability, what):
    made = tmp_path / "made"
    words = {
        "a simulation": ("simulate", "healthy", "--for", "30s", "-o", made),
        "a report": ("report", RECORDED, "-o", made),
    }[what]
    done = subprocess.run(
        argv(*words), capture_output=True, text=True, timeout=60, preexec_fn=partial(small_files, 200), check=False
    )
    assert done.returncode == 3, done
    assert "cannot be written (File too large)" in done.stderr
    assert "unexpected" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not [path for path in made.rglob("*") if path.is_file() and not path.name.endswith(".prom.gz")]
    pages = [gzip.decompress(path.read_bytes()) for path in made.rglob("*.prom.gz")]
    assert all(page.endswith(b"\n") for page in pages)  # whole ones, and no index that would speak of more
    reliability(Part.DISK, f"the disk is full while {what} is written", "one clear line, no half file", "ended with 3")


def test_an_output_without_room(reliability):
    with Path("/dev/full").open("w") as full:
        words = argv("triage", "--json", RECORDED)
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 3, done
    assert done.stderr == "the output: cannot be written (No space left on device). Make room, or write elsewhere.\n"
    reliability(Part.DISK, "a triage's output goes to a full disk", "one clear line", "ended with 3")


# -- what a triage looks at changes or goes -------------------------------------------------------------------------
def test_an_engine_that_is_upgraded_under_a_running_triage(hostile, reliability):
    """Names of 0.6, 0.8 and 0.10, three pages each: a process of its own each time."""
    ran = llmvitals("triage", hostile.url("/upgrade"), "--for", "4s", "--interval", "0.5s", "--json")
    assert ran.code in {1, 2}, ran
    assert {one["detail"]["verdict"] for one in ran.json["targets"]} <= {"undetermined", "cause"}
    causes = {one["detail"]["leading"]["cause"] for one in ran.json["targets"] if one["detail"]["leading"]}
    assert causes <= {"rollout-and-probes"}
    reliability(
        Part.CHANGE,
        "an upgrade under a running `llmvitals triage`",
        "no rate across the change, no wrong cause",
        "undetermined, or the restarts",
    )


@pytest.mark.prometheus
def test_a_prometheus_that_dies_under_a_triage_and_comes_back(hostile, tmp_path, reliability):
    with Served(tmp_path, {"a": hostile.url("/healthy?a")}, interval_seconds=1, timeout_seconds=2) as served:
        scrape = {"llmvitals": served.url.removeprefix("http://")}
        server = PrometheusServer(tmp_path / "prometheus", scrape=scrape)
        words = ("triage", "--prometheus", server.url, "--for", "60s", "--json")
        with server:
            wait_for(lambda: server.query("llm_target_up"), "a first scrape")
            assert llmvitals(*words).code == 2
            server._process.kill()
            dead = llmvitals(*words)
            assert (dead.code, dead.out, len(dead.err.splitlines())) == (3, "", 1), dead
            assert server.url in dead.err
        with server:
            wait_for(lambda: server.query("llm_target_up"), "a scrape after its return")
            assert llmvitals(*words).code in {0, 2}
        assert served.stop() == 0
    reliability(
        Part.SOURCE,
        "a Prometheus is killed under a triage and comes back",
        "one clear line meanwhile, never an old verdict",
        "ended with 3, then judged again",
    )


# -- the clock ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "step", [86400.0, -86400.0, 600.0, -600.0], ids=["a day on", "a day back", "10 min on", "10 min back"]
)
def test_the_clock_steps_under_the_exporter(reliability, request, step):
    base, moment, shift = 1_800_000_000.0, [0.0], [0.0]
    live = scenario("healthy").live(origin=base, lead_in=90.0)

    def clock() -> float:
        return base + moment[0] + shift[0]

    def fetch(url: str, *, timeout_s: float, **_: Any) -> RawPage:
        return RawPage(clock(), 0.01, 200, live.page_at(base + moment[0]))

    limits = Limits(interval_seconds=5.0, timeout_seconds=4.0, window_seconds=60.0)
    engine = Engine(
        Settings(targets=(Target(url="http://e:8000", name="a"),), exporter=limits), fetch=fetch, clock=clock
    )
    said = []
    for turn in range(36):
        moment[0] = 5.0 * turn
        shift[0] = step if turn >= 18 else 0.0
        cycle = engine.step()
        (scoped,) = cycle.scopes
        said.append(scoped.verdict.outcome.value)
        if rate := scoped.readings["generation_tokens_rate"].value:
            assert 0.0 <= rate < 10_000.0
    assert set(said) <= {"healthy", "undetermined"}
    assert said[17] == "healthy"
    assert said[-1] == "healthy"  # once the window is full of pages of the new time
    assert cycle.ended == pytest.approx(clock())
    reliability(
        Part.CLOCK,
        f"under the exporter, {request.node.callspec.id}",
        "no wrong verdict, no negative or enormous rate; healthy again once the window holds pages of the new time",
        "healthy, undetermined, healthy" if "undetermined" in said[17:] else "healthy throughout",
    )
