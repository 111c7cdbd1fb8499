"""The generated parts of docs/alerts.md: the policy, the budgets that each engine can be judged by, and what was measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import median
from typing import Any

from llmvitals.alerts.budgets import BUDGETS
from llmvitals.alerts.firing import Episode, rules_of, wait_of
from llmvitals.alerts.model import Alert
from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.silences import SILENCES
from llmvitals.backtest.healthy import MONDAY, Noise
from llmvitals.backtest.incidents import Incident
from llmvitals.backtest.rating import IN_TIME, MOST, Answer, harmless, passed, rates, severe, well
from llmvitals.backtest.words import when
from llmvitals.lab.report import table
from llmvitals.lab.sheets import NOTHING, Sheet
from llmvitals.lab.stats import Median, Share
from llmvitals.schema import Origin, origin_of
from llmvitals.settings import Settings
from llmvitals.telemetry.mapping import EngineMap, How
from llmvitals.telemetry.registry import engines

POLICY, ENGINES = "alerts", "error budgets"
"""Parts that follow from the code, by the name in their marks."""

LAB, NOISE = "incidents", "noise"
"""Parts that are measured, by the name in their marks."""

BLIND = "telemetry-broken"
"""The cause that hurts nobody, and wakes somebody all the same: it makes every other alert blind."""

NAMED = 3
"""Alerts that silence others together are told by name up to so many; the one longer list is that of all pages."""


def parts(settings: Settings | None = None) -> dict[str, str]:
    """The parts that follow from the code alone."""
    given = settings or Settings()
    return {POLICY: f"\n{table(_policy(given))}\n", ENGINES: f"\n{table(_engines(engines()))}\n"}


def markdown(sheets: Iterable[Sheet], command: str) -> str:
    """A measured part; ``command`` makes the same numbers again."""
    return "\n".join([f"`{command}`\n", *map(_section, sheets)])


def _section(sheet: Sheet) -> str:
    note = f"{sheet.note}\n\n" if sheet.note else ""
    return f"### {sheet.title}\n{note}{table(sheet) if sheet.rows else ''}"


def _policy(settings: Settings) -> Sheet:
    head = ("alert", "urgency", "when", "for", "kept", "runbook", "silenced by")
    return Sheet("Policy", head, tuple(_alert(alert, settings) for alert in ALERTS))


def _alert(alert: Alert, settings: Settings) -> tuple[str, ...]:
    waits = dict.fromkeys(wait_of(alert, row) for row in rules_of(alert, settings))
    return (
        f"`{alert.name}`",
        alert.severity.value,
        when(alert, settings),
        ", ".join(wait for wait in waits if wait not in ("", "0m")) or "at once",
        alert.keep or NOTHING,
        f"[{alert.runbook}](../runbooks/{alert.runbook}.md)",
        _silenced(alert),
    )


def _silenced(alert: Alert) -> str:
    """By whom, with the long lists told in words."""
    told: dict[str, None] = {}
    for silence in SILENCES:
        if alert.name in silence.silenced:
            many = len(silence.of) > NAMED
            told |= dict.fromkeys(("any page on its server",) if many else (f"`{name}`" for name in silence.of))
    return ", ".join(told) or NOTHING


def _engines(known: Sequence[EngineMap]) -> Sheet:
    judged = [budget for budget in BUDGETS if origin_of(budget.needs) is Origin.ENGINE]
    rows = tuple(
        (engine.title, *(_support(engine, budget.needs) for budget in judged))
        for engine in known
        if engine.origin is Origin.ENGINE
    )
    return Sheet("Engines", ("engine", *(budget.title for budget in judged)), rows)


def _support(engine: EngineMap, family: str) -> str:
    """Whether an engine's page has what a budget needs, since when, and else why not."""
    found = next((one for one in engine.support if one.family == family), None)
    if found is None or found.how is How.UNSUPPORTED:
        return f"no: {found.note if found else 'its page has nothing that says it'}"
    return ", ".join(part for part in ("yes", found.versions, found.note) if part)


# -- incidents ----------------------------------------------------------------------------------------------------------
def lab_sheets(incidents: Sequence[Incident]) -> tuple[Sheet, ...]:
    """What came of the lab's incidents."""
    answers = severe(incidents)
    return (
        Sheet("Incidents", ("measure", "value"), tuple(_summary(incidents, answers))),
        Sheet(
            "Severe incidents",
            ("scenario", "plays", "in time", "median", "longest", "named right", "most notifications"),
            tuple(_by_scenario(answers)),
            "From the first promise that was broken to clients to the first page, in seconds.",
        ),
        Sheet(
            "Alerts",
            ("alert", "urgency", "precision", "recall", "delay"),
            tuple(
                (f"`{r.alert}`", r.severity, _share(r.right), _share(r.found), _seconds(r.delay))
                for r in rates(incidents)
            ),
            "Of the plays in which it fired, where it was right; of those in which it should have, where it fired; median "
            "seconds from the onset, its own wait in it.",
        ),
        *_failures(incidents, answers),
    )


def _summary(incidents: Sequence[Incident], answers: Sequence[Answer]) -> Iterator[tuple[str, str]]:
    counted = [one for one in incidents if not one.why]
    yield "plays watched, counted", f"{len(incidents)}, {len(counted)}"
    yield "severe, hurting clients to the end", str(len(answers))
    yield f"- somebody woken within {IN_TIME / 60:.0f} minutes", _share(Share.of(one.in_time for one in answers))
    woken = [one.delay for one in answers if one.delay is not None]
    yield "- seconds from the first broken promise: median, longest", _times(woken)
    yield "- seconds from the onset: median, longest", _times([one.after for one in answers if one.after is not None])
    yield "- a cause that is there named in the page", _share(Share.of(one.named for one in answers))
    yield f"- at most {MOST} notifications", _share(Share.of(one.few for one in answers))
    yield "severe, over by itself", str(len(passed(incidents)))
    quiet = harmless(incidents)
    yield "severe, hurting nobody", str(len(quiet))
    blind = [one for one in quiet if BLIND in one.injected]
    yield "- telemetry is what is broken, and somebody woken", _share(Share.of(bool(one.pages) for one in blind))
    rest = [one for one in quiet if one not in blind]
    yield "- the others: nobody woken", _share(Share.of(not one.pages for one in rest))
    yield (
        f"- the others: a ticket within {IN_TIME / 60:.0f} minutes",
        _share(Share.of(any(sent.after <= IN_TIME for sent in one.sent) for one in rest)),
    )
    fine = well(incidents)
    yield "nothing wrong, look-alikes among them: nobody woken", _share(Share.of(not one.pages for one in fine))
    yield "- nobody told anything", _share(Share.of(not one.sent for one in fine))


def _by_scenario(answers: Sequence[Answer]) -> Iterator[tuple[str, ...]]:
    for name, group in groupby(answers, key=lambda one: one.incident.scenario):
        several = list(group)
        delays = [one.delay if one.delay is not None else math.inf for one in several]
        yield (
            name,
            str(len(several)),
            _hits(Share.of(one.in_time for one in several)),
            _number(median(delays)),
            _number(max(delays)),
            _hits(Share.of(one.named for one in several)),
            str(max(one.notifications for one in several)),
        )


def _failures(incidents: Sequence[Incident], answers: Sequence[Answer]) -> Iterator[Sheet]:
    """What is not as it should be, play by play."""
    rows = [
        (one.incident.scenario, str(one.incident.number), what)
        for one in answers
        for what, fine in (
            ("nobody woken" if one.delay is None else f"woken after {one.delay:.0f} s", one.in_time),
            (f"the page names {one.leading or 'no cause'}", one.named or one.delay is None),
            (f"{one.notifications} notifications", one.few),
        )
        if not fine
    ]
    rows += [
        (one.scenario, str(one.number), f"woken by {', '.join(one.pages[0].alerts)}")
        for one in (*harmless(incidents), *well(incidents))
        if one.pages and BLIND not in one.injected
    ]
    if rows:
        yield Sheet("Not as they should be", ("scenario", "play", "what"), tuple(rows))


# -- noise --------------------------------------------------------------------------------------------------------------
def noise_sheets(noise: Noise) -> tuple[Sheet, ...]:
    """What came of healthy days."""
    broken = sum(hour.broken for hour in noise.hours)
    # an hour of a few calls has no share to speak of
    worst = max((hour for hour in noise.hours if hour.calls >= 100), key=lambda hour: hour.broken / hour.calls)
    at = f"{worst.model}, {_clock(worst.start)}"
    told = Counter((one.receiver, one.kind) for one in noise.notices)
    rows = (
        ("days", str(noise.days)),
        ("calls of clients", f"{noise.calls:,}"),
        ("- that missed a promise", f"{broken:,} ({broken / noise.calls:.2%})"),
        ("- in the worst hour", f"{worst.broken / worst.calls:.1%} ({at})"),
        (f"evaluations of the rules, one every {noise.every:g} s for each server", f"{noise.evaluations:,}"),
        ("pages", str(len(noise.pages))),
        ("tickets that fired", str(len(noise.tickets))),
        ("notifications", str(sum(n for (_, kind), n in told.items() if kind != "resolved"))),
    )
    fired = tuple(_of_alert(name, [e for e in noise.episodes if e.alert == name]) for name in _names(noise))
    sheets = (Sheet("Healthy days", ("measure", "value"), rows),)
    return (*sheets, Sheet("What fired", ("alert", "urgency", "times", "servers", "first"), fired)) if fired else sheets


def _names(noise: Noise) -> Iterable[str]:
    return dict.fromkeys(one.alert for one in sorted(noise.episodes, key=lambda e: (e.severity, e.alert)))


def _of_alert(name: str, episodes: Sequence[Episode]) -> tuple[str, ...]:
    first = min(episodes, key=lambda one: one.fired)
    servers = ", ".join(sorted({one.instance or one.model for one in episodes}))
    return f"`{name}`", first.severity, str(len(episodes)), servers, _clock(first.fired - MONDAY)


def _clock(seconds: float) -> str:
    """A moment of the simulated days, to the minute."""
    days, minutes = divmod(int(seconds // 60), 24 * 60)
    return f"day {days + 1} at {minutes // 60}:{minutes % 60:02}"


def noise_document(noise: Noise) -> dict[str, Any]:
    """Healthy days for programs."""
    return {
        "days": noise.days,
        "seed": noise.seed,
        "every_seconds": noise.every,
        "calls": noise.calls,
        "missed": sum(hour.broken for hour in noise.hours),
        "evaluations": noise.evaluations,
        "hours": [asdict(hour) for hour in noise.hours],
        "fired": [asdict(one) for one in noise.episodes],
        "notifications": [{"t": one.t, "receiver": one.receiver, "kind": one.kind} for one in noise.notices],
    }


def lab_document(incidents: Sequence[Incident]) -> dict[str, Any]:
    """Incidents for programs; shares as hits of n, times in seconds."""
    return {
        "alerts": [
            {
                "alert": rate.alert,
                "severity": rate.severity,
                "precision": asdict(rate.right),
                "recall": asdict(rate.found),
                "delay": rate.delay.value,
            }
            for rate in rates(incidents)
        ],
        "plays": [
            asdict(one) | {"truth": sorted(one.truth), "injected": sorted(one.injected), "hurt": sorted(one.hurt)}
            for one in incidents
        ],
    }


def _share(share: Share) -> str:
    if not share.n:
        return NOTHING
    low, high = share.interval
    return f"{share.value:.2f} ({low:.2f}-{high:.2f}), {_hits(share)}"


def _hits(share: Share) -> str:
    return f"{share.hits} of {share.n}"


def _times(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.0f}, {max(seconds):.0f}" if seconds else NOTHING


def _seconds(found: Median) -> str:
    return NOTHING if found.value is None else _number(found.value)


def _number(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"{seconds:.0f}"
