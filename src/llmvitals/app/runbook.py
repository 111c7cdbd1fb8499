"""The runbook of a cause, as it lies in the installation."""

from __future__ import annotations

import re

from llmvitals.data import folder
from llmvitals.errors import LlmvitalsError

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def runbook(cause: str) -> str | None:
    """The text (Markdown) of the cause's runbook; None where there is none. A cause comes from outside: slugs only."""
    if not _SLUG.fullmatch(cause):
        return None
    try:
        return (folder("runbooks") / f"{cause}.md").read_text(encoding="utf-8")
    except (OSError, LlmvitalsError):
        return None
