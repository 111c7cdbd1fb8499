"""What eight engines on one machine share is asked for and worked out once in a cycle."""

from __future__ import annotations

from collections import Counter

import pytest

from llmvitals.exporters.cycle import Engine
from llmvitals.settings import Kubernetes, Node, Settings, Target
from llmvitals.sources import node as node_source
from llmvitals.sources.node import Machine, Readers
from llmvitals.telemetry.gpu.nvml import Reader
from llmvitals.telemetry.gpu.nvml.facts import FACTS_SECONDS
from llmvitals.telemetry.host.reader import HostReader
from llmvitals.telemetry.ingest import RawPage
from support.nvml.double import H200, LOADED, MIB, uuid
from support.procfs import Tree

pytestmark = pytest.mark.cc

PORTS = range(8000, 8008)
GPU_URL = "http://127.0.0.1:9400/metrics"
TEMPERATURES = "".join(f'DCGM_FI_DEV_GPU_TEMP{{gpu="{n}",UUID="{uuid(n)}"}} 60\n' for n in range(8))
BOTH_CALLS = "nvmlDeviceGetComputeRunningProcesses"  # pynvml asks how many there are, then for them: argument 0, then 1


class Eight:
    """Engines on ports of their own, each alone on a card, under a real exporter's cycle."""

    def __init__(self, nvml, folder, start: float = 1_800_000_000.0) -> None:
        self.nvml, self.start, self.now, self.asked = nvml, start, 0.0, Counter[str]()
        nvml.cards(*[{**H200, **LOADED}] * 8)
        tree = Tree(folder / "proc")
        tree.kernel_thread()
        tree.net("net:[4026531840]", [("listen", "0.0.0.0", port) for port in PORTS])
        for number, port in enumerate(PORTS):
            tree.process(100 + number, "vllm", command=("vllm", str(port)), fds=[f"socket:[{5000 + number}]"])
            nvml.put(number, {"memory.used": 70_000 * MIB})
            nvml.processes(number, "compute", [(100 + number, 70_000 * MIB)])
        settings = Settings(
            targets=tuple(Target(url=f"http://127.0.0.1:{port}", kind="vllm") for port in PORTS),
            node=Node(name="node-1", gpu_url=GPU_URL, kubernetes=Kubernetes(enabled="off")),
        )
        readers = Readers(
            gpus=lambda: Reader(clock=lambda: self.now).read,
            processes=lambda: HostReader(tree.root, folder, clock=self.clock, steady=lambda: self.now),
            pods=lambda: tuple,
            held=lambda: tuple,
        )
        machine = Machine(settings.node, readers=readers)
        self.engine = Engine(settings, fetch=self.fetch, clock=self.clock, machine=machine)

    def clock(self) -> float:
        return self.start + self.now

    def fetch(self, url: str, *, timeout_s: float, **_: object) -> RawPage:
        self.asked[url] += 1
        text = TEMPERATURES if url == GPU_URL else "vllm:num_requests_running 1\n"
        return RawPage(self.clock(), 0.01, 200, text.encode())

    def after(self, seconds: float):
        self.now += seconds
        self.nvml.pass_time(seconds)
        self.asked.clear()
        return self.engine.step()


def powers(cycle) -> dict[str, tuple[str, str]]:
    return {
        key.label("instance"): (key.label("gpu"), key.label("join"))
        for one in cycle.snapshots
        for key in one.samples
        if key.name == "llm_gpu_power_watts"
    }


def test_no_call_of_the_driver_is_made_twice_in_a_cycle(nvml, tmp_path):
    eight = Eight(nvml, tmp_path)
    eight.after(1)  # the first gets what is kept: event sets and samples, which take no card
    nvml.calls()
    for seconds in (15, 15, FACTS_SECONDS, 15):
        joined = powers(eight.after(seconds))
        assert joined == {f"127.0.0.1:{port}": (uuid(n), "process-ids") for n, port in enumerate(PORTS)}
        calls = nvml.calls()
        assert {call: count for call, count in calls.items() if count > 1} == {}
        for n in range(8):  # what the join is made from is among them
            assert calls[f"{BOTH_CALLS}({n},1)"] == 1


def test_pages_are_asked_once_and_made_one_with_the_driver_once(nvml, tmp_path, monkeypatch):
    eight = Eight(nvml, tmp_path)
    merges = []
    real = node_source.merged
    monkeypatch.setattr(node_source, "merged", lambda page, driver: merges.append(page.t) or real(page, driver))
    for turn in (1, 2):
        cycle = eight.after(15)
        assert set(eight.asked.values()) == {1}
        assert len(eight.asked) == 9
        assert len(merges) == turn
        temperatures = [k for one in cycle.snapshots for k in one.samples if k.name == "llm_gpu_temperature_celsius"]
        assert len({key.label("instance") for key in temperatures}) == 8
