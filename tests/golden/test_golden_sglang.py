"""SGLang's pages give the canonical values that were worked out by hand, and the same whole output as before."""

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

from canonical import SGLANG, canonical, snapshot

RELEASES = sorted(page.stem for page in (SGLANG / "pages").glob("*.prom"))
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@cache
def read(release: str) -> Snapshot:
    return snapshot(SGLANG / "pages" / f"{release}.prom")


@cache
def by_hand(release: str) -> dict[str, Any]:
    return yaml.safe_load((SGLANG / "values" / f"{release}.yaml").read_text(encoding="utf-8"))


CASES = [(release, row["series"], row) for release in RELEASES for row in by_hand(release)["values"]]


@pytest.mark.parametrize(("release", "series", "row"), CASES, ids=[f"{r}-{s}" for r, s, _ in CASES])
def test_values_worked_out_by_hand(release: str, series: str, row: dict[str, Any]) -> None:
    lines = (SGLANG / "pages" / f"{release}.prom").read_text(encoding="utf-8").splitlines()
    assert row["line"] in lines, "the page has no such line"
    name, _, labels = series.partition("{")
    wanted = dict(_LABEL.findall(labels))
    found = [
        value
        for sample, value in read(release).samples.items()
        if sample.name == name and all(sample.label(k) == v for k, v in wanted.items())
    ]
    assert found == [pytest.approx(row["value"], rel=1e-12)]


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_is_recognised_and_its_gaps_have_reasons(release: str) -> None:
    told = by_hand(release)
    (info,) = [sample for sample in read(release).samples if sample.name == "llm_target_info"]
    assert (info.label("engine"), info.label("version")) == ("sglang", told["version"])
    gaps = {s.label("family"): s for s in read(release).samples if s.name == "llm_family_gap"}
    for family, kind in told["gaps"].items():
        assert gaps[family].label("gap") == kind
        assert len(gaps[family].label("reason")) > 10
    named = {found.name for s in read(release).samples if (found := family_of(s.name))}
    assert not named & set(gaps), "a family has values and a gap"
    cut = told["origin"] == "cut"  # a page of a few series: what else a release shows is missing on it
    assert cut or all(s.label("gap") != "missing" for s in gaps.values()), "something is missing that should be there"


def test_three_eras_are_there() -> None:
    assert {"0.4.3", "0.5.9", "0.5.23"} <= set(RELEASES)
    assert all(len(by_hand(r)["values"]) >= 15 for r in RELEASES if by_hand(r)["origin"] != "cut")


@pytest.mark.parametrize("release", RELEASES)
def test_the_whole_output_is_as_before(release: str) -> None:
    assert canonical(read(release)) == (SGLANG / "expected" / f"{release}.txt").read_text(encoding="utf-8")
