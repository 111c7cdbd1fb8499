"""What the boards ask and how they look, read without a server: each name is one that some page shows, each rule of asking is kept.

Each query is read as a tree. A series, and a label that it is matched, grouped or joined by, must be in the schema, on the
exporter's own page, among what rules record, or among the few that Prometheus makes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from llmvitals.dashboards import model
from llmvitals.dashboards.model import PLACE, Kind
from llmvitals.dashboards.raw.tree import Aggregate, Call, Infix, Literal, Matcher, Node, Over, Selector, below, read
from llmvitals.settings import Settings
from support.boards import EVERY, ONCE, Asked, Drawn, each, filled
from support.known_series import COUNTERS, KNOWN
from support.promql_tree import needed, selectors, walk

SETTINGS = Settings()
WINDOW, SPAN = "61s", "3601s"
"""What stands for Grafana's window and for the chosen time; no query has them of its own."""

BURNS = {row.long for row in SETTINGS.alerts.burns}

# -- what may be asked -------------------------------------------------------------------------------------------------


def tree(asked: Asked) -> Node:
    return read(filled(asked.expr, window=WINDOW, span=SPAN))


def nodes(drawn: Drawn) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node of a panel's queries, with those above it."""
    for asked in drawn.asked:
        yield from walk(tree(asked))


@each(ONCE)
def test_every_series_and_every_label_that_it_is_matched_by_is_one_that_a_page_shows(drawn: Drawn) -> None:
    for asked in drawn.asked:
        for one in selectors(tree(asked)):
            assert one.name in KNOWN, f"{drawn.id}: nobody shows {one.name}"
            unknown = {matcher.label for matcher in one.matchers} - KNOWN[one.name]
            assert not unknown, f"{drawn.id}: {one.name} has no label {sorted(unknown)}"


def made(node: Node) -> frozenset[str]:
    """The labels that the series of a node may have."""
    match node:
        case Selector(name):
            return KNOWN[name]
        case Aggregate(op, labels, inner, without):
            under = frozenset().union(*map(made, inner))
            if op == "count_values":
                under |= {text.text[1:-1] for text in inner if isinstance(text, Literal)}
            if op in ("topk", "bottomk"):
                return under
            return under - frozenset(labels or ()) if without else under & frozenset(labels or ())
        case Call("label_replace" | "label_join", inner):
            target = inner[1]
            assert isinstance(target, Literal)
            return made(inner[0]) | {target.text[1:-1]}
    return frozenset().union(*map(made, below(node)))


@each(ONCE)
def test_every_label_that_is_kept_or_joined_by_is_there(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Aggregate):
            gone = set(node.labels or ()) - frozenset().union(*map(made, node.inner))
            assert not gone, f"{drawn.id}: by {sorted(gone)}, which no series below it has"
        if isinstance(node, Infix) and node.keyword == "on":
            both = made(node.left) & made(node.right)
            assert set(node.labels) <= both | set(PLACE), (
                f"{drawn.id}: on {sorted(set(node.labels) - both)}, which one side lacks"
            )
            assert set(node.taken) <= made(node.left) | made(node.right)


@each(ONCE)
def test_no_query_takes_an_edge_for_granted(drawn: Drawn) -> None:
    """Histograms keep their source's own edges: one that some engine has, another lacks, so there is another way."""

    def edges(one: Selector) -> tuple[Matcher, ...]:
        return tuple(matcher for matcher in one.matchers if matcher.label == "le" and "Inf" not in matcher.value)

    for asked in drawn.asked:
        granted = [edge for found in needed(tree(asked), edges) for edge in found]
        assert not granted, f"{drawn.id}: {asked.expr}"


# -- how it is asked ---------------------------------------------------------------------------------------------------


@each(ONCE)
def test_windows_are_grafanas_or_those_of_burns(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Selector | Over) and node.window:
            window = node.window.strip("[]").partition(":")[0]
            assert window in {WINDOW, SPAN} | BURNS, f"{drawn.id}: a fixed window of {window}"
            if window == SPAN and not drawn.instant:
                assert "@ end()" in node.moved, (
                    f"{drawn.id}: each point looks back over the whole chosen time; ask @ end()"
                )


COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
GROWTH = frozenset({"rate", "increase", "irate", "changes", "resets"})
THERE = frozenset({"count_over_time", "present_over_time", "absent", "absent_over_time"})
BEGAN = "min_over_time"
"""What a counter had when it came: growth that no rate sees."""


def whether(node: Node, inner: Node) -> bool:
    """Whether a node makes of one under it only that it is there, or that it is more than nothing."""
    match node:
        case Call(function):
            return function in THERE
        case Aggregate(op):
            return op in ("count", "group")
        case Infix("unless" | "and", _, right):
            return right is inner
        case Infix("*", left, right):
            return Literal("0") in (left, right)
        case Infix(bool=True):
            return True
    return False


@each(ONCE)
def test_no_counter_is_read_over_its_whole_life(drawn: Drawn) -> None:
    for node, above in nodes(drawn):
        if isinstance(node, Selector) and node.name in COUNTERS:
            grown = any(isinstance(one, Call) and one.function in GROWTH | {BEGAN} for one in above)
            there = any(whether(one, inner) for one, inner in pairwise((*above, node)))
            assert grown or there, f"{drawn.id}: {node.name} as it is since its process began"


@each(ONCE)
def test_no_line_comes_and_goes_with_its_rank(drawn: Drawn) -> None:
    if drawn.instant:
        return
    for node, _ in nodes(drawn):
        if isinstance(node, Aggregate) and node.op in ("topk", "bottomk"):
            asked_once = all("@ end()" in one.moved for one in selectors(node))
            assert asked_once, f"{drawn.id}: {node.op} along the time axis; rank over the chosen time, @ end()"


BELOW_ONE = frozenset({"llm_slo_objective_ratio"})
"""Shares that the settings keep under 1."""


BY_NATURE = frozenset({"llm_gateway_tenant_weight"})
"""Gauges that are more than 0 where they are: nobody is given a share of nothing."""


def positive(node: Node) -> bool:
    """Whether a node gives no number that is 0 or less."""
    match node:
        case Literal(text):
            return float(text) > 0
        case Infix(">", _, Literal(text)):
            return float(text) >= 0
        case Selector(name):
            return name in BY_NATURE
        case Infix(
            "+", Infix("*", _, Literal("0")) | Infix("*", Literal("0"), _), right
        ):  # it is there with some series
            return positive(right)
        case Infix("or" | "*" | "/" | "+", left, right):
            return positive(left) and positive(right)
        case Infix("-", Literal("1"), Literal(text)):
            return float(text) < 1
        case Infix("-", Literal("1"), right):
            return {one.name for one in selectors(right)} <= BELOW_ONE
        case Infix("and" | "unless" | ">=" | "<" | "<=" | "!=", left, _):
            return positive(left)
        case Aggregate("count" | "group"):
            return True
        case Aggregate("sum" | "avg" | "min" | "max", _, inner):
            return all(map(positive, inner))
        case Call("clamp_min", (_, Literal(text))):
            return float(text) > 0
    return False


@each(ONCE)
def test_nothing_is_divided_by_what_may_be_nothing(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Infix) and node.op in ("/", "%"):
            assert positive(node.right), f"{drawn.id}: {node.right} may be 0"


@each(ONCE)
def test_a_quantile_of_nothing_is_dropped_and_no_quantile_is_averaged(drawn: Drawn) -> None:
    for node, above in nodes(drawn):
        if not (isinstance(node, Call) and node.function == "histogram_quantile"):
            continue
        over = above[-1] if above else None
        assert isinstance(over, Infix), f"{drawn.id}: NaN is drawn where nothing was observed; ask for >= 0"
        assert over.op in COMPARISONS, f"{drawn.id}: NaN is drawn where nothing was observed; ask for >= 0"
        averaged = [one for one in above if isinstance(one, Aggregate) and one.op in ("avg", "sum")]
        assert not averaged, f"{drawn.id}: quantiles of several servers have no {averaged[0].op}"


@each(ONCE)
def test_absence_is_not_filled_with_0(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Infix) and node.op == "or":
            right = node.right
            filled_in = isinstance(right, Call) and right.function == "vector"
            assert not filled_in, f"{drawn.id}: what is not there is shown as a number"


def test_the_rules_find_what_they_are_for() -> None:
    """Each of them, on a query that breaks it."""
    assert "llm_no_such_family" not in KNOWN
    assert not positive(read("sum by (instance) (rate(llm_preemptions_total[61s]))"))
    assert not positive(read("1 - llm_kv_usage_ratio"))
    assert positive(read("sum by (instance) (rate(llm_preemptions_total[61s])) > 0"))
    assert made(read("max by (instance, reason) (llm_requests_finished_total)")) == {"instance", "reason"}
    assert "gpu" not in made(read("max by (instance) (llm_gpu_power_watts)"))
    with pytest.raises(ValueError, match="left over"):
        read("a b")


# -- how it looks --------------------------------------------------------------------------------------------------------

PALETTE = {
    value for name, value in vars(model).items() if name.isupper() and isinstance(value, str) and value.startswith("#")
}
INK = {"transparent", "text"}
COLUMNS = 24
COLUMN_PIXELS = 1280 / COLUMNS
LETTER_PIXELS = 7.0
"""A letter of a panel's title, on average, at Grafana's 14 pixels."""


def colors(value: object) -> Iterator[str]:
    """Every colour that a board names."""
    if isinstance(value, dict):
        for key, inside in value.items():
            if key in ("color", "fixedColor", "iconColor") and isinstance(inside, str):
                yield inside
            else:
                yield from colors(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from colors(inside)


@each(EVERY)
def test_colours_are_those_that_everybody_can_tell_apart(drawn: Drawn) -> None:
    greys = {color for color in colors(drawn.data) if re.fullmatch(r"#(..)\1\1", color)}
    assert set(colors(drawn.data)) - greys <= PALETTE | INK


def luminance(color: str) -> float:
    """WCAG 2's relative luminance."""
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("color", sorted(PALETTE))
def test_words_on_a_coloured_tile_can_be_read(color: str) -> None:
    """Grafana writes black or white on a tile, whichever stands out: WCAG 2 asks for 4.5 to 1."""
    own = luminance(color)
    assert max((own + 0.05) / 0.05, 1.05 / (own + 0.05)) >= 4.5


@each(EVERY)
def test_a_panel_can_be_read_at_1280_pixels(drawn: Drawn) -> None:
    panel = drawn.panel
    assert 4 <= panel.width <= COLUMNS
    assert panel.height >= 3
    assert len(panel.title) * LETTER_PIXELS <= panel.width * COLUMN_PIXELS, "the title is cut"
    if panel.kind in (Kind.LINES, Kind.STACK):
        assert len(panel.queries) <= 5, "a legend of many lines hides the panel"
    assert all(len(query.legend) <= 45 for query in panel.queries)
