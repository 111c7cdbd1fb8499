"""The row of time: where that of a request goes, and whose the wait for its first token is."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, mean, over, rate
from llmvitals.dashboards.boards.phases import bands
from llmvitals.dashboards.model import GREY, ORANGE, PURPLE, SKY, Kind, Panel, Row, q

_TOLD = f"({rate('llm_request_prefill_seconds_count')} > 0)"


def _of_those_who_tell(family: str) -> str:
    """The mean over replicas that time their prefill: of others no band but the queue's would be known."""
    total, count = (
        f"sum by () ({rate(f'{family}_{part}')} and on (instance, model) {_TOLD})" for part in ("sum", "count")
    )
    return over(total, count)


_TTFT = _of_those_who_tell("llm_request_ttft_seconds")
_GATEWAY = mean("llm_gateway_ttft_seconds", "")
_QUEUE = _of_those_who_tell("llm_request_queue_seconds")
_PREFILL = _of_those_who_tell("llm_request_prefill_seconds")

TIME = Panel(
    Kind.STACK,
    "Where a request spends its time",
    "s",
    bands("outside queue and engine"),
    "Mean seconds of a finished request by phase, over everything selected; the bands add up to its whole time. Only means"
    " add up: the p95 of one phase is not that of another's request. Outside: what the engine's own clocks leave unexplained, as"
    " API process, tokenizer, hand-over. Not told apart: time of engines that time no phases. Preempted time shows as decode.",
    "no traffic, or no engine here times whole requests",
    causes=("kv-cache-saturation", "batch-too-small", "prefill-bound", "api-server-bound"),
    moved=("chat",),
)

WHOSE = Panel(
    Kind.STACK,
    "Whose time is the wait for the first token",
    "s",
    (
        all_of("gateway and network", GREY, f"{_GATEWAY} - {_TTFT} >= 0"),
        all_of("front end and scheduling", PURPLE, f"{_TTFT} - {_QUEUE} - {_PREFILL} >= 0"),
        all_of("engine's queue", ORANGE, _QUEUE),
        all_of("prefill", SKY, _PREFILL),
    ),
    "Mean wait for a first token from the gateway's clock inwards, over everything selected and one window: what the gateway"
    " saw beyond the engine, what the engine's own TTFT has beyond queue and prefill, and those two. First tokens are counted as"
    " they come, phases when a request ends: where that makes a band negative it is left out. Retries, and gateways in front of"
    " other engines, are in the gateway's. Engines that do not time prefill are left out.",
    "no traffic, or no engine here times its prefill",
    causes=("unbounded-queue", "prefill-bound", "api-server-bound"),
    moved=("chat",),
)

UNSEEN = Panel(
    Kind.LINES,
    "Part of that wait that the engine never saw",
    "percentunit",
    (
        q("residual_share_ratio", "by the engine's page", PURPLE),
        q("span_frontend_share_ratio", "by traces", GREY, dashed=True),
    ),
    "What lies around queue and engine, as a share of the wait for a first token: by the means of the page, and request by"
    " request where traces tell. High: more GPUs and other batch limits change nothing; look at the API process, its CPU, and"
    " what stands in front.",
    "no traffic, or neither the page nor traces tell it",
    causes=("api-server-bound",),
    moved=("chat",),
)

TIMES = Row("Where the time goes", (TIME, WHOSE, UNSEEN))
