"""The rules of the audit as a Markdown table, from the rules themselves."""

from __future__ import annotations

from llmvitals.audit.engines import TITLES
from llmvitals.audit.rules import RULES
from llmvitals.cli.matrix import markdown

_HEAD = ("Rule", "Severity", "What it says", "Cause")


def full() -> str:
    """One table for each engine."""
    engines = dict.fromkeys(rule.engine for rule in RULES)
    return "\n".join(f"### {TITLES[engine]}\n\n{_of(engine)}" for engine in engines)


def _of(engine: str) -> str:
    rows = [
        (
            f"`{rule.id}`",
            rule.severity.word,
            rule.title.replace("{estimated}", "").replace("{", "*").replace("}", "*"),
            f"[{rule.cause}](../runbooks/{rule.cause}.md)" if rule.cause else "",
        )
        for rule in RULES
        if rule.engine == engine
    ]
    return markdown(_HEAD, rows) + "\n"
