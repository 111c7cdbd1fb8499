"""What a gateway is made of: its queue, its circuit breaker, its connections to the engine, and its last minute."""

from __future__ import annotations

import math
import statistics
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Mapping

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.workload import Call

QUIET_SECONDS = 60.0
"""How long a port is held after its connection: Linux' TCP_TIMEWAIT_LEN, and nginx' keepalive_timeout for an idle one."""

ERROR_SECONDS = 30.0
"""Over how long the breaker looks back."""

LEAST_RESULTS = 20
"""Results in that time under which a ratio says nothing: Hystrix' circuitBreaker.requestVolumeThreshold."""

MINUTE = 60.0


class CallQueue:
    """Calls that wait, first come first served; with ``weights`` by a virtual token counter.

    The counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): of the tenants that wait, the one
    whose served tokens over its weight are fewest goes next; who begins to wait starts no lower than those that wait.
    A tenant without a weight has 1.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._waiting: dict[str, OrderedDict[Call, int]] = {}
        self._served: dict[str, float] = {}
        self._last = ""
        self._number = self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, call: Call, tenant: str) -> None:
        """A call begins to wait."""
        lane = self._lane(tenant)
        waiting = self._waiting.setdefault(lane, OrderedDict())
        if not waiting:
            others = [self._served.get(other, 0.0) for other, calls in self._waiting.items() if calls]
            floor = min(others) if others else self._served.get(self._last, 0.0)
            self._served[lane] = max(self._served.get(lane, 0.0), floor)
        self._number += 1
        self._length += 1
        waiting[call] = self._number

    def pop(self) -> Call:
        """The next call to be served. Raises :class:`KeyError` when none waits."""
        if not self._length:
            raise KeyError("no call waits")
        lanes = (lane for lane, calls in self._waiting.items() if calls)
        self._last = min(
            lanes, key=lambda lane: (self._served.get(lane, 0.0), next(iter(self._waiting[lane].values())))
        )
        self._length -= 1
        return self._waiting[self._last].popitem(last=False)[0]

    def remove(self, call: Call, tenant: str) -> bool:
        """A call waits no more; False when it did not."""
        waiting = self._waiting.get(self._lane(tenant))
        if not waiting or waiting.pop(call, None) is None:
            return False
        self._length -= 1
        return True

    def charge(self, tenant: str, tokens: float) -> None:
        """A tenant was served so many tokens."""
        if self._weights:
            weight = self._weights.get(tenant, 1.0)
            self._served[tenant] = self._served.get(tenant, 0.0) + (tokens / weight if weight > 0 else math.inf)

    def _lane(self, tenant: str) -> str:
        return tenant if self._weights else ""


class Breaker:
    """Closed, open for ``seconds`` after more than ``ratio`` of the last results were errors, then half-open: one call is
    let through, and its result closes or opens it again.
    """

    def __init__(self, clock: Clock, ratio: float, seconds: float) -> None:
        self.clock = clock
        self.ratio = ratio
        self.seconds = seconds
        self.open = False
        self._until = 0.0
        self._probe: Call | None = None
        self._results: deque[tuple[float, bool]] = deque()
        self._errors = 0

    @property
    def refuses(self) -> bool:
        """Whether a call that comes now is refused."""
        return self.open and (self.clock.now < self._until or self._probe is not None)

    def admit(self, call: Call) -> bool:
        """A call is to be sent on; False when it may not."""
        if self.refuses:
            return False
        if self.open:
            self._probe = call
        return True

    def forget(self, call: Call) -> None:
        """A call ends without a result: its client has left."""
        if call is self._probe:
            self._probe = None

    def result(self, call: Call, *, failed: bool) -> None:
        """The engine has answered a call, or has not."""
        if self.ratio >= 1.0:
            return
        now = self.clock.now
        if self.open:
            if call is self._probe:
                self._probe = None
                self.open, self._until = failed, now + self.seconds
            return
        results = self._results
        results.append((now, failed))
        self._errors += failed
        while results[0][0] <= now - ERROR_SECONDS:
            self._errors -= results.popleft()[1]
        if len(results) >= LEAST_RESULTS and self._errors > self.ratio * len(results):
            self.open, self._until = True, now + self.seconds
            results.clear()
            self._errors = 0


class Connections:
    """Connections to the engine, each with an ephemeral port of ``ports``: in use, or quiet for up to a minute.

    A quiet one is kept for the next call with ``keep_alive``, and stands in TIME_WAIT without.
    """

    def __init__(self, clock: Clock, ports: int, *, keep_alive: bool) -> None:
        self.clock = clock
        self.ports = ports
        self.keep_alive = keep_alive
        self.in_use = 0
        self._quiet: deque[float] = deque()

    @property
    def quiet(self) -> int:
        """Ports of connections that carry no call: idle ones, or those in TIME_WAIT."""
        while self._quiet and self._quiet[0] <= self.clock.now - QUIET_SECONDS:
            self._quiet.popleft()
        return len(self._quiet)

    def take(self) -> bool:
        """Take a kept connection, or open one; False when no port is left."""
        if self.quiet and self.keep_alive:
            self._quiet.pop()
        elif self.in_use + len(self._quiet) >= self.ports:
            return False
        self.in_use += 1
        return True

    def give(self) -> None:
        """A call has ended."""
        self.in_use -= 1
        self._quiet.append(self.clock.now)


class LastMinute:
    """Calls of each session in the last minute, and how many of them were one tool with the same arguments."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._calls: deque[tuple[float, Hashable, bool]] = deque()
        self._of: Counter[Hashable] = Counter()
        self._same: Counter[Hashable] = Counter()

    def add(self, session: Hashable, *, same_tool: bool) -> None:
        """A session makes a call."""
        self._calls.append((self.clock.now, session, same_tool))
        self._of[session] += 1
        if same_tool:
            self._same[session] += 1
        self._forget()

    def figures(self) -> tuple[float, float, float]:
        """Most calls of a session, calls of the median session, most repeats of one tool call by one session."""
        self._forget()
        counts = self._of.values()
        return (
            float(max(counts, default=0)),
            float(statistics.median(counts)) if counts else 0.0,
            float(max(0, max(self._same.values(), default=0) - 1)),
        )

    def _forget(self) -> None:
        while self._calls and self._calls[0][0] <= self.clock.now - MINUTE:
            _, session, same_tool = self._calls.popleft()
            _less(self._of, session)
            if same_tool:
                _less(self._same, session)


def _less(counts: Counter[Hashable], key: Hashable) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
