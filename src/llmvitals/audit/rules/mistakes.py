"""The five batching mistakes: block size, preemption, prefix caching, contexts against the pool, the process in front."""

from __future__ import annotations

from llmvitals.audit import flags
from llmvitals.audit.defaults import V0, V1
from llmvitals.audit.flags import Version
from llmvitals.audit.model import Rule, Values
from llmvitals.audit.rules.common import NO, NOTE, WARNING, holds, up
from llmvitals.audit.subject import Subject
from llmvitals.capacity import seats as seats_of

BLOCK = 16
"""Smallest block that the common attention kernels take (FlashAttention: multiples of 16), and the usual default."""
WASTE = 0.10
"""Share of the pool lost in half-empty last blocks from which a smaller block pays. Half a block is lost per request on average."""
CUDA_BLOCKS: tuple[Version, Version] = ((0, 8, 5), (0, 16, 0))
"""Releases whose reference says that CUDA takes blocks of at most 32 tokens (``CacheConfig.block_size``)."""
LONG_PROMPT, SHORT_PROMPT = 4000, 200
"""Prompt tokens from which swapping beats recomputing, and up to which recomputing wins (batching mistakes, mistake 2)."""
FEW_CONTEXTS = 4
"""Requests of full length; the limit of the triage's check of the same cause."""
SLACK = 4
"""Longest accepted over longest used; the limit of the triage's check of the same cause."""
OVER = 1.25
"""Seats over what the pool holds, from which it is said: both are means."""
FEW_SEATS = 16
SMALL_STEP, LARGE_STEP = 1024, 32768
MANY_RANKS = 4
ESTIMATED = " (an estimate; the engine measures it at its start)"


def _block_small(s: Subject) -> tuple[Values, ...]:
    block = s.whole("block-size") if s.has("block-size") else None
    return holds(block is not None and 0 < block < BLOCK, block=block)


def _block_waste(s: Subject) -> tuple[Values, ...]:
    block = s.whole("block-size") if s.has("block-size") else None
    if not block or block <= BLOCK or not s.mean_tokens:
        return NO
    share = block / 2 / s.mean_tokens
    return holds(share >= WASTE, block=block, mean=f"{s.mean_tokens:,.0f}", share=f"{min(share, 0.99):.0%}")


def _block_large(s: Subject) -> tuple[Values, ...]:
    block = s.whole("block-size") if s.has("block-size") and "block-size" not in s.setup.told else None
    first, last = CUDA_BLOCKS
    return holds(bool(block and block > 32 and first <= s.version <= last), block=block, release=s.release)


def _swap(s: Subject) -> float:
    return (s.real("swap-space") or 0.0) if s.has("swap-space") else 0.0


def _swap_idle(s: Subject) -> tuple[Values, ...]:
    there = flags.row("swap-space", s.version) is not None
    offload = flags.row("kv-offloading-size", s.version) is not None
    line = f"--kv-offloading-size {_swap(s):g}" if offload else ""
    return holds(there and s.generation == V1 and _swap(s) > 0, space=f"{_swap(s):g}", line=line)


def _swap_alone(s: Subject) -> tuple[Values, ...]:
    mode = flags.row("preemption-mode", s.version) is not None
    wrong = (
        s.generation == V0 and _swap(s) > (s.real_default("swap-space") or 0) and s.text("preemption-mode") != "swap"
    )
    return holds(wrong, space=f"{_swap(s):g}", line="--preemption-mode swap" if mode else "")


def _recompute_long(s: Subject) -> tuple[Values, ...]:
    prompt = s.traffic.prompt_tokens or 0
    wrong = s.generation == V0 and s.text("preemption-mode") != "swap" and not _swap_alone(s)
    return holds(wrong and prompt >= LONG_PROMPT, prompt=f"{prompt:,.0f}")


def _swap_short(s: Subject) -> tuple[Values, ...]:
    prompt = s.traffic.prompt_tokens
    return holds(
        prompt is not None and prompt < SHORT_PROMPT and s.text("preemption-mode") == "swap",
        prompt=f"{prompt or 0:,.0f}",
    )


def _offload_long(s: Subject) -> tuple[Values, ...]:
    prompt = s.traffic.prompt_tokens or 0
    has = flags.row("kv-offloading-size", s.version) is not None and not s.has("kv-offloading-size")
    return holds(s.generation == V1 and has and s.setup.whole and prompt >= LONG_PROMPT, prompt=f"{prompt:,.0f}")


def _pools(s: Subject) -> bool:
    """Whether the model answers without generating: nothing to cache, nothing to decode."""
    return s.text("runner") == "pooling" or s.text("task") in ("embed", "embedding", "classify", "score", "reward")


def _prefix_off(s: Subject) -> tuple[Values, ...]:
    return holds(s.off("enable-prefix-caching") and not _pools(s))


def _prefix_default(s: Subject) -> tuple[Values, ...]:
    silent = s.setup.whole and s.on("enable-prefix-caching") is None
    return holds(silent and not s.caches_prefixes and not _pools(s), release=s.release)


def _estimated(s: Subject) -> str:
    return ESTIMATED if s.pool_is_estimate and s.setup.contexts is None else ""


def _context_values(s: Subject) -> dict[str, object]:
    used = s.traffic.longest_tokens
    fits = up(used) if used else max(1024, int((s.pool or 0) / FEW_CONTEXTS) // 1024 * 1024)
    known = s.contexts if s.contexts is not None else 0.0
    return {
        "contexts": f"{known:.1f}",
        "context": f"{s.context:,}" if s.context else "the longest accepted",
        "seats": s.seats,
        "estimated": _estimated(s),
        "line": f"--max-model-len {fits}" if used or s.pool else "",
        "fits": f"{fits:,}",
    }


def _pool_below_one(s: Subject) -> tuple[Values, ...]:
    """Only an estimate can say so: what runs has been started."""
    guessed = s.pool_is_estimate and s.setup.contexts is None
    return (_context_values(s),) if guessed and s.contexts is not None and s.contexts < 1 else NO


def _context_over(s: Subject) -> tuple[Values, ...]:
    if s.contexts is None or s.seats is None or s.contexts >= FEW_CONTEXTS or _pool_below_one(s):
        return NO
    return (_context_values(s),) if s.seats >= FEW_CONTEXTS * s.contexts else NO


def _context_over_alone(s: Subject) -> tuple[Values, ...]:
    few = s.contexts is not None and s.seats is None and s.contexts < FEW_CONTEXTS
    return (_context_values(s),) if few and not _pool_below_one(s) else NO


def _context_unused(s: Subject) -> tuple[Values, ...]:
    used = s.traffic.longest_tokens
    if not used or not s.context or s.context < SLACK * used or _context_over(s) or _pool_below_one(s):
        return NO
    return holds(True, context=f"{s.context:,}", used=f"{used:,.0f}", times=f"{s.context / used:.0f}", fits=up(used))


def _seats_over(s: Subject) -> tuple[Values, ...]:
    pool = s.pool_at(s.mean_tokens) if s.mean_tokens else None
    if not pool or not s.mean_tokens or s.seats is None:
        return NO
    fit = seats_of(pool, s.mean_tokens)
    times = s.seats / fit if fit else 0.0
    values = {
        "seats": s.seats,
        "fit": fit,
        "mean": f"{s.mean_tokens:,.0f}",
        "pool": f"{pool:,}",
        "times": f"{times:.1f}",
    }
    return ({**values, "estimated": _estimated(s)},) if fit and times >= OVER else NO


def _seats_few(s: Subject) -> tuple[Values, ...]:
    if not s.has("max-num-seqs") or s.seats is None or s.contexts is None or s.seats > FEW_SEATS:
        return NO
    fits = int(s.contexts)
    return holds(
        s.contexts >= 4 * s.seats, seats=s.seats, contexts=f"{s.contexts:.0f}", fits=fits, estimated=_estimated(s)
    )


def _pool_unknown(s: Subject) -> tuple[Values, ...]:
    return holds(s.setup.whole and s.contexts is None and not _pools(s))


def _left_whole(s: Subject) -> bool:
    """Whether V0 leaves prompts whole because nobody said otherwise: its log shows that like a choice."""
    silent = s.on("enable-chunked-prefill") is None or "enable-chunked-prefill" in s.setup.told
    return s.generation == V0 and silent and s.chunked is not True


def _chunked_off(s: Subject) -> tuple[Values, ...]:
    return holds(s.off("enable-chunked-prefill") and not _pools(s) and not _step_short(s) and not _left_whole(s))


def _step_short(s: Subject) -> bool:
    """Then the server does not start at all, which is said elsewhere."""
    return bool(s.has("max-num-batched-tokens") and s.step_tokens and s.context and s.step_tokens < s.context)


def _chunked_default(s: Subject) -> tuple[Values, ...]:
    return holds(s.setup.whole and _left_whole(s))


def _step_large(s: Subject) -> tuple[Values, ...]:
    tokens = s.step_tokens if s.has("max-num-batched-tokens") else None
    return holds(bool(tokens and tokens >= LARGE_STEP and s.chunked), tokens=f"{tokens or 0:,}")


def _step_small(s: Subject) -> tuple[Values, ...]:
    tokens = s.step_tokens if s.has("max-num-batched-tokens") else None
    steps = -(-4096 // tokens) if tokens else 0
    return holds(bool(tokens and tokens < SMALL_STEP and s.chunked), tokens=tokens, steps=steps)


def _cores(s: Subject) -> tuple[Values, ...]:
    limit = s.around.cpu_limit
    gpus = s.gpus_there or s.gpus_needed
    return holds(limit is not None and limit < 2 + gpus, limit=f"{limit or 0:g}", need=2 + gpus, gpus=gpus)


def _one_front(s: Subject) -> tuple[Values, ...]:
    count = s.whole("api-server-count")
    wrong = s.ranks >= MANY_RANKS and count == 1 and not s.has("data-parallel-rank")
    return holds(wrong, ranks=s.ranks)


def _in_process(s: Subject) -> bool:
    """The engine runs in the API server's process: by a flag (V0) or a variable (V1)."""
    return (
        bool(s.on("disable-frontend-multiprocessing")) or s.setup.env.get("VLLM_ENABLE_V1_MULTIPROCESSING", "") == "0"
    )


_M1, _M2, _M3, _M4, _M5 = (f"batching mistakes, mistake {n}" for n in range(1, 6))
_GUIDE_CPU = "vLLM's documentation, CPU resources for GPU deployments; batching mistakes, mistake 5"
RULES: tuple[Rule, ...] = (
    Rule(
        "block-small",
        WARNING,
        "block-fragmentation",
        "Blocks of {block} tokens are smaller than the kernels like",
        "FlashAttention takes multiples of 16: with less another, slower kernel is chosen, and the table of blocks grows.",
        "--block-size 16",
        _block_small,
        _M1,
    ),
    Rule(
        "block-waste",
        WARNING,
        "block-fragmentation",
        "Blocks of {block} tokens leave {share} of the pool empty",
        "A request holds {mean} tokens on average, and half a block of its last one is lost.",
        "--block-size 16",
        _block_waste,
        _M1,
    ),
    Rule(
        "block-large",
        NOTE,
        "block-fragmentation",
        "Blocks of {block} tokens are more than vLLM {release} promises for CUDA",
        "Its reference names 32 as the most; models with latent attention (DeepSeek) choose 64 by themselves.",
        "--block-size 16",
        _block_large,
        _M1,
    ),
    Rule(
        "swap-without-effect",
        WARNING,
        "preemption-mode",
        "--swap-space {space} does nothing in the V1 engine",
        "V1 never swaps: what is preempted is computed again. Offloading keeps KV in host memory; else cap admission.",
        "{line}",
        _swap_idle,
        _M2,
    ),
    Rule(
        "swap-alone",
        WARNING,
        "preemption-mode",
        "--swap-space {space} alone does not make preempted requests swap",
        "V0 recomputes every request of a single sequence unless the mode says swap.",
        "{line}",
        _swap_alone,
        _M2,
    ),
    Rule(
        "recompute-long-prompts",
        WARNING,
        "preemption-mode",
        "Preempted prompts of {prompt} tokens are computed again",
        "From some 4,000 prompt tokens copying KV to host memory and back is quicker than a second prefill.",
        "--preemption-mode swap",
        _recompute_long,
        _M2,
    ),
    Rule(
        "swap-short-prompts",
        WARNING,
        "preemption-mode",
        "Preempted prompts of {prompt} tokens are copied to host memory and back",
        "Below some 200 prompt tokens a second prefill is quicker.",
        "--preemption-mode recompute",
        _swap_short,
        _M2,
    ),
    Rule(
        "offload-long-prompts",
        NOTE,
        "preemption-mode",
        "Preempted prompts of {prompt} tokens are computed again",
        "V1 always recomputes. Where preemptions are counted, cap --max-num-seqs first, or keep KV in host memory (GiB).",
        "--kv-offloading-size 32",
        _offload_long,
        _M2,
    ),
    Rule(
        "prefix-caching-off",
        WARNING,
        "prefix-caching-off",
        "Prefix caching is off",
        "What requests share at their beginning (a system prompt, a conversation so far) is computed for each of them.",
        "--enable-prefix-caching",
        _prefix_off,
        _M3,
    ),
    Rule(
        "prefix-caching-off-by-default",
        WARNING,
        "prefix-caching-off",
        "Prefix caching is off: vLLM {release} leaves it off with the V0 engine",
        "What requests share at their beginning (a system prompt, a conversation so far) is computed for each of them.",
        "--enable-prefix-caching",
        _prefix_default,
        _M3,
    ),
    Rule(
        "pool-below-one-context",
        WARNING,
        "context-imbalance",
        "The KV pool holds {contexts} of one request of {context} tokens{estimated}",
        "A request of full length could never run: vLLM does not start where the pool it measures is so small.",
        "{line}",
        _pool_below_one,
        _M4,
    ),
    Rule(
        "context-over-pool",
        WARNING,
        "context-imbalance",
        "{seats} seats, but the pool holds {contexts} requests of full length{estimated}",
        "--max-model-len {context} is out of proportion to the pool: a few long requests fill it, and the others wait or are "
        "preempted. Cut it to what traffic uses, {fits} at most.",
        "{line}",
        _context_over,
        _M4,
    ),
    Rule(
        "context-over-pool-alone",
        NOTE,
        "context-imbalance",
        "The pool holds {contexts} requests of full length{estimated}",
        "How many seats there are is not said here. With many, a few long requests fill the pool while the others wait.",
        "{line}",
        _context_over_alone,
        _M4,
    ),
    Rule(
        "context-unused",
        WARNING,
        "context-imbalance",
        "--max-model-len {context} is {times} times what traffic uses",
        "99.9 % of requests stay below {used} tokens. The start plans for the longest context, and one odd request may take it.",
        "--max-model-len {fits}",
        _context_unused,
        _M4,
    ),
    Rule(
        "seats-over-pool",
        WARNING,
        "preemption-thrash",
        "{seats} seats are {times} times what the pool holds{estimated}",
        "The pool of {pool} tokens holds {fit} requests of {mean} tokens; more are admitted, preempted and computed again.",
        "--max-num-seqs {fit}",
        _seats_over,
        "backpressure article, bottlenecks 1 and 2; batching mistakes, mistake 4",
    ),
    Rule(
        "seats-few",
        WARNING,
        "batch-too-small",
        "{seats} seats, and the pool holds {contexts} requests of full length{estimated}",
        "Requests wait for a seat while memory is free. Raise it step by step while the pace of tokens holds.",
        "--max-num-seqs {fits}",
        _seats_few,
        _M4,
    ),
    Rule(
        "pool-unknown",
        NOTE,
        "context-imbalance",
        "Whether seats, contexts and KV pool fit each other is not known",
        "Give the log of a start or the metrics page, which say the pool; or the model's config.json and the GPU, for an estimate.",
        "",
        _pool_unknown,
        _M4,
    ),
    Rule(
        "chunked-prefill-off",
        WARNING,
        "prefill-decode-interference",
        "Chunked prefill is off",
        "A long prompt takes a whole step, and every running stream stands still meanwhile.",
        "--enable-chunked-prefill",
        _chunked_off,
        "batching mistakes, production notes",
    ),
    Rule(
        "chunked-prefill-off-by-default",
        NOTE,
        "prefill-decode-interference",
        "Chunked prefill is off: the V0 engine leaves it off up to 32,768 tokens of context",
        "Where prompts are long, running streams stand still during each of them. Try it against your own traffic.",
        "--enable-chunked-prefill",
        _chunked_default,
        "batching mistakes, production notes",
    ),
    Rule(
        "step-large",
        NOTE,
        "prefill-decode-interference",
        "A step may hold {tokens} tokens",
        "Whole prompts go into one step: first tokens come sooner, running streams are less even. Right for batch work.",
        "--max-num-batched-tokens 8192",
        _step_large,
        _M4,
    ),
    Rule(
        "step-small",
        NOTE,
        "prefill-bound",
        "A step holds only {tokens} tokens",
        "A prompt of 4,096 tokens takes {steps} steps or more until its first token; running streams are even.",
        "--max-num-batched-tokens 2048",
        _step_small,
        _M4,
    ),
    Rule(
        "tokenizer-slow",
        WARNING,
        "api-server-bound",
        "The slow tokenizer is chosen",
        "It is written in Python and holds up the API process; auto takes the fast one where the model has one.",
        "--tokenizer-mode auto",
        lambda s: holds(s.text("tokenizer-mode") == "slow"),
        _M5,
    ),
    Rule(
        "front-end-in-engine",
        WARNING,
        "api-server-bound",
        "API server and engine share one process",
        "Tokenizing and HTTP then hold up the scheduler: the GPU waits for Python.",
        "",
        lambda s: holds(_in_process(s)),
        _M5,
    ),
    Rule(
        "too-few-cores",
        WARNING,
        "api-server-bound",
        "{limit} CPU cores for an engine of {gpus} GPUs",
        "An API process, an engine core that never sleeps and a worker for each GPU need a core each: {need} at least.",
        'resources.limits.cpu: "{need}"',
        _cores,
        _GUIDE_CPU,
    ),
    Rule(
        "one-front-for-many-ranks",
        NOTE,
        "api-server-bound",
        "One API process serves {ranks} engines",
        "With so many it may be the limit; as many API processes as engines are what later releases start by themselves.",
        "--api-server-count {ranks}",
        _one_front,
        _M5,
    ),
)
