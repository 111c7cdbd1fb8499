"""What a PromQL endpoint holds of servers: our exporter's series, or else those of engines that it scrapes itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmvitals.schema import origin_of
from llmvitals.settings import Access
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.assemble import BESIDE
from llmvitals.sources.promql import NAMES, nothing, observed
from llmvitals.sources.promql_api import Endpoint, Question, bare
from llmvitals.sources.promql_raw import RawNames, RawTargets, read
from llmvitals.sources.reach import MOST_SECONDS, WIDER, interval, reaching, there
from llmvitals.telemetry.ingest import Limits

RAW_NOTE = "holds no llm_ series of an exporter; read are the series of the engines that it scrapes itself"


@dataclass(frozen=True, slots=True)
class Found:
    """The targets of an endpoint. ``raw``: they were made of engines' own series.

    ``told``: what the server says of an answer that is not whole. ``seconds``: how far back it reaches, where that is farther than
    was asked, 0 else.
    """

    observed: tuple[Observed, ...]
    raw: bool
    told: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def note(self) -> str:
        """What is to be said of how far back it reaches; '' where that is as asked."""
        every = max((interval([page.t for page in one.snapshots]) for one in self.observed), default=0.0)
        return f"scraped every {every:.0f} s, so the last {self.seconds:.0f} s are judged" if self.seconds else ""


def read_stored(
    url: str,
    *,
    selector: str = "",
    at: float | None = None,
    seconds: float = 90.0,
    limits: Limits | None = None,
    instances: Sequence[str] = (),
    access: Access = NOBODY,
    pages: int = 0,
) -> Found:
    """What was stored in the ``seconds`` up to ``at`` (unix seconds; None is now): an exporter's series, else engines' own.

    ``instances``: targets that the settings name, among which gateways are looked for. ``pages``: where less of them are stored in
    these seconds, as is scraped seldom, it reaches farther back (:mod:`llmvitals.sources.reach`). Raises :class:`UnreachableError`,
    :class:`PageError` or :class:`SettingsError`.
    """
    question = Question(bare(selector), at, seconds)
    end = time.time() if at is None else at
    with Endpoint(url, access=access) as endpoint:

        def own(back: float) -> tuple[Observed, ...]:
            return observed(endpoint.samples(NAMES, replace(question, seconds=back)))

        def raw(back: float) -> tuple[Observed, ...]:
            names = RawNames.among(endpoint.names(end - back, end, question.narrow))
            asked = replace(question, seconds=back)
            return RawTargets(limits).observed(read(endpoint, names, asked, instances=instances))

        # nothing at all may be nothing yet: then once more, farther back
        for back in (seconds, *((seconds * WIDER,) if pages and seconds * WIDER < MOST_SECONDS else ())):
            ours, span = reaching(own, back, pages, end)
            theirs: tuple[Observed, ...] = ()
            # others than our exporter show canonical names as well: a gateway's kit does
            if not any(
                origin_of(key.name) not in BESIDE for one in ours for page in one.snapshots[-1:] for key in page.samples
            ):
                theirs, wide = reaching(raw, back, pages, end)
                ours, span = (theirs, wide) if theirs else (ours, span)
            seen = ours if span <= seconds else there(ours, end)
            if seen:
                return Found(seen, bool(theirs), endpoint.told, span if span > seconds else 0.0)
        raise nothing(endpoint, question)
