"""What is remembered of one card, or one MIG slice of it, from read to read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llmvitals.series import Series, series
from llmvitals.telemetry.gpu.nvml.asking import Asking, Refused
from llmvitals.telemetry.gpu.nvml.codes import FOR_GOOD, Code
from llmvitals.telemetry.gpu.nvml.library import Handle
from llmvitals.telemetry.gpu.nvml.rows import Row


@dataclass(slots=True)
class Profile:
    """Two samples of the profiling counters, which change places: the earlier one was taken at ``at``."""

    earlier: Any
    later: Any
    at: float | None = None


@dataclass(slots=True)
class Device:
    """One card or slice. ``label`` is the value of ``gpu``. Times are seconds of the reader's own clock."""

    handle: Handle
    label: str
    index: int
    instance: int | None = None  # of a slice: the number of its GPU instance
    uuid: str = ""
    product: str = ""
    mig_profile: str = ""
    settled: dict[tuple[str, str], Row] = field(default_factory=dict)  # the way that each family was first got
    gone: dict[object, Refused] = field(default_factory=dict)  # what is not asked again before the facts are
    before: dict[Row, tuple[float, float]] = field(default_factory=dict)  # counters of which the growth is shown
    bits: tuple[float, int] | None = None  # the reasons for held clocks, and when
    held: dict[str, float] = field(default_factory=dict)  # seconds by reason, added up from those bits
    profile: Profile | None = None
    pids: tuple[int, ...] = ()  # the processes that it had last

    def series(self, family: str, **labels: str) -> Series:
        """A series of this device."""
        return series(family, **{"gpu": self.label, "index": str(self.index), **labels})

    def first(self, asking: Asking, names: tuple[str, ...], *arguments: Any) -> Any:  # noqa: ANN401  # what NVML returns
        """The answer of the first of several functions that the driver has; what it lacks is not asked again."""
        answer: Any = Refused(Code.FUNCTION_NOT_FOUND, names[0])
        for name in names:
            key = (name, arguments)
            answer = self.gone.get(key) or asking(name, self.handle, *arguments)
            if not isinstance(answer, Refused):
                return answer
            if answer.code in FOR_GOOD:
                self.gone[key] = answer
        return answer


@dataclass(slots=True)
class Card(Device):
    """A whole card and the facts of it. ``profiled``: whether the driver profiles it, else why not."""

    bus: tuple[int, int, int] = (0, 0, 0)
    top_clock: float | Refused = 0.0  # MHz
    split: bool = False  # MIG is on
    profiled: Refused | None = None
    shut: Refused | None = None  # why it cannot even be opened any more
    links: int = 0  # NVLinks that are up
    link_speed: float | Refused = 0.0  # bytes per second of one link and direction
    to_cards: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # NVLinks by the bus id of the other end
    to_switches: int = 0
    peers: dict[str, str] = field(default_factory=dict)  # label of another card: the link to it
    generation: int = 0  # of PCIe, the highest that was seen: a card lowers it while it idles
    events: Any = None  # its own event set, so that no event has to be traced back to its card
    deaf: Refused | None = None  # why XID errors are not heard
    xids: Counter[int] = field(default_factory=Counter)
    slices: dict[str, Device] = field(default_factory=dict)  # by UUID
