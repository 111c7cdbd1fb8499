"""A Prometheus over points that are already there, with what recording rules make of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.prometheus import Points, PrometheusServer, binary, load_blocks, openmetrics

STEP = "30s"


@contextmanager
def backfilled(
    folder: Path, points: Points, groups: list[dict], *, start: float, end: float
) -> Iterator[PrometheusServer]:
    """``groups`` of recording rules are evaluated from ``start`` to ``end`` (unix seconds), each after the one before: a rule may
    read what those of earlier groups recorded.
    """
    load_blocks(openmetrics(points), folder / "data")
    del points  # of many plays they are hundreds of megabytes
    for number, group in enumerate(groups):
        rules = folder / f"rules-{number}.yaml"
        rules.write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
        with PrometheusServer(folder) as prometheus:
            _record(rules, folder / "data", prometheus.url, start, end)
    with PrometheusServer(folder) as prometheus:
        yield prometheus


def _record(rules: Path, data: Path, url: str, start: float, end: float) -> None:
    command = [binary("promtool"), "tsdb", "create-blocks-from", "rules", f"--url={url}", f"--output-dir={data}"]
    times = [f"--start={start:.0f}", f"--end={end:.0f}", f"--eval-interval={STEP}"]
    done = subprocess.run([*command, *times, str(rules)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
