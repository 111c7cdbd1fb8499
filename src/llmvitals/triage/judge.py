"""One check against one set of readings: which limits hold, what state follows, how sure it is. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from llmvitals.gaps import GapKind
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.calibration import calibrated
from llmvitals.triage.expected import effect, verify
from llmvitals.triage.model import Check, Limit, Readings, Remedy
from llmvitals.triage.remedies import remedy
from llmvitals.triage.units import inside, with_unit
from llmvitals.triage.verdict import Action, Blind, CheckResult, Evidence, Finding, State

Results = Mapping[str, CheckResult]
"""How every check came out, by cause."""

OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONFIRMED, _CONTRADICTED, _UNSEEN = 0.01, 0.05, 0.02


def numbers(names: Iterable[str], readings: Readings) -> str:
    """The numbers behind a sentence, as `` (KV usage 97 %, requests waiting 21)``; unknown ones are left out."""
    told = [
        f"{inside(BY_ID[name].title)} {with_unit(value, BY_ID[name].unit)}"
        for name in names
        if (value := readings[name].value) is not None
    ]
    return f" ({', '.join(told)})" if told else ""


def bound_of(limit: Limit, settings: Settings) -> float:
    """The number a limit compares with: itself, or the setting that it names, times its factor."""
    if not isinstance(limit.bound, str):
        return float(limit.bound) * limit.factor
    value: object = settings
    for part in limit.bound.split("."):
        value = getattr(value, part)
    assert isinstance(value, int | float)
    return float(value) * limit.factor


def weigh(limit: Limit, readings: Readings, settings: Settings) -> Evidence:
    """A limit beside what was measured. ``holds`` is None where the number is absent for a reason other than no
    traffic.
    """
    reading, signal, bound = readings[limit.signal], BY_ID[limit.signal], bound_of(limit, settings)
    holds: bool | None
    if reading.value is not None:
        holds = OPS[limit.op](reading.value, bound)
    else:
        holds = False if reading.gap is not None and reading.gap.kind is GapKind.NO_TRAFFIC else None
    gap = f"{reading.gap.kind}: {reading.gap.why}" if reading.gap else ""
    return Evidence(
        limit.signal,
        signal.title,
        reading.value,
        signal.unit,
        f"{limit.op} {with_unit(bound, signal.unit)}",
        holds,
        gap,
        str(reading.standing),
        bound,
    )


def judge(check: Check, readings: Readings, settings: Settings) -> CheckResult:
    """The state of one check, with the evidence of the alternative that came closest."""
    if not check.when:
        return CheckResult(check.cause, State.NOT_APPLICABLE, (), f"needs {check.needs}")
    every = [tuple(weigh(limit, readings, settings) for limit in conjunction) for conjunction in check.when]
    # what this configuration cannot show is no alternative as long as another one can be decided
    tried = [rows for rows in every if not any(e.gap.startswith(GapKind.UNSUPPORTED) for e in rows)] or every
    best = max(
        tried,
        key=lambda rows: (all(e.holds is True for e in rows), all(e.holds is not False for e in rows), _met(rows)),
    )
    if all(e.holds is True for e in best):
        return _firing(check, best, readings, settings)
    failed = [e for e in best if e.holds is False]
    if failed:
        return CheckResult(check.cause, State.CLEAR, best, "; ".join(map(against, failed[:2])))
    unseen = [e for e in best if e.holds is None]
    unsupported = any(e.gap.startswith(GapKind.UNSUPPORTED) for e in unseen)
    state = State.NOT_APPLICABLE if unsupported else State.UNKNOWN
    return CheckResult(check.cause, state, best, "; ".join(f"{e.title}: {e.gap}" for e in unseen[:2]))


def _firing(check: Check, best: tuple[Evidence, ...], readings: Readings, settings: Settings) -> CheckResult:
    """A check whose limits hold, with what else is known of it; unless that rules it out, or should and is missing."""
    against = tuple(weigh(limit, readings, settings) for limit in check.unless)
    ruled = [e for e in against if e.holds]
    if ruled:
        return CheckResult(check.cause, State.CLEAR, best + against, "; ".join(map(_rules_out, ruled)))
    lost = [e for e in against if e.gap.startswith(GapKind.MISSING)]
    if lost:
        return CheckResult(check.cause, State.UNKNOWN, best + against, "; ".join(f"{e.title}: {e.gap}" for e in lost))
    proving = tuple(weigh(limit, readings, settings) for limit in (check.proof.limits if check.proof else ()))
    weighed = ((limit, weigh(limit, readings, settings)) for limit in check.confirms)
    confirming = tuple(e for limit, e in weighed if not limit.aside or (e.holds and e not in best))
    every = best + tuple(e for e in proving if e not in best) + confirming
    return CheckResult(check.cause, State.FIRING, every, check.title, len(confirming))


def _rules_out(e: Evidence) -> str:
    return f"{e.title} is {with_unit(e.value or 0.0, e.unit)}: that rules it out"


def proving(check: Check, result: CheckResult) -> tuple[Evidence, ...]:
    """The rows of a firing check that stand for its proof; none where it has no proof or does not fire."""
    if check.proof is None or result.state not in {State.FIRING, State.SHADOWED}:
        return ()
    wanted = {(limit.signal, limit.op) for limit in check.proof.limits}
    return tuple(e for e in result.evidence if (e.signal, e.limit.split()[0]) in wanted)


def proved(check: Check, result: CheckResult) -> bool:
    """Whether another source makes a firing check certain."""
    rows = proving(check, result)
    return bool(rows) and all(e.holds for e in rows)


def explained(check: Check, result: CheckResult) -> tuple[str, ...]:
    """The causes that are only consequences of a firing check."""
    return check.explains + (check.proof.explains if check.proof and proved(check, result) else ())


def _met(rows: tuple[Evidence, ...]) -> float:
    return sum(e.holds is True for e in rows) / len(rows)


def against(e: Evidence) -> str:
    return f"{e.title} is {with_unit(e.value, e.unit)}, not {e.limit}" if e.value is not None else f"{e.title}: {e.gap}"


def confidence(check: Check, result: CheckResult) -> float:
    """How often such a verdict is right in the lab: what ``calibrated`` makes of the belief in a firing check."""
    return calibrated(belief(check, result))


def belief(check: Check, result: CheckResult) -> float:
    """The check's own confidence, moved by what confirms it: up where it holds, down where it does not or is unseen."""
    rest = result.evidence[len(result.evidence) - result.confirming :]
    moved = sum(_CONFIRMED if e.holds else _UNSEEN * -1 if e.holds is None else -_CONTRADICTED for e in rest)
    base = check.proof.confidence if check.proof and proved(check, result) else check.confidence
    return round(min(0.98, max(0.05, base + moved)), 2)


def finding(check: Check, result: CheckResult, readings: Readings, settings: Settings, *, note: str = "") -> Finding:
    """A firing check as a finding: confidence, evidence, and the action with its computed number."""
    change = check.remedy
    value = change.value(readings, settings) if change.value else None
    known = check.proof.note if check.proof and proved(check, result) else check.note
    return Finding(
        check.cause,
        confidence(check, result),
        result.evidence,
        Action(change.text, change.setting, value, effect(check.cause), verify(check.cause, result.evidence, settings)),
        f"runbooks/{check.cause}.md",
        " ".join(x for x in (note, _words(check, readings), _already(change, value, readings), known) if x),
    )


def _already(change: Remedy, value: float | None, readings: Readings) -> str:
    """That the setting alone changes nothing, where what it limits is no more than the value."""
    if change.already is None or value is None:
        return ""
    signal, told = change.already
    now = readings[signal].value
    return told if now is not None and now <= value else ""


def _words(check: Check, readings: Readings) -> str:
    """What stands behind its numbers, as a sentence: which error, which link."""
    told = [note for name in check.tells if readings[name].value and (note := readings[name].note)]
    return f"{'; '.join(told)}." if told else ""


WHOLE: Mapping[str, str] = {
    "llm_gpu_*": "the GPUs",
    "llm_host_*": "the host (processes, sockets, restarts)",
    "llm_gateway_*": "the gateway",
    "llm_span_*": "requests one by one (traces)",
    "llm_probe_*": "what a request from outside waits (probes)",
}
"""What is not joined at all, by the series of its gap: one of its signals would pass for all that is missing."""


def _extra(spot: Blind) -> bool:
    """Whether it is telemetry that few have, and that only sharpens what a page says."""
    return spot.series in {"llm_span_*", "llm_probe_*"}


def blind_spots(
    checks: tuple[Check, ...],
    results: Results,
    readings: Readings,
    hurt: tuple[Limit, ...] = (),
) -> tuple[Blind, ...]:
    """What the walk could not see: absent inputs of every alternative of a check and of what says who is ``hurt``, and causes
    that no page of this kind shows. Telemetry that is not joined at all is told once.
    """
    found: dict[str, Blind] = {}

    def look(signal: str) -> None:
        gap = readings[signal].gap
        if gap is not None and gap.kind is not GapKind.NO_TRAFFIC:
            series = gap.series or f"llm_{signal}"
            key = series if series.endswith("*") else signal
            what = WHOLE.get(series, BY_ID[signal].title)
            found.setdefault(key, Blind(what, f"{gap.kind}: {gap.why}", series))

    for check in checks:
        evidence = (e.signal for e in results[check.cause].evidence)
        for signal in dict.fromkeys((*evidence, *(limit.signal for rows in check.when for limit in rows))):
            look(signal)
        if not check.when:
            found.setdefault(check.cause, Blind(check.title, f"needs {check.needs}", check.needs_series))
    for limit in hurt:
        look(limit.signal)
    once: dict[tuple[str, str], Blind] = {}
    for spot in found.values():
        once.setdefault((spot.what, spot.why), spot)  # a number and its share bear one title
    # what the source could show comes before what another source would, that before what is not in use, and extras at last
    return tuple(
        sorted(
            (replace(spot, remedy=remedy(spot.series, spot.why)) for spot in once.values()),
            key=lambda b: (b.why.startswith(GapKind.UNSUPPORTED), b.why.startswith("needs"), _extra(b)),
        )
    )
