"""What only a gateway sees: who calls, how often again, what repeats, who leaves, and how long calls wait before the engine.

Shares of calls need :data:`LEAST_CALLS` of them: of fewer, one client's habit makes a share.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from llmvitals.gaps import GapKind
from llmvitals.schema import LARGE_PROMPT_TOKENS
from llmvitals.signals.context import Context
from llmvitals.signals.derived import requests
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.derived.user import harm_p, sharpened
from llmvitals.signals.measure import Hist, Line, binomial_tail, growth_by, hist, line, mann_kendall_z
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.told import GATEWAY
from llmvitals.signals.told import REQUESTS as TOLD
from llmvitals.signals.told import TTFT as SPAN_TTFT

CALLS = "llm_gateway_requests_total"
RETRIES = "llm_gateway_retries_total"
CAME = "llm_gateway_calls_total"
USERS = "llm_gateway_user_requests_total"
TTFT = "llm_gateway_ttft_seconds"
WAITING = "llm_gateway_queue_waiting"
DROPPED = "llm_gateway_queue_dropped_total"
CONNECT_ERRORS = "llm_gateway_connect_errors_total"
PLAN = "llm_gateway_planned_calls"
LEFT = "llm_gateway_disconnects_total"
REPEATS = "llm_gateway_exact_repeats_total"
HITS = "llm_gateway_cache_hits_total"
SESSION = "llm_gateway_session_calls_peak"
PROMPT = "llm_request_prompt_tokens"
UP = "llm_gateway_upstream_up"

SESSION_SECONDS = 60.0
"""The time over which a gateway counts a session's calls and repeats: the last minute."""

LEAST_CALLS = 20
"""Calls from which on a share of them says something; the least number of first tokens behind a verdict is the same."""

REFUSED = ("429", "503")
"""Refusals: "too many requests" and "no capacity now" (RFC 6585 and 9110)."""

FAILED = ("429", "499", "error")
"""Statuses besides 5xx after which a client tries again: refused, given up at its own timeout (nginx' 499), and failures of
which a gateway says no more."""

LOST = ("429", "error")
"""Statuses besides 5xx of calls that got no answer, for no reason of their clients'."""

LOST_LABELS = (*LOST, "5xx", *map(str, range(500, 512)))
"""All of them as a label may say them: the class, or one of the 5xx that are registered."""

EXACT = ("1xx", "2xx", "3xx")
"""Classes of statuses in which no refusal can hide; another class, ok or error may hold some."""

ITSELF = "gateway"
"""The ``by`` of retries that a gateway makes itself: they are among no calls that came in."""

SERVED = ("ok", "answered")
"""Statuses besides 2xx of calls that are through: of sources that say no more than that."""

CLIENT_LEFT = "left"
"""The reason under which a gateway counts queued calls whose client went away: they never reached the engine."""

AGENT_CALLS = 15.0
"""Calls that an agent makes for one request at most, as a rule (5 to 15): what stands in where no plan is given."""


# -- calls and their statuses -----------------------------------------------------------------------------------------
def by_status(c: Context) -> dict[str, float] | Reading:
    """Calls answered in the window by HTTP status, or why that cannot be said."""
    found = growth_by(c.good, CALLS, "status")
    if found is None:
        return missing(c, CALLS)
    total = sum(found.values())
    if total <= 0:
        return no_traffic("calls at the gateway")
    if total < LEAST_CALLS:
        return absent(GapKind.TOO_SHORT, f"only {total:.0f} calls at the gateway in the window", CALLS)
    return found


def refused_of(statuses: dict[str, float], connect_errors: float = 0.0) -> float:
    """Refused calls among these; a 503 because no connection could be made is none."""
    busy, full = (statuses.get(status, 0.0) for status in REFUSED)
    return busy + max(0.0, full - connect_errors)


def _untold(statuses: dict[str, float]) -> float:
    """Calls of which it is not told whether they were refused: their status is no code."""
    return sum(n for status, n in statuses.items() if not status.isdigit() and status not in EXACT)


def _if_any(c: Context, family: str, **match: str) -> float | Reading:
    """Growth of a counter; 0 where the source says that it has no such thing, and a gap where it should be there."""
    found = c.growth(family, **match)
    if found is not None:
        return found
    gap = c.gap(family)
    return 0.0 if gap.kind is GapKind.UNSUPPORTED or c.good.tracks(family) else Reading(None, gap=gap)


def _refused(c: Context) -> tuple[float, float] | Reading:
    """(refused calls, all calls): by status, or by what the gateway's queue gave up where that is more."""
    found = by_status(c)
    errors, dropped = _if_any(c, CONNECT_ERRORS), _if_any(c, DROPPED)
    left = _if_any(c, DROPPED, reason=CLIENT_LEFT)
    if isinstance(found, Reading):
        return found
    if isinstance(errors, Reading):
        return errors
    if isinstance(dropped, Reading) or isinstance(left, Reading):
        return missing(c, DROPPED)
    calls = sum(found.values())
    refused = min(calls, max(refused_of(found, errors), dropped - left))
    untold = _untold(found)
    if untold > refused:
        return absent(GapKind.UNSUPPORTED, f"{untold:.0f} calls without an exact status may have been refused", CALLS)
    return refused, calls


def refused_calls(c: Context) -> Reading:
    """Calls that the gateway or the engine refused (429, 503) or that the gateway's queue gave up, in the window."""
    found = _refused(c)
    return found if isinstance(found, Reading) else number(found[0])


def refused_call_ratio(c: Context) -> Reading:
    """Share of the calls that were refused (429, 503) or given up by the gateway's queue."""
    found = _refused(c)
    return found if isinstance(found, Reading) else number(found[0] / found[1])


def call_failure_ratio(c: Context) -> Reading:
    """Share of the calls that ended so that clients try again: 429, 5xx, or given up by their clients (499)."""
    return _ended(c, FAILED)


def lost_call_ratio(c: Context) -> Reading:
    """Share of the calls that were refused or that failed: 429, 5xx, errors of which a gateway says no more.

    Calls that clients gave up (499) are left out: those that complete code cancel most of theirs.
    """
    return _ended(c, LOST)


def _ended(c: Context, statuses: Collection[str]) -> Reading:
    """Share of the calls that ended with one of these, or with 5xx."""
    found = by_status(c)
    if isinstance(found, Reading):
        return found
    ended = sum(n for status, n in found.items() if status in statuses or status.startswith("5"))
    return number(ended / sum(found.values()))


def _own_retries(c: Context) -> float:
    """Retries that the gateway made itself, which no client sent: they are none of the calls that it answered."""
    return c.growth(RETRIES, by=ITSELF) or 0.0


def _less_retries(c: Context) -> tuple[float, float] | Reading:
    """(calls that are no retries, retries) in the window."""
    found, again = by_status(c), c.growth(RETRIES)
    if isinstance(found, Reading):
        return found
    if again is None:
        return missing(c, RETRIES)
    calls = sum(found.values()) + _own_retries(c)
    return max(0.0, calls - again), min(calls, again)


def retry_ratio(c: Context) -> Reading:
    """Share of the calls with which clients repeat a failed one. Offered load over what users asked for is 1 / (1 - this).

    What a gateway tries again by itself is bounded by its settings and says nothing of its clients.
    """
    found, again = by_status(c), c.growth(RETRIES)
    if isinstance(found, Reading):
        return found
    if again is None:
        return missing(c, RETRIES)
    if all(track.label("by") == ITSELF for track in c.good.tracks(RETRIES)):
        return absent(GapKind.UNSUPPORTED, "the gateway counts its own retries, not those of its clients", RETRIES)
    calls = sum(found.values())
    return number(min(calls, again - _own_retries(c)) / calls)


def first_calls_per_minute(c: Context) -> Reading:
    """Calls per minute that are no retries: what users asked for, and what a retry budget is a share of."""
    found = _less_retries(c)
    if isinstance(found, Reading):
        return found
    return (
        number(found[0] * 60.0 / c.good.seconds) if c.good.seconds > 0 else absent(GapKind.TOO_SHORT, "one page only")
    )


def breaker_open_ratio(c: Context) -> Reading:
    """Share of the pages on which the gateway's circuit breaker refuses calls."""
    found = line(c.good, "llm_gateway_breaker_open", peak=True)
    if found is None:
        return missing(c, "llm_gateway_breaker_open")
    return number(sum(v > 0 for v in found.values) / len(found.values))


def upstreams_down(c: Context) -> Reading:
    """Upstreams that the gateway held unfit for calls on at least half of the pages: their share of the load goes to others."""
    tracks = c.good.tracks(UP)
    if not tracks:
        return missing(c, UP)
    by: dict[str, list[float]] = {}
    for track in tracks:
        by.setdefault(track.label("upstream"), []).extend(track.values)
    down = sorted(name for name, values in by.items() if 2 * sum(v <= 0 for v in values) >= len(values))
    return number(float(len(down)), note=f"{len(down)} of {len(by)} upstreams: {', '.join(down)}" if down else "")


# -- what callers saw -------------------------------------------------------------------------------------------------
def _harm(h: Hist, c: Context, what: str) -> Reading:
    """The chance of so many definite breaches of the TTFT threshold if the objective were just met."""
    if h.total <= 0:
        return no_traffic(what)
    late = h.total - h.at_most(c.settings.slo.ttft_seconds)[1]
    return number(binomial_tail(math.floor(late), round(h.total), 1 - c.settings.slo.objective))


def call_ttft_harm_p(c: Context) -> Reading:
    """Chance of so many late first tokens, as the gateway saw them, if the objective were just met (binomial tail).

    It sees what the engine does not: the wait in the gateway's own queue. Where its traces told of every call, each class'
    exact count against its own promise.
    """
    h = c.hist(TTFT)
    found = missing(c, TTFT) if h is None else _harm(h, c, "first tokens at the gateway")
    return sharpened(c, found, "ttft", c.settings.slo.ttft_seconds, GATEWAY)


def users_harm_p(c: Context) -> Reading:
    """The smallest chance that an objective is still met, by what the engine measured or by what the gateway saw."""
    engine, exact = harm_p(c), requests.harm(c, GATEWAY, ("tpot", "e2e"))
    known = [r for r in (engine, call_ttft_harm_p(c), exact) if r is not None and r.value is not None]
    return min(known, key=lambda r: r.value or 0.0) if known else engine


def _of_size(c: Context, size: str) -> Hist | None:
    return hist(c.good, TTFT, lambda track: track.label("size") == size)


def _sizes_untold(c: Context) -> Reading | None:
    """Why sizes of prompts cannot be told apart where a gateway times first tokens; None where it does not, or tells them."""
    tracks = c.good.tracks(f"{TTFT}_bucket")
    if not tracks or any(track.label("size") for track in tracks):
        return None
    return absent(GapKind.UNSUPPORTED, "the gateway does not tell small prompts from large ones", TTFT)


def _traced_sizes(c: Context) -> str | Reading:
    """The vantage whose traces tell sizes of prompts, where the gateway's page does not; '' where none does, or a gap."""
    told = any(track.label("size") for track in c.good.tracks(f"{TTFT}_bucket"))
    return "" if told else requests.sizes_vantage(c)


def _no_sizes(c: Context) -> Reading:
    """What lacks sizes: the traces, where only they are there."""
    return missing(c, SPAN_TTFT if c.good.tracks(TOLD) and not c.good.tracks(CALLS) else TTFT)


def small_ttft_harm_p(c: Context) -> Reading:
    """Chance of so many late first tokens of calls with small prompts if the objective were just met (binomial tail).

    By the gateway's page; where that tells no sizes by traces, each request held to its own class' promise.
    """
    vantage = _traced_sizes(c)
    if isinstance(vantage, Reading):
        return vantage
    if vantage:
        return requests.small_harm(c, vantage)
    untold = _sizes_untold(c)
    if untold is not None:
        return untold
    h = _of_size(c, "small")
    return _no_sizes(c) if h is None else _harm(h, c, "first tokens of small prompts")


def large_call_ratio(c: Context) -> Reading:
    """Share of the calls whose prompts are large (from 1,024 tokens on), by the gateway's page, else by traces."""
    vantage = _traced_sizes(c)
    if isinstance(vantage, Reading):
        return vantage
    if vantage:
        return requests.large_ratio(c, vantage)
    untold = _sizes_untold(c)
    if untold is not None:
        return untold
    small, large = _of_size(c, "small"), _of_size(c, "large")
    if small is None or large is None:
        return _no_sizes(c)
    total = small.total + large.total
    return number(large.total / total) if total > 0 else no_traffic("first tokens at the gateway")


def large_token_ratio(c: Context) -> Reading:
    """Share of the prompt tokens of finished requests that large prompts (1,000 tokens and more) bring (estimate).

    The sum of all is known; small ones are taken to lie in the middle of their buckets.
    """
    h = c.hist(PROMPT)
    if h is None:
        return missing(c, PROMPT)
    if h.sum <= 0:
        return no_traffic("finished requests")
    edges = [edge for edge in h.edges if edge <= LARGE_PROMPT_TOKENS]
    rows = zip((0.0, *edges), edges, (0.0, *h.counts), h.counts, strict=False)
    small = sum((count - below) * (low + high) / 2 for low, high, below, count in rows)
    return number(max(0.0, 1.0 - small / h.sum), Standing.ESTIMATE)


# -- the gateway's queue ----------------------------------------------------------------------------------------------
def _waiting(c: Context) -> Line | None:
    return line(c.good, WAITING)


def calls_waiting_trend_z(c: Context) -> Reading:
    """Mann-Kendall z of the calls that wait in the gateway: above 3 their rise is no chance."""
    waiting = _waiting(c)
    return missing(c, WAITING) if waiting is None else number(mann_kendall_z(waiting.values))


def calls_waiting_growth_sigmas(c: Context) -> Reading:
    """Growth of the gateway's queue in units of the spread of a balanced queue, sqrt(arrivals)."""
    waiting, found = _waiting(c), by_status(c)
    if waiting is None:
        return missing(c, WAITING)
    if isinstance(found, Reading):
        return found
    grown = waiting.values[-1] - waiting.values[0]
    return number(grown / math.sqrt(max(1.0, sum(found.values()) + grown)))


def calls_wait_ahead_seconds(c: Context) -> Reading:
    """How long a call that arrives now will wait in the gateway: calls waiting / calls served per second (seconds)."""
    waiting, found = _waiting(c), by_status(c)
    if waiting is None:
        return missing(c, WAITING)
    if waiting.last <= 0:
        return number(0.0, Standing.ESTIMATE)
    if isinstance(found, Reading):
        return found
    served = sum(n for status, n in found.items() if status.startswith("2") or status in SERVED)
    if served <= 0 or c.good.seconds <= 0:
        return absent(GapKind.STALE, f"{waiting.last:.0f} calls wait and none was served", WAITING)
    return number(waiting.last * c.good.seconds / served, Standing.ESTIMATE)


# -- what is asked for ------------------------------------------------------------------------------------------------
def calls_per_user_request(c: Context) -> Reading:
    """Model calls for each request of a user, retries left out: all counted as they come in, so that no backlog matters."""
    for family in (CAME, RETRIES, USERS):
        if c.growth(family) is None:
            return missing(c, family)
    came, again, asked = (c.growth(family) or 0.0 for family in (CAME, RETRIES, USERS))
    again -= _own_retries(c)
    return number(max(0.0, came - again) / asked) if asked > 0 else no_traffic("requests of users")


def fan_out_excess(c: Context) -> Reading:
    """Model calls for each request of a user over what was planned.

    Where the gateway knows of no plan, over the most that an agent makes as a rule (15): an estimate, and a lenient one.
    """
    calls, plan = calls_per_user_request(c), planned_calls(c)
    if calls.value is None or plan.value is None:
        return calls if calls.value is None else plan
    return number(calls.value / plan.value, plan.standing, plan.note)


def planned_calls(c: Context) -> Reading:
    """Model calls that a request of a user was planned to make; an agent's most where the gateway knows of no plan."""
    plan = line(c.good, PLAN, peak=True)
    if plan is not None and plan.last > 0:
        return number(plan.last)
    told = c.gap(PLAN)
    if plan is None and (told.kind is GapKind.MISSING or not c.good.tracks(CALLS)):
        return Reading(None, gap=told)
    return number(AGENT_CALLS, Standing.ESTIMATE, "no plan is given: an agent's most stands in")


def session_calls_peak(c: Context) -> Reading:
    """Most calls that one session made in a minute, at any time of the window."""
    found = line(c.good, SESSION, peak=True)
    return missing(c, SESSION) if found is None else number(max(found.values))


def session_calls_excess(c: Context) -> Reading:
    """The busiest session's calls in a minute over those of the median session (counted as 1 where it made fewer)."""
    peak, median = line(c.good, SESSION, peak=True), line(c.good, "llm_gateway_session_calls_median", peak=True)
    if peak is None or median is None:
        return missing(c, SESSION if peak is None else "llm_gateway_session_calls_median")
    usual = dict(zip(median.times, median.values, strict=True))
    found = [high / max(1.0, usual[t]) for t, high in zip(peak.times, peak.values, strict=True) if t in usual]
    return number(max(found)) if found else no_traffic("page that shows sessions")


def session_call_limit(c: Context) -> Reading:
    """Calls a minute that leave a session five times what the median one makes, and never under 10."""
    median = line(c.good, "llm_gateway_session_calls_median", peak=True)
    if median is None:
        return missing(c, "llm_gateway_session_calls_median")
    return number(max(10.0, 5.0 * max(median.values)))


def session_call_ratio(c: Context) -> Reading:
    """Share of all calls that the busiest session makes: its calls in a minute over all calls per minute."""
    peak, found = session_calls_peak(c), by_status(c)
    if peak.value is None:
        return peak
    if isinstance(found, Reading):
        return found
    if c.good.seconds <= 0:
        return absent(GapKind.TOO_SHORT, "one page only")
    return number(min(1.0, peak.value * c.good.seconds / (SESSION_SECONDS * sum(found.values()))), Standing.ESTIMATE)


def session_repeats_peak(c: Context) -> Reading:
    """Most repeats of one tool with the same arguments by one session in a minute, at any time of the window."""
    found = line(c.good, "llm_gateway_session_repeats_peak", peak=True)
    return missing(c, "llm_gateway_session_repeats_peak") if found is None else number(max(found.values))


def uncached_repeat_ratio(c: Context) -> Reading:
    """Share of the calls that were asked before word for word and computed again: no cache answered them.

    Retries are left out of both: they repeat a call that got no answer.
    """
    found, repeats, hits = _less_retries(c), c.growth(REPEATS), c.growth(HITS)
    if isinstance(found, Reading):
        return found
    if repeats is None or hits is None:
        return missing(c, REPEATS if repeats is None else HITS)
    calls, retried = found[0], found[1] - _own_retries(c)
    if calls <= 0:
        return no_traffic("calls that are no retries")
    return number(min(1.0, max(0.0, repeats - hits - retried) / calls))


def response_cache_hit_ratio(c: Context) -> Reading:
    """Share of the word-for-word repeats that the response cache answered."""
    repeats, hits = c.growth(REPEATS), c.growth(HITS)
    if repeats is None or hits is None:
        return missing(c, REPEATS if repeats is None else HITS)
    return number(min(1.0, hits / repeats)) if repeats > 0 else no_traffic("repeated calls")


def shared_prefix_ratio(c: Context) -> Reading:
    """Share of the prompt tokens that lie in text which earlier prompts share: what a prefix cache could hit at best."""
    shared, tokens = c.growth("llm_gateway_shared_prefix_tokens_total"), c.growth("llm_gateway_prompt_tokens_total")
    if shared is None or tokens is None:
        return missing(
            c, "llm_gateway_shared_prefix_tokens_total" if shared is None else "llm_gateway_prompt_tokens_total"
        )
    return number(min(1.0, shared / tokens)) if tokens > 0 else no_traffic("prompts at the gateway")


# -- who leaves -------------------------------------------------------------------------------------------------------
def ghost_calls(c: Context) -> Reading:
    """Calls whose clients left and that the engine never stopped: disconnects at the gateway less the engine's aborts.

    Those that left while they queued in the gateway never reached the engine and are no ghosts.
    """
    left, queued = c.growth(LEFT), _if_any(c, DROPPED, reason=CLIENT_LEFT)
    if left is None:
        return missing(c, LEFT)
    if isinstance(queued, Reading):
        return queued
    if c.aborted is None:
        return missing(c, c.aborts_need)
    return number(max(0.0, left - queued - c.aborted), Standing.ESTIMATE, "off by a few at the edges of pages")


def ghost_call_ratio(c: Context) -> Reading:
    """Share of the calls whose clients left and that the engine never stopped."""
    ghosts, found = ghost_calls(c), by_status(c)
    if ghosts.value is None:
        return ghosts
    if isinstance(found, Reading):
        return found
    return number(min(1.0, ghosts.value / sum(found.values())), Standing.ESTIMATE)
