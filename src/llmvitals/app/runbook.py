"""The runbook of a cause, as it lies in the installation."""

from __future__ import annotations

import re

from llmvitals.data import folder
from llmvitals.errors import LlmvitalsError

_TITLE = re.compile(r"\A#\s[^\n]*\n+")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\.md(?:#[^)\s]*)?\)")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def runbook(cause: str) -> str | None:
    """The cause's runbook as Markdown, without its title and with its links to other files as plain bold words.

    None where there is none. A cause may come from outside, so only a slug ever becomes a path.
    """
    if not _SLUG.fullmatch(cause):
        return None
    try:
        text = (folder("runbooks") / f"{cause}.md").read_text(encoding="utf-8")
    except (OSError, LlmvitalsError):
        return None
    return _LINK.sub(r"**\1**", _TITLE.sub("", text, count=1))
