"""Holds a set-up against the table of rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmvitals.audit import flags
from llmvitals.audit.flags import Version
from llmvitals.audit.model import AuditError, Finding, Hardware, Report, Rule, Setup, Severity, Traffic
from llmvitals.audit.rules import RULES
from llmvitals.audit.subject import Subject

FEW = "{engine} is recognised, but only a few of its settings are audited"
NONE = "{engine} is recognised, but not audited"

_NO_HARDWARE, _NO_TRAFFIC = Hardware(), Traffic()


def version_of(text: str) -> Version:
    """A release that a person named. Raises :class:`AuditError` for what is none, and for one before those that were read."""
    found = flags.number(text)
    first = flags.releases()[0]
    if found is None or found < first:
        known = f"{flags.spell(first)} to {flags.spell(flags.newest())}"
        raise AuditError("is no release that is known", place=f"version '{text}'", remedy=f"Name one of {known}.")
    return found


def audit(
    setup: Setup,
    *,
    version: Version | None = None,
    hardware: Hardware = _NO_HARDWARE,
    traffic: Traffic = _NO_TRAFFIC,
    rules: Iterable[Rule] = RULES,
) -> Report:
    """What is wrong with one set-up, gravest first. ``version``: what a person says; it wins over what the set-up tells."""
    told = flags.number(setup.version) if setup.version else None
    release = version or told
    if release is not None and release < flags.releases()[0]:
        release = flags.releases()[0]
    subject = Subject(setup, release or flags.newest(), release is None, hardware, traffic)
    own = [rule for rule in rules if rule.engine == setup.engine]
    found = sorted((f for rule in own for f in _findings(rule, subject)), key=lambda f: -f.severity)
    if setup.engine == "vllm":
        return Report(setup.place, setup.engine, flags.spell(subject.version), subject.assumed, tuple(found))
    remark = FEW if own else NONE
    return Report(setup.place, setup.engine, "", assumed=False, findings=tuple(found), remark=remark)


def _findings(rule: Rule, subject: Subject) -> Iterator[Finding]:
    for values in rule.when(subject):
        yield Finding(rule.id, rule.severity, rule.cause, rule.title, rule.why, rule.fix, values, rule.source)


def severity(word: str) -> Severity:
    """By its word. Raises KeyError."""
    return Severity[word.upper()]
