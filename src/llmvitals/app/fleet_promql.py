"""What a PromQL endpoint holds of a whole fleet: how each scope stands by the verdicts that our exporter stored, in a few queries
whatever the number of replicas. Nothing is judged here, so that a thousand replicas cost what one does.

A verdict that is shown in full is never one of these: it comes of the walk over the scope's own samples (:mod:`.promql`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmvitals.app.answer import Key, Member
from llmvitals.errors import PageError, SettingsError
from llmvitals.schema import SCOPE
from llmvitals.series import Labels
from llmvitals.settings import Settings, Source
from llmvitals.sources.promql import EXPORTED
from llmvitals.sources.promql_api import Endpoint, Stored
from llmvitals.triage.report import severity
from llmvitals.triage.verdict import Outcome

VERDICT = "llm_triage_verdict == 1"
LEADING = "llm_triage_leading"
LED = "timestamp(llm_triage_leading)"
HURT = "llm_triage_hurt"
NEWEST = "timestamp(llm_triage_hurt)"
UP = "group by (instance, exported_instance) (llm_target_up)"
GONE_SECONDS = 900.0
GONE = f"max_over_time(timestamp(llm_triage_hurt)[{GONE_SECONDS:.0f}s:30s]) unless llm_triage_hurt"
"""Who was judged in the last quarter of an hour and is not any more, with the time of the last verdict: ``timestamp`` gives that
of a sample only over a plain selector, hence the subquery (Prometheus' documentation, "timestamp()").
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """One scope as its stored verdict says. ``newest``: when that was made (unix seconds), 0 where nothing says it.

    ``place``: the labels that tell it from another of its name (``alerts.group_by`` of the settings); ``stored``: instance and
    place by the labels under which they are stored. ``gone``: it gives no verdict any more. ``others``: places in which there is
    another of its name, which is not this one.
    """

    instance: str
    model: str
    verdict: str = ""
    leading: str = ""
    confidence: float = 0.0
    hurt: bool = False
    newest: float = 0.0
    gone: bool = False
    place: Labels = ()
    stored: Labels = ()
    others: tuple[Labels, ...] = ()

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.instance, self.model

    @property
    def order(self) -> tuple[int, bool, float, str, str]:
        """Sorts the worst first, as triage does; who is gone comes before who is well, since nobody knows how it is."""
        outcome = Outcome.UNDETERMINED if self.gone else self.verdict
        return (*severity(outcome, self.confidence, hurt=self.hurt), self.instance, self.model)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose number a stored series is."""

    instance: str
    model: str
    place: Labels
    stored: Labels


def whose(labels: Mapping[str, str], places: Sequence[str]) -> Whose:
    """Instance, model and place of a series; what a server renamed to make room for its own labels is undone."""
    found: dict[str, str] = {}
    stored: list[tuple[str, str]] = []
    for name in (*SCOPE, *places):
        label = EXPORTED + name if EXPORTED + name in labels else name
        if value := labels.get(label, ""):
            found[name] = value
            if name != "model":
                stored.append((label, value))
    place = tuple((name, found[name]) for name in places if name in found)
    return Whose(found.get("instance", ""), found.get("model", ""), place, tuple(stored))


def scope_and_place(labels: Mapping[str, str], places: Sequence[str]) -> tuple[str, str, Labels]:
    """The same without the labels as they are stored: for answers of many series."""
    get = labels.get
    instance, model = (get(EXPORTED + name) or get(name, "") for name in SCOPE)
    place = tuple((name, value) for name in places if (value := get(EXPORTED + name) or get(name, "")))
    return instance, model, place


def places_of(settings: Settings) -> tuple[str, ...]:
    """The labels that tell two of one name apart."""
    return tuple(name for name in settings.alerts.group_by if name not in SCOPE)


def standings(source: Source, at: float, settings: Settings) -> tuple[Standing, ...]:
    """Every scope that has a stored verdict at that moment (unix seconds), or had one shortly before; worst first.

    Where two places have a scope of one name, the one that stored more in the window is taken, and knows of the other. Raises the
    errors of :meth:`Endpoint.now`.
    """
    places = places_of(settings)
    with endpoint(source) as asked:
        verdicts = asked.now(VERDICT, at)
        gone = _gone(asked, at)
        if not verdicts and not gone:
            return ()
        newest = asked.now(NEWEST, at)
        hurt = asked.now(f"{HURT} == 1", at)
        leading, led = asked.now(LEADING, at), asked.now(LED, at)
        found = _joined(verdicts, gone, newest, hurt, leading, led, places)
        several = _several(found)
        stored = (
            asked.now(f"count_over_time({HURT}[{max(1, round(settings.exporter.window_seconds))}s])", at)
            if several
            else []
        )
    counts = {(w.instance, w.model, w.place): float(one.points[-1][1]) for one, w in _each(stored, places)}
    return tuple(sorted(_fullest(found, counts), key=lambda one: one.order))


def members_of(found: Iterable[Standing]) -> tuple[Member, ...]:
    """Those that still give a verdict, in that order."""
    return tuple(
        Member(one.instance, one.model, one.verdict, one.leading, one.confidence, one.hurt)
        for one in found
        if not one.gone
    )


def endpoint(source: Source) -> Endpoint:
    """The connection to a source."""
    return Endpoint(source.url, access=source.access)


def _gone(asked: Endpoint, at: float) -> list[Stored]:
    """Who went away. A server that does not take a subquery tells nobody."""
    try:
        return asked.now(GONE, at)
    except (SettingsError, PageError):
        return []


_At = tuple[str, str, Labels]


def _each(stored: Iterable[Stored], places: Sequence[str]) -> Iterable[tuple[Stored, Whose]]:
    return ((one, whose(one.labels, places)) for one in stored)


def _values(
    stored: Iterable[Stored], places: Sequence[str], better: Callable[[float, float], float]
) -> dict[_At, float]:
    """The number of each scope; of several (replicated servers) the ``better`` one."""
    found: dict[_At, float] = {}
    for one, w in _each(stored, places):
        key, value = (w.instance, w.model, w.place), float(one.points[-1][1])
        found[key] = better(found[key], value) if key in found else value
    return found


def _joined(
    verdicts: Iterable[Stored],
    gone: Iterable[Stored],
    newest: Iterable[Stored],
    hurt: Iterable[Stored],
    leading: Iterable[Stored],
    led: Iterable[Stored],
    places: Sequence[str],
) -> dict[_At, Standing]:
    """What the queries say, scope by scope."""
    times, hurts = _values(newest, places, max), _values(hurt, places, max)
    leads = _leads(leading, led, places)
    found: dict[_At, Standing] = {}
    for one, w in _each(gone, places):
        key = (w.instance, w.model, w.place)
        found[key] = Standing(
            w.instance, w.model, newest=float(one.points[-1][1]), gone=True, place=w.place, stored=w.stored
        )
    for one, w in _each(verdicts, places):
        key = (w.instance, w.model, w.place)
        verdict = one.labels.get("verdict", "")
        cause, confidence = leads.get(key, ("", 0.0)) if verdict != Outcome.HEALTHY else ("", 0.0)
        made = Standing(
            w.instance,
            w.model,
            verdict,
            cause,
            confidence,
            hurt=key in hurts,
            newest=times.get(key, 0.0),
            place=w.place,
            stored=w.stored,
        )
        known = found.get(key)
        found[key] = made if known is None or known.gone else min(made, known, key=lambda s: s.order)
    return found


def _leads(leading: Iterable[Stored], led: Iterable[Stored], places: Sequence[str]) -> dict[_At, tuple[str, float]]:
    """Each scope's leading cause with the confidence in it: the newest, where a server kept one beyond its end."""
    times = {
        (w.instance, w.model, w.place, one.labels.get("cause", "")): float(one.points[-1][1])
        for one, w in _each(led, places)
    }
    found: dict[_At, tuple[float, str, float]] = {}
    for one, w in _each(leading, places):
        key, cause, value = (w.instance, w.model, w.place), one.labels.get("cause", ""), float(one.points[-1][1])
        row = (times.get((*key, cause), 0.0), cause, value)
        found[key] = max(found.get(key, row), row, key=lambda r: (r[0], r[2]))
    return {key: (cause, value) for key, (_, cause, value) in found.items()}


def _several(found: Mapping[_At, Standing]) -> bool:
    return len({key[:2] for key in found}) < len(found)


def _fullest(found: Mapping[_At, Standing], counts: Mapping[_At, float]) -> Iterable[Standing]:
    """One of each name: who is still there before who is gone, then the one with the most stored."""
    by_name: dict[Key, list[_At]] = {}
    there = {(key[0], key[2]) for key, one in found.items() if not one.gone}
    for key, one in found.items():
        if (
            not one.gone or (key[0], key[2]) not in there
        ):  # a target that is down names no model any more, and is not gone
            by_name.setdefault(key[:2], []).append(key)
    for keys in by_name.values():
        best = max(keys, key=lambda key: (not found[key].gone, counts.get(key, 0.0), key[2]))
        others = tuple(key[2] for key in keys if key is not best and not found[key].gone)
        yield replace(found[best], others=others)
