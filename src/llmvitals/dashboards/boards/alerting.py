"""The rows behind the alerts: which alerts came when, how fast error budgets burn, and whether anybody watches.

No rule needs to be loaded for them, but for the alerts themselves: what a rule asks is asked here of the exporter's page.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import told
from llmvitals.dashboards.model import (
    GREEN,
    GREY,
    ORANGE,
    PLACE,
    RANGE,
    SELECTOR,
    VERMILLION,
    Kind,
    Leads,
    Panel,
    Query,
    Row,
    cell,
)

RUNBOOKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("target-gone", ("LLMTargetGone", "LLMTargetMissing")),
    ("users-hurt", ("LLMUsersHurt",)),
    ("first-tokens-late", ("LLMFirstTokensLate", "LLMFirstTokensBudget", "LLMTtftOverTarget")),
    ("tokens-slow", ("LLMTokensSlow", "LLMTokensBudget")),
    ("answers-fail", ("LLMAnswersFail", "LLMCallsLost", "LLMAnswersBudget")),
    ("overloaded-and-shedding", ("LLMMostRefused",)),
    ("goodput-low", ("LLMGoodputLow", "LLMGoodputBudget")),
    ("throughput-fell", ("LLMThroughputFell",)),
    ("nobody-watches", ("LLMNobodyWatches", "LLMExporterGone", "LLMExporterStuck")),
    ("half-blind", ("LLMTriageAbsent", "LLMRulesAbsent", "LLMReloadFailed", "LLMCollectorFails", "LLMSeriesTwice")),
    ("kv-cache-saturation", ("LLMKvHighWhileWaiting",)),
    ("batch-too-small", ("LLMGpuIdleWhileWaiting",)),
)
"""Runbooks by the alerts that lead to them; any other alert has the runbook of its ``cause``. Series of alerts carry no links."""

_OF_THE_WATCHING = "|".join(
    name for slug, names in RUNBOOKS if slug in {"nobody-watches", "half-blind"} for name in names
)
_PLACE = 'cluster=~"$cluster|",namespace=~"$namespace|"'
_SCOPE = f'{_PLACE},instance=~"$instance|",model=~"$model|"'  # an alert on a whole target names no model
_OURS = f'alertname=~"LLM.*",{_SCOPE}'
_BLIND = f'alertname=~"{_OF_THE_WATCHING}"'  # whatever is chosen: they make every other alert blind


def _either(series: str) -> str:
    """A series of alerts, with both kinds of matchers at its ``%s``: of what is chosen, and of the watching itself."""
    return f"{series % _OURS} or {series % _BLIND}"


FIRING = _either('ALERTS{alertstate="firing",%s}')
_PENDING = _either('ALERTS{alertstate="pending",%s}')
_SEEN = _either(f"max_over_time(ALERTS{{%s}}{RANGE})")
_BY = "instance, model, alertname, cause"
_ROW = "instance, model, alertname, severity, cause"
_SINCE = f"({_either('ALERTS_FOR_STATE{%s}')})"
_BY_RULES = "rules that are loaded, and alerts that fire"


def _told(alerts: str) -> str:
    """The same alerts with words where one is of no single place, instance, model or cause."""
    return told(told(alerts, "all", *PLACE, "instance", "model"), "none", "cause")


_RECORDED = f"llm:requests_running:5m{{{SELECTOR}}}"
_IF_RECORDED = f"count by () ({_RECORDED}) * 0"

ALERTS = Row(
    "Alerts",
    (
        Panel(
            Kind.TIMELINE,
            "Alerts over time",
            "none",
            (
                Query(
                    "",
                    VERMILLION,
                    promql=f"max by ({_BY}) (({FIRING}) * 2 or {_PENDING}) or 0 * max by ({_BY}) ({_SEEN})",
                    by=("alertname", "instance", "model"),
                    names=((2, "firing", VERMILLION), (1, "pending", ORANGE), (0, "over", GREY)),
                ),
            ),
            "One line per alert that was pending or firing in this time. Pending: its condition holds, not yet for long enough."
            " Alerts on the watching itself are shown whatever is chosen above. Click one for its runbook. What Alertmanager"
            " keeps quiet, because another alert explains it, is shown as well.",
            "no alert in this time, or the rules are not loaded: the panel beside tells",
            symptoms=("users-hurt",),
            apart=_BY_RULES,
            width=18,
            leads=Leads.ALERT,
        ),
        Panel(
            Kind.STAT,
            "Are the rules loaded?",
            "none",
            (
                Query(
                    "recording rules",
                    GREY,
                    promql=f"count by () ({_RECORDED}) > bool 0 or on () count by () (llm_requests_running{{{SELECTOR}}}) * 0",
                    by=(),
                    names=((1, "loaded", GREEN), (0, "not loaded", VERMILLION)),
                ),
                Query(
                    "alerts firing",
                    ORANGE,
                    promql=f"count by () ({FIRING}) or on () {_IF_RECORDED}",
                    by=(),
                    dashed=True,
                ),
            ),
            "Whether what the recording rules make is there, and how many alerts fire. Not loaded: alerts on budgets stay silent,"
            " however bad it is, and the number of alerts is left out, for it would say 0 of what nobody asks. Still at 0 while the"
            " promises below burn: the alerts' own file is not loaded.",
            "nothing here counts running requests, from which it is told, or the exporter is not scraped",
            symptoms=("half-blind",),
            apart=_BY_RULES,
            width=6,
        ),
        Panel(
            Kind.TABLE,
            "Alerts that fire now, and for how long",
            "s",
            (
                cell(
                    "condition holds for",
                    "s",
                    promql=f"time() - max by ({_ROW}) ({_told(_SINCE)})"
                    f" and on ({_ROW}) max by ({_ROW}) ({_told(f'({FIRING})')})",
                    by=("alertname", "severity", "instance", "model", "cause"),
                ),
            ),
            "Every alert that fires at this moment, since when its condition holds, and whom it is for: page wakes somebody, a"
            " ticket waits for the morning. Begin with what has held longest: it often explains the others. An alert that has"
            " fired for days is either a fault that nobody mends or a limit that is wrong.",
            "no alert fires, or the rules are not loaded: the panel above tells",
            symptoms=("users-hurt",),
            apart=_BY_RULES,
            worst="condition holds for",
            width=24,
        ),
    ),
    collapsed=True,
)
