"""What the GPUs under a simulated engine did in each interval: read off the engine's counters, whatever it restarts.

Tensor parallelism splits the work evenly, so every GPU is as active as the others; what is held down, fails or is taken by
somebody else is the first one, and the others wait for it in the exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.simulator.counters import Counters
from llmvitals.simulator.roofline import Machine
from llmvitals.simulator.setup import Slow

POWER = "power"
"""The reason under which the power limit itself is what holds clocks down."""

_NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0)
_ON_TIME = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Activity:
    """One interval of one GPU: shares of it (0-1) and bytes per second.

    ``busy``: kernels running, those of the exchange between GPUs included (NCCL's keep their SMs while they wait);
    ``memory``: device memory moving data; ``tensor``: tensor pipes at their peak rate at full clock. ``link``: sent to
    peers, and as much received; ``received``: KV that came from another engine. ``factor``: SM clock over its highest.
    """

    busy: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    link: float = 0.0
    received: float = 0.0
    factor: float = 1.0

    @property
    def tensor_cycles(self) -> float:
        """Share of the cycles that there were in which tensor pipes worked: more of fewer at a lower clock."""
        return min(self.busy, self.tensor / self.factor)


@dataclass(slots=True)
class Done:
    """What one GPU has done since time 0: seconds of activity, bytes to and from its peers and from other engines."""

    busy: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    link: float = 0.0
    received: float = 0.0

    def add(self, now: Activity, span: float) -> None:
        """An interval of ``span`` seconds is over."""
        self.busy += now.busy * span
        self.memory += now.memory * span
        self.tensor += now.tensor_cycles * span
        self.link += now.link * span
        self.received += now.received * span


class Meter:
    """``first`` and ``other``: activity of the first GPU and of each other in the last interval; ``joules`` and ``done``
    likewise since time 0; ``violations``: seconds since time 0 in which the first one's clocks were held down, by reason.
    """

    def __init__(self, machine: Machine, slow: tuple[Slow, ...]) -> None:
        self.machine = machine
        self.t = 0.0
        self.first = self.other = Activity()
        self.held: Slow | None = None
        self.joules = [0.0, 0.0]
        self.done = (Done(), Done())
        self.violations: dict[str, float] = {}
        self._slow = slow
        self._of: Counters | None = None
        self._seen, self._late = _NOTHING, _ON_TIME

    def sample(self, moment: float, counters: Counters) -> None:
        """The interval up to ``moment`` (seconds of simulated time) is over.

        A step is counted where it ends, so what exceeds the interval is carried into the next one. What a process had
        done in the interval in which it ended is lost with its counters.
        """
        span = moment - self.t
        if span <= 0.0:
            return
        if counters is not self._of:
            self._of, self._seen, self._late = counters, _NOTHING, _ON_TIME
        seen = (
            counters.busy_seconds,
            counters.memory_seconds,
            counters.compute_seconds,
            counters.link_bytes,
            counters.received_tokens * self.machine.kv_bytes_per_token,
        )
        if seen == self._seen and self._late == _ON_TIME:
            self.first = self.other = Activity()
        else:
            done = tuple(now - before for now, before in zip(seen, self._seen, strict=True))
            busy, memory, compute = (x + late for x, late in zip(done, self._late, strict=False))
            self._late = (max(0.0, busy - span), max(0.0, memory - span), max(0.0, compute - span))
            self.first = self.other = Activity(
                min(1.0, busy / span), min(1.0, memory / span), min(1.0, compute / span), done[3] / span, done[4] / span
            )
        self._seen, self.held = seen, None
        if self._slow:
            self._hold(moment, span)
        self.joules[0] += watts(self.machine, self.first, self.held) * span
        self.joules[1] += watts(self.machine, self.other, None) * span
        self.done[0].add(self.first, span)
        self.done[1].add(self.other, span)
        self.t = moment

    def _hold(self, moment: float, span: float) -> None:
        """Clocks of the first GPU: the mean of the interval under what holds them down most.

        Only work draws the power that a limit holds down; heat and hardware hold an idle GPU as well.
        """
        strongest: tuple[float, float] = (1.0, 0.0)
        for slow in self._slow:
            share = max(0.0, min(slow.end, moment) - max(slow.start, self.t)) / span
            if slow.reason == POWER:
                share *= self.other.busy
            if share > 0.0:
                self.violations[slow.reason] = self.violations.get(slow.reason, 0.0) + share * span
                if slow.factor < strongest[0]:
                    self.held, strongest = slow, (slow.factor, share)
        factor, share = strongest
        o = self.other
        self.first = Activity(o.busy, o.memory, o.tensor, o.link, o.received, 1.0 - share * (1.0 - factor))


def watts(machine: Machine, now: Activity, held: Slow | None) -> float:
    """Power draw: idle, plus what the busier of memory and tensor pipes takes of the rest; a guess.

    With the clock falls the voltage, so that the dynamic part falls faster than in proportion (P = C V^2 f: Weste and
    Harris, "CMOS VLSI Design", 4th ed., section 5.1.2); between linear and cubic, the square stands here. A card that its
    power limit holds down draws that limit while it works.
    """
    if held is not None and held.reason == POWER:
        return machine.idle_watts + (limit_watts(machine, held) - machine.idle_watts) * now.busy
    load = min(1.0, max(now.memory, now.tensor_cycles))
    return machine.idle_watts + (machine.max_watts - machine.idle_watts) * load * now.factor**2


def limit_watts(machine: Machine, held: Slow | None) -> float:
    """The enforced power limit: the card's own, or the lower one that holds its clocks down."""
    if held is None or held.reason != POWER:
        return machine.max_watts
    return machine.idle_watts + (machine.max_watts - machine.idle_watts) * held.factor**2
