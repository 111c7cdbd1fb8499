"""GPU memory beside the KV pool: what stays free, what the engine holds beyond its share, what is somebody else's.

The engine reserves its share when it starts, so a full card alone says nothing. What counts is what is left for peaks
(activations, CUDA graphs, buffers of the exchange between GPUs) and who takes it.
"""

from __future__ import annotations

from llmvitals.signals.context import Context
from llmvitals.signals.derived.apart import by_label, silent, tracks
from llmvitals.signals.derived.common import no_traffic, number
from llmvitals.signals.reading import Reading, Standing

USED, FREE, RESERVED, TOTAL = (f"llm_gpu_memory_{x}_bytes" for x in ("used", "free", "reserved", "total"))
OF_PROCESS = "llm_gpu_process_memory_bytes"
SETTING = "llm_gpu_memory_utilization_setting"
ENGINE, OTHERS = "engine", "other"

Pages = dict[str, dict[float, float]]
"""For each GPU, a number for each page (by its moment in unix seconds)."""


def whole(c: Context) -> Pages:
    """Framebuffer of each GPU in bytes: as it says itself, else used + free + reserved."""
    totals = by_label(c, TOTAL, "gpu")
    used, free, reserved = (by_label(c, name, "gpu") for name in (USED, FREE, RESERVED))
    added = {
        gpu: {t: v + free[gpu][t] + reserved.get(gpu, {}).get(t, 0.0) for t, v in pages.items() if t in free[gpu]}
        for gpu, pages in used.items()
        if gpu in free
    }
    return added | totals


def of_processes(c: Context, owner: str) -> Pages:
    """Framebuffer of the processes of one ``owner`` in bytes; 0 on pages that only show those of known others."""
    found: Pages = {}
    for track in tracks(c, OF_PROCESS):
        whose = track.label("owner")
        if whose in (ENGINE, OTHERS):
            mine = found.setdefault(track.label("gpu"), {})
            for t, v in zip(track.times, track.values, strict=True):
                mine[t] = mine.get(t, 0.0) + (v if whose == owner else 0.0)
    return found


def free_low_bytes(c: Context) -> Reading:
    """Least framebuffer that was free on any page, on the fullest GPU (bytes): what is left for peaks beside all that is
    reserved. A scrape misses short peaks.
    """
    left = [v for pages in by_label(c, FREE, "gpu").values() for v in pages.values()]
    return number(min(left), Standing.UPPER) if left else silent(c, FREE)


def engine_ratio(c: Context) -> Reading:
    """Largest share of the framebuffer that the engine's own processes held on any page, on its fullest GPU."""
    shares = _engine_shares(c)
    return number(max(shares)) if shares else silent(c, OF_PROCESS)


def beside_pool_ratio(c: Context) -> Reading:
    """What the engine's processes hold beyond the share that it was told to take (ratio of the framebuffer): CUDA context,
    graphs and buffers that its setting does not count. engine's share - gpu_memory_utilization, 0 at least.
    """
    shares, said = _engine_shares(c), [t.values[-1] for t in c.good.tracks(SETTING)]
    if not shares or not said:
        return silent(c, SETTING if shares else OF_PROCESS)
    return number(max(0.0, max(shares) - max(said)))


def engine_growth_bytes(c: Context) -> Reading:
    """By how much the engine's own framebuffer grew since the window or its newest process began, on the GPU where it grew
    most (bytes). A pool is reserved whole at the start: what grows later are peaks and fragments that the allocator keeps.
    """
    began = c.restarts[-1] if c.restarts else c.window.start
    grown = []
    for pages in of_processes(c, ENGINE).values():
        seen = [pages[t] for t in sorted(pages) if t >= began and pages[t] > 0.0]
        if len(seen) > 1:
            grown.append(max(0.0, seen[-1] - seen[0]))
    if grown:
        return number(max(grown))
    return no_traffic("two pages of the engine's own GPU memory") if _engine_shares(c) else silent(c, OF_PROCESS)


def _engine_shares(c: Context) -> list[float]:
    cards = whole(c)
    return [
        held / size
        for gpu, pages in of_processes(c, ENGINE).items()
        for t, held in pages.items()
        if held > 0.0 and (size := cards.get(gpu, {}).get(t, 0.0)) > 0.0
    ]
