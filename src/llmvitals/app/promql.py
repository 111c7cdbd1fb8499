"""Answers from a PromQL endpoint: stored samples become windows again, and the same walk judges them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping

from llmvitals.app.answer import Answer, Member, UnknownScopeError, meant
from llmvitals.errors import LlmvitalsError
from llmvitals.series import Window
from llmvitals.settings import Settings, Source
from llmvitals.signals.window import scopes
from llmvitals.sources.promql import read_prometheus
from llmvitals.triage import history
from llmvitals.triage.history import Trace
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose

LINES_SECONDS = 600.0
"""How far back the lines of the charts reach."""

_INSTANCE_LABELS = ("instance", "exported_instance")
"""Where a Prometheus that scrapes our exporter keeps our ``instance``: with or without ``honor_labels``."""


def ask_prometheus(source: Source, scope: Mapping[str, str], at: float | None, settings: Settings) -> Answer:
    """The verdict of a scope at the moment ``at`` (unix seconds; None is now), and its signals in the minutes before.

    Raises the errors of :func:`read_prometheus`, and :class:`UnknownScopeError` where the scope is not there.
    """
    end = time.time() if at is None else at
    seconds = settings.exporter.window_seconds
    found = windows(source.url, "", end, seconds)
    judged = {
        key: diagnose(window, settings, scope=dict(zip(("instance", "model"), key, strict=True)))
        for key, window in found.items()
    }
    members = tuple(_member(key, one) for key, one in judged.items())
    chosen = meant(scope, judged)
    if chosen is None:
        raise UnknownScopeError(
            f"holds nothing of {scope.get('instance') or 'any instance'} in these {seconds:g} s",
            place=source.url,
            remedy="Choose another scope or another moment.",
            members=members,
        )
    verdict = judged[chosen]
    signals = history.wanted(e.signal for e in (verdict.leading.evidence if verdict.leading else ()))
    return Answer(verdict, lines(source.url, chosen, end, signals, settings), members, time.time())


def windows(url: str, selector: str, end: float, seconds: float) -> dict[tuple[str, str], Window]:
    """The window of every scope that matches. Raises the errors of :func:`read_prometheus`."""
    observed = read_prometheus(url, selector=selector, at=end, seconds=seconds)
    return scopes(snapshot for target in observed for snapshot in target.snapshots)


def _member(key: tuple[str, str], verdict: Verdict) -> Member:
    return Member(*key, verdict.outcome.value, verdict.leading.cause if verdict.leading else "")


def lines(url: str, key: tuple[str, str], end: float, signals: Iterable[str], settings: Settings) -> dict[str, Trace]:
    """How signals of one scope moved in the minutes before ``end`` (unix seconds); empty where that cannot be had.

    Read for the chosen instance alone, so that a fleet's Prometheus is not asked for everybody's last minutes.
    """
    seconds = settings.exporter.window_seconds
    for label in _INSTANCE_LABELS:
        try:
            found = windows(url, f"{{{label}={json.dumps(key[0])}}}", end, LINES_SECONDS + seconds)
        except LlmvitalsError:
            continue
        if key in found:
            return history.replay(found[key], seconds, signals, settings)
    return {}
