"""Asks a source for its verdict. What fails comes back as a value to be shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from llmvitals.app.answer import Answer, Choice, Key, Member, Scope, UnknownScopeError, listed, meant, ordered
from llmvitals.app.chosen import ask_prometheus
from llmvitals.errors import LlmvitalsError
from llmvitals.settings import Settings, Source
from llmvitals.sources.exporter import fetch_json, place_of
from llmvitals.sources.promql_api import warned
from llmvitals.triage import document
from llmvitals.triage.verdict import Verdict

OLD_INTERVALS = 4
"""Intervals of the exporter (beside its scrape's time limit) after which its newest verdict is called old."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value (errors.py): thing, place, remedy.

    ``members``: the scopes that the source does have, where only the one asked for is not among them.
    """

    thing: str
    place: str
    remedy: str
    members: tuple[Member, ...] = ()

    def choices(self, scope: Scope) -> dict[Key, Choice]:
        """The scopes to choose from, like those of an answer, with the one that is not known."""
        return listed(self.members, self.current(scope))

    def current(self, scope: Scope) -> Key:
        """The scope that was asked for."""
        return scope.get("instance", ""), scope.get("model", "")


def ask(source: Source, scope: Scope, at: float | None, settings: Settings) -> Answer | Failure:
    """The newest answer of a source (or the one for the moment ``at``, unix seconds, from a PromQL endpoint)."""
    if source.kind not in _KINDS:
        kinds = " or ".join(_KINDS)
        return Failure(f"has the unknown kind '{source.kind}'", f"source '{source.name}'", f"Write kind: {kinds}.")
    try:
        with warned() as told:
            answer = _KINDS[source.kind](source, scope, at, settings)
        return replace(answer, notes=(*answer.notes, *not_whole(told)))
    except UnknownScopeError as error:
        return Failure(error.thing, error.place, error.remedy, error.members)
    except LlmvitalsError as error:
        return Failure(error.thing, error.place, error.remedy)


def not_whole(told: Iterable[str]) -> tuple[str, ...]:
    """What a server said of answers that are not whole, as notes: samples may be missing behind them."""
    return tuple(f"its answer may not be whole: {one}" for one in told)


def is_old(answer: Answer, settings: Settings, now: float | None = None) -> bool:
    """Whether a live answer's data are older than a working exporter lets them become."""
    age = answer.age(time.time() if now is None else now)
    return age is not None and too_old(age, settings)


def too_old(age: float, settings: Settings) -> bool:
    """Whether data of this ``age`` (seconds) are older than a working exporter lets them become."""
    limit = OLD_INTERVALS * settings.exporter.interval_seconds + settings.exporter.timeout_seconds
    return age > limit


def _exporter(source: Source, scope: Scope, at: float | None, settings: Settings) -> Answer:
    """An exporter knows the present only."""
    place, found = place_of(source, "/triage"), fetch_json(source, "/triage")
    return Answer(_chosen(found, scope, place), _members(found), time.time())


def _rows(found: object) -> list[dict[str, object]]:
    listed = found.get("targets") if isinstance(found, dict) else None
    return [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []


def _chosen(found: object, scope: Scope, place: str) -> Verdict:
    """The verdict of the scope asked for, which is among the targets; of what the exporter puts first without one."""
    if not any(scope.values()):
        return document.decode(found, place=place)
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for row in _rows(found):
        rows.setdefault((str(row.get("name") or ""), str(row.get("model") or "")), row)
    key = meant(scope, rows)
    if key is not None:
        return document.decode(rows[key].get("detail"), place=place)
    named = " · ".join(value for value in scope.values() if value)
    raise UnknownScopeError(
        f"knows no target {named}",
        place=place,
        remedy="Choose another scope, or wait for its first page.",
        members=_members(found),
    )


def _members(found: object) -> tuple[Member, ...]:
    return ordered(
        Member(
            instance=str(row.get("name") or ""),
            model=str(row.get("model") or ""),
            verdict=str(row.get("verdict") or ""),
            leading=str(row.get("leading") or ""),
            confidence=_confidence(row.get("detail")),
            hurt=_hurt(row.get("detail")),
        )
        for row in _rows(found)
    )


def _confidence(detail: object) -> float:
    leading = detail.get("leading") if isinstance(detail, dict) else None
    found = leading.get("confidence") if isinstance(leading, dict) else None
    return float(found) if isinstance(found, (int, float)) else 0.0


def _hurt(detail: object) -> bool:
    return isinstance(detail, dict) and detail.get("hurt") is True


_KINDS: Mapping[str, Callable[[Source, Scope, float | None, Settings], Answer]] = {
    "exporter": _exporter,
    "prometheus": ask_prometheus,
}
