"""Whether rules can tell anything: each alert's input, and the Prometheus that scrapes exporters and evaluates the rules."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.dashboards.boards.asked import asked, over, said
from llmvitals.dashboards.boards.watching_exporters import JOB, NO_JOB, line, own
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Panel,
    Query,
    Row,
    cell,
)


@dataclass(frozen=True, slots=True)
class Input:
    """A series that alerts read, and without which they are silent however bad it is. ``where``: its matchers.

    ``alerts``: their names; none for the one of each cause.
    """

    series: str
    where: str
    alerts: tuple[str, ...] = ()


INPUTS: tuple[Input, ...] = (
    Input("llm_target_up", INSTANCE, ("LLMTargetGone", "LLMTargetMissing", "LLMNobodyWatches", "LLMSeriesTwice")),
    Input("up", JOB, ("LLMExporterGone",)),
    Input("llmvitals_cycle_age_seconds", "", ("LLMExporterStuck",)),
    Input("llmvitals_config_last_reload_successful", "", ("LLMReloadFailed",)),
    Input("llmvitals_collector_success", INSTANCE, ("LLMCollectorFails",)),
    Input("llm_triage_verdict", SELECTOR, ("LLMTriageAbsent",)),
    Input("llm_requests_running", SELECTOR, ("LLMRulesAbsent",)),
    Input("llm_triage_check_state", SELECTOR),
    Input("llm_triage_hurt", SELECTOR, ("LLMUsersHurt",)),
    Input("llm:ttft_judged:5m", SELECTOR, ("LLMFirstTokensLate",)),
    Input("llm:ttft_judged:6h", SELECTOR, ("LLMFirstTokensBudget",)),
    Input("llm:ttft_p95_seconds:5m", SELECTOR, ("LLMTtftOverTarget",)),
    Input("llm:tpot_judged:5m", SELECTOR, ("LLMTokensSlow",)),
    Input("llm:tpot_judged:6h", SELECTOR, ("LLMTokensBudget",)),
    Input("llm:answers_judged:5m", INSTANCE, ("LLMAnswersFail",)),
    Input("llm:answers_judged:6h", INSTANCE, ("LLMAnswersBudget",)),
    Input("llm:calls_judged:5m", INSTANCE, ("LLMCallsLost",)),
    Input("llm_refused_call_ratio", SELECTOR, ("LLMMostRefused",)),
    Input("llm:goodput_judged:5m", SELECTOR, ("LLMGoodputLow",)),
    Input("llm:goodput_judged:6h", SELECTOR, ("LLMGoodputBudget",)),
    Input("llm:generation_tokens_rate:5m", SELECTOR, ("LLMThroughputFell",)),
    Input("llm:kv_usage_peak_ratio:5m", SELECTOR, ("LLMKvHighWhileWaiting",)),
    Input("llm:gpu_sm_active_mean_ratio:5m", INSTANCE, ("LLMGpuIdleWhileWaiting",)),
)
"""Every alert once. Where several series would do, one that has to be there whatever the others say."""

_TOLD = f"count by () (llm_target_up{{{INSTANCE}}})"
_OF_CAUSES = "the alert of each cause"


def _found(read: Input) -> str:
    """How many series there are, none among them while some target is told of: that is what is asked."""
    count = f"count by () ({read.series}{{{read.where}}}) or {_TOLD} * 0"
    return said(said(count, "alerts", ", ".join(read.alerts) or _OF_CAUSES), "reads", read.series)


DEAD = Panel(
    Kind.TABLE,
    "Alerts, and whether they have anything to read",
    "none",
    (
        cell(
            "series",
            "none",
            promql=" or ".join(map(_found, INPUTS)),
            by=("alerts", "reads"),
            names=((0, "none: it stays silent", VERMILLION),),
        ),
    ),
    "What each alert reads, and how many such series there are in the chosen scope. An alert without input never"
    " fires, whatever happens, and nothing else says so. Names with colons are made by the recording rules: none of"
    " them means that those are not loaded. Calls need a gateway, goodput traces or classes, GPU activity profiling"
    " counters.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    moved=("idle", "hardware-error"),
    worst="-series",
    width=16,
    height=12,
)

_GROUP = "llmvitals-.*"
_APART = "a Prometheus that scrapes itself and has the rules loaded"
_NOT_SCRAPED = "Prometheus does not scrape itself, or no group of llmvitals is loaded"


def _of_groups(family: str, agg: str, rate: bool = False) -> str:
    """A family of Prometheus about our groups, whose names stand after their files'."""
    series = f'{family}{{rule_group=~".*;{_GROUP}"}}'
    told = f"rate({series}[{WINDOW}])" if rate else series
    return f'{agg} by (group) (label_replace({told}, "group", "$1", "rule_group", ".*;(.*)"))'


def _groups(legend: str, color: str, promql: str, *, dashed: bool = False, unit: str = "") -> Query:
    return asked(legend, color, promql, "group", dashed=dashed, unit=unit)


EVALUATED = Panel(
    Kind.LINES,
    "Rule groups: time taken, of their interval",
    "percentunit",
    (
        _groups(
            "",
            BLUE,
            over(
                _of_groups("prometheus_rule_group_last_duration_seconds", "max"),
                _of_groups("prometheus_rule_group_interval_seconds", "max"),
            ),
        ),
        _groups(
            "last, ago",
            GREY,
            f"time() - ({_of_groups('prometheus_rule_group_last_evaluation_timestamp_seconds', 'max')} > 0)",  # 0: not yet
            dashed=True,
            unit="s",
        ),
    ),
    "Share of its interval that the evaluation of each of our rule groups took, and how long ago it was (right"
    " axis). Near 1 the next evaluation is skipped: alerts come late, and sums over hours have holes. Fewer targets"
    " for each Prometheus, or longer intervals.",
    _NOT_SCRAPED,
    symptoms=("half-blind",),
    apart=_APART,
)

FAILURES = Panel(
    Kind.LINES,
    "Rule evaluations that failed or were skipped",
    "none",
    (
        _groups("failed:", VERMILLION, _of_groups("prometheus_rule_evaluation_failures_total", "sum", rate=True)),
        _groups(
            "skipped:",
            ORANGE,
            _of_groups("prometheus_rule_group_iterations_missed_total", "sum", rate=True),
            dashed=True,
        ),
    ),
    "Evaluations of our rules that failed, and of groups that were skipped, per second. Anything above 0: some"
    " alerts are blind. A failure is a rule that finds the same series twice, or a query that takes too long;"
    " Prometheus' page of rules shows its words.",
    _NOT_SCRAPED,
    symptoms=("half-blind",),
    apart=_APART,
)

SCRAPE = Panel(
    Kind.LINES,
    "Prometheus' scrape of the exporters",
    "s",
    (
        line("took", ORANGE, own(f"scrape_duration_seconds{{{JOB}}}")),
        line("new series", PURPLE, own(f"scrape_series_added{{{JOB}}}"), dashed=True, unit="none"),
    ),
    "How long Prometheus' scrape of each exporter takes, and how many series it had never seen (right axis). A"
    " scrape near its timeout is lost now and then, and everything has a hole there. New series at each scrape are"
    " churn: a label that changes all the time makes Prometheus large and slow.",
    NO_JOB,
    symptoms=("nobody-watches",),
    apart="the series of a scrape: a play is not scraped",
)

SAMPLES = Panel(
    Kind.LINES,
    "Series of each exporter's page",
    "none",
    (
        line("on the page", BLUE, own(f"scrape_samples_scraped{{{JOB}}}")),
        line("kept", SKY, own(f"scrape_samples_post_metric_relabeling{{{JOB}}}"), dashed=True),
    ),
    "Samples of each scrape, and how many of them relabelling leaves. Kept well under those on the page: somebody"
    " filters, and panels and alerts that need what is filtered are empty. A fall to 0 is a scrape that failed.",
    NO_JOB,
    symptoms=("half-blind",),
    apart="the series of a scrape: a play is not scraped",
)

ROW = Row(
    "Can alerts tell anything? Their input, and the Prometheus under them", (DEAD, EVALUATED, FAILURES, SCRAPE, SAMPLES)
)
