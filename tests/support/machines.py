"""Small machines for tests of identity: processes, pods and GPUs in few words."""

from __future__ import annotations

from collections.abc import Iterable

from llmvitals.series import Series, Snapshot, series
from llmvitals.telemetry.identity.model import Container, Listener, Pod, Process, Processes, Wanted

GIB = float(1 << 30)


def process(
    pid: int,
    parent: int = 1,
    command: str | tuple[str, ...] = "",
    *,
    name: str = "",
    container: str = "",
    pod: str = "",
) -> Process:
    """A process; its name is the last part of what it runs unless one is given."""
    words = tuple(command.split()) if isinstance(command, str) else command
    told = name or (words[0].rpartition("/")[2] if words else "python3")
    return Process(pid, parent, 1000.0 + pid, told[:15], words, container, pod)


def machine(*table: Process, listen: Iterable[Listener] = (), why: str = "", host: bool = True) -> Processes:
    """The processes of a host, its init included."""
    init = process(1, 0, "/sbin/init", name="systemd")
    return Processes({one.pid: one for one in (init, *table)}, tuple(listen), why, host)


def engine(port: int = 8000, host: str = "127.0.0.1", **more: object) -> Wanted:
    """The engine that is looked for."""
    return Wanted(instance=f"vllm-{port}", host=host, port=port, **more)  # type: ignore[arg-type]


def pod(name: str, *containers: Container, ip: str = "", namespace: str = "chat", **more: object) -> Pod:
    """A running pod."""
    return Pod(namespace, name, f"uid-{name}", ip=ip, phase="Running", ready=True, containers=containers, **more)  # type: ignore[arg-type]


def container(id: str, name: str = "engine", *ports: int, command: str = "") -> Container:
    """A container that runs."""
    return Container(name, id, True, 1000.0, ports=tuple(("", port) for port in ports), command=tuple(command.split()))


def gpus(*rows: tuple[Series, float]) -> Snapshot:
    """A snapshot of GPUs."""
    return Snapshot(100.0, dict(rows))


def card(
    gpu: str,
    index: int = 0,
    *,
    pids: dict[int, float] | None = None,
    used: float | None = None,
    pods: Iterable[tuple[str, str, str]] = (),
    uuid: str = "",
) -> list[tuple[Series, float]]:
    """The samples of one GPU: its power, memory in use, processes (bytes by pid) and the pods that hold it."""
    own = {"gpu": gpu, "index": str(index)}
    rows = [(series("llm_gpu_power_watts", **own), 300.0)]
    rows += [(series("llm_gpu_memory_used_bytes", **own), used)] if used is not None else []
    rows += [(series("llm_gpu_process_memory_bytes", **own, pid=str(pid)), held) for pid, held in (pids or {}).items()]
    rows += [
        (series("llm_gpu_pod", **own, namespace=namespace, pod=name, container=inside), 1.0)
        for namespace, name, inside in pods
    ]
    rows += [(series("llm_gpu_info", **own, uuid=uuid), 1.0)] if uuid else []
    return rows
