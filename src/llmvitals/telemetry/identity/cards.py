"""What a GPU snapshot tells of whose its GPUs are: their names, the pods that hold them, the processes on them.

``gpu`` is a card's UUID, or ``UUID/instance`` for a MIG slice. A slice's own UUID, by which the kubelet and people call it,
is the label ``uuid`` of ``llm_gpu_info`` where the source knows it; the join takes it off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.identity.model import Found, Processes

POD, INFO, PROCESS = "llm_gpu_pod", "llm_gpu_info", "llm_gpu_process_memory_bytes"


class Owner(StrEnum):
    """Whose a process on a GPU is; the value is the label ``owner``."""

    ENGINE = "engine"
    OTHER = "other"
    UNKNOWN = "unknown"


_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(.+)::[0-9]+"), r"\1"),  # one share of a card, from NVIDIA's device plugin with time slicing or MPS
    (re.compile(r"MIG-(GPU-[^/]+)/([0-9]+)/[0-9]+"), r"\1/\2"),  # a slice, as drivers before R470 name it
    (re.compile(r"nvidia([0-9]+)/gi([0-9]+)(?:/vgpu[0-9]+)?"), r"\1/\2"),  # GKE: a slice
    (re.compile(r"nvidia([0-9]+)(?:/vgpu[0-9]+)?"), r"\1"),  # GKE: a card, or one share of it
    (re.compile(r"(GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9]+"), r"\1"),  # HAMi: one share of a card
)
"""How else devices are called, and what that is: a UUID, an index, or either with the slice's instance."""


@dataclass(frozen=True, slots=True)
class Cards:
    """``gpus``: label ``gpu`` to index, in order of the index. ``pods``: namespace, pod and container by GPU."""

    gpus: Mapping[str, str]
    pods: Mapping[str, frozenset[tuple[str, str, str]]]
    pids: Mapping[str, frozenset[int]]
    names: Mapping[str, tuple[str, ...]]
    no_pods: str = ""
    no_pids: str = ""  # why the processes on some GPU are not known

    @classmethod
    def of(cls, snapshot: Snapshot) -> Cards:
        """The GPUs of a snapshot; order of its samples does not matter."""
        gpus: dict[str, str] = {}
        pods: dict[str, set[tuple[str, str, str]]] = {}
        pids: dict[str, set[int]] = {}
        names: dict[str, set[str]] = {}
        no_pods = no_pids = ""
        for key in snapshot.samples:
            gpu = key.label("gpu")
            if key.name == "llm_family_gap" and key.label("family") == POD:
                no_pods = max(no_pods, key.label("reason"))
            elif key.name == "llm_family_gap" and key.label("family") == PROCESS and key.label("pid"):
                pids.setdefault(gpu, set()).add(pid_of(key))  # the driver names it, and not what it holds
            elif key.name == "llm_family_gap" and key.label("family") == PROCESS:
                no_pids = max(no_pids, key.label("reason"))
            if not key.name.startswith("llm_gpu_") or not gpu:
                continue
            gpus[gpu] = gpus.get(gpu) or key.label("index")
            if key.name == POD:
                pods.setdefault(gpu, set()).add((key.label("namespace"), key.label("pod"), key.label("container")))
            elif key.name == PROCESS:
                pids.setdefault(gpu, set()).add(pid_of(key))
            elif key.name == INFO and key.label("uuid"):
                names.setdefault(key.label("uuid"), set()).add(gpu)
        ordered = dict(sorted(gpus.items(), key=lambda one: (_place(one[1]), one[0])))
        for gpu, index in ordered.items():
            _, slash, instance = gpu.partition("/")
            names.setdefault(gpu, set()).add(gpu)
            if index:
                names.setdefault(f"{index}{slash}{instance}", set()).add(gpu)
        return cls(
            ordered,
            {gpu: frozenset(found) for gpu, found in pods.items()},
            {gpu: frozenset(found) for gpu, found in pids.items()},
            {name: tuple(sorted(found)) for name, found in names.items()},
            no_pods,
            no_pids,
        )

    def called(self, name: str) -> tuple[str, ...]:
        """The GPUs that a person, the kubelet or a device plugin calls so; empty where none is."""
        if name in self.names:
            return self.names[name]
        for pattern, plain in _NAMES:
            if (found := pattern.fullmatch(name)) and (known := self.names.get(found.expand(plain))):
                return known
        return ()

    def slices(self, name: str) -> tuple[str, ...]:
        """The MIG slices that a card of this name is split into."""
        whole = {*self.called(name), name} | {gpu.partition("/")[0] for gpu in self._of_index(name)}
        return tuple(gpu for gpu in self.gpus if "/" in gpu and gpu not in whole and gpu.partition("/")[0] in whole)

    def _of_index(self, index: str) -> Iterable[str]:
        return (gpu for gpu, own in self.gpus.items() if own == index)

    def ordered(self, gpus: Iterable[str]) -> tuple[str, ...]:
        """These GPUs, each once, in order of their index."""
        chosen = set(gpus)
        return tuple(gpu for gpu in self.gpus if gpu in chosen)


def numbered_alike(pids: Iterable[int], processes: Processes) -> bool:
    """Whether the driver numbers processes as the table does.

    It does on the host. In a process namespace of its own a table holds other numbers than the driver's: there they agree only
    where every process on the GPUs is in it.
    """
    named = [pid for pid in pids if pid > 0]
    return processes.host or (bool(named) and all(pid in processes.table for pid in named))


def owner_of(pid: int, found: Found, processes: Processes, *, alike: bool) -> Owner:
    """Whose a process is. ``alike``: :func:`numbered_alike`. The driver says 0 for what it may not name."""
    own = found.pids
    if pid <= 0 or not alike or not own:
        return Owner.UNKNOWN
    if pid in own:
        return Owner.ENGINE
    return Owner.OTHER if pid in processes.table else Owner.UNKNOWN


def pid_of(key: Series) -> int:
    """The process that a sample is about; 0 where it names none."""
    text = key.label("pid")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _place(index: str) -> tuple[int, str]:
    return (int(index), "") if index.isascii() and index.isdecimal() else (1 << 31, index)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return ", ".join(sorted(names))
