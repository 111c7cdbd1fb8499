"""The board of the fleet: a line for each service, worst first, and where each of them has lost its time.

What is asked of every replica is asked as it is now; over time only those are drawn that were not well, at most so many that a
person can read them, chosen once for the whole time that is shown. So the board stays cheap where there are a thousand.
"""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import gauge
from llmvitals.dashboards.boards.fleet_models import IS_HURT, MODELS, POINTS, REPLICAS
from llmvitals.dashboards.boards.hardware import PLACED, UNPLACED
from llmvitals.dashboards.boards.verdict import LEADING
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    NO_EXPORTER,
    ORANGE,
    PURPLE,
    SELECTOR,
    SKY,
    VERMILLION,
    Board,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    of_target,
)
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.verdict import Outcome, Resource

DRAWN = 30
"""Lines of a timeline at most: those that were not well for the longest."""

SLOWEST = 10
"""Services whose time is told phase by phase."""

LAYERS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (1, "user experience", (0,)),
    (2, "queue and admission", (5, 6)),
    (3, "engine and hardware", (1, 2, 3, 4, 7)),
)
"""The three layers, each with the steps of the table of checks whose causes lie in it. What holds requests up before the
engine (the process in front, demand) is of the queue's layer.
"""

_QUEUE_LAYER, _ENGINE_LAYER = 2, 3
_BY_TIME = 10  # what is added to a layer that no cause names, only the time that it takes

VERDICTS: tuple[tuple[Outcome, int, str, str], ...] = (
    (Outcome.NO_TRAFFIC, 0, "no traffic", GREY),
    (Outcome.HEALTHY, 1, "healthy", GREEN),
    (Outcome.UNDETERMINED, 2, "undetermined", PURPLE),
    (Outcome.SHEDDING, 3, "load is refused", ORANGE),
    (Outcome.CAUSE, 4, "cause found", VERMILLION),
)
"""What the triage may say, from the best to the worst, with its number, words and colour."""

_HURT = len(VERDICTS)  # what is added while users are hurt: that comes first, whatever else is known

WALLS: tuple[tuple[Resource, int, str, str], ...] = (
    (Resource.NOTHING, 0, "nothing binds", GREEN),
    (Resource.UNKNOWN, 1, "not known", GREY),
    (Resource.SEATS, 2, "seats", SKY),
    (Resource.KV, 3, "KV memory", ORANGE),
    (Resource.BANDWIDTH, 4, "bandwidth", PURPLE),
    (Resource.COMPUTE, 5, "compute", BLUE),
)
"""What may keep more work out, with its number, words and colour."""


def causes_of(layer: int) -> str:
    """The causes of a layer as a regular expression."""
    steps = next(steps for number, _, steps in LAYERS if number == layer)
    return "|".join(check.cause for check in CHECKS if check.step in steps)


def _is(outcome: Outcome) -> str:
    """1 for a service with this verdict, 0 for one with another."""
    return gauge("llm_triage_verdict", agg="max", match=f'verdict="{outcome.value}"')


RANK = " + ".join(
    (f"{_HURT} * {IS_HURT}", *(f"{number} * {_is(outcome)}" for outcome, number, _, _ in VERDICTS if number))
)
"""How bad it is: the number of the verdict, and more than any of them while users are hurt."""

_RANKS = tuple(
    (number + more, f"{words}{also}", color)
    for more, also in ((0, ""), (_HURT, ", users are hurt"))
    for _, number, words, color in VERDICTS
)


def _of_layer(layer: int, match: str) -> str:
    return f"{layer} + 0 * max by (instance, model) ({match} > 0)"


_LAYER = " or ".join(
    (
        *(_of_layer(n, f'llm_triage_leading{{cause=~"{causes_of(n)}",{SELECTOR}}}') for n, _, _ in LAYERS),
        _of_layer(_QUEUE_LAYER, f'llm_triage_verdict{{verdict="{Outcome.SHEDDING.value}",{SELECTOR}}}'),
        # engine time holds most, or queue time does
        f"{_ENGINE_LAYER + _BY_TIME} - (<queue_share_ratio> > bool 0.5)",
    )
)
_LAYER_NAMES = (
    *((number, words, VERMILLION) for number, words, _ in LAYERS),
    (_QUEUE_LAYER + _BY_TIME, "most time: queue", GREY),
    (_ENGINE_LAYER + _BY_TIME, "most time: engine", GREY),
)

COUNTS = Panel(
    Kind.STAT,
    "Services by verdict",
    "none",
    (
        Query("users are hurt", VERMILLION, promql=f"sum by () ({IS_HURT})", by=(), dashed=True),
        *(
            Query(words, color, promql=f"sum by () ({_is(outcome)})", by=())
            for outcome, _, words, color in reversed(VERDICTS)
        ),
    ),
    "How many services the triage calls what, right now, and in how many of them users are hurt: more requests miss their"
    " promise than chance explains. Each model of each server is one; a service of several engines is one more.",
    NO_EXPORTER,
    symptoms=("users-hurt", "half-blind"),
    moved=("chat", "kv-cache-saturation"),
    width=14,
    height=5,
)

TARGETS = Panel(
    Kind.STAT,
    "Targets: expected, scraped, answering",
    "none",
    (
        Query("expected", GREY, promql="sum by () (max by (instance) (llmvitals_targets))", by=()),
        Query("scraped", SKY, promql=f"count by () ({of_target('llm_target_up')})", by=()),
        Query("answering", GREEN, promql=f"sum by () ({of_target('llm_target_up')})", by=()),
    ),
    "Targets that exporters are told to watch (all of them, whatever is chosen above), those whose state is in this"
    " Prometheus, and those of these that give a readable page. Fewer scraped than expected: an exporter's page does not"
    " come whole. More, and all are there: two exporters watch the same ones. Fewer answering than scraped: servers are down.",
    NO_EXPORTER,
    symptoms=("target-gone", "nobody-watches"),
    causes=("not-serving",),
    apart="no play runs an exporter that says how many targets it watches",
    width=10,
    height=5,
)

SERVICES = Panel(
    Kind.TABLE,
    "Which service is not well, in which layer, and of what?",
    "none",
    (
        cell("Verdict", "none", promql=RANK, names=_RANKS),
        cell("Worst layer", "none", promql=_LAYER, names=_LAYER_NAMES),
        cell(
            "Confidence",
            "percentunit",
            promql=LEADING,
            by=("instance", "model", "cause"),
        ),
        cell("Goodput, at least", "percentunit", signal="goodput_low_ratio", limits=(Limit("slo.objective", GREEN),)),
        cell("At most", "percentunit", signal="goodput_high_ratio", limits=(Limit("slo.objective", GREEN),)),
        cell("TTFT p95", "s", signal="ttft_p95_seconds", limits=(Limit("slo.ttft_seconds"),)),
        cell("Waiting", "none", signal="requests_waiting"),
        cell("Queue share", "percentunit", signal="queue_share_ratio"),
        cell("KV high", "percentunit", signal="kv_usage_high_ratio", limits=(Limit("thresholds.kv_lines", ORANGE),)),
        cell(
            "SM active",
            "percentunit",
            promql="0 * <requests_running> + on (instance) group_left () <gpu_sm_active_mean_ratio>",
        ),
        cell(
            "Preempted/min",
            "none",
            signal="preemptions_per_minute",
            limits=(Limit("thresholds.preemptions_per_minute"),),
        ),
    ),
    "One line for each service, worst first. The layer is the leading cause's, or, in grey, the one that holds most of the time of"
    " finished requests. Goodput is an interval, green from {slo.objective:g} on; TTFT is red from {slo.ttft_seconds:g} s, KV"
    " orange from {thresholds.kv_lines[0]:g}, which is fine while nobody waits, preemptions red from"
    " {thresholds.preemptions_per_minute:g} a minute. A dash: there is no such number; lines of whole services hold only what is"
    " told of them as a whole. Click a line for its board.",
    NO_EXPORTER,
    symptoms=("users-hurt",),
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "unbounded-queue"),
    moved=("chat", "idle"),
    worst="Verdict",
    width=24,
    height=11,
    leads=Leads.SERVICE,
)


def _at(wall: Resource) -> str:
    """1 for a service at this wall, 0 for one at another."""
    return gauge("llm_binding", agg="max", match=f'resource="{wall.value}"')


def _longest(series: str) -> str:
    """The scopes for which one of a kind of series stood at 1 for the longest in the time shown, the same at every moment."""
    held = f"sum by (instance, model) (sum_over_time({series}[$__range] @ end()))"
    return f"and on (instance, model) topk({DRAWN}, {held} > 0)"


_NOT_WELL = "|".join(o.value for o, _, _, _ in VERDICTS if o not in (Outcome.HEALTHY, Outcome.NO_TRAFFIC))

OVER_TIME = Panel(
    Kind.TIMELINE,
    "Verdicts over time, of those that were not well",
    "none",
    (
        Query(
            "",
            VERMILLION,
            promql=f'({RANK}) {_longest(f"""llm_triage_verdict{{verdict=~"{_NOT_WELL}",{SELECTOR}}}""")}',
            names=_RANKS,
        ),
    ),
    f"A line for each service that was not well in the time shown, the {DRAWN} that were so for the longest. Begin with the one"
    " that began first: what shares a gateway, a node or a rollout with it often follows. Click one for its board.",
    "every service was healthy or idle in this time, or the exporter is not scraped",
    symptoms=("users-hurt",),
    causes=("kv-cache-saturation", "preemption-thrash", "not-serving"),
    width=24,
    height=8,
    leads=Leads.SERVICE,
    points=POINTS,
)

BINDING = Panel(
    Kind.TIMELINE,
    "Which wall is each replica at?",
    "none",
    (
        Query(
            "",
            BLUE,
            promql="("
            + " + ".join(f"{number} * {_at(resource)}" for resource, number, _, _ in WALLS if number)
            + f') {_longest(f"""llm_binding{{resource!="{Resource.NOTHING.value}",{SELECTOR}}}""")}',
            names=tuple((number, words, color) for _, number, words, color in WALLS),
        ),
    ),
    "What keeps more work out, moment by moment: KV memory, seats (max_num_seqs), compute, or bandwidth (of the memory, or of"
    f" the links between GPUs). The {DRAWN} that were at one for the longest. Not known: work is late or waits, and what would"
    " settle it is not seen, mostly profiling counters of the GPU; the triage says which.",
    "nothing kept work out of any replica in this time, or the exporter is not scraped",
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "interconnect-bound"),
    width=24,
    height=8,
    leads=Leads.SERVICE,
    points=POINTS,
)

_SLOWEST = f"topk({SLOWEST}, <e2e_mean_seconds>)"


def _phase(column: str, signal: str) -> Query:
    return cell(column, "s", promql=f"<{signal}> and on (instance, model) {_SLOWEST}")


PHASES = Panel(
    Kind.TABLE,
    "Where the slowest services spend their time",
    "s",
    (
        cell("Whole request", "s", promql=_SLOWEST),
        _phase("Queue", "queue_mean_seconds"),
        _phase("Prefill", "prefill_mean_seconds"),
        _phase("Decode", "decode_mean_seconds"),
        _phase("Front end", "frontend_residual_seconds"),
    ),
    f"Mean seconds of a finished request by phase, of the {SLOWEST} services that take the longest now. Most of it in the queue is"
    " an admission or capacity problem, in prefill or decode one of the engine, in the front end one of the process before it."
    " Decode follows the length of answers: compare services of one model. A dash: that engine does not time it. The service's own"
    " board stacks them over time.",
    "no traffic, or no engine here times whole requests",
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "api-server-bound"),
    worst="Whole request",
    width=12,
    height=11,
    leads=Leads.SERVICE,
)

_OF_RANK = f"llm_kv_capacity_tokens{{{SELECTOR}}} * (1 - llm_kv_usage_ratio{{{SELECTOR}}})"
_FREE = f"sum by (instance, model) ({_OF_RANK})"
_EACH = "on (instance, model) group_left () (<mean_context_tokens> > 0)"
_FITS = f"sum by (instance, model) (floor({_OF_RANK} / {_EACH}))"  # a request lies in one rank's pool
TIGHTEST = 20
_TIGHT = f"bottomk({TIGHTEST}, {_FITS})"
_FULL = (
    f"min by (instance, model) ((1 - llm_kv_usage_ratio{{{SELECTOR}}})"
    f" / (deriv(llm_kv_usage_ratio{{{SELECTOR}}}[$__range]) > 0))"  # of the rank that is full first
)
_FAR = 3600  # seconds: what the growth of minutes says about more than an hour is nothing

ROOM = Panel(
    Kind.TABLE,
    "Room left: how many more requests fit?",
    "none",
    (
        cell("More requests", "none", promql=_TIGHT),
        cell("Waiting now", "none", promql=f"<requests_waiting> and on (instance, model) {_TIGHT}"),
        cell("Free KV", "suffix: tok", promql=f"{_FREE} and on (instance, model) {_TIGHT}"),
        cell(
            "Full in",
            "s",
            promql=f"{_FULL} < {_FAR} and on (instance, model) {_TIGHT}",
        ),
    ),
    f"The {TIGHTEST} replicas with the least room: free KV tokens over the mean tokens that a request holds while it runs"
    " (estimate), so many more of today's requests fit. Fewer than wait: they wait for memory. Full in: at the growth of KV usage"
    " over the time shown, and only where that is within the hour; KV that goes up and down with its load has none.",
    "no traffic, or no engine tells the size of its KV pool",
    causes=("kv-cache-saturation", "preemption-thrash"),
    worst="-More requests",
    width=12,
    height=11,
    leads=Leads.SERVICE,
)

BOARD = Board(
    uid="llmvitals-fleet",
    file="dashboards/fleet.json",
    title="LLM fleet",
    description="Which service is not well, in which layer, and of what: a line for each, worst first.",
    rows=(
        Row("", (COUNTS, TARGETS, SERVICES, OVER_TIME)),
        Row("Memory or compute: what binds, and what room is left", (PLACED, UNPLACED, BINDING, PHASES, ROOM)),
        MODELS,
        REPLICAS,
    ),
)
