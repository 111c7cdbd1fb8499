"""A reader over the double, on a clock of the test's own, and its samples by family."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmvitals.series import Snapshot
from llmvitals.telemetry.gpu.nvml import Reader
from support.nvml.double import Double, uuid

START = 1_700_000_000.0


@dataclass
class Watched:
    """``after(seconds)`` lets time pass for driver and reader alike, and reads."""

    double: Double
    now: float = 0.0
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(clock=lambda: self.now)

    def after(self, seconds: float) -> Seen:
        self.now += seconds
        self.double.pass_time(seconds)
        return Seen(self.reader.read(START + self.now))


@dataclass(frozen=True)
class Seen:
    """One snapshot, asked by family."""

    snapshot: Snapshot

    def values(self, family: str, gpu: str | int = 0, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Labels beside ``gpu`` and ``index``, to the value."""
        label = uuid(gpu) if isinstance(gpu, int) else gpu
        found = {}
        for key, value in self.snapshot.samples.items():
            if key.name == family and key.label("gpu") == label and all(key.label(k) == v for k, v in labels.items()):
                found[tuple(pair for pair in key.labels if pair[0] not in {"gpu", "index"})] = value
        return found

    def value(self, family: str, gpu: str | int = 0, **labels: str) -> float:
        """The one value there is."""
        (value,) = self.values(family, gpu, **labels).values()
        return value

    def has(self, family: str, gpu: str | int = 0) -> bool:
        return bool(self.values(family, gpu))

    def gap(self, family: str, gpu: str | int | None = 0) -> tuple[str, str]:
        """Kind and reason of the family's gap; two empty texts where there is none."""
        label = uuid(gpu) if isinstance(gpu, int) else gpu or ""
        for key in self.snapshot.samples:
            if key.name == "llm_family_gap" and key.label("family") == family and key.label("gpu") == label:
                return key.label("gap"), key.label("reason")
        return "", ""

    def gaps(self, gpu: int = 0) -> set[str]:
        """Families of which it is told that this card cannot say them."""
        return {
            k.label("family")
            for k in self.snapshot.samples
            if k.name == "llm_family_gap" and k.label("gpu") == uuid(gpu)
        }
