"""Hold what traces tell the exporter against clients: a real vLLM, the example gateway in front, loads with a log of each client.

``python e2e/traces/run.py DIR [CASE...]`` : the server's environment and model, pages and logs go to DIR. Ends with 1 where
something is counted otherwise than it was.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import checks
import clients
import pages
import requests
from rich.console import Console
from rich.table import Table
from table import CASES, ENGINE, GATEWAY, Case, settings

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODEL = "tiny-llama"
READY_SECONDS = 1200.0
"""The first start makes the server's environment."""

QUIET_SECONDS = 10.0
"""Nothing has come for so long: senders hold a span for a second, the ledger one for twice its wait."""

SETTLE_SECONDS = 120.0
GATEWAY_ENV = {"GATEWAY_CONCURRENCY": "6", "GATEWAY_WAITING": "4", "GATEWAY_TTL": "1"}
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "1000"}


@dataclass
class Run:
    """One case that runs: its ports, its folder, the server's environment, and the traces that clients began."""

    case: Case
    ports: dict[str, int]
    home: Path
    venv: Path
    known: set[str] = field(default_factory=set)

    def url(self, name: str) -> str:
        """Where a part of it answers."""
        return f"http://127.0.0.1:{self.ports[name]}"

    @property
    def front(self) -> str:
        """Where clients call."""
        return self.url("gateway" if self.case.gateway else "engine")

    def look(self) -> checks.Pages:
        """Both pages as they are now."""
        return checks.Pages(pages.read(f"{self.url('exporter')}/metrics"), pages.read(f"{self.url('engine')}/metrics"))


def main(folder: Path, names: list[str]) -> int:
    """Every case named, or all."""
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}. There are {', '.join(c.name for c in CASES)}")
    console, right = Console(width=170), True
    for case in CASES:
        if names and case.name not in names:
            continue
        with started(case, folder.resolve()) as run:
            for load in case.loads:
                rows = list(play(run, load))
                console.print(shown(f"{case.name}, {load}", rows))
                right = right and all(row.right is not False for row in rows)
    return 0 if right else 1


def shown(title: str, rows: list[checks.Row]) -> Table:
    """Rows as a table."""
    table = Table("what", "clients, or what must be", "told", "right", title=title, title_justify="left", box=None)
    for row in rows:
        table.add_row(row.what, row.expected, row.found, {True: "yes", False: "NO", None: "-"}[row.right])
    return table


# -- processes --------------------------------------------------------------------------------------------------------
@contextmanager
def started(case: Case, folder: Path) -> Iterator[Run]:
    """All parts of a case, on loopback, each ended by its process id."""
    ports = dict(zip(("exporter", "engine", "gateway", "http", "grpc"), free_ports(5), strict=True))
    home = folder / "requests" / case.name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    venv = Path(os.environ.get("VENV") or folder / "venv")
    (home / "llmvitals.yaml").write_text(settings(case, ports), encoding="utf-8")
    run = Run(case, ports, home, venv)
    with ExitStack() as held:
        exporter = [sys.executable, "-m", "llmvitals", "serve", "--settings", str(home / "llmvitals.yaml")]
        held.enter_context(process(exporter, home / "exporter.log", {}))
        endpoint = case.endpoint.format(**ports)
        serve = [str(HERE.parent / "serve.sh"), str(folder), str(ports["engine"]), "--otlp-traces-endpoint", endpoint]
        engine = held.enter_context(
            process(serve, home / "engine.log", {**dict(case.env), **SOON, "OTEL_SERVICE_NAME": ENGINE})
        )
        ready(f"{run.url('engine')}/health", engine, home / "engine.log")
        if case.gateway:
            command = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples" / "gateway"), "--factory"]
            # Longer than a load: a call on a connection that is being closed for idleness reaches nobody.
            command += ["gateway:application", "--port", str(ports["gateway"]), "--timeout-keep-alive", "600"]
            traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": run.url("http"), "OTEL_SERVICE_NAME": GATEWAY, **SOON}
            env = {**GATEWAY_ENV, "GATEWAY_UPSTREAMS": run.url("engine"), **traced}
            gateway = held.enter_context(process(command, home / "gateway.log", env))
            ready(f"{run.url('gateway')}/metrics", gateway, home / "gateway.log")
        warm(run)
        yield run


@contextmanager
def process(command: list[str], log: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """One process and its log. Variables of OpenTelemetry that lie about here are no part of a case."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    with log.open("wb") as out:
        one = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**clean, **env})
    try:
        yield one
    finally:
        one.terminate()
        try:
            one.wait(30)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def ready(url: str, one: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until an address answers."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        if one.poll() is not None:
            raise SystemExit(f"the process ended; see {log}")
        with suppress(requests.RequestException):
            if requests.get(url, timeout=30).ok:
                return
        time.sleep(0.5)
    raise SystemExit(f"nothing answers at {url}; see {log}")


def warm(run: Run) -> None:
    """A few requests, once the exporter has a page of the engine: the first of a server are slow."""
    end = time.monotonic() + SETTLE_SECONDS
    exporter = f"{run.url('exporter')}/metrics"
    while pages.read(exporter).number("llm_target_up", instance=ENGINE) != 1:
        if time.monotonic() > end:
            raise SystemExit(f"the exporter does not read the engine; see {run.home / 'exporter.log'}")
        time.sleep(1)
    for _ in range(3):
        trace = secrets.token_hex(16)
        run.known.add(trace)
        headers = {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"}
        body = {"model": MODEL, "prompt": "def main", "max_tokens": 16, "ignore_eos": True, "stream": True}
        requests.post(f"{run.front}/v1/completions", json=body, headers=headers, timeout=120).raise_for_status()
    settle(run)


# -- one load ---------------------------------------------------------------------------------------------------------
def play(run: Run, load: str) -> Iterator[checks.Row]:
    """One load from its first request until nothing is left of it, and what is held against its log."""
    file, folder = HERE / "loads" / f"{load}.json", run.home / load
    before = run.look()
    command = [str(run.venv / "bin" / "python"), str(HERE.parent / "load.py"), str(file), "-o", str(folder)]
    command += ["--url", run.front, "--pages", run.url("engine"), "--model", MODEL]
    subprocess.run(command, check=True)
    settle(run)
    log = clients.read(folder, tenants(file))
    run.known |= log.traces
    drained = checks.Drained(before, run.look(), log)
    if run.case.sampled:
        yield from checks.sampled(drained)
    else:
        yield from checks.at_the_gateway(drained)
        yield from checks.at_the_engine(drained)
        yield from checks.covered(drained)
    if load == run.case.loads[0]:  # later the window holds requests of several promises, and histograms know one
        yield from checks.interval(drained)
    yield from checks.nothing_lost(drained)
    places = looked(run, folder)
    yield from checks.traces(places["exporter, OpenMetrics"], run.known, log)
    yield checks.secret(places)


def settle(run: Run) -> None:
    """Wait until the engine is idle, no span is open, and nothing more comes; then for a cycle that shows it."""
    end = time.monotonic() + SETTLE_SECONDS
    last, since = -1.0, time.monotonic()
    while time.monotonic() < end:
        now = run.look()
        came = now.exporter.total("llmvitals_spans_total") + now.exporter.total("llmvitals_spans_dropped_total")
        busy = sum(now.engine.total(f"vllm:num_requests_{state}") for state in ("running", "waiting"))
        if came != last or busy or now.exporter.total("llmvitals_spans_open"):
            last, since = came, time.monotonic()
        elif time.monotonic() - since > QUIET_SECONDS:
            return
        time.sleep(1)
    raise SystemExit(f"it never comes to rest; see {run.home}")


def tenants(file: Path) -> dict[str, str]:
    """The tenant that each stream of a load names."""
    streams = json.loads(file.read_text(encoding="utf-8"))["streams"]
    return {one["name"]: one.get("headers", {}).get("X-Tenant", "") for one in streams}


def looked(run: Run, folder: Path) -> dict[str, str]:
    """Every page and every log of ours, by name."""
    exporter = run.url("exporter")
    found = {f"exporter {path}": pages.get(f"{exporter}{path}") for path in ("/metrics", "/triage", "/history", "/")}
    found["exporter, OpenMetrics"] = pages.get(f"{exporter}/metrics", **pages.OPENMETRICS)
    (folder / "exporter.om").write_text(found["exporter, OpenMetrics"], encoding="utf-8")
    if run.case.gateway:
        found["gateway /metrics"] = pages.get(f"{run.url('gateway')}/metrics")
    logs = {log.name: log.read_text(encoding="utf-8", errors="replace") for log in run.home.glob("*.log")}
    return found | logs


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
        raise SystemExit("usage: run.py DIR [CASE...]")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended then, too
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
