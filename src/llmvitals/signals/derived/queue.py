"""The queue as it stands now: its age, what is ahead of a new request, who waits for what, whether it grows.

vLLM observes queue time only when a request finishes, so a stalled queue looks healthy in its histograms. These read
the live gauges and the balance of arrivals against first tokens.
"""

from __future__ import annotations

import math
from statistics import fmean, variance

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.measure import Line, line, mann_kendall_z, steps
from llmvitals.signals.reading import Reading, Standing

FINISHED = "llm_requests_finished_total"
WAITING = "llm_requests_waiting"
RUNNING = "llm_requests_running"
REASON = "llm_requests_waiting_by_reason"
TTFT = "llm_request_ttft_seconds"

GUESSED = "ended requests are guessed from the steps of the token counter"

GENERATED = "llm_generation_tokens_total"

LEAST_STEPS = 8
"""Intervals between pages from which the size of a step in the token counter is judged."""

RECENT_SECONDS = 30.0
"""How far back first tokens are counted for the rate at which a queue is served now."""

FULL_KV = 0.9
"""KV usage (ratio) that must have been seen before requests count as preempted while the counter is still 0."""


def preempted_waiting(c: Context) -> Reading:
    """Requests that wait again after a preemption: first tokens - finished - running - aborted, as counters stand.

    Exact between steps, a lower bound while something prefills. The engine counts a preemption late (seconds after the
    request went back to the queue), so its counter at 0 rules nothing out once the KV pool was full.
    """
    found = _again(c)
    return found if isinstance(found, Reading) else number(found[-1], Standing.LOWER)


def preempted_waiting_peak(c: Context) -> Reading:
    """Most requests seen waiting again after a preemption on one page of the window."""
    found = _again(c)
    return found if isinstance(found, Reading) else number(max(found), Standing.LOWER)


def _again(c: Context) -> tuple[float, ...] | Reading:
    clock, running, waiting, done = c.clock, c.running, c.waiting, c.counter("llm_requests_finished_total")
    ever = c.counter("llm_preemptions_total")
    if clock is None or running is None or waiting is None or done is None:
        return missing(c, _unseen(c))
    if ever is None:
        return missing(c, "llm_preemptions_total")
    kv = c.gauge("llm_kv_usage_ratio", peak=True)
    if ever.last == 0 and (kv is None or max(kv.values) < FULL_KV):
        return (0.0,) * len(clock.values)
    if c.aborts is None and clock.last > done.last + running.last:  # they may have left instead
        return missing(c, c.aborts_need)
    left = c.aborts.values if c.aborts else (0.0,) * len(clock.values)
    rows = zip(clock.values, done.values, running.values, left, waiting.values, strict=True)
    return tuple(min(max(0.0, tokens - ended - run - gone), queue) for tokens, ended, run, gone, queue in rows)


def queue_age_seconds(c: Context) -> Reading:
    """Age of the oldest waiting request, at least (seconds).

    With A(t) = finished + running + waiting + aborted: that request had arrived by the time at which A first reached
    (finished + running + aborted now) + 1; once preemptions moved, first tokens stand for finished + running (the
    oldest request *without a first token*). Less the page's own answer time.
    """
    clock, running, waiting, done = c.clock, c.running, c.waiting, c.counter("llm_requests_finished_total")
    if clock is None or running is None or waiting is None or done is None or not clock.times:
        return missing(c, _unseen(c))
    if waiting.last <= 0:
        return number(0.0, Standing.LOWER)
    if c.aborts is None and c.growth("llm_requests_finished_total", reason="abort"):
        return absent(GapKind.MISSING, "clients left and the page does not count how many", "llm_http_requests_total")
    left, gone = _left(c)
    moved = c.preemptions is None or c.preemptions > 0 or bool(preempted_waiting(c).value)
    served = clock.last if moved else done.last + running.last
    target = served + gone + 1
    for i, t in enumerate(clock.times):
        if done.values[i] + running.values[i] + waiting.values[i] + left[i] >= target:
            age = max(0.0, clock.times[-1] - t - _answer(c))
            note = "older than the window" if i == 0 else ""
            return number(age, Standing.LOWER, note)
    return number(0.0, Standing.LOWER)


def _left(c: Context) -> tuple[tuple[float, ...], float]:
    """Requests that left so far without being finished, by page, surely (what is seen later bounds it), and at the end at
    most.

    The HTTP layer and the engine are not read at one moment, so a single page's count may be off either way. Where the
    engine counts them itself, all that left in the window may be among the finished, or none.
    """
    if c.clock is None or c.aborts is None:
        return (0.0,) * len(c.clock.times if c.clock else ()), 0.0
    if c.given_up is not None:
        return (c.given_up.values[0],) * len(c.given_up.values), c.given_up.last
    surely, low = [], float("inf")
    for value in reversed(c.aborts.values):
        low = min(low, value)
        surely.append(low)
    return tuple(reversed(surely)), max(c.aborts.values)


def _answer(c: Context) -> float:
    tracks = c.live.tracks("llm_target_answer_seconds")
    return max((t.values[-1] for t in tracks), default=0.0)


def first_token_rate(c: Context) -> float:
    """First tokens per second over the last 30 s (or the whole window when it is shorter or they are none)."""
    clock = c.clock
    if clock is None or len(clock.times) < 2:
        return 0.0
    recent = clock.after(clock.times[-1] - RECENT_SECONDS)
    for part in (recent, clock):
        if len(part.times) >= 2 and part.values[-1] > part.values[0]:
            return (part.values[-1] - part.values[0]) / (part.times[-1] - part.times[0])
    return 0.0


def released_rate(c: Context) -> float | None:
    """Requests per second that end, guessed from a token counter that moves when they do and nothing else (llama.cpp).

    The tokens that come between two pages are a sum over the requests that ended: their variance over their mean is the
    size of a request if these end by chance (compound Poisson), and tokens per second over it the rate. Requests that end
    one after the other spread less than by chance, which makes the rate come out too high, and no wait too long.
    """
    made = c.counter(GENERATED) if c.cannot(FINISHED) else None
    grown = steps(made) if made is not None else ()
    if made is None or len(grown) < LEAST_STEPS or sum(grown) <= 0:
        return None
    size = variance(grown) / fmean(grown)
    return sum(grown) / size / (made.times[-1] - made.times[0]) if size > 0 else None


def _unseen(c: Context) -> str:
    """The first of the families that a queue is reckoned from and that the page does not show."""
    families = (RUNNING, WAITING, FINISHED, TTFT)
    have = c.good.names()
    absent = (f for f in families if f not in have and f"{f}_count" not in have)
    return c.lost(*families) or next(absent, TTFT)


def wait_ahead_seconds(c: Context) -> Reading:
    """How long a request that arrives now will wait: (waiting - preempted waiting) / first-token rate (seconds).

    Where no first token is counted, requests that have begun stand in; where none is counted at all, those that the steps
    of the token counter speak of.
    """
    waiting = c.waiting
    again = preempted_waiting(c)
    if waiting is None:
        return missing(c, WAITING)
    if waiting.last <= 0:
        return number(0.0, Standing.ESTIMATE)
    rate, guessed = first_token_rate(c), released_rate(c)
    if c.clock is None and c.cannot(TTFT):
        if guessed is None:
            return missing(c, FINISHED if c.cannot(FINISHED) else TTFT)
        return number(waiting.last / guessed, Standing.ESTIMATE, GUESSED)
    if rate <= 0:
        return absent(GapKind.STALE, f"{waiting.last:.0f} wait and no first token came", WAITING)
    return number(max(0.0, waiting.last - (again.value or 0.0)) / rate, Standing.ESTIMATE)


def waiting_tokens(c: Context) -> Reading:
    """Prompt tokens in the queue (estimate): waiting x mean prompt length of the requests that finished."""
    h = c.totals("llm_request_prompt_tokens")
    if c.waiting is None:
        return missing(c, WAITING)
    if c.waiting.last <= 0:
        return number(0.0, Standing.ESTIMATE)
    if h is None or h.mean is None:
        return no_traffic("finished requests whose length is known")
    return number(c.waiting.last * h.mean, Standing.ESTIMATE, "waiting x mean prompt")


def _share_waiting(line: Line) -> float:
    return sum(v > 0 for v in line.values) / len(line.values)


def waiting_share_ratio(c: Context) -> Reading:
    """Share of pages on which somebody waits."""
    if c.waiting is None or not c.waiting.values:
        return missing(c, WAITING)
    return number(_share_waiting(c.waiting))


def waiting_last(c: Context) -> Reading:
    """Requests waiting on the newest page."""
    return missing(c, WAITING) if c.waiting is None else number(c.waiting.last)


def running_max(c: Context) -> Reading:
    """Most requests seen running on one page."""
    return missing(c, RUNNING) if c.running is None else number(max(c.running.values))


def deferred_share_ratio(c: Context) -> Reading:
    """Of the pages with waiting requests, the share on which none of them waits for capacity (all are deferred)."""
    if not c.live.tracks(REASON):
        return missing(c, REASON)
    deferred, capacity = _by_reason(c, "deferred"), _by_reason(c, "capacity")
    times = c.clock.times if c.clock else sorted({*deferred, *capacity})
    waits = [(deferred.get(t, 0.0), capacity.get(t, 0.0)) for t in times]
    busy = [(d, k) for d, k in waits if d + k > 0]
    if not busy:
        return no_traffic("page with waiting requests")
    return number(sum(d > 0 and k == 0 for d, k in busy) / len(busy))


def _by_reason(c: Context, reason: str) -> dict[float, float]:
    """Requests that wait for a reason, by moment; an engine shows a reason once something waited for it."""
    sums: dict[float, float] = {}
    for track in c.live.tracks(REASON, {"reason": reason}):
        for t, v in zip(track.times, track.values, strict=True):
            sums[t] = sums.get(t, 0.0) + v
    return sums


PINNED = 0.85
"""Share of the maximum from which on a batch counts as full."""


def running_pinned_ratio(c: Context) -> Reading:
    """Of the pages with waiting requests, the share on which running stands at its maximum (at least 3 such pages).

    ``max_num_seqs`` is on no page; running pinned at one number with turnover is how the seats show. Seats that were just
    given up are empty until the next step, so a page within PINNED of the maximum counts, or one seat short of four and more.
    """
    if c.running is None or c.waiting is None:
        return missing(c, RUNNING)
    top = max(c.running.values)
    busy = [r for r, w in zip(c.running.values, c.waiting.values, strict=True) if w > 0]
    if not busy and c.waiting.values:
        return no_traffic("waiting request")
    if len(busy) < 3:
        return absent(GapKind.TOO_SHORT, f"only {len(busy)} pages with waiting requests", WAITING)
    just_left = 1.0 if top >= 4 else 0.0
    full = min(PINNED * top, top - just_left, top - _about_to_run(c, top))
    return number(sum(r >= full for r in busy) / len(busy))


def _about_to_run(c: Context, top: float) -> float:
    """How many more may have a seat than the page says: an engine that reports before a prefill (SGLang) counts those
    whose seats became free, and not yet those that take them. Per decode step that is the batch over the tokens of an
    answer; twice that covers chance.
    """
    if not any(track.values[-1] > 0 for track in c.live.tracks("llm_target_report_age_seconds")):
        return 0.0
    answer = c.totals("llm_request_generation_tokens")
    return float(math.ceil(2.0 * top / answer.mean)) if answer and answer.mean else 1.0


def turnover_ratio(c: Context) -> Reading:
    """How many times the running batch was replaced: finished / most running."""
    if c.running is None or c.lost(FINISHED) or c.cannot(FINISHED):
        return missing(c, c.lost(FINISHED) or (RUNNING if c.running is None else FINISHED))
    top = max(c.running.values)
    return number(c.finished / top) if top > 0 else no_traffic("running request")


def waiting_trend_z(c: Context) -> Reading:
    """Mann-Kendall z of the waiting requests on the pages that show them: above 2.33 their rise is one chance in a
    hundred.
    """
    shown = line(c.live, WAITING)
    return missing(c, WAITING) if shown is None else number(mann_kendall_z(shown.values))


def waiting_growth_sigmas(c: Context) -> Reading:
    """Growth of the queue over the window in units of the spread of a balanced queue, sqrt(arrivals)."""
    if c.waiting is None or c.lost(FINISHED):
        return missing(c, c.lost(FINISHED) or WAITING)
    rate = released_rate(c) if c.cannot(FINISHED) else 0.0
    if rate is None:
        return missing(c, FINISHED)
    grown = c.waiting.values[-1] - c.waiting.values[0]
    arrivals = max(1.0, c.finished + rate * c.good.seconds + grown + (c.aborted or 0.0))
    return number(grown / math.sqrt(arrivals), Standing.ESTIMATE if rate else Standing.EXACT, GUESSED if rate else "")


def arrival_rate(c: Context) -> Reading:
    """Requests per second that reached the engine: finished + aborted + growth of those inside, over the window."""
    if c.running is None or c.waiting is None or c.aborted is None or c.lost(FINISHED) or c.cannot(FINISHED):
        return missing(
            c,
            FINISHED
            if c.cannot(FINISHED)
            else c.lost(FINISHED, RUNNING, WAITING, "llm_request_n_param") or "llm_http_requests_total",
        )
    if c.good.seconds <= 0:
        return absent(GapKind.TOO_SHORT, "one page only")
    inside = (c.running.last + c.waiting.last) - (c.running.values[0] + c.waiting.values[0])
    left = c.aborted if c.given_up is None else 0.0  # an engine that counts them has most among the finished
    return number(max(0.0, c.finished + left + inside) / c.good.seconds)


def preemption_spread_ratio(c: Context) -> Reading:
    """Share of the intervals between pages in which requests were preempted (at least 3 needed to be a spread)."""
    moved = c.counter("llm_preemptions_total")
    if moved is None:
        return missing(c, "llm_preemptions_total")
    found = steps(moved)
    if not found:
        return absent(GapKind.TOO_SHORT, "one page only")
    hit = sum(step > 0 for step in found)
    return number(hit / len(found) if hit >= 3 else 0.0)


def preemptions_per_completion(c: Context) -> Reading:
    """Preemptions per finished request."""
    if c.preemptions is None or c.lost(FINISHED) or c.cannot(FINISHED):
        return missing(c, c.lost(FINISHED) or ("llm_preemptions_total" if c.preemptions is None else FINISHED))
    return number(c.preemptions / max(1.0, c.finished))
