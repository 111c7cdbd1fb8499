"""The few kinds of PromQL node that signals need, and their printer. Text is made here and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_REGEX_SPECIAL = frozenset("\\.+*?()|[]{}^$")


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: float


@dataclass(frozen=True, slots=True)
class Matcher:
    """``label="value"``, or with several values ``label=~"a|b"``; the values are taken literally."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by name; ``extra`` is matcher text of the caller's, ``window`` a range such as ``60s`` ('' = instant; ``6h:5m``: every
    5 minutes of 6 hours), ``offset`` how long ago ('' = now).
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    extra: str = ""
    window: str = ""
    offset: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``op by (labels) (argument)``."""

    op: str
    by: tuple[str, ...]
    argument: Node


@dataclass(frozen=True, slots=True)
class Infix:
    """Two operands; nested ones are put into parentheses. ``on``: the labels by which series are matched, None: all; ``many``:
    several on the left may match one on the right.
    """

    op: str
    left: Node
    right: Node
    on: tuple[str, ...] | None = None
    many: bool = False


Node = Number | Selector | Call | Aggregate | Infix


def show(node: Node) -> str:
    """The node as PromQL text."""
    match node:
        case Number(value):
            return number(value)
        case Selector(name, matchers, extra, window, offset):
            inside = ",".join([*map(_matcher, matchers), *([extra] if extra else [])])
            ranged = name + (f"{{{inside}}}" if inside else "") + (f"[{window}]" if window else "")
            return f"{ranged} offset {offset}" if offset else ranged
        case Call(function, arguments):
            return f"{function}({', '.join(map(show, arguments))})"
        case Aggregate(op, by, argument):
            return f"{op} by ({', '.join(by)}) ({show(argument)})"
        case Infix(op, left, right, on, many):
            matched = "" if on is None else f" on ({', '.join(on)})" + (" group_left ()" if many else "")
            return f"{_operand(left)} {op}{matched} {_operand(right)}"


def number(value: float) -> str:
    """A float as PromQL writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(float(value)).removesuffix(".0")


def quoted(text: str) -> str:
    """A PromQL string literal."""
    return f'"{text.translate(_ESCAPES)}"'


def _matcher(matcher: Matcher) -> str:
    if len(matcher.values) == 1:
        return f"{matcher.label}={quoted(matcher.values[0])}"
    return f"{matcher.label}=~{quoted('|'.join(map(literal, matcher.values)))}"


def literal(text: str) -> str:
    """Text inside a regular expression, as RE2 reads it."""
    return "".join(f"\\{char}" if char in _REGEX_SPECIAL else char for char in text)


def _operand(node: Node) -> str:
    return f"({show(node)})" if isinstance(node, Infix) else show(node)
