"""What the images install, as CycloneDX 1.6: ``python tools/sbom.py FOLDER [NAME...]`` writes a file for each, the same each time.

A file lists the pins that hold for the image's Python on Linux, and the project itself. No moment and no serial number is in it,
so that two builds of one commit can be compared; whoever publishes one adds them. What the base image brings (Python, Debian's
libraries) is that image's own list. Needs cyclonedx-py beside this Python.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ("image", "exporter")
"""A file of requirements, and a stage of the Dockerfile, each."""


def python_of_the_image() -> str:
    """Its Python, as 3.12."""
    found = re.search(r"^ARG PYTHON=(\d+\.\d+)", (ROOT / "exporters/Dockerfile").read_text(), re.MULTILINE)
    assert found is not None, "the Dockerfile names no Python"
    return found[1]


def holding(file: Path, python: str) -> list[str]:
    """The pins of a file that are installed under that Python on Linux, without their conditions."""
    there = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "platform_system": "Linux",
        "sys_platform": "linux",
    }
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    return [f"{pin.name}{pin.specifier}" for pin in pins if pin.marker is None or pin.marker.evaluate(there)]


def document(name: str) -> str:
    """The list of one image, held against CycloneDX's schema."""
    pins = holding(ROOT / "requirements" / f"{name}.txt", python_of_the_image())
    command = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "-"]
    command += ["--output-reproducible", "--spec-version", "1.6", "--pyproject", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, input="\n".join(pins), capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "src/llmvitals/__init__.py").read_text(), re.MULTILINE)
    assert version is not None, "the project has no version"
    own = told["metadata"]["component"]  # its version is the code's, which pyproject.toml does not say
    own |= {"type": "application", "version": version[1], "purl": f"pkg:pypi/llmvitals@{version[1]}"}
    direct = sorted(part["bom-ref"] for part in told["components"])
    for one in told["dependencies"]:
        if one["ref"] == own["bom-ref"]:
            one["dependsOn"] = direct  # who of them needs whom is not in the pins
    text = json.dumps(told, indent=2, sort_keys=True) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert wrong is None, f"{name}: {wrong}"
    return text


def main(folder: Path, names: Sequence[str]) -> None:
    """Write the lists into the folder and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = folder / f"llmvitals-{name}.cdx.json"
        text = document(name)
        file.write_text(text)
        sys.stdout.write(f"{file}: {len(json.loads(text)['components'])} packages\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or IMAGES)
