"""What clients saw and what the engine did: the truth that the triage is held against, and never sees."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmvitals.settings import Settings
from llmvitals.simulator.clients import Answer
from llmvitals.simulator.workload import Call
from llmvitals.simulator.world import World

SLO = Settings().slo
"""What users were promised, by default: nobody tunes thresholds for the lab."""

MET, BROKEN = 0.05, 0.10
"""Shares of broken promises: up to MET the SLO (95 % of requests) is met; from BROKEN on, twice its budget, a scenario
counts as showing harm. What lies between shows nothing, and does not count.
"""

CLEARLY = 1.25
"""Harm counts where a promise is missed by a quarter: histograms of engines have no edge between 2 s and 2.5 s."""

_NO_FAILURE = ("ok", "left", "too long")
"""Ends of calls that no server is to blame for: a whole answer, a client that went away, a prompt that does not fit."""

NO_CHANCE = 0.001
"""Harm counts where a server that keeps its promise (95 %) would show as much by chance less often than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A stretch of time: counts of calls, and of what the engine did.

    ``calls``: those that ended in it, and those still open that have their first token or should have it by now.
    ``broken``: calls that missed a promise: too late, too slow, or no whole answer. ``left``: calls whose clients gave up or
    went away. ``runaway``: whole answers without max_tokens that are more than three times as long as the usual one.
    ``wasted``: share of the generated tokens that no client received in a whole answer (0-1). ``loops``: calls of sessions
    that repeat one tool call.
    """

    calls: int
    broken: int
    left: int
    runaway: int
    wasted: float
    loops: int
    preemptions: int
    finished: int
    rejected: int
    restarts: int
    events: int
    minutes: float

    @property
    def bad(self) -> float:
        """Share of the calls that missed a promise (0-1)."""
        return self.broken / self.calls if self.calls else 0.0

    @property
    def hurt(self) -> bool:
        """Whether users are hurt beyond doubt: more broken promises than twice the budget, and than chance explains."""
        return harm(self.calls, self.broken)


@dataclass(frozen=True, slots=True)
class Count:
    """Counters of a world at one moment."""

    preemptions: int
    finished: int
    rejected: int
    generated: int
    restarts: int

    @classmethod
    def of(cls, world: World) -> Count:
        """Read them off."""
        c = world.engine.counters
        return cls(c.preemptions, sum(c.finished.values()), c.rejected, c.generated_tokens, len(world.restarts))


def facts(before: Count, world: World, start: float, end: float, *, margin: float = 1.0) -> Facts:
    """What happened between two moments of simulated time, the second being now; ``margin``: how far a promise must be missed."""
    ttft, tpot = SLO.ttft_seconds * margin, SLO.tpot_seconds * margin
    ended = [answer for answer in world.clients.log if start <= answer.ended <= end]
    whole = [answer for answer in ended if answer.outcome == "ok"]
    waiting = [call for call in world.clients.open.values() if call.first is not None or end - call.sent > ttft]
    overdue = sum(_waited(call, end) > ttft for call in waiting)
    usual = statistics.median(answer.tokens for answer in whole) if whole else 0.0
    after, faults, streams = Count.of(world), world.setup.faults, world.setup.workload.streams
    generated = max(0, after.generated - before.generated)
    received = sum(answer.tokens for answer in whole)
    return Facts(
        calls=len(ended) + len(waiting),
        broken=sum(_broken(answer, ttft, tpot) for answer in ended) + overdue,
        left=sum(answer.outcome in ("left", "timeout") for answer in ended),
        runaway=sum(answer.request.max_tokens is None and answer.tokens > 3 * usual for answer in whole),
        wasted=max(0.0, 1.0 - received / generated) if generated else 0.0,
        loops=sum(streams[answer.request.stream].loops for answer in ended),
        preemptions=after.preemptions - before.preemptions,
        finished=after.finished - before.finished,
        rejected=after.rejected - before.rejected,
        restarts=after.restarts - before.restarts,
        events=sum(start < t <= end for t in (*faults.ecc, *(t for t, _ in faults.xid))),
        minutes=(end - start) / 60,
    )


@dataclass(frozen=True, slots=True)
class Told:
    """One call, from the moment on at which its client knows how it went.

    ``t``: seconds of simulated time; ``broke``: the promise that it missed (``ttft``, ``tpot``, ``answers`` for no whole
    answer), '' for none. Who has waited for too long knows before the answer ends. Who gives an answer up that came in time
    and at its pace was not failed by the server: no promise says that it is short.
    """

    t: float
    broke: str = ""


def told(world: World, *, margin: float = 1.0) -> tuple[Told, ...]:
    """Every call of the log, and those still open that missed their promise, in order of time; ``margin``: see :func:`facts`."""
    ttft, tpot = SLO.ttft_seconds * margin, SLO.tpot_seconds * margin
    found = [_told(answer, ttft, tpot) for answer in world.clients.log]
    for call in world.clients.open.values():
        if _waited(call, world.now) > ttft:
            found.append(Told(call.sent + ttft, "ttft"))
    return tuple(sorted(found, key=lambda one: one.t))


def _told(answer: Answer, ttft: float, tpot: float) -> Told:
    patient = replace(answer, outcome="left") if answer.outcome == "timeout" else answer
    if not _broken(patient, ttft, tpot):
        return Told(answer.ended)
    if _waited(answer, answer.ended) > ttft:
        return Told(answer.sent + ttft, "ttft")
    return Told(answer.ended, "answers" if patient.outcome not in _NO_FAILURE else "tpot")


def beyond_doubt(calls: Sequence[Told]) -> bool:
    """Whether these calls show harm, by the test of :attr:`Facts.hurt`."""
    return harm(len(calls), sum(bool(call.broke) for call in calls))


def harm(calls: int, broken: int) -> bool:
    """Whether so many broken promises of so many calls are harm: more than twice the budget, and than chance explains."""
    return calls > 0 and broken / calls >= BROKEN and tail(calls, broken, 1.0 - SLO.objective) <= NO_CHANCE


def _waited(call: Answer | Call, until: float) -> float:
    """Seconds from a call to its first token, or ``until`` then where none has come."""
    return (until if call.first is None else call.first) - call.sent


def _broken(answer: Answer, ttft: float, tpot: float) -> bool:
    """Whether a call missed a promise. Who goes away of their own accord was not failed, unless they had waited too long."""
    failed = answer.outcome not in _NO_FAILURE
    return failed or _waited(answer, answer.ended) > ttft or (answer.tpot is not None and answer.tpot > tpot)


def tail(n: int, k: int, p: float) -> float:
    """The chance of at least ``k`` of ``n`` where each happens with chance ``p``: the upper binomial tail."""
    if k <= 0:
        return 1.0
    logs = math.log(p), math.log1p(-p)
    whole = math.lgamma(n + 1)
    terms = (
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * logs[0] + (n - i) * logs[1])
        for i in range(k, n + 1)
    )
    return min(1.0, math.fsum(terms))
