"""Recordings in memory: what a window is made of, from any source, in the form in which it is written and read again.

What has become snapshots already (an exporter's window, what a Prometheus stored) is recorded as pages of canonical families,
one for each moment, which give the same snapshots again.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import msgspec

from llmvitals.errors import CaptureError
from llmvitals.series import Snapshot
from llmvitals.settings import Service
from llmvitals.simulator.canonical import text
from llmvitals.sources import Observed
from llmvitals.sources.assemble import CANONICAL_KIND, Feed, observed
from llmvitals.sources.capture import (
    FORMAT,
    INDEX,
    MAX_PAGE_BYTES,
    Index,
    Judged,
    RawTarget,
    Recorded,
    Scrape,
    feed_of,
    opened,
    page_of,
    targets_of,
)
from llmvitals.sources.record import put
from llmvitals.telemetry.ingest import Limits, RawPage
from llmvitals.telemetry.ingest.page import TooLargeError, inflate

UP = "llm_target_up"
"""By this family a page of canonical families is known."""

MOST_UNPACKED = 512 * 1024 * 1024
"""The most that a zip file from elsewhere may unpack to, in bytes."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Targets with their pages, the services that they make, and by what they were judged."""

    targets: tuple[RawTarget, ...]
    services: tuple[Service, ...] = ()
    judged: Judged | None = None

    @property
    def pages(self) -> int:
        """How many scrapes there are, failed ones included."""
        return sum(len(target.pages) for target in self.targets)


class Texts(Sequence[RawPage]):
    """Snapshots as pages; each is written when it is looked at, for a window of many targets does not fit into memory twice."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots

    def __len__(self) -> int:
        return len(self._snapshots)

    @overload
    def __getitem__(self, at: int) -> RawPage: ...
    @overload
    def __getitem__(self, at: slice) -> Texts: ...
    def __getitem__(self, at: int | slice) -> RawPage | Texts:
        if isinstance(at, slice):
            return Texts(self._snapshots[at])
        one = self._snapshots[at]
        return RawPage(one.t, None, 200, text(one.samples), "", one.detail)


def of_capture(path: Path | str) -> Recording:
    """A recording on the disk; its pages are read when they are looked at. Raises :class:`CaptureError`."""
    index, folder = opened(path)
    return Recording(targets_of(index, folder), index.services, index.judged)


def of_feeds(feeds: Sequence[Feed], services: Sequence[Service] = ()) -> Recording:
    """What was watched live."""
    return Recording(
        tuple(RawTarget(f.name, f.kind, f.pages, f.engine, f.gpus, f.role, f.gateway) for f in feeds), tuple(services)
    )


def of_observed(
    seen: Sequence[Observed], services: Sequence[Service] = (), gateways: Mapping[str, str] | None = None
) -> Recording:
    """Snapshots as pages of canonical families. ``seen``: before services and gateways are joined, which is done when they are
    read (``gateways``: by engine, as the settings say).
    """
    front = gateways or {}
    targets = (
        RawTarget(
            one.name,
            # a gateway's own kit shows canonical families as well, and says nothing of the target
            CANONICAL_KIND if all(any(k.name == UP for k in s.samples) for s in one.snapshots) else "auto",
            Texts(one.snapshots),
            gateway=front.get(one.name, ""),
        )
        for one in seen
    )
    return Recording(tuple(targets), tuple(services))


def narrowed(recording: Recording, instances: Collection[str]) -> Recording:
    """What there is of these targets and services, with all that belongs to them; everything where none of it is known."""
    fronts = recording.services or any(one.gateway for one in recording.targets)
    if not fronts and sum(not one.engine for one in recording.targets) <= 2:
        return recording  # an engine and a gateway belong together where nobody says it
    wanted = set(instances)
    for service in recording.services:
        if wanted & {service.name, *service.gateways}:
            wanted |= {*service.engines, *service.gateways}
    wanted |= {one.gateway for one in recording.targets if one.name in wanted} - {""}
    # engines behind one gateway are judged together, as a service of its name, see sources/views.py
    behind = {one.name for one in recording.targets if one.gateway and one.gateway in wanted}
    wanted |= behind | {gateway for s in recording.services if wanted & set(s.engines) for gateway in s.gateways}
    own = tuple(one for one in recording.targets if wanted & {one.name, one.engine})
    if not own:
        return recording
    names = {one.name for one in own}
    services = tuple(s for s in recording.services if names.issuperset(s.engines))
    return Recording(own, services, recording.judged)


def seen_of(
    recording: Recording, limits: Limits | None = None, services: Sequence[Service] = (), *, whole: bool = False
) -> tuple[Observed, ...]:
    """As :func:`llmvitals.sources.capture.read_capture` would read it once it is written; ``whole``: with the pages before
    those that were judged.
    """
    judged = Judged() if whole or recording.judged is None else recording.judged
    feeds = [feed_of(target) for target in recording.targets]
    return observed(feeds, limits, recording.services or services, start=judged.start, end=judged.end)


def files(recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Every file of the recording, its index last, as :class:`llmvitals.sources.record.Recorder` writes them."""
    listed: list[Recorded] = []
    for number, t in enumerate(recording.targets):
        scrapes: list[Scrape] = []
        for page in t.pages:
            file = None
            if page.body is not None:
                file = f"{number}-{len(scrapes):05d}.prom.gz"
                yield file, gzip.compress(page.body, 6, mtime=0)
            scrapes.append(Scrape(page.t, file, page.took, page.status, page.error, page.detail or msgspec.UNSET))
        listed.append(Recorded(t.name, tuple(scrapes), t.kind, t.engine, t.gpus, t.role, t.gateway))
    index = Index(FORMAT, tuple(listed), recording.services, recording.judged)
    yield INDEX, msgspec.json.format(msgspec.json.encode(index), indent=1)


def write(recording: Recording, folder: Path | str) -> None:
    """Write it as a folder that ``llmvitals triage`` reads. Raises :class:`CaptureError`."""
    where = Path(folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
        for name, body in files(recording):
            put(where / name, body)
    except OSError as error:
        raise CaptureError(
            f"cannot be written ({error.strerror})", place=str(where), remedy="Choose another folder with -o."
        ) from None


def of_zip(body: bytes, *, place: str) -> Recording:
    """The recording in a zip file that came from elsewhere, held in memory. Raises :class:`CaptureError`."""
    try:
        found = _unpacked(body)
        index = msgspec.json.decode(found[INDEX], type=Index)
        if index.format != FORMAT:
            raise ValueError(f"format {index.format}")
        targets = tuple(
            RawTarget(
                t.name,
                t.kind,
                tuple(page_of(scrape, found[scrape.file] if scrape.file else None) for scrape in t.scrapes),
                t.engine,
                t.gpus,
                t.role,
                t.gateway,
            )
            for t in index.targets
        )
    except _DAMAGED as error:
        raise CaptureError(
            f"answered with a recording that cannot be read ({error or 'it is too large'})",
            place=place,
            remedy="Bring the exporter and this reader to the same version.",
        ) from None
    return Recording(targets, index.services, index.judged)


_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, TooLargeError),
    *(KeyError, ValueError, EOFError, OSError),
    RuntimeError,  # locked by a password, packed in a way that is not known, or an index nested without end
)


def _unpacked(body: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        if sum(one.file_size for one in packed.infolist()) > MOST_UNPACKED:
            raise ValueError("it is too large")
        return {one.filename: inflate(packed.read(one), MAX_PAGE_BYTES) for one in packed.infolist()}
