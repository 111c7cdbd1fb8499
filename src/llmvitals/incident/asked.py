"""A report for somebody who looks at a page: everything from the source to the bytes of the zip file, nothing left on the disk."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmvitals.incident.gather import from_source
from llmvitals.incident.model import About
from llmvitals.incident.package import make
from llmvitals.settings import Settings, Source


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person may say of a report: a note, whether names are replaced, its language."""

    note: str = ""
    anonymised: bool = False
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Zip:
    """A finished report. ``name``: of the file; ``sentence``: of its verdict."""

    name: str
    body: bytes
    sentence: str


def zipped(source: Source, scope: Mapping[str, str], at: float | None, settings: Settings, wish: Wish) -> Zip:
    """The report of a scope as a source shows it at the moment ``at`` (unix seconds; None is now).

    Raises :class:`LlmvitalsError`.
    """
    found = from_source(source, (scope.get("instance", ""), scope.get("model", "")), at, settings)
    about = About(
        found.origin,
        time.time(),
        wish.note,
        found.scope,
        found.notes,
        wish.anonymised,
        past=found.past,
        language=wish.language,
    )
    with tempfile.TemporaryDirectory(prefix="llmvitals-report-") as folder:
        made = make(found.recording, settings, about, Path(folder) / "incident")
        main = made.incident.main
        end = float(main.window.get("end") or about.made)
        name = f"incident-{datetime.fromtimestamp(end, UTC):%Y%m%dT%H%M%SZ}.zip"
        return Zip(name, made.zip.read_bytes(), main.sentence)
