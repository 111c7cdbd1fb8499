"""A service's verdict beside those of its engines: sums can hide one that is ill, and can name what none of them has.

Over a service, running requests of a full engine and of an idle one look like one that is half full. So a cause that leads
for the service must show in one of its engines too, unless only the service can show it (its gateway); else the engine
speaks that is surely ill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmvitals.triage.report import worst
from llmvitals.triage.verdict import Outcome, State, Verdict
from llmvitals.triage.walk import states


def settled(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The same verdicts, each service's held against those of its engines (``scope.engines``)."""
    return [_held(v, _engines(v, verdicts)) if v.scope.get("engines") else v for v in verdicts]


def _engines(service: Verdict, verdicts: Sequence[Verdict]) -> list[Verdict]:
    named = service.scope["engines"]
    return [v for v in verdicts if not v.scope.get("engines") and v.scope.get("instance") in named]


def _held(service: Verdict, engines: Sequence[Verdict]) -> Verdict:
    ill = worst([v for v in engines if v.outcome is Outcome.CAUSE and v.leading is not None])
    if not ill or service.outcome is Outcome.SHEDDING:
        return service
    if service.outcome is Outcome.CAUSE and service.leading is not None:
        return service if _shown(service.leading.cause, engines) else _speaking(ill, service)
    if service.outcome is Outcome.UNDETERMINED:
        return _speaking(ill, service)
    return replace(service, sentence=f"{service.sentence} By itself, {_names(ill)}: {_cause(ill[0])}.")


def _shown(cause: str, engines: Sequence[Verdict]) -> bool:
    """Whether an engine shows the cause by itself, or none of them could."""
    told = {f.cause for v in engines for f in (v.leading, *v.contributing) if f is not None}
    return cause in told or all(states(v)[cause].state is State.NOT_APPLICABLE for v in engines)


def _speaking(ill: Sequence[Verdict], service: Verdict) -> Verdict:
    """The verdict on the engine that is surest to be ill, as that of the service."""
    first = ill[0]
    assert first.leading is not None
    note = f"Seen on {_names(ill)} by itself; the sums over the whole service do not tell it."
    leading = replace(first.leading, note=f"{note} {first.leading.note}".strip())
    sentence = f"{_names(ill)}: {first.sentence}"
    hurt = service.hurt or first.hurt
    return replace(first, sentence=sentence, leading=leading, window=service.window, scope=service.scope, hurt=hurt)


def _names(ill: Sequence[Verdict]) -> str:
    """The engines that share the first one's cause."""
    return ", ".join(str(v.scope.get("instance", "")) for v in ill if _cause(v) == _cause(ill[0]))


def _cause(verdict: Verdict) -> str:
    return verdict.leading.cause if verdict.leading is not None else ""
