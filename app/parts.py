"""Pieces of HTML and the style sheet. Everything that came from outside is escaped here, and only here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import urlencode

from llmvitals.app.ask import Failure
from llmvitals.errors import LlmvitalsError
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Blind
from llmvitals.triage.view import NOTICES, Badge, Card, Check, ClassRow, Row, Stage, View
from words import t, tell

_PATHS = {
    "alert": "M12 2 1 21h22L12 2zm-1 7h2v6h-2V9zm0 8h2v2h-2v-2z",
    "shield": "M12 1 3 5v6c0 5.5 3.8 10.7 9 12 5.2-1.3 9-6.5 9-12V5l-9-4zm-5 10h10v2H7v-2z",
    "check": "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm-2 15-5-5 1.4-1.4L10 14.2l7.6-7.6L19 8l-9 9z",
    "pause": "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm-1 14H9V8h2v8zm4 0h-2V8h2v8z",
    "question": "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm1 17h-2v-2h2v2zm2.1-7.8-.9.9C13.4 12.9 13 13.5 13 15h-2v-.5"
    "c0-1.1.4-2.1 1.2-2.8l1.2-1.3A2 2 0 1 0 10 9H8a4 4 0 1 1 7.1 2.2z",
    "layers": "M12 2 1 8l11 6 9-4.9V16h2V8L12 2zM5 13.2v4L12 21l7-3.8v-4L12 17l-7-3.8z",
    "dash": "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm5 11H7v-2h10v2z",
    "wrench": "M22.7 19 13.6 9.9a6 6 0 0 0-7.9-7.5L10 6.6 6.6 10 2.3 5.7a6 6 0 0 0 7.6 7.9l9.1 9.1c.4.4 1 .4 1.4 0"
    "l2.3-2.3c.4-.4.4-1 0-1.4z",
}

# Tones differ in lightness as well as in hue, and each is shown with a word and an icon (colour-vision safe).
_SHEET = """
.stApp { --bad:light-dark(#a3330a,#ff9a6b); --bad-bg:light-dark(#fdf0ea,#3a1d12);
 --warn:light-dark(#7a5200,#f2c14e); --warn-bg:light-dark(#fdf6e3,#352a0f);
 --good:light-dark(#0b5fa5,#7cc0ff); --good-bg:light-dark(#ebf4fc,#10283d);
 --quiet:light-dark(#59636e,#a7b0ba); --quiet-bg:light-dark(#f3f5f7,#22272d);
 --unsure:light-dark(#62388f,#cfa8f5); --unsure-bg:light-dark(#f6f0fb,#2b1d3a);
 --line:light-dark(#d9dee4,#3b424a); --soft:light-dark(#59636e,#a7b0ba); }
/* What is being refreshed keeps its full colour: a page that fades every few seconds cannot be read. */
.stApp [data-stale="true"] { opacity:1 !important; transition:none !important; }
.stApp [data-testid="stExpander"] summary { color:inherit !important; }
.stApp [data-testid="stExpander"] :is(summary, summary *) { opacity:1 !important; transition:none !important; }
.stMainBlockContainer { padding-top:2.2rem; padding-bottom:4rem; max-width:1180px; }
.lv, .lv * { box-sizing:border-box; }
.lv { font-size:15px; line-height:1.45; overflow-wrap:anywhere; }
.lv-i { display:inline-block; width:1.05em; height:1.05em; background:currentColor; vertical-align:-.15em; flex:none;
 -webkit-mask:var(--i) center/contain no-repeat; mask:var(--i) center/contain no-repeat; }
.lv-bad{--t:var(--bad);--b:var(--bad-bg)} .lv-warn{--t:var(--warn);--b:var(--warn-bg)}
.lv-good{--t:var(--good);--b:var(--good-bg)} .lv-quiet{--t:var(--quiet);--b:var(--quiet-bg)}
.lv-unsure{--t:var(--unsure);--b:var(--unsure-bg)}
.lv-tag { color:var(--t); font-weight:650; white-space:nowrap; display:inline-flex; gap:.35em; align-items:center; }
.lv-page h1 { font-size:27px; line-height:1.2; margin:0 0 6px; padding:0; font-weight:700; }
.lv-page p { margin:0; max-width:76ch; text-wrap:pretty; }
.lv-verdict { border:1px solid var(--line); border-left:6px solid var(--t); background:var(--b);
 border-radius:8px; padding:16px 20px; }
.lv-verdict h1 { font-size:27px; line-height:1.2; margin:4px 0 6px; padding:0; font-weight:700; }
.lv-verdict p { font-size:17px; margin:0; text-wrap:pretty; }
.lv-meta { color:var(--soft); font-size:13px; margin-top:10px; display:flex; flex-wrap:wrap; gap:2px 18px; }
.lv-meter { display:inline-block; width:72px; height:7px; border-radius:4px; background:var(--line);
 vertical-align:middle; margin:0 6px; overflow:hidden; }
.lv-meter i { display:block; height:100%; background:var(--t); }
.lv-action { border:1px solid var(--line); border-radius:8px; padding:14px 20px; display:grid; gap:8px; }
.lv-action h2, .lv-h2 { font-size:15px; font-weight:650;
 color:var(--soft); margin:0; padding:0; }
.lv-h2 { margin-top:14px; }
.lv-action code, .lv-set { font-size:19px; font-weight:650; padding:4px 10px; border-radius:6px; width:fit-content;
 max-width:100%; background:var(--quiet-bg); color:inherit; font-family:"Source Code Pro",monospace; }
.lv-note { color:var(--soft); font-size:13.5px; }
.lv-grid { display:grid; grid-template-columns:repeat(3,minmax(0,1fr)); gap:6px 22px; }
.lv-ev { display:grid; grid-template-columns:minmax(0,1fr) auto; gap:0 10px; align-items:baseline; align-content:start;
 min-height:70px; }
.lv-ev b { font-weight:600; } .lv-ev .v { font-size:20px; font-weight:700; white-space:nowrap; }
.lv-ev .w { grid-column:1/-1; color:var(--soft); font-size:13px; }
.lv-step { border-top:1px solid var(--line); padding:12px 0 2px; }
.lv-step h3 { font-size:16px; margin:0 0 6px; padding:0; font-weight:650; display:flex; gap:2px 14px; flex-wrap:wrap;
 align-items:center; }
.lv-step h3 .lv-tag { font-size:13px; }
.lv-check { display:grid; grid-template-columns:132px 220px 1fr; gap:2px 12px; padding:4px 0; font-size:14px; }
.lv-check .lv-tag { font-size:13px; align-self:start; } .lv-check .r { color:var(--soft); }
.lv-check.lv-bad .n { font-weight:650; }
.lv-check.lv-quiet .n { color:var(--soft); }
.lv-table { width:100%; border-collapse:collapse; font-size:13.5px; table-layout:fixed; }
.lv-table th { text-align:left; font-weight:600; color:var(--soft); border-bottom:1px solid var(--line);
 padding:4px 10px 4px 0; }
.lv-table td { vertical-align:top; border-bottom:1px solid var(--line); padding:5px 10px 5px 0; }
.lv-table caption { text-align:left; font-weight:600; padding:6px 0 2px; caption-side:top; }
.lv-table code { font-size:12.5px; background:none; padding:0; color:inherit; }
.lv-line { border-radius:8px; border:1px solid var(--line); border-left:6px solid var(--t); background:var(--b);
 padding:10px 16px; }
.lv-line b { color:var(--t); } .lv-line code { background:none; color:inherit; padding:0; }
.lv-stale { opacity:.62; }
.lv-since { font-weight:600; font-size:15px; min-height:1.45em; margin-top:6px; }
.lv-turn { font-size:14px; margin-top:2px; }
.lv-reserve { min-height:1.45em; }
/* A chosen scope is read whole: what is wrong stands first in it, and a long name wraps. */
[data-testid="stSidebar"] [data-testid="stSelectbox"] [data-baseweb="select"] > div { height:auto; min-height:2.5rem; }
.st-key-walk [data-testid="stVerticalBlock"], .st-key-walk { gap:.35rem; }
.st-key-walk [data-testid="stExpander"] details { border:0; }
.st-key-walk [data-testid="stExpander"] summary { padding:0 0 6px; min-height:0; font-size:13px; color:var(--soft) !important; }
.stMarkdown h2 { font-size:18px; padding:8px 0 2px; } .stMarkdown h3 { font-size:16px; }
@media (max-width:640px) {
 .lv-grid { grid-template-columns:minmax(0,1fr); }
 .lv-ev { min-height:0; }
 .stMainBlockContainer { padding:4.2rem 12px 3rem; }
 .lv-verdict, .lv-action { padding:12px 14px; } .lv-verdict h1 { font-size:23px; } .lv-verdict p { font-size:16px; }
 .lv-check { grid-template-columns:1fr auto; } .lv-check .n { grid-row:1; font-weight:600; }
 .lv-check .lv-tag { grid-row:1; grid-column:2; } .lv-check .r { grid-column:1/-1; }
 .lv-table thead { display:none; } .lv-table tr { display:block; border-bottom:1px solid var(--line); padding:6px 0; }
 .lv-table td { display:block; border:0; padding:1px 0; }
 .lv-table td[data-head]::before { content:attr(data-head) ": "; color:var(--soft); }
}
"""

REQUESTS, GOODPUT, TTFT, TPOT = "Requests", "Goodput", "First token in time", "Pace in time"
BUDGET, SEEN = "Budget burns", "Seen by"

_MASKS = "".join(
    f".lv-i-{name}{{--i:url(\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E"
    f"%3Cpath d='{path}'/%3E%3C/svg%3E\")}}"
    for name, path in _PATHS.items()
)
STYLE = f"<style>{_SHEET}{_MASKS}</style>"


def icon(name: str) -> str:
    """A drawing in the text's colour (a mask of the style sheet, so that no font and no other host is needed)."""
    return f'<i class="lv-i lv-i-{name}" aria-hidden="true"></i>'


def tag(badge: Badge) -> str:
    """Icon and word in the tone's colour; nothing for a badge without a word."""
    if not badge.word:
        return ""
    return f'<span class="lv-tag lv-{badge.tone}">{icon(badge.icon)}{escape(t(badge.word))}</span>'


def top(title: str, text: str, facts: Iterable[str] = ()) -> str:
    """A page's heading, what it is about, and what is shown of which source."""
    told = "".join(f"<span>{escape(fact)}</span>" for fact in facts if fact)
    meta = f'<div class="lv-meta">{told}</div>' if told else ""
    return f'<div class="lv lv-page"><h1>{escape(title)}</h1><p>{escape(text)}</p>{meta}</div>'


def link(source: str, instance: str, model: str, text: str = "") -> str:
    """A name that leads to the triage of its scope; ``text``: what it is called, else the instance."""
    asked = urlencode({"source": source, "instance": instance, "model": model})
    return f'<a href="./?{escape(asked)}" target="_self">{escape(text or instance)}</a>'


def small(text: str) -> str:
    """A line under what a cell says; '' for none."""
    return f"<small>{escape(text)}</small>" if text else ""


def heading(text: str) -> str:
    """A section's heading."""
    return f'<div class="lv"><h2 class="lv-h2">{escape(text)}</h2></div>'


def verdict(view: View, facts: Iterable[str], *, stale: bool, more: str = "") -> str:
    """The banner on top: word, cause, sentence, ``more`` (HTML: since when, what would change it), confidence, and what it is
    about.
    """
    shown = [f"<span>{escape(fact)}</span>" for fact in facts if fact]
    if view.leading:
        shown.insert(0, confidence(view.leading))
    faded = " lv-stale" if stale else ""
    title = f"<h1>{escape(t(view.title))}</h1>" if view.leading else ""
    return (
        f'<section class="lv lv-verdict lv-{view.badge.tone}{faded}" data-verdict="{escape(view.badge.word)}">'
        f"{tag(view.badge)}{title}<p>{escape(tell(view.sentence))}</p>{more}"
        f'<div class="lv-meta">{"".join(shown)}</div></section>'
    )


def scope_note(text: str) -> str:
    """The chosen scope in full, under a box that may be too narrow for it."""
    return f'<div class="lv lv-note" data-scope>{escape(text)}</div>'


def binds(resource: str, why: str) -> str:
    """Which resource binds, whatever the verdict is."""
    said = f"{escape(t('What binds'))}: <b>{escape(t(resource))}</b>, {escape(tell(why))}"
    return f'<div class="lv lv-note" data-binds="{escape(resource)}">{said}</div>'


def confidence(card: Card) -> str:
    """A meter with the number and the word beside it."""
    return (
        f'<span>{escape(t("Confidence"))}<span class="lv-meter"><i style="width:{card.confidence:.1%}"></i></span>'
        f"<b>{with_unit(card.confidence, 'ratio')}</b> ({escape(t(card.trust))})</span>"
    )


def action(card: Card, *, stale: bool = False) -> str:
    """What to change, what to expect then, and how to see that it worked."""
    setting = f'<code class="lv-set">{escape(card.setting)}</code>' if card.setting else ""
    told = ((t("Expected"), card.effect), (t("Check that it worked"), card.verify))
    after = "".join(f"<div><b>{escape(head)}:</b> {escape(tell(text))}</div>" for head, text in told if text)
    note = f'<div class="lv-note">{escape(tell(card.note))}</div>' if card.note else ""
    source = f'<div class="lv-note">{escape(t("Source"))}: {escape(card.source)}</div>' if card.source else ""
    faded = " lv-stale" if stale else ""
    return (
        f'<section class="lv lv-action{faded}"><h2>{icon("wrench")} {escape(t("What to change"))}</h2>{setting}'
        f"<div>{escape(tell(card.advice))}</div>{after}{note}{source}</section>"
    )


def evidence(row: Row) -> str:
    """The head of a small chart: title, value, limit, and whether it holds."""
    limit = f"{escape(t('limit') if row.badge.word else t('line at'))} {escape(row.limit)}" if row.limit else ""
    said = " · ".join(part for part in (tag(row.badge), limit, escape(tell(row.note))) if part)
    return (
        f'<div class="lv lv-ev" data-signal="{escape(row.signal)}"><b>{escape(t(row.title))}</b>'
        f'<span class="v">{escape(t(row.value))}</span><span class="w">{said}</span></div>'
    )


def step(stage: Stage, since: Mapping[str, str] | None = None) -> str:
    """A step with the state and the reason of each of its checks; ``since`` when those that fire do, by cause."""
    checks = "".join(_check(check, (since or {}).get(check.cause, "")) for check in stage.checks)
    return (
        f'<section class="lv lv-step" data-step="{stage.number}"><h3>{stage.number} · {escape(t(stage.title))} '
        f"{tag(stage.badge)}</h3>{checks}</section>"
    )


def _check(check: Check, since: str) -> str:
    when = f' <b class="s">{escape(since)}</b>' if since else ""
    return (
        f'<div class="lv-check lv-{check.badge.tone}" data-cause="{escape(check.cause)}">{tag(check.badge)}'
        f'<span class="n">{escape(t(check.title))}</span><span class="r">{escape(tell(check.reason))}{when}</span></div>'
    )


def rows(title: str, listed: Iterable[Row]) -> str:
    """The conditions of one check as a table."""
    body = "".join(
        f"<tr><td>{escape(t(r.title))}</td><td><b>{escape(t(r.value))}</b></td><td>{escape(r.limit)}</td>"
        f"<td>{tag(r.badge)}</td><td>{escape(tell(r.note))}</td></tr>"
        for r in listed
    )
    return table((t("Signal"), t("Measured"), t("Limit"), "", t("Standing")), body, t(title))


def blind(items: Iterable[Blind]) -> str:
    """What the walk could not see, why, which series would settle it, and how to get that."""
    how = t("How to see it")
    body = "".join(
        f"<tr><td><b>{escape(t(b.what))}</b></td><td>{escape(tell(b.why))}</td><td><code>{escape(b.series)}</code></td>"
        f'<td data-head="{escape(how)}">{escape(tell(b.remedy)) or "–"}</td></tr>'
        for b in items
    )
    return table((t("Not seen"), t("Why"), t("Would be settled by"), how), body)


def classes(listed: Iterable[ClassRow]) -> str:
    """What each class of requests got of what it was promised. A cell carries its column's name, as a phone shows no heads."""
    of, goodput = escape(t("of")), escape(t(GOODPUT))
    body = "".join(
        f'<tr data-class="{escape(c.name)}"><td><b>{escape(c.name)}</b></td>{cell(t(REQUESTS), c.requests)}'
        f'<td data-head="{goodput}"><b>{escape(c.goodput)}</b> {of} {escape(c.objective)}</td><td>{tag(c.badge)}</td>'
        f"{cell(t(TTFT), c.ttft)}{cell(t(TPOT), c.tpot)}{cell(t(BUDGET), c.budget)}{cell(t(SEEN), c.seen)}</tr>"
        for c in listed
    )
    heads = (t(head) if head else "" for head in (REQUESTS, GOODPUT, "", TTFT, TPOT, BUDGET, SEEN))
    return table((t("Class"), *heads), body)


def cell(head: str, text: str, *, bold: bool = False) -> str:
    """A cell that says its column's name on a phone."""
    inside = f"<b>{escape(text)}</b>" if bold else escape(text)
    return f'<td data-head="{escape(head)}">{inside}</td>'


def table(heads: Iterable[str], body: str, caption: str = "") -> str:
    """Rows (HTML) under their heads; a phone shows cells under one another, without heads."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    inside = f"{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="lv"><table class="lv-table">{inside}</table></div>'


def line(badge: Badge, thing: str, place: str = "", remedy: str = "") -> str:
    """One clear line: thing, place, remedy."""
    where = f" <code>{escape(place)}</code>:" if place else ""
    return (
        f'<div class="lv lv-line lv-{badge.tone}" role="status"><b>{icon(badge.icon)} {escape(t(badge.word))}.</b>'
        f"{where} {escape(tell(thing))}{'. ' if thing and remedy else ' '}{escape(tell(remedy))}</div>"
    )


def failed(badge: Badge, error: LlmvitalsError | Failure) -> str:
    """What failed, in one line."""
    return line(badge, error.thing, error.place, error.remedy)


def notes(source: str, told: Iterable[str]) -> str:
    """What is to be said of how an answer of a source came about, a line each."""
    return "".join(line(NOTICES["note"], f"{source}: {note}") for note in told)


def contributing(card: Card) -> str:
    """A cause that holds beside the leading one: its name, confidence and advice."""
    setting = f" <code>{escape(card.setting)}</code>" if card.setting else ""
    note = f'<div class="lv-note">{escape(tell(card.note))}</div>' if card.note else ""
    return (
        f'<section class="lv lv-line lv-warn" data-contributing="{escape(card.cause)}"><b>{escape(t(card.title))}</b> '
        f'<span class="lv-note">{confidence(card)}</span><div>{escape(tell(card.advice))}{setting}</div>{note}</section>'
    )


def unmeasured(check: Check) -> str:
    """A check without conditions: its name and reason."""
    return f'<div class="lv"><b>{escape(t(check.title))}</b> <span class="lv-note">{escape(tell(check.reason))}</span></div>'
