"""Pieces of HTML of the audit, and their style sheet. Everything is escaped here."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import parts
from llmvitals.audit.model import Finding, Report, Severity
from llmvitals.triage.view import Badge, Tone
from words import later, t

BADGES: Mapping[Severity, Badge] = {
    Severity.ERROR: Badge(later("Error"), "alert", Tone.BAD),
    Severity.WARNING: Badge(later("Warning"), "alert", Tone.WARN),
    Severity.NOTE: Badge(later("Worth knowing"), "question", Tone.QUIET),
}
NOTHING = Badge(later("Nothing found"), "check", Tone.GOOD)
NOTHING_GRAVE = Badge(later("No error and no warning"), "check", Tone.GOOD)
"""Notes alone are no fault."""

NOT_AUDITED = Badge(later("Not audited"), "dash", Tone.QUIET)

_SHEET = """
.lv-setup { display:flex; flex-wrap:wrap; gap:2px 12px; align-items:baseline; margin:12px 0 0; }
.lv-setup h2 { font-size:18px; margin:0; padding:0; font-weight:650; }
[class*="st-key-finding-"] { gap:.35rem !important; margin-bottom:.4rem; }
.lv-found { border:1px solid var(--line); border-left:6px solid var(--t); border-radius:8px; padding:10px 16px; }
.lv-found h3 { font-size:16px; margin:2px 0 4px; padding:0; font-weight:650; }
.lv-found p { margin:0; max-width:76ch; }
.lv-found .lv-note { margin-top:4px; }
.lv-found a { color:inherit; text-decoration-color:var(--soft); text-underline-offset:2px; }
"""
STYLE = f"<style>{_SHEET}</style>"


def setup(report: Report, engine: str) -> str:
    """Which engine is meant, and for which release it is audited."""
    release = ""
    if report.assumed and report.version:
        release = t("vLLM {version}, the newest known: no release was told", version=report.version)
    elif report.version:
        release = f"{engine} {report.version}"
    return (
        f'<div class="lv lv-setup" data-setup="{escape(report.place)}"><h2>{escape(report.place)}</h2>'
        f'<span class="lv-note">{escape(release or engine)}</span></div>'
    )


def nothing(report: Report, engine: str) -> str:
    """What is said where no rule holds."""
    badge = NOT_AUDITED if report.remark else NOTHING
    thing = t(report.remark, engine=engine) if report.remark else t("No rule holds for this set-up.")
    return parts.line(badge, thing)


def finding(found: Finding, *, runbook: bool) -> str:
    """One finding; what to write instead stands below it, where it can be copied."""
    badge = BADGES[found.severity]
    link = (
        f' · <a href="runbooks?page={escape(found.cause)}" target="_self">{escape(t("Runbook"))}</a>' if runbook else ""
    )
    return (
        f'<section class="lv lv-found lv-{badge.tone}" data-rule="{escape(found.rule)}" '
        f'data-severity="{escape(found.severity.word)}">{parts.tag(badge)}'
        f"<h3>{escape(said(found, found.title))}</h3><p>{escape(said(found, found.why).strip())}</p>"
        f'<div class="lv-note">{escape(t("Source"))}: {escape(found.source)}{link}</div></section>'
    )


def said(found: Finding, words: str) -> str:
    """Words of a rule in the chosen language, with the values put in."""
    values = {
        name: t(value) if isinstance(value, str) and " " in value else value for name, value in found.values.items()
    }
    return t(words, **values) if values else t(words).format()
