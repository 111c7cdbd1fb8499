"""Recordings: written so that nothing is lost, read so that damage is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from llmvitals.errors import CaptureError
from llmvitals.sources.capture import Recorded, raw, read_capture
from llmvitals.sources.record import Recorder, write_capture
from llmvitals.telemetry.ingest import RawPage

PAGE = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m",engine="0"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m",engine="0"} 2.0
"""


def pages(count: int = 3) -> list[RawPage]:
    return [RawPage(1000.0 + 3 * i, 0.01, 200, PAGE) for i in range(count)]


def index(folder: Path) -> dict:
    return json.loads((folder / "capture.json").read_text())


def write_index(folder: Path, **change: object) -> None:
    document = {"format": 1, "targets": [{"name": "a", "kind": "vllm", "scrapes": []}]} | change
    folder.mkdir(exist_ok=True)
    (folder / "capture.json").write_text(json.dumps(document))


def test_what_is_written_is_read_back_as_it_came(tmp_path):
    down = RawPage(1009.0, None, None, None, "connection refused")
    write_capture(tmp_path / "c", [("vllm-0", "vllm", [*pages(), down])])
    (target,) = raw(tmp_path / "c")
    assert (target.name, target.kind) == ("vllm-0", "vllm")
    assert list(target.pages) == [*pages(), down]
    assert [page.t for page in target.pages[1:3]] == [1003.0, 1006.0]


def test_the_index_has_the_documented_form(tmp_path):
    write_capture(tmp_path / "c", [("vllm-0", "vllm", pages(1))])
    assert index(tmp_path / "c") == {
        "format": 1,
        "targets": [
            {
                "name": "vllm-0",
                "kind": "vllm",
                "scrapes": [{"t": 1000.0, "file": "0-00000.prom.gz", "took": 0.01, "status": 200, "error": ""}],
            }
        ],
    }
    assert gzip.decompress((tmp_path / "c" / "0-00000.prom.gz").read_bytes()) == PAGE


def test_pages_become_canonical_snapshots(tmp_path):
    write_capture(tmp_path / "c", [("vllm-0", "vllm", pages())])
    (seen,) = read_capture(tmp_path / "c")
    assert (seen.name, [s.t for s in seen.snapshots]) == ("vllm-0", [1000.0, 1003.0, 1006.0])
    running = {s.name: (s.label("instance"), s.label("model"), v) for s, v in seen.snapshots[-1].samples.items()}
    assert running["llm_requests_running"] == ("vllm-0", "m", 3.0)


def test_plain_pages_and_the_index_itself_as_path_are_taken_too(tmp_path):
    (tmp_path / "x.prom").write_bytes(PAGE)
    write_index(
        tmp_path,
        targets=[{"name": "a", "kind": "auto", "scrapes": [{"t": 5, "file": "x.prom", "took": 0, "status": 200}]}],
    )
    assert raw(tmp_path / "capture.json")[0].pages[0] == RawPage(5.0, 0.0, 200, PAGE)


def test_an_interruption_keeps_every_page_so_far(tmp_path):
    def work() -> None:
        with Recorder(tmp_path / "c", [Recorded("a", (), "vllm")]) as recorder:
            for page in pages(2):
                recorder.add("a", page)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert [page.t for page in raw(tmp_path / "c")[0].pages] == [1000.0, 1003.0]


def test_a_kill_loses_no_more_than_the_last_seconds(tmp_path):
    recorder = Recorder(tmp_path / "c", [Recorded("a", (), "vllm")])
    for page in pages(8):  # 21 s of pages; nothing ends the recorder
        recorder.add("a", page)
    assert len(raw(tmp_path / "c")[0].pages) >= 5
    assert not list((tmp_path / "c").glob("*.part"))


def test_a_folder_with_a_recording_is_never_overwritten(tmp_path):
    write_capture(tmp_path / "c", [("a", "vllm", pages(1))])
    with pytest.raises(CaptureError, match="already holds a recording"):
        Recorder(tmp_path / "c", [])


def test_a_file_in_the_way_of_the_folder_is_named(tmp_path):
    (tmp_path / "c").write_text("")
    with pytest.raises(CaptureError, match=r"c: cannot be written"):
        write_capture(tmp_path / "c", [("a", "vllm", pages(1))])


def scrape(file: str) -> list[dict]:
    return [{"name": "a", "kind": "vllm", "scrapes": [{"t": 1.0, "file": file, "took": 0.1, "status": 200}]}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "has format 2"),
        ({"format": "1"}, "at `$.format`"),
        ({"targets": 7}, "at `$.targets`"),
        ({"targets": []}, "holds no scrapes"),
        ({"targets": scrape("gone.prom.gz")}, "gone.prom.gz: is missing"),
        ({"targets": scrape("a\0b")}, "is missing"),
        ({"targets": scrape("x" * 5000)}, "is missing"),
        ({"targets": scrape("../outside")}, "points outside"),
        ({"targets": scrape("/etc/hostname")}, "points outside"),
        ({"targets": scrape("x") + scrape("x")}, "two targets named 'a'"),
        ({"targets": [{**scrape("x")[0], "kind": "vlm"}]}, "unknown kind 'vlm'"),
    ],
)
def test_a_bad_index_is_one_clear_line(tmp_path, change, says):
    (tmp_path / "outside").write_bytes(PAGE)
    folder = tmp_path / "c"
    write_index(folder, **change)
    (folder / "x").write_bytes(PAGE)
    with pytest.raises(CaptureError) as caught:
        read_capture(folder)
    assert says in str(caught.value)
    assert str(folder) in caught.value.place
    assert caught.value.remedy


def test_the_nearest_kind_is_suggested(tmp_path):
    write_index(tmp_path, targets=[{**scrape("x")[0], "kind": "vlm"}])
    with pytest.raises(CaptureError, match="Did you mean 'vllm'"):
        raw(tmp_path)


def test_text_that_is_no_json_is_named(tmp_path):
    (tmp_path / "capture.json").write_text("{")
    with pytest.raises(CaptureError, match="is not a capture index"):
        raw(tmp_path)


def test_a_folder_without_an_index_and_no_folder_are_told_apart(tmp_path):
    with pytest.raises(CaptureError, match=r"has no capture\.json"):
        raw(tmp_path)
    with pytest.raises(CaptureError, match="does not exist"):
        raw(tmp_path / "nowhere")


@pytest.mark.parametrize("cut", [5, 40])
def test_damaged_gzip_is_named(tmp_path, cut):
    write_capture(tmp_path / "c", [("a", "vllm", pages(1))])
    page = tmp_path / "c" / "0-00000.prom.gz"
    page.write_bytes(page.read_bytes()[:cut])
    with pytest.raises(CaptureError, match=r"0-00000\.prom\.gz: is damaged"):
        read_capture(tmp_path / "c")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("llmvitals.sources.capture.MAX_PAGE_BYTES", 1000)
    bomb = RawPage(1.0, 0.1, 200, b"x" * 100_000)
    write_capture(tmp_path / "c", [("a", "vllm", [bomb])])
    with pytest.raises(CaptureError, match="larger than a metrics page"):
        read_capture(tmp_path / "c")


CANONICAL = b"""llm_target_up{instance="host"} 1
llm_host_open_fds{instance="vllm-0",process="api"} 40
llm_host_open_fds{instance="vllm-1",process="api"} 50
llm_requests_running{instance="vllm-0",model="m"} 7
"""


@pytest.mark.parametrize("whose", ["vllm-0", "nobody"])
def test_canonical_families_join_the_engine_whose_instance_they_carry(tmp_path, whose):
    targets = [Recorded("vllm-0", (), "vllm"), Recorded("host", (), "llmvitals", engine=whose)]
    with Recorder(tmp_path / "c", targets) as recorder:
        for page in pages():
            recorder.add("vllm-0", page)
            recorder.add("host", RawPage(page.t, 0.01, 200, CANONICAL))
    found = {seen.name: seen.snapshots[-1].samples for seen in read_capture(tmp_path / "c")}
    assert set(found) == ({"vllm-0"} if whose == "vllm-0" else {"vllm-0", "host"})
    joined = {
        (key.label("instance"), value) for key, value in found["vllm-0"].items() if key.name == "llm_host_open_fds"
    }
    assert joined == ({("vllm-0", 40.0)} if whose == "vllm-0" else set())
    # What a page beside the engine says of an engine, and how it was reached itself, is not the engine's.
    assert 7.0 not in {value for key, value in found["vllm-0"].items() if key.name == "llm_requests_running"}
    assert {key.label("instance") for key in found["vllm-0"]} == {"vllm-0"}
