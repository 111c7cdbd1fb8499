"""What a PromQL endpoint holds of servers: our exporter's series, or else those of engines that it scrapes itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from llmvitals.schema import origin_of
from llmvitals.settings import Access
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.assemble import BESIDE
from llmvitals.sources.promql import NAMES, nothing, observed
from llmvitals.sources.promql_api import Endpoint, Question, bare
from llmvitals.sources.promql_raw import RawNames, RawTargets, read
from llmvitals.telemetry.ingest import Limits

RAW_NOTE = "holds no llm_ series of an exporter; read are the series of the engines that it scrapes itself"


@dataclass(frozen=True, slots=True)
class Found:
    """The targets of an endpoint. ``raw``: they were made of engines' own series.

    ``told``: what the server says of an answer that is not whole.
    """

    observed: tuple[Observed, ...]
    raw: bool
    told: tuple[str, ...] = ()


def read_stored(
    url: str,
    *,
    selector: str = "",
    at: float | None = None,
    seconds: float = 90.0,
    limits: Limits | None = None,
    instances: Sequence[str] = (),
    access: Access = NOBODY,
) -> Found:
    """What was stored in the ``seconds`` up to ``at`` (unix seconds; None is now): an exporter's series, else engines' own.

    ``instances``: targets that the settings name, among which gateways are looked for. Raises :class:`UnreachableError`,
    :class:`PageError` or :class:`SettingsError`.
    """
    question = Question(bare(selector), at, seconds)
    with Endpoint(url, access=access) as endpoint:
        own = observed(endpoint.samples(NAMES, question))
        # others than our exporter show canonical names as well: a gateway's kit does
        if any(origin_of(key.name) not in BESIDE for one in own for page in one.snapshots[-1:] for key in page.samples):
            return Found(own, raw=False, told=endpoint.told)
        end = time.time() if at is None else at
        names = RawNames.among(endpoint.names(end - seconds, end, question.narrow))
        raw = RawTargets(limits).observed(read(endpoint, names, question, instances=instances))
        if raw:
            return Found(raw, raw=True, told=endpoint.told)
        if own:
            return Found(own, raw=False, told=endpoint.told)
        raise nothing(endpoint, question)
