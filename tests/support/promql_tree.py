"""PromQL as a tree: what a query selects, over which windows, and what it divides by.

As much of the grammar as Prometheus 2.42 has without its experiments. What this cannot read is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(
    r"""\s*(?:
    (?P<duration>(?:\d+(?:ms|[smhdwy]))+)(?![\w.])
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[a-zA-Z_][\w:]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<op>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){}\[\],:@])
    )""",
    re.VERBOSE,
)
LEVELS = (("or",), ("and", "unless"), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/", "%"), ("^",))
AGGREGATES = frozenset(
    ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values"],
)
COMPARISONS = frozenset(LEVELS[2])


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, a string's text among them."""

    text: str


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by name. ``matchers``: label, operator, value; ``window``: of a range, as it was written; ``at``: end, start or ''."""

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    window: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Subquery:
    """``inner[window:step]``."""

    inner: Node
    window: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    name: str
    inner: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``name by (labels) (inner)``; ``without``: the labels are those that go."""

    name: str
    labels: tuple[str, ...]
    without: bool
    inner: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Infix:
    """Two operands. ``on``: the labels by which they meet, None: all that both have; ``taken``: those of group_left or right."""

    op: str
    left: Node
    right: Node
    on: tuple[str, ...] | None = None
    taken: tuple[str, ...] = ()

    @property
    def inner(self) -> tuple[Node, ...]:
        """Both operands."""
        return (self.left, self.right)


Node = Number | Selector | Subquery | Call | Aggregate | Infix


def below(node: Node) -> tuple[Node, ...]:
    """The nodes right under one."""
    match node:
        case Subquery(inner):
            return (inner,)
        case Call() | Aggregate() | Infix():
            return node.inner
    return ()


def walk(node: Node, above: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node with those above it, the outermost first."""
    yield node, above
    for inner in below(node):
        yield from walk(inner, (*above, node))


def selectors(node: Node) -> Iterator[Selector]:
    """Every selector of a tree."""
    return (one for one, _ in walk(node) if isinstance(one, Selector))


def parse(text: str) -> Node:
    """The tree of a query whose variables are filled in. Raises ``ValueError`` where it is none."""
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
        self.next()

    def next(self) -> str:
        """Go on, and give what was there."""
        before = self.value
        if not self._text[self._at :].strip():
            self.kind = self.value = ""
            return before
        found = TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"cannot read {self._text[self._at : self._at + 20]!r} in {self._text}")
        self._at, self.kind, self.value = found.end(), found.lastgroup, found[found.lastgroup]
        return before

    def taken(self, *values: str) -> str:
        """The token where it is one of these, '' where it is not."""
        return self.next() if self.kind and self.value in values else ""

    def need(self, value: str) -> None:
        if not self.taken(value):
            raise ValueError(f"{value!r} and not {self.value!r} should follow in {self._text}")

    def infix(self, level: int) -> Node:
        if level == len(LEVELS):
            return self.unary()
        left = self.infix(level + 1)
        while op := self.taken(*LEVELS[level]):
            self.taken("bool")
            on: tuple[str, ...] | None = None
            gathered: tuple[str, ...] = ()
            if how := self.taken("on", "ignoring"):
                labels = self.labels()
                on = labels if how == "on" else None
                if self.taken("group_left", "group_right"):
                    gathered = self.labels() if self.value == "(" else ()
            left = Infix(op, left, self.infix(level + (op != "^")), on, gathered)
        return left

    def labels(self) -> tuple[str, ...]:
        found: list[str] = []
        self.need("(")
        while not self.taken(")"):
            found.append(self.next())
            self.taken(",")
        return tuple(found)

    def unary(self) -> Node:
        if self.taken("-"):
            return Infix("*", Number("-1"), self.unary())
        self.taken("+")
        return self.ranged(self.atom())

    def atom(self) -> Node:
        if self.kind in ("number", "duration", "text"):
            return Number(self.next())
        if self.taken("("):
            inner = self.infix(0)
            self.need(")")
            return inner
        if self.value == "{":
            return self.selector("")
        if self.kind != "name":
            raise ValueError(f"{self.value!r} does not begin anything in {self._text}")
        name = self.next()
        if name in AGGREGATES and self.value in ("(", "by", "without"):
            return self.aggregate(name)
        if self.value == "(":
            return Call(name, self.arguments())
        return Number(name) if name.lower() in ("inf", "nan") else self.selector(name)

    def aggregate(self, name: str) -> Node:
        how = self.taken("by", "without")
        labels = self.labels() if how else ()
        inner = self.arguments()
        if not how and (how := self.taken("by", "without")):
            labels = self.labels()
        return Aggregate(name, labels, how == "without", inner)

    def arguments(self) -> tuple[Node, ...]:
        found: list[Node] = []
        self.need("(")
        while not self.taken(")"):
            found.append(self.infix(0))
            self.taken(",")
        return tuple(found)

    def selector(self, name: str) -> Selector:
        matchers: list[tuple[str, str, str]] = []
        if self.taken("{"):
            while not self.taken("}"):
                label, op, value = self.next(), self.next(), self.next()
                if op not in ("=", "!=", "=~", "!~"):
                    raise ValueError(f"{op!r} is no matcher in {self._text}")
                matchers.append((label, op, value[1:-1]))
                self.taken(",")
        return Selector(name, tuple(matchers))

    def ranged(self, node: Node) -> Node:
        """What follows a node: its window, an offset, the moment at which it is asked."""
        while True:
            if self.taken("["):
                window = self.next()
                if self.taken(":"):
                    if self.kind == "duration":
                        self.next()
                    node = Subquery(node, window)
                elif isinstance(node, Selector):
                    node = Selector(node.name, node.matchers, window)
                else:
                    raise ValueError(f"a range of what is no selector in {self._text}")
                self.need("]")
            elif self.taken("offset"):
                self.taken("-")
                self.next()
            elif self.taken("@"):
                at = self.next()
                if self.taken("("):
                    self.need(")")
                if isinstance(node, Selector):
                    node = Selector(node.name, node.matchers, node.window, at)
                elif isinstance(node, Subquery):
                    node = Subquery(node.inner, node.window, at)
            else:
                return node
