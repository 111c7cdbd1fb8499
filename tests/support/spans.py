"""A receiver of traces: where one listens, and stand-ins for its parts: a ledger that only remembers, a decoder that waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from prometheus_client import Metric

from llmvitals.exporters.lifecycle import Exporter
from llmvitals.settings import Spans
from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.spans.model import Batch, Place, Request, Shown
from support.hostile import vllm_page

SECRET = "my dog is called Rex"
"""What a sender wrote into a prompt, and nobody else may ever say."""


class Remembers:
    """A ledger that keeps what it was given."""

    def __init__(self) -> None:
        self.taken: list[tuple[Batch, str]] = []
        self.settled = 0
        self.callers: list[Request] = []
        self.places: Sequence[Place] = ()
        self.answer: dict[str, Shown] = {}
        self.error: Exception | None = None

    @property
    def spans(self) -> int:
        """Spans in all."""
        return sum(batch.spans for batch, _ in self.taken)

    def take(self, batch: Batch, peer: str) -> None:
        """Remember one export."""
        if self.error is not None:
            raise self.error
        self.taken.append((batch, peer))

    def settle(self) -> None:
        """Count the calls."""
        self.settled += 1

    def probed(self, requests: Sequence[Request]) -> None:
        """Remember our own probes."""
        self.callers += requests

    def shown(self, places: Sequence[Place]) -> dict[str, Shown]:
        """Whatever the test wants."""
        if self.error is not None:
            raise self.error
        self.places = places
        return self.answer


class Gate:
    """A decoder that waits until it is opened; each body holds as many spans as it has bytes."""

    def __init__(self, *, is_open: bool = False, refused: Mapping[str, int] | None = None) -> None:
        self.open = threading.Event()
        self.asked = threading.Event()
        self.bodies: list[bytes] = []
        self.refused = refused or {}
        if is_open:
            self.open.set()

    def __call__(self, body: bytes, config: Spans) -> Batch:
        """Decode."""
        self.asked.set()
        assert self.open.wait(10)
        self.bodies.append(body)
        return Batch(other=len(body), spans=len(body), refused=self.refused)


def inside(url: str, *, timeout_s: float, **_: object) -> RawPage:
    """An engine's page without a server: how an exporter fetches it."""
    return RawPage(time.time(), 0.01, 200, vllm_page())


def at(one: Exporter, protocol: str) -> str:
    """Where an exporter's receiver listens."""
    assert one.receiver is not None
    return one.receiver.address(protocol)


def values(families: Sequence[Metric], name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name that are not 0, by their label values in the order of the labels' names."""
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and sample.value
    }
