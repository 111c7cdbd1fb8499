"""What a link between GPUs and their host can carry."""

from __future__ import annotations

from collections.abc import Mapping

_PCIE_LANE: Mapping[float, float] = {1.0: 0.25e9, 2.0: 0.5e9, 3.0: 0.985e9, 4.0: 1.969e9, 5.0: 3.938e9, 6.0: 7.563e9}
"""Bytes per second of one PCIe lane and direction, by generation, line coding taken off (PCI-SIG)."""


def pcie_bytes_per_second(generation: float | None, lanes: float | None) -> float | None:
    """Both ways together; None for a generation that is not known, or where either is."""
    lane = _PCIE_LANE.get(generation) if generation is not None else None
    return None if lane is None or lanes is None else 2.0 * lane * lanes
