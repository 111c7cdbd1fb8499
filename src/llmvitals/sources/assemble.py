"""Raw pages of several targets become canonical snapshots; GPU pages are joined to the engine that they belong to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from llmvitals.series import Snapshot
from llmvitals.settings import Target
from llmvitals.sources import Observed
from llmvitals.sources.place import name_of
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage

GPU_KIND = "dcgm"
JOIN_SECONDS = 10.0
"""A GPU page further than this from an engine page says nothing about it (dcgm-exporter collects at least that often)."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One target and where its pages come from. For a GPU page: ``engine`` names the target that runs on ``gpus``.

    ``engine`` '' means the only engine there is; ``gpus`` () means all GPUs on the page.
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
    """Canonical snapshots per target. A GPU target is merged into its engine; one that fits no engine stays by itself."""
    engines = [feed for feed in feeds if feed.kind != GPU_KIND]
    owners = {id(feed): _owner(feed, engines) for feed in feeds if feed.kind == GPU_KIND}
    found: list[Observed] = []
    for feed in feeds:
        if owners.get(id(feed)) is None:
            gpus = [other for other in feeds if owners.get(id(other)) == feed.name]
            found.append(Observed(feed.name, feed.kind, tuple(_snapshots(feed, gpus, limits))))
    return tuple(found)


def is_gpu_only(seen: Observed) -> bool:
    """Whether a target is a GPU page that was joined to no engine: there is nothing in it to judge."""
    return any(
        key.name == "llm_target_info" and key.label("engine") == GPU_KIND
        for snapshot in seen.snapshots
        for key in snapshot.samples
    )


def _owner(gpu: Feed, engines: Sequence[Feed]) -> str | None:
    if gpu.engine:
        return next((feed.name for feed in engines if feed.name == gpu.engine), None)
    return engines[0].name if len(engines) == 1 else None


def _snapshots(feed: Feed, gpus: Sequence[Feed], limits: Limits | None) -> Iterator[Snapshot]:
    seen = [(gpu, tuple(_read(gpu, limits))) for gpu in gpus]
    for snapshot in _read(feed, limits):
        joined = snapshot
        for gpu, pages in seen:
            near = _nearest(pages, snapshot.t)
            if near is not None:
                joined = join_gpus(joined, near, gpu.gpus, instance=feed.name, model="")
        yield joined


def _read(feed: Feed, limits: Limits | None) -> Iterator[Snapshot]:
    ingest = Ingest(instance=feed.name, kind=feed.kind, labels=dict(feed.labels), limits=limits)
    return (ingest.snapshot(page) for page in feed.pages)


def _nearest(pages: Sequence[Snapshot], t: float) -> Snapshot | None:
    at = bisect_left(pages, t, key=lambda page: page.t)
    near = min(pages[max(at - 1, 0) : at + 1], key=lambda page: abs(page.t - t), default=None)
    return near if near is not None and abs(near.t - t) <= JOIN_SECONDS else None
