"""Every text of the report that is not a sentence of the triage: one table for each language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ENGLISH: Mapping[str, str] = {
    "title": "Incident report: {scope}",
    "confidence": "confidence {number} ({word})",
    "what-for": "What it is about",
    "scope": "Scope",
    "window": "Judged",
    "source": "Source",
    "made": "Report made",
    "made-by": "{clock} by llmvitals {version}",
    "binds": "What binds",
    "hurt": "Users",
    "hurt-yes": "do not get what was promised",
    "hurt-no": "get what was promised, as far as it can be told",
    "anonymised": "Names of hosts, pods, instances, models and tenants are replaced by aliases, here and in the recording.",
    "secrets-out": "{count} secrets were taken out, here and in the recording.",
    "secret-out": "1 secret was taken out, here and in the recording.",
    "note": "Note",
    "action": "What to change",
    "setting": "Setting",
    "effect": "Expected",
    "verify": "It has worked when",
    "engine-note": "About this",
    "changes": "What would change the verdict",
    "change-row": "{op} {bound}",
    "head-signal": "Signal",
    "head-now": "Now",
    "head-at": "At",
    "head-then": "Then the verdict is",
    "lookalikes": "What it could be taken for, and is not",
    "head-cause": "Cause",
    "head-why": "Why not",
    "head-decides": "What decides",
    "timeline": "Timeline",
    "head-time": "Time (UTC)",
    "head-what": "What",
    "course-note": "Checks were asked for windows of {seconds} ending at {count} moments from {start} to {end}: "
    "what a check names began up to {seconds} before it fired.",
    "began": "{cause} began to fire",
    "began-before": "{cause} fires already, at the beginning of what is known",
    "began-broken": "{cause} began to fire ({broken} short interruptions since)",
    "outcome-is": "verdict: {outcome}",
    "restarted": "{name}: the process was started anew",
    "up": "{name}: its page can be read again",
    "down": "{name}: its page could not be read",
    "version": "{name}: another version: {before} became {after}",
    "configured": "{name}: {what} changed: {before} became {after}",
    "window-begins": "the window that was judged begins",
    "window-ends": "the window that was judged ends",
    "timeline-nothing": "No restart and no change of a configuration was seen.",
    "alerts": "Alerts on what fires now",
    "head-alert": "Alert",
    "head-severity": "Severity",
    "head-for": "Holds for",
    "head-told": "Would be told by now",
    "told-yes": "yes, it holds since {clock}",
    "told-at-least": "yes, it holds for longer than that",
    "told-no": "not yet, it holds since {clock}",
    "told-unknown": "not known: the recording is shorter than that",
    "alerts-note": "By the rules that llmvitals generate writes with these settings; whether they are loaded is not known.",
    "evidence": "Evidence",
    "head-value": "Value",
    "head-limit": "Limit",
    "head-says": "Says",
    "line-note": "Each point of a line is the number of a window of {seconds} that ends there; the number above it is that of the "
    "whole window that was judged.",
    "classes": "Requests by class",
    "class-head": "Class|Requests|Goodput|Objective|First token in time|Pace in time|Budget burns|Seen by",
    "vitals": "Vital signs",
    "also": "Also holds",
    "scopes": "Every scope",
    "scopes-head": "Scope|Verdict|Cause|In a sentence",
    "walk": "The walk, step by step",
    "walk-head": "Check|State|Why",
    "blind": "What was not seen",
    "blind-head": "What|Why|How to see it",
    "blind-nothing": "Nothing that the walk asks for was missing.",
    "configuration": "Configuration",
    "shown": "What the pages show",
    "shown-head": "Target|What|Value",
    "used": "Promises and thresholds that were used",
    "used-head": "Name|Value|",
    "used-own": "set; the default is {default}",
    "replay": "Replay it",
    "replay-text": "The folder capture holds what the verdict was made of: {pages} pages of {targets} targets. Whoever has "
    "llmvitals sees the same verdict with",
    "left-out": "Left out",
    "no-cause": "no cause leads",
    "unlimited": "no limit",
    "figure": "{title}, {value}",
    "figure-limit": "{title}, {value}, {limit}",
    "from-recording": "a recording",
    "from-live": "watched live for {seconds}",
    "from-exporter": "an llmvitals exporter",
    "from-prometheus": "a PromQL endpoint",
    "engines": "engines {names}",
}

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH}


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language; what a language lacks is told in English."""

    language: str = "en"

    @property
    def spoken(self) -> str:
        """The language that the texts are in."""
        return self.language if self.language in LANGUAGES else "en"

    def __call__(self, key: str, /, **values: object) -> str:
        """A text with these values in it."""
        text = LANGUAGES.get(self.language, ENGLISH).get(key) or ENGLISH[key]
        return text.format(**values) if values else text

    def heads(self, key: str) -> tuple[str, ...]:
        """The heads of a table's columns."""
        return tuple(self(key).split("|"))
