"""What stands around the alerts in a run of the whole way: an engine that can be overloaded at will, and the real processes."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Self

from llmvitals.settings import seconds_of
from llmvitals.simulator.door import Door, Visit
from llmvitals.simulator.live import Live
from llmvitals.simulator.serve import Served
from llmvitals.simulator.setup import Setup
from support.prometheus import Service

HURRY = 20.0
"""Every wait of the rules and of the Alertmanager's example is divided by this."""


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


def cut(_: str, wait: str) -> str:
    """Every wait so much shorter, that they keep their order."""
    return wait if wait.startswith("0") else f"{round(1000 * seconds_of(wait) / HURRY)}ms"
