"""Which boards there are for raw series: an engine's releases that share their names, and what mapping rows alone do not say.

``EXTRA`` says in rows what adapters work out of several series, as far as PromQL can say the same; of a family that it has, it
stands in place of the adapter's own rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llmvitals.dashboards.raw.tree import Matcher
from llmvitals.telemetry.engines.versions import Span, version
from llmvitals.telemetry.mapping import Adapter, Row
from llmvitals.telemetry.registry import ADAPTERS

_BESIDE = frozenset({"dynamo_"})
"""What Dynamo shows beside an engine: where the engine's own series are there, they are read."""

_KINDS: Mapping[str, Adapter] = {adapter.kind: adapter for adapter in ADAPTERS}


@dataclass(frozen=True, slots=True)
class Extra:
    """A row, and what its series is combined with: ``op`` and the name of ``other``, whose labels are the same.

    ``unit``: what it counts in where that is not the family's unit; then only a share of one such series in another can be told.
    """

    row: Row
    op: str = ""
    other: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Edition:
    """One board: an engine and the releases whose series it reads.

    ``stem``: its file and identity. ``told``: the releases in words. ``first`` and ``last``: the releases, where the engine's
    rows tell them apart; no last: and later. ``anchor``: series that are always there, whose labels are chosen from. ``model``
    and ``rank``: the labels that name the model and a rank, '' where none does; ``own``: how the names of series begin that
    name the model. ``kept``: matchers of every series of the engine's own. ``repeats``: labels of processes that repeat each
    other's numbers, of which one is taken. ``suffix``: what a counter's name ends with, but those of ``bare``. ``prefix``: a
    beginning of names, and what stands in its place. ``specials``: those that are taken as they are; ``ignored``: those that
    only stand in for another row. ``without``: beginnings of names that such pages do not have. ``pages``: golden pages that
    such a release wrote.
    """

    stem: str
    kind: str
    told: str
    anchor: str
    pages: tuple[str, ...]
    first: str = ""
    last: str = ""
    model: str = "model_name"
    rank: str = ""
    kept: tuple[Matcher, ...] = ()
    repeats: tuple[str, ...] = ()
    suffix: str = "_total"
    bare: frozenset[str] = frozenset()
    prefix: tuple[str, str] = ("", "")
    own: tuple[str, ...] = ()
    specials: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    extra: tuple[Extra, ...] = ()
    notes: tuple[str, ...] = ()
    without: frozenset[str] = _BESIDE

    @property
    def adapter(self) -> Adapter:
        """What reads such pages."""
        return _KINDS[self.kind]

    @property
    def title(self) -> str:
        """The engine with its releases, in words."""
        return f"{self.adapter.title} {self.told}".strip()

    def holds(self, text: str) -> bool:
        """Whether any of the edition's releases lies in a row's span."""
        span = Span(text)
        first = version(self.first) if self.first else ()
        return (not self.last or span.first <= version(self.last)) and (span.last is None or first <= span.last)


_WAITING = "llm_requests_waiting"
_QUEUES = (
    ("num_queue_reqs", "0.3.6.."),
    ("num_grammar_queue_reqs", "0.4.7.."),
    ("num_prefill_bootstrap_queue_reqs", "0.5.12.."),
    ("num_prefill_prealloc_queue_reqs", "0.4.7..0.5.11"),
    ("num_decode_prealloc_queue_reqs", "0.4.7.."),
    ("num_decode_transfer_queue_reqs", "0.4.7.."),
)
_FINISHED, _HTTP = "llm_requests_finished_total", "llm_http_requests_total"
_QUERY, _HIT = "llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total"
_MADE, _ITL = "llm_generation_tokens_total", "llm_request_inter_token_seconds"
_HITS = frozenset({"device_hit", "host_hit", "storage_hit", "prefill_cache"})
_PREFILLS = frozenset({"prefill_compute", "prefill_cache"})


def _modes(*modes: str) -> tuple[tuple[str, frozenset[str]], ...]:
    return (("mode", frozenset(modes)),)


def _answers() -> tuple[Extra, ...]:
    """SGLang's answers by class of status: those of 503 count among the 5xx, as on any other page."""
    rows = [row for row in _KINDS["sglang"].rows if row.family == _HTTP]
    shared = dict(rows[0].only)
    return tuple(
        Extra(
            replace(
                row,
                only=(
                    ("endpoint", shared["endpoint"]),
                    ("method", shared["method"]),
                    (
                        "status_code",
                        dict(row.only)["status_code"] | ({"503"} if "5xx" in dict(row.fixed).values() else set()),
                    ),
                ),
            )
        )
        for row in rows
    )


_SGLANG: tuple[Extra, ...] = (
    *(Extra(Row(f"sglang:{name}", _WAITING, span=span, add=True)) for name, span in _QUEUES),
    Extra(Row("sglang:realtime_tokens", _MADE, span="0.5.7..", only=_modes("decode"))),
    Extra(Row("sglang:generation_tokens", _MADE, span="0.3.6..", add=True, fallback=True)),
    Extra(Row("sglang:prefill_effective_tokens", _QUERY, span="0.5.18..", add=True)),
    Extra(Row("sglang:realtime_tokens", _QUERY, span="0.5.7..", only=_modes(*_PREFILLS), add=True, fallback=True)),
    Extra(Row("sglang:prompt_tokens", _QUERY, span="0.4.4..0.5.6", add=True, fallback=True)),
    Extra(Row("sglang:prefill_effective_tokens", _HIT, span="0.5.18..", only=_modes(*_HITS), add=True)),
    Extra(Row("sglang:realtime_tokens", _HIT, span="0.5.7..", only=_modes("prefill_cache"), add=True, fallback=True)),
    Extra(Row("sglang:cached_tokens", _HIT, span="0.4.4..0.5.6", add=True, fallback=True)),
    Extra(Row("sglang:num_requests", _FINISHED, span="0.4.2..", add=True)),
    Extra(Row("sglang:e2e_request_latency_seconds_count", _FINISHED, span="0.3.6..0.4.1", add=True, fallback=True)),
    Extra(Row("sglang:inter_token_latency_seconds", _ITL, span="0.4.4..", add=True)),
    Extra(Row("sglang:time_per_output_token_seconds", _ITL, span="0.3.6..0.4.3", add=True, fallback=True)),
    Extra(
        Row("sglang:hicache_host_used_tokens", "llm_kv_offload_usage_ratio", span="0.5.10.."),
        "/",
        "sglang:hicache_host_total_tokens",
    ),
    *_answers(),
)
_PROMPTS, _CACHED = "llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"
_LLAMACPP: tuple[Extra, ...] = (
    Extra(Row("llamacpp:tokens_predicted_seconds", _ITL, part="_sum")),
    Extra(Row("llamacpp:tokens_predicted", _ITL, part="_count")),
    Extra(Row(_PROMPTS, "llm_prompt_tokens_total"), "+", f"{_CACHED}_total"),
    Extra(Row(_PROMPTS, _QUERY), "+", f"{_CACHED}_total"),
    Extra(Row(_CACHED, _HIT)),
)
_TGI: tuple[Extra, ...] = (
    Extra(Row("tgi_batch_current_max_tokens", "llm_kv_usage_ratio"), "/", "tgi_batch_max_total_tokens"),
)
_OLD_PREFIX: tuple[Extra, ...] = tuple(
    Extra(Row(f"vllm:gpu_prefix_cache_{what}", family, v1="0.7.3..0.11.2"), unit="blocks or tokens")
    for what, family in (("queries", _QUERY), ("hits", _HIT))
)

_NO_ROUTER = (Matcher("server", "=", ""),)
_SGLANG_EDITION = Edition(
    stem="sglang",
    kind="sglang",
    told="0.5.7 and later",
    anchor="sglang:num_running_reqs",
    pages=("sglang/pages/0.5.9", "sglang/pages/0.5.23", "sglang/pages/0.5.23-decode"),
    first="0.5.7",
    rank="dp_rank",
    kept=(Matcher("priority", "=", ""),),
    repeats=("tp_rank", "pp_rank", "moe_ep_rank", "pid"),
    bare=frozenset({"sglang:total_retracted_reqs", "sglang:e2e_request_latency_seconds_count"}),
    own=("sglang:",),
    extra=_SGLANG,
    notes=(
        "A server that only decodes finds every prompt in its cache, by its nature: this board shows no hit ratio of it.",
        "Blocks of the KV pool are series from 0.5.11 on; 0.5.9 and 0.5.10 tell them in labels.",
        "Gauges are those of the scheduler's last report; while nothing runs they stand for up to 30 s.",
    ),
)
_VLLM_EDITION = Edition(
    stem="vllm",
    kind="vllm",
    told="0.12 and later",
    anchor="vllm:num_requests_running",
    pages=("pages/0.12.0", "pages/0.16.0", "pages/0.22.1-rust", "pages/0.26.0", "pages/0.32.0", "pages/0.33.0"),
    first="0.12.0",
    rank="engine",
    kept=_NO_ROUTER,
    own=("vllm:",),
    ignored=frozenset({"prefix", "simple"}),
    notes=("A router that repeats its engines' series (label server) is left out, so that nothing counts twice.",),
)
_TRTLLM_EDITION = Edition(
    stem="trtllm",
    kind="trtllm",
    told="1.2 and later",
    anchor="trtllm_e2e_request_latency_seconds_count",
    pages=("trtllm/pages/2026",),
    own=("trtllm_",),
    without=_BESIDE | {"request_success", "e2e_request", "time_", "request_queue"},
    notes=(
        "The time to a first token is counted when its request has ended.",
        "Gauges are those of the last iteration that was polled: they stand while the engine is idle.",
    ),
)

EDITIONS: tuple[Edition, ...] = (
    _VLLM_EDITION,
    replace(
        _VLLM_EDITION,
        stem="vllm-0.9.2-0.11",
        told="0.9.2 to 0.11",
        pages=("pages/0.9.2", "pages/0.10.2", "pages/0.11.0"),
        first="0.9.2",
        last="0.11.2",
    ),
    replace(
        _VLLM_EDITION,
        stem="vllm-0.4-0.9.1",
        told="0.4 to 0.9.1",
        pages=("pages/0.4.3", "pages/0.5.5", "pages/0.6.4", "pages/0.7.3", "pages/0.8.2", "pages/0.8.5"),
        first="0.4.1",
        last="0.9.1",
        extra=_OLD_PREFIX,
    ),
    replace(
        _VLLM_EDITION,
        stem="vllm-ray",
        told="0.9.2 and later, through Ray Serve",
        anchor="ray_vllm_num_requests_running",
        pages=("vllm/pages/ray",),
        first="0.9.2",
        prefix=("vllm:", "ray_vllm_"),
        own=("ray_vllm_",),
        notes=(
            "Ray's page shows all replicas of a node at once: they are one line here, chosen by the page's own instance.",
            "Ray shows no series that was never touched.",
        ),
        without=_BESIDE | {"http_requests", "process_"},
    ),
    _SGLANG_EDITION,
    replace(
        _SGLANG_EDITION,
        stem="sglang-0.3.6-0.5.6",
        told="0.3.6 to 0.5.6",
        pages=("sglang/pages/0.4.3",),
        first="0.3.6",
        last="0.5.6",
    ),
    _TRTLLM_EDITION,
    replace(
        _TRTLLM_EDITION,
        stem="trtllm-1.1",
        told="1.1",
        anchor="e2e_request_latency_seconds_count",
        pages=("trtllm/pages/1.1.0rc5",),
        kept=(Matcher("engine_type", "!=", ""),),
        own=("",),
        without=_BESIDE | {"trtllm_"},
    ),
    Edition(
        stem="tgi",
        kind="tgi",
        told="1.0 to 3.3",
        anchor="tgi_batch_current_size",
        pages=("tgi/pages/1.4.0", "tgi/pages/3.3.7"),
        model="",
        suffix="",
        own=("tgi_",),
        extra=_TGI,
        notes=(
            "KV usage is what TGI reserves for the longest answers that running requests may give, not what is filled.",
            "No series is shown before its first event.",
        ),
    ),
    Edition(
        stem="triton",
        kind="triton",
        told="23.10 and later, with the TensorRT-LLM backend",
        anchor="nv_trt_llm_request_metrics",
        pages=("triton/pages/24.12-trtllm", "triton/pages/documented"),
        model="model",
        suffix="",
        own=("nv_",),
        specials=frozenset({"engine", "hist"}),
        notes=("Gauges are those of the backend's last iteration: they stand while the engine is idle.",),
    ),
    Edition(
        stem="llamacpp",
        kind="llamacpp",
        told="of 2024 and later",
        anchor="llamacpp:requests_processing",
        pages=("llamacpp/pages/early", "llamacpp/pages/2026"),
        model="",
        own=("llamacpp:",),
        extra=_LLAMACPP,
        notes=("Totals are printed with six digits: once they are large they move in steps, and so do rates.",),
    ),
)
"""In the order in which people look for them."""
