"""A report's figures as readings of every signal: what it states, what follows from that by arithmetic, and gaps."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from llmvitals.gaps import Gap, GapKind, family_gap
from llmvitals.lab.case_file import Case, Known
from llmvitals.schema import FAMILIES, Origin, origin_of
from llmvitals.series import Series, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS, compute
from llmvitals.signals.measure import binomial_tail
from llmvitals.signals.reading import Reading, Standing
from llmvitals.telemetry.engines.versions import Span, version
from llmvitals.telemetry.registry import ADAPTERS, How, engines
from llmvitals.triage.checks import CHECKS
from llmvitals.triage.judge import bound_of
from llmvitals.triage.model import Limit

STEADY: tuple[tuple[str, float], ...] = (
    ("dead_tail_pages", 0.0),
    ("failed_scrape_ratio", 0.0),
    ("restarts", 0.0),
    ("silent_failures", 0.0),
    ("contradiction", 0.0),
    ("processes_behind", 1.0),
)
"""What a situation implies that lasted without a break while its figures were read: the server answered, did not restart
and gave first tokens. Its numbers are the reporter's to trust.
"""

OPTIONAL: tuple[str, ...] = ("llm_lora_", "llm_spec_", "llm_kv_transfer_")
"""Families that a server shows only when an option asks for them."""

_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def snapshot(case: Case, settings: Settings) -> dict[str, Reading]:
    """One reading per signal: the report's number, or the gap that a server without that family would show.

    A bound becomes a number only where it decides every limit that is set on the signal.
    """
    known = dict(_known(case, settings))
    blank = compute(_blank(case), settings)
    shown = {origin_of(g.series) for name in known if (g := blank[name].gap) is not None} - {
        Origin.ENGINE,
        Origin.TARGET,
    }
    readings = {}
    for signal in SIGNALS:
        stated = known.get(signal.id)
        found = _reading(signal.id, stated, settings) if stated else None
        readings[signal.id] = found or Reading(
            None, gap=_gap(signal.id, blank[signal.id].gap, shown, bounded=stated is not None)
        )
    return readings


def unremarkable(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The same readings, but what a report does not state is taken for unremarkable: no limit on it holds."""
    return {
        name: replace(r, gap=replace(r.gap, kind=GapKind.NO_TRAFFIC)) if r.gap is not None else r
        for name, r in readings.items()
    }


def _known(case: Case, settings: Settings) -> Iterator[tuple[str, Known]]:
    """What follows comes first, so that what the report itself states replaces it."""
    if case.steady:
        yield from ((name, Known(value=value, how=case.steady)) for name, value in STEADY)
    lasted = case.known.get("window_seconds")
    least, short = (
        settings.thresholds,
        "no report is refused for its length: figures stand for a run or a lasting state",
    )
    seconds = (lasted.value or lasted.at_least or 0.0) if lasted else 0.0
    pages = seconds // settings.exporter.interval_seconds + 1
    yield "window_seconds", Known(value=max(least.min_seconds, seconds), how=short)
    yield "pages", Known(value=max(float(least.min_pages), pages), how=short)
    if case.steady:
        yield "uptime_seconds", Known(at_least=seconds, how=case.steady)
    chances = []
    for late in case.late:
        chance = binomial_tail(late.late, late.of, 1 - settings.slo.objective)
        chances.append(chance)
        yield f"{late.slo}_harm_p", Known(at_most=chance, how="binomial tail of the requests that were late")
        yield f"{late.slo}_breach_ratio", Known(at_least=late.late / late.of, how="late requests over all")
    stated = [k for name in ("ttft_harm_p", "tpot_harm_p") if (k := case.known.get(name)) is not None]
    chances += [x for k in stated if (x := k.value if k.value is not None else k.at_most) is not None]
    if chances:
        yield "harm_p", Known(at_most=min(chances), how="the smaller of the chances that a promise is kept")
    yield from ((name, k) for name, k in case.known.items() if name != "window_seconds")


def _reading(name: str, known: Known, settings: Settings) -> Reading | None:
    if known.value is not None:
        return Reading(known.value, note=known.how)
    low = known.at_least is not None
    edge = known.at_least if low else known.at_most
    assert edge is not None
    if not all(_decides(limit, edge, settings, low=low) for limit in _limits(name)):
        return None
    return Reading(edge, standing=Standing.LOWER if low else Standing.UPPER, note=known.how)


def _limits(name: str) -> Iterator[Limit]:
    for check in CHECKS:
        proof = check.proof.limits if check.proof else ()
        for limit in (*(x for row in check.when for x in row), *check.confirms, *check.unless, *proof):
            if limit.signal == name:
                yield limit


def _decides(limit: Limit, edge: float, settings: Settings, *, low: bool) -> bool:
    """Whether every number on the known side of the edge gives the limit one answer."""
    bound, up = bound_of(limit, settings), limit.op.startswith(">")
    at_edge = _OPS[limit.op](edge, bound)
    return at_edge if up == low else not at_edge


def _gap(name: str, found: Gap | None, shown: set[Origin], *, bounded: bool) -> Gap:
    """Why a signal has no number; a source from which the report states anything (``shown``) could have stated it too."""
    series = found.series if found is not None and found.series else f"llm_{name}"
    if found is not None and found.kind is GapKind.UNSUPPORTED and origin_of(series) not in shown:
        return Gap(GapKind.UNSUPPORTED, found.why, series)
    return Gap(GapKind.MISSING, "the report only bounds it" if bounded else "the report does not state it", series)


def _blank(case: Case) -> Window:
    """Pages that show nothing but which families such a server cannot show: the gaps they leave are the case's own."""
    samples = {Series("llm_target_up", ()): 1.0}
    for family, why in _unsupported(case):
        samples[family_gap(family, GapKind.UNSUPPORTED, why)] = 1.0
    return Window.of(Snapshot(t, samples) for t in (0.0, 1.0))


def _unsupported(case: Case) -> Iterator[tuple[str, str]]:
    """What such a server cannot show, by its kind, its release and its command line, and why."""
    engine = case.engine
    for map_ in engines():
        if map_.kind == engine.kind:
            yield from ((s.family, s.note) for s in map_.support if s.how is How.UNSUPPORTED)
    rows = [row for adapter in ADAPTERS if adapter.kind == engine.kind for row in adapter.rows if row.family]
    for family in dict.fromkeys(row.family for row in rows) if engine.version else ():
        spans = (row.v0 if engine.generation == "V0" else row.v1 or row.span for row in rows if row.family == family)
        if not any(Span(text).holds(version(engine.version)) for text in spans if text):
            yield family, f"{engine.kind} {engine.version} does not show it"
    if engine.plain:
        families = (f.name for f in FAMILIES if f.name.startswith(OPTIONAL))
        yield from ((family, "no option of the command line asks for it") for family in families)
