"""``llmvitals report`` from every source: what was written is replayed by ``llmvitals triage`` to the same document."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from llmvitals.exporters.cycle import Engine
from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Exporter as Limits
from llmvitals.settings import Settings, Slo, Target, Thresholds
from llmvitals.sources.capture import raw
from llmvitals.telemetry.ingest import RawPage
from support.answers import Answer, Answers, Asked
from support.command import llmvitals
from support.hostile import vllm_page
from support.prometheus import PrometheusServer, load_blocks, openmetrics, points_of, wait_for

CAPTURES = Path(__file__).resolve().parents[1] / "fixtures" / "captures"


def replayed(folder: Path) -> dict:
    """The document in the folder, once it was held against that of a triage of it."""
    written = json.loads((folder / "verdict.json").read_text())
    assert llmvitals("triage", "--json", folder).json == written
    assert {"report.md", "report.html", "incident.zip", "capture"} <= {one.name for one in folder.iterdir()}
    return written


def test_of_a_recording(tmp_path, ran_recording):
    ran_recording(CAPTURES / "kv-preemption")
    ran = llmvitals("report", CAPTURES / "kv-preemption", "-o", tmp_path / "r", "--note", "rolled out at 14:02")
    assert (ran.code, ran.err) == (0, "")
    assert replayed(tmp_path / "r") == llmvitals("triage", "--json", CAPTURES / "kv-preemption").json
    assert "rolled out at 14:02" in (tmp_path / "r" / "report.md").read_text()


def test_of_an_engine_that_is_watched(tmp_path):
    def engine(asked: Asked) -> Answer:
        return Answer(vllm_page(tokens=time.monotonic() * 100))

    with Answers({"/metrics": engine}) as server:
        ran = llmvitals("report", server.url, "-o", tmp_path / "r", "--for", "1.2s", "--interval", "200ms")
    assert ran.code == 0, ran.err
    assert replayed(tmp_path / "r")["window"]["pages"] >= 6


def test_of_an_exporter_with_promises_of_its_own(tmp_path, ran_recording):
    ran_recording(CAPTURES / "healthy")
    (recorded,) = raw(CAPTURES / "healthy")
    bodies = [page.body for page in recorded.pages]
    settings = Settings(
        targets=(Target(url="http://user:hunter2@engine:8000", name="a"),),
        exporter=Limits(listen="127.0.0.1:0", interval_seconds=0.1, timeout_seconds=2.0),
        slo=Slo(ttft_seconds=0.001),
        thresholds=Thresholds(min_seconds=0.3),
    )
    count = iter(range(10**6))

    def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
        return RawPage(time.time(), 0.01, 200, bodies[min(next(count), len(bodies) - 1)])

    with Exporter(settings, fetch=fetch) as exporter:
        wait_for(lambda: (c := exporter.newest) and c.history.get("a", 0) > 12, "pages in the window")
        ran = llmvitals("report", exporter.url, "-o", tmp_path / "r")
    assert ran.code == 0, ran.err
    found = replayed(tmp_path / "r")
    assert (found["scope"]["instance"], found["hurt"]) == ("a", True)
    assert "set; the default is 2" in (tmp_path / "r" / "report.md").read_text()
    assert not [p for p in (tmp_path / "r").rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]


@pytest.mark.prometheus
def test_of_what_a_prometheus_stored(tmp_path, ran_recording):
    ran_recording(CAPTURES / "kv-preemption")
    (recorded,) = raw(CAPTURES / "kv-preemption")
    engine = Engine(Settings(targets=(Target(url="http://engine:8000", name=recorded.name),)))
    cycles = [engine.publish(page.t, engine.record({recorded.name: page})) for page in recorded.pages]
    load_blocks(openmetrics(points_of([s for c in cycles for s in c.snapshots])), tmp_path / "data")
    at = f"{recorded.pages[-1].t + 1:.0f}"
    with PrometheusServer(tmp_path) as prometheus:
        told = llmvitals("triage", "--json", "--prometheus", prometheus.url, "--at", at, "--for", "60s").json
        ran = llmvitals("report", "--prometheus", prometheus.url, "--at", at, "--for", "60s", "-o", tmp_path / "r")
    assert ran.code == 0, ran.err
    assert replayed(tmp_path / "r") == told
    assert told["leading"]["cause"] == "preemption-thrash"
    (whole,) = raw(tmp_path / "r")
    assert whole.pages[0].t < told["window"]["start"]  # the minutes before lie beside it


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "nothing-there", "-o", "{out}"), "does not exist"),
        (("--from", "x", "http://127.0.0.1:1", "-o", "{out}"), "one of them"),
        (("--at", "0", "-o", "{out}"), "need --prometheus"),
        (("http://127.0.0.1:1", "-o", "{out}"), "http"),
    ],
)
def test_what_cannot_be_reported_is_one_line(tmp_path, words, says):
    ran = llmvitals("report", *(word.format(out=tmp_path / "r") for word in words))
    (line,) = ran.err.splitlines()
    assert (ran.code, says in line) == (3, True), line
    assert not (tmp_path / "r").exists()
