"""What the pages show of the configuration, and the promises and thresholds that a verdict was given by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from llmvitals.schema import FAMILIES
from llmvitals.settings import Settings, Slo, Thresholds
from llmvitals.sources import Observed
from llmvitals.sources.recording import Recording
from llmvitals.triage.units import with_unit

CONFIGURED: dict[str, str] = {
    family.name: family.unit
    for family in FAMILIES
    if family.name
    in {
        "llm_kv_block_tokens",
        "llm_kv_capacity_tokens",
        "llm_kv_blocks",
        "llm_max_model_tokens",
        "llm_prefix_caching_enabled",
        "llm_lora_slots",
        "llm_tensor_parallel_size",
        "llm_gpu_memory_total_bytes",
        "llm_model_bytes",
    }
}
"""Canonical families that say how an engine is set up."""

_INFO = re.compile(rb"^([A-Za-z_:][\w:]*_info)\{(.*)\}\s+1(?:\.0*)?(?:\s.*)?$", re.MULTILINE)
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_OF_NOBODY = re.compile(r"python_info|process_info|.*build_info|llm_target_info")
_SHOWN = 60
"""Rows of one target at most."""

Row = tuple[str, str, str]


def infos(body: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    """The metrics of a page that say by their labels how something is set up (``vllm:cache_config_info``)."""
    for name, labels in _INFO.findall(body):
        metric = name.decode()
        if not _OF_NOBODY.fullmatch(metric):
            yield metric, dict(_LABEL.findall(labels.decode(errors="replace")))


def shown(recording: Recording, seen: Sequence[Observed]) -> tuple[Row, ...]:
    """(target, what, value) of the newest pages: labels of the engines' own info metrics, and canonical families."""
    rows: dict[tuple[str, str], str] = {}
    for one in recording.targets:
        body = next((page.body for page in reversed(one.pages) if page.body), b"")
        told = [(f"{metric} {k}", v) for metric, labels in infos(body) for k, v in labels.items() if v]
        rows.update({(one.engine or one.name, what): value for what, value in told[:_SHOWN]})
    for target in seen:
        if target.engines or not target.snapshots:
            continue
        for key, value in target.snapshots[-1].samples.items():
            if key.name == "llm_target_info" and key.label("version"):
                rows[target.name, "engine"] = f"{key.label('engine')} {key.label('version')}".strip()
            if key.name in CONFIGURED:
                rank = f" {{rank {key.label('rank')}}}" if key.label("rank") not in ("", "0") else ""
                gpu = f" {{gpu {key.label('gpu')}}}" if key.label("gpu") else ""
                rows[target.name, f"{key.name}{rank}{gpu}"] = with_unit(value, CONFIGURED[key.name])
    return tuple((name, what, value) for (name, what), value in sorted(rows.items()))


def used(settings: Settings) -> tuple[Row, ...]:
    """(name, value, default) of every promise and threshold; the default only where the value differs."""
    rows: list[Row] = []
    for section, own, default in (
        ("slo", settings.slo, Slo()),
        ("thresholds", settings.thresholds, Thresholds()),
    ):
        for field in msgspec.structs.fields(type(own)):
            value, usual = getattr(own, field.name), getattr(default, field.name)
            if field.name == "classes":
                rows += [(f"slo.classes {one.name}", _class(one), "") for one in value]
            else:
                rows.append((f"{section}.{field.name}", _text(value), "" if value == usual else _text(usual)))
    return tuple(rows)


def _class(one: object) -> str:
    told = {k: v for k, v in msgspec.to_builtins(one).items() if k != "name" and v}
    return ", ".join(f"{key} {_text(value)}" for key, value in told.items())


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
