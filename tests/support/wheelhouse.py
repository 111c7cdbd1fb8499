"""Wheels made of what is installed here, so that an installation can be tried without any network."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

_OURS_ALONE = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def pinned(path: Path) -> list[Requirement]:
    """The pins of a file that hold on this machine and Python."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]


def fill(folder: Path, pins: Iterable[Requirement]) -> None:
    """A wheel of each pin into the folder. Fails where another version is installed here than the pins say."""
    for pin in pins:
        found = distribution(pin.name)
        assert pin.specifier.contains(found.version, prereleases=True), f"{pin} is pinned, {found.version} installed"
        _pack(found, folder)


def _pack(found: Distribution, folder: Path) -> None:
    told = Parser().parsestr(found.read_text("WHEEL") or "")
    parts = zip(*(tag.split("-", 2) for tag in told.get_all("Tag", ["py3-none-any"])), strict=True)
    tag = "-".join(".".join(dict.fromkeys(part)) for part in parts)
    info = next(file.parts[0] for file in found.files or () if file.name == "METADATA")
    rows = []
    with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-{tag}.whl", "w") as wheel:
        for file in found.files or ():
            if (
                ".." in file.parts
                or "__pycache__" in file.parts
                or (file.parts[0] == info and file.name in _OURS_ALONE)
            ):
                continue
            content = Path(str(found.locate_file(file))).read_bytes()
            wheel.writestr(file.as_posix(), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append((file.as_posix(), f"sha256={digest}", len(content)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
        wheel.writestr(f"{info}/RECORD", text.getvalue())
