"""A verdict for machines: the JSON document, and the order in which verdicts stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from llmvitals.triage.verdict import Outcome, Verdict

SEVERITY: tuple[Outcome, ...] = (
    Outcome.CAUSE,
    Outcome.UNDETERMINED,
    Outcome.SHEDDING,
    Outcome.HEALTHY,
    Outcome.NO_TRAFFIC,
)
"""Worst first."""


def severity(outcome: str, confidence: float = 0.0, *, hurt: bool = False) -> tuple[int, bool, float]:
    """What lists are sorted by, worst first, wherever verdicts stand in a row: by outcome, then where users are hurt before a
    hazard that hurts nobody yet, then the surest cause.

    ``outcome``: a slug (one that is not known comes last); ``confidence``: in the cause that leads, 0-1.
    """
    return (_PLACE.get(outcome, len(SEVERITY)), not hurt, -confidence)


_PLACE = {outcome.value: place for place, outcome in enumerate(SEVERITY)}


def worst(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, worst first (:func:`severity`)."""
    return sorted(verdicts, key=lambda v: severity(v.outcome, v.leading.confidence if v.leading else 0.0, hurt=v.hurt))


def services_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The same order, but what is about a whole service comes before what is about one of its engines."""
    return sorted(verdicts, key=lambda v: not v.scope.get("engines"))


def scope_of(instance: str, model: str, engines: Sequence[str] = ()) -> dict[str, Any]:
    """What a verdict is about: a target or a service, its model, and the ``engines`` that a service is made of."""
    return {"instance": instance, "model": model, **({"engines": list(engines)} if engines else {})}


def scope_name(verdict: Verdict) -> str:
    """The scope as people name it: target, and model where there is one."""
    instance, model = str(verdict.scope.get("instance", "")), str(verdict.scope.get("model", ""))
    return f"{instance} ({model})" if model else instance


def document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The JSON document of `llmvitals triage --json`: the worst scope in full, then every scope's own in ``targets``."""
    ordered = worst(verdicts)
    first = ordered[0]
    return _body(first) | {
        "targets": [
            {
                "name": str(v.scope.get("instance", "")),
                "model": str(v.scope.get("model", "")),
                "verdict": str(v.outcome),
                "leading": v.leading.cause if v.leading else None,
                "sentence": v.sentence,
                "detail": _body(v),
            }
            for v in ordered
        ]
    }


def _body(v: Verdict) -> dict[str, Any]:
    return {
        "verdict": str(v.outcome),
        "sentence": v.sentence,
        "leading": asdict(v.leading) if v.leading else None,
        "contributing": [asdict(f) for f in v.contributing],
        "steps": [
            {
                "step": s.step,
                "title": s.title,
                "checks": [
                    {
                        "cause": c.cause,
                        "state": str(c.state),
                        "evidence": [asdict(e) for e in c.evidence],
                        "reason": c.reason,
                    }
                    for c in s.checks
                ],
            }
            for s in v.steps
        ],
        "blind": [asdict(b) for b in v.blind],
        "window": v.window,
        "scope": v.scope,
        "binding": asdict(v.binding),
        "classes": [asdict(one) for one in v.classes],
        "hurt": v.hurt,
        "changes": [asdict(one) for one in v.changes],
        "lookalikes": [asdict(one) for one in v.lookalikes],
    }
