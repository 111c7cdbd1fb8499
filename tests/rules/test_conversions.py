"""No conversion can be taken away unseen: without it, a value that was worked out by hand comes out otherwise.

Units (milliseconds, percent, mebibytes, nanoseconds), totals that are one part of a histogram, and series that must not be
taken for what their name says: for each such row there is a golden page that notices.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from llmvitals.series import Series
from llmvitals.telemetry.ingest import RawPage, ingest
from llmvitals.telemetry.mapping import Adapter, Row
from llmvitals.telemetry.registry import ADAPTERS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

from canonical import HERE, HOMES

_LABEL = re.compile(r'(\w+)="([^"]*)"')
Value = tuple[str, dict[str, str], float]


def home_of(kind: str) -> list[Path]:
    """The folders with golden pages of a kind; vLLM's lie at the top as well."""
    return [home for home in HOMES if home.name == kind or (kind == "vllm" and home == HERE)]


@cache
def goldens(kind: str) -> tuple[tuple[bytes, tuple[Value, ...]], ...]:
    """Pages of a kind with the values worked out by hand."""
    found = []
    for home in home_of(kind):
        for page in sorted((home / "pages").iterdir()):
            told = yaml.safe_load((home / "values" / f"{page.stem}.yaml").read_text(encoding="utf-8"))
            found.append((page.read_bytes(), tuple(value(row) for row in told["values"])))
    return tuple(found)


def value(row: dict[str, Any]) -> Value:
    name, _, labels = row["series"].partition("{")
    return name, dict(_LABEL.findall(labels)), float(row["value"])


def samples(adapter: Adapter, body: bytes) -> dict[Series, float]:
    """What a scrape gives whose page is read by this adapter."""
    with mock.patch.object(ingest, "claims", return_value=adapter):
        return dict(ingest.Ingest(instance="golden").read(RawPage(1.7e9, 0.02, 200, body)).samples)


def holds(adapter: Adapter) -> bool:
    """Whether every value worked out by hand comes out."""
    for body, wanted in goldens(adapter.kind):
        found = samples(adapter, body)
        for name, labels, number in wanted:
            got = [v for s, v in found.items() if s.name == name and all(s.label(k) == x for k, x in labels.items())]
            if len(got) != 1 or not math.isclose(got[0], number, rel_tol=1e-9, abs_tol=1e-12):
                return False
    return True


def converting(adapter: Adapter) -> Iterator[Row]:
    """Rows whose value is not taken as it stands on the page."""
    yield from (row for row in adapter.rows if row.family and row.scale != 1.0)


def spoiled(adapter: Adapter, row: Row) -> Adapter:
    return replace(adapter, rows=tuple(replace(r, scale=1.0) if r is row else r for r in adapter.rows))


MAPPED = [adapter for adapter in ADAPTERS if adapter.versions]
CASES = [(adapter, row) for adapter in MAPPED for row in converting(adapter)]


@pytest.mark.parametrize("adapter", MAPPED, ids=lambda adapter: adapter.kind)
def test_with_every_conversion_all_values_come_out(adapter: Adapter) -> None:
    assert holds(adapter)


@pytest.mark.parametrize(("adapter", "row"), CASES, ids=[f"{a.kind}-{r.source}" for a, r in CASES])
def test_without_a_conversion_a_value_comes_out_otherwise(adapter: Adapter, row: Row) -> None:
    assert not holds(spoiled(adapter, row)), f"no golden page of {adapter.kind} notices {row.source}"


def test_there_are_conversions_of_every_kind() -> None:
    scales = {row.scale for _, row in CASES}
    assert {1e-3, 1e-9, 0.01, 2.0**20} <= scales
