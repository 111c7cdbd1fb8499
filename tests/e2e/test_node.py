"""A node end to end: the exporter as a process beside engines that are processes, GPUs, pods, and what happens to them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import kubelet as socket
from support.api_server import ApiServer, container, pod, status
from support.command import argv, llmvitals
from support.kubelet import Kubelet
from support.node import Cards, EngineProcess, Mounted, Page, Served, dcgm, find
from support.nvml.double import H200, LOADED, build, uuid
from support.prometheus import wait_for as waited

pytestmark = pytest.mark.cc

NODE = "n1"
SCRAPED = "llmvitals.io/scrape"
PORT = "llmvitals.io/port"
POWER, PID_MEMORY, GAP = "llm_gpu_power_watts", "llm_gpu_process_memory_bytes", "llm_family_gap"


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """The folder of the driver's library."""
    return build(tmp_path_factory.mktemp("nvml")).parent


def wait_for(probe, what: str):
    return waited(probe, what, seconds=20)


class World:
    """Four cards; engines are added to it, then the exporter is started."""

    def __init__(self, folder: Path, library: Path, api: ApiServer, kubelet: Kubelet, page: Page) -> None:
        self.folder, self.api, self.kubelet, self.page = folder, api, kubelet, page
        self.cards = Cards(folder / "nvml")
        self.cards.cards(*[{**H200, **LOADED}] * 4)
        self.proc = Mounted(folder / "proc")
        self.engines: list[EngineProcess] = []
        self.served: list[Served] = []
        self.env = {"LD_LIBRARY_PATH": str(library), "NVML_DOUBLE": str(self.cards.file), "NODE_NAME": ""}

    def engine(self, host: str = "127.0.0.1", *, name: str = "", **more: str) -> EngineProcess:
        """An engine; ``name``: of its pod, which then is in the API server's list with the engine's address."""
        engine = EngineProcess(host=host, **more)
        self.engines.append(engine)
        if not name:
            self.begin(engine)
            return engine
        uid = f"{len(self.engines):08d}-aaaa-4000-8000-000000000000"
        self.begin(engine, container=f"{len(self.engines):064x}", pod=uid)
        self.api.pods.append(
            pod(
                name,
                node=NODE,
                uid=uid,
                ip=host,
                annotations={SCRAPED: "true", PORT: str(engine.port)},
                containers=(container(ports=(("http", engine.port),)),),
                statuses=(status(containerID=f"containerd://{len(self.engines):064x}"),),
            )
        )
        return engine

    def begin(self, engine: EngineProcess, **place: str) -> None:
        """The engine's processes are to be seen, then it listens."""
        self.proc.add(engine.pid, engine.worker, **place)
        engine.listen()

    def config(self, *targets: dict, **node: object) -> dict:
        kubernetes = {
            "enabled": "on",
            "api_url": self.api.url,
            "interval_seconds": 0.2,
            "pod_resources": str(self.folder / "kubelet.sock"),
        }
        own = {"name": NODE, "procfs": str(self.proc.root), "gpu_url": self.page.url, "kubernetes": kubernetes}
        limits = {"listen": "127.0.0.1:0", "interval_seconds": 0.2, "timeout_seconds": 1.0}
        return {"targets": list(targets), "node": own | node, "exporter": limits}

    def serve(self, *targets: dict, **node: object) -> Served:
        one = Served(self.folder, self.config(*targets, **node), env=self.env)
        self.served.append(one)
        return one

    def close(self) -> None:
        self.cards.wake()
        for one in self.served:
            one.close()
        for engine in self.engines:
            engine.kill()


@pytest.fixture
def world(tmp_path, library) -> Iterator[World]:
    with ApiServer() as api, Kubelet(tmp_path / "kubelet.sock") as kubelet, Page(dcgm()) as page:
        made = World(tmp_path, library, api, kubelet, page)
        try:
            yield made
        finally:
            made.close()
            for one in made.served:
                sys.stderr.write(one.log)


def joins(served: Served) -> dict[str, set[tuple[str, str]]]:
    """By instance: GPUs and how they were joined."""
    found: dict[str, set[tuple[str, str]]] = {}
    for _, labels, _ in served.found(POWER):
        found.setdefault(labels["instance"], set()).add((labels["gpu"], labels.get("join", "")))
    return found


def reasons(served: Served, family: str, **labels: str) -> str:
    return " | ".join(sorted(labels["reason"] for _, labels, _ in served.found(GAP, family=family, **labels)))


def until_joined(served: Served, expected: dict[str, set[tuple[str, str]]]) -> None:
    """Waits for these joins; says what there was instead."""
    newest: list[object] = [None]

    def same() -> bool:
        newest[0] = joins(served)
        return newest[0] == expected

    try:
        wait_for(same, "the joins")
    except pytest.fail.Exception:
        assert newest[0] == expected, served.log
        raise


# -- whose GPU is whose -------------------------------------------------------------------------------------------------
def test_each_engine_gets_its_gpus_by_the_way_that_tells_most(world):
    named, plain = world.engine(), world.engine()
    labelled, held = world.engine("127.0.0.2", name="chat-0"), world.engine("127.0.0.3", name="code-0")
    world.page.text = dcgm({1: ("serving", "chat-0", "engine")})
    world.kubelet.answer = socket.pod("serving", "code-0", engine=socket.devices("nvidia.com/gpu", [uuid(2)]))
    for index, engine in enumerate((named, labelled, held, plain)):
        world.cards.on(index, engine.worker)
    world.cards.show()
    served = world.serve({"url": named.url, "name": "named", "gpus": ["0"]}, {"url": plain.url, "name": "plain"})
    expected = {
        "named": {(uuid(0), "configured")},
        "serving/chat-0": {(uuid(1), "pod-labels")},
        "serving/code-0": {(uuid(2), "pod-resources")},
        "plain": {(uuid(3), "process-ids")},
    }
    until_joined(served, expected)
    page = served.page()
    for instance, ((gpu, join),) in expected.items():
        own = {"instance": instance, "gpu": gpu, "join": join}
        assert [value for _, _, value in find(page, "llm_gpu_temperature_celsius", **own)] == [61.0]  # the page's
        (active,) = wait_for(lambda own=own: served.found("llm_gpu_sm_active_ratio", **own), "two samples")
        assert active[2] == pytest.approx(0.825)  # the driver's
        ((_, labels, value),) = find(page, PID_MEMORY, **own)
        assert (labels["owner"], value) == ("engine", 60e9)
        assert find(page, "llm_host_resident_bytes", instance=instance, process="engine")
        assert find(page, "llm_tensor_parallel_size", instance=instance, source="gpus")[0][2] == 1.0
    for instance in ("serving/chat-0", "serving/code-0"):
        own = {"instance": instance, "namespace": "serving", "node": NODE}
        assert {one[1]["pod"] for one in find(page, "llm_gpu_*", **own)} == {instance.rpartition("/")[2]}
        assert find(page, "llm_host_ready", instance=instance)[0][2] == 1.0


def test_lost_pod_labels_are_told_and_process_ids_join_in_their_place(world):
    engine = world.engine("127.0.0.2", name="chat-0")
    world.cards.on(1, engine.worker)
    world.cards.show()
    world.page.text = dcgm({1: ("serving", "chat-0", "engine")})
    served = world.serve()
    mine = {"serving/chat-0": {(uuid(1), "pod-labels")}}
    rest = {NODE: {(uuid(index), "") for index in (0, 2, 3)}}
    until_joined(served, mine | rest)
    assert reasons(served, "llm_gpu_*") == ""
    world.page.text = dcgm()
    until_joined(served, {"serving/chat-0": {(uuid(1), "process-ids")}} | rest)
    told = reasons(served, "llm_gpu_*", instance="serving/chat-0")
    assert "by pod labels" in told
    assert "DCGM_EXPORTER_KUBERNETES=true" in told
    world.page.text = dcgm({1: ("serving", "chat-0", "engine")})
    until_joined(served, mine | rest)


def test_what_nothing_tells_is_no_join_and_the_page_says_why(world):
    engine, other = world.engine(), world.engine()
    served = world.serve({"url": engine.url, "name": "a"})
    until_joined(served, {NODE: {(uuid(index), "") for index in range(4)}})
    assert wait_for(lambda: reasons(served, "llm_gpu_*", instance="a"), "it").startswith(
        "no process is on a GPU that is shown"
    )
    world.cards.on(0, other.worker)
    world.cards.show()
    wait_for(lambda: "none of its processes is on a GPU" in reasons(served, "llm_gpu_*", instance="a"), "the other's")
    assert set(joins(served)) == {NODE}


def test_a_gateway_on_the_same_host_gets_neither_gpus_nor_processes_whether_it_answers_or_not(world):
    page = (Path(__file__).parents[1] / "golden" / "litellm" / "pages" / "light.prom").read_bytes()
    (world.folder / "0.prom.gz").write_bytes(gzip.compress(page))
    engine, gateway = world.engine(), world.engine(capture=str(world.folder))
    world.cards.on(0, engine.worker)
    world.cards.on(1, gateway.worker)
    world.cards.show()
    served = world.serve({"url": engine.url, "name": "a"}, {"url": gateway.url, "name": "front"}, gpu_url="")
    wait_for(lambda: joins(served).get("a"), "the join")

    def beside_it() -> list:
        own = served.found("llm_*", instance="front")
        return [one for one in own if one[0].startswith(("llm_gpu_", "llm_host_"))]

    assert beside_it() == []
    gateway.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: served.logged("target-down instance=front"), "its silence")
    turns = served.found("llmvitals_cycles_total")[0][2] + 2
    wait_for(lambda: served.found("llmvitals_cycles_total")[0][2] >= turns, "two more cycles")
    assert beside_it() == []


# -- what hangs, fails and goes ------------------------------------------------------------------------------------------
def test_a_driver_that_hangs_costs_its_own_numbers_alone_and_they_come_again(world):
    engine = world.engine()
    world.cards.on(0, engine.worker)
    world.cards.show()
    served = world.serve({"url": engine.url, "name": "a"}, gpu_url="")
    wait_for(lambda: joins(served).get("a"), "the join")
    world.cards.hang()
    wait_for(lambda: served.found("llmvitals_collector_success", collector="nvml")[0][2] == 0.0, "the failure told")
    for path in ("/metrics", "/healthz", "/readyz", "/triage"):
        began = time.monotonic()
        assert served.get(path).status_code == 200
        assert time.monotonic() - began < 1.0, path
    page = served.page()
    assert find(page, POWER) == []
    assert find(page, "llm_target_up", instance="a")[0][2] == 1.0
    assert find(page, "llm_host_resident_bytes", instance="a", process="api")
    assert "driver" in reasons(served, "llm_gpu_*", instance="a")
    before = served.found("llmvitals_history_snapshots", instance="a")[0][2]
    wait_for(lambda: served.found("llmvitals_history_snapshots", instance="a")[0][2] > before, "cycles that go on")
    world.cards.wake()
    wait_for(lambda: joins(served).get("a") == {(uuid(0), "process-ids")}, "the join, anew")


def test_a_gpu_that_falls_off_the_bus_stays_its_engines_so_that_the_error_is_too(world):
    engine = world.engine()
    world.cards.on(0, engine.worker)
    world.cards.show()
    served = world.serve({"url": engine.url, "name": "a"}, gpu_url="")
    wait_for(lambda: joins(served).get("a"), "the join")
    world.cards.keys |= {"0.xid": 1, "0.xid.0": 79, "0.lost": 15}
    world.cards.show()
    ((_, labels, value),) = wait_for(lambda: served.found("llm_gpu_xid_events_total", xid="79"), "the error")
    assert (labels["instance"], labels["gpu"], labels["join"], value) == ("a", uuid(0), "process-ids", 1.0)
    assert "fell off the bus" in reasons(served, POWER, instance="a", gpu=uuid(0))
    assert served.found(POWER, gpu=uuid(0)) == []


def test_sigterm_ends_the_process_while_the_driver_hangs(world):
    engine = world.engine()
    served = world.serve({"url": engine.url, "name": "a"})
    wait_for(lambda: joins(served), "the GPUs")
    world.cards.hang()
    wait_for(lambda: served.found("llmvitals_collector_success", collector="nvml")[0][2] == 0.0, "the failure told")
    began = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(10) == 0
    assert time.monotonic() - began < 8.0
    assert "event=stopped" in served.log
    assert "Traceback" not in served.log


def test_pods_come_and_go_with_all_their_series(world):
    world.page.text = dcgm({1: ("serving", "chat-0", "engine")})
    served = world.serve()
    wait_for(lambda: served.found(POWER, instance=NODE), "the node's GPUs")
    assert served.found("llm_target_up") == []
    world.engine("127.0.0.2", name="chat-0")
    wait_for(lambda: served.found(POWER, instance="serving/chat-0", join="pod-labels"), "the pod's GPU")
    world.api.pods.clear()
    wait_for(lambda: not served.found("*", instance="serving/chat-0"), "the end of its series")
    until_joined(served, {NODE: {(uuid(index), "") for index in range(4)}})
    assert served.get("/triage?instance=serving/chat-0").status_code == 404


def test_an_api_server_that_fails_ends_no_pod_and_is_told(world):
    world.engine("127.0.0.2", name="chat-0")
    world.page.text = dcgm({1: ("serving", "chat-0", "engine")})
    served = world.serve()
    wait_for(lambda: joins(served).get("serving/chat-0"), "the pod")
    world.api.tokens = set()  # nobody may come in
    wait_for(lambda: served.found("llmvitals_collector_success", collector="pods")[0][2] == 0.0, "the failure told")
    assert joins(served)["serving/chat-0"] == {(uuid(1), "pod-labels")}
    assert served.found("llm_target_up", instance="serving/chat-0")[0][2] == 1.0
    world.api.tokens = None
    wait_for(lambda: served.found("llmvitals_collector_success", collector="pods")[0][2] == 1.0, "its recovery")
    assert joins(served)["serving/chat-0"] == {(uuid(1), "pod-labels")}


def test_an_engine_started_again_is_one_restart_and_its_gpus_are_joined_anew(world):
    engine, other = world.engine(), world.engine()
    world.cards.on(0, engine.worker)
    world.cards.on(1, other.worker)
    world.cards.show()
    served = world.serve({"url": engine.url, "name": "a"}, {"url": other.url, "name": "b"}, gpu_url="")
    wait_for(lambda: set(joins(served)) == {"a", "b", NODE}, "the joins")

    def restarts(name: str) -> float:
        return sum(value for _, _, value in served.found("llm_host_restarts_total", instance=name))

    def started() -> float:
        found = served.found("llm_host_process_start_time_seconds", instance="a", process="api")
        return found[0][2] if found else 0.0

    before = started()
    assert restarts("a") == 0.0
    engine.kill()
    world.cards.on(0)
    world.cards.show()
    wait_for(lambda: served.found("llm_target_up", instance="a")[0][2] == 0.0, "its end")
    wait_for(lambda: "a" not in joins(served), "the end of its GPUs")
    engine.start()
    world.begin(engine)
    world.cards.on(2, engine.worker)  # on another card
    world.cards.show()
    wait_for(lambda: joins(served).get("a") == {(uuid(2), "process-ids")}, "its GPU, anew")
    wait_for(lambda: started() > before, "its new start")
    turns = served.found("llmvitals_cycles_total")
    wait_for(lambda: served.found("llmvitals_cycles_total") != turns, "another cycle")
    assert restarts("a") == 1.0
    assert restarts("b") == 0.0


def test_sighup_takes_in_a_changed_node(world):
    engine = world.engine()
    world.cards.on(0, engine.worker)
    world.cards.show()
    target = {"url": engine.url, "name": "a"}
    served = world.serve(target)
    wait_for(lambda: joins(served).get("a") == {(uuid(0), "process-ids")}, "the join")
    kept = served.found("llmvitals_history_snapshots", instance="a")[0][2]
    served.write(world.config(target, name="n2", nvml="off", gpu_url="", kubernetes={"enabled": "off"}))
    served.process.send_signal(signal.SIGHUP)
    wait_for(lambda: not joins(served), "the end of GPUs")
    page = served.page()
    assert find(page, "llm_host_info", instance="a")[0][1]["node"] == "n2"
    assert {one[1]["collector"] for one in find(page, "llmvitals_collector_success", instance="n2")} == {"processes"}
    assert find(page, "llmvitals_collector_success", instance=NODE) == []
    assert find(page, "llmvitals_history_snapshots", instance="a")[0][2] >= kept
    served.write(world.config(target))
    served.process.send_signal(signal.SIGHUP)
    wait_for(lambda: joins(served).get("a") == {(uuid(0), "process-ids")}, "the join, anew")


# -- the command line ----------------------------------------------------------------------------------------------------
def evidence(document: dict) -> dict[str, float]:
    """Every number that a verdict stands on, by signal."""
    return {e["signal"]: e["value"] for s in document["steps"] for c in s["checks"] for e in c["evidence"]}


def test_a_live_triage_and_a_recording_see_the_machine_and_agree(world):
    """Both watch at once, each an engine of its own that answers with the same pages."""
    live, recorded = (world.engine(capture="kv-preemption") for _ in range(2))
    world.cards.on(0, live.worker)
    world.cards.on(1, recorded.worker)
    world.cards.show()
    config = world.folder / "triage.yaml"
    config.write_text("thresholds: {min_seconds: 2.0}\n")
    folder = world.folder / "recording"
    often = ("--for", "3s", "--interval", "0.5s", "--settings", config)
    capture = subprocess.Popen(argv("capture", recorded.url, "-o", folder, *often), env={**os.environ, **world.env})
    seen = subprocess.run(
        argv("triage", live.url, "--json", *often),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **world.env},
    )
    assert capture.wait(60) == 0
    first, second = json.loads(seen.stdout), llmvitals("triage", folder, "--json", "--settings", config).json
    assert first["verdict"] == second["verdict"] == "cause"
    assert first["leading"]["cause"] == second["leading"]["cause"] == "preemption-thrash"
    assert first["binding"]["resource"] == second["binding"]["resource"]
    for document in (first, second):
        numbers = evidence(document)
        assert numbers["gpu_sm_active_mean_ratio"] == pytest.approx(0.825, abs=0.001)
        assert numbers["tensor_parallel_gpus"] == 1.0
        assert 0.0 < numbers["fd_usage_ratio"] < 0.5
        assert not [one for one in document["blind"] if one["series"].startswith(("llm_gpu", "llm_host"))]
