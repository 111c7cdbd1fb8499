"""The board of the machine: replicas by KV usage against compute, which wall each is at, its cards, energy and host."""

from __future__ import annotations

from llmvitals.dashboards.boards import (
    hardware_energy,
    hardware_gpus,
    hardware_host,
    hardware_links,
    hardware_walls,
)
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    PURPLE,
    SELECTOR,
    VERMILLION,
    Board,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
)

KV, SM, WAITING = "<kv_usage_high_ratio>", "<gpu_sm_active_mean_ratio>", "<requests_waiting>"
BUSY = "(<gpu_engine_active_mean_ratio> or <gpu_busy_mean_ratio>)"

X, Y = "KV usage that is reached", "GPU activity"


def _points(legend: str, color: str, activity: str, which: str, *, dashed: bool = False) -> tuple[Query, ...]:
    """A group of points: replicas with this ``activity``, of those the ones that ``which`` leaves.

    A GPU's series name no model, so its number is added to a zero that has one.
    """

    def of(column: str, promql: str) -> Query:
        return Query(legend, color, promql=f"{promql} {which}", dashed=dashed, column=column)

    return (
        of(X, f"({KV} and on (instance) {activity})"),
        of(Y, f"({KV} * 0 + on (instance) group_left () {activity})"),
        of("waiting", f"({WAITING} and on (instance, model) ({KV} and on (instance) {activity}))"),
    )


PLACED = Panel(
    Kind.XY,
    "KV usage against compute, replica by replica",
    "percentunit",
    (
        *_points("Nobody is seen waiting", BLUE, SM, f"unless on (instance, model) ({WAITING} > 0)"),
        *_points("Requests wait", VERMILLION, SM, f"and on (instance, model) ({WAITING} > 0)"),
        *_points("Utilisation only, which is not compute", GREY, BUSY, f"unless on (instance) {SM}", dashed=True),
    ),
    "Each point is a replica: KV usage that is reached, and for how much of the time its SMs are active. Right and low:"
    " memory binds, seats are lost to KV. Right and high: full and working. Left and high: compute binds. Left and low:"
    " idle, or held up in front if requests wait. The lines are the checks': KV {lines[0]:g}, SMs {lines[1]:g}. Hollow"
    " squares: only utilisation is known, which says that something ran, not how much of the chip it used.",
    "no replica has both numbers: KV usage, and a GPU joined to it",
    causes=("kv-cache-saturation", "preemption-thrash", "batch-too-small", "prefill-bound"),
    moved=("hardware-throttled", "low-clocks"),
    lines=(Limit("thresholds.kv_free_floor", rest=True), Limit("thresholds.gpu_active")),
    present=f"{KV} and on (instance) ({SM} or {BUSY})",
    width=16,
    height=11,
    leads=Leads.APP,
)

REPLICAS = f"count by (instance, model) (llm_requests_running{{{SELECTOR}}})"
UNPLACED = Panel(
    Kind.STAT,
    "Not in the picture, and what is missing",
    "none",
    (
        Query("no GPU activity:", PURPLE, promql=f"{REPLICAS} unless on (instance) ({SM} or {BUSY})"),
        Query("no KV usage:", GREY, promql=f"{REPLICAS} unless on (instance, model) {KV}"),
    ),
    "Replicas that have no place beside, for want of one of the two numbers. No GPU activity: no GPU is joined, or its"
    " exporter shows neither activity nor utilisation. No KV usage: the engine does not say it, or not enough to rule out"
    " that the gauge under-reads. The app's page of replicas has the reason of each.",
    "every replica has its place, or none says how many requests run",
    causes=("telemetry-broken",),
    width=8,
    height=11,
    leads=Leads.APP,
    by_name=True,
)

PLACES = Row("", (PLACED, UNPLACED))

BOARD = Board(
    uid="llmvitals-hardware",
    file="dashboards/hardware.json",
    title="LLM GPUs and hosts",
    description="The machine under the engines: which wall they are at, what their cards do and draw, links, and the host.",
    rows=(
        PLACES,
        hardware_walls.ROW,
        hardware_gpus.ROW,
        hardware_links.WHERE,
        hardware_energy.ROW,
        hardware_host.STARTS,
        hardware_links.LINKS,
        hardware_links.HOLDERS,
        hardware_host.HOST,
    ),
)
