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
from llmvitals.signals.derived.common import absent, missing, no_traffic, number
from llmvitals.signals.derived.coverage import COVERED, Trust, classes, coverage, nobody, trust, whole
from llmvitals.signals.measure import Hist, binomial_tail, hist
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.told import (
    ENDED,
    ENGINE,
    MISSED,
    OBJECTIVES,
    REQUESTS,
    TTFT,
    VANTAGES,
    Told,
)

LEAST_JUDGED = 10.0
"""Requests of a class from which on its share says something of the class."""

SIZES = ("small", "large")
"""Sizes of prompts as traces tell them; of others nobody counted the tokens."""


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
        return nobody(c)
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
        return nobody(c)
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
        return nobody(c)
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
        return nobody(c)
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
