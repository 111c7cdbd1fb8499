"""A fleet as it is shown: services and replicas worst first, how many stand how, where the time goes, who is old or gone. All
arithmetic of the fleet's page is here; what is drawn is never more than a person can look at, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from llmvitals.app.answer import Key
from llmvitals.settings import Settings
from llmvitals.triage.outliers import Outlier, outliers
from llmvitals.triage.replica import PHASES, Fleet, Replica, Whole
from llmvitals.triage.report import severity
from llmvitals.triage.units import digits, with_unit
from llmvitals.triage.verdict import Outcome
from llmvitals.triage.view import OUTCOMES, Badge, Tone, binds, cause_title

PAGE = 50
"""Rows of the table of replicas at a time."""

BARS = 12
"""Replicas whose time is drawn: those that take the longest."""

MOST_SERVICES = 50
MOST_ODD = 8

GONE = Badge("Gone", "question", Tone.WARN)
OLD = Badge("Old", "alert", Tone.WARN)
UNJUDGED = Badge("Not judged", "question", Tone.UNSURE)
MARKS = (GONE, OLD, UNJUDGED)


@dataclass(frozen=True, slots=True)
class Row:
    """One replica. ``since``: of one that is old or gone, when it was last heard of (UTC); numbers are '' where not known."""

    instance: str
    model: str
    badge: Badge
    hurt: bool
    waiting: str
    kv: str
    activity: str
    queue: str
    engine: str
    binds: str
    mark: Badge | None = None
    since: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """Replicas that serve together. ``own``: whether it is judged as one; else ``badge`` is that of its worst replica.

    ``by_model``: it is all replicas of a model, as no service is named. ``worst``: the scope that its verdict is about.
    ``counts``: its replicas by how they stand; ``told``: whether its replicas are known at all.
    """

    name: str
    model: str
    badge: Badge
    own: bool
    by_model: bool
    worst: Key
    counts: tuple[tuple[Badge, int], ...]
    total: int
    hurt: int
    waiting: str
    told: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """Where the time of a replica's requests goes: seconds of each phase (None: not timed) with its share of the longest bar."""

    instance: str
    model: str
    phases: tuple[tuple[str, float | None, float], ...]
    whole: str


@dataclass(frozen=True, slots=True)
class Board:
    """All that is shown. ``rows``: those of the page asked for, of ``matching`` replicas that fit the filter, of ``total``."""

    counts: tuple[tuple[Badge, int], ...]
    hurt: int
    services: tuple[Service, ...]
    more_services: int
    bars: tuple[Bar, ...]
    odd: tuple[Outlier, ...]
    more_odd: int
    rows: tuple[Row, ...]
    page: int
    pages: int
    matching: int
    total: int


def board(fleet: Fleet, settings: Settings, words: str = "", page: int = 1) -> Board:
    """The fleet as the page shows it; ``words``: what names, causes and states must hold; ``page``: of the table, from 1."""
    every = sorted(fleet.replicas, key=order)
    fitting = [one for one in every if fits(one, words)]
    pages = max(1, -(-len(fitting) // PAGE))
    page = min(max(1, page), pages)
    services = sorted(_services(fleet, fitting, settings, words), key=lambda s: s[0])
    odd = [one for one in outliers(fleet) if _holds(f"{one.instance} {one.model} {one.title}", words)]
    return Board(
        counts=_counts(fitting, fleet),
        hurt=sum(one.hurt for one in fitting),
        services=tuple(service for _, service in services[:MOST_SERVICES]),
        more_services=max(0, len(services) - MOST_SERVICES),
        bars=bars(fitting),
        odd=tuple(odd[:MOST_ODD]),
        more_odd=max(0, len(odd) - MOST_ODD),
        rows=tuple(_row(one, fleet) for one in fitting[(page - 1) * PAGE : page * PAGE]),
        page=page,
        pages=pages,
        matching=len(fitting),
        total=len(every),
    )


def narrowed(fleet: Fleet, words: str) -> Fleet:
    """The same fleet with the replicas alone that fit the filter."""
    return replace(fleet, replicas=tuple(one for one in fleet.replicas if fits(one, words))) if words.strip() else fleet


def order(one: Replica) -> tuple[int, bool, float, float, str]:
    """Sorts replicas worst first, as verdicts are everywhere; nobody knows how one is that is gone. Of alike ones, where most wait
    comes first.
    """
    verdict = Outcome.UNDETERMINED.value if one.gone or not one.verdict else one.verdict
    return (*severity(verdict, one.confidence, hurt=one.hurt), -(one.waiting or 0.0), one.instance)


def fits(one: Replica, words: str) -> bool:
    """Whether each word stands in its name, its model, its state or what binds it."""
    said = (
        one.instance,
        one.model,
        one.verdict,
        one.leading,
        badge_of(one).word,
        binds(one.binds) if one.binds else "",
    )
    return _holds(" ".join(said), words)


def _holds(text: str, words: str) -> bool:
    return all(word in text.lower() for word in words.lower().split())


def is_old(one: Replica, fleet: Fleet) -> bool:
    """Whether the rest of the fleet was heard of more than a whole window later than this one."""
    return not one.gone and one.newest is not None and fleet.end - one.newest > fleet.seconds


def badge_of(one: Replica | Whole) -> Badge:
    """How it stands: the leading cause's name where there is one."""
    if isinstance(one, Replica) and one.gone:
        return GONE
    if one.verdict not in OUTCOMES:
        return UNJUDGED
    found = OUTCOMES[Outcome(one.verdict)]
    return Badge(cause_title(one.leading), found.icon, found.tone) if one.leading else found


def _state(one: Replica, fleet: Fleet) -> Badge:
    """What it counts as: an old one is not counted by a verdict that is old too."""
    if one.gone:
        return GONE
    if is_old(one, fleet):
        return OLD
    return OUTCOMES[Outcome(one.verdict)] if one.verdict in OUTCOMES else UNJUDGED


def _counts(replicas: Iterable[Replica], fleet: Fleet) -> tuple[tuple[Badge, int], ...]:
    """How many are in which state, the worst state first."""
    found = Counter(_state(one, fleet) for one in replicas)
    ranks = {badge: severity(outcome) for outcome, badge in OUTCOMES.items()}
    known = severity(Outcome.UNDETERMINED)
    return tuple(sorted(found.items(), key=lambda item: (ranks.get(item[0], known), item[0].word)))


_Order = tuple[int, bool, float, int, str]


def _services(
    fleet: Fleet, fitting: Sequence[Replica], settings: Settings, words: str
) -> Iterable[tuple[_Order, Service]]:
    """Services of the settings and of the exporter, then models, each with what it is sorted by."""
    wholes = {one.name: one for one in fleet.services}
    engines = {service.name: service.engines for service in settings.services}
    engines |= {one.name: one.engines for one in fleet.services if one.engines}
    by_name: dict[str, list[Replica]] = {}
    for one in fitting:
        by_name.setdefault(one.instance, []).append(one)
    taken: set[str] = set()
    for name in dict.fromkeys((*wholes, *engines)):
        own = [one for engine in engines.get(name, ()) for one in by_name.get(engine, ())]
        taken |= set(engines.get(name, ()))
        found = wholes.get(name)
        if own or (found is not None and _holds(f"{name} {found.model} {badge_of(found).word}", words)):
            yield _service(name, found.model if found else own[0].model, own, found, fleet, by_model=False)
    models: dict[str, list[Replica]] = {}
    for one in fitting:
        if one.instance not in taken:
            models.setdefault(one.model, []).append(one)
    for model, own in models.items():
        yield _service(model, "", own, None, fleet, by_model=True)


def _service(
    name: str, model: str, own: Sequence[Replica], whole: Whole | None, fleet: Fleet, *, by_model: bool
) -> tuple[_Order, Service]:
    first = min(own, key=order) if own else None
    judged = whole if whole is not None and whole.verdict else first
    assert judged is not None  # a service without a verdict of its own is there by its replicas
    if isinstance(judged, Replica):
        rank, key = order(judged)[:3], judged.key
    else:
        rank, key = severity(judged.verdict, judged.confidence, hurt=judged.hurt), (judged.name, judged.model)
    waits = [one.waiting for one in own if one.waiting is not None and not one.gone]
    counts = _counts(own, fleet)
    ill = sum(n for badge, n in counts if badge.tone is Tone.BAD)
    service = Service(
        name=name,
        model=model,
        badge=badge_of(judged),
        own=judged is whole,
        by_model=by_model,
        worst=key,
        counts=counts,
        total=len(own),
        hurt=sum(one.hurt for one in own),
        waiting=digits(sum(waits)) if waits else "",
        told=bool(own),
    )
    return (*rank, -ill, name), service


def bars(replicas: Iterable[Replica]) -> tuple[Bar, ...]:
    """The replicas whose requests take the longest, from the queue to the last token; the longest first."""
    timed = [one for one in replicas if not one.gone and any(name in one.numbers for name in PHASES)]
    worst = sorted(timed, key=lambda one: (-_whole(one), one.instance))[:BARS]
    longest = max((_whole(one) for one in worst), default=0.0) or 1.0
    return tuple(
        Bar(
            one.instance,
            one.model,
            tuple((name, one.numbers.get(name), one.numbers.get(name, 0.0) / longest) for name in PHASES),
            with_unit(_whole(one), "seconds"),
        )
        for one in worst
    )


def _whole(one: Replica) -> float:
    return sum(one.numbers.get(name, 0.0) for name in PHASES)


def _row(one: Replica, fleet: Fleet) -> Row:
    old = is_old(one, fleet)
    numbers: Mapping[str, float] = {} if one.gone else one.numbers
    engine = [numbers[name] for name in PHASES[1:] if name in numbers]
    return Row(
        instance=one.instance,
        model=one.model,
        badge=badge_of(one),
        hurt=one.hurt,
        waiting="" if one.waiting is None else digits(one.waiting),
        kv="" if one.kv is None else with_unit(one.kv, "ratio"),
        activity="" if one.activity is None else with_unit(one.activity, "ratio"),
        queue=with_unit(numbers[PHASES[0]], "seconds") if PHASES[0] in numbers else "",
        engine=with_unit(sum(engine), "seconds") if len(engine) == len(PHASES) - 1 else "",
        binds=binds(one.binds) if one.binds else "",
        mark=OLD if old else None,
        since=f"{datetime.fromtimestamp(one.newest, UTC):%H:%M:%S}" if (old or one.gone) and one.newest else "",
    )
