"""A verdict for machines (the JSON document) and for people (a short report). Builds values; printing is the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmvitals.triage.units import inside, with_unit
from llmvitals.triage.verdict import Blind, Change, Finding, Outcome, State, Verdict
from llmvitals.triage.view import Tone, class_row, setting_line

SEVERITY: tuple[Outcome, ...] = (
    Outcome.CAUSE,
    Outcome.UNDETERMINED,
    Outcome.SHEDDING,
    Outcome.HEALTHY,
    Outcome.NO_TRAFFIC,
)
"""Worst first."""

WORDS: dict[Outcome, tuple[str, str, str]] = {
    Outcome.CAUSE: ("✖", "CAUSE", "bold red"),
    Outcome.UNDETERMINED: ("?", "UNDETERMINED", "bold magenta"),
    Outcome.SHEDDING: ("▲", "SHEDDING", "bold yellow"),
    Outcome.HEALTHY: ("✔", "HEALTHY", "bold green"),
    Outcome.NO_TRAFFIC: ("○", "NO TRAFFIC", "bold blue"),
}

_MARK: dict[State, tuple[str, str]] = {
    State.FIRING: ("✖", "red"),
    State.CLEAR: ("✔", "green"),
    State.UNKNOWN: ("?", "magenta"),
    State.NOT_APPLICABLE: ("–", "dim"),
    State.SHADOWED: ("↳", "yellow"),
}

_BLIND_SHOWN = 6
_MORE_SHOWN = 2
"""The nearest of what would change a verdict and of what it is taken for; ``--json`` and the app have all."""


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


def headline(verdict: Verdict) -> Text:
    """One line: what it is, how sure, where."""
    icon, word, style = WORDS[verdict.outcome]
    line = Text(f"{icon} {word}", style=style)
    if verdict.leading is not None:
        line.append(f"  {verdict.leading.cause}", style="bold")
        line.append(f"  (confidence {with_unit(verdict.leading.confidence, 'ratio')})", style="dim")
    where = scope_name(verdict)
    if where:
        line.append(f"  {where}", style="cyan")
    return line


def report(verdict: Verdict, *, steps: bool = True) -> Group:
    """The human report of one scope: verdict, action, evidence, what contributes, the walk, what it is blind to."""
    parts: list[Any] = [headline(verdict), Padding(Text(verdict.sentence), (0, 0, 0, 2))]
    if verdict.leading is not None:
        parts += _told(verdict.leading)
    for found in verdict.contributing:
        parts.append(Text(f"  also: {found.cause} ({with_unit(found.confidence, 'ratio')})", style="yellow"))
        parts.append(Padding(Text(_change(found), style="dim"), (0, 0, 0, 8)))
    parts += [_more("would change it", _turn(one)) for one in verdict.changes[:_MORE_SHOWN]]
    parts += [_more(f"not {one.cause}", one.why) for one in verdict.lookalikes[:_MORE_SHOWN]]
    if verdict.binding.why:
        line = Text.assemble(("binds: ", "bold"), f"{verdict.binding.resource}: {verdict.binding.why}")
        parts.append(Padding(line, (0, 0, 0, 2)))
    if verdict.classes:
        parts.append(_classes_table(verdict))
    if steps:
        parts.append(_walk_table(verdict))
    if verdict.blind:
        seen = "; ".join(_unseen(b) for b in verdict.blind[:_BLIND_SHOWN])
        left = len(verdict.blind) - _BLIND_SHOWN
        more = f"; and {left} more (--json and the app list all)" if left > 0 else ""
        parts.append(Padding(Text(f"blind to: {seen}{more}", style="dim"), (0, 0, 0, 2)))
    w = verdict.window
    parts.append(
        Text(f"  window: {w.get('seconds', 0):.0f} s, {w.get('readable', 0)} of {w.get('pages', 0)} pages", style="dim")
    )
    return Group(*parts)


def _more(head: str, text: str) -> Padding:
    return Padding(Text.assemble((f"{head}: ", "bold dim"), (text, "dim")), (0, 0, 0, 2))


def _turn(one: Change) -> str:
    """A change in words: from which number to which, and what it would be then."""
    now = f", now {with_unit(one.value, one.unit)}" if one.value is not None else ""
    return f"{inside(one.title)} {one.op} {with_unit(one.bound, one.unit)}{now}: {one.cause or one.outcome}"


def _unseen(spot: Blind) -> str:
    """What is not seen; of a whole kind of telemetry also why, as that says how to get it."""
    return f"{spot.what}: {spot.why.partition(': ')[2]}" if spot.series.endswith("*") else spot.what


def _change(found: Finding) -> str:
    action = found.action
    number = f" {action.value:,.0f}" if action.value is not None else ""
    return f"{action.text}  [{action.setting}{number}]" if setting_line(action) else action.text


def _told(found: Finding) -> list[Any]:
    out: list[Any] = []
    if found.note:
        out.append(Padding(Text(found.note, style="dim"), (0, 0, 0, 2)))
    out.append(Padding(Text.assemble(("change: ", "bold"), _change(found)), (0, 0, 0, 2)))
    for head, text in (("effect", found.action.effect), ("verify", found.action.verify)):
        if text:
            out.append(_more(head, text))
    table = Table(box=None, padding=(0, 2), show_header=False)
    for e in found.evidence:
        mark = {True: "✔", False: "✘", None: "?"}[e.holds]
        value = with_unit(e.value, e.unit) if e.value is not None else e.gap
        standing = "" if e.standing == "exact" or e.value is None else f"({e.standing})"
        table.add_row(mark, e.title, value, f"limit {e.limit}", standing)
    out.append(Padding(table, (0, 0, 0, 2)))
    out.append(Padding(Text(f"runbook: {found.runbook}", style="dim"), (0, 0, 0, 2)))
    return out


def _classes_table(verdict: Verdict) -> Padding:
    """What each class of requests got of what it was promised, as traces told."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for head in ("class", "requests", "goodput", "objective", "TTFT kept", "TPOT kept", "burn", "seen by"):
        table.add_column(head, justify="left" if head in {"class", "seen by"} else "right")
    for row in (class_row(one) for one in verdict.classes):
        style = "" if row.badge.tone is Tone.GOOD else "red"
        table.add_row(
            row.name,
            row.requests,
            Text(row.goodput, style=style),
            row.objective,
            row.ttft,
            row.tpot,
            row.budget,
            row.seen,
        )
    return Padding(table, (0, 0, 0, 2))


def _walk_table(verdict: Verdict) -> Padding:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for step in verdict.steps:
        # one renderable per check, so that a line never ends between a mark and its name
        marks = [Text(f"{_MARK[c.state][0]} {c.cause}", style=_MARK[c.state][1], no_wrap=True) for c in step.checks]
        table.add_row(Text(f"{step.step}", style="bold"), Text(step.title), Columns(marks, padding=(0, 2)))
    return Padding(table, (1, 0, 1, 2))
