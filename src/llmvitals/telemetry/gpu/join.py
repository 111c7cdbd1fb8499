"""An engine's snapshot with the GPUs that serve it, each sample under the way in which that is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.gpu.cards import PROCESS, Owner, numbered_alike, owner_of
from llmvitals.telemetry.gpu.merge import merged
from llmvitals.telemetry.identity.arguments import tensor_parallel as size_told
from llmvitals.telemetry.identity.model import Found, Match, Processes

EVERY = "llm_gpu_*"
"""The family under which a join that failed is told."""
USED, OTHER, PEER, SIZE, GAP = (
    "llm_gpu_memory_used_bytes",
    "llm_gpu_memory_other_bytes",
    "llm_gpu_peer_link",
    "llm_tensor_parallel_size",
    "llm_family_gap",
)

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
    where, table = found or Found(), processes or Processes()
    samples = dict(engine.samples)
    if match.why:
        samples[_gap(whose, EVERY, GapKind.MISSING, match.why)] = 1.0
    chosen = frozenset(match.gpus)
    other = _other(gpus, chosen, where, table)
    own = {"join": match.join.value if match.join else "", **whose}
    alike = _alike(gpus, table)
    for key, value in gpus.samples.items():
        if key.name.startswith("llm_gpu_") and key.label("gpu") in chosen:
            if key.name == PEER and key.label("peer") not in chosen:
                continue
            told = own
            if key.name == PROCESS:
                told = {**own, "owner": owner_of(_pid(key), where, table, alike=alike).value}
            labels = {name: text for name, text in key.labels if name in _OWN and text}
            samples[_series(key.name, {**labels, **told})] = value
        elif _told(key, chosen) and not (key.label("family") == OTHER and _is_known(key.label("gpu"), other, chosen)):
            samples[_series(key.name, {**dict(key.labels), **whose})] = 1.0
    for gpu, held in other.items():
        index = next((key.label("index") for key in gpus.samples if key.label("gpu") == gpu and key.label("index")), "")
        labels = {"gpu": gpu, **({"index": index} if index else {})}
        if isinstance(held, float):
            samples[_series(OTHER, {**labels, **own})] = held
        else:
            samples[_gap({**whose, "gpu": gpu}, OTHER, GapKind.UNSUPPORTED, held)] = 1.0
    size = _size(tensor_parallel, engine, match, where, table)
    if size is not None:
        samples[_series(SIZE, {**whose, "source": size[1]})] = float(size[0])
    return Snapshot(engine.t, samples, engine.detail)


def _size(
    configured: int, engine: Snapshot, match: Match, found: Found, processes: Processes
) -> tuple[int, str] | None:
    """GPUs that share each layer, and who says so. From GPUs alone only where they divide evenly among the ranks."""
    if configured > 0:
        return configured, "settings"
    pids = (*found.api, *sorted(found.engine))
    commands = [processes.table[pid].command for pid in pids if pid in processes.table]
    commands += [found.container.command] if found.container is not None else []
    told = next((size for command in commands if (size := size_told(command)) is not None), None)
    if told is not None:
        return told, "arguments"
    ranks = len({key.label("rank") for key in engine.samples if key.name == "llm_requests_running"}) or 1
    each, rest = divmod(len(match.gpus), ranks)
    return None if rest or not each else (each, "gpus")


def _other(gpus: Snapshot, chosen: Collection[str], found: Found, processes: Processes) -> dict[str, float | str]:
    """Bytes that processes other than the engine's hold on each GPU, or why nobody knows.

    The sum over those processes, contexts included. What is in use less the engine's own would count the driver's share as
    theirs; it is held against the sum all the same, since a driver may list only some processes.
    """
    alike = _alike(gpus, processes)
    held: dict[str, dict[Owner, float]] = {}
    used: dict[str, float] = {}
    unsaid: set[str] = set()
    for key, value in gpus.samples.items():
        gpu = key.label("gpu")
        if gpu not in chosen:
            continue
        if key.name == PROCESS:
            owner = owner_of(_pid(key), found, processes, alike=alike)
            sums = held.setdefault(gpu, {})
            sums[owner] = sums.get(owner, 0.0) + value
        elif key.name == USED:
            used[gpu] = value
        elif key.name == GAP and key.label("family") == PROCESS:
            unsaid.add(gpu)
    return {gpu: _of_others(sums, used.get(gpu), gpu in unsaid) for gpu, sums in held.items()}


def _of_others(sums: Mapping[Owner, float], used: float | None, unsaid: bool) -> float | str:
    if unsaid:
        return "the driver does not say how much each process holds"
    if Owner.ENGINE not in sums:
        return "which processes are the engine's is not known, or none of them is on this GPU"
    if Owner.UNKNOWN in sums:
        return "whose some of its processes are is not known"
    if used is not None and used - sum(sums.values()) > UNEXPLAINED_BYTES:
        return "more memory is in use than the processes hold that the driver lists"
    return sums.get(Owner.OTHER, 0.0)


def _alike(gpus: Snapshot, processes: Processes) -> bool:
    return numbered_alike((_pid(key) for key in gpus.samples if key.name == PROCESS), processes)


def _pid(key: Series) -> int:
    text = key.label("pid")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _is_known(gpu: str, other: Mapping[str, float | str], chosen: Iterable[str]) -> bool:
    """Whether the sum of others stands, or a better reason, for the GPU of a gap; '' is the gap of all of them."""
    return all(one in other for one in ([gpu] if gpu else chosen))


def _told(key: Series, chosen: Collection[str]) -> bool:
    """Whether this is what the GPU page cannot say of the chosen GPUs."""
    return bool(chosen) and key.name == GAP and (not key.label("gpu") or key.label("gpu") in chosen)


def _gap(whose: Mapping[str, str], family: str, kind: GapKind, reason: str) -> Series:
    return _series(GAP, {**whose, "family": family, "gap": kind.value, "reason": reason})


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return Series(name, tuple(sorted(labels.items())))


__all__ = ["EVERY", "UNEXPLAINED_BYTES", "join_gpus", "merged"]
