"""Processes of an engine that were replaced by others, and whether the kernel killed for want of memory meanwhile.

Where Kubernetes is asked, its own count of restarts knows more (exit codes, probes, rollouts) and is taken instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

REASONS = ("oom", "unknown")
LINGER_SECONDS = 60.0
"""How long an engine may outlive the kill that ends it: a worker is killed first, and the rest gives up after its time-outs."""
FORGET_SECONDS = 24 * 3600.0


@dataclass(slots=True)
class _Life:
    """What is known of one engine: its processes, and the OOM kills that its groups counted lately and before that."""

    processes: frozenset[tuple[int, int]]
    older: Mapping[str, float]
    newer: Mapping[str, float]
    since: float  # when newer was read
    t: float
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))


class Restarts:
    """Counts restarts by engine. ``kills``: the OOM kills that a group counts now, None when it is not there any more."""

    def __init__(self, kills: Callable[[str], float | None]) -> None:
        self._kills = kills
        self._lives: dict[str, _Life] = {}

    def seen(
        self, engine: str, processes: frozenset[tuple[int, int]], groups: tuple[str, ...], t: float
    ) -> dict[str, int]:
        """Restarts of ``engine`` by reason since it was first seen; empty before that.

        ``processes``: number and start of those it has now, empty while it has none; ``groups``: where kills of it are counted.
        """
        life = self._lives.get(engine)
        if life is None:
            if not processes:
                return {}
            now = self._now(groups)
            life = self._lives[engine] = _Life(processes, now, now, t, t)
        elif processes and not processes & life.processes:
            before = {**life.newer, **life.older}
            life.counts["oom" if any((self._kills(g) or 0.0) > n for g, n in before.items()) else "unknown"] += 1
            life.older = life.newer = self._now(groups)
            life.since = t
        elif processes and t - life.since >= LINGER_SECONDS:
            life.older, life.newer, life.since = life.newer, self._now(groups), t
        life.t, life.processes = t, processes or life.processes
        return dict(life.counts)

    def forget(self, t: float) -> None:
        """Drop engines that were not asked for during a day."""
        self._lives = {name: life for name, life in self._lives.items() if t - life.t < FORGET_SECONDS}

    def _now(self, groups: tuple[str, ...]) -> dict[str, float]:
        return {group: kills for group in groups if (kills := self._kills(group)) is not None}
