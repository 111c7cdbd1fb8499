"""A dcgm-exporter page for the one GPU under the engine: its activity follows from the roofline of the steps."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.counters import Counters

UUID = "GPU-51510000-0000-4000-8000-000000000000"
RESERVED_BYTES = 0.5e9  # driver and context
IDLE_CELSIUS, MAX_CELSIUS = 34.0, 83.0
SM_CLOCK_MHZ, IDLE_CLOCK_MHZ = 1980, 345


@dataclass(frozen=True, slots=True)
class Activity:
    """Shares (0-1) of an interval: kernels running, device memory moving data, tensor pipes working."""

    busy: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """The engine's cumulative seconds at one moment."""

    t: float
    busy: float = 0.0
    memory: float = 0.0
    compute: float = 0.0

    @classmethod
    def of(cls, t: float, counters: Counters) -> Totals:
        """Read them off the counters."""
        return cls(t, counters.busy_seconds, counters.memory_seconds, counters.compute_seconds)


def activity(before: Totals, after: Totals) -> Activity:
    """Mean activity between two moments; a step that began earlier counts where it ends, hence the cap at 1."""
    span = after.t - before.t
    if span <= 0:
        return Activity()
    return Activity(
        min(1.0, (after.busy - before.busy) / span),
        min(1.0, (after.memory - before.memory) / span),
        min(1.0, (after.compute - before.compute) / span),
    )


def page(config: EngineConfig, now: Activity, energy_joules: float) -> bytes:
    """The page in dcgm-exporter's own units: MiB, watts, mJ, MHz, percent for utilisation and ratios for profiling."""
    machine = config.machine
    mib = 1024**2
    used = min(machine.memory_bytes * config.gpu_memory_utilization, machine.memory_bytes - RESERVED_BYTES)
    pressure = max(now.memory, now.tensor)
    rows = (
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock (in MHz).", SM_CLOCK_MHZ if now.busy > 0 else IDLE_CLOCK_MHZ),
        (
            "DCGM_FI_DEV_GPU_TEMP",
            "gauge",
            "Temperature (in C).",
            IDLE_CELSIUS + (MAX_CELSIUS - IDLE_CELSIUS) * pressure,
        ),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", watts(config, now)),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot (in mJ).", energy_joules * 1000),
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", "Utilisation (in %).", round(100 * now.busy)),
        ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Last XID error.", 0),
        (
            "DCGM_FI_DEV_FB_FREE",
            "gauge",
            "Framebuffer free (in MiB).",
            (machine.memory_bytes - used - RESERVED_BYTES) // mib,
        ),
        ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer used (in MiB).", used // mib),
        ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer reserved (in MiB).", RESERVED_BYTES // mib),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Share of time the engine is active.", now.busy),
        ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Share of cycles an SM has a warp.", now.busy),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Share of cycles the tensor pipe is active.", now.tensor),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Share of cycles memory moves data.", now.memory),
    )
    labels = f'gpu="0",UUID="{UUID}",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="{machine.name}"'
    lines: list[str] = []
    for name, kind, text, value in rows:
        lines += [
            f"# HELP {name} {text}",
            f"# TYPE {name} {kind}",
            f'{name}{{{labels},Hostname="simulated"}} {value:f}',
        ]
    return ("\n".join(lines) + "\n").encode()


def watts(config: EngineConfig, now: Activity) -> float:
    """Power between idle and the card's limit, in proportion to the busier of memory and tensor pipes: a guess."""
    machine = config.machine
    return machine.idle_watts + (machine.max_watts - machine.idle_watts) * max(now.memory, now.tensor)
