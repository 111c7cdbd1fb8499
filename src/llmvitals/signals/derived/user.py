"""What users got: definite breaches of the SLO, the harm test, joint goodput as an interval, refusals.

Counts are taken at real bucket edges, so a breach is only called one when it lies beyond the edge above the
threshold.
"""

from __future__ import annotations

import math
from dataclasses import replace

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived import probe, requests
from llmvitals.signals.derived.common import STALL_SHARE, absent, longest_answer, missing, no_traffic, number
from llmvitals.signals.derived.queue import first_token_rate, released_rate
from llmvitals.signals.measure import Hist, binomial_tail, growth_by
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.told import ENGINE

TTFT = "llm_request_ttft_seconds"
TPOT = "llm_request_tpot_seconds"
ITL = "llm_request_inter_token_seconds"
QUEUE = "llm_request_queue_seconds"
INFERENCE = "llm_request_inference_seconds"
GENERATED = "llm_request_generation_tokens"
FINISHED = "llm_requests_finished_total"

BY_QUEUE = "from queue times, which are the part of it that the page shows"
BY_WAITS = "from requests that wait and how fast they are served: the page times no first token"


def overdue_count(c: Context, seconds: float | None = None) -> float:
    """Requests that have waited for their first token longer than the TTFT threshold (or so many ``seconds``) and still have
    none (lower bound).

    All that had arrived by the newest page older than the threshold, less all first tokens and all who left since.
    """
    clock, running, waiting, finished = c.clock, c.running, c.waiting, c.counter("llm_requests_finished_total")
    if clock is None or running is None or waiting is None or finished is None or not clock.times:
        return 0.0
    limit = clock.times[-1] - (c.settings.slo.ttft_seconds if seconds is None else seconds)
    old = [i for i, t in enumerate(clock.times) if t <= limit]
    if not old:
        return 0.0
    i = old[-1]
    gone = (c.aborts.values[-1] - c.aborts.values[i]) if c.aborts else 0.0
    base = c.aborts.values[i] if c.aborts else 0.0
    if c.given_up is not None:
        gone += base  # some of them count as finished and never had a first token
    arrived = finished.values[i] + running.values[i] + waiting.values[i] + base
    return max(0.0, min(arrived - clock.values[-1] - gone - base, waiting.values[-1]))


def _queue_times(c: Context) -> Hist | None:
    """Queue times of an engine that times no first token (TGI): who waited longer than the threshold was late for sure."""
    return c.hist(QUEUE) if c.cannot(TTFT) else None


def ttft_breaches(c: Context) -> tuple[float, float] | None:
    """(definite TTFT breaches incl. overdue requests, requests counted); None without a histogram."""
    h = c.hist(TTFT) or _queue_times(c)
    if h is None:
        return None
    late = overdue_count(c)
    return h.total - h.at_most(c.settings.slo.ttft_seconds)[1] + late, h.total + late


def tpot_breaches(c: Context) -> tuple[float, float] | None:
    """(definite TPOT breaches, finished requests counted); None where the engine has no per-request TPOT."""
    h = c.hist(TPOT)
    return None if h is None else (h.total - h.at_most(c.settings.slo.tpot_seconds)[1], h.total)


def _ratio(found: tuple[float, float] | None, c: Context, family: str) -> Reading:
    if found is None:
        return missing(c, family)
    bad, n = found
    return number(bad / n, Standing.LOWER) if n > 0 else no_traffic("requests")


def _harm(found: tuple[float, float] | None, c: Context, family: str) -> Reading:
    if found is None:
        return missing(c, family)
    bad, n = found
    if n <= 0:
        return no_traffic("requests")
    return number(binomial_tail(math.floor(bad), round(n), 1 - c.settings.slo.objective))


def ttft_breach_ratio(c: Context) -> Reading:
    """Share of requests whose first token certainly came too late, those still overdue included."""
    return _ratio(ttft_breaches(c), c, TTFT)


def tpot_breach_ratio(c: Context) -> Reading:
    """Share of finished requests whose mean time per output token was certainly over the threshold."""
    return _ratio(tpot_breaches(c), c, TPOT)


def sharpened(c: Context, found: Reading, objective: str, limit: float, vantage: str = ENGINE) -> Reading:
    """The chance that an objective is still met, with exact counts by class where traces told of every request.

    ``found``: by what a page's histogram shows against one threshold, ``limit``. A class that is stricter and hurt counts as
    hurt. Where a class was promised less, one threshold for all is nobody's promise, and the exact counts alone hold; they
    know nothing of requests that have not ended, so those that are overdue for every class are added.
    """
    exact = requests.harm(c, vantage, (objective,))
    if exact is None or exact.value is None:
        return found
    loosest = requests.loosest(c, vantage, objective)
    if found.value is not None and loosest <= limit:
        return min(found, exact, key=lambda r: r.value or 0.0)
    late = overdue_count(c, max(loosest, limit)) if objective == "ttft" and vantage == ENGINE else 0.0
    if late <= 0:
        return exact
    return min(exact, number(requests.chance_with(c, vantage, objective, late)), key=lambda r: r.value or 0.0)


def ttft_harm_p(c: Context) -> Reading:
    """Chance of so many definite TTFT breaches if the objective were just met (binomial tail). Small = users are hurt.

    Engines that time no first token: queue times stand in, which are part of it; without those the wait that lies ahead,
    which speaks only when it is too long on most pages, or when hardly anybody waits; then probes. Where traces told of every
    request, each class' exact count against its own promise.
    """
    return sharpened(c, _ttft_by_page(c), "ttft", c.settings.slo.ttft_seconds)


def _ttft_by_page(c: Context) -> Reading:
    found = _harm(ttft_breaches(c), c, TTFT)
    if found.gap is not None and c.cannot(TTFT) and _queue_times(c) is None:
        return _or_probed(c, _harm_by_waits(c), "ttft")
    return replace(found, standing=Standing.UPPER, note=BY_QUEUE) if _queue_times(c) is not None else found


def _or_probed(c: Context, found: Reading, objective: str) -> Reading:
    """What probes say, where the page says nothing."""
    return found if found.value is not None else probe.harm(c, objective) or found


def _harm_by_waits(c: Context) -> Reading:
    waiting = c.waiting
    if waiting is None or not waiting.values:
        return missing(c, TTFT)
    counted = first_token_rate(c)
    rate = counted or released_rate(c) or 0.0
    if rate > 0.0:
        late = sum(v / rate > c.settings.slo.ttft_seconds for v in waiting.values) / len(waiting.values)
        if late > 0.5:
            return number(0.0, Standing.ESTIMATE, BY_WAITS)
    share = sum(v > 0 for v in waiting.values) / len(waiting.values)
    if counted > 0.0 or share < c.settings.thresholds.waiting_share:  # a guessed rate comes out high: it clears nobody
        return number(1.0, Standing.ESTIMATE, BY_WAITS)
    return missing(c, TTFT)


def tpot_harm_p(c: Context) -> Reading:
    """Chance of so many definite TPOT breaches if the objective were just met (binomial tail). Small = users are
    hurt.

    Engines that have no per-request TPOT: the share of slow gaps stands in, and speaks only when most gaps are slow. Those
    that show no gaps either: means over all tokens, which speak only when the mean itself breaks the promise; then probes.
    Where traces told of every request, each class' exact count against its own promise.
    """
    return sharpened(c, _tpot_by_page(c), "tpot", c.settings.slo.tpot_seconds)


def _tpot_by_page(c: Context) -> Reading:
    if c.hist(TPOT) is not None or c.lost(TPOT):
        return _harm(tpot_breaches(c), c, TPOT)
    h = c.hist(ITL)
    if h is None:
        lost = c.lost(ITL)
        return missing(c, lost) if lost else _or_probed(c, _harm_by_means(c), "tpot")
    if h.total <= 0:
        return no_traffic("tokens")
    slow = (h.total - h.at_most(c.settings.slo.tpot_seconds)[1]) / h.total
    return number(0.0 if slow > 0.5 else 1.0, Standing.ESTIMATE, "from gaps between tokens, not per request")


def _harm_by_means(c: Context) -> Reading:
    """Mean gap; or, where prefill and decode are timed as one, what of their mean the latest acceptable first token leaves."""
    slo, gaps, made = c.settings.slo, c.totals(ITL), c.totals(GENERATED)
    inside = c.totals(INFERENCE)
    if gaps is not None:
        spent, tokens = gaps.sum, gaps.total
    elif inside is not None and made is not None:
        spent, tokens = inside.sum - inside.total * slo.ttft_seconds, made.sum
    else:
        return missing(c, TPOT)
    if tokens <= 0.0:
        return no_traffic("tokens")
    slow = spent / tokens > slo.tpot_seconds
    return number(0.0 if slow else 1.0, Standing.ESTIMATE, "from the mean over all tokens, not per request")


def harm_p(c: Context) -> Reading:
    """The smallest chance that an objective is still met: the gate before any cause that needs hurt users. TTFT and TPOT, and
    the whole answer where traces tell and a class was promised it.
    """
    whole = requests.harm(c, ENGINE, ("e2e",))
    found = [r for r in (ttft_harm_p(c), tpot_harm_p(c), whole) if r is not None and r.value is not None]
    return min(found, key=lambda r: r.value or 0.0) if found else ttft_harm_p(c)


def _goodput(c: Context) -> tuple[float, float] | Reading:
    ttft, tpot, running, waiting = c.hist(TTFT), c.hist(TPOT), c.running, c.waiting
    if ttft is None or tpot is None:
        return missing(c, TTFT if ttft is None else TPOT)
    if running is None or waiting is None:
        return missing(c, "llm_requests_running")
    if c.restarts:
        return absent(GapKind.CENSORED, "a new process answers: what the old one took with it, nobody counted", TPOT)
    alone_least, alone_most = _alone(c, tpot.total)
    done_least, done_most = tpot.total + alone_least, tpot.total + alone_most
    failed = max(
        c.growth("llm_http_requests_total", status="5xx") or 0.0, c.growth("llm_requests_rejected_total") or 0.0
    )
    if done_most + failed <= 0:
        return no_traffic("finished requests")
    inside = running.last + waiting.last
    if inside > 0.2 * done_least:
        return absent(GapKind.CENSORED, f"{inside:.0f} requests in flight against {done_least:.0f} finished", TPOT)
    stall = longest_answer(c)
    if stall >= STALL_SHARE * c.settings.slo.ttft_seconds:
        return absent(
            GapKind.CENSORED, f"the API process stalled for {stall:.1f} s: clients waited longer than it measured", TPOT
        )
    before = max(running.values[0] + (waiting.values[0] if c.preemptions else 0.0), _begun(c))
    lag = max(0.0, ttft.total - done_least + before)
    ttft_low, ttft_high = ttft.at_most(c.settings.slo.ttft_seconds)
    tpot_low, tpot_high = tpot.at_most(c.settings.slo.tpot_seconds)
    low = max(0.0, tpot_low + max(0.0, ttft_low - lag) - tpot.total) / (done_most + failed + inside)
    in_pace = (min(tpot.total, tpot_high) + alone_most) / (done_most + failed)
    in_time = (ttft_high + before) / (done_least + failed) if done_least + failed > 0 else 1.0
    return low, min(in_pace, in_time)


def _begun(c: Context) -> float:
    """Requests that had had their first token by the first page and had not ended, by counters that count all ends (SGLang's, whose
    gauges may be older than its counters); 0 where those who left are in none. Short by those who ever left inside their
    prefill: SGLang counts an end of theirs and no first token.
    """
    begun, ended = c.clock, c.counter(FINISHED)
    if c.given_up is None or begun is None or ended is None or not begun.values:
        return 0.0
    return begun.values[0] - ended.values[0]


def _alone(c: Context, timed: float) -> tuple[float, float]:
    """Finished requests that have no time per output token, at least and at most: those of one token, which SGLang and
    TensorRT-LLM leave out of its histogram. They keep any promise about it. At least and at most, since which of those that were
    given up an engine counts as finished too is not known.
    """
    by = growth_by(c.good, FINISHED, "reason") or {}
    finished = sum(n for reason, n in by.items() if not reason.startswith(("abort", "error")))
    most = max(0.0, finished - timed)
    return max(0.0, most - (c.growth("llm_requests_aborted_total") or 0.0)), most


def goodput_low_ratio(c: Context) -> Reading:
    """Share of requests that met both thresholds, at least: as the engine saw it, counts at real bucket edges."""
    found = _goodput(c)
    if isinstance(found, Reading):
        return found
    return number(min(found), Standing.LOWER, "" if c.http_seen else "answers that failed are not on its page")


def goodput_high_ratio(c: Context) -> Reading:
    """Share of requests that met both thresholds, at most."""
    found = _goodput(c)
    return found if isinstance(found, Reading) else number(min(1.0, max(found)), Standing.UPPER)


def _http(c: Context, status: str) -> float | None:
    if not c.http_seen:
        return None
    return c.growth("llm_http_requests_total", status=status) or 0.0


def error_ratio(c: Context) -> Reading:
    """Share of HTTP answers that were 5xx."""
    ok, bad, client = _http(c, "2xx"), _http(c, "5xx"), _http(c, "4xx")
    if ok is None or bad is None or client is None:
        return missing(c, "llm_http_requests_total")
    total = ok + bad + client
    return number(bad / total) if total > 0 else no_traffic("HTTP answers")


def client_error_ratio(c: Context) -> Reading:
    """Share of HTTP answers that were 4xx: the only place where refused input shows."""
    ok, bad, client = _http(c, "2xx"), _http(c, "5xx"), _http(c, "4xx")
    if ok is None or bad is None or client is None:
        return missing(c, "llm_http_requests_total")
    total = ok + bad + client
    return number(client / total) if total > 0 else no_traffic("HTTP answers")


def server_errors(c: Context) -> Reading:
    """5xx answers in the window."""
    found = _http(c, "5xx")
    return missing(c, "llm_http_requests_total") if found is None else number(found)


def rejected(c: Context) -> Reading:
    """Requests refused at admission in the window."""
    found = c.growth("llm_requests_rejected_total")
    return missing(c, "llm_requests_rejected_total") if found is None else number(found)


def rejection_ratio(c: Context) -> Reading:
    """Share of offered requests that were refused at admission."""
    found = c.growth("llm_requests_rejected_total")
    if found is None:
        return missing(c, "llm_requests_rejected_total")
    offered = found + max(c.first_tokens, c.finished)
    return number(found / offered) if offered > 0 else no_traffic("requests")
