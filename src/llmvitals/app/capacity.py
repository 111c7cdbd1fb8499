"""The capacity page's inputs as they stand in an address, the running engine that they may be filled from, and numbers
as words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from llmvitals.app.answer import Key
from llmvitals.app.past import ask_past
from llmvitals.capacity import GPUS, OVERHEAD_GB_PER_GPU, UTILIZATION
from llmvitals.capacity.known import KNOWN
from llmvitals.capacity.report import AUTO, CONTEXT, KV_DTYPES, WEIGHT_DTYPES, Question
from llmvitals.capacity.whatif import Outcome
from llmvitals.settings import Settings, Source
from llmvitals.sources.now import SIGNALS, Now, newest, now_of

OWN = ""
"""No known model is chosen: its config is pasted or uploaded."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the form: its name in the address, what it is without one, and between what it has to be."""

    name: str
    default: float
    low: float
    high: float
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the form."""

    name: str
    default: str
    options: tuple[str, ...]


NUMBERS: tuple[Number, ...] = (
    Number("gpus", 1, 1, 1024),
    Number("stages", 1, 1, 64),
    Number("total", 8, 1, 1024),
    Number("context", CONTEXT, 1, 10_000_000),
    Number("share", UTILIZATION, 0.1, 1.0, whole=False),
    Number("overhead", OVERHEAD_GB_PER_GPU, 0.0, 100.0, whole=False),
    Number("rate", 8.0, 0.001, 1_000_000.0, whole=False),
    Number("wait", 5.0, 0.001, 100_000.0, whole=False),
)
CHOICES: tuple[Choice, ...] = (
    Choice("known", OWN, (OWN, *KNOWN)),
    Choice("gpu", "H100-80GB", tuple(gpu.name for gpu in GPUS)),
    Choice("weights", AUTO, WEIGHT_DTYPES),
    Choice("kv", "fp16", KV_DTYPES),
)
BY_NAME: Mapping[str, Number] = {one.name: one for one in NUMBERS}

Form = dict[str, float | str]


def read(query: Mapping[str, str], filled: Mapping[str, float] | None = None) -> tuple[Form, tuple[str, ...]]:
    """The form that an address means, and the names of what it says and cannot mean. ``filled``: what stands where it
    says nothing.
    """
    form: Form = {}
    wrong = []
    for number in NUMBERS:
        value = _number(query.get(number.name, ""), number)
        if value is None and query.get(number.name):
            wrong.append(number.name)
        form[number.name] = (
            value if value is not None else within((filled or {}).get(number.name, number.default), number)
        )
    for choice in CHOICES:
        text = query.get(choice.name, choice.default)
        found = next((one for one in choice.options if one.lower() == text.lower()), None)
        if found is None:
            wrong.append(choice.name)
        form[choice.name] = choice.default if found is None else found
    return form, tuple(wrong)


def _number(text: str, number: Number) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if not number.low <= value <= number.high or (number.whole and value != int(value)):
        return None
    return value


def within(value: float, number: Number) -> float:
    """The nearest number that the form takes."""
    kept = min(number.high, max(number.low, value)) if math.isfinite(value) else number.default
    return float(round(kept)) if number.whole else kept


def address(form: Form, filled: Mapping[str, float] | None = None) -> dict[str, str]:
    """What the form says beyond what it would say by itself, for the address."""
    told = {}
    for number in NUMBERS:
        usual = within((filled or {}).get(number.name, number.default), number)
        if form[number.name] != usual:
            told[number.name] = f"{form[number.name]:.10g}"
    return told | {one.name: str(form[one.name]) for one in CHOICES if form[one.name] != one.default}


def question(form: Form, pool: float | None) -> Question:
    """What the form asks; ``pool``: what the running engine measured, where that is used."""
    return Question(
        gpu=str(form["gpu"]),
        gpus=int(form["gpus"]),
        pipeline_parallel=int(form["stages"]),
        weight_dtype=str(form["weights"]),
        kv_dtype=str(form["kv"]),
        context=float(form["context"]),
        utilization=float(form["share"]),
        overhead_gb=float(form["overhead"]),
        service_rate=float(form["rate"]),
        acceptable_wait=float(form["wait"]),
        kv_capacity=pool,
    )


def running(source: Source, key: Key, at: float | None, settings: Settings) -> tuple[Now, str]:
    """What runs in a scope, and why nothing is known of it ('' where something is)."""
    past = ask_past(source, key, SIGNALS, at, settings)
    lines = {
        name: tuple(zip(one.times, one.values, strict=False)) for name, one in past.traces.items() if name in SIGNALS
    }
    now = now_of(newest(lines), instance=key[0], model=key[1])
    return now, past.why


def fills(now: Now) -> dict[str, float]:
    """The numbers of the form that a running engine tells."""
    told = {"context": now.context, "rate": now.service_rate}
    return {name: value for name, value in told.items() if value is not None}


def tokens(number: float) -> str:
    """Tokens or requests, in whole ones."""
    return f"{number:,.0f}"


def first_token(one: Outcome) -> str:
    """The simulated 95th percentile, a bound as one; '' where there were too few requests."""
    if one.ttft_p95 is None:
        return ""
    return f"{'> ' if one.ttft_bound else ''}{one.ttft_p95:.2f} s"
