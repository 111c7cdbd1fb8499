"""Simulated deployments played twice over: their spans through the receiver's own decoding and ledger, and their clients' log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from llmvitals.series import Snapshot
from llmvitals.settings import Settings, Slo
from llmvitals.signals.context import Context
from llmvitals.signals.window import scopes
from llmvitals.simulator import tally
from llmvitals.simulator.clients import Answer
from llmvitals.simulator.counters import Counters
from llmvitals.simulator.live import Live
from llmvitals.simulator.sequence import Sequence as Inside
from llmvitals.simulator.setup import Setup
from llmvitals.simulator.spans import Sending
from llmvitals.slo import Promise, promise_of
from llmvitals.telemetry.ingest import Ingest, RawPage
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Place

ORIGIN = 1_800_000_000.0
ENGINE, GATEWAY = "engine", "gateway"
FAILED = ("rejected", "error", "cut", "dropped")
"""What the service is to blame for; who left, and whose prompt was too long, broke no promise."""

Count = dict[tuple[str, str], int]
"""Requests by class and whether they met all of its thresholds (yes, no)."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A request as the engine timed it; ``ended``: by its own clock (seconds of simulated time)."""

    stream: int
    ttft: float
    tpot: float
    e2e: float
    ended: float

    def kept(self, promise: Promise) -> bool:
        """Whether it met all of a promise."""
        times = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.e2e}
        return all(times[name] <= limit for name, limit in promise.thresholds)


@dataclass
class Played:
    """A deployment under watch. ``spans_after``: see :class:`Sending`; ``engine_log``: what the engine finished."""

    setup: Setup
    slo: Slo
    kind: str = "vllm"
    spans_after: float | None = 0.0
    origin: float = ORIGIN
    now: float = 0.0
    engine_log: list[Timed] = field(default_factory=list)
    pages: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings(slo=self.slo)
        sending = None if self.spans_after is None else Sending(self.spans_after)
        self.live = Live(self.setup, origin=self.origin, spans=sending)
        self.ledger = Ledger(self.settings, clock=lambda: self.origin + self.now)
        self.ingest = Ingest(instance=ENGINE, kind=self.kind)
        model = self.setup.engine.model
        self.places = [Place(ENGINE, kind=self.kind, models=(model,))]
        if self.setup.gateway is not None:
            self.places.append(Place(GATEWAY, gateway=True))

    # -- playing ----------------------------------------------------------------------------------------------------------
    def to(self, t: float, *, flush: bool = False) -> None:
        """Let time pass, and bring what was sent to the ledger."""
        self.now = t
        for body in self.live.spans_at(self.origin + t, flush=flush):
            self.ledger.take(decode(body, self.settings.spans), "127.0.0.1")
        self.ledger.shown(self.places)

    def scrape(self, t: float) -> None:
        """Let time pass, and look at the page, spans' samples on it as the exporter shows them."""
        self.to(t)
        answer = self.live.answer_at(self.origin + t)
        page = self.ingest.snapshot(RawPage(self.origin + t, answer.took, answer.status, answer.body))
        shown = self.ledger.shown(self.places).get(ENGINE)
        more = dict(shown.samples) if shown is not None else {}
        self.pages.append(Snapshot(page.t, {**page.samples, **more}, page.detail))

    def play(self, until: float, *, every: float, scrape: bool = False) -> None:
        """Let time pass in even steps, and ``scrape`` at each."""
        for turn in range(int(until / every) + 1):
            (self.scrape if scrape else self.to)(turn * every)

    def drain(self) -> None:
        """Until nothing is open anywhere, and every wait of the ledger's is over."""
        while self.live.world.clients.open or self.live.engine.in_flight:
            self.to(self.now + 5.0)
            assert self.now < 3600.0, "it never ends"
        self.to(self.now + 1.0, flush=True)
        self.to(self.now + 2 * self.settings.spans.join_seconds + 1.0)

    # -- what spans told --------------------------------------------------------------------------------------------------
    def told(self, vantage: str) -> Count:
        """The counts of one vantage, as the target's page would show them; ``unknown`` ones too."""
        shown = self.ledger.shown(self.places)
        found: Counter[tuple[str, str]] = Counter()
        for one in shown.values():
            for key, value in one.samples.items():
                if key.name == "llm_slo_requests_total" and key.label("vantage") == vantage and value:
                    found[key.label("slo_class"), key.label("met")] += round(value)
        return dict(found)

    # -- what was ---------------------------------------------------------------------------------------------------------
    def promise(self, stream: int, *, known: bool) -> Promise:
        """The promise to a stream's requests; ``known``: whether a gateway tells their tenant and route."""
        of, model = self.setup.workload.streams[stream], self.setup.engine.model
        return promise_of(self.slo, model=model, **({"tenant": of.tenant, "route": of.name} if known else {}))

    def kept(self, answer: Answer) -> bool:
        """Whether a client got what it was promised, by its own clock."""
        promise = self.promise(answer.request.stream, known=self.setup.gateway is not None)
        if answer.outcome != "ok" or answer.first is None:
            return False
        times = {"ttft": answer.first - answer.sent, "tpot": answer.tpot or 0.0, "e2e": answer.ended - answer.sent}
        return all(times[name] <= limit for name, limit in promise.thresholds)

    def by_clients(self, answers: Sequence[Answer] | None = None) -> Count:
        """What the clients' log comes to: whole answers and those that the service failed."""
        log = self.live.world.clients.log if answers is None else answers
        found: Counter[tuple[str, str]] = Counter()
        for answer in log:
            if answer.outcome == "ok" or answer.outcome in FAILED:
                promise = self.promise(answer.request.stream, known=self.setup.gateway is not None)
                found[promise.name, "yes" if self.kept(answer) else "no"] += 1
        return dict(found)

    @property
    def calls(self) -> int:
        """Calls that a gateway answered, in whatever way; 0 without one."""
        return len(self.live.world.clients.log) if self.setup.gateway is not None else 0

    def by_engine(self) -> Count:
        """What the engine's own times come to."""
        found: Counter[tuple[str, str]] = Counter()
        for one in self.engine_log:
            promise = self.promise(one.stream, known=self.setup.gateway is not None)
            found[promise.name, "yes" if one.kept(promise) else "no"] += 1
        return dict(found)

    # -- windows ----------------------------------------------------------------------------------------------------------
    def windows(self, seconds: float) -> Iterator[Context]:
        """Every window of so many seconds of the pages."""
        for first in range(len(self.pages)):
            part = [page for page in self.pages[first:] if page.t - self.pages[first].t <= seconds]
            if self.pages[-1].t - self.pages[first].t < seconds:
                return
            for window in scopes(part).values():
                yield Context(window, self.settings)

    def exact(self, start: float, end: float) -> float | None:
        """Goodput between two unix moments by the clients' log; None where no call ended."""
        start, end = start - self.origin, end - self.origin  # unix seconds are too coarse for what happens at once
        within = [answer for answer in self.live.world.clients.log if start < answer.ended <= end]
        count = self.by_clients(within)
        yes = sum(n for (_, met), n in count.items() if met == "yes")
        return yes / sum(count.values()) if count else None

    def exact_inside(self, start: float, end: float, *, failed: Sequence[str] = ("rejected", "error")) -> float | None:
        """The same of what the engine took on, by its own times; what it refused or failed counts with it."""
        start, end = start - self.origin, end - self.origin
        inside = [one for one in self.engine_log if start < one.ended <= end]
        lost = [answer for answer in self.live.world.clients.log if answer.outcome in failed]
        broken = sum(start < answer.ended <= end for answer in lost)
        kept = sum(one.kept(self.promise(one.stream, known=False)) for one in inside)
        return kept / (len(inside) + broken) if inside or broken else None


def spy(monkeypatch: pytest.MonkeyPatch) -> list[Timed]:
    """What the engine times of each request, as its page counts it: noted where that happens, by stamps taken here."""
    found: list[Timed] = []
    began: dict[int, float] = {}
    first_token, finished = tally.first_token, tally.finished

    def at_first(counters: Counters, sequence: Inside, seen: float) -> None:
        began[id(sequence)] = seen
        first_token(counters, sequence, seen)

    def at_end(counters: Counters, sequence: Inside, end: float, seen: float) -> None:
        arrived, first, more = sequence.call.arrived, sequence.first_token, sequence.generated - 1
        assert first is not None
        tpot = (end - first) / more if more else 0.0
        ttft, e2e = began.pop(id(sequence)) - arrived, seen - arrived
        found.append(Timed(sequence.request.stream, ttft, tpot, e2e, end))
        finished(counters, sequence, end, seen)

    monkeypatch.setattr(tally, "first_token", at_first)
    monkeypatch.setattr(tally, "finished", at_end)
    return found
