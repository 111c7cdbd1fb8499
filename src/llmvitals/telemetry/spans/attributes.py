"""How a value of an attribute is read: by the kind that its table says, or not at all.

Only attributes that a table names come here. Prompts, answers and events never do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

WRONG: Final = object()
"""What a reader returns for a value that is not of its kind."""

MOST_TEXT = 256
"""Characters of a name (model, tenant, route) that are a name and not a document."""

WITHHELD = "process.command"
"""Resource attributes that are not kept: command lines hold keys."""

_MOST_ATTRIBUTES = 64

_MOST_SAID = 4096
"""Characters that are kept of what one process says of itself; a Kubernetes operator's thirty attributes have half as many."""

# AnyValue of protobuf; its generated class is an extra's, so that a table can be read without it
Value = Any


def seconds(value: Value) -> object:
    """A time in seconds, None where the value is empty. Senders in JavaScript write whole numbers as int."""
    which = value.WhichOneof("value")
    if which == "double_value":
        return value.double_value
    if which == "int_value":
        return float(value.int_value)
    return _empty(which, value)


def count(value: Value) -> object:
    """A whole number, None where the value is empty."""
    which = value.WhichOneof("value")
    if which == "int_value":
        return value.int_value
    if which == "double_value" and value.double_value.is_integer():
        return int(value.double_value)
    return _empty(which, value)


def text(value: Value) -> object:
    """A name, None where it is empty; a whole number is one too (tenants are often numbered)."""
    which = value.WhichOneof("value")
    if which == "string_value":
        found: str = value.string_value
        return (found or None) if len(found) <= MOST_TEXT else WRONG
    return str(value.int_value) if which == "int_value" else _empty(which, value)


def word(value: Value) -> object:
    """A word that steers (an operation, the class of an error): lower case, None where there is none that short."""
    found: str = value.string_value
    return found.lower() if 0 < len(found) <= MOST_TEXT else None


def status(value: Value) -> object:
    """An HTTP status, as number or text; None for what is none: codes of providers stand in the same attributes."""
    which = value.WhichOneof("value")
    code = value.int_value if which == "int_value" else -1
    digits: str = value.string_value if which == "string_value" else ""
    if len(digits) == 3 and digits.isascii() and digits.isdecimal():
        code = int(digits)
    return code if 100 <= code <= 599 else None


def words(value: Value) -> object:
    """Why sequences ended: a list of words, one word, or a list that somebody wrote as text (``["stop"]``)."""
    which = value.WhichOneof("value")
    if which == "array_value":
        given: Iterable[str] = [one.string_value for one in value.array_value.values[:16]]
    else:
        given = value.string_value[:MOST_TEXT].strip("[]").split(",")
    return frozenset(one.strip(" \"'").lower() for one in given)


def resource(attributes: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """What a process says of itself, as text, sorted by name. Lists and command lines are left out, and what is too much."""
    found: dict[str, str] = {}
    room = _MOST_SAID
    for attribute in attributes:
        key: str = attribute.key
        if key and len(key) <= MOST_TEXT and not key.startswith(WITHHELD) and len(found) < _MOST_ATTRIBUTES:
            spelled = _spelled(attribute.value)
            if (
                spelled is not None
                and len(spelled) <= MOST_TEXT
                and len(key) + len(spelled) <= room
                and key not in found
            ):
                found[key] = spelled
                room -= len(key) + len(spelled)
    return tuple(sorted(found.items()))


def _spelled(value: Value) -> str | None:
    which = value.WhichOneof("value")
    if which == "bool_value":
        return "true" if value.bool_value else "false"
    return str(getattr(value, which)) if which in ("string_value", "int_value", "double_value") else None


def _empty(which: str | None, value: Value) -> object:
    """None for a value that says nothing (gateways write '' for what they do not know), else that it is wrong."""
    return None if which is None or (which == "string_value" and not value.string_value) else WRONG
