"""What the engine works on: shares of prompt and output, stalls of running streams, lengths, aborts and wasted work."""

from __future__ import annotations

import math

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import STALL_SHARE, absent, missing, no_traffic, number, spread
from llmvitals.signals.derived.kv import computed_prompt
from llmvitals.signals.measure import beside, growth, percentile, totals, track_growth
from llmvitals.signals.reading import Reading, Standing

PROMPT = "llm_request_prompt_tokens"
GENERATED = "llm_request_generation_tokens"
ITL = "llm_request_inter_token_seconds"
TPOT = "llm_request_tpot_seconds"
ASKED = "llm_request_max_tokens_param"


def prompt_share_ratio(c: Context) -> Reading:
    """Share of prompt tokens among the computed tokens of finished requests: how much of the work is prefill."""
    prompt, generated, computed = c.totals(PROMPT), c.totals(GENERATED), computed_prompt(c)
    if prompt is None or generated is None:
        return missing(c, PROMPT if prompt is None else GENERATED)
    if computed is None:
        return no_traffic("finished requests")
    tokens = computed * prompt.total
    return number(tokens / max(1.0, tokens + generated.sum), Standing.ESTIMATE)


def prompt_p10_tokens(c: Context) -> Reading:
    """Lower edge of the bucket that holds the 10th percentile of prompt lengths (tokens)."""
    return _edge(c, PROMPT, 0.10)


def prompt_p95_tokens(c: Context) -> Reading:
    """Lower edge of the bucket that holds the 95th percentile of prompt lengths (tokens)."""
    return _edge(c, PROMPT, 0.95)


def prompt_p99_tokens(c: Context) -> Reading:
    """Lower edge of the bucket that holds the 99th percentile: a few long prompts among many short ones show here."""
    return _edge(c, PROMPT, 0.99)


def _edge(c: Context, family: str, q: float, *, upper: bool = False) -> Reading:
    h = c.hist(family)
    if h is None:
        return missing(c, family)
    found = h.bucket(q)
    if found is None:
        return no_traffic("observations")
    low, high = found
    if upper and math.isfinite(high):
        return number(high, Standing.UPPER)
    return number(low, Standing.LOWER)  # beyond the highest edge, which a page may lack, that is all that is known


def itl_median_low_seconds(c: Context) -> Reading:
    """The median gap between tokens is at least this (lower edge of its bucket, seconds)."""
    return _edge(c, ITL, 0.5)


def itl_median_high_seconds(c: Context) -> Reading:
    """The median gap between tokens is at most this (upper edge of its bucket, seconds)."""
    return _edge(c, ITL, 0.5, upper=True)


def itl_p99_low_seconds(c: Context) -> Reading:
    """The 99th percentile of gaps between tokens is at least this (lower edge of its bucket, seconds)."""
    return _edge(c, ITL, 0.99)


def _per_request(c: Context) -> str:
    """Where the time per token of a request is read: engines that have no such family show gaps only."""
    return TPOT if c.hist(TPOT) is not None or c.lost(TPOT) else ITL


def tpot_median_low_seconds(c: Context) -> Reading:
    """The median time per output token of a request is at least this (lower edge of its bucket, seconds)."""
    return _edge(c, _per_request(c), 0.5)


def tpot_median_high_seconds(c: Context) -> Reading:
    """The median time per output token of a request is at most this (upper edge of its bucket, seconds)."""
    return _edge(c, _per_request(c), 0.5, upper=True)


def token_mean_seconds(c: Context) -> Reading:
    """Mean seconds per output token: of requests where the page has it, else of all gaps between tokens (an estimate, in
    which long answers count for more).
    """
    for family, standing in ((TPOT, Standing.EXACT), (ITL, Standing.ESTIMATE)):
        h = c.totals(family)
        if h is not None:
            return number(h.sum / h.total, standing) if h.total else no_traffic("output token")
    return missing(c, c.lost(TPOT, ITL) or TPOT)


def itl_spread(c: Context) -> Reading:
    """How many times the 99th percentile of gaps exceeds the median, at least."""
    return spread(c.hist(ITL), c, ITL, 0.99, 0.5)


def generation_spread(c: Context) -> Reading:
    """How many times the 99th percentile of output lengths exceeds the median, at least."""
    return spread(c.hist(GENERATED), c, GENERATED, 0.99, 0.5)


def prompt_spread(c: Context) -> Reading:
    """How many times the 95th percentile of prompt lengths exceeds the median, at least."""
    return spread(c.hist(PROMPT), c, PROMPT, 0.95, 0.5)


def prompt_length_cv(c: Context) -> Reading:
    """Coefficient of variation of prompt lengths, from the means between pages (ratio).

    Means of n requests spread sqrt(n) less than single ones, which is undone interval by interval.
    """
    total, count = c.counter(f"{PROMPT}_sum"), c.counter(f"{PROMPT}_count")
    if total is None or count is None:
        return missing(c, PROMPT)
    grown = [
        (s1 - s0, n1 - n0)
        for s0, s1, n0, n1 in zip(total.values, total.values[1:], count.values, count.values[1:], strict=False)
        if n1 > n0
    ]
    everything, n_all = sum(s for s, _ in grown), sum(n for _, n in grown)
    if len(grown) < 3 or everything <= 0:
        return no_traffic("three intervals with finished requests")
    mean = everything / n_all
    variance = sum(n * (s / n - mean) ** 2 for s, n in grown) / len(grown)
    return number(math.sqrt(variance) / mean, Standing.ESTIMATE)


def open_max_tokens_ratio(c: Context) -> Reading:
    """Share of finished requests whose max_tokens lies above the last finite bucket: nobody set one, the model's cap
    rules.
    """
    h = c.hist(ASKED)
    if h is None:
        return missing(c, ASKED)
    return number(h.open_count / h.total) if h.total > 0 else no_traffic("finished requests")


def open_max_tokens_requests(c: Context) -> Reading:
    """Finished requests whose max_tokens lies above the last finite bucket."""
    h = c.hist(ASKED)
    return missing(c, ASKED) if h is None else number(h.open_count)


def generation_p90_tokens(c: Context) -> Reading:
    """Upper edge of the bucket with the 90th percentile of output lengths: what a server default could allow (tokens)."""
    return _edge(c, GENERATED, 0.9, upper=True)


def aborted_requests(c: Context) -> Reading:
    """Requests whose clients left in the window, off by a few (HTTP 2xx - finished - rejected after a 200), or as the
    engine counts them.
    """
    if c.aborted is None:
        return missing(c, c.aborts_need)
    return number(c.aborted, Standing.ESTIMATE, "off by a few at the edges of pages")


def aborted_ratio(c: Context) -> Reading:
    """Share of the ended requests whose clients had left."""
    if c.aborted is None:
        return missing(c, c.aborts_need)
    ended = c.aborted + c.finished
    return number(c.aborted / ended, Standing.ESTIMATE) if ended > 0 else no_traffic("ended requests")


def wasted_decode_ratio(c: Context) -> Reading:
    """Share of generated tokens that belong to no finished request; speaks only when clients left.

    Requests in flight look the same, so it is an upper bound while many run.
    """
    if c.aborted is None:
        return missing(c, c.aborts_need)
    if c.aborted < 1:
        return number(0.0)
    if c.given_up is not None:
        why = "the engine counts requests that were given up while they ran as finished, with their tokens"
        return absent(GapKind.UNSUPPORTED, why, GENERATED)
    h, made = c.totals(GENERATED), c.growth("llm_generation_tokens_total")
    if h is None or made is None:
        return missing(c, GENERATED if h is None else "llm_generation_tokens_total")
    return number(max(0.0, 1.0 - h.sum / made), Standing.UPPER) if made > 0 else no_traffic("tokens")


def frontend_residual_seconds(c: Context) -> Reading:
    """Mean time of a finished request outside queue and engine: e2e - queue - inference (one population, seconds).

    The API process, its tokenizer and the hand-over; it holds stalls that the gauges miss.
    """
    parts = [c.totals(f"llm_request_{name}_seconds") for name in ("e2e", "queue", "inference")]
    for found, name in zip(parts, ("e2e", "queue", "inference"), strict=True):
        if found is None:
            return missing(c, f"llm_request_{name}_seconds")
        if found.mean is None:
            return no_traffic("finished requests")
    e2e, queue, inference = (p.mean for p in parts if p is not None and p.mean is not None)
    return number(max(0.0, e2e - queue - inference))


def frontend_residual_late_seconds(c: Context) -> Reading:
    """The front-end residual over the last third of the window: whether the stall is still there (seconds)."""
    late = c.good.slice(c.good.end - c.good.seconds / 3, c.good.end)
    parts = []
    for name in ("e2e", "queue", "inference"):
        found = totals(late, f"llm_request_{name}_seconds")
        if found is None:
            return missing(c, f"llm_request_{name}_seconds")
        parts.append(found)
    means = [p.mean for p in parts if p.mean is not None]
    if len(means) < 3:
        return no_traffic("finished requests in the last third")
    return number(max(0.0, means[0] - means[1] - means[2]))


def residual_share_ratio(c: Context) -> Reading:
    """The front-end residual over the mean time to first token: which part of the wait the engine never saw."""
    residual, ttft = frontend_residual_seconds(c), c.totals("llm_request_ttft_seconds")
    if residual.value is None:
        return residual
    if ttft is None:
        return missing(c, "llm_request_ttft_seconds")
    if not ttft.mean:
        return no_traffic("first tokens")
    return number(residual.value / ttft.mean, Standing.ESTIMATE)


def page_answer_seconds(c: Context) -> Reading:
    """Median time in which the API process answered with its metrics page (seconds): its event loop's lag."""
    return number(percentile(c.answers, 0.5)) if c.answers else missing(c, "llm_target_answer_seconds")


def stalled_front_ratio(c: Context) -> Reading:
    """Share of the window's time spent waiting for pages that took at least half the TTFT threshold to come: whoever asked
    for tokens then waited as long.

    On recordings the clients' p95 of TTFT rose with it, whatever the engine had measured: beyond 2 s from 0.12 on. One or
    two slow pages are an accident and count as 0.
    """
    if not c.answers:
        return missing(c, "llm_target_answer_seconds")
    if c.good.seconds <= 0:
        return absent(GapKind.TOO_SHORT, "one page only")
    limit = STALL_SHARE * c.settings.slo.ttft_seconds
    slow = [v for v in c.answers if v >= limit]
    return number(min(1.0, sum(slow) / c.good.seconds) if len(slow) >= 3 else 0.0)


def api_cpu_cores(c: Context) -> Reading:
    """CPU of the API process in cores, over the window; of a service's servers, the busiest one's."""
    tracks = c.live.tracks("llm_process_cpu_seconds_total")
    if not tracks:
        return missing(c, "llm_process_cpu_seconds_total")
    if c.servers:
        used = max(track_growth(track, born_after=None) for track in tracks)
    else:
        used = growth(c.live, "llm_process_cpu_seconds_total") or 0.0
    return number(used / c.live.seconds) if c.live.seconds > 0 else absent(GapKind.TOO_SHORT, "one page only")


def adapters_short(c: Context) -> Reading:
    """Share of the pages with waiting requests on which every adapter slot is taken.

    The names of waiting adapters are no help: the engine's newest list can hold one adapter as running and as
    waiting.
    """
    slots, busy = c.gauge("llm_lora_slots", peak=True), c.gauge("llm_lora_running_adapters", peak=True)
    if slots is None or busy is None:
        return missing(c, "llm_lora_slots" if slots is None else "llm_lora_running_adapters")
    if c.waiting is None:
        return missing(c, "llm_requests_waiting")
    hits = [b >= s > 0 for s, b, queue in beside(slots, busy, c.waiting) if queue > 0]
    return number(sum(hits) / len(hits)) if hits else no_traffic("page with waiting requests")
