"""The page for people at ``/``: what is wrong, and where the rest is. Plain HTML, nothing loaded from anywhere."""

from __future__ import annotations

from html import escape

from llmvitals import __version__
from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.judge import Scoped
from llmvitals.triage.verdict import Verdict

LINKS = (
    ("/metrics", "canonical families, derived gauges, verdict series, own metrics"),
    ("/triage", "the verdict with its evidence, as JSON"),
    ("/history", "how the vital signs moved, as JSON"),
    ("/replicas", "KV usage beside the activity of GPUs, engine by engine, as JSON"),
    ("/capture", "the pages of the window that was judged, as a zip file for llmvitals triage"),
    ("/healthz", "whether cycles finish"),
    ("/readyz", "whether the first cycle is finished"),
)

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "refresh": "5",
}

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4rem .8rem .4rem 0;vertical-align:top;"
    "border-bottom:1px solid #8884}.wrap{overflow-x:auto}small{opacity:.75}"
)


def landing(cycle: Cycle | None, age: float) -> str:
    """The HTML. ``age``: seconds since the newest cycle was finished."""
    links = "".join(f'<li><a href="{path}">{path}</a> {escape(what)}</li>' for path, what in LINKS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>llmvitals</title><style>{_STYLE}</style></head><body><h1>llmvitals</h1>"
        f"{_verdicts(cycle, age)}<ul>{links}</ul><p><small>version {escape(__version__)}</small></p></body></html>"
    )


def _verdicts(cycle: Cycle | None, age: float) -> str:
    if cycle is None:
        return "<p>The first cycle is not finished.</p>"
    if not cycle.scopes:
        return "<p>No targets are configured.</p>"
    rows = "".join(_row(scoped) for scoped in cycle.scopes)
    return (
        f"<p>Over the last {cycle.window_seconds:g} s; the newest cycle was finished {age:.0f} s ago.</p>"
        '<div class="wrap"><table><thead><tr><th>instance</th><th>model</th><th>verdict</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _said(verdict: Verdict) -> str:
    """The outcome and the sentence, which may begin with the outcome itself."""
    word = verdict.outcome.value
    named = verdict.sentence.lower().startswith(word.replace("-", " "))
    return verdict.sentence if named else f"{word}: {verdict.sentence}"


def _row(scoped: Scoped) -> str:
    v = scoped.verdict
    said = _said(v) if v is not None else "The triage itself failed; see the log."
    return "".join(("<tr>", *(f"<td>{escape(cell)}</td>" for cell in (scoped.instance, scoped.model, said)), "</tr>"))
