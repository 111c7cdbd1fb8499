"""The committed recordings: small, readable, long enough for a verdict, and made from full ones by the script."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "fixtures" / "captures"
NAMES = sorted(p.name for p in CAPTURES.iterdir())
MAX_BYTES = 1024 * 1024
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def thin_capture():
    sys.path.insert(0, str(ROOT / "tools"))
    import thin_capture  # noqa: PLC0415 - a script beside the package

    yield thin_capture
    sys.path.remove(str(ROOT / "tools"))


def scrapes(folder: Path) -> list[dict]:
    index = json.loads((folder / "capture.json").read_text(encoding="utf-8"))
    return [scrape for target in index["targets"] for scrape in target["scrapes"]]


def contents(folder: Path) -> dict[str, bytes]:
    """File by file, without the compression: another zlib packs the same page into other bytes."""
    return {p.name: gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in folder.iterdir()}


def test_there_are_eight_and_together_they_are_small(thin_capture):
    assert sorted(thin_capture.CASES) == NAMES
    assert len(NAMES) == 8
    assert sum(p.stat().st_size for p in CAPTURES.rglob("*") if p.is_file()) <= MAX_BYTES


@each
def test_a_recording_is_long_enough_for_a_verdict_and_holds_what_it_lists(name):
    listed = scrapes(CAPTURES / name)
    assert len(listed) >= 5
    assert listed[-1]["t"] - listed[0]["t"] >= 30
    files = {s["file"] for s in listed}
    assert {p.name for p in (CAPTURES / name).glob("*.gz")} == files
    for file in files:
        page = gzip.decompress((CAPTURES / name / file).read_bytes())
        assert b"# HELP" not in page
        assert b"\nvllm:num_requests_running{" in page


@each
def test_a_recording_says_what_it_is_of_and_what_its_verdict_is(name):
    about = json.loads((CAPTURES / name / "about.json").read_text(encoding="utf-8"))
    assert about["load"]
    assert about["engine"].startswith("vllm")
    assert (about["expected"]["verdict"] == "cause") == (about["expected"]["leading"] is not None)


@each
def test_the_script_makes_the_same_again(name, thin_capture, shared, tmp_path, ran_recording):
    ran_recording(shared / "captures" / name)
    thin_capture.thin(shared / "captures" / name, tmp_path / name)
    assert contents(tmp_path / name) == contents(CAPTURES / name)


def test_thinning_drops_help_and_every_other_page_and_nothing_else(thin_capture, tmp_path):
    source = tmp_path / "healthy"
    source.mkdir()
    pages = [f"# HELP a words\n# TYPE a gauge\na {n}\n# EOF\n".encode() for n in range(5)]
    for n, page in enumerate(pages):
        (source / f"{n}.prom.gz").write_bytes(gzip.compress(page))
    listed = [{"t": 3.0 * n, "file": f"{n}.prom.gz", "took": 0.1, "status": 200} for n in range(4)]
    listed.append({"t": 12.0, "took": 1.0, "status": 0, "error": "refused"})  # no answer, no file
    index = {"format": 1, "targets": [{"name": "a", "kind": "vllm", "scrapes": listed}]}
    (source / "capture.json").write_text(json.dumps(index))
    (source / "about.json").write_text(json.dumps({"engine": "e", "server_flags": "", "model": "m", "streams": []}))
    thin_capture.thin(source, tmp_path / "out")
    assert scrapes(tmp_path / "out") == [listed[0], listed[2], listed[4]]
    assert gzip.decompress((tmp_path / "out" / "2.prom.gz").read_bytes()) == b"# TYPE a gauge\na 2\n# EOF\n"
    assert not (tmp_path / "out" / "1.prom.gz").exists()
    assert json.loads((tmp_path / "out" / "about.json").read_text())["thinned"].startswith("3 of 5 pages")
