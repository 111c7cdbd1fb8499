"""What this machine shows beside one engine: its GPUs, its processes and its pod, joined to the engine's own page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmvitals.gaps import GapKind, family_gap
from llmvitals.schema import Origin, origin_of
from llmvitals.series import Series, Snapshot, series
from llmvitals.settings import Target
from llmvitals.sources.node import Seen, wanted_of
from llmvitals.sources.place import name_of
from llmvitals.telemetry.gpu.join import join_gpus
from llmvitals.telemetry.identity.match import match
from llmvitals.telemetry.identity.model import Found

_SHOWN_HERE = frozenset({Origin.GPU, Origin.HOST})


@dataclass(frozen=True, slots=True)
class Beside:
    """One engine's snapshot with what is beside it. ``gpus``: values of the label ``gpu`` that it got."""

    snapshot: Snapshot
    gpus: tuple[str, ...] = ()


def beside(
    engine: Snapshot, target: Target, seen: Seen, page: Snapshot | None, *, others: Sequence[Found] = ()
) -> Beside:
    """The engine's snapshot with what the machine shows of it.

    ``page``: of the GPU exporter that the target, or the node, names; what the driver shows fills it up. ``others``: where
    other engines are that the same GPUs may serve. An engine on another machine gets nothing of this one, and no gap.
    """
    name = name_of(target)
    found = seen.found.get(name, Found())
    snapshot = _with_host(engine, name, found, seen)
    cards = _cards(found, target, seen, page)
    if cards is None and (found.elsewhere or not seen.gpus_why):
        return Beside(_labelled(snapshot, target))
    cards = cards or Snapshot(seen.t, {}, detail=f"the driver: {seen.gpus_why}")
    own_page = bool(target.gpu_url)
    got = match(
        wanted_of(target),
        found,
        cards,
        seen.held,
        seen.processes,
        own_page=own_page,
        others=others,
        held_why=seen.held_why,
    )
    snapshot = join_gpus(
        snapshot,
        cards,
        got,
        instance=name,
        model="",
        found=found,
        processes=seen.processes,
        tensor_parallel=target.tensor_parallel,
    )
    return Beside(_labelled(snapshot, target), got.gpus)


def _labelled(snapshot: Snapshot, target: Target) -> Snapshot:
    """The target's own labels on what was joined, where those do not say it themselves."""
    if not target.labels:
        return snapshot
    samples = {
        series(key.name, **{**target.labels, **dict(key.labels)}) if origin_of(key.name) in _SHOWN_HERE else key: value
        for key, value in snapshot.samples.items()
    }
    return Snapshot(snapshot.t, samples, snapshot.detail)


def _cards(found: Found, target: Target, seen: Seen, page: Snapshot | None) -> Snapshot | None:
    """The GPUs that may be the engine's: of its page, and of the driver where the engine is on this machine."""
    if page is None:
        return None if found.elsewhere else seen.gpus
    return page if found.elsewhere else seen.with_driver(page)


def _with_host(engine: Snapshot, name: str, found: Found, seen: Seen) -> Snapshot:
    own = {key.plus(instance=name): value for key, value in seen.host.get(name, {}).items()}
    own |= {key.plus(instance=name): 1.0 for key in _info(found, seen)}
    return Snapshot(engine.t, {**engine.samples, **own}, engine.detail) if own else engine


def _info(found: Found, seen: Seen) -> Iterator[Series]:
    if found.how:
        pod, container = found.pod, found.container
        where: Mapping[str, str] = {
            "join": found.how,
            "node": seen.name,
            "namespace": pod.namespace if pod else "",
            "pod": pod.name if pod else "",
            "container": container.name if container else "",
        }
        yield series("llm_host_info", **{k: v for k, v in where.items() if v})
    if found.why:
        yield family_gap("llm_host_*", GapKind.UNSUPPORTED, found.why)


def left_over(seen: Seen, taken: frozenset[str]) -> Snapshot | None:
    """The GPUs of this machine that no engine got, under the machine's own name; None where there are none."""
    if seen.gpus is None:
        return None
    own = {
        key.plus(instance=seen.name): value
        for key, value in seen.gpus.samples.items()
        if key.label("gpu") and key.label("gpu") not in taken
    }
    return Snapshot(seen.gpus.t, own) if own else None
