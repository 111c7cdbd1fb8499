"""Every release's page gives the canonical values that were worked out by hand, and the same whole output as before."""

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

sys.path.insert(0, str(Path(__file__).parent))

from canonical import EXPECTED, PAGES, VALUES, canonical, snapshot

RELEASES = sorted(page.stem for page in PAGES.glob("*.prom"))
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@cache
def read(release: str) -> Snapshot:
    return snapshot(PAGES / f"{release}.prom")


@cache
def by_hand(release: str) -> dict[str, Any]:
    return yaml.safe_load((VALUES / f"{release}.yaml").read_text(encoding="utf-8"))


CASES = [(release, row["series"], row) for release in RELEASES for row in by_hand(release)["values"]]


@pytest.mark.parametrize(("release", "series", "row"), CASES, ids=[f"{r}-{s}" for r, s, _ in CASES])
def test_values_worked_out_by_hand(release: str, series: str, row: dict[str, Any]) -> None:
    lines = (PAGES / f"{release}.prom").read_text(encoding="utf-8").splitlines()
    assert any(row["line"] in line for line in lines), "the page has no such line"
    name, _, labels = series.partition("{")
    wanted = dict(_LABEL.findall(labels))
    found = [
        value
        for sample, value in read(release).samples.items()
        if sample.name == name and all(sample.label(k) == v for k, v in wanted.items())
    ]
    assert found == [pytest.approx(row["value"], rel=1e-12)]


@pytest.mark.parametrize("release", RELEASES)
def test_there_are_enough_of_them_and_the_page_says_where_it_comes_from(release: str) -> None:
    told = by_hand(release)
    assert len(told["values"]) >= 15
    assert told["origin"] in {"made", "recorded"}


def test_all_eras_are_there() -> None:
    assert len(RELEASES) >= 12
    assert {"0.4.3", "0.7.3", "0.8.5", "0.11.0", "0.22.1-rust", "0.33.0"} <= set(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_is_recognised_from_the_page(release: str) -> None:
    (info,) = [sample for sample in read(release).samples if sample.name == "llm_target_info"]
    assert info.label("version") == by_hand(release)["version"]
    assert info.label("engine") == "vllm"


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_cannot_say_is_a_gap_with_a_reason(release: str) -> None:
    gaps = {s.label("family"): s for s in read(release).samples if s.name == "llm_family_gap"}
    for family, kind in by_hand(release)["gaps"].items():
        assert gaps[family].label("gap") == kind
        assert len(gaps[family].label("reason")) > 10
    named = {found.name for s in read(release).samples if (found := family_of(s.name))}
    assert not named & set(gaps), "a family has values and a gap"
    assert all(s.label("gap") == "unsupported" for s in gaps.values()), "something is missing that should be there"


@pytest.mark.parametrize("release", RELEASES)
def test_every_sample_is_in_the_schema_with_its_identity(release: str) -> None:
    for sample in read(release).samples:
        family = family_of(sample.name)
        assert family is not None, sample.name
        keys = {name for name, _ in sample.labels}
        assert keys <= {"instance", "model", "engine", "rank", "le", *family.labels}, sample
        assert sample.label("instance") == "golden"


@pytest.mark.parametrize("release", RELEASES)
def test_the_whole_output_is_as_before(release: str) -> None:
    expected = (EXPECTED / f"{release}.txt").read_text(encoding="utf-8")
    assert canonical(read(release)) == expected
