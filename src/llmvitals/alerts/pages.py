"""The generated part of each runbook: which alerts open it, and the expression that each of them asks, ready to be pasted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmvitals.alerts.compile import expression
from llmvitals.alerts.firing import rules_of, seconds_of_wait, wait_of
from llmvitals.alerts.model import PAGE, Alert, Severity
from llmvitals.alerts.policy import ALERTS
from llmvitals.settings import Burn, Settings
from llmvitals.signals.promql_ast import show

PART = "alert"
"""The mark of the generated part."""


@dataclass(frozen=True, slots=True)
class Language:
    """How a generated part is worded. ``folder``: where the pages of that language lie."""

    folder: str
    opens: str
    severities: Mapping[Severity, str]
    waits: str
    at_once: str
    keeps: str
    burns: str


ENGLISH = Language(
    "runbooks",
    "**Opened by**",
    {Severity.PAGE: "page", Severity.TICKET: "ticket"},
    "once it holds for {wait}",
    "at once",
    "kept for {keep} after it ended",
    "{burn:g} x the budget over {long} and {short}",
)
TURKISH = Language(
    "runbooks/tr",
    "**Açan alarm**",
    {Severity.PAGE: "çağrı (page)", Severity.TICKET: "bilet (ticket)"},
    "{wait} sürünce",
    "hemen",
    "bittikten sonra {keep} daha açık",
    "{long} ve {short} içinde bütçenin {burn:g} katı",
)


def slugs() -> tuple[str, ...]:
    """The pages that alerts open, in the order of the alerts."""
    return tuple(dict.fromkeys(row.runbook for row in ALERTS))


def paged() -> tuple[str, ...]:
    """Those that an alert opens which wakes somebody: they are there in every language."""
    return tuple(dict.fromkeys(row.runbook for row in ALERTS if row.severity is PAGE))


def blocks(settings: Settings) -> dict[str, dict[str, str]]:
    """The generated parts of the runbooks, by path from the project's root and by mark."""
    pages = ((ENGLISH, slugs()), (TURKISH, paged()))
    return {
        f"{language.folder}/{slug}.md": {PART: _block(slug, settings, language)}
        for language, names in pages
        for slug in names
    }


def _block(slug: str, settings: Settings, language: Language) -> str:
    parts = (part for alert in ALERTS if alert.runbook == slug for part in _rules(alert, settings, language))
    return "\n" + "\n".join(parts) + "\n"


def _rules(alert: Alert, settings: Settings, language: Language) -> Iterator[str]:
    """A rule's words, then its expression; an alert on a budget has one for each row of its severity."""
    for row in rules_of(alert, settings):
        facts = ", ".join(_facts(alert, row, language))
        yield f"{language.opens} `{alert.name}`: {facts}\n\n```promql\n{show(expression(alert, settings, row))}\n```\n"


def _facts(alert: Alert, row: Burn | None, language: Language) -> Iterator[str]:
    yield language.severities[alert.severity]
    if row is not None:
        yield language.burns.format(burn=row.burn, long=row.long, short=row.short)
    wait = wait_of(alert, row)
    yield language.waits.format(wait=wait) if seconds_of_wait(wait) else language.at_once
    if alert.keep:
        yield language.keeps.format(keep=alert.keep)
