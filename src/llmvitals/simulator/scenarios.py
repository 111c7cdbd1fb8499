"""Named situations: a server and its traffic. What they show comes out of simulated requests, never from a script."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from llmvitals.errors import SettingsError
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.live import Live
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.spans import Sending
from llmvitals.simulator.workload import Lengths, Stream, Workload


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table. ``settles``: seconds of simulated time after which the situation shows."""

    name: str
    title: str
    config: EngineConfig
    workload: Workload
    settles: float = 0.0

    def live(
        self, *, origin: float, seed: int | None = None, lead_in: float = 0.0, spans: Sending | None = None
    ) -> Live:
        """The scenario as a server whose time 0 is the unix moment ``origin``, with another seed where one is given.

        ``lead_in``: seconds of its first traffic that have passed by then; what starts later starts as long after
        ``origin`` as without. ``spans``: see :class:`Live`.
        """
        workload = replace(
            self.workload,
            seed=self.workload.seed if seed is None else seed,
            streams=tuple(replace(s, start=s.start + lead_in if s.start > 0 else 0.0) for s in self.workload.streams),
        )
        return Live(Setup(self.config, workload), origin=origin - lead_in, spans=spans)


_CHAT = Stream("chat", rate=2.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("idle", "a server that nobody calls", EngineConfig(), Workload()),
    Scenario("healthy", "chat at 2 requests/s on a server with room", EngineConfig(), Workload((_CHAT,))),
    Scenario(
        "queue",
        "8 seats for 6 requests/s: they wait while KV and GPU are free",
        EngineConfig(max_num_seqs=8),
        Workload((replace(_CHAT, rate=6.0, output=Lengths(200, 0.3)),)),
        settles=10.0,
    ),
    Scenario(
        "kv-full",
        "prompts of 3,000 tokens and short answers: the pool is full, the next one does not fit, nobody is thrown out",
        EngineConfig(blocks=1024, max_num_seqs=64),
        Workload(
            (Stream("documents", clients=24, ramp=2.0, prompt=Lengths(3000), output=Lengths(200), max_tokens=200),)
        ),
        settles=5.0,
    ),
    Scenario(
        "preemption",
        "healthy chat, then long answers for which the pool is too small: work is thrown out and done again",
        EngineConfig(blocks=1024, max_num_seqs=64, max_model_len=2048),
        Workload(
            (
                _CHAT,
                Stream(
                    "long answers",
                    start=10.0,
                    clients=64,
                    ramp=4.0,
                    prompt=Lengths(150, 0.1),
                    output=Lengths(400, 0.1),
                    max_tokens=512,
                ),
            )
        ),
        settles=16.0,
    ),
)

DEMO = "preemption"
"""What ``llmvitals run`` shows when it is given no server."""


def scenario(name: str) -> Scenario:
    """Look one up. Raises :class:`SettingsError` with the nearest name."""
    names = [s.name for s in SCENARIOS]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
        raise SettingsError(
            f"there is no scenario '{name}'", place="simulate", remedy=f"Did you mean '{near}'? --list shows all."
        )
    return SCENARIOS[names.index(name)]
