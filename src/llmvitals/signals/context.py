"""Everything that derived signals share about one window, measured once and remembered.

``good`` holds the pages that answered; ``live`` those since the last restart of the process, where absolute counters
can be compared with each other. Formulas and their failure modes: docs/accuracy.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from llmvitals.gaps import Gap, GapKind
from llmvitals.schema import BY_NAME
from llmvitals.series import Snapshot, Track, Window
from llmvitals.settings import Settings
from llmvitals.signals.joined import not_joined
from llmvitals.signals.measure import Hist, Line, growth, hist, line, total, totals
from llmvitals.signals.promised import promised
from llmvitals.signals.service import answers, server_of, servers

TTFT, RUNNING, FINISHED = "llm_request_ttft_seconds", "llm_requests_running", "llm_requests_finished_total"

_PROCESS = ("llm_process_start_time_seconds", "llm_process_cpu_seconds_total")

# a new process: its start time moves up (by the host's clock, whose boot time wanders by a second), its token counters fall
_RESTART_SIGNS: tuple[tuple[str, int, float], ...] = (
    ("llm_process_start_time_seconds", 1, 1.0),
    ("llm_host_process_start_time_seconds", 1, 3.0),
    ("llm_generation_tokens_total", -1, 1.0),
    ("llm_prompt_tokens_total", -1, 1.0),
)


P = ParamSpec("P")
R = TypeVar("R")


class Context:
    """One scope's window and settings, with the measures that several signals need."""

    def __init__(self, window: Window, settings: Settings) -> None:
        self.window = window
        self.settings = promised(window, settings)
        self.known: dict[Any, Any] = {}  # what :func:`once` has worked out

    # -- pages --------------------------------------------------------------------------------------------------
    @cached_property
    def pages_up(self) -> tuple[bool, ...]:
        """For each page of the window whether the target answered with a readable one."""
        return tuple(answers(s) for s in self.window.snapshots)

    @cached_property
    def good(self) -> Window:
        """The readable pages, over the span from the first to the last of them, less what is no possible number."""
        pages = self.window.snapshots
        usable = [_usable(s) for s, up in zip(pages, self.pages_up, strict=True) if up]
        most = self.processes[0] if len(self.processes) > 1 else None
        kept = list(_in_order(s for s in usable if most is None or _began(s) == most))
        whole = len(kept) == len(pages) and all(mine is s for mine, s in zip(kept, pages, strict=True))
        if kept and whole and (kept[0].t, kept[-1].t) == (self.window.start, self.window.end):
            return self.window  # indexing is most of the cost of a verdict: do it once
        return Window.of(kept)

    @cached_property
    def processes(self) -> tuple[float, ...]:
        """Start times of the processes that take turns in answering, the one seen most first; empty when none returns.

        A restart moves the start time up, once. One that goes back belongs to another process behind the same address,
        and pages of several make no window: only those of the one seen most are read.
        """
        pages = zip(self.window.snapshots, self.pages_up, strict=True)
        starts = [began for s, up in pages if up and (began := _began(s)) is not None]
        if self.servers or not any(now < before - 1.0 for before, now in pairwise(starts)):
            return ()  # of a service, each server was held against this before they were put together
        return tuple(began for began, _ in Counter(starts).most_common())

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """The servers of a service; none where the window is about one server."""
        return servers(self.window)

    @cached_property
    def prefilling(self) -> frozenset[str]:
        """The servers of a service that only prefill; none where the window is about one server."""
        told = self.good.tracks("llm_engine_role", {"role": "prefill"}) if self.servers else ()
        return frozenset(server_of(track.label("rank"), self.servers) for track in told)

    @cached_property
    def restarted(self) -> tuple[tuple[float, str], ...]:
        """Moments at which a process was found to be a new one: its start time moved up; and whose ('' of one server).

        Only where the page shows no start time does the host's stand in for it, and falling token counters for both.
        """
        found: set[tuple[float, str]] = set()
        for server in self.servers or ("",):
            for name, sign, least in _RESTART_SIGNS:
                track = total(tuple(t for t in self.of(server, name) if t.label("process", "api") == "api"))
                if track is not None:
                    pairs = zip(track.times[1:], track.values, track.values[1:], strict=False)
                    found.update((t, server) for t, before, now in pairs if sign * (now - before) > least)
                    if sign > 0:
                        break
        return tuple(sorted(found))

    def of(self, server: str, name: str) -> tuple[Track, ...]:
        """The series of a name that are one server's, on the readable pages; all of them where there is one server."""
        found = self.good.tracks(name)
        return tuple(t for t in found if server_of(t.label("rank"), self.servers) == server) if self.servers else found

    @cached_property
    def restarts(self) -> tuple[float, ...]:
        """Moments at which a process was found to be a new one (see :attr:`restarted`)."""
        return tuple(dict.fromkeys(moment for moment, _ in self.restarted))

    @cached_property
    def live(self) -> Window:
        """The readable pages since the last restart."""
        if not self.restarts:
            return self.good
        return Window.of(s for s in self.good.snapshots if s.t >= self.restarts[-1])

    @cached_property
    def _told(self) -> dict[str, list[Track]]:
        """The gaps that pages speak of, by family, or by the part of one that is not there by nature."""
        found: dict[str, list[Track]] = {}
        for track in self.window.tracks("llm_family_gap"):
            found.setdefault(track.label("family"), []).append(track)
        return found

    # -- lookups --------------------------------------------------------------------------------------------------
    def gap(self, family: str) -> Gap:
        """Why a family is absent: what the source said of it, that its kind of telemetry is not joined, or MISSING."""
        said = self._said(family)
        if said is not None:
            return said
        apart = not_joined(self.good, family)
        if apart is not None:
            return apart
        help_text = BY_NAME[family].help if family in BY_NAME else ""
        return Gap(GapKind.MISSING, f"the page has no {family}: {help_text}".rstrip(": "), family)

    def _said(self, family: str) -> Gap | None:
        """What the source itself says of a family's absence, where it still does."""
        for track in (track for name in (family, f"{family}_bucket") for track in self._told.get(name, ())):
            if self.good.snapshots and track.times[-1] < self.good.end:
                continue  # it has been shown since
            told = track.label("gap")
            kind = GapKind(told) if told in set(GapKind) else GapKind.MISSING
            return Gap(kind, track.label("reason", "not offered"), family)
        return None

    def unusable(self, *families: str) -> str | None:
        """The first of these families that the newest page shows with a number that is none: NaN, negative, no number."""
        for family in families:
            said = self._said(family)
            if said is not None and said.kind is GapKind.MISSING:
                return family
        return None

    def hist(self, family: str) -> Hist | None:
        """The window's observations of a histogram family, measured once."""
        if family not in self._hists:
            self._hists[family] = hist(self.good, family)
        return self._hists[family]

    @cached_property
    def _hists(self) -> dict[str, Hist | None]:
        return {}

    def totals(self, family: str) -> Hist | None:
        """Number and sum of what a family observed in the window: for means, where buckets are not needed."""
        return self.hist(family) or totals(self.good, family)

    def cannot(self, family: str) -> bool:
        """Whether the engine never shows a family, by its own word."""
        shown = any(self.good.tracks(f"{family}{part}") for part in ("", "_count", "_sum"))
        return not shown and self.gap(family).kind is GapKind.UNSUPPORTED

    def growth(self, name: str, **match: str) -> float | None:
        """Growth of a counter over the readable pages; None when absent."""
        return growth(self.good, name, match)

    def gauge(self, name: str, *, peak: bool = False) -> Line | None:
        """A gauge page by page since the last restart, 0 where the page lacks it but counts tokens.

        vLLM with several API processes shows its gauges only from the first engine step on.
        """
        found = line(self.live, name, peak=peak)
        if found is None:
            return None
        times = (self.clock or line(self.live, RUNNING) or found).times
        have = dict(zip(found.times, found.values, strict=True))
        return Line(times, tuple(have.get(t, 0.0) for t in times))

    @cached_property
    def clock(self) -> Line | None:
        """First tokens so far, by page. Of an engine that counts them when requests end, or never, those that have
        begun: finished and running ones.
        """
        counted = line(self.live, f"{TTFT}_count")
        if counted is not None and not self._first_at_end:
            return counted
        running = line(self.live, RUNNING)
        if running is None or (counted is None and (not self.cannot(TTFT) or self.cannot(FINISHED))):
            return counted
        ended = _standing(line(self.live, FINISHED), running.times)
        return Line(running.times, tuple(map(sum, zip(running.values, ended, strict=True))))

    @cached_property
    def _first_at_end(self) -> bool:
        return any(track.values[-1] > 0 for track in self.live.tracks("llm_target_first_token_at_end"))

    @cached_property
    def at_end(self) -> bool:
        """Whether nothing on the page moves while a request runs: all of it counts at its end, and no step is counted."""
        late = self._first_at_end or (self.times is not None and self.cannot(TTFT))
        return late and not self.live.tracks("llm_iteration_tokens_count")

    @cached_property
    def times(self) -> tuple[float, ...] | None:
        """The moments of the pages that count: those of :attr:`clock`, or of an engine without one those with requests."""
        if self.clock is not None:
            return self.clock.times
        running = line(self.live, RUNNING)
        return running.times if running is not None and self.cannot(TTFT) else None

    def counter(self, name: str) -> Line | None:
        """A counter as it stands, on the pages of :attr:`times`, 0 before it was born."""
        times, found = self.times, line(self.live, name)
        return None if times is None or found is None else Line(times, _standing(found, times))

    @cached_property
    def answers(self) -> tuple[float, ...]:
        """How long the target took to answer with each readable page (seconds); empty where that is not known.

        Of a service, those of the server that took longest in all: a user meets one of them.
        """
        by_server = (
            tuple(v for track in self.of(server, "llm_target_answer_seconds") for v in track.values)
            for server in self.servers or ("",)
        )
        return max(by_server, key=sum)

    # -- the counts that everything rests on ------------------------------------------------------------------------
    @cached_property
    def first_tokens(self) -> float:
        """First tokens in the window."""
        return self.growth("llm_request_ttft_seconds_count") or 0.0

    @cached_property
    def finished(self) -> float:
        """Finished sequences in the window, all reasons; 0 where the page does not count them (see :meth:`lost`)."""
        return self.growth("llm_requests_finished_total") or 0.0

    def lost(self, *families: str) -> str | None:
        """The first of these families that should be on the page and is not: what stands on it is unknown, not 0."""
        have = self.good.names()
        for family in families:
            absent = family not in have and f"{family}_count" not in have
            if absent and self.gap(family).kind is GapKind.MISSING:
                return family
        return None

    @cached_property
    def http_seen(self) -> bool:
        """Whether HTTP answers can be told: vLLM shows their series only once a first answer has ended."""
        if self.good.tracks("llm_http_requests_total"):
            return True
        ended = self.counter("llm_requests_finished_total")
        return ended is not None and ended.last == 0

    @cached_property
    def running(self) -> Line | None:
        """Running requests by page."""
        return self.gauge("llm_requests_running")

    @cached_property
    def waiting(self) -> Line | None:
        """Waiting requests by page."""
        return self.gauge("llm_requests_waiting")

    @cached_property
    def preemptions(self) -> float | None:
        """Preemptions in the window."""
        return self.growth("llm_preemptions_total")

    @cached_property
    def given_up(self) -> Line | None:
        """Requests given up so far, by page, where the engine counts them itself. Which of them it also counts as
        finished is not known: those that ran are, those that waited are not (SGLang).
        """
        return self.counter("llm_requests_aborted_total")

    @cached_property
    def aborts(self) -> Line | None:
        """Requests that clients gave up on, so far, by page: as the engine counts them, or, where it does not (vLLM),
        those answered 2xx that are neither finished nor rejected.

        What moves no counter of the engine, the HTTP layer counts when its answer ends. None where one of the three is
        missing. Off by a few at a page's edge, since the two layers are not read atomically.
        """
        if self.given_up is not None:
            return self.given_up
        clock = self.clock
        ok = line(self.live, "llm_http_requests_total", {"status": "2xx"})
        parents = self.counter("llm_request_n_param_count")
        if clock is None or parents is None:
            return None
        if not self.live.tracks("llm_http_requests_total"):
            return Line(clock.times, (0.0,) * len(clock.times)) if self.http_seen else None
        have = dict(zip(ok.times, ok.values, strict=True)) if ok else {}
        rejected = self.counter("llm_requests_rejected_total")
        refused = line(self.live, "llm_http_requests_total", {"status": "5xx"})
        refusals = dict(zip(refused.times, refused.values, strict=True)) if refused else {}
        out = []
        for i, t in enumerate(clock.times):
            after_200 = max(0.0, (rejected.values[i] if rejected else 0.0) - refusals.get(t, 0.0))
            out.append(max(0.0, have.get(t, 0.0) - parents.values[i] - after_200))
        return Line(clock.times, tuple(out))

    @cached_property
    def aborts_need(self) -> str:
        """The family for want of which nobody can say how many requests were given up (where :attr:`aborts` is None)."""
        parents, answers = "llm_request_n_param", "llm_http_requests_total"
        told = self.good.tracks(answers) and self.cannot(parents)
        return parents if told or self.lost(parents) else answers

    @cached_property
    def aborted(self) -> float | None:
        """Requests given up in the window; None when the page cannot tell."""
        if self.aborts is None or not self.aborts.values:
            return None
        return max(0.0, self.aborts.values[-1] - self.aborts.values[0])


def once(ask: Callable[P, R]) -> Callable[P, R]:
    """For what several signals ask of one window (the first argument, a :class:`Context`): worked out once for the same arguments,
    which can be hashed.
    """

    @wraps(ask)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        c, *more = args
        known: dict[Any, R] = c.known  # type: ignore[attr-defined]  # a context, as said above
        key = (ask, *more, *kwargs.items())
        if key not in known:
            known[key] = ask(*args, **kwargs)
        return known[key]

    return asked


def _standing(counter: Line | None, times: tuple[float, ...]) -> tuple[float, ...]:
    """A counter at these moments: its newest value, 0 before it was born."""
    have = dict(zip(counter.times, counter.values, strict=True)) if counter else {}
    out, newest = [], 0.0
    for t in times:
        newest = have.get(t, newest)
        out.append(newest)
    return tuple(out)


def _usable(snapshot: Snapshot) -> Snapshot:
    """Every canonical number is finite and not negative: what is neither was not measured."""
    if all(0.0 <= v < math.inf for v in snapshot.samples.values()):
        return snapshot
    return replace(snapshot, samples={k: v for k, v in snapshot.samples.items() if 0.0 <= v < math.inf})


def _began(snapshot: Snapshot) -> float | None:
    """When the process that answered had started (unix seconds); None where the page does not say."""
    return next((v for k, v in snapshot.samples.items() if k.name == _PROCESS[0]), None)


def _in_order(snapshots: Iterable[Snapshot]) -> Iterator[Snapshot]:
    """Leave out pages whose moment lies: a process' CPU time never falls, so one that fell was told by a stepped clock."""
    process: float | None = None
    used = 0.0
    for snapshot in snapshots:
        own = {k.name: v for k, v in snapshot.samples.items() if k.name in _PROCESS}
        began, spent = own.get(_PROCESS[0]), own.get(_PROCESS[1])
        if began is not None and spent is not None:
            if began == process and spent < used:
                continue
            process, used = began, spent
        yield snapshot
