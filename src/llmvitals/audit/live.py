"""How the engines of a source are set up, as their pages say it: from an exporter of ours, or a PromQL endpoint."""

from __future__ import annotations

import time

from llmvitals.audit.model import AuditError, Setup
from llmvitals.audit.told import FAMILIES, TARGET, of_samples, page
from llmvitals.settings import Source
from llmvitals.sources.client import Client
from llmvitals.sources.exporter import MOST_ANSWER_BYTES, PAGE_SECONDS, root_url
from llmvitals.sources.promql_api import Endpoint

MOST_SETUPS = 200
"""Engines that are shown; of a larger fleet most are set up alike."""


def setups(source: Source, at: float | None = None) -> tuple[Setup, ...]:
    """Every vLLM engine of a source, at the moment ``at`` (unix seconds; None is now).

    Raises :class:`AuditError` where no page says how an engine is set up, and the errors of a source that does not answer.
    """
    found = _stored(source, time.time() if at is None else at) if source.kind == "prometheus" else _exported(source)
    if not found:
        remedy = "vLLM's page says it in cache_config_info; paste the command or the log of its start instead."
        raise AuditError("tells of no engine how it is set up", place=source.name, remedy=remedy)
    return found[:MOST_SETUPS]


def _exported(source: Source) -> tuple[Setup, ...]:
    url = root_url(source.url)
    with Client(url, source.access, timeout_s=PAGE_SECONDS, most_bytes=MOST_ANSWER_BYTES) as client:
        reply = client.get("/metrics")
    if not reply.ok:
        remedy = "Check the path, and under access what lets us in."
        raise AuditError(f"answered {reply.status}", place=f"{url}/metrics", remedy=remedy)
    return page(reply.body.decode("utf-8", errors="replace"), place=source.name)


def _stored(source: Source, at: float) -> tuple[Setup, ...]:
    with Endpoint(source.url, access=source.access) as endpoint:
        answer = endpoint.now(f'{{__name__=~"{"|".join((*FAMILIES, TARGET))}"}}', at)
    samples = []
    for one in answer:
        labels = dict(one.labels)
        labels["instance"] = labels.get("exported_instance") or labels.get("instance", "")
        samples.append((labels.get("__name__", ""), labels, float(one.points[-1][1])))
    return of_samples(samples, place=source.name)
