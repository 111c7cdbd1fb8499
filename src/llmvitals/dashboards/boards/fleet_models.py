"""The fleet model by model: what each serves and how well, whether its replicas share the load, and which of them are new."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import BY_MODEL as _M
from llmvitals.dashboards.boards.asked import MODEL, OFFERED, RECENT, SHOWN, asked, gauge, grown, over
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    INSTANCE,
    ORANGE,
    SKY,
    VERMILLION,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    of_target,
)

_BUILD = (*MODEL, "engine", "version")
_B = ", ".join(_BUILD)
POINTS = 120
"""Moments along the time axis at most where each asks about every replica, of which few are shown."""

YOUNGEST = 20
"""Lines of the table of young processes."""

TWO_REPLICAS = "no play has two replicas of one model"


def _of_model(legend: str, color: str, promql: str, *, dashed: bool = False, unit: str = "") -> Query:
    """A line for each model of each place; the legend names the model."""
    return asked(legend, color, promql, "model", dashed=dashed, unit=unit)


def _grown(counter: str) -> str:
    """By how much a counter of a model grew in the time shown, as a whole number."""
    return f"round({grown(counter, _M, span=SHOWN)})"


def _mean(histogram: str, span: str = SHOWN) -> str:
    """The mean of a histogram of a model, by default over the time shown."""
    return over(grown(f"{histogram}_sum", _M, span=span), grown(f"{histogram}_count", _M, span=span))


def _weighed(ratio: str) -> str:
    """A share of each replica's requests as one of the model's: each replica counts by the requests that it was given."""
    return over(
        f"sum by ({_M}) (<{ratio}> * on (instance, model) {OFFERED})",
        f"sum by ({_M}) ({OFFERED} and on (instance, model) <{ratio}>)",
    )


_ON = f"on ({_M})"
_INSIDE = "(<requests_running> + <requests_waiting>)"
_SEVERAL = f"and {_ON} (count by ({_M}) ({_INSIDE}) > 1)"
_UNEVEN = f"max by ({_M}) ({_INSIDE}) / clamp_min(quantile by ({_M}) (0.5, {_INSIDE}), 1) {_SEVERAL}"


def _apart(signal: str) -> str:
    """How far the replicas of a model are apart in a share."""
    return f"max by ({_M}) (<{signal}>) - min by ({_M}) (<{signal}>) {_SEVERAL}"


_INFO = f"on (instance) group_left (engine, version) topk by (instance) (1, llm_target_info{{{INSTANCE}}})"


def _by_build(agg: str, promql: str) -> str:
    """An aggregate over the replicas of a model by what they run; ``promql`` is a number of each replica."""
    return f"{agg} by ({_B}) ({promql} * {_INFO})"


IS_HURT = gauge("llm_triage_hurt", agg="max")
"""1 for a service whose users are hurt, else 0."""

_REPLICAS = _by_build("count", "<requests_running>")


MODELS = Row(
    "Model by model: what is served, how well, and what it would take to scale",
    (
        Panel(
            Kind.TABLE,
            "Models in the time shown",
            "none",
            (
                cell("Requests", "none", promql=_grown("llm_requests_finished_total"), by=MODEL),
                cell("Prompt tokens", "suffix: tok", promql=_grown("llm_prompt_tokens_total"), by=MODEL),
                cell("Generated", "suffix: tok", promql=_grown("llm_generation_tokens_total"), by=MODEL),
                cell(
                    "TTFT, mean",
                    "s",
                    promql=_mean("llm_request_ttft_seconds"),
                    by=MODEL,
                    limits=(Limit("slo.ttft_seconds"),),
                ),
                cell("Queue, mean", "s", promql=_mean("llm_request_queue_seconds"), by=MODEL),
                cell("Whole, mean", "s", promql=_mean("llm_request_e2e_seconds"), by=MODEL),
            ),
            "What each model did from the left edge of the time shown to the right one, all its replicas together: sums of what"
            " counters grew by, restarts made up for, and means of what finished. A mean TTFT above {slo.ttft_seconds:g} s is"
            " red: that is what p95 was promised.",
            "no engine's counters for this selection",
            symptoms=("throughput-fell",),
            moved=("chat", "busy"),
            worst="Requests",
            width=12,
        ),
        Panel(
            Kind.TABLE,
            "Versions side by side",
            "none",
            (
                cell(
                    "Versions of this model",
                    "none",
                    promql=f"max by ({_B}) (0 * {_REPLICAS} + {_ON} group_left () count by ({_M}) ({_REPLICAS}))",
                    by=_BUILD,
                ),
                cell("Replicas", "none", promql=_REPLICAS, by=_BUILD),
                cell(
                    "Generated, each", "suffix: tok/s", promql=_by_build("avg", "<generation_tokens_rate>"), by=_BUILD
                ),
                cell("Running, each", "none", promql=_by_build("avg", "<requests_running>"), by=_BUILD),
                cell("Waiting, each", "none", promql=_by_build("avg", "<requests_waiting>"), by=_BUILD),
                cell("Users hurt", "none", promql=_by_build("sum", IS_HURT), by=_BUILD),
            ),
            "What the replicas of a model run, as their pages show it (the version, or the range of versions that has such pages),"
            " and how each of them fares on average now. More than one line for a model: a rollout is under way, or was left half"
            " done; a line that generates less while more wait in it is the version to go back from.",
            "no engine answers for this selection",
            causes=("rollout-and-probes",),
            moved=("chat", "busy"),
            worst="Versions of this model",
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Tokens per second, model by model",
            "suffix: tok/s",
            (
                _of_model("generated", BLUE, f"sum by ({_M}) (<generation_tokens_rate>)"),
                _of_model("prompt", SKY, f"sum by ({_M}) (<prompt_tokens_rate>)", dashed=True),
            ),
            "What all replicas of a model take in and give out. A fall at an unchanged number of replicas and of waiting requests:"
            " the engines became slower. A fall of prompt and generated tokens together with nobody waiting: less was asked for.",
            "no engine's counters for this selection",
            symptoms=("throughput-fell",),
            causes=("batch-too-large", "prefill-bound"),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Goodput, model by model",
            "percentunit",
            (
                _of_model("at least", BLUE, _weighed("goodput_low_ratio")),
                _of_model("at most", SKY, _weighed("goodput_high_ratio"), dashed=True),
                _of_model("exact, by traces", GREEN, _weighed("slo_goodput_ratio")),
            ),
            "Share of a model's requests that met both promises (first token {slo.ttft_seconds:g} s, pace {slo.tpot_seconds:g} s),"
            " between two bounds; each replica counts by the requests that it was given. Where traces tell every request it is"
            " exact, each request held to its own class. The line is the objective, {slo.objective:g}: 'at most' below it means"
            " that the promise is surely broken for this model.",
            "no traffic, too many requests in flight to say, or times that no engine here shows",
            symptoms=("users-hurt", "goodput-low"),
            causes=("batch-too-large", "unbounded-queue"),
            moved=("chat", "busy"),
            limits=(Limit("slo.objective"),),
            top=1,
            width=12,
            points=POINTS,
        ),
        Panel(
            Kind.LINES,
            "What to scale on",
            "s",
            (
                _of_model("a newcomer waits", ORANGE, f"max by ({_M}) (<wait_ahead_seconds>)"),
                _of_model("waited, mean", VERMILLION, _mean("llm_request_queue_seconds", RECENT), dashed=True),
                _of_model("waiting per replica", GREY, f"avg by ({_M}) (<requests_waiting>)", dashed=True, unit="none"),
            ),
            "What an autoscaler should see: the wait that lies ahead of a request that comes now, on the worst replica (live), what"
            " finished ones had waited, and requests waiting for each replica (right axis). The line is the promise for the first"
            " token, {slo.ttft_seconds:g} s. GPU utilisation is not here: it is high in health and in trouble alike.",
            "no engine shows its queue for this selection",
            causes=("unbounded-queue", "cold-start", "batch-too-small"),
            limits=(Limit("slo.ttft_seconds"),),
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Replicas, model by model",
            "none",
            (
                _of_model("answer", GREEN, f"count by ({_M}) ({gauge('llm_requests_running', agg='max')})"),
                _of_model(
                    "ready",
                    BLUE,
                    f"sum by ({_M}) (0 * <requests_running> + on (instance) group_left ()"
                    f" {of_target('llm_host_ready', agg='min')})",
                    dashed=True,
                ),
                _of_model("users hurt", VERMILLION, f"sum by ({_M}) ({IS_HURT})", dashed=True),
            ),
            "Servers that give a page and serve this model, those of them whose pods are ready (where the exporter reads pods), and"
            " scopes in which users are hurt. Answering but not ready: a probe or a rollout keeps traffic from one that works.",
            "no engine answers for this selection",
            symptoms=("target-gone",),
            causes=("rollout-and-probes", "cold-start", "not-serving"),
            width=12,
            points=POINTS,
        ),
    ),
)

_BEGAN = f"({of_target('llm_process_start_time_seconds')} or {of_target('llm_host_started_time_seconds')})"
_YOUNG = f"bottomk({YOUNGEST}, time() - {_BEGAN})"
_OF_THE_YOUNG = f"and on (instance) {_YOUNG}"
_TARGET = ("instance",)

REPLICAS = Row(
    "Replica by replica: who is out of line, and who is new",
    (
        Panel(
            Kind.TABLE,
            "Do the replicas of a model share the load?",
            "none",
            (
                cell("Busiest over median", "none", promql=_UNEVEN, by=MODEL),
                cell(
                    "It holds",
                    "none",
                    promql=f"topk by ({_M}) (1, {_INSIDE} > 0) {_SEVERAL}",
                    by=("model", "instance"),
                ),
                cell("Replicas", "none", promql=f"count by ({_M}) ({_INSIDE})", by=MODEL),
                cell("KV apart by", "percentunit", promql=_apart("kv_usage_ratio"), by=MODEL),
                cell("Prefix hits apart by", "percentunit", promql=_apart("prefix_hit_ratio"), by=MODEL),
            ),
            "Requests inside the busiest replica of a model over those inside the median one (1 at least), and which"
            " one that is. Near 1: the load is shared. 2 and more (of two replicas it is 2 at most) while requests wait: the router"
            " sends too many there, or that one is slower than its peers. KV and prefix hits far apart at an even load: the router"
            " keeps prefixes together, which is meant, or one replica's cache was lost.",
            "no engine answers for this selection",
            apart=TWO_REPLICAS,
            worst="Busiest over median",
            width=12,
        ),
        Panel(
            Kind.LINES,
            "Busiest replica over the median one",
            "suffix: x",
            (_of_model("busiest over median", ORANGE, _UNEVEN),),
            "The same over time, for models with several replicas. Short peaks are how routers work. A step that stays began with"
            " what changed then: a replica that came or went, a version, a router's setting.",
            "no model here has several replicas that answer",
            apart=TWO_REPLICAS,
            width=12,
            points=POINTS,
        ),
        Panel(
            Kind.TABLE,
            "Youngest processes: restarts and cold starts",
            "none",
            (
                cell("Up for", "s", promql=_YOUNG, by=_TARGET),
                cell(
                    "Restarts in this time",
                    "none",
                    promql=f"max by (instance) (changes(llm_process_start_time_seconds{{{INSTANCE}}}[$__range]))"
                    f" unless on (instance) (<processes_behind> > 1) {_OF_THE_YOUNG}",
                    by=_TARGET,
                ),
                cell(
                    "Ended by its host",
                    "none",
                    promql="topk by (instance) (1, sum by (instance, reason)"
                    f" (round(increase(llm_host_restarts_total{{{INSTANCE}}}[$__range]))) > 0) {_OF_THE_YOUNG}",
                    by=("instance", "reason"),
                ),
                cell(
                    "Took until ready",
                    "s",
                    promql=f"max by (instance) (llm_host_ready_time_seconds{{{INSTANCE}}}"
                    f" - llm_host_started_time_seconds{{{INSTANCE}}}) >= 0 {_OF_THE_YOUNG}",
                    by=_TARGET,
                ),
            ),
            f"The {YOUNGEST} servers whose process began last, how often it began anew in the time shown, what most often ended its"
            " container, and how long the newest start took until the pod was ready (both where the exporter reads pods). Several"
            " that are equally young: a rollout or a node. A start that takes longer than load takes to come needs a warm replica.",
            "no server says when its process began",
            causes=("cold-start", "rollout-and-probes"),
            moved=("chat",),
            worst="-Up for",
            width=24,
            leads=Leads.SERVICE,
        ),
    ),
)
