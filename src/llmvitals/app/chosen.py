"""The one scope of a PromQL endpoint that is shown in full: its samples are read by a selector of its own and judged by the walk,
however many others are stored.

Who is chosen without a name is told by stored verdicts. Where none are stored (engines that are scraped without our exporter, or
an exporter's families without its verdicts), up to :data:`MOST_JUDGED` targets are judged here, and it is said.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from llmvitals.app.answer import Answer, Member, Scope, UnknownScopeError, meant, ordered
from llmvitals.app.fleet_promql import UP, Standing, endpoint, members_of, standings, whose
from llmvitals.app.promql import any_of, judge, key_of, member, observed, read, windows_of
from llmvitals.series import Labels
from llmvitals.settings import Settings, Source
from llmvitals.sources import Observed
from llmvitals.sources.assemble import joined
from llmvitals.sources.place import fronts
from llmvitals.sources.promql import EXPORTED
from llmvitals.sources.promql_raw import RawNames
from llmvitals.sources.stored import RAW_NOTE
from llmvitals.triage.replica import Fleet, is_replica, limits_of, replica, whole
from llmvitals.triage.report import scope_of
from llmvitals.triage.verdict import Verdict
from llmvitals.triage.walk import diagnose_with

MOST_JUDGED = 40
"""Targets that are judged here at most where no verdicts are stored: each costs some 20 ms."""

TOGETHER = 2
"""Of so many targets one may be the gateway in front of the other: they are read together, as everywhere else."""

MADE_HERE = "holds no verdicts of an exporter; they are made here, from its samples"

_WAITING = f"topk({MOST_JUDGED}, sum by (instance, exported_instance) (llm_requests_waiting))"


@dataclass(frozen=True, slots=True)
class Chosen:
    """``verdict``: on the scope that is shown, None where it is not there (``remedy``: what to do then, where that is known).

    ``members``: the scopes to choose from; ``notes``: what is to be said of how this came about.
    """

    verdict: Verdict | None
    members: tuple[Member, ...]
    notes: tuple[str, ...] = ()
    remedy: str = ""


def ask_prometheus(source: Source, scope: Scope, at: float | None, settings: Settings) -> Answer:
    """The verdict of a scope at the moment ``at`` (unix seconds; None is now).

    Raises the errors of :func:`read_stored`, and :class:`UnknownScopeError` where the scope is not there.
    """
    end = time.time() if at is None else at
    known = standings(source, end, settings)
    found = choose(source, scope, end, settings, known) if known else judge_here(source, scope, end, settings)
    if found.verdict is None:
        raise UnknownScopeError(
            f"holds nothing of {scope.get('instance') or 'any instance'} in these {settings.exporter.window_seconds:g} s",
            place=source.url,
            remedy=found.remedy or "Choose another scope or another moment.",
            members=found.members,
        )
    return Answer(found.verdict, _with(found.verdict, found.members), time.time(), notes=found.notes)


def _with(verdict: Verdict, members: tuple[Member, ...]) -> tuple[Member, ...]:
    """The list with the one that was judged now as it stands by that."""
    own = member(key_of(verdict), verdict)
    return ordered(own if one.key == own.key else one for one in members)


def choose(source: Source, scope: Scope, end: float, settings: Settings, known: Sequence[Standing]) -> Chosen:
    """One of the scopes that have stored verdicts (worst first), judged from its samples; without a name, the first of them.

    Raises the errors of :func:`read_stored`.
    """
    members = members_of(known)
    by_key = {one.key: one for one in known}
    apart = len({one.instance for one in known}) > TOGETHER
    if not scope.get("instance"):
        model = scope.get("model", "")
        there = [s for s in known if not s.gone and model in ("", s.model)]
        return _first(source, end, settings, there, members, apart=apart)
    key = meant(scope, by_key) or (scope["instance"], scope.get("model", ""))
    one = by_key.get(
        key, Standing(*key)
    )  # without a verdict it may have samples: it began just now, or is scraped by itself
    verdict = _walked(source, one, end, settings, apart=apart)
    return Chosen(verdict, members, _twins(one), _why_not(one) if verdict is None and key in by_key else "")


def _walked(source: Source, one: Standing, end: float, settings: Settings, *, apart: bool) -> Verdict | None:
    """The verdict on a scope from its samples; None where there are none. ``apart``: whether it can be read by itself."""
    place = tuple((name, value) for name, value in one.stored if name.removeprefix(EXPORTED) != "instance")
    seconds = settings.exporter.window_seconds
    only = one.instance if apart or one.others else ""
    seen = observed(source, end, seconds, settings, only=only, place=place if one.others else ())
    judged = {key_of(verdict): verdict for verdict in judge(seen, settings)}
    key = meant({"instance": one.instance, "model": one.model}, judged)
    return judged[key] if key is not None else None


def _first(
    source: Source,
    end: float,
    settings: Settings,
    there: Sequence[Standing],
    members: tuple[Member, ...],
    *,
    apart: bool,
) -> Chosen:
    """The worst whose samples are there: of a service that only the exporter's settings name there are verdicts alone."""
    for one in there[:1]:
        verdict = _walked(source, one, end, settings, apart=apart)
        if verdict is not None:
            return Chosen(verdict, members, _twins(one))
    with endpoint(source) as asked:
        up = {whose(row.labels, ()).instance for row in asked.now(UP, end)}
    up |= {service.name for service in settings.services if up & set(service.engines)}
    for one in there[1:]:
        verdict = _walked(source, one, end, settings, apart=apart) if one.instance in up else None
        if verdict is not None:
            return Chosen(verdict, members, _twins(one))
    return Chosen(None, members)


def judge_here(source: Source, scope: Scope, end: float, settings: Settings) -> Chosen:
    """One scope of an endpoint without stored verdicts: so many as are allowed are judged, the others only named.

    Raises the errors of :func:`read_stored`.
    """
    found = _few(source, scope.get("instance", ""), end, settings)
    judged = {key_of(verdict): verdict for verdict in judge(found.seen, settings)}
    rest = tuple(Member(name, "", "", "") for name in found.rest)
    key = meant(scope, judged)
    members = (*(member(key, verdict) for key, verdict in judged.items()), *rest)
    return Chosen(judged[key] if key is not None else None, members, found.notes)


def judged_fleet(source: Source, end: float, settings: Settings) -> Fleet:
    """The replicas of an endpoint without stored verdicts, so many as are allowed.

    Raises the errors of :func:`read_stored`.
    """
    found = _few(source, "", end, settings)
    replicas, services, newest = [], [], 0.0
    for key, engines, window in windows_of(found.seen):
        newest = max(newest, window.end)
        verdict, readings = diagnose_with(window, settings, scope=scope_of(*key, engines))
        if engines:
            services.append(whole(verdict))
        elif is_replica(window.snapshots):
            replicas.append(replica(*key, window.snapshots, readings, verdict))
    seconds = settings.exporter.window_seconds
    return Fleet(newest, seconds, limits_of(settings), tuple(replicas), tuple(services), found.notes)


@dataclass(frozen=True, slots=True)
class _Few:
    """Targets whose samples were read, the names of those whose were not, and what is to be said of it."""

    seen: tuple[Observed, ...]
    rest: tuple[str, ...]
    notes: tuple[str, ...]


def _few(source: Source, first: str, end: float, settings: Settings) -> _Few:
    """So many targets as may be judged here, among them the one named ``first``."""
    names, label = _instances(source, end, settings)
    asked = [name for name in names if name == first]
    taken = tuple(dict.fromkeys((*asked, *names)))[:MOST_JUDGED]
    selector = f"{{{any_of(label, taken)}}}" if len(names) > len(taken) else ""
    found = read(source, selector, end, settings.exporter.window_seconds, settings)
    services = settings.services if not selector else ()  # of a service all engines are needed
    notes = [RAW_NOTE if found.raw else MADE_HERE]
    if len(names) > len(taken):
        notes.append(f"judged are {len(taken)} of its {len(names)} targets, those where most requests wait first")
    rest = tuple(name for name in names if name not in taken)
    return _Few(joined(found.observed, services, fronts(settings.targets)), rest, tuple(notes))


def _instances(source: Source, end: float, settings: Settings) -> tuple[tuple[str, ...], str]:
    """The targets by name, those where most requests wait first, and the label that has the name."""
    with endpoint(source) as asked:
        up = asked.now(UP, end)
        if up:
            ordered = sorted(asked.now(_WAITING, end), key=lambda row: -float(row.points[-1][1]))
            names = dict.fromkeys(whose(row.labels, ()).instance for row in (*ordered, *up))
            renamed = any(EXPORTED + "instance" in row.labels for row in up)
            return tuple(names), EXPORTED + "instance" if renamed else "instance"
        raw = RawNames.among(asked.names(end - settings.exporter.window_seconds, end))
        if not raw.engines:
            return (), "instance"
        rows = asked.now(f'group by (instance) ({{__name__=~"{"|".join(raw.engines)}"}})', end)
        return tuple(sorted(row.labels.get("instance", "") for row in rows)), "instance"


def _twins(one: Standing) -> tuple[str, ...]:
    """Another place has one of this name: which one this is."""
    return tuple(
        f"another {one.instance} is at {_at(other)}; shown is the one at {_at(one.place)}" for other in one.others
    )


def _at(place: Labels) -> str:
    return ", ".join(f"{name} {value}" for name, value in place) or "a place without labels"


def _why_not(one: Standing) -> str:
    if one.gone:
        return f"Its last verdict is of {datetime.fromtimestamp(one.newest, UTC):%Y-%m-%d %H:%M:%S} UTC; choose that moment."
    return "Its verdict is stored and no sample of it: where it is a service, name it under services in these settings too."
