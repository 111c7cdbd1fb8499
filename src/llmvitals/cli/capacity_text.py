"""Capacity for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from llmvitals.capacity.changes import Compared
from llmvitals.capacity.layouts import Layout
from llmvitals.capacity.model import Model
from llmvitals.capacity.plan import Binds, Plan
from llmvitals.capacity.report import AUTO, Answer
from llmvitals.capacity.whatif import Outcome
from llmvitals.cli.screen import show
from llmvitals.sources.now import Now

BINDS = {
    Binds.KV: "with one replica less the contexts do not fit",
    Binds.COMPUTE: "with one replica less prompts take too much of the time",
    Binds.BANDWIDTH: "with one replica less tokens come too slowly",
    Binds.NOTHING: "one replica is enough",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: what, its value, and how it comes about."""

    what: str
    value: str
    how: str = ""


def report(model: Model, found: Answer, now: Now | None) -> None:
    """The memory, the seats, the queue and the layouts."""
    one, question = found.estimate, found.question
    weights = (
        question.weight_dtype if question.weight_dtype != AUTO else f"{model.dtype or 'bf16'}, as the checkpoint says"
    )
    lines = [
        Line("attention", *_attention(model)),
        Line("weights", f"{model.parameters / 1e9:,.2f} billion", used(model)),
        Line(
            "KV per token", f"{one.kv_bytes_per_token:,.0f} bytes", f"all layers that keep tokens, {question.kv_dtype}"
        ),
    ]
    if one.kv_bytes_per_further_token != one.kv_bytes_per_token:
        lines.append(Line("", f"{one.kv_bytes_per_further_token:,.0f} bytes", "for each token beyond the windows"))
    if one.kv_bytes_per_sequence != one.kv_bytes_per_token * question.context:
        size = one.kv_bytes_per_sequence
        lines.append(
            Line("KV per request", f"{size / 1e6:,.1f} MB", f"of {question.context:,.0f} tokens, states and windows")
        )
    lines += [
        Line("GPU memory", f"{one.memory_gb:,.1f} GB"),
        Line("engine's share", f"{one.usable_gb:,.1f} GB", f"x {question.utilization:g}"),
        Line("weights", f"- {one.weights_gb:,.1f} GB", weights),
        Line("activations, graphs", f"- {one.overhead_gb:,.1f} GB", "an assumption; the engine measures it"),
        Line("KV budget", f"{one.kv_budget_gb:,.1f} GB"),
        Line("KV budget", f"{one.kv_budget_tokens:,} tokens", "an estimate"),
    ]
    if found.shown is not None and found.gpu is not None:
        mib = f"with the {found.gpu.shown_mib:,} MiB that nvidia-smi shows"
        lines.append(Line("", f"{found.shown.kv_budget_tokens:,} tokens", mib))
    if found.measured and now is not None:
        lines.append(Line("KV pool", f"{found.budget_tokens:,} tokens", f"measured by {now.instance}"))
    lines.append(Line("seats", f"{found.seats:,}", f"at {question.context:,.0f} tokens each: start max_num_seqs here"))
    if found.queue_ceiling is not None:
        lines.append(Line("queue ceiling", f"{found.queue_ceiling:,.0f} requests", "service rate x acceptable wait"))
    if found.load is not None:
        lines.append(Line("load", f"{found.load:.1%}", "at which M/M/1 waits that long on average"))
    _table(lines)
    for note in model.notes:
        show(note)
    if found.apart is not None:
        show(
            f"The measured pool is {found.apart:,.1f} times the estimate: check the model, the GPU and the data types."
        )
    if not found.budget_tokens:
        show("The model does not fit: use more GPUs or a smaller weight type.")
    _seats(found)
    _layouts(found.layouts)


def _attention(model: Model) -> tuple[str, str]:
    kind, _, layers = model.attention.partition(": ")
    return kind, layers


def used(model: Model) -> str:
    """How many of the weights a token uses, where that is not all."""
    return f"{model.used / 1e9:,.2f} billion used for each token" if model.used < model.parameters else ""


def measured(now: Now, context: float, seats: int, ceiling: float | None) -> None:
    """Seats of a running engine by what it tells alone."""
    lines = [
        Line("KV pool", f"{now.kv_capacity or 0:,.0f} tokens", f"measured by {now.instance}"),
        Line("context", f"{context:,.0f} tokens", _length(now, context)),
        Line("seats", f"{seats:,}", "start max_num_seqs here"),
    ]
    if ceiling is not None:
        lines.append(Line("queue ceiling", f"{ceiling:,.0f} requests", "service rate x acceptable wait"))
    _table(lines)


def _length(now: Now, context: float) -> str:
    if context != now.context:
        return "as given"
    return "at full length" if now.at_full_length else "on average"


def plan(found: Plan) -> None:
    """From users to GPUs."""
    made, use = found.traffic, found.enough
    show("\nPlan (an estimate by a roofline)")
    _table(
        (
            Line("model calls", f"{made.calls:,.2f} /s", f"of {made.prompt:,.0f} + {made.output:,.0f} tokens"),
            Line("tokens", f"{made.computed_rate:,.0f} /s", "of prompts that are computed"),
            Line("", f"{made.output_rate:,.0f} /s", "of answers"),
            Line("calls at once", f"{found.resident:,.0f}", f"which hold {found.resident_tokens:,.0f} tokens"),
            Line("replicas", f"{found.replicas:,}", f"{found.gpus:,} GPUs"),
            Line("KV pools", f"{use.kv:.0%} full", "on average"),
            Line("prompts", f"{use.compute:.0%}", "of the time"),
            Line("pace", f"{use.step * 1000:,.0f} ms", "per output token"),
            Line("binds", found.binds.value, BINDS[found.binds]),
        )
    )


def compared(found: Compared, now: Now | None) -> None:
    """Before and after a change, beside what the running engine shows."""
    changed = ", ".join(f"{name} {value}" for name, value in found.changes)
    show(f"\nWhat if: {changed} (simulated, {found.before.seconds:,.0f} and {found.after.seconds:,.0f} s)")
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("measured now", justify="right")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    for what, measured_now, tell in (
        ("first token, p95", _seen(now, "ttft_p95", "{:.2f} s"), first_token),
        ("goodput, requests/s", "", lambda o: f"{o.goodput_low:.2f} to {o.goodput_high:.2f}"),
        ("KV peak", "", lambda o: f"{o.kv_peak:.0%}"),
        ("preemptions/min", _seen(now, "preemptions", "{:.1f}"), lambda o: f"{o.preemptions:.1f}"),
        ("running, mean", "", lambda o: f"{o.running:.1f}"),
        (
            "waiting at the end",
            _seen(now, "waiting", "{:,.0f}"),
            lambda o: f"{o.waiting:,}" + (", and growing" if o.growing else ""),
        ),
    ):
        table.add_row(what, measured_now, tell(found.before), tell(found.after))
    table.add_row(
        "pool, tokens", _seen(now, "kv_capacity", "{:,.0f}"), f"{found.pool_before:,}", f"{found.pool_after:,}"
    )
    show(table)
    if now is not None:
        show(
            "Where before is far from what is measured, the traffic or the machine is another one: trust the direction only."
        )


def _seen(now: Now | None, name: str, form: str) -> str:
    value = getattr(now, name) if now is not None else None
    return "" if value is None else form.format(value)


def first_token(one: Outcome) -> str:
    """The 95th percentile, a bound as a bound."""
    if one.ttft_p95 is None:
        return "too few requests"
    more = "more than " if one.ttft_bound else ""
    return f"{more}{one.ttft_p95:.2f} s"


def _seats(found: Answer) -> None:
    if not found.budget_tokens:
        return
    table = Table(title="Seats by length", box=None, pad_edge=False, title_justify="left")
    for head in ("tokens each", "seats"):
        table.add_column(head, justify="right")
    for tokens, seats in found.by_context:
        table.add_row(f"{tokens:,}", f"{seats:,}")
    show(table)


def _layouts(layouts: Iterable[Layout]) -> None:
    table = Table(title="Layouts (paces are estimates)", box=None, pad_edge=False, title_justify="left")
    for head in ("replicas", "TP", "PP", "seats", "KV tokens", "one stream", "each, all seats taken", "all together"):
        table.add_column(head, justify="right")
    for one in layouts:
        cells = (str(one.replicas), str(one.tensor_parallel), str(one.pipeline_parallel))
        if one.why_not:
            table.add_row(*cells, one.why_not)
            continue
        paces = (
            f"{pace:,.0f} tok/s" if pace is not None else "not known"
            for pace in (one.pace, one.full_pace, one.throughput)
        )
        table.add_row(*cells, f"{one.seats:,}", f"{one.budget_tokens:,}", *paces)
    show(table)


def _table(lines: Iterable[Line]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for line in lines:
        table.add_row(line.what, line.value, line.how)
    show(table)
