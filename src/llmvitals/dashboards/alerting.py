"""The rows behind the alerts: which alerts came when, how fast error budgets burn, and whether anybody watches.

No rule needs to be loaded for them, but for the alerts themselves: what a rule asks is asked here of the exporter's page.
"""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
)
from llmvitals.dashboards.requests import CLASS, OBJECTIVE
from llmvitals.signals.derived.gateway import LOST_LABELS

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
_SCOPE = 'instance=~"$instance|",model=~"$model|"'  # an alert on a whole target names no model
_OURS = f'alertname=~"LLM.*",{_SCOPE}'
_BLIND = f'alertname=~"{_OF_THE_WATCHING}"'  # whatever is chosen: they make every other alert blind

FIRING = f'ALERTS{{alertstate="firing",{_OURS}}} or ALERTS{{alertstate="firing",{_BLIND}}}'
_PENDING = f'ALERTS{{alertstate="pending",{_OURS}}} or ALERTS{{alertstate="pending",{_BLIND}}}'
_SEEN = f"max_over_time(ALERTS{{{_OURS}}}[$__range] @ end()) or max_over_time(ALERTS{{{_BLIND}}}[$__range] @ end())"
_BY = "instance, model, alertname, cause"
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
            NO_EXPORTER,
            symptoms=("half-blind",),
            width=6,
        ),
    ),
    collapsed=True,
)

_HTTP = "llm_http_requests_total"
_CALLS = "llm_gateway_requests_total"
_LOST = "|".join(LOST_LABELS)


def _share(missed: str, judged: str, by: tuple[str, ...]) -> str:
    """The share of requests that missed over ``<long>``; none missed is 0 only where some were judged."""
    kept = ", ".join(by)
    of = f"sum by ({kept}) (rate({judged}[<long>]))"
    return f"(sum by ({kept}) (rate({missed}[<long>])) or 0 * {of}) / ({of} > 0)"


def _promised(objective: str) -> str:
    match = f'{{objective="{objective}",{SELECTOR}}}'
    share = _share(f"llm_promise_missed_total{match}", f"llm_promise_requests_total{match}", ("instance", "model"))
    return f"{share} / (1 - <slo.objective>)"


TTFT, TPOT = _promised("ttft"), _promised("tpot")
ANSWERS = (
    _share(f'{_HTTP}{{status="5xx",{INSTANCE}}}', f'{_HTTP}{{status=~"2xx|5xx",{INSTANCE}}}', ("instance",))
    + " / (1 - <slo.objective>)"
)
CALLS = (
    _share(f'{_CALLS}{{status=~"{_LOST}",{INSTANCE}}}', f"{_CALLS}{{{INSTANCE}}}", ("instance",))
    + " / (1 - <slo.objective>)"
)
_SLO = "llm_slo_requests_total"
_TOLD = _share(f'{_SLO}{{met="no",{SELECTOR}}}', f'{_SLO}{{met=~"yes|no",{SELECTOR}}}', CLASS)
GOODPUT = f"{_TOLD} / on (instance, slo_class) group_left () (1 - {OBJECTIVE})"

_PAGES = (Limit("alerts.burns", severity="page"),)
_TICKETS = (Limit("alerts.burns", ORANGE, severity="ticket"),)
_AT_1 = "At 1 exactly as many miss as may. The lines are where somebody is paged: {pages}, the longer window beside the shorter."


def _burning(
    title: str, promql: str, by: tuple[str, ...], what: str, empty: str, *symptoms: str, width: int = 12
) -> Panel:
    return Panel(
        Kind.LINES,
        title,
        "suffix: x",
        (Query("over <long>:", BLUE, promql=promql, by=by, burns="page"),),
        f"{what} {_AT_1}",
        empty,
        symptoms=symptoms,
        limits=_PAGES,
        width=width,
    )


_NOBODY_ASKED = "no traffic, or the page lacks what counts it"
_SCOPED = ("instance", "model")

PROMISES = Row(
    "Promises: how fast their budgets burn",
    (
        _burning(
            "First tokens in time",
            TTFT,
            _SCOPED,
            "How many times faster than allowed first tokens come later than was promised. Only what certainly missed counts:"
            " beyond the histogram's edge at or above the promise.",
            _NOBODY_ASKED,
            "first-tokens-late",
        ),
        _burning(
            "Pace of tokens",
            TPOT,
            _SCOPED,
            "The same for the pace of tokens after the first, request by request. Slow while first tokens are in time: the batch"
            " is too large, or long prefills stall it.",
            _NOBODY_ASKED,
            "tokens-slow",
        ),
        _burning(
            "Answers that fail",
            ANSWERS,
            ("instance",),
            "The same for answers that are server errors (5xx), of these and those that are well. What a full server refuses on"
            " purpose is not among them.",
            "no traffic, or the page has no HTTP series",
            "answers-fail",
            width=8,
        ),
        _burning(
            "Calls that get no answer",
            CALLS,
            ("instance",),
            "The same for calls that the gateway in front refused or failed, of all its calls: a server that restarts all the"
            " time looks idle from within.",
            "no gateway is joined to this target, or nobody calls it",
            "answers-fail",
            width=8,
        ),
        _burning(
            "Whole promise, class by class",
            GOODPUT,
            CLASS,
            "The same for requests that traces told one by one, each held to every threshold and to the objective of its class.",
            "no traces: let engines or gateways send theirs to the exporter",
            "goodput-low",
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Budgets over hours and days",
            "suffix: x",
            (
                Query("first tokens over <long>:", BLUE, promql=TTFT, by=_SCOPED, burns="ticket"),
                Query("pace over <long>:", SKY, promql=TPOT, by=_SCOPED, burns="ticket"),
                Query("answers over <long>:", VERMILLION, promql=ANSWERS, by=("instance",), burns="ticket"),
                Query("whole promise over <long>:", PURPLE, promql=GOODPUT, by=CLASS, burns="ticket"),
            ),
            "Those that have a ticket, over the long windows. The lines are where one is written: {tickets}, the longer window"
            " beside the shorter. A curve that stays above 1 means that the promise is not kept, though nobody was woken.",
            _NOBODY_ASKED,
            symptoms=("first-tokens-late", "tokens-slow", "answers-fail", "goodput-low"),
            limits=_TICKETS,
            width=24,
            points=60,
        ),
    ),
    collapsed=True,
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
