"""Rows of the engine's board on what need not be computed: the prefix cache, its tiers, and what it saves."""

from __future__ import annotations

from llmvitals.dashboards.boards.asked import all_of, asked, gauge, grown, mean, over, rate
from llmvitals.dashboards.boards.engine_steps import cached, computed
from llmvitals.dashboards.model import (
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RANGE,
    SKY,
    Kind,
    Limit,
    Panel,
    Row,
    q,
)

_HITS, _LOOKUPS = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"

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
    " varying fields to the end of the prompt. No share is good by itself: it is the traffic that has something in common.",
    "no traffic, or prefix caching is off or told by no counter here",
    causes=("prefix-cache-miss", "prefix-caching-off", "uncached-repeats"),
    width=12,
)

_FLEET = over(rate(_HITS, "model"), rate(_LOOKUPS, "model"))
PREFIX_GAP = Panel(
    Kind.LINES,
    "Hit ratio of a replica beside the fleet's",
    "percentunit",
    (
        asked(
            "above or below all together",
            GREEN,
            f"(<prefix_hit_ratio> - on (model) group_left () ({_FLEET}))",
        ),
    ),
    "The hit ratio of each replica less that of all replicas of its model, weighted by tokens. Around 0: they share the work"
    " alike. One far below: it gets other prompts, or it restarted and is still cold. Spread wide: requests are routed without"
    " regard to prefixes.",
    "no traffic, or prefix caching is off or told by no counter here",
    causes=("prefix-cache-miss",),
    bottom=None,
    moved=("chat",),
    width=12,
)

PREFIX_PAST = Panel(
    Kind.LINES,
    "Hit ratio against its own past",
    "percentunit",
    (
        q("prefix_hit_ratio", "now", GREEN),
        asked(
            "in all of this time",
            GREY,
            f"{over(grown(_HITS, span=RANGE), grown(_LOOKUPS, span=RANGE))}"
            f" and on (instance, model) <prefix_hit_ratio>",
            dashed=True,
        ),
        q("prefix_hit_before_ratio", "since the process began", PURPLE, dashed=True),
    ),
    "The hit ratio now, over all of the chosen time, and over the process' whole life before the exporter's window. Now far below"
    " both: something changed, a prompt template or the routing. Choose a longer time to compare with more of the past.",
    "no traffic, or prefix caching is off or told by no counter here",
    causes=("prefix-cache-miss",),
    top=1,
    moved=("chat",),
    width=12,
)

_SOURCE = "llm_prompt_tokens_by_source_total"
_TOLD = rate(_SOURCE)
_COMPUTED, _FOUND = (rate(_SOURCE, match=match) for match in ('source=~".*compute.*"', 'source="local_cache_hit"'))
_NOT_TOLD = f"unless on (instance, model) {_TOLD}"
SOURCES = Panel(
    Kind.STACK,
    "Prompt tokens by where their KV came from",
    "suffix: tok/s",
    (
        all_of(
            "computed",
            SKY,
            f"sum by () ({_COMPUTED} or ({computed()} {_NOT_TOLD}))",
        ),
        all_of(
            "found in this engine",
            GREEN,
            f"sum by () ({_FOUND} or ({cached()} {_NOT_TOLD}))",
        ),
        all_of(
            "from elsewhere",
            PURPLE,
            rate(_SOURCE, "", 'source!~".*compute.*|local_cache_hit"'),
        ),
    ),
    "Prompt tokens per second over everything selected: computed here, found in the engine's own cache, or fetched from another"
    " engine, host memory or a store. vLLM tells the source from 0.16 on; of other engines what a cache served is all taken to"
    " be their own, and all is taken to be computed where no cache is told of.",
    "no prompt token is counted on this page, or the target is down",
    causes=("prefix-cache-miss", "prefix-caching-off", "prefill-bound"),
    moved=("chat", "prefix-hits"),
    width=12,
)

_LEAST_COMPUTED = 0.05  # of a prompt: the rest of a prefill of less is no matter of tokens
_ALL, _DONE = mean("llm_request_prompt_tokens"), mean("llm_request_computed_prompt_tokens")
SAVED = Panel(
    Kind.LINES,
    "Prefill time that the cache saves, per request",
    "s",
    (
        asked(
            "saved (estimate)",
            GREEN,
            f"clamp_min({_ALL} - {_DONE}, 0) * ({over('<prefill_mean_seconds>', _DONE)})"
            f" and on (instance, model) {_DONE} >= {_ALL} * {_LEAST_COMPUTED}",
        ),
        q("prefill_mean_seconds", "spent", SKY, dashed=True),
    ),
    "Prompt tokens that a mean finished request did not have to compute, times the prefill seconds of a computed one, beside what"
    " prefill took. An estimate: prefill of a longer prompt is not quite in proportion, and a batch shares it. Near 0: the"
    " cache does nothing for first tokens. Not drawn where hardly anything is computed, as by a decode worker.",
    "no traffic, or the page does not say what was computed: vLLM from 0.13, SGLang from 0.5.12",
    causes=("prefix-cache-miss",),
    moved=("chat", "prefix-hits"),
    width=12,
)

TURNOVER = Panel(
    Kind.LINES,
    "How long can an unused prefix survive?",
    "s",
    (q("prefix_turnover_seconds", "pool turns over in", ORANGE),),
    "Time in which computed tokens fill the whole KV pool once. Under the line, {thresholds.prefix_turnover_seconds:g} s, no"
    " prefix lives until its next use, however alike prompts are: more memory, or route by prefix so that each replica keeps"
    " fewer of them.",
    "no traffic, or this page lacks the pool's size or what fills it",
    causes=("prefix-cache-miss",),
    limits=(Limit("thresholds.prefix_turnover_seconds"),),
    moved=("chat",),
    width=12,
)
CACHE = Row("Prefix cache", (PREFIX, PREFIX_GAP, SOURCES, SAVED))
CACHE_MORE = Row("More on the prefix cache", (PREFIX_PAST, TURNOVER), collapsed=True)

OTHER_CACHES = Row(
    "Other caches (needs an external store, multimodal inputs, or an old engine)",
    (
        Panel(
            Kind.LINES,
            "Hits in the external KV store",
            "percentunit",
            (
                asked(
                    "of the tokens looked up",
                    PURPLE,
                    over(
                        rate("llm_external_prefix_cache_hit_tokens_total"),
                        rate("llm_external_prefix_cache_query_tokens_total"),
                    ),
                ),
            ),
            "Share of tokens that an external KV store had, of those that were looked up there because the engine's own cache had"
            " them not. Low with traffic that repeats: the store is too small, or its keys differ between engines.",
            "no traffic to an external store: it needs vLLM from 0.11 with a KV connector",
            causes=("prefix-cache-miss",),
            top=1,
            apart="an external KV store, which plays of one server do not have",
        ),
        Panel(
            Kind.LINES,
            "Hits in the multimodal cache",
            "percentunit",
            (
                asked(
                    "of the items looked up",
                    PURPLE,
                    over(rate("llm_multimodal_cache_hits_total"), rate("llm_multimodal_cache_queries_total")),
                ),
            ),
            "Share of images and other inputs whose processed form was still in the cache. Low although the same ones come again:"
            " enlarge the cache of the input processor, or send the same bytes each time.",
            "no traffic with media: it needs vLLM from 0.11 with a multimodal model",
            causes=("prefix-cache-miss",),
            top=1,
            apart="inputs other than text, which plays do not have",
        ),
        Panel(
            Kind.LINES,
            "Hit ratio as an old engine reports it",
            "percentunit",
            (asked("reported", GREY, gauge("llm_prefix_cache_reported_hit_ratio", agg="avg")),),
            "What engines say of themselves that count no tokens: vLLM up to 0.9 over its life, SGLang for the last prefill alone."
            " It is shown as it comes and used by no check.",
            "this engine reports no ratio of its own: see the prefix cache above for what it counts",
            causes=("prefix-cache-miss",),
            top=1,
            apart="an engine that reports a ratio instead of counts, and the plays are of a newer one",
        ),
    ),
    collapsed=True,
)
