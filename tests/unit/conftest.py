"""What unit tests share: the double of the NVIDIA driver's library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.nvml.double import Double, build


@pytest.fixture(scope="session")
def nvml_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """Where a variant of the compiled double lies; it is made on the first call."""
    made: dict[bool, Path] = {}

    def path(old: bool = False) -> Path:
        if old not in made:
            made[old] = build(tmp_path_factory.mktemp("nvml"), old=old)
        return made[old]

    return path


@pytest.fixture
def nvml_loaded(nvml_path, monkeypatch) -> Callable[[bool], Double]:
    """Puts a variant of the double behind the real pynvml."""
    pynvml = pytest.importorskip("pynvml")

    def load(old: bool = False) -> Double:
        double = Double(nvml_path(old))
        monkeypatch.setattr(pynvml, "nvmlLib", double.library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return double

    return load


@pytest.fixture
def nvml(nvml_loaded) -> Double:
    """The double with every function, behind the real pynvml."""
    return nvml_loaded()
