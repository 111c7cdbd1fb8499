"""How goodput against concurrency is drawn, the words beside it, and its style sheet. Everything is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import altair as alt

from llmvitals.loadtest.document import kept_text, rate_text
from llmvitals.loadtest.model import Note
from llmvitals.loadtest.suggest import SEATS, STEP, Suggestion
from llmvitals.loadtest.sweep import Point, Sweep, told
from llmvitals.loadtest.sweep import remarks as sweep_remarks
from words import later, t

LINE, PEAK, SOFT = "#3d7fc4", "#d65a22", "#8a8f98"
"""Blue and vermilion differ in lightness too; the peak has a diamond and says so beside it."""

HEADS = (
    later("In flight"),
    later("Goodput per second"),
    later("95 % interval"),
    later("Kept both promises"),
    later("Requests"),
    later("Failed"),
    later("Written by"),
)

STYLE = """<style>
.lv-load { width:100%; border-collapse:collapse; font-size:14px; }
.lv-load :is(th,td) { text-align:left; vertical-align:top; border-bottom:1px solid var(--line); padding:6px 14px 6px 0; }
.lv-load thead th { font-weight:600; color:var(--soft); font-size:13px; }
.lv-load td { font-variant-numeric:tabular-nums; }
.lv-load .p { font-weight:650; }
.lv-notes { margin:6px 0 0; padding-left:1.2em; max-width:84ch; font-size:14px; }
.lv-notes li { margin:3px 0; }
.lv-legend { display:flex; flex-wrap:wrap; gap:2px 22px; font-size:13.5px; }
.lv-legend span { display:inline-flex; gap:.5em; align-items:center; }
.lv-legend i { flex:none; width:11px; height:11px; border-radius:50%; background:#3d7fc4; }
.lv-legend .k { border-radius:0; background:#d65a22; transform:rotate(45deg); }
.lv-legend .b { width:2px; height:15px; border-radius:0; }
@media (max-width:640px) {
 .lv-load thead { display:none; } .lv-load tr { display:block; border-bottom:1px solid var(--line); padding:8px 0; }
 .lv-load td { display:grid; grid-template-columns:150px 1fr; gap:0 8px; border:0; padding:1px 0; }
 .lv-load td::before { content:attr(data-l); color:var(--soft); font-size:12.5px; }
}
</style>"""


def say(note: Note) -> str:
    """A remark in the chosen language."""
    return t(note.text, **note.values)


def title_of(sweep: Sweep) -> str:
    """Whose goodput it is."""
    return " · ".join(part for part in (sweep.model, told(sweep.server)) if part) or t("Goodput against concurrency")


def legend(sweep: Sweep) -> str:
    """What the marks mean."""
    words = [
        ('<i class="b"></i>', t("95 % interval of goodput: what the files leave open, and sampling noise")),
        ("<i></i>", t("requests per second that keep both promises")),
    ]
    if sweep.peak is not None:
        words.append(('<i class="k"></i>', t("may be the peak")))
    return f'<div class="lv lv-legend">{"".join(f"<span>{mark}{escape(text)}</span>" for mark, text in words)}</div>'


def may_be_peak(sweep: Sweep, point: Point) -> bool:
    """Whether the peak may lie at a point."""
    return sweep.peak is not None and sweep.peak.low.level <= point.level <= sweep.peak.high.level


def draw(sweep: Sweep) -> alt.LayerChart:
    """Intervals as bars over the requests in flight; a line and points only where goodput is known but for noise."""
    rows = [_row(sweep, point) for point in sweep.points]
    x = alt.X("level:Q", title=t("Requests in flight"), scale=alt.Scale(zero=True, nice=True))
    y = alt.Y("low:Q", title=t("Goodput, requests per second"), scale=alt.Scale(zero=True, nice=True))
    shown = [
        alt.Tooltip("level:Q", title=t("In flight"), format=",.4~g"),
        alt.Tooltip("goodput:N", title=t("Goodput per second")),
        alt.Tooltip("kept:N", title=t("Kept both promises")),
        alt.Tooltip("requests:Q", title=t("Requests")),
    ]
    colour = alt.Color("peak:N", scale=alt.Scale(domain=[False, True], range=[LINE, PEAK]), legend=None)
    base = alt.Chart(alt.InlineData(values=rows))
    exact = alt.Chart(alt.InlineData(values=[row for row in rows if row["exact"]]))
    known = alt.Y("at:Q")
    drawn: alt.LayerChart = (
        alt.layer(
            exact.mark_line(color=SOFT, strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=known),
            base.mark_rule(strokeWidth=2).encode(x=x, y=y, y2="high:Q", color=colour, tooltip=shown),
            exact.mark_point(filled=True, size=70, opacity=1).encode(
                x=x,
                y=known,
                color=colour,
                shape=alt.Shape(
                    "peak:N", scale=alt.Scale(domain=[False, True], range=["circle", "diamond"]), legend=None
                ),
                tooltip=shown,
            ),
        )
        .properties(height=320, padding={"left": 5, "top": 5, "bottom": 5, "right": 14})
        .configure_view(stroke=None)
    )
    return drawn


def _row(sweep: Sweep, point: Point) -> dict[str, object]:
    return {
        "level": point.level,
        "at": point.bound_low,
        "low": point.low,
        "high": point.high,
        "exact": point.exact,
        "peak": may_be_peak(sweep, point),
        "goodput": rate_text(point.bound_low, point.bound_high),
        "kept": kept_text(point.kept),
        "requests": point.kept.ended,
    }


def table(sweep: Sweep) -> str:
    """The points in words."""
    heads = tuple(map(t, HEADS))
    body = "".join(_cells(sweep, point, heads) for point in sweep.points)
    top_row = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return (
        f'<div class="lv"><table class="lv-load"><thead><tr>{top_row}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cells(sweep: Sweep, point: Point, heads: Sequence[str]) -> str:
    level = f"{'~' if point.measured else ''}{point.level:.4g}"
    cells = (
        f"{level} ({t('may be the peak')})" if may_be_peak(sweep, point) else level,
        rate_text(point.bound_low, point.bound_high),
        t("{low} to {high}", low=f"{point.low:.3g}", high=f"{point.high:.3g}"),
        kept_text(point.kept),
        f"{point.kept.ended:,}",
        f"{point.failed:,}",
        ", ".join(dict.fromkeys(run.tool for run in point.runs)),
    )
    told_cells = "".join(
        f'<td data-l="{escape(head)}">{escape(cell)}</td>' for head, cell in zip(heads, cells, strict=True)
    )
    return f'<tr class="{"p" if may_be_peak(sweep, point) else ""}">{told_cells}</tr>'


def suggestion(sweep: Sweep, found: Suggestion) -> str:
    """The settings to write, or why none is named."""
    settings = []
    if found.seats is not None:
        settings.append(f"{SEATS}: {found.seats[0]}")
    if found.step_tokens is not None:
        settings.append(f"{STEP}: > {found.step_tokens}")
    head = t("What it suggests") if settings else t("No setting is suggested")
    codes = "".join(f"<code>{escape(one)}</code>" for one in settings)
    said = "".join(f"<li>{escape(say(note))}</li>" for note in (*sweep.notes, *found.notes))
    return f'<div class="lv lv-action"><h2>{escape(head)}</h2>{codes}<ul class="lv-notes">{said}</ul></div>'


def notes(found: Iterable[str]) -> str:
    """Remarks, one a line."""
    said = "".join(f"<li>{escape(one)}</li>" for one in found)
    return f'<div class="lv"><ul class="lv-notes">{said}</ul></div>'


def remarks(sweep: Sweep) -> list[str]:
    """What is to be said of single points, each once with the levels that it is said of."""
    return [
        t("At {levels} in flight: {what}", levels=", ".join(f"{level:.4g}" for level in levels), what=say(note))
        for note, levels in sweep_remarks(sweep)
    ]
