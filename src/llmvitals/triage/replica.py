"""Replicas side by side: how full each one's KV pool gets, against what its GPUs do meanwhile.

The two numbers are signals that checks decide by, and so are the lines between them (``Limits``). A replica of which one
of the two is not known has no place, and the reason instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from llmvitals.errors import PageError
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.service import answers
from llmvitals.triage import moments
from llmvitals.triage.verdict import Verdict

KV = "kv_usage_high_ratio"
COMPUTE = "gpu_sm_active_mean_ratio"
ACTIVITY: Mapping[str, str] = {
    COMPUTE: "SMs active",
    "gpu_engine_active_mean_ratio": "engine active",
    "gpu_busy_mean_ratio": "utilisation",
}
"""What may stand for the activity of GPUs, the best first, as people call it. Only the first is compute: the others say for
how much of the time anything ran, however little of the chip it used (NVML's documentation of utilisation, DCGM's of its
profiling fields).
"""
BESIDE: tuple[str, ...] = ("gpu_tensor_active_mean_ratio", "gpu_dram_active_mean_ratio")
PHASES: tuple[str, ...] = ("queue_mean_seconds", "prefill_mean_seconds", "decode_mean_seconds")
"""Where the time of finished requests goes, from the queue on."""
COMPARED: tuple[str, ...] = (
    "token_mean_seconds",
    KV,
    "waiting_share_ratio",
    "queue_mean_seconds",
    "preemptions_per_minute",
    "prefix_hit_ratio",
    "error_ratio",
    "restarts",
    "gpu_clock_ratio",
    "gpu_throttle_ratio",
    "gpu_power_cap_ratio",
    "gpu_xid_errors",
    "gpu_ecc_errors",
    COMPUTE,
    "running_max",
    "arrival_rate",
    "prompt_mean_tokens",
    "generation_mean_tokens",
    "page_answer_seconds",
)
"""In what replicas of one model may differ, and what says why (``triage/outliers.py``)."""
NUMBERS: tuple[str, ...] = (*PHASES, *(name for name in COMPARED if name not in PHASES))
"""The signals that :attr:`Replica.numbers` holds."""
TRAIL: tuple[str, ...] = (KV, *ACTIVITY)
"""The signals whose past is a replica's way across the picture."""

_APART = frozenset({Origin.GATEWAY, Origin.GPU, Origin.HOST})


@dataclass(frozen=True, slots=True)
class Quadrant:
    """One quarter of the picture: KV ``full`` or not, GPUs ``busy`` or not; its name, and what to make of it."""

    full: bool
    busy: bool
    title: str
    hint: str


QUADRANTS: tuple[Quadrant, ...] = (
    Quadrant(
        True,
        False,
        "Memory binds: seats are lost to KV",
        "No room for more requests while GPUs have time left. More KV per GPU or shorter contexts help, more compute does not.",
    ),
    Quadrant(
        True,
        True,
        "Full and working",
        "Both are used. If requests wait here, only another replica or less load helps.",
    ),
    Quadrant(
        False,
        True,
        "Compute binds",
        "GPUs are busy and KV has room: long prefills (tensor pipes busy), or a batch too large for the pace (DRAM busy).",
    ),
    Quadrant(
        False,
        False,
        "Idle, or held up in front",
        "If nobody waits, idle. If requests wait: batch limits, the API process, adapters or the links between GPUs.",
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """From which KV usage a pool is full, and from which activity GPUs are busy (ratios)."""

    kv: float
    activity: float


@dataclass(frozen=True, slots=True)
class Replica:
    """One engine with one model. Ratios are 0-1 over the window; None is unknown, and ``*_why`` says why.

    ``activity_of``: the signal that ``activity`` is. ``kv_note``: how far the number goes, '' where it is exact. ``gpus``: the
    numbers of the joined GPUs, ``joins``: their labels ``join``. ``verdict``, ``leading``: slugs; ``binds``: the
    resource that binds, ``binds_why`` a sentence. ``numbers``: signals by which replicas are compared, those that have a value.
    ``confidence``: in the leading cause, 0-1; ``hurt``: whether users are; ``newest``: its last page (unix seconds; None where
    that is not told); ``gone``: no verdict is made of it any more.
    """

    instance: str
    model: str = ""
    kv: float | None = None
    kv_why: str = ""
    kv_note: str = ""
    activity: float | None = None
    activity_of: str = ""
    activity_why: str = ""
    tensor: float | None = None
    dram: float | None = None
    waiting: float | None = None
    running: float | None = None
    gpus: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    verdict: str = ""
    leading: str = ""
    binds: str = ""
    binds_why: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.0
    hurt: bool = False
    newest: float | None = None
    gone: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Which one it is: (instance, model)."""
        return self.instance, self.model

    @property
    def placed(self) -> bool:
        """Whether both numbers are known."""
        return self.kv is not None and self.activity is not None


@dataclass(frozen=True, slots=True)
class Whole:
    """A service that is judged as one: the ``engines`` that it is made of (() where that is not told), and its own verdict."""

    name: str
    model: str = ""
    engines: tuple[str, ...] = ()
    verdict: str = ""
    leading: str = ""
    confidence: float = 0.0
    hurt: bool = False


@dataclass(frozen=True, slots=True)
class Fleet:
    """The replicas of one source at one moment: ``end`` (unix seconds) and ``seconds`` are the window's. ``services``: those that
    are judged as wholes. ``notes``: what is to be said of how this came about, each part of a sentence about the source.
    """

    end: float
    seconds: float
    limits: Limits
    replicas: tuple[Replica, ...]
    services: tuple[Whole, ...] = ()
    notes: tuple[str, ...] = ()


def limits_of(settings: Settings) -> Limits:
    """The lines: a pool is full where the checks find too little of it free, GPUs are busy where they find them used."""
    return Limits(1.0 - settings.thresholds.kv_free_floor, settings.thresholds.gpu_active)


def quadrant(replica: Replica, limits: Limits) -> Quadrant | None:
    """Where a replica stands; None where that is not known.

    Utilisation is never less than compute, so that where it is low compute is low too; where it is high it says nothing.
    """
    if replica.kv is None or replica.activity is None:
        return None
    full, busy = replica.kv >= limits.kv, replica.activity >= limits.activity
    if busy and replica.activity_of != COMPUTE:
        return None
    return next(q for q in QUADRANTS if (q.full, q.busy) == (full, busy))


def is_replica(pages: Sequence[Snapshot]) -> bool:
    """Whether a target is an engine, as far as these pages tell: one that never answered may be one."""
    shown = {origin_of(key.name) for page in pages for key in page.samples}
    return Origin.ENGINE in shown or not shown & _APART or not any(map(answers, pages))


def replica(
    instance: str, model: str, pages: Sequence[Snapshot], readings: Mapping[str, Reading], verdict: Verdict | None
) -> Replica:
    """One replica, from its pages (the newest last), their readings and their verdict."""
    best = next((name for name in ACTIVITY if _value(readings, name) is not None), "")
    gpus = [key for page in pages[-1:] for key in page.samples if _of_gpu(key)]
    down = pages[-1].detail if pages and not answers(pages[-1]) else ""
    return Replica(
        instance,
        model,
        kv=_value(readings, KV),
        kv_why=_why(readings, KV, down),
        kv_note=_note(readings.get(KV)),
        activity=_value(readings, best),
        activity_of=best,
        activity_why="" if best else _why(readings, COMPUTE),
        tensor=_value(readings, BESIDE[0]),
        dram=_value(readings, BESIDE[1]),
        waiting=_value(readings, "requests_waiting"),
        running=_value(readings, "requests_running"),
        gpus=tuple(sorted({_named(key) for key in gpus}, key=lambda name: (len(name), name))),
        joins=tuple(sorted({join for key in gpus if (join := key.label("join"))})),
        verdict=verdict.outcome.value if verdict else "",
        leading=verdict.leading.cause if verdict and verdict.leading else "",
        binds=verdict.binding.resource.value if verdict else "",
        binds_why=verdict.binding.why if verdict else "",
        numbers={name: value for name in NUMBERS if (value := _value(readings, name)) is not None},
        confidence=verdict.leading.confidence if verdict and verdict.leading else 0.0,
        hurt=verdict.hurt if verdict else False,
        newest=pages[-1].t if pages else None,
    )


def whole(verdict: Verdict) -> Whole:
    """A service, from its verdict."""
    return Whole(
        str(verdict.scope.get("instance", "")),
        str(verdict.scope.get("model", "")),
        tuple(map(str, verdict.scope.get("engines", ()))),
        verdict.outcome.value,
        verdict.leading.cause if verdict.leading else "",
        verdict.leading.confidence if verdict.leading else 0.0,
        verdict.hurt,
    )


def alone(replicas: Iterable[Replica], limits: Limits) -> dict[tuple[str, str], tuple[int, Quadrant]]:
    """Replicas that stand apart: all others of the model (two or more) are together in another quadrant.

    By (instance, model): how many the others are, and where.
    """
    models: dict[str, dict[int, list[tuple[Replica, Quadrant]]]] = {}
    for one in replicas:
        place = quadrant(one, limits)
        if place is not None:
            models.setdefault(one.model, {}).setdefault(QUADRANTS.index(place), []).append((one, place))
    found: dict[tuple[str, str], tuple[int, Quadrant]] = {}
    for placed in models.values():
        few, *more = sorted(placed.values(), key=len)
        if len(few) == 1 and len(more) == 1 and len(more[0]) > 1:
            found[few[0][0].key] = len(more[0]), more[0][0][1]
    return found


def encode(fleet: Fleet) -> dict[str, Any]:
    """The JSON form: the fields of :class:`Fleet`."""
    found: dict[str, Any] = msgspec.to_builtins(fleet)
    return found


def decode(document: object, *, place: str) -> Fleet:
    """Reads :func:`encode` back. Raises :class:`PageError` where it is something else."""
    try:
        found = msgspec.convert(document, Fleet)
    except msgspec.ValidationError as error:
        raise PageError(
            f"answered with replicas that cannot be read ({error})",
            place=place,
            remedy="Bring the exporter and this reader to the same version.",
        ) from None
    moments.check((found.end, *(one.newest for one in found.replicas)), place=place)
    return found


def _value(readings: Mapping[str, Reading], name: str) -> float | None:
    found = readings.get(name)
    return None if found is None else found.value


def _why(readings: Mapping[str, Reading], name: str, down: str = "") -> str:
    found = readings.get(name)
    if found is None:
        return down or "the signals could not be computed"
    return "" if found.gap is None else down or found.gap.why


def _note(found: Reading | None) -> str:
    if found is None or found.value is None or found.standing is Standing.EXACT:
        return ""
    return found.standing.value


def _of_gpu(key: Series) -> bool:
    return key.name.startswith("llm_gpu_") and bool(key.label("gpu"))


def _named(key: Series) -> str:
    """A GPU by its number, a MIG slice by that of its card and its own."""
    card, _, part = key.label("gpu").partition("/")
    return "/".join(filter(None, (key.label("index") or card, part)))
