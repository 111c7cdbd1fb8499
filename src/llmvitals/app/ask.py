"""Asks a source for its verdict and for how its signals moved. What fails comes back as a value to be shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import requests

from llmvitals.errors import LlmvitalsError, PageError, UnreachableError
from llmvitals.settings import Settings, Source
from llmvitals.triage import document, history
from llmvitals.triage.history import Trace
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Verdict

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0

OLD_INTERVALS = 4
"""Intervals of the exporter (beside its scrape's time limit) after which its newest verdict is called old."""

Scope = Mapping[str, str]
"""``instance`` and ``model``; an empty one leaves the choice to the source."""


@dataclass(frozen=True, slots=True)
class Member:
    """One scope of a source and how it stands: slugs of its verdict and of its leading cause ('' where none leads)."""

    instance: str
    model: str
    verdict: str
    leading: str

    @property
    def label(self) -> str:
        """As listed: what it is, then how it stands."""
        name = " · ".join(part for part in (self.instance, self.model) if part)
        return f"{name} ({self.leading or self.verdict})"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said of one scope, how its signals moved, the scopes to choose from, when it was asked (unix s)."""

    verdict: Verdict
    traces: Mapping[str, Trace]
    members: tuple[Member, ...]
    asked: float

    def age(self, now: float) -> float | None:
        """Seconds from the window's end to ``now``; None where the window has no end."""
        end = self.verdict.window.get("end")
        return max(0.0, now - end) if isinstance(end, (int, float)) else None

    def age_text(self) -> str:
        """How old the data are, for people."""
        age = self.age(time.time())
        return "" if age is None else f"data {with_unit(round(age), 'seconds')} old"

    def choices(self, scope: Scope) -> dict[tuple[str, str], str]:
        """(instance, model) to label, the current one among them even where the source no longer lists it."""
        found = {(m.instance, m.model): m.label for m in self.members}
        current = self.current(scope)
        found.setdefault(current, " · ".join(part for part in current if part))
        return found

    def current(self, scope: Scope) -> tuple[str, str]:
        """The scope that the verdict is about."""
        told = self.verdict.scope
        instance, model = (str(told.get(key) or scope.get(key, "")) for key in ("instance", "model"))
        return instance, model


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value (errors.py): thing, place, remedy."""

    thing: str
    place: str
    remedy: str


def ask(source: Source, scope: Scope, at: float | None, settings: Settings) -> Answer | Failure:
    """The newest answer of a source (or the one for the moment ``at``, unix seconds, from a PromQL endpoint)."""
    try:
        return _KINDS[source.kind](source, scope, at, settings)
    except KeyError:
        kinds = " or ".join(_KINDS)
        return Failure(f"has the unknown kind '{source.kind}'", f"source '{source.name}'", f"Write kind: {kinds}.")
    except LlmvitalsError as error:
        return Failure(error.thing, error.place, error.remedy)


def is_old(answer: Answer, settings: Settings, now: float | None = None) -> bool:
    """Whether a live answer's data are older than a working exporter lets them become."""
    age = answer.age(time.time() if now is None else now)
    limit = OLD_INTERVALS * settings.exporter.interval_seconds + settings.exporter.timeout_seconds
    return age is not None and age > limit


def _exporter(source: Source, scope: Scope, at: float | None, settings: Settings) -> Answer:
    """An exporter knows the present only. A missing history costs the lines of the charts, not the verdict."""
    base = source.url.rstrip("/")
    wanted = {key: value for key, value in scope.items() if value}
    found = _get(f"{base}/triage", wanted)
    verdict = document.decode(found, place=f"{base}/triage")
    signals = history.wanted(e.signal for e in (verdict.leading.evidence if verdict.leading else ()))
    try:
        traces = history.decode(_get(f"{base}/history", {**wanted, "signal": signals}), place=f"{base}/history")
    except LlmvitalsError:
        traces = {}
    return Answer(verdict, traces, _members(found), time.time())


def _members(found: object) -> tuple[Member, ...]:
    listed = found.get("targets") if isinstance(found, dict) else None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    return tuple(
        Member(
            instance=str(row.get("instance") or row.get("name") or ""),
            model=str(row.get("model") or ""),
            verdict=str(row.get("verdict") or ""),
            leading=str(row.get("leading") or ""),
        )
        for row in rows
    )


def _get(url: str, query: Mapping[str, str | tuple[str, ...]]) -> object:
    try:
        answer = requests.get(url, params=dict(query), timeout=(CONNECT_SECONDS, ANSWER_SECONDS))
    except requests.Timeout:
        raise UnreachableError(
            f"gave no answer within {ANSWER_SECONDS:g} s", place=url, remedy="Check that the exporter there is alive."
        ) from None
    except requests.RequestException:
        raise UnreachableError(
            "nothing answers there",
            place=url,
            remedy="Start the exporter, or correct the source's url in the settings.",
        ) from None
    if answer.status_code != HTTPStatus.OK:
        raise UnreachableError(
            f"answered {answer.status_code} {answer.reason}".rstrip(),
            place=url,
            remedy="Check the path, the credentials and the exporter's own log.",
        )
    try:
        return answer.json()
    except requests.JSONDecodeError:
        raise PageError(
            "answered with something that is not JSON",
            place=url,
            remedy="Point the source at an llmvitals exporter; its /triage answers with JSON.",
        ) from None


_KINDS: Mapping[str, Callable[[Source, Scope, float | None, Settings], Answer]] = {"exporter": _exporter}
