"""The row of requests told one by one: classes and what they were promised, where their time went, probes."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import over, rate, reached
from llmvitals.dashboards.model import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Kind,
    Panel,
    Query,
    Row,
    of_target,
    q,
    total,
)

NO_TRACES = "no traffic, or no traces: let engines or gateways send theirs to the exporter"
CLASS = ("instance", "model", "slo_class", "vantage")
_C = ", ".join(CLASS)
_PROMISE = ("instance", "slo_class")


def _ended(met: str) -> str:
    """Requests of a class per second that could be judged, by whether they met their promise (a label match)."""
    return rate("llm_slo_requests_total", _C, f'met=~"{met}"')


GOODPUT = over(_ended("yes"), _ended("yes|no"))


OBJECTIVE = of_target("llm_slo_objective_ratio", "slo_class")
"""What a class was promised; its series name no model."""


def _while(promised: str, told: str) -> str:
    """What was promised, while there is something to hold to it."""
    return f"{promised} and on (instance, slo_class) ({told})"


BURN = f"(1 - {GOODPUT}) / on (instance, slo_class) group_left () (1 - {OBJECTIVE})"


def _by_class(title: str, objective: str, what: str, *causes: str) -> Panel:
    """p95 of one time by class, with exemplars, beside what each class was promised."""
    p95 = reached(0.95, rate(f"llm_span_{objective}_seconds_bucket", f"{_C}, le"))
    promised = of_target("llm_slo_threshold_seconds", "slo_class", match=f'objective="{objective}"')
    return Panel(
        Kind.LINES,
        title,
        "s",
        (
            Query("p95", BLUE, promql=p95, by=CLASS, exemplar=True),
            Query("promised", VERMILLION, promql=_while(promised, p95), by=_PROMISE, dashed=True),
        ),
        f"{what} A dot is one request: click it for its trace. It needs a Prometheus that keeps exemplars and a tracing data"
        " source.",
        NO_TRACES,
        causes=causes,
        moved=("chat",),
        width=12,
    )


REQUESTS = Row(
    "Requests, one by one: needs traces, or probes",
    (
        Panel(
            Kind.LINES,
            "Goodput by class, exact",
            "percentunit",
            (
                Query("goodput", BLUE, promql=GOODPUT, by=CLASS),
                Query("objective", VERMILLION, promql=_while(OBJECTIVE, GOODPUT), by=_PROMISE, dashed=True),
                q("slo_worst_goodput_ratio", "worst class, over the window", ORANGE, dashed=True),
                q("span_coverage_ratio", "told by traces", GREY, dashed=True),
            ),
            "Share of the requests that met every threshold of their class, counted one by one from traces, beside the"
            " objective of the class. Failed ones count against it where they leave a trace. 'told by traces' under 1"
            " means sampling or losses: the shares are then of what was told.",
            NO_TRACES,
            symptoms=("goodput-low",),
            causes=("unbounded-queue", "noisy-tenant"),
            moved=("chat",),
            top=1,
            width=12,
        ),
        Panel(
            Kind.LINES,
            "How fast a class uses up what may miss",
            "none",
            (
                Query("burn", ORANGE, promql=BURN, by=CLASS),
                q("slo_burn_peak", "fastest, over the window", VERMILLION, dashed=True),
            ),
            "Requests that missed over those that may miss: at 1 the objective of the class is just met, at 10 a month's"
            " share is gone in three days. The class that burns fastest is the one to look at first.",
            NO_TRACES,
            symptoms=("goodput-low",),
            causes=("unbounded-queue", "noisy-tenant"),
            moved=("chat",),
            width=12,
        ),
        Panel(
            Kind.STACK,
            "Where a request's time goes, by traces",
            "s",
            (
                total("span_queue_mean_seconds", "queue", ORANGE),
                total("span_prefill_mean_seconds", "prefill", SKY),
                total("span_decode_mean_seconds", "decode", BLUE),
                total("span_frontend_mean_seconds", "around the engine", PURPLE),
            ),
            "Mean seconds of a request by phase, each request's own. 'Around the engine' is the span of its caller less the"
            " engine's time: network, API process, and a gateway's own queue, none of which an engine's page holds whole.",
            NO_TRACES,
            causes=("kv-cache-saturation", "prefill-bound", "api-server-bound"),
            moved=("chat",),
        ),
        Panel(
            Kind.LINES,
            "Around the engine",
            "s",
            (
                q("span_frontend_mean_seconds", "mean", SKY),
                q("span_frontend_p95_seconds", "p95", PURPLE, dashed=True),
                q("probe_gap_seconds", "a probe's", GREY, dashed=True),
            ),
            "What callers waited beyond the engine's own time, request by request, and the same of a small request of our own."
            " Large while the engine's page is well: the API process is busy, or a gateway holds calls back.",
            "no traffic, or no caller's span is joined to an engine's and no probe was sent",
            causes=("api-server-bound",),
            moved=("chat",),
        ),
        Panel(
            Kind.LINES,
            "Probes from outside and the engine",
            "s",
            (
                q("probe_ttft_median_seconds", "probe, median", ORANGE),
                q("ttft_p50_seconds", "engine, median", BLUE),
                q("probe_failure_ratio", "probes without an answer", VERMILLION, dashed=True, unit="percentunit"),
            ),
            "The first token of a small request of our own, and what the engine says of its users' ones. A probe that is slow"
            " while the engine is quick: what lies in front of the engine. Probes that get no answer (right axis) while"
            " nobody asks: it does not serve.",
            "no traffic or no first token that is timed, and no probes (probe_seconds in the settings)",
            causes=("not-serving", "api-server-bound"),
            moved=("chat",),
        ),
        _by_class(
            "Time to first token by class, p95",
            "ttft",
            "First tokens of each class beside the threshold of that class, which is an edge of the histogram.",
            "kv-cache-saturation",
            "prefill-bound",
            "head-of-line-blocking",
        ),
        _by_class(
            "Time per output token by class, p95",
            "tpot",
            "Pace of tokens of each class after the first, request by request, beside the threshold of that class.",
            "batch-too-large",
            "prefill-decode-interference",
        ),
    ),
    collapsed=True,
)
