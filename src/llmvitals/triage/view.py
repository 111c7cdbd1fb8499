"""From a verdict to what a person is shown: words, icons, numbers with units. Pure: pages only lay it out.

Colour is never the only carrier: a badge has a word, an icon and a tone, and nothing without data has the tone GOOD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import (
    Action,
    Blind,
    Change,
    CheckResult,
    ClassShare,
    Evidence,
    Finding,
    LookAlike,
    Outcome,
    Resource,
    State,
    Step,
    Verdict,
)


class Tone(StrEnum):
    """What a colour stands for; the pages hold the colours."""

    BAD = "bad"
    WARN = "warn"
    GOOD = "good"
    QUIET = "quiet"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Badge:
    """A state as shown: word, icon name and tone."""

    word: str
    icon: str
    tone: Tone


OUTCOMES: Mapping[Outcome, Badge] = {
    Outcome.CAUSE: Badge("Cause found", "alert", Tone.BAD),
    Outcome.SHEDDING: Badge("Load is refused", "shield", Tone.WARN),
    Outcome.HEALTHY: Badge("Healthy", "check", Tone.GOOD),
    Outcome.NO_TRAFFIC: Badge("No traffic", "pause", Tone.QUIET),
    Outcome.UNDETERMINED: Badge("Undetermined", "question", Tone.UNSURE),
}

STATES: Mapping[State, Badge] = {
    State.FIRING: Badge("Firing", "alert", Tone.BAD),
    State.SHADOWED: Badge("Shadowed", "layers", Tone.WARN),
    State.UNKNOWN: Badge("Unknown", "question", Tone.UNSURE),
    State.CLEAR: Badge("Clear", "check", Tone.GOOD),
    State.NOT_APPLICABLE: Badge("Not applicable", "dash", Tone.QUIET),
}
"""In order of attention: a step shows the first of these that one of its checks is in."""

_HOLDS: Mapping[bool | None, Badge] = {
    True: Badge("Speaks for it", "alert", Tone.BAD),
    False: Badge("Speaks against it", "dash", Tone.QUIET),
    None: Badge("No data", "question", Tone.UNSURE),
}

NOTICES: Mapping[str, Badge] = {
    "connecting": Badge("Connecting", "pause", Tone.QUIET),
    "no-source": Badge("No source configured", "question", Tone.UNSURE),
    "unknown-source": Badge("Unknown source", "question", Tone.WARN),
    "unknown-scope": Badge("Unknown scope", "question", Tone.WARN),
    "settings": Badge("Not valid", "alert", Tone.WARN),
    "unreachable": Badge("Source unreachable", "alert", Tone.WARN),
    "unreachable-stale": Badge("Source unreachable, last verdict shown", "alert", Tone.WARN),
    "old": Badge("Stale, the source has made no new verdict", "alert", Tone.WARN),
    "waiting": Badge("Waiting", "pause", Tone.QUIET),
    "no-history": Badge("No history", "question", Tone.UNSURE),
    "no-comparison": Badge("Nothing to compare with", "question", Tone.UNSURE),
    "nobody-differs": Badge("Nobody stands out", "dash", Tone.QUIET),
    "note": Badge("Note", "question", Tone.QUIET),
    "nothing-blind": Badge("Nothing", "dash", Tone.QUIET),
    "no-replicas": Badge("No engine is watched", "dash", Tone.QUIET),
    "sign-in": Badge("Sign in", "question", Tone.QUIET),
    "not-allowed": Badge("Not allowed", "alert", Tone.WARN),
    "sign-in-broken": Badge("Nobody can sign in", "alert", Tone.WARN),
    "no-report": Badge("No report could be made", "alert", Tone.WARN),
    "no-runbook": Badge("No runbook", "dash", Tone.QUIET),
}
"""States of a page that are not a verdict. None is GOOD."""

_BINDS: Mapping[str, str] = {
    Resource.KV: "KV cache",
    Resource.COMPUTE: "GPU compute",
    Resource.BANDWIDTH: "GPU bandwidth",
    Resource.SEATS: "Seats",
    Resource.NOTHING: "Nothing",
}

_FALLBACK: Mapping[Outcome, str] = {
    Outcome.CAUSE: "A cause was found.",
    Outcome.SHEDDING: "Load is refused at admission, and what is admitted is served.",
    Outcome.HEALTHY: "Nothing to fix: what was promised is met.",
    Outcome.NO_TRAFFIC: "No requests in this window, so there is nothing to judge.",
    Outcome.UNDETERMINED: "The numbers do not settle it; see what the walk is blind to.",
}

_TRUST: tuple[tuple[float, str], ...] = ((0.8, "high"), (0.5, "moderate"), (0.0, "suspicion"))
"""Words for a confidence above each bound; up to 0.5 the catalogue of causes speaks of a suspicion."""

_SIGNS = {">=": "≥", "<=": "≤"}
_ACRONYMS = {"kv": "KV", "vram": "VRAM", "api": "API", "gpu": "GPU", "slo": "SLO"}

_WITHIN: Mapping[bool | None, Badge] = {
    True: Badge("Over the limit", "alert", Tone.BAD),
    False: Badge("Within the limit", "check", Tone.GOOD),
    None: Badge("No data", "question", Tone.UNSURE),
}
_KEPT: Mapping[bool, Badge] = {
    True: Badge("Kept", "check", Tone.GOOD),
    False: Badge("Missed", "alert", Tone.BAD),
}
_NO_LIMIT = Badge("", "", Tone.QUIET)


@dataclass(frozen=True, slots=True)
class Row:
    """One condition: what was measured beside its limit. ``note`` says how far a number goes, or why there is none."""

    signal: str
    title: str
    value: str
    limit: str
    badge: Badge
    note: str


@dataclass(frozen=True, slots=True)
class Card:
    """A cause that holds, ready to show. ``setting`` is the line to put into the configuration, empty where none."""

    cause: str
    title: str
    confidence: float
    trust: str
    rows: tuple[Row, ...]
    advice: str
    setting: str
    note: str
    source: str
    effect: str = ""
    verify: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What would change the verdict: a signal, its number now, where it would have to be, and what it would be then."""

    signal: str
    title: str
    now: str
    to: str
    then: Badge
    cause: str


@dataclass(frozen=True, slots=True)
class Alike:
    """A cause that looks like the leading one: its title, why it is not it, and the row that decides, where one does."""

    cause: str
    title: str
    why: str
    row: Row | None


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a step."""

    cause: str
    title: str
    badge: Badge
    reason: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the walk. ``badge``: the state in it that most needs attention."""

    number: int
    title: str
    badge: Badge
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One class of requests as shown. ``budget``: how fast what may miss is used up; ``seen``: who timed it, and how sure."""

    name: str
    requests: str
    goodput: str
    objective: str
    ttft: str
    tpot: str
    budget: str
    badge: Badge
    seen: str


@dataclass(frozen=True, slots=True)
class View:
    """A verdict as shown."""

    badge: Badge
    title: str
    sentence: str
    leading: Card | None
    contributing: tuple[Card, ...]
    stages: tuple[Stage, ...]
    blind: tuple[Blind, ...]
    scope: str
    window: str
    classes: tuple[ClassRow, ...] = ()
    turns: tuple[Turn, ...] = ()
    alike: tuple[Alike, ...] = ()


def present(verdict: Verdict) -> View:
    """Everything that is shown of one verdict."""
    leading = _card(verdict.leading) if verdict.leading else None
    badge = OUTCOMES[verdict.outcome]
    return View(
        badge=badge,
        title=leading.title if leading else badge.word,
        sentence=verdict.sentence or _FALLBACK[verdict.outcome],
        leading=leading,
        contributing=tuple(_card(finding) for finding in verdict.contributing),
        stages=tuple(_stage(step) for step in verdict.steps),
        blind=verdict.blind,
        scope=_scope(verdict.scope),
        window=_window(verdict.window),
        classes=tuple(class_row(one) for one in verdict.classes),
        turns=tuple(map(_turn, verdict.changes)),
        alike=tuple(map(_alike, verdict.lookalikes)),
    )


def _turn(change: Change) -> Turn:
    """As read aloud: ``< 95 %`` of a signal that is at 98.5 % now. A cause's title goes with the outcome's word."""
    then = (
        OUTCOMES[Outcome(change.outcome)] if change.outcome in _OUTCOME_SLUGS else Badge(change.outcome, "", Tone.QUIET)
    )
    return Turn(
        change.signal,
        change.title,
        "no data" if change.value is None else with_unit(change.value, change.unit),
        f"{_SIGNS.get(change.op, change.op)} {with_unit(change.bound, change.unit)}",
        then,
        cause_title(change.cause) if change.cause else "",
    )


_OUTCOME_SLUGS = frozenset(outcome.value for outcome in Outcome)


def _alike(one: LookAlike) -> Alike:
    return Alike(one.cause, cause_title(one.cause), one.why, row(one.evidence) if one.evidence else None)


def class_row(one: ClassShare) -> ClassRow:
    """One class as shown: what it got beside what it was promised. A time that nobody took is a dash, never 0."""
    ttft, tpot = ("–" if x is None else with_unit(x, "ratio") for x in (one.ttft_attainment, one.tpot_attainment))
    return ClassRow(
        one.name,
        with_unit(round(one.requests), ""),
        with_unit(one.goodput, "ratio"),
        with_unit(one.objective, "ratio"),
        ttft,
        tpot,
        f"{with_unit(one.burn, '')}×",
        _KEPT[one.goodput >= one.objective],
        one.vantage if one.standing == "exact" else f"{one.vantage}, {one.standing}",
    )


def cause_title(cause: str) -> str:
    """A slug as a title: ``kv-cache-saturation`` gives "KV cache saturation"."""
    words = [_ACRONYMS.get(word, word) for word in cause.split("-")]
    words[0] = words[0] if words[0] in _ACRONYMS.values() else words[0].capitalize()
    return " ".join(words)


def binds(resource: str) -> str:
    """The resource that binds, in words."""
    return _BINDS.get(resource, "not known")


def row(evidence: Evidence) -> Row:
    """One condition as shown. A missing number is a word with its reason, never 0."""
    missing = evidence.value is None
    standing = "" if evidence.standing == "exact" else evidence.standing
    return Row(
        signal=evidence.signal,
        title=evidence.title,
        value="no data" if evidence.value is None else with_unit(evidence.value, evidence.unit),
        limit=limit_text(evidence),
        badge=_HOLDS[None if missing else evidence.holds],
        note=evidence.gap or ("the reason is not given" if missing else standing),
    )


def limit_text(evidence: Evidence) -> str:
    """The limit with its bound as a person reads it: ``> 0.5`` of a ratio gives "> 50 %"."""
    if evidence.bound is None:
        return evidence.limit
    sign = evidence.limit.split(maxsplit=1)[0] if evidence.limit else ""
    return f"{_SIGNS.get(sign, sign)} {with_unit(evidence.bound, evidence.unit)}".strip()


def vital_row(evidence: Evidence) -> Row:
    """A vital sign as shown: within its limit or over it. Where nothing was promised a number stands without a badge."""
    badge = _WITHIN[evidence.holds] if evidence.value is None or evidence.limit else _NO_LIMIT
    return replace(row(evidence), badge=badge, limit=limit_text(evidence).removeprefix("> "))


def setting_line(action: Action) -> str:
    """``max_num_seqs = 4``, or ``--max-num-seqs 4`` for a flag; without a value a flag alone, and no other word."""
    if not action.setting or (action.value is None and not action.setting.startswith("--")):
        return ""
    if action.value is None:
        return action.setting
    between = " " if action.setting.startswith("--") else " = "
    return f"{action.setting}{between}{action.value:.10g}"


def trust(confidence: float) -> str:
    """The word for a confidence (0-1)."""
    return next(word for bound, word in _TRUST if confidence > bound or bound == 0.0)


def _card(finding: Finding) -> Card:
    return Card(
        cause=finding.cause,
        title=cause_title(finding.cause),
        confidence=finding.confidence,
        trust=trust(finding.confidence),
        rows=tuple(row(e) for e in finding.evidence),
        advice=finding.action.text,
        setting=setting_line(finding.action),
        note=finding.note,
        source=BY_CAUSE[finding.cause].source if finding.cause in BY_CAUSE else "",
        effect=finding.action.effect,
        verify=finding.action.verify,
    )


def _check(result: CheckResult) -> Check:
    return Check(
        result.cause,
        cause_title(result.cause),
        STATES[result.state],
        result.reason,
        tuple(row(e) for e in result.evidence),
    )


def _stage(step: Step) -> Stage:
    present_states = {check.state for check in step.checks}
    worst = next((state for state in STATES if state in present_states), State.UNKNOWN)
    return Stage(step.step, step.title, STATES[worst], tuple(_check(check) for check in step.checks))


def _scope(scope: Mapping[str, object]) -> str:
    told = ((key, ", ".join(map(str, v)) if isinstance(v, list) else v) for key, v in scope.items())
    return " · ".join(f"{key} {value}" for key, value in told if value not in (None, ""))


def clock(t: float) -> str:
    """A moment (unix seconds) in UTC, as ``2026-10-29 14:03:22 UTC``."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(t: float, beside: float) -> str:
    """A moment (unix seconds) in UTC, its date left out where it is that of ``beside``: ``14:03:22 UTC``."""
    full = clock(t)
    return full[11:] if full[:10] == clock(beside)[:10] else full


def _window(window: Mapping[str, object]) -> str:
    parts = []
    start, end, pages = window.get("start"), window.get("end"), window.get("pages")
    if isinstance(start, (int, float)) and isinstance(end, (int, float)):
        parts.append(f"{with_unit(end - start, 'seconds')} ending {clock(end)}")
    if isinstance(pages, int):
        parts.append(f"{pages} pages")
    return " · ".join(parts)


BADGES: tuple[Badge, ...] = (*_HOLDS.values(), *_WITHIN.values(), *_KEPT.values())
WORDS: tuple[str, ...] = ("not known", "no data", *_BINDS.values(), *_FALLBACK.values(), *(word for _, word in _TRUST))
"""Words that are shown and stand in no other table: what a translation needs."""
