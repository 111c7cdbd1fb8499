"""One metrics page saved to a file: a moment, not a window."""

from __future__ import annotations

import os
from pathlib import Path

from llmvitals.errors import PageError
from llmvitals.sources import Observed
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage


def contents(file: Path, limits: Limits | None = None) -> tuple[bytes, float]:
    """What a file or a pipe holds, and when it was written (unix seconds).

    Raises :class:`PageError` when it cannot be read or is larger than a page may be: a device goes on without end.
    """
    most = (limits or Limits()).max_page_bytes
    try:
        with file.open("rb") as stream:
            content, t = stream.read(most + 1), os.fstat(stream.fileno()).st_mtime
    except (OSError, ValueError) as error:  # a name with a zero byte is none
        why = getattr(error, "strerror", None) or "no file can have that name"
        raise PageError(
            f"cannot be read ({why})", place=str(file), remedy="Check the path and its permissions."
        ) from None
    if len(content) > most:
        raise PageError(
            f"the page is larger than {most / (1024 * 1024):.4g} MiB",
            place=str(file),
            remedy="Raise exporter.max_page_bytes, or find the series that swells it.",
        )
    return content, t


def read_page_file(path: Path | str, *, kind: str = "auto", limits: Limits | None = None) -> Observed:
    """A saved page (gzip or plain) as one snapshot at the file's own time.

    Raises :class:`PageError` when the file cannot be read or is no metrics page of a known engine.
    """
    file = Path(path)
    body, t = contents(file, limits)
    # Read it once under its path, so that a message names the file; the snapshot then carries the short name.
    page = RawPage(t, None, None, body)
    Ingest(instance=str(file), kind=kind, limits=limits).read(page)
    return Observed(file.name, kind, (Ingest(instance=file.name, kind=kind, limits=limits).read(page),))
