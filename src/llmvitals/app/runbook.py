"""The runbook of a cause or of a symptom, as it lies in the installation."""

from __future__ import annotations

import re

from llmvitals.data import folder
from llmvitals.errors import LlmvitalsError

_TITLE = re.compile(r"\A#\s[^\n]*\n+")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\.md(?:#[^)\s]*)?\)")
_MARK = re.compile(r"^<!--[^\n]*-->\n+", re.M)
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


LANGUAGES: tuple[str, ...] = ("en", "tr")
"""Languages of runbooks. English has all of them, the others those behind alerts that wake somebody."""


def runbook(slug: str, language: str = LANGUAGES[0]) -> str | None:
    """A cause's or a symptom's runbook as Markdown: without its title and the marks of its generated part, its links to other
    files as plain bold words.

    None where there is none in that language. A slug may come from outside, so nothing else ever becomes a path.
    """
    if not _SLUG.fullmatch(slug) or language not in LANGUAGES:
        return None
    place = f"{slug}.md" if language == LANGUAGES[0] else f"{language}/{slug}.md"
    try:
        text = (folder("runbooks") / place).read_text(encoding="utf-8")
    except (OSError, LlmvitalsError):
        return None
    return _LINK.sub(r"**\1**", _MARK.sub("", _TITLE.sub("", text, count=1)))
