"""Run real gateways through a light load, one upstream down, refusals and recovery, and hold what is read against clients.

``python e2e/gateways/run.py DIR [NAME...]`` : programs, configurations and pages go to DIR. Ends with 1 where something is
read otherwise than it was.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests
from clients import drive
from rich.console import Console
from rich.table import Table
from table import GATEWAYS, STAGES, Gateway, Stage
from upstream import Upstream

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage

HERE = Path(__file__).resolve().parent
START_SECONDS = 120.0


@dataclass
class Run:
    """One gateway that runs: its ports, its upstreams, where its pages go, and what was read last."""

    gateway: Gateway
    ports: dict[str, int]
    a: Upstream
    b: Upstream
    pages: Path
    ingest: Ingest
    before: Snapshot | None = None
    wrong: list[str] = field(default_factory=list)


def main(folder: Path, names: list[str]) -> int:
    """Every gateway named, or all."""
    table = Table("gateway", "stage", "clients got", "its page says", "upstreams fit", "right", box=None)
    wrong: list[str] = []
    for gateway in GATEWAYS:
        if not names or gateway.kind in names:
            with started(gateway, folder) as run:
                for stage in STAGES:
                    table.add_row(gateway.kind, stage.name, *play(run, stage))
                wrong += run.wrong
    console = Console(width=160)
    console.print(table)
    for line in wrong:
        console.print(line)
    return 1 if wrong else 0


@contextmanager
def started(gateway: Gateway, folder: Path) -> Iterator[Run]:
    """The gateway in front of two upstreams, all on loopback; ended by its process id."""
    install = subprocess.run(
        [HERE / "install.sh", folder / "programs", gateway.kind], stdout=subprocess.PIPE, text=True, check=True
    )
    ports = dict(zip(("api", "admin", "a", "b"), free_ports(4), strict=True))
    home = folder / "runs" / gateway.kind
    home.mkdir(parents=True, exist_ok=True)
    filled = {**{name: str(port) for name, port in ports.items()}, "dir": str(home.resolve())}
    for name, text in gateway.files:
        (home / name).write_text(text.format(**filled), encoding="utf-8")
    a, b = Upstream(ports["a"]), Upstream(ports["b"])
    argv = [install.stdout.strip(), *(word.format(**filled) for word in gateway.command)]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **dict(gateway.env)}, cwd=home
        )
    try:
        run = Run(gateway, ports, a, b, home / "pages", Ingest(instance=gateway.kind))
        run.pages.mkdir(exist_ok=True)
        ready(run, process, home / "log")
        yield run
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        a.close()
        b.close()


def ready(run: Run, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until calls are answered; a first few are no part of any stage."""
    end = time.monotonic() + START_SECONDS
    while drive(calls_url(run), 2, model=run.gateway.model, key=run.gateway.key) != Counter({"200": 2}):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"{run.gateway.kind} does not answer calls; see {log}")
        time.sleep(0.5)
    time.sleep(1.0)
    run.before = read(run, "fresh")


def play(run: Run, stage: Stage) -> tuple[str, str, str, str]:
    """One stage: what clients got, what the page says, and whether it is the same."""
    run.a.status, run.b.status, run.b.healthy = stage.a, stage.b, stage.healthy
    time.sleep(run.gateway.settle)
    run.before = read(run, f"{stage.name}-before")
    got = drive(calls_url(run), stage.calls, model=run.gateway.model, key=run.gateway.key)
    time.sleep(1.5)
    now = read(run, stage.name)
    said = answered(run.before, now) if run.gateway.statuses else calls(run.before, now)
    wanted = as_told(got, said) if run.gateway.statuses else {"calls": stage.calls + 1}  # the scrape before is one too
    fit = upstreams(now)
    right = said == wanted and (not run.gateway.upstreams or fits(run, stage, fit))
    if not right:
        run.wrong.append(
            f"{run.gateway.kind}, {stage.name}: clients got {wanted}, the page says {said}; upstreams {fit}"
        )
    return spell(dict(got)), spell(said), spell(fit), "yes" if right else "NO"


def calls_url(run: Run) -> str:
    """Where calls go."""
    return f"http://127.0.0.1:{run.ports['api']}{run.gateway.path}"


def read(run: Run, name: str) -> Snapshot:
    """The page as it is now, kept and read."""
    url = run.gateway.page.format(**run.ports)
    begun = time.monotonic()
    answer = requests.get(url, timeout=10)
    (run.pages / f"{name}.prom").write_bytes(answer.content)
    return run.ingest.read(RawPage(time.time(), time.monotonic() - begun, answer.status_code, answer.content))


def total(snapshot: Snapshot | None, family: str, label: str) -> Counter[str]:
    """The samples of a family, added up by a label."""
    found: Counter[str] = Counter()
    for series, value in snapshot.samples.items() if snapshot is not None else ():
        if series.name == family:
            found[series.label(label)] += round(value)
    return found


def answered(before: Snapshot | None, now: Snapshot) -> dict[str, int]:
    """Calls answered since, by status."""
    family = "llm_gateway_requests_total"
    return dict(total(now, family, "status") - total(before, family, "status"))


def as_told(got: Counter[str], said: dict[str, int]) -> dict[str, int]:
    """What clients got, by class or as an error where the page tells no more than that."""
    told: Counter[str] = Counter()
    for status, count in got.items():
        spellings = (status, f"{status[0]}xx", *(["error"] if status >= "400" else []))
        told[next((one for one in spellings if one in said), status)] += count
    return dict(told)


def calls(before: Snapshot | None, now: Snapshot) -> dict[str, int]:
    """Calls that came in since."""
    family = "llm_gateway_calls_total"
    return {"calls": sum(total(now, family, "gateway").values()) - sum(total(before, family, "gateway").values())}


def upstreams(now: Snapshot) -> dict[str, int]:
    """Which upstreams the gateway holds fit."""
    return dict(total(now, "llm_gateway_upstream_up", "upstream"))


def fits(run: Run, stage: Stage, fit: dict[str, int]) -> bool:
    """Whether the upstream that is down, and no other, is held unfit; where all refuse, either is right."""
    if stage.a == 429:
        return True
    down = [name for name, up in fit.items() if not up]
    return bool(fit) and (len(down) == 1 if not stage.healthy else not down)


def spell(found: dict[str, int]) -> str:
    """``200 18, 500 2``."""
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "-"


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: run.py DIR [NAME...]")
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
