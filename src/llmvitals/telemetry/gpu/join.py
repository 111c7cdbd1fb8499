"""An engine's snapshot with the GPUs that serve it, each sample under the way in which that is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.identity.arguments import tensor_parallel as size_told
from llmvitals.telemetry.identity.cards import PROCESS, Owner, numbered_alike, owner_of, pid_of
from llmvitals.telemetry.identity.model import Found, Match, Processes

EVERY = "llm_gpu_*"
"""The family under which a join that failed is told."""
USED, OTHER, PEER = "llm_gpu_memory_used_bytes", "llm_gpu_memory_other_bytes", "llm_gpu_peer_link"
SIZE, GAP = "llm_tensor_parallel_size", "llm_family_gap"

UNEXPLAINED_BYTES = float(1 << 30)
"""So much of the memory in use may belong to no process that is listed: more, and some process is hidden.

On recorded cards 20-40 MiB do (H100, H200, slices of both), 260 MiB beside a display; where the driver counts what it has
reserved as used, another 0.5 GiB.
"""

_OWN = frozenset(label for f in FAMILIES if origin_of(f.name) is Origin.GPU for label in f.labels)


def join_gpus(
    engine: Snapshot,
    gpus: Snapshot,
    match: Match,
    *,
    instance: str,
    model: str,
    found: Found | None = None,
    processes: Processes | None = None,
    tensor_parallel: int = 0,
) -> Snapshot:
    """The engine's snapshot with the GPUs of ``match``, under its ``instance`` and ``model`` (none when that is empty).

    ``found`` and ``processes`` tell whose the processes on the GPUs are; ``tensor_parallel`` is what the settings say (0:
    nothing), before the arguments of its processes and the number of GPUs per rank. What a GPU cannot show, and why a
    join failed, are samples of ``llm_family_gap``.
    """
    whose = {"instance": instance, **({"model": model} if model else {})}
    own = {"join": match.join.value if match.join else "", **whose}
    where, table = found or Found(), processes or Processes()
    cards = _Chosen(gpus, match.gpus, where, table)
    samples = dict(engine.samples)
    if match.why:
        samples[family_gap(EVERY, GapKind.MISSING, match.why, **whose)] = 1.0
    for key, value in cards.rows.items():
        labels = {name: text for name, text in key.labels if name in _OWN and text}
        owner = {"owner": cards.owners[key].value} if key in cards.owners else {}
        samples[_series(key.name, {**labels, **owner, **own})] = value
    other = cards.other()
    for gpu, held in other.items():
        if isinstance(held, float):
            samples[_series(OTHER, {"gpu": gpu, "index": cards.index.get(gpu, ""), **own})] = held
        else:
            samples[family_gap(OTHER, GapKind.UNSUPPORTED, held, gpu=gpu, **whose)] = 1.0
    for key in cards.gaps:
        if key.label("family") != OTHER or not other:
            samples[_series(GAP, {**dict(key.labels), **whose})] = 1.0
    size = _size(tensor_parallel, engine, match, where, table)
    if size is not None:
        samples[_series(SIZE, {"source": size[1], **whose})] = float(size[0])
    return Snapshot(engine.t, samples, engine.detail)


class _Chosen:
    """What a snapshot shows of the GPUs that an engine has. ``owners``: of the samples that are about a process."""

    def __init__(self, gpus: Snapshot, chosen: Collection[str], found: Found, processes: Processes) -> None:
        self.gpus = frozenset(chosen)
        self.rows: dict[Series, float] = {}
        self.gaps: list[Series] = []
        self.index: dict[str, str] = {}
        pids = set()
        for key, value in gpus.samples.items():
            gpu = key.label("gpu")
            if key.name == PROCESS:
                pids.add(pid_of(key))
            if key.name == GAP and self.gpus and (not gpu or gpu in self.gpus):
                self.gaps.append(key)
            elif gpu not in self.gpus or not key.name.startswith("llm_gpu_"):
                continue
            elif key.name != PEER or key.label("peer") in self.gpus:
                self.rows[key] = value
                self.index[gpu] = self.index.get(gpu) or key.label("index")
        alike = numbered_alike(pids, processes)
        self.owners = {
            key: owner_of(pid_of(key), found, processes, alike=alike) for key in self.rows if key.name == PROCESS
        }

    def other(self) -> dict[str, float | str]:
        """Bytes that processes other than the engine's hold on each GPU, or why nobody knows; nothing where none looks.

        The sum over those processes, their contexts included. What is in use less the engine's own would count the driver's
        share as theirs; it is held against the sum all the same, since a driver may list only some processes.
        """
        unsaid = {key.label("gpu"): key.label("reason") for key in self.gaps if key.label("family") == PROCESS}
        if not self.owners and not unsaid:
            return {}
        return {gpu: unsaid.get(gpu) or self._of_others(gpu) for gpu in sorted(self.gpus)}

    def _of_others(self, gpu: str) -> float | str:
        held = dict.fromkeys(Owner, 0.0)
        seen = set()
        for key, owner in self.owners.items():
            if key.label("gpu") == gpu:
                held[owner] += self.rows[key]
                seen.add(owner)
        used = [value for key, value in self.rows.items() if key.name == USED and key.label("gpu") == gpu]
        if Owner.ENGINE not in seen:
            return "which of its processes are the engine's is not known, or none of them is"
        if Owner.UNKNOWN in seen:
            return "whose some of its processes are is not known"
        if used and used[0] - sum(held.values()) > UNEXPLAINED_BYTES:
            return "more memory is in use than the processes hold that the driver lists"
        return held[Owner.OTHER]


def _size(
    configured: int, engine: Snapshot, match: Match, found: Found, processes: Processes
) -> tuple[int, str] | None:
    """GPUs that share each layer, and who says so. From GPUs alone only where they divide evenly among the ranks."""
    if configured > 0:
        return configured, "settings"
    pids = (pid for pid in (*found.api, *found.engine) if pid in processes.table)
    sizes = [size_told(processes.table[pid].command) for pid in pids]
    sizes += [size_told(one.command, dict(one.environ)) for one in (found.container,) if one is not None]
    told = next((size for size in sizes if size is not None), None)
    if told is not None:
        return told, "arguments"
    ranks = len({key.label("rank") for key in engine.samples if key.name == "llm_requests_running"}) or 1
    each, rest = divmod(len(match.gpus), ranks)
    return None if rest or not each else (each, "gpus")


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return Series(name, tuple(sorted((name, text) for name, text in labels.items() if text)))
