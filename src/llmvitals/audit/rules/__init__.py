"""All rules, in the order in which findings of one severity are shown."""

from __future__ import annotations

from llmvitals.audit.model import Rule
from llmvitals.audit.rules import around, engine, environment, mistakes, others, start

RULES: tuple[Rule, ...] = (
    *start.RULES,
    *mistakes.RULES,
    *engine.RULES,
    *environment.RULES,
    *around.RULES,
    *others.RULES,
)
"""A mistake is one row of these tables."""
