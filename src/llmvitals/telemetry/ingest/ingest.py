"""From pages to canonical snapshots, one :class:`Ingest` per target."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from llmvitals.errors import LlmvitalsError, PageError, SettingsError
from llmvitals.series import Series, Snapshot
from llmvitals.telemetry.engines import passthrough
from llmvitals.telemetry.ingest.exposition import split_sample
from llmvitals.telemetry.ingest.page import Limits, RawPage, look_at, readable
from llmvitals.telemetry.ingest.reader import Reader
from llmvitals.telemetry.ingest.settle import Settle
from llmvitals.telemetry.mapping import Adapter
from llmvitals.telemetry.registry import ADAPTERS, DOCUMENTS, FOREIGN, claims, speaks

_POINT_AT = (
    f"Point at the metrics page of one of: {', '.join(adapter.title for adapter in ADAPTERS)}; "
    "a vLLM started with --disable-log-stats shows none of its own."
)

KINDS: tuple[str, ...] = ("auto", *(adapter.kind for adapter in ADAPTERS))


class Ingest:
    """Reads one target's pages. ``kind`` is one of :data:`KINDS`; ``labels`` are added to every sample."""

    def __init__(
        self,
        *,
        instance: str,
        kind: str = "auto",
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        if kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.0)[0]
            remedy = f"Did you mean '{near}'? There are: {', '.join(KINDS)}."
            raise SettingsError(f"unknown kind '{kind}'", place=instance, remedy=remedy)
        self._instance = instance
        self._kind = kind
        self._limits = limits or Limits()
        self._base = {**(labels or {}), "instance": instance}
        self._adapter: Adapter | None = None
        self._reader: Reader
        self._settle: Settle
        self._notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the newest page, in sentences."""
        return self._notes

    @property
    def adapter(self) -> Adapter | None:
        """What reads the target's pages, once one was recognised."""
        return self._adapter

    @property
    def reader(self) -> Reader:
        """The memory of the target's pages, once one was recognised."""
        return self._reader

    def snapshot(self, page: RawPage) -> Snapshot:
        """The page as a snapshot; a page that cannot be read gives ``llm_target_up`` 0 and a sentence. Never raises."""
        try:
            return self.read(page)
        except LlmvitalsError as error:
            samples = self._target(page, up=0.0)
            samples.setdefault(self._own("llm_target_status"), 0.0)
            return Snapshot(page.t, samples, detail=str(error))

    def read(self, page: RawPage) -> Snapshot:
        """The page as a snapshot.

        Raises :class:`~llmvitals.errors.UnreachableError` when there was no page, and
        :class:`~llmvitals.errors.PageError` when it cannot be read or is none of an engine that is understood.
        """
        body = readable(
            page, place=self._instance, limits=self._limits, documents=DOCUMENTS, known=self._speaks_as_before
        )
        adapter = self._recognise(body, page)
        read = self._reader.read(body)
        self._notes = self._reader.notes()
        samples = self._settle.samples(read)
        if adapter is not passthrough.ADAPTER:  # an exporter may have said that the target behind it is down
            for series, value in self._target(page, up=1.0).items():
                samples.setdefault(series, value)
        return Snapshot(page.t, samples, page.detail)

    def _own(self, family: str) -> Series:
        return Series(family, tuple(sorted(self._base.items())))

    def _target(self, page: RawPage, *, up: float) -> dict[Series, float]:
        samples = {self._own("llm_target_up"): up}
        if page.took is not None:
            samples[self._own("llm_target_answer_seconds")] = page.took
        if page.status is not None:
            samples[self._own("llm_target_status")] = float(page.status)
        return samples

    def _recognise(self, body: bytes, page: RawPage) -> Adapter:
        """The adapter that reads this page; a target that becomes another kind is read afresh.

        A target that still speaks as it did is not held against every kind again.
        """
        if self._adapter is not None and self._speaks_as_before(body):
            return self._adapter
        adapter = claims(body, self._kind)
        if adapter is None:
            raise self._not_understood(body, page)
        self._adapter = adapter
        self._reader = Reader(adapter, self._base, self._limits)
        self._settle = Settle(adapter, self._base)
        return adapter

    def _speaks_as_before(self, body: bytes) -> bool:
        return self._adapter is not None and any(speaks(body, start) for start in self._adapter.claims)

    def _not_understood(self, body: bytes, page: RawPage) -> PageError:
        foreign = next((title for start, title in FOREIGN if speaks(body, start)), None)
        wanted = next((a for a in ADAPTERS if a.kind == self._kind), None)
        if foreign is not None:
            thing = f"this is a page of {foreign}, which is not understood here"
        elif wanted is not None:
            thing = f"this is no page of {wanted.title}"
        elif any(split_sample(line) for line in body[:65536].splitlines()):
            thing = "this is a metrics page, but of no engine that is understood"
        else:
            return PageError("there is no metric on it", place=self._instance, remedy=look_at(page))
        remedy = wanted.none_found if wanted is not None else _POINT_AT
        return PageError(thing, place=self._instance, remedy=remedy)
