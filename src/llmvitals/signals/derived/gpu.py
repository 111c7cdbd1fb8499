"""What only GPU telemetry shows: room beside the KV pool, clocks held down, errors, and links between GPUs.

Where several GPUs serve an engine the worst one counts: tensor parallelism waits for the slowest.
"""

from __future__ import annotations

from statistics import fmean, median

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.apart import by_label, grown, silent, total, tracks
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.derived.gpu_memory import OTHERS, of_processes
from llmvitals.signals.derived.xids import APPLICATION, told
from llmvitals.signals.measure import track_growth
from llmvitals.signals.reading import Reading, Standing

USED, FREE, RESERVED = (f"llm_gpu_memory_{x}_bytes" for x in ("used", "free", "reserved"))
OTHER = "llm_gpu_memory_other_bytes"
CLOCK, TOP_CLOCK = "llm_gpu_sm_clock_hertz", "llm_gpu_sm_clock_max_hertz"
THROTTLED = "llm_gpu_throttle_seconds_total"
XID = "llm_gpu_xid_events_total"
LINK_LIMIT = "llm_gpu_link_limit_bytes_per_second"
TRAFFIC: tuple[tuple[str, str], ...] = (
    ("nvlink", "llm_gpu_nvlink_bytes_per_second"),
    ("pcie", "llm_gpu_pcie_bytes_per_second"),
)
BUSY = ("llm_gpu_engine_active_ratio", "llm_gpu_busy_ratio", "llm_gpu_sm_active_ratio")
BUSY_FROM = 0.5
"""A GPU that is active for less than this share of the time may lower its clocks because it idles."""

POWER = "power"

INFO = "llm_gpu_info"
WAITING = "llm_requests_waiting"
SM_ACTIVE = "llm_gpu_sm_active_ratio"


def gpus_per_rank(c: Context) -> Reading:
    """GPUs joined to the engine for each of its data-parallel ranks: more than one means tensor or pipeline parallelism."""
    gpus = {t.label("gpu") for name in c.window.names() if name.startswith("llm_gpu_") for t in c.window.tracks(name)}
    gpus.discard("")
    if not gpus:
        return missing(c, USED)
    ranks = {t.label("rank") for t in c.good.tracks("llm_requests_running")}
    return number(len(gpus) / max(1, len(ranks)))


def memory_free_low_ratio(c: Context) -> Reading:
    """Least share of the framebuffer that was free on any page, on the fullest GPU. A scrape misses short peaks."""
    used, free, reserved = (by_label(c, name, "gpu") for name in (USED, FREE, RESERVED))
    if not free or not used:
        return missing(c, USED if not used else FREE)
    shares = [
        left / whole
        for gpu, pages in free.items()
        for t, left in pages.items()
        if (whole := left + used.get(gpu, {}).get(t, 0.0) + reserved.get(gpu, {}).get(t, 0.0)) > left
    ]
    return number(min(shares), Standing.UPPER) if shares else missing(c, USED)


def memory_other_ratio(c: Context) -> Reading:
    """Largest share of the framebuffer that processes other than the engine held on any page, on the worst GPU."""
    other, used, free = (by_label(c, name, "gpu") for name in (OTHER, USED, FREE))
    other = other or of_processes(c, OTHERS)
    if not other or not used or not free:
        return missing(c, next(n for n, found in ((OTHER, other), (USED, used), (FREE, free)) if not found))
    shares = [
        held / whole
        for gpu, pages in other.items()
        for t, held in pages.items()
        if (whole := used.get(gpu, {}).get(t, 0.0) + free.get(gpu, {}).get(t, 0.0)) > 0.0
    ]
    return number(max(shares)) if shares else missing(c, USED)


def _link_use(c: Context) -> list[float]:
    """Mean traffic over what the link carries, for each GPU and link of which both are known."""
    limits = {(t.label("gpu"), t.label("link")): t.values[-1] for t in tracks(c, LINK_LIMIT)}
    return [
        fmean(pages.values()) / limit
        for link, name in TRAFFIC
        for gpu, pages in by_label(c, name, "gpu").items()
        if (limit := limits.get((gpu, link), 0.0)) > 0.0
    ]


def link_use_ratio(c: Context) -> Reading:
    """Traffic over what the link to its peers carries, mean of the window, on the GPU whose link is fullest."""
    found = _link_use(c)
    if found:
        return number(max(found))
    shown = any(c.window.tracks(name) for _, name in TRAFFIC)
    return missing(c, LINK_LIMIT if shown else TRAFFIC[0][1])


def links_unknown(c: Context) -> Reading:
    """1 where GPUs are joined but how full the links between them are cannot be told, else 0."""
    if not any(name.startswith("llm_gpu_") for name in c.window.names() if c.window.tracks(name)[0].label("gpu")):
        return missing(c, LINK_LIMIT)
    return number(0.0 if _link_use(c) else 1.0)


def _held_down(c: Context, *, by_power: bool) -> Reading:
    shares = [
        track_growth(track, born_after=None) / (track.times[-1] - track.times[0])
        for track in tracks(c, THROTTLED)
        if (track.label("reason") == POWER) is by_power and len(track.times) > 1
    ]
    if shares:
        return number(min(1.0, max(shares)))
    if not c.window.tracks(THROTTLED):
        return missing(c, THROTTLED)
    return absent(
        GapKind.UNSUPPORTED, f"{'' if by_power else 'only '}power is {'not ' if by_power else ''}counted", THROTTLED
    )


def throttle_ratio(c: Context) -> Reading:
    """Share of the time in which clocks were held down by heat, hardware or the board, on the worst GPU.

    Drawing as much power as the card may is left out: under dense load that is how a card works.
    """
    return _held_down(c, by_power=False)


def power_cap_ratio(c: Context) -> Reading:
    """Share of the time in which the power limit held clocks down, on the worst GPU."""
    return _held_down(c, by_power=True)


def clock_ratio(c: Context) -> Reading:
    """SM clock over the card's highest while it works, median of the window, on the slowest GPU.

    Where the highest is not shown, the highest seen on any of the joined GPUs stands in, and the ratio is an upper bound.
    Pages on which the GPU was active for less than half the time are left out: an idle GPU's clocks are low by design.
    """
    clocks, tops = by_label(c, CLOCK, "gpu"), by_label(c, TOP_CLOCK, "gpu")
    if not clocks:
        return missing(c, CLOCK)
    active = next((found for name in BUSY if (found := by_label(c, name, "gpu"))), None)
    if active is None:
        return missing(c, BUSY[0])
    seen = max(v for pages in clocks.values() for v in pages.values())
    shares = []
    for gpu, pages in clocks.items():
        top = max(tops[gpu].values()) if gpu in tops else seen
        working = [v for t, v in pages.items() if active.get(gpu, {}).get(t, 0.0) >= BUSY_FROM]
        if working and top > 0.0:
            shares.append(median(working) / top)
    if not shares:
        return no_traffic("page with a busy GPU")
    return number(min(shares), Standing.EXACT if clocks.keys() <= tops.keys() else Standing.UPPER)


def xid_events(c: Context) -> Reading:
    """XID errors that came in the window and are not the program's own, at least: where only the last code is shown, its
    repeat goes unseen.
    """
    shown = c.window.tracks(XID)
    if not shown:
        return missing(c, XID)
    began: dict[str, float] = {}
    for track in shown:
        began[track.label("gpu")] = min(track.times[0], began.get(track.label("gpu"), track.times[0]))
    codes = (t for t in tracks(c, XID) if t.label("xid") and t.label("xid") not in APPLICATION)
    came = [(t.label("xid"), track_growth(t, born_after=began[t.label("gpu")])) for t in codes]
    return number(sum(n for _, n in came), Standing.LOWER, told(code for code, n in came if n > 0))


def ecc_errors(c: Context) -> Reading:
    """Uncorrectable memory errors that came in the window, all GPUs."""
    found = grown(c, "llm_gpu_ecc_uncorrected_total")
    return missing(c, "llm_gpu_ecc_uncorrected_total") if found is None else number(found)


def row_remap_pending(c: Context) -> Reading:
    """1 while a row of a GPU's memory waits for a reset to be remapped, or could not be, else 0."""
    pages = by_label(c, "llm_gpu_row_remap_pending", "gpu")
    if not pages:
        return missing(c, "llm_gpu_row_remap_pending")
    return number(max(found[max(found)] for found in pages.values()))


def mig_slices(c: Context) -> Reading:
    """GPUs under the engine that are MIG slices: each has its part of the card's bandwidth and memory, and no NVLink."""
    cards = {t.label("gpu"): t.label("mig_profile") for t in tracks(c, INFO)}
    if not cards:
        return silent(c, INFO)
    profiles = [profile for profile in cards.values() if profile]
    return number(float(len(profiles)), note=f"MIG {', '.join(sorted(set(profiles)))}" if profiles else "")


def idle_while_waiting_ratio(c: Context) -> Reading:
    """Share of the pages on which requests wait while the SMs of the GPUs, on average, are active for less than what counts
    as used (0.60 by default): capacity that is there and is not got at. Pages without either number are left out.
    """
    waiting, active = total(c, WAITING), by_label(c, SM_ACTIVE, "gpu")
    if not active:
        return silent(c, SM_ACTIVE)
    pages = [
        (waiting[t], fmean(seen))
        for t in sorted(waiting)
        if (seen := [pages[t] for pages in active.values() if t in pages])
    ]
    if not pages:
        return silent(c, WAITING)
    return number(sum(w > 0 and sm < c.settings.thresholds.gpu_active for w, sm in pages) / len(pages))
