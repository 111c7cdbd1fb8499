"""Which wall a replica is at: what binds it, moment by moment, read from KV, seats and the GPUs' own counters."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import WATCHED, over
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    RANGE,
    SELECTOR,
    SKY,
    VERMILLION,
    Kind,
    Leads,
    Panel,
    Query,
    Row,
)

_WALLS: tuple[tuple[int, str, str, str], ...] = (
    (1, "kv", "KV pool", BLUE),
    (2, "compute", "compute", GREEN),
    (3, "bandwidth", "memory or links of the GPUs", SKY),
    (4, "seats", "seats", ORANGE),
    (5, "nothing", "nothing", GREY),
    (6, "unknown", "unknown", PURPLE),
)
_STUCK, _QUIET = 7, 8


def _wall() -> str:
    """The number of what binds, but where nothing moves although work is there, or where no work is."""
    binds = " or ".join(f'llm_binding{{resource="{name}",{SELECTOR}}} * {number}' for number, name, _, _ in _WALLS)
    stuck = f"(<stalled_seconds> >= <thresholds.stalled_seconds>) * 0 + {_STUCK}"
    quiet = f"(<activity> <= 0) * 0 + {_QUIET}"
    return f"{stuck} or {quiet} or max by (instance, model) ({binds})"


WALL = Panel(
    Kind.TIMELINE,
    "Which wall are we at?",
    "none",
    (
        Query(
            "",
            GREY,
            promql=_wall(),
            names=(
                *((number, text, color) for number, _, text, color in _WALLS),
                (_STUCK, "stuck: nothing moves", VERMILLION),
                (_QUIET, "no work", "#DDDDDD"),
            ),
        ),
    ),
    "One line for each replica: what keeps more work out of it. KV pool: the next request does not fit. Seats: the"
    " batch is full and KV has room. Compute, memory or links: the GPUs' own counters are at their end. Nothing:"
    " nobody waits and nobody is late. Stuck: nothing has moved for {thresholds.stalled_seconds:g} s although work"
    " is there. Unknown: what would tell is missing, which utilisation never replaces; click for the reason.",
    NO_EXPORTER,
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "batch-too-large", "interconnect-bound"),
    moved=("engine-stalled", "idle"),
    width=16,
    leads=Leads.APP,
)

_BOUND = f"llm_binding{{{SELECTOR}}}{RANGE}"


def _often(which: str) -> str:
    """How often each resource bound, of all moments of the replicas that ``which`` leaves: a service is no replica beside its
    engines, and one that was there for a minute weighs a minute.
    """
    at, of = (f"sum by (resource) ({what}_over_time({_BOUND}) {which})" for what in ("sum", "count"))
    return over(at, of)


WALLS = Panel(
    Kind.BARS,
    "How often each wall, of this time",
    "percentunit",
    (
        Query(
            "",
            GREEN,
            promql=f"{_often(f'and on (instance) {WATCHED}')} or {_often(f'unless on (instance) {WATCHED}')}",
            by=("resource",),
        ),
    ),
    "Share of the chosen time that the chosen replicas were at each wall, all their moments together. What is at the"
    " top most of the time is what to buy or to set: more KV (a smaller model, more memory), more seats, faster or more"
    " GPUs, or nothing at all.",
    NO_EXPORTER,
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound"),
    top=1,
)

ROW = Row("Which wall are we at", (WALL, WALLS))
