"""Rows of the engine's board on its work: tokens, steps and their pace, what prefill costs, and what was done for nobody."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import APART, all_of, asked, grown, mean, over, quantile, rate
from llmvitals.dashboards.boards.engine_kv import AGAIN, SLACK
from llmvitals.dashboards.boards.hardware_cards import GPUS, NO_GPU
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
    Row,
    heat,
    q,
)

_STEP = "llm_iteration_tokens"
_NO_STEPS = "no steps are counted here: vLLM, TGI and Triton count them"
_NO_SIZES = "no traffic, or no step sizes on this page: vLLM alone has the histogram"
_FINISHED = "no traffic: no request finished in this window, or the page does not say"


STEPS_OF_A_RANK = f"avg by ({APART}) (rate({_STEP}_count{{{SELECTOR}}}[{WINDOW}]) > 0)"
"""Steps per second of a data-parallel rank, of those that step at all."""


def cached() -> str:
    """Prompt tokens per second that a cache served, by whichever counter the page has."""
    return f"({rate('llm_prompt_tokens_cached_total')} or {rate('llm_prefix_cache_hit_tokens_total')})"


def computed(by: str = APART, *, told: bool = False) -> str:
    """Prompt tokens per second that were computed: all, less what a cache served where that is told; ``told``: there alone."""
    prompts = rate("llm_prompt_tokens_total")
    served = cached() if told else f"({cached()} or {prompts} * 0)"
    each = f"clamp_min({prompts} - {served}, 0)"
    return each if by == APART else f"sum by ({by}) ({each})"


THROUGHPUT = Panel(
    Kind.LINES,
    "Tokens per second",
    "suffix: tok/s",
    (
        q("prompt_tokens_rate", "prompt", SKY),
        asked("of it computed", SKY, computed(told=True), dashed=True),
        q("generation_tokens_rate", "generated", BLUE),
    ),
    "Throughput in and out. Prompt tokens on a plateau while requests wait: prefill binds. A fall at an"
    " unchanged number of running requests: the engine became slower. Dashed: what the prefix cache did not serve, where"
    " that is told. SGLang counts prompts when their requests end, so they come late and in steps.",
    "no token is counted on this page, or the target is down",
    symptoms=("throughput-fell",),
    causes=("prefill-bound", "batch-too-large"),
    moved=("chat",),
)

STEPS = Panel(
    Kind.LINES,
    "Step size and draft acceptance",
    "suffix: tok",
    (
        q("iteration_tokens_mean", "tokens per step", BLUE),
        quantile(0.5, _STEP, "p50", SKY),
        quantile(0.99, _STEP, "p99", PURPLE, dashed=True),
        q("draft_acceptance_ratio", "drafts accepted", GREEN, dashed=True, unit="percentunit"),
    ),
    "Tokens handled in one engine step, and the share of speculative tokens that were accepted (right axis)."
    " Acceptance under {thresholds.draft_acceptance:g} does not pay: another draft model, or none. A p99 far above the rest:"
    " long prefills, which stall what decodes beside them. From vLLM 0.26 on cached prompt tokens are left out.",
    "no traffic, or neither step sizes (vLLM alone has them) nor drafts on this page",
    causes=("draft-rejected", "prefill-decode-interference"),
    moved=("chat",),
)

STEP_TIME = Panel(
    Kind.LINES,
    "Steps per second, and how long one takes",
    "cps",
    (
        asked("steps", BLUE, rate(f"{_STEP}_count")),
        asked(
            "a step takes",
            ORANGE,
            f"1 / {STEPS_OF_A_RANK} and on (instance, model) <requests_running> > 0",
            dashed=True,
            unit="s",
        ),
    ),
    "Steps of the engine, and while something runs, one over that: the time of a step (right axis), which is what every running"
    " request waits for its next token. Steps rarer and longer at an unchanged batch: the GPU became slower, or prefills are"
    " mixed in. Data-parallel ranks step side by side, so a step's time is that of one rank. With several API servers each"
    " counts its own.",
    _NO_STEPS,
    causes=("batch-too-large", "prefill-decode-interference"),
    moved=("chat",),
)

_LARGE = f"histogram_quantile(0.99, {grown(f'{_STEP}_bucket', f'{APART}, le')})"
EVEN = Panel(
    Kind.LINES,
    "Are steps as large as they get?",
    "percentunit",
    (
        asked(
            "mean step of a large one",
            BLUE,
            f"clamp_max({over('<iteration_tokens_mean>', _LARGE)}, 1)",
        ),
        q("prompt_share_ratio", "prompts in the computed tokens", SKY, dashed=True),
    ),
    "Mean tokens of a step over those of a large one (p99). Near 1: most steps are as large as any, so max_num_batched_tokens"
    " or the seats bind. Near 0: small decode steps with a few large prefills among them. Dashed: how much of the work is"
    " prefill.",
    "no traffic, or neither step sizes (vLLM alone has them) nor tokens on this page",
    causes=("prefill-bound", "prefill-decode-interference"),
    moved=("chat",),
)

STEP_HEAT = Panel(
    Kind.HEATMAP,
    "Where step sizes lie",
    "suffix: tok",
    (heat(_STEP, "suffix: tok", BLUE),),
    "Steps by the tokens that they handled, over everything selected. A band at the running requests is decode, one far above it"
    " prefill. Most steps in the highest band: the batched-token limit binds.",
    _NO_SIZES,
    causes=("prefill-bound", "prefill-decode-interference"),
    moved=("chat",),
)

_RUNNING = f"sum by ({APART}) (avg_over_time(llm_requests_running{{{SELECTOR}}}[{WINDOW}]))"
PACE = Panel(
    Kind.LINES,
    "Pace of one running request",
    "suffix: tok/s",
    (
        asked("tokens per second and request", BLUE, over("<generation_tokens_rate>", _RUNNING)),
        asked("running, mean", GREY, f"{_RUNNING} > 0", dashed=True, unit="none"),
    ),
    "Generated tokens per second over the mean number of running requests (right axis): what each reader gets. It falls as the"
    " batch grows, by design. A fall at an unchanged batch: contexts grew, prefills came in between, or the GPU became slower."
    " Too low for the promise at this batch: lower max_num_seqs.",
    "no traffic: nobody ran, or the page counts no tokens",
    causes=("batch-too-large", "prefill-decode-interference"),
    moved=("chat",),
)

_COMPUTED_MEAN = (
    f"({mean('llm_request_computed_prompt_tokens')} or"
    " <prompt_mean_tokens> * (1 - (<prefix_hit_ratio> or <prompt_mean_tokens> * 0)))"
)
PREFILL_COST = Panel(
    Kind.LINES,
    "Time of prefill per computed prompt token",
    "s",
    (
        asked("prefill", SKY, f"<prefill_mean_seconds> / ({_COMPUTED_MEAN} > 1)"),
        asked(
            "first token less queue",
            ORANGE,
            f"clamp_min(<ttft_mean_seconds> - <queue_mean_seconds>, 0) / ({_COMPUTED_MEAN} > 1)",
        ),
        asked("computed per request", GREY, f"{_COMPUTED_MEAN} > 1", dashed=True, unit="suffix: tok"),
    ),
    "What one prompt token costs that no cache served, by the engine's prefill and by all of the wait for the first token but"
    " the queue. Rising: the engine or its front end became slower. Flat, with more tokens per request (right axis): prompts"
    " are longer, or the cache is colder. Counted over finished requests, but for first tokens: an estimate. Not drawn for a decode"
    " worker, whose KV was sent.",
    _FINISHED,
    causes=("prefill-bound", "prefix-caching-off"),
    moved=("chat",),
)

_PREEMPTED = f"sum by () ({AGAIN})"
_REJECTED = f"clamp_min({rate('llm_spec_draft_tokens_total', '')} - {rate('llm_spec_accepted_tokens_total', '')}, 0)"
_MADE = rate("llm_generation_tokens_total", "")
_LEFT = "sum by () (<generation_tokens_rate> * <wasted_decode_ratio>)"
_ALL = f"({computed('')} + {_MADE} + ({_REJECTED} or {_MADE} * 0) + ({_PREEMPTED} or {_MADE} * 0))"
WASTED = Panel(
    Kind.STACK,
    "Work that reached nobody",
    "percentunit",
    (
        all_of("computed again (estimate)", VERMILLION, over(_PREEMPTED, _ALL)),
        all_of("rejected drafts", PURPLE, over(_REJECTED, _ALL)),
        all_of("for clients that left (at most)", ORANGE, over(_LEFT, _ALL)),
    ),
    "Share of all tokens that were processed and reached nobody, over everything selected: contexts computed again after a"
    " preemption (evictions times the mean context, an estimate), draft tokens that were rejected, and tokens generated for"
    " clients that had left (an upper bound while many run). A band that is missing is not counted by this engine.",
    "no traffic, or nothing here counts what is wasted",
    causes=("preemption-thrash", "ghost-compute", "draft-rejected"),
    top=1,
)

PER_GPU = Panel(
    Kind.LINES,
    "Tokens per second and GPU",
    "suffix: tok/s",
    (
        asked(
            "generated",
            BLUE,
            f"(<generation_tokens_rate> / on (instance) group_left () {GPUS})",
        ),
        asked("prompt, computed", SKY, f"({computed(told=True)} / on (instance) group_left () {GPUS})", dashed=True),
    ),
    "Throughput over the GPUs that are joined to a replica, so that replicas of unlike size can be compared. Much less on one of"
    " two equal replicas: look at its links, clocks and steps.",
    NO_GPU,
    causes=("hardware-event", "interconnect-bound"),
    width=12,
)
ITL_STALLS = Panel(
    Kind.LINES,
    "Are running streams stalled by prefills?",
    "suffix: x",
    (
        asked("gaps, p99 over median", PURPLE, "clamp_min(<itl_spread>, 1)"),
        asked("answers, p99 over median", GREY, "clamp_min(<generation_spread>, 1)", dashed=True),
    ),
    "How many times a long gap between tokens exceeds the median one, at least. High while steps have a large p99: long prefills"
    " run in the same steps as decodes, so lower max_num_batched_tokens. High without: preemptions, or a busy front end.",
    f"{NO_TRAFFIC}, or this page times neither gaps nor answers",
    causes=("prefill-decode-interference",),
    moved=("chat",),
)

WORK = Row(
    "Steps, tokens and what they cost",
    (THROUGHPUT, STEPS, STEP_TIME, PACE, PREFILL_COST, WASTED),
)
MORE = Row(
    "More on steps and contexts",
    (EVEN, STEP_HEAT, ITL_STALLS, SLACK, PER_GPU),
    collapsed=True,
)
