# ruff: noqa: N802, N803, N815, ANN401 (the names and the opaque handles are NVML's)
"""What is asked of NVML: the functions of ``pynvml`` (nvidia-ml-py) that the reader calls, with their names and units.

Anything with these names can stand in for the module: :class:`Reader(library=...) <.reader.Reader>` takes it. The rules:

* A function that is absent (``getattr`` finds none) counts as one that the driver lacks; so a stand-in may leave any out.
* A refusal is an exception of the class in ``NVMLError`` with the return code of ``nvmlReturn_t`` in ``.value``:
  1 uninitialised, 2 invalid argument, 3 not supported, 4 no permission, 6 not found, 7 too small, 9 no driver, 10 timeout
  (:func:`nvmlEventSetWait` when there is no event: how a queue is drained), 12 no library, 13 no such function, 15 GPU
  lost, 16 reset required, 18 driver and library differ, 999 unknown.
* Handles, samples and event sets are opaque: what one function returned is handed to the next.
* Numbers are NVML's: bytes, mW, mJ, MHz, percent, KiB, ns.

Ids are numbers here, of the lists in :mod:`.codes`; constants are not read from the module, whose numbers above 250 moved
between driver branches. No function is called twice with the same arguments in one read.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

Handle = Any


class Memory(Protocol):
    """Bytes. Of version 2 ``used`` leaves ``reserved`` out; version 1 has no ``reserved`` and counts it as used."""

    total: int
    free: int
    used: int


class Utilization(Protocol):
    """Percent of the time with a kernel (``gpu``) and with memory traffic (``memory``)."""

    gpu: int
    memory: int


class FieldValue(Protocol):
    """One answer of :func:`nvmlDeviceGetFieldValues`; ``value`` is a union read by ``valueType`` (0 dVal, 1 uiVal, 2 ulVal,
    3 ullVal, 4 sllVal, 5 siVal, 6 usVal), ``nvmlReturn`` this field's own return code."""

    fieldId: int
    nvmlReturn: int
    valueType: int
    value: Any


class ProcessInfo(Protocol):
    """``usedGpuMemory`` in bytes, None where the driver does not tell it."""

    pid: int
    usedGpuMemory: int | None


class EventData(Protocol):
    """``eventType`` 8 is an XID error, whose code is ``eventData``."""

    eventType: int
    eventData: int


class PciInfo(Protocol):
    """Where on the bus a device is."""

    domain: int
    bus: int
    device: int


class Library(Protocol):
    """The functions, as ``pynvml`` names them. ``index`` counts from 0; ``handle`` is a GPU or a MIG slice."""

    NVMLError: type[Exception]

    # -- the driver --
    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle: ...

    # -- facts of a card, asked when it is first seen and every FACTS_SECONDS after --
    def nvmlDeviceGetUUID(self, handle: Handle) -> str: ...
    def nvmlDeviceGetName(self, handle: Handle) -> str: ...
    def nvmlDeviceGetPciInfo(self, handle: Handle) -> PciInfo: ...
    def nvmlDeviceGetMaxClockInfo(self, handle: Handle, type: int) -> int: ...  # 1: SM; MHz
    def nvmlDeviceGetMigMode(self, handle: Handle) -> Sequence[int]: ...  # [current, pending], 1 is on
    def nvmlDeviceGetTopologyCommonAncestor(self, device1: Handle, device2: Handle) -> int: ...  # 0 10 20 30 40 50
    def nvmlDeviceGetNvLinkState(self, device: Handle, link: int) -> int: ...  # 1 is up
    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Handle, link: int) -> int: ...  # 0 GPU, 1 NPU, 2 switch
    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Handle, link: int) -> PciInfo: ...
    def nvmlGpmQueryDeviceSupport(self, device: Handle) -> Any: ...  # .isSupportedDevice

    # -- numbers, asked once per read --
    def nvmlDeviceGetMemoryInfo(
        self, handle: Handle, version: int | None = None
    ) -> Memory: ...  # 0x02000028: version 2
    def nvmlDeviceGetUtilizationRates(self, handle: Handle) -> Utilization: ...
    def nvmlDeviceGetPowerUsage(self, handle: Handle) -> int: ...  # mW
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Handle) -> int: ...  # mW
    def nvmlDeviceGetTemperatureV(self, handle: Handle, sensor: int) -> int: ...  # 0: the core; degrees C
    def nvmlDeviceGetTemperature(self, handle: Handle, sensor: int) -> int: ...  # the same, for drivers before R570
    def nvmlDeviceGetClockInfo(self, handle: Handle, type: int) -> int: ...  # 1: SM, 2: memory; MHz
    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Handle) -> int: ...
    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Handle) -> int: ...
    def nvmlDeviceGetFieldValues(self, handle: Handle, fieldIds: Sequence[int | tuple[int, int]]) -> Any: ...
    def nvmlDeviceGetTotalEccErrors(self, handle: Handle, errorType: int, counterType: int) -> int: ...
    def nvmlDeviceGetViolationStatus(self, device: Handle, perfPolicyType: int) -> Any: ...  # .violationTime, ns
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Handle) -> int: ...  # bits
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Handle) -> int: ...  # the same, for drivers before R535
    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Handle) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: Handle) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Handle) -> Sequence[ProcessInfo]: ...
    def nvmlDeviceGetGraphicsRunningProcesses_v2(self, handle: Handle) -> Sequence[ProcessInfo]: ...

    # -- profiling of Hopper and newer: two samples, then the metrics between them --
    def nvmlGpmSampleAlloc(self) -> Any: ...
    def nvmlGpmSampleFree(self, gpmSample: Any) -> None: ...
    def nvmlGpmSampleGet(self, device: Handle, gpmSample: Any) -> Any: ...
    def nvmlGpmMigSampleGet(self, device: Handle, gpuInstanceId: int, gpmSample: Any) -> Any: ...

    # .version = 1, .numMetrics, .sample1 (earlier), .sample2, .metrics[i].metricId; it comes back with .metrics[i].nvmlReturn
    # and .metrics[i].value
    c_nvmlGpmMetricsGet_t: Any

    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any: ...

    # -- XID errors: one event set per card, drained on every read --
    def nvmlEventSetCreate(self) -> Any: ...
    def nvmlDeviceRegisterEvents(self, handle: Handle, eventTypes: int, eventSet: Any) -> None: ...
    def nvmlEventSetWait(self, eventSet: Any, timeoutms: int) -> EventData: ...
    def nvmlEventSetFree(self, eventSet: Any) -> None: ...

    # -- MIG slices of a card, listed anew on every read --
    def nvmlDeviceGetMaxMigDeviceCount(self, device: Handle) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Handle, index: int) -> Handle: ...
    def nvmlDeviceGetGpuInstanceId(self, device: Handle) -> int: ...


def load() -> Library:
    """The real module. Importing it loads no driver: ``nvmlInit`` does."""
    return cast(Library, import_module("pynvml"))
