"""Links of the GPUs that share one engine: how many exchange after each layer, over what, and whether it is sound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.apart import silent, tracks
from llmvitals.signals.derived.common import absent, number
from llmvitals.signals.derived.gpu import gpus_per_rank
from llmvitals.signals.measure import track_growth
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.service import server_of

SIZE = "llm_tensor_parallel_size"
SOURCES: tuple[tuple[str, Standing], ...] = (
    ("settings", Standing.EXACT),
    ("arguments", Standing.EXACT),
    ("gpus", Standing.ESTIMATE),
)
"""Who says how many GPUs share a layer, the surest first; those joined may as well be replicas or stages of a pipeline."""

PEER = "llm_gpu_peer_link"
LEVELS: tuple[tuple[str, float], ...] = (
    ("NV", 0.0),
    ("PIX", 1.0),
    ("PXB", 2.0),
    ("PHB", 3.0),
    ("NODE", 4.0),
    ("SYS", 5.0),
)
"""Links in the order of the legend of ``nvidia-smi topo -m``: NVLink, one PCIe switch, several, the host's bridge, between
bridges of one NUMA node, between nodes.
"""

ERRORS = "llm_gpu_link_errors_total"
NORMAL_PER_MINUTE: Mapping[str, float] = {"pcie": 8.0, "nvlink": 6000.0}
"""Errors a minute that a sound link may show. NVIDIA's DCGM warns of more than 8 PCIe replays a minute, and calls CRC errors
of NVLink of no matter below 100 a second (its limits for health checks, ``dcgm_gpu_hardware_limits.h``)."""


def tensor_parallel_gpus(c: Context) -> Reading:
    """GPUs that exchange after each layer (tensor parallelism): as the settings or the engine's arguments say, else those
    joined to each rank, which may as well be replicas or stages of a pipeline (estimate). 1: nothing is exchanged.
    """
    for source, standing in SOURCES:
        said = [track.values[-1] for track in tracks(c, SIZE, source=source)]
        if said:
            return number(max(said), standing, f"by the {source}")
    found = gpus_per_rank(c)
    return number(found.value, Standing.ESTIMATE, "as many as are joined") if found.value is not None else found


def peer_link_level(c: Context) -> Reading:
    """Worst link among the GPUs that exchange after each layer: 0 NVLink everywhere, 1 PIX, 2 PXB, 3 PHB, 4 NODE, 5 SYS (as
    ``nvidia-smi topo -m`` calls them). Where fewer exchange than are joined, neighbours by number are taken for a group.
    """
    size = tensor_parallel_gpus(c)
    if size.value is not None and size.value <= 1:
        return absent(GapKind.UNSUPPORTED, "its GPUs exchange nothing: no tensor parallelism", PEER)
    pairs = {
        (track.label("gpu"), track.label("peer")): (level, track.label("link"))
        for track in tracks(c, PEER)
        if (level := _level(track.label("link"))) is not None
    }
    worst = max(
        (
            found
            for group, _ in _groups(c, size.value)
            for a, b in combinations(group, 2)
            if (found := pairs.get((a, b)) or pairs.get((b, a))) is not None
        ),
        default=None,
    )
    if worst is None:
        return silent(c, PEER)
    level, link = worst
    whole = all(complete for _, complete in _groups(c, size.value))
    return number(level, Standing.EXACT if whole else Standing.ESTIMATE, f"{link} between its GPUs")


def _level(link: str) -> float | None:
    return next((level for kind, level in LEVELS if link.startswith(kind)), None)


def _groups(c: Context, size: float | None) -> Iterator[tuple[Sequence[str], bool]]:
    """The GPUs that exchange with each other, and whether that is all of a server's and no guess."""
    servers: dict[str, dict[str, float]] = {}
    for track in tracks(c, PEER):
        number_ = track.label("index")
        mine = servers.setdefault(server_of(track.label("rank"), c.servers), {})
        mine[track.label("gpu")] = float(number_) if number_.isdigit() else float(len(mine))
    for numbers in servers.values():
        gpus = sorted(numbers, key=lambda gpu: (numbers[gpu], gpu))
        width = int(size or len(gpus))
        if width >= len(gpus) or len(gpus) % width:
            yield gpus, width == len(gpus)
        else:
            yield from ((gpus[i : i + width], False) for i in range(0, len(gpus), width))


def link_error_excess(c: Context) -> Reading:
    """Errors of a link over what a sound one may show: PCIe replays over 8 a minute, errors of NVLink over 100 a second
    (NVIDIA DCGM's limits of health), on the worst GPU and link.
    """
    found = [
        (track_growth(track, born_after=None) * 60.0 / (track.times[-1] - track.times[0]) / normal, track)
        for track in tracks(c, ERRORS)
        if len(track.times) > 1 and (normal := NORMAL_PER_MINUTE.get(track.label("link"))) is not None
    ]
    if not found:
        return silent(c, ERRORS)
    excess, track = max(found, key=lambda pair: pair[0])
    return number(excess, note=f"{track.label('link')} of GPU {track.label('index') or track.label('gpu')}")
