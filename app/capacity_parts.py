"""Pieces of HTML and the charts of the capacity page, and their style sheet. Everything is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from llmvitals.app.capacity import first_token, tokens
from llmvitals.capacity import seats
from llmvitals.capacity.changes import Compared
from llmvitals.capacity.layouts import Layout
from llmvitals.capacity.model import Kept, Model
from llmvitals.capacity.plan import Binds, Plan
from llmvitals.capacity.report import AUTO, Answer
from llmvitals.capacity.whatif import Outcome
from llmvitals.sources.now import Now
from llmvitals.triage.units import with_unit
from words import later, t, tell

_SHEET = """
.lv-nums { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:10px 22px; }
.lv-nums div { border-top:2px solid var(--line); padding-top:5px; }
.lv-nums b { display:block; font-size:23px; line-height:1.2; font-weight:700; font-variant-numeric:tabular-nums; }
.lv-nums small, .lv-cap small { color:var(--soft); font-size:13px; }
.lv-cap { width:100%; border-collapse:collapse; font-size:14px; overflow-wrap:normal; }
.lv-cap :is(th,td) { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); padding:5px 14px 5px 0; }
.lv-cap thead th { font-weight:600; color:var(--soft); font-size:13px; } .lv-cap tbody th { font-weight:500; }
.lv-cap .n { text-align:right; font-variant-numeric:tabular-nums; } .lv-cap td.n { white-space:nowrap; }
.lv-cap thead .n { vertical-align:bottom; }
.lv-cap tr.own { background:var(--good-bg); } .lv-cap tr.off td { color:var(--soft); }
.lv-wide-box { overflow-x:auto; }
@media (max-width:640px) { .lv-nums { grid-template-columns:1fr 1fr; } .lv-cap { font-size:13px; }
 .lv-cap :is(th,td) { padding-right:8px; } }
"""
STYLE = f"<style>{_SHEET}</style>"

BINDS = {
    Binds.KV: (later("KV cache"), later("With one replica less the contexts do not fit into the pools.")),
    Binds.COMPUTE: (later("GPU compute"), later("With one replica less prompts take too much of the time.")),
    Binds.BANDWIDTH: (later("GPU bandwidth"), later("With one replica less tokens come more slowly than promised.")),
    Binds.NOTHING: (later("Nothing"), later("One replica is enough.")),
}

LAYERS = {
    Kept.FULL: later("{count} layers keep every token"),
    Kept.WINDOW: later("{count} layers keep the last {window} tokens"),
    Kept.LATENT: later("{count} layers keep one latent for each token"),
    Kept.STATE: later("{count} layers keep a state of constant size"),
}


def numbers(told: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers: what, the number, and a note under it."""
    cells = "".join(
        f"<div><small>{escape(what)}</small><b>{escape(value)}</b><small>{escape(note)}</small></div>"
        for what, value, note in told
    )
    return f'<div class="lv lv-nums">{cells}</div>'


def headline(found: Answer, now: Now | None) -> str:
    """The answer in four numbers."""
    question = found.question
    source = t("measured by {name}", name=now.instance) if found.measured and now else t("estimate, one replica")
    told = [
        (
            t("Seats"),
            tokens(found.seats),
            t("of {tokens} tokens each; start max_num_seqs here", tokens=tokens(question.context)),
        ),
        (t("KV budget"), t("{tokens} tokens", tokens=tokens(found.budget_tokens)), source),
        (
            t("KV per token"),
            t("{bytes} bytes", bytes=tokens(found.estimate.kv_bytes_per_token)),
            question.kv_dtype.upper(),
        ),
    ]
    if found.queue_ceiling is not None:
        note = t(
            "{rate} per second x {wait} s", rate=f"{question.service_rate:g}", wait=f"{question.acceptable_wait:g}"
        )
        told.append((t("Queue ceiling"), t("{count} requests", count=tokens(found.queue_ceiling)), note))
    return f'<div data-capacity="{found.seats}">{numbers(told)}</div>'


def memory(model: Model, found: Answer) -> str:
    """From the GPUs' memory to the pool, line by line."""
    one, question = found.estimate, found.question
    dtype = question.weight_dtype if question.weight_dtype != AUTO else model.dtype or "bf16"
    rows = [
        (t("GPU memory"), gb(one.memory_gb), f"{question.gpus} x {question.memory_gb:g} GB"),
        (t("The engine's share"), gb(one.usable_gb), f"x {question.utilization:g}"),
        (
            t("Weights"),
            f"- {gb(one.weights_gb)}",
            t("{billions} billion, {dtype}", billions=f"{model.parameters / 1e9:,.2f}", dtype=dtype),
        ),
        (
            t("Activations and CUDA graphs"),
            f"- {gb(one.overhead_gb)}",
            t("an assumption; the engine measures it at its start"),
        ),
        (t("Left for the KV pool"), gb(one.kv_budget_gb), t("{tokens} tokens", tokens=tokens(one.kv_budget_tokens))),
    ]
    if found.shown is not None and found.gpu is not None:
        rows.append(
            (
                t("With what the driver shows"),
                gb(found.shown.kv_budget_gb),
                t(
                    "{tokens} tokens: nvidia-smi says {mib} MiB",
                    tokens=tokens(found.shown.kv_budget_tokens),
                    mib=f"{found.gpu.shown_mib:,}",
                ),
            )
        )
    return _table((), rows, numeric=(1,))


def keeps(model: Model, found: Answer) -> str:
    """What each kind of layer keeps, and what that makes for a request."""
    one, question = found.estimate, found.question
    told = [t(LAYERS[cache.kind], count=cache.layers, window=tokens(cache.window)) for cache in model.kept]
    size = t(
        "A request of {tokens} tokens takes {mb} MB.",
        tokens=tokens(question.context),
        mb=f"{one.kv_bytes_per_sequence / 1e6:,.1f}",
    )
    further = ""
    if one.kv_bytes_per_further_token != one.kv_bytes_per_token:
        further = t("Beyond the windows a token adds {bytes} bytes.", bytes=tokens(one.kv_bytes_per_further_token))
    active = ""
    if model.used < model.parameters:
        active = t("A token uses {billions} billion of the weights.", billions=f"{model.used / 1e9:,.2f}")
    notes = " ".join(filter(None, (size, further, active, *(tell(note) for note in model.notes))))
    kind = model.attention.partition(":")[0]
    return f'<div class="lv lv-note"><b>{escape(kind)}</b>: {escape("; ".join(told))}. {escape(notes)}</div>'


def seats_table(found: Answer) -> str:
    """Seats by length."""
    rows = [(tokens(length), tokens(count)) for length, count in found.by_context]
    return _table((t("Tokens each"), t("Seats")), rows, numeric=(0, 1))


def waits_table(found: Answer) -> str:
    """Mean waits by load."""
    rows = [(share(load), with_unit(wait, "seconds")) for load, wait in found.waits]
    return _table((t("Load"), t("Mean wait")), rows, numeric=(0, 1))


def layouts(listed: Sequence[Layout], own: tuple[int, int]) -> str:
    """The ways to share out the GPUs; the chosen one is marked."""
    heads = (
        t("Replicas"),
        "TP",
        "PP",
        t("Seats"),
        t("KV tokens"),
        t("Tokens/s: one stream"),
        t("Tokens/s: each, all seats taken"),
        t("Tokens/s: all together"),
    )
    head = "".join(f'<th scope="col" class="n">{escape(text)}</th>' for text in heads)
    body = ""
    for one in listed:
        cells = "".join(f'<td class="n">{n}</td>' for n in (one.replicas, one.tensor_parallel, one.pipeline_parallel))
        if one.why_not:
            body += f'<tr class="off">{cells}<td colspan="5">{escape(tell(one.why_not))}</td></tr>'
            continue
        mark = ' class="own" aria-current="true"' if (one.tensor_parallel, one.pipeline_parallel) == own else ""
        told = (tokens(one.seats), tokens(one.budget_tokens), *map(pace, (one.pace, one.full_pace, one.throughput)))
        body += f"<tr{mark}>{cells}" + "".join(f'<td class="n">{escape(text)}</td>' for text in told) + "</tr>"
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    named = f'role="region" aria-label="{escape(t("Layouts"))}"'
    return f'<div class="lv lv-scroll lv-wide-box" tabindex="0" {named}><table class="lv-cap">{inside}</table></div>'


def plan(found: Plan) -> str:
    """From users to GPUs, and what binds."""
    made, use = found.traffic, found.enough
    name, why = BINDS[found.binds]
    rows = [
        (
            t("Model calls"),
            f"{made.calls:,.2f} /s",
            t("{prompt} + {output} tokens on average", prompt=tokens(made.prompt), output=tokens(made.output)),
        ),
        (
            t("Prompt tokens that are computed"),
            f"{made.computed_rate:,.0f} /s",
            t("of {rate} /s that come", rate=tokens(made.prompt_rate)),
        ),
        (t("Output tokens"), f"{made.output_rate:,.0f} /s", ""),
        (
            t("Calls at once"),
            tokens(found.resident),
            t("they hold {tokens} tokens", tokens=tokens(found.resident_tokens)),
        ),
        (t("KV pools"), share(use.kv), t("full on average")),
        (t("Prompts"), share(use.compute), t("of the time")),
        (t("Pace"), with_unit(use.step, "seconds"), t("per output token")),
    ]
    gpus = t("{gpus} GPUs, TP {tp}", gpus=tokens(found.gpus), tp=found.layout.tensor_parallel)
    top = numbers(((t("Replicas"), tokens(found.replicas), gpus), (t("What binds"), t(name), t(why))))
    return f'<div data-plan="{found.replicas}">{top}{_table((), rows, numeric=(1,))}</div>'


def compared(found: Compared, now: Now | None) -> str:
    """Before and after a change, both simulated, beside what the running engine shows."""
    rows: list[tuple[str, ...]] = [
        (t("Pool, tokens"), seen(now, "kv_capacity", tokens), tokens(found.pool_before), tokens(found.pool_after))
    ]
    rows += [
        (t(what), seen(now, *measured), tell_of(found.before), tell_of(found.after))
        for what, measured, tell_of in OUTCOME
    ]
    changed = ", ".join(f"{name} {value}" for name, value in found.changes)
    played = t(
        "Simulated: {before} and {after} s of this traffic, after a time that fills the engine.",
        before=f"{found.before.seconds:,.0f}",
        after=f"{found.after.seconds:,.0f}",
    )
    cut = t("Cut short, for the time it took.") if found.before.cut or found.after.cut else ""
    grows = ""
    if found.before.growing or found.after.growing:
        grows = t("Where the queue grows, times depend on how long one looks.")
    trust = ""
    if now is not None:
        trust = t("Where before is far from what is measured, trust the direction only.")
    note = " ".join(filter(None, (played, cut, grows, trust)))
    heads: tuple[str, ...] = (changed, t("Measured now"), t("Before"), t("After"))
    if now is None:
        heads, rows = heads[:1] + heads[2:], [row[:1] + row[2:] for row in rows]
    inside = _table(heads, rows, numeric=(1, 2, 3))
    return f'<div data-whatif="{escape(changed)}">{inside}<div class="lv lv-note">{escape(note)}</div></div>'


def seen(now: Now | None, name: str = "", say: Callable[[float], str] = tokens) -> str:
    """What the running engine shows; '' where it does not tell."""
    value = getattr(now, name) if now is not None and name else None
    return "" if value is None else say(value)


def _goodput(one: Outcome) -> str:
    return t("{low} to {high}", low=f"{one.goodput_low:.2f}", high=f"{one.goodput_high:.2f}")


def _waiting(one: Outcome) -> str:
    return t("{count}, and growing", count=tokens(one.waiting)) if one.growing else tokens(one.waiting)


OUTCOME: tuple[tuple[str, tuple[str, Callable[[float], str]] | tuple[()], Callable[[Outcome], str]], ...] = (
    (
        later("Time to first token, p95"),
        ("ttft_p95", lambda n: f"{n:.2f} s"),
        lambda one: first_token(one) or t("too few requests"),
    ),
    (later("Goodput, requests per second"), (), _goodput),
    (later("KV peak"), (), lambda one: share(one.kv_peak)),
    (later("Preemptions per minute"), ("preemptions", lambda n: f"{n:.1f}"), lambda one: f"{one.preemptions:.1f}"),
    (later("Running on average"), (), lambda one: f"{one.running:.1f}"),
    (later("Waiting at the end"), ("waiting", tokens), _waiting),
)
"""What is told of a side: its name, the field of what runs that is its like (none: there is none), and how it is said."""


def live(now: Now) -> str:
    """What a running engine tells."""
    full = t("at full length") if now.at_full_length else t("on average")
    told = (
        (t("KV pool"), now.kv_capacity, tokens, t("tokens")),
        (t("Context"), now.context, tokens, full),
        (t("Finished"), now.service_rate, lambda n: f"{n:.2f}", t("per second")),
        (t("Arriving"), now.arrival_rate, lambda n: f"{n:.2f}", t("per second")),
        (t("Prompt"), now.prompt, tokens, t("tokens")),
        (t("Output"), now.output, tokens, t("tokens")),
    )
    return numbers((what, say(value) if value is not None else t("not told"), unit) for what, value, say, unit in told)


def measured(now: Now, pool_tokens: float, context: float) -> str:
    """The seats of a running engine, for which no model need be known."""
    found = seats(pool_tokens, context)
    note = t("of {tokens} tokens each; start max_num_seqs here", tokens=tokens(context))
    pool = (
        t("KV pool"),
        t("{tokens} tokens", tokens=tokens(pool_tokens)),
        t("measured by {name}", name=now.instance),
    )
    return f'<div data-capacity="{found}">{numbers(((t("Seats"), tokens(found), note), pool))}</div>'


def gb(size: float) -> str:
    """Decimal GB."""
    return f"{size:,.1f} GB"


def pace(number: float | None) -> str:
    """Tokens per second."""
    return t("not known") if number is None else f"{number:,.0f}"


def share(number: float) -> str:
    """A share (0-1)."""
    return with_unit(number, "ratio")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[int] = ()) -> str:
    def kind(place: int) -> str:
        return ' class="n"' if place in numeric else ""

    head = "".join(f'<th scope="col"{kind(i)}>{escape(text)}</th>' for i, text in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(i)}>{escape(text)}</td>" for i, text in enumerate(row)) + "</tr>" for row in rows
    )
    above = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return f'<div class="lv lv-scroll lv-wide-box"><table class="lv-cap">{above}<tbody>{body}</tbody></table></div>'


def facts(text: str) -> str:
    """A note under a section."""
    return f'<div class="lv lv-note">{escape(text)}</div>'
