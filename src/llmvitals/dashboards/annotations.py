"""What is marked across every panel over time: alerts, restarts, versions that come, replicas, XID errors, settings.

Each mark stands where the thing happened and is there once. Grafana asks a query at each step and joins neighbouring steps
that answer to one mark, from the first to the last. So a state (an alert) answers as long as it holds; an event answers at
the one step at which what it asks differs from :data:`STEP` before; and where a series carries the moment itself, each step
answers with that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.dashboards.boards.alerting import FIRING
from llmvitals.dashboards.boards.asked import said
from llmvitals.dashboards.model import BLUE, GREY, INSTANCE, ORANGE, PURPLE, RANGE, SKY, VERMILLION

STEP = "$__interval"
"""Grafana's distance between two steps of a query."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One kind of marks. ``promql``: as a query's; ``title`` and ``text`` are templates over the labels that it keeps.

    ``moment``: its values are the moment itself (unix milliseconds), whatever step tells it. ``shown``: from the start; else a
    click at the top of the board shows it.
    """

    name: str
    color: str
    promql: str
    title: str
    text: str
    moment: bool = False
    shown: bool = True


def restarted(family: str) -> str:
    """When the newest process began, in milliseconds, where an older one was seen in this time: a start time only grows.

    ``family``: a start time in unix seconds.
    """
    series = f"{family}{{{INSTANCE}}}"
    return f"max by (instance) ({series} > min_over_time({series}{RANGE})) * 1000"


PROCESS_START = "llm_process_start_time_seconds"
_CONTAINER_START = "llm_host_started_time_seconds"
"""Stands in where the page does not say when its process began."""


_WATCHED = f"count by () (llm_target_up{{{INSTANCE}}} offset {STEP})"
"""Somebody was watched a step ago: the beginning of all telemetry is no event."""


def _deployed() -> str:
    """A version that nobody spoke at the beginning of this time, at the step at which the first server speaks it."""
    info = f"llm_target_info{{{INSTANCE}}}"
    speak = "count by (engine, version)"
    others = f"count by (engine) ({speak} (max_over_time({info}{RANGE}))) > 1"
    return (
        f"{speak} ({info}) unless on (engine, version) {speak} ({info} offset {STEP})"
        f" unless on (engine, version) {speak} ({info} @ end() offset $__range)"
        f" and on (engine) ({others}) and on () {_WATCHED}"
    )


def _replicas() -> str:
    """Targets that are told of and were not a step ago, and the other way round."""
    now = f"count by (instance) (llm_target_up{{{INSTANCE}}})"
    before = f"count by (instance) (llm_target_up{{{INSTANCE}}} offset {STEP})"
    came = f"{now} unless on (instance) {before} and on () {_WATCHED}"
    return f"{said(came, 'what', 'came')} or {said(f'{before} unless on (instance) {now}', 'what', 'went')}"


def _xids() -> str:
    """Counts of codes that grew since a step ago, and codes that a card watched then had not shown."""
    by = "max by (instance, index, gpu, xid)"
    now, before = (f'llm_gpu_xid_events_total{{xid!="",{INSTANCE}}}{at}' for at in ("", f" offset {STEP}"))
    card = f"max by (instance, index, gpu) (llm_gpu_xid_events_total{{{INSTANCE}}} offset {STEP})"
    new = f"({by} ({now}) unless on (instance, index, gpu, xid) {by} ({before})) and on (instance, index, gpu) {card}"
    return f"{by} ({now}) > {by} ({before}) or {new}"


def _reloaded() -> str:
    """A newest settings file that is refused, or taken again, and another number of targets."""
    flag, targets = (
        f"max by (instance) ({name}{{at}})" for name in ("llmvitals_config_last_reload_successful", "llmvitals_targets")
    )
    before = f" offset {STEP}"
    refused = f"({flag.format(at='')} == 0 and {flag.format(at=before)} == 1) + 1"
    taken = f"{flag.format(at='')} == 1 and {flag.format(at=before)} == 0"
    other = f"({targets.format(at='')} != {targets.format(at=before)}) + 1"  # a mark needs a number above 0
    return " or ".join(
        (
            said(refused, "what", "settings refused by"),
            said(taken, "what", "settings taken by"),
            said(other, "what", "other targets at"),
        )
    )


RESTARTS = Mark(
    "Engine restarts",
    GREY,
    f"{restarted(PROCESS_START)} or {restarted(_CONTAINER_START)}",
    "restart of {{instance}}",
    "Its process began anew: what it had cached and queued is gone.",
    moment=True,
)

MARKS: tuple[Mark, ...] = (
    Mark(
        "Alerts",
        VERMILLION,
        FIRING,
        "{{alertname}} {{instance}} {{model}}",
        "{{severity}} {{cause}}",
    ),
    RESTARTS,
    Mark(
        "Deploys",
        BLUE,
        _deployed(),
        "{{engine}} {{version}} came",
        "The first server that speaks this version of the engine's page.",
    ),
    Mark(
        "XID errors",
        PURPLE,
        _xids(),
        "XID {{xid}} on GPU {{index}} of {{instance}}",
        "The driver told an error of {{gpu}}.",
    ),
    Mark(
        "Replicas that come or go",
        SKY,
        _replicas(),
        "{{instance}} {{what}}",
        "A target that an exporter tells of, or tells of no more.",
        shown=False,
    ),
    Mark(
        "Exporters' settings",
        ORANGE,
        _reloaded(),
        "{{what}} {{instance}}",
        "What is watched, or by which thresholds, may be another from here on.",
        shown=False,
    ),
)
