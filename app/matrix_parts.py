"""Pieces of HTML of the support matrix, and their style sheet. Everything is escaped here."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

import parts
from llmvitals.app.matrix import Cell, Line, Overview, Part, Side
from words import later, t, tell

# Columns of the wide table: that of the families stays in sight while the sources are moved under it.
_SHEET = """
.lv-few { width:100%; border-collapse:collapse; font-size:14px; overflow-wrap:normal; }
.lv-few th, .lv-few td { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); padding:5px 12px 5px 0; }
.lv-few :is(th,td):last-child { padding-right:0; }
.lv-few thead th { font-weight:600; color:var(--soft); font-size:13px; }
.lv-few tbody th { font-weight:600; } .lv-few .n { white-space:nowrap; font-variant-numeric:tabular-nums; }
.lv-few a, .lv-wide a { color:inherit; text-decoration-color:var(--soft); text-underline-offset:2px; }
.lv-said .f { width:33%; } .lv-said .h { width:13%; } .lv-said .s { width:28%; }
.lv-said small, .lv-wide small { display:block; color:var(--soft); font-size:12.5px; font-weight:400; }
.lv-said .lv-tag { font-size:13px; }
/* Cells that stay in sight cover what moves under them, so the whole table has a ground of its own. */
.lv-scroll { --page:light-dark(#fff,#171614); background:var(--page);
 overflow:auto; max-height:82vh; border:1px solid var(--line); border-radius:8px; }
.lv-wide { min-width:100%; border-collapse:separate;
 border-spacing:0; font-size:13px; overflow-wrap:normal; }
.lv-wide th, .lv-wide td { text-align:left; vertical-align:top; padding:5px 8px; border-bottom:1px solid var(--line);
 min-width:84px; }
.lv-wide thead th { position:sticky; top:0; z-index:2; background:var(--page); vertical-align:bottom; font-weight:600; }
.lv-wide tbody th { position:sticky; left:0; z-index:1; background:var(--page); font-weight:600; min-width:290px;
 max-width:330px; overflow-wrap:anywhere; border-right:1px solid var(--line); }
.lv-wide thead th:first-child { left:0; z-index:3; border-right:1px solid var(--line); }
.lv-wide .p th { background:var(--quiet-bg); color:var(--soft); border-right:0; }
.lv-wide .p td { background:var(--quiet-bg); }
.lv-wide .lv-tag { font-size:12.5px; } .lv-wide .lv-quiet { font-weight:400; }
@media (max-width:640px) {
 .lv-few { font-size:13px; } .lv-few th, .lv-few td { padding-right:8px; }
 .lv-wide tbody th { min-width:150px; max-width:150px; font-size:12px; } .lv-wide tbody th small { display:none; }
 .lv-wide th, .lv-wide td { padding:5px 6px; min-width:78px; }
}
"""
STYLE = f"<style>{_SHEET}</style>"

HEADS = (later("Family"), later("How"), later("Source series"), later("Versions, or why not"))
"""Of the table of one source."""


def overview(table: Overview) -> str:
    """The short table of one group; each source links to its families."""
    heads = "".join(f'<th scope="col">{escape(t(text))}</th>' for text in table.head)
    body = "".join(_source(kind, cells) for kind, cells in table.rows)
    group = escape(table.group.origin.value)
    return (
        f'<div class="lv" data-group="{group}"><table class="lv-few"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _source(kind: str, cells: tuple[str, ...]) -> str:
    title, versions, *counts = cells
    told = "".join(f'<td class="n">{escape(tell(count))}</td>' for count in counts)
    return f'<tr><th scope="row">{_link(kind, title)}</th><td>{escape(versions)}</td>{told}</tr>'


def _link(kind: str, title: str) -> str:
    return f'<a href="?kind={quote(kind)}">{escape(title)}</a>'


def families(part: Part) -> str:
    """The families of one part of a source's matrix."""
    heads = zip("fhsn", HEADS, strict=True)
    head = "".join(f'<th class="{name}" scope="col">{escape(t(text))}</th>' for name, text in heads)
    body = "".join(map(_family, part.lines))
    inside = f"<caption>{escape(tell(part.title))}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="lv"><table class="lv-table lv-said">{inside}</table></div>'


def _family(line: Line) -> str:
    source = "<br>".join(f"<code>{_name(series)}</code>" for series in line.source.split(", ")) if line.source else ""
    versions = f"<div>{escape(line.versions)}</div>" if line.versions else ""
    return (
        f'<tr data-family="{escape(line.family)}"><td><code><b>{_name(line.family)}</b></code>'
        f"<small>{escape(line.help)}</small></td><td>{parts.tag(line.how)}</td><td>{source}</td>"
        f"<td>{versions}{escape(line.note)}</td></tr>"
    )


def _name(name: str) -> str:
    """A series' name, which breaks between its words where it has no room."""
    return escape(name).replace("_", "_<wbr>")


def side(table: Side) -> str:
    """A group's sources side by side: a row per family, a column per source, in a box that scrolls by itself."""
    heads = "".join(f'<th scope="col">{_link(kind, title)}</th>' for kind, title in table.sources)
    body = ""
    for title, rows in table.parts:
        fill = f'<td colspan="{len(table.sources)}"></td>'
        body += f'<tr class="p"><th scope="rowgroup">{escape(t(title))}</th>{fill}</tr>'
        body += "".join(_row(family, text, cells) for family, text, cells in rows)
    return (
        f'<div class="lv lv-scroll" tabindex="0" data-side="{escape(table.group.origin.value)}"><table class="lv-wide">'
        f'<thead><tr><th scope="col">{escape(t("Family"))}</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(family: str, text: str, cells: tuple[Cell, ...]) -> str:
    told = "".join(f'<td title="{escape(cell.said)}">{parts.tag(cell.how)}</td>' for cell in cells)
    head = f'<th scope="row">{_name(family)}<small>{escape(text)}</small></th>'
    return f'<tr data-family="{escape(family)}">{head}{told}</tr>'
