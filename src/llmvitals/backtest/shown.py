"""A replay's summary for people (tables) and for programs (one JSON document)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from llmvitals.alerts.model import PAGE
from llmvitals.backtest.summary import Blind, Incident, Summary
from llmvitals.lab.sheets import NOTHING, Sheet

MOST_ROWS = 20
"""Incidents and pages that a table lists; the JSON document has them all."""

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))


def moment(t: float) -> str:
    """A moment (unix seconds) in UTC, to the second."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def span(seconds: float | None) -> str:
    """A duration in its two largest units: ``2h 5m``."""
    if seconds is None:
        return NOTHING
    rest, words = round(seconds), []
    for size, unit in _UNITS:
        whole, rest = divmod(rest, int(size))
        if whole:
            words.append(f"{whole}{unit}")
    return " ".join(words[:2]) or "0s"


def sheets(found: Summary) -> Iterator[Sheet]:
    """What the command line draws; a part that has nothing to say is left out, but for the alerts."""
    yield Sheet("Replay", ("", ""), tuple(_whole(found)))
    if found.causes:
        causes = tuple((one.cause, f"{one.share:.1%}", str(one.scopes)) for one in found.causes)
        yield Sheet("Causes that led", ("cause", "of the time", "scopes"), causes)
    alerts = tuple(
        (one.alert, one.severity, str(one.episodes), span(one.seconds), ", ".join(one.leading) or NOTHING)
        for one in found.alerts
    )
    nothing = "" if alerts else "no alert would have fired"
    yield Sheet("Alerts", ("alert", "severity", "fired", "for", "leading cause"), alerts, nothing)
    yield Sheet(
        "Notifications",
        ("receiver", "sent", "per week"),
        tuple(
            (one.receiver, str(one.notices), NOTHING if one.per_week is None else f"{one.per_week:.1f}")
            for one in found.told
        ),
        "as the example Alertmanager groups, silences and repeats them",
    )
    if found.incidents:
        head = ("from", "lasted", "scope", "page after", "causes")
        rest = len(found.incidents) - MOST_ROWS
        note = f"the longest of them; {rest} more are in the JSON document (--json)" if rest > 0 else ""
        yield Sheet("Times in which users were hurt", head, tuple(map(_incident, _longest(found))), note)
    if found.unhurt:
        pages = tuple(
            (moment(one.fired), one.alert, _scope(one.instance, one.model), one.leading or NOTHING)
            for one in found.unhurt[:MOST_ROWS]
        )
        note = "what answers nobody measures nobody; the others woke somebody for nothing that was measured"
        yield Sheet("Pages while nobody was seen to be hurt", ("at", "alert", "scope", "leading cause"), pages, note)
    if found.blind:
        blind = tuple((*told, names) for told, names in _alike(found.blind).items())
        yield Sheet("Budgets that could not be judged", ("budget", "needs", "why", "scopes"), blind)


def _whole(found: Summary) -> Iterator[tuple[str, str]]:
    paged = len(found.delays)
    yield "from", moment(found.start)
    yield "to", f"{moment(found.end)} ({span(found.end - found.start)}, a verdict every {found.every:g} s)"
    yield "scopes", f"{found.scopes}, judged {found.verdicts} times in all"
    yield "times in which users were hurt", f"{len(found.incidents)}, of which {paged} paged somebody"
    if found.delays:
        yield "first hurt to page", f"median {span(found.median_delay)}, worst {span(found.delays[-1])}"
    yield "pages while nobody was seen to be hurt", str(len(found.unhurt))
    yield "not replayed", ", ".join(found.left_out) + " (on the watching itself)"


def _longest(found: Summary) -> list[Incident]:
    """The longest incidents, in order of time."""
    chosen = sorted(found.incidents, key=lambda one: one.start - one.end)[:MOST_ROWS]
    return sorted(chosen, key=lambda one: (one.start, one.instance, one.model))


def _incident(one: Incident) -> tuple[str, ...]:
    paged = "nobody was paged" if one.paged is None else span(one.paged)
    causes = ", ".join(one.causes) or NOTHING
    return moment(one.start), span(one.end - one.start), _scope(one.instance, one.model), paged, causes


def _scope(instance: str, model: str) -> str:
    return f"{instance} ({model})" if model else instance


def _alike(blind: tuple[Blind, ...]) -> dict[tuple[str, str, str], str]:
    """The scopes that lack the same for the same reason, together."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in blind:
        found.setdefault((one.budget, one.family, one.why), []).append(_scope(one.instance, one.model))
    return {key: ", ".join(names) for key, names in found.items()}


def document(found: Summary) -> dict[str, Any]:
    """The JSON document of ``llmvitals backtest --json``: times in unix seconds, durations in seconds, shares 0-1."""
    alerts = [asdict(one) | {"per_week": found.per_week(one.episodes)} for one in found.alerts]
    pages = sum(one.episodes for one in found.alerts if one.severity == PAGE)
    return {
        "from": found.start,
        "to": found.end,
        "every_seconds": found.every,
        "scopes": found.scopes,
        "verdicts": found.verdicts,
        "alerts": alerts,
        "pages_per_week": found.per_week(pages),
        "notifications": [asdict(one) for one in found.told],
        "causes": [asdict(one) for one in found.causes],
        "incidents": [asdict(one) for one in found.incidents],
        "delay_seconds": {"median": found.median_delay, "worst": found.delays[-1] if found.delays else None},
        "unpaged": sum(one.paged is None for one in found.incidents),
        "pages_without_hurt": [asdict(one) for one in found.unhurt],
        "not_replayed": list(found.left_out),
        "budgets_not_judged": [asdict(one) for one in found.blind],
    }
