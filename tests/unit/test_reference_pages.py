"""Pages of real servers, and the golden ones: recognised, every family known, and nothing on them odd without a reason."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.ingest.check import PageReport, check
from llmvitals.telemetry.registry import ADAPTERS

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LLMVITALS_SHARED") or ROOT.parent / "shared") / "reference" / "pages"
GOLDEN = sorted(page for home in (ROOT / "tests" / "golden").glob("**/pages") for page in home.iterdir())

# What an index calls a source, and the kind that reads its pages; the first pattern that fits the file.
KIND_OF: tuple[tuple[str, str], ...] = (
    ("dcgm-exporter/*", "dcgm"),
    ("nvidia_gpu_exporter/*", "nvidia-smi"),
    ("dynamo/vllm-*", "vllm"),
    ("dynamo/sglang-*", "sglang"),
    ("dynamo/trtllm-*", "trtllm"),
    ("dynamo/*-mocker-*", "dynamo-worker"),
    ("dynamo/*", "dynamo"),
    ("vllm/*", "vllm"),
    ("triton/*", "triton"),
    ("sglang/*", "sglang"),
    ("envoy-ai-gateway/*", "envoy-ai-gateway"),
    ("envoy/*", "envoy"),
    ("llm-d-epp/*", "llm-d-epp"),
    ("litellm/*", "litellm"),
    ("nginx-exporter/*", "nginx"),
    ("production-stack-router/*", "production-stack"),
    ("sglang-router/*", "sglang-router"),
    ("smg/*", "smg"),
    ("vllm-router/*", "vllm-router"),
    ("mooncake/*", "mooncake"),
)

# Pages that are not whole, and what must be said of them.
EXPLAINED: dict[str, str] = {
    "dcgm-exporter/golden-4.8.2-*": "of no engine that is understood",  # the renderer's own test: TEST_METRIC, no field
}

# Pages with an odd number, and how it is told.
ODD: dict[str, str] = {
    "dcgm-exporter/readme-*": "9223372036854775794 is outside its range, or stands for 'blank'",  # a card without a sensor
}


def look(page: Path) -> PageReport:
    return check(RawPage(0.0, None, None, page.read_bytes()), place=page.name)


def index() -> list[dict[str, Any]]:
    if not (SHARED / "index.yaml").is_file():
        return []
    rows = yaml.safe_load((SHARED / "index.yaml").read_text(encoding="utf-8"))
    return [row for row in rows if row["file"].endswith(".prom") or "stub_status" in row["file"]]


INDEX = index()


@pytest.mark.skipif(not INDEX, reason=f"no pages at {SHARED} (LLMVITALS_SHARED)")
def test_the_index_is_the_whole_one() -> None:
    assert len(INDEX) == 85


@pytest.mark.parametrize(
    "name", [row["file"] for row in INDEX] or [pytest.param("", marks=pytest.mark.skip("no pages"))]
)
def test_a_real_page_is_recognised_and_nothing_on_it_is_unknown(name: str) -> None:
    report = look(SHARED / name)
    explained = next((words for pattern, words in EXPLAINED.items() if fnmatchcase(name, pattern)), None)
    if explained is not None:
        assert explained in report.refused
        return
    assert report.refused == ""
    assert report.kind == next(kind for pattern, kind in KIND_OF if fnmatchcase(name, pattern))
    assert report.unknown == ()
    odd = next((words for pattern, words in ODD.items() if fnmatchcase(name, pattern)), "")
    assert [odd in warned.what for warned in report.warnings] == ([True] if odd else [])
    json.dumps(report.document(), allow_nan=False)


@pytest.mark.parametrize("page", GOLDEN, ids=[f"{p.parents[1].name}-{p.name}" for p in GOLDEN])
def test_a_golden_page_is_recognised_and_nothing_on_it_is_unknown(page: Path) -> None:
    own = page.parents[1].name
    report = look(page)
    assert report.refused == ""
    assert report.kind == ("vllm" if own == "golden" else own)
    assert report.unknown == ()
    assert report.format in {".json": {"json"}, ".txt": {"text"}}.get(page.suffix, {"prometheus", "openmetrics"})
    assert all(family.why for family in report.families if not family.samples)
    assert all(family.source for family in report.families if family.samples and family.state == "mapped")
    json.dumps(report.document(), allow_nan=False)


def test_every_unused_row_has_a_reason_and_hides_no_row_that_is_taken() -> None:
    """An entry of the unused that covers a series that is taken would make its loss pass in silence."""
    for adapter in ADAPTERS:
        for unused in adapter.unused:
            assert len(unused.why) > 3, (adapter.kind, unused.name)
            assert unused.name.strip("*_:"), (adapter.kind, unused.name)
