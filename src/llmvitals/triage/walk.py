"""The walk: one window in, one verdict out. Pure, and the same for the command line, the exporter, the app and the
tests.

All checks are judged in the order of the steps; ONE of those that fire leads, by the order of the table, unless an
earlier one explains it. When the whole window names nothing, its last third is asked too where users are hurt, and then
its newest pages where there can be no doubt that they are: loads change, and nobody wants to wait for a window to fill.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.settings import DEFAULT_CLASS, Settings
from llmvitals.signals.catalogue import compute, computed
from llmvitals.signals.context import Context
from llmvitals.signals.reading import Reading
from llmvitals.signals.service import servers, serving, silent
from llmvitals.triage import flags
from llmvitals.triage.binding import binding
from llmvitals.triage.changes import Standpoint, changes, signals_of
from llmvitals.triage.checks import BY_CAUSE, CHECKS, HURT
from llmvitals.triage.classes import classes
from llmvitals.triage.failing import FEW, Failing, failing
from llmvitals.triage.judge import Results, blind_spots, explained, finding, judge, numbers, proved, proving, weigh
from llmvitals.triage.lookalikes import lookalikes
from llmvitals.triage.model import STEPS, Check, Readings
from llmvitals.triage.units import with_unit
from llmvitals.triage.unread import unread
from llmvitals.triage.verdict import CheckResult, Finding, Outcome, State, Step, Verdict

NEWEST_PAGES, STRICTER = 3, 0.1
"""The newest pages that may speak for themselves, and how much less chance they are allowed."""

LATE_SECONDS = 30.0
"""A last third shorter than this says nothing: on recordings, shorter windows named wrong causes."""

JITTER_SECONDS = 0.5
"""Pages arrive that much earlier or later than they were asked for; a window is not too short for it."""

PER_ENGINE = ("--max-num-seqs", "--max-num-queued-reqs")
"""Settings, as checks name them, that each engine of a service is given by itself, and whose values are sums over all."""


def diagnose(window: Window, settings: Settings, *, scope: dict[str, Any] | None = None) -> Verdict:
    """The verdict for one scope (one target, one model)."""
    verdict, _ = diagnose_with(window, settings, scope=scope)
    return verdict


def diagnose_with(
    window: Window, settings: Settings, *, scope: dict[str, Any] | None = None
) -> tuple[Verdict, dict[str, Reading]]:
    """The verdict and every signal behind it."""
    context = Context(window, settings)
    settings, readings = context.settings, computed(context)
    whole = replace(_walk(window, readings, settings, scope or {}), classes=classes(context))
    settled = whole.outcome not in {Outcome.UNDETERMINED, Outcome.HEALTHY}
    undecided = any(_open(CHECKS, states(whole), readings, settings))
    if settled or undecided or _too_short(readings, settings):
        return whole, readings
    for part, own in _parts(window, readings, settings):
        found = _walk(part, compute(part, own), own, scope or {})
        if found.outcome is Outcome.CAUSE and found.leading is not None:
            note = f"Holds for the last {part.seconds:.0f} s; the whole window has several phases."
            leading = replace(found.leading, note=f"{note} {found.leading.note}".strip())
            sentence = f"{found.sentence} {note}"
            hurt = whole.hurt or found.hurt
            return replace(
                found, leading=leading, window=whole.window, sentence=sentence, classes=whole.classes, hurt=hurt
            ), readings
    return whole, readings


def _parts(window: Window, readings: Readings, settings: Settings) -> Iterator[tuple[Window, Settings]]:
    """What of the window is asked by itself, each with the settings that it is held to.

    So few pages are enough only beside a whole window, and only where chance is ruled out by a stricter test: one window
    of many is always the unluckiest.
    """
    if _hurt(readings, settings) and window.seconds / 3 >= LATE_SECONDS:
        yield window.slice(window.end - window.seconds / 3, window.end), settings
    t = settings.thresholds
    moments = [s.t for s in window.snapshots][-NEWEST_PAGES:]
    if len(moments) == NEWEST_PAGES and moments[-1] - moments[0] >= t.min_seconds - JITTER_SECONDS:
        strict = msgspec.structs.replace(
            settings,
            thresholds=msgspec.structs.replace(t, min_pages=NEWEST_PAGES, harm_p=t.harm_p * STRICTER),
        )
        newest = window.slice(moments[0], moments[-1])
        if _hurt(compute(newest, strict, only={limit.signal for limit in HURT}), strict):
            yield newest, strict


def diagnose_readings(readings: Readings, settings: Settings, *, scope: dict[str, Any] | None = None) -> Verdict:
    """The verdict on signals alone, where no pages stand behind them (a public report's figures): one for each signal
    of the catalogue, a number or a gap. Without pages there is no last third to ask.
    """
    window = Window.of((), start=0.0, end=readings["window_seconds"].value or 0.0)
    return _walk(window, dict(readings), settings, scope or {})


def _too_short(readings: Readings, settings: Settings) -> bool:
    pages, seconds = readings["pages"].value or 0.0, readings["window_seconds"].value or 0.0
    return pages < settings.thresholds.min_pages or seconds < settings.thresholds.min_seconds - JITTER_SECONDS


def _hurt(readings: Readings, settings: Settings) -> bool:
    return any(weigh(limit, readings, settings).holds for limit in HURT)


def _harm_unknown(readings: Readings) -> bool:
    """Whether a promise cannot be checked because its family should be on the page and is not, or because requests wait
    on an engine that never says for how long.
    """
    gaps = [readings[name].gap for name in ("ttft_harm_p", "tpot_harm_p")]
    if any(gap is not None and gap.kind is GapKind.MISSING for gap in gaps):
        return True
    return (
        (readings["waiting_share_ratio"].value or 0.0) > 0
        and gaps[0] is not None
        and gaps[0].kind is GapKind.UNSUPPORTED
    )


@dataclass(frozen=True, slots=True)
class _Concluded:
    """What follows from all checks together. ``results``: with those that others explain; ``doubt``: why nothing leads."""

    outcome: Outcome
    leading: Finding | None
    findings: tuple[Finding, ...]
    results: Results
    failed: Failing | None
    doubt: str


def _walk(window: Window, readings: dict[str, Reading], settings: Settings, scope: dict[str, Any]) -> Verdict:
    judged = {check.cause: judge(check, readings, settings) for check in CHECKS}
    answering, engines, scrapes = len(serving(window)), flags.kinds(window), len(window.snapshots)

    def named(found: Finding) -> Finding:
        return _for_each(flags.named(found, engines, readings), answering)

    def again(other: Readings, moved: Collection[str]) -> tuple[Outcome, str]:
        """The outcome and the leading cause where ``moved`` signals read otherwise."""
        anew = {c.cause: judge(c, other, settings) for c in CHECKS if not signals_of(c).isdisjoint(moved)}
        then = _conclude(judged | anew, other, settings, scrapes=scrapes)
        return then.outcome, then.leading.cause if then.leading else ""

    told = _conclude(judged, readings, settings, scrapes=scrapes, named=named)
    outcome, leading, results = told.outcome, told.leading, told.results
    contributing = tuple(f for f in told.findings if f is not leading and BY_CAUSE[f.cause].outcome is Outcome.CAUSE)
    sentence = told.doubt or _sentence(outcome, leading, contributing, readings, settings, told.failed)
    silent_so_far = outcome is Outcome.NO_TRAFFIC or (leading is None and _too_short(readings, settings))
    now = Standpoint(outcome, leading.cause if leading else "", results, readings, settings)
    return Verdict(
        outcome,
        f"{sentence}{_worst_class(readings, settings)}{_upstreams(readings)}{_out_of_memory(readings, settings)}"
        f"{_not_serving(window)}{unread(window, scope)}",
        leading,
        contributing,
        tuple(Step(i, t, tuple(results[c.cause] for c in CHECKS if c.step == i)) for i, t in enumerate(STEPS)),
        blind_spots(CHECKS, results, readings, HURT),
        {
            "start": window.start,
            "end": window.end,
            "seconds": round(window.seconds, 3),
            "pages": len(window.snapshots),
            "readable": int(readings["pages"].value or 0),
        },
        dict(scope),
        binding(readings, settings),
        hurt=_hurt(readings, settings),
        changes=() if silent_so_far else changes(now, again),
        lookalikes=() if silent_so_far else lookalikes(now, {f.cause for f in contributing}),
    )


def _same(found: Finding) -> Finding:
    return found


def _conclude(
    judged: Results,
    readings: Readings,
    settings: Settings,
    *,
    scrapes: int,
    named: Callable[[Finding], Finding] = _same,
) -> _Concluded:
    """The outcome of all checks together: which of those that fire are explained by others, and which of the rest leads."""
    results = dict(judged)
    firing = [check for check in CHECKS if results[check.cause].state is State.FIRING]
    away = {check.cause: explained(check, results[check.cause]) for check in firing}
    shadowed = {cause for causes in away.values() for cause in causes}
    # a check that is itself explained away explains nothing
    shadowed = {c for check in firing if check.cause not in shadowed for c in away[check.cause]}
    for check in firing:
        if check.cause in shadowed:
            by = next(o.cause for o in firing if check.cause in away[o.cause] and o.cause not in shadowed)
            results[check.cause] = replace(results[check.cause], state=State.SHADOWED, reason=f"explained by {by}")
    findings = tuple(
        named(finding(check, results[check.cause], readings, settings))
        for check in firing
        if check.cause not in shadowed
    )
    failed = failing(readings, settings)
    outcome, leading = _outcome(findings, results, readings, settings, failed, scrapes=scrapes)
    doubt = _doubt(leading, results, readings, settings) if leading is not None else ""
    if outcome is Outcome.SHEDDING:
        doubt = _not_shedding(findings, results, readings, settings)
    if doubt:
        outcome, leading = Outcome.UNDETERMINED, None
    return _Concluded(outcome, leading, findings, results, failed, doubt)


def _for_each(found: Finding, engines: int) -> Finding:
    """A value that is a sum over the engines of a service, as each of them is to be given it."""
    action = found.action
    if engines < 2 or action.value is None or BY_CAUSE[found.cause].remedy.setting not in PER_ENGINE:
        return found
    part = float(max(1, round(action.value / engines)))
    return replace(
        found, action=replace(action, text=f"{action.text} The value is for each of the {engines} engines.", value=part)
    )


def _out_of_memory(readings: Readings, settings: Settings) -> str:
    """That the kernel ended the container at its own memory limit: no cause of the table, and nothing to keep silent of."""
    ended, host = readings["oom_restarts"].value or 0.0, readings["host_memory_ratio"].value or 0.0
    if ended < 1 or host < settings.thresholds.resource_limit:
        return ""
    share = with_unit(host, "ratio")
    return f" The container was ended for want of memory, at {share} of its limit: the host's memory, not the card's."


def _worst_class(readings: Readings, settings: Settings) -> str:
    """Which class of requests breaks its promise for sure, where there is more than the one of all others."""
    worst, chance = readings["slo_worst_goodput_ratio"], readings["slo_harm_p"].value
    if worst.value is None or chance is None or chance >= settings.thresholds.harm_p:
        return ""
    name = worst.note.partition(",")[0]
    if name == f"class {DEFAULT_CLASS}":
        return ""
    return f" Worst off is {name}: {with_unit(worst.value, 'ratio')} of its requests met their promise."


def _upstreams(readings: Readings) -> str:
    """Which upstreams the gateway sends nothing to: their load is the others'."""
    told = readings["upstreams_down"].note
    return f" The gateway sends nothing to {told}." if told else ""


def _not_serving(window: Window) -> str:
    """The engines of a service that do not answer, in words; nothing about a server by itself."""
    names, away = servers(window), silent(window)
    if not away:
        return ""
    verb = "does" if len(away) == 1 else "do"
    return f" {len(away)} of {len(names)} engines {verb} not answer: {', '.join(away)}."


def _outcome(
    findings: tuple[Finding, ...],
    results: dict[str, CheckResult],
    readings: Readings,
    settings: Settings,
    failed: Failing | None,
    *,
    scrapes: int,
) -> tuple[Outcome, Finding | None]:
    named = [(BY_CAUSE[f.cause], f) for f in findings]
    enough = scrapes >= settings.thresholds.min_pages and readings["pages"].known and readings["pages"].value != 0
    for check, found in named:
        if check.at_once or (check.by_scrapes and enough and _too_short(readings, settings)):
            return check.outcome, found
    if _too_short(readings, settings):
        return Outcome.UNDETERMINED, None
    too_many = failed is not None and failed.too_many
    if readings["activity"].value == 0 and not too_many and not any(check.even_idle for check, _ in named):
        return Outcome.NO_TRAFFIC, None
    for check, found in named:
        if check.outcome is not Outcome.CAUSE:
            return check.outcome, None
        may_lead = check.leads or proved(check, results[check.cause])
        if may_lead and not _mentioned_only(check, readings, settings):
            return Outcome.CAUSE, found
    if too_many or readings["activity"].value is None or _hurt(readings, settings) or _harm_unknown(readings):
        return Outcome.UNDETERMINED, None
    return Outcome.HEALTHY, None


def _doubt(leading: Finding, results: dict[str, CheckResult], readings: Readings, settings: Settings) -> str:
    """Why a finding must not lead: a check before it, or one that explains it, would take its place if a family were not
    missing from the page.

    What hurts nobody stands by itself, unless that check would explain it. Step 0 asks whether numbers are there at all,
    and is not doubted for want of them.
    """
    place = [check.cause for check in CHECKS].index(leading.cause)
    before = tuple(c for i, c in enumerate(CHECKS) if i < place or leading.cause in _may_explain(c))
    unhurt = not _hurt(readings, settings) and not _harm_unknown(readings)
    for check, why in _open(before, results, readings, settings):
        if BY_CAUSE[leading.cause].step == 0 or (unhurt and leading.cause not in _may_explain(check)):
            continue
        return f"Undetermined: {leading.cause} shows, but {check.cause} cannot be ruled out: {why}."
    return ""


def _not_shedding(
    findings: tuple[Finding, ...], results: dict[str, CheckResult], readings: Readings, settings: Settings
) -> str:
    """Why refused load must not be called well refused: what would explain it is undecided for want of a family."""
    refusing = [f.cause for f in findings if BY_CAUSE[f.cause].outcome is Outcome.SHEDDING]
    others = tuple(c for c in CHECKS if set(refusing) & set(_may_explain(c)))
    for check, why in _open(others, results, readings, settings):
        return f"Undetermined: load is refused, but {check.cause} cannot be ruled out: {why}."
    return ""


def _open(
    checks: tuple[Check, ...], results: dict[str, CheckResult], readings: Readings, settings: Settings
) -> Iterator[tuple[Check, str]]:
    """Checks that may lead and are undecided only because a family is missing, with what is missing.

    What a version or a configuration cannot show (UNSUPPORTED) opens no question, nor does a window that is too short.
    """
    blind = _harm_unknown(readings)
    for check in checks:
        found = results[check.cause]
        may_lead = check.leads or check.outcome is not Outcome.CAUSE or _provable(check, readings)
        gaps = [e.gap for e in found.evidence if e.holds is None and e.gap.startswith(GapKind.MISSING)]
        if (
            (found.state is State.UNKNOWN or _unproved(check, found))
            and may_lead
            and gaps
            and (blind or not _mentioned_only(check, readings, settings))
        ):
            yield check, gaps[0].removeprefix(f"{GapKind.MISSING}: ")


def _may_explain(check: Check) -> tuple[str, ...]:
    """The causes that a check explains where it holds, or would explain if it were proved."""
    return check.explains + (check.proof.explains if check.proof else ())


def _provable(check: Check, readings: Readings) -> bool:
    """Whether a check has a proof whose source is there."""
    gaps = [readings[limit.signal].gap for limit in check.proof.limits] if check.proof else []
    return bool(gaps) and not any(gap is not None and gap.kind is GapKind.UNSUPPORTED for gap in gaps)


def _unproved(check: Check, found: CheckResult) -> bool:
    """Whether a check fires whose proof is undecided: proved, it could lead, or explain what leads now."""
    rows = proving(check, found) if found.state is State.FIRING else ()
    return bool(rows) and not proved(check, found) and all(e.holds is not False for e in rows)


def _mentioned_only(check: Check, readings: Readings, settings: Settings) -> bool:
    """What hurts nobody is mentioned, not led with, unless it is a hazard by its nature."""
    return not check.hazard and not _hurt(readings, settings)


def _sentence(
    outcome: Outcome,
    leading: Finding | None,
    contributing: tuple[Finding, ...],
    readings: Readings,
    settings: Settings,
    failed: Failing | None,
) -> str:
    if outcome is Outcome.CAUSE and leading is not None:
        action, check = leading.action, BY_CAUSE[leading.cause]
        change = f" Set {action.setting} to {action.value:,.10g}." if action.value is not None else ""
        return f"{check.title}{_cited(check, readings)}.{change}"
    if outcome is Outcome.SHEDDING:
        told = (readings[name].value or 0.0 for name in ("rejection_ratio", "refused_call_ratio"))
        share = with_unit(max(told), "ratio")
        return f"Load is refused ({share} of the offered requests); what is admitted is served and the queue stays bounded."
    if outcome is Outcome.HEALTHY:
        also = f" Worth a look: {', '.join(f.cause for f in contributing)}." if contributing else ""
        return f"Nothing is wrong: no SLO is broken.{_judged_from(readings)}{_amiss(readings, failed)}{also}"
    if outcome is Outcome.NO_TRAFFIC:
        return "No traffic: no request reached the engine in this window."
    if (readings["pages"].value or 0) < 1:
        return "Undetermined: no page could be read, and none was readable before."
    t = settings.thresholds
    if _too_short(readings, settings):
        return f"Undetermined: fewer than {t.min_pages} readable pages or {t.min_seconds:.0f} s; watch longer."
    if failed is not None and failed.too_many:
        return f"Undetermined: {_share(failed)}, but no check explains it; see what the walk is blind to."
    if not _hurt(readings, settings):
        return "Undetermined: whether the SLO is kept cannot be told; see what the walk is blind to."
    return "Undetermined: users are hurt, but no check explains it; see what the walk is blind to."


def _judged_from(readings: Readings) -> str:
    """What stands in for first-token times, where the engine has none."""
    note = readings["ttft_harm_p"].note
    return f" First tokens are judged {note}." if note else ""


def _share(failed: Failing) -> str:
    return f"{with_unit(failed.share, 'ratio')} of {failed.what}"


def _amiss(readings: Readings, failed: Failing | None) -> str:
    """What went wrong without breaking an SLO, where it is more than a trickle: calls that failed, and what clients got
    wrong themselves, which no engine counter shows.
    """
    told = [_share(failed)] if failed is not None else []
    wrong = readings["client_error_ratio"].value
    if wrong is not None and wrong >= FEW:
        told.append(f"{with_unit(wrong, 'ratio')} of the HTTP answers were 4xx: requests that clients sent wrongly")
    return "".join(f" {sentence}." for sentence in told)


def _cited(check: Check, readings: Readings) -> str:
    """The numbers behind a title: ``(KV usage 97 %, requests waiting 21)``.

    Unknown ones are left out, and zeros too unless a small number is what the check looks for.
    """
    small = {limit.signal for rows in check.when for limit in rows if limit.op.startswith("<")}
    return numbers((name for name in check.cites if readings[name].value or name in small), readings)


def states(verdict: Verdict) -> dict[str, CheckResult]:
    """Every check of a verdict by cause."""
    return {check.cause: check for step in verdict.steps for check in step.checks}
