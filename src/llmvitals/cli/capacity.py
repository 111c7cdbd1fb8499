"""``llmvitals capacity``: KV budget, seats and queue ceiling before anything is bought or started."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
from rich.table import Table

from llmvitals import capacity
from llmvitals.cli.duration import duration
from llmvitals.cli.screen import show
from llmvitals.sources import model_config

_DTYPES = click.Choice(sorted(capacity.BYTES))


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the report."""

    what: str
    value: str
    how: str = ""


@click.command(name="capacity")
@click.option("--model-config", type=click.Path(path_type=Path), required=True, help="The model's config.json.")
@click.option("--gpu", type=click.Choice([g.name for g in capacity.GPUS], case_sensitive=False), help="GPU model.")
@click.option("--gpu-memory-gb", type=click.FloatRange(min=0, min_open=True), help="GB per GPU, for one not listed.")
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="GPUs of one replica.")
@click.option("--weight-dtype", type=_DTYPES, default="bf16", show_default=True, help="Data type of the weights.")
@click.option("--kv-dtype", type=_DTYPES, default="fp16", show_default=True, help="Data type of the KV cache.")
@click.option("--parameters", type=click.FloatRange(min=0, min_open=True), help="Weights in billions, where known.")
@click.option(
    "--utilization",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=capacity.UTILIZATION,
    show_default=True,
    help="The engine's share of GPU memory (gpu_memory_utilization).",
)
@click.option(
    "--overhead-gb",
    type=click.FloatRange(min=0),
    default=capacity.OVERHEAD_GB_PER_GPU,
    show_default=True,
    help="Assumption: activations and CUDA graphs, GB per GPU.",
)
@click.option("--context", type=click.IntRange(min=1), default=4096, show_default=True, help="Mean tokens per request.")
@click.option("--service-rate", type=click.FloatRange(min=0), help="Requests finished per second.")
@click.option("--acceptable-wait", type=duration, metavar="DURATION", help="Longest wait in the queue, like 5s.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON only.")
def command(
    *,
    model_config: Path,
    gpu: str | None,
    gpu_memory_gb: float | None,
    gpus: int,
    weight_dtype: str,
    kv_dtype: str,
    parameters: float | None,
    utilization: float,
    overhead_gb: float,
    context: int,
    service_rate: float | None,
    acceptable_wait: float | None,
    as_json: bool,
) -> None:
    """Estimate KV budget, seats and queue ceiling of a model on GPUs.

    Reads the model's Hugging Face config.json. The result is an estimate: an engine measures its free memory when it
    starts, and shows its real KV pool on its metrics page.
    """
    if (gpu is None) == (gpu_memory_gb is None):
        raise click.UsageError("Give either --gpu or --gpu-memory-gb.")
    if (service_rate is None) != (acceptable_wait is None):
        raise click.UsageError("--service-rate and --acceptable-wait belong together.")
    model = _model(model_config, parameters)
    memory = next((g.memory_gb for g in capacity.GPUS if g.name == gpu), gpu_memory_gb or 0.0)
    found = capacity.estimate(
        model,
        memory_gb_per_gpu=memory,
        gpus=gpus,
        weight_bytes=capacity.BYTES[weight_dtype],
        kv_bytes=capacity.BYTES[kv_dtype],
        context=context,
        utilization=utilization,
        overhead_gb_per_gpu=overhead_gb,
    )
    ceiling = (
        None
        if service_rate is None or acceptable_wait is None
        else capacity.queue_ceiling(service_rate, acceptable_wait)
    )
    if as_json:
        click.echo(
            json.dumps(
                {
                    "kv_bytes_per_token": _whole(found.kv_bytes_per_token),
                    "kv_budget_tokens": found.kv_budget_tokens,
                    "seats": found.seats,
                    "queue_ceiling": ceiling,
                    "memory_gb": found.memory_gb,
                    "usable_gb": round(found.usable_gb, 3),
                    "weights_gb": round(found.weights_gb, 3),
                    "kv_budget_gb": round(found.kv_budget_gb, 3),
                    "context": context,
                    "assumptions": {"overhead_gb": found.overhead_gb, "utilization": utilization},
                },
                indent=2,
            )
        )
        return
    _report(found, weights=weight_dtype, kv=kv_dtype, context=context, utilization=utilization, ceiling=ceiling)


def _whole(number: float) -> float | int:
    """Without a needless ``.0``; a 4-bit cache may hold half a byte per token more."""
    return int(number) if number == int(number) else number


def _model(path: Path, parameters: float | None) -> capacity.Model:
    config = model_config.load(path)
    return model_config.model_of(config, place=str(path), parameters=None if parameters is None else parameters * 1e9)


def _report(
    found: capacity.Estimate, *, weights: str, kv: str, context: int, utilization: float, ceiling: float | None
) -> None:
    lines = [
        _Line("KV per token", f"{found.kv_bytes_per_token:,.0f} bytes", f"2 x layers x KV heads x head dim, {kv}"),
        _Line("GPU memory", f"{found.memory_gb:,.1f} GB"),
        _Line("engine's share", f"{found.usable_gb:,.1f} GB", f"x {utilization:g}"),
        _Line("weights", f"- {found.weights_gb:,.1f} GB", weights),
        _Line("activations, graphs", f"- {found.overhead_gb:,.1f} GB", "an assumption; the engine measures it"),
        _Line("KV budget", f"{found.kv_budget_gb:,.1f} GB"),
        _Line("KV budget", f"{found.kv_budget_tokens:,} tokens"),
        _Line("seats", f"{found.seats:,}", f"at {context:,} tokens each: start max_num_seqs here"),
    ]
    if ceiling is not None:
        lines.append(_Line("queue ceiling", f"{ceiling:,.0f} requests", "service rate x acceptable wait"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for line in lines:
        table.add_row(line.what, line.value, line.how)
    show(table)
    if found.kv_budget_tokens == 0:
        show("The model does not fit: use more GPUs or a smaller weight type.")
