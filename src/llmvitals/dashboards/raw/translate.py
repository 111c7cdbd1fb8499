"""Translates a query over canonical families into one over the series of an engine. What would not give the same number is refused.

Labels that place a target (cluster, namespace) become the scrape's ``job``; the model is called as the engine calls it. Where
several spellings give one family, the first that a target has is taken, never two of them; where several series are parts of one
number they are added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from llmvitals.dashboards.model import PLACE
from llmvitals.dashboards.raw.editions import Edition
from llmvitals.dashboards.raw.names import ENGINE, EXPORTER, SHAPE, Branch, CannotError, branches, copied
from llmvitals.dashboards.raw.tree import (
    Aggregate,
    Call,
    Infix,
    Literal,
    Matcher,
    Node,
    Over,
    Selector,
    read,
    show,
    walk,
)
from llmvitals.schema import family_of
from llmvitals.signals.promql_ast import literal, quoted

_OWN = frozenset({"instance", "model", "le", *PLACE})
_JOB = Matcher("job", "=~", "$job")
_COUNTS = frozenset({"changes", "resets", "count_over_time", "present_over_time", "absent_over_time"})
"""Functions whose result has no unit of what they count."""

_LINEAR = frozenset({"rate", "increase", "irate", "delta", "idelta", "deriv", "sum_over_time"})
"""Functions of a sum that are the sum of the functions."""

_PART = "part"
"""A label that keeps apart what is added; no engine has it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a series stands in a query. ``wanted``: labels that the query keeps or meets by; ``summed``: right under a ``sum``;
    ``ratio``: in a share of series in the same unit; ``quantile``: in a quantile, whose result is scaled, not its edges.
    """

    wanted: frozenset[str]
    summed: bool = False
    ratio: bool = False
    quantile: bool = False


def translated(query: str, edition: Edition, by: Iterable[str] = ()) -> str:
    """The query over an edition's series. ``by``: labels that its panel shows. Raises :class:`CannotError`."""
    tree = read(query)
    wanted = frozenset(label for node in walk(tree) for label in _labels(node)) | frozenset(by)
    return show(_Translator(edition).node(tree, _Place(wanted)))


def labels(edition: Edition, names: Iterable[str]) -> tuple[str, ...]:
    """The labels of a query as raw series have them."""
    found: list[str] = []
    for name in names:
        if name == "instance":
            found += ["job", "instance"]
        elif name == "model":
            found += [edition.model] if edition.model else []
        elif name == "rank":
            found += [edition.rank] if edition.rank else []
        elif name not in (*PLACE, "engine"):
            found.append(name)
    return tuple(dict.fromkeys(found))


def _labels(node: Node) -> tuple[str, ...]:
    match node:
        case Aggregate():
            return node.labels or ()
        case Infix():
            return (*node.labels, *node.taken)
    return ()


@dataclass(frozen=True, slots=True)
class _Translator:
    edition: Edition

    def node(self, node: Node, place: _Place) -> Node:
        match node:
            case Literal():
                return node
            case Selector():
                return self._series(node, "", (), place)
            case Over(inner):
                return replace(node, inner=self.node(inner, replace(place, summed=False)))
            case Call():
                return self._call(node, place)
            case Aggregate(op, kept, inner):
                if node.without:
                    raise CannotError(SHAPE, "it leaves out labels by name, which engines call otherwise")
                under = replace(place, summed=op == "sum")
                given = None if kept is None else labels(self.edition, kept)
                return replace(node, labels=given, inner=tuple(self.node(one, under) for one in inner))
            case Infix(op, left, right):
                under = replace(
                    place, summed=False, ratio=(op == "/" and self._shares(node)) or (place.ratio and op == ">")
                )
                return replace(
                    node,
                    left=self.node(left, under),
                    right=self.node(right, under),
                    labels=labels(self.edition, node.labels),
                    taken=labels(self.edition, node.taken),
                )

    def _shares(self, node: Node) -> bool:
        """Whether every series under a division counts in the same unit, whichever that is."""
        names = [one.name for one in walk(node) if isinstance(one, Selector)]
        return len({branch.unit for name in names for branch in branches(self.edition, name)}) == 1

    def _call(self, call: Call, place: _Place) -> Node:
        *before, last = call.inner or (Literal(""),)
        if isinstance(last, Selector) and last.window:
            return self._series(last, call.function, tuple(before), place)
        if call.function == "histogram_quantile":
            return self._quantile(call, place)
        if call.function == "label_replace":
            return replace(call, inner=(self.node(call.inner[0], place), *call.inner[1:]))
        under = replace(place, summed=False)
        return replace(call, inner=tuple(self.node(one, under) for one in call.inner))

    def _quantile(self, call: Call, place: _Place) -> Node:
        """A quantile of a histogram with other units: its edges are the source's, so the result is scaled."""
        scales = {
            branch.row.scale for one in walk(call) if isinstance(one, Selector) for branch in self._branches(one.name)
        }
        if len(scales) != 1:
            raise CannotError(SHAPE, "its spellings have edges in different units")
        inner = tuple(self.node(one, replace(place, quantile=True, summed=False)) for one in call.inner)
        return _times(replace(call, inner=inner), scales.pop())

    def _branches(self, name: str) -> tuple[Branch, ...]:
        if name == "llm_target_up":
            return ()
        try:
            return branches(self.edition, name)
        except CannotError:
            if same := copied(self.edition, name):
                return branches(self.edition, same)
            raise

    def _series(self, series: Selector, function: str, before: tuple[Node, ...], place: _Place) -> Node:
        if series.name == "llm_target_up":
            if more := sorted({m.label for m in series.matchers} - _OWN):
                raise CannotError(EXPORTER, f"only a series of an exporter has the label {more[0]}")
            return _called(
                function, before, Selector("up", self._chosen(series, own=False), series.window, series.moved)
            )
        if not series.name or (family_of(series.name) is None):
            raise CannotError(EXPORTER, "worked out by the exporter, over its history of the page")
        found = [b for b in self._branches(series.name) if self._fits(b, series)]
        if not found:
            raise CannotError(ENGINE, f"{self.edition.adapter.title} does not tell this part of it apart")
        self._refuse(found, place, function)
        fixed = [tuple(b.row.fixed) for b in found]
        several = len(set(fixed)) > 1
        ways: list[Node] = []
        for _, group in groupby(sorted(found, key=lambda b: b.row.fixed), key=lambda b: b.row.fixed):
            ways.append(self._one(tuple(group), series, function, before, place, tagged=several))
        return _either(ways, ())

    def _one(
        self,
        group: tuple[Branch, ...],
        series: Selector,
        function: str,
        before: tuple[Node, ...],
        place: _Place,
        *,
        tagged: bool,
    ) -> Node:
        """Spellings of one series. ``tagged``: its fixed labels are put on, so that it stays apart from others."""
        ordered = sorted(group, key=lambda b: b.row.fallback)
        added = [b for b in ordered if b.row.add and not b.row.fallback]
        nodes: list[Node] = []
        if len({b.name for b in added}) > 1:
            parts = [_tagged(self._plain(b, series, function, before, place), _PART, b.name) for b in added]
            nodes.append(_either(parts, ()))
            ordered = [b for b in ordered if b not in added]
        nodes += [self._plain(b, series, function, before, place) for b in ordered]
        met = labels(self.edition, ("instance", "model")) if self._named(group[0]) else ("job", "instance")
        whole = _either(nodes, met)
        for label, value in group[0].row.fixed:
            if tagged or label in place.wanted:
                whole = _tagged(whole, label, value)
        return whole

    def _plain(self, b: Branch, series: Selector, function: str, before: tuple[Node, ...], place: _Place) -> Node:
        """One source series in the family's unit."""
        matchers = (*self._chosen(series, own=self._named(b)), *self._kept(b), *self._asked(b, series))
        node = _called(function, before, Selector(b.name, matchers, series.window, series.moved))
        if b.op:
            other = Selector(b.other, matchers, series.window if b.op == "+" else "", series.moved)
            second = _called(function, before, other) if b.op == "+" else other
            node = Infix(b.op, node, Infix(">", second, Literal("0")) if b.op == "/" else second)
        if b.repeats:
            node = Aggregate("max", self.edition.repeats, (node,), without=True)
        if not function:
            node = _told(node, b)
        node = node if function in _COUNTS or place.quantile else _times(node, b.scale)
        if b.row.offset:
            node = Infix("+", node, Literal(repr(b.row.offset)))
        for label, source in b.row.labels:
            if label in place.wanted and label != source:
                node = Call("label_replace", (node, *map(_text, (label, "$1", source, "(.*)"))))
        return node

    def _refuse(self, found: list[Branch], place: _Place, function: str) -> None:
        """Refuse what would give another number than the canonical family does."""
        title = self.edition.adapter.title
        if not place.summed and any(b.row.add for b in found) and not place.quantile:
            raise CannotError(SHAPE, f"{title} tells it in several series that have to be added first")
        if function and any(b.row.offset for b in found):
            raise CannotError(SHAPE, f"{title} tells the opposite")
        for b in found:
            if b.part == "_bucket" and b.row.scale != 1.0 and not place.quantile:
                raise CannotError(SHAPE, f"{title} has its edges in another unit")
            if b.op and function and (b.op != "+" or function not in _LINEAR) and b.op != "/":
                raise CannotError(SHAPE, f"{title} tells it in two series")
            if b.unit and not place.ratio:
                raise CannotError(SHAPE, f"{title} counts {b.unit}, and its page does not say which")

    def _named(self, b: Branch) -> bool:
        """Whether a series names its model."""
        return bool(self.edition.model) and b.name.startswith(self.edition.own) and not b.name.endswith(_NAMELESS)

    def _chosen(self, series: Selector, *, own: bool) -> tuple[Matcher, ...]:
        """What is chosen at the top of the board: job, instance and model."""
        found = [_JOB] if any(m.label == "instance" for m in series.matchers) else []
        for m in series.matchers:
            if m.label == "instance":
                found.append(m)
            elif m.label == "model" and own:
                found.append(replace(m, label=self.edition.model))
        return tuple(found)

    def _kept(self, b: Branch) -> tuple[Matcher, ...]:
        return self.edition.kept if b.name.startswith(self.edition.own) else ()

    def _asked(self, b: Branch, series: Selector) -> tuple[Matcher, ...]:
        """What a row takes of its source, and what the query asks of labels that the source has."""
        known = dict(b.row.labels)
        mine = [Matcher(label, "=" if len(v) == 1 else "=~", _any(v)) for label, v in b.row.only]
        for m in series.matchers:
            if m.label == "le" or m.label in known:
                mine.append(replace(m, label=known.get(m.label, m.label)))
        return tuple(mine)

    def _fits(self, b: Branch, series: Selector) -> bool:
        """Whether a row's fixed labels are among those that the query asks for; a label that it lacks is empty."""
        fixed, known = dict(b.row.fixed), {label for label, _ in b.row.labels}
        return all(m.holds(fixed.get(m.label, "")) for m in series.matchers if m.label not in _OWN | known)


_NAMELESS = ("http_responses_total", "process_cpu_seconds_total")
"""Names of the engine's own series that do not name the model."""


def _called(function: str, before: tuple[Node, ...], series: Node) -> Node:
    return Call(function, (*before, series)) if function else series


def _times(node: Node, scale: float) -> Node:
    return node if scale == 1.0 else Infix("*", node, Literal(repr(scale)))


def _told(node: Node, b: Branch) -> Node:
    """A gauge without what its source means as "none"."""
    if b.row.nothing == b.row.nothing:
        node = Infix("!=", node, Literal(repr(b.row.nothing)))
    if b.row.ceiling < float("inf"):
        node = Infix("<", node, Literal(repr(b.row.ceiling)))
    return node


def _text(value: str) -> Literal:
    return Literal(quoted(value))


def _tagged(node: Node, label: str, value: str) -> Node:
    return Call("label_replace", (node, *map(_text, (label, value, "", ""))))


def _either(nodes: list[Node], on: tuple[str, ...]) -> Node:
    """The first that is there, target by target (``on``); without labels all of them, which are kept apart."""
    first, *others = nodes
    for other in others:
        first = Infix("or", first, other, keyword="on" if on else "", labels=on)
    return first


def _any(values: Iterable[str]) -> str:
    several = sorted(values)
    return several[0] if len(several) == 1 else "|".join(map(literal, several))
