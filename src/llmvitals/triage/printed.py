"""A verdict for people: a short report. Builds values; printing is the caller's.

Apart from the document, since the exporter gives that alone and is spared the library that draws tables.
"""

from __future__ import annotations

from typing import Any

from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from llmvitals.triage.report import scope_name
from llmvitals.triage.units import inside, with_unit
from llmvitals.triage.verdict import Blind, Change, Finding, Outcome, State, Verdict
from llmvitals.triage.view import Tone, class_row, setting_line

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
