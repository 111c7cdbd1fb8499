"""Pages of every other kind: each folder holds pages, values worked out by hand, and the whole output as before.

The folder is named after the kind, so that a new source is tested by adding files alone.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.schema import family_of
from llmvitals.series import Snapshot
from llmvitals.telemetry.registry import ADAPTERS

sys.path.insert(0, str(Path(__file__).parent))

from canonical import HERE, HOMES, canonical, snapshot

_LABEL = re.compile(r'(\w+)="([^"]*)"')
PAGES = [page for home in HOMES if home != HERE for page in sorted((home / "pages").iterdir())]
IDS = [f"{page.parents[1].name}-{page.stem}" for page in PAGES]


@cache
def read(page: Path) -> Snapshot:
    return snapshot(page)


@cache
def by_hand(page: Path) -> dict[str, Any]:
    return yaml.safe_load((page.parents[1] / "values" / f"{page.stem}.yaml").read_text(encoding="utf-8"))


CASES = [(page, row["series"], row) for page in PAGES for row in by_hand(page)["values"]]


@pytest.mark.parametrize(
    ("page", "series", "row"), CASES, ids=[f"{p.parents[1].name}-{p.stem}-{s}" for p, s, _ in CASES]
)
def test_values_worked_out_by_hand(page: Path, series: str, row: dict[str, Any]) -> None:
    assert row["line"] in page.read_text(encoding="utf-8"), "the page has no such text"
    name, _, labels = series.partition("{")
    wanted = dict(_LABEL.findall(labels))
    found = [
        value
        for sample, value in read(page).samples.items()
        if sample.name == name and all(sample.label(k) == v for k, v in wanted.items())
    ]
    assert found == [pytest.approx(row["value"], rel=1e-12)]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_kind_is_recognised_and_gaps_have_reasons(page: Path) -> None:
    told = by_hand(page)
    (info,) = [sample for sample in read(page).samples if sample.name == "llm_target_info"]
    assert (info.label("engine"), info.label("version")) == (page.parents[1].name, str(told["version"]))
    gaps = {s.label("family"): s for s in read(page).samples if s.name == "llm_family_gap"}
    for family, kind in told["gaps"].items():
        assert gaps[family].label("gap") == kind
        assert len(gaps[family].label("reason")) > 10
    named = {found.name for s in read(page).samples if (found := family_of(s.name))}
    whole = {family for family, s in gaps.items() if not any(s.label(n) for n in ("rank", "gpu", "model"))}
    assert not named & whole, "a family has values and a gap"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_whole_output_is_as_before(page: Path) -> None:
    expected = page.parents[1] / "expected" / f"{page.stem}.txt"
    assert canonical(read(page)) == expected.read_text(encoding="utf-8")


def test_every_kind_that_is_understood_has_a_golden_page() -> None:
    shown = {page.parents[1].name for page in PAGES} | {"vllm"}
    assert {adapter.kind for adapter in ADAPTERS if adapter.versions} <= shown
