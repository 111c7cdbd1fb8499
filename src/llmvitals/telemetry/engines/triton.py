"""Triton Inference Server: sums of microseconds per model, a histogram in milliseconds, and the TensorRT-LLM backend.

One page shows every model that takes part in an answer: the engine, what prepares and finishes for it, and the ensemble
around them, so that a request counts several times. The engine's own numbers are taken; where it is counted nowhere while
the others are (Triton before 23.12), they are a gap. The backend takes all requests at once and queues them itself: its
queue is the one that stands, and what Triton calls computing has the wait inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry.engines.triton_rows import (
    ABORTED,
    BACKEND,
    BLOCK,
    BLOCKS,
    E2E,
    FINISHED,
    INFERENCE,
    MADE,
    PROMPT,
    QUEUE,
    REASONS,
    REJECTED,
    ROWS,
    TOKENS,
    UNUSED,
    USAGE,
    WAITING,
)
from llmvitals.telemetry.mapping import UNUSABLE, Derived, Entry, FamilyGap, Parts, Whose, scale_of
from llmvitals.telemetry.simple import Copy, source

KIND = "triton"

STANDS_SECONDS = 86_400.0
"""How long the backend's gauges may stand while nothing runs: until the next iteration, told as a day."""

AROUND = frozenset({"ensemble", "tensorrt_llm_bls", "preprocessing", "postprocessing", "multimodal_encoders"})
"""What the TensorRT-LLM backend's model repository calls the models around the engine."""

CAPACITY = "llm_kv_capacity_tokens"
_COUNTED = (FINISHED, REJECTED, ABORTED, E2E, QUEUE, INFERENCE)
_SUCCESS = "nv_inference_request_success"
_SUMMED = {"nv_inference_request_duration_us": E2E}
_WAITED = {"nv_inference_queue_duration_us": QUEUE, "nv_inference_compute_infer_duration_us": INFERENCE}


@dataclass(slots=True)
class _Model:
    """What a page says of one version of one model."""

    name: str
    version: str
    entries: list[tuple[Entry, float]] = field(default_factory=list)

    def of(self, special: str) -> list[tuple[Entry, float]]:
        return [(entry, value) for entry, value in self.entries if entry.row.special == special]

    @property
    def runs(self) -> bool:
        """Whether the backend speaks for it."""
        return any(entry.row.special in ("engine", "seen") for entry, _ in self.entries)

    @property
    def counted(self) -> bool:
        """Whether Triton counted anything of it."""
        return any(value > 0.0 for special in ("base", "wait") for _, value in self.of(special))

    @property
    def iterations(self) -> float:
        steps = (value for entry, value in self.of("engine") if entry.row.family == "llm_iteration_tokens")
        return max(steps, default=0.0)


def _identity(labels: Mapping[str, str]) -> Whose:
    named = {"model": labels["model"]} if labels.get("model") else {}
    return Whose({"engine": KIND, "rank": "0", **named})


def _models(parts: Parts) -> list[_Model]:
    found: dict[tuple[str, str], _Model] = {}
    for entry, value in parts.specials:
        key = entry.source.get("model", ""), entry.source.get("version", "")
        found.setdefault(key, _Model(*key)).entries.append((entry, value))
    return [found[key] for key in sorted(found)]


def _engines(models: list[_Model]) -> list[_Model]:
    """Those whose numbers are requests of users, once: what the backend speaks for, else all but the models around one."""
    for told in ([m for m in models if m.runs], [m for m in models if m.name not in AROUND]):
        if told:
            return told
    return models


def _derive(parts: Parts) -> None:
    models = _models(parts)
    engines = _engines(models)
    busy = sorted({m.name for m in models if m.counted and m not in engines})
    versions: dict[str, int] = {}
    for model in engines:
        rank = versions[model.name] = versions.get(model.name, -1) + 1  # versions of a model stand side by side
        values = _Put(parts, str(rank))
        silent = not model.counted and bool(busy or model.iterations)
        if silent:
            seen = f"{', '.join(busy)} worked" if busy else "it worked"
            why = f"Triton counts nothing for the model {model.name} although {seen}; from 23.12 on it does"
            behind = any(entry.row.family == WAITING for entry, _ in model.of("engine"))
            unknown = _COUNTED if behind else (*_COUNTED, WAITING)
            narrow = (("model", model.name),) if len(engines) > 1 else ()
            parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, why, narrow) for family in unknown)
        else:
            _requests(values, model)
        _queue(values, model, silent=silent)
        for entry, value in (*model.of("hist"), *_plain(model)):
            values.put(entry.series, entry, value)
        _pool(values, model)
    _absent(parts)
    if any(m.runs for m in engines):
        parts.put("llm_target_report_age_seconds", STANDS_SECONDS, {})


@dataclass(frozen=True, slots=True)
class _Put:
    """Puts values onto the page, each in its unit and with its rank; what is no number becomes a gap."""

    parts: Parts
    rank: str

    def put(self, series: Series, entry: Entry, value: float, *, add: bool = False) -> None:
        scaled = value * scale_of(entry.row, series.name)
        top = 1.0 if series.name == USAGE else math.inf
        if not 0.0 <= scaled <= top or math.isinf(scaled):
            self.parts.gaps.append(FamilyGap(entry.row.family, GapKind.MISSING, UNUSABLE))
            return
        place = self.at(series)
        self.parts.samples[place] = scaled + (self.parts.samples.get(place, 0.0) if add else 0.0)

    def at(self, series: Series, name: str = "") -> Series:
        labels = tuple((k, self.rank if k == "rank" else v) for k, v in series.labels)
        return Series(name or series.name, labels)


def _requests(values: _Put, model: _Model) -> None:
    """Requests by how they ended, and how long those took that went well."""
    sums = _SUMMED if model.runs else {**_SUMMED, **_WAITED}
    for entry, value in (*model.of("base"), *model.of("wait")):
        name = entry.row.source
        if name == _SUCCESS:
            values.put(entry.series, entry, value)
            for family in sums.values():
                values.put(Series(f"{family}_count", entry.series.labels), entry, value)
        elif entry.row.part and name in sums:
            values.put(entry.series, entry, value)
        elif entry.row.family in (FINISHED, REJECTED, ABORTED):
            values.put(entry.series, entry, value, add=True)
    if model.runs:
        why = "the backend has a queue of its own, and Triton counts the wait in it as computing"
        values.parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, why) for family in (QUEUE, INFERENCE))


def _queue(values: _Put, model: _Model, *, silent: bool) -> None:
    """Who waits: in front of the backend, and inside it. Where Triton counts nothing of the model, its queue is unknown."""
    told = [(e, v) for e, v in model.entries if e.row.family == WAITING and not (silent and e.row.special == "base")]
    for entry, value in told:
        values.put(entry.series, entry, value, add=True)


def _plain(model: _Model) -> Iterable[tuple[Entry, float]]:
    return ((e, v) for e, v in model.of("engine") if e.row.family not in ("", WAITING))


def _pool(values: _Put, model: _Model) -> None:
    """Tokens that fit into the pool, and its use where the backend does not tell the fraction itself."""
    samples = values.parts.samples
    told = {entry.row.family: values.at(entry.series) for entry, _ in model.of("engine")}
    used = [value for entry, value in model.of("engine") if not entry.row.family]
    blocks = samples.get(told[BLOCKS]) if BLOCKS in told else None
    size = samples.get(told[BLOCK]) if BLOCK in told else None
    if blocks and size:
        samples[values.at(told[BLOCKS], CAPACITY)] = blocks * size
    if blocks and USAGE not in told and used and 0.0 <= used[0] <= blocks:
        samples[values.at(told[BLOCKS], USAGE)] = used[0] / blocks


def _absent(parts: Parts) -> None:
    """What follows from families that need the backend needs it as well; failures without reasons are one number."""
    shown = {series.name for series in parts.samples}
    for source_, family, needs in (
        (BLOCKS, CAPACITY, BACKEND),
        (f"{PROMPT}_sum", "llm_prompt_tokens_total", TOKENS),
        (f"{MADE}_sum", "llm_generation_tokens_total", TOKENS),
    ):
        if source_ not in shown:
            parts.gaps.append(FamilyGap(family, GapKind.UNSUPPORTED, f"it shows only with {needs}"))
    told = {gap.family for gap in parts.gaps}
    for family in (REJECTED, ABORTED):
        if family not in shown and family not in told:
            parts.gaps.append(FamilyGap(family, GapKind.UNSUPPORTED, f"it shows only with {REASONS}"))


DERIVED: tuple[Derived, ...] = (
    Derived(CAPACITY, "nv_trt_llm_kv_cache_block_metrics", "", f"max x tokens_per; needs {BACKEND}"),
)

_NO_TOKENS = "Triton counts requests; the backend times no token of theirs"
CANNOT: Mapping[str, str] = {
    "llm_request_inter_token_seconds": _NO_TOKENS,
    "llm_request_tpot_seconds": _NO_TOKENS,
    "llm_request_prefill_seconds": _NO_TOKENS,
    "llm_request_decode_seconds": _NO_TOKENS,
    "llm_preemptions_total": "how many requests are paused is shown of one iteration, not how often it happens",
    "llm_prefix_cache_query_tokens_total": "reused blocks are shown, not those that were looked for",
    "llm_prefix_cache_hit_tokens_total": "reused blocks are shown, not the tokens in them",
    "llm_http_requests_total": "requests are counted by outcome, not by HTTP status",
}

_SUM = "the sum of the lengths of ended requests"

ADAPTER = source(
    KIND,
    "Triton",
    ROWS,
    claims=(b"nv_inference_", b"nv_trt_llm_", b"nv_llm_"),
    versions="23.10-26.07",
    none_found="Point at Triton's metrics port, 8002 by default, and start it without --allow-metrics=false.",
    identity=_identity,
    derive=_derive,
    derived=DERIVED,
    copies=(
        Copy(f"{PROMPT}_sum", "llm_prompt_tokens_total", f"{_SUM}; needs nv_llm_input_token_len"),
        Copy(f"{MADE}_sum", "llm_generation_tokens_total", f"{_SUM}; needs nv_llm_output_token_len"),
    ),
    cannot=CANNOT,
    unused=UNUSED,
)

__all__ = ["ADAPTER", "AROUND", "CANNOT", "STANDS_SECONDS"]
