"""A made fleet, as an exporter tells it."""

from __future__ import annotations

import time
from dataclasses import replace

from llmvitals.triage.replica import COMPUTE, PHASES, Fleet, Limits, Replica

TIMES = dict(zip(PHASES, (0.2, 0.3, 4.0), strict=True))


def made_fleet(size: int, end: float | None = None) -> Fleet:
    """``size`` replicas of four models. Every hundredth has a cause, with requests that wait; the last one fell silent, and the one
    before it answers nothing any more.
    """
    now = time.time() if end is None else end
    replicas = [_one(number, now) for number in range(size)]
    replicas[-1] = replace(replicas[-1], newest=now - 300.0)
    replicas[-2] = Replica(
        replicas[-2].instance, replicas[-2].model, newest=now - 400.0, gone=True, kv_why="it is gone"
    )
    return Fleet(now, 60.0, Limits(0.95, 0.6), tuple(replicas))


def _one(number: int, now: float) -> Replica:
    ill = number % 100 == 7
    return Replica(
        f"vllm-{number:04}",
        f"model-{number % 4}",
        kv=0.99 if ill else (number % 50) / 60,
        activity=(number % 37) / 40,
        activity_of=COMPUTE if number % 3 else "gpu_busy_mean_ratio",
        waiting=30.0 if ill else 0.0,
        running=12.0,
        verdict="cause" if ill else "healthy",
        leading="preemption-thrash" if ill else "",
        confidence=0.9 if ill else 0.0,
        hurt=ill,
        binds="kv" if ill else "nothing",
        numbers={**TIMES, PHASES[0]: 9.0} if ill else TIMES,
        newest=now,
    )
