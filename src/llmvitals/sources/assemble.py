"""Raw pages of several targets become canonical snapshots; what stands beside or in front of engines is joined to them, and
engines that serve together are seen as one service too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmvitals.schema import Origin, origin_of
from llmvitals.series import Series, Snapshot
from llmvitals.settings import Service, Target
from llmvitals.sources import Observed
from llmvitals.sources.place import name_of
from llmvitals.sources.roles import with_role
from llmvitals.sources.service import Member, models_of, stopped
from llmvitals.sources.views import Placed, is_gateway, kind_shown, merged, nearest, views, with_gateways
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.match import match_page
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage
from llmvitals.telemetry.registry import ADAPTERS

GPU_KINDS: frozenset[str] = frozenset(adapter.kind for adapter in ADAPTERS if adapter.origin is Origin.GPU)
CANONICAL_KIND = "llmvitals"
BESIDE = frozenset({Origin.GPU, Origin.HOST, Origin.GATEWAY})
"""Whose families say what stands beside an engine or in front of it: without others there is no server to judge."""

SERVICE_KIND = "service"
"""What a service is called where an engine's kind would stand."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One target and where its pages come from. For a GPU page: ``engine`` names the target that runs on ``gpus``.

    ``engine`` '' means the only engine there is; ``gpus`` () means all GPUs on the page, if no other engine has it. A page of
    canonical families with an ``engine`` shows what is beside that engine (GPUs, host, gateway), with the engine's own
    ``instance`` on its samples.
    ``role`` and ``gateway``: what the settings say of an engine.
    """

    name: str
    kind: str
    pages: Sequence[RawPage]
    engine: str = ""
    gpus: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    role: str = ""
    gateway: str = ""


def companions(targets: Sequence[Target]) -> tuple[tuple[Target, str], ...]:
    """What must be scraped for these targets: each with '', and the page of its GPUs with the engine's name."""
    wanted: list[tuple[Target, str]] = []
    for target in targets:
        wanted.append((target, ""))
        if target.gpu_url:
            gpu = Target(
                url=target.gpu_url,
                access=target.gpu_access,
                name=f"{name_of(target)}/gpu",
                kind="auto",
                gpus=target.gpus,
            )
            wanted.append((gpu, name_of(target)))
    return tuple(wanted)


def observed(
    feeds: Sequence[Feed],
    limits: Limits | None = None,
    services: Sequence[Service] = (),
    *,
    start: float | None = None,
    end: float | None = None,
) -> tuple[Observed, ...]:
    """Canonical snapshots per target, those of services first. What is beside an engine is merged into it, and so is the
    gateway in front of it; what fits no engine stays by itself.

    ``start``, ``end`` (unix seconds): only the pages from and up to then are given; earlier ones are read all the same, for
    what a page means may follow from those before it.
    """
    first = float("-inf") if start is None else start
    last = float("inf") if end is None else end
    engines = [feed for feed in feeds if not _is_beside(feed)]
    owners = {id(feed): _owner(feed, engines) for feed in feeds if _is_beside(feed)}
    beside = [_Beside(feed, owner, tuple(_read(feed, limits))) for feed in feeds if (owner := owners.get(id(feed)))]
    seen: list[Observed] = []
    for feed in feeds:
        if owners.get(id(feed)) is None:
            pages = (with_role(page, feed.role) for page in _snapshots(feed, beside, limits))
            seen.append(Observed(feed.name, feed.kind, tuple(page for page in pages if first <= page.t <= last)))
    return joined(seen, services, {feed.name: feed.gateway for feed in feeds if feed.gateway})


def joined(
    seen: Sequence[Observed], services: Sequence[Service], gateways: Mapping[str, str] | None = None
) -> tuple[Observed, ...]:
    """Targets with their gateways joined (``gateways``: by engine, as the settings say), services first."""
    front = gateways or {}
    cards = {one.name for one in seen if is_gpu_only(one)}
    placed = [
        Placed(one.name, front.get(one.name, ""), one.name in front.values() or is_gateway(one.kind, one.snapshots))
        for one in seen
        if one.name not in cards
    ]
    found = views(placed, services)
    pages = {one.name: one.snapshots for one in seen}
    out = [Observed(service.name, SERVICE_KIND, merged(service, pages), service.engines) for service in found.services]
    for one in seen:
        gateway = (found.fronts or {}).get(one.name)
        if gateway is not None:
            models = models_of([Member(one.name, one.snapshots)])
            out.append(replace(one, snapshots=with_gateways(one.name, one.snapshots, (gateway,), pages, models)))
        elif one.name not in found.joined or stopped(one.snapshots):
            out.append(one)  # a gateway that answers nobody is told by itself too: an engine behind it may look well
    return tuple(out)


def is_gpu_only(seen: Observed) -> bool:
    """Whether a target is a GPU page that was joined to no engine: there is nothing in it to judge."""
    return kind_shown(seen.snapshots) in GPU_KINDS


def _is_beside(feed: Feed) -> bool:
    return feed.kind in GPU_KINDS or bool(feed.engine)


def _owner(beside: Feed, engines: Sequence[Feed]) -> str | None:
    if beside.engine:
        return next((feed.name for feed in engines if feed.name == beside.engine), None)
    return engines[0].name if len(engines) == 1 else None


@dataclass(frozen=True, slots=True)
class _Beside:
    """What stands beside an engine, read."""

    feed: Feed
    owner: str
    pages: tuple[Snapshot, ...]

    @property
    def cards(self) -> frozenset[str]:
        """The GPUs on its pages; GPU pages that show the same are one page."""
        shown = (frozenset(key.label("gpu") for key in page.samples) - {""} for page in self.pages)
        return next(filter(None, shown), frozenset())


def _snapshots(feed: Feed, beside: Sequence[_Beside], limits: Limits | None) -> Iterator[Snapshot]:
    pages = tuple(_read(feed, limits))
    front = is_gateway(feed.kind, pages)  # what a machine shows of a gateway is no engine's
    own = [
        (one, any(one.cards & other.cards for other in beside if other.owner != feed.name))
        for one in beside
        if one.owner == feed.name and not (front and one.feed.kind == CANONICAL_KIND)
    ]
    for snapshot in pages:
        joined = snapshot
        for one, shared in own:
            near = nearest(one.pages, snapshot.t)
            if near is not None and one.feed.kind != CANONICAL_KIND:
                match = match_page(near, one.feed.gpus, shared=shared)
                joined = join_gpus(joined, near, match, instance=feed.name, model="")
            elif near is not None:
                joined = _with(joined, near, feed.name)
        yield joined


def _with(engine: Snapshot, canonical: Snapshot, instance: str) -> Snapshot:
    """The engine's snapshot with what a canonical page shows beside it; how that page was reached is not the engine's.

    Where that page says which GPUs are the engine's, what a GPU exporter shows of others is not, and of the same ones it says
    each family once.
    """
    own = {key: value for key, value in canonical.samples.items() if _is_beside_it(key, instance)}
    told = {(key.name, key.label("gpu")) for key in own if key.name.startswith("llm_gpu_")}
    gpus = {gpu for _, gpu in told}
    samples = {
        key: value
        for key, value in engine.samples.items()
        if not (gpus and key.name.startswith("llm_gpu_") and key.label("gpu"))
        or (key.label("gpu") in gpus and (key.name, key.label("gpu")) not in told)
    }
    return Snapshot(engine.t, {**samples, **own}, engine.detail)


def _is_beside_it(key: Series, instance: str) -> bool:
    return origin_of(key.label("family") or key.name) in BESIDE and key.label("instance") == instance


def _read(feed: Feed, limits: Limits | None) -> Iterator[Snapshot]:
    ingest = Ingest(instance=feed.name, kind=feed.kind, labels=dict(feed.labels), limits=limits)
    return (ingest.snapshot(page) for page in feed.pages)
