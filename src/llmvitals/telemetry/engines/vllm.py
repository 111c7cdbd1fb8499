"""vLLM 0.4 to 0.33: whose numbers a page holds, which release wrote it, and what rows alone cannot say.

Beside its own page, vLLM's numbers come through Ray Serve: ``ray_vllm_*`` on Ray's page, all replicas of a node at once,
counters twice (as a gauge under the bare name, and with ``_total``).
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.telemetry import companions
from llmvitals.telemetry.engines.placing import Sighting, absence, place, sightings
from llmvitals.telemetry.engines.versions import Version, spell, version
from llmvitals.telemetry.engines.vllm_config import DERIVED, cache_config, lora, offload, prefix_counters, rank
from llmvitals.telemetry.engines.vllm_rows import ROWS
from llmvitals.telemetry.engines.vllm_unused import UNUSED
from llmvitals.telemetry.mapping import Adapter, FamilyGap, Parts, Row, Whose, plain_name

KIND = "vllm"

# Releases whose source was read; a page is placed among them.
_READ = (
    "0.4.1 0.4.3 0.5.0 0.5.1 0.5.3 0.5.4 0.5.5 0.6.0 0.6.1 0.6.2 0.6.3 0.6.4 0.6.5 0.6.6 0.7.0 0.7.1 0.7.2 0.7.3 "
    "0.8.0 0.8.1 0.8.2 0.8.3 0.8.4 0.8.5 0.9.0.1 0.9.1 0.9.2 0.10.0 0.10.1.1 0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 "
    "0.13.0 0.14.1 0.16.0 0.17.1 0.18.1 0.19.1 0.20.2 0.21.0 0.22.1 0.23.0 0.24.0 0.25.1 0.26.0 0.27.1 0.28.0 "
    "0.29.0 0.30.0 0.31.0 0.32.0 0.33.0"
)
RELEASES: tuple[Version, ...] = tuple(version(text) for text in _READ.split())
_RUST_SINCE = version("0.22.1")
_V1_MARKS = frozenset({"vllm:gpu_prefix_cache_queries", "vllm:prefix_cache_queries"})
_EOF = "openmetrics"
_RAY = frozenset({"label:ReplicaId", "label:WorkerId"})


def _identity(source: Mapping[str, str]) -> Whose | None:
    """Model, kind and rank. A router repeats vLLM's names with a ``server`` label: those are not the engine's own."""
    if "server" in source:
        return None
    labels = {"engine": KIND, "rank": rank(source)}
    if source.get("model_name"):
        labels["model"] = source["model_name"]
    return Whose(labels)


def _hint(keyword: str, name: str, text: str) -> str:
    """The help text of the old prefix counters says which unit they have; the EOF line tells OpenMetrics."""
    if keyword == "EOF":
        return _EOF
    if "gpu_prefix_cache_queries" in name:
        return "unit:blocks" if "block" in text.lower() else "unit:tokens" if "token" in text.lower() else ""
    return ""


def _derive(parts: Parts) -> None:
    cache_config(parts)
    lora(parts)
    prefix_counters(parts)
    offload(parts)
    companions.roles(parts)


def _table(generation: str, *, rust: bool, ray: bool) -> tuple[Sighting, ...]:
    """``ray``: what such a page lacks tells nothing of its release, only what it shows."""
    rows = [row for row in ROWS if not (rust and row.python_only)]
    return sightings(
        rows,
        RELEASES,
        lambda row: row.v0 if generation == "V0" else row.v1,
        optional=lambda row: ray or bool(row.needs),
    )


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    """The release range, and the families that it or its configuration cannot give."""
    generation = "V1" if marks & _V1_MARKS else "V0"
    ray = bool(marks & _RAY)
    rust = generation == "V1" and _EOF in marks and "vllm:cache_config_info" not in marks and not ray
    table = _table(generation, rust=rust, ray=ray)
    found = place(table, tuple(r for r in RELEASES if r >= _RUST_SINCE) if rust else RELEASES, marks)
    name = spell(found, RELEASES[-1]) + (" (Rust front end)" if rust else " (Ray)" if ray else "")
    silent = not rust and "process_start_time_seconds" not in marks
    gaps = []
    for family in dict.fromkeys(row.family for row in ROWS if row.family):
        rows = [row for row in ROWS if row.family == family]
        if not any(plain_name(row.source) in marks for row in rows):
            unborn = _LATE if silent and any(row.late for row in rows) else ""
            if ray and not all(row.needs for row in rows):
                unborn = _BY_RAY
            gaps.append(absence(family, rows, table, found, f"vLLM {name}", _when, unborn))
    return name, tuple(gaps)


_LATE = "with several API servers, or none, it is not shown before the first request"
_BY_RAY = "Ray shows no series that was never touched"


def _when(row: Row) -> str:
    """In words, where a series exists: V1 from 0.30, V0 up to 0.9."""
    spans = [
        f"{name} {text.replace('..', '-') if '..' in text else text + '+'}"
        for name, text in (("V0", row.v0), ("V1", row.v1))
        if text
    ]
    front = ", not the Rust front end" if row.python_only else ""
    return f"{row.source}: {' and '.join(spans)}{front}"


ADAPTER = Adapter(
    kind=KIND,
    title="vLLM",
    claims=(b"vllm:", b"vllm_", b"ray_vllm_"),
    rows=ROWS,
    prefixes=(("vllm:", "vllm:"), ("vllm:", "vllm_"), ("vllm:", "ray_vllm_")),
    identity=_identity,
    derive=_derive,
    static=_static,
    hint=_hint,
    none_found="Point at vLLM's API port and start it without --disable-log-stats.",
    shared=("llm_process_", "llm_http_"),
    telling=("engine", "kv_cache_size_tokens", "ReplicaId", "WorkerId"),
    versions="0.4-0.33",
    rank=40,
    derived=DERIVED,
    unused=(*UNUSED, *companions.UNUSED),
)

__all__ = ["ADAPTER", "DERIVED", "RELEASES"]
