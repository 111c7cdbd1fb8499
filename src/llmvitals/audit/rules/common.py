"""What the tables of rules share."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.audit.model import Severity, Values

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR

NO: tuple[Values, ...] = ()
YES: tuple[Values, ...] = ({},)


def holds(condition: bool, **values: object) -> tuple[Values, ...]:
    """One finding with these values where the condition holds."""
    return (values,) if condition else NO


def open_words(text: str) -> bool:
    """Whether a value was left to a variable or a template, so that nobody knows it here."""
    return "$" in text or "{{" in text


def up(tokens: float, step: int = 1024) -> int:
    """Tokens rounded up to a multiple."""
    return -(-int(tokens) // step) * step


def power_of_two(most: int) -> int:
    """The largest one up to ``most`` (1 or more). Heads split over those; over 3, 6 or 7 GPUs hardly any model's do."""
    return 1 << (most.bit_length() - 1)


def truthy(env: Mapping[str, str], name: str) -> bool:
    """Whether a variable is switched on."""
    return env.get(name, "").strip().lower() in ("1", "true", "yes", "on")
