"""What calls ask for: how many one request of a user makes, sessions that run away, and what was asked and answered before."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import asked, gauge, over, rate
from llmvitals.dashboards.model import BLUE, GREY, ORANGE, PURPLE, SKY, VERMILLION, Kind, Panel, Row, q

_CAME = "llm_gateway_calls_total"
_SEMANTIC = "llm_gateway_semantic_cache"

FAN_OUT = Panel(
    Kind.LINES,
    "Model calls for one request of a user",
    "none",
    (
        q("calls_per_user_request", "calls", ORANGE),
        q("planned_calls", "planned", GREY, dashed=True),
    ),
    "Calls that came in for each request of a user, retries left out, beside how many were planned (15 where the gateway knows"
    " of no plan, the most of an agent as a rule). Above its plan: load grows though users do not. Cap the calls of one"
    " request, or make them one after another.",
    "no gateway that knows which calls serve one request is joined to this target",
    causes=("fan-out",),
    moved=("chat",),
    width=12,
)

SESSIONS = Panel(
    Kind.LINES,
    "Calls of one session in a minute",
    "none",
    (
        q("session_calls_peak", "busiest session", VERMILLION),
        asked("median session", SKY, gauge("llm_gateway_session_calls_median", agg="max")),
        q("session_call_limit", "five times the median, 10 at least", GREY, dashed=True),
        q("session_repeats_peak", "the same tool, same arguments", ORANGE, dashed=True),
    ),
    "The busiest session beside the median one, and the most often that one session repeated a tool with the same arguments. Far"
    " above the dashed line with repeats: an agent goes in circles; stop it by steps, by repeats and by tokens. Far above it"
    " without repeats: a batch job, which belongs into a queue of its own.",
    "no gateway that knows sessions is joined to this target",
    causes=("runaway-agent",),
    moved=("chat", "batch-job"),
    width=12,
)

REPEATS = Panel(
    Kind.LINES,
    "Asked before, word for word",
    "percentunit",
    (
        q("uncached_repeat_ratio", "asked before and computed again", ORANGE),
        q("response_cache_hit_ratio", "of repeats, answered by the cache", BLUE, dashed=True),
        asked("answered by the cache", SKY, over(rate("llm_gateway_cache_hits_total"), rate(_CAME))),
    ),
    "Calls that equal an earlier one and were computed again, those that the gateway's response cache answered, and how many of the"
    " repeats it caught. Many repeats and no hits: a cache in the gateway would answer them for nothing; for answers that may be"
    " shared, and not for personal ones.",
    "no traffic, or the gateway does not look at what calls ask",
    causes=("uncached-repeats",),
    moved=("chat", "without-uncached-repeats"),
    width=12,
)

PREFIX = Panel(
    Kind.LINES,
    "Shared prefixes: what could hit, and what hits",
    "percentunit",
    (
        q("shared_prefix_ratio", "shared, by the gateway", ORANGE),
        q("prefix_hit_ratio", "found in the engine's cache", BLUE),
        asked(
            "gap",
            PURPLE,
            "clamp_min(<shared_prefix_ratio> - on (instance, model) <prefix_hit_ratio>, 0)",
            dashed=True,
        ),
    ),
    "Share of the prompt tokens that lie in text which earlier prompts share, whatever varies set aside, beside the share that the"
    " engine's prefix cache found. A gap: prompts begin with what differs (a date, a name), requests with one prefix go to"
    " different replicas, the cache is too small, or caching is off. Both low: nothing is shared, and no cache helps.",
    "no traffic, or neither gateway nor engine looks at prefixes",
    causes=("prefix-cache-miss", "prefix-caching-off"),
    moved=("chat", "prefix-hits"),
    width=12,
)

WANTS = Row("What is asked for", (FAN_OUT, SESSIONS, REPEATS, PREFIX))

SEMANTIC = Panel(
    Kind.LINES,
    "Answered from a similar prompt, and wrongly so",
    "percentunit",
    (
        asked("answered from a similar prompt", BLUE, over(rate(f"{_SEMANTIC}_hits_total"), rate(_CAME))),
        asked(
            "wrong, of those checked",
            VERMILLION,
            over(rate(f"{_SEMANTIC}_wrong_total"), rate(f"{_SEMANTIC}_checked_total")),
        ),
    ),
    "Calls that the semantic cache answered, and how many of those that somebody checked did not fit the prompt. A wrong answer is"
    " quick and looks well on every other panel: raise the similarity that it asks for before the hit rate.",
    "no traffic, or not exported: the gateway has no semantic cache, or nobody checks it",
    apart="the lab's gateway has no semantic cache",
    width=12,
)

SMALL = Panel(
    Kind.LINES,
    "Sent to the small model",
    "percentunit",
    (asked("of the calls", SKY, over(rate("llm_gateway_small_model_calls_total"), rate(_CAME))),),
    "Calls that the gateway sent to the small model instead of the large one. It falls while the large one is full: the router no"
    " longer finds prompts that are easy enough, or its own model is down.",
    "no traffic, or not exported: the gateway does not choose between models",
    apart="the lab's gateway has one model",
    width=12,
)

SIMILAR = Row("Answers by meaning, and a small model: needs a gateway that has them", (SEMANTIC, SMALL), collapsed=True)
