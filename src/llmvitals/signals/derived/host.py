"""What only the host and the proxy in front show: descriptors, ports, connections, CPU by thread, what ended a container."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from llmvitals.gaps import GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.derived.apart import by_label, grown, silent, total, tracks
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.measure import track_growth
from llmvitals.signals.reading import Reading, Standing

FDS: tuple[tuple[str, str, str], ...] = (
    ("llm_process_open_fds", "llm_process_max_fds", "rank"),
    ("llm_host_open_fds", "llm_host_max_fds", "process"),
)
"""Descriptors in use, their limit, and the label that tells processes apart."""
PORTS, PORTS_USED = "llm_host_ephemeral_ports", "llm_host_ephemeral_ports_used"
SOCKETS = "llm_host_sockets"
CONNECTIONS, CONNECTION_LIMIT = "llm_gateway_connections", "llm_gateway_connection_limit"
CALLS = "llm_gateway_requests_total"
REFUSED, CUT = "llm_gateway_connect_errors_total", "llm_gateway_streams_cut_total"
RESTARTS = "llm_host_restarts_total"
THREAD, CPU, CPU_LIMIT = (f"llm_host_{x}_cores" for x in ("busiest_thread", "cpu", "cpu_limit"))
THROTTLED = "llm_host_cpu_throttled_seconds_total"
MEMORY, MEMORY_LIMIT, RESIDENT = (f"llm_host_{x}_bytes" for x in ("memory", "memory_limit", "resident"))
READY, WHERE = "llm_host_ready", "llm_host_info"
STARTED, READY_SINCE = "llm_host_started_time_seconds", "llm_host_ready_time_seconds"
API = "api"

CRASHES = ("oom", "error")
PLANNED = ("probe", "rollout")


def _fullest(pairs: Iterable[tuple[dict[float, float], dict[float, float]]]) -> float | None:
    """The highest share of a limit on any page; None where no page shows both."""
    shares = [v / limit[t] for used, limit in pairs for t, v in used.items() if limit.get(t, 0.0) > 0.0]
    return max(shares, default=None)


def _not_shown(what: str, family: str) -> Reading:
    """Few sources show a resource beside its limit (several API servers show neither): no verdict waits for it."""
    return absent(GapKind.UNSUPPORTED, f"nothing shows {what}", family)


def fd_usage_ratio(c: Context) -> Reading:
    """Highest share of its file descriptors that a process of the engine had open on any page."""
    pairs = []
    for used, limit, label in FDS:
        limits = by_label(c, limit, label)
        pairs += [(pages, limits.get(process, {})) for process, pages in by_label(c, used, label).items()]
    found = _fullest(pairs)
    if found is None:
        return _not_shown("descriptors and their limit", FDS[0][0] if c.window.tracks(FDS[0][1]) else FDS[0][1])
    return number(found)


def port_usage_ratio(c: Context) -> Reading:
    """Highest share of the host's ephemeral ports in use on any page; where only sockets are shown, those in TIME_WAIT."""
    ports = total(c, PORTS)
    used = total(c, PORTS_USED)
    held = used or total(c, SOCKETS, state="time_wait")
    found = _fullest([(held, ports)])
    if found is None:
        family = SOCKETS if ports else PORTS
        return _not_shown("the host's ephemeral ports and how many are in use", family)
    return number(min(1.0, found), Standing.EXACT if used else Standing.LOWER)


def close_wait_ratio(c: Context) -> Reading:
    """Share of the open descriptors that are sockets whose other end has gone and which nobody closes (CLOSE_WAIT), on the
    page where it is least of the last third: what a leak keeps, and no moment's burst.
    """
    held = total(c, SOCKETS, state="close_wait")
    opened = _most_open(c)
    late = c.window.end - c.window.seconds / 3
    shares = [min(1.0, n / opened[t]) for t, n in held.items() if t >= late and opened.get(t, 0.0) > 0.0]
    if not shares:
        return silent(c, SOCKETS)
    return number(min(shares), Standing.ESTIMATE)


def _most_open(c: Context) -> dict[float, float]:
    """Descriptors of the process that has most open, by page."""
    found: dict[float, float] = {}
    for used, _, label in FDS:
        for pages in by_label(c, used, label).values():
            for t, v in pages.items():
                found[t] = max(v, found.get(t, 0.0))
    return found


def host_memory_ratio(c: Context) -> Reading:
    """Highest share of the memory limit of the engine's container in use on any page, page cache left out; where only its
    processes' resident memory is shown, that (at least). A container without a limit has no such share.
    """
    limit, used = total(c, MEMORY_LIMIT), total(c, MEMORY)
    held = used or total(c, RESIDENT)
    found = _fullest([(held, limit)])
    if found is None:
        return silent(c, MEMORY_LIMIT if held else MEMORY)
    return number(found, Standing.EXACT if used else Standing.LOWER)


def time_to_ready_seconds(c: Context) -> Reading:
    """How long the engine's container took from its start until its pod was ready (seconds), at its newest start."""
    started, ready = total(c, STARTED), total(c, READY_SINCE)
    pairs = [(t, ready[t] - began) for t, began in started.items() if t in ready and ready[t] >= began]
    if not pairs:
        return silent(c, READY_SINCE if started else STARTED)
    return number(max(pairs)[1])


def not_ready_ratio(c: Context) -> Reading:
    """Share of the pages on which the engine's pod is not ready although its own page answers: a probe or a rollout keeps
    traffic from a server that serves. Pages of a container that has only just started are left out. Outside a pod there is
    nothing that could be unready.
    """
    ready, started = total(c, READY), total(c, STARTED)
    if not ready:
        places = c.window.tracks(WHERE)
        outside = bool(places) and not any(place.label("pod") for place in places)
        return no_traffic("pod that it runs in") if outside else silent(c, READY)
    answered = {s.t for s, up in zip(c.window.snapshots, c.pages_up, strict=True) if up}
    young = c.settings.thresholds.cold_start_seconds
    seen = [v for t, v in ready.items() if t in answered and t - started.get(t, 0.0) > young]
    if not seen:
        return no_traffic("page of a server that had started")
    if len(seen) < c.settings.thresholds.min_pages:
        return absent(GapKind.TOO_SHORT, f"only {len(seen)} pages of a server that had started", READY)
    return number(sum(v <= 0 for v in seen) / len(seen))


def gateway_connection_ratio(c: Context) -> Reading:
    """Highest share of its connections that a gateway had open on any page."""
    limits = by_label(c, CONNECTION_LIMIT, "gateway")
    found = _fullest((pages, limits.get(name, {})) for name, pages in by_label(c, CONNECTIONS, "gateway").items())
    if found is None:
        family = CONNECTION_LIMIT if c.window.tracks(CONNECTIONS) else CONNECTIONS
        return _not_shown("a gateway's connections and their limit", family)
    return number(found)


def connect_errors(c: Context) -> Reading:
    """Connections to the engine that the gateway could not make in the window."""
    found = grown(c, REFUSED)
    return _silent(c, REFUSED) if found is None else number(found)


def connect_error_ratio(c: Context) -> Reading:
    """Connections that could not be made over the calls that the gateway answered."""
    return _of_calls(c, REFUSED)


def streams_cut(c: Context) -> Reading:
    """Streams that the proxy itself ended in the window."""
    found = grown(c, CUT)
    return _silent(c, CUT) if found is None else number(found)


def streams_cut_ratio(c: Context) -> Reading:
    """Streams that the proxy itself ended over the calls that it answered."""
    return _of_calls(c, CUT)


def _silent(c: Context, name: str) -> Reading:
    """Why a gateway counts no such event. Many count none, and a count by reason is born with its first event; only where
    the engine saw streams end early does one that proxies cut have to be told from one whose client left.
    """
    return missing(c, name) if name == CUT and (c.aborted or 0.0) >= 1 else silent(c, name)


def _of_calls(c: Context, name: str) -> Reading:
    found, calls = grown(c, name), grown(c, CALLS)
    if found is None:
        return _silent(c, name)
    if calls is None:
        return missing(c, CALLS)
    return number(found / max(found, calls)) if found + calls > 0 else no_traffic("call at the gateway")


def api_cpu_full_ratio(c: Context) -> Reading:
    """How much of the CPU that it can use the API process used, mean of the pages: its busiest thread over one core (it
    hands tokens out one thing at a time), or all of it over its limit, whichever is more. Its limit alone says it only
    where that is no more than one core.
    """
    thread = by_label(c, THREAD, "process").get(API, {})
    used, limit = (by_label(c, name, "process").get(API, {}) for name in (CPU, CPU_LIMIT))
    whole = {t: v / limit[t] for t, v in used.items() if limit.get(t, 0.0) > 0.0 and (t in thread or limit[t] <= 1.0)}
    shares = [max(thread.get(t, 0.0), whole.get(t, 0.0)) for t in thread.keys() | whole.keys()]
    return number(min(1.0, fmean(shares))) if shares else missing(c, THREAD)


def api_throttled_ratio(c: Context) -> Reading:
    """Share of the time in which its CPU quota held the API process back."""
    found = [t for t in tracks(c, THROTTLED, process=API) if len(t.times) > 1]
    if not found:
        return missing(c, THROTTLED)
    return number(min(1.0, max(track_growth(t, born_after=None) / (t.times[-1] - t.times[0]) for t in found)))


def oom_restarts(c: Context) -> Reading:
    """Restarts of the engine's container for want of memory."""
    return _restarts(c, ("oom",))


def device_oom_restarts(c: Context) -> Reading:
    """Restarts of the engine's container for want of memory while the host's was not short: none where the container came
    near its own limit (0.9 of it by default), which is what the kernel ends it for.
    """
    found, host = oom_restarts(c), host_memory_ratio(c)
    if not found.value or host.value is None or host.value < c.settings.thresholds.resource_limit:
        return found
    return number(0.0, note=f"the container was at {host.value:.0%} of its memory limit")


def planned_restarts(c: Context) -> Reading:
    """Restarts of the engine's container by a probe or a rollout."""
    return _restarts(c, PLANNED)


def restarts_not_crashed(c: Context) -> Reading:
    """Restarts of the process, less those that the host puts down to a crash; all of them where the host says nothing."""
    if not any(c.pages_up):
        return absent(GapKind.MISSING, "no page of the window could be read", "llm_target_up")
    seen = float(len(c.restarts))
    crashed = _restarts(c, CRASHES)
    if crashed.gap is not None and crashed.gap.kind is GapKind.MISSING:
        return crashed
    note = "" if crashed.known else "what ended it is not shown"
    return number(max(0.0, seen - (crashed.value or 0.0)), note=note)


def _restarts(c: Context, reasons: tuple[str, ...]) -> Reading:
    if grown(c, RESTARTS) is None:
        told = missing(c, RESTARTS)
        # a count by reason is born with its first restart: without one there is nothing to count
        none_yet = told.gap is not None and told.gap.kind is GapKind.MISSING and not c.restarts
        return no_traffic("restart") if none_yet else told
    return number(sum(grown(c, RESTARTS, reason=reason) or 0.0 for reason in reasons))
