"""Alerting rules from the table of alerts. An alert on an error budget has one rule for each row of the settings' burns, for each
row waits on its own; the label ``window`` tells them apart.
"""

from __future__ import annotations

from typing import Any

from llmvitals.alerts import watching
from llmvitals.alerts.budgets import BY_ID, Budget
from llmvitals.alerts.compile import expression
from llmvitals.alerts.conditions import Burns, Fires, Gone, parts_of
from llmvitals.alerts.firing import rules_of, wait_of
from llmvitals.alerts.model import PAGE, Alert
from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.text import Words
from llmvitals.settings import Burn, Settings
from llmvitals.signals.promql_ast import show


def alert_groups(settings: Settings, *, keep: bool = True) -> list[dict[str, Any]]:
    """Every alert, in its group. ``keep``: with ``keep_firing_for``, which Prometheus knows from 2.42 on."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for alert in ALERTS:
        rules = groups.setdefault(alert.group, [])
        rules += [_rule(alert, row, settings, keep=keep) for row in rules_of(alert, settings)]
    return [{"name": name, "rules": rules} for name, rules in groups.items() if rules]


def _rule(alert: Alert, row: Burn | None, settings: Settings, *, keep: bool) -> dict[str, Any]:
    labels = {"severity": alert.severity.value}
    labels |= {"cause": alert.cause} if alert.cause else {}
    labels |= {"window": row.long} if row else {}
    return {
        "alert": alert.name,
        "expr": show(expression(alert, settings, row)),
        "for": wait_of(alert, row),
        **({"keep_firing_for": alert.keep} if keep and alert.keep else {}),
        "labels": labels,
        "annotations": _annotations(alert, row, settings),
    }


def _annotations(alert: Alert, row: Burn | None, settings: Settings) -> dict[str, str]:
    words, own = Words(alert, settings), settings.alerts
    of_server = alert not in watching.ALERTS
    notes = {
        "summary": f"{alert.title}: {words.whose()}" if alert.by else alert.title,
        "description": _described(alert, row, words, settings),
        "runbook_url": words.runbook(alert.runbook),
    }
    if alert.severity is PAGE and not alert.cause and of_server:
        notes["cause_runbook_url"] = words.cause_runbook()
    if own.dashboard_url:
        notes["dashboard_url"] = words.address(own.dashboard_url, "var-") if of_server else own.dashboard_url
    if own.app_url and of_server:
        notes["app_url"] = words.address(own.app_url if "?" in own.app_url else f"{own.app_url.rstrip('/')}/")
    return notes


def _described(alert: Alert, row: Burn | None, words: Words, settings: Settings) -> str:
    """The sentences of a description: of a page first the cause that leads and what to set against it, since a pager shows few
    words; then what it means and its numbers; of a cause what to set.
    """
    of_page = alert.severity is PAGE and alert not in watching.ALERTS
    told = [words.leading() if of_page else "", alert.words]
    for part in parts_of(alert.when):
        if isinstance(part, Burns) and row is not None:
            told.append(_missed(BY_ID[part.budget], row, settings))
    told += [words.status()] if isinstance(alert.when, Gone) else []
    told += [words.numbers()] if alert.evidence else []
    set_to = words.set_to(alert.cause) if isinstance(alert.when, Fires) and not of_page else ""
    return " ".join(part for part in told if part) + set_to


def _missed(budget: Budget, row: Burn, settings: Settings) -> str:
    """How many missed, and, where all classes were promised the same, how many may."""
    share = f"{{{{ $value | humanizePercentage }}}} of the requests of the last {row.long} missed what was promised"
    may = "" if budget.objective else f"; {100 * (1 - settings.slo.objective):.4g}% may"
    return f"{share} ({budget.title}){may}."
