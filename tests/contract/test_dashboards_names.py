"""What the boards ask and say, read without a server: every name is one that some page shows, and every rule of asking is kept.

Each query is read as a tree. A series, and a label that it is matched, grouped or joined by, must be in the schema, on the
exporter's own page, among what rules record, or among the few that Prometheus makes itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from llmvitals.dashboards import model
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import PLACE, Board, Kind
from llmvitals.settings import Settings
from support.boards import DATA, EVERY, ONCE, Asked, Drawn, each, filled
from support.known_series import COUNTERS, KNOWN
from support.promql_tree import (
    COMPARISONS,
    Aggregate,
    Call,
    Infix,
    Node,
    Number,
    Selector,
    Subquery,
    below,
    parse,
    selectors,
    walk,
)

SETTINGS = Settings()
WINDOW, SPAN = "61s", "3601s"
"""What stands for Grafana's window and for the chosen time; no query has them of its own."""

BURNS = {row.long for row in SETTINGS.alerts.burns}

# -- what may be asked -------------------------------------------------------------------------------------------------


def tree(asked: Asked) -> Node:
    return parse(filled(asked.expr, window=WINDOW, span=SPAN))


def nodes(drawn: Drawn) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node of a panel's queries, with those above it."""
    for asked in drawn.asked:
        yield from walk(tree(asked))


@each(ONCE)
def test_every_series_and_every_label_that_it_is_matched_by_is_one_that_a_page_shows(drawn: Drawn) -> None:
    for asked in drawn.asked:
        for one in selectors(tree(asked)):
            assert one.name in KNOWN, f"{drawn.id}: nobody shows {one.name}"
            unknown = {label for label, _, _ in one.matchers} - KNOWN[one.name]
            assert not unknown, f"{drawn.id}: {one.name} has no label {sorted(unknown)}"


def made(node: Node) -> frozenset[str]:
    """The labels that the series of a node may have."""
    match node:
        case Selector(name):
            return KNOWN[name]
        case Aggregate(name, labels, without, inner):
            under = frozenset().union(*map(made, inner))
            if name == "count_values":
                under |= {text.text[1:-1] for text in inner if isinstance(text, Number)}
            if name in ("topk", "bottomk"):
                return under
            return under - frozenset(labels) if without else under & frozenset(labels)
        case Call("label_replace" | "label_join", inner):
            target = inner[1]
            assert isinstance(target, Number)
            return made(inner[0]) | {target.text[1:-1]}
    return frozenset().union(*map(made, below(node)))


@each(ONCE)
def test_every_label_that_is_kept_or_joined_by_is_there(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Aggregate):
            gone = set(node.labels) - frozenset().union(*map(made, node.inner))
            assert not gone, f"{drawn.id}: by {sorted(gone)}, which no series below it has"
        if isinstance(node, Infix) and node.on:
            both = made(node.left) & made(node.right)
            assert set(node.on) <= both | set(PLACE), (
                f"{drawn.id}: on {sorted(set(node.on) - both)}, which one side lacks"
            )
            assert set(node.taken) <= made(node.left) | made(node.right)


@each(ONCE)
def test_no_query_takes_an_edge_for_granted(drawn: Drawn) -> None:
    """Histograms keep their source's own edges: an edge that one engine has, another lacks."""
    for asked in drawn.asked:
        fixed = [value for one in selectors(tree(asked)) for label, _, value in one.matchers if label == "le"]
        assert set(fixed) <= {r"\+Inf", "+Inf"}, f"{drawn.id}: {asked.expr}"


# -- how it is asked ---------------------------------------------------------------------------------------------------


@each(ONCE)
def test_windows_are_grafanas_or_those_of_burns(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Selector | Subquery) and node.window:
            assert node.window in {WINDOW, SPAN} | BURNS, f"{drawn.id}: a fixed window of {node.window}"
            if node.window == SPAN and not drawn.instant:
                assert node.at == "end", f"{drawn.id}: each point looks back over the whole chosen time; ask @ end()"


GROWTH = frozenset({"rate", "increase", "irate", "changes", "resets", "count_over_time", "present_over_time"})
THERE = frozenset({"count", "group"})


@each(ONCE)
def test_no_counter_is_read_over_its_whole_life(drawn: Drawn) -> None:
    for node, above in nodes(drawn):
        if isinstance(node, Selector) and node.name in COUNTERS:
            grown = any(isinstance(one, Call) and one.name in GROWTH for one in above)
            counted = isinstance(above[-1] if above else None, Aggregate) and above[-1].name in THERE
            absent = any(isinstance(one, Call) and one.name.startswith("absent") for one in above)
            assert grown or counted or absent, f"{drawn.id}: {node.name} as it is since its process began"


@each(ONCE)
def test_no_line_comes_and_goes_with_its_rank(drawn: Drawn) -> None:
    if drawn.instant:
        return
    for node, _ in nodes(drawn):
        if isinstance(node, Aggregate) and node.name in ("topk", "bottomk"):
            asked_once = all(one.at == "end" for one in selectors(node))
            assert asked_once, f"{drawn.id}: {node.name} along the time axis; rank over the chosen time, @ end()"


BELOW_ONE = frozenset({"llm_slo_objective_ratio"})
"""Shares that the settings keep under 1."""


def positive(node: Node) -> bool:
    """Whether a node gives no number that is 0 or less."""
    match node:
        case Number(text):
            return float(text) > 0
        case Infix(">", _, Number(text)):
            return float(text) >= 0
        case Infix("or", left, right) | Infix("*" | "/" | "+", left, right):
            return positive(left) and positive(right)
        case Infix("-", Number("1"), Number(text)):
            return float(text) < 1
        case Infix("-", Number("1"), right):
            return {one.name for one in selectors(right)} <= BELOW_ONE
        case Infix("and" | "unless" | ">=" | "<" | "<=" | "!=", left, _):
            return positive(left)
        case Aggregate("sum" | "avg" | "min" | "max" | "count" | "group" as name, _, _, inner):
            return name in ("count", "group") or all(map(positive, inner))
        case Call("clamp_min", (_, Number(text))):
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
        if not (isinstance(node, Call) and node.name == "histogram_quantile"):
            continue
        over = above[-1] if above else None
        assert isinstance(over, Infix), f"{drawn.id}: NaN is drawn where nothing was observed; ask for >= 0"
        assert over.op in COMPARISONS, f"{drawn.id}: NaN is drawn where nothing was observed; ask for >= 0"
        averaged = [one for one in above if isinstance(one, Aggregate) and one.name in ("avg", "sum")]
        assert not averaged, f"{drawn.id}: quantiles of several servers have no {averaged[0].name}"


@each(ONCE)
def test_absence_is_not_filled_with_0(drawn: Drawn) -> None:
    for node, _ in nodes(drawn):
        if isinstance(node, Infix) and node.op == "or":
            right = node.right
            filled_in = isinstance(right, Call) and right.name == "vector"
            assert not filled_in, f"{drawn.id}: what is not there is shown as a number"


def test_the_rules_find_what_they_are_for() -> None:
    """Each of them, on a query that breaks it."""
    assert "llm_no_such_family" not in KNOWN
    assert not positive(parse("sum by (instance) (rate(llm_preemptions_total[61s]))"))
    assert not positive(parse("1 - llm_kv_usage_ratio"))
    assert positive(parse("sum by (instance) (rate(llm_preemptions_total[61s])) > 0"))
    assert made(parse("max by (instance, reason) (llm_requests_finished_total)")) == {"instance", "reason"}
    assert "gpu" not in made(parse("max by (instance) (llm_gpu_power_watts)"))
    (inner,) = [n for n, _ in walk(parse("topk(3, max_over_time(up[5m] @ end()))")) if isinstance(n, Selector)]
    assert (inner.window, inner.at) == ("5m", "end")
    assert parse("a + b * c - d") == Infix(
        "-", Infix("+", Selector("a"), Infix("*", Selector("b"), Selector("c"))), Selector("d")
    )
    grouped = parse("a / on (x) group_left (y) (b)")
    assert isinstance(grouped, Infix)
    assert (grouped.on, grouped.taken, grouped.right) == (("x",), ("y",), Selector("b"))
    with pytest.raises(ValueError, match="left over"):
        parse("a b")


# -- what is said and how it looks -------------------------------------------------------------------------------------

PALETTE = {
    value for name, value in vars(model).items() if name.isupper() and isinstance(value, str) and value.startswith("#")
}
INK = {"transparent", "text"}
MAX_OPEN, COLUMNS = 25, 24
COLUMN_PIXELS = 1280 / COLUMNS
LETTER_PIXELS = 7.0
"""A letter of a panel's title, on average, at Grafana's 14 pixels."""

board = pytest.mark.parametrize("board", BOARDS, ids=[one.uid for one in BOARDS])


@each(EVERY)
def test_every_panel_says_what_it_is_in_what_unit_and_why_it_is_empty(drawn: Drawn) -> None:
    panel = drawn.panel
    if panel.kind is Kind.TEXT:
        assert not panel.queries
        return
    assert panel.queries
    assert panel.unit or all(query.unit for query in panel.queries)
    assert len(drawn.data["description"].split()) >= 15
    assert not re.search(r"[{}]", drawn.data["description"]), "a setting was not filled in"
    assert len(panel.empty.split()) >= 2


@board
def test_titles_differ_and_few_enough_panels_are_open(board: Board) -> None:
    titles = Counter(panel.title for row in board.rows for panel in row.panels)
    assert [title for title, times in titles.items() if times > 1] == []
    assert sum(len(row.panels) for row in board.rows if not row.collapsed) <= MAX_OPEN
    assert all(row.title for row in board.rows if row.collapsed)
    assert len({one.title for one in BOARDS}) == len({one.uid for one in BOARDS}) == len(BOARDS)


def test_there_are_at_least_60_panels() -> None:
    assert len(ONCE) >= 60


@board
def test_panels_lie_on_the_grid_and_not_on_each_other(board: Board) -> None:
    data = DATA[board.file]
    for together in (data["panels"], *([row, *row["panels"]] for row in data["panels"] if row.get("panels"))):
        places = [(one["title"], one["gridPos"]) for one in together]
        assert all(place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS for _, place in places)
        for (one, a), (other, b) in combinations(places, 2):
            beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
            apart = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
            assert beside or apart, f"{one} and {other} lie on each other"


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
    assert set(colors(drawn.data)) <= PALETTE | INK


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
    assert all(len(query.legend) <= 40 for query in panel.queries)
