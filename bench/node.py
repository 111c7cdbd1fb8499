"""A node of 8 GPUs and 8 engines: what one collection costs, in CPU of this process with all its threads.

The exporter's own cycle reads 8 recorded vLLM pages and a GPU exporter's page over HTTP, the driver's library (a double behind
the real pynvml, so the driver's own work is not in it), a /proc of 2,000 processes and the engines' control groups, and joins them.
Nobody waits between cycles: the clocks that the readers are given move on by the interval, so that what is looked at once a
minute, or once in five, is in the mean as often as it would be. vmagent, where there is one, scrapes the same pages.
"""

from __future__ import annotations

import gc
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from unittest.mock import patch

from bench import Bench, Measured, vmagent
from bench.node_machine import Driver, Host, missing
from bench.node_pages import served
from llmvitals.exporters import cycle, watch
from llmvitals.exporters.lifecycle import GC_THRESHOLDS
from llmvitals.settings import Exporter, Kubernetes, Node, Settings, Target
from llmvitals.sources import node as node_source
from llmvitals.sources.node import Machine, Readers
from llmvitals.telemetry.gpu.nvml import Reader
from llmvitals.telemetry.host.reader import HostReader
from llmvitals.telemetry.ingest import Fetcher, Ingest

INTERVALS = (15.0, 5.0)
BAR = 0.01  # of a core at the first of these
CYCLES, FEW = 60, 10
WARM = 6  # a window and its margin are full
START = 1_800_000_000.0
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # /proc is no disk either

_PAGES, _NVML, _HOST, _JOIN = "pages: fetch and parse", "GPUs: NVML", "host: processes, sockets, cgroups", "join"
_JUDGE, _TEXT, _REST = "judging: signals and causes", "page text", "threads and the rest"
_COLLECTION = (_PAGES, _NVML, _HOST, _JOIN, _REST)
_PLACES: tuple[tuple[str, object, str], ...] = (
    (_PAGES, Fetcher, "fetch"),
    (_PAGES, Ingest, "snapshot"),
    (_NVML, Reader, "read"),
    (_HOST, HostReader, "processes"),
    (_HOST, HostReader, "samples"),
    (_JOIN, node_source, "find"),
    (_JOIN, watch, "beside"),
    (_JOIN, cycle, "left_over"),
    (_JUDGE, cycle, "judge"),
    (_TEXT, cycle.Engine, "_publish"),
)


@dataclass
class Meter:
    """CPU seconds by part, of whatever thread did the work. What is measured inside another part is not in that one."""

    seconds: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.local = field(default_factory=threading.local)

    @contextmanager
    def over(self, part: str) -> Iterator[None]:
        """Add the CPU of this thread to a part."""
        outer, self.thread.inside = getattr(self.thread, "inside", 0.0), 0.0
        began = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - began
            with self.lock:
                self.seconds[part] = self.seconds.get(part, 0.0) + took - self.thread.inside
            self.thread.inside = outer + took

    def of(self, part: str, call: Callable[..., object]) -> Callable[..., object]:
        """The same call, its CPU added to a part."""

        @wraps(call)
        def metered(*args: object, **named: object) -> object:
            with self.over(part):
                return call(*args, **named)

        return metered

    @contextmanager
    def placed(self) -> Iterator[Meter]:
        """Measure the places of the cycle."""
        with ExitStack() as stack:
            for part, owner, name in _PLACES:
                stack.enter_context(patch.object(owner, name, self.of(part, getattr(owner, name))))
            yield self


@dataclass(frozen=True)
class Cost:
    """Mean CPU seconds of a cycle by part, and those of the first."""

    first: dict[str, float]
    mean: dict[str, float]

    @property
    def collection(self) -> float:
        """Everything that reads and joins."""
        return sum(self.mean[part] for part in _COLLECTION)


def measured(interval: float, cycles: int) -> Cost:
    """Cycles of the exporter at an interval. Raises :class:`RuntimeError` when they do not see what there is to see."""
    with Meter().placed() as meter, served() as ports, tempfile.TemporaryDirectory(dir=_MEMORY) as name:
        folder, now = Path(name), [0.0]
        host = Host(folder, ports[:-1])
        driver = Driver(folder, [engine for _, engine in host.pids])
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        settings = Settings(
            targets=tuple(Target(url=url, kind="vllm") for url in urls[:-1]),
            exporter=Exporter(interval_seconds=interval, timeout_seconds=30.0),
            node=Node(
                name="node-1",
                gpu_url=f"{urls[-1]}/metrics",
                procfs=str(host.tree.root),
                cgroups=str(host.cgroups),
                kubernetes=Kubernetes(enabled="off"),
            ),
        )
        engine = _engine(settings, now)
        costs = []
        for number in range(1 + WARM + cycles):
            now[0] += interval
            host.pass_time(interval)
            driver.pass_time(interval)
            costs.append(_one(engine, meter))
            if number and (twice := driver.twice()):
                raise RuntimeError(f"the driver was asked twice in a cycle: {twice}")
            driver.double.calls()
        steady = costs[1 + WARM :]
        return Cost(costs[0], {part: sum(cost[part] for cost in steady) / len(steady) for part in steady[0]})


def _engine(settings: Settings, now: list[float]) -> cycle.Engine:
    def clock() -> float:
        return START + now[0]

    def steady() -> float:
        return now[0]

    own = settings.node
    readers = Readers(
        gpus=lambda: Reader(clock=steady).read,
        processes=lambda: HostReader(own.procfs, own.cgroups, clock=clock, steady=steady),
        pods=lambda: tuple,
        held=lambda: tuple,
    )
    fetcher = Fetcher(watch.limits_of(settings), clock=clock)
    return cycle.Engine(
        settings,
        fetch=lambda url, timeout_s, access: fetcher.fetch(url, timeout_s=timeout_s, access=access),
        clock=clock,
        machine=Machine(own, readers=readers),
    )


def _one(engine: cycle.Engine, meter: Meter) -> dict[str, float]:
    meter.seconds.clear()
    began = time.process_time()
    done = engine.step()
    whole = time.process_time() - began
    joined = {
        key.label("instance")
        for one in done.snapshots
        for key in one.samples
        if key.name == "llm_gpu_power_watts" and key.label("join") == "process-ids"
    }
    failed = [f"{one.collector} of {one.instance}" for one in done.collected if not one.ok]
    if failed or joined != set(engine.instances):
        raise RuntimeError(f"the cycle failed: {', '.join(failed) or 'an engine has no GPU'}")
    return meter.seconds | {_REST: whole - sum(meter.seconds.values())}


def _told(costs: dict[float, Cost]) -> str:
    """The parts as Markdown, in milliseconds of CPU."""
    head = "".join(f" at {interval:g} s |" for interval in costs)
    lines = [f"| ms of CPU | first cycle |{head}", f"|---|---:|{'---:|' * len(costs)}"]
    first = next(iter(costs.values())).first
    rows: dict[str, tuple[str, ...]] = {part: (part,) for part in _COLLECTION} | {"one collection": _COLLECTION}
    rows |= {part: (part,) for part in (_JUDGE, _TEXT)} | {"the whole cycle": tuple(first)}
    for what, parts in rows.items():
        cells = [sum(cost[part] for part in parts) for cost in (first, *(one.mean for one in costs.values()))]
        lines.append(f"| {what} |{''.join(f' {cell * 1e3:.1f} |' for cell in cells)}")
        if len(parts) > 1:
            shares = "".join(f" {cell / interval:.2%} |" for interval, cell in zip(costs, cells[1:], strict=True))
            lines.append(f"| - of a core | |{shares}")
    return "\n".join(lines)


def run(short: bool) -> list[Measured]:
    """Cycles at both intervals, then vmagent on the same pages."""
    if lacking := missing():
        print(f"node is left out: {lacking}\n")
        return []
    gc.set_threshold(*GC_THRESHOLDS)  # as in the process that serves
    costs = {interval: measured(interval, FEW if short else CYCLES) for interval in INTERVALS}
    print(_told(costs), end="\n\n")
    interval, cost = next(iter(costs.items()))
    what = "node of 8 GPUs and 8 engines: one collection"
    rows = [
        Measured(
            f"{what}, against 1 % of a core at {interval:g} s",
            cost.collection * 1e3,
            BAR * interval * 1e3,
            "ms CPU",
            1.0,
        )
    ]
    program = vmagent.program()
    if program is None:
        print(f"vmagent is left out: {vmagent.HOW}\n")
        return rows
    with served() as ports, tempfile.TemporaryDirectory() as folder:
        theirs = vmagent.seconds_per_round(program, Path(folder), ports, 10.0 if short else 30.0)
    compared = {
        f"{what}'s pages alone": cost.mean[_PAGES],
        f"{what}": cost.collection,
        "the whole cycle of that node": sum(cost.mean.values()),
    }
    against = "against vmagent on the same pages"
    rows += [
        Measured(f"{one}, {against}", ours * 1e3, theirs * 1e3, "ms CPU", math.inf) for one, ours in compared.items()
    ]
    return rows


BENCH = Bench("node", run)
