"""A node made of real parts: the exporter and engines as processes, a driver's library, and the services beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from support.nvml.double import Keys, uuid
from support.procfs import stat_line
from support.prometheus import free_port, wait_for

CAPTURES = Path(__file__).parents[1] / "fixtures" / "captures"
ENGINE = Path(__file__).with_name("engine_process.py")


class Cards:
    """What the double of the driver's library shows in another process; see double.c. Changes count from :meth:`show` on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.keys: dict[str, float | str] = {"driver": "590.48.01"}

    def cards(self, *cards: Keys) -> None:
        """These cards, in order."""
        self.keys["cards"] = len(cards)
        for index, keys in enumerate(cards):
            whole: dict[str, float | str] = {"uuid": uuid(index), "bus": 16 + index, **keys}
            whole |= {f"topology.{other}": 50 for other in range(len(cards))}
            self.keys |= {f"{index}.{name}": value for name, value in whole.items()}
        self.show()

    def on(self, index: int, *pids: int, each: float = 60e9) -> None:
        """The processes on a card, and what each holds of its memory in bytes."""
        self.keys |= {f"{index}.compute": len(pids), f"{index}.memory.used": each * len(pids)}
        for place, pid in enumerate(pids):
            self.keys |= {f"{index}.compute.{place}.pid": pid, f"{index}.compute.{place}.used": each}

    def hang(self, function: str = "nvmlDeviceGetPowerUsage", seconds: float = 60.0) -> None:
        """From the next call on a function does not come back."""
        self.keys[f"sleep.{function}"] = seconds * 1000.0
        self.show()

    def wake(self) -> None:
        """Nothing sleeps any more, and what did comes back at once."""
        self.keys = {key: value for key, value in self.keys.items() if not key.startswith("sleep.")}
        self.show()

    def show(self) -> None:
        """Write the table; another file takes the place of the one before, so that no half of it is read."""
        lines = (f"{k}\t{f'={v}' if isinstance(v, str) else repr(float(v))}\n" for k, v in self.keys.items())
        part = self.file.with_suffix(".part")
        part.write_text("".join(lines))
        part.replace(self.file)


class EngineProcess:
    """An engine with a worker, see :mod:`support.engine_process`."""

    def __init__(self, capture: str = "healthy", *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host, self.port, self.capture = host, port or free_port(), capture
        self.start()

    def start(self) -> None:
        """Start it, or start it again after :meth:`kill`; it does not listen before :meth:`listen`."""
        command = [sys.executable, str(ENGINE), self.host, str(self.port), str(CAPTURES / self.capture)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.worker = int(self.process.stdout.readline())

    def listen(self) -> None:
        """Listen from now on: as in the kernel, its processes are to be seen before its socket."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline()

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """End it as the kernel does; its worker follows."""
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Mounted:
    """The processes that a test made, as the host's /proc is seen when it is mounted: real ones, in containers of its choice."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        for name in ("stat", "sys"):
            (root / name).symlink_to(f"/proc/{name}")
        self.add(os.getpid())
        (root / "self").symlink_to(str(os.getpid()))
        kernel = root / "2"
        kernel.mkdir()
        (kernel / "stat").write_text(stat_line(2, "kthreadd", parent=0, flags=0x00208040))

    def add(self, *pids: int, container: str = "", pod: str = "") -> None:
        """Show processes, in a container of a pod where they are named; each appears as a whole, as the kernel shows it."""
        cgroup = f"0::/kubepods/burstable/pod{pod}/{container}\n" if container else "0::/\n"
        for pid in pids:
            folder = self.root / "new"
            folder.mkdir()
            for name in ("stat", "cmdline", "status", "limits", "statm", "fd", "ns", "net", "task"):
                (folder / name).symlink_to(f"/proc/{pid}/{name}")
            (folder / "cgroup").write_text(cgroup)
            folder.rename(self.root / str(pid))


class Page:
    """A page of text at an address, which the test sets."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = owner.text.encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def dcgm(pods: Mapping[int, tuple[str, str, str]] | None = None, *, cards: int = 4) -> str:
    """A page of dcgm-exporter with a temperature and a power of each card; ``pods``: namespace, pod, container by card."""
    lines = []
    for name, value in (("DCGM_FI_DEV_GPU_TEMP", 61), ("DCGM_FI_DEV_POWER_USAGE", 412.5)):
        lines += [f"# HELP {name} of the card", f"# TYPE {name} gauge"]
        for index in range(cards):
            labels = f'gpu="{index}",UUID="{uuid(index)}",device="nvidia{index}",modelName="NVIDIA H200",Hostname="n1"'
            if pods and index in pods:
                namespace, pod, container = pods[index]
                labels += f',container="{container}",namespace="{namespace}",pod="{pod}"'
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


Sample = tuple[str, Mapping[str, str], float]


class Served:
    """``llmvitals serve --settings FILE`` as a process. ``library``: the folder of the driver's library."""

    def __init__(self, folder: Path, config: Mapping[str, object], *, env: Mapping[str, str] | None = None) -> None:
        self.file, self.log_file = folder / "settings.yaml", folder / "serve.log"
        self.write(config)
        command = [sys.executable, "-m", "llmvitals", "serve", "--settings", str(self.file)]
        with self.log_file.open("ab") as sink:
            self.process = subprocess.Popen(command, stderr=sink, env={**os.environ, **(env or {})})
        line = wait_for(lambda: self.logged("listening"), "the listening line")
        self.url = next(word for word in line.split() if word.startswith("url=")).removeprefix("url=")

    def write(self, config: Mapping[str, object]) -> None:
        self.file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def logged(self, event: str) -> str | None:
        """The first line of an event."""
        assert not hasattr(self, "process") or self.process.poll() is None or "event=stopped" in self.log, self.log
        return next((line for line in self.log.splitlines() if f"event={event}" in line), None)

    def get(self, path: str, timeout: float = 10.0) -> requests.Response:
        return requests.get(self.url + path, timeout=timeout)

    def page(self) -> list[Sample]:
        """All samples of /metrics."""
        return [(s.name, s.labels, s.value) for f in parse_text(self.get("/metrics").text) for s in f.samples]

    def found(self, name: str, **labels: str) -> list[Sample]:
        """The samples of a name, or of a prefix that ends with a star, with these labels."""
        return find(self.page(), name, **labels)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


def find(page: Sequence[Sample], name: str, **labels: str) -> list[Sample]:
    """Samples by name (a star at its end stands for any rest) and labels."""
    return [
        one
        for one in page
        if (one[0] == name or (name.endswith("*") and one[0].startswith(name[:-1])))
        and all(one[1].get(key) == value for key, value in labels.items())
    ]
