"""A real VictoriaMetrics beside a real Prometheus, both fed the same series by remote write: the same verdicts, the same alerts,
and by how much the numbers of rules differ, whose increase() is another there.
"""

from __future__ import annotations

import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.cli import main
from llmvitals.exporters.judge import groups, judge
from llmvitals.lab.draw import Longer
from llmvitals.lab.play import Job, watch
from llmvitals.series import Series, Snapshot, series
from llmvitals.settings import Exporter, Settings
from llmvitals.sources.promql import read_prometheus
from support.prometheus import PrometheusServer
from support.remote_write import FLAG, push, turned
from support.victoria import VictoriaServer

pytestmark = [pytest.mark.storage, pytest.mark.prometheus]

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = (
    "chat",
    "busy",
    "unbounded-queue",
    "kv-cache-saturation",
    "preemption-thrash",
    "api-server-bound",
    "engine-died",
)
SEED, END = 7, 1_750_000_000.0
HALF = 0.5
"""Of an interval: no page lies on a window's edge, which Prometheus 2 counts in, VictoriaMetrics and Prometheus 3 do not."""

KEPT = 1e-9
"""Relative: VictoriaMetrics keeps numbers as decimals, and loses the last digits of some."""

CALM = 300.0
"""Seconds of ordinary traffic before each fault: as long as the longest window that recorded signals look back."""


@dataclass(frozen=True)
class Stores:
    """Both with the same samples, and over which window each scenario is judged (seconds)."""

    prometheus: str
    server: VictoriaServer
    windows: dict[str, float]

    @property
    def victoria(self) -> str:
        return self.server.url

    def each(self) -> tuple[str, str]:
        return self.prometheus, self.victoria


def pages(name: str) -> tuple[list[Snapshot], float]:
    """A play under its own name, its last page at END and with what its exporter says of it there; and its window."""
    run = watch(Job(name, SEED, 0, "severe"), longer=Longer(calm=CALM))
    window = run.base.times.window + HALF * run.base.times.interval
    shown = [
        replace(
            page,
            t=round(page.t - run.snapshots[-1].t + END, 3),
            samples={key.plus(instance=name): value for key, value in page.samples.items()},
        )
        for page in run.snapshots
    ]
    settings = Settings(exporter=Exporter(window_seconds=window))
    judged, _ = judge([page for page in shown if page.t >= END - window - 1e-6], settings)
    told = {
        Series(group.name, tuple(sorted(labels))): value
        for group in groups(judged, window)
        for labels, value in group.samples.items()
    }
    return [*shown[:-1], replace(shown[-1], samples={**shown[-1].samples, **told})], window


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder = tmp_path_factory.mktemp("stores")
    played = {name: pages(name) for name in SCENARIOS}
    points: dict[Series, list[tuple[int, float | None]]] = {}
    for shown, _ in played.values():
        points |= turned((round(page.t * 1000), page.samples) for page in shown)
    with PrometheusServer(folder / "p", flags=(FLAG,)) as prometheus, VictoriaServer(folder / "v") as victoria:
        for server in (prometheus, victoria):
            push(server.url, points)
        victoria.flush()
        yield Stores(prometheus.url, victoria, {name: window for name, (_, window) in played.items()})


def answers(url: str, query: str, at: float) -> dict[tuple[tuple[str, str], ...], float]:
    """An instant query: each series' labels with its value."""
    body = urllib.parse.urlencode({"query": query, "time": f"{at:.3f}"}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", body, timeout=30) as answer:
        data = json.load(answer)["data"]
    assert data["resultType"] == "vector"
    return {
        tuple(sorted((k, v) for k, v in one["metric"].items() if k != "__name__")): float(one["value"][1])
        for one in data["result"]
    }


# -- verdicts ----------------------------------------------------------------------------------------------------------
def verdict(url: str, name: str, window: float, capsys: pytest.CaptureFixture[str]) -> Any:
    narrow = ["--selector", f'{{instance="{name}"}}', "--at", f"{END:.3f}", "--for", f"{window:g}s"]
    with pytest.raises(SystemExit):
        main(["triage", "--prometheus", url, *narrow, "--json"])
    return json.loads(capsys.readouterr().out)["targets"]


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with the way to it."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(node, list):
        for at, value in enumerate(node):
            yield from leaves(value, f"{path}[{at}]")
    else:
        yield path, node


def numbers(document: Any) -> dict[str, float]:
    return {path: value for path, value in leaves(document) if isinstance(value, float)}


def words(document: Any) -> dict[str, Any]:
    return {path: value for path, value in leaves(document) if not isinstance(value, float)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_give_the_same_verdict_with_the_same_numbers(stores, name, capsys):
    """Stored samples are read as they are, so neither a word nor a number may differ."""
    (expected,), (found,) = (verdict(url, name, stores.windows[name], capsys) for url in stores.each())
    assert words(found) == words(expected)
    assert numbers(found) == pytest.approx(numbers(expected), rel=KEPT, abs=KEPT)


def test_the_verdicts_are_not_all_one(stores, capsys):
    said = {
        (one["verdict"], one["leading"])
        for name in SCENARIOS
        for one in verdict(stores.victoria, name, stores.windows[name], capsys)
    }
    assert len(said) >= 5


# -- rules -------------------------------------------------------------------------------------------------------------
def rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "alerts" / file).read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


RECORDING, ALERTS = rules("llmvitals-recording.yaml"), rules("llmvitals-alerts-compat.yaml")
OFF_THE_PAGES = (1.3, 7.7, 12.9, 23.3)
"""Seconds before the end: between pages, where windows begin and end between samples too."""

COUNTS = re.compile(r"\b(rate|increase)\(")
MOST_5M, TYPICAL = 0.15, 0.02
"""Relative: what docs/storage.md says of numbers over five minutes, at most and in the middle. Each end of a window may be off by
what one scrape interval brought: 15 s / 300 s at each of them, and half as much again where traffic changes.
"""


def differences(stores: Stores, rule: dict[str, Any]) -> Iterator[float]:
    """How far apart the two are at each moment, relative; the series must be the same ones."""
    for back in OFF_THE_PAGES:
        expected, found = (answers(url, rule["expr"], END - back) for url in stores.each())
        assert found.keys() == expected.keys(), rule["record"]
        yield from (abs(found[key] - value) / max(abs(value), 1e-9) for key, value in expected.items())


def test_recorded_gauges_are_the_same_and_counts_are_close(stores):
    counts: list[float] = []
    for rule in RECORDING:
        found = list(differences(stores, rule))
        if not COUNTS.search(rule["expr"]):
            assert all(one <= KEPT for one in found), rule["record"]
        elif rule["record"].endswith(":5m"):
            assert all(one <= MOST_5M for one in found), rule["record"]
            counts += found
    assert len(counts) > 500
    assert 0 < sorted(counts)[len(counts) // 2] <= TYPICAL, "increase() is another there"


def test_the_same_alerts_hold(stores):
    """Each store over what its own rules recorded there."""
    held = []
    for url in stores.each():
        for rule in RECORDING:
            recorded = answers(url, rule["expr"], END)
            push(
                url,
                {Series(rule["record"], labels): [(round(END * 1000), value)] for labels, value in recorded.items()},
            )
        stores.server.flush()
        held.append({(rule["alert"], labels) for rule in ALERTS for labels in answers(url, rule["expr"], END)})
    assert held[0] == held[1]
    assert {dict(labels).get("instance") for _, labels in held[0]} >= {"unbounded-queue", "engine-died"}


def test_a_verdict_reads_the_newest_page_and_ordinary_queries_an_older_one(stores):
    """Of now: by default VictoriaMetrics shows the last 30 s to nobody but a bare range selector, as verdicts ask it."""
    now = time.time()
    label, push_at = series("llm_requests_running", instance="now"), round(now * 1000)
    push(stores.victoria, {label: [(push_at - 5000 * back, float(back)) for back in range(12, -1, -1)]})
    stores.server.flush()
    (seen,) = read_prometheus(stores.victoria, selector='{instance="now"}', at=now + 1, seconds=90)
    assert [value for _, value in seen.snapshots[-1].samples.items()] == [0.0]
    ((_, value),) = answers(stores.victoria, 'llm_requests_running{instance="now"}', now + 1).items()
    assert 5 <= value <= 6, "30 s ago"
