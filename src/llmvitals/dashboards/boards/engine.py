"""The board of the engine: KV cache, seats, preemption, prefixes, steps, drafts, adapters, and KV that moves."""

from __future__ import annotations

from llmvitals.dashboards.boards.hardware import PLACED, UNPLACED
from llmvitals.dashboards.model import (
    BLUE,
    GREEN,
    GREY,
    NO_TRAFFIC,
    ORANGE,
    SKY,
    VERMILLION,
    Board,
    Kind,
    Limit,
    Panel,
    Row,
    q,
)

SEATS = Panel(
    Kind.LINES,
    "Seats: how many contexts fit",
    "none",
    (
        q("seats", "seats", GREEN),
        q("requests_running", "running", BLUE),
        q("mean_context_tokens", "mean context", GREY, dashed=True, unit="suffix: tok"),
    ),
    "KV tokens divided by the mean resident context (right axis), next to the requests running. Running above"
    " the seats: preemption is near, set max_num_seqs to the seats. Running far below with requests waiting:"
    " the batch limits bind.",
    "no traffic, or no capacity on this page",
    causes=("preemption-thrash", "batch-too-small", "context-imbalance"),
)

PREEMPTIONS = Panel(
    Kind.LINES,
    "Preemptions",
    "suffix: /min",
    (
        q("preemptions_per_minute", "per minute", VERMILLION),
        q("preemptions_per_completion", "per finished request", ORANGE, dashed=True, unit="none"),
    ),
    "Running requests evicted to make room; each is computed anew. The line is"
    " {thresholds.preemptions_per_minute:g} a minute. Above {thresholds.preemptions_per_completion:g} per"
    " finished request (right axis) the engine works against itself: admit fewer.",
    "no preemption counter on this page",
    causes=("preemption-thrash", "preemption-mode"),
    limits=(Limit("thresholds.preemptions_per_minute"),),
)

PREFIX = Panel(
    Kind.LINES,
    "Prefix cache",
    "percentunit",
    (
        q("prefix_hit_ratio", "hit ratio", GREEN),
        q("prefix_turnover_seconds", "pool turns over in", GREY, dashed=True, unit="s"),
    ),
    "Share of prompt tokens found in the cache, and how long the pool takes to be overwritten (right axis)."
    " Low hits with a short turnover: prefixes are evicted. Low hits with a long one: they never match, move"
    " varying fields to the end of the prompt.",
    "no traffic, or prefix caching is off",
    causes=("prefix-cache-miss", "prefix-caching-off", "uncached-repeats"),
)

THROUGHPUT = Panel(
    Kind.LINES,
    "Tokens per second",
    "suffix: tok/s",
    (
        q("prompt_tokens_rate", "prompt", SKY),
        q("generation_tokens_rate", "generated", BLUE),
    ),
    "Throughput in and out. Prompt tokens on a plateau while requests wait: prefill binds. A fall at an"
    " unchanged number of running requests: the engine became slower.",
    NO_TRAFFIC,
    symptoms=("throughput-fell",),
    causes=("prefill-bound", "batch-too-large"),
)

STEPS = Panel(
    Kind.LINES,
    "Step size and draft acceptance",
    "suffix: tok",
    (
        q("iteration_tokens_mean", "tokens per step", BLUE),
        q("draft_acceptance_ratio", "drafts accepted", GREEN, dashed=True, unit="percentunit"),
    ),
    "Tokens handled in one engine step, and the share of speculative tokens that were accepted (right axis)."
    " Acceptance under {thresholds.draft_acceptance:g} does not pay: another draft model, or none.",
    "no traffic",
    causes=("draft-rejected", "prefill-decode-interference"),
)

ENGINE = Row(
    "Engine and hardware",
    (
        PLACED,
        UNPLACED,
        SEATS,
        PREEMPTIONS,
        PREFIX,
        THROUGHPUT,
        STEPS,
    ),
)

BOARD = Board(
    uid="llmvitals-engine",
    file="dashboards/engine.json",
    title="LLM engine",
    description="What the engine does with its memory and its steps: KV, seats, preemption, prefixes, steps, drafts, adapters.",
    rows=(ENGINE,),
)
