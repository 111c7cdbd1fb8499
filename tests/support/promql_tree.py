"""What tests ask of a query's tree: what stands above a node, what is selected, and without what nothing is found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from llmvitals.dashboards.raw.tree import Infix, Node, Selector, below
from llmvitals.dashboards.raw.tree import walk as every

Key = TypeVar("Key", bound=Hashable)


def walk(node: Node, above: tuple[Node, ...] = ()) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node with those above it, the outermost first."""
    yield node, above
    for inner in below(node):
        yield from walk(inner, (*above, node))


def selectors(node: Node) -> Iterator[Selector]:
    """Every selector of a tree."""
    return (one for one in every(node) if isinstance(one, Selector))


def name_of(one: Selector) -> str:
    """The series that a selector names."""
    return one.name


def needed(node: Node, key: Callable[[Selector], Key]) -> frozenset[Key]:
    """That of the selectors without which a query finds nothing: of an ``or`` what both sides need, of an ``unless`` the left."""
    match node:
        case Selector():
            return frozenset({key(node)})
        case Infix(op="or"):
            return needed(node.left, key) & needed(node.right, key)
        case Infix(op="unless"):
            return needed(node.left, key)
    return frozenset().union(*(needed(inner, key) for inner in below(node)))
