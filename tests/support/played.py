"""Played scenarios made by hand, and jobs whose outcome follows from their seed, for the tests of the score."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmvitals.lab.result import LEVELS, Heard, Kind, Played

FULL = LEVELS[-1]


def heard(cause: str = "", confidence: float = 0.8, contributing: tuple[str, ...] = (), outcome: str = "") -> Heard:
    """A verdict: a cause leads, or the outcome (healthy unless another one is said)."""
    return Heard(outcome or ("cause" if cause else "healthy"), cause, confidence if cause else 0.0, contributing)


UNSURE = heard(outcome="undetermined")


def played(
    *causes: str,
    said: Heard | None = None,
    alone: Heard | None = None,
    mimics: str = "",
    severity: str = "",
    engine: str = "vllm",
    interval: float = 5.0,
    seed: int = 1,
    shown_by: tuple[str, ...] = ("engine",),
    delay: float | None = None,
    valid: bool = True,
    why: str = "",
    row: str = "",
    **more: Any,
) -> Played:
    """A scenario with the verdict on all telemetry (``said``) and on the engine's page alone (``alone``, else the same).

    ``row`` names it; ``more`` are further fields of what was played.
    """
    kind = Kind.LOOKALIKE if mimics else (Kind.HEALTHY, Kind.FAULT, Kind.COMPOUND)[len(causes)]
    said = said or heard()
    return Played(
        scenario=row or "-".join(causes) or (f"like-{mimics}" if mimics else "healthy"),
        kind=kind,
        causes=causes,
        mimics=mimics,
        severity=severity,
        engine=engine,
        interval=interval,
        seed=seed,
        shown_by=frozenset(shown_by),
        verdicts=((LEVELS[0], alone or said), (FULL, said)),
        delay=delay,
        valid=valid,
        why=why,
        **more,
    )


@dataclass(frozen=True, slots=True)
class Task:
    """A job for the runner's tests."""

    scenario: str
    seed: int


def plan(seed: int, causes: tuple[str, ...] | None = None, size: float = 1.0) -> tuple[Task, ...]:
    """Twenty jobs for each cause, times the size; none for an empty choice."""
    wanted = ("a", "b") if causes is None else causes
    return tuple(Task(cause, seed * 1000 + i) for cause in wanted for i in range(int(20 * size)))


def play(task: Task, telemetry: tuple[str, ...] | None) -> Played:
    """Right for two seeds of three; the first job of a chunk takes no longer than the others."""
    right = task.seed % 3 > 0
    return played(
        task.scenario, said=heard(task.scenario) if right else UNSURE, seed=task.seed, delay=1.0 if right else None
    )


def play_and_fail(task: Task, telemetry: tuple[str, ...] | None) -> Played:
    """Raises on one job."""
    if task == Task("b", 1007):
        raise ZeroDivisionError("no seats")
    return play(task, telemetry)


def play_and_die(task: Task, telemetry: tuple[str, ...] | None) -> Played:
    """Ends its process, as the kernel does when memory runs out."""
    os._exit(9)


FIRST = "LLMVITALS_TEST_FIRST"


def play_for_an_hour_but_one(task: Task, telemetry: tuple[str, ...] | None) -> Played:
    """Plays whichever job comes first at once, and the others for an hour."""
    try:
        Path(os.environ[FIRST]).touch(exist_ok=False)
    except FileExistsError:
        time.sleep(3600)
    return play(task, telemetry)


def play_in(task: Task, telemetry: tuple[str, ...] | None) -> Played:
    """Tells the process in ``engine`` and the telemetry asked for in ``why``."""
    return replace(play(task, telemetry), engine=str(os.getpid()), why=",".join(telemetry or ("every level",)))
