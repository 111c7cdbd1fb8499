"""A double of the driver's library, compiled from C and loaded by the real pynvml, and cards to put into it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("double.c")
NAME = "libnvidia-ml.so.1"
COMPILERS = ("cc", "gcc", "clang")
MIB = 1024**2
ALL = "@all"

Keys = Mapping[str, float | str]


def build(folder: Path, *, old: bool = False) -> Path:
    """Compile the double into ``folder``; ``old`` lacks the functions that old drivers lack."""
    compiler = next(found for name in COMPILERS if (found := shutil.which(name)))
    made = folder / ("old" if old else "new") / NAME
    made.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", *(["-DOLD"] if old else [])]
    subprocess.run([*command, "-o", str(made), str(SOURCE)], check=True)
    return made


class Double:
    """The table behind the double. Names: see double.c; numbers in NVML's units."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.double_set.argtypes = [ctypes.c_char_p, ctypes.c_double]
        self.library.double_text.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self.library.double_log.restype = ctypes.c_char_p
        self.library.double_reset()
        self.moment = 0.0
        self.gpm: dict[str, float] = {}  # what each profiling counter grows by, units
        self.text("driver", "590.48.01")

    def set(self, name: str, value: float) -> None:
        self.library.double_set(name.encode(), value)

    def text(self, name: str, value: str) -> None:
        self.library.double_text(name.encode(), value.encode())

    def unset(self, name: str) -> None:
        self.library.double_unset(name.encode())

    def put(self, index: int | str, keys: Keys) -> None:
        """Values of one card, or of ``card/position``; profiling ones (``gpm.N``) are what the metric shall be."""
        for key, value in keys.items():
            name = f"{index}.{key}"
            if isinstance(value, str):
                self.text(name, value)
            elif key.startswith("gpm."):
                self.gpm[name] = value
                self.set(name, 0.0)
            else:
                self.set(name, value)

    def cards(self, *cards: Keys) -> None:
        """These cards, in order, each on its own bus and with its own UUID."""
        self.set("cards", len(cards))
        for index, keys in enumerate(cards):
            self.put(index, {"uuid": uuid(index), "bus": 16 + index, **keys})
            for other in range(len(cards)):
                self.put(index, {f"topology.{other}": 50})

    def slice(self, card: int, position: int, instance: int, keys: Keys) -> None:
        """A MIG slice at a position of its card, in a GPU instance."""
        self.put(f"{card}/{position}", {"uuid": mig_uuid(position), "instance": instance, **keys})

    def processes(self, index: int | str, kind: str, found: list[tuple[int, float | None]]) -> None:
        self.put(index, {kind: len(found)})
        for position, (pid, used) in enumerate(found):
            self.put(index, {f"{kind}.{position}.pid": pid})
            if used is not None:
                self.put(index, {f"{kind}.{position}.used": used})

    def pass_time(self, seconds: float) -> None:
        """The driver's profiling counters run on."""
        self.moment += seconds
        self.set("time", self.moment * 1000.0)
        for name, metric in self.gpm.items():
            self.set(name, metric * self.moment * 1000.0)

    def calls(self) -> Counter[str]:
        """Calls since the last time this was asked, as ``function(device,argument)``."""
        found = Counter(self.library.double_log().decode().splitlines())
        self.library.double_forget()
        return found


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-aaaa-4000-8000-00000000000{index}"


def mig_uuid(position: int) -> str:
    return f"MIG-0000000{position}-bbbb-4000-8000-00000000000{position}"


def memory(total: float, reserved: float, used: float) -> Keys:
    """In MiB, as nvidia-smi prints it."""
    return {"memory.total": total * MIB, "memory.reserved": reserved * MIB, "memory.used": used * MIB}


def nvlinks(count: int, mbps: float, kind: int = 2) -> Keys:
    """That many links that are up, to switches (kind 2) or to what stands in ``link.N.bus`` (kind 0)."""
    each = {f"link.{n}.{key}": value for n in range(count) for key, value in (("state", 1), ("kind", kind))}
    return {"field.91": count, "field.90": mbps, "field.90:type": 1, **each}


THROTTLE: Keys = {f"field.{id}": 0 for id in (74, 75, 76, 77, 79)}
ECC: Keys = {"field.3": 0, "field.4": 0, "field.144": 0, "field.144:type": 1, "field.145": 0, "field.145:type": 1}
COMMON: Keys = {"reasons": 0, "mig": 0, "field.83": 1_000_000, "field.94": 0, "field.94:type": 1, "pcie.width": 16}
GPM: Keys = {"gpm": 1, **{f"gpm.{id}": 0.0 for id in (1, 2, 5, 10, 20, 21, 60, 61)}}
HOPPER: Keys = {**COMMON, **THROTTLE, **ECC, **GPM, "pcie.generation": 5, "busy": 0, "power.limit": 700_000}

H200: Keys = {
    **HOPPER,
    **nvlinks(18, 26562),
    **memory(143771, 614, 0),
    "name": "NVIDIA H200",
    "power": 76_000,
    "temperature": 28,
    "field.82": 31,
    "field.82:type": 1,
    "clock.sm": 345,
    "clock.sm.max": 1980,
    "clock.memory": 3201,
    "field.138@all": 0,
    "field.139@all": 0,
    **{f"field.{id}@all": 0 for id in (161, 162, 163)},
}
H100: Keys = {**H200, **memory(81559, 479, 0), "name": "NVIDIA H100 80GB HBM3", "clock.memory": 2619}
LOADED: Keys = {
    "busy": 97,
    "power": 640_500,
    "temperature": 61,
    "clock.sm": 1755,
    "gpm.1": 99.0,
    "gpm.2": 82.5,
    "gpm.5": 41.0,
    "gpm.10": 63.0,
    "gpm.20": 100.0,
    "gpm.21": 900.0,
}
# no NVLink, no profiling, PCIe 4, GDDR without a sensor
L40S: Keys = {
    **COMMON,
    **THROTTLE,
    **ECC,
    **memory(46068, 609, 0),
    "name": "NVIDIA L40S",
    "busy": 0,
    "power": 33_000,
    "power.limit": 350_000,
    "temperature": 30,
    "clock.sm": 210,
    "clock.sm.max": 2520,
    "clock.memory": 405,
    "pcie.generation": 4,
    "field.197": 0,
    "field.198": 0,
}
RTX_4080S: Keys = {
    **{key: value for key, value in L40S.items() if key not in ECC and key != "mig"},
    **memory(16376, 434, 300),
    "name": "NVIDIA GeForce RTX 4080 SUPER",
    "power.limit": 320_000,
    "clock.sm.max": 3165,
    "pcie.generation": 1,
}
# Turing: no row remapping, no byte counters of PCIe, 0 where it has no sensor
T4: Keys = {
    **{
        key: value
        for key, value in L40S.items()
        if key not in {"field.144", "field.145", "field.197", "field.198", "mig"}
    },
    **memory(15360, 445, 0),
    "name": "Tesla T4",
    "power.limit": 70_000,
    "clock.sm.max": 1590,
    "pcie.generation": 3,
    "field.82": 0,
    "field.82:type": 1,
}
SPLIT: Keys = {"mig": 1, "busy!": 3, "slices": 7, "field.91!": 3, "field.144!": 3, "field.145!": 3}
"""A card with MIG on: no utilisation, no NVLink, no row remapping is shown."""
