"""Requests told one by one: how many met what their class was promised, which class fares worst, and who is hurt for sure.

Traces hold every threshold exactly, so that nothing here lies between bucket edges; what limits them is whether every request
was told. That is held against the page's own counts, and said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmvitals.gaps import GapKind
from llmvitals.settings import UNKNOWN_CLASS
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import STALL_SHARE, absent, longest_answer, missing, no_traffic, number
from llmvitals.signals.measure import Hist, binomial_tail, growth_by, hist, line
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.told import (
    ENDED,
    ENGINE,
    GATEWAY,
    MISSED,
    OBJECTIVES,
    REQUESTS,
    TTFT,
    VANTAGES,
    Told,
    told,
)

FINISHED = "llm_requests_finished_total"
CALLS = "llm_gateway_requests_total"
LAST_END = "llm_span_last_end_seconds"

COVERED = 0.98
"""Share of the requests from which on traces are taken for all of them: senders hold theirs for some seconds."""

MORE = 1.1
"""A gateway's calls over one engine's requests from which on other engines must stand behind it, too."""

STOPPED_SECONDS, STOPPED_REQUESTS = 30.0, 10.0
"""Traces have stopped when so many requests finished later than so long after the newest that was told: OpenTelemetry's batches
leave after 5 s (OTEL_BSP_SCHEDULE_DELAY), and a span waits 10 s for its caller's.
"""

LEAST_JUDGED = 10.0
"""Requests of a class from which on its share says something of the class."""

SIZES = ("small", "large")
"""Sizes of prompts as traces tell them; of others nobody counted the tokens."""

SEEN = {ENGINE: "as the engine saw them", GATEWAY: "as callers saw them"}


@dataclass(frozen=True, slots=True)
class Trust:
    """How far counts of one vantage may be trusted, and why no further."""

    standing: Standing
    note: str


# -- who told, and whether all were told ------------------------------------------------------------------------------
def classes(c: Context, vantage: str = "") -> tuple[str, tuple[Told, ...]]:
    """The vantage whose counts hold: a gateway's where it judged anybody, as users see what it sees, else the engine's."""
    for seen in (vantage,) if vantage else VANTAGES:
        found = told(c.good, c.settings.slo, seen)
        if any(one.judged > 0 for one in found):
            return seen, found
    return "", ()


def _nobody(c: Context) -> Reading:
    """Why no class has a count: nobody asked, or no traces come."""
    if not c.good.tracks(REQUESTS):
        return missing(c, REQUESTS)
    finished = _finished(c) or 0.0
    if finished < STOPPED_REQUESTS:
        return no_traffic("requests that traces told of")
    return absent(GapKind.STALE, f"{finished:.0f} requests finished, and no trace of one came", ENDED)


def _told_of(c: Context, vantage: str) -> float | None:
    """Requests that spans told of in the window and that the page counts too: refused ones and those whose callers left are
    not among an engine's finished ones.
    """
    by = growth_by(c.good, ENDED, "ended", {"vantage": vantage})
    return None if by is None else sum(n for ended, n in by.items() if vantage == GATEWAY or ended in {"ok", "error"})


def _finished(c: Context) -> float | None:
    """Requests that the engine finished by its own page, those given up left out: they have no span."""
    by = growth_by(c.good, FINISHED, "reason")
    return None if by is None else sum(n for reason, n in by.items() if not reason.startswith("abort"))


def coverage(c: Context, vantage: str) -> Reading:
    """Requests that spans of one vantage told of over those that its page counts; a gap where they stopped coming."""
    stopped = _stopped(c, vantage)
    if stopped is not None:
        return stopped
    spans, calls = _told_of(c, vantage), c.growth(CALLS) if vantage == GATEWAY else None
    if spans is None:
        return absent(GapKind.MISSING, "traces tell of requests, and not how many they are", ENDED)
    if calls:
        return number(min(1.0, spans / calls), note=f"{spans:.0f} of {calls:.0f} calls at the gateway")
    finished = _finished(c)
    if finished is None and c.lost(FINISHED):
        return missing(c, FINISHED)
    if finished is None:
        return absent(GapKind.UNSUPPORTED, "no page counts the requests that traces are to tell of", ENDED)
    if finished <= 0:
        return no_traffic("finished requests")
    if vantage == GATEWAY and spans > MORE * finished:
        return absent(GapKind.UNSUPPORTED, "the gateway has no page, and calls other engines as well", ENDED)
    return number(min(1.0, spans / finished), note=f"{spans:.0f} of {finished:.0f} finished requests")


def _stopped(c: Context, vantage: str) -> Reading | None:
    ends = [t.values[-1] for t in c.good.tracks(LAST_END, {"vantage": vantage})]
    counted = line(c.good, CALLS) if vantage == GATEWAY and c.good.tracks(CALLS) else line(c.good, FINISHED)
    if not ends or counted is None:
        return None
    late = counted.after(max(ends) + STOPPED_SECONDS)
    since = late.last - late.values[0] if late.values else 0.0
    if since < STOPPED_REQUESTS:
        return None
    ago = c.good.end - max(ends)
    return absent(GapKind.STALE, f"the newest trace is {ago:.0f} s old, and {since:.0f} requests ended since", ENDED)


def span_coverage_ratio(c: Context) -> Reading:
    """Share of the requests that traces told of: spans over finished requests (of a gateway, over its calls). Less than all
    means sampling, or losses on the way.
    """
    vantage, found = classes(c)
    return coverage(c, vantage) if found else _nobody(c)


def trust(c: Context, vantage: str) -> Trust | Reading:
    """How far the counts of a vantage hold; a gap where traces have stopped."""
    covered = coverage(c, vantage)
    if covered.gap is not None and covered.gap.kind is GapKind.STALE:
        return covered
    if covered.value is None:
        return Trust(Standing.ESTIMATE, "how many requests were not told is not known")
    if covered.value < COVERED:
        return Trust(Standing.ESTIMATE, f"traces told of {covered.note}")
    stall = longest_answer(c)
    if vantage == ENGINE and stall >= STALL_SHARE * c.settings.slo.ttft_seconds:
        return Trust(
            Standing.UPPER, f"the API process stalled for {stall:.1f} s: callers waited longer than it measured"
        )
    return Trust(Standing.EXACT, SEEN[vantage])


def whole(c: Context, vantage: str) -> bool:
    """Whether every request was told, so that a test on them is one on all."""
    found = coverage(c, vantage)
    return found.value is not None and found.value >= COVERED


# -- goodput, attainment, burn ----------------------------------------------------------------------------------------
def untold_failures(c: Context, vantage: str, found: Iterable[Told]) -> float:
    """Failures of an engine that left no span: 5xx or refused ones on its page, less those that traces told."""
    if vantage != ENGINE:
        return 0.0
    http = c.growth("llm_http_requests_total", status="5xx") or 0.0
    failed = max(http, c.growth("llm_requests_rejected_total") or 0.0)
    return max(0.0, failed - sum(one.failed for one in found))


def _held(c: Context, vantage: str, found: Sequence[Told], *, apart: bool) -> Trust | Reading:
    """:func:`trust`, lowered for requests that no threshold could be held against, and (``apart``: by class) for failures
    whose class nobody knows.
    """
    held = trust(c, vantage)
    if isinstance(held, Reading) or held.standing is Standing.ESTIMATE:
        return held
    unknown, judged = sum(one.unknown for one in found), sum(one.judged for one in found)
    if unknown > (1 - COVERED) * (unknown + judged):
        return Trust(Standing.ESTIMATE, f"{unknown:.0f} of {unknown + judged:.0f} requests could not be judged")
    lost = untold_failures(c, vantage, found)
    if apart and lost > 0 and len(found) > 1:
        return Trust(Standing.UPPER, f"{lost:.0f} failures left no trace that tells their class")
    return held


def slo_goodput_ratio(c: Context) -> Reading:
    """Share of the requests that met every threshold of their class, over all classes: exact joint goodput. Failures that
    left no span are added from the engine's page.
    """
    vantage, found = classes(c)
    if not found:
        return _nobody(c)
    held = _held(c, vantage, found, apart=False)
    if isinstance(held, Reading):
        return held
    met, judged = sum(one.met for one in found), sum(one.judged for one in found)
    return number(met / (judged + untold_failures(c, vantage, found)), held.standing, held.note)


@dataclass(frozen=True, slots=True)
class ClassSeen:
    """One class: its counts, the share that met all (``goodput``), and how fast that uses up what may miss (``burn``: 1 is
    just the objective).
    """

    told: Told
    requests: float
    goodput: float
    burn: float


def by_class(c: Context) -> tuple[str, tuple[ClassSeen, ...], Trust] | Reading:
    """The classes that had requests in the window, who timed them, and how far that holds."""
    vantage, found = classes(c)
    if not found:
        return _nobody(c)
    held = _held(c, vantage, found, apart=True)
    if isinstance(held, Reading):
        return held
    lost = untold_failures(c, vantage, found) if len(found) == 1 else 0.0
    return vantage, tuple(_seen(one, lost) for one in found if one.judged > 0 and one.name != UNKNOWN_CLASS), held


def _seen(one: Told, lost: float) -> ClassSeen:
    requests = one.judged + lost
    goodput = one.met / requests
    return ClassSeen(one, requests, goodput, (1 - goodput) / (1 - one.objective) if one.objective < 1 else 0.0)


def _large_enough(c: Context) -> tuple[tuple[ClassSeen, ...], Trust] | Reading:
    found = by_class(c)
    if isinstance(found, Reading):
        return found
    kept = tuple(one for one in found[1] if one.requests >= LEAST_JUDGED)
    return (
        (kept, found[2]) if kept else absent(GapKind.TOO_SHORT, f"no class had {LEAST_JUDGED:.0f} requests", REQUESTS)
    )


def slo_worst_goodput_ratio(c: Context) -> Reading:
    """Goodput of the class that fares worst, of those with at least 10 requests in the window."""
    found = _large_enough(c)
    if isinstance(found, Reading):
        return found
    one = min(found[0], key=lambda x: x.goodput)
    return number(one.goodput, found[1].standing, f"class {one.told.name}, {found[1].note}")


def slo_burn_peak(c: Context) -> Reading:
    """The fastest burn of a class' error budget: its share that missed over the share that may, (1 - goodput) / (1 - objective).
    At 1 the objective is just met (Google SRE Workbook, "Alerting on SLOs").
    """
    found = _large_enough(c)
    if isinstance(found, Reading):
        return found
    one = max(found[0], key=lambda x: x.burn)
    standing = Standing.LOWER if found[1].standing is Standing.UPPER else found[1].standing
    return number(one.burn, standing, f"class {one.told.name}, {found[1].note}")


def _attained(c: Context, objective: str) -> Reading:
    vantage, found = classes(c)
    if not found:
        return _nobody(c)
    held = trust(c, vantage)
    if isinstance(held, Reading):
        return held
    held_to = [one for one in found if one.within(objective) is not None]
    if not held_to:
        return no_traffic("answered requests")
    late, answered = sum(one.missed[objective] for one in held_to), sum(one.answered for one in held_to)
    return number(max(0.0, 1.0 - late / answered), held.standing, held.note)


def slo_ttft_attainment_ratio(c: Context) -> Reading:
    """Share of the requests whose first token came inside the threshold of their class."""
    return _attained(c, "ttft")


def slo_tpot_attainment_ratio(c: Context) -> Reading:
    """Share of the requests whose time per output token was inside the threshold of their class."""
    return _attained(c, "tpot")


# -- who is hurt for sure ---------------------------------------------------------------------------------------------
def harm(c: Context, vantage: str, objectives: Iterable[str]) -> Reading | None:
    """The smallest chance that a class still keeps one of these promises; None where traces did not tell every request.

    A binomial tail of exact misses for each class and objective, times the number of classes (Bonferroni: one class of many
    is always the unluckiest).
    """
    _, found = classes(c, vantage)
    if not found or not whole(c, vantage):
        return None
    chances = [(_chance(one, o), one) for one in found for o in objectives if one.within(o) is not None]
    if not chances:
        return None
    chance, worst = min(chances, key=lambda x: x[0])
    many = len({one.name for _, one in chances})
    note = f"from {worst.answered:.0f} requests of class {worst.name}, one by one"
    return number(min(1.0, chance * many), note=note)


def _chance(one: Told, objective: str) -> float:
    return _tail(one.missed[objective], one.answered, one.objective)


def _tail(missed: float, answered: float, objective: float) -> float:
    return binomial_tail(math.floor(missed), round(answered), 1 - objective)


def chance_with(c: Context, vantage: str, objective: str, late: float) -> float:
    """The chance of all misses together with ``late`` requests that have not ended, held to the least that was promised."""
    held_to = [one for one in classes(c, vantage)[1] if one.within(objective) is not None]
    missed, answered = sum(one.missed[objective] for one in held_to), sum(one.answered for one in held_to)
    return _tail(missed + late, answered + late, min(one.objective for one in held_to))


def loosest(c: Context, vantage: str, objective: str) -> float:
    """The loosest threshold that a class with requests in the window has (seconds); none is the loosest of all."""
    _, found = classes(c, vantage)
    return max((one.thresholds.get(objective, math.inf) for one in found if one.name != UNKNOWN_CLASS), default=0.0)


def slo_harm_p(c: Context) -> Reading:
    """Chance that every class still keeps each of its promises (TTFT, TPOT, whole answer), by exact counts: binomial tails,
    the smallest times the number of classes. Small = a class is hurt. Only where traces told every request.
    """
    vantage, found = classes(c)
    if not found:
        return _nobody(c)
    chance = harm(c, vantage, OBJECTIVES)
    if chance is not None:
        return chance
    covered = coverage(c, vantage)
    if covered.value is None:
        return covered
    if covered.value >= COVERED:
        return no_traffic("answered requests") if c.good.tracks(MISSED) else missing(c, MISSED)
    return absent(GapKind.UNSUPPORTED, f"traces told of {covered.note} only", ENDED)


# -- prompts by size, where no gateway's page tells them --------------------------------------------------------------
def sizes_vantage(c: Context) -> str | Reading:
    """The vantage whose first tokens are told by size of the prompt, and of every request; '' where there is none. A gap where
    that cannot be told only for want of a family that should be on the page.
    """
    lost: str | Reading = ""
    for vantage in VANTAGES:
        tracks = c.good.tracks(f"{TTFT}_bucket", {"vantage": vantage})
        if not any(track.label("size") in SIZES for track in tracks):
            continue
        covered = coverage(c, vantage)
        if covered.value is not None and covered.value >= COVERED:
            return vantage
        if covered.gap is not None and covered.gap.kind is GapKind.MISSING:
            lost = covered
    return lost


def of_size(c: Context, vantage: str, size: str, name: str | None = None) -> Hist | None:
    """First tokens of prompts of a size, of one class or of all; None where there are none."""
    own = {"vantage": vantage, "size": size} | ({} if name is None else {"slo_class": name})
    wanted = tuple(own.items())
    found = hist(c.good, TTFT, lambda track: all(track.label(k) == v for k, v in wanted))
    return found if found is not None and found.total > 0 else None


def small_harm(c: Context, vantage: str) -> Reading:
    """Chance of so many late first tokens of small prompts, each held to its own class' promise (binomial tail)."""
    late = asked = may = 0.0
    for one in classes(c, vantage)[1]:
        h = of_size(c, vantage, "small", one.name)
        if h is not None:
            late += h.total - h.at_most(one.thresholds.get("ttft", c.settings.slo.ttft_seconds))[1]
            asked += h.total
            may += h.total * (1 - one.objective)
    if asked <= 0:
        return no_traffic("first tokens of small prompts")
    return number(binomial_tail(math.floor(late), round(asked), may / asked))


def large_ratio(c: Context, vantage: str) -> Reading:
    """Share of the first tokens that went to large prompts."""
    sizes = [of_size(c, vantage, size) for size in SIZES]
    small, large = (h.total if h is not None else 0.0 for h in sizes)
    return number(large / (small + large)) if small + large > 0 else no_traffic("first tokens that traces told of")


# -- around the engine ------------------------------------------------------------------------------------------------
def span_frontend_share_ratio(c: Context) -> Reading:
    """What a request took around the engine over that and its wait in the engine's queue and prefill: the part of the way to
    the first token that the engine never saw.
    """
    parts = [c.totals(f"llm_span_{name}_seconds") for name in ("frontend", "queue", "prefill")]
    for found, name in zip(parts, ("frontend", "queue", "prefill"), strict=True):
        if found is None:
            return missing(c, f"llm_span_{name}_seconds")
        if found.mean is None:
            return no_traffic("requests whose caller's span came")
    front, queue, prefill = (p.mean or 0.0 for p in parts if p is not None)
    together = front + queue + prefill
    return number(front / together) if together > 0 else no_traffic("time to a first token")
