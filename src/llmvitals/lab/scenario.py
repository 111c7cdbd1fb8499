"""What a scenario is: a pair of deployments that differ in one fault, and how its truth is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmvitals.lab.base import Base
from llmvitals.lab.draw import LEVELS_OF_SEVERITY, Draw
from llmvitals.lab.result import Kind
from llmvitals.lab.spoil import Spoil

DIALECTS: tuple[str, ...] = ("vllm", "vllm-v0", "sglang")


@dataclass(frozen=True, slots=True)
class Pair:
    """``bad``: with the fault; ``good``: the same draw without it (the same object where nothing is wrong)."""

    bad: Base
    good: Base
    spoil: Spoil | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the simulator knows of a stretch of time: counts, and shares of what clients asked for.

    ``calls`` whose fate was decided in it; ``late``, ``slow``, ``failed``: those whose first token came too late, whose tokens
    came too slowly, and that got no whole answer; ``left``: those whose clients went away.
    """

    calls: int
    late: int
    slow: int
    failed: int
    left: int
    preemptions: int
    finished: int
    unbounded: int  # answered calls without max_tokens that ran on for more than three times as long as the usual one
    rejected: int  # calls refused at admission
    minutes: float
    down: int  # restarts
    events: int  # XID and uncorrectable ECC events
    loops: int  # calls of runaway sessions

    @property
    def bad(self) -> float:
        """Share of the calls that broke a promise (0-1): late or slow, whichever is more, and failed ones."""
        return (max(self.late, self.slow) + self.failed) / self.calls if self.calls else 0.0


Hazard = Callable[[Facts], bool]
"""Whether the thing itself is there, for causes that are named even while nobody is hurt."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table.

    ``shown_by``: the telemetry that is needed to tell the cause, all of it. ``hazard``: for causes that count without harm.
    ``dialects``: which pages can show it. ``after``: judged once the fault has passed, when nothing is wrong any more.
    ``lasts``: windows from the onset to the last verdict: what leaves no page behind is judged while some are left.
    """

    name: str
    kind: Kind
    draw: Callable[[Draw], Pair]
    causes: tuple[str, ...] = ()
    mimics: str = ""
    shown_by: frozenset[str] = frozenset({"engine"})
    hazard: Hazard | None = None
    dialects: tuple[str, ...] = DIALECTS
    severities: tuple[str, ...] = LEVELS_OF_SEVERITY
    after: bool = False
    lasts: float = 1.2
    young: bool = False  # pages from the process' first moment on: it has just started
