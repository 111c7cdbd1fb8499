"""Answers as JSON: what ``llmvitals capacity --json`` prints and the page offers for download (docs/capacity.md)."""

from __future__ import annotations

import math
from typing import Any

from llmvitals.capacity.changes import Compared
from llmvitals.capacity.layouts import Layout
from llmvitals.capacity.model import Model
from llmvitals.capacity.plan import Plan
from llmvitals.capacity.report import Answer
from llmvitals.capacity.whatif import Outcome


def document(model: Model | None, found: Answer) -> dict[str, Any]:
    """The answer to a question. Numbers of bytes are whole where they are; what is not known is null."""
    estimate, question = found.estimate, found.question
    return {
        "kv_bytes_per_token": whole(estimate.kv_bytes_per_token),
        "kv_bytes_per_further_token": whole(estimate.kv_bytes_per_further_token),
        "kv_bytes_per_sequence": whole(estimate.kv_bytes_per_sequence),
        "kv_budget_tokens": found.budget_tokens,
        "kv_budget_tokens_as_shown": found.shown.kv_budget_tokens if found.shown is not None else None,
        "kv_budget_source": "measured" if found.measured else "estimate",
        "seats": found.seats,
        "max_num_seqs": found.seats or None,
        "queue_ceiling": found.queue_ceiling,
        "memory_gb": estimate.memory_gb,
        "usable_gb": round(estimate.usable_gb, 3),
        "weights_gb": round(estimate.weights_gb, 3),
        "kv_budget_gb": round(estimate.kv_budget_gb, 3),
        "context": whole(question.context),
        "seats_by_context": [{"context": tokens, "seats": seats} for tokens, seats in found.by_context],
        "mm1": {
            "load_at_acceptable_wait": found.load,
            "waits": [{"load": load, "mean_wait_seconds": wait} for load, wait in found.waits],
        }
        if found.waits
        else None,
        "layouts": [_layout(one) for one in found.layouts],
        "model": _model(model) if model is not None else None,
        "assumptions": {
            "overhead_gb": estimate.overhead_gb,
            "utilization": question.utilization,
            "weight_dtype": question.weight_dtype,
            "kv_dtype": question.kv_dtype,
        },
    }


def _model(model: Model) -> dict[str, Any]:
    return {
        "parameters": whole(model.parameters),
        "active_parameters": whole(model.used),
        "attention": model.attention,
        "layers": model.layers,
        "checkpoint_dtype": model.dtype or None,
        "notes": list(model.notes),
    }


def _layout(one: Layout) -> dict[str, Any]:
    return {
        "replicas": one.replicas,
        "tensor_parallel": one.tensor_parallel,
        "pipeline_parallel": one.pipeline_parallel,
        "why_not": one.why_not or None,
        "kv_budget_tokens": one.budget_tokens,
        "seats": one.seats,
        "single_stream_tokens_per_second": rounded(one.pace),
        "full_stream_tokens_per_second": rounded(one.full_pace),
        "tokens_per_second": rounded(one.throughput),
        "estimate": True,
    }


def plan_document(found: Plan) -> dict[str, Any]:
    """A plan; all of it is an estimate."""
    made, use = found.traffic, found.enough
    return {
        "estimate": True,
        "calls_per_second": made.calls,
        "prompt_tokens": made.prompt,
        "prompt_tokens_per_second": made.prompt_rate,
        "computed_prompt_tokens_per_second": made.computed_rate,
        "output_tokens_per_second": made.output_rate,
        "calls_at_once": found.resident,
        "resident_tokens": found.resident_tokens,
        "replicas": found.replicas,
        "gpus": found.gpus,
        "tensor_parallel": found.layout.tensor_parallel,
        "pipeline_parallel": found.layout.pipeline_parallel,
        "binds": found.binds.value,
        "kv_use": use.kv,
        "prompt_time_share": use.compute,
        "seconds_per_output_token": use.step,
        "most_calls_at_pace": found.most_at_pace,
    }


def compared_document(found: Compared) -> dict[str, Any]:
    """Before and after; both are simulated."""
    return {
        "simulated": True,
        "changes": dict(found.changes),
        "before": _outcome(found.before, found.pool_before),
        "after": _outcome(found.after, found.pool_after),
    }


def _outcome(one: Outcome, pool: int) -> dict[str, Any]:
    return {
        "pool_tokens": pool,
        "simulated_seconds": one.seconds,
        "requests": one.requests,
        "ttft_p95_seconds": one.ttft_p95,
        "ttft_is_lower_bound": one.ttft_bound,
        "goodput_low_per_second": one.goodput_low,
        "goodput_high_per_second": one.goodput_high,
        "kv_peak_ratio": one.kv_peak,
        "preemptions_per_minute": one.preemptions,
        "mean_running": one.running,
        "waiting_at_end": one.waiting,
        "queue_grows": one.growing,
        "cut_short": one.cut,
    }


def whole(number: float) -> float | int:
    """Without a needless ``.0``; a 4-bit cache may hold half a byte per token more."""
    return int(number) if math.isfinite(number) and number == int(number) else number


def rounded(number: float | None) -> float | None:
    """To a tenth; an estimate has no more."""
    return None if number is None else round(number, 1)
