"""The machine under a simulated engine, in its sources' own forms, as the readers of production read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from llmvitals.lab.machine import Files, Machine
from llmvitals.series import Series, Snapshot
from llmvitals.simulator import node, nvml
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.hardware import machine, pcie
from llmvitals.simulator.live import Live
from llmvitals.simulator.procfs import Tree
from llmvitals.simulator.roofline import Machine as Hardware
from llmvitals.simulator.setup import Faults, Front, Gateway, Host, Restart, Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.telemetry.gpu.nvml.library import Library
from llmvitals.telemetry.gpu.nvml.reader import Reader
from llmvitals.telemetry.host.proc import stat
from llmvitals.telemetry.host.reader import HostReader
from llmvitals.telemetry.identity.cgroup import owners
from llmvitals.telemetry.identity.find import find
from llmvitals.telemetry.identity.model import Found, Wanted
from llmvitals.telemetry.kube import pods

ORIGIN = 1_800_000_000.0
CHAT = Stream(rate=4.0, prompt=Lengths(200), output=Lengths(100), max_tokens=128)
CROWD = Stream(clients=24, prompt=Lengths(300), output=Lengths(200), max_tokens=512)
LABELS = {"instance": "sim", "model": "sim-8b"}
NONE = Snapshot(ORIGIN, {})
FOUR = machine("H100-80GB", "Llama-3.3-70B", gpus=4)
TWO_A100 = machine("A100-80GB", "Qwen2.5-32B", gpus=2)


def live(stream: Stream | None = CHAT, on: Hardware | None = None, dialect: str = "vllm", **parts: object) -> Live:
    engine = EngineConfig(**({"machine": on} if on else {}), dialect=dialect)  # type: ignore[arg-type]
    workload = Workload((stream,) if stream else (), seed=3)
    return Live(Setup(engine, workload, **parts), origin=ORIGIN)  # type: ignore[arg-type]


class Watched:
    """A simulated host on disk with the real reader on it."""

    def __init__(self, server: Live, folder: Path) -> None:
        self.server, self.t = server, ORIGIN
        self.proc, self.groups = Files(folder / "proc"), Files(folder / "cgroup")
        self.reader: HostReader | None = None

    def at(self, t: float) -> tuple[Found, Mapping[Series, float]]:
        """The engine and its samples at simulated moment ``t``."""
        self.t = ORIGIN + t
        proc, groups = self.server.trees_at(self.t)
        self.proc.write(proc)
        self.groups.write(groups)
        self.reader = self.reader or HostReader(
            self.proc.root, self.groups.root, clock=lambda: self.t, steady=lambda: self.t
        )
        processes = self.reader.processes(frozenset({node.PORT}))
        found = find(Wanted("sim", "127.0.0.1", node.PORT), processes)
        return found, self.reader.samples(found, self.t)


def one(samples: Mapping[Series, float], name: str, **own: str) -> float:
    found = [v for k, v in samples.items() if k.name == name and own.items() <= dict(k.labels).items()]
    assert len(found) == 1, (name, own, found)
    return found[0]


# -- processes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dialect", "gpus", "names"),
    [
        ("vllm", 1, ["vllm", "VLLM::EngineCor"]),
        ("vllm", 4, ["vllm", "VLLM::EngineCor", *["VLLM::Worker_TP"] * 4]),
        ("vllm-v0", 1, ["python3", "python3"]),
        ("sglang", 1, ["python3", "sglang::detoken", "sglang::schedul"]),
    ],
)
def test_an_engine_is_a_tree_of_processes_in_one_container(
    dialect: str, gpus: int, names: list[str], tmp_path: Path
) -> None:
    server = live(on=FOUR if gpus == 4 else None, dialect=dialect)
    found, _ = Watched(server, tmp_path).at(10)
    proc, _ = server.trees_at(ORIGIN + 10)
    shown = [stat(proc.files[f"{pid}/stat"].encode()) for pid in (*found.api, *found.engine)]
    assert [told.name for told in shown if told] == names
    assert len(found.api) == 1
    assert len({owners(proc.files[f"{pid}/cgroup"]) for pid in found.pids}) == 1
    assert all(owners(proc.files[f"{pid}/cgroup"])[0] for pid in found.pids)


def test_every_start_has_new_process_ids_and_none_are_there_once_it_is_dead(tmp_path: Path) -> None:
    faults = Faults(restarts=(Restart(20.0, 30.0, "probe"),), dies_at=50.0)
    watched = Watched(live(faults=faults), tmp_path)
    before, loading, after, dead = (watched.at(t)[0] for t in (10, 25, 40, 60))
    assert before.pids
    assert not loading.api  # nobody listens while it loads
    assert not before.pids & after.pids
    assert not dead.pids
    assert not [name for name in watched.server.trees_at(ORIGIN + 60)[0].files if name.startswith("20")]


def test_cpu_of_the_api_process_is_what_its_work_costs(tmp_path: Path) -> None:
    server = live(front=Front(request_seconds=0.02, output_token_seconds=1e-4))
    watched = Watched(server, tmp_path)
    watched.at(0)
    _, samples = watched.at(100)
    assert one(samples, "llm_host_cpu_cores", process="api") == pytest.approx(
        server.engine.counters.process_seconds / 100, rel=0.02
    )
    assert one(samples, "llm_host_cpu_limit_cores", process="api") == 8  # the container's quota, of 64 CPUs
    assert one(samples, "llm_host_process_start_time_seconds", process="api") == ORIGIN - 600


def test_the_engines_loop_and_each_worker_spin_and_none_has_more_than_a_core(tmp_path: Path) -> None:
    watched = Watched(live(CROWD, FOUR), tmp_path)
    watched.at(20)
    _, samples = watched.at(25)
    assert one(samples, "llm_host_cpu_cores", process="engine") > 4.5  # the loop and four workers
    assert 0.9 < one(samples, "llm_host_busiest_thread_cores", process="engine") <= 1.0


def test_a_quota_of_the_api_process_holds_it_back_and_the_engine_not(tmp_path: Path) -> None:
    watched = Watched(live(front=Front(request_seconds=0.1, cores=0.25)), tmp_path)
    _, before = watched.at(30)
    _, samples = watched.at(60)
    held = [one(x, "llm_host_cpu_throttled_seconds_total", process="api") for x in (before, samples)]
    assert (held[1] - held[0]) / 30 == pytest.approx(0.75, abs=0.01)
    assert one(samples, "llm_host_cpu_limit_cores", process="api") == 0.25
    assert one(samples, "llm_host_cpu_limit_cores", process="engine") == 8
    assert one(samples, "llm_host_cpu_throttled_seconds_total", process="engine") == 0


def test_leaked_descriptors_are_sockets_whose_other_end_is_closed(tmp_path: Path) -> None:
    server = live(faults=Faults(fd_leak=2.0), host=Host(max_fds=1000))
    found, samples = Watched(server, tmp_path).at(50)
    ended = len(server.world.clients.log)
    assert one(samples, "llm_host_sockets", state="close_wait") == 2 * ended > 200
    assert one(samples, "llm_host_open_fds", process="api") == 44 + len(server.world.front.calls) + 2 * ended
    assert one(samples, "llm_host_max_fds", process="api") == 1000
    assert len(list((tmp_path / "proc" / str(found.api[0]) / "fd").iterdir())) == server.world.front.open_fds


def test_without_keep_alive_the_gateways_ports_stand_in_time_wait(tmp_path: Path) -> None:
    server = live(gateway=Gateway(keep_alive=False, ephemeral_ports=4000), faults=Faults(foreign_ports=500))
    watched = Watched(server, tmp_path)
    watched.at(150)
    _, samples = watched.at(180)
    waiting = sum(1 for a in server.world.clients.log if 120 < a.ended <= 180)
    assert one(samples, "llm_host_sockets", state="time_wait") == waiting > 100
    assert one(samples, "llm_host_ephemeral_ports_used") == waiting + len(server.world.front.calls) + 500
    assert one(samples, "llm_host_ephemeral_ports") == 4000


def test_several_api_processes_share_the_port_and_the_work(tmp_path: Path) -> None:
    watched = Watched(live(front=Front(processes=2, request_seconds=0.05)), tmp_path)
    watched.at(20)
    found, samples = watched.at(60)
    assert len(found.api) == 2
    thread, whole = (one(samples, f"llm_host_{x}_cores", process="api") for x in ("busiest_thread", "cpu"))
    assert whole == pytest.approx(2 * thread, abs=0.002)


def test_what_a_folder_holds_is_the_last_tree_and_nothing_else(tmp_path: Path) -> None:
    files = Files(tmp_path / "x")
    files.write(Tree({"1/stat": "a", "2/stat": "b"}, {"1/fd/3": "pipe:[1]", "2/net": "../1/net"}))
    files.write(Tree({"1/stat": "c"}, {"1/fd/3": "socket:[2]"}))
    found = {str(path.relative_to(files.root)) for path in files.root.rglob("*") if not path.is_dir()}
    assert found == {"1/stat", "1/fd/3"}
    assert (files.root / "1/stat").read_text() == "c"
    assert str((files.root / "1/fd/3").readlink()) == "socket:[2]"
    assert not (files.root / "2").exists()


# -- pods -------------------------------------------------------------------------------------------------------------
def test_a_pod_says_how_its_container_ended_and_since_when_it_is_ready() -> None:
    reasons = ("oom", "gpu-oom", "probe")
    faults = Faults(restarts=tuple(Restart(20.0 * i, 20.0 * i + 8, r) for i, r in enumerate(reasons, start=1)))
    server = live(faults=faults)

    def container(t: float) -> tuple[bool, float | None, int, str, float | None]:
        (pod,) = pods.read(server.pods_at(ORIGIN + t), node.NAME).pods
        (one,) = pod.containers
        assert (pod.namespace, pod.host_network, one.ports) == ("serving", True, (("http", 8000),))
        last = one.last
        return pod.ready, pod.ready_since, one.restarts, last.reason if last else "", one.started

    assert container(5) == (True, ORIGIN - 599, 0, "", ORIGIN - 600)
    assert container(22) == (False, None, 1, "oom", ORIGIN + 20)
    assert container(30) == (True, ORIGIN + 28, 1, "oom", ORIGIN + 20)
    # an allocation on the GPU that fails ends a process with code 1: no kubelet knows more
    assert container(50)[2:4] == (2, "error")
    assert container(70)[2:4] == (3, "probe")


def test_a_rollout_brings_another_pod_of_the_same_workload() -> None:
    server = live(faults=Faults(restarts=(Restart(20.0, 28.0, "probe"), Restart(40.0, 48.0, "rollout"))))
    before, after = (pods.read(server.pods_at(ORIGIN + t), node.NAME).pods[0] for t in (30, 50))
    assert before.containers[0].restarts == 1
    assert after.containers[0].restarts == 0
    assert before.uid != after.uid
    assert re.sub(r"-[0-9a-f]{9}$", "", before.owner) == re.sub(r"-[0-9a-f]{9}$", "", after.owner)
    assert before.labels["pod-template-hash"] != after.labels["pod-template-hash"]


@pytest.mark.parametrize("gateway", [None, Gateway()])
def test_whose_probe_fails_serves_and_gets_no_call(gateway: Gateway | None) -> None:
    server = live(gateway=gateway, faults=Faults(unready=((20.0, 40.0),)))
    ready = [pods.read(server.pods_at(ORIGIN + t), node.NAME).pods[0] for t in (10, 30, 50)]
    assert [(pod.ready, pod.ready_since) for pod in ready] == [
        (True, ORIGIN - 599),
        (False, None),
        (True, ORIGIN + 40),
    ]
    failed = [a.sent for a in server.world.clients.log if a.outcome == "error"]
    assert len(failed) > 40
    assert all(20 <= t < 40 for t in failed)
    assert server.answer_at(ORIGIN + 50).status == 200
    if gateway is not None:  # it has nowhere to send them: no connection was tried
        counts = {k.label("status"): v for k, v in server.gateway_at(ORIGIN + 50, LABELS).items() if k.label("status")}
        assert counts["503"] == len(failed)
        assert not [v for k, v in server.gateway_at(ORIGIN + 50, LABELS).items() if "connect_err" in k.name and v]


def test_a_pods_container_is_the_one_in_its_processes_control_groups() -> None:
    server = live()
    (pod,) = pods.read(server.pods_at(ORIGIN + 10), node.NAME).pods
    text = server.trees_at(ORIGIN + 10)[0].files[f"{node.FIRST_PID}/cgroup"]
    assert owners(text) == (pod.containers[0].id, pod.uid)


# -- the driver's library ---------------------------------------------------------------------------------------------
def read(server: Live, *moments: float) -> Mapping[Series, float]:
    """What the driver's reader says at the last moment, having read at all of them."""
    reader = Reader(cast(Library, server.nvml()), clock=lambda: server.world.now)
    samples: Mapping[Series, float] = {}
    for t in moments:
        server.advance(ORIGIN + t)
        samples = reader.read(ORIGIN + t).samples
    return samples


def test_hopper_profiles_itself_and_ampere_does_not() -> None:
    hopper, ampere = live(CROWD, FOUR), live(CROWD, TWO_A100)
    samples = read(hopper, 10, 20)
    busy = hopper.world.engine.counters.busy_seconds
    assert one(samples, "llm_gpu_sm_active_ratio", index="3") == pytest.approx(busy / 20, abs=0.1)
    assert (
        0
        < one(samples, "llm_gpu_tensor_active_ratio", index="0")
        < one(samples, "llm_gpu_dram_active_ratio", index="0")
    )
    told = read(ampere, 10, 20)
    assert not [k for k in told if k.name == "llm_gpu_sm_active_ratio"]
    assert one(told, "llm_gpu_busy_ratio", index="1") > 0.5


def test_a_repeated_xid_is_another_event_and_an_old_one_none() -> None:
    server = live(faults=Faults(xid=((5.0, 31), (12.0, 79), (14.0, 79))))
    samples = read(server, 10, 20)
    assert one(samples, "llm_gpu_xid_events_total", xid="79") == 2
    assert not [k for k in samples if k.label("xid") == "31"]


def test_memory_of_a_neighbour_has_its_own_process() -> None:
    server = live(faults=Faults(other_memory=((20.0, 40.0, 8e9),)))
    held = [
        {k.label("pid"): v for k, v in read(server, t).items() if k.name == "llm_gpu_process_memory_bytes"}
        for t in (10, 30, 50)
    ]
    assert [x.get(str(node.NEIGHBOUR_PID)) for x in held] == [None, 8e9, None]
    assert [len(x) for x in held] == [1, 2, 1]


@pytest.mark.parametrize(
    ("link", "word", "limit"),
    [(FOUR.link, "NV18", 900e9), (pcie(3, 8, 1e-4, apart=50), "SYS", 15.75e9), (pcie(4, 4, 1e-4), "PHB", 15.75e9)],
)
def test_topology_tells_the_link_between_two_cards_and_what_it_carries(link: object, word: str, limit: float) -> None:
    samples = read(live(CROWD, replace(FOUR, link=link)), 10, 20)  # type: ignore[arg-type]
    assert {k.label("link") for k in samples if k.name == "llm_gpu_peer_link"} == {word}
    kind = "nvlink" if word.startswith("NV") else "pcie"
    assert one(samples, "llm_gpu_link_limit_bytes_per_second", index="0", link=kind) == pytest.approx(limit, rel=0.07)
    assert one(samples, f"llm_gpu_{kind}_bytes_per_second", index="0") > 0


def test_what_a_card_does_not_have_is_refused_with_its_code() -> None:
    server = live()
    library = server.nvml()
    for call, code in (
        (lambda: library.nvmlDeviceGetNvLinkState(0, 0), nvml.UNSUPPORTED),
        (lambda: library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(7)), nvml.INVALID),
        (lambda: library.nvmlEventSetWait(library.nvmlEventSetCreate(), 0), nvml.TIMEOUT),
    ):
        with pytest.raises(nvml.NVMLError) as raised:
            call()
        assert raised.value.value == code


# -- all of it joined -------------------------------------------------------------------------------------------------
def look(server: Live, seed: str, *moments: float) -> Snapshot:
    with Machine(server, LABELS, seed) as watched:
        seen = [watched.look(replace(NONE, t=ORIGIN + t), ORIGIN + t).joined for t in moments]
    return seen[-1]


@pytest.fixture(scope="module")
def seeds() -> dict[bool, str]:
    """A seed that draws pod labels, and one that does not."""
    found: dict[bool, str] = {}
    for number in range(20):
        with Machine(live(None), LABELS, str(number)) as drawn:
            found.setdefault(drawn.pods_on_page, str(number))
    return found


@pytest.mark.parametrize(("labelled", "join"), [(True, "pod-labels"), (False, "process-ids")])
def test_gpus_are_joined_by_pod_labels_or_without_them_by_process_ids(
    labelled: bool, join: str, seeds: dict[bool, str]
) -> None:
    server = live(CROWD, FOUR, faults=Faults(other_memory=((5.0, 99.0, 4e9),)))
    samples = look(server, seeds[labelled], 10, 20).samples
    gpus = {k.label("index"): k.label("join") for k in samples if k.name == "llm_gpu_sm_active_ratio"}
    assert gpus == dict.fromkeys("0123", join)
    assert one(samples, "llm_gpu_memory_other_bytes", index="0") == 4e9
    assert one(samples, "llm_gpu_memory_other_bytes", index="1") == 0
    assert one(samples, "llm_tensor_parallel_size", source="arguments") == 4
    limits = {k.label("link"): v for k, v in samples.items() if "link_limit" in k.name and k.label("index") == "3"}
    assert limits == {  # the page knows the slot, the driver the links between the cards
        "pcie": pytest.approx(126e9, rel=0.01),
        "nvlink": pytest.approx(900e9, rel=0.07),
    }
    assert one(samples, "llm_host_ready") == 1
    assert all(k.label("instance") == "sim" for k in samples)


def test_a_rollout_is_counted_as_one_and_leaves_nothing_behind(seeds: dict[bool, str]) -> None:
    server = live(faults=Faults(restarts=(Restart(20.0, 28.0, "rollout"),)))
    with Machine(server, LABELS, seeds[True]) as watched:
        seen = [watched.look(replace(NONE, t=ORIGIN + t), ORIGIN + t).joined.samples for t in (10, 24, 40)]
        folder = watched._folder
        assert folder.is_dir()
    assert [one(s, "llm_host_restarts_total", reason="rollout") for s in seen] == [0, 1, 1]
    assert [one(s, "llm_host_ready") for s in seen] == [1, 0, 1]
    assert not folder.exists()


def test_the_list_of_pods_is_one_of_the_api_servers() -> None:
    listed = msgspec.json.decode(live().pods_at(ORIGIN))
    assert (listed["kind"], listed["items"][0]["spec"]["nodeName"]) == ("PodList", node.NAME)
