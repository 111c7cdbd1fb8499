"""Signals and verdict of every scope in a window, and the page's families made from them.

Conventions of the page: a signal with a number is a gauge ``llm_<signal>{instance,model,window}``; one without is no
gauge but ``llm_signal_gap{...,signal,gap} 1`` (a gap is never 0). Where a number is not exact, ``llm_signal_standing``
says so beside it: a label on the gauge itself would break its series each time the standing changes. A signal that is
the newest value of a canonical family of the same name has that family on the page already, and no second gauge. All of
them carry the labels by which their target is grouped (:mod:`llmvitals.exporters.labels`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from llmvitals.exporters.logs import log
from llmvitals.exporters.page import Block, Group, plain
from llmvitals.exporters.watch import Collected
from llmvitals.schema import BY_NAME
from llmvitals.series import Labels, Snapshot, Window
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import SIGNALS, Signal, compute
from llmvitals.signals.reading import Reading, Standing
from llmvitals.signals.window import each_scope
from llmvitals.triage.report import scope_of
from llmvitals.triage.together import settled
from llmvitals.triage.verdict import Outcome, Resource, State, Verdict
from llmvitals.triage.walk import diagnose_with

GAP = "llm_signal_gap"
STANDING = "llm_signal_standing"
VERDICT = "llm_triage_verdict"
CHECK_STATE = "llm_triage_check_state"
LEADING = "llm_triage_leading"
HURT = "llm_triage_hurt"
SETTING = "llm_triage_setting"
BINDING = "llm_binding"


@dataclass(frozen=True, slots=True)
class Scoped:
    """What one instance and model showed in the window. ``verdict`` is None when the walk itself failed.

    ``place``: further labels of its series, where its target has them.
    """

    instance: str
    model: str
    readings: Mapping[str, Reading]
    verdict: Verdict | None
    place: Labels = ()


def judge(
    window: Sequence[Snapshot],
    settings: Settings,
    engines: Mapping[str, Sequence[str]] | None = None,
    places: Mapping[str, Labels] | None = None,
) -> tuple[tuple[Scoped, ...], list[Collected]]:
    """Every scope's readings and verdict, and how the collector ``triage`` did for each instance. Never raises.

    ``engines``: of each service, the targets that it is made of; ``places``: of each target and service, what its series carry
    beside instance and model.
    """
    judged: list[Scoped] = []
    spent: dict[str, Collected] = {}
    for (instance, model), part in each_scope(window):
        start = time.perf_counter()
        scoped = _judged(instance, model, part, settings, (engines or {}).get(instance, ()))
        before = spent.get(instance, Collected(instance, "triage", True, 0.0))
        took = before.seconds + time.perf_counter() - start
        spent[instance] = Collected(instance, "triage", before.ok and scoped.verdict is not None, took)
        judged.append(replace(scoped, place=(places or {}).get(instance, ())))
    told = iter(settled([scoped.verdict for scoped in judged if scoped.verdict is not None]))
    whole = tuple(scoped if scoped.verdict is None else replace(scoped, verdict=next(told)) for scoped in judged)
    return whole, list(spent.values())


def _judged(instance: str, model: str, window: Window, settings: Settings, engines: Sequence[str]) -> Scoped:
    """One scope; when the walk fails the signals still stand, and when those fail too the scope is empty."""
    try:
        verdict, readings = diagnose_with(window, settings, scope=scope_of(instance, model, engines))
    except Exception as error:  # one scope never takes the page down; the page says that it failed
        log("triage-failed", level=logging.ERROR, instance=instance, model=model, error=repr(error))
    else:
        return Scoped(instance, model, readings, verdict)
    try:
        return Scoped(instance, model, compute(window, settings), None)
    except Exception as error:
        log("signals-failed", level=logging.ERROR, instance=instance, model=model, error=repr(error))
    return Scoped(instance, model, {}, None)


def families(judged: Sequence[Scoped], window_seconds: float) -> Iterator[Block]:
    """The derived gauges and the verdict series as text."""
    return plain(groups(judged, window_seconds))


def groups(judged: Sequence[Scoped], window_seconds: float) -> Iterator[Group]:
    """The derived gauges and the verdict series, in a fixed order; some may hold no sample."""
    span = ("window", f"{window_seconds:g}s")
    for signal in (signal for signal in SIGNALS if f"llm_{signal.id}" not in BY_NAME):
        values = {
            (*_scope(s), span): reading.value
            for s in judged
            if (reading := s.readings.get(signal.id)) is not None and reading.value is not None
        }
        yield Group(f"llm_{signal.id}", signal.unit, _help(signal), values)
    yield Group(GAP, "", "1 for each signal that has no number now, with the reason.", dict(_gaps(judged)))
    yield Group(STANDING, "", "1 for each signal whose number is not exact.", dict(_standings(judged)))
    told = [(s, s.verdict) for s in judged if s.verdict is not None]
    yield Group(
        VERDICT,
        "",
        "1 for the outcome of the triage over the window, 0 for the others.",
        {(*_scope(s), ("verdict", o.value)): float(v.outcome is o) for s, v in told for o in Outcome},
    )
    yield Group(
        CHECK_STATE,
        "",
        "1 for the state that a cause's check is in, 0 for the others.",
        {
            (*_scope(s), ("cause", check.cause), ("state", state.value)): float(check.state is state)
            for s, v in told
            for step in v.steps
            for check in step.checks
            for state in State
        },
    )
    yield Group(
        LEADING,
        "",
        "Confidence (0-1) in the cause that leads; absent where none does.",
        {(*_scope(s), ("cause", v.leading.cause)): v.leading.confidence for s, v in told if v.leading is not None},
    )
    yield Group(
        HURT,
        "",
        "1 while more requests miss their promise than chance explains, else 0.",
        {_scope(s): float(v.hurt) for s, v in told},
    )
    yield Group(
        SETTING,
        "",
        "The value that a setting is to be given, for each cause that leads or contributes and has one.",
        {
            (*_scope(s), ("cause", found.cause), ("setting", found.action.setting)): found.action.value
            for s, v in told
            for found in (v.leading, *v.contributing)
            if found is not None and found.action.setting and found.action.value is not None
        },
    )
    yield Group(
        BINDING,
        "",
        "1 for the resource that keeps more work out now (or nothing, or unknown), 0 for the others.",
        {(*_scope(s), ("resource", r.value)): float(v.binding.resource is r) for s, v in told for r in Resource},
    )


def _help(signal: Signal) -> str:
    standing = "" if signal.standing is Standing.EXACT else signal.standing.value
    facts = ", ".join(fact for fact in (signal.unit, standing) if fact)
    return f"{signal.help} ({facts})" if facts else signal.help


def _scope(scoped: Scoped) -> Labels:
    return (("instance", scoped.instance), ("model", scoped.model), *scoped.place)


def _gaps(judged: Sequence[Scoped]) -> Iterator[tuple[Labels, float]]:
    for scoped in judged:
        for name, reading in scoped.readings.items():
            if reading.gap is not None:
                yield (*_scope(scoped), ("signal", name), ("gap", reading.gap.kind.value)), 1.0


def _standings(judged: Sequence[Scoped]) -> Iterator[tuple[Labels, float]]:
    for scoped in judged:
        for name, reading in scoped.readings.items():
            if reading.value is not None and reading.standing is not Standing.EXACT:
                yield (*_scope(scoped), ("signal", name), ("standing", reading.standing.value)), 1.0
