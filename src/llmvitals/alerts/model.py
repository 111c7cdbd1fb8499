"""What an alert is made of, and the series of the exporter's page that alerts read beside signals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.alerts.conditions import Condition
from llmvitals.schema import SCOPE

CHECK_STATE = "llm_triage_check_state"
LEADING = "llm_triage_leading"
VERDICT = "llm_triage_verdict"
HURT = "llm_triage_hurt"
SETTING = "llm_triage_setting"
TARGET_UP = "llm_target_up"
REQUESTS_RUNNING = "llm_requests_running"
"""The family by which it is known which model a server serves."""


class Severity(StrEnum):
    """How urgent an alert is."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. ``wait``: Prometheus' ``for``; on a budget each row of the settings has its own instead. ``keep``:
    ``keep_firing_for``, for what comes and goes; '' for none.

    ``title``: the summary's first words; ``words``: sentences of its description, which may hold templates; ``evidence``:
    signals whose newest numbers are told beside them; ``runbook``: the page's name; ``panel``: a signal or series that the
    panel to look at first shows; ``group``: of rules; ``by``: the labels that tell whose alert it is.
    """

    name: str
    title: str
    severity: Severity
    when: Condition
    wait: str
    runbook: str
    panel: str
    group: str
    evidence: tuple[str, ...] = ()
    words: str = ""
    cause: str = ""
    keep: str = ""
    by: tuple[str, ...] = SCOPE


@dataclass(frozen=True, slots=True)
class Silence:
    """While an alert of ``of`` fires, those of ``silenced`` with the same ``equal`` labels are not told (Alertmanager's
    inhibition).
    """

    of: tuple[str, ...]
    silenced: tuple[str, ...]
    equal: tuple[str, ...] = SCOPE


PAGE, TICKET = Severity.PAGE, Severity.TICKET
TELEMETRY_GROUP = "llmvitals-telemetry"
USED_MEMORY = "6h"
"""How long it is known that a server was in use when it went, and so the alert on it lasts while it is down."""

GONE_MEMORY = "30m"
"""How long a target that vanished from the page altogether is remembered, and so the alert on it lasts."""
