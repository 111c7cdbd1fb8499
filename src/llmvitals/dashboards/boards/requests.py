"""The row of requests told one by one: classes and what they were promised, where their time went, probes, tenants."""

from __future__ import annotations

from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    NO_TRAFFIC,
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
    q,
    total,
)

NO_TRACES = "no traces: let engines or gateways send theirs to the exporter"
CLASS = ("instance", "model", "slo_class", "vantage")
_PROMISE = ("instance", "slo_class")


def _ended(met: str) -> str:
    """Requests of a class per second that could be judged, by whether they met their promise (a label match)."""
    return f'sum by ({", ".join(CLASS)}) (rate(llm_slo_requests_total{{met=~"{met}",{SELECTOR}}}[{WINDOW}]))'


GOODPUT = f"{_ended('yes')} / ({_ended('yes|no')} > 0)"


def _promise(family: str, match: str = "") -> str:
    """What a class was promised; its series name no model."""
    return f"max by ({', '.join(_PROMISE)}) ({family}{{{match}{SELECTOR}}})"


OBJECTIVE = _promise("llm_slo_objective_ratio")
BURN = f"(1 - {GOODPUT}) / on (instance, slo_class) group_left () (1 - {OBJECTIVE})"
BUCKETS = f"sum by ({', '.join((*CLASS, 'le'))}) (rate(llm_span_ttft_seconds_bucket{{{SELECTOR}}}[{WINDOW}]))"
TENANTS = f"sum by (instance, model, tenant) (rate(llm_gateway_tokens_total{{{SELECTOR}}}[{WINDOW}]))"

REQUESTS = Row(
    "Requests, one by one",
    (
        Panel(
            Kind.LINES,
            "Goodput by class, exact",
            "percentunit",
            (
                Query("goodput", BLUE, promql=GOODPUT, by=CLASS),
                Query("objective", VERMILLION, promql=OBJECTIVE, by=_PROMISE, dashed=True),
                q("slo_worst_goodput_ratio", "worst class, over the window", ORANGE, dashed=True),
                q("span_coverage_ratio", "told by traces", GREY, dashed=True),
            ),
            "Share of the requests that met every threshold of their class, counted one by one from traces, beside the"
            " objective of the class. Failed ones count against it where they leave a trace. 'told by traces' under 1"
            " means sampling or losses: the shares are then of what was told.",
            NO_TRACES,
            symptoms=("goodput-low",),
            causes=("unbounded-queue", "noisy-tenant"),
            top=1,
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
            "no caller's span is joined to an engine's, and no probe was",
            causes=("api-server-bound",),
        ),
        Panel(
            Kind.LINES,
            "Time to first token by class, p95",
            "s",
            (
                Query("p95", BLUE, promql=f"histogram_quantile(0.95, {BUCKETS}) >= 0", by=CLASS, exemplar=True),
                Query(
                    "promised",
                    VERMILLION,
                    promql=_promise("llm_slo_threshold_seconds", 'objective="ttft",'),
                    by=_PROMISE,
                    dashed=True,
                ),
            ),
            "First tokens of each class beside the threshold of that class, which is an edge of the histogram. A dot is one"
            " request: click it for its trace. It needs a Prometheus that keeps exemplars and a tracing data source.",
            NO_TRACES,
            causes=("kv-cache-saturation", "prefill-bound", "head-of-line-blocking"),
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
            "no probes (probe_seconds in the settings), and no traffic",
            causes=("not-serving", "api-server-bound"),
        ),
        Panel(
            Kind.LINES,
            "Tokens by tenant",
            "suffix: tok/s",
            (Query("tokens", GREEN, promql=TENANTS, by=("instance", "model", "tenant")),),
            "Prompt and generated tokens of each tenant per second, as the gateway counts them; 'other' is all tenants that it"
            " does not list. One line far above the rest while they wait: a quota for that one.",
            f"no gateway that counts tenants, or {NO_TRAFFIC}",
            causes=("noisy-tenant", "runaway-agent"),
        ),
    ),
    collapsed=True,
)
