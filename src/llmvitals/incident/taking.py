"""A recording as it may leave: every page, name and promise of it through the redaction."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

import msgspec

from llmvitals.incident.aliases import Aliases, kind_of
from llmvitals.incident.redaction import Redactor, cleaned, unescaped
from llmvitals.settings import Service, Slo
from llmvitals.sources.capture import MAX_PAGE_BYTES, RawTarget
from llmvitals.sources.recording import Recording
from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.ingest.page import TooLargeError, inflate

_LABEL = re.compile(rb'([A-Za-z_]\w*)="((?:[^"\\\n]|\\.)*)"')
_APART = ("/machine", "/gpu")
"""What is behind the name of a target on pages of what stands beside it."""


class _Cleaned(Sequence[RawPage]):
    """Pages that are cleaned when they are looked at: a long recording does not fit into memory."""

    def __init__(self, pages: Sequence[RawPage], redactor: Redactor) -> None:
        self._pages, self._redactor = pages, redactor

    def __len__(self) -> int:
        return len(self._pages)

    @overload
    def __getitem__(self, at: int) -> RawPage: ...
    @overload
    def __getitem__(self, at: slice) -> _Cleaned: ...
    def __getitem__(self, at: int | slice) -> RawPage | _Cleaned:
        if isinstance(at, slice):
            return _Cleaned(self._pages[at], self._redactor)
        page, clean = self._pages[at], self._redactor
        body = None if page.body is None else clean.page(_plain(page.body))
        return replace(page, body=body, error=clean.text(page.error), detail=clean.text(page.detail))


def _plain(body: bytes) -> bytes:
    """A body unpacked; what is no page that could be read is not taken along."""
    try:
        return inflate(body, MAX_PAGE_BYTES)
    except (TooLargeError, zlib.error):
        return b""


def aliases_of(recording: Recording) -> Aliases:
    """The aliases of everything that a recording names."""
    return Aliases(_named(recording))


def _named(recording: Recording) -> Iterator[tuple[str, str]]:
    known = {one.name for one in recording.targets}
    for one in recording.targets:
        bases = [one.name.removesuffix(end) for end in _APART if one.name.endswith(end)]
        if not any(base in known for base in bases):
            yield "instance", one.name
    for service in recording.services:
        yield "service", service.name
        if service.model:
            yield "model", service.model
    seen: set[tuple[bytes, bytes]] = set()
    for one in recording.targets:
        for page in one.pages:
            seen.update(_LABEL.findall(_plain(page.body or b"")))
    for label, value in seen:
        kind = kind_of(label.decode())
        text = unescaped(value.decode(errors="surrogateescape"))
        if kind is not None and text and text not in known:
            yield kind, text


def clean(recording: Recording, redactor: Redactor, aliases: Aliases) -> Recording:
    """The recording as it may leave. ``aliases``: those of the redactor, for the promises."""
    names = {one.name: redactor.name(one.name) for one in recording.targets}
    names |= {name: redactor.name(name) for s in recording.services for name in (s.name, *s.engines, *s.gateways)}
    names |= {one.gateway: redactor.name(one.gateway) for one in recording.targets if one.gateway}
    targets = tuple(_target(one, names, redactor) for one in recording.targets)
    judged = recording.judged
    if judged is not None:
        judged = msgspec.structs.replace(judged, slo=_slo(judged.slo, redactor, aliases))
    return Recording(targets, tuple(_service(s, names, redactor) for s in recording.services), judged)


def _slo(slo: Slo, redactor: Redactor, aliases: Aliases) -> Slo:
    return msgspec.convert(cleaned(msgspec.to_builtins(aliases.slo(slo)), redactor.secretless), Slo)


def _target(one: RawTarget, names: dict[str, str], redactor: Redactor) -> RawTarget:
    return RawTarget(
        names[one.name],
        one.kind,
        _Cleaned(one.pages, redactor),
        names.get(one.engine, redactor.name(one.engine)) if one.engine else "",
        tuple(redactor.secretless(gpu) for gpu in one.gpus),
        one.role,
        names.get(one.gateway, ""),
    )


def _service(one: Service, names: dict[str, str], redactor: Redactor) -> Service:
    return Service(
        name=names[one.name],
        engines=tuple(names[name] for name in one.engines),
        gateways=tuple(names[name] for name in one.gateways),
        model=redactor.name(one.model) if one.model else "",
    )
