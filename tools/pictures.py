"""Draw the pictures of documents and runbooks: simulated incidents, in a real Prometheus, by the code behind ``llmvitals picture``.

python tools/pictures.py [NAME...]     (``make pictures``; needs Debian's prometheus. NAME: only these boards and runbooks)

Every incident is a play of the lab on a vLLM, a server of its own in one Prometheus. What the exporter would have said of it is
made by the exporter's own functions, page by page. The same code gives the same files.

The board on the exporters themselves is another thing: a real exporter watches for two minutes, and it differs each time.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from prometheus import filled, free_port, process, prometheus

from llmvitals.cli.picture import answered, found_board, found_panels, open_panels
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import Board
from llmvitals.dashboards.pictures.ask import spanned
from llmvitals.dashboards.pictures.look import DARK, LIGHT
from llmvitals.dashboards.pictures.picture import PHONE, of_board, of_panels
from llmvitals.dashboards.pictures.results import Choice, Scene
from llmvitals.exporters import promises
from llmvitals.exporters.judge import groups, judge
from llmvitals.exporters.page import Group
from llmvitals.lab.draw import Draw, Longer
from llmvitals.lab.play import ORIGIN, Job, Run, watch
from llmvitals.lab.scenarios import BY_NAME
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Settings
from llmvitals.sources.promql_api import Endpoint

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = Settings()
LONGER = Longer(calm=240.0, fault=300.0)
"""Seconds: what was before is seen as well, and the incident long enough to look at."""
SEED, SEVERITY, DIALECT, INTERVAL = 7, "mild", "vllm", 5.0
PLACE = {"cluster": "eu-1", "namespace": "chat"}
NOTE = "a simulated incident"
MOST_BYTES, MOST_OF_BOARD = 150_000, 215_000
COLORS = 64
"""Of a whole board: enough that letters are smooth, and few enough for a repository."""
BOARD_STEP = 15.0
LIVE_SECONDS = 130.0
WATCHING = "exporters"

Points = dict[Series, list[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class Shot:
    """A runbook's picture: the incident that is played, and the panels that show the cause, by board and title."""

    runbook: str
    scenario: str
    panels: tuple[tuple[str, str], ...]


SHOTS = (
    Shot(
        "kv-cache-saturation",
        "kv-cache-saturation",
        (("service", "What binds: KV cache next to GPU compute"), ("queue", "Running and waiting")),
    ),
    Shot(
        "preemption-thrash",
        "preemption-thrash",
        (("engine", "Preemptions"), ("engine", "Seats: how many contexts fit")),
    ),
    Shot(
        "batch-too-small",
        "batch-too-small",
        (("service", "What binds: KV cache next to GPU compute"), ("queue", "Running and waiting")),
    ),
    Shot(
        "prefill-decode-interference",
        "prefill-decode-interference",
        (("users", "Gap between tokens"), ("engine", "Step size and draft acceptance")),
    ),
    Shot(
        "unbounded-queue",
        "unbounded-queue",
        (("queue", "How old is the queue?"), ("queue", "Arrivals and completions")),
    ),
    Shot(
        "prefill-bound",
        "prefill-bound",
        (("service", "SMs, tensor pipes and memory, card by card"), ("engine", "Tokens per second")),
    ),
    Shot(
        "prefix-cache-miss",
        "prefix-cache-miss",
        (("tenants", "Shared prefixes: what could hit, and what hits"), ("users", "Time to first token")),
    ),
    Shot(
        "draft-rejected",
        "draft-rejected",
        (("engine", "Draft tokens accepted"), ("engine", "Is it worth it? Tokens of a step beside its time")),
    ),
    Shot(
        "ghost-compute",
        "impatient-clients",
        (("queue", "Work for clients that left"), ("engine", "Work that reached nobody")),
    ),
    Shot(
        "api-server-bound",
        "api-server-bound",
        (
            ("users", "Whose time is the wait for the first token"),
            ("users", "Part of that wait that the engine never saw"),
        ),
    ),
    Shot(
        "noisy-tenant",
        "noisy-tenant",
        (("tenants", "Tokens by tenant"), ("tenants", "How far the largest tenant is over its share")),
    ),
    Shot(
        "retry-storm",
        "retry-storm",
        (("tenants", "Calls that repeat a failed one"), ("tenants", "Calls, by how they ended")),
    ),
    Shot(
        "hardware-event",
        "hardware-throttled",
        (("hardware", "SM clock, of the card's highest"), ("hardware", "Clocks held down, by reason")),
    ),
    Shot(
        "first-tokens-late",
        "kv-cache-saturation",
        (("users", "Time to first token"), ("queue", "How old is the queue?")),
    ),
    Shot(
        "tokens-slow",
        "prefill-decode-interference",
        (("users", "Time per output token, per request"), ("users", "Gap between tokens")),
    ),
)

FIRST = {"kv-cache-saturation": 7, "preemption-thrash": 40}
"""Draws with pools that hold several contexts: the first ones hold two or three, and their curves jump."""

OF_BOARD = {
    "users": "kv-cache-saturation",
    "queue": "unbounded-queue",
    "engine": "preemption-thrash",
    "hardware": "hardware-throttled",
    "tenants": "noisy-tenant",
}
"""The incident that a board is drawn in; any other board shows the first one, and the fleet's all of them."""
MAIN = "kv-cache-saturation"


# -- plays ------------------------------------------------------------------------------------------------------------
def played(scenario: str) -> Run:
    """The first draw of a scenario on vLLM, scraped every 5 s, in which the triage names its cause at the end."""
    row = BY_NAME[scenario]
    for number in range(FIRST.get(scenario, 0), 400):
        draw = Draw(f"{SEED}/{row.name}/{number}/0", SEVERITY, LONGER)
        if draw.one(row.dialects) != DIALECT or row.draw(draw).bad.times.interval != INTERVAL:
            continue
        run = watch(Job(scenario, SEED, number, SEVERITY), longer=LONGER)
        verdicts = [one.verdict for one in judge(_window(run.snapshots, len(run.snapshots) - 1, run), SETTINGS)[0]]
        if any(v is not None and v.leading is not None and v.leading.cause in row.causes for v in verdicts):
            return run
    raise SystemExit(f"in no play of {scenario} does its cause lead at the end")


def points(run: Run, instance: str) -> Points:
    """Every sample of a play as one store holds it: the page, promises, and signals and verdict of the window at each page."""
    snapshots = [_renamed(one, instance) for one in run.snapshots]
    found: Points = {}
    for at, newest in enumerate(snapshots):
        judged, _ = judge(_window(snapshots, at, run), SETTINGS)
        told = [*promises.groups([promises.Newest(newest)], SETTINGS), *groups(judged, run.base.times.window)]
        samples = {**newest.samples, **dict(_samples(told))}
        for key, value in samples.items():
            found.setdefault(key.plus(**PLACE), []).append((round(newest.t * 1000), value))
    return found


def _window(snapshots: list[Snapshot], at: int, run: Run) -> list[Snapshot]:
    return [one for one in snapshots[: at + 1] if one.t >= snapshots[at].t - run.base.times.window - 1e-6]


def _renamed(snapshot: Snapshot, instance: str) -> Snapshot:
    return replace(snapshot, samples={key.plus(instance=instance): v for key, v in snapshot.samples.items()})


def _samples(told: Iterable[Group]) -> Iterator[tuple[Series, float]]:
    for group in told:
        for labels, value in group.samples.items():
            yield Series(group.name, tuple(sorted(labels))), value


# -- Prometheus -------------------------------------------------------------------------------------------------------
def openmetrics(found: Points) -> str:
    """Samples as text that promtool makes blocks of; half a millisecond more, since it cuts a time down to its milliseconds."""
    lines: list[str] = []
    for key, samples in sorted(found.items(), key=lambda item: item[0]):
        labels = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in key.labels)
        lines += [f"{key.name}{{{labels}}} {_number(v)} {t // 1000}.{t % 1000:03d}5" for t, v in samples]
    return "\n".join([*lines, "# EOF\n"])


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(float(value))


@contextmanager
def watched(folder: Path) -> Iterator[str]:
    """A real exporter that watched two simulated engines and one that is not there, in a Prometheus with the rules; its address."""
    one, other, exporter, port, nobody = (f"127.0.0.1:{free_port()}" for _ in range(5))
    config = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(ROOT / "alerts" / f"llmvitals-{name}.yaml") for name in ("alerts", "recording")],
        "scrape_configs": [
            {"job_name": "llmvitals", "honor_labels": True, "static_configs": [{"targets": [exporter]}]},
            {"job_name": "prometheus", "static_configs": [{"targets": [port]}]},
        ],
    }
    targets = [
        {"name": name, "url": f"http://{address}"}
        for name, address in (("vllm-0", one), ("vllm-1", other), ("vllm-2", nobody))
    ]
    settings = folder / "settings.yaml"
    settings.write_text(json.dumps({"targets": targets}), encoding="utf-8")
    us = [sys.executable, "-m", "llmvitals"]
    serve = [*us, "serve", "--settings", str(settings), "--listen", exporter]
    with (
        process([*us, "simulate", "queue", "--serve", one], f"http://{one}/metrics"),
        process([*us, "simulate", "healthy", "--serve", other], f"http://{other}/metrics"),
        process(serve, f"http://{exporter}/healthz"),
        prometheus(folder, json.dumps(config), int(port.rpartition(":")[2])) as url,
    ):
        sys.stderr.write(f"watching for {LIVE_SECONDS:g} s\n")
        time.sleep(LIVE_SECONDS)
        yield url


# -- pictures ---------------------------------------------------------------------------------------------------------
def write(path: Path, data: bytes) -> None:
    """Write a picture, unless it is too large to be in a repository."""
    most = MOST_BYTES if path.suffix == ".svg" else MOST_OF_BOARD
    if len(data) > most:
        raise SystemExit(f"{path} has {len(data)} bytes, over {most}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    sys.stdout.write(f"{path.relative_to(ROOT)}  {len(data) // 1000} kB\n")


@dataclass(frozen=True, slots=True)
class Stage:
    """The Prometheus that is asked, and the server and the time of each incident."""

    endpoint: Endpoint
    scenes: dict[str, Scene]


def runbook(shot: Shot, stage: Stage) -> None:
    """The panels of a runbook beside each other."""
    scene = stage.scenes[shot.scenario]
    panels = [found_panels(found_board(board), (title,))[0] for board, title in shot.panels]
    found = answered(stage.endpoint, panels, scene, SETTINGS, INTERVAL)
    empty = [one.panel.title for one in found if one.empty]
    if empty:
        raise SystemExit(f"{shot.runbook}: empty: {', '.join(empty)}")
    title = f"{shot.runbook}: {'; '.join(title for _, title in shot.panels)}"
    write(ROOT / "runbooks" / "img" / f"{shot.runbook}.svg", of_panels(found, scene, SETTINGS, LIGHT).svg(title))


def boards(stage: Stage, wanted: set[str]) -> None:
    """Each board as it opens, of one incident; the service's also dark and for a phone."""
    for board in BOARDS:
        stem = Path(board.file).stem
        if (wanted and stem not in wanted) or stem == WATCHING:
            continue
        scene = stage.scenes[OF_BOARD.get(stem, MAIN)]
        scene = replace(scene, span=spanned(scene.span.start, scene.span.end, BOARD_STEP))
        if stem == "fleet":
            scene = Scene(scene.span, Choice(), "simulated incidents")
        whole(stage.endpoint, board, scene)


def whole(endpoint: Endpoint, board: Board, scene: Scene) -> None:
    """One board as it opens. What is empty of it is told: a picture of a board is to show what there is."""
    stem, folder = Path(board.file).stem, ROOT / "docs" / "img" / "boards"
    found = {one.panel.title: one for one in answered(endpoint, open_panels(board), scene, SETTINGS, INTERVAL)}
    empty = [one.panel.title for one in found.values() if one.empty]
    sys.stderr.write("".join(f"  {stem} is empty at '{title}'\n" for title in empty))
    write(folder / f"{stem}.png", of_board(board, found, scene, SETTINGS, LIGHT).png(1.0, COLORS))
    if stem == "service":
        write(folder / f"{stem}-dark.png", of_board(board, found, scene, SETTINGS, DARK).png(1.0, COLORS))
        write(
            folder / f"{stem}-phone.png", of_board(board, found, scene, SETTINGS, LIGHT, width=PHONE).png(1.0, COLORS)
        )


def watching() -> None:
    """The board on the exporters, of a real one."""
    with tempfile.TemporaryDirectory() as folder, watched(Path(folder)) as url, Endpoint(url) as endpoint:
        now = time.time()
        scene = Scene(spanned(now - LIVE_SECONDS + 20, now - 5, INTERVAL, INTERVAL), Choice(), "simulated servers")
        whole(endpoint, found_board(WATCHING), scene)


def main(names: list[str]) -> None:
    """Play, fill, draw."""
    wanted, every = set(names), {shot.runbook for shot in SHOTS} | {Path(board.file).stem for board in BOARDS}
    if wanted - every:
        raise SystemExit(f"no picture is of {', '.join(sorted(wanted - every))}; there are: {', '.join(sorted(every))}")
    shots = [shot for shot in SHOTS if not wanted or shot.runbook in wanted]
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed: apt install prometheus")
    if not wanted or WATCHING in wanted:
        watching()
    if wanted == {WATCHING}:
        return
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), shots, wanted)


def fill(folder: Path, shots: list[Shot], wanted: set[str]) -> None:
    """Play, fill a Prometheus, and draw all but the exporters' board."""
    every = tuple(dict.fromkeys([MAIN, *(shot.scenario for shot in SHOTS)]))
    asked = {MAIN, *(shot.scenario for shot in shots), *(OF_BOARD[n] for n in OF_BOARD if n in wanted)}
    found: Points = {}
    scenes: dict[str, Scene] = {}
    for at, scenario in enumerate(every):
        if scenario not in asked and "fleet" not in wanted:
            continue
        run = played(scenario)
        instance = f"vllm-{at}"
        sys.stderr.write(f"played {scenario} on {instance}\n")
        for key, samples in points(run, instance).items():
            found.setdefault(key, []).extend(samples)
        times = [one.t for one in run.snapshots]
        span = spanned(max(times[0] + 60, ORIGIN + run.onset - 240), times[-1], INTERVAL, INTERVAL)
        model = run.labels["model"]
        scenes[scenario] = Scene(span, Choice(model=(model,), instance=(instance,)), NOTE)
    text = folder / "points.om"
    text.write_text(openmetrics(found), encoding="utf-8")
    filled(folder, text)
    with prometheus(folder) as url, Endpoint(url) as endpoint:
        stage = Stage(endpoint, scenes)
        for shot in shots:
            runbook(shot, stage)
        boards(stage, wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
