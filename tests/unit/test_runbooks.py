"""Runbooks: one page per cause, four headings, links that lead somewhere, queries on names that exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from llmvitals import schema
from llmvitals.data import folder
from llmvitals.signals import catalogue
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.model import Check

PAGES = sorted(folder("runbooks").glob("*.md"))
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
SOURCES = re.compile(
    r"^`(?P<slug>[a-z-]+)` · Source: (backpressure article|batching mistakes|inference guide), \w", re.M
)
APART = {
    "gpu": schema.Origin.GPU,
    "gpu_links": schema.Origin.GPU,
    "gpu_memory": schema.Origin.GPU,
    "host": schema.Origin.HOST,
    "gateway": schema.Origin.GATEWAY,
    "tenants": schema.Origin.GATEWAY,
}
"""Modules of derived signals that read what no engine shows."""
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)


def queries(page: Path) -> list[str]:
    """The PromQL expressions of a page; an empty line parts one from the next."""
    blocks = re.findall(r"^```promql\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    return [part.strip() for block in blocks for part in block.split("\n\n")]


@each_page
def test_a_page_has_its_four_headings_in_order(page: Path) -> None:
    assert re.findall(r"^## (.+)$", page.read_text(), flags=re.M) == HEADINGS


@each_page
def test_no_section_is_empty(page: Path) -> None:
    for section in re.split(r"^## .+$", page.read_text(), flags=re.M)[1:]:
        assert len(section.split()) >= 10


@each_page
def test_a_page_names_its_cause_and_its_source(page: Path) -> None:
    found = SOURCES.search(page.read_text())
    assert found
    assert found["slug"] == page.stem


def test_every_cause_has_a_page_and_every_page_a_cause() -> None:
    assert {page.stem for page in PAGES} == {check.cause for check in CHECKS}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.cause)
def test_page_and_check_name_the_same_source(check: Check) -> None:
    line = (folder("runbooks") / f"{check.cause}.md").read_text().splitlines()[2]
    assert check.source in re.split(r"; |Source: ", line)


@each_page
def test_a_page_tells_look_alikes_and_how_to_verify_the_fix(page: Path) -> None:
    text = page.read_text()
    diagnosis, mitigation = text.split("## Diagnosis")[1].split("## Mitigation")
    assert "**Looks like:**" in diagnosis
    assert "**Verify:**" in mitigation


@each_page
def test_a_page_is_short_enough_for_the_night(page: Path) -> None:
    assert len(page.read_text().split()) <= 400


@each_page
def test_links_lead_to_pages_that_exist(page: Path) -> None:
    missing = [to for to in re.findall(r"\]\(([^)]+)\)", page.read_text()) if not (page.parent / to).is_file()]
    assert missing == []


@each_page
def test_every_metric_of_a_query_exists(page: Path) -> None:
    gauges = {f"llm_{signal.id}" for signal in catalogue.SIGNALS}
    names = {name for query in queries(page) for name in re.findall(r"\bllm_\w+", query)}
    assert names, "no query"
    assert {n for n in names if schema.family_of(n) is None and n not in gauges} == set()


def origin(name: str) -> schema.Origin:
    """The kind of telemetry that shows a family, or that a gauge of the exporter is computed from."""
    signal = catalogue.BY_ID.get(name.removeprefix("llm_"))
    if schema.family_of(name) is None and signal is not None and signal.derive is not None:
        return APART.get(signal.derive.__module__.rpartition(".")[2], schema.Origin.ENGINE)
    return schema.origin_of(name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.cause)
def test_a_page_asks_every_kind_of_telemetry_without_which_its_cause_cannot_be_named(check: Check) -> None:
    text = folder("runbooks") / f"{check.cause}.md"
    asked = {origin(name) for query in queries(text) for name in re.findall(r"\bllm_\w+", query)}
    needed = set.intersection(*({origin(f"llm_{limit.signal}") for limit in rows} for rows in check.when))
    assert needed <= asked


@each_page
def test_counters_are_read_as_rates_and_gauges_are_not(page: Path) -> None:
    for query in queries(page):
        for function, name in re.findall(r"\b(rate|increase|deriv)\((llm_\w+)", query):
            family = schema.family_of(name)
            gauge = family is None or family.kind is schema.Kind.GAUGE
            assert gauge == (function == "deriv"), query


@pytest.mark.prometheus
def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": "runbook:query", "labels": {"page": page.stem, "number": str(number)}, "expr": query}
        for page in PAGES
        for number, query in enumerate(queries(page))
    ]
    file = tmp_path / "runbooks.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))  # JSON is YAML
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(rules)} rules found" in result.stdout
