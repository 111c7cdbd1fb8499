"""The samples of one read: numbers, facts, and a gap for whatever a card could not say."""

from __future__ import annotations

from llmvitals.gaps import GapKind, family_gap
from llmvitals.series import Series
from llmvitals.telemetry.gpu.links import pcie_bytes_per_second
from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import Code
from llmvitals.telemetry.gpu.nvml.device import Card, Device
from llmvitals.telemetry.gpu.nvml.facts import slices
from llmvitals.telemetry.gpu.nvml.measure import Found, Lost, measure
from llmvitals.telemetry.gpu.nvml.occupants import UNSEEN_BYTES, drain, occupants
from llmvitals.telemetry.gpu.nvml.rows import FAMILIES, ROWS, SLICED

ALL = "llm_gpu_*"
"""The family of a gap that holds for everything of a card."""
XIDS = "llm_gpu_xid_events_total"
PROCESSES = "llm_gpu_process_memory_bytes"
_USED = ("llm_gpu_memory_used_bytes", "")
_UNTOLD = "the driver does not tell the memory of a process here (a virtual GPU, or WSL)"
_UNSEEN = (
    "memory is in use but the driver shows no process: run in the host's PID namespace (hostPID: true, --pid=host)"
)


class Page:
    """The samples of one read."""

    def __init__(self, driver: str) -> None:
        self.samples: dict[Series, float] = {}
        self._driver = driver

    def hidden(self, index: int, refused: Refused) -> None:
        """A card that the driver counts and that cannot be opened: nobody knows its UUID."""
        reason = f"GPU {index} cannot be opened: {refused.reason}"
        if refused.code == Code.NO_PERMISSION:
            reason = f"GPU {index} is hidden: give the process /dev/nvidia{index} (NVIDIA_VISIBLE_DEVICES=all)"
        self._gap(ALL, refused.kind, reason, index=str(index))

    def card(self, asking: Asking, card: Card, now: float) -> None:
        """All of one card and of its slices."""
        drain(asking, card)  # first: what felled a card is told even when the card says nothing more
        self._events(card)
        try:
            if card.shut is not None:
                raise Lost(card.shut)
            found = measure(asking, card, card, ROWS, now)
            self._numbers(card, found)
            self._facts(card)
            self._limits(asking, card)
            if card.split:
                self._slices(asking, card, now)
            else:
                self._occupants(asking, card, found)
        except Lost as lost:
            self._lost(card, lost.refused)

    def _slices(self, asking: Asking, card: Card, now: float) -> None:
        shown: dict[str, Found] = {}
        for part in slices(asking, card):
            if part.label not in shown:  # compute instances of one GPU instance share its numbers
                shown[part.label] = measure(asking, part, card, SLICED, now)
                self._numbers(part, shown[part.label])
            self._info(part)
            self._occupants(asking, part, shown[part.label])
        if not shown:
            self._gap(ALL, GapKind.UNSUPPORTED, "MIG is on, and the card has no slice", gpu=card.label)

    def _numbers(self, device: Device, found: Found) -> None:
        given = {family for (family, _), (_, value) in found.items() if not isinstance(value, Refused)}
        for (family, _), (row, value) in found.items():
            if not isinstance(value, Refused):
                labels = {name: text for name, text in (("reason", row.reason), ("link", row.link)) if text}
                self.samples[device.series(family, **labels)] = value
            elif family not in given:
                self._refused(device, family, value)
        if isinstance(device, Card) and not device.links:
            self._refused(device, "llm_gpu_nvlink_bytes_per_second", Refused(Code.NO_LINKS, ""))

    def _facts(self, card: Card) -> None:
        self._info(card)
        if isinstance(card.top_clock, Refused):
            self._refused(card, "llm_gpu_sm_clock_max_hertz", card.top_clock)
        else:
            self.samples[card.series("llm_gpu_sm_clock_max_hertz")] = card.top_clock
        for peer, link in card.peers.items():
            self.samples[card.series("llm_gpu_peer_link", peer=peer, link=link)] = 1.0

    def _info(self, device: Device) -> None:
        """What it is; of a slice also its own UUID, by which the kubelet calls it."""
        own = device.uuid if device.instance is not None else ""
        known = (("product", device.product), ("mig_profile", device.mig_profile), ("driver", self._driver))
        labels = (*known, ("uuid", own))
        self.samples[device.series("llm_gpu_info", **{name: text for name, text in labels if text})] = 1.0

    def _limits(self, asking: Asking, card: Card) -> None:
        """What the links carry, both ways: NVLinks that are up, and PCIe as wide as it is and as fast as it was seen."""
        family = "llm_gpu_link_limit_bytes_per_second"
        generation = card.first(asking, ("nvmlDeviceGetCurrPcieLinkGeneration",))
        width = card.first(asking, ("nvmlDeviceGetCurrPcieLinkWidth",))
        refused = next((answer for answer in (generation, width) if isinstance(answer, Refused)), None)
        if refused is None:
            card.generation = max(card.generation, generation)
        limit = None if refused else pcie_bytes_per_second(float(card.generation), float(width))
        if limit:
            self.samples[card.series(family, link="pcie")] = limit
        if card.links and not isinstance(card.link_speed, Refused) and card.link_speed > 0.0:
            self.samples[card.series(family, link="nvlink")] = 2.0 * card.links * card.link_speed
        elif not limit:
            self._refused(card, family, refused or Refused(Code.UNUSABLE, "PCIe generation"))

    def _events(self, card: Card) -> None:
        if card.deaf is not None:
            self._refused(card, XIDS, card.deaf)
        elif card.events is not None:
            self.samples[card.series(XIDS)] = 0.0
        for code, count in card.xids.items():
            self.samples[card.series(XIDS, xid=str(code))] = float(count)

    def _occupants(self, asking: Asking, device: Device, found: Found) -> None:
        held = occupants(asking, device)
        if held.refused is None:
            device.pids = tuple(held.held)
        if held.refused is not None:
            self._refused(device, PROCESSES, held.refused)
        for pid, used in held.held.items():
            if used is None:  # the pid stands on the gap: who it is can be told without its memory
                self._gap(PROCESSES, GapKind.UNSUPPORTED, _UNTOLD, gpu=device.label, pid=str(pid))
            else:
                self.samples[device.series(PROCESSES, pid=str(pid))] = used
        taken = found[_USED][1] if _USED in found else 0.0
        if not held.held and held.refused is None and not isinstance(taken, Refused) and taken > UNSEEN_BYTES:
            self._gap(PROCESSES, GapKind.UNSUPPORTED, _UNSEEN, gpu=device.label)

    def _lost(self, card: Card, refused: Refused) -> None:
        """All of the card is a gap, but for what was counted of it."""
        for key in [
            key for key in self.samples if key.label("gpu").partition("/")[0] == card.label and not key.label("xid")
        ]:
            del self.samples[key]  # what it said before it fell is no reading of this moment
        self._info(card)
        for family in (ALL, *FAMILIES):
            self._refused(card, family, refused)
        for device in (card, *card.slices.values()):  # whose it was when it fell, so that they are told of its end
            for pid in device.pids:
                self._gap(PROCESSES, refused.kind, refused.reason, gpu=device.label, pid=str(pid))

    def _refused(self, device: Device, family: str, refused: Refused) -> None:
        self._gap(family, refused.kind, refused.reason, gpu=device.label)

    def _gap(self, family: str, kind: GapKind, reason: str, **labels: str) -> None:
        self.samples[family_gap(family, kind, reason, **labels)] = 1.0
