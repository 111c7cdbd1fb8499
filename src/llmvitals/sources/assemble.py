"""Raw pages of several targets become canonical snapshots; pages of GPUs, hosts and gateways are joined to their engine."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Snapshot
from llmvitals.settings import Target
from llmvitals.sources import Observed
from llmvitals.sources.place import name_of
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage

GPU_KIND = "dcgm"
CANONICAL_KIND = "llmvitals"
_BESIDE = frozenset({Origin.GPU, Origin.HOST, Origin.GATEWAY})
JOIN_SECONDS = 10.0
"""A GPU page further than this from an engine page says nothing about it (dcgm-exporter collects at least that often)."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One target and where its pages come from. For a GPU page: ``engine`` names the target that runs on ``gpus``.

    ``engine`` '' means the only engine there is; ``gpus`` () means all GPUs on the page. A page of canonical families with an
    ``engine`` shows what is beside that engine (GPUs, host, gateway), with the engine's own ``instance`` on its samples.
    """

    name: str
    kind: str
    pages: Sequence[RawPage]
    engine: str = ""
    gpus: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def companions(targets: Sequence[Target]) -> tuple[tuple[Target, str], ...]:
    """What must be scraped for these targets: each with '', and the page of its GPUs with the engine's name."""
    wanted: list[tuple[Target, str]] = []
    for target in targets:
        wanted.append((target, ""))
        if target.gpu_url:
            gpu = Target(url=target.gpu_url, name=f"{name_of(target)}/gpu", kind=GPU_KIND, gpus=target.gpus)
            wanted.append((gpu, name_of(target)))
    return tuple(wanted)


def observed(feeds: Sequence[Feed], limits: Limits | None = None) -> tuple[Observed, ...]:
    """Canonical snapshots per target. What is beside an engine is merged into it; what fits no engine stays by itself."""
    engines = [feed for feed in feeds if not _is_beside(feed)]
    owners = {id(feed): _owner(feed, engines) for feed in feeds if _is_beside(feed)}
    found: list[Observed] = []
    for feed in feeds:
        if owners.get(id(feed)) is None:
            beside = [other for other in feeds if owners.get(id(other)) == feed.name]
            found.append(Observed(feed.name, feed.kind, tuple(_snapshots(feed, beside, limits))))
    return tuple(found)


def is_gpu_only(seen: Observed) -> bool:
    """Whether a target is a GPU page that was joined to no engine: there is nothing in it to judge."""
    return any(
        key.name == "llm_target_info" and key.label("engine") == GPU_KIND
        for snapshot in seen.snapshots
        for key in snapshot.samples
    )


def _is_beside(feed: Feed) -> bool:
    return feed.kind == GPU_KIND or (feed.kind == CANONICAL_KIND and bool(feed.engine))


def _owner(beside: Feed, engines: Sequence[Feed]) -> str | None:
    if beside.engine:
        return next((feed.name for feed in engines if feed.name == beside.engine), None)
    return engines[0].name if len(engines) == 1 else None


def _snapshots(feed: Feed, beside: Sequence[Feed], limits: Limits | None) -> Iterator[Snapshot]:
    seen = [(other, tuple(_read(other, limits))) for other in beside]
    for snapshot in _read(feed, limits):
        joined = snapshot
        for other, pages in seen:
            near = _nearest(pages, snapshot.t)
            if near is not None and other.kind == GPU_KIND:
                joined = join_gpus(joined, near, other.gpus, instance=feed.name, model="")
            elif near is not None:
                joined = _with(joined, near, feed.name)
        yield joined


def _with(engine: Snapshot, canonical: Snapshot, instance: str) -> Snapshot:
    """The engine's snapshot with what a canonical page shows beside it; how that page was reached is not the engine's."""
    own = {
        key: value
        for key, value in canonical.samples.items()
        if origin_of(key.name) in _BESIDE and key.label("instance") == instance
    }
    return Snapshot(engine.t, {**engine.samples, **own}, engine.detail)


def _read(feed: Feed, limits: Limits | None) -> Iterator[Snapshot]:
    ingest = Ingest(instance=feed.name, kind=feed.kind, labels=dict(feed.labels), limits=limits)
    return (ingest.snapshot(page) for page in feed.pages)


def _nearest(pages: Sequence[Snapshot], t: float) -> Snapshot | None:
    at = bisect_left(pages, t, key=lambda page: page.t)
    near = min(pages[max(at - 1, 0) : at + 1], key=lambda page: abs(page.t - t), default=None)
    return near if near is not None and abs(near.t - t) <= JOIN_SECONDS else None
