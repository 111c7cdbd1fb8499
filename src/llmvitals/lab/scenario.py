"""What a scenario is: a pair of deployments that differ in one fault, and how its truth is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmvitals.lab.base import Base
from llmvitals.lab.draw import LEVELS_OF_SEVERITY, Draw
from llmvitals.lab.result import Kind
from llmvitals.lab.spoil import Spoil
from llmvitals.lab.truth import Facts

DIALECTS: tuple[str, ...] = ("vllm", "vllm-v0", "sglang")


@dataclass(frozen=True, slots=True)
class Pair:
    """``bad``: with the fault; ``good``: the same draw without it (the same object where nothing is wrong)."""

    bad: Base
    good: Base
    spoil: Spoil | None = None


Hazard = Callable[[Facts], bool]
"""Whether the thing itself is there, for causes that are named even while nobody is hurt."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table.

    ``truth``: what a look-alike really is, where something is wrong with it. ``shown_by``: the telemetry that is needed to
    tell the cause, all of it. ``hazard``: for causes that count without harm.
    ``dialects``: which pages can show it. ``after``: judged once the fault has passed, when nothing is wrong any more.
    ``lasts``: windows from the onset to the last verdict: what leaves no page behind is judged while some are left.
    """

    name: str
    kind: Kind
    draw: Callable[[Draw], Pair]
    causes: tuple[str, ...] = ()
    mimics: str = ""
    truth: tuple[str, ...] = ()
    shown_by: frozenset[str] = frozenset({"engine"})
    hazard: Hazard | None = None
    dialects: tuple[str, ...] = DIALECTS
    severities: tuple[str, ...] = LEVELS_OF_SEVERITY
    after: bool = False
    lasts: float = 1.2
    young: bool = False  # pages from the process' first moment on: it has just started
