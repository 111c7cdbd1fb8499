"""What each engine calls a setting that a remedy names, and whether a number worked out for it means the same there.

Checks name settings as vLLM does. An engine's own name carries the number only where meaning and unit are the same: TGI's
token budget is no number of seats. Names are those of each engine's own reference: SGLang's server arguments,
``text-generation-launcher --help``, ``trtllm-serve`` and its configuration file, the TensorRT-LLM backend's model
configuration for Triton, llama-server's README, Ollama's FAQ and Modelfile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from llmvitals.series import Window
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.model import Readings
from llmvitals.triage.units import inside
from llmvitals.triage.verdict import Finding

TITLES: Mapping[str, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tgi": "TGI",
    "trtllm": "TensorRT-LLM",
    "triton": "Triton",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
}
"""The engine kinds that have a column, as people write them."""

_OF_EVERY_PAGE = frozenset({"llm_target_info", "llm_family_gap"})
"""Gateways and GPU exporters say their own kind there."""


@dataclass(frozen=True, slots=True)
class Name:
    """An engine's own setting, or none. ``why``: what there is instead, or what to mind. ``same``: a number holds.

    ``counts``: a signal whose number this engine counts in as well, so that it comes on top of what was worked out.
    """

    name: str = ""
    why: str = ""
    same: bool = True
    counts: str = ""

    @property
    def holds(self) -> bool:
        """Whether there is a setting that takes the number as it was worked out."""
        return bool(self.name) and self.same


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: in plain words, as a remedy's sentence writes it ('' where none does), and by engine kind."""

    words: str
    written: str
    names: Mapping[str, Name]


def _none(why: str) -> Name:
    return Name("", why, same=False)


def _other(name: str, why: str) -> Name:
    return Name(name, why, same=False)


SETTINGS: Mapping[str, Setting] = {
    "--max-num-seqs": Setting(
        "limit on running requests",
        "max_num_seqs",
        {
            "vllm": Name("--max-num-seqs"),
            "sglang": Name("--max-running-requests"),
            "tgi": _other(
                "--max-batch-total-tokens",
                "TGI has no limit on running requests; --max-batch-total-tokens bounds their tokens together.",
            ),
            "trtllm": Name("max_batch_size"),
            "triton": Name(
                "max_batch_size (trtllm-build)",
                "The max_batch_size in config.pbtxt does not bound what TensorRT-LLM runs at once.",
            ),
            "llamacpp": Name(
                "--parallel", "Unless the KV buffer is unified, the slots share --ctx-size in equal parts."
            ),
            "ollama": Name("OLLAMA_NUM_PARALLEL"),
        },
    ),
    "--max-num-batched-tokens": Setting(
        "token budget of a step",
        "max_num_batched_tokens",
        {
            "vllm": Name("--max-num-batched-tokens"),
            "sglang": _other(
                "--chunked-prefill-size", "It bounds the prompt tokens of a step; running streams come on top."
            ),
            "tgi": _other("--max-batch-prefill-tokens", "It bounds the prompt tokens of one prefill."),
            "trtllm": Name("max_num_tokens"),
            "triton": Name("max_num_tokens (trtllm-build)"),
            "llamacpp": Name("--batch-size"),
            "ollama": Name("num_batch"),
        },
    ),
    "--max-num-queued-reqs": Setting(
        "limit on waiting requests",
        "max_num_queued_reqs",
        {
            # "in-flight (waiting or running)": docstring of vLLM's SchedulerConfig.max_num_queued_reqs
            "vllm": Name("--max-num-queued-reqs", counts="running_max"),
            "sglang": Name("--max-queued-requests", "SGLang ignores it where prefill and decode are apart."),
            "tgi": _other(
                "--max-concurrent-requests",
                "TGI has no limit on waiting requests alone; --max-concurrent-requests counts the running ones too.",
            ),
            "trtllm": _none("No limit on waiting requests of trtllm-serve is known: bound them at the gateway."),
            "triton": Name("max_queue_size"),
            "llamacpp": _none("No limit on waiting requests of llama-server is known: bound them at the gateway."),
            "ollama": Name("OLLAMA_MAX_QUEUE"),
        },
    ),
    "--max-model-len": Setting(
        "longest context of a request",
        "max_model_len",
        {
            "vllm": Name("--max-model-len"),
            "sglang": Name("--context-length"),
            "tgi": Name("--max-total-tokens"),
            "trtllm": Name("max_seq_len"),
            "triton": Name("max_seq_len (trtllm-build)"),
            "llamacpp": _other(
                "--ctx-size", "Unless the KV buffer is unified, each slot gets --ctx-size over --parallel."
            ),
            "ollama": Name("num_ctx"),
        },
    ),
    "--gpu-memory-utilization": Setting(
        "share of GPU memory that the engine may take",
        "gpu_memory_utilization",
        {
            "vllm": Name("--gpu-memory-utilization"),
            "sglang": _other("--mem-fraction-static", "It is the share for weights and KV pool, without activations."),
            "tgi": _other("--cuda-memory-fraction", "It caps what CUDA may allocate at all, as a share of the card."),
            "trtllm": _other(
                "kv_cache_config.free_gpu_memory_fraction", "It is a share of the memory that the weights leave free."
            ),
            "triton": _other(
                "kv_cache_free_gpu_mem_fraction", "It is a share of the memory that the weights leave free."
            ),
            "llamacpp": _none(
                "llama.cpp takes what the weights and --ctx-size need; --n-gpu-layers keeps layers off the card."
            ),
            "ollama": _none("Ollama has no such share; OLLAMA_GPU_OVERHEAD keeps so many bytes of each card free."),
        },
    ),
    "--enable-prefix-caching": Setting(
        "prefix caching",
        "enable_prefix_caching",
        {
            "vllm": Name("--enable-prefix-caching"),
            "sglang": _none("SGLang caches prefixes unless it is started with --disable-radix-cache: remove that."),
            "tgi": Name("PREFIX_CACHING"),
            "trtllm": Name("kv_cache_config.enable_block_reuse"),
            "triton": Name("enable_kv_cache_reuse"),
            "llamacpp": Name("--cache-prompt"),
            "ollama": _none("Ollama keeps the prefix of a slot by itself; there is nothing to switch."),
        },
    ),
    "--block-size": Setting(
        "tokens of a KV block",
        "block_size",
        {
            "vllm": Name("--block-size"),
            "sglang": Name("--page-size"),
            "tgi": _none("TGI's attention kernel decides the size of its blocks."),
            "trtllm": Name("kv_cache_config.tokens_per_block"),
            "triton": Name("tokens_per_block (trtllm-build)"),
            "llamacpp": _none("llama.cpp has no KV blocks."),
            "ollama": _none("Ollama has no KV blocks."),
        },
    ),
    "--kv-offloading-size": Setting(
        "KV offloading",
        "kv_offloading_size",
        {
            "vllm": Name("--kv-offloading-size"),
            "sglang": _other("--enable-hierarchical-cache", "It keeps evicted KV in host memory."),
            "tgi": _none("TGI has no KV offloading."),
            "trtllm": _other("kv_cache_config.host_cache_size", "In bytes."),
            "triton": _other("kv_cache_host_memory_bytes", "In bytes."),
            "llamacpp": _other("--cache-ram", "In MiB; it keeps prompts in host memory."),
            "ollama": _none("No KV offloading of Ollama is known."),
        },
    ),
    "--api-server-count": Setting(
        "number of API processes",
        "api_server_count",
        {
            "vllm": Name("--api-server-count"),
            "sglang": _other("--tokenizer-worker-num", "It is the number of tokenizer workers."),
            "tgi": _none("TGI's router is one process; --validation-workers is the number of its tokenizer workers."),
            "trtllm": _none(
                "trtllm-serve has one API process; num_postprocess_workers moves work on outputs out of it."
            ),
            "triton": _none(
                "Triton has one API process; preprocessing_instance_count gives tokenizing more instances."
            ),
            "llamacpp": _other("--threads-http", "It is the number of threads that answer HTTP."),
            "ollama": _none("Ollama has one API process."),
        },
    ),
    "--max-loras": Setting(
        "number of adapters in one batch",
        "max_loras",
        {
            "vllm": Name("--max-loras"),
            "sglang": Name("--max-loras-per-batch"),
            "tgi": _none("TGI loads every adapter of --lora-adapters at its start."),
            "trtllm": Name("lora_config.max_loras"),
            "triton": _other(
                "lora_cache_gpu_memory_fraction", "It is a share of the GPU memory left, no number of adapters."
            ),
            "llamacpp": _none("llama.cpp loads every adapter of --lora at its start."),
            "ollama": _none("With Ollama an adapter is part of a model."),
        },
    ),
    "--tensor-parallel-size": Setting(
        "tensor parallelism",
        "tensor_parallel_size",
        {
            "vllm": Name("--tensor-parallel-size"),
            "sglang": Name("--tensor-parallel-size"),
            "tgi": Name("--num-shard"),
            "trtllm": Name("tensor_parallel_size"),
            "triton": _none("With TensorRT-LLM in Triton it is set when the engine is built."),
            "llamacpp": _other("--split-mode", "It says how a model is split between GPUs."),
            "ollama": _none("Ollama splits a model between GPUs by itself."),
        },
    ),
    "--speculative-config": Setting(
        "speculative decoding",
        "speculative_config",
        {
            "vllm": Name("--speculative-config"),
            "sglang": _other(
                "--speculative-num-draft-tokens", "Without --speculative-algorithm there is no speculation."
            ),
            "tgi": _other("--speculate", "It is the number of tokens to guess."),
            "trtllm": Name("speculative_config"),
            "triton": _other("decoding_mode", "It names the kind of decoding."),
            "llamacpp": _none("llama.cpp speculates where it is started with a draft."),
            "ollama": _none("No setting for speculation of Ollama is known."),
        },
    ),
    "kv-transfer-config": Setting(
        "KV transfer",
        "kv_transfer_config",
        {
            "vllm": Name("kv-transfer-config"),
            "sglang": _other("--disaggregation-transfer-backend", "It names what carries the KV."),
            "tgi": _none("TGI moves no KV between servers."),
            "trtllm": Name("cache_transceiver_config"),
            "triton": _none("No setting for KV transfer of the TensorRT-LLM backend is known."),
            "llamacpp": _none("llama.cpp moves no KV between servers."),
            "ollama": _none("Ollama moves no KV between servers."),
        },
    ),
}
"""By the setting that a remedy names. What is not here (replicas, a quota, a probe) is the same for every engine."""

_PASSING: tuple[tuple[str, str], ...] = (("enforce_eager", "no CUDA graphs"),)
"""What sentences mention of vLLM in passing, in plain words."""


def kinds(window: Window) -> tuple[str, ...]:
    """The engine kinds with a column whose numbers are in the window, in the order of the columns; none where it shows none.

    Gateways, GPU exporters and KV stores beside an engine do not count.
    """
    names = window.names() - _OF_EVERY_PAGE
    found = {track.label("engine") for name in names for track in window.tracks(name)}
    return tuple(kind for kind in TITLES if kind in found)


def named(found: Finding, engines: tuple[str, ...], readings: Readings | None = None) -> Finding:
    """A finding whose action names its setting as these engines do.

    Several kinds that differ get the setting in plain words, and each kind's name in the note; so does an engine that is not
    known, without a name. The number stays where it holds for all of them. ``readings``: where they are given, what an engine
    counts in as well is added to the number.
    """
    setting = SETTINGS.get(found.action.setting)
    if setting is None:
        return found
    rows = [setting.names[kind] for kind in engines]
    counts = {row.counts for row in rows}
    if readings is not None and len(counts) == 1:
        found = _counting(found, rows[0].counts, readings)
    if engines == ("vllm",):
        return found
    name = rows[0].name if rows and all(row == rows[0] for row in rows) else setting.words
    note = rows[0].why if len(set(rows)) == 1 else " ".join(_told(kind, setting.names[kind]) for kind in engines)
    action = replace(
        found.action,
        text=rewritten(found.action.text, setting, name),
        setting=name,
        value=found.action.value if all(row.holds for row in rows) and len(counts) < 2 else None,
    )
    return replace(found, action=action, note=" ".join(part for part in (found.note, note) if part))


def _counting(found: Finding, counts: str, readings: Readings) -> Finding:
    """A finding whose number is what was worked out and what the engine counts in as well; none where that is not known."""
    if not counts or found.action.value is None:
        return found
    more = readings[counts].value
    value = None if more is None else float(round(found.action.value + more))
    told = f"The setting counts them too: {inside(BY_ID[counts].title)}"
    note = (
        f"{told} {more:,.0f}, and {found.action.value:,.0f} on top." if more is not None else f"{told}, not known here."
    )
    return replace(
        found, action=replace(found.action, value=value), note=" ".join(part for part in (found.note, note) if part)
    )


def _told(kind: str, row: Name) -> str:
    """What one engine of several calls it, or what it has instead."""
    return f"{TITLES[kind]}: {row.name}." if row.holds else row.why


def rewritten(text: str, setting: Setting, name: str) -> str:
    """A remedy's sentence without vLLM's words."""
    plain = name if name and name != setting.words else f"the {setting.words}"
    for written, words in ((setting.written, plain), *_PASSING):
        text = text.replace(written, words)
    return text
