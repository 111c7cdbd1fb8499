"""What hardly changes: which cards there are, what they are, and how they are linked. Asked anew every FACTS_SECONDS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import (
    ANCESTORS,
    CLOCK_SM,
    LOST,
    REMOTE_GPU,
    REMOTE_SWITCH,
    XID_EVENT,
    Code,
    Field,
)
from llmvitals.telemetry.gpu.nvml.device import Card, Device

FACTS_SECONDS = 300.0
"""So long a change of the topology, an NVLink that went down or MIG that was turned on may go unseen."""

_MEGA = 1e6
_MOST_LINKS = 36  # of one card, NVML_NVLINK_MAX_LINKS


def cards(asking: Asking, known: dict[str, Card]) -> Iterator[Card | tuple[int, Refused]]:
    """Every card that the driver counts, with what is remembered of it; what cannot be opened as its index and why."""
    count = asking("nvmlDeviceGetCount")
    for index in range(0 if isinstance(count, Refused) else count):
        handle = asking("nvmlDeviceGetHandleByIndex", index)
        uuid = handle if isinstance(handle, Refused) else asking("nvmlDeviceGetUUID", handle)
        if not isinstance(uuid, Refused):
            card = known.get(uuid) or Card(handle, uuid, index, uuid=uuid)
            card.handle, card.index = handle, index
            _renew(asking, card)
            yield card
        elif before := next((c for c in known.values() if c.index == index and uuid.code in LOST), None):
            before.shut, before.events, before.profile = uuid, None, None
            yield before  # it still has a name
        else:
            yield index, uuid


def _renew(asking: Asking, card: Card) -> None:
    card.gone.clear()
    card.shut = None
    name = asking("nvmlDeviceGetName", card.handle)
    card.product = "" if isinstance(name, Refused) else name
    top = asking("nvmlDeviceGetMaxClockInfo", card.handle, CLOCK_SM)
    card.top_clock = top if isinstance(top, Refused) else top * _MEGA
    mode = asking("nvmlDeviceGetMigMode", card.handle)
    card.split = not isinstance(mode, Refused) and mode[0] == 1
    card.profiled = _profiled(asking, card)
    place = asking("nvmlDeviceGetPciInfo", card.handle)
    card.bus = (-1, -1, card.index) if isinstance(place, Refused) else bus_of(place)
    _links(asking, card)
    if card.events is None:
        card.deaf = _listen(asking, card)


def _profiled(asking: Asking, card: Card) -> Refused | None:
    support = asking("nvmlGpmQueryDeviceSupport", card.handle)
    if isinstance(support, Refused):
        return Refused(Code.NO_PROFILING, "") if support.code == Code.NOT_SUPPORTED else support
    return None if support.isSupportedDevice else Refused(Code.NO_PROFILING, "")


def bus_of(place: Any) -> tuple[int, int, int]:  # noqa: ANN401  # nvmlPciInfo_t
    """Domain, bus and device."""
    return int(place.domain), int(place.bus), int(place.device)


def _links(asking: Asking, card: Card) -> None:
    """NVLinks that are up, their speed, and what is at their other ends. Under MIG the driver shows none."""
    card.to_cards.clear()
    card.to_switches = card.links = 0
    wanted = [(int(field), 0) for field in (Field.NVLINK_LINK_COUNT, Field.NVLINK_SPEED_MBPS_COMMON)]
    count, speed = asking.fields(card.handle, wanted).values()
    up = []
    for link in range(0 if isinstance(count, Refused) else min(int(count), _MOST_LINKS)):
        state = asking("nvmlDeviceGetNvLinkState", card.handle, link)
        if not isinstance(state, Refused) and state == 1:
            up.append(link)
    card.links = len(up)
    if up and (isinstance(speed, Refused) or not speed):
        one = (int(Field.NVLINK_GET_SPEED), up[0])
        speed = asking.fields(card.handle, [one])[one]
    card.link_speed = speed if isinstance(speed, Refused) else speed * _MEGA
    for link in up:
        _other_end(asking, card, link)


def _other_end(asking: Asking, card: Card, link: int) -> None:
    kind = asking("nvmlDeviceGetNvLinkRemoteDeviceType", card.handle, link)
    if kind == REMOTE_SWITCH:
        card.to_switches += 1
    elif kind == REMOTE_GPU or isinstance(kind, Refused):
        place = asking("nvmlDeviceGetNvLinkRemotePciInfo", card.handle, link)
        if not isinstance(place, Refused):
            card.to_cards[bus_of(place)] += 1


def _listen(asking: Asking, card: Card) -> Refused | None:
    events = asking("nvmlEventSetCreate")
    if isinstance(events, Refused):
        return events
    done = asking("nvmlDeviceRegisterEvents", card.handle, XID_EVENT, events)
    if isinstance(done, Refused):
        asking("nvmlEventSetFree", events)
        return done
    card.events = events
    return None


def link_all(asking: Asking, found: Sequence[Card]) -> None:
    """The link between each pair of cards, in the words of ``nvidia-smi topo -m``.

    NVLinks straight from card to card count those; where both have links to switches, the smaller number of them.
    """
    for card in found:
        card.peers.clear()
    for one, other in combinations(found, 2):
        lanes = one.to_cards[other.bus] or min(one.to_switches, other.to_switches)
        if lanes:
            word: str | None = f"NV{lanes}"
        else:
            level = asking("nvmlDeviceGetTopologyCommonAncestor", one.handle, other.handle)
            word = None if isinstance(level, Refused) else ANCESTORS.get(level)
        if word is not None:
            one.peers[other.label] = other.peers[one.label] = word


def slices(asking: Asking, card: Card) -> list[Device]:
    """The MIG slices of a card as they are now. Compute instances that share a GPU instance share its memory and label."""
    most = asking("nvmlDeviceGetMaxMigDeviceCount", card.handle)
    seen: dict[str, Device] = {}
    for position in range(0 if isinstance(most, Refused) else most):
        handle = asking("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, position)
        uuid = handle if isinstance(handle, Refused) else asking("nvmlDeviceGetUUID", handle)
        if isinstance(uuid, Refused):
            continue  # there are fewer of them than there may be
        part = card.slices.get(uuid) or _slice(asking, card, handle, uuid)
        if part is not None:
            part.handle = handle
            seen[uuid] = part
    card.slices = seen
    return list(seen.values())


def _slice(asking: Asking, card: Card, handle: Any, uuid: str) -> Device | None:  # noqa: ANN401  # an nvmlDevice_t
    instance = asking("nvmlDeviceGetGpuInstanceId", handle)
    if isinstance(instance, Refused):
        return None
    name = asking("nvmlDeviceGetName", handle)
    # "... MIG 1c.3g.71gb" is a compute instance of a GPU instance: the label is of the latter
    profile = "" if isinstance(name, Refused) else re.sub(r"^\d+c\.", "", name.partition("MIG ")[2])
    return Device(
        handle, f"{card.uuid}/{instance}", card.index, instance, uuid=uuid, product=card.product, mig_profile=profile
    )
