"""The floors hold: import-linter's contracts in pyproject.toml, and what may be loaded at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
HEAVY = ("streamlit", "grafanalib", "matplotlib", "opentelemetry", "pandas", "numpy")


def lint(config: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contract on a source tree."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), str(config), "--no-cache"],
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=config.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_is_kept() -> None:
    result = lint(ROOT / "pyproject.toml", ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(CONFIG['contracts'])} kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("signals", "telemetry"),
        ("telemetry", "signals"),
        ("series", "signals"),
        ("triage", "exporters"),
        ("sources", "triage"),
        ("alerts", "exporters"),
        ("dashboards", "exporters"),
        ("exporters", "cli"),
    ],
)
def test_a_way_up_or_across_breaks_a_contract(tmp_path: Path, importer: str, imported: str) -> None:
    """The contract can fail: a small copy of the house with one forbidden import is refused."""
    house = tmp_path / "src" / "llmvitals"
    for layer in CONFIG["contracts"][0]["layers"]:
        for name in layer.replace("|", ":").split(":"):
            room = house / name.strip(" ()")
            room.mkdir(parents=True)
            (room / "__init__.py").touch()
    (house / "__init__.py").touch()
    (house / importer / "__init__.py").write_text(f"import llmvitals.{imported}\n")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    result = lint(tmp_path / "pyproject.toml", tmp_path / "src")
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"llmvitals.{importer} -> llmvitals.{imported}" in result.stdout


def heavy_modules_after(code: str) -> list[str]:
    """The modules of HEAVY that a fresh interpreter holds after running some code."""
    ending = f"\nimport sys\nprint('|', *sorted(set({HEAVY!r}) & {{n.split('.')[0] for n in sys.modules}}))\n"
    done = subprocess.run([sys.executable, "-c", code + ending], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("|")[2].split()


@pytest.mark.parametrize("module", ["exporters", "triage", "sources", "signals", "telemetry", "simulator"])
def test_what_an_exporter_pod_carries_loads_no_extra(module: str) -> None:
    """Importing a room and everything in it needs the base dependencies only."""
    code = (
        "import importlib, pkgutil\n"
        f"room = importlib.import_module('llmvitals.{module}')\n"
        "for found in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        "    importlib.import_module(found.name)\n"
    )
    assert heavy_modules_after(code) == []


@pytest.mark.parametrize("command", ["", "serve", "triage", "capture", "simulate"])
def test_commands_of_the_base_install_load_no_extra(command: str) -> None:
    code = (
        "import sys\n"
        "from llmvitals.cli import main\n"
        f"sys.argv = ['llmvitals', *{command.split()!r}, '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
    )
    assert heavy_modules_after(code) == []


def test_the_probe_for_extras_can_tell() -> None:
    assert heavy_modules_after("import numpy") == ["numpy"]
