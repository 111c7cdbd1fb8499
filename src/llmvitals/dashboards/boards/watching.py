"""The board of the watching itself: exporters, rules, collectors, and whether all that should be seen is seen.

No rule needs to be loaded for them, but for the alerts themselves: what a rule asks is asked here of the exporter's page.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.alerting import ALERTS
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    VERMILLION,
    Board,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
)


def _exporters(series: str, agg: str = "max") -> str:
    """What an exporter says of itself, whose instance is its own address."""
    return f"{agg} by (instance) ({series})"


_SUCCESS = f"llmvitals_collector_success{{{INSTANCE}}}"
_EXPORTER = ("instance",)
_STUCK_INTERVALS = 10.0  # as the alert on it has it

WATCHING = Row(
    "Who watches: the exporters themselves",
    (
        Panel(
            Kind.STAT,
            "Exporters, as Prometheus sees them",
            "none",
            (
                Query(
                    "",
                    GREY,
                    promql=_exporters('up{job="<alerts.job>"}', "min"),
                    by=_EXPORTER,
                    names=((1, "scraped", GREEN), (0, "does not answer", VERMILLION)),
                ),
            ),
            "Whether Prometheus reads each exporter of the scrape job that the settings name (alerts.job). One that does not"
            " answer watches nothing: its targets show as gone.",
            "no such scrape job: is alerts.job the job's name?",
            symptoms=("nobody-watches",),
        ),
        Panel(
            Kind.LINES,
            "Age of the newest cycle",
            "s",
            (
                Query("age", BLUE, promql=_exporters("llmvitals_cycle_age_seconds"), by=_EXPORTER),
                Query(
                    "took",
                    GREY,
                    promql=_exporters("llmvitals_cycle_duration_seconds"),
                    by=_EXPORTER,
                    dashed=True,
                ),
            ),
            "How old what an exporter shows is, and how long it took. It is asked for a new cycle every"
            " {exporter.interval_seconds:g} s; over the line, {limits[0]:g} s, it is stuck and shows the past as the present.",
            NO_EXPORTER,
            symptoms=("nobody-watches",),
            limits=(Limit("exporter.interval_seconds", times=_STUCK_INTERVALS),),
        ),
        Panel(
            Kind.STAT,
            "Newest settings file",
            "none",
            (
                Query(
                    "",
                    GREY,
                    promql=_exporters("llmvitals_config_last_reload_successful", "min"),
                    by=_EXPORTER,
                    names=((1, "in use", GREEN), (0, "refused, the one before it is in use", VERMILLION)),
                ),
            ),
            "Whether each exporter took the newest settings file. A refused one changes nothing: new targets are not watched, old"
            " thresholds hold. The exporter's log names the key.",
            NO_EXPORTER,
            symptoms=("half-blind",),
        ),
        Panel(
            Kind.TIMELINE,
            "Collectors that failed",
            "none",
            (
                Query(
                    "{{collector}}",
                    VERMILLION,
                    promql=f"min by (instance, collector) ({_SUCCESS})"
                    f" and on (instance, collector) min_over_time({_SUCCESS}[$__range] @ end()) == 0",
                    by=_EXPORTER,
                    names=((1, "works", GREEN), (0, "failed", VERMILLION)),
                ),
            ),
            "One line per collector that failed in this time: an engine's page, its GPUs, the host under it, the triage. What it"
            " collects is missing meanwhile, and checks that need it are undecided. The exporter's log says why.",
            "every collector worked, or the exporter is not scraped",
            symptoms=("half-blind",),
            causes=("telemetry-broken",),
        ),
        Panel(
            Kind.LINES,
            "Targets",
            "none",
            (
                Query("configured", GREY, promql=_exporters("llmvitals_targets"), by=_EXPORTER, dashed=True),
                Query("answer", GREEN, promql=f"count by () (llm_target_up{{{INSTANCE}}} == 1)", by=()),
                Query("do not answer", VERMILLION, promql=f"count by () (llm_target_up{{{INSTANCE}}} == 0)", by=()),
            ),
            "Targets of each exporter's settings, and how many of those chosen above give a readable page. No red line: all of"
            " them answer. A fall of the dashed one was a change of settings, or pods that went away.",
            NO_EXPORTER,
            symptoms=("target-gone",),
            causes=("not-serving",),
        ),
        Panel(
            Kind.LINES,
            "How many times each target is seen",
            "none",
            (
                Query(
                    "times seen",
                    ORANGE,
                    promql=f"count by (instance) (llm_target_up{{{INSTANCE}}})",
                    by=_EXPORTER,
                ),
            ),
            "1 is right. More: two exporters read the same target, or one is scraped by two jobs. Sums over its series are then"
            " too high, and a target that one of them lost looks alive. Let each target have one exporter.",
            NO_EXPORTER,
            symptoms=("half-blind",),
        ),
    ),
    collapsed=True,
)

BOARD = Board(
    uid="llmvitals-watching",
    file="dashboards/exporters.json",
    title="llmvitals: who watches",
    description="Whether what the other boards show can be trusted: exporters, targets, rules, and what cannot be seen.",
    rows=(
        ALERTS,
        WATCHING,
    ),
)
