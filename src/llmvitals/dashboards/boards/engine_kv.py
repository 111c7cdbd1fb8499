"""Rows of the engine's board on its memory: how full KV is, who fits, who is thrown out, and what the pool is made of."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import APART, KV_POOL, asked, gauge, over, quantile, rate
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
    Limit,
    Panel,
    Row,
    cell,
    heat,
    q,
)

_USAGE = "llm_kv_usage_ratio"
_FULL = "1 - <thresholds.kv_free_floor>"
_NO_KV = "no KV usage: the target is down, or this engine does not say it (llmvitals engines lists who does)"

KV_SPREAD = Panel(
    Kind.LINES,
    "KV usage across replicas",
    "percentunit",
    (
        *(
            asked(legend, color, gauge(_USAGE, "model", agg), "model", dashed=dashed)
            for legend, color, agg, dashed in (
                ("fullest", ORANGE, "max", False),
                ("mean", GREY, "avg", True),
                ("emptiest", SKY, "min", False),
            )
        ),
        asked(
            "replicas that are full",
            VERMILLION,
            f"count by (model) (({gauge(_USAGE, APART, 'max')}) >= {_FULL}) or {gauge(_USAGE, 'model', 'count')} * 0",
            "model",
            dashed=True,
            unit="none",
        ),
    ),
    "Share of the KV pool that running requests hold: the fullest replica, the emptiest, and their mean, which hides the full"
    " one; each rank has a pool of its own. How many replicas are full (right axis) counts from {limits[0]:g} on, the line."
    " Full is no fault while nobody waits and nothing is preempted. A wide band: the load is not spread by what replicas hold.",
    _NO_KV,
    causes=("kv-cache-saturation", "preemption-thrash", "context-imbalance"),
    limits=(Limit("thresholds.kv_free_floor", rest=True),),
    moved=("chat", "busy"),
)

KV_REPLICAS = Panel(
    Kind.LINES,
    "KV usage, red while it preempts",
    "percentunit",
    (
        asked("holds", GREY, gauge(_USAGE, APART, "max")),
        asked(
            "preempts",
            VERMILLION,
            f"{gauge(_USAGE, APART, 'max')} and on (instance, model) {rate('llm_preemptions_total')} > 0",
        ),
    ),
    "Each replica's KV usage, its fullest rank. It turns red where requests are thrown out of the pool: that, and not a high"
    " number, is what hurts. High and grey: well used. Red at any height: admit fewer, or give the pool more memory. An"
    " engine that counts no preemptions stays grey.",
    _NO_KV,
    causes=("preemption-thrash", "kv-cache-saturation"),
    top=1,
    moved=("chat", "busy"),
)

NEXT_FITS = Panel(
    Kind.LINES,
    "Does the next request fit?",
    "percentunit",
    (
        q("kv_usage_high_ratio", "reached", GREY),
        q("kv_free_low_ratio", "stays free", GREEN),
        q("kv_need_ratio", "the next one needs", ORANGE),
        q("kv_room_ratio", "room beyond that", BLUE, dashed=True),
    ),
    "Share of the pool that is reached and that stays free at the 90th percentile, against what a large waiting prompt needs to"
    " start. Room at 0 or below: KV keeps the next request out, whatever the seats. The line is {thresholds.kv_free_floor:g}:"
    " with less free the pool counts as full.",
    "no KV usage or no capacity on this page",
    causes=("kv-cache-saturation",),
    limits=(Limit("thresholds.kv_free_floor"),),
    moved=("chat", "busy"),
    bottom=None,
)

SEATS = Panel(
    Kind.LINES,
    "Seats: how many contexts fit",
    "none",
    (
        q("seats", "seats", GREEN),
        q("seats_full", "seats at full length", GREEN, dashed=True),
        q("requests_running", "running", BLUE),
        q("running_max", "most seen running", SKY, dashed=True),
        q("mean_context_tokens", "mean context", GREY, dashed=True, unit="suffix: tok"),
    ),
    "KV tokens divided by the mean resident context (right axis), next to the requests running. Running above"
    " the seats: preemption is near, set max_num_seqs to the seats. Running far below with requests waiting:"
    " the batch limits bind. max_num_seqs itself is on no page: the most seen running is a lower bound of it.",
    "neither capacity nor running requests on this page, or the target is down",
    causes=("preemption-thrash", "batch-too-small", "context-imbalance"),
)

_LEFT = f"(1 - {gauge(_USAGE, APART, 'avg')})"
_FREE = f"{KV_POOL} * {_LEFT}"
_HOUR = 3600
_GROWS = f"avg by ({APART}) (deriv({_USAGE}{{{SELECTOR}}}[{WINDOW}]))"
ROOM = Panel(
    Kind.LINES,
    "Room left: how many more fit now",
    "none",
    (
        asked("more requests fit", GREEN, over(_FREE, "<mean_context_tokens>")),
        q("spare_seats", "beyond the most seen running", BLUE, dashed=True),
        asked("full in", ORANGE, f"{over(_LEFT, _GROWS)} < {_HOUR}", dashed=True, unit="s"),
    ),
    "Free KV tokens over the mean context of a running request: so many more would fit, if max_num_seqs lets them. Dashed: seats"
    " beyond the most seen running when large requests are at their longest; below 0 another seat is paid for with preemptions."
    " Full in (right axis): while usage grows, when it meets the end of the pool at this pace, if that is within an hour.",
    "no traffic, or this page lacks the pool's size or the lengths of requests",
    causes=("kv-cache-saturation", "preemption-thrash"),
    moved=("chat",),
    bottom=None,
)

PREEMPTIONS = Panel(
    Kind.LINES,
    "Preemptions",
    "suffix: /min",
    (
        q("preemptions_per_minute", "per minute", VERMILLION),
        q("preemptions_per_completion", "of finished requests", ORANGE, dashed=True, unit="percentunit"),
    ),
    "Running requests evicted to make room; each is computed anew. The line is"
    " {thresholds.preemptions_per_minute:g} a minute. Above {thresholds.preemptions_per_completion:.0%} of the"
    " finished requests (right axis: so many per 100) the engine works against itself: admit fewer.",
    "no preemption counter on this page",
    causes=("preemption-thrash", "preemption-mode"),
    limits=(Limit("thresholds.preemptions_per_minute"),),
    moved=("chat",),
)

AGAIN = f"{rate('llm_preemptions_total')} * <mean_context_tokens>"
"""Tokens per second that preemptions make an engine compute again (estimate)."""

RECOMPUTED = Panel(
    Kind.LINES,
    "Tokens computed again after preemptions",
    "suffix: tok/s",
    (
        asked("computed again (estimate)", VERMILLION, AGAIN),
        q("prompt_tokens_rate", "prompts", SKY, dashed=True),
    ),
    "What preemption costs: evictions per second times the mean context, next to the prompt tokens that users sent. An estimate:"
    " blocks that are still cached when the request comes back need not be computed. Where it nears the prompts, the engine"
    " does its work twice.",
    "no preemption counter and no prompt tokens on this page, or the target is down",
    causes=("preemption-thrash", "preemption-mode"),
)

CAPACITY = Panel(
    Kind.TABLE,
    "What each replica can hold",
    "none",
    (
        cell("KV tokens", "suffix: tok", promql=KV_POOL),
        cell("Blocks", "none", promql=gauge("llm_kv_blocks")),
        cell("Block size", "suffix: tok", promql=gauge("llm_kv_block_tokens", agg="max")),
        cell("Longest context", "suffix: tok", promql=gauge("llm_max_model_tokens", agg="max")),
        cell("Longest contexts that fit", "none", signal="contexts_in_pool"),
        cell("Seats", "none", signal="seats"),
        cell("Most seen running", "none", signal="running_max"),
        cell(
            "Prefix caching",
            "none",
            promql=gauge("llm_prefix_caching_enabled", agg="min"),
            names=((1, "on", GREEN), (0, "off", ORANGE)),
        ),
        cell("GPU memory setting", "percentunit", promql=gauge("llm_gpu_memory_utilization_setting", agg="max")),
    ),
    "The size of the KV pool and the settings that make it, over all ranks of a replica. Blocks times block size is the pool where"
    " layers are all alike; a pool summed over ranks by the engine is divided again. Fewer than one longest context fits: a"
    " single request can fill the pool. Most seen running stands in for max_num_seqs, which is on no page.",
    "nothing of the pool on this page (llmvitals engines lists who says it), or the target is down",
    causes=("kv-cache-saturation", "context-imbalance", "prefix-caching-off"),
    width=24,
    worst="-KV tokens",
    moved=("chat", "idle"),
)

KV_FILL = Panel(
    Kind.LINES,
    "Held KV that holds tokens",
    "percentunit",
    (q("kv_fill_ratio", "filled (estimate)", ORANGE),),
    "Running requests times their mean context, over the KV that they hold. Blocks are whole, so some of the last one is empty;"
    " far below 1 the blocks are too large for these contexts: a smaller block size holds more requests in the same memory.",
    "no traffic, or this page lacks blocks or the lengths of requests",
    causes=("block-fragmentation",),
    top=1,
    moved=("chat", "busy"),
)

CONTEXT = Panel(
    Kind.LINES,
    "Context: mean, and large ones at their end",
    "suffix: tok",
    (
        q("mean_context_tokens", "mean while it runs", BLUE),
        q("full_context_tokens", "large one at its end", ORANGE),
        q("prompt_mean_tokens", "mean prompt", SKY, dashed=True),
        q("generation_mean_tokens", "mean answer", PURPLE, dashed=True),
    ),
    "Tokens that a request holds: on average, and when a large one (90th percentile) ends. Full far above mean: a few long ones"
    " decide how many fit, keep them apart or cap them. The answers growing: see how many set no max_tokens.",
    f"{NO_TRAFFIC}, or this page does not say how long requests are",
    causes=("context-imbalance", "unbounded-output"),
)

SLACK = Panel(
    Kind.LINES,
    "Longest accepted context over what is used",
    "suffix: x",
    (
        q("context_slack_ratio", "accepted over used", GREY),
        asked("prompts, p95 over median", SKY, "clamp_min(<prompt_spread>, 1)", dashed=True),
    ),
    "How many times the longest context that the engine accepts exceeds what traffic uses (90th percentile). Far above 1: one"
    " such request may take the pool from all others; a lower max_model_len gives room. Dashed: how unlike prompts are, at"
    " least.",
    "no traffic, or neither the longest context (vLLM from 0.24, SGLang from 0.5.11) nor lengths are on this page",
    causes=("context-imbalance", "head-of-line-blocking"),
    width=12,
)

KV = Row(
    "KV cache and seats",
    (KV_SPREAD, KV_REPLICAS, NEXT_FITS, SEATS, ROOM, PREEMPTIONS, RECOMPUTED, KV_FILL, CONTEXT, CAPACITY),
)

_SAMPLED = "no sampled blocks: vLLM from 0.12 with --kv-cache-metrics"
_LIFE, _IDLE, _GAP = (f"llm_kv_block_{name}_seconds" for name in ("lifetime", "idle_before_evict", "reuse_gap"))
_APART = "an engine with --kv-cache-metrics, which the simulated one does not have"
BLOCKS = Row(
    "Life of KV blocks (vLLM from 0.12 with --kv-cache-metrics)",
    (
        Panel(
            Kind.LINES,
            "How long do blocks live, lie idle, and come back?",
            "s",
            (
                quantile(0.5, _LIFE, "life, p50", BLUE),
                quantile(0.5, _IDLE, "idle before it is evicted, p50", ORANGE),
                quantile(0.5, _GAP, "between two uses, p50", GREEN),
                quantile(0.9, _GAP, "between two uses, p90", GREEN, dashed=True),
            ),
            "Times of sampled KV blocks. Idle before eviction shorter than the gap between two uses: blocks are thrown out before"
            " they would have been used again, so more memory or fewer unlike prompts would give hits. Longer: what is evicted"
            " nobody wanted.",
            _SAMPLED,
            causes=("prefix-cache-miss",),
            width=12,
            apart=_APART,
        ),
        Panel(
            Kind.HEATMAP,
            "Gap between two uses of a block",
            "s",
            (heat(_GAP, "s", GREEN),),
            "Sampled KV blocks by the time between two uses, over everything selected. A band at long gaps is reuse that only a"
            " larger pool, or a tier beside it, could keep.",
            _SAMPLED,
            causes=("prefix-cache-miss",),
            width=12,
            apart=_APART,
        ),
    ),
    collapsed=True,
)

LEGACY = Row(
    "Host memory of old engines (vLLM up to 0.9)",
    (
        Panel(
            Kind.LINES,
            "Swapped out to host memory",
            "none",
            (
                asked("swapped requests", VERMILLION, gauge("llm_requests_swapped")),
                asked(
                    "host KV pool in use",
                    GREY,
                    gauge("llm_kv_cpu_usage_ratio", agg="max"),
                    dashed=True,
                    unit="percentunit",
                ),
            ),
            "Requests that were swapped out instead of computed anew, and how full the host's KV pool is (right axis). Moving"
            " them back takes the PCIe link; with a full host pool requests are thrown out altogether.",
            "not on this page: vLLM up to 0.9 alone has it",
            causes=("preemption-mode",),
            apart="an engine of before vLLM 0.9.1, and the plays are of a newer one",
            width=24,
        ),
    ),
    collapsed=True,
)
