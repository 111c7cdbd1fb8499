"""The answer of a triage: frozen values and their JSON form (docs/design.md, section "Triage")."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What the walk concludes."""

    CAUSE = "cause"
    SHEDDING = "shedding"
    HEALTHY = "healthy"
    NO_TRAFFIC = "no-traffic"
    UNDETERMINED = "undetermined"


class State(StrEnum):
    """The state of one check."""

    FIRING = "firing"
    CLEAR = "clear"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"
    SHADOWED = "shadowed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One condition of a check beside what was measured. ``holds`` is None where the number is absent (``gap``)."""

    signal: str
    title: str
    value: float | None
    unit: str
    limit: str
    holds: bool | None
    gap: str = ""
    standing: str = "exact"
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """What to change: a sentence, the setting, and its computed value where the signals give one.

    ``effect``: what is expected to happen then; ``verify``: which numbers must move where, and how soon, for it to have worked.
    """

    text: str
    setting: str = ""
    value: float | None = None
    effect: str = ""
    verify: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What would change a verdict: ``signal``, ``value`` now, at which ``bound`` (base ``unit``), and what it would be then.

    ``outcome``, ``cause``: the verdict that the walk gives where the signal stands just beyond that bound and all else as it is.
    """

    signal: str
    title: str
    value: float | None
    bound: float
    unit: str
    op: str
    outcome: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A cause that looks like the leading one and is not it: why (a sentence), and the row of evidence that decides."""

    cause: str
    why: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that holds, with what speaks for it."""

    cause: str
    confidence: float
    evidence: tuple[Evidence, ...]
    action: Action
    runbook: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of the walk as it came out. ``confirming``: how many of the last rows of evidence only confirm."""

    cause: str
    state: State
    evidence: tuple[Evidence, ...]
    reason: str
    confirming: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk, in the order of the catalogue."""

    step: int
    title: str
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class Blind:
    """Something the walk could not see: what, why, the series that would settle it, and how to get it."""

    what: str
    why: str
    series: str
    remedy: str = ""


class Resource(StrEnum):
    """What may keep more work out of an engine."""

    KV = "kv"  # the KV pool
    COMPUTE = "compute"  # arithmetic
    BANDWIDTH = "bandwidth"  # device memory, or the link between GPUs
    SEATS = "seats"  # requests that may run at once
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Binding:
    """Which resource binds now, the conditions that say so, and a sentence; for ``unknown``, what is missing."""

    resource: Resource = Resource.UNKNOWN
    evidence: tuple[Evidence, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class ClassShare:
    """What one class of requests got of what it was promised, as traces told.

    ``requests``: those that ended in the window; ``goodput``: the share of them that met every threshold; the attainments: the
    shares that met one, None where nobody timed it. ``objective``: the share that was promised; ``burn``: what missed over what
    may. ``vantage``: who timed them (engine, gateway); ``standing``: how far the numbers may be trusted.
    """

    name: str
    requests: float
    goodput: float
    ttft_attainment: float | None
    tpot_attainment: float | None
    objective: float
    burn: float
    vantage: str
    standing: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one scope. ``binding``: KV read next to compute, whatever the outcome. ``classes``: the worst first.

    ``hurt``: whether users do not get what was promised, over the window that was judged or the part of it that decided.
    ``changes``: what would change the verdict, the nearest first; ``lookalikes``: what it could be taken for, and is not.
    """

    outcome: Outcome
    sentence: str
    leading: Finding | None
    contributing: tuple[Finding, ...]
    steps: tuple[Step, ...]
    blind: tuple[Blind, ...]
    window: dict[str, Any] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    binding: Binding = Binding()
    classes: tuple[ClassShare, ...] = ()
    hurt: bool = False
    changes: tuple[Change, ...] = ()
    lookalikes: tuple[LookAlike, ...] = ()
