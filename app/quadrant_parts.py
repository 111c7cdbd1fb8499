"""How the picture "KV usage against compute" is drawn, the words beside it, and its style sheet. Everything is escaped here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import altair as alt

import parts
from llmvitals.app.quadrant import Line, Missing, Picture, Point, Tick, wrapped
from words import later, t, tell

CALM, WAITS, LIMIT, WORDS = "#3d7fc4", "#d65a22", "#8a8f98", "#727a85"
"""Blue and vermilion differ in lightness too; whoever waits has a larger point and says so beside it."""

ROOM = 0.03
"""What the axes reach beyond their ends, so that no point is cut in half."""

_SHEET = """
.lv-legend { display:flex; flex-wrap:wrap; gap:2px 22px; font-size:13.5px; }
.lv-legend span { display:inline-flex; gap:.5em; align-items:center; }
.lv-legend i { flex:none; width:11px; height:11px; border-radius:50%; background:#3d7fc4; }
.lv-legend .w { width:15px; height:15px; background:#d65a22; }
.lv-legend .h { border-radius:0; background:none; border:2px solid #3d7fc4; transform:rotate(45deg); margin:0 2px; }
.lv-rep { width:100%; border-collapse:collapse; font-size:14px; overflow-wrap:normal; }
.lv-rep :is(th,td) { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); padding:6px 14px 6px 0; }
.lv-rep thead th { font-weight:600; color:var(--soft); font-size:13px; }
.lv-rep small { display:block; color:var(--soft); font-size:12.5px; font-weight:400; }
.lv-rep a { color:inherit; text-decoration-color:var(--soft); text-underline-offset:2px; font-weight:600; }
.lv-rep :is(th,td):first-child { min-width:112px; }
.lv-rep :is(th,td):last-child { min-width:118px; }
.lv-rep .n { white-space:nowrap; font-variant-numeric:tabular-nums; } .lv-rep .lv-tag { white-space:normal; font-size:13px; }
.lv-quads { display:grid; grid-template-columns:1fr 1fr; gap:10px 24px; font-size:13.5px; }
.lv-quads div { border-top:2px solid var(--line); padding-top:6px; } .lv-quads small { color:var(--soft); font-size:13px; }
@media (max-width:640px) {
 .lv-quads { grid-template-columns:1fr; }
 .lv-rep thead { display:none; } .lv-rep tr { display:block; border-bottom:1px solid var(--line); padding:8px 0; }
 .lv-rep tr :is(th,td) { min-width:0; display:grid; grid-template-columns:104px 1fr; gap:0 8px; border:0; padding:1px 0; }
 .lv-rep :is(th,td)::before { content:attr(data-l); color:var(--soft); font-size:12.5px; font-weight:400; }
 .lv-rep :is(th,td) > div { min-width:0; }
.lv-rep .n { white-space:normal; }
}
"""
STYLE = f"<style>{_SHEET}</style>"


LINES = (
    later("Replica"),
    later("KV usage"),
    later("GPU activity"),
    later("Waiting"),
    later("Stands in"),
    later("What binds"),
    later("Verdict"),
)
MISSING = (later("Replica"), later("Known"), later("Not known, and why"), later("Verdict"))
"""The heads of the two tables."""

INK = {"dark": "#e8eaed", "light": "#24292f"}
"""The names of replicas, by the theme that the reader has."""


def draw(picture: Picture, theme: str | None = None) -> alt.LayerChart:
    """The points in their quadrants, the limits and the words of each quadrant, and the way of the chosen replica."""
    x = alt.X(
        "x:Q",
        title=t("KV usage reached (wider past the limit)"),
        scale=_scale(-ROOM, 1 + ROOM),
        axis=_axis(picture.x_ticks),
    )
    y = alt.Y("y:Q", title=t("GPU activity"), scale=_scale(picture.bottom, picture.top), axis=_axis(picture.y_ticks))
    layers: list[alt.Chart] = [*_limits(picture, x, y), *_words(picture, x, y)]
    if picture.trail:
        way = _data([{"x": at, "y": height, "n": n} for n, (at, height) in enumerate(picture.trail)])
        shown = alt.Chart(way).encode(x=x, y=y, order="n:Q")
        layers += [
            shown.mark_line(color=WORDS, opacity=0.45, strokeWidth=1.5),
            shown.mark_point(color=WORDS, opacity=0.45, size=14, filled=True),
        ]
    for compute in (True, False):
        alike = [p for p in picture.points if p.compute is compute]
        if alike:
            layers.append(_points(alike, x, y, hollow=not compute))
    layers += _labels(picture.points, x, y, INK.get(theme or "", WORDS))
    drawn: alt.LayerChart = (
        alt.layer(*layers)
        .properties(height=470, padding={"left": 5, "top": 5, "bottom": 5, "right": 14})
        .configure_view(stroke=None)
    )
    return drawn


def _scale(start: float, end: float) -> alt.Scale:
    return alt.Scale(domain=[start, end], nice=False, zero=False)


def _axis(ticks: Iterable[Tick]) -> alt.Axis:
    texts = {f"{tick.at:.4f}": tick.text for tick in ticks}
    label = f"{json.dumps(texts)}[format(datum.value, '.4f')]"
    return alt.Axis(values=[float(at) for at in texts], labelExpr=label, grid=False, labelOverlap="greedy")


def _limits(picture: Picture, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    across = alt.Chart(_data([{"y": picture.y_limit}])).mark_rule(color=LIMIT, strokeDash=[5, 3], strokeWidth=1.5)
    down = alt.Chart(_data([{"x": picture.x_limit}])).mark_rule(color=LIMIT, strokeDash=[5, 3], strokeWidth=1.5)
    return [across.encode(y=y), down.encode(x=x)]


def _words(picture: Picture, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    rows = [{"x": c.x, "y": c.y, "text": "\n".join(wrapped(t(c.title)))} for c in picture.corners]
    shown = alt.Chart(_data(rows)).mark_text(
        align="left",
        baseline="top",
        dx=8,
        dy=8,
        color=WORDS,
        fontSize=12.5,
        fontWeight=600,
        lineBreak="\n",
        lineHeight=15,
    )
    return [shown.encode(x=x, y=y, text="text:N")]


def _points(points: Iterable[Point], x: alt.X, y: alt.Y, *, hollow: bool) -> alt.Chart:
    rows = [
        {"x": p.x, "y": p.y, "w": p.waiting, "waits": "yes" if p.waits else "no"}
        | {f"f{n}": tell(text) for n, (_, text) in enumerate(p.facts)}
        for p in points
    ]
    facts = next(iter(points)).facts
    tone = alt.Scale(domain=["no", "yes"], range=[CALM, WAITS])
    # A point is never so small that it cannot be hit, nor so large that it hides its neighbours.
    size = alt.Size("w:Q", scale=alt.Scale(type="sqrt", domain=[0, 50], range=[110, 620], clamp=True), legend=None)
    drawn: alt.Chart = (
        alt.Chart(_data(rows))
        .mark_point(filled=not hollow, shape="diamond" if hollow else "circle", strokeWidth=2.2, opacity=0.85)
        .encode(
            x=x,
            y=y,
            size=size,
            color=alt.Color("waits:N", scale=tone, legend=None),
            tooltip=[alt.Tooltip(f"f{n}:N", title=t(title)) for n, (title, _) in enumerate(facts)],
        )
    )
    return drawn


def _labels(points: Iterable[Point], x: alt.X, y: alt.Y, ink: str) -> list[alt.Chart]:
    layers = []
    for inward in (False, True):
        rows = [{"x": p.x, "y": p.y, "text": p.label} for p in points if p.label and p.inward is inward]
        if rows:
            shown = alt.Chart(_data(rows)).mark_text(
                align="right" if inward else "left", baseline="middle", dx=-13 if inward else 13, fontSize=12, color=ink
            )
            layers.append(shown.encode(x=x, y=y, text="text:N"))
    return layers


def _data(rows: Sequence[Mapping[str, object]]) -> alt.InlineData:
    return alt.InlineData(values=[dict(row) for row in rows])


def legend() -> str:
    """What points look like, and why."""
    shown = (
        ("", t("nobody is seen waiting")),
        ("w", t("requests wait (how many): the more, the larger")),
        ("h", t("hollow: utilisation only. Something ran; how much of the chip it used is not known")),
    )
    items = "".join(f'<span><i class="{kind}" aria-hidden="true"></i>{escape(text)}</span>' for kind, text in shown)
    return f'<div class="lv lv-legend">{items}</div>'


def quadrants(picture: Picture) -> str:
    """What each quadrant hints at, and how many stand there."""
    told = "".join(
        f'<div data-quadrant="{escape(q.title)}"><b>{escape(t(q.title))}</b> <small>{escape(tell(count))}</small>'
        f"<br>{escape(t(q.hint))}</div>"
        for q, count in picture.quadrants
    )
    return f'<div class="lv lv-quads">{told}</div>'


def lines(rows: Iterable[Line], source: str) -> str:
    """Every replica of the picture as a row; its name leads to its verdict."""
    return _table(LINES, "".join(_line(row, source) for row in rows))


def _line(row: Line, source: str) -> str:
    cells = (
        _named(row.instance, row.model, source),
        f"{escape(tell(row.kv))}{parts.small(tell(row.kv_note))}",
        f"{escape(tell(row.activity))}{parts.small(tell(row.joined))}",
        escape(tell(row.waiting)),
        f"{escape(tell(row.where))}{parts.small(tell(row.apart))}",
        f"{escape(tell(row.binds))}{parts.small(tell(row.binds_why))}",
        parts.tag(row.badge),
    )
    told = "".join(
        f'<td{" class=n" if head in ("KV usage", "Waiting") else ""} data-l="{escape(t(head))}"><div>{cell}</div></td>'
        for head, cell in zip(LINES, cells, strict=True)
    )
    return f'<tr data-replica="{escape(row.instance)}">{told}</tr>'


def missing(rows: Iterable[Missing], source: str) -> str:
    """The replicas without a place, and why."""
    return _table(MISSING, "".join(_missing(row, source) for row in rows))


def _missing(row: Missing, source: str) -> str:
    cells = (
        _named(row.instance, row.model, source),
        escape(tell(row.known)) or escape(t("neither")),
        escape(tell(row.why)),
        parts.tag(row.badge),
    )
    told = "".join(
        f'<td data-l="{escape(t(head))}"><div>{cell}</div></td>' for head, cell in zip(MISSING, cells, strict=True)
    )
    return f'<tr data-missing="{escape(row.instance)}">{told}</tr>'


def _named(instance: str, model: str, source: str) -> str:
    return f"{parts.link(source, instance, model)}{parts.small(model)}"


def _table(heads: Iterable[str], body: str) -> str:
    head = "".join(f'<th scope="col">{escape(t(text))}</th>' for text in heads)
    return f'<div class="lv"><table class="lv-rep"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
