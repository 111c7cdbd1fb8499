"""What a running engine says of itself: ``cache_config_info`` of a metrics page, and the lines of its start-up log."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Mapping

from llmvitals.audit.arguments import FALSE, TRUE, real
from llmvitals.audit.defaults import V0, V1
from llmvitals.audit.model import Setup

_INFO = re.compile(r"(?<![\w:])(\w[\w:]*cache_config_info)\{(.*?)\}", re.DOTALL)
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')
_PAGE = re.compile(
    r"cache_config_info\{|^llm_kv_block_tokens\b|^llm_prefix_caching_enabled\b|^# TYPE vllm:", re.MULTILINE
)
_SAMPLE = re.compile(r"^(llm_\w+)(?:\{(.*?)\})? +([\d.eE+-]+)", re.MULTILINE)
FAMILIES: Mapping[str, str] = {
    "llm_kv_block_tokens": "block-size",
    "llm_max_model_tokens": "max-model-len",
    "llm_gpu_memory_utilization_setting": "gpu-memory-utilization",
    "llm_prefix_caching_enabled": "enable-prefix-caching",
    "llm_kv_capacity_tokens": "",
}
"""Canonical families of a configuration, and the flag that each is the value of; the last is the pool itself."""
TARGET = "llm_target_info"
"""The family whose label says the engine's release, or the range of releases that its page fits."""

SETTINGS: Mapping[str, str] = {
    "block_size": "block-size",
    "cache_dtype": "kv-cache-dtype",
    "kv_cache_dtype": "kv-cache-dtype",
    "enable_prefix_caching": "enable-prefix-caching",
    "gpu_memory_utilization": "gpu-memory-utilization",
    "num_gpu_blocks_override": "num-gpu-blocks-override",
    "cpu_offload_gb": "cpu-offload-gb",
    "max_seq_len": "max-model-len",
    "tensor_parallel_size": "tensor-parallel-size",
    "pipeline_parallel_size": "pipeline-parallel-size",
    "data_parallel_size": "data-parallel-size",
    "enforce_eager": "enforce-eager",
    "tokenizer_mode": "tokenizer-mode",
    "chunked_prefill_enabled": "enable-chunked-prefill",
    "enable_chunked_prefill": "enable-chunked-prefill",
}
"""What the engine calls a setting, and its flag. ``swap_space`` is left out: a page shows its default as well."""


def looks_like_page(text: str) -> bool:
    """Whether a text is a metrics page, or a line of one."""
    return bool(_PAGE.search(text))


def page(text: str, *, place: str) -> tuple[Setup, ...]:
    """One set-up from a page of the engine, or of an exporter of ours that reads it; none where it says nothing of a cache."""
    found = _INFO.search(text)
    if found and "vllm" in found[1]:
        labels = dict(_LABEL.findall(found[2]))
        contexts = real(labels.get("kv_cache_max_concurrency", ""))
        return (Setup(place, "vllm", told=settings(labels), pool_tokens=_pool(labels), contexts=contexts, whole=False),)
    read = ((name, dict(_LABEL.findall(labels)), real(value)) for name, labels, value in _SAMPLE.findall(text))
    return of_samples(((name, labels, value) for name, labels, value in read if value is not None), place=place)


def of_samples(samples: Iterable[tuple[str, Mapping[str, str], float]], *, place: str) -> tuple[Setup, ...]:
    """One set-up for each instance and model of vLLM among canonical samples (name, labels, value), its ranks taken together."""
    found: dict[str, dict[str, float]] = {}
    instances: dict[str, str] = {}
    releases: dict[str, str] = {}
    for name, labels, value in samples:
        if name == TARGET:
            releases[labels.get("instance", "")] = _newest(labels.get("version", ""))
        if name in FAMILIES and labels.get("engine", "vllm") == "vllm":
            whose = " ".join(labels[key] for key in ("instance", "model") if labels.get(key)) or place
            kept = found.setdefault(whose, {})
            instances[whose] = labels.get("instance", "")
            kept[name] = min(value, kept.get(name, value))
    return tuple(_canonical(whose, values, releases.get(instances[whose], "")) for whose, values in found.items())


def _newest(told: str) -> str:
    """The newest release of a range such as ``0.7-0.7.3``; '' for one without an end, which may be newer than all it names."""
    return "" if told.startswith(">") else next(iter(_RELEASE.findall(told)[::-1]), "")


def _canonical(place: str, values: Mapping[str, float], version: str) -> Setup:
    told = {flag: _plain(values[name]) for name, flag in FAMILIES.items() if flag and name in values}
    if "enable-prefix-caching" in told:
        told["enable-prefix-caching"] = FALSE if told["enable-prefix-caching"] == "0" else TRUE
    pool = values.get("llm_kv_capacity_tokens")
    return Setup(place, "vllm", told=told, version=version, pool_tokens=int(pool) if pool else None, whole=False)


def _plain(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:g}"


def _pool(labels: Mapping[str, str]) -> int | None:
    size = real(labels.get("kv_cache_size_tokens", ""))
    if size:
        return int(size)
    blocks, block = real(labels.get("num_gpu_blocks", "")), real(labels.get("block_size", ""))
    return int(blocks * block) if blocks and block else None


def settings(said: Mapping[str, object]) -> dict[str, str]:
    """The settings among what an engine calls its own, by flag."""
    found: dict[str, str] = {}
    for name, value in said.items():
        text = str(value)
        if name in SETTINGS and text not in ("None", ""):
            found[SETTINGS[name]] = text.lower() if text in ("True", "False") else text
    return found


_RELEASE = re.compile(r"\d+(?:\.\d+)+")
_ENGINE = re.compile(r"Initializing an? (V[01] )?(?:LLM|AsyncLLM)\S* ?(?:engine )?\(v([\d.]+)[^)]*\) with config:(.*)")
_API = re.compile(r"(?:vLLM (?:API )?server|\u2588 ) ?version v?(\d[\d.]*\d)")
_PAIR = re.compile(r"\b(\w+)=('[^']*'|\"[^\"]*\"|[\w./-]+)")
_ARGS = re.compile(r"non-default args: (\{.*\})|args: (Namespace\(.*\))")
_POOL = re.compile(r"\b\w+ KV cache size: ([\d,]+) tokens")
_CONTEXTS = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_BLOCKS = re.compile(r"# (?:GPU|cuda) blocks: (\d+)")
_CHUNKED = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_LINES = (_ENGINE, _API, _ARGS, _POOL, _CONTEXTS, _BLOCKS, _CHUNKED)
V0_BLOCK = "16"
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def looks_like_log(text: str) -> bool:
    """Whether a text holds lines that vLLM writes at its start."""
    return any(line.search(_COLOUR.sub("", text)) for line in _LINES)


def log(text: str, *, place: str) -> tuple[Setup, ...]:
    """One set-up from the last start that a log tells of. Colours of a terminal are taken out."""
    text = _COLOUR.sub("", text)
    said: dict[str, str] = {}
    version = generation = ""
    for found in _API.finditer(text):
        version = found[1]
    for found in _ARGS.finditer(text):
        said.update(_arguments(found[1] or found[2]))
    for found in _ENGINE.finditer(text):
        generation = (found[1] or "").strip() or generation
        version = found[2]
        said.update(settings({key: value.strip("'\"") for key, value in _PAIR.findall(found[3])}))
    for found in _CHUNKED.finditer(text):
        said |= {"max-num-batched-tokens": found[1], "enable-chunked-prefill": TRUE}
    contexts: float | None = None
    for found in _CONTEXTS.finditer(text):
        said["max-model-len"], contexts = found[1].replace(",", ""), float(found[2])
    pool = _last(int(found[1].replace(",", "")) for found in _POOL.finditer(text))
    blocks = _last(int(found[1]) for found in _BLOCKS.finditer(text))
    if pool is None and blocks is not None:
        pool, generation = blocks * int(said.get("block-size", V0_BLOCK)), generation or V0
    if not generation and pool is not None:
        generation = V1
    started = bool(_ARGS.search(text))
    return (Setup(place, "vllm", (), {}, said, version, generation, pool, contexts, whole=started),)


def _last(values: Iterable[int]) -> int | None:
    return next(iter(list(values)[::-1]), None)


def _arguments(text: str) -> dict[str, str]:
    """The flags of ``non-default args`` (a dictionary) or of an older release's ``Namespace(...)`` with all of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a log says is no code of ours
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if isinstance(tree, ast.Call):
        pairs = [(word.arg or "", word.value) for word in tree.keywords]
    elif isinstance(tree, ast.Dict):
        pairs = [(str(getattr(key, "value", "")), value) for key, value in zip(tree.keys, tree.values, strict=True)]
    else:
        return {}
    found: dict[str, str] = {}
    for name, node in pairs:
        if isinstance(node, ast.Constant) and node.value is not None and not _is_default_off(tree, node.value):
            text = str(node.value)
            found[name.replace("_", "-")] = text.lower() if isinstance(node.value, bool) else text
        elif isinstance(node, ast.List):
            found[name.replace("_", "-")] = "\n".join(ast.unparse(each).strip("'\"") for each in node.elts)
    return found


def _is_default_off(tree: ast.expr, value: object) -> bool:
    """A ``Namespace`` holds every flag: one that is off was as a rule not written."""
    return isinstance(tree, ast.Call) and value is False
