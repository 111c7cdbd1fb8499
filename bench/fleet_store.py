"""A Prometheus that holds a fleet: as many replicas as are asked for, each with all that an exporter shows of it.

A simulated healthy server and some that are not give the pages and the verdicts; each replica shows them under its own name. Those
that are ill have the ten minutes before as well, which the lines of the triage page reach back to.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.prometheus import filled, prometheus

from llmvitals.exporters.judge import groups, judge
from llmvitals.series import Series, series
from llmvitals.settings import Settings
from llmvitals.simulator.scenarios import scenario
from llmvitals.telemetry.ingest import Ingest, RawPage

SCRAPED = 15
PAGES, HISTORY = 7, 50
"""Pages of each replica: a window of a minute and a little more; of an ill one, the minutes before it too."""

SERVICES = 10
WRITTEN = 125
"""Replicas that are written at a time."""

AS_WRITTEN = ("--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h")
"""Blocks stay as they are written: to join them would take the cores while something is measured, and makes queries no slower."""

START = 1_700_000_000 // 7200 * 7200
END = START + SCRAPED * (HISTORY - 1)
ILL = ("preemption", "kv-full", "queue")
ACTIVE: Mapping[str, float] = {"healthy": 0.4, "preemption": 0.3, "kv-full": 0.35, "queue": 0.9}
"""How much of its GPUs each kind of server uses: a number made, as a simulated server has none."""

Tracks = Mapping[Series, list[tuple[int, float]]]


def play(kind: str) -> dict[Series, list[tuple[int, float]]]:
    """Every series of one server with its samples (unix seconds)."""
    live, ingest, settings = scenario(kind).live(origin=float(START)), Ingest(instance="x"), Settings()
    pages = [
        ingest.snapshot(RawPage(float(t), 0.01, 200, live.page_at(float(t)), ""))
        for t in range(START, END + 1, SCRAPED)
    ]
    found: dict[Series, list[tuple[int, float]]] = {}
    for at, newest in enumerate(pages):
        told = groups(judge(pages[max(0, at - 4) : at + 1], settings)[0], 60)
        samples = dict(newest.samples)
        for group in told:
            samples |= {Series(group.name, tuple(sorted(labels))): value for labels, value in group.samples.items()}
        for key, value in samples.items():
            found.setdefault(key, []).append((START + SCRAPED * at, value))
    model = next(key.label("model") for key in found if key.label("model"))
    busy = series("llm_gpu_sm_active_mean_ratio", instance="x", model=model, window="60s")
    return found | {busy: [(START + SCRAPED * at, ACTIVE[kind]) for at in range(HISTORY)]}


def replica(number: int) -> tuple[str, str, str]:
    """Its name, its model and the kind of play; one of each hundred is ill, in another service each time."""
    hundred = number // 100
    ill = number % 100 == 11 * hundred % 100
    return f"vllm-{number:04}", f"model-{number % SERVICES}", ILL[hundred % len(ILL)] if ill else "healthy"


def write(path: Path, plays: Mapping[str, Tracks], numbers: range) -> None:
    """OpenMetrics text of some replicas: one family after the other, as the format wants it."""
    own = [replica(number) for number in numbers]
    names = sorted({key.name for play in plays.values() for key in play})
    by_name: dict[tuple[str, str], list[tuple[str, list[str]]]] = {}
    for kind, play in plays.items():
        for key, track in play.items():
            rest = ",".join(f"{n}={json.dumps(v)}" for n, v in key.labels if n not in ("instance", "model"))
            kept = track if kind != "healthy" else [one for one in track if one[0] > END - SCRAPED * PAGES]
            model = "model" if key.label("model") else ""
            lines = [f" {value!r} {t}\n" for t, value in kept]
            by_name.setdefault((kind, key.name), []).append((f"{rest}|{model}", lines))
    with path.open("w", encoding="utf-8") as sink:
        for name in names:
            for instance, model, kind in own:
                for rest, lines in by_name.get((kind, name), ()):
                    labels, _, has = rest.partition("|")
                    named = f'instance="{instance}"' + (f',model="{model}"' if has else "")
                    head = f"{name}{{{named}{',' if labels else ''}{labels}}}"
                    sink.writelines(head + line for line in lines)
        sink.write("# EOF\n")


@contextmanager
def stored(replicas: int) -> Iterator[str]:
    """A Prometheus that holds them, the newest page at :data:`END`; its address."""
    plays = {kind: play(kind) for kind in ("healthy", *ILL)}
    with tempfile.TemporaryDirectory(prefix="llmvitals-fleet-") as name:
        folder = Path(name)
        for first in range(0, replicas, WRITTEN):
            text = folder / "pages.om"
            write(text, plays, range(first, min(first + WRITTEN, replicas)))
            filled(folder, text)
            text.unlink()
        with prometheus(folder, flags=AS_WRITTEN) as url:
            yield url
