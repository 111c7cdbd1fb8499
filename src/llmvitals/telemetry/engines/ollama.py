"""Ollama: no metrics page. What ``/api/ps`` says of the models in memory becomes a page; the rest are gaps.

Sizes are in bytes. How long its users wait is on no page of it: a probe (``probe_seconds``) measures that from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llmvitals.errors import PageError
from llmvitals.telemetry.mapping import Row, Unused
from llmvitals.telemetry.simple import only, source

KIND = "ollama"
PATH = "/api/ps"

_NEWER = "a server of 2025 or later that has a model in memory"

ROWS: tuple[Row, ...] = (
    Row("ollama_model_size_bytes", "llm_model_bytes", late=True, note="size"),
    Row("ollama_model_size_vram_bytes", "llm_model_vram_bytes", late=True, note="size_vram"),
    Row("ollama_model_context_length", "llm_max_model_tokens", needs=_NEWER, note="context_length"),
    Row("ollama_models_loaded", special="none"),
)

_FIELDS: tuple[tuple[str, str], ...] = (
    ("ollama_model_size_bytes", "size"),
    ("ollama_model_size_vram_bytes", "size_vram"),
    ("ollama_model_context_length", "context_length"),
)
"""Names that the page made of a document has, and the field that each is."""

_NO_PAGE = "Ollama has no metrics page, and /api/ps only lists the models in memory"
_PROBE = f"{_NO_PAGE}; a probe (probe_seconds in the settings) measures it from outside"

CANNOT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "llm_requests_running",
            "llm_requests_waiting",
            "llm_requests_finished_total",
            "llm_requests_aborted_total",
            "llm_requests_rejected_total",
            "llm_request_queue_seconds",
            "llm_prompt_tokens_total",
            "llm_generation_tokens_total",
            "llm_kv_usage_ratio",
            "llm_kv_capacity_tokens",
            "llm_preemptions_total",
            "llm_prefix_cache_hit_tokens_total",
            "llm_prefix_cache_query_tokens_total",
            "llm_http_requests_total",
        ),
        _NO_PAGE,
    ),
    **dict.fromkeys(("llm_request_ttft_seconds", "llm_request_tpot_seconds", "llm_request_e2e_seconds"), _PROBE),
}


def document(body: bytes) -> bytes | None:
    """The answer of ``/api/ps`` as a page; None for what is none of Ollama's.

    Raises :class:`PageError` for Ollama's other answers: its list of stored models, its greeting, and a list that holds
    what cannot be read.
    """
    if body.strip() == b"Ollama is running":
        raise _elsewhere("this is Ollama's greeting, not its list of models in memory")
    if b'"models"' not in body[:64]:
        return None
    try:
        models = msgspec.json.decode(body)["models"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return None
    if models is not None and not (isinstance(models, list) and all(isinstance(model, dict) for model in models)):
        return None
    held: list[Mapping[str, Any]] = models or []
    if any("size_vram" not in model for model in held):
        if all({"size", "digest"} <= set(model) for model in held):
            raise _elsewhere("this is Ollama's list of stored models, not of those in memory")
        return None
    lines = [f"ollama_models_loaded {len(held)}"]
    for model in held:
        name = _quoted(str(model.get("model") or model.get("name") or ""))
        lines += [f'{metric}{{model="{name}"}} {_number(model[key])}' for metric, key in _FIELDS if key in model]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: object) -> str:
    """A number as a page writes it; what is none becomes NaN, and so a gap."""
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else "NaN"


def _elsewhere(thing: str) -> PageError:
    return PageError(thing, place="", remedy=f"Ask {PATH}: give host and port with kind: {KIND}.")


ADAPTER = source(
    KIND,
    "Ollama",
    ROWS,
    claims=(b"ollama_models_loaded",),
    versions="0.1-0.33",
    none_found=f"Ollama shows what it holds at {PATH} alone.",
    identity=only(KIND, model="model"),
    cannot=CANNOT,
    unused=(Unused("ollama_models_loaded", "how many models are in memory: each is shown by itself"),),
    document=document,
    path=PATH,
)
