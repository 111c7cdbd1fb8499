"""What an Alertmanager configuration says of an alert: its routes and what silences it. Read from the dict that
:func:`llmvitals.alerts.alertmanager.config` gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmvitals.settings import seconds_of

Labels = Mapping[str, str]

_MATCHER = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^"{},\s]*)\s*""")
_ESCAPED = re.compile(r"\\(.)")
_DEFAULTS: Mapping[str, Any] = {
    "group_by": [],
    "group_wait": "30s",
    "group_interval": "5m",
    "repeat_interval": "4h",
}
"""Those of Alertmanager's documentation, "route"."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One matcher; a label that an alert lacks is ''."""

    label: str
    pattern: re.Pattern[str]
    negated: bool

    def meets(self, labels: Labels) -> bool:
        """Whether these labels meet it."""
        return (self.pattern.fullmatch(labels.get(self.label, "")) is not None) is not self.negated


@dataclass(frozen=True, slots=True)
class Route:
    """Where alerts go, and in which rhythm (seconds). ``place``: its way from the root, which tells routes apart."""

    place: tuple[int, ...]
    receiver: str
    group_by: tuple[str, ...]
    group_wait: float
    group_interval: float
    repeat_interval: float
    send_resolved: bool

    def group_of(self, labels: Labels) -> tuple[tuple[str, str], ...]:
        """The labels that this alert's group shares."""
        every = "..." in self.group_by
        return tuple(sorted((name, value) for name, value in labels.items() if every or name in self.group_by))


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While a source fires, targets with the same ``equal`` labels are not told."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def shared(self, labels: Labels) -> tuple[str, ...]:
        """The values of the equal labels."""
        return tuple(labels.get(name, "") for name in self.equal)


def meets(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether labels meet all of them."""
    return all(matcher.meets(labels) for matcher in matchers)


def matcher_of(text: str) -> Matcher:
    """``label="value"`` with =, !=, =~ or !~. Raises ValueError for what is none."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is no matcher; write label=\"value\"")
    label, operator, value = found.groups()
    plain = _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
    pattern = plain if operator.endswith("~") else re.escape(plain)
    return Matcher(label, re.compile(pattern), operator.startswith("!"))


def routes_of(config: Mapping[str, Any], labels: Labels) -> list[Route]:
    """The routes that an alert takes: the first that matches at each level, and those after one that continues."""
    return list(_matching(config["route"], labels, _DEFAULTS, (), _resolving(config)))


def inhibitions(config: Mapping[str, Any]) -> list[Inhibition]:
    """The configuration's inhibition rules."""
    return [
        Inhibition(
            _matchers(rule.get("source_matchers", ())),
            _matchers(rule.get("target_matchers", ())),
            tuple(rule.get("equal", ())),
        )
        for rule in config.get("inhibit_rules", ())
    ]


def waits(config: Mapping[str, Any]) -> Iterator[float]:
    """Every group_wait and group_interval of the routes, in seconds."""
    open_routes = [config["route"]]
    while open_routes:
        route = open_routes.pop()
        open_routes += route.get("routes", ())
        yield from (seconds_of((_DEFAULTS | route)[key]) for key in ("group_wait", "group_interval"))


def _matching(
    route: Mapping[str, Any],
    labels: Labels,
    inherited: Mapping[str, Any],
    place: tuple[int, ...],
    resolving: Mapping[str, bool],
) -> Iterator[Route]:
    if not meets(_matchers(route.get("matchers", ())), labels):
        return
    options = {**inherited, **{key: route[key] for key in (*_DEFAULTS, "receiver") if key in route}}
    taken = False
    for index, below in enumerate(route.get("routes", ())):
        found = list(_matching(below, labels, options, (*place, index), resolving))
        yield from found
        taken = taken or bool(found)
        if found and not below.get("continue", False):
            break
    if not taken:
        yield Route(
            place,
            options["receiver"],
            tuple(options["group_by"]),
            seconds_of(options["group_wait"]),
            seconds_of(options["group_interval"]),
            seconds_of(options["repeat_interval"]),
            resolving.get(options["receiver"], True),
        )


def _matchers(texts: Sequence[str]) -> tuple[Matcher, ...]:
    return tuple(map(matcher_of, texts))


def _resolving(config: Mapping[str, Any]) -> dict[str, bool]:
    """Which receivers are told that alerts were resolved; integrations are, unless they say otherwise."""
    return {
        receiver["name"]: any(
            one.get("send_resolved", True) for key, many in receiver.items() if key.endswith("_configs") for one in many
        )
        for receiver in config.get("receivers", ())
    }
