"""The exporters themselves: what they read, how old it is, what it costs them, and what they push and take in."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import APART, all_of, asked, labels_alone, rate
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    RANGE,
    SKY,
    VERMILLION,
    WINDOW,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    each,
    of_target,
    q,
)

_BY = ("instance",)
JOB = 'job="<alerts.job>"'
_SUCCESS = f"llmvitals_collector_success{{{INSTANCE}}}"
_UP = of_target("llm_target_up")
_BUILD = ("version", "python")
_STUCK_INTERVALS = 10.0  # as the alert on it has it
NO_JOB = "no such scrape job: is alerts.job the job's name?"
_OWN = "an exporter's series of itself: a play has a server and no exporter"
_NO_PUSH = "nothing is pushed: set otlp.endpoint, or the exporter is not scraped"
_NO_SPANS = "no traces are taken in: set spans.http or spans.grpc, or the exporter is not scraped"


def own(series: str, agg: str = "max", *by: str) -> str:
    """What an exporter says of itself, whose instance is its own address."""
    return f"{agg} by ({', '.join((*_BY, *by))}) ({series})"


def _rate(family: str, *by: str) -> str:
    return own(f"rate({family}[{WINDOW}])", "sum", *by)


def line(legend: str, color: str, promql: str, *by: str, dashed: bool = False, unit: str = "") -> Query:
    """A query that is kept apart by exporter, and by ``by``."""
    return asked(legend, color, promql, *_BY, *by, dashed=dashed, unit=unit)


EXPORTERS = Panel(
    Kind.TABLE,
    "Exporters, one by one",
    "none",
    (
        labels_alone("runs", own("llmvitals_build_info", "max", *_BUILD), (*_BY, *_BUILD)),
        cell(
            "scraped",
            "none",
            promql=own(f"up{{{JOB}}}", "min"),
            by=_BY,
            names=((1, "yes", GREEN), (0, "no", VERMILLION)),
        ),
        cell("newest cycle, ago", "s", promql=own("llmvitals_cycle_age_seconds"), by=_BY),
        cell("cycle took", "s", promql=own("llmvitals_cycle_duration_seconds"), by=_BY),
        cell("targets", "none", promql=own("llmvitals_targets"), by=_BY),
        cell("series", "none", promql=own(f"scrape_samples_scraped{{{JOB}}}"), by=_BY),
        cell("page", "bytes", promql=own("llmvitals_page_bytes"), by=_BY),
        cell("CPU", "suffix: cores", promql=_rate(f"process_cpu_seconds_total{{{JOB}}}"), by=_BY),
        cell("memory", "bytes", promql=own(f"process_resident_memory_bytes{{{JOB}}}"), by=_BY),
    ),
    "Each exporter of the scrape job that the settings name (alerts.job): its version, whether Prometheus reads it,"
    " how old what it shows is, how many targets it watches, and what it costs: series and bytes of its page, CPU"
    " and memory. Several versions at once are a rollout; a cycle that takes nearly its interval needs fewer targets"
    " for each exporter.",
    NO_JOB,
    symptoms=("nobody-watches",),
    apart=_OWN,
    worst="newest cycle, ago",
    width=24,
)

UP = Panel(
    Kind.STAT,
    "Exporters, as Prometheus sees them",
    "none",
    (
        Query(
            "",
            GREY,
            promql=own(f"up{{{JOB}}}", "min"),
            by=_BY,
            names=((1, "scraped", GREEN), (0, "does not answer", VERMILLION)),
        ),
    ),
    "Whether Prometheus reads each exporter of the scrape job that the settings name (alerts.job). One that does not"
    " answer watches nothing: its targets show as gone.",
    NO_JOB,
    symptoms=("nobody-watches",),
    apart=_OWN,
)

AGE = Panel(
    Kind.LINES,
    "Age of the newest cycle",
    "s",
    (
        line("age", BLUE, own("llmvitals_cycle_age_seconds")),
        line("took", GREY, own("llmvitals_cycle_duration_seconds"), dashed=True),
        line(
            "by Prometheus' clock",
            ORANGE,
            f"time() - {own('llmvitals_cycle_end_timestamp_seconds')}",
            dashed=True,
        ),
    ),
    "How old what an exporter shows is, and how long it took. It is asked for a new cycle every"
    " {exporter.interval_seconds:g} s; over the line, {limits[0]:g} s, it is stuck and shows the past as the"
    " present. By Prometheus' clock it is older by the time since its scrape; by much more or under 0, the two"
    " clocks differ.",
    NO_EXPORTER,
    symptoms=("nobody-watches",),
    limits=(Limit("exporter.interval_seconds", times=_STUCK_INTERVALS),),
    apart=_OWN,
)

RELOAD = Panel(
    Kind.STAT,
    "Newest settings file",
    "none",
    (
        Query(
            "",
            GREY,
            promql=own("llmvitals_config_last_reload_successful", "min"),
            by=_BY,
            names=((1, "in use", GREEN), (0, "refused, the one before it is in use", VERMILLION)),
        ),
    ),
    "Whether each exporter took the newest settings file, and the newest web configuration with its certificates. A"
    " refused one changes nothing: new targets are not watched, old thresholds and certificates hold. The exporter's log"
    " names the key.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    apart=_OWN,
)

COLLECTORS = Panel(
    Kind.TIMELINE,
    "Collectors that failed",
    "none",
    (
        Query(
            "{{collector}}",
            VERMILLION,
            promql=f"min by (instance, collector) ({_SUCCESS})"
            f" and on (instance, collector) min_over_time({_SUCCESS}{RANGE}) == 0",
            by=_BY,
            names=((1, "works", GREEN), (0, "failed", VERMILLION)),
        ),
    ),
    "One line per collector that failed in this time: an engine's page, its GPUs, the host under it, its pods,"
    " traces, the triage. What it collects is missing meanwhile, and checks that need it are undecided. The"
    " exporter's log says why.",
    "every collector worked, or the exporter is not scraped",
    symptoms=("half-blind",),
    causes=("telemetry-broken",),
    apart=_OWN,
)

SLOW = Panel(
    Kind.LINES,
    "Time that each collector took",
    "s",
    (each("llmvitals_collector_duration_seconds", "", ORANGE, "collector"),),
    "How long each collector of each target took in the newest cycle: the engine's page, its GPUs, the host, a"
    " probe, the triage. They run beside each other as far as they can; the slowest ones set how long the cycle"
    " takes.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    apart=_OWN,
)

TARGETS = Panel(
    Kind.LINES,
    "Targets",
    "none",
    (
        line("configured", GREY, own("llmvitals_targets"), dashed=True),
        all_of("answer", GREEN, f"count by () ({_UP} == 1)"),
        all_of("do not answer", VERMILLION, f"count by () ({_UP} == 0)"),
    ),
    "Targets of each exporter's settings, and how many of those chosen above give a readable page. No red line: all"
    " of them answer. A fall of the dashed one was a change of settings, or pods that went away.",
    NO_EXPORTER,
    symptoms=("target-gone",),
    causes=("not-serving",),
    apart=_OWN,
)

TWICE = Panel(
    Kind.LINES,
    "How many times each target is seen",
    "none",
    (
        each("llm_target_up", "times seen", ORANGE, agg="count"),
        each("llmvitals_target_left_out", "left to another, or said wrongly", SKY, agg="count"),
    ),
    "1 is right. More: two exporters read the same target, or one is scraped by two jobs. Sums over its series are"
    " then too high, and a target that one of them lost looks alive. Let each target have one exporter: a pod with a"
    " sidecar is left out by the node's exporter, and llmvitals_target_left_out has the reason.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    moved=("idle", "hardware-error"),
)

KEPT = Panel(
    Kind.LINES,
    "Pages kept of each target",
    "none",
    (each("llmvitals_history_snapshots", "", BLUE),),
    "How many pages of a target the exporter keeps for its window. A verdict needs {thresholds.min_pages} of them"
    " over {thresholds.min_seconds:g} s; a number that stays low is an exporter that begins again and again.",
    NO_EXPORTER,
    symptoms=("half-blind",),
    apart=_OWN,
)

COST = Panel(
    Kind.LINES,
    "What an exporter takes",
    "bytes",
    (
        line("memory", PURPLE, own(f"process_resident_memory_bytes{{{JOB}}}")),
        line("page", SKY, own("llmvitals_page_bytes"), dashed=True),
        line("CPU", ORANGE, _rate(f"process_cpu_seconds_total{{{JOB}}}"), unit="suffix: cores"),
    ),
    "Memory of each exporter, the size of the page that it serves, and its CPU (right axis). All three follow the"
    " number of targets and of their series; memory that climbs while these stand still is a leak to report.",
    NO_EXPORTER,
    symptoms=("nobody-watches",),
    apart=_OWN,
)

ASKED = Panel(
    Kind.LINES,
    "Who asks the exporter, and how often it looks",
    "reqps",
    (
        line("", BLUE, _rate("llmvitals_http_requests_total", "path", "code"), "path", "code"),
        line("cycles", GREY, _rate("llmvitals_cycles_total"), dashed=True),
        line("connections cut", VERMILLION, _rate("llmvitals_http_connections_cut_total")),
        line("connections", PURPLE, own("llmvitals_http_connections"), unit="none"),
    ),
    "HTTP answers of the exporter per second by path and status, its finished cycles, and its open connections (right axis)."
    " Codes from 400 on are clients without the right to ask, or asks for what is not there. Connections are cut when there is"
    " no room for all: somebody opens far too many. Fewer cycles than one every"
    " {exporter.interval_seconds:g} s: it does not keep up.",
    NO_EXPORTER,
    symptoms=("nobody-watches",),
    apart=_OWN,
)

ROW = Row("Who watches: the exporters themselves", (EXPORTERS, UP, AGE, RELOAD, COLLECTORS, TARGETS, TWICE))

COSTS = Row("What watching costs", (SLOW, COST, ASKED, KEPT), collapsed=True)

PUSHED = Panel(
    Kind.LINES,
    "Pushes over OTLP",
    "none",
    (
        line("", GREEN, _rate("llmvitals_otlp_exports_total", "result"), "result"),
        line(
            "newest, ago",
            ORANGE,
            f"time() - {own('llmvitals_otlp_last_success_timestamp_seconds')}",
            unit="s",
        ),
    ),
    "Pushes per second by their result, and how long ago the collector took one (right axis). Only ok is delivered."
    " An age that climbs means that whatever reads the collector shows the past: look at its address, its"
    " certificate and what it says in its log.",
    _NO_PUSH,
    symptoms=("half-blind",),
    apart=_OWN,
)

LEFT_OUT = Panel(
    Kind.LINES,
    "Points that OTLP cannot say",
    "none",
    (line("", VERMILLION, own("llmvitals_otlp_left_out_points")),),
    "Points of the newest push that were left out: numbers that are none, histograms and counters that contradict"
    " themselves. They come from a page that does; the collector gets a gap instead of a wrong number.",
    _NO_PUSH,
    symptoms=("half-blind",),
    apart=_OWN,
)

RECEIVED = Panel(
    Kind.LINES,
    "Exports of traces, and what became of them",
    "none",
    (line("", BLUE, _rate("llmvitals_span_exports_total", "protocol", "result"), "protocol", "result"),),
    "Exports of traces that came in per second, by protocol and result. Those that are refused come from senders"
    " without the right key, are too large, or come faster than they are worked through: the sender is told, and its"
    " log has the reason.",
    _NO_SPANS,
    symptoms=("half-blind",),
    apart=_OWN,
)

SPANS = Panel(
    Kind.LINES,
    "Spans taken in and dropped",
    "none",
    (
        line("taken:", GREEN, _rate("llmvitals_spans_total", "dialect"), "dialect"),
        line("dropped:", VERMILLION, _rate("llmvitals_spans_dropped_total", "reason"), "reason", dashed=True),
        line("hurried", ORANGE, _rate("llmvitals_spans_hurried_total"), dashed=True),
    ),
    "Spans per second: those taken in, by whose words they speak (other: no requests), those of requests that do not"
    " count, by reason, and those that could not wait for their call. Dropped for want of a target: name the"
    " sender's service or pod in the settings. Hurried ones count without what their gateway saw.",
    _NO_SPANS,
    symptoms=("half-blind",),
    apart=_OWN,
)

WAITING = Panel(
    Kind.LINES,
    "Spans that wait",
    "none",
    (
        line("open", BLUE, own("llmvitals_spans_open")),
        line("not worked through", ORANGE, own("llmvitals_span_pending_bytes"), unit="bytes"),
    ),
    "Spans that wait for their call or their target, and bytes of exports in memory that are not worked through yet"
    " (right axis). Both stay small; bytes that pile up mean more traces than this exporter can take in: sample at"
    " the sender.",
    _NO_SPANS,
    symptoms=("half-blind",),
    apart=_OWN,
)

SENDERS = Panel(
    Kind.LINES,
    "Who sends traces, and how their target was found",
    "none",
    (
        line("", PURPLE, own("llmvitals_span_senders", "max", "join"), "join"),
        each("llm_span_senders", "of target", BLUE, "join", agg="sum", dashed=True),
    ),
    "Processes that send spans, by how their target was found: over all of each exporter, and of each target"
    " (dashed). Senders without a target are counted and their spans dropped: give the target the name that they"
    " send.",
    _NO_SPANS,
    symptoms=("half-blind",),
    apart=_OWN,
)

COVERAGE = Panel(
    Kind.LINES,
    "How many of the requests traces tell of",
    "percentunit",
    (
        q("span_coverage_ratio", "told of", GREEN),
        line(
            "newest, ago",
            GREY,
            f"time() - {of_target('llm_span_last_end_seconds', 'vantage')}",
            "vantage",
            dashed=True,
            unit="s",
        ),
    ),
    "Spans over the requests that the page finished, and how long ago the newest request that they tell of had ended"
    " (right axis). Under 1: the sender samples, or spans are lost on the way; a class' exact counts are then not"
    " taken. An age that climbs while requests finish: the sender stopped.",
    _NO_SPANS,
    moved=("hardware-error", "batch-too-small"),
    symptoms=("half-blind",),
)

PROBES = Panel(
    Kind.LINES,
    "Probes by how they ended",
    "none",
    (
        line("", BLUE, rate("llm_probe_requests_total", f"{APART}, outcome"), "model", "outcome"),
        q("probe_failure_ratio", "failed", VERMILLION, dashed=True, unit="percentunit"),
    ),
    "Small requests of our own per second, by how they ended, and the share of them that got no answer (right axis)."
    " They see what no page of the engine can: whether somebody who asks from outside is served.",
    "no probes are sent: set probe_seconds of a target",
    causes=("not-serving",),
    apart="an exporter that probes: a play sends no probes",
)

PUSH = Row("Pushing over OTLP (needs otlp.endpoint)", (PUSHED, LEFT_OUT), collapsed=True)

TRACES = Row(
    "Traces and probes that come in (need spans.http or spans.grpc, and probe_seconds of a target)",
    (RECEIVED, SPANS, WAITING, SENDERS, COVERAGE, PROBES),
    collapsed=True,
)
