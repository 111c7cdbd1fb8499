"""A fleet side by side from what our exporter stored of it: verdicts and the gauges of signals, in a few instant queries. No
sample is read and nothing is judged, so that a thousand replicas are there as soon as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.app.answer import Key
from llmvitals.app.fleet_promql import UP, Standing, endpoint, places_of, scope_and_place, standings, whose
from llmvitals.schema import BY_NAME
from llmvitals.series import Labels
from llmvitals.settings import Settings, Source
from llmvitals.sources.promql_api import Stored
from llmvitals.triage.replica import ACTIVITY, BESIDE, COMPUTE, KV, NUMBERS, Fleet, Replica, Whole, limits_of

COUNTS = ("requests_waiting", "requests_running")
"""Of a replica with several ranks these are the sum over them, as their signals are."""

GAUGES: tuple[str, ...] = tuple(
    dict.fromkeys(
        name
        for name in (KV, *ACTIVITY, *BESIDE, *COUNTS, *NUMBERS)
        if name in COUNTS or f"llm_{name}" not in BY_NAME  # a family of that name is a number of each rank or GPU
    )
)

_SIGNALS = f'{{__name__=~"{"|".join(f"llm_{name}" for name in GAUGES)}"}}'
_BINDING = "llm_binding == 1"
_GAPS = f'llm_signal_gap{{signal=~"{KV}|{COMPUTE}"}}'
_NOTES = f'llm_signal_standing{{signal="{KV}"}}'
_CARDS = "group by (instance, exported_instance, gpu, index, join) (llm_gpu_memory_used_bytes)"

FEW = 100
"""Up to so many scopes the GPUs of each are asked for as well: a thousand have some eight thousand."""

WHY: Mapping[str, str] = {
    "unsupported": "cannot be known of this server",
    "missing": "it should be told and is not",
    "no-traffic": "no traffic",
    "too-short": "the window holds too few pages or too little time",
    "stale": "the gauge stands still",
    "censored": "only finished requests are counted, and the queue stands",
}
"""Why a stored gap (gaps.py) says that there is no number; its sentence is not stored."""

NOT_TOLD = "no number is stored, and no reason"
SILENT = "it gives no verdict any more"


@dataclass(slots=True)
class _Row:
    """What is stored of one scope beside its verdict."""

    values: dict[str, float] = field(default_factory=dict)
    sums: dict[tuple[object, ...], float] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    note: str = ""
    binds: str = ""
    cards: set[str] = field(default_factory=set)
    joins: set[str] = field(default_factory=set)


def stored_fleet(source: Source, at: float, settings: Settings) -> Fleet | None:
    """The fleet at that moment (unix seconds); None where no verdicts are stored. Raises the errors of :meth:`Endpoint.now`."""
    known = standings(source, at, settings)
    if not known:
        return None
    with endpoint(source) as asked:
        signals, binding = asked.values(_SIGNALS, at), asked.now(_BINDING, at)
        gaps, notes = asked.now(_GAPS, at), asked.now(_NOTES, at)
        up = {whose(row.labels, ()).instance for row in asked.now(UP, at)}
        cards = asked.now(_CARDS, at) if len(known) <= FEW else []
    rows = _rows(known, places_of(settings), signals, binding, gaps, notes)
    _put_cards({one.instance: rows[one.key] for one in known}, cards)
    named = {service.name: service.engines for service in settings.services}
    services = tuple(
        Whole(one.instance, one.model, named.get(one.instance, ()), one.verdict, one.leading, one.confidence, one.hurt)
        for one in known
        if _is_service(one, named, up) and not one.gone
    )
    return Fleet(
        end=max(one.newest for one in known),
        seconds=settings.exporter.window_seconds,
        limits=limits_of(settings),
        replicas=tuple(_replica(one, rows[one.key]) for one in known if not _is_service(one, named, up)),
        services=services,
        notes=_told(known),
    )


def _is_service(one: Standing, named: Mapping[str, Sequence[str]], up: set[str]) -> bool:
    """Of a service verdicts are stored and no page of its own; of one that went away none are, either way."""
    return one.instance in named or (not one.gone and one.instance not in up)


def _rows(
    known: Iterable[Standing],
    places: Sequence[str],
    signals: Iterable[tuple[Mapping[str, str], float]],
    binding: Iterable[Stored],
    gaps: Iterable[Stored],
    notes: Iterable[Stored],
) -> dict[Key, _Row]:
    """What is stored of each scope in its own place; of another place's that has its name nothing."""
    rows: dict[Key, _Row] = {}
    at: dict[tuple[str, str, Labels], _Row] = {}
    for one in known:
        rows[one.key] = _Row()
        at[one.instance, one.model, one.place] = rows[one.key]
    for labels, value in signals:
        if (row := _of(labels, places, at)) is not None:
            _put(row, labels, value)
    for stored in binding:
        if (row := _of(stored.labels, places, at)) is not None:
            row.binds = stored.labels.get("resource", "")
    for stored in gaps:
        if (row := _of(stored.labels, places, at)) is not None:
            row.gaps[stored.labels.get("signal", "")] = stored.labels.get("gap", "")
    for stored in notes:
        if (row := _of(stored.labels, places, at)) is not None:
            row.note = stored.labels.get("standing", "")
    return rows


def _put(row: _Row, labels: Mapping[str, str], value: float) -> None:
    """A number; a count is the sum over ranks of one server's copy, and the larger of two servers' that hold the same."""
    name = labels["__name__"].removeprefix("llm_")
    if name in COUNTS:
        origin = (name, *sorted(pair for pair in labels.items() if pair[0] not in _OF_RANKS))
        row.sums[origin] = row.sums.get(origin, 0.0) + value
        value = max(total for held, total in row.sums.items() if held[0] == name)
    row.values[name] = value


_OF_RANKS = frozenset({"rank", "engine"})


def _of(labels: Mapping[str, str], places: Sequence[str], at: Mapping[tuple[str, str, Labels], _Row]) -> _Row | None:
    return at.get(scope_and_place(labels, places))


def _put_cards(rows: Mapping[str, _Row], cards: Iterable[Stored]) -> None:
    for stored in cards:
        row = rows.get(whose(stored.labels, ()).instance)
        if row is not None and (gpu := stored.labels.get("gpu", "")):
            card, _, part = gpu.partition("/")
            row.cards.add("/".join(filter(None, (stored.labels.get("index") or card, part))))
            row.joins.update(filter(None, (stored.labels.get("join", ""),)))


def _replica(one: Standing, row: _Row) -> Replica:
    best = next((name for name in ACTIVITY if name in row.values), "")
    return Replica(
        one.instance,
        one.model,
        kv=row.values.get(KV),
        kv_why="" if KV in row.values else _why(row, KV, one),
        kv_note=row.note if KV in row.values and row.note != "exact" else "",
        activity=row.values.get(best),
        activity_of=best,
        activity_why="" if best else _why(row, COMPUTE, one),
        tensor=row.values.get(BESIDE[0]),
        dram=row.values.get(BESIDE[1]),
        waiting=row.values.get(COUNTS[0]),
        running=row.values.get(COUNTS[1]),
        gpus=tuple(sorted(row.cards, key=lambda name: (len(name), name))),
        joins=tuple(sorted(row.joins)),
        verdict=one.verdict,
        leading=one.leading,
        binds=row.binds,
        numbers={name: row.values[name] for name in NUMBERS if name in row.values},
        confidence=one.confidence,
        hurt=one.hurt,
        newest=one.newest or None,
        gone=one.gone,
    )


def _why(row: _Row, signal: str, one: Standing) -> str:
    return SILENT if one.gone else WHY.get(row.gaps.get(signal, ""), NOT_TOLD)


def _told(known: Iterable[Standing]) -> tuple[str, ...]:
    """How many names stand for servers in more than one place, of which one is shown."""
    several = [one.instance for one in known if one.others]
    if not several:
        return ()
    names = ", ".join(several[:3]) + (", ..." if len(several) > 3 else "")
    return (f"has servers of one name in several places ({names}): of each name the one with most samples is shown",)
