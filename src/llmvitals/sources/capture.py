"""Recordings: a folder with ``capture.json`` and the pages as received.

Format 1: ``{"format": 1, "targets": [{"name", "kind", "scrapes": [{"t", "file", "took", "status"}]}]}``, beside which
``services`` may stand as in the settings, and with a target its ``role`` and its ``gateway``. ``t`` is the unix time at which
the page had arrived, ``took`` the seconds the target needed; a scrape without an answer has no file and may carry ``error``.
Pages may be gzip-compressed. ``judged`` may say by which promises and thresholds, and over which moments, a verdict was given.
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
from llmvitals.settings import ROLES, Service, Settings, Slo, Struct, Thresholds
from llmvitals.sources import Observed
from llmvitals.sources.assemble import Feed, observed
from llmvitals.telemetry.ingest import KINDS, Limits, RawPage
from llmvitals.telemetry.ingest.page import TooLargeError, inflate

INDEX = "capture.json"
INSIDE = "capture"
"""The folder of the recording in that of an incident's report."""
FORMAT = 1
MAX_PAGE_BYTES = 64 * 1024 * 1024
"""A page larger than this after decompression is no metrics page: it protects against a decompression bomb."""


class Scrape(msgspec.Struct, frozen=True):
    """One attempt at one target; ``file`` is None when no answer came. ``detail``: as that of a raw page."""

    t: float
    file: str | None = None
    took: float | None = None
    status: int | None = None
    error: str = ""
    detail: str | msgspec.UnsetType = msgspec.UNSET


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """All scrapes of one target. A GPU page, and one of canonical families, may say by ``engine`` (and ``gpus``) whose it is."""

    name: str
    scrapes: tuple[Scrape, ...]
    kind: str
    engine: str = ""
    gpus: tuple[str, ...] = ()
    role: str = ""
    gateway: str = ""


class Judged(Struct, frozen=True):
    """By what a verdict on a recording was given: promises, thresholds, and the pages from ``start`` to ``end`` (unix seconds;
    None: as far as there are pages).
    """

    slo: Slo = Slo()
    thresholds: Thresholds = Thresholds()
    start: float | None = None
    end: float | None = None

    def settings(self, own: Settings) -> Settings:
        """The settings with these promises and thresholds."""
        return msgspec.structs.replace(own, slo=self.slo, thresholds=self.thresholds)


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of ``capture.json``."""

    format: int
    targets: tuple[Recorded, ...] = ()
    services: tuple[Service, ...] = ()
    judged: Judged | None = None


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
        return page_of(scrape, body)


@dataclass(frozen=True, slots=True)
class RawTarget:
    """One recorded target with its pages as received, in order of time."""

    name: str
    kind: str
    pages: Sequence[RawPage]
    engine: str = ""
    gpus: tuple[str, ...] = ()
    role: str = ""
    gateway: str = ""


def page_of(scrape: Scrape, body: bytes | None) -> RawPage:
    """A recorded scrape as it came, with what its file holds."""
    detail = "" if scrape.detail is msgspec.UNSET else scrape.detail
    return RawPage(scrape.t, scrape.took, scrape.status, body, scrape.error, detail)


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
    return targets_of(*opened(path))


def opened(path: Path | str) -> tuple[Index, Path]:
    """The index of a recording and its folder; of an incident's report, the recording in it. Raises :class:`CaptureError`."""
    given = Path(path)
    folder = given.parent if given.name == INDEX else given
    if not (folder / INDEX).exists() and (folder / INSIDE / INDEX).exists():
        folder = folder / INSIDE
    index = _index(folder)
    _check(index, folder)
    return index, folder


def targets_of(index: Index, folder: Path) -> tuple[RawTarget, ...]:
    """The targets of an index with their pages."""
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
    else ``services``; where it says which moments were judged, those alone. Raises :class:`CaptureError`.
    """
    index, folder = opened(path)
    judged = index.judged or Judged()
    feeds = [feed_of(target) for target in targets_of(index, folder)]
    return observed(feeds, limits, index.services or services, start=judged.start, end=judged.end)


def feed_of(target: RawTarget) -> Feed:
    """A recorded target as what snapshots are made of."""
    t = target
    return Feed(t.name, t.kind, t.pages, t.engine, t.gpus, role=t.role, gateway=t.gateway)


def judged_by(path: Path | str) -> Judged | None:
    """By what a verdict on a recording was given, where it says so. Raises :class:`CaptureError`."""
    return opened(path)[0].judged


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
