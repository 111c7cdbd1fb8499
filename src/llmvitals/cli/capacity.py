"""``llmvitals capacity``: KV budget, seats and queue ceiling before anything is bought or started; plans and what-if."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llmvitals import capacity
from llmvitals import settings as settings_file
from llmvitals.audit import defaults
from llmvitals.capacity.changes import CHANGES, Compared, Running, compare
from llmvitals.capacity.document import compared_document, document, plan_document
from llmvitals.capacity.model import Model
from llmvitals.capacity.plan import OUTPUT, PROMPT, Demand, Plan
from llmvitals.capacity.report import CONTEXT, KV_DTYPES, WEIGHT_DTYPES, Answer, Question, answer, planned
from llmvitals.capacity.whatif import Load, Promise
from llmvitals.cli import capacity_text
from llmvitals.cli.capacity_live import live
from llmvitals.cli.duration import duration
from llmvitals.settings import Settings
from llmvitals.sources import model_config
from llmvitals.sources.now import Now

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

POSITIVE = click.FloatRange(min=0, min_open=True, max=1e12)
WHOLE = click.IntRange(min=1, max=1_000_000)

_OPTIONS: tuple[Decorator, ...] = (
    click.option("--model-config", type=click.Path(path_type=Path), help="The model's config.json."),
    click.option("--gpu", type=click.Choice([g.name for g in capacity.GPUS], case_sensitive=False), help="GPU model."),
    click.option("--gpu-memory-gb", type=POSITIVE, help="GB per GPU, for one not listed."),
    click.option("--gpus", type=WHOLE, default=1, show_default=True, help="GPUs of one replica."),
    click.option("--pipeline-parallel", type=WHOLE, default=1, show_default=True, help="Stages of one replica's GPUs."),
    click.option("--total-gpus", type=WHOLE, help="GPUs to share out between replicas; those of one by default."),
    click.option(
        "--weight-dtype",
        type=click.Choice(WEIGHT_DTYPES),
        default="auto",
        show_default=True,
        help="Data type of the weights; auto: as the checkpoint's config says.",
    ),
    click.option(
        "--kv-dtype", type=click.Choice(KV_DTYPES), default="fp16", show_default=True, help="Data type of the KV cache."
    ),
    click.option("--parameters", type=POSITIVE, help="Weights in billions, where known."),
    click.option(
        "--utilization",
        type=click.FloatRange(min=0, max=1, min_open=True),
        default=capacity.UTILIZATION,
        show_default=True,
        help="The engine's share of GPU memory (gpu_memory_utilization).",
    ),
    click.option(
        "--overhead-gb",
        type=click.FloatRange(min=0, max=10_000),
        default=capacity.OVERHEAD_GB_PER_GPU,
        show_default=True,
        help="Assumption: activations and CUDA graphs, GB per GPU.",
    ),
    click.option(
        "--context",
        type=click.IntRange(min=1),
        show_default=f"{CONTEXT}, or the live engine's",
        help="Mean tokens per request.",
    ),
    click.option("--service-rate", type=click.FloatRange(min=0), help="Requests finished per second."),
    click.option("--acceptable-wait", type=duration, metavar="DURATION", help="Longest wait in the queue, like 5s."),
    click.option("--live", metavar="URL", help="A running engine, an exporter that watches it, or a recording."),
    click.option("--instance", default="", help="Which engine of an exporter or a recording."),
    click.option(
        "--for",
        "seconds",
        type=duration,
        default="30s",
        show_default=True,
        metavar="DURATION",
        help="How long to watch.",
    ),
    click.option("--replicas", type=WHOLE, default=1, show_default=True, help="Replicas that share the traffic."),
    click.option("--users", type=POSITIVE, help="Plan for so many users who are active at once."),
    click.option("--requests-per-minute", type=POSITIVE, default=1.0, show_default=True, help="Of each user."),
    click.option(
        "--calls", type=POSITIVE, default=1.0, show_default=True, help="Model calls side by side per request."
    ),
    click.option("--turns", type=WHOLE, default=1, show_default=True, help="Rounds of an agent per request."),
    click.option(
        "--prompt-tokens", type=POSITIVE, show_default=f"{PROMPT:g}, or the live engine's", help="Of the first call."
    ),
    click.option(
        "--output-tokens", type=POSITIVE, show_default=f"{OUTPUT:g}, or the live engine's", help="Of each answer."
    ),
    click.option(
        "--added-tokens", type=click.FloatRange(min=0), default=0.0, show_default=True, help="By a tool, each turn."
    ),
    click.option(
        "--cached",
        type=click.FloatRange(min=0, max=1),
        show_default="0, or the live engine's",
        help="Share of prompt tokens that the prefix cache gives back.",
    ),
    click.option("--rate", type=POSITIVE, help="Calls per second to play, where no live engine tells."),
    click.option(
        "--what-if",
        "changes",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Simulate the traffic before and after a change: {', '.join(CHANGES)}.",
    ),
    click.option(
        "--max-num-seqs", type=WHOLE, show_default="vLLM's on this GPU", help="Of the engine before the change."
    ),
    click.option(
        "--max-num-batched-tokens",
        type=WHOLE,
        show_default="vLLM's on this GPU",
        help="Of the engine before the change.",
    ),
    click.option("--settings", "settings_path", type=click.Path(path_type=Path), help="Settings file: promises (slo)."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON only."),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The words of the command line, by option."""

    model_config: Path | None
    gpu: str | None
    gpu_memory_gb: float | None
    gpus: int
    pipeline_parallel: int
    total_gpus: int | None
    weight_dtype: str
    kv_dtype: str
    parameters: float | None
    utilization: float
    overhead_gb: float
    context: int | None
    service_rate: float | None
    acceptable_wait: float | None
    live: str | None
    instance: str
    seconds: float
    replicas: int
    users: float | None
    requests_per_minute: float
    calls: float
    turns: int
    prompt_tokens: float | None
    output_tokens: float | None
    added_tokens: float
    cached: float | None
    rate: float | None
    changes: tuple[str, ...]
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    settings_path: Path | None
    as_json: bool


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(name="capacity")
@_with_options
def command(**given: Any) -> None:  # noqa: ANN401  # one field of _Asked each
    """Estimate KV budget, seats and queue ceiling of a model on GPUs; plan for users; try a change.

    Reads the model's Hugging Face config.json. The result is an estimate: an engine measures its free memory when it
    starts, and shows its real KV pool on its metrics page, which --live reads.
    """
    asked = _Asked(**given)
    _together(asked)
    settings = settings_file.load(asked.settings_path)
    now = live(asked.live, settings, seconds=asked.seconds, instance=asked.instance) if asked.live else None
    if asked.model_config is None:
        _measured_only(asked, now)
        return
    config = model_config.load(asked.model_config)
    if asked.parameters is not None and not math.isfinite(asked.parameters):
        raise click.UsageError("--parameters is no number.")
    count = None if asked.parameters is None else asked.parameters * 1e9
    model = model_config.model_of(config, place=str(asked.model_config), parameters=count)
    question = _question(asked, now)
    found = answer(model, question, total_gpus=asked.total_gpus)
    plan = planned(model, question, _demand(asked, now, settings)) if asked.users is not None else None
    compared = _compared(asked, now, model, question, settings) if asked.changes else None
    if asked.as_json:
        click.echo(json.dumps(_document(model, found, now, plan, compared), indent=2))
        return
    capacity_text.report(model, found, now)
    if plan is not None:
        capacity_text.plan(plan)
    if compared is not None:
        capacity_text.compared(compared, now)


def _together(asked: _Asked) -> None:
    """What needs what."""
    if asked.model_config is None and asked.live is None:
        raise click.UsageError("Give --model-config, or --live URL.")
    if asked.model_config is not None and (asked.gpu is None) == (asked.gpu_memory_gb is None):
        raise click.UsageError("Give either --gpu or --gpu-memory-gb.")
    if asked.live is None and (asked.service_rate is None) != (asked.acceptable_wait is None):
        raise click.UsageError("--service-rate and --acceptable-wait belong together.")
    if (asked.changes or asked.users is not None) and (asked.model_config is None or asked.gpu is None):
        raise click.UsageError("--what-if and --users need --model-config and --gpu.")


def _measured_only(asked: _Asked, now: Now | None) -> None:
    """A running engine alone: seats from its pool and its contexts."""
    assert now is not None
    context = asked.context or now.context
    if now.kv_capacity is None or context is None:
        lacks = "the size of its KV pool" if now.kv_capacity is None else "how long its requests are"
        raise click.UsageError(f"{asked.live} does not tell {lacks}; give --model-config and --gpu, or --context.")
    rate = asked.service_rate if asked.service_rate is not None else now.service_rate
    ceiling = None
    if rate is not None and asked.acceptable_wait is not None:
        ceiling = capacity.queue_ceiling(rate, asked.acceptable_wait)
    seats = capacity.seats(now.kv_capacity, context)
    if asked.as_json:
        found = {
            "kv_bytes_per_token": None,
            "kv_budget_tokens": int(now.kv_capacity),
            "kv_budget_source": "measured",
            "seats": seats,
            "max_num_seqs": seats or None,
            "queue_ceiling": ceiling,
            "context": context,
            "live": _live_document(now),
        }
        click.echo(json.dumps(found, indent=2))
        return
    capacity_text.measured(now, context, seats, ceiling)


def _question(asked: _Asked, now: Now | None) -> Question:
    """Given words first, then what runs, then the defaults. A pool that was measured is shared by the replicas of its scope."""
    pool = now.kv_capacity / asked.replicas if now is not None and now.kv_capacity is not None else None
    rate = asked.service_rate
    if rate is None and now is not None and asked.acceptable_wait is not None:
        rate = now.service_rate
    return Question(
        gpu=asked.gpu or "",
        memory_gb=asked.gpu_memory_gb,
        gpus=asked.gpus,
        pipeline_parallel=asked.pipeline_parallel,
        weight_dtype=asked.weight_dtype,
        kv_dtype=asked.kv_dtype,
        context=asked.context or (now.context if now is not None else None) or CONTEXT,
        utilization=asked.utilization,
        overhead_gb=asked.overhead_gb,
        service_rate=rate,
        acceptable_wait=asked.acceptable_wait,
        kv_capacity=pool,
    )


def _lengths(asked: _Asked, now: Now | None) -> tuple[float, float, float]:
    """Prompt, output, and what the cache gives back."""
    prompt = asked.prompt_tokens or (now.prompt if now is not None else None) or PROMPT
    output = asked.output_tokens or (now.output if now is not None else None) or OUTPUT
    cached = asked.cached if asked.cached is not None else (now.cached if now is not None else None) or 0.0
    return prompt, output, cached


def _demand(asked: _Asked, now: Now | None, settings: Settings) -> Demand:
    prompt, output, cached = _lengths(asked, now)
    return Demand(
        users=asked.users or 0.0,
        requests_per_minute=asked.requests_per_minute,
        calls=asked.calls,
        turns=asked.turns,
        prompt=prompt,
        output=output,
        added=asked.added_tokens,
        cached=cached,
        pace=settings.slo.tpot_seconds,
    )


def _compared(asked: _Asked, now: Now | None, model: Model, question: Question, settings: Settings) -> Compared:
    rate = asked.rate if asked.rate is not None else (now.rate if now is not None else None)
    if rate is None:
        raise click.UsageError("--what-if needs --rate, or a --live engine with traffic.")
    changes = {}
    for text in asked.changes:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"'{text}' is no change; write it like max_num_seqs=64.")
        changes[name.strip()] = value.strip()
    prompt, output, cached = _lengths(asked, now)
    card = capacity.gpu_of(question.gpu)
    seats, step = defaults.usual(question.gpu, card.memory_gb if card is not None else 0.0)
    running = Running(
        question,
        Load(rate, prompt, output, cached=cached),
        asked.replicas,
        asked.max_num_seqs or seats,
        asked.max_num_batched_tokens or step,
    )
    return compare(model, running, changes, Promise(settings.slo.ttft_seconds, settings.slo.tpot_seconds))


def _document(
    model: Model, found: Answer, now: Now | None, plan: Plan | None, compared: Compared | None
) -> dict[str, Any]:
    return {
        **document(model, found),
        "live": _live_document(now) if now is not None else None,
        "plan": plan_document(plan) if plan is not None else None,
        "what_if": compared_document(compared) if compared is not None else None,
    }


def _live_document(now: Now) -> dict[str, Any]:
    return {name: getattr(now, name) for name in Now.__slots__}
