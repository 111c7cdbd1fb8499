"""What each card does, and what holds it back: activity, memory, power, clocks, heat and errors."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, over, said
from llmvitals.dashboards.boards.hardware_cards import CARD, NO_GPU, by_card, card, named, of_cards, on_boards, shown
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    PURPLE,
    RANGE,
    SELECTOR,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    q,
)
from llmvitals.signals.derived.xids import XIDS, Of

_HELD, _XID = "llm_gpu_throttle_seconds_total", "llm_gpu_xid_events_total"

ACTIVITY = Panel(
    Kind.LINES,
    "SMs, tensor pipes and memory, card by card",
    "percentunit",
    (
        shown("llm_gpu_sm_active_ratio", "SMs", GREEN, agg="avg"),
        shown("llm_gpu_tensor_active_ratio", "tensor", BLUE, agg="avg", dashed=True),
        shown("llm_gpu_dram_active_ratio", "DRAM", SKY, agg="avg"),
    ),
    "What each card really does. Tensor pipes busy: prefill computes. DRAM busy: decode reads weights and KV, and"
    " bandwidth binds. SMs active with both low: kernels wait, for a link or for the host. One card far from the"
    " others of its replica: look at links, clocks and heat. The line is {thresholds.gpu_active:g}: SMs under it"
    " while requests wait are under-used.",
    "no GPU is joined, or neither its exporter's list nor the card has profiling counters",
    causes=("batch-too-small", "prefill-bound", "batch-too-large", "interconnect-bound", "hardware-event"),
    limits=(Limit("thresholds.gpu_active", GREEN),),
    top=1,
)

UTILISATION = Panel(
    Kind.LINES,
    "Utilisation: something ran, which is not compute",
    "percentunit",
    (
        shown("llm_gpu_busy_ratio", "utilisation", GREY, agg="avg"),
        shown("llm_gpu_engine_active_ratio", "engine", SKY, agg="avg", dashed=True),
    ),
    "Share of the time in which any kernel was resident (what nvidia-smi calls utilisation), and in which an engine"
    " of the card was active. One small kernel after another reads 1 on a card that is nearly empty, so a high one"
    " says little; a low one says that nothing was asked of the card. Read the panel of SMs and tensor pipes first.",
    NO_GPU,
    causes=("batch-too-small",),
    moved=("idle",),
    top=1,
)


def _of_all(family: str) -> str:
    """A family of bytes over every chosen card, each counted once however many engines share it, and a slice not beside its
    whole card.
    """
    whole, slices = (on_boards(f'{family}{{gpu{how}".+/.+",{INSTANCE}}}') for how in ("!~", "=~"))
    return f"sum by () (max by (gpu) ({whole} or {slices} unless on (board) {whole}))"


_PROCESS = "llm_gpu_process_memory_bytes"
_ENGINES = f'{_PROCESS}{{owner="engine",{INSTANCE}}}'
_USED = _of_all("llm_gpu_memory_used_bytes")


def _held_by(owner: str) -> str:
    """What processes of an owner hold; one of another chosen engine is an engine's. Each process counts once for each card."""
    mine = f'max by (gpu, pid) ({_PROCESS}{{owner="{owner}",{INSTANCE}}})'
    return f"sum by () ({mine} unless on (gpu, pid) {_ENGINES})"


_LISTED = f"sum by () ({_ENGINES})"
"""There where the driver lists an engine's processes."""

_OTHERS, _UNKNOWN = (f"({_held_by(owner)} or {_USED} * 0)" for owner in ("other", "unknown"))


MEMORY = Panel(
    Kind.STACK,
    "GPU memory, by who holds it",
    "bytes",
    (
        all_of("engines", ORANGE, f"clamp_min({_USED} - {_OTHERS} - {_UNKNOWN}, 0) and on () {_LISTED}"),
        all_of("other processes", VERMILLION, f"{_OTHERS} and on () sum by () ({_PROCESS}{{{INSTANCE}}})"),
        all_of(
            "used, by whom is not told",
            PURPLE,
            f"{_UNKNOWN} and on () {_LISTED} or clamp_min({_USED} - {_OTHERS}, 0)",
        ),
        all_of("reserved by the driver", GREY, _of_all("llm_gpu_memory_reserved_bytes")),
        all_of("free", GREEN, _of_all("llm_gpu_memory_free_bytes")),
    ),
    "Framebuffer of all chosen cards, as one bar. Engines reserve most of it at their start, so a full bar is"
    " normal. What other processes hold is not: a debugging session, a second server, one that was not ended. Where"
    " the driver lists no processes, all that is used stands under 'by whom is not told'.",
    NO_GPU,
    causes=("vram-headroom",),
    moved=("hardware-error",),
)

ROOM = Panel(
    Kind.LINES,
    "Room in GPU memory",
    "percentunit",
    (
        q("gpu_memory_free_low_ratio", "free at least", GREEN),
        q("gpu_memory_engine_ratio", "engine", ORANGE, dashed=True),
        q("gpu_memory_beside_pool_ratio", "beyond its setting", PURPLE, dashed=True),
        q("gpu_memory_other_ratio", "other processes", VERMILLION),
    ),
    "On the fullest card of each replica: the least share of the framebuffer that was free, what the engine holds,"
    " what of that is beyond its own setting (context, graphs, buffers), and what others hold. The line is"
    " {thresholds.vram_margin:g}: with less free, a peak ends in an out-of-memory.",
    NO_GPU,
    causes=("vram-headroom",),
    limits=(Limit("thresholds.vram_margin", GREEN),),
    top=1,
)

POWER = Panel(
    Kind.LINES,
    "Power, of the enforced limit",
    "percentunit",
    (card("", ORANGE, over(of_cards("llm_gpu_power_watts"), of_cards("llm_gpu_power_limit_watts"))),),
    "Power that each card draws over the limit that is enforced on it, which differs by model and by what somebody"
    " set. Near 1 under dense load is how a card works. Near 1 while tensor pipes rest: the limit was lowered. Far"
    " under its usual at the same load: look at clocks, or at what keeps work away.",
    "no GPU is joined, or its exporter shows no power or no limit of it",
    causes=("hardware-event",),
)

CLOCK = Panel(
    Kind.LINES,
    "SM clock, of the card's highest",
    "percentunit",
    (
        card("now", BLUE, over(of_cards("llm_gpu_sm_clock_hertz", agg="min"), of_cards("llm_gpu_sm_clock_max_hertz"))),
        q("gpu_clock_ratio", "while it works, slowest card", VERMILLION, dashed=True),
    ),
    "The clock of each card's SMs over its highest. An idle card lowers it by design; the dashed curve leaves idle"
    " moments out and takes the slowest card of the replica, which sets the pace of all that share a layer. Well"
    " under the others, or its own past at the same load: it is held down, and the panel beside says by what.",
    "no GPU is joined, or its exporter shows no clock or no highest clock",
    causes=("hardware-event",),
    top=1,
)

THROTTLE = Panel(
    Kind.LINES,
    "Clocks held down, by reason",
    "percentunit",
    (
        card(
            "",
            VERMILLION,
            by_card(f"rate({_HELD}{{{INSTANCE}}}[{WINDOW}])", "reason", agg="sum"),
            "reason",
        ),
    ),
    "Share of the time in which something held a card's clocks down. Power under dense load is normal. Heat,"
    " hardware or the board are not: check cooling, the power supply and the card's neighbours.",
    "no GPU is joined, or its exporter's list lacks the violation fields",
    causes=("hardware-event",),
)

_HOLDERS: tuple[tuple[int, str, str, str], ...] = (
    (2, "power", "at its power limit", SKY),
    (3, "sync_boost|board_limit|reliability", "held by the board", PURPLE),
    (4, "thermal|hw_thermal", "held by heat", ORANGE),
    (5, "power_brake", "held by the power brake", VERMILLION),
)
"""Reasons by how bad they are for who is served: their number, their labels, words and colour."""

_HELD_FOR_LONGER = 0.01  # of the time: less is a moment of a boost


def _held() -> str:
    """The worst reason that holds a card's clocks, 1 for any while its engine says that it serves nobody, 0 for none."""
    one = " or ".join(
        f'(rate({_HELD}{{reason=~"{labels}",{INSTANCE}}}[{WINDOW}]) > bool {_HELD_FOR_LONGER}) * {number}'
        for number, labels, _, _ in _HOLDERS
    )
    worst = by_card(f"({one})")
    nobody = f"sum by (instance) (llm_requests_running{{{SELECTOR}}}) == 0"
    return f"{worst} unless on (instance) ({nobody}) or clamp_max({worst}, 1)"


HOLDERS = Panel(
    Kind.TIMELINE,
    "What holds clocks down while somebody is served",
    "none",
    (
        Query(
            "",
            GREY,
            promql=_held(),
            by=CARD,
            names=(
                (0, "free", GREY),
                (1, "held, nobody is served", BLUE),
                *((number, text, color) for number, _, text, color in _HOLDERS),
            ),
        ),
    ),
    "One line for each card: the worst that holds its clocks down for more than a hundredth of the time. Its power"
    " limit under dense load is how a card works; heat, the board or the power brake are not. While its engine"
    " serves nobody no reason is told, since it costs nothing.",
    "no GPU is joined, or its exporter's list lacks the violation fields",
    causes=("hardware-event",),
    moved=("idle",),
)

TEMPERATURES = Panel(
    Kind.LINES,
    "Temperatures",
    "celsius",
    (
        shown("llm_gpu_temperature_celsius", "core", ORANGE),
        shown("llm_gpu_memory_temperature_celsius", "memory", PURPLE, dashed=True),
    ),
    "Core and memory temperature of each card. No line is drawn: where a card slows down differs by model, and the"
    " panels of clocks tell when it does. One card hotter than its neighbours at the same load has an airflow"
    " problem; memory (HBM) often limits before the core does.",
    NO_GPU,
    causes=("hardware-event",),
)

ERRORS = Panel(
    Kind.LINES,
    "Errors of the cards",
    "none",
    (
        q("gpu_xid_errors", "XID", VERMILLION),
        q("gpu_ecc_errors", "uncorrectable ECC", ORANGE, dashed=True),
        q("gpu_remap_pending", "remap waits for a reset", PURPLE, dashed=True),
        q("gpu_link_error_excess", "link errors, over normal", BLUE),
    ),
    "New errors in the exporter's window. XID codes that are the program's own are left out. Link errors are shown"
    " as times what a sound link may show. Anything above 0, and links above 1: drain the node, read which card and"
    " which code beside, and reset or replace it.",
    "no GPU is joined, or its exporter's list lacks XID, ECC and remapped rows",
    causes=("hardware-event",),
)


def _since_born(codes: str, card_s: str) -> str:
    """How much counters grew in this time, what they began with included where their card was watched before them.

    The driver's codes have no series until they come, and no rate sees the first of a series.
    """
    grew = f"round(increase({codes}{RANGE}))"
    later = (
        f"count_over_time({codes}{RANGE}) < on (instance, gpu) group_left ()"
        f" max by (instance, gpu) (count_over_time({card_s}{RANGE}))"
    )
    born = f"(min_over_time({codes}{RANGE}) unless {codes} @ end() offset $__range and ({later}))"
    return f"({grew} + ({born} or {grew} * 0) or {born})"


def _with_source(series: str) -> str:
    """The same series with whom NVIDIA's catalogue names as the source of the code."""
    series = f'label_replace({series}, "source", "not in the catalogue", "xid", "(.+)")'
    for source in Of:
        codes = "|".join(code for code, xid in XIDS.items() if xid.of is source)
        series = f'label_replace({series}, "source", "{source}", "xid", "{codes}")'
    return f'label_replace({series}, "code", "XID $1", "xid", "(.+)")'


def _events() -> str:
    """Codes with how often they came, and one line for each card of which none came."""
    codes, card_s = (f'{_XID}{{xid{how}"",{INSTANCE}}}' for how in ("!=", "="))
    came = f"{by_card(_with_source(_since_born(codes, card_s)), 'code', 'source')} > 0"
    none = said(said(named(card_s), "code", "no XID"), "source", "none")
    return f"{came} or on (instance, card) max by (instance, card, code, source) ({none}) * 0"


def _in_this_time(column: str, family: str) -> Query:
    return cell(column, "none", promql=by_card(f"round(increase({family}{{{INSTANCE}}}{RANGE}))"), by=CARD)


EVENTS = Panel(
    Kind.TABLE,
    "Which card failed, with which code, how often",
    "none",
    (
        cell("times", "none", promql=_events(), by=(*CARD, "code", "source")),
        _in_this_time("uncorrectable ECC", "llm_gpu_ecc_uncorrected_total"),
        _in_this_time("corrected ECC", "llm_gpu_ecc_corrected_total"),
        cell(
            "row remap",
            "none",
            promql=by_card(f"max_over_time(llm_gpu_row_remap_pending{{{INSTANCE}}}{RANGE})"),
            by=CARD,
            names=((0, "none", GREY), (1, "waits for a reset", VERMILLION)),
        ),
    ),
    "Errors that the driver told in the chosen time, card by card: the XID code, whose error NVIDIA's catalogue says"
    " it is, and how often it came, at least; beside it errors of the card's memory. A code of the app is no fault"
    " of the card. An uncorrectable error, or a remap that waits for a reset: drain the node and reset the card.",
    "no GPU is joined, or its exporter's list lacks XID errors",
    causes=("hardware-event",),
    worst="times",
    width=16,
    leads=Leads.APP,
)

ROW = Row(
    "GPUs: what each card does, and what holds it back",
    (
        ACTIVITY,
        MEMORY,
        ROOM,
        POWER,
        CLOCK,
        THROTTLE,
        HOLDERS,
        TEMPERATURES,
        UTILISATION,
        EVENTS,
        ERRORS,
    ),
)
