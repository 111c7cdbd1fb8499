"""What an engine counts, and when: the populations of vLLM's series (see :mod:`counters`), some of other engines'.

``end``: the engine's own moment of a step's end; ``seen``: the later one at which the API process measures what came out.
"""

from __future__ import annotations

from llmvitals.simulator.counters import Counters
from llmvitals.simulator.roofline import StepCost
from llmvitals.simulator.sequence import Sequence


def step(counters: Counters, cost: StepCost, slow: float, tokens: int, prompts: int) -> None:
    """A step is over that gave ``tokens`` and computed ``prompts`` tokens of the prompts that it brought through;
    ``slow``: by how much its kernels were slowed.
    """
    if tokens:
        counters.iteration.observe(prompts + tokens)
    counters.generated_tokens += tokens
    counters.steps += 1
    counters.busy_seconds += cost.kernel * slow
    counters.memory_seconds += cost.memory
    counters.compute_seconds += cost.compute
    counters.link_bytes += cost.link_bytes


def came(counters: Counters, sequence: Sequence) -> None:
    """A request has been taken in."""
    counters.came_prompt.observe(sequence.request.prompt)
    counters.came_max_tokens.observe(sequence.asked)


def first_token(counters: Counters, sequence: Sequence, seen: float) -> None:
    """A prompt counts once and whole, with its first token."""
    sequence.first_seen = seen
    counters.first_token.observe(seen - sequence.call.arrived)
    if sequence.first_token is not None and sequence.scheduled is not None:
        counters.prompt_seconds += sequence.first_token - sequence.scheduled
    counters.prompt_tokens += sequence.request.prompt
    counters.cached_tokens += sequence.cached
    counters.received_tokens += sequence.received


def finished(counters: Counters, sequence: Sequence, end: float, seen: float) -> None:
    """Everything that is told of a request when it ends."""
    request, first, scheduled = sequence.request, sequence.first_token, sequence.scheduled
    if first is None or scheduled is None:  # pragma: no cover - nobody ends without a token
        raise AssertionError("a request ended before its first token")
    capped = request.ignore_eos or request.output >= sequence.asked
    counters.finished["length" if capped else "stop"] += 1
    counters.e2e.observe(seen - sequence.call.arrived)
    counters.queue.observe(scheduled - sequence.queued)
    counters.prefill.observe(first - scheduled)
    counters.decode.observe(end - first)
    counters.inference.observe(end - scheduled)
    if counters.dialect.with_prefill:
        counters.per_token.observe((end - scheduled) / sequence.generated)
    elif sequence.generated > 1 or counters.dialect.lone_zero:
        counters.per_token.observe((end - first) / (sequence.generated - 1) if sequence.generated > 1 else 0.0)
    counters.ended_first_token.observe(first - sequence.call.arrived)
    counters.most_tokens = max(counters.most_tokens, request.prompt + sequence.generated)
    counters.request_preemptions.observe(sequence.preemptions)
    counters.request_prompt.observe(request.prompt)
    counters.request_computed.observe(request.prompt - sequence.cached - sequence.received)
    counters.request_generated.observe(sequence.generated)
    counters.request_max_tokens.observe(sequence.asked)
    counters.n.observe(1)


def left(counters: Counters, sequence: Sequence, now: float) -> None:
    """A client has gone: no series of vLLM V1 tells, those of others do."""
    counters.aborted += 1
    if sequence.blocks:  # it was running
        counters.left_e2e.observe(now - sequence.call.arrived)
        counters.left_prompt.observe(sequence.request.prompt)
        counters.left_generated.observe(sequence.generated)
