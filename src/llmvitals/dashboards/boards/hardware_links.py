"""Which card is where and of what kind, the links between cards, and the processes that hold their memory."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import labels_alone, over, told
from llmvitals.dashboards.boards.hardware_cards import CARD, GPUS, NO_GPU, by_card, card, of_cards, shown
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Leads,
    Panel,
    Query,
    Row,
    cell,
    each,
    q,
)

_KIND = ("product", "driver", "mig_profile", "join")
_HOLDER = ("pod", "container")
_NOT_TOLD = "not told"
_WHAT = told(told(f"llm_gpu_info{{{INSTANCE}}}", "whole card", "mig_profile"), _NOT_TOLD, "product", "driver")
_HELD = told(f"llm_gpu_pod{{{INSTANCE}}}", _NOT_TOLD, *_HOLDER)
_LINKS = "no GPU is joined, there is only one, or its exporter's list has no link counters"


IDENTITY = Panel(
    Kind.TABLE,
    "Which card is where, and how that is known",
    "none",
    (
        labels_alone(
            "joined",
            by_card(_WHAT, *_KIND),
            (*CARD, *_KIND),
        ),
        cell("framebuffer", "bytes", promql=of_cards("llm_gpu_memory_total_bytes"), by=CARD),
        labels_alone(
            "held by a pod",
            by_card(_HELD, *_HOLDER),
            (*CARD, *_HOLDER),
        ),
    ),
    "Each card (or MIG slice) that is joined to a replica: its product, driver and slice, its framebuffer, and the"
    " pod that holds it where the GPU exporter tells. Join says how it was matched, the strongest way first:"
    " configured, pod-labels, pod-resources, process-ids. Different products or drivers in one pool make replicas of"
    " different speed.",
    NO_GPU,
    moved=("hardware-error", "hardware-throttled", "idle"),
    symptoms=("half-blind",),
    width=16,
    leads=Leads.APP,
)

CARDS = Panel(
    Kind.STAT,
    "Cards of each replica",
    "none",
    (
        Query(
            "cards:",
            GREEN,
            promql=GPUS,
            by=("instance",),
        ),
        q("gpus_per_rank", "for each rank:", SKY),
        q("tensor_parallel_gpus", "share each layer:", BLUE),
        q("gpu_mig_slices", "MIG slices:", PURPLE),
    ),
    "How many cards are joined to each replica, how many of them each rank has, how many share each layer (tensor"
    " parallelism) and how many are MIG slices: each slice has its part of the card's bandwidth and memory, and no"
    " NVLink. Fewer than the replica was given: the join is wrong, or a card has fallen off the bus.",
    NO_GPU,
    causes=("hardware-event",),
    moved=("idle",),
)

WHERE = Row("Which card is where", (IDENTITY, CARDS))


def _of_link(legend: str, color: str, family: str, link: str) -> Query:
    limit = of_cards("llm_gpu_link_limit_bytes_per_second", where=f'link="{link}",')
    return card(legend, color, over(of_cards(family), limit), dashed=link == "pcie")


LINK_SHARE = Panel(
    Kind.LINES,
    "Links, of what they carry",
    "percentunit",
    (
        _of_link("NVLink", GREEN, "llm_gpu_nvlink_bytes_per_second", "nvlink"),
        _of_link("PCIe", BLUE, "llm_gpu_pcie_bytes_per_second", "pcie"),
        q("gpu_link_use_ratio", "fullest to a peer", VERMILLION, dashed=True),
    ),
    "Traffic of each card, both ways, over what its links can carry. Tensor parallelism exchanges after each layer"
    " in bursts, so a mean over time is far under 1 even when the link binds: from about a seventh on while tensor"
    " pipes and memory rest, GPUs wait for it.",
    _LINKS,
    causes=("interconnect-bound",),
    moved=("hardware-throttled",),
)

LINK_TRAFFIC = Panel(
    Kind.LINES,
    "Link traffic",
    "Bps",
    (
        shown("llm_gpu_nvlink_bytes_per_second", "NVLink", GREEN),
        shown("llm_gpu_pcie_bytes_per_second", "PCIe", BLUE, dashed=True),
    ),
    "Bytes that each card moves to its peers and to the host in a second, both ways. GPUs that share a layer and"
    " talk over PCIe alone are slow at it. PCIe that is busy on a single card: weights are loaded, or KV is moved to"
    " the host.",
    _LINKS,
    causes=("interconnect-bound",),
    moved=("hardware-throttled",),
)

LINK_ERRORS = Panel(
    Kind.LINES,
    "Link errors per second",
    "none",
    (
        card(
            "",
            VERMILLION,
            by_card(f"rate(llm_gpu_link_errors_total{{{INSTANCE}}}[{WINDOW}])", "link", agg="sum"),
            "link",
        ),
    ),
    "Replays and errors of each card's links. Now and then one is normal; a steady rate means a bad cable, riser or"
    " connector, and costs bandwidth before anything fails.",
    "no link errors are counted",
    causes=("interconnect-bound", "hardware-event"),
)

PEERS = Panel(
    Kind.TABLE,
    "Which link joins which cards",
    "none",
    (
        labels_alone(
            "linked",
            by_card(f"llm_gpu_peer_link{{{INSTANCE}}}", "peer", "link"),
            (*CARD, "peer", "link"),
        ),
        cell("worst level", "none", signal="gpu_peer_link_level"),
    ),
    "The path between each two cards of a replica, as nvidia-smi topo -m calls it: NV with the number of lanes, then"
    " ever longer ways, PIX and PXB (one or several PCIe switches), PHB (the host's bridge), NODE and SYS (between"
    " CPU sockets). The level is that of the worst among cards that share a layer: 0 is NVLink everywhere, 5 is SYS.",
    "no peers: one card, or the driver was not asked (NVML on its node)",
    causes=("interconnect-bound",),
    width=16,
    leads=Leads.APP,
)

LINKS = Row(
    "Links between cards (needs link counters of the GPU exporter or NVML)",
    (LINK_SHARE, LINK_TRAFFIC, LINK_ERRORS, PEERS),
    collapsed=True,
)

PROCESSES = Panel(
    Kind.TABLE,
    "Processes on the cards, and whose they are",
    "bytes",
    (
        cell(
            "holds",
            "bytes",
            promql=by_card(f"llm_gpu_process_memory_bytes{{{INSTANCE}}}", "pid", "owner"),
            by=(*CARD, "pid", "owner"),
        ),
    ),
    "Every process that holds memory of a card, as the driver lists it. Owner engine: the server that the row names."
    " Other: not this engine; what it holds is missing in KV or in the room for peaks. Unknown: the exporter cannot"
    " see whose process it is (it needs the host's process ids).",
    "the driver lists no processes: it needs NVML on the engine's node",
    causes=("vram-headroom",),
    worst="holds",
    width=16,
)

OWNERS = Panel(
    Kind.LINES,
    "GPU memory by owner",
    "bytes",
    (
        each("llm_gpu_process_memory_bytes", "", ORANGE, "owner", agg="sum"),
        q("gpu_memory_engine_growth_bytes", "engine, grown by", PURPLE, dashed=True),
    ),
    "Memory of each replica's cards by whose process holds it, and by how much the engine's own grew since the"
    " window or its process began (dashed). A pool is reserved whole at the start: what grows later are peaks and"
    " fragments that the allocator keeps. Anything of another owner is a neighbour.",
    "the driver lists no processes: it needs NVML on the engine's node",
    causes=("vram-headroom",),
)

CLOCKS = Panel(
    Kind.LINES,
    "Clocks",
    "hertz",
    (
        shown("llm_gpu_sm_clock_hertz", "SMs", BLUE, agg="min"),
        shown("llm_gpu_sm_clock_max_hertz", "SMs, highest", GREY, dashed=True),
        shown("llm_gpu_memory_clock_hertz", "memory", SKY, agg="min", dashed=True),
    ),
    "Clocks of each card's SMs and memory. An idle card lowers both by design. Memory that stays low under load"
    " halves decode at once, since it reads all weights for each step: the card is in a low-power state that it does"
    " not leave.",
    "no GPU is joined, or its exporter shows no clocks",
    causes=("hardware-event",),
)

AS_CHECKED = Panel(
    Kind.LINES,
    "Clocks held down, as the checks see it",
    "percentunit",
    (
        q("gpu_throttle_ratio", "heat or hardware", VERMILLION),
        q("gpu_power_cap_ratio", "power limit", SKY, dashed=True),
        q("gpu_clock_ratio", "clock while it works", BLUE),
    ),
    "Of the worst card of each replica, over the exporter's window: the share of the time in which heat, hardware or"
    " the board held its clocks, in which its power limit did, and its clock while it works over its highest. Held"
    " from a tenth of the time on with a clock under nine tenths, while users are hurt, is a hardware event; a power"
    " limit alone is how a card works.",
    "no GPU is joined, or its exporter's list lacks the violation fields",
    causes=("hardware-event",),
    top=1,
)

HOLDERS = Row(
    "Processes and clocks, card by card (needs NVML on the node)",
    (PROCESSES, OWNERS, CLOCKS, AS_CHECKED),
    collapsed=True,
)
