"""Alerts from the policy's rows, the triage's table and the signals."""

from __future__ import annotations

from llmvitals.alerts import policy, text
from llmvitals.alerts.parts import Group, Rule, rule
from llmvitals.alerts.policy import CAUSES, HARMS, WHILE_WAITING, CauseAlert, HarmAlert, Severity, WhileWaiting
from llmvitals.alerts.watching import watching
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql_ast import Aggregate, Infix, Matcher, Number, Selector
from llmvitals.triage.checks import BY_CAUSE


def alert_groups(settings: Settings) -> list[Group]:
    """The alerts: on the telemetry itself, on harm to users, on the causes, on what only matters while work waits."""
    return [
        {"name": "llmvitals-telemetry", "rules": watching(settings)},
        {"name": "llmvitals-harm", "rules": [_harm(row, settings) for row in HARMS]},
        {"name": "llmvitals-causes", "rules": [_cause(row, settings) for row in CAUSES]},
        {"name": "llmvitals-while-waiting", "rules": [_while_waiting(row, settings) for row in WHILE_WAITING]},
    ]


def alert_name(cause: str) -> str:
    """``preemption-thrash`` is ``LLMPreemptionThrash``."""
    return "LLM" + "".join(part.capitalize() for part in cause.split("-"))


def _cause(row: CauseAlert, settings: Settings) -> Rule:
    check = BY_CAUSE[row.cause]
    state = Selector(policy.CHECK_STATE, (Matcher("cause", (row.cause,)), Matcher("state", ("firing",))))
    well = Selector(policy.VERDICT, (Matcher("verdict", ("healthy",)),))
    firing = Infix("==", Aggregate("max", SCOPE, state), Number(1))
    healthy = Infix("==", Aggregate("max", SCOPE, well), Number(1))
    note = f" {check.note}" if check.note else ""
    return rule(
        alert_name(row.cause),
        Infix("unless", firing, healthy),  # what hurts nobody is mentioned by the verdict, and wakes nobody
        wait=row.wait,
        labels={"severity": row.severity.value, "cause": row.cause},
        summary=f"{check.title}: {text.scope()}",
        description=f"{text.numbers(row.evidence)} {check.remedy.text}{note}",
        runbook=row.cause,
        settings=settings,
    )


def _harm(row: HarmAlert, settings: Settings) -> Rule:
    breach = Aggregate("max", SCOPE, Selector(text.series_of(BY_ID[row.breach])))
    chance = Aggregate("max", SCOPE, Selector(text.series_of(BY_ID[row.chance])))
    limit = round(min(1.0, row.burn * (1 - settings.slo.objective)), 6)
    certain = Infix("<", chance, Number(settings.thresholds.harm_p))
    share = "{{ $value | humanizePercentage }}"
    cause = text.leading_cause("The triage names {{ . }}.", "The triage names no cause.")
    return rule(
        row.name,
        Infix("and", Infix(">=", breach, Number(limit)), certain),
        wait=row.wait,
        labels={"severity": Severity.PAGE.value},
        summary=f"{row.title}: {text.scope()}",
        description=f"At least {share} of the requests missed their threshold. {text.numbers(row.evidence)} {cause}",
        runbook=text.leading_cause("{{ . }}", "README"),
        settings=settings,
    )


def _while_waiting(row: WhileWaiting, settings: Settings) -> Rule:
    found = getattr(settings.thresholds, row.threshold)
    line = found if row.place is None else found[row.place]
    signal, waiting = BY_ID[row.signal], BY_ID["requests_waiting"]
    return rule(
        row.name,
        Infix(
            f"and on ({', '.join(signal.by)})",  # a GPU's series name no model
            Infix(">", Selector(text.series_of(waiting)), Number(0)),
            Infix(row.op, Selector(text.series_of(signal)), Number(line)),
        ),
        wait=row.wait,
        labels={"severity": Severity.TICKET.value},
        summary=f"{row.title}: {text.scope()}",
        description=f"{text.numbers((row.signal, waiting.id))}",
        runbook=row.runbook,
        settings=settings,
    )
