"""What a refresh of each board asks of a Prometheus that holds an hour of many replicas: queries, samples read, seconds.

A play of the lab gives the pages of one busy, traced server with everything joined to it; each replica shows them under its own
name, scraped once a minute. Every open panel is asked as Grafana asks it at a range of one hour; rows that are closed ask nothing.
``python -m bench.boards [--short]`` prints the table of the boards, which docs/dashboards.md keeps.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.prometheus import filled, prometheus

from bench import Bench, Measured
from llmvitals.dashboards import grafana, promql
from llmvitals.dashboards.boards import BOARDS
from llmvitals.exporters import promises
from llmvitals.exporters.judge import groups, judge
from llmvitals.lab.play import Job, watch
from llmvitals.series import Series
from llmvitals.settings import Settings

REPLICAS, FEW = 100, 20
SCRAPED, RANGE = 60, 3600
WINDOW = f"{4 * SCRAPED}s"
PAGES = RANGE * 2 // SCRAPED + 1
"""An hour that is shown, and the one before it that windows reach into."""

PIXELS = {8: 420, 12: 630, 24: 1260}
PER_MODEL, PER_NAMESPACE = 10, 25
JOB = Job("noisy-tenant", 7, 13, "severe")
"""A play on vLLM that has a gateway, tenants, GPUs, a host and traces."""

WRITTEN = 5
"""Replicas that are written at a time."""

PLAIN = (
    'histogram_quantile(0.95, sum by (le) (rate(llm_request_ttft_seconds_bucket{{instance=~"{instance}"}}[{window}])))'
)
FROM_RAW = (
    "histogram_quantile(0.95, sum by (cluster, namespace, instance, model, le)"
    " (rate(llm_request_ttft_seconds_bucket[{window}])))"
)
FROM_GAUGE = "max by (cluster, namespace, instance, model) (llm_ttft_p95_seconds)"
MEAN_BAR, GAUGE_BAR = 1.0, 0.1


@dataclass(frozen=True)
class Cost:
    """What one query cost: samples that were read, and seconds until it was answered."""

    samples: int
    seconds: float


@dataclass(frozen=True)
class Refresh:
    """What a refresh of one board cost; ``worst``: the panel that reads most, and its samples."""

    title: str
    panels: int
    costs: tuple[Cost, ...]
    worst: tuple[str, int]

    @property
    def samples(self) -> int:
        """All that were read."""
        return sum(cost.samples for cost in self.costs)

    @property
    def seconds(self) -> float:
        """One query after the other."""
        return sum(cost.seconds for cost in self.costs)


def play() -> dict[Series, list[float]]:
    """Every series of the play with its values, page by page."""
    run, settings = watch(JOB), Settings()
    found: dict[Series, list[float]] = {}
    for at, newest in enumerate(run.snapshots):
        window = run.snapshots[max(0, at - 6) : at + 1]
        told = [*promises.groups([promises.Newest(newest)], settings), *groups(judge(window, settings)[0], 60)]
        samples = dict(newest.samples)
        for group in told:
            samples |= {Series(group.name, tuple(sorted(labels))): value for labels, value in group.samples.items()}
        for key, value in samples.items():
            found.setdefault(key, []).append(value)
    return found


def values(key: Series, seen: list[float]) -> Iterator[float]:
    """An hour and more of one series: a counter goes on as it went, a gauge comes again."""
    if key.name.endswith(("_total", "_bucket", "_sum", "_count")):
        each = (seen[-1] - seen[0]) / max(1, len(seen) - 1)
        yield from (seen[0] + each * page for page in range(PAGES))
    else:
        yield from (seen[page % len(seen)] for page in range(PAGES))


def write(path: Path, shown: Mapping[Series, list[float]], replicas: range, start: int) -> None:
    """OpenMetrics text of some replicas."""
    with path.open("w", encoding="utf-8") as sink:
        for key, seen in shown.items():
            track = [f"{value!r} {start + SCRAPED * page}" for page, value in enumerate(values(key, seen))]
            for number in replicas:
                own = key.plus(
                    instance=f"replica-{number}",
                    cluster="east",
                    namespace=f"team-{number // PER_NAMESPACE}",
                    **({"model": f"model-{number // PER_MODEL}"} if key.label("model") else {}),
                )
                labels = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in own.labels)
                sink.writelines(f"{own.name}{{{labels}}} {one}\n" for one in track)
        sink.write("# EOF\n")


@contextmanager
def stored(replicas: int) -> Iterator[tuple[str, int]]:
    """A Prometheus that holds them; its address, and the moment of the newest page."""
    start = 1_700_000_000 // 7200 * 7200
    with tempfile.TemporaryDirectory(prefix="llmvitals-boards-") as name:
        folder = Path(name)
        shown = play()
        for first in range(0, replicas, WRITTEN):
            text = folder / "pages.om"
            write(text, shown, range(first, min(first + WRITTEN, replicas)), start)
            filled(folder, text)
            text.unlink()
        with prometheus(folder, flags=["--query.max-samples=200000000"]) as url:
            yield url, start + SCRAPED * (PAGES - 1)


def asked(url: str, expr: str, end: int, *, instant: bool, step: int = SCRAPED, instance: str = ".*") -> Cost:
    """Ask one query of a panel as Grafana does, everything chosen."""
    known = dict.fromkeys(("cluster", "namespace", "model"), ".*") | {"instance": instance}
    known |= {"__rate_interval": WINDOW, "__range": f"{RANGE}s"}
    times = {"time": end} if instant else {"start": end - RANGE, "end": end, "step": step}
    form = urllib.parse.urlencode({"query": promql.filled(expr, known), "stats": "all", **times}).encode()
    began = time.perf_counter()
    with urllib.request.urlopen(f"{url}/api/v1/{'query' if instant else 'query_range'}", form, timeout=300) as answer:
        data = json.load(answer)["data"]
    return Cost(data["stats"]["samples"]["totalQueryableSamples"], time.perf_counter() - began)


def step_of(panel: Mapping[str, Any]) -> int:
    """Seconds between two points: as many as there are pixels, or the panel's own, and never under a scrape."""
    points = panel.get("maxDataPoints") or PIXELS.get(panel["gridPos"]["w"], 420)
    return max(SCRAPED, -(-RANGE // points))


def refresh(url: str, end: int, board: Mapping[str, Any]) -> Refresh:
    """Ask every open panel of a board once."""
    panels = [panel for panel in board["panels"] if panel["type"] != "row" and panel.get("targets")]
    costs: list[Cost] = []
    worst = ("", 0)
    for panel in panels:
        mine = [
            asked(url, target["expr"], end, instant=bool(target.get("instant")), step=step_of(panel))
            for target in panel["targets"]
        ]
        costs += mine
        worst = max(worst, (panel["title"], sum(cost.samples for cost in mine)), key=lambda pair: pair[1])
    return Refresh(board["title"], len(panels), tuple(costs), worst)


def measured(url: str, end: int) -> list[Refresh]:
    """Every board once, after one that warms the store up."""
    boards = [grafana.drawn(board, Settings()) for board in BOARDS]
    asked(url, PLAIN.format(instance=".*", window=WINDOW), end, instant=False)
    return [refresh(url, end, board) for board in boards]


def table(found: list[Refresh], replicas: int) -> str:
    """The boards as Markdown."""
    lines = [f"| board, {replicas} replicas | open panels | queries | samples read | seconds | reads most |"]
    lines.append("|---|---:|---:|---:|---:|---|")
    for one in found:
        numbers = f"{one.panels} | {len(one.costs)} | {one.samples / 1e6:.2f} M | {one.seconds:.2f}"
        lines.append(f"| {one.title} | {numbers} | {one.worst[0]} ({one.worst[1] / 1e6:.2f} M) |")
    return "\n".join(lines)


def run(short: bool) -> list[Measured]:
    """The boards' table on standard error, and what holds a bar."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("boards: left out, for Prometheus is not on the PATH (apt-get install prometheus)", file=sys.stderr)
        return []
    replicas = FEW if short else REPLICAS
    with stored(replicas) as (url, end):
        found = measured(url, end)
        plain = asked(url, PLAIN.format(instance=".*", window=WINDOW), end, instant=False)
        raw = asked(url, FROM_RAW.format(window=WINDOW), end, instant=True)
        gauge = asked(url, FROM_GAUGE, end, instant=True)
    print(table(found, replicas), file=sys.stderr)
    each = statistics.mean(cost.samples for one in found for cost in one.costs)
    quantile = "one 95th percentile over all of them from buckets"
    return [
        Measured(
            f"a query of a board at {replicas} replicas, mean, against {quantile}",
            each,
            plain.samples,
            "samples",
            MEAN_BAR,
        ),
        Measured(
            "a column of a table from the page's gauge, against the same from buckets",
            gauge.samples,
            raw.samples,
            "samples",
            GAUGE_BAR,
        ),
    ]


BENCH = Bench("boards", run)

if __name__ == "__main__":
    for row in run("--short" in sys.argv[1:]):
        print(f"{row.what}: {row.ours:.4g} / {row.theirs:.4g} = {row.ratio:.3f}")
