"""Which target a process is whose spans come: five ways, the strongest that tells one target apart counts.

What a target's settings say, its pod, its process ids, its address, and at last that there is no other. A way that fits several
targets leaves the choice among them to the weaker ones; what contradicts a target takes it out. What nothing tells is placed
nowhere: requests are never given to a target because it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from llmvitals.telemetry.addresses import address, is_loopback
from llmvitals.telemetry.spans.model import Place, Vantage


class By(StrEnum):
    """How a sender's target was found, strongest first; the value is the label ``join``."""

    CONFIGURED = "configured"  # the target's settings name attributes that its resource carries
    POD = "pod"  # its resource names the target's pod
    PROCESS = "process"  # it is one of the target's processes on this machine
    ADDRESS = "address"  # it sends from the target's address
    ONLY = "only"  # there is no other target that it could be
    NONE = "none"


NO_TARGET = "no-such-target"  # there is no engine, or no gateway, among the targets
SEVERAL = "several-targets"  # it may be one of several
CONTRADICTED = "contradicted"  # its resource says that it is none of them
NOTHING = "nothing-tells"  # it names no pod, process or address of a target


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a sender belongs. ``why``: what kept it from being placed."""

    place: Place | None = None
    by: By = By.NONE
    why: str = ""


Resource = Mapping[str, str]
Test = Callable[[Resource, str, Place], bool]

_PIDS = ("vllm.process_id", "process.pid")
_UID, _NAMESPACE, _POD, _HOST = "k8s.pod.uid", "k8s.namespace.name", "k8s.pod.name", "host.name"


# -- the ways ---------------------------------------------------------------------------------------------------------
def configured(resource: Resource, _peer: str, place: Place) -> bool:
    """Every attribute that the target's settings name is there and equal."""
    return bool(place.attributes) and all(resource.get(key) == value for key, value in place.attributes.items())


def in_pod(resource: Resource, _peer: str, place: Place) -> bool:
    """Its resource names the target's pod, by uid or by namespace and name."""
    if place.pod_uid and resource.get(_UID):
        return resource[_UID] == place.pod_uid
    return bool(place.pod) and _pod(resource) == place.pod


def is_process(resource: Resource, peer: str, place: Place) -> bool:
    """It runs on this machine, by its peer address or its host's name, under a process id of the target."""
    here = _loopback(peer) or (bool(place.node) and resource.get(_HOST) == place.node)
    return here and any(value.isdecimal() and int(value) in place.pids for key in _PIDS if (value := resource.get(key)))


def has_address(_resource: Resource, peer: str, place: Place) -> bool:
    """It sends from the address at which the target is asked; all loopback addresses are one."""
    if not peer or not place.host:
        return False
    return _plain(peer) == _plain(place.host) or (_loopback(peer) and _loopback(place.host))


WAYS: tuple[tuple[By, Test], ...] = (
    (By.CONFIGURED, configured),
    (By.POD, in_pod),
    (By.PROCESS, is_process),
    (By.ADDRESS, has_address),
)
"""The ways that look at one target, strongest first; that there is no other is what is left after them."""


def placed(resource: Resource, peer: str, vantage: Vantage, places: Sequence[Place]) -> Placement:
    """The target of a process that sends ``vantage`` spans from ``peer`` (an IP address), among all targets."""
    kin = [place for place in places if place.gateway is (vantage is Vantage.GATEWAY)]
    if not kin:
        return Placement(why=NO_TARGET)
    able = [place for place in kin if not contradicted(resource, place)]
    if not able:
        return Placement(why=CONTRADICTED)
    several = False
    for by, test in WAYS:
        found = [place for place in able if test(resource, peer, place)]
        if len(found) == 1:
            return Placement(found[0], by)
        if found:
            able, several = found, True
    if len(kin) == 1:
        return Placement(able[0], By.ONLY)
    return Placement(why=SEVERAL if several else NOTHING)


def contradicted(resource: Resource, place: Place) -> bool:
    """Whether what a resource says rules a target out: settings that name other attributes, or another pod."""
    if place.attributes and not configured(resource, "", place):
        return True
    if place.pod_uid and resource.get(_UID):
        return resource[_UID] != place.pod_uid
    named = _pod(resource)
    return bool(place.pod and named) and named != place.pod


def _pod(resource: Resource) -> str:
    namespace, name = resource.get(_NAMESPACE, ""), resource.get(_POD, "")
    return f"{namespace}/{name}" if namespace and name else ""


@lru_cache(maxsize=4096)
def _plain(host: str) -> str:
    """An address or a name in one spelling."""
    return str(address(host) or host.lower())


_loopback = lru_cache(maxsize=4096)(is_loopback)
