"""Every text of the audit that a page may show, for those who translate: words with ``{places}`` for the values."""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.audit.judge import FEW, NONE
from llmvitals.audit.renamed import INSTEAD
from llmvitals.audit.rules import RULES, engine, environment, mistakes, start


def texts() -> tuple[str, ...]:
    """All of them, each once. Lines to write are left out: flags have one language."""
    return tuple(dict.fromkeys(text for text in _all() if any(map(str.isalpha, text))))


def _all() -> Iterator[str]:
    for rule in RULES:
        yield from (rule.title, rule.why)
    yield from (instead.why for instead in INSTEAD.values())
    yield from (what for *_, what in environment.SLOW)
    yield from (start.SEE_NOTES, start.SEE_NOTES_LATER, mistakes.ESTIMATED, engine.COUNTS_RUNNING, engine.NO_LIMIT)
    yield from (FEW, NONE)
