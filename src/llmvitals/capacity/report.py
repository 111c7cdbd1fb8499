"""The question whole and its answer: what a model needs on a GPU, with everything that a page or a command shows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmvitals.capacity.bounds import Given, hold
from llmvitals.capacity.gpus import BYTES, Gpu, gpu_of
from llmvitals.capacity.layouts import Asked, Layout, layout, layouts
from llmvitals.capacity.memory import OVERHEAD_GB_PER_GPU, UTILIZATION, Estimate, estimate, seats
from llmvitals.capacity.model import Model
from llmvitals.capacity.plan import Demand, Plan, plan, traffic
from llmvitals.capacity.queueing import load_for, queue_ceiling, wait_curve
from llmvitals.capacity.speed import Stored
from llmvitals.errors import SettingsError

AUTO = "auto"
CONTEXT = 4096
"""Tokens of a request where nothing that runs tells them."""
APART = 3.0
"""How many times an estimate may miss a measured pool: little is left of a small GPU, so that errors weigh the more."""
CONTEXTS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576)
WEIGHT_DTYPES: tuple[str, ...] = (AUTO, *sorted(BYTES))
KV_DTYPES: tuple[str, ...] = tuple(sorted(BYTES))


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. ``gpu``: a name of the table, or '' with ``memory_gb``; ``gpus``: of one replica.

    ``weight_dtype``: 'auto' is what the checkpoint says. ``kv_capacity``: the pool that a running engine measured
    (tokens; None: none is known), which takes the place of the estimate. ``service_rate``: requests finished per
    second; ``acceptable_wait``: seconds.
    """

    gpu: str = "H100-80GB"
    memory_gb: float | None = None
    gpus: int = 1
    pipeline_parallel: int = 1
    weight_dtype: str = AUTO
    kv_dtype: str = "fp16"
    context: float = CONTEXT
    utilization: float = UTILIZATION
    overhead_gb: float = OVERHEAD_GB_PER_GPU
    service_rate: float | None = None
    acceptable_wait: float | None = None
    kv_capacity: float | None = None
    place: str = "capacity"


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes out. ``shown``: the same with the memory that ``nvidia-smi`` shows, where that is known. ``measured``:
    the pool is a running engine's. ``by_context``: (tokens, seats); ``waits``: (load, mean wait); ``load``: the one at
    which the acceptable wait is the mean of M/M/1.
    """

    question: Question
    estimate: Estimate
    shown: Estimate | None
    measured: bool
    budget_tokens: int
    seats: int
    by_context: tuple[tuple[int, int], ...]
    queue_ceiling: float | None
    waits: tuple[tuple[float, float], ...]
    load: float | None
    layouts: tuple[Layout, ...]
    gpu: Gpu | None

    @property
    def apart(self) -> float | None:
        """A measured pool as a multiple of the estimate, where they are too far apart to be of one model on one GPU;
        None else.
        """
        if not self.measured or not self.estimate.kv_budget_tokens:
            return None
        times = self.budget_tokens / self.estimate.kv_budget_tokens
        return times if not 1 / APART < times < APART else None


def weights_of(model: Model, dtype: str) -> float:
    """Bytes of all weights in that data type; 'auto': those of the checkpoint, 16 bits where its config does not tell."""
    if dtype == AUTO:
        return model.stored or model.parameters * BYTES["bf16"]
    return model.parameters * BYTES[dtype]


def stored_as(model: Model, question: Question) -> Stored:
    """How the model is held under a question."""
    short = question.weight_dtype == "fp8" or (question.weight_dtype == AUTO and model.dtype == "fp8")
    return Stored(weights_of(model, question.weight_dtype), BYTES[question.kv_dtype], fp8=short)


def checked(question: Question) -> Question:
    """The question with the GPU's memory filled in. Raises :class:`SettingsError` for one that has no answer."""
    gpu = gpu_of(question.gpu) if question.gpu else None
    if question.gpu and gpu is None:
        raise SettingsError(
            f"there is no GPU '{question.gpu}'",
            place=question.place,
            remedy="Choose a listed one, or give its memory in GB.",
        )
    memory = question.memory_gb if question.memory_gb is not None else gpu.memory_gb if gpu else None
    if memory is None:
        raise SettingsError(
            "memory per GPU is missing", place=question.place, remedy="Name a listed GPU, or give its memory in GB."
        )
    told = (  # what may be left out
        ("service rate", question.service_rate, 1e9),
        ("acceptable wait", question.acceptable_wait, 1e9),
        ("pool", question.kv_capacity, 1e12),
    )
    hold(
        (
            Given("memory per GPU", memory, 10_000.0),
            Given("GPUs", question.gpus, 1024.0),
            Given("pipeline stages", question.pipeline_parallel, 1024.0),
            Given("utilization", question.utilization, 1.0),
            Given("mean context", question.context, 1e9),
            Given("overhead per GPU", question.overhead_gb, 10_000.0, zero=True),
            *(Given(name, value, most) for name, value, most in told if value is not None),
        ),
        place=question.place,
    )
    if question.gpus % question.pipeline_parallel:
        raise SettingsError(
            f"{question.gpus} GPUs do not split into {question.pipeline_parallel} stages",
            place=question.place,
            remedy="Give a number of GPUs that the number of stages divides.",
        )
    return replace(question, memory_gb=memory, gpu=gpu.name if gpu else "")


def answer(model: Model, question: Question, *, total_gpus: int | None = None) -> Answer:
    """Everything. ``total_gpus``: how many the layouts share out (None: those of the replica). Raises
    :class:`SettingsError`.
    """
    question = checked(question)
    gpu = gpu_of(question.gpu) if question.gpu else None
    tensor_parallel = question.gpus // question.pipeline_parallel
    if model.heads % tensor_parallel:
        raise SettingsError(
            f"{model.heads} attention heads do not split over {tensor_parallel} GPUs",
            place=question.place,
            remedy="Take a number of GPUs per stage that divides the heads: 1, 2, 4 or 8.",
        )
    found = _estimate(model, question)
    shown = None
    if gpu is not None and gpu.shown_gb is not None and question.memory_gb == gpu.memory_gb:
        shown = _estimate(model, replace(question, memory_gb=gpu.shown_gb))
    measured = question.kv_capacity is not None
    tokens = int(question.kv_capacity) if question.kv_capacity is not None else found.kv_budget_tokens
    rate, wait = question.service_rate, question.acceptable_wait
    return Answer(
        question=question,
        estimate=found,
        shown=shown,
        measured=measured,
        budget_tokens=tokens,
        seats=seats(tokens, question.context),
        by_context=_by_context(model, question, tokens if measured else None),
        queue_ceiling=queue_ceiling(rate, wait) if rate is not None and wait is not None else None,
        waits=wait_curve(rate) if rate is not None else (),
        load=load_for(rate, wait) if rate is not None and wait is not None else None,
        layouts=_layouts(model, question, total_gpus or question.gpus),
        gpu=gpu,
    )


def _estimate(model: Model, question: Question) -> Estimate:
    return estimate(
        model,
        memory_gb_per_gpu=question.memory_gb or 0.0,
        gpus=question.gpus,
        weight_bytes=weights_of(model, question.weight_dtype) / model.parameters,
        kv_bytes=BYTES[question.kv_dtype],
        context=question.context,
        utilization=question.utilization,
        overhead_gb_per_gpu=question.overhead_gb,
        pipeline_parallel=question.pipeline_parallel,
    )


def _by_context(model: Model, question: Question, measured: int | None) -> tuple[tuple[int, int], ...]:
    """Seats by length, up to the model's longest context; a measured pool counts tokens as its engine does. The first
    length that does not fit ends the list."""
    longest = model.max_context or CONTEXTS[-1]
    lengths = [tokens for tokens in CONTEXTS if tokens <= longest] or [longest]
    if lengths[-1] < longest < CONTEXTS[-1]:
        lengths.append(longest)
    if measured is not None:
        rows = [(tokens, seats(measured, tokens)) for tokens in lengths]
    else:
        rows = [(tokens, _estimate(model, replace(question, context=tokens)).seats) for tokens in lengths]
    held = [row for row in rows if row[1]]
    return (*held, *rows[len(held) : len(held) + 1])


def planned(model: Model, question: Question, demand: Demand) -> Plan:
    """The fewest replicas, each as the question describes one, that are enough for the demand.

    The demand's own mean context counts, and the estimate of the pool. Raises :class:`SettingsError`.
    """
    question = checked(replace(question, context=traffic(demand).context))
    per_stage = question.gpus // question.pipeline_parallel
    one = layout(model, _asked(model, question), 1, per_stage, question.pipeline_parallel)
    return plan(model, stored_as(model, question), one, demand, gpu=question.gpu)


def _asked(model: Model, question: Question) -> Asked:
    return Asked(
        question.gpu,
        question.memory_gb or 0.0,
        stored_as(model, question),
        question.context,
        question.utilization,
        question.overhead_gb,
    )


def _layouts(model: Model, question: Question, gpus: int) -> tuple[Layout, ...]:
    asked = _asked(model, question)
    found = layouts(model, asked, gpus)
    own = (question.gpus // question.pipeline_parallel, question.pipeline_parallel)
    if gpus % question.gpus or any((one.tensor_parallel, one.pipeline_parallel) == own for one in found):
        return found
    return (*found, layout(model, asked, gpus // question.gpus, *own))
