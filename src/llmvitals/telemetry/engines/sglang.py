"""SGLang 0.3.6 to 0.5.23: whose numbers a page holds, which release wrote it, and why it lacks what it lacks.

Its pages come from several processes and show no series that was never touched, so that much of what is absent is 0 or
has not happened yet. Gauges are those of the scheduler's last report: a prefill, every 40th decode step, or, when
nothing runs, every 30 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from llmvitals.gaps import GapKind
from llmvitals.schema import FAMILIES, Origin, family_of, origin_of
from llmvitals.telemetry import companions
from llmvitals.telemetry.engines.placing import absence, place, sightings
from llmvitals.telemetry.engines.sglang_derive import (
    DECODES,
    DERIVED,
    PREFILLS,
    REFRESH_SECONDS,
    ended,
    generated,
    host_tier,
    identity,
    old_gaps,
    pools,
    prefix_lookups,
    queues,
    refusals,
    role,
)
from llmvitals.telemetry.engines.sglang_rows import ROWS
from llmvitals.telemetry.engines.sglang_unused import UNUSED
from llmvitals.telemetry.engines.versions import Version, spell, version
from llmvitals.telemetry.mapping import Adapter, FamilyGap, Parts, Row, Whose

KIND = "sglang"

# Releases whose source was read; a page is placed among them.
_READ = (
    "0.3.6 0.4.0 0.4.1 0.4.2 0.4.3 0.4.4 0.4.5 0.4.6 0.4.7 0.4.8 0.4.9 0.4.10 0.5.1 0.5.2 0.5.3 0.5.4 0.5.5 0.5.6 "
    "0.5.7 0.5.8 0.5.9 0.5.10 0.5.11 0.5.12 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22 "
    "0.5.23"
)
RELEASES: tuple[Version, ...] = tuple(version(text) for text in _READ.split())

# Counters that are born with their first event: on the page of a release that has them, absent means 0.
_BORN_AT_ZERO = ("llm_requests_aborted_total", "llm_preemptions_total", "llm_prompt_tokens_cached_total")

_PIECES = "a prefill is timed piece by piece: of a prompt in several chunks the whole is not told"
_NO_DECODE = "the gaps between tokens are timed, not the decoding of a request as a whole"
_LAST_WINDOW = "acceptance is shown of the last report only (spec_accept_length, spec_accept_rate), not in total"
_NO_PROCESS = "the page comes from several processes, and the client library shows none of them"
CANNOT: Mapping[str, str] = {
    "llm_request_prefill_seconds": _PIECES,
    "llm_request_decode_seconds": _NO_DECODE,
    "llm_request_inference_seconds": _NO_DECODE,
    "llm_spec_draft_tokens_total": _LAST_WINDOW,
    "llm_spec_accepted_tokens_total": _LAST_WINDOW,
    "llm_spec_accepted_tokens_by_position_total": _LAST_WINDOW,
    "llm_process_start_time_seconds": _NO_PROCESS,
    "llm_process_resident_bytes": _NO_PROCESS,
    "llm_process_open_fds": _NO_PROCESS,
    "llm_process_max_fds": _NO_PROCESS,
    "llm_prefix_caching_enabled": "the page does not tell --disable-radix-cache from prompts that share nothing",
    "llm_external_prefix_cache_query_tokens_total": "what the store held is counted, not what was looked up in it",
    "llm_lora_waiting_adapters": "adapters are counted while they run, not while they are waited for",
}
"""Families that no release shows, and why; of the others the page says nothing at all."""

_EARLIER: Mapping[str, str] = {"llm_engine_role": "before 0.4.4 the page does not tell who only prefills or decodes"}
_PREFILL_ONLY = ("llm_request_ttft_seconds", "llm_request_inter_token_seconds", "llm_request_tpot_seconds")
_ENDED = frozenset({"sglang:prompt_tokens", "sglang:num_requests", "sglang:e2e_request_latency_seconds"})
_OWN = tuple(family.name for family in FAMILIES if origin_of(family.name) is Origin.ENGINE)
_TABLE = sightings(ROWS, RELEASES, lambda row: row.span, optional=lambda row: bool(row.needs) or row.late)


def _identity(source: Mapping[str, str]) -> Whose | None:
    """Model and data-parallel rank. Other ranks repeat its numbers; a priority's are part of the total beside them."""
    if source.get("priority"):
        return None
    labels = {"engine": KIND, "rank": source.get("dp_rank") or "0"}
    if source.get("model_name"):
        labels["model"] = source["model_name"]
    repeats = any(source.get(name, "0") != "0" for name in ("tp_rank", "pp_rank"))
    return Whose(labels, stand_in=repeats)


def _hint(keyword: str, name: str, text: str) -> str:
    return ""


@lru_cache(maxsize=64)
def _releases(marks: frozenset[str]) -> tuple[Version, ...]:
    return place(_TABLE, RELEASES, marks)


def _static(marks: frozenset[str]) -> tuple[str, tuple[FamilyGap, ...]]:
    """The release range. Gaps depend on values as well: :func:`_derive` tells them."""
    return spell(_releases(marks), RELEASES[-1]), ()


def _derive(parts: Parts) -> None:
    kinds = {entry.source.get("engine_type", "") for entry, _ in parts.specials}
    parts.marks |= {f"engine:{kind}" for kind in kinds} & {PREFILLS, DECODES}
    role(parts)
    queues(parts)
    refusals(parts)
    ended(parts)
    old_gaps(parts)
    generated(parts)
    _born(parts)
    prefix_lookups(parts)
    pools(parts)
    host_tier(parts)
    parts.put("llm_target_report_age_seconds", REFRESH_SECONDS, {})
    told = {gap.family for gap in parts.gaps}
    told |= {family.name for series in parts.samples if (family := family_of(series.name)) is not None}
    parts.gaps.extend(gap for family, gap in _gaps(parts.marks).items() if family not in told)


def _born(parts: Parts) -> None:
    """Counters that nothing has moved yet, on pages of releases that have them."""
    found = _releases(parts.marks)
    if not found or _ENDED.isdisjoint(parts.marks):
        return
    ranks = [s for s in parts.samples if s.name == "llm_requests_running"]
    for family in _BORN_AT_ZERO:
        spans = [s.can for s in _TABLE if s.row.family == family]
        if all(any(span.holds(release) for span in spans) for release in found):
            own = {} if family == "llm_preemptions_total" else {"rank": "0"}  # the others are the front end's
            shown = {(s.label("model"), s.label("rank")) for s in parts.samples if s.name == family}
            for owner in [{**identity(series), **own} for series in ranks]:
                if (owner.get("model", ""), owner["rank"]) not in shown:
                    parts.put(family, 0.0, owner)


@lru_cache(maxsize=64)
def _gaps(marks: frozenset[str]) -> Mapping[str, FamilyGap]:
    """Why each family would be absent from a page with these marks, should it be."""
    found = _releases(marks)
    who = f"SGLang {spell(found, RELEASES[-1])}"
    return {family: _why(family, marks, found, who) for family in _OWN}


def _why(family: str, marks: frozenset[str], found: tuple[Version, ...], who: str) -> FamilyGap:
    rows = [row for row in ROWS if row.family == family]
    if not rows and family not in {d.family for d in DERIVED}:
        return FamilyGap(family, GapKind.UNSUPPORTED, CANNOT.get(family, "SGLang shows nothing that says it"))
    if PREFILLS in marks and family in _PREFILL_ONLY:
        return FamilyGap(family, GapKind.UNSUPPORTED, "a server that only prefills records none")
    if _ENDED.isdisjoint(marks) and not any(row.needs for row in rows):
        return FamilyGap(family, GapKind.NO_TRAFFIC, "it is not shown before the first request has ended")
    if not rows:
        return FamilyGap(family, GapKind.UNSUPPORTED, _EARLIER.get(family, f"{who} does not count it"))
    unborn = "it is not shown before something of its kind has happened" if all(r.late for r in rows) else ""
    return absence(family, rows, _TABLE, found, who, _when, unborn)


def _when(row: Row) -> str:
    """In words, where a series exists."""
    first, _, last = row.span.partition("..")
    return f"{row.source}: {first}-{last}" if last else f"{row.source}: {first}+"


ADAPTER = Adapter(
    kind=KIND,
    title="SGLang",
    claims=(b"sglang:", b"sglang_"),
    rows=ROWS,
    prefixes=(("sglang:", "sglang:"), ("sglang:", "sglang_")),
    identity=_identity,
    derive=_derive,
    static=_static,
    hint=_hint,
    none_found="Point at SGLang's API port and start it with --enable-metrics.",
    shared=("llm_process_", "llm_http_"),
    telling=("engine_type", "tp_rank", "is_streaming"),
    versions="0.3-0.5",
    rank=45,
    derived=DERIVED,
    unused=(*UNUSED, *companions.UNUSED),
    cannot=CANNOT,
)

__all__ = ["ADAPTER", "CANNOT", "DERIVED", "RELEASES"]
