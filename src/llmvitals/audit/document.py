"""An audit as plain data, for JSON: the same sentences that people read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llmvitals.audit.engines import TITLES
from llmvitals.audit.model import Finding, Report, Severity


def document(reports: Iterable[Report]) -> dict[str, Any]:
    """All reports; ``worst`` is '' where nothing was found."""
    listed = list(reports)
    worst = worst_of(listed)
    return {"worst": worst.word if worst is not None else "", "setups": [_report(report) for report in listed]}


def worst_of(reports: Iterable[Report]) -> Severity | None:
    """The gravest severity of all; None where nothing was found."""
    return max((report.worst for report in reports if report.worst is not None), default=None)


def _report(report: Report) -> dict[str, Any]:
    return {
        "place": report.place,
        "engine": report.engine,
        "version": report.version,
        "version_assumed": report.assumed,
        "remark": report.remark.format(engine=TITLES[report.engine]),
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.word,
        "title": finding.said(finding.title),
        "why": finding.said(finding.why).strip(),
        "write": finding.said(finding.fix),
        "cause": finding.cause,
        "runbook": f"runbooks/{finding.cause}.md" if finding.cause else "",
        "source": finding.source,
    }
