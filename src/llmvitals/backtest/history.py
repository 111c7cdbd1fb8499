"""A range of a user's own Prometheus, read piece by piece in order of time: a week of a fleet never sits in memory at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from llmvitals.backtest.moments import RECORDED_SECONDS
from llmvitals.errors import PageError
from llmvitals.exporters.watch import limits_of
from llmvitals.schema import family_of
from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.signals.service import UP
from llmvitals.sources import Observed
from llmvitals.sources.assemble import joined
from llmvitals.sources.place import fronts, name_of
from llmvitals.sources.promql import observed
from llmvitals.sources.promql_api import Endpoint, Question, SlowError, Stored, TooMuchError, bare
from llmvitals.sources.promql_raw import RawNames, RawTargets, read

LEAD_SECONDS = 2 * RECORDED_SECONDS
"""Read before the first moment, and kept of what was read: what windows hold, of servers scraped every 100 s or more often."""

FIRST_SECONDS, LEAST_SECONDS, MOST_SECONDS = 600.0, 60.0, 6 * 3600.0
"""How long the first piece is, and how far pieces shrink and grow."""

SAMPLES_PER_PIECE = 500_000
"""What pieces aim at: some 20 MB as JSON, a hundredth of what a Prometheus loads for one query by default."""

GROWS = 4.0
"""A piece is at most so many times as long as the one before: one that was nearly empty says little about the next."""

RETRIES = 6
"""Times that a server which is away is asked again: half a minute in all."""

LESS = "--selector or a shorter range"


@dataclass(frozen=True, slots=True)
class Piece:
    """Targets as a triage judges them, with their pages up to a moment (unix seconds) and of the minutes before the piece."""

    observed: tuple[Observed, ...]
    begin: float
    end: float


class History:
    """What an endpoint holds. ``raw``: engines' own series, since it has none of an exporter.

    Raises :class:`PageError` where it has neither between the two moments, and the errors of :meth:`Endpoint.samples`.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, *, start: float, end: float, selector: str = "") -> None:
        self._endpoint, self._settings, self._start = endpoint, settings, start
        self._end = math.ceil(end * 1000) / 1000  # servers are asked to the millisecond
        self._narrow = bare(selector)
        held = endpoint.names(start - LEAD_SECONDS, end, self._narrow)
        self._names = tuple(sorted(name for name in held if family_of(name) is not None))
        self.raw = UP not in held
        self._raw_names = RawNames.among(held)
        if self.raw and not self._raw_names.engines:
            raise PageError(
                "holds no llm_ series of an exporter, and none of an engine that is understood",
                place=endpoint.place,
                remedy="Let it scrape an llmvitals exporter or the engines, and check --selector, --from and --to.",
            )
        self._targets = RawTargets(limits_of(settings))
        self._tails: dict[str, Observed] = {}

    def pieces(self) -> Iterator[Piece]:
        """The whole range, oldest first."""
        begin, seconds = round(self._start - LEAD_SECONDS, 3), LEAD_SECONDS + FIRST_SECONDS
        while begin < self._end:
            stored, end = self._read(begin, min(seconds, self._end - begin))
            yield Piece(self._joined(stored, begin), begin, end)
            size = sum(len(one.points) for one in stored)
            grown = (end - begin) * min(GROWS, SAMPLES_PER_PIECE / max(1, size))
            begin, seconds = end, min(MOST_SECONDS, max(LEAST_SECONDS, grown))

    def _read(self, begin: float, seconds: float) -> tuple[Sequence[Stored], float]:
        """The series from ``begin`` on, of as many seconds as the server gives at once, and where they end."""
        while True:
            end = round(begin + seconds, 3)
            least = seconds <= LEAST_SECONDS
            try:
                stored = self._asked(Question(self._narrow, end, end - begin, parts=least))
            except (TooMuchError, SlowError):
                if least:
                    raise
                seconds = max(LEAST_SECONDS, seconds / 2)
            else:
                # servers count the begin of a range in, or do not
                return [replace(one, points=tuple(p for p in one.points if p[0] > begin)) for one in stored], end

    def _asked(self, question: Question) -> Sequence[Stored]:
        if not self.raw:
            return tuple(self._endpoint.samples(self._names, question))
        instances = tuple(map(name_of, self._settings.targets))
        known = tuple(self._targets.known)
        return read(self._endpoint, self._raw_names, question, targets=known, instances=instances)

    def _joined(self, stored: Sequence[Stored], begin: float) -> tuple[Observed, ...]:
        """The targets of a piece and of those before, gateways and services joined."""
        with_samples = [one for one in stored if one.points]
        seen = self._targets.observed(with_samples) if self.raw else observed(with_samples)
        found = {name: replace(one, snapshots=_since(one.snapshots, begin)) for name, one in self._tails.items()}
        for one in seen:
            before = found[one.name].snapshots if one.name in found else ()
            found[one.name] = replace(one, snapshots=(*before, *one.snapshots))
        self._tails = found
        return joined(tuple(found.values()), self._settings.services, fronts(self._settings.targets))


def _since(pages: Sequence[Snapshot], begin: float) -> tuple[Snapshot, ...]:
    return tuple(page for page in pages if page.t > begin - LEAD_SECONDS)
