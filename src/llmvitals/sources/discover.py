"""Pods of this node as targets: what a pod's labels and annotations ask for, see docs/node.md.

A value that cannot be meant becomes a problem that names the pod and the key; the pod goes on without it where it still can, and
the others go on in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from llmvitals.errors import SettingsError
from llmvitals.settings import Kubernetes, Service, Target
from llmvitals.sources.place import base_url
from llmvitals.sources.pod_targets import Asking, only
from llmvitals.sources.pod_words import PREFIX
from llmvitals.telemetry.addresses import LOOPBACK_NAMES
from llmvitals.telemetry.identity.model import Pod
from llmvitals.telemetry.kube.restarts import workload


@dataclass(frozen=True, slots=True)
class Discovered:
    """What the pods ask for. ``problems``: what was wrong with it, each with the pod as its place and a remedy.

    ``left``: pods that ask to be scraped and are not, ``namespace/name``, and why.
    """

    targets: tuple[Target, ...] = ()
    services: tuple[Service, ...] = ()
    problems: tuple[SettingsError, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def discover(
    pods: Sequence[Pod],
    *,
    node: str = "",
    configured: Sequence[Target] = (),
    services: Sequence[Service] = (),
    kubernetes: Kubernetes = Kubernetes(),  # noqa: B008  # frozen
) -> Discovered:
    """The targets among ``pods``, ordered by name: those that run, have an address and say ``llmvitals.io/scrape: "true"``.

    ``configured``, ``services`` and ``kubernetes`` are those of the settings. What one of these targets asks already, by its
    address or its pod, is not taken twice, and no name is.
    """
    asking = [Asking(pod, kubernetes) for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name))]
    names = {target.known_as for target in configured}
    taken = names | {service.name for service in services}
    bound = {target.pod for target in configured} | {_place(target.url) for target in configured}
    meant = [one for one in asking if one.wanted and one.name not in bound and not one.owner]
    found = [
        _Engine(one, target)
        for one in meant
        for target in one.targets(node)
        if bound.isdisjoint(_places(one.pod, target.url))
        and _is_free(one, target.name, taken)
        and _can_be_asked(one, target.url)
    ]
    fronts = _Fronts(found, names)
    targets = tuple(fronts.told(one) for one in found)
    grouped = tuple(_services(found, {target.gateway for target in targets}, taken | {t.name for t in targets}))
    left = tuple(_left(asking, {one.asking.name for one in found} | bound))
    return Discovered(targets, grouped, tuple(problem for one in asking for problem in one.problems), left)


def _left(asking: Sequence[Asking], taken: Collection[str]) -> Iterator[tuple[str, str]]:
    for one in asking:
        if one.wanted and one.owner:
            yield one.name, one.owner
        elif one.problems and one.name not in taken:
            yield one.name, f"{one.problems[0].thing}. {one.problems[0].remedy}"


def _is_free(asking: Asking, name: str, taken: Collection[str]) -> bool:
    if name in taken:
        asking.problem(f"the settings have something else named '{name}'", "Give that another name.")
    return name not in taken


def _can_be_asked(asking: Asking, url: str) -> bool:
    """Whether an address and a port that the cluster shows are any: one pod that shows nonsense must not stop the others."""
    try:
        base_url(url)
    except SettingsError as wrong:
        asking.problem(f"'{url[:80]}' {wrong.thing}", f"Correct its address and port, or {PREFIX}port.")
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Engine:
    asking: Asking
    target: Target


class _Fronts:
    """Which target a pod means by the gateway that it names."""

    def __init__(self, found: Sequence[_Engine], configured: set[str]) -> None:
        self._names = configured | {one.target.name for one in found}
        self._called: dict[tuple[str, str], set[str]] = {}
        for one in found:
            pod = one.asking.pod
            short = workload(pod)[1].partition("/")[2]
            for name in (pod.name, short):
                self._called.setdefault((pod.namespace, name), set()).add(one.target.name)

    def told(self, one: _Engine) -> Target:
        """The target with its gateway: a target by name, else a pod or a workload with one pod in its namespace."""
        wanted = one.asking.values.get("gateway", "")
        if not wanted:
            return one.target
        nearby = self._called.get((one.asking.pod.namespace, wanted), set())
        name = wanted if wanted in self._names else only(nearby)
        if not name or name == one.target.name:
            why = "itself" if name else "one of several pods" if nearby else "no target of this node or of the settings"
            one.asking.problem(
                f"{PREFIX}gateway '{wanted[:80]}' is {why}",
                f"Name a target of the settings, or a pod here with {PREFIX}scrape.",
            )
            return one.target
        return msgspec.structs.replace(one.target, gateway=name)


def _services(found: Sequence[_Engine], fronts: Collection[str], taken: Collection[str]) -> Iterator[Service]:
    """One service for each name that pods of a namespace share, of those that are no gateway (``fronts``) of another."""
    groups: dict[str, list[_Engine]] = {}
    for one in found:
        wanted = one.asking.values.get("service", "")
        if wanted and one.target.name not in fronts:
            groups.setdefault(f"{one.asking.pod.namespace}/{wanted}", []).append(one)
    for name, members in groups.items():
        if _is_free(members[0].asking, name, taken):
            yield Service(name=name, engines=tuple(one.target.name for one in members))


def _places(pod: Pod, url: str) -> set[str]:
    """Where a pod's target is: on the node's own network also what the settings call by a loopback address."""
    place = _place(url)
    here = sorted(LOOPBACK_NAMES | {"127.0.0.1", "::1"}) if pod.host_network else ()
    return {place, *(f"{name}:{place.rpartition(':')[2]}" for name in here)}


def _place(url: str) -> str:
    """Host and port, by which two targets are one."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return f"{parts.hostname}:{parts.port}"
    except ValueError:  # said where the settings are read
        return url
