"""PromQL as a tree: what our boards write, read and written again. Variables of Grafana stay as they are.

What cannot be read is an error, never a guess. The grammar is Prometheus' 2.42, as far as boards use it. The parser that is on PyPI
(``promql-parser`` 0.12) refuses Grafana's variables, and its nodes cannot be made or changed, so nothing can be translated with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from llmvitals.signals.promql_ast import quoted

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<duration>(?:\d+(?:ms|[smhdwy]))+|\$\w+)(?![\w.])
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[a-zA-Z_][\w:]*)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<range>\[[^\]]*\])
    |(?P<op>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){},@])
    )""",
    re.VERBOSE,
)
_LEVELS = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/", "%"), ("^",))
_AGGREGATES = frozenset(
    ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values")
)
_CHAINED = frozenset({"or", "+", "*"})
"""Operators that are read from left to right, of which several need no parentheses."""

_NUMBERS = frozenset({"Inf", "NaN"})


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or a text, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """``label op value``; the value without its quotation marks and escapes."""

    label: str
    op: str
    value: str

    def holds(self, value: str) -> bool:
        """Whether a label of this value matches; a regular expression is anchored, as in Prometheus."""
        same = re.fullmatch(self.value, value) is not None if "~" in self.op else self.value == value
        return same is not self.op.startswith("!")


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by name. ``window``: of a range, with its brackets; ``moved``: ``offset`` and ``@``, as they are written."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    window: str = ""
    moved: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    """A subquery: ``inner[window:step]``."""

    inner: Node
    window: str
    moved: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    function: str
    inner: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``op by (labels) (inner)``; ``without``: the labels are those that go; labels None: neither is written."""

    op: str
    labels: tuple[str, ...] | None
    inner: tuple[Node, ...]
    without: bool = False


@dataclass(frozen=True, slots=True)
class Infix:
    """Two operands. ``keyword``: ``on``, ``ignoring`` or ''; ``group``: ``group_left`` or ``group_right`` and what it takes."""

    op: str
    left: Node
    right: Node
    bool: bool = False
    keyword: str = ""
    labels: tuple[str, ...] = ()
    group: str = ""
    taken: tuple[str, ...] = ()


Node = Literal | Selector | Over | Call | Aggregate | Infix


def below(node: Node) -> tuple[Node, ...]:
    """The nodes right under one."""
    match node:
        case Over(inner):
            return (inner,)
        case Call() | Aggregate():
            return node.inner
        case Infix(_, left, right):
            return left, right
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Every node, the outermost first."""
    yield node
    for inner in below(node):
        yield from walk(inner)


def show(node: Node) -> str:
    """The node as PromQL text."""
    match node:
        case Literal(text):
            return text
        case Selector(name, matchers, window, moved):
            inside = ",".join(f"{m.label}{m.op}{quoted(m.value)}" for m in matchers)
            return name + (f"{{{inside}}}" if inside else "") + window + moved
        case Over(inner, window, moved):
            return f"({show(inner)}){window}{moved}"
        case Call(function, inners):
            return f"{function}({', '.join(map(show, inners))})"
        case Aggregate(op, labels, inners, without):
            kept = "" if labels is None else f" {'without' if without else 'by'} ({', '.join(labels)})"
            return f"{op}{kept} ({', '.join(map(show, inners))})"
        case Infix(op, left, right, boolean, keyword, labels, group, taken):
            words = [op, *(["bool"] if boolean else [])]
            words += [f"{keyword} ({', '.join(labels)})"] if keyword else []
            words += [f"{group} ({', '.join(taken)})"] if group else []
            chained = isinstance(left, Infix) and left.op == op and op in _CHAINED
            return f"{show(left) if chained else _operand(left)} {' '.join(words)} {_operand(right)}"


def _operand(node: Node) -> str:
    return f"({show(node)})" if isinstance(node, Infix) else show(node)


@cache
def read(text: str) -> Node:
    """The tree of a query, which every edition reads anew. Raises ``ValueError`` where it is none."""
    reader = _Reader(text)
    found = reader.infix(0)
    if reader.kind:
        raise ValueError(f"{reader.value!r} is left over in {text}")
    return found


class _Reader:
    """Reads token by token; ``kind`` '' is the end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.kind = self.value = ""
        self._next()

    def _next(self) -> str:
        before = self.value
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            if self._text[self._at :].strip():
                raise ValueError(f"cannot read {self._text[self._at :][:20]!r} in {self._text}")
            self.kind = self.value = ""
            return before
        self._at, self.kind, self.value = found.end(), found.lastgroup, found[found.lastgroup]
        return before

    def _taken(self, *values: str) -> str:
        """The token where it is one of these, '' where it is not."""
        return self._next() if self.kind and self.value in values else ""

    def _need(self, value: str) -> None:
        if not self._taken(value):
            raise ValueError(f"{value!r} and not {self.value!r} should follow in {self._text}")

    def infix(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._single()
        left = self.infix(level + 1)
        while op := self._taken(*_LEVELS[level]):
            boolean = bool(self._taken("bool"))
            keyword = self._taken("on", "ignoring")
            labels = self._names() if keyword else ()
            group = self._taken("group_left", "group_right")
            taken = self._names() if group and self.value == "(" else ()
            right = self.infix(level if op == "^" else level + 1)
            left = Infix(op, left, right, boolean, keyword, labels, group, taken)
        return left

    def _names(self) -> tuple[str, ...]:
        self._need("(")
        found = []
        while not self._taken(")"):
            found.append(self._next())
            self._taken(",")
        return tuple(found)

    def _single(self) -> Node:
        if self._taken("-"):
            operand = self._single()
            return Literal(f"-{operand.text}") if isinstance(operand, Literal) else Infix("*", Literal("-1"), operand)
        if self._taken("("):
            inner = self.infix(0)
            self._need(")")
            return self._ranged(inner)
        if self.kind in ("number", "text", "duration") or self.value in _NUMBERS:
            return Literal(self._next())
        if self.value in _AGGREGATES:
            return self._ranged(self._aggregate())
        name = self._next() if self.kind == "name" else ""
        if name and self.value == "(":
            return self._ranged(Call(name, self._arguments()))
        return self._selector(name)

    def _arguments(self) -> tuple[Node, ...]:
        self._need("(")
        found: list[Node] = []
        while not self._taken(")"):
            found.append(self.infix(0))
            self._taken(",")
        return tuple(found)

    def _aggregate(self) -> Aggregate:
        op = self._next()
        keyword = self._taken("by", "without")
        labels = self._names() if keyword else None
        inner = self._arguments()
        if late := self._taken("by", "without"):
            keyword, labels = late, self._names()
        return Aggregate(op, labels, inner, keyword == "without")

    def _selector(self, name: str) -> Selector:
        matchers = []
        if self._taken("{"):
            while not self._taken("}"):
                label, op = self._next(), self._next()
                matchers.append(Matcher(label, op, json.loads(self._next())))
                self._taken(",")
        elif not name:
            raise ValueError(f"series should stand where {self.value!r} does in {self._text}")
        window = self._next() if self.kind == "range" else ""
        return Selector(name, tuple(matchers), window, self._moved())

    def _ranged(self, inner: Node) -> Node:
        return Over(inner, self._next(), self._moved()) if self.kind == "range" else inner

    def _moved(self) -> str:
        found = ""
        while word := self._taken("offset", "@"):
            found += f" {word} {self._next()}"
            if self._taken("("):
                self._need(")")
                found += "()"
        return found
