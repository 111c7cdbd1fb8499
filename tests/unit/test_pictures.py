"""Panels as images: what is asked, how numbers are read, what is drawn, and that it is the same each time."""

from __future__ import annotations

import io
import itertools
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text
from msgspec import structs
from PIL import Image

from llmvitals import cli
from llmvitals.app.runbook import Picture, parts
from llmvitals.cli.picture import found_board, found_panels, slug
from llmvitals.dashboards import grafana
from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.model import (
    BLUE,
    NOW,
    ORANGE,
    SELECTOR,
    Board,
    Kind,
    Limit,
    Panel,
    Query,
    Row,
    cell,
    heat,
    q,
    total,
)
from llmvitals.dashboards.pictures import axes, curves, legend, over_time, points, states, table
from llmvitals.dashboards.pictures import heat as heatmap
from llmvitals.dashboards.pictures.ask import asked, spanned
from llmvitals.dashboards.pictures.look import DARK, LIGHT, ink_on
from llmvitals.dashboards.pictures.paper import Paper
from llmvitals.dashboards.pictures.picture import ORIGIN, PHONE, of_board, of_panel
from llmvitals.dashboards.pictures.results import Answered, Choice, Curve, Scene, Span, curve
from llmvitals.dashboards.pictures.units import known, said, ticks
from llmvitals.dashboards.promql import queries
from llmvitals.errors import SettingsError
from llmvitals.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Settings()
START = 1_700_000_000.0 // 60 * 60
SPAN = Span(START, START + 600, 10)
SCENE = Scene(SPAN, Choice(instance=("vllm-0",), model=("tiny",)))
PANELS = tuple((board, panel) for board in BOARDS for row in board.rows for panel in row.panels)


def series(value: float, *, every: float = 10, **labels: str) -> Curve:
    times = [START + every * n for n in range(int(600 / every) + 1)]
    return curve({"instance": "vllm-0", "model": "tiny", **labels}, tuple((t, value) for t in times))


def filled(panel: Panel, many: int = 2) -> Answered:
    """Made-up answers to each query of a panel: ``many`` series that differ in the labels it keeps."""
    found = []
    for at, query in enumerate(queries(panel, SETTINGS)):
        if panel.kind is Kind.HEATMAP:
            edges = ("0.1", "1", "10", "+Inf")
            found.append(tuple(series(float(n), le=edge) for n, edge in enumerate(edges, 1)))
            continue
        kept = [label for label in query.by if label not in {"instance", "model"}]
        known_values = [value for value, _, _ in query.names] or [0.2 + 0.15 * at]
        some = many if kept else 1
        found.append(
            tuple(
                series(float(known_values[n % len(known_values)]), **{label: f"{label}-{n}" for label in kept})
                for n in range(some)
            )
        )
    return Answered(panel, tuple(found))


def texts(paper: Paper) -> list[str]:
    return [one.get_text() for one in paper.figure.findobj(Text) if one.get_text()]


# -- how numbers are read -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "s", "0 s"),
        (0.0425, "s", "42.5 ms"),
        (0.9999, "s", "1 s"),
        (2, "s", "2 s"),
        (90, "s", "90 s"),
        (150, "s", "2.5 min"),
        (9000, "s", "2.5 h"),
        (0.931, "percentunit", "93.1%"),
        (1, "percentunit", "100%"),
        (0.0004, "percentunit", "0.04%"),
        (85_899_345_920, "bytes", "80 GiB"),
        (5_500_000_000, "Bps", "5.5 GB/s"),
        (1_980_000_000, "hertz", "1.98 GHz"),
        (700, "watt", "700 W"),
        (61, "celsius", "61 °C"),
        (12.34, "reqps", "12.3 req/s"),
        (1234.5, "suffix: tok/s", "1,234 tok/s"),
        (1.5, "suffix:x", "1.5 x"),
        (0, "none", "0"),
        (439_613, "none", "439,613"),
        (-0.5, "none", "-0.5"),
    ],
)
def test_numbers_are_read_in_their_unit(value, unit, words):
    assert said(value, unit) == words


@pytest.mark.parametrize("unit", sorted({u for _, p in PANELS for u in (p.unit, *(q.unit for q in p.queries)) if u}))
def test_every_unit_of_a_board_is_known(unit):
    assert known(unit)


@pytest.mark.parametrize(
    ("low", "high", "most"), [(0, 1, 6), (0, 37, 5), (-3, 4, 4), (0, 0.0007, 3), (5, 5, 4), (0, 1e9, 7)]
)
def test_ticks_are_few_round_and_inside(low, high, most):
    found = ticks(low, high, most)
    assert 1 <= len(found) <= max(most, 1)
    assert all(low - 1e-9 <= one <= high * (1 + 1e-9) for one in found)
    gaps = {round(b - a, 9) for a, b in itertools.pairwise(found)}
    assert len(gaps) <= 1


def test_an_axis_ends_above_all_and_begins_where_it_is_told():
    free = axes.reach([3.0, 41.0], "none", low=None, high=None, most=5)
    assert free.low <= 3.0 < 41.0 <= free.high
    fixed = axes.reach([0.2], "percentunit", low=0.0, high=1.0, most=6)
    assert (fixed.low, fixed.high, fixed.ticks[-1]) == (0.0, 1.0, (1.0, "100%"))
    above = axes.reach([1.7], "percentunit", low=0.0, high=1.0, most=6)
    assert above.high >= 1.7, "what is above the top that was told is not cut off"


def test_moments_on_the_axis_are_round_and_in_utc():
    assert [words for _, words in axes.times(Span(1_700_000_000, 1_700_000_600, 10), 200)] == ["22:15", "22:20"]


# -- what is asked -------------------------------------------------------------------------------------------------------
def expr(promql: str, choice: Choice = SCENE.choice, span: Span = SPAN, scrape: float = 15, **panel: object) -> str:
    one = Panel(Kind.LINES, "x", "none", (Query("", BLUE, promql=promql),), "", "", **panel)
    return asked(one, SETTINGS, choice, span, scrape)[0].expr


@pytest.mark.parametrize(("step", "scrape", "window"), [(10, 15, "60s"), (300, 15, "315s"), (10, 30, "120s")])
def test_the_window_of_rates_is_four_scrapes_or_a_step_and_one(step, scrape, window):
    assert expr("rate(x[$__rate_interval])", span=Span(0, 600, step), scrape=scrape) == f"rate(x[{window}])"


def test_the_range_and_the_choice_are_filled_in():
    assert expr("max_over_time(x[$__range] @ end())") == "max_over_time(x[600s] @ end())"
    several = Choice(instance=("a.b:8000", 'c"d'), model=())
    assert expr(f"x{{{SELECTOR}}}", several) == (
        'x{cluster=~".*",namespace=~".*",instance=~"(a\\\\.b:8000|c\\"d)",model=~".*"}'
    )


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda one: getattr(one, "title", ""))
def test_no_query_of_a_board_keeps_a_variable(board, panel):
    for question in asked(panel, SETTINGS, SCENE.choice, SPAN):
        assert not re.search(r"\$(?!\d)", question.expr), "but for what label_replace found"
        assert question.instant == (panel.kind in NOW)


def test_what_looks_far_back_is_asked_for_at_few_moments():
    one = Panel(Kind.LINES, "x", "none", (Query("", BLUE, promql="x"),), "", "", points=20)
    span = asked(one, SETTINGS, Choice(), Span(0, 6000, 15))[0].span
    assert (span.end - span.start) / span.step <= 20


def test_a_span_has_whole_steps_and_few_of_them():
    span = spanned(1000, 1000 + 86_400)
    assert (span.end - span.start) / span.step <= 400
    assert span.start % span.step == span.end % span.step == 0
    assert spanned(1000, 1100).step >= 15, "more points than scrapes tell nothing"


@pytest.fixture(scope="module")
def drawn_by_grafana() -> dict[tuple[str, str], dict]:
    found: dict[tuple[str, str], dict] = {}
    made = grafana.boards(SETTINGS)
    for board in BOARDS:
        for one in made[board.file]["panels"]:
            for panel in (one, *one.get("panels", ())):
                found[board.file, panel["title"]] = panel
    return found


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda one: getattr(one, "title", ""))
def test_the_board_asks_the_same_and_calls_it_the_same(board, panel, drawn_by_grafana):
    targets = drawn_by_grafana[board.file, panel.title].get("targets", [])
    nobody = Scene(SPAN)
    labels = dict.fromkeys(("instance", "model", "cluster", "namespace"), "")
    for query, target in zip(
        queries(panel, SETTINGS), targets, strict=False
    ):  # a picture draws its limits without asking
        assert target.get("instant", False) == (panel.kind in NOW)
        told = {name: f"<{name}>" for name in {*labels, *query.by, *re.findall(r"\{\{(\w+)\}\}", query.legend)}}
        found = Curve(tuple(sorted(told.items())), ((START, 1.0),))
        wanted = re.sub(r"\{\{(\w+)\}\}", r"<\1>", target["legendFormat"])
        assert curves.named_by(query, found, nobody) == (wanted or "all")


# -- what of it is drawn -------------------------------------------------------------------------------------------------
def test_a_label_that_the_caption_has_is_not_in_the_legend():
    query = q("kv_usage_ratio", "KV", ORANGE)
    assert curves.named_by(query, series(1.0), SCENE) == "KV"
    assert curves.named_by(query, series(1.0), Scene(SPAN)) == "KV vllm-0 tiny"
    both = Scene(SPAN, Choice(instance=("vllm-0", "vllm-1"), model=("tiny",)))
    assert curves.named_by(query, series(1.0), both) == "KV vllm-0"


def test_curves_of_one_query_keep_its_hue_and_differ():
    panel = Panel(Kind.LINES, "x", "none", (q("kv_usage_ratio", "KV", ORANGE),), "", "")
    found = curves.lines(
        Answered(panel, (tuple(series(1.0, instance=f"v{n}") for n in range(3)),)), Scene(SPAN), SETTINGS
    )
    assert found[0].color == ORANGE
    assert len({one.color for one in found}) == 3


def test_a_gap_is_never_joined_and_a_lone_point_is_a_dot():
    panel = Panel(Kind.LINES, "x", "none", (total("kv_usage_ratio", "KV", ORANGE),), "", "")
    times = [START, START + 10, START + 100, START + 200, START + 210]
    found = Answered(panel, ((curve({}, tuple((t, 1.0) for t in times)),),))
    (plot,) = of_panel(found, SCENE, SETTINGS, LIGHT).figure.axes
    line, dots = plot.get_lines()
    ys = line.get_ydata()
    assert [math.isnan(y) for y in ys] == [False, False, True, False, True, False, False]
    assert list(dots.get_xdata()) == [START + 100]


def test_limits_lie_at_the_numbers_of_the_settings():
    limit = Limit("slo.ttft_seconds", ORANGE)
    panel = Panel(Kind.LINES, "x", "s", (total("ttft_p95_seconds", "p95", BLUE),), "", "", limits=(limit,))
    for ttft, words in ((2.0, "2 s"), (3.5, "3.5 s"), (60.0, "60 s ↑")):
        settings = replace_slo(ttft)
        paper = of_panel(Answered(panel, ((series(1.9),),)), SCENE, settings, LIGHT)
        (plot,) = paper.figure.axes
        across = [one for one in plot.get_lines() if list(one.get_xdata()) == [0, 1]]
        assert [one.get_ydata()[0] for one in across] == ([] if "↑" in words else [ttft])
        assert words in texts(paper), "a limit far above all curves is told at the edge"
        assert all(to_hex(one.get_color()).upper() == ORANGE for one in across)


def replace_slo(ttft: float) -> Settings:
    return structs.replace(SETTINGS, slo=structs.replace(SETTINGS.slo, ttft_seconds=ttft))


def test_another_unit_has_the_axis_on_the_right_and_says_so():
    panel = Panel(
        Kind.LINES,
        "x",
        "none",
        (total("seats", "seats", BLUE), replace(total("mean_context_tokens", "context", ORANGE), unit="suffix: tok")),
        "",
        "",
    )
    paper = of_panel(Answered(panel, ((series(12),), (series(900),))), SCENE, SETTINGS, LIGHT)
    left, right = paper.figure.axes
    assert left.get_ylim()[1] < 20 < 900 <= right.get_ylim()[1]
    assert right.yaxis.get_ticks_position() == "right"
    assert {"context (right axis)", "900 tok", "seats", "12"} <= set(texts(paper))


def test_bands_add_up_and_are_nothing_only_where_all_are():
    bands = (Query("a", BLUE, promql="a", by=()), Query("b", ORANGE, promql="b", by=()))
    panel = Panel(Kind.STACK, "x", "s", bands, "", "")
    a = curve({}, ((START, 1.0), (START + 10, 1.0), (START + 30, 1.0)))
    b = curve({}, ((START, 2.0), (START + 30, 4.0)))
    found = curves.lines(Answered(panel, ((a,), (b,))), SCENE, SETTINGS)
    low, high = over_time._stacked(found, np.array([START, START + 10, START + 20, START + 30]))
    assert list(low[[0, 1, 3]]) == [1.0, 1.0, 1.0]
    assert list(high[[0, 1, 3]]) == [3.0, 1.0, 5.0]
    assert math.isnan(high[2])


def test_a_state_lasts_until_the_next_and_not_over_a_gap():
    query = Query("s", BLUE, promql="s", names=((1, "on", BLUE), (0, "off", ORANGE)))
    panel = Panel(Kind.TIMELINE, "x", "none", (query,), "", "")
    held = curve({}, ((START, 0.0), (START + 10, 1.0), (START + 20, 1.0), (START + 60, 1.0)))
    (lane,) = curves.lines(Answered(panel, ((held,),)), SCENE, SETTINGS)
    found = [(begin - START, end - START, value) for begin, end, value in states.runs(lane, 10, START + 600)]
    assert found == [(0, 10, 0.0), (10, 30, 1.0), (60, 70, 1.0)]


def test_a_point_needs_both_its_numbers():
    x, y = Query("waits", BLUE, promql="x", column="KV"), Query("waits", BLUE, promql="y", column="GPU")
    panel = Panel(Kind.XY, "x", "percentunit", (x, y), "", "", lines=(Limit("slo.objective"), Limit("slo.objective")))
    ys = (series(0.5, instance="a"), series(0.7, instance="c"))
    found = Answered(panel, ((series(0.2, instance="a"), series(0.3, instance="b")), ys))
    (group,) = points.groups(found, SETTINGS)
    assert group.points == ((0.2, 0.5, "a"),)


def test_rows_of_a_table_are_joined_by_what_both_have_and_the_worst_is_first():
    columns = (
        cell("TTFT", "s", promql="a", limits=(Limit("slo.ttft_seconds", ORANGE),)),
        cell("GPUs", "none", promql="b", by=("instance",)),
        cell("State", "none", promql="c", names=((1, "fine", BLUE),)),
    )
    panel = Panel(Kind.TABLE, "x", "none", columns, "", "", worst="TTFT")
    made = (
        (series(0.5, instance="a"), series(9.0, instance="b")),
        (curve({"instance": "a"}, ((START, 4.0),)), curve({"instance": "c"}, ((START, 8.0),))),
        (series(1.0, instance="b"),),
    )
    shown = table.sheet(Answered(panel, made), Scene(SPAN), SETTINGS)
    assert shown.headings == ("Replica", "Model", "TTFT", "GPUs", "State"), "the columns of the board"
    assert [[one.text for one in row] for row in shown.rows] == [
        ["b", "tiny", "9 s", "–", "fine"],
        ["a", "tiny", "500 ms", "4", "–"],
        ["c", "–", "–", "8", "–"],
    ]
    assert [row[2].color for row in shown.rows] == [ORANGE, "", ""]


def test_counts_of_a_heatmap_are_those_between_two_edges():
    panel = Panel(Kind.HEATMAP, "x", "s", (heat("llm_ttft_seconds", "s"),), "", "")
    made = tuple(
        curve({"le": edge}, ((START, value), (START + 10, 0.0)))
        for edge, value in (("0.1", 0.0), ("1", 3.0), ("10", 3.0), ("100", 5.0), ("+Inf", 5.0))
    )
    edges, found = heatmap.counts(Answered(panel, (made,)), Span(START, START + 10, 10))
    assert edges == (0.1, 1.0, 10.0, 100.0, math.inf), "one empty row on either side"
    assert [None if math.isnan(n) else n for n in found[:, 0]] == [None, 3.0, None, 2.0, None]
    assert np.isnan(found[:, 1]).all()
    assert heatmap.counts(Answered(panel, ((series(3.0),),)), SPAN)[0] == (), "what has no edge is in no row"


def test_what_finds_no_room_in_a_legend_is_counted_and_the_largest_stay():
    entries = [legend.Entry(f"curve number {n}", BLUE, "1", size=float(n)) for n in range(12)]
    found = legend.laid(entries, 300, 3)
    kept = [one.size for row in found.rows for one in row]
    assert found.more == 12 - len(kept) > 0
    assert kept == sorted(kept, reverse=True)
    assert max(kept) == 11
    assert legend.laid(entries[:2], 300, 3).more == 0


# -- the picture ---------------------------------------------------------------------------------------------------------
def test_the_same_answers_give_the_same_bytes_without_a_date_or_a_link():
    panel = found_panels(found_board("service"), ("What binds: KV cache next to GPU compute",))[0]
    one, other = (of_panel(filled(panel), SCENE, SETTINGS, LIGHT) for _ in range(2))
    svg = one.svg(panel.title)
    assert svg == one.svg(panel.title) == other.svg(panel.title)
    assert one.png() == other.png()
    text = svg.decode()
    assert not re.search(r"<dc:date>|<script|<image[^>]+href=\"http|@font-face|<text", text), (
        "it needs no font, no network"
    )
    assert f"<title>{panel.title}</title>" in text
    assert re.search(r'<svg[^>]* width="[\d.]+"', text, re.S), "in pixels"
    assert len(svg) < 150_000


def test_every_picture_says_what_it_is_when_and_of_whom():
    paper = of_panel(filled(PANELS[0][1]), Scene(SPAN, SCENE.choice, "a note"), SETTINGS, LIGHT)
    caption = " ".join(texts(paper))
    assert ORIGIN == "drawn by llmvitals from a Prometheus, not a screenshot of Grafana"
    assert ORIGIN in caption
    assert "2023-11-14 22:13 to 22:23 UTC" in caption
    assert "instance vllm-0, model tiny" in caption
    assert "a note" in caption


def test_what_is_asked_for_at_few_moments_is_a_curve_all_the_same():
    panel = Panel(Kind.LINES, "x", "none", (Query("", BLUE, promql="x"),), "", "", points=20)
    span = Span(START, START + 6000, 15)
    (question,) = asked(panel, SETTINGS, Choice(), span)
    times = np.arange(question.span.start, question.span.end + 1, question.span.step)
    found = Answered(panel, ((curve({}, tuple((float(t), 1.0) for t in times)),),))
    (plot,) = of_panel(found, Scene(span), SETTINGS, LIGHT).figure.axes
    (line,) = plot.get_lines()
    assert len(line.get_ydata()) == len(times), "no gap between any two"
    assert question.span.step > span.step


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.TEXT])
def test_a_panel_without_data_says_why_and_draws_nothing_else(kind):
    panel = next(panel for _, panel in PANELS if panel.kind is kind)
    nothing = Answered(panel, tuple(() for _ in queries(panel, SETTINGS)))
    paper = of_panel(nothing, SCENE, SETTINGS, LIGHT)
    assert not paper.figure.axes
    assert panel.empty in " ".join(texts(paper))
    no_number = Answered(panel, tuple((curve({}, ((START, math.nan),)),) for _ in queries(panel, SETTINGS)))
    assert no_number.empty


def test_a_panel_of_words_shows_them():
    panel = Panel(Kind.TEXT, "About", "none", (), "The limit is **{slo.ttft_seconds:g} s**, see [more](x.md).", "")
    assert "The limit is 2 s, see more." in texts(of_panel(Answered(panel, ()), SCENE, SETTINGS, LIGHT))


def boxes(paper: Paper) -> list[tuple[str, tuple[float, float, float, float]]]:
    canvas = FigureCanvasAgg(paper.figure)
    canvas.draw()
    shown = [one for one in paper.figure.findobj(Text) if one.get_text() and one.get_visible()]
    return [(one.get_text(), one.get_window_extent(canvas.get_renderer()).extents) for one in shown]


def overlapping(found: list[tuple[str, tuple[float, float, float, float]]]) -> list[tuple[str, str]]:
    """Pairs of words that lie over each other by more than a pixel."""
    return [
        (a, b)
        for (a, (x0, y0, x1, y1)), (b, (u0, v0, u1, v1)) in itertools.combinations(found, 2)
        if min(x1, u1) - max(x0, u0) > 1 and min(y1, v1) - max(y0, v0) > 2
    ]


KINDS = tuple({panel.kind: (board, panel) for board, panel in PANELS}.values())
OPEN = tuple(
    (b, p) for b in BOARDS if b.uid == "llmvitals-serving" for r in b.rows if not r.collapsed for p in r.panels
)


@pytest.mark.parametrize(("board", "panel"), dict.fromkeys((*KINDS, *OPEN)), ids=lambda one: getattr(one, "title", ""))
@pytest.mark.parametrize("width", [0.0, PHONE - 16], ids=["board", "phone"])
def test_no_word_lies_over_another_or_beyond_the_edge(board, panel, width):
    paper = of_panel(filled(panel, 5), SCENE, SETTINGS, LIGHT, width=width)
    found = boxes(paper)
    assert overlapping(found) == []
    for words, (left, bottom, right, top) in found:
        assert left >= 0, words
        assert bottom >= 0, words
        assert right <= paper.box.width + 1, words
        assert top <= paper.box.height + 1, words


def made_board() -> tuple[Board, dict[str, Answered]]:
    panel = Panel(Kind.LINES, "One", "none", (total("seats", "seats", BLUE),), "", "", width=12)
    panels = (panel, replace(panel, title="Two"), replace(panel, title="Three"))
    closed = Row("Closed", (replace(panel, title="Four"),), collapsed=True)
    board = Board("u", "dashboards/made.json", "Made", "About it.", (Row("Open", panels), closed))
    return board, {one.title: Answered(one, ((series(3.0),),)) for one in panels}


def test_a_board_has_its_panels_in_the_grid_and_in_one_column_on_a_phone():
    board, found = made_board()
    wide = of_board(board, found, SCENE, SETTINGS, LIGHT)
    assert wide.box.width == 1280
    assert {"Made", "About it.", "Open", "One", "Two", "Three"} <= set(texts(wide))
    assert "Closed  (1 panel, closed)" in texts(wide)
    places = [plot.get_position() for plot in wide.figure.axes]
    assert places[0].y0 == pytest.approx(places[1].y0)
    assert places[2].y1 < places[0].y0
    assert places[2].x0 == pytest.approx(places[0].x0)
    phone = of_board(board, found, SCENE, SETTINGS, LIGHT, width=PHONE)
    assert phone.box.width == PHONE
    assert len({round(plot.get_position().x0, 6) for plot in phone.figure.axes}) == 1
    assert overlapping(boxes(phone)) == []


def test_a_png_is_sharp_small_and_has_the_colours_of_its_theme():
    board, found = made_board()
    for theme in (LIGHT, DARK):
        data = of_board(board, found, SCENE, SETTINGS, theme).png(2.0)
        image = Image.open(io.BytesIO(data))
        assert image.size[0] == 2560
        assert image.info == {}, "no date, no program"
        shown = {color for _, color in image.convert("RGB").getcolors(1 << 24)}
        assert {tuple(bytes.fromhex(color[1:])) for color in (theme.page, theme.frame)} <= shown


@pytest.mark.parametrize(("color", "ink"), [("#0072B2", "#FFFFFF"), ("#E69F00", "#000000"), ("#999999", "#000000")])
def test_words_on_a_colour_are_readable(color, ink):
    assert ink_on(color) == ink


# -- the command ---------------------------------------------------------------------------------------------------------
def test_a_board_or_a_panel_that_is_none_is_told_with_those_there_are():
    with pytest.raises(SettingsError, match=r"is no board\. There are: .*service"):
        found_board("servce")
    with pytest.raises(SettingsError, match=r"is no panel of that board\. There are: 'Verdict'"):
        found_panels(found_board("service"), ("Verdikt",))
    assert found_panels(found_board("service"), ("verdict",))[0].title == "Verdict"


def run(*words: object):
    return CliRunner().invoke(cli.group, ["picture", *map(str, words)])


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(tmp_path):
    url = ("--prometheus", "http://127.0.0.1:1", "-o", tmp_path)
    away = run(*url, "--board", "service")
    assert "cannot be reached" in str(away.exception)
    assert "--board nowhere: is no board" in str(run(*url, "--board", "nowhere").exception)
    swapped = run(*url, "--board", "service", "--from", "2026-01-02", "--to", "2026-01-01")
    assert swapped.exit_code == 2
    assert "is not before" in swapped.output
    short = ("--from", START + 1, "--to", START + 9)
    for words, why in ((short, "no step of 15 s has room"), (("--step", "50ms"), "--step is 0.05 s")):
        refused = run(*url, "--board", "service", *words)
        assert refused.exit_code == 2
        assert why in refused.output
    for address in ("http://u:secret@host:x1", "http://u:se/secret@host", "http://host:x1?token=secret"):
        told = str(run("--prometheus", address, "--board", "service").exception)
        assert told.endswith("is not a URL. Write it like http://host:8000.")
        assert "secret" not in told
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_help_is_there_and_a_picture_says_how_to_get_it():
    code = (
        "import sys\nsys.modules['matplotlib'] = None\n"
        "from llmvitals.cli import main\n"
        "try:\n    main(['picture', '--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "try:\n    main(['picture', '--prometheus', 'http://127.0.0.1:1', '--board', 'service'])\n"
        "except SystemExit as end:\n    assert end.code == 3\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'llmvitals[pictures]'" in done.stderr
    assert "--prometheus" in done.stdout


def test_a_file_is_named_after_its_panel():
    assert slug("What binds: KV cache next to GPU compute") == "what-binds-kv-cache-next-to-gpu-compute"


# -- the pictures of the documents ---------------------------------------------------------------------------------------
SHOWN = sorted((ROOT / "runbooks" / "img").glob("*.svg"))
LINK = re.compile(r"^!\[([^\]]*)\]\(([^)]+)\)$", re.M)


@pytest.mark.parametrize("file", SHOWN, ids=lambda path: path.stem)
def test_a_runbooks_picture_is_linked_by_it_in_each_language_with_words(file):
    assert file.stat().st_size < 150_000
    pages = [(ROOT / "runbooks" / f"{file.stem}.md", f"img/{file.name}")]
    turkish = ROOT / "runbooks" / "tr" / f"{file.stem}.md"
    pages += [(turkish, f"../img/{file.name}")] if turkish.exists() else []
    for page, target in pages:
        text = page.read_text(encoding="utf-8")
        assert [to for _, to in LINK.findall(text)] == [target]
        assert len(LINK.search(text)[1].split()) >= 8, "whoever cannot see it reads what it shows"
        found = parts(file.stem, "tr" if page == turkish else "en")
        assert [type(one) for one in found] == [str, Picture, str]
        assert found[1].svg == file.read_text(encoding="utf-8")
        assert "![" not in found[0] + found[2]


def test_there_are_pictures_and_a_runbook_without_one_is_one_part():
    assert len(SHOWN) >= 10
    assert len(parts("users-hurt")) == 1
    assert parts("no-such-page") is None


def test_the_gallery_shows_every_board_and_no_file_lies_unused():
    folder = ROOT / "docs" / "img" / "boards"
    text = (ROOT / "docs" / "boards.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"img/boards/([\w.-]+)", text))
    assert shown == {path.name for path in folder.iterdir()}
    assert {Path(board.file).stem for board in BOARDS} <= {name.split(".")[0] for name in shown}
    assert all(path.stat().st_size < 250_000 for path in folder.iterdir())
