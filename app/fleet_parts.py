"""Pieces of HTML of the fleet's page, and their style sheet. Everything is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote

import parts
from llmvitals.app.quadrant import Picture, Point, wrapped
from llmvitals.app.services import GONE, PAGE, Bar, Board, Row, Service
from llmvitals.triage.replica import PHASES
from llmvitals.triage.units import with_unit
from llmvitals.triage.view import Tone
from words import later, t

CALM, WAITS, LIMIT = "#3d7fc4", "#d65a22", "#8a8f98"
NAMES: Mapping[str, str] = dict(zip(PHASES, (later("Queue"), later("Prefill"), later("Decode")), strict=True))

_SHEET = """
.lv-counts { display:flex; flex-wrap:wrap; gap:8px; }
.lv-counts > span { border:1px solid var(--line); border-left:4px solid var(--t); background:var(--b); border-radius:6px;
 padding:4px 12px; font-size:14px; } .lv-counts b { font-size:18px; margin-right:.35em; font-variant-numeric:tabular-nums; }
.lv-fl { width:100%; border-collapse:collapse; font-size:14px; overflow-wrap:normal; }
.lv-fl :is(th,td) { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); padding:5px 14px 5px 0; }
.lv-fl thead th { font-weight:600; color:var(--soft); font-size:13px; }
.lv-fl small { display:block; color:var(--soft); font-size:12.5px; font-weight:400; overflow-wrap:anywhere; }
:is(.lv-fl,.lv-table) a { color:inherit; text-decoration-color:var(--soft); text-underline-offset:2px; font-weight:600;
 overflow-wrap:anywhere; }
.lv-fl .n { white-space:nowrap; font-variant-numeric:tabular-nums; } .lv-fl .lv-tag { white-space:normal; font-size:13px; }
.lv-fl .c { display:flex; flex-wrap:wrap; gap:1px 12px; }
.lv-bars { display:grid; gap:9px; font-size:13.5px; }
.lv-bars .h { display:flex; justify-content:space-between; gap:12px; } .lv-bars .h a { color:inherit; overflow-wrap:anywhere;
 text-decoration-color:var(--soft); text-underline-offset:2px; font-weight:600; } .lv-bars .h small { color:var(--soft); }
.lv-bars .b { display:flex; height:14px; background:var(--quiet-bg); border-radius:3px; overflow:hidden; margin:2px 0; }
.lv-bars .b i { display:block; height:100%; } .lv-bars .d { color:var(--soft); font-size:12.5px; }
.lv-q0 { background:#d65a22; } .lv-q1 { background:#7cb7e8; } .lv-q2 { background:#1f5f99; }
.lv-bars .b i + i { border-left:1px solid light-dark(#fff,#171614); }
.lv-key { display:flex; flex-wrap:wrap; gap:2px 18px; font-size:13px; margin-bottom:4px; }
.lv-key span { display:inline-flex; gap:.45em; align-items:center; } .lv-key i { width:12px; height:12px; border-radius:2px; }
.lv-key .o { border-radius:50%; } .lv-key .h { background:none; border:2px solid #3d7fc4; transform:rotate(45deg) scale(.8); }
.lv-plot { position:relative; height:330px; border-left:1px solid var(--line); border-bottom:1px solid var(--line);
 margin:0 8px 18px 44px; } .lv-plot img { position:absolute; inset:0; width:100%; height:100%; display:block; }
.lv-plot span { position:absolute; font-size:11px; line-height:1.1; color:var(--soft); white-space:nowrap; }
.lv-plot .c { font-weight:600; font-size:11.5px; line-height:1.2; white-space:pre; }
.lv-plot .x { top:100%; margin-top:5px; transform:translateX(-50%); } .lv-plot .y { right:100%; margin-right:6px;
 transform:translateY(50%); }
.lv-axis { color:var(--soft); font-size:12px; margin:4px 0 6px 44px; } .lv-axis.r { margin:2px 8px 2px 0; text-align:right; }
.lv-quads { display:grid; gap:6px; font-size:13px; } .lv-quads small { color:var(--soft); font-size:13px; }
@media (max-width:640px) {
 .lv-fl thead { display:none; } .lv-fl tr { display:flex; flex-wrap:wrap; gap:1px 16px; border-bottom:1px solid var(--line);
 padding:8px 0; } .lv-fl tr td { border:0; padding:0; display:flex; gap:5px; align-items:baseline; min-width:0; }
 .lv-fl td:nth-child(-n+2) { flex-basis:100%; } .lv-fl td:nth-child(n+3)::before { content:attr(data-l); color:var(--soft);
 font-size:12.5px; } .lv-fl td > div { min-width:0; } .lv-fl td.e { display:none; }
}
"""
STYLE = f"<style>{_SHEET}</style>"


def counts(board: Board) -> str:
    """How many replicas stand how, the worst first."""
    shown = "".join(
        f'<span class="lv-{badge.tone}" data-count="{escape(badge.word)}"><b>{number}</b>{parts.tag(badge)}</span>'
        for badge, number in board.counts
    )
    hurt = (
        f'<span class="lv-bad" data-count="hurt"><b>{board.hurt}</b>{escape(t("where users are hurt"))}</span>'
        if board.hurt
        else ""
    )
    return f'<div class="lv lv-counts">{shown}{hurt}</div>'


_WELL = frozenset({Tone.GOOD, Tone.QUIET})


def services(listed: Iterable[Service], source: str) -> str:
    """Services, or models where no service is named, as rows; a name leads to the triage of what its verdict is about."""
    heads = (t("Service"), t("Stands"), t("Replicas"), t("Users hurt at"), t("Waiting"))
    body = "".join(_service(one, source, heads) for one in listed)
    return _table(heads, body)


def _service(one: Service, source: str, heads: tuple[str, ...]) -> str:
    name = one.name or t("no model named")
    under = one.model if not one.by_model else t("all replicas of the model")
    said = (
        "" if one.own or one.badge.tone in _WELL or one.total < 2 else t("its worst replica: {name}", name=one.worst[0])
    )
    told = "".join(f"<span>{number} × {parts.tag(badge)}</span>" for badge, number in one.counts)
    cells = (
        f"{parts.link(source, *one.worst, name)}{parts.small(under)}",
        f"{parts.tag(one.badge)}{parts.small(said)}",
        f'<span class="c">{told}</span>' if one.told else escape(t("not told which")),
        str(one.hurt) if one.hurt else "",
        escape(one.waiting),
    )
    return f'<tr data-service="{escape(one.name)}">{_cells(cells, heads, "01100")}</tr>'


def replicas(rows: Iterable[Row], source: str) -> str:
    """Replicas as rows, worst first; a name leads to its triage."""
    heads = (
        t("Replica"),
        t("Stands"),
        t("Waiting"),
        t("Queue"),
        t("Engine"),
        t("KV usage"),
        t("GPU activity"),
        t("What binds"),
    )
    body = "".join(_replica(row, source, heads) for row in rows)
    return _table(heads, body)


def _replica(row: Row, source: str, heads: tuple[str, ...]) -> str:
    mark = parts.tag(row.mark) if row.mark else ""
    gone = row.badge is GONE
    since = t("last heard of at {moment} UTC", moment=row.since) if row.since else ""
    hurt = t("users are hurt") if row.hurt and not gone else ""
    cells = (
        f"{parts.link(source, row.instance, row.model)}{parts.small(row.model)}",
        f"{parts.tag(row.badge)} {mark}{parts.small(' · '.join(filter(None, (hurt, since))))}",
        escape(row.waiting),
        escape(row.queue),
        escape(row.engine),
        escape(row.kv),
        escape(row.activity),
        escape(t(row.binds)) if row.binds else "",
    )
    return f'<tr data-replica="{escape(row.instance)}">{_cells(cells, heads, "01111111")}</tr>'


def _cells(cells: tuple[str, ...], heads: tuple[str, ...], numeric: str) -> str:
    """Cells that say their columns' names on a phone, where empty ones are left out."""
    kinds = [
        f"{'n' if kind == '1' and '<' not in cell else ''}{' e' if not cell else ''}".strip()
        for cell, kind in zip(cells, numeric, strict=False)
    ]
    kinds += [""] * (len(cells) - len(kinds))
    return "".join(
        f'<td{f" class={chr(34)}{kind}{chr(34)}" if kind else ""} data-l="{escape(head)}"><div>{cell or "–"}</div></td>'
        for cell, head, kind in zip(cells, heads, kinds, strict=True)
    )


def pages(board: Board) -> dict[int, str]:
    """The pages of the table as one chooses among them."""
    return {
        number: t(
            "{first} to {last} of {total}",
            first=(number - 1) * PAGE + 1,
            last=min(number * PAGE, board.matching),
            total=board.matching,
        )
        for number in range(1, board.pages + 1)
    }


def bars(listed: Iterable[Bar], source: str) -> str:
    """Queue beside prefill and decode, a bar for each replica, all on one scale; what is not timed is said."""
    key = "".join(f'<span><i class="lv-q{n}"></i>{escape(t(name))}</span>' for n, name in enumerate(NAMES.values()))
    drawn = "".join(_bar(one, source) for one in listed)
    return f'<div class="lv"><div class="lv-key">{key}</div><div class="lv-bars">{drawn}</div></div>'


def _bar(one: Bar, source: str) -> str:
    pieces = "".join(
        f'<i class="lv-q{n}" style="width:{share * 100:.2f}%"></i>'
        for n, (_, _, share) in enumerate(one.phases)
        if share
    )
    said = ", ".join(
        f"{t(NAMES[name])} {with_unit(value, 'seconds') if value is not None else t('not timed')}"
        for name, value, _ in one.phases
    )
    return (
        f'<div data-bar="{escape(one.instance)}"><div class="h">{parts.link(source, one.instance, one.model)}'
        f'<b>{escape(one.whole)}</b></div><div class="b" aria-hidden="true">{pieces}</div>'
        f'<div class="d">{escape(said)}</div></div>'
    )


def plot(picture: Picture) -> str:
    """The picture "KV usage against compute" for many replicas: points without names, as a drawing inside the page."""
    ticks = "".join(
        f'<span class="x" style="left:{_across(tick.at):.1f}%">{escape(tick.text)}</span>' for tick in picture.x_ticks
    )
    ticks += "".join(
        f'<span class="y" style="bottom:{_up(tick.at, picture):.1f}%">{escape(tick.text)}</span>'
        for tick in picture.y_ticks
    )
    words = "".join(
        f'<span class="c" style="left:{_across(c.x):.1f}%;bottom:{_up(c.y, picture):.1f}%;padding:5px;transform:translateY(100%)">'
        f"{escape(chr(10).join(wrapped(t(c.title))))}</span>"
        for c in picture.corners
    )
    key = (
        f'<span><i class="o" style="background:{CALM}"></i>{escape(t("nobody is seen waiting"))}</span>'
        f'<span><i class="o" style="background:{WAITS}"></i>{escape(t("requests wait"))}</span>'
        f'<span><i class="h"></i>{escape(t("hollow: utilisation, which is not compute"))}</span>'
    )
    said = "; ".join(f"{t(q.title)}: {count}" for q, count in picture.quadrants)
    return (
        f'<div class="lv"><div class="lv-key">{key}</div>'
        f'<div class="lv-axis">↑ {escape(t("GPU activity"))}</div>'
        f'<div class="lv-plot" role="img" aria-label="{escape(said)}" data-points="{len(picture.points)}">'
        f'<img alt="" src="data:image/svg+xml,{quote(_svg(picture), safe=_SAFE)}">{ticks}{words}</div>'
        f'<div class="lv-axis r">{escape(t("KV usage reached (wider past the limit)"))} →</div></div>'
    )


_SAFE = " =/:,.-'%"
ROOM = 1.5
"""Per cent of the width that lie before the first and behind the last point, so that none is cut in half."""


def _svg(picture: Picture) -> str:
    """Places are shares of whatever room there is, so that circles stay round at every width."""
    x, y = _across(picture.x_limit), 100 - _up(picture.y_limit, picture)
    ends = ((x, 0, x, 100), (0, y, 100, y))
    lines = "".join(f"<line x1='{a:.1f}%' y1='{b:.1f}%' x2='{c:.1f}%' y2='{d:.1f}%'/>" for a, b, c, d in ends)
    calm = sorted(picture.points, key=lambda p: p.waiting)  # who waits most is drawn last, on top
    drawn = "".join(_point(point, picture) for point in calm)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='100%' height='100%'>"
        f"<g stroke='{LIMIT}' stroke-width='1.5' stroke-dasharray='5 3'>{lines}</g>{drawn}</svg>"
    )


def _point(point: Point, picture: Picture) -> str:
    x, y = _across(point.x), 100 - _up(point.y, picture)
    colour, size = (WAITS, 6) if point.waits else (CALM, 4)
    if not point.compute:
        way = f"M0 -{size}l{size} {size}l-{size} {size}l-{size} -{size}z"
        drawn = f"<path d='{way}' fill='none' stroke='{colour}' stroke-width='1.6'/>"
        return f"<svg x='{x:.1f}%' y='{y:.1f}%' overflow='visible'>{drawn}</svg>"
    return f"<circle cx='{x:.1f}%' cy='{y:.1f}%' r='{size}' fill='{colour}' fill-opacity='.6'/>"


def _across(value: float) -> float:
    """How far to the right, in per cent."""
    return ROOM + (100 - 2 * ROOM) * value


def _up(value: float, picture: Picture) -> float:
    """How far up, in per cent."""
    return 100 * (value - picture.bottom) / (picture.top - picture.bottom)


def _table(heads: Iterable[str], body: str) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    return f'<div class="lv"><table class="lv-fl"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
