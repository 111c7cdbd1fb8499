"""A condition in words, for the table of alerts."""

from __future__ import annotations

from llmvitals.alerts.budgets import BY_ID
from llmvitals.alerts.conditions import (
    Burns,
    Busy,
    Compared,
    Concludes,
    Condition,
    Either,
    Every,
    Fell,
    Fires,
    Gone,
    Hurt,
    Steady,
    Unless,
    Written,
)
from llmvitals.alerts.limits import bounded
from llmvitals.alerts.model import GONE_MEMORY, USED_MEMORY, Alert
from llmvitals.alerts.names import WINDOW
from llmvitals.settings import Settings

_OPS = {">": "over", ">=": "at least", "<": "under", "<=": "at most"}


def when(alert: Alert, settings: Settings) -> str:
    """What an alert asks; one that is written in PromQL asks what its title says."""
    return alert.title[0].lower() + alert.title[1:] if isinstance(alert.when, Written) else words(alert.when, settings)


def words(condition: Condition, settings: Settings) -> str:
    """The condition as a clause."""
    match condition:
        case Fires(cause):
            return f"the check of `{cause}` fires, and the verdict is not healthy"
        case Hurt():
            return "users are hurt by the triage's own test"
        case Concludes(outcomes):
            return f"the verdict is {' or '.join(outcomes)}"
        case Compared(signal, op, bound, factor):
            number = f"{bounded(settings, bound, factor):g}"
            named = f"{number} (`{bound}`)" if isinstance(bound, str) else number
            return f"`{signal}` is {_OPS[op]} {named}"
        case Fell(signal, to, ago):
            return f"`{signal}` is under {to:g} times what it was {ago} ago"
        case Steady(signal, within, ago):
            return f"`{signal}` is within {within:.0%} of what it was {ago} ago"
        case Burns(budget, severity):
            rows = (row for row in settings.alerts.burns if row.severity == severity)
            fast = (f"{row.burn:g} times as fast as it may over {row.long} and over {row.short}" for row in rows)
            return f"the budget of {BY_ID[budget].title} burns {', or '.join(fast)}"
        case Busy():
            return f"at least {settings.alerts.least_requests} requests ended in {WINDOW}"
        case Gone(alone):
            if not alone:
                return "the target gives no readable page"
            gone = f"the target gives no readable page, or vanished from the exporter's within {GONE_MEMORY}"
            return f"{gone}; it was in use when it went, at most {USED_MEMORY} ago, and nothing else that is up serves its model"
        case Written():
            return "what its PromQL asks of the watching itself"
        case Every(several):
            return ", and ".join(words(part, settings) for part in several)
        case Either(several):
            return "; or ".join(words(part, settings) for part in several)
        case Unless(what, but):
            return f"{words(what, settings)}, unless {words(but, settings)}"
