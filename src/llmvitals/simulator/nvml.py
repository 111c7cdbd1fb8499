# ruff: noqa: ANN401, N801, N802, N803, N815 (the names and the structures are NVML's)
"""A stand-in for ``pynvml`` over the simulated GPUs: the functions by their names, in NVML's units, at the moment of asking.

Ids, units and return codes: NVIDIA's NVML reference. What a card of its kind refuses, it refuses: profiling (GPM) before Hopper,
NVLink where there is none, throughput of PCIe before Ampere. Functions that are absent here are absent from an old driver, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmvitals.simulator import gpu
from llmvitals.simulator.gpu import Card
from llmvitals.simulator.node import Task

INVALID, UNSUPPORTED, TIMEOUT = 2, 3, 10
"""Return codes (nvmlReturn_t)."""
XID_EVENT = 8
IDLE_MEMORY_MHZ, MEMORY_MHZ = 405, 2619
MEMORY_V2 = 0x02000028

NVLINKS: Mapping[str, tuple[int, int]] = {"NVLink 3": (12, 25_000), "NVLink 4": (18, 26_562), "NVLink 5": (18, 53_125)}
"""Links of a card and MB/s of each and one way, as ``nvidia-smi nvlink -s`` shows them."""
PROFILED = ("H100", "H200", "B200", "GH200", "GB200")
"""Products (parts of their names) that sample their own counters: Hopper and newer."""

POLICIES: Mapping[int, str] = {
    0: "power",
    1: "thermal",
    2: "sync_boost",
    3: "board_limit",
    4: "low_util",
    5: "reliability",
}
"""nvmlPerfPolicyType_t, and the reason that the simulator knows it by."""
REASON_BITS: Mapping[str, int] = {"power": 0x4, "thermal": 0x20, "sync_boost": 0x10, "board_limit": 0x80}
"""Of nvmlClocksEventReasons: power cap, software thermal slowdown, sync boost, power brake."""
IDLE_BIT = 0x1


class NVMLError(Exception):
    """A refusal; ``value``: its return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return code {value}")
        self.value = value


@dataclass(slots=True)
class Struct:
    """A structure that a function gives back, with the members that it has."""

    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def _made(**values: Any) -> Struct:
    return Struct(values)


# -- numbers by field id ----------------------------------------------------------------------------------------------
def _nvlinks(card: Card) -> tuple[int, int]:
    """Its links to the peers and MB/s of each and one way; none where the GPUs exchange over something else."""
    link = card.machine.link
    return (0, 0) if link is None else NVLINKS.get(link.name, (0, 0))


def _linked(card: Card) -> bool:
    """Whether the GPUs exchange over NVLink."""
    return _nvlinks(card)[0] > 0


def _nvlink(card: Card, value: float) -> float | None:
    return value if _linked(card) else None


def _policy(reason: str) -> Callable[[Card], float]:
    return lambda card: card.violations.get(reason, 0.0) * 1e9


def _pcie(card: Card) -> float:
    """Bytes to its peers over PCIe since time 0."""
    return 0.0 if _linked(card) else card.done.link


FIELDS: Mapping[int, Callable[[Card], float | None]] = {
    4: lambda card: card.ecc,  # double-bit errors since the driver loaded
    3: lambda card: 0.0,  # single-bit ones
    **dict.fromkeys((38, 45, 52, 59), lambda card: _nvlink(card, 0.0)),  # CRC errors, replays, recoveries, all links
    74: _policy("power"),
    75: _policy(gpu.THERMAL),
    76: _policy("sync_boost"),
    77: _policy("board_limit"),
    79: _policy("reliability"),
    82: lambda card: card.celsius + 8.0,  # memory
    83: lambda card: card.joules * 1000.0,  # mJ
    90: lambda card: _nvlink(card, _nvlinks(card)[1]),
    91: lambda card: float(_nvlinks(card)[0]),
    94: lambda card: 0.0,  # PCIe replays
    138: lambda card: _nvlink(card, card.done.link / 1024.0),  # KiB sent, all links
    139: lambda card: _nvlink(card, card.done.link / 1024.0),
    142: lambda card: 0.0,
    143: lambda card: 0.0,
    144: lambda card: float(card.remap),
    145: lambda card: 0.0,
    164: lambda card: _nvlink(card, _nvlinks(card)[1]),
    185: lambda card: card.watts * 1000.0,  # mW
    186: lambda card: card.watts * 1000.0,
    190: lambda card: card.limit * 1000.0,
    197: _pcie,  # bytes sent
    198: lambda card: _pcie(card) + card.done.received / card.machine.gpus,
}
"""NVML_FI_DEV_*: what each says of a card; None: this card does not have it. Whole numbers, as the driver gives them."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a card had done when a GPM sample was taken."""

    t: float
    busy: float
    memory: float
    tensor: float
    link: float  # over NVLink
    pcie: float
    received: float


def _mib(what: str) -> Callable[[_Sample], float]:
    return lambda mean: getattr(mean, what) / 2**20


def _percent(what: str) -> Callable[[_Sample], float]:
    return lambda mean: 100.0 * getattr(mean, what)


METRICS: Mapping[int, Callable[[_Sample], float]] = {
    1: _percent("busy"),  # graphics engine
    2: _percent("busy"),  # SMs
    5: _percent("tensor"),
    10: _percent("memory"),
    20: _mib("pcie"),  # sent
    21: lambda mean: (mean.pcie + mean.received) / 2**20,
    60: _mib("link"),  # NVLink, received
    61: _mib("link"),
}
"""NVML_GPM_METRIC_*: percent or MiB/s, of the means between two samples."""


@dataclass(slots=True)
class _Metric:
    """One answer of :meth:`Nvml.nvmlGpmMetricsGet`."""

    metricId: int = 0
    nvmlReturn: int = 0
    value: float = 0.0


@dataclass(slots=True)
class _Events:
    """An event set: the cards that it listens to, and how many XIDs of each were handed out."""

    seen: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Holder:
    """An allocated GPM sample."""

    taken: _Sample | None = None


class Nvml:
    """``cards`` and ``tasks`` give what there is now; ``clock`` the moment, in seconds."""

    NVMLError = NVMLError

    def __init__(
        self,
        cards: Callable[[], Sequence[Card]],
        tasks: Callable[[], Sequence[Task]],
        clock: Callable[[], float],
    ) -> None:
        self._look, self._tasks, self._clock = cards, tasks, clock
        self._cards: Sequence[Card] = ()
        self._t: float | None = None

    def _card(self, index: int) -> Card:
        """The card as it is now; all calls of one moment see one state."""
        now = self._clock()
        if self._t != now:
            self._cards, self._t = self._look(), now
        if not 0 <= index < len(self._cards):
            raise NVMLError(INVALID)
        return self._cards[index]

    # -- the driver ---------------------------------------------------------------------------------------------------
    def nvmlInit(self) -> None:
        """Always works."""

    def nvmlShutdown(self) -> None:
        """Always works."""

    def nvmlSystemGetDriverVersion(self) -> str:
        """As ``nvidia-smi`` shows it."""
        return gpu.DRIVER

    def nvmlDeviceGetCount(self) -> int:
        """GPUs of the machine."""
        return self._card(0).machine.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        """A handle is the GPU's number."""
        return self._card(index).index

    # -- facts --------------------------------------------------------------------------------------------------------
    def nvmlDeviceGetUUID(self, handle: int) -> str:
        """The GPU's name for good."""
        return gpu.uuid(handle)

    def nvmlDeviceGetName(self, handle: int) -> str:
        """The product."""
        return self._card(handle).machine.name

    def nvmlDeviceGetPciInfo(self, handle: int) -> Struct:
        """Where on the bus it is."""
        return _made(domain=0, bus=gpu.bus(handle), device=0, busId=f"00000000:{gpu.bus(handle):02X}:00.0")

    def nvmlDeviceGetMaxClockInfo(self, handle: int, type: int) -> int:
        """MHz; ``type`` 1 is the SMs', 2 the memory's."""
        return {1: self._card(handle).machine.sm_clock_mhz, 2: MEMORY_MHZ}.get(type, 0)

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        """Off, now and after the next reset."""
        return [0, 0]

    def nvmlDeviceGetTopologyCommonAncestor(self, device1: int, device2: int) -> int:
        """How far two cards are from each other on the bus."""
        link = self._card(device1).machine.link
        if device1 == device2 or link is None:
            raise NVMLError(INVALID)
        return link.apart

    def nvmlDeviceGetNvLinkState(self, device: int, link: int) -> int:
        """1: the link is up. Cards beyond the last have none."""
        card = self._card(device)
        if not _linked(card):
            raise NVMLError(UNSUPPORTED)
        if link >= _nvlinks(card)[0]:
            raise NVMLError(INVALID)
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        """2: a switch, as on a board of eight."""
        self.nvmlDeviceGetNvLinkState(handle, link)
        return 2

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: int, link: int) -> Struct:
        """Where the switch is."""
        self.nvmlDeviceGetNvLinkState(device, link)
        return _made(domain=0, bus=0xC0 + link % 4, device=0, busId=f"00000000:{0xC0 + link % 4:02X}:00.0")

    # -- numbers ------------------------------------------------------------------------------------------------------
    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Struct:
        """Bytes. Version 2 tells what the driver reserves apart."""
        card = self._card(handle)
        total, reserved = round(card.machine.memory_bytes), round(gpu.RESERVED_BYTES)
        used = round(card.used)
        if version == MEMORY_V2:
            return _made(total=total, reserved=reserved, free=total - used - reserved, used=used)
        return _made(total=total, free=total - used - reserved, used=used + reserved)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Struct:
        """Percent of the last interval."""
        now = self._card(handle).now
        return _made(gpu=round(100 * now.busy), memory=round(100 * now.memory))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        """Milliwatts."""
        return round(self._card(handle).watts * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        """Milliwatts."""
        return round(self._card(handle).limit * 1000)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        """Millijoules since the driver loaded."""
        return round(self._card(handle).joules * 1000)

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        """Degrees Celsius of the core."""
        return round(self._card(handle).celsius)

    def nvmlDeviceGetClockInfo(self, handle: int, type: int) -> int:
        """MHz; ``type`` 1 is the SMs', 2 the memory's."""
        card = self._card(handle)
        return {1: card.sm_clock, 2: MEMORY_MHZ if card.now.busy > 0 else IDLE_MEMORY_MHZ}.get(type, 0)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        """Of its slot."""
        return self._card(handle).slot.generation

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        """Lanes of its slot."""
        return self._card(handle).slot.lanes

    def nvmlDeviceGetFieldValues(self, handle: int, fieldIds: Iterable[int | tuple[int, int]]) -> list[Struct]:
        """Each with its own return code; whole numbers in ``ullVal``."""
        card = self._card(handle)
        found = []
        for wanted in fieldIds:
            number = wanted if isinstance(wanted, int) else wanted[0]
            read = FIELDS.get(number)
            value = None if read is None else read(card)
            code = UNSUPPORTED if value is None else 0
            union = _made(ullVal=round(value or 0.0), uiVal=round(value or 0.0))
            found.append(_made(fieldId=number, nvmlReturn=code, valueType=3, value=union))
        return found

    def nvmlDeviceGetTotalEccErrors(self, handle: int, errorType: int, counterType: int) -> int:
        """``errorType`` 0 was corrected, 1 was not; ``counterType`` 0 since the driver loaded."""
        return self._card(handle).ecc if errorType == 1 else 0

    def nvmlDeviceGetRemappedRows(self, device: int) -> tuple[int, int, int, int]:
        """Remapped after corrected and uncorrected errors, whether one waits for a reset, whether one failed."""
        return (0, 0, int(self._card(device).remap), 0)

    def nvmlDeviceGetViolationStatus(self, device: int, perfPolicyType: int) -> Struct:
        """Nanoseconds since the driver loaded in which a policy held clocks down."""
        reason = POLICIES.get(perfPolicyType)
        if reason is None:
            raise NVMLError(INVALID)
        held = self._card(device).violations.get(reason, 0.0)
        return _made(referenceTime=round(self._clock() * 1e6), violationTime=round(held * 1e9))

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        """Bits of what holds clocks down at this moment."""
        card = self._card(handle)
        if card.now.factor < 1.0:
            return REASON_BITS[gpu.THERMAL if card.celsius >= gpu.SLOWDOWN_CELSIUS else "power"]
        return 0 if card.now.busy > 0 else IDLE_BIT

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int) -> list[Struct]:
        """Processes with a context on the card, by their ids on the host."""
        self._card(handle)
        held = [(task.pid, (task.gpus or {}).get(handle, 0.0)) for task in self._tasks()]
        return [_made(pid=pid, usedGpuMemory=round(size)) for pid, size in held if size > 0.0]

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: int) -> list[Struct]:
        """None: these cards draw nothing."""
        self._card(handle)
        return []

    # -- profiling ----------------------------------------------------------------------------------------------------
    def nvmlGpmQueryDeviceSupport(self, device: int) -> Struct:
        """Hopper and newer."""
        name = self._card(device).machine.name
        return _made(isSupportedDevice=int(any(product in name for product in PROFILED)))

    def nvmlGpmSampleAlloc(self) -> _Holder:
        """An empty sample."""
        return _Holder()

    def nvmlGpmSampleFree(self, gpmSample: _Holder) -> None:
        """It is used no more."""
        gpmSample.taken = None

    def nvmlGpmSampleGet(self, device: int, gpmSample: _Holder) -> _Holder:
        """What the card has counted by now."""
        if not self.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
            raise NVMLError(UNSUPPORTED)
        card = self._card(device)
        done, pcie = card.done, _pcie(card)
        received = done.received / card.machine.gpus
        gpmSample.taken = _Sample(self._clock(), done.busy, done.memory, done.tensor, done.link - pcie, pcie, received)
        return gpmSample

    class c_nvmlGpmMetricsGet_t:
        """What is asked between two samples; it comes back with the values."""

        def __init__(self) -> None:
            self.version = self.numMetrics = 0
            self.sample1: _Holder | None = None
            self.sample2: _Holder | None = None
            self.metrics = [_Metric() for _ in range(100)]

    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        """Means between two samples: percent, and MiB a second for traffic."""
        first, last = metricsGet.sample1.taken, metricsGet.sample2.taken
        if first is None or last is None or last.t <= first.t:
            raise NVMLError(INVALID)
        names = ("busy", "memory", "tensor", "link", "pcie", "received")
        span = last.t - first.t
        mean = _Sample(span, *((getattr(last, name) - getattr(first, name)) / span for name in names))
        for metric in metricsGet.metrics[: metricsGet.numMetrics]:
            read = METRICS.get(metric.metricId)
            metric.nvmlReturn, metric.value = (UNSUPPORTED, 0.0) if read is None else (0, read(mean))
        return metricsGet

    # -- events -------------------------------------------------------------------------------------------------------
    def nvmlEventSetCreate(self) -> _Events:
        """A set that listens to no card yet."""
        return _Events()

    def nvmlDeviceRegisterEvents(self, handle: int, eventTypes: int, eventSet: _Events) -> None:
        """Events from now on; what came before is not told."""
        if not eventTypes & XID_EVENT:
            raise NVMLError(UNSUPPORTED)
        eventSet.seen[handle] = len(self._card(handle).xid)

    def nvmlEventSetWait(self, eventSet: _Events, timeoutms: int) -> Struct:
        """The next event that was not handed out yet; simulated time does not pass while one waits."""
        for handle, seen in eventSet.seen.items():
            codes = self._card(handle).xid
            if seen < len(codes):
                eventSet.seen[handle] = seen + 1
                return _made(eventType=XID_EVENT, eventData=codes[seen][1], device=handle)
        raise NVMLError(TIMEOUT)

    def nvmlEventSetFree(self, eventSet: _Events) -> None:
        """It listens no more."""
        eventSet.seen.clear()
