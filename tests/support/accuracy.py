"""How far signals lie from what clients saw: each comparison as a row, for the tests and for docs/accuracy.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from llmvitals.series import Window
from llmvitals.settings import Settings
from llmvitals.signals.context import Context
from llmvitals.signals.derived import common, queue, user, work
from llmvitals.signals.measure import Hist
from support.recordings import Request, clients, only_scope, quantile

AGE_SLACK = 0.35
"""Seconds by which an age may exceed the truth: clocks of client, page and scrape differ by so much on one machine."""

QUANTILES = (0.5, 0.95)
FAMILIES = {
    "TTFT": "llm_request_ttft_seconds",
    "e2e": "llm_request_e2e_seconds",
    "TPOT": "llm_request_tpot_seconds",
}


@dataclass(frozen=True, slots=True)
class Quantile:
    """A client's quantile against the reported bucket. ``off``: seconds outside the bucket and its neighbours, 0 inside."""

    what: str
    q: float
    client: float
    bucket: tuple[float, float]
    off: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """One recording against its clients."""

    name: str
    stalled: bool
    quantiles: tuple[Quantile, ...]
    aborts: tuple[float, int] | None
    preempted: tuple[int, int]
    ages: tuple[int, float, float]
    goodput: tuple[float, float, float] | None
    withheld: str


def accuracy(folder: Path) -> Accuracy | None:
    """The whole comparison over the pages that came before the clients were cut off; None where no page is readable."""
    began, cut, log = clients(folder)
    _, whole = only_scope(folder)
    window = Window.of(s for s in whole.snapshots if s.t - began < cut - 0.2)
    c = Context(window, Settings())
    if not c.good.snapshots:
        return None
    span = (c.good.start - began, c.good.end - began)
    stalled = common.longest_answer(c) >= common.STALL_SHARE * c.settings.slo.ttft_seconds or _started_late(c)
    low, high = user.goodput_low_ratio(c), user.goodput_high_ratio(c)
    truth = _goodput(log, span, c.settings)
    known = low.value is not None and high.value is not None and truth is not None
    return Accuracy(
        folder.name,
        stalled,
        tuple(_quantiles(c, log, span)),
        None if c.aborted is None else (c.aborted, sum(r.left and span[0] <= r.end <= span[1] for r in log)),
        *_by_page(c, log, began),
        (low.value or 0.0, truth or 0.0, high.value or 0.0) if known else None,
        low.gap.why if low.gap else "",
    )


def _started_late(c: Context) -> bool:
    """Whether requests spent longer in front of the engine than half the TTFT threshold, on average."""
    residual = work.frontend_residual_seconds(c).value
    return residual is not None and residual >= common.STALL_SHARE * c.settings.slo.ttft_seconds


def _quantiles(c: Context, log: list[Request], span: tuple[float, float]) -> list[Quantile]:
    a, b = span
    done = [r for r in log if r.ok and not r.left and a <= r.end <= b]
    values = {
        "TTFT": [r.ttft for r in log if r.ttft is not None and a <= r.start + r.ttft <= b for _ in range(r.sequences)],
        "e2e": [r.end - r.start for r in done for _ in range(r.sequences)],
        "TPOT": [r.tpot for r in done if r.tpot is not None and r.sequences == 1],
    }
    rows = []
    for what, family in FAMILIES.items():
        h = c.hist(family)
        if h is None or h.total < 20 or not values[what]:
            continue
        for q in QUANTILES:
            client = quantile(values[what], q)
            bucket = h.bucket(q)
            assert bucket is not None
            rows.append(Quantile(what, q, client, bucket, _off(h, bucket, client)))
    return rows


def _off(h: Hist, bucket: tuple[float, float], client: float) -> float:
    edges = (0.0, *h.edges, math.inf)
    i = edges.index(bucket[0])
    low, high = edges[max(0, i - 1)], edges[min(len(edges) - 1, i + 2)]
    return max(0.0, low - client, client - high)


def _by_page(c: Context, log: list[Request], began: float) -> tuple[tuple[int, int], tuple[int, float, float]]:
    """Per page: preempted waiting (equal, compared); queue age (compared, most above the truth, mean of age / truth).

    Pages that hold more requests than the log knows (those in flight at the end were never logged) prove nothing.
    """
    equal = compared = aged = 0
    most, shares = -math.inf, []
    shots = c.good.snapshots
    for i in range(2, len(shots) + 1):
        now = Context(Window.of(shots[:i]), c.settings)
        if now.running is None or now.waiting is None:
            continue
        t = shots[i - 1].t - began
        logged = [r for r in log if r.inside(t)]
        if sum(r.sequences for r in logged) < now.running.last + now.waiting.last:
            continue
        again = queue.preempted_waiting(now)
        if again.value is not None:
            streaming = sum(r.sequences for r in logged if r.ttft is not None and r.start + r.ttft <= t)
            truth = max(0.0, streaming - now.running.last) if c.preemptions else 0.0
            compared += 1
            equal += again.value == min(truth, now.waiting.last)
        age = queue.queue_age_seconds(now)
        without = [t - r.start for r in logged if r.ttft is None or r.start + r.ttft > t]
        oldest = max(without, default=0.0)
        if age.value:
            aged += 1
            most = max(most, age.value - oldest)
            if oldest > 0:
                shares.append(age.value / oldest)
    return (equal, compared), (aged, most, sum(shares) / len(shares) if shares else math.nan)


def _goodput(log: list[Request], span: tuple[float, float], settings: Settings) -> float | None:
    """Share of the requests ending in the window that met both thresholds; refused input is not the server's fault."""
    ended = [r for r in log if span[0] <= r.end <= span[1] and not r.left and not r.refused]
    slo = settings.slo
    good = sum(
        r.ok and r.ttft is not None and r.ttft <= slo.ttft_seconds and (r.tpot or 0.0) <= slo.tpot_seconds
        for r in ended
    )
    return good / len(ended) if ended else None
