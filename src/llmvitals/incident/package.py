"""A report on the disk: the recording first, redacted; then the report, made of what was written; then all of it as a zip."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from llmvitals.errors import CaptureError
from llmvitals.incident.aliases import Aliases
from llmvitals.incident.html import html
from llmvitals.incident.markdown import markdown
from llmvitals.incident.model import About, Incident, incident
from llmvitals.incident.redaction import Redactor, cleaned
from llmvitals.incident.sections import report
from llmvitals.incident.svg import draw
from llmvitals.incident.taking import aliases_of, clean
from llmvitals.settings import Settings
from llmvitals.sources.capture import INSIDE, Judged
from llmvitals.sources.record import put
from llmvitals.sources.recording import Recording, of_capture, write
from llmvitals.triage.report import document

ZIP, MARKDOWN, HTML, VERDICT = "incident.zip", "report.md", "report.html", "verdict.json"
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)
"""The moment of the files in the zip: the earliest that the format knows, so that the same report is the same bytes."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished report."""

    folder: Path
    incident: Incident

    @property
    def zip(self) -> Path:
        """The file to be sent."""
        return self.folder / ZIP


def make(recording: Recording, settings: Settings, about: About, folder: Path) -> Made:
    """Write the report of a recording into a new folder.

    Raises :class:`CaptureError` where the folder holds something or cannot be written, and as :func:`incident`.
    """
    _new(folder)
    if recording.judged is None:
        recording = replace(recording, judged=Judged(slo=settings.slo, thresholds=settings.thresholds))
    aliases = aliases_of(recording) if about.anonymised else Aliases()
    redactor = Redactor(aliases)
    write(clean(recording, redactor, aliases), folder / INSIDE)
    instance, model = about.scope
    told = replace(
        about,
        origin=redactor.text(about.origin),
        note=redactor.text(about.note),
        notes=tuple(map(redactor.text, about.notes)),
        scope=(redactor.name(instance) if instance else "", redactor.name(model) if model else ""),
    )
    services = clean(Recording((), settings.services), redactor, aliases).services
    own = msgspec.structs.replace(settings, services=services)
    found = incident(of_capture(folder / INSIDE), own, replace(told, secrets=redactor.secrets))
    try:
        for name, body in _files(found, redactor):
            (folder / name).parent.mkdir(exist_ok=True)
            put(folder / name, body)
        put(folder / ZIP, _packed(folder))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return Made(folder, found)


def _files(found: Incident, redactor: Redactor) -> Iterator[tuple[str, bytes]]:
    whole = report(found)
    verdict = cleaned(document(found.verdicts), redactor.secretless)
    yield MARKDOWN, markdown(whole).encode()
    yield HTML, html(whole).encode()
    yield VERDICT, (json.dumps(verdict, indent=2) + "\n").encode()
    for figure in whole.figures:
        if figure.chart.points:
            yield f"charts/{figure.file}", draw(figure.chart, figure.alt, alone=True).encode()


def _packed(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != ZIP:
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _ENTRY_TIME)
                entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".gz" else zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                made.writestr(entry, path.read_bytes())
    return out.getvalue()


def _new(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise _unwritable(folder, error) from None
    if taken:
        raise CaptureError("already holds something", place=str(folder), remedy="Choose another folder with -o.")


def _unwritable(folder: Path, error: OSError) -> CaptureError:
    return CaptureError(
        f"cannot be written ({error.strerror})", place=str(folder), remedy="Choose another folder with -o."
    )
