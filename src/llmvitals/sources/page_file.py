"""One metrics page saved to a file: a moment, not a window."""

from __future__ import annotations

from pathlib import Path

from llmvitals.errors import PageError
from llmvitals.sources import Observed
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage


def read_page_file(path: Path | str, *, kind: str = "auto", limits: Limits | None = None) -> Observed:
    """A saved page (gzip or plain) as one snapshot at the file's own time.

    Raises :class:`PageError` when the file cannot be read or is no metrics page of a known engine.
    """
    file = Path(path)
    try:
        body, t = file.read_bytes(), file.stat().st_mtime
    except OSError as error:
        raise PageError(
            f"cannot be read ({error.strerror})", place=str(file), remedy="Check the path and its permissions."
        ) from None
    # Read it once under its path, so that a message names the file; the snapshot then carries the short name.
    page = RawPage(t, None, None, body)
    Ingest(instance=str(file), kind=kind, limits=limits).read(page)
    return Observed(file.name, kind, (Ingest(instance=file.name, kind=kind, limits=limits).read(page),))
