"""Other settings of the engine that the catalogue's causes come from."""

from __future__ import annotations

import json

from llmvitals.audit import flags
from llmvitals.audit.defaults import V0, V1_BY_DEFAULT, V1_ONLY
from llmvitals.audit.model import Rule, Values
from llmvitals.audit.rules.common import NO, NOTE, WARNING, holds, power_of_two
from llmvitals.audit.rules.mistakes import FEW_CONTEXTS
from llmvitals.audit.rules.start import spread
from llmvitals.audit.subject import FALLS_BACK, Subject

HIGHEST_SHARE, LOW_SHARE = 0.95, 0.5
"""Outside of the engine's share 5 to 10 % are needed (batching mistakes, production notes); below half, others share the GPU."""
LONG_CONTEXT = 32768
MANY_DRAFTS = 8
COUNTS_RUNNING = "The limit counts running requests too."
NO_LIMIT = "This release has no limit: set it at the gateway."
ONE_NODE = 8


def _share_high(s: Subject) -> tuple[Values, ...]:
    share = s.real("gpu-memory-utilization") or 0.0
    return holds(HIGHEST_SHARE < share <= 1, share=f"{share:g}", left=f"{1 - share:.0%}")


def _share_low(s: Subject) -> tuple[Values, ...]:
    share = s.real("gpu-memory-utilization") if s.has("gpu-memory-utilization") else None
    return holds(share is not None and 0 < share < LOW_SHARE, share=f"{share or 0:g}", left=f"{1 - (share or 0):.0%}")


def _number(name: str, s: Subject) -> float:
    return (s.real(name) or 0.0) if s.has(name) else 0.0


def _queue_low(s: Subject) -> tuple[Values, ...]:
    limit = s.whole("max-num-queued-reqs") if s.has("max-num-queued-reqs") else None
    if limit is None or s.seats is None:
        return NO
    seats = s.seats * s.ranks
    return holds(limit <= seats, limit=limit, seats=seats, line=f"--max-num-queued-reqs {seats + max(seats // 4, 1)}")


def _unbounded(s: Subject) -> bool:
    return s.setup.whole and not s.has("max-num-queued-reqs") and not s.has("max-num-queued-tokens")


def _can_bound(s: Subject) -> bool:
    return flags.row("max-num-queued-reqs", s.version) is not None


def _queue_open(s: Subject) -> tuple[Values, ...]:
    return holds(_unbounded(s) and _can_bound(s) and not s.traffic.users_wait)


def _queue_harms(s: Subject) -> tuple[Values, ...]:
    line = "--max-num-queued-reqs <seats + requests per second x acceptable wait>" if _can_bound(s) else ""
    how = COUNTS_RUNNING if _can_bound(s) else NO_LIMIT
    return holds(_unbounded(s) and s.traffic.users_wait, line=line, how=how)


def _output_open(s: Subject) -> tuple[Values, ...]:
    there = flags.row("override-generation-config", s.version) is not None and not s.has("override-generation-config")
    long = s.context is not None and s.context >= LONG_CONTEXT
    return holds(there and s.setup.whole and long, context=f"{s.context or 0:,}")


def _slots(s: Subject) -> tuple[Values, ...]:
    named = [one for one in s.values.get("lora-modules", "").split("\n") if one]
    slots = s.whole("max-loras") or 1
    return holds(bool(s.on("enable-lora")) and len(named) > slots, adapters=len(named), slots=slots)


def _drafts(s: Subject) -> tuple[Values, ...]:
    try:
        found = json.loads(s.values.get("speculative-config", "{}"))
    except (ValueError, RecursionError):
        return NO
    count = found.get("num_speculative_tokens") if isinstance(found, dict) else None
    return holds(isinstance(count, int) and count >= MANY_DRAFTS, count=count)


def _gpus_idle(s: Subject) -> tuple[Values, ...]:
    have = s.gpus_there
    wrong = have is not None and s.around.kind != "docker" and not spread(s) and s.gpus_needed < have
    room = max(1, (have or 0) // max(1, s.gpus_needed // s.tensor_parallel))
    parallel = power_of_two(room)
    line = f"--tensor-parallel-size {parallel}" if parallel > s.tensor_parallel else ""
    return holds(wrong, have=have, need=s.gpus_needed, line=line)


def _wide(s: Subject) -> tuple[Values, ...]:
    return holds(s.tensor_parallel > ONE_NODE, parallel=s.tensor_parallel, stages=-(-s.tensor_parallel // ONE_NODE))


def _fits_one(s: Subject) -> tuple[Values, ...]:
    alone = s.pool_at(s.context, gpus=1) if s.context and not s.setup.pool_tokens else None
    wrong = bool(alone and s.context and alone >= FEW_CONTEXTS * s.context) and s.tensor_parallel > 1
    return holds(wrong, parallel=s.tensor_parallel, gpu=s.hardware.name or "GPU")


def _reduce(s: Subject) -> tuple[Values, ...]:
    return holds(bool(s.on("disable-custom-all-reduce")) and s.tensor_parallel > 1)


def _fallback(s: Subject) -> tuple[Values, ...]:
    between = V1_BY_DEFAULT <= s.version < V1_ONLY and s.generation == V0
    return tuple({"flag": f"--{name}", "release": s.release} for name in FALLS_BACK if between and s.falls_back(name))


def _steps(s: Subject) -> tuple[Values, ...]:
    steps = s.whole("num-scheduler-steps") if s.has("num-scheduler-steps") else None
    return holds(bool(steps and steps > 1 and s.version < V1_BY_DEFAULT), steps=steps)


def _logs(s: Subject) -> tuple[Values, ...]:
    always = flags.row("disable-log-requests", s.version) and not flags.row("enable-log-requests", s.version)
    silent = s.on("disable-log-requests") or (always and not s.setup.whole)
    return holds(bool(s.on("enable-log-requests") or (always and not silent)))


_NOTES = "batching mistakes, production notes"
RULES: tuple[Rule, ...] = (
    Rule(
        "share-high",
        WARNING,
        "vram-headroom",
        "--gpu-memory-utilization {share} leaves {left} of the GPU for everything else",
        "CUDA graphs and other processes take memory that profiling may not see: 5 to 10 %. Too little ends in out of memory.",
        "--gpu-memory-utilization 0.95",
        _share_high,
        _NOTES,
    ),
    Rule(
        "share-low",
        NOTE,
        "kv-cache-saturation",
        "--gpu-memory-utilization {share} leaves {left} of the GPU unused",
        "Right where several engines share the GPU; else the pool could be larger.",
        "--gpu-memory-utilization 0.9",
        _share_low,
        "backpressure article, bottleneck 1",
    ),
    Rule(
        "eager",
        WARNING,
        "vram-headroom",
        "CUDA graphs are off (--enforce-eager)",
        "Steps are launched kernel by kernel: decoding is slower, most of all in small batches. A last resort for memory.",
        "",
        lambda s: holds(bool(s.on("enforce-eager"))),
        "backpressure article, bottleneck 3",
    ),
    Rule(
        "weights-in-host-memory",
        WARNING,
        "interconnect-bound",
        "{size} GB of the weights lie in host memory",
        "They cross PCIe in every step. Smaller weights or another GPU are quicker.",
        "--cpu-offload-gb 0 --quantization fp8",
        lambda s: holds(_number("cpu-offload-gb", s) > 0, size=f"{_number('cpu-offload-gb', s):g}"),
        "backpressure article, bottleneck 7",
    ),
    Rule(
        "blocks-overridden",
        WARNING,
        "kv-cache-saturation",
        "The pool is fixed at {blocks} blocks",
        "--num-gpu-blocks-override is meant for tests of preemption; without it the pool takes what memory leaves.",
        "",
        lambda s: holds(
            _number("num-gpu-blocks-override", s) > 0, blocks=f"{_number('num-gpu-blocks-override', s):,.0f}"
        ),
        "CacheConfig.num_gpu_blocks_override",
    ),
    Rule(
        "no-statistics",
        WARNING,
        "telemetry-broken",
        "The engine's metrics are off (--disable-log-stats)",
        "The page then shows neither queue nor KV nor latency: nobody can tell why it is slow.",
        "",
        lambda s: holds(bool(s.on("disable-log-stats"))),
        "catalogue, telemetry-broken",
    ),
    Rule(
        "queue-below-seats",
        WARNING,
        "unbounded-queue",
        "--max-num-queued-reqs {limit} refuses requests while seats are free",
        "It counts running requests too, and there are {seats} seats. Write seats + requests per second x acceptable wait.",
        "{line}",
        _queue_low,
        "SchedulerConfig.max_num_queued_reqs; backpressure article, bottleneck 8",
    ),
    Rule(
        "queue-without-end",
        WARNING,
        "unbounded-queue",
        "The queue has no end, and users wait",
        "Each new request waits longer than the one before. {how}",
        "{line}",
        _queue_harms,
        "backpressure article, bottleneck 8",
    ),
    Rule(
        "queue-without-end-so-far",
        NOTE,
        "unbounded-queue",
        "The queue has no end",
        "Under overload each new request waits longer than the one before. The limit counts running requests too.",
        "--max-num-queued-reqs <seats + requests per second x acceptable wait>",
        _queue_open,
        "backpressure article, bottleneck 8",
    ),
    Rule(
        "output-without-end",
        NOTE,
        "unbounded-output",
        "A request without max_tokens may write up to {context} tokens",
        "A default of the server's own bounds those that say nothing.",
        "--override-generation-config '{{\"max_new_tokens\": 512}}'",
        _output_open,
        "backpressure article, bottleneck 10",
    ),
    Rule(
        "adapter-slots",
        WARNING,
        "adapter-slots",
        "{adapters} adapters share {slots} slots",
        "Requests for an adapter that is not loaded wait until those of another one end.",
        "--max-loras {adapters}",
        _slots,
        "catalogue, adapter-slots",
    ),
    Rule(
        "many-drafts",
        NOTE,
        "draft-rejected",
        "{count} tokens are drafted in each step",
        "Each further one is accepted less often; watch the acceptance, and take fewer where it is below one half.",
        "",
        _drafts,
        "inference guide, speculative decoding",
    ),
    Rule(
        "gpus-unused",
        WARNING,
        "batch-too-small",
        "The command uses {need} of {have} GPUs",
        "The others stay empty, and nobody else gets them.",
        "{line}",
        _gpus_idle,
        "what was given",
    ),
    Rule(
        "tensor-parallel-wide",
        NOTE,
        "interconnect-bound",
        "Each layer is split over {parallel} GPUs",
        "That is more than one node of 8 has: without NVLink between all of them, split by pipeline stages instead.",
        "--tensor-parallel-size 8 --pipeline-parallel-size {stages}",
        _wide,
        "backpressure article, bottleneck 7",
    ),
    Rule(
        "replicas-instead",
        NOTE,
        "interconnect-bound",
        "The model fits one {gpu}, and is split over {parallel}",
        "Replicas serve more than tensor parallelism does where latency allows it. The room is an estimate.",
        "--tensor-parallel-size 1",
        _fits_one,
        "backpressure article, bottleneck 7",
    ),
    Rule(
        "plain-all-reduce",
        NOTE,
        "interconnect-bound",
        "The quick all-reduce is off (--disable-custom-all-reduce)",
        "Right where GPUs cannot reach each other's memory; with NVLink it costs time in every layer.",
        "",
        _reduce,
        "backpressure article, bottleneck 7",
    ),
    Rule(
        "falls-back-to-v0",
        WARNING,
        "prefix-caching-off",
        "{flag} makes vLLM {release} run its old engine (V0)",
        "V1 does not know it, so that this release falls back: without prefix caching, and with another scheduler.",
        "",
        _fallback,
        "EngineArgs._is_v1_supported_oracle",
    ),
    Rule(
        "many-steps-at-once",
        NOTE,
        "prefill-decode-interference",
        "{steps} decode steps run without looking at the queue",
        "Tokens come in bursts, and new requests wait for the end of each burst.",
        "--num-scheduler-steps 1",
        _steps,
        "catalogue, prefill-decode-interference",
    ),
    Rule(
        "requests-logged",
        NOTE,
        "api-server-bound",
        "Every request is logged",
        "At high rates that is work for the API process, and prompts stand in the log of older releases.",
        "",
        _logs,
        "batching mistakes, mistake 5",
    ),
)
