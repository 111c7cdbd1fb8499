"""Whether the target serves at all, and whether its numbers can be trusted: dead, frozen, restarted, just started."""

from __future__ import annotations

from statistics import median_low

from llmvitals.gaps import GapKind
from llmvitals.series import Snapshot, Window
from llmvitals.signals.context import Context
from llmvitals.signals.derived import probe
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.derived.user import TTFT
from llmvitals.signals.measure import growth, hist, line
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.service import server_of

HTTP = "llm_http_requests_total"
FINISHED = "llm_requests_finished_total"
INSIDE = ("llm_requests_running", "llm_requests_waiting")
FDS = "llm_process_open_fds"
STARTED: tuple[tuple[str, dict[str, str]], ...] = (
    ("llm_process_start_time_seconds", {}),
    ("llm_host_process_start_time_seconds", {"process": "api"}),
    ("llm_host_started_time_seconds", {}),
)
"""Who says when the API process started, the surest first."""

_OUTSIDE_ENGINE = ("llm_process_", "llm_target_", "llm_http_", "llm_family_", "llm_gpu_", "llm_host_", "llm_gateway_")


def pages(c: Context) -> Reading:
    """Readable pages in the window."""
    return number(float(len(c.good.snapshots)))


def window_seconds(c: Context) -> Reading:
    """Time between the first and the last readable page (seconds)."""
    return number(c.good.seconds)


def dead_tail_pages(c: Context) -> Reading:
    """Failed scrapes at the window's end after readable ones; 0 when no page was ever readable (that proves nothing)."""
    if not any(c.pages_up):
        return absent(GapKind.MISSING, "no page of the window could be read", "llm_target_up")
    count = 0
    for up in reversed(c.pages_up):
        if up:
            break
        count += 1
    return number(float(count))


def failed_scrape_ratio(c: Context) -> Reading:
    """Share of scrapes that gave no readable page."""
    if not c.pages_up:
        return absent(GapKind.TOO_SHORT, "no scrape")
    return number(sum(not up for up in c.pages_up) / len(c.pages_up))


def _engine_view(snapshot: Snapshot) -> dict[object, float]:
    return {k: v for k, v in snapshot.samples.items() if not k.name.startswith(_OUTSIDE_ENGINE)}


def _frozen_runs(window: Window) -> list[tuple[int, int]]:
    """(first, last) page of each run over which no engine series moved."""
    views = [_engine_view(s) for s in window.snapshots]
    runs, begin = [], 0
    for i in range(1, len(views) + 1):
        if i == len(views) or views[i] != views[i - 1]:
            if i - 1 > begin:
                runs.append((begin, i - 1))
            begin = i
    return runs


def stalled_seconds(c: Context) -> Reading:
    """How long nothing has moved on the page although work is there, up to the newest one (seconds); a stall that has
    passed is none.

    Work: running or waiting requests, or open file descriptors of the API process that climb (connections pile up)
    while the engine shows nothing and no answer ends. An idle engine's page is frozen too, and counts as 0; where the
    page does not show whether work was there, a page that never moves says nothing. An engine that writes its gauges now
    and then shows running requests for a while after the last has ended: only what outlasts that is a stall.
    """
    shots = c.live.snapshots
    if len(shots) < 2:
        return absent(GapKind.TOO_SHORT, "one page only")
    if c.clock is None and not c.live.tracks("llm_generation_tokens_total"):
        return missing(c, TTFT)  # gauges alone stand still while the same number runs
    inside = dict.fromkeys((s.t for s in shots), 0.0)
    for name in INSIDE:
        found = line(c.live, name)
        if found:
            inside.update({t: inside.get(t, 0.0) + v for t, v in zip(found.times, found.values, strict=True)})
    fds = line(c.live, FDS)
    open_at = dict(zip(fds.times, fds.values, strict=True)) if fds else {}
    http = line(c.live, "llm_http_requests_total")
    answered = dict(zip(http.times, http.values, strict=True)) if http else {}
    longest, idle, frozen = 0.0, 0.0, _frozen_runs(c.live)
    if c.at_end and frozen and frozen[-1][1] == len(shots) - 1 and inside[shots[-1].t] > 0:
        why = "requests and their tokens count when they end, so that a long answer looks like a stall"
        return absent(GapKind.UNSUPPORTED, why, "llm_iteration_tokens")
    ages = [track.values[-1] for track in c.live.tracks("llm_target_report_age_seconds")]
    old = max(ages, default=0.0)
    for first, last in frozen:
        busy = inside[shots[first].t] > 0 and shots[last].t - shots[first].t > old
        climb = open_at.get(shots[last].t, 0.0) - open_at.get(shots[first].t, 0.0)
        answers = answered.get(shots[last].t, 0.0) - answered.get(shots[first].t, 0.0)
        if last == len(shots) - 1 and (busy or (climb >= max(5, last - first) and answers <= 0)):
            longest = max(longest, shots[last].t - shots[first].t)
        else:
            idle = max(idle, shots[last].t - shots[first].t)
    unseen = next((name for name in (*INSIDE, FDS) if not c.live.tracks(name)), None)
    if unseen and idle > longest and (unseen != FDS or frozen == [(0, len(shots) - 1)]):
        return missing(c, unseen)
    return number(longest)


def restarts(c: Context) -> Reading:
    """How often the process was found to be a new one (start time moved or counters fell)."""
    return number(float(len(c.restarted)))


def lost_by_restarts(c: Context) -> Reading:
    """Requests that were inside on the last page before each restart: their streams were cut. More may have come since."""
    if not c.good.snapshots:
        return absent(GapKind.MISSING, "no readable page", "llm_target_up")
    unseen = c.lost(*INSIDE) if c.restarts else None
    if unseen:
        return missing(c, unseen)
    lost = 0.0
    for moment, server in c.restarted:
        before = [s for s in c.good.snapshots if s.t < moment]
        if before:
            inside = ((k, v) for k, v in before[-1].samples.items() if k.name in INSIDE)
            lost += sum(v for k, v in inside if server_of(k.label("rank"), c.servers) == server)
    return number(lost, Standing.LOWER)


def processes_behind(c: Context) -> Reading:
    """Servers that take turns in answering at this address, at least: their start times go back and forth."""
    if not any(c.pages_up):
        return absent(GapKind.MISSING, "no page of the window could be read", "llm_target_up")
    return number(float(max(1, len(c.processes))), Standing.LOWER)


def uptime_seconds(c: Context) -> Reading:
    """Age of the API process at the first page of the window that is its own (seconds); of a service, its servers' median:
    one that has just started explains little of what all of them show. Where the page does not say when the process
    started, the host does, or the cluster for its container.
    """
    starts = next((found for name, match in STARTED if (found := _newest(c, name, match))), [])
    if not starts:
        return missing(c, STARTED[0][0])
    began = median_low(starts) if c.servers else max(starts)
    return number(max(0.0, c.live.start - began))


def _newest(c: Context, name: str, match: dict[str, str]) -> list[float]:
    return [t.values[-1] for t in c.live.tracks(name, match)]


def late_ttft_breaches(c: Context) -> Reading:
    """Definite TTFT breaches among first tokens of the last third of the window; absent with fewer than 5 of them."""
    late = c.good.slice(c.good.end - c.good.seconds / 3, c.good.end)
    h = hist(late, TTFT)
    if h is None:
        return missing(c, TTFT)
    if h.total < 5:
        return no_traffic("five first tokens in the last third")
    return number(h.total - h.at_most(c.settings.slo.ttft_seconds)[1])


def activity(c: Context) -> Reading:
    """First tokens, finished requests and generated tokens of the window plus requests inside at its end: 0 = no
    traffic. Probes stand in where the page can show none of it.
    """
    silent = any(c.gap(family).kind is GapKind.NO_TRAFFIC for family in (TTFT, INSIDE[0], FINISHED))
    if c.times is None and (c.lost(TTFT) or not silent):
        return (probe.answered(c) if c.cannot(TTFT) else None) or missing(c, TTFT)
    inside = sum(x.last for x in (c.running, c.waiting) if x is not None)
    seen = c.first_tokens + c.finished + (c.growth("llm_generation_tokens_total") or 0.0) + inside
    unknown = c.unusable(*INSIDE) if seen == 0 else None  # a server that hangs shows nothing else than who is inside
    return missing(c, unknown) if unknown else number(seen)


def silent_failures(c: Context) -> Reading:
    """5xx answers in the window when no first token came at all; 0 otherwise."""
    if c.clock is None:
        return missing(c, TTFT)
    if c.first_tokens > 0:
        return number(0.0)
    if not c.http_seen:
        return missing(c, HTTP)
    return number(_answers(c, "5xx"))


def contradiction(c: Context) -> Reading:
    """Answered requests that the engine's own counters know nothing of: 2xx moved, no first token, nothing finished."""
    busy = any(x is not None and max(x.values, default=0.0) > 0 for x in (c.running, c.waiting))
    if busy or c.first_tokens > 0 or c.finished > 0:
        return number(0.0)
    unseen = c.lost(TTFT, FINISHED) or ("" if c.http_seen else HTTP)
    return missing(c, unseen) if unseen else number(_answers(c, "2xx"))


def _answers(c: Context, status: str) -> float:
    """HTTP answers while the page showed this model: they carry no model of their own."""
    if c.clock is None:
        return 0.0
    return growth(c.live.slice(c.clock.times[0], c.clock.times[-1]), HTTP, {"status": status}) or 0.0


def core_families_missing(c: Context) -> Reading:
    """How many of the families that a page needs are absent from a readable one without a reason."""
    if not c.good.snapshots:
        return absent(GapKind.MISSING, "no readable page", "llm_target_up")
    core = (TTFT, "llm_generation_tokens_total", FINISHED)
    return number(float(sum(c.lost(family) is not None for family in core)))
