"""Settings by name and what each changes: the two sides of a what-if."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from llmvitals.capacity.model import Model
from llmvitals.capacity.report import KV_DTYPES, WEIGHT_DTYPES, Question, answer, checked, stored_as
from llmvitals.capacity.speed import machine
from llmvitals.capacity.whatif import DEFAULT_PROMISE, Load, Outcome, Promise, Side, play
from llmvitals.errors import SettingsError
from llmvitals.simulator.hardware import GPUS

PLACE = "what-if"


@dataclass(frozen=True, slots=True)
class Running:
    """A deployment and its traffic: ``replicas`` of what the question describes, all of which share the ``load``.

    A pool that was measured (``question.kv_capacity``) is that of one replica. What an engine's ``max_num_seqs`` and
    ``max_num_batched_tokens`` are where nobody set them depends on its release and GPU: ``audit.defaults`` has them.
    """

    question: Question
    load: Load
    replicas: int
    max_num_seqs: int
    max_num_batched_tokens: int


@dataclass(frozen=True, slots=True)
class Compared:
    """Before and after, both simulated; ``pool_before``, ``pool_after``: tokens of a replica's pool."""

    before: Outcome
    after: Outcome
    pool_before: int
    pool_after: int
    changes: tuple[tuple[str, str], ...]


def _whole(text: str, present: int, name: str) -> int:
    """A whole number, or so many more or fewer than there are (``+1``)."""
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(
            f"'{text[:40]}' is no whole number", place=f"{PLACE} {name}", remedy="Write 64, or +1."
        ) from None
    found = present + number if text.strip()[:1] in "+-" else number
    if not 0 < found <= 10_000_000:
        raise SettingsError(f"would be {found:,}", place=f"{PLACE} {name}", remedy="Give a number above 0.")
    return found


def _number(text: str, name: str) -> float:
    """A number, or so many times (``x1.5``), which the caller works out."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise SettingsError(f"'{text[:40]}' is no number above 0", place=f"{PLACE} {name}", remedy="Write 2.5.")
    return number


def _one_of(text: str, known: tuple[str, ...], name: str) -> str:
    found = next((one for one in known if one.lower() == text.strip().lower()), None)
    if found is None:
        raise SettingsError(
            f"'{text[:40]}' is not known", place=f"{PLACE} {name}", remedy=f"One of: {', '.join(known)}."
        )
    return found


def _gpu(running: Running, text: str) -> Running:
    name = _one_of(text, tuple(GPUS), "gpu")
    return replace(running, question=replace(running.question, gpu=name, memory_gb=None))


def _rate(running: Running, text: str) -> Running:
    times = text.strip().lower().startswith("x")
    number = _number(text.strip()[1:] if times else text, "rate")
    rate = running.load.rate * number if times else number
    return replace(running, load=replace(running.load, rate=rate))


CHANGES: Mapping[str, Callable[[Running, str], Running]] = {
    "max_num_seqs": lambda r, t: replace(r, max_num_seqs=_whole(t, r.max_num_seqs, "max_num_seqs")),
    "max_num_batched_tokens": lambda r, t: replace(
        r, max_num_batched_tokens=_whole(t, r.max_num_batched_tokens, "max_num_batched_tokens")
    ),
    "replicas": lambda r, t: replace(r, replicas=_whole(t, r.replicas, "replicas")),
    "kv_dtype": lambda r, t: replace(r, question=replace(r.question, kv_dtype=_one_of(t, KV_DTYPES, "kv_dtype"))),
    "weight_dtype": lambda r, t: replace(
        r, question=replace(r.question, weight_dtype=_one_of(t, WEIGHT_DTYPES, "weight_dtype"))
    ),
    "gpus": lambda r, t: replace(r, question=replace(r.question, gpus=_whole(t, r.question.gpus, "gpus"))),
    "gpu": _gpu,
    "utilization": lambda r, t: replace(r, question=replace(r.question, utilization=_number(t, "utilization"))),
    "rate": _rate,
}
"""``rate``: calls per second of all replicas, or ``x2`` times what there are; the others are the engine's own names."""


def changed(running: Running, changes: Mapping[str, str]) -> Running:
    """The deployment with these settings. Raises :class:`SettingsError` for a name or a value that is none."""
    for name, text in changes.items():
        key = name.strip().lstrip("-").replace("-", "_").lower()
        if key not in CHANGES:
            raise SettingsError(f"'{name[:40]}' cannot be changed", place=PLACE, remedy=f"Known: {', '.join(CHANGES)}.")
        running = CHANGES[key](running, text)
    return running


def side(model: Model, running: Running, measured: Question | None = None) -> Side:
    """One side as it is played. ``measured``: the question of the side whose pool was measured; another side's is that
    times the ratio of the estimates.
    """
    question = checked(replace(running.question, place=PLACE))
    card = GPUS.get(question.gpu)
    if card is None:
        raise SettingsError(
            "has no speeds in the table", place=f"GPU '{question.gpu}'", remedy=f"Choose one of: {', '.join(GPUS)}."
        )
    found = answer(model, replace(question, kv_capacity=None)).estimate.kv_budget_tokens
    if measured is not None and measured.kv_capacity is not None:
        base = answer(model, replace(measured, kv_capacity=None)).estimate.kv_budget_tokens
        if base <= 0:
            raise SettingsError(
                "the engine's pool was measured, and by these numbers the model would not fit at all",
                place=PLACE,
                remedy="Correct the GPU, the number of GPUs or the data types.",
            )
        found = int(measured.kv_capacity * found / base)
    context = running.load.prompt + running.load.output / 2.0
    tensor_parallel = question.gpus // question.pipeline_parallel
    return Side(
        machine(model, card, stored_as(model, question), context=context, tensor_parallel=tensor_parallel),
        found,
        running.replicas,
        running.max_num_seqs,
        running.max_num_batched_tokens,
    )


def compare(model: Model, before: Running, changes: Mapping[str, str], promise: Promise = DEFAULT_PROMISE) -> Compared:
    """Play both. Raises :class:`SettingsError`; takes some 4 s of CPU at most."""
    if not changes:
        raise SettingsError("nothing is changed", place=PLACE, remedy=f"Change one of: {', '.join(CHANGES)}.")
    after = changed(before, changes)
    first, second = side(model, before, before.question), side(model, after, before.question)
    return Compared(
        play(first, before.load, promise),
        play(second, after.load, promise),
        first.pool_tokens,
        second.pool_tokens,
        tuple(changes.items()),
    )
