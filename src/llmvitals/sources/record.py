"""Writing recordings so that an interruption at any moment loses at most the page under way."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import msgspec
from msgspec import structs

from llmvitals.errors import CaptureError
from llmvitals.settings import Service
from llmvitals.sources.capture import FORMAT, INDEX, Index, Recorded, Scrape
from llmvitals.telemetry.ingest import RawPage

SAVE_SECONDS = 10.0
"""The index is rewritten once each target has a page, then when the newest is this much newer than at the last time: a kill
loses no more."""


def put(file: Path, data: bytes) -> None:
    """Write a file in one step: it is there whole or not at all, whatever happens meanwhile. Raises ``OSError``."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


class Recorder:
    """Appends pages to a folder. A context manager: leaving it, by Ctrl-C too, writes the index.

    The folder is made with the first page. Raises :class:`CaptureError` at once when it already holds a recording, and
    later when it cannot be written.
    """

    def __init__(self, folder: Path | str, targets: Iterable[Recorded], services: Iterable[Service] = ()) -> None:
        self._folder = Path(folder)
        self._services = tuple(services)
        self._targets = tuple(targets)
        self._scrapes: dict[str, list[Scrape]] = {target.name: list(target.scrapes) for target in self._targets}
        self._numbers = {target.name: number for number, target in enumerate(self._targets)}
        self._saved: float | None = None
        self._all_begun = False  # whether each target has a page in the index
        if (self._folder / INDEX).exists():
            raise CaptureError(
                "already holds a recording", place=str(self._folder), remedy="Choose another folder with -o."
            )

    @property
    def pages(self) -> int:
        """How many scrapes were recorded, failed ones included."""
        return sum(len(scrapes) for scrapes in self._scrapes.values())

    def add(self, name: str, page: RawPage) -> None:
        """Write one page of the target ``name``; a failed scrape (no body) is recorded without a file."""
        scrapes = self._scrapes[name]
        file = None
        if page.body is not None:
            file = f"{self._numbers[name]}-{len(scrapes):05d}.prom.gz"
            self._write(file, gzip.compress(page.body, mtime=0))
        scrapes.append(Scrape(page.t, file, page.took, page.status, page.error, page.detail or msgspec.UNSET))
        begun = not self._all_begun and all(self._scrapes.values())
        if self._saved is None or begun or page.t - self._saved >= SAVE_SECONDS:
            self.save()
            self._saved, self._all_begun = page.t, self._all_begun or begun

    def save(self) -> None:
        """Write the index in one step: readers see the old one or the new one, never half of it."""
        targets = tuple(structs.replace(target, scrapes=tuple(self._scrapes[target.name])) for target in self._targets)
        self._write(
            INDEX,
            msgspec.json.format(msgspec.json.encode(Index(FORMAT, targets, self._services)), indent=1),
        )

    def _write(self, name: str, data: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            put(self._folder / name, data)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> CaptureError:
        return CaptureError(
            f"cannot be written ({error.strerror})", place=str(self._folder), remedy="Choose another folder with -o."
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pages:
            self.save()


def write_capture(folder: Path | str, targets: Iterable[tuple[str, str, Iterable[RawPage]]]) -> None:
    """Write a whole recording from (name, kind, pages). Raises :class:`CaptureError`."""
    listed = [(name, kind, pages) for name, kind, pages in targets]
    with Recorder(folder, [Recorded(name, (), kind) for name, kind, _ in listed]) as recorder:
        for name, _, pages in listed:
            for page in pages:
                recorder.add(name, page)
