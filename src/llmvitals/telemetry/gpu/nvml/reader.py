"""GPUs of this machine as the driver's library shows them: one read, one snapshot of ``llm_gpu_*``."""

from __future__ import annotations

import time
from collections.abc import Callable

from llmvitals.errors import LlmvitalsError
from llmvitals.series import Snapshot
from llmvitals.telemetry.gpu.nvml.asking import Asking, Over, Refused
from llmvitals.telemetry.gpu.nvml.codes import DRIVER
from llmvitals.telemetry.gpu.nvml.device import Card
from llmvitals.telemetry.gpu.nvml.facts import FACTS_SECONDS, cards, link_all
from llmvitals.telemetry.gpu.nvml.library import Library, load
from llmvitals.telemetry.gpu.nvml.page import Page


class Reader:
    """Reads the cards of one driver; it keeps what rates, estimates and counts of events need from read to read.

    ``library`` stands in for ``pynvml``; ``clock`` gives seconds that never go back. Nothing is locked here: a driver call
    may hang for ever, so run :meth:`read` in a thread of its own, one at a time (:class:`~llmvitals.telemetry.flight.Flight`);
    ctypes gives up the interpreter's lock while the driver works.
    """

    def __init__(self, library: Library | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._library = library
        self._clock = clock
        self._asking: Asking | None = None
        self._cards: dict[str, Card] = {}
        self._closed: list[tuple[int, Refused]] = []
        self._renewed: float | None = None
        self._driver = ""

    @property
    def slices(self) -> dict[str, str]:
        """UUIDs of the MIG slices of the last read (``MIG-..``, as the kubelet names them) to the label ``gpu``."""
        return {uuid: part.label for card in self._cards.values() for uuid, part in card.slices.items()}

    def read(self, t: float) -> Snapshot:
        """Everything the driver says at ``t`` (unix seconds); what a card cannot say is an ``llm_family_gap``.

        The labels are ``gpu`` (UUID, or ``UUID/<GPU instance>`` for a MIG slice) and ``index``. Raises
        :class:`LlmvitalsError` where there is no driver or no card; the next read then starts anew.
        """
        try:
            asking = self._asking = self._asking or self._open()
            now = self._clock()
            if self._due(now):
                self._renew(asking, now)
            page = Page(self._driver)
            for index, refused in self._closed:
                page.hidden(index, refused)
            for card in self._cards.values():
                page.card(asking, card, now)
        except Over as over:
            self._forget()
            raise _error(over.code) from over
        if not self._cards and not self._closed:
            self._renewed = None
            raise LlmvitalsError(
                "the NVIDIA driver shows no GPU",
                place="NVML",
                remedy="In a container let it see the GPUs (NVIDIA_VISIBLE_DEVICES=all), or turn GPU reading off",
            )
        return Snapshot(t, page.samples)

    def _due(self, now: float) -> bool:
        fresh = self._renewed is not None and 0.0 <= now - self._renewed < FACTS_SECONDS
        return not fresh or any(card.shut for card in self._cards.values())

    def close(self) -> None:
        """Give the driver back. Not while a read is under way or hangs."""
        if self._asking is not None:
            for card in self._cards.values():
                for device in (card, *card.slices.values()):
                    for sample in (device.profile.earlier, device.profile.later) if device.profile else ():
                        self._quietly("nvmlGpmSampleFree", sample)
                if card.events is not None:
                    self._quietly("nvmlEventSetFree", card.events)
        self._forget()

    def _quietly(self, name: str, *arguments: object) -> None:
        try:
            if self._asking is not None:
                self._asking(name, *arguments)
        except Over:
            pass  # what is gone needs no giving back

    def _open(self) -> Asking:
        try:
            library = self._library or load()
        except ImportError as error:
            raise LlmvitalsError(
                "nvidia-ml-py is not installed", place="NVML", remedy="pip install nvidia-ml-py"
            ) from error
        asking = Asking(library)
        done = asking("nvmlInit")
        if isinstance(done, Refused):
            raise _error(done.code)
        driver = asking("nvmlSystemGetDriverVersion")
        self._driver = "" if isinstance(driver, Refused) else driver
        return asking

    def _renew(self, asking: Asking, now: float) -> None:
        found = list(cards(asking, self._cards))
        self._cards = {card.uuid: card for card in found if isinstance(card, Card)}
        self._closed = [closed for closed in found if not isinstance(closed, Card)]
        link_all(asking, list(self._cards.values()))
        self._renewed = now

    def _forget(self) -> None:
        """Nothing of the session may be used again: handles, samples and event sets belong to it. Counts stay."""
        self._quietly("nvmlShutdown")
        self._asking = None
        self._renewed = None
        self._cards = {
            uuid: Card(None, uuid, card.index, uuid=uuid, xids=card.xids, held=card.held)
            for uuid, card in self._cards.items()
        }


def _error(code: int) -> LlmvitalsError:
    thing, remedy = DRIVER.get(
        code, (f"the NVIDIA driver answers with code {code}", "Look at nvidia-smi and the kernel log")
    )
    return LlmvitalsError(thing, place="NVML", remedy=remedy)
