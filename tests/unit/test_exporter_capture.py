"""The exporter's window as a recording: a triage of it says what the page says, and what it may cost is bounded."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from llmvitals.errors import CaptureError
from llmvitals.exporters import capture
from llmvitals.exporters.board import Board
from llmvitals.exporters.capture import TooLargeError, packed
from llmvitals.exporters.cycle import Cycle, Engine, replay_last
from llmvitals.exporters.judge import judge
from llmvitals.exporters.server import Site
from llmvitals.settings import Exporter, Service, Settings, Slo, Target
from llmvitals.sources.capture import raw, read_capture
from llmvitals.sources.recording import of_zip, seen_of, write
from llmvitals.telemetry.ingest import RawPage
from llmvitals.triage.report import document
from support.hostile import vllm_page

FIXTURES = Path(__file__).parents[1] / "fixtures" / "captures"


def verdicts(seen, settings: Settings) -> dict:
    engines = {one.name: one.engines for one in seen if one.engines}
    judged, _ = judge([s for one in seen for s in one.snapshots], settings, engines)
    return document([one.verdict for one in judged])


def said(cycle: Cycle) -> dict:
    return document([scoped.verdict for scoped in cycle.scopes])


def cycle_of(name: str, **slo: float) -> tuple[Cycle, Settings]:
    (recorded,) = raw(FIXTURES / name)
    pages = list(recorded.pages)
    settings = Settings(exporter=Exporter(window_seconds=pages[-1].t - pages[0].t + 1), slo=Slo(**slo))
    return replay_last(pages, settings, target=Target(url="http://e", name=recorded.name)), settings


@pytest.mark.parametrize("name", ["kv-preemption", "healthy", "admission-503"])
def test_the_packed_window_is_judged_as_the_page_was(name, tmp_path, ran_recording):
    ran_recording(FIXTURES / name)
    cycle, settings = cycle_of(name)
    recording = of_zip(packed(cycle, settings), place="x")
    assert verdicts(seen_of(recording), Settings()) == said(cycle)
    write(recording, tmp_path / "c")
    assert verdicts(read_capture(tmp_path / "c"), Settings()) == said(cycle)


def test_the_promises_that_were_judged_by_travel_with_it(ran_recording):
    ran_recording(FIXTURES / "healthy")
    cycle, settings = cycle_of("healthy", ttft_seconds=0.001)
    recording = of_zip(packed(cycle, settings), place="x")
    assert said(cycle)["verdict"] != "healthy"
    assert verdicts(seen_of(recording), recording.judged.settings(Settings())) == said(cycle)


def service() -> tuple[Engine, Settings]:
    settings = Settings(
        targets=tuple(Target(url=f"http://{n}", name=n) for n in ("a", "b", "other")),
        services=(Service(name="chat", engines=("a", "b")),),
        exporter=Exporter(window_seconds=60),
    )
    return Engine(settings, fetch=lambda url, timeout_s, access: RawPage(0.0, 0.0, 200, b"")), settings


def run(engine: Engine) -> Cycle:
    for i in range(8):
        tokens = 1000.0 + 100 * i
        pages = {n: RawPage(100.0 + 5 * i + k / 10, 0.01, 200, vllm_page(tokens=tokens)) for k, n in enumerate("ab")}
        failed = RawPage(100.0 + 5 * i, 4.0, None, None, "gave no answer within 4 s")
        cycle = engine.publish(100.0 + 5 * i + 1, engine.record({**pages, "other": failed}))
    return cycle


def test_a_service_is_merged_again_and_a_failed_scrape_keeps_its_words():
    engine, settings = service()
    cycle = run(engine)
    recording = of_zip(packed(cycle, settings), place="x")
    found = verdicts(seen_of(recording), Settings())
    assert found == said(cycle)
    assert {one["name"] for one in found["targets"]} == {"chat", "a", "b", "other"}
    assert "no answer within 4 s" in json.dumps(found)


def test_a_name_narrows_to_the_target_or_the_whole_service():
    engine, settings = service()
    cycle = run(engine)
    assert {t.name for t in of_zip(packed(cycle, settings, ["other"]), place="x").targets} == {"other"}
    chat = of_zip(packed(cycle, settings, ["chat"]), place="x")
    assert ({t.name for t in chat.targets}, [s.name for s in chat.services]) == ({"a", "b"}, ["chat"])


def test_nothing_of_addresses_and_headers_travels(ran_recording):
    ran_recording(FIXTURES / "healthy")
    (recorded,) = raw(FIXTURES / "healthy")
    target = Target(
        url="http://user:hunter2@e:8000/?token=abcde", name="e", probe_headers_file="", labels={"rack": "r1"}
    )
    cycle = replay_last(list(recorded.pages), Settings(), target=target)
    with zipfile.ZipFile(io.BytesIO(packed(cycle, Settings()))) as made:
        text = b"".join(gzip.decompress(made.read(n)) if n.endswith(".gz") else made.read(n) for n in made.namelist())
    assert b"rack" in text
    assert not [secret for secret in (b"hunter2", b"abcde", b"user:") if secret in text]


def test_more_than_fits_is_refused_with_what_to_do(monkeypatch, ran_recording):
    ran_recording(FIXTURES / "healthy")
    cycle, settings = cycle_of("healthy")
    monkeypatch.setattr(capture, "MOST_SAMPLES", 10)
    with pytest.raises(TooLargeError, match="instance"):
        packed(cycle, settings)
    monkeypatch.setattr(capture, "MOST_SAMPLES", 10**9)
    monkeypatch.setattr(capture, "MOST_BYTES", 100)
    with pytest.raises(TooLargeError, match="instance"):
        packed(cycle, settings)


def asked(site: Site, path: str, query: bytes = b"") -> tuple[int, bytes]:
    got = []

    async def call() -> None:
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            got.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": query}
        await site.app()(scope, receive, send)

    asyncio.run(call())
    return got[0]["status"], b"".join(m.get("body", b"") for m in got)


def test_the_route_answers_with_the_zip_and_refuses_who_is_not_there(ran_recording):
    ran_recording(FIXTURES / "healthy")
    cycle, settings = cycle_of("healthy")
    board = Board()
    site = Site(board, settings)
    assert asked(site, "/capture")[0] == 503
    board.post(cycle)
    assert asked(site, "/capture", b"instance=nobody")[0] == 404
    status, body = asked(site, "/capture")
    assert status == 200
    assert verdicts(seen_of(of_zip(body, place="x")), Settings()) == said(cycle)


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 no zip", b"{}"])
def test_what_is_no_recording_is_one_line(body):
    with pytest.raises(CaptureError, match="cannot be read"):
        of_zip(body, place="http://x/capture")


def locked() -> bytes:
    """A zip that says of its file that a password is needed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("capture.json", "{}")
    body = bytearray(out.getvalue())
    body[6] |= 1
    body[body.index(b"PK\x01\x02") + 8] |= 1
    return bytes(body)


def zipped(**files: bytes) -> bytes:
    """A zip of these files; ``_`` stands for the dot."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, body in files.items():
            z.writestr(name.replace("_", "."), body)
    return out.getvalue()


def test_a_recording_that_is_locked_nested_or_packed_twice_without_end_is_one_line(monkeypatch):
    monkeypatch.setattr("llmvitals.sources.recording.MAX_PAGE_BYTES", 1000)
    deep = zipped(capture_json=b'{"format":1,"x":' + b"[" * 100_000)
    twice = zipped(capture_json=b"{}", a_gz=gzip.compress(b"0" * 100_000))
    for body in (locked(), deep, twice):
        with pytest.raises(CaptureError, match="cannot be read"):
            of_zip(body, place="http://x/capture")


def test_a_zip_that_points_out_of_itself_or_unpacks_without_end_is_refused(monkeypatch):
    def made(**files: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            for name, body in files.items():
                z.writestr(name.replace("_", "."), body)
        return out.getvalue()

    index = {
        "format": 1,
        "targets": [{"name": "a", "kind": "auto", "scrapes": [{"t": 1.0, "file": "../../etc/passwd"}]}],
    }
    with pytest.raises(CaptureError, match="cannot be read"):
        of_zip(made(capture_json=msgspec.json.encode(index)), place="x")
    monkeypatch.setattr("llmvitals.sources.recording.MOST_UNPACKED", 1000)
    with pytest.raises(CaptureError, match="too large"):
        of_zip(made(capture_json=b"{}", big_prom=b"0" * 2000), place="x")
