"""Which targets are judged together: an engine with the gateway in front of it, and the engines of a service as one.

What the settings say comes first; where they say nothing, one engine and one gateway belong together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Snapshot
from llmvitals.settings import Service
from llmvitals.sources.service import Member, models_of, together
from llmvitals.telemetry.gateways.join import choose, join_gateway
from llmvitals.telemetry.registry import ADAPTERS

GATEWAYS: frozenset[str] = frozenset(adapter.kind for adapter in ADAPTERS if adapter.origin is Origin.GATEWAY)
"""Kinds of page that a gateway shows."""

JOIN_SECONDS = 10.0
"""A page of a GPU or a gateway further than this from an engine's says nothing about it."""

_OF_ENGINES = frozenset({Origin.ENGINE, Origin.PROBE})


@dataclass(frozen=True, slots=True)
class Placed:
    """One target among others. ``gateway``: the target in front of it, by its settings; ``in_front``: it is one itself."""

    name: str
    gateway: str = ""
    in_front: bool = False


@dataclass(frozen=True, slots=True)
class Views:
    """What is joined: ``services`` are judged beside their engines; ``fronts`` gives an engine the gateway that is its alone."""

    services: tuple[Service, ...] = ()
    fronts: Mapping[str, str] | None = None

    @property
    def joined(self) -> frozenset[str]:
        """The gateways that are told with others and do not stand by themselves."""
        return frozenset((self.fronts or {}).values()).union(*(service.gateways for service in self.services))


def is_gateway(kind: str, pages: Sequence[Snapshot]) -> bool:
    """Whether a target is a gateway: by its kind, by what its page was recognised as, or by what alone it shows."""
    known = kind if kind in GATEWAYS else kind_shown(pages)
    if known:
        return known in GATEWAYS
    origins = {origin_of(key.name) for page in pages for key in page.samples}
    return Origin.GATEWAY in origins and not origins & _OF_ENGINES


def kind_shown(pages: Sequence[Snapshot]) -> str:
    """What the newest page that could be read was recognised as; '' where none says so."""
    for page in reversed(pages):
        for key in page.samples:
            if key.name == "llm_target_info":
                return key.label("engine")
    return ""


def views(targets: Sequence[Placed], services: Sequence[Service]) -> Views:
    """What belongs together among these targets.

    A service stands where all its engines are watched; what it says of gateways may also be said by its engines. Engines of no
    service that name one gateway are a service of that gateway's name; one engine alone simply gets it.
    """
    there = {one.name: one for one in targets}
    found: list[Service] = []
    for service in services:
        if all(name in there for name in service.engines):
            named = service.gateways or tuple(dict.fromkeys(g for e in service.engines if (g := there[e].gateway)))
            gateways = tuple(name for name in named if name in there)
            found.append(Service(name=service.name, engines=service.engines, gateways=gateways, model=service.model))
    taken = {name for service in found for name in service.engines}
    behind: dict[str, list[str]] = {}
    for one in targets:
        if one.gateway in there and one.name not in taken:
            behind.setdefault(one.gateway, []).append(one.name)
    fronts = {engines[0]: gateway for gateway, engines in behind.items() if len(engines) == 1}
    found += [
        Service(name=gateway, engines=tuple(engines), gateways=(gateway,))
        for gateway, engines in behind.items()
        if len(engines) > 1
    ]
    gateways = tuple(one.name for one in targets if one.in_front)
    engines = [one.name for one in targets if not one.in_front]
    if not found and not fronts and len(gateways) == 1 and len(engines) == 1:
        fronts = {engines[0]: gateways[0]}
    return Views(tuple(found), fronts)


def merged(service: Service, pages: Mapping[str, tuple[Snapshot, ...]]) -> tuple[Snapshot, ...]:
    """A service's pages, from those of its engines and gateways by name."""
    members = [Member(name, pages[name]) for name in service.engines]
    engines = together(service, members)
    return with_gateways(service.name, engines, service.gateways, pages, models_of(members), service.model)


def with_gateways(
    instance: str,
    engine: Sequence[Snapshot],
    gateways: Sequence[str],
    pages: Mapping[str, tuple[Snapshot, ...]],
    models: frozenset[str],
    model: str = "",
) -> tuple[Snapshot, ...]:
    """Pages of an engine or a service with what its gateways saw at about the same moment, the first one's as users' calls."""
    joined = list(engine)
    for number, name in enumerate(gateways):
        shown = pages[name]
        choice = choose(shown, models, model)
        for at, page in enumerate(joined):
            near = nearest(shown, page.t)
            if near is not None:
                first = number == 0
                joined[at] = join_gateway(page, near, instance=instance, name=name, choice=choice, first=first)
    return tuple(joined)


def nearest(pages: Sequence[Snapshot], t: float) -> Snapshot | None:
    """The page nearest to a moment; None where none is near enough."""
    at = bisect_left(pages, t, key=lambda page: page.t)
    near = min(pages[max(at - 1, 0) : at + 1], key=lambda page: abs(page.t - t), default=None)
    return near if near is not None and abs(near.t - t) <= JOIN_SECONDS else None
