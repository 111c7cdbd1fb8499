"""The machine under the engines, read in every cycle: what hangs, what is not there, pods that come and go, whose GPU is whose."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from llmvitals.errors import UnreachableError
from llmvitals.exporters.cycle import Engine
from llmvitals.series import Snapshot, series
from llmvitals.settings import Exporter, Kubernetes, Node, Settings, Target
from llmvitals.sources.node import Machine, Readers
from llmvitals.sources.part import Part
from llmvitals.telemetry.identity.model import Container, Held, Listener, Pod, Process, Processes
from llmvitals.telemetry.ingest import RawPage
from support.hostile import vllm_page

GIB = 1024.0**3
CARDS = {
    **{
        series(f"llm_gpu_{name}", gpu=f"GPU-{n}", index=str(n)): value
        for n in (0, 1, 2)
        for name, value in (("memory_used_bytes", 10 * GIB), ("memory_free_bytes", 70 * GIB), ("sm_active_ratio", 0.5))
    },
    series("llm_gpu_process_memory_bytes", gpu="GPU-0", index="0", pid="101"): 9 * GIB,
    series("llm_gpu_process_memory_bytes", gpu="GPU-1", index="1", pid="102"): 9 * GIB,
    series("llm_gpu_process_memory_bytes", gpu="GPU-1", index="1", pid="900"): 1 * GIB,
}
TABLE = Processes(
    {
        100: Process(100, 1, 1.0, "vllm", ("vllm", "serve", "m", "--tensor-parallel-size", "2")),
        101: Process(101, 100, 2.0, "VLLM::Worker"),
        102: Process(102, 100, 2.0, "VLLM::Worker"),
        900: Process(900, 1, 2.0, "python3", ("python3", "notebook")),
    },
    (Listener(8000, 100),),
    host=True,
)


class Host:
    def __init__(self, processes: Processes = TABLE) -> None:
        self._processes = processes

    def processes(self, ports):
        return self._processes

    def samples(self, found, t, *, engine="", restarts=True):
        return {series("llm_host_resident_bytes", process="api"): 5.0} if found.pids else {}


def absent(what: str):
    def make():
        raise UnreachableError(f"there is no {what}", place="this machine", remedy="None is needed.")

    return make


def readers(gpus=None, host=None, pods=None, held=None) -> Readers:
    return Readers(
        gpus or (lambda: lambda t: Snapshot(t, CARDS)),
        host or Host,
        pods or absent("API server"),
        held or absent("kubelet"),
    )


def settings(node: Node, *targets: Target) -> Settings:
    return Settings(targets=targets, node=node, exporter=Exporter(timeout_seconds=0.2))


def fetch(url: str, *, timeout_s: float, **_: object) -> RawPage:
    return RawPage(time.time(), 0.01, 200, vllm_page())


def engine(node: Node, made: Readers, *targets: Target, fetched=fetch) -> Engine:
    return Engine(settings(node, *targets), fetch=fetched, machine=Machine(node, readers=made))


def lines(page: bytes, start: str) -> list[str]:
    return [line for line in page.decode().splitlines() if line.startswith(start)]


HERE = Target(url="http://127.0.0.1:8000", name="chat")
NODE = Node(name="node-a", kubernetes=Kubernetes(enabled="off"))


def test_an_engine_gets_the_gpus_of_its_processes_and_the_page_says_how():
    page = engine(NODE, readers(), HERE).step().page
    assert lines(page, "llm_gpu_sm_active_ratio{") == [
        f'llm_gpu_sm_active_ratio{{gpu="GPU-{n}",index="{n}",instance="chat",join="process-ids"}} 0.5' for n in (0, 1)
    ] + ['llm_gpu_sm_active_ratio{gpu="GPU-2",index="2",instance="node-a"} 0.5']
    assert lines(page, "llm_tensor_parallel_size") == [
        'llm_tensor_parallel_size{instance="chat",source="arguments"} 2.0'
    ]
    assert lines(page, "llm_host_info") == ['llm_host_info{instance="chat",join="port",node="node-a"} 1.0']
    assert lines(page, "llm_host_resident_bytes") == ['llm_host_resident_bytes{instance="chat",process="api"} 5.0']
    (other,) = (x for x in lines(page, "llm_gpu_memory_other_bytes") if "GPU-1" in x)
    assert other.endswith(f" {GIB}")
    owners = {x.partition('owner="')[2].partition('"')[0] for x in lines(page, "llm_gpu_process_memory") if "chat" in x}
    assert owners == {"engine", "other"}


def test_an_engine_on_another_machine_gets_nothing_of_this_one():
    page = engine(NODE, readers(), Target(url="http://10.9.8.7:8000", name="far")).step().page
    assert not [x for x in lines(page, "llm_gpu_") + lines(page, "llm_host_") if 'instance="far"' in x]
    assert not [x for x in lines(page, "llm_family_gap") if "llm_gpu_*" in x or "llm_host_*" in x]


def test_a_driver_that_hangs_costs_its_own_numbers_and_comes_back():
    hanging, released = threading.Event(), threading.Event()

    def read(t: float) -> Snapshot:
        if hanging.is_set():
            released.wait(30)
        return Snapshot(t, CARDS)

    watched = engine(NODE, readers(gpus=lambda: read), HERE)
    assert lines(watched.step().page, "llm_gpu_sm_active_ratio{")
    hanging.set()
    cycle = watched.step()
    assert not lines(cycle.page, "llm_gpu_sm_active_ratio{gpu=")
    assert lines(cycle.page, "llm_host_resident_bytes")
    (gap,) = (x for x in lines(cycle.page, "llm_family_gap") if 'family="llm_gpu_*"' in x)
    assert "gave no whole answer within the time limit" in gap
    assert 'llmvitals_collector_success{collector="nvml",instance="node-a"} 0.0' in cycle.page.decode()
    began = time.monotonic()
    assert "is still busy" in watched.step().page.decode()
    assert time.monotonic() - began < 0.2  # nobody waits for it a second time
    hanging.clear()
    released.set()
    until = time.monotonic() + 5
    while not lines(watched.step().page, "llm_gpu_sm_active_ratio{gpu="):
        assert time.monotonic() < until


@pytest.mark.parametrize(("switch", "told"), [("auto", False), ("on", True), ("off", False)])
def test_a_machine_without_a_driver_says_so_only_where_one_must_be(switch, told):
    node = replace_node(NODE, nvml=switch)
    cycle = engine(node, readers(gpus=absent("NVIDIA driver")), HERE).step()
    gaps = [x for x in lines(cycle.page, "llm_family_gap") if 'family="llm_gpu_*"' in x]
    assert bool(gaps) is told
    assert all("there is no NVIDIA driver" in x for x in gaps)
    assert ("nvml" in {one.collector for one in cycle.collected}) is told


def replace_node(node: Node, **changes: object) -> Node:
    return Node(**{name: changes.get(name, getattr(node, name)) for name in Node.__struct_fields__})


def pod(name: str, ip: str, *, uid: str = "", container: str = "") -> Pod:
    return Pod(
        namespace="llm",
        name=name,
        uid=uid or f"uid-{name}",
        ip=ip,
        phase="Running",
        ready=True,
        annotations={"llmvitals.io/scrape": "true"},
        containers=(Container("vllm", container or f"containerd://{name}", True, 1.0, ports=(("http", 8000),)),),
    )


IN_CLUSTER = replace_node(NODE, kubernetes=Kubernetes(enabled="on", interval_seconds=1e-9))


def test_pods_come_and_go_and_their_series_with_them():
    listed = [(pod("a", "10.0.0.1"),)]
    watched = engine(IN_CLUSTER, readers(pods=lambda: lambda: listed[-1]))
    watched.step()  # the first list comes in this turn, and its pods are asked in the next
    assert watched.step().history == {"llm/a": 1}
    listed.append((pod("a", "10.0.0.1"), pod("b", "10.0.0.2")))
    watched.step()
    cycle = watched.step()
    assert cycle.history == {"llm/a": 3, "llm/b": 1}
    assert 'pod="b"' in " ".join(lines(cycle.page, "llm_host_info"))
    listed.append((pod("b", "10.0.0.2"),))
    watched.step()
    cycle = watched.step()
    assert cycle.history == {"llm/b": 3}
    assert b"llm/a" not in cycle.page


def test_a_pod_that_was_replaced_under_its_name_starts_a_history_of_its_own():
    listed = [(pod("a", "10.0.0.1"),)]
    watched = engine(IN_CLUSTER, readers(pods=lambda: lambda: listed[-1]))
    for _ in range(3):
        watched.step()
    listed.append((pod("a", "10.0.0.9", uid="another"),))
    watched.step()
    assert watched.step().history == {"llm/a": 1}


def test_an_api_server_that_fails_ends_no_target():
    answers = [True]

    def pods():
        if not answers[0]:
            raise UnreachableError("refused", place="the API server", remedy="Look after it.")
        return (pod("a", "10.0.0.1"),)

    watched = engine(IN_CLUSTER, readers(pods=lambda: pods))
    watched.step()
    assert watched.step().history == {"llm/a": 1}
    answers[0] = False
    cycle = watched.step()
    assert cycle.history == {"llm/a": 2}
    assert 'llmvitals_collector_success{collector="pods",instance="node-a"} 0.0' in cycle.page.decode()


def test_the_kubelet_tells_the_gpus_of_a_pod_whose_processes_nobody_sees():
    held = (Held("llm", "a", "vllm", "nvidia.com/gpu", ("GPU-2",)),)
    node = replace_node(IN_CLUSTER, processes="off")
    made = readers(pods=lambda: lambda: (pod("a", "10.0.0.1"),), held=lambda: lambda: held)
    machine = Machine(node, readers=made)
    machine._held = Part("pod-resources", "on", made.held)  # no socket lies on this machine
    watched = Engine(settings(node), fetch=fetch, machine=machine)
    watched.step()
    page = watched.step().page
    assert 'llm_gpu_sm_active_ratio{gpu="GPU-2",index="2",instance="llm/a",join="pod-resources"' in page.decode()


DCGM = "".join(
    f'DCGM_FI_PROF_SM_ACTIVE{{gpu="{n}",UUID="GPU-{n}",namespace="llm",pod="{name}",container="vllm"}} 0.7\n'
    for n, name in enumerate("ab")
).encode()


@pytest.mark.parametrize("labelled", [True, False])
def test_the_nodes_gpu_page_is_shared_out_by_pods_and_without_their_labels_by_process_ids(labelled):
    unlabelled = DCGM.replace(b'pod="a"', b'pod=""').replace(b'pod="b"', b'pod=""')

    def fetched(url: str, *, timeout_s: float, **_: object) -> RawPage:
        body = (DCGM if labelled else unlabelled) if "9400" in url else vllm_page()
        return RawPage(time.time(), 0.01, 200, body)

    table = {pid: Process(pid, 1, 1.0, "vllm", container=name) for pid, name in ((101, "a" * 64), (102, "b" * 64))}
    pods = tuple(pod(n, f"10.0.0.{i}", container=f"containerd://{n * 64}") for i, n in enumerate("ab", 1))
    made = readers(
        host=lambda: Host(Processes(table, tuple(Listener(8000, pid, near=False) for pid in table), host=True)),
        pods=lambda: lambda: pods,
    )
    watched = engine(replace_node(IN_CLUSTER, gpu_url="http://node:9400"), made, fetched=fetched)
    watched.step()
    page = watched.step().page
    join = "pod-labels" if labelled else "process-ids"
    for n, name in enumerate("ab"):
        (line,) = (x for x in lines(page, "llm_gpu_sm_active_ratio{") if f'instance="llm/{name}"' in x)
        assert f'gpu="GPU-{n}"' in line
        assert f'join="{join}"' in line
        assert line.endswith(" 0.7")


def test_a_counter_of_restarts_stays_while_the_engine_is_down():
    asked = []

    class Watching(Host):
        def samples(self, found, t, *, engine="", restarts=True):
            asked.append((engine, bool(found.pids), restarts))
            return {}

    engine(NODE, readers(host=lambda: Watching(replace(TABLE, listeners=()))), HERE).step()
    assert asked == [("chat", False, True)]


@pytest.mark.parametrize(("procfs", "told"), [("/proc", False), ("/nowhere", True)])
def test_a_mount_of_processes_that_was_written_down_must_be_there(procfs, told):
    cycle = engine(replace_node(NODE, procfs=procfs), readers(host=absent("procfs")), HERE).step()
    assert bool([x for x in lines(cycle.page, "llm_family_gap") if "there is no procfs" in x]) is told
