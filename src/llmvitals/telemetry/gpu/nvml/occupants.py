"""Which processes hold memory of a card or slice, and which XID errors it had."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import LOST, XID_EVENT, Code
from llmvitals.telemetry.gpu.nvml.device import Card, Device

_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
UNSEEN_BYTES = 2.0**30
"""A card with more than this in use and no process on it hides its processes: a driver alone takes less."""
_MOST_EVENTS = 64
"""Drained in one read of one card: a card that fails without end must not hold the others up."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """``held``: bytes by pid, None where the driver does not tell them. ``refused``: why there is no list at all."""

    held: dict[int, float | None]
    refused: Refused | None = None


def occupants(asking: Asking, device: Device) -> Occupants:
    """Processes with a compute or a graphics context; one that has both is in both lists, with the same memory."""
    held: dict[int, float | None] = {}
    refusals: list[Refused] = []
    for names in _LISTS:
        found = device.first(asking, names)
        if isinstance(found, Refused):
            refusals.append(found)
            continue
        for process in found:
            used = None if process.usedGpuMemory is None else float(process.usedGpuMemory)
            known = held.get(process.pid)
            held[process.pid] = used if known is None else known if used is None else max(known, used)
    return Occupants(held, refusals[0] if len(refusals) == len(_LISTS) else None)


def drain(asking: Asking, card: Card) -> None:
    """Count the XID errors that came since the read before, each one, whether or not its code was seen already."""
    if card.events is None:
        return
    for _ in range(_MOST_EVENTS):
        event = asking("nvmlEventSetWait", card.events, 0)
        if isinstance(event, Refused):
            card.deaf = None if event.code == Code.TIMEOUT or event.code in LOST else event
            return
        if event.eventType == XID_EVENT:
            card.xids[int(event.eventData)] += 1
