"""GPUs by the memory that they are sold with, and bytes per value of each data type: two tables."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model: memory in decimal GB as the vendor's data sheet states it.

    ``shown_mib``: the total that ``nvidia-smi`` shows for it, 0 where that is not known. It is often more than what is
    sold (an "80 GB" H100 holds 85.5e9 bytes), so that an engine's pool comes out larger than an estimate by the data
    sheet.
    """

    name: str
    memory_gb: float
    source: str
    shown_mib: int = 0

    @property
    def shown_gb(self) -> float | None:
        """The total that ``nvidia-smi`` shows in decimal GB; None where it is not known."""
        return self.shown_mib * MIB / GB if self.shown_mib else None


GPUS: tuple[Gpu, ...] = (
    Gpu("T4-16GB", 16, "NVIDIA T4 data sheet", 15360),
    Gpu("A10-24GB", 24, "NVIDIA A10 data sheet", 23028),
    Gpu("L4-24GB", 24, "NVIDIA L4 data sheet", 23034),
    Gpu("RTX4090-24GB", 24, "GeForce RTX 4090 specifications", 24564),
    Gpu("RTX5090-32GB", 32, "GeForce RTX 5090 specifications", 32607),
    Gpu("V100-32GB", 32, "NVIDIA V100 data sheet", 32768),
    Gpu("A100-40GB", 40, "NVIDIA A100 data sheet", 40960),
    Gpu("A100-80GB", 80, "NVIDIA A100 data sheet", 81920),
    Gpu("L40S-48GB", 48, "NVIDIA L40S data sheet", 46068),
    Gpu("H100-80GB", 80, "NVIDIA H100 data sheet", 81559),
    Gpu("H100-NVL-94GB", 94, "NVIDIA H100 NVL data sheet", 95830),
    Gpu("GH200-96GB", 96, "NVIDIA GH200 data sheet (HBM3)", 97871),
    Gpu("H200-141GB", 141, "NVIDIA H200 data sheet", 143771),
    Gpu("B200-180GB", 180, "NVIDIA DGX B200 data sheet (1,440 GB over 8 GPUs)", 183359),
    Gpu("MI300X-192GB", 192, "AMD Instinct MI300X data sheet"),
)

BYTES: dict[str, float] = {
    "fp32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "fp4": 0.5,
}
"""Bytes per value by data type. Quantised weights also carry scales, a few percent that this leaves out."""


def gpu_of(name: str) -> Gpu | None:
    """The row of that name, whatever its case; None where there is none."""
    return next((gpu for gpu in GPUS if gpu.name.lower() == name.lower()), None)
