"""A report as one HTML file that loads nothing and runs nothing: charts inside, light and dark as the reader's system is, to be
printed as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from llmvitals.incident.blocks import Banner, Block, Code, Figure, Figures, Heading, Para, Quote, Report, Table
from llmvitals.incident.svg import PAPER, STYLE, draw
from llmvitals.triage.view import Badge, Tone

_MARKS = {Tone.BAD: "✖", Tone.WARN: "▲", Tone.GOOD: "✔", Tone.QUIET: "–", Tone.UNSURE: "?"}
"""A colour is never the only carrier."""

_LIGHT = (
    "--page:#fff;--ink:#1c2126;--soft:#59636e;--rule:#d9dee4;--quiet:#59636e;--quiet-bg:#f3f5f7;--bad:#a3330a;--bad-bg:#fdf0ea;"
    "--warn:#7a5200;--warn-bg:#fdf6e3;--good:#0b5fa5;--good-bg:#ebf4fc;--unsure:#62388f;--unsure-bg:#f6f0fb"
)
_DARK = (
    "--page:#14181c;--ink:#e6e9ec;--soft:#a7b0ba;--rule:#3b424a;--quiet:#a7b0ba;--quiet-bg:#22272d;--bad:#ff9a6b;--bad-bg:#3a1d12;"
    "--warn:#f2c14e;--warn-bg:#352a0f;--good:#7cc0ff;--good-bg:#10283d;--unsure:#cfa8f5;--unsure-bg:#2b1d3a"
)
_SHEET = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;margin:0}}
main{{max-width:1000px;margin:0 auto;padding:24px 20px 60px;overflow-wrap:anywhere}}
h1{{font-size:22px;line-height:1.25;margin:0 0 14px}}
h2{{font-size:18px;margin:34px 0 8px;padding-top:10px;border-top:1px solid var(--rule)}}
h3{{font-size:15px;margin:18px 0 6px}}
p{{margin:8px 0;max-width:75ch}} .soft{{color:var(--soft);font-size:13px}}
.bad{{--t:var(--bad);--b:var(--bad-bg)}} .warn{{--t:var(--warn);--b:var(--warn-bg)}}
.good{{--t:var(--good);--b:var(--good-bg)}}
.quiet{{--t:var(--quiet);--b:var(--quiet-bg)}} .unsure{{--t:var(--unsure);--b:var(--unsure-bg)}}
.banner{{border:1px solid var(--rule);border-left:6px solid var(--t);background:var(--b);border-radius:8px;
padding:14px 18px}}
.banner strong{{display:block;font-size:25px;line-height:1.25;margin:2px 0 4px}} .banner p{{font-size:17px}}
.tag{{color:var(--t);font-weight:650}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:12px 0 0;font-size:13.5px}}
dt{{color:var(--soft)}} dd{{margin:0}}
blockquote{{margin:8px 0;padding:6px 14px;border-left:4px solid var(--rule);white-space:pre-line}}
pre{{background:var(--quiet-bg);border-radius:6px;padding:10px 14px;margin:8px 0;
font:600 14px/1.4 ui-monospace,Consolas,monospace;
white-space:pre-wrap}}
table{{border-collapse:collapse;width:100%;margin:8px 0;font-size:13.5px}}
th{{text-align:left;color:var(--soft);font-weight:600}}
th,td{{min-width:11ch;padding:5px 12px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top}}
.figures{{display:grid;grid-template-columns:repeat(auto-fill,minmax(290px,1fr));gap:18px 22px;margin:12px 0}}
figure{{margin:0}} figcaption{{display:grid;grid-template-columns:1fr auto;gap:0 10px;align-items:baseline}}
figcaption b{{font-weight:600}} .v{{font-size:19px;font-weight:700;white-space:nowrap}}
.w{{grid-column:1/-1;color:var(--soft);font-size:13px}}
svg{{display:block;width:100%;height:auto;margin-top:4px}}
@media (max-width:640px){{
main{{padding:16px 12px 40px}} .banner strong{{font-size:21px}} .banner p{{font-size:16px}}
dl{{grid-template-columns:1fr}} dd{{margin-bottom:6px}}
thead{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
tr{{display:block;border-bottom:1px solid var(--rule);padding:6px 0}}
td{{display:block;border:0;padding:1px 0}} td[data-head]::before{{content:attr(data-head) ": ";color:var(--soft)}}
td:empty{{display:none}}
}}
@media print{{
:root{{color-scheme:light;{_LIGHT}}}
body{{font-size:11pt}} main{{max-width:none;padding:0}} h2,h3{{break-after:avoid}}
figure,tr,.banner,pre{{break-inside:avoid}}
.figures{{grid-template-columns:repeat(2,1fr)}} *{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
}}
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The browser itself keeps the file from loading or running anything."""


def html(report: Report) -> str:
    """The whole document."""
    body = "\n".join(part for block in report.blocks for part in _block(block))
    return (
        f'<!doctype html>\n<html lang="{escape(report.language)}">\n<head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{_SHEET}{STYLE}{PAPER}</style></head>\n"
        f"<body><main>\n<h1>{escape(report.title)}</h1>\n{body}\n</main></body>\n</html>\n"
    )


def _tag(badge: Badge) -> str:
    if not badge.word:
        return ""
    return f'<span class="tag {badge.tone}">{_MARKS[badge.tone]} {escape(badge.word)}</span>'


def _block(block: Block) -> Iterator[str]:
    match block:
        case Banner():
            facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in block.facts)
            title = f"<strong>{escape(block.title)}</strong>" if block.title != block.badge.word else ""
            trust = f" <span>{escape(block.trust)}</span>" if block.trust else ""
            yield (
                f'<section class="banner {block.badge.tone}">{_tag(block.badge)}{trust}{title}'
                f"<p>{escape(block.sentence)}</p><dl>{facts}</dl></section>"
            )
        case Heading():
            yield f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Para():
            quiet = ' class="soft"' if block.quiet else ""
            yield f"<p{quiet}>{escape(block.text)}</p>"
        case Quote():
            yield f"<blockquote>{escape(block.text)}</blockquote>"
        case Code():
            yield f"<pre>{escape(block.text)}</pre>"
        case Table():
            yield _table(block)
        case Figures():
            yield f'<div class="figures">{"".join(map(_figure, block.figures))}</div>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.heads)
    rows = "".join(
        "<tr>" + "".join(_cell(name, cell) for name, cell in zip(table.heads, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(head: str, cell: str) -> str:
    named = f' data-head="{escape(head)}"' if head else ""
    return f"<td{named}>{escape(cell)}</td>"


def _figure(figure: Figure) -> str:
    row = figure.chart.row
    said = " · ".join(part for part in (_tag(row.badge), escape(row.limit), escape(row.note)) if part)
    drawn = draw(figure.chart, figure.alt) if figure.chart.points else ""
    return (
        f'<figure><figcaption><b>{escape(row.title)}</b><span class="v">{escape(row.value)}</span>'
        f'<span class="w">{said}</span></figcaption>{drawn}</figure>'
    )
