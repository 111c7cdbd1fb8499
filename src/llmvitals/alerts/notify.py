"""What people are told of alerts that fire: a model of Alertmanager over the configuration that is made for it.

Groups, their waits, what is repeated and what is silenced go as in Alertmanager (``dispatch``, ``inhibit`` and ``notify`` of
0.25): a group is told ``group_wait`` after its first alert, then looked at every ``group_interval``, and told again when an
alert is new, when one was resolved, or after ``repeat_interval``. Simpler than there: a group whose alerts were all told as
resolved is forgotten at once and not within 30 s, and nobody is reminded of resolved alerts; so an alert that follows soon
may really come up to ``group_interval`` later, and together with others, never more often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llmvitals.alerts.firing import Episode
from llmvitals.alerts.routing import Route, inhibitions, meets, routes_of, waits

Kind = Literal["firing", "update", "repeat", "resolved"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification. ``t``: unix seconds; ``labels``: those of its group; ``episodes``: what fires in it; ``resolved``: what
    it tells as over.

    ``kind``: ``firing``: something in it is new; ``update``: something is over, the rest fires on; ``repeat``: nothing
    changed for ``repeat_interval``; ``resolved``: nothing fires any more, which wakes nobody.
    """

    t: float
    receiver: str
    labels: tuple[tuple[str, str], ...]
    kind: Kind
    episodes: tuple[Episode, ...]
    resolved: tuple[Episode, ...] = ()


@dataclass(frozen=True, slots=True)
class _Firing:
    """Episodes of one alert that run into each other."""

    start: float
    end: float | None
    episodes: tuple[Episode, ...]

    def fires_at(self, t: float) -> bool:
        return self.start <= t and (self.end is None or t < self.end)


@dataclass(slots=True, eq=False)
class _Alert:
    """One set of labels, when it fires, and whose firing silences it."""

    labels: dict[str, str]
    firings: list[_Firing]
    silencers: list[_Alert] = field(default_factory=list)

    def fires_at(self, t: float) -> bool:
        return any(firing.fires_at(t) for firing in self.firings)

    def silenced_at(self, t: float) -> bool:
        return any(source.fires_at(t) for source in self.silencers)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the last notification of a group said."""

    t: float
    firing: frozenset[_Alert]
    resolved: frozenset[_Alert]


def labels_of(episode: Episode) -> dict[str, str]:
    """The labels under which Alertmanager knows it."""
    told = {
        "alertname": episode.alert,
        "severity": episode.severity,
        "cause": episode.cause,
        "instance": episode.instance,
        "model": episode.model,
        "window": episode.window,
    }
    return {name: value for name, value in told.items() if value}


def notices(
    episodes: Iterable[Episode], config: Mapping[str, Any], *, until: float | None = None
) -> tuple[Notice, ...]:
    """What every receiver is told of these episodes, in order of time.

    ``until``: unix seconds to which what still fires is repeated; None: as long as something changes. Raises ValueError for
    a configuration with matchers or durations that are none.
    """
    alerts = _alerts(episodes)
    if not alerts:
        return ()
    _silence(alerts, config)
    groups: dict[tuple[Route, tuple[tuple[str, str], ...]], list[_Alert]] = {}
    for alert in alerts:
        for route in routes_of(config, alert.labels):
            groups.setdefault((route, route.group_of(alert.labels)), []).append(alert)
    changes = (t for alert in alerts for one in alert.firings for t in (one.start, one.end) if t is not None)
    horizon = max(changes) + max(waits(config)) if until is None else until
    told = (one for (route, labels), members in groups.items() for one in _told(route, labels, members, horizon))
    return tuple(sorted(told, key=lambda one: (one.t, one.receiver, one.labels)))


def _alerts(episodes: Iterable[Episode]) -> list[_Alert]:
    found: dict[tuple[tuple[str, str], ...], list[Episode]] = {}
    for episode in episodes:
        found.setdefault(tuple(labels_of(episode).items()), []).append(episode)
    return [_Alert(dict(labels), _firings(sorted(same, key=lambda e: e.fired))) for labels, same in found.items()]


def _firings(episodes: Sequence[Episode]) -> list[_Firing]:
    """One alert's episodes, in order, with those that run into each other joined: several rules may tell the same."""
    joined: list[_Firing] = []
    for one in episodes:
        last = joined[-1] if joined else None
        if last is not None and (last.end is None or one.fired <= last.end):
            end = None if last.end is None or one.ended is None else max(last.end, one.ended)
            joined[-1] = _Firing(last.start, end, (*last.episodes, one))
        else:
            joined.append(_Firing(one.fired, one.ended, (one,)))
    return joined


def _silence(alerts: Sequence[_Alert], config: Mapping[str, Any]) -> None:
    """Who silences whom. What is source and target of one rule at once is not silenced by others that are both, too."""
    for rule in inhibitions(config):
        sources: dict[tuple[str, ...], list[_Alert]] = {}
        for alert in alerts:
            if meets(rule.source, alert.labels):
                sources.setdefault(rule.shared(alert.labels), []).append(alert)
        for alert in alerts:
            if meets(rule.target, alert.labels):
                both = meets(rule.source, alert.labels)
                alert.silencers += (
                    source
                    for source in sources.get(rule.shared(alert.labels), ())
                    if not (both and meets(rule.target, source.labels))
                )


def _told(
    route: Route, labels: tuple[tuple[str, str], ...], alerts: Sequence[_Alert], until: float
) -> Iterator[Notice]:
    """The notifications of one group: born with its first alert, looked at in its rhythm, gone when all is resolved."""
    arriving = sorted(((one.start, alert, one) for alert in alerts for one in alert.firings), key=lambda row: row[0])
    last: _Told | None = None
    held: dict[_Alert, _Firing] = {}
    now, at = 0.0, 0
    while held or at < len(arriving):
        now = now + route.group_interval if held else arriving[at][0] + route.group_wait
        if now > until:
            return
        while at < len(arriving) and arriving[at][0] <= now:
            held[arriving[at][1]] = arriving[at][2]
            at += 1
        shown = {alert: one for alert, one in held.items() if not alert.silenced_at(now)}
        firing = frozenset(alert for alert, one in shown.items() if one.fires_at(now))
        resolved = frozenset(shown) - firing
        kind = _kind(route, last, firing, resolved, now)
        if kind is not None:
            last = _Told(now, firing, resolved)
            if kind != "resolved" or route.send_resolved:
                over = resolved if route.send_resolved else frozenset()
                yield Notice(now, route.receiver, labels, kind, _of(shown, firing, now), _of(shown, over, now))
        held = {alert: one for alert, one in held.items() if one.fires_at(now)}


def _kind(
    route: Route, last: _Told | None, firing: frozenset[_Alert], resolved: frozenset[_Alert], now: float
) -> Kind | None:
    """Whether a group is to be told, and why (``needsUpdate`` of Alertmanager's ``notify``)."""
    if not firing and (last is None or not last.firing or not resolved):
        return None
    if not firing:
        return "resolved"
    if last is None or not firing <= last.firing:
        return "firing"
    if route.send_resolved and not resolved <= last.resolved:
        return "update"
    return "repeat" if last.t <= now - route.repeat_interval else None


def _of(shown: Mapping[_Alert, _Firing], which: frozenset[_Alert], now: float) -> tuple[Episode, ...]:
    return tuple(e for alert, one in shown.items() if alert in which for e in one.episodes if e.fired <= now)
