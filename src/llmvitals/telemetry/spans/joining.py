"""Requests that belong to one call: an engine's waits for its caller's span, and callers are kept for their engines' spans.

Spans of one trace come from several processes in any order. What is joined, and only within ``seconds`` of each other:

- by parent: an engine's request whose parent is the span of a gateway's or a client's request, or of a client's whose parents
  lead to a gateway's;
- by trace: where its parent is a span that nobody sent here (one of an HTTP library's), and the trace holds exactly one request of
  a gateway (or none, and exactly one of a client) and exactly one of an engine.

What a request took around the engine is told where exactly one request of an engine lies below the caller, both ended well and
the caller's took no less than the engine's. Only lengths are compared: clocks of two machines are not.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from llmvitals.telemetry.spans.account import Sender
from llmvitals.telemetry.spans.model import Ended, Request, Vantage

MOST_STEPS = 16
"""Callers of callers are followed so far up; it also ends a circle of parents."""


@dataclass(slots=True, eq=False)
class Told:
    """One request on its way to a page. ``sender`` None: a client, which is no target. ``tenant``, ``route``: its own or its
    caller's; ``floor``: seconds before which its first token cannot have come, as the engine below it told.
    """

    request: Request
    sender: Sender | None
    tenant: str
    route: str
    floor: float | None = None
    counted: bool = False


class Sink(Protocol):
    """Where requests go whose wait is over."""

    def settled(self, told: Told) -> None:
        """A request is told in full; each comes once."""

    def around(self, told: Told, seconds: float, parent: str) -> None:
        """What an engine's request took around the engine, by its caller's span: a gateway's or a client's."""


@dataclass(slots=True, eq=False)
class _Held:
    """One request that waits or is kept. ``engines``: requests of engines known to lie below it, itself one of an engine's;
    ``unsure``: those of them that wait for a gateway's words; ``below``: the newest of them.
    """

    told: Told
    arrived: float
    settled: bool
    engines: int = 0
    parent: _Held | None = None
    by_trace: bool = False
    below: Told | None = None
    unsure: list[_Held] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Trace:
    """What is known of one trace while anything of it is held. ``whose``: the tenant and route that all its gateways name."""

    callers: dict[str, _Held] = field(default_factory=dict)
    orphans: dict[str, dict[_Held, None]] = field(default_factory=dict)  # by the id of the parent that they wait for
    members: int = 0
    engines: int = 0
    gateways: int = 0
    clients: int = 0
    gateway: _Held | None = None
    client: _Held | None = None
    engine: Told | None = None
    whose: tuple[str, str] | None = None
    agree: bool = True

    def sole_caller(self) -> _Held | None:
        """The only one that can have called, where there is one engine's request."""
        if self.engines != 1 or self.gateways > 1:
            return None
        if self.gateways:
            return self.gateway
        return self.client if self.clients == 1 else None


class Joining:
    """Holds at most ``most`` requests, each ``seconds`` long, an engine's until its callers' time is over too. Not thread-safe.

    ``inherited``: whether a request's class may depend on what its gateway knows; if not, an engine's is settled as it comes.
    """

    def __init__(self, sink: Sink, *, seconds: float, most: int, inherited: bool) -> None:
        self._sink = sink
        self._seconds = seconds
        self._most = most
        self._inherited = inherited
        self._held: OrderedDict[_Held, None] = OrderedDict()
        self._traces: dict[str, _Trace] = {}
        self.joined: Counter[str] = Counter()
        self.hurried = 0

    def tuned(self, *, seconds: float, most: int, inherited: bool) -> None:
        """Go on under other settings, with what is held."""
        self._seconds, self._most, self._inherited = seconds, most, inherited

    def __len__(self) -> int:
        """How many requests are held."""
        return len(self._held)

    def take(self, told: Told, now: float) -> None:
        """Take a request in that arrived at ``now`` (seconds of any clock that goes forward)."""
        request = told.request
        if request.vantage is not Vantage.ENGINE:
            self._take_caller(told, now)
        elif request.parent_id:
            self._take_engine(told, now)
        else:
            self._sink.settled(told)

    def expire(self, now: float) -> None:
        """Settle what has waited long enough; what arrived later than ``now`` has too (the clock was set back)."""
        while self._held:
            oldest = next(iter(self._held))
            if oldest.arrived <= now < oldest.arrived + self._seconds:
                return
            del self._held[oldest]
            self._over(oldest)

    # -- taking in ----------------------------------------------------------------------------------------------------
    def _take_engine(self, told: Told, now: float) -> None:
        trace = self._traces.setdefault(told.request.trace_id, _Trace())
        trace.engines += 1
        trace.engine = told
        held = _Held(told, now, settled=not self._inherited or bool(told.tenant and told.route), engines=1)
        if held.settled:
            self._sink.settled(told)
        self._hold(held, trace)
        self._seek(held, trace)

    def _take_caller(self, told: Told, now: float) -> None:
        request = told.request
        trace = self._traces.setdefault(request.trace_id, _Trace())
        waits = request.vantage is Vantage.GATEWAY and request.ended is Ended.OK and request.ttft is None
        held = _Held(told, now, settled=not waits)
        if not waits:
            self._sink.settled(told)
        if request.vantage is Vantage.GATEWAY:
            trace.gateways += 1
            trace.gateway = held
            whose = (told.tenant, told.route)
            trace.agree = trace.agree and trace.whose in (None, whose)
            trace.whose = whose
        else:
            trace.clients += 1
            trace.client = held
        self._hold(held, trace)
        if request.vantage is Vantage.CLIENT and request.parent_id:
            self._seek(held, trace)
        trace.callers[request.span_id] = held
        for child in trace.orphans.pop(request.span_id, ()):
            self._link(child, held)

    def _hold(self, held: _Held, trace: _Trace) -> None:
        self._held[held] = None
        trace.members += 1
        while len(self._held) > self._most:
            oldest, _ = self._held.popitem(last=False)
            self.hurried += 1
            self._over(oldest, hurried=True)

    # -- who called whom ----------------------------------------------------------------------------------------------
    def _seek(self, child: _Held, trace: _Trace) -> None:
        """Link a request to its parent's span, or let it wait for that."""
        parent = trace.callers.get(child.told.request.parent_id)
        if parent is None:
            trace.orphans.setdefault(child.told.request.parent_id, {})[child] = None
        else:
            self._link(child, parent)

    def _link(self, child: _Held, parent: _Held) -> None:
        child.parent = parent
        unsure = [child] if child.told.request.vantage is Vantage.ENGINE else child.unsure
        child.unsure = []
        top = parent
        for caller in _up(parent):
            caller.engines += child.engines
            caller.below = child.told if child.told.request.vantage is Vantage.ENGINE else child.below
            top = caller
        if top.told.request.vantage is not Vantage.GATEWAY:
            top.unsure += (one for one in unsure if not one.settled)
            return
        for one in unsure:
            self._settle(one, None)

    def _settle(self, held: _Held, trace: _Trace | None) -> None:
        """Settle a request with what its callers say of it; where nothing leads to one, with what all gateways of its trace say."""
        if held.settled:
            return
        held.settled = True
        told = held.told
        for caller in _up(held.parent):
            told.tenant = told.tenant or caller.told.tenant
            told.route = told.route or caller.told.route
        if trace is not None and trace.agree and trace.whose is not None:
            told.tenant = told.tenant or trace.whose[0]
            told.route = told.route or trace.whose[1]
        self._sink.settled(told)

    # -- over ---------------------------------------------------------------------------------------------------------
    def _over(self, held: _Held, *, hurried: bool = False) -> None:
        """Its wait is over, or ended early since too many wait."""
        request = held.told.request
        trace = self._traces[request.trace_id]
        orphans = trace.orphans.get(request.parent_id)
        if orphans is not None and held in orphans:
            del orphans[held]
            if not orphans:
                del trace.orphans[request.parent_id]
        if request.vantage is not Vantage.ENGINE:
            self._caller_over(held, trace)
        elif self._engine_over(held, trace, hurried=hurried):
            self._held[held] = None  # behind its callers
            return
        trace.members -= 1
        if not trace.members:
            del self._traces[request.trace_id]

    def _caller_over(self, held: _Held, trace: _Trace) -> None:
        request = held.told.request
        if trace.callers.get(request.span_id) is held:
            del trace.callers[request.span_id]
        if held.settled:
            return
        below = held.below if held.engines == 1 else None
        if not held.engines and trace.sole_caller() is held:
            below = trace.engine
        if below is not None and below.request.ended is Ended.OK:
            held.told.floor = below.request.ttft
        held.settled = True
        self._sink.settled(held.told)

    def _engine_over(self, held: _Held, trace: _Trace, *, hurried: bool) -> bool:
        """Whether it waits on: until its callers' time is over, nobody knows that it was their only request."""
        self._settle(held, trace)
        if held.parent is None or held.by_trace:
            held.parent = trace.sole_caller()
            held.by_trace = held.parent is not None
        if not hurried and any(caller in self._held for caller in _up(held.parent)):
            return True
        self.joined["none" if held.parent is None else "trace" if held.by_trace else "parent"] += 1
        if not hurried:
            self._around(held)
        return False

    def _around(self, held: _Held) -> None:
        took = _length(held.told.request)
        told: set[Vantage] = set()
        for caller in _up(held.parent):
            request = caller.told.request
            whole = _length(request)
            alone = caller.engines == (0 if held.by_trace else 1)
            if request.vantage not in told and alone and took is not None and whole is not None and whole >= took:
                self._sink.around(held.told, whole - took, request.vantage.value)
            told.add(request.vantage)


def _up(held: _Held | None) -> Iterator[_Held]:
    """A caller and its callers, up to the first gateway."""
    for _ in range(MOST_STEPS):
        if held is None:
            return
        yield held
        if held.told.request.vantage is Vantage.GATEWAY:
            return
        held = held.parent


def _length(request: Request) -> float | None:
    """How long a request that ended well took, in seconds."""
    return request.e2e if request.ended is Ended.OK else None
