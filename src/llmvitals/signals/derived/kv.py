"""The KV pool: how full it is, what the next request needs, how many contexts fit at once, how quickly it turns over.

Gauges are set at the end of an engine step and under-read during long prefills; Little's law over finished requests
corrects them upwards, never downwards, and only where requests were hardly preempted.
"""

from __future__ import annotations

import math

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import missing, no_traffic, number
from llmvitals.signals.measure import Hist, percentile
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.service import server_of

USAGE = "llm_kv_usage_ratio"
CAPACITY = "llm_kv_capacity_tokens"
PROMPT = "llm_request_prompt_tokens"
GENERATED = "llm_request_generation_tokens"
INFERENCE = "llm_request_inference_seconds"


def _gauge(c: Context, name: str, *, largest: bool = False) -> float | None:
    tracks = c.live.tracks(name)
    if not tracks:
        return None
    newest = [t.values[-1] for t in tracks]
    return max(newest) if largest else sum(newest)


def capacity_tokens(c: Context) -> Reading:
    """Tokens that fit into the KV pools of all ranks."""
    found = _gauge(c, CAPACITY)
    return number(found) if found else missing(c, CAPACITY)


def block_tokens(c: Context) -> float:
    """Tokens per KV block; capacity over blocks, else 16 (vLLM's GPU default), where the page does not say."""
    said, blocks = _gauge(c, "llm_kv_block_tokens", largest=True), _gauge(c, "llm_kv_blocks")
    return said or (round((_gauge(c, CAPACITY) or 0.0) / blocks) if blocks else 0.0) or 16.0


def computed_prompt(c: Context) -> float | None:
    """Mean prompt tokens that a request must compute and hold beyond what the prefix cache gives (tokens)."""
    h = c.totals(PROMPT)
    if h is None or h.mean is None:
        return None
    return h.mean * (1.0 - (hit_ratio(c) or 0.0))


def hit_ratio(c: Context) -> float | None:
    """Prefix cache hits over lookups, in tokens; None when nothing was looked up."""
    asked = c.growth("llm_prefix_cache_query_tokens_total")
    found = c.growth("llm_prefix_cache_hit_tokens_total")
    return None if not asked or found is None else min(1.0, found / asked)


def little_usage(c: Context) -> float | None:
    """KV usage by Little's law: completions/s x inference time x blocks a request holds on average, over all blocks."""
    inference, generated, size = c.totals(INFERENCE), c.totals(GENERATED), block_tokens(c)
    blocks, prompt = _gauge(c, "llm_kv_blocks"), computed_prompt(c)
    if not inference or not inference.mean or not generated or generated.mean is None or not blocks or prompt is None:
        return None
    unsure = c.lost("llm_preemptions_total") or (c.preemptions or 0.0) > 0.05 * max(1.0, c.finished)
    if c.good.seconds <= 0 or unsure:
        return None
    held = (prompt + generated.mean / 2) / size + 0.5
    return min(1.0, inference.total / c.good.seconds * inference.mean * held / blocks)


def usage_high_ratio(c: Context) -> Reading:
    """KV usage that is reached (ratio): the 90th percentile of the gauge, or Little's law where that is higher."""
    gauge = c.gauge(USAGE, peak=True)
    if gauge is None or not gauge.values:
        return missing(c, USAGE)
    seen, derived = percentile(gauge.values, 0.9), little_usage(c)
    if derived is not None and derived > seen:
        return number(derived, Standing.ESTIMATE, "Little's law; the gauge under-reads during prefills")
    lost = c.lost(INFERENCE, GENERATED, PROMPT, "llm_requests_finished_total", "llm_kv_blocks", "llm_preemptions_total")
    if lost and 1.0 - seen > c.settings.thresholds.kv_free_floor:
        return missing(c, lost)  # the gauge alone cannot say that KV is free
    return number(min(1.0, seen))


def need_ratio(c: Context) -> Reading:
    """Share of the KV pool that one waiting request needs to start: blocks of a large prompt (95th percentile, lower
    edge, or the mean where that is more), the cached part left out.
    """
    h, blocks = c.totals(PROMPT), _gauge(c, "llm_kv_blocks")
    ranks = max(1, len(c.live.tracks("llm_kv_blocks")))
    pools = [t.values[-1] for t in c.live.tracks(CAPACITY)] if c.cannot("llm_kv_blocks") else []
    if not (blocks or any(pools)) or h is None:
        return missing(c, PROMPT if blocks or any(pools) else "llm_kv_blocks")
    if h.mean is None:
        return no_traffic("finished requests whose length is known")
    large = h.bucket(0.95) if h.edges else None
    uncached = 1.0 - (hit_ratio(c) or 0.0)
    tokens = max(h.mean, large[0] if large else 0.0) * uncached
    if not blocks:  # a pool that is told in tokens
        return number(min(1.0, tokens / max(pools)), Standing.ESTIMATE)
    return number(min(1.0, math.ceil(tokens / block_tokens(c)) / (blocks / ranks)), Standing.ESTIMATE)


def room_ratio(c: Context) -> Reading:
    """Free KV beyond what keeps the next request out (ratio): free - max(floor, need). 0 or less: KV is the bound."""
    usage, need = usage_high_ratio(c), need_ratio(c)
    if usage.value is None:
        return usage
    floor = c.settings.thresholds.kv_free_floor
    if need.gap is not None and need.gap.kind is GapKind.MISSING and 1.0 - usage.value > floor:
        return need
    return number(1.0 - usage.value - max(floor, need.value or 0.0), Standing.ESTIMATE)


def free_low_ratio(c: Context) -> Reading:
    """Share of the KV pool that stays free at the 90th percentile of its use."""
    usage = usage_high_ratio(c)
    return usage if usage.value is None else number(1.0 - usage.value, usage.standing, usage.note)


def mean_context_tokens(c: Context) -> Reading:
    """Mean tokens that a request holds while it runs (estimate): prompt + half of what it generates."""
    prompt, generated = c.totals(PROMPT), c.totals(GENERATED)
    if prompt is None or generated is None:
        return missing(c, PROMPT if prompt is None else GENERATED)
    if prompt.mean is None or generated.mean is None:
        return no_traffic("finished requests")
    return number(prompt.mean + generated.mean / 2, Standing.ESTIMATE, "prompt + half the output")


def _excess(h: Hist, q: float = 0.9) -> float | None:
    """By how much a high quantile exceeds the mean (estimate): 0 where both lie in one bucket, which says no more, else
    interpolated inside its bucket.
    """
    found, value = h.bucket(q), h.quantile(q)
    if found is None or value is None or h.mean is None:
        return None
    return 0.0 if found[0] <= h.mean <= found[1] else max(0.0, value - h.mean)


def full_context_tokens(c: Context) -> Reading:
    """Tokens that a large request (90th percentile) holds when it ends, rounded up to blocks.

    Mean prompt + mean output + what their 90th percentiles exceed them by, in quadrature: a long prompt seldom meets a
    long answer, and the sum of two 90th percentiles would cap a server far below what it can hold.
    """
    prompt, generated = c.hist(PROMPT), c.hist(GENERATED)
    if prompt is None or generated is None:
        return missing(c, PROMPT if prompt is None else GENERATED)
    more = _excess(prompt), _excess(generated)
    if prompt.mean is None or generated.mean is None or more[0] is None or more[1] is None:
        return no_traffic("finished requests")
    size = block_tokens(c)
    tokens = prompt.mean + generated.mean + math.hypot(more[0], more[1])
    return number(math.ceil(tokens / size) * size, Standing.ESTIMATE)


def seats(c: Context) -> Reading:
    """Requests that fit into the KV pool at their mean size: capacity / mean context, in whole blocks."""
    return _seats(c, mean_context_tokens(c))


def seats_full(c: Context) -> Reading:
    """Requests that fit when large ones are at their longest: capacity / 90th percentile of prompt + output."""
    return _seats(c, full_context_tokens(c))


def _seats(c: Context, context: Reading) -> Reading:
    """Whole contexts in whole blocks: a cap must not promise a seat that is only nearly there."""
    pools = c.live.tracks(CAPACITY)
    # beside decode workers, a prefill worker's pool holds no context to its end
    ends = [t for t in pools if server_of(t.label("rank"), c.servers) not in c.prefilling] or pools
    capacity = sum(t.values[-1] for t in ends)
    if not capacity:
        return missing(c, CAPACITY)
    if context.value is None:
        return context
    if context.value <= 0:
        return no_traffic("tokens")
    size = block_tokens(c)
    return number(float(capacity // (math.ceil(context.value / size) * size)), Standing.ESTIMATE)


def spare_seats(c: Context) -> Reading:
    """Seats that the KV pool has beyond the most requests seen running, when large requests are at their longest.

    0 or less: another seat would be taken out of the pool by preemption later, whatever is free now.
    """
    fit = seats_full(c)
    if fit.value is None or c.running is None:
        return fit if fit.value is None else missing(c, "llm_requests_running")
    return number(fit.value - max(c.running.values), Standing.ESTIMATE)


def fill_ratio(c: Context) -> Reading:
    """Share of the held KV that holds tokens: running x mean context over usage x capacity. Low = blocks too large."""
    pools = {t.label("rank"): t.values[-1] for t in c.live.tracks(CAPACITY)}
    ranks, context = c.live.tracks(USAGE), mean_context_tokens(c)
    if not any(pools.values()) or not ranks or c.running is None:
        return missing(c, USAGE if any(pools.values()) else CAPACITY)
    if c.cannot("llm_kv_block_tokens"):
        return missing(c, "llm_kv_block_tokens")  # what it calls held may be reserved for what may come (TGI)
    if context.value is None:
        return context
    held: dict[float, float] = {}
    for rank in ranks:  # ranks fill up one by one: the fullest says nothing of the others
        for t, usage in zip(rank.times, rank.values, strict=True):
            held[t] = held.get(t, 0.0) + usage * pools.get(rank.label("rank"), 0.0)
    pairs = [(r, held[t]) for t, r in zip(c.running.times, c.running.values, strict=True) if r > 0 and held.get(t)]
    if not pairs:
        return no_traffic("page with running requests")
    filled = sum(r for r, _ in pairs) * context.value / sum(h for _, h in pairs)
    return number(min(1.0, filled), Standing.ESTIMATE)


def prefix_turnover_seconds(c: Context) -> Reading:
    """Time in which computed prompt tokens fill the whole KV pool once: how long an unused prefix can survive
    (estimate).
    """
    capacity, h = _gauge(c, CAPACITY), c.totals(PROMPT)
    if not capacity:
        return missing(c, CAPACITY)
    prompt = computed_prompt(c)
    if h is None or prompt is None or h.total <= 0 or c.good.seconds <= 0:
        return no_traffic("finished requests")
    generated = c.growth("llm_generation_tokens_total") or 0.0
    rate = (prompt * h.total + generated) / c.good.seconds
    return number(capacity / rate, Standing.ESTIMATE) if rate > 0 else no_traffic("computed tokens")


def contexts_in_pool(c: Context) -> Reading:
    """Requests of the longest accepted context that fit into one rank's pool."""
    capacity, longest = _gauge(c, CAPACITY, largest=True), _gauge(c, "llm_max_model_tokens", largest=True)
    if not capacity or not longest:
        return missing(c, "llm_max_model_tokens" if capacity else CAPACITY)
    return number(capacity / longest)


def context_slack_ratio(c: Context) -> Reading:
    """How many times the longest accepted context exceeds what traffic uses (90th percentile of prompt + output)."""
    longest, used = _gauge(c, "llm_max_model_tokens", largest=True), full_context_tokens(c)
    if not longest:
        return missing(c, "llm_max_model_tokens")
    return used if used.value is None else number(longest / max(1.0, used.value), Standing.ESTIMATE)


def caching_enabled(c: Context) -> Reading:
    """1 when prefix caching is on in the configuration, 0 when it is off."""
    found = _gauge(c, "llm_prefix_caching_enabled", largest=True)
    return missing(c, "llm_prefix_caching_enabled") if found is None else number(found)


def prefix_hit_before_ratio(c: Context) -> Reading:
    """Hit ratio of the process before the window: that hits existed once is evidence that prompts share something."""
    asked, found = c.counter("llm_prefix_cache_query_tokens_total"), c.counter("llm_prefix_cache_hit_tokens_total")
    if asked is None or found is None:
        return missing(c, "llm_prefix_cache_query_tokens_total")
    return number(found.values[0] / asked.values[0]) if asked.values[0] > 0 else no_traffic("earlier lookups")


def high_while_waiting_ratio(c: Context) -> Reading:
    """Share of the pages on which requests wait while the KV pool of a rank is fuller than the first of the lines on panels
    (0.90 by default).
    """
    usage, waiting = c.gauge(USAGE, peak=True), c.waiting
    if usage is None or waiting is None or not usage.values:
        return missing(c, USAGE if usage is None else "llm_requests_waiting")
    line = c.settings.thresholds.kv_lines[0]
    queued = dict(zip(waiting.times, waiting.values, strict=True))
    return number(
        sum(v > line and queued.get(t, 0.0) > 0 for t, v in zip(usage.times, usage.values, strict=True))
        / len(usage.values)
    )
