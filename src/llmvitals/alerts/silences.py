"""Who is silenced by whom: a page tells the cause, so its tickets stay quiet; what explains others silences them."""

from __future__ import annotations

from llmvitals.alerts import watching
from llmvitals.alerts.model import PAGE, TICKET, Silence
from llmvitals.alerts.names import INSTANCE
from llmvitals.alerts.policy import ALERTS, CAUSES, SYMPTOMS
from llmvitals.triage.checks import BY_CAUSE

_OF_SERVERS = tuple(
    row for row in ALERTS if row not in watching.ALERTS and row.name not in {"LLMTargetGone", "LLMTargetMissing"}
)
_PAGES = tuple(row.name for row in _OF_SERVERS if row.severity is PAGE)
_TICKETS = tuple(row.name for row in _OF_SERVERS if row.severity is TICKET)
_PAGED_SYMPTOMS = tuple(row.name for row in SYMPTOMS if row.severity is PAGE)

_BY_CAUSE = {row.cause: row for row in CAUSES}


def _explained() -> tuple[Silence, ...]:
    """A cause silences the causes that it explains, but what waits for office hours silences nothing that wakes somebody."""
    found = []
    for row in CAUSES:
        others = (_BY_CAUSE[cause] for cause in BY_CAUSE[row.cause].explains if cause in _BY_CAUSE)
        names = tuple(o.name for o in others if row.severity is PAGE or o.severity is TICKET)
        if names:
            found.append(Silence((row.name,), names))
    return tuple(found)


SILENCES: tuple[Silence, ...] = (
    Silence(("LLMNobodyWatches",), ("LLMTargetGone", "LLMTargetMissing"), ()),
    Silence(("LLMTargetGone",), (*_PAGES, *_TICKETS, "LLMTargetMissing"), INSTANCE),
    Silence(("LLMTargetMissing",), _TICKETS, INSTANCE),
    Silence(("LLMNotServing", "LLMTelemetryBroken"), _PAGED_SYMPTOMS, INSTANCE),
    Silence(("LLMUsersHurt",), tuple(name for name in _PAGED_SYMPTOMS if name != "LLMUsersHurt"), INSTANCE),
    Silence(("LLMAnswersFail",), ("LLMCallsLost",), INSTANCE),
    Silence(("LLMCallsLost",), ("LLMMostRefused",), INSTANCE),
    Silence(("LLMAnswersFail", "LLMCallsLost"), ("LLMGoodputLow",), INSTANCE),
    Silence(_PAGES, _TICKETS, INSTANCE),
    *_explained(),
)
