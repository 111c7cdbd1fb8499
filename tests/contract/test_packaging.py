"""The wheel carries what an operator needs and nothing else; the pins and the project file agree with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import llmvitals
from llmvitals import data

ROOT = Path(__file__).resolve().parents[2]
PINS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UNDER_TEST = os.environ.get("LLMVITALS_TEST_WHEEL", "")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel under test, or one built here when the tests run on a tree."""
    if UNDER_TEST:
        return zipfile.ZipFile(UNDER_TEST)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


@pytest.mark.skipif(not UNDER_TEST, reason="runs on a tree: `make test` runs on the wheel")
def test_the_tests_run_on_the_wheel_and_not_on_the_tree() -> None:
    assert "site-packages" in Path(llmvitals.__file__).parts
    assert not Path(llmvitals.__file__).resolve().is_relative_to(ROOT / "src")


@pytest.mark.parametrize("name", data.FOLDERS)
def test_each_folder_travels_whole(wheel: zipfile.ZipFile, name: str) -> None:
    files = (path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file())
    here = {path.as_posix() for path in files if "__pycache__" not in path.parts}
    packed = {n.removeprefix("llmvitals/_data/") for n in wheel.namelist()}
    assert here, f"{name}/ holds no file"
    assert here <= packed


def test_only_the_package_and_its_metadata_are_inside(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {n.split("/")[0].split("-")[0] for n in names} == {"llmvitals"}
    assert not [n for n in names if re.search(r"(^|/)(tests?|bench|e2e|__pycache__|\.git)(/|$)|\.pyc$", n)]
    assert "llmvitals/py.typed" in names


def test_licence_and_versions_are_in_the_metadata(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Version"] == llmvitals.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    licence = next(n for n in wheel.namelist() if n.endswith("/licenses/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_base_is_small_and_the_extras_are_declared(metadata: Message) -> None:
    required = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    base = {r.name for r in required if not r.marker}
    assert base == {
        *("bcrypt", "click", "msgspec", "nvidia-ml-py", "prometheus-client", "psutil", "pyyaml", "requests", "rich"),
        *("starlette", "urllib3", "uvicorn"),
    }
    assert set(metadata.get_all("Provides-Extra") or []) == {
        "otel",
        "gateway",
        "dashboards",
        "app",
        "pictures",
        "kubernetes",
        "all",
    }

    def of(extra: str) -> set[str]:
        return {r.name for r in required if r.marker and r.marker.evaluate({"extra": extra})}

    assert of("otel") == {
        "googleapis-common-protos",
        "grpcio",
        "opentelemetry-exporter-otlp-proto-grpc",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-proto",
        "opentelemetry-sdk",
        "protobuf",
    }
    assert of("gateway") == {"httpx", "opentelemetry-exporter-prometheus", "opentelemetry-sdk"}
    assert of("dashboards") == {"grafanalib"}
    assert of("app") == {"authlib", "babel", "httpx", "streamlit"}
    assert of("pictures") == {"matplotlib"}
    assert of("kubernetes") == {"grpcio", "protobuf"}


def test_the_command_is_an_entry_point(wheel: zipfile.ZipFile) -> None:
    name = next(n for n in wheel.namelist() if n.endswith("/entry_points.txt"))
    assert "llmvitals = llmvitals.cli:main" in wheel.read(name).decode()


@pytest.mark.parametrize("path", PINS, ids=lambda p: p.name)
def test_pins_are_exact_and_name_no_index(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*( ; [^@]+)?", line)] == []


def test_pins_agree_with_each_other_and_with_the_project() -> None:
    pinned: dict[str, set[str]] = {}
    for path in PINS:
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                requirement = Requirement(line)
                if requirement.marker is None:
                    pinned.setdefault(requirement.name, set()).add(str(requirement.specifier).removeprefix("=="))
    assert {name: found for name, found in pinned.items() if len(found) > 1} == {}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["otel"], *extras["dashboards"], *extras["app"], *extras["pictures"]]
    for requirement in map(Requirement, wanted):
        (version,) = pinned[requirement.name]
        assert Version(version) in requirement.specifier, requirement.name
