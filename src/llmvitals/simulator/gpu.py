"""The simulated GPUs at one moment, and the dcgm-exporter page that shows them.

Names and units are the exporter's: MiB, MHz, watts, millijoules, percent for utilisation, ratios for profiling figures,
bytes per second for traffic (headers, which the real figure includes, left out), nanoseconds for time under violation. The
fields are those of an operator who has switched on what the exporter's default list leaves out. Where the exporter knows of
pods, each series carries the one that holds the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from llmvitals.simulator import node
from llmvitals.simulator.gpu_meter import Activity, Done, Meter, limit_watts, watts
from llmvitals.simulator.hardware import GPUS, LINKS
from llmvitals.simulator.roofline import Link, Machine
from llmvitals.simulator.world import World

RESERVED_BYTES = 0.5e9  # driver and context
IDLE_CELSIUS, FULL_CELSIUS = 34.0, 60.0
SLOWDOWN_CELSIUS = 87.0  # an H200's own limit: a recorded one had 35 degrees left at 52
IDLE_CLOCK_MHZ = 345
THERMAL = "thermal"
MIB = 1024**2
DRIVER = "570.124.06"


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU at one moment. Bytes, watts, seconds; ``violations`` by reason; ``xid``: codes in the order in which they came,
    with their moments; ``own`` and ``other``: what the engine and other processes hold.
    """

    machine: Machine
    index: int
    now: Activity
    done: Done
    watts: float
    limit: float
    joules: float
    celsius: float
    own: float
    other: float
    violations: Mapping[str, float]
    xid: tuple[tuple[float, int], ...] = ()
    ecc: int = 0
    remap: bool = False

    @property
    def used(self) -> float:
        """Framebuffer that processes hold."""
        return self.own + self.other

    @property
    def sm_clock(self) -> int:
        """MHz."""
        return round(self.machine.sm_clock_mhz * self.now.factor) if self.now.busy > 0 else IDLE_CLOCK_MHZ

    @property
    def slot(self) -> Link:
        """Its slot on the bus: the link to its peers where that is PCIe, else what the card was made for."""
        link = self.machine.link
        return link if link is not None and link.generation else _slot(self.machine.name)

    @property
    def free(self) -> float:
        """Framebuffer that nobody holds."""
        return max(0.0, self.machine.memory_bytes - self.used - RESERVED_BYTES)


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the exporter's list; ``read`` None: this card has no such thing, and the row is left out."""

    name: str
    kind: str
    help: str
    read: Callable[[Card], float | None]


@lru_cache(maxsize=64)
def _slot(product: str) -> Link:
    made = next((card.links[-1] for card in GPUS.values() if card.product == product), "PCIe 5.0 x16")
    return LINKS[made]


def _violation(reason: str) -> Callable[[Card], float]:
    return lambda card: round(card.violations.get(reason, 0.0) * 1e9)


def link_kind(link: Link) -> str:
    """``nvlink`` or ``pcie``: which of a GPU's links carries the exchange with its peers."""
    return "nvlink" if link.name.lower().startswith("nvlink") else "pcie"


def _peers(card: Card, kind: str) -> float | None:
    link = card.machine.link
    here = link is not None and card.machine.gpus > 1 and link_kind(link) == kind
    return card.now.link if here else (0.0 if kind == "pcie" else None)


FIELDS: tuple[Field, ...] = (
    Field(
        "DEV_SM_CLOCK",
        "gauge",
        "SM clock (in MHz).",
        lambda c: c.sm_clock,
    ),
    Field("DEV_MAX_SM_CLOCK", "gauge", "Highest SM clock (in MHz).", lambda c: c.machine.sm_clock_mhz),
    Field("DEV_GPU_TEMP", "gauge", "Temperature (in C).", lambda c: round(c.celsius)),
    Field("DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda c: c.watts),
    Field("DEV_ENFORCED_POWER_LIMIT", "gauge", "Power limit in force (in W).", lambda c: c.limit),
    Field("DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot (in mJ).", lambda c: c.joules * 1000),
    Field("DEV_GPU_UTIL", "gauge", "Utilisation (in %).", lambda c: round(100 * c.now.busy)),
    Field("DEV_POWER_VIOLATION", "counter", "Held down by the power limit (in ns).", _violation("power")),
    Field("DEV_THERMAL_VIOLATION", "counter", "Held down by heat (in ns).", _violation(THERMAL)),
    Field("DEV_SYNC_BOOST_VIOLATION", "counter", "Held down by sync boost (in ns).", _violation("sync_boost")),
    Field("DEV_BOARD_LIMIT_VIOLATION", "counter", "Held down by the board (in ns).", _violation("board_limit")),
    Field("DEV_RELIABILITY_VIOLATION", "counter", "Held down for reliability (in ns).", _violation("reliability")),
    Field("DEV_XID_ERRORS", "gauge", "Last XID error.", lambda c: c.xid[-1][1] if c.xid else 0),
    Field("DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit memory errors since the driver loaded.", lambda c: c.ecc),
    Field("DEV_ROW_REMAP_PENDING", "gauge", "1 while a row remap waits for a reset.", lambda c: c.remap),
    Field("DEV_FB_FREE", "gauge", "Framebuffer free (in MiB).", lambda c: c.free // MIB),
    Field("DEV_FB_USED", "gauge", "Framebuffer used (in MiB).", lambda c: c.used // MIB),
    Field("DEV_FB_RESERVED", "gauge", "Framebuffer reserved (in MiB).", lambda c: RESERVED_BYTES // MIB),
    Field("PROF_GR_ENGINE_ACTIVE", "gauge", "Share of time the engine is active.", lambda c: c.now.busy),
    Field("PROF_SM_ACTIVE", "gauge", "Share of cycles an SM has a warp.", lambda c: c.now.busy),
    Field("PROF_PIPE_TENSOR_ACTIVE", "gauge", "Cycles with an active tensor pipe.", lambda c: c.now.tensor_cycles),
    Field("PROF_DRAM_ACTIVE", "gauge", "Share of cycles memory moves data.", lambda c: c.now.memory),
    Field("DEV_PCIE_LINK_GEN", "gauge", "PCIe generation in use.", lambda c: c.slot.generation),
    Field("DEV_PCIE_LINK_WIDTH", "gauge", "PCIe lanes in use.", lambda c: c.slot.lanes),
    Field("PROF_PCIE_TX_BYTES", "gauge", "PCIe bytes sent per second.", lambda c: _peers(c, "pcie")),
    Field(
        "PROF_PCIE_RX_BYTES",
        "gauge",
        "PCIe bytes received per second.",
        lambda c: (_peers(c, "pcie") or 0.0) + c.now.received / c.machine.gpus,
    ),
    Field("PROF_NVLINK_TX_BYTES", "gauge", "NVLink bytes sent per second.", lambda c: _peers(c, "nvlink")),
    Field("PROF_NVLINK_RX_BYTES", "gauge", "NVLink bytes received per second.", lambda c: _peers(c, "nvlink")),
)


def uuid(index: int) -> str:
    """The name of the GPU with this number."""
    return f"GPU-51510000-0000-4000-8000-{index:012d}"


def other_bytes(world: World, index: int) -> float:
    """Framebuffer that other processes hold now on one GPU."""
    spans = world.setup.faults.other_memory if index == 0 else ()
    return sum(size for start, end, size in spans if start <= world.now < end)


def cards(world: World, meter: Meter) -> tuple[Card, ...]:
    """All GPUs of the engine at the world's present moment."""
    return tuple(_card(world, meter, index) for index in range(world.setup.engine.machine.gpus))


def own_bytes(world: World, index: int) -> float:
    """Framebuffer that the engine holds now on one GPU: what it reserves, less what others took before it could; its weights
    while it loads.
    """
    machine = world.setup.engine.machine
    if not world.up:
        return machine.weight_bytes / machine.gpus if node.alive(world) else 0.0
    room = machine.memory_bytes - RESERVED_BYTES - other_bytes(world, index)
    return min(machine.memory_bytes * world.setup.engine.gpu_memory_utilization, room)


def _card(world: World, meter: Meter, index: int) -> Card:
    faults, first = world.setup.faults, index == 0
    machine = world.setup.engine.machine
    held = meter.held if first else None
    now = meter.first if first else meter.other
    draw = watts(machine, now, held)
    warm = IDLE_CELSIUS + (FULL_CELSIUS - IDLE_CELSIUS) * (draw - machine.idle_watts) / (
        machine.max_watts - machine.idle_watts
    )
    codes = tuple(sorted((moment, code) for moment, code in faults.xid if moment <= world.now)) if first else ()
    return Card(
        machine,
        index,
        now,
        meter.done[0 if first else 1],
        draw,
        limit_watts(machine, held),
        meter.joules[0 if first else 1],
        SLOWDOWN_CELSIUS if held is not None and held.reason == THERMAL else warm,
        own_bytes(world, index),
        other_bytes(world, index),
        meter.violations if first else {},
        codes,
        sum(1 for moment in faults.ecc if moment <= world.now) if first else 0,
        first and faults.row_remap_at <= world.now,
    )


def page(world: World, meter: Meter, *, pods: bool = False) -> bytes:
    """The exporter's page: one series per GPU and field. ``pods``: with the pod that holds the GPU in its labels."""
    whose = _whose(world) if pods else ""
    found = [(_labels(card) + whose, card) for card in cards(world, meter)]
    lines: list[str] = []
    for field in FIELDS:
        rows = [(labels, field.read(card)) for labels, card in found]
        shown = [(labels, value) for labels, value in rows if value is not None]
        if shown:
            lines += [f"# HELP DCGM_FI_{field.name} {field.help}", f"# TYPE DCGM_FI_{field.name} {field.kind}"]
            lines += [f"DCGM_FI_{field.name}{{{labels}}} {value:f}" for labels, value in shown]
    return ("\n".join(lines) + "\n").encode()


def _labels(card: Card) -> str:
    index = card.index
    return (
        f'gpu="{index}",UUID="{uuid(index)}",pci_bus_id="00000000:{bus(index):02X}:00.0",device="nvidia{index}",'
        f'modelName="{card.machine.name}",Hostname="{node.NAME}",DCGM_FI_DRIVER_VERSION="{DRIVER}"'
    )


def _whose(world: World) -> str:
    return f',container="{node.CONTAINER}",namespace="{node.NAMESPACE}",pod="{node.place(world).pod}"'


def bus(index: int) -> int:
    """The bus that a GPU is on."""
    return 0x18 + index
