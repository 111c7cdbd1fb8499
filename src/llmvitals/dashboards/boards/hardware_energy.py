"""What tokens cost in energy, and what idle cards draw beside."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, gauge, grown, over, rate
from llmvitals.dashboards.boards.hardware_cards import on_boards
from llmvitals.dashboards.model import (
    GREY,
    INSTANCE,
    NO_TRAFFIC,
    ORANGE,
    RANGE,
    SELECTOR,
    WINDOW,
    Kind,
    Leads,
    Panel,
    Row,
    cell,
)

_ENERGY = f"llm_gpu_energy_joules_total{{{INSTANCE}}}"
_TOKENS = "llm_generation_tokens_total"
_RUNNING = f"sum by (instance) (llm_requests_running{{{SELECTOR}}})"
_MUTE = f'max by (instance) (llm_family_gap{{family="llm_requests_running",{INSTANCE}}})'
_SERVES = f"({_RUNNING} > 0 or {_MUTE} unless on (instance) {_RUNNING})"
"""Replicas that serve somebody; one that cannot say how many run is taken to."""

_UP = f"max by (instance) (llm_target_up{{{INSTANCE}}} == 1)"
_OF_OTHERS = f"({_UP} unless on (instance) ({_RUNNING} or {_MUTE}))"
"""Replicas of other models than the chosen: whether they serve is not asked."""

_ELSEWHERE = f"({_UP} unless on (instance) {gauge(_TOKENS, 'instance', 'count')})"
"""Replicas of other models than the chosen, and those that count no tokens: their energy is that of no token here."""

_NO_COUNTER = "no GPU is joined, or its exporter shows no energy counter"


def _of_replicas(of_card: str) -> str:
    """The cards of each replica together, each counted once: exporters show a card's energy for each of its MIG slices."""
    return f"sum by (instance) (max by (instance, board) ({on_boards(f'({of_card})')}))"


def _split(watts: str) -> tuple[str, str]:
    """Watts of cards that serve somebody, and of all others, those without an engine among them; 0 where all are the other.

    A card that several replicas share, whole or in slices, counts once, and serves while one of them does.
    """
    cards = on_boards(f"({watts})")
    serving = f"max by (board) ({cards} and on (instance) {_SERVES})"
    serves = f"sum by () ({serving})"
    idles = f"sum by () (max by (board) ({cards}) unless on (board) {serving})"
    return f"({serves} or {idles} * 0)", f"({idles} or {serves} * 0)"


_RATE = f"rate({_ENERGY}[{WINDOW}])"
_COUNTED = _split(f"{_RATE} unless on (instance) {_ELSEWHERE}")
_ANY = _split(f"({_RATE} or llm_gpu_power_watts{{{INSTANCE}}}) unless on (instance) {_OF_OTHERS}")
_THOUSANDS = f"({rate(_TOKENS, '')} > 0) * 1000"

PER_TOKENS = Panel(
    Kind.STACK,
    "Energy per 1,000 output tokens",
    "joule",
    (
        all_of("cards that serve", ORANGE, f"{_COUNTED[0]} / {_THOUSANDS}"),
        all_of("idle cards beside them", GREY, f"{_COUNTED[1]} / {_THOUSANDS}"),
    ),
    "Joules that all chosen cards drew for every thousand tokens that came out. The lower band is of cards that"
    " serve, the upper one of those whose replicas nobody asks and of cards without an engine: it is what packing,"
    " scaling down or sleeping would save. A shared card counts once; that of an engine that counts no tokens is left"
    " out. 3.6 million joules are one kWh. Small batches"
    " cost most: weights are read once for each step, whoever shares it.",
    f"{NO_TRAFFIC}: no token came out, or {_NO_COUNTER}",
    causes=("batch-too-small", "unbounded-output"),
)

DRAWN = Panel(
    Kind.STACK,
    "Power that serves, and power that idles",
    "watt",
    (
        all_of("cards that serve", ORANGE, _ANY[0]),
        all_of("idle cards", GREY, _ANY[1]),
    ),
    "Power of all chosen cards, each once, by the energy counter or, without one, by the power reading. Idle: its"
    " replicas serve nobody at that moment, or no engine is joined to the card; one that does not say how many"
    " requests run is taken to serve. A loaded model alone keeps a card well above its lowest draw.",
    "no GPU is joined, or its exporter shows neither energy nor power",
    causes=("batch-too-small",),
    moved=("idle", "hardware-throttled"),
)

_JOULES = _of_replicas(f"increase({_ENERGY}{RANGE})")
_BY = ("instance",)

TABLE = Panel(
    Kind.TABLE,
    "Energy of each replica in this time",
    "joule",
    (
        cell("energy", "joule", promql=_JOULES, by=_BY),
        cell(
            "per 1,000 output tokens",
            "joule",
            promql=f"{over(_JOULES, grown(_TOKENS, 'instance', span=RANGE))} * 1000",
            by=_BY,
        ),
        cell(
            "mean power",
            "watt",
            promql=_of_replicas(f"avg_over_time(llm_gpu_power_watts{{{INSTANCE}}}{RANGE})"),
            by=_BY,
        ),
    ),
    "Energy of each replica's cards over the chosen time, for every thousand of its output tokens, and its mean"
    " power. Replicas of one model that differ: unequal load, unequal batches, or a card that is held down. A card"
    " that replicas share, whole or in slices, counts whole for each. Energy without a number of tokens: it served"
    " nobody, or does not count tokens.",
    _NO_COUNTER,
    causes=("batch-too-small", "hardware-event"),
    moved=("idle",),
    worst="per 1,000 output tokens",
    leads=Leads.APP,
)

ROW = Row("Energy", (PER_TOKENS, DRAWN, TABLE))
