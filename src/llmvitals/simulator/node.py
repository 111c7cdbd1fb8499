"""The machine under a simulated engine: its processes and threads, who holds GPU memory, its pod and its container.

Process ids change with every start and a pod's name with every rollout, as they do on a real node. The pod shares the node's
network (``hostNetwork``), so that the gateway's sockets and the engine's stand in one table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmvitals.simulator.host_families import Meter
from llmvitals.simulator.world import World

NAME, ADDRESS, NAMESPACE, CONTAINER = "gpu-node-1", "10.0.0.7", "serving", "engine"
PORT = 8000
CPUS = 64
MIB = 1024**2

API_BYTES, ENGINE_BYTES, WORKER_BYTES = 1400 * MIB, 2900 * MIB, 5200 * MIB
"""Resident memory of a process by what it does: an order of magnitude, as vLLM's take it on a GPU machine."""

KERNEL_PID, EXPORTER_PID, GATEWAY_PID, NEIGHBOUR_PID = 2, 802, 911, 4711
FIRST_PID, PIDS_A_START = 20_000, 500


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread: its name and the CPU seconds that it has used since its process started."""

    name: str
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """A process. ``started``: seconds of simulated time; ``threads``: the first is the process' own; ``fds``: descriptors that it
    holds, sockets among them; ``group``: its control group; ``gpus``: bytes that it holds of GPUs, by their number.
    """

    pid: int
    parent: int
    name: str
    command: tuple[str, ...]
    started: float
    group: str
    threads: tuple[Thread, ...]
    resident: int
    fds: int = 4
    max_fds: int = 1_048_576
    gpus: Mapping[int, float] | None = None
    serves: bool = False  # it holds the socket on which the engine's API listens

    @property
    def cpu(self) -> float:
        """CPU seconds of all its threads."""
        return sum(thread.cpu for thread in self.threads)


_ONE = (Thread("llmvitals"),)


@dataclass(frozen=True, slots=True)
class Form:
    """How an engine's processes are called: the front's command, further fronts where there are several, the loop, a worker.

    ``alone``: with one GPU the loop holds it and there are no workers; else each GPU has one.
    """

    command: tuple[str, ...]
    front: tuple[str, ...]
    loop: tuple[str, ...]
    worker: tuple[str, ...]
    parallel: str
    alone: bool = True


_SPAWN = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=38, pipe_handle=42)"
_SPAWNED = ("/usr/bin/python3", "-c", _SPAWN, "--multiprocessing-fork")
FORMS: dict[str, Form] = {
    "vllm": Form(
        ("/usr/bin/python3", "/usr/local/bin/vllm", "serve"),
        ("VLLM::APIServer",),
        ("VLLM::EngineCore",),
        ("VLLM::Worker_TP{rank}",),
        "--tensor-parallel-size",
    ),
    "vllm-v0": Form(
        ("/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--model"),
        _SPAWNED,
        _SPAWNED,
        _SPAWNED,
        "--tensor-parallel-size",
    ),
    "sglang": Form(
        ("/usr/bin/python3", "-m", "sglang.launch_server", "--model-path"),
        ("sglang::tokenizer_worker",),
        ("sglang::detokenizer",),
        ("sglang::scheduler_TP{rank}",),
        "--tp-size",
        alone=False,
    ),
}
"""By dialect; vLLM's stands for every other."""


@dataclass(frozen=True, slots=True)
class Place:
    """The engine's pod and container at one moment."""

    pod: str
    uid: str
    container: str
    pod_started: float

    @property
    def group(self) -> str:
        """The container's control group, as containerd and systemd name it."""
        pod = f"kubepods-burstable-pod{self.uid.replace('-', '_')}.slice"
        return f"/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{self.container}.scope"


def place(world: World) -> Place:
    """Where the engine is now: a rollout gives it another pod, any other restart another container."""
    rolled = [restart.down for restart in world.restarts if restart.reason == "rollout"]
    name = _hex(f"{world.setup.workload.seed}/{len(rolled)}")
    pod = f"{world.setup.engine.model}-{name[:9]}-{name[9:14]}"
    number = name[:32]
    uid = "-".join((number[:8], number[8:12], f"4{number[13:16]}", f"8{number[17:20]}", number[20:32]))
    born = rolled[-1] if rolled else -world.setup.uptime
    return Place(pod, uid, _hex(f"{pod}/{len(world.restarts)}"), born)


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def api_group(world: World, where: Place) -> str:
    """The API process' own group inside the container's, where a quota holds it back and nothing else."""
    return f"{where.group}/api" if world.setup.front.cores < 1.0 else where.group


def tasks(world: World, meter: Meter, held: Mapping[int, float], foreign: Mapping[int, float]) -> tuple[Task, ...]:
    """Every process that matters now. ``held``: bytes that the engine holds of each GPU; ``foreign``: others hold."""
    return (
        Task(1, 0, "systemd", ("/sbin/init",), -3e6, "/init.scope", (Thread("systemd"),), 12 * MIB),
        Task(KERNEL_PID, 0, "kthreadd", (), -3e6, "/", (Thread("kthreadd"),), 0, fds=0),
        Task(
            EXPORTER_PID, 1, "llmvitals", ("llmvitals", "run"), -1e6, "/system.slice/llmvitals.service", _ONE, 60 * MIB
        ),
        *_gateway(world),
        *_neighbour(world, foreign),
        *(_engine(world, meter, held) if alive(world) else ()),
    )


def alive(world: World) -> bool:
    """Whether the engine's processes are there: they answer, or have been started again and load."""
    return world.up or (bool(world.restarts) and world.now < world.setup.faults.dies_at)


def _gateway(world: World) -> Iterator[Task]:
    if world.gateway is not None:
        command = ("/usr/bin/llm-gateway", "--listen", ":80", "--upstream", f"{ADDRESS}:{PORT}")
        threads = (Thread("llm-gateway"),)
        group = "/system.slice/llm-gateway.service"
        yield Task(GATEWAY_PID, 1, "llm-gateway", command, -2e6, group, threads, 90 * MIB, fds=30)


def _neighbour(world: World, foreign: Mapping[int, float]) -> Iterator[Task]:
    """Another process on the GPU, of another pod: here while its memory is."""
    if any(foreign.values()):
        began = min(start for start, end, _ in world.setup.faults.other_memory if start <= world.now < end)
        pod = "kubepods-burstable-pod0f0e0d0c_1111_4222_8333_444455556666.slice"
        group = f"/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{_hex('neighbour')}.scope"
        threads = (Thread("python3"),)
        command = ("python3", "finetune.py")
        yield Task(NEIGHBOUR_PID, 1, "python3", command, began, group, threads, WORKER_BYTES, gpus=foreign)


def command(world: World) -> tuple[str, ...]:
    """The command line that the engine was started with."""
    engine, form = world.setup.engine, _form(world)
    several = (form.parallel, str(engine.machine.gpus)) if engine.machine.gpus > 1 else ()
    fronts = ("--api-server-count", str(world.setup.front.processes)) if world.setup.front.processes > 1 else ()
    return (*form.command, f"models/{engine.model}", "--port", str(PORT), *several, *fronts)


def _form(world: World) -> Form:
    return FORMS.get(world.setup.engine.dialect, FORMS["vllm"])


def _engine(world: World, meter: Meter, held: Mapping[int, float]) -> Iterator[Task]:
    """The API process (and further ones), the engine's loop, and a worker for each GPU where there are any."""
    setup, form, where = world.setup, _form(world), place(world)
    first = FIRST_PID + PIDS_A_START * len(world.restarts)
    started = world.started if world.up else world.restarts[-1].down
    fronts, front_group = setup.front.processes, api_group(world, where)
    cpu, spin = (meter.api_seconds / fronts, meter.engine_seconds) if world.up else (0.0, 0.0)
    fds, most = world.front.open_fds if world.up else setup.host.fds_before, setup.host.max_fds
    for number in range(fronts):
        called = command(world) if number == 0 else form.front
        threads: tuple[Thread, ...] = (
            Thread(_comm(called), cpu),
            Thread("asyncio_0"),
            Thread("uv-worker"),
            Thread("ZMQbg/IO/0"),
        )
        pid, parent = first + number, first if number else 1
        open_here = fds if number == 0 else setup.host.fds_before
        yield Task(
            *(pid, parent, _comm(called), called, started, front_group, threads, API_BYTES, open_here, most),
            serves=world.up,
        )
    workers = setup.engine.machine.gpus if setup.engine.machine.gpus > 1 or not form.alone else 0
    pid = first + 100
    own = None if workers else held
    loops = spin if form.alone else 0.0
    threads = (Thread(_comm(form.loop), loops), Thread("ZMQbg/IO/0"), Thread("cuda-EvtHandlr"))
    yield Task(pid, first, _comm(form.loop), form.loop, started, where.group, threads, ENGINE_BYTES, 40, gpus=own)
    parent = pid if form.alone else first
    for rank in range(workers):
        called = tuple(word.format(rank=rank) for word in form.worker)
        threads = (Thread(_comm(called), spin), Thread("cuda-EvtHandlr"), Thread("pt_nccl_watchdg"))
        has = {rank: held[rank]}
        yield Task(
            pid + 1 + rank, parent, _comm(called), called, started, where.group, threads, WORKER_BYTES, 60, gpus=has
        )


def _comm(called: tuple[str, ...]) -> str:
    """The name that the kernel keeps: 15 characters of the program's, or of what the process calls itself."""
    program = called[1] if called[0].endswith("python3") and called[1].startswith("/") else called[0]
    return (program if "::" in program else program.rpartition("/")[2])[:15]
