"""Recordings: a folder with ``capture.json`` and the pages as received.

Format 1: ``{"format": 1, "targets": [{"name", "kind", "scrapes": [{"t", "file", "took", "status"}]}]}``, beside which
``services`` may stand as in the settings, and with a target its ``role`` and its ``gateway``. ``t`` is the unix time at which
the page had arrived, ``took`` the seconds the target needed; a scrape without an answer has no file and may carry ``error``.
Pages may be gzip-compressed.
"""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import msgspec

from llmvitals.errors import CaptureError
from llmvitals.settings import ROLES, Service
from llmvitals.sources import Observed
from llmvitals.sources.assemble import Feed, observed
from llmvitals.telemetry.ingest import KINDS, Limits, RawPage
from llmvitals.telemetry.ingest.page import TooLargeError, inflate

INDEX = "capture.json"
FORMAT = 1
MAX_PAGE_BYTES = 64 * 1024 * 1024
"""A page larger than this after decompression is no metrics page: it protects against a decompression bomb."""


class Scrape(msgspec.Struct, frozen=True):
    """One attempt at one target; ``file`` is None when no answer came."""

    t: float
    file: str | None = None
    took: float | None = None
    status: int | None = None
    error: str = ""


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """All scrapes of one target. A GPU page, and one of canonical families, may say by ``engine`` (and ``gpus``) whose it is."""

    name: str
    scrapes: tuple[Scrape, ...]
    kind: str
    engine: str = ""
    gpus: tuple[str, ...] = ()
    role: str = ""
    gateway: str = ""


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of ``capture.json``."""

    format: int
    targets: tuple[Recorded, ...] = ()
    services: tuple[Service, ...] = ()


class Pages(Sequence[RawPage]):
    """The pages of one target, read from the disk one by one: a day's recording does not fit into memory."""

    def __init__(self, folder: Path, scrapes: tuple[Scrape, ...]) -> None:
        self._folder = folder
        self._scrapes = scrapes

    def __len__(self) -> int:
        return len(self._scrapes)

    @overload
    def __getitem__(self, at: int) -> RawPage: ...
    @overload
    def __getitem__(self, at: slice) -> Pages: ...
    def __getitem__(self, at: int | slice) -> RawPage | Pages:
        if isinstance(at, slice):
            return Pages(self._folder, self._scrapes[at])
        scrape = self._scrapes[at]
        body = None if scrape.file is None else read_page(self._folder / scrape.file)
        return RawPage(scrape.t, scrape.took, scrape.status, body, scrape.error)


@dataclass(frozen=True, slots=True)
class RawTarget:
    """One recorded target with its pages as received, in order of time."""

    name: str
    kind: str
    pages: Pages
    engine: str = ""
    gpus: tuple[str, ...] = ()
    role: str = ""
    gateway: str = ""


def read_page(path: Path) -> bytes:
    """The bytes of a page file, decompressed when it is gzip. Raises :class:`CaptureError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CaptureError(
            f"cannot be read ({error.strerror})", place=str(path), remedy="Check the path and its permissions."
        ) from None
    try:
        return inflate(data, MAX_PAGE_BYTES)
    except TooLargeError:
        raise CaptureError("is larger than a metrics page can be", place=str(path), remedy="Take it out.") from None
    except zlib.error:
        raise CaptureError("is damaged gzip data", place=str(path), remedy="Copy or record it again.") from None


def raw(path: Path | str) -> tuple[RawTarget, ...]:
    """The recorded targets with their pages, for a replay. Raises :class:`CaptureError`, also for a missing page."""
    return _targets(*_opened(path))


def _opened(path: Path | str) -> tuple[Index, Path]:
    given = Path(path)
    folder = given.parent if given.name == INDEX else given
    index = _index(folder)
    _check(index, folder)
    return index, folder


def _targets(index: Index, folder: Path) -> tuple[RawTarget, ...]:
    return tuple(
        RawTarget(
            target.name,
            target.kind,
            Pages(folder, tuple(sorted(target.scrapes, key=lambda scrape: scrape.t))),
            target.engine,
            target.gpus,
            target.role,
            target.gateway,
        )
        for target in index.targets
    )


def read_capture(
    path: Path | str, *, limits: Limits | None = None, services: Sequence[Service] = ()
) -> tuple[Observed, ...]:
    """A recording as canonical snapshots, GPUs and gateways joined to engines, engines to services: those that it names, or
    else ``services``. Raises :class:`CaptureError`.
    """
    index, folder = _opened(path)
    feeds = [
        Feed(t.name, t.kind, t.pages, t.engine, t.gpus, role=t.role, gateway=t.gateway) for t in _targets(index, folder)
    ]
    return observed(feeds, limits, index.services or services)


def _index(folder: Path) -> Index:
    place = folder / INDEX
    try:
        text = place.read_bytes()
    except FileNotFoundError:
        raise CaptureError(
            f"has no {INDEX}" if folder.is_dir() else "does not exist",
            place=str(folder),
            remedy="Name a folder that 'llmvitals capture' wrote.",
        ) from None
    except OSError as error:
        raise CaptureError(
            f"cannot be read ({error.strerror})", place=str(place), remedy="Check the path and its permissions."
        ) from None
    try:
        return msgspec.json.decode(text, type=Index)
    except msgspec.DecodeError as error:  # its subclass ValidationError says where in the document
        raise CaptureError(
            f"is not a capture index ({error})", place=str(place), remedy="Restore it, or record again."
        ) from None


def _check(index: Index, folder: Path) -> None:
    place = str(folder / INDEX)
    if index.format != FORMAT:
        raise CaptureError(
            f"has format {index.format}", place=place, remedy=f"This version reads format {FORMAT}; upgrade llmvitals."
        )
    if not any(target.scrapes for target in index.targets):
        raise CaptureError("holds no scrapes", place=place, remedy="Record again, for longer.")
    names = [target.name for target in index.targets]
    for name in names:
        if names.count(name) > 1:
            raise CaptureError(f"has two targets named '{name}'", place=place, remedy="Give each its own name.")
    root = folder.resolve()
    for target in index.targets:
        if target.kind not in KINDS:
            near = difflib.get_close_matches(target.kind, sorted(KINDS), n=1, cutoff=0.0)
            raise CaptureError(
                f"target '{target.name}' has the unknown kind '{target.kind}'",
                place=place,
                remedy=f"Did you mean '{near[0]}'?" if near else "Use 'auto'.",
            )
        if target.role and target.role not in ROLES:
            raise CaptureError(
                f"target '{target.name}' has the unknown role '{target.role}'",
                place=place,
                remedy=f"Use one of: {', '.join(ROLES)}.",
            )
        for scrape in target.scrapes:
            if scrape.file is not None:
                _check_file(root, scrape.file, place)


def _check_file(root: Path, file: str, place: str) -> None:
    try:
        page = (root / file).resolve()
        inside, found = page.is_relative_to(root), page.is_file()
    except (OSError, ValueError):  # a name that no file can have
        inside, found = True, False
    if not inside:
        raise CaptureError(f"points outside its folder ('{file}')", place=place, remedy="Do not trust this recording.")
    if not found:
        raise CaptureError(
            "is missing",
            place=str(root / file[:255]),
            remedy=f"Restore it, or take its scrape out of {INDEX}.",
        )
