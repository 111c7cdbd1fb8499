"""What stands around the alerts in a run of the whole way: an engine that can be overloaded at will, the real processes, receivers
of notifications, and the generated files with their waits cut.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import yaml

from llmvitals.alerts.alertmanager import EXAMPLE_URL
from llmvitals.alerts.rules import files
from llmvitals.settings import Settings, seconds_of
from llmvitals.simulator.door import Door, Visit
from llmvitals.simulator.live import Live
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Setup
from support.prometheus import Service

HURRY = 20.0
"""Every wait of the rules and of the Alertmanager's example is divided by this, so that they keep their order."""

_WAITS = ("group_wait", "group_interval", "repeat_interval")


class Crowded:
    """A simulated engine over HTTP, in real time. Between ``crowd`` and ``disperse``, ``clients`` call it one request after the
    other beside its usual traffic, each of the same lengths and none of a text that was seen before.
    """

    LOOK_SECONDS = 0.1

    def __init__(self, setup: Setup, port: int) -> None:
        self._live = Live(setup, origin=time.time())
        self._door = Door(self._live)
        self._served = Served(self._live, port=port)
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self.page_url = self._served.page_url

    def __enter__(self) -> Self:
        self._served.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def crowd(self, clients: int, *, prompt: int, output: int) -> None:
        """The clients come."""
        self._threads.append(threading.Thread(target=self._call, args=(clients, prompt, output), daemon=True))
        self._threads[-1].start()

    def disperse(self) -> None:
        """They call no more; what they have asked is still answered."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._over.clear()

    def kill(self) -> None:
        """Nobody answers at its address any more."""
        self.disperse()
        self._served.__exit__(None, None, None)

    def _call(self, clients: int, prompt: int, output: int) -> None:
        out: list[Visit] = []
        asked = 0
        while not self._over.wait(self.LOOK_SECONDS):
            now = time.time()
            self._live.advance(now)
            out = [visit for visit in out if not visit.outcome]
            for _ in range(clients - len(out)):
                asked += 1
                out.append(self._door.ask(now, prompt, output, asked, name=f"crowd-{asked}"))


class Command(Service):
    """``llmvitals WORDS`` as a process of its own; ``{address}`` among the words is its host and port."""

    def __init__(self, folder: Path, ready: str, *words: object) -> None:
        super().__init__(folder, ready)
        self._words = [str(word).format(address=f"127.0.0.1:{self.port}") for word in words]

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "llmvitals", *self._words]


@dataclass(frozen=True, slots=True)
class Told:
    """One alert of one notification: when it came (``time.monotonic``), to whom, and what it said."""

    t: float
    receiver: str
    group: Mapping[str, str]
    status: str
    name: str
    instance: str
    annotations: Mapping[str, str]


class Receivers:
    """A webhook on loopback that plays both receivers of the example and keeps what came, in order."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                now = time.monotonic()
                told.extend(
                    Told(
                        now,
                        body["receiver"],
                        body["groupLabels"],
                        alert["status"],
                        alert["labels"]["alertname"],
                        alert["labels"].get("instance", ""),
                        alert["annotations"],
                    )
                    for alert in body["alerts"]
                )
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def first(self, receiver: str, status: str, name: str, instance: str = "") -> Told | None:
        """The first notification of this alert, if it came."""
        wanted = (receiver, status, name, instance)
        return next((one for one in self.told if (one.receiver, one.status, one.name, one.instance) == wanted), None)

    def rung(self, receiver: str, since: float = 0.0) -> list[tuple[str, str]]:
        """Alert and instance of all that a receiver was told to fire from a moment on, in order; repetitions left out."""
        found = [one for one in self.told if one.receiver == receiver and one.t >= since and one.status == "firing"]
        return list(dict.fromkeys((one.name, one.instance) for one in found))


def hurried(folder: Path, settings: Settings, receivers: str) -> tuple[list[Path], Path]:
    """The generated rules and the Alertmanager's example, with nothing changed but the waits and the receivers' address."""
    made = files(settings)
    rules = []
    for name in ("llmvitals-recording", "llmvitals-alerts"):
        data = yaml.safe_load(made[f"alerts/{name}.yaml"])
        for rule in (rule for group in data["groups"] for rule in group["rules"]):
            rule |= {key: _cut(rule[key]) for key in ("for", "keep_firing_for") if key in rule}
        rules.append(folder / f"{name}.yaml")
        rules[-1].write_text(yaml.safe_dump(data), encoding="utf-8")
    config = yaml.safe_load(made["alerts/alertmanager-example.yaml"].replace(EXAMPLE_URL, receivers))
    for route in (config["route"], *config["route"]["routes"]):
        route |= {key: _cut(route[key]) for key in _WAITS}
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return rules, path


def _cut(wait: str) -> str:
    return wait if wait.startswith("0") else f"{round(1000 * seconds_of(wait) / HURRY)}ms"
