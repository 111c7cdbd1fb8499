"""The picture "KV usage against compute" as it is drawn: places, words and lines. All arithmetic of the page is here.

Places run from 0 to 1 on both axes. KV's axis is stretched beyond its limit: what matters there happens within the last few
percent of the pool, which would else be a strip at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap

from llmvitals.triage.history import Trace
from llmvitals.triage.replica import ACTIVITY, COMPUTE, KV, QUADRANTS, Fleet, Quadrant, Replica, alone, quadrant
from llmvitals.triage.units import digits, with_unit
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.view import OUTCOMES, Badge, binds, cause_title

LEFT = 0.62
"""Share of the width that lies before KV's limit."""

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEAR = 0.06
"""A tick nearer than this to the limit's own would be written over it."""

NAMED = 12
"""With more replicas than these, only those that wait, stand apart or are chosen have their names beside their points."""
MOST_LINES = 100
"""Rows of each table below the picture: those that need attention first; the fleet's page has all."""

CROWD = 100
"""With more than these, names would hide the points: only the chosen one has its name."""

TOP, BOTTOM = 1.16, -0.16
"""Where the picture ends, in activity: the words of the quadrants stand above the highest point that can be and below the
lowest."""

UNKNOWN = "not known"
UNTOLD = "Not told: utilisation is not compute"
JOINS: Mapping[str, str] = {"configured": "as configured"}
"""How a join is said where "joined by" does not fit."""

_WIDTH = 16  # characters of a quadrant's words in one line: a phone has no room for more


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: its place and its words."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Corner:
    """The name of a quadrant, and where it is written (the left end of its first line, see :func:`wrapped`)."""

    title: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Point:
    """One replica. ``compute``: whether its height is compute, or plain utilisation only; ``label``: '' for none.

    ``inward``: it is so far to the right that its label has to stand on its left. ``facts``: what a tooltip says.
    """

    x: float
    y: float
    waits: bool
    waiting: float
    compute: bool
    label: str
    inward: bool
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One replica as a row below the picture. ``apart``: how it stands apart from its peers, '' where it does not."""

    instance: str
    model: str
    kv: str
    kv_note: str
    activity: str
    waiting: str
    where: str
    apart: str
    binds: str
    binds_why: str
    joined: str
    badge: Badge


@dataclass(frozen=True, slots=True)
class Missing:
    """A replica that has no place, and why."""

    instance: str
    model: str
    known: str
    why: str
    badge: Badge


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn. ``trail``: where the chosen replica was, the newest last."""

    points: tuple[Point, ...]
    lines: tuple[Line, ...]
    missing: tuple[Missing, ...]
    trail: tuple[tuple[float, float], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_limit: float
    y_limit: float
    top: float
    bottom: float
    corners: tuple[Corner, ...]
    quadrants: tuple[tuple[Quadrant, str], ...]


def picture(
    fleet: Fleet,
    chosen: tuple[str, str] = ("", ""),
    traces: Mapping[str, Trace] | None = None,
    *,
    plain: bool = False,
) -> Picture:
    """The picture of a fleet. ``chosen``: whose way is drawn, from its ``traces``; ``plain``: without a word on single replicas."""
    apart = {} if plain else alone(fleet.replicas, fleet.limits)
    placed = sorted((r for r in fleet.replicas if r.placed), key=lambda r: _order(r, fleet))
    few, some = len(placed) <= NAMED, len(placed) <= CROWD
    x_limit = _across(fleet.limits.kv, fleet)
    return Picture(
        points=tuple(
            _point(
                r,
                fleet,
                named=few or chosen == _key(r) or (some and (bool(r.waiting) or _key(r) in apart)),
                plain=plain,
            )
            for r in placed
        ),
        lines=() if plain else tuple(_line(r, fleet, apart.get(_key(r))) for r in placed),
        missing=() if plain else tuple(_missing(r) for r in fleet.replicas if not r.placed),
        trail=tuple(_trail(fleet, next((r for r in placed if _key(r) == chosen), None), traces or {})),
        x_ticks=_ticks(fleet.limits.kv, fleet),
        y_ticks=tuple(Tick(t, with_unit(t, "ratio")) for t in _beside(fleet.limits.activity)),
        x_limit=x_limit,
        y_limit=fleet.limits.activity,
        top=TOP,
        bottom=BOTTOM,
        corners=tuple(Corner(q.title, x_limit if q.full else 0.0, TOP if q.busy else 0.0) for q in QUADRANTS),
        quadrants=tuple((q, _counted(q, fleet)) for q in QUADRANTS),
    )


def wrapped(title: str) -> tuple[str, ...]:
    """The words of a quadrant in lines that a phone has room for."""
    return tuple(wrap(title, _WIDTH))


def name_of(one: Replica) -> str:
    """A replica as people name it."""
    return " · ".join(part for part in (one.instance, one.model) if part)


def _key(one: Replica) -> tuple[str, str]:
    return one.instance, one.model


def _order(one: Replica, fleet: Fleet) -> tuple[int, float, str]:
    """Those that need attention first: by quadrant, then by how many wait."""
    place = quadrant(one, fleet.limits)
    return QUADRANTS.index(place) if place else len(QUADRANTS), -(one.waiting or 0.0), name_of(one)


def _across(kv: float, fleet: Fleet) -> float:
    limit = fleet.limits.kv
    if kv < limit:
        return kv / limit * LEFT
    return LEFT + (min(kv, 1.0) - limit) / (1.0 - limit) * (1.0 - LEFT) if limit < 1.0 else LEFT


def _beside(limit: float) -> tuple[float, ...]:
    return tuple(sorted({limit, *(t for t in QUARTERS if abs(t - limit) > NEAR)}))


def _ticks(limit: float, fleet: Fleet) -> tuple[Tick, ...]:
    values = sorted({limit, *(t for t in QUARTERS if limit - t > NEAR), 1.0})
    return tuple(Tick(_across(value, fleet), with_unit(value, "ratio")) for value in values)


def _point(one: Replica, fleet: Fleet, *, named: bool, plain: bool) -> Point:
    x = _across(one.kv or 0.0, fleet)
    return Point(
        x=x,
        y=min(one.activity or 0.0, 1.0),
        waits=bool(one.waiting),
        waiting=one.waiting or 0.0,
        compute=one.activity_of == COMPUTE,
        label=_label(one) if named else "",
        inward=x > LEFT,
        facts=() if plain else _facts(one, fleet),
    )


def _label(one: Replica) -> str:
    return f"{one.instance} ({digits(one.waiting)})" if one.waiting else one.instance


def _facts(one: Replica, fleet: Fleet) -> tuple[tuple[str, str], ...]:
    place = quadrant(one, fleet.limits)
    return (
        ("Replica", name_of(one)),
        ("KV usage reached", _kv(one)),
        ("GPU activity", _activity(one)),
        ("Tensor pipes", _share(one.tensor)),
        ("GPU memory (DRAM)", _share(one.dram)),
        ("Waiting", _count(one.waiting)),
        ("Running", _count(one.running)),
        ("Stands in", place.title if place else UNTOLD),
        ("What binds", binds(one.binds)),
        ("GPUs", _joined(one)),
        ("Verdict", _badge(one).word),
    )


def _line(one: Replica, fleet: Fleet, apart: tuple[int, Quadrant] | None) -> Line:
    place = quadrant(one, fleet.limits)
    return Line(
        instance=one.instance,
        model=one.model,
        kv=_share(one.kv),
        kv_note=one.kv_note,
        activity=_activity(one),
        waiting=_count(one.waiting),
        where=place.title if place else UNTOLD,
        apart=f'alone here: its {apart[0]} peers are in "{apart[1].title}"' if apart else "",
        binds=binds(one.binds),
        binds_why=one.binds_why,
        joined=_joined(one),
        badge=_badge(one),
    )


def _missing(one: Replica) -> Missing:
    known = (
        f"KV {_kv(one)}" if one.kv is not None else "",
        f"GPU {_activity(one)}" if one.activity is not None else "",
    )
    why = (f"KV: {one.kv_why}" if one.kv_why else "", f"GPU: {one.activity_why}" if one.activity_why else "")
    return Missing(one.instance, one.model, ", ".join(filter(None, known)), "; ".join(filter(None, why)), _badge(one))


def _trail(fleet: Fleet, one: Replica | None, traces: Mapping[str, Trace]) -> list[tuple[float, float]]:
    """The way of one replica, on its own kind of activity; moments without both numbers are left out."""
    kv, activity = traces.get(KV), traces.get(one.activity_of if one else "")
    if kv is None or activity is None:
        return []
    heights = dict(zip(activity.times, activity.values, strict=True))
    pairs = ((x, heights.get(t)) for t, x in zip(kv.times, kv.values, strict=True))
    return [(_across(x, fleet), y) for x, y in pairs if x is not None and y is not None]


def _counted(place: Quadrant, fleet: Fleet) -> str:
    """How many stand in a quadrant, and how many of them have requests waiting."""
    inside = [r for r in fleet.replicas if quadrant(r, fleet.limits) is place]
    waiting = sum(bool(r.waiting) for r in inside)
    here = f"{len(inside)} replica{'' if len(inside) == 1 else 's'}"
    return f"{here}, requests wait at {waiting}" if waiting else here


def _kv(one: Replica) -> str:
    return f"{_share(one.kv)}{f' ({one.kv_note})' if one.kv_note else ''}"


def _activity(one: Replica) -> str:
    if one.activity is None:
        return UNKNOWN
    said = ACTIVITY.get(one.activity_of, one.activity_of)
    return f"{_share(one.activity)} {said}{'' if one.activity_of == COMPUTE else ' (not compute)'}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else with_unit(value, "ratio")


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else digits(value)


def _joined(one: Replica) -> str:
    """``GPU 0, 1, joined by pod labels``; '' where an activity is told and not whose."""
    if not one.gpus and one.activity is not None:
        return ""
    if not one.gpus:
        return "none joined"
    how = " and ".join(JOINS.get(join, f"joined by {join.replace('-', ' ')}") for join in one.joins)
    return f"GPU {', '.join(one.gpus)}{f', {how}' if how else ''}"


def _badge(one: Replica) -> Badge:
    """How the replica stands: the leading cause's name where there is one."""
    if one.verdict not in set(Outcome):
        return OUTCOMES[Outcome.UNDETERMINED]
    found = OUTCOMES[Outcome(one.verdict)]
    return Badge(cause_title(one.leading), found.icon, found.tone) if one.leading else found
