"""What stands in place of a flag that vLLM took away: a flag to write, or why there is none. Source: the releases' own notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instead:
    """The line to write ('' for none), and what there is to know."""

    line: str
    why: str


INSTEAD: Mapping[str, Instead] = {
    "disable-log-requests": Instead("", "Requests are logged only where --enable-log-requests is given: leave it out."),
    "swap-space": Instead("", "V1 never swaps but recomputes. --kv-offloading-size keeps KV in host memory."),
    "preemption-mode": Instead("", "V1 always recomputes: cap --max-num-seqs so that preemption is rare."),
    "num-scheduler-steps": Instead("", "V1 has no multi-step scheduling: leave it out."),
    "multi-step-stream-outputs": Instead("", "V1 has no multi-step scheduling: leave it out."),
    "use-v2-block-manager": Instead("", "There is one block manager: leave it out."),
    "scheduler-delay-factor": Instead("", "V1 has no such delay: leave it out."),
    "num-lookahead-slots": Instead("", "Set by speculative decoding itself: leave it out."),
    "disable-async-output-proc": Instead("", "V1 has no such switch: leave it out."),
    "disable-frontend-multiprocessing": Instead("", "The front end has a process of its own: leave it out."),
    "max-seq-len-to-capture": Instead("", "It never applied to V1: leave it out."),
    "speculative-model": Instead(
        '--speculative-config \'{"model": "...", "num_speculative_tokens": 3}\'', "One JSON value holds it."
    ),
    "num-speculative-tokens": Instead(
        "--speculative-config '{\"num_speculative_tokens\": 3}'", "One JSON value holds it."
    ),
    "ngram-prompt-lookup-max": Instead(
        '--speculative-config \'{"method": "ngram", "prompt_lookup_max": 4}\'', "One JSON value holds it."
    ),
    "guided-decoding-backend": Instead(
        "--structured-outputs-config.backend auto", "Structured outputs have own settings."
    ),
    "enable-reasoning": Instead("", "--reasoning-parser alone switches it on: leave it out."),
    "task": Instead("--runner pooling", "Generation needs nothing; for other tasks there are --runner and --convert."),
    "device": Instead("", "The platform is found by itself: leave it out."),
    "worker-use-ray": Instead("--distributed-executor-backend ray", "Renamed."),
    "engine-use-ray": Instead("", "The engine has a process of its own: leave it out."),
    "cuda-graph-sizes": Instead("--cudagraph-capture-sizes", "Renamed."),
    "rope-scaling": Instead("--hf-overrides '{\"rope_scaling\": {...}}'", "Set as an override of the model's config."),
    "rope-theta": Instead("--hf-overrides '{\"rope_theta\": ...}'", "Set as an override of the model's config."),
    "disable-cascade-attn": Instead("", "It has no effect any more: leave it out."),
    "enable-prompt-adapter": Instead("", "Prompt adapters were removed: use LoRA."),
    "quantization-param-path": Instead("", "KV scales come from the checkpoint: leave it out."),
}
"""By the flag's name without dashes."""
