"""A Prometheus that scrapes engines themselves (``vllm:*``, ``sglang:*``, ``tgi_*``): stored series become pages again, and go
through the engines' own adapters like any page.

Labels that the server added are dropped: those that ``up`` of the same target has. ``up`` also tells scrapes that failed, and
``scrape_duration_seconds`` how long an answer took. Comments of a page are not stored, so that what only its HELP lines say is not
known. Gateways are read where the settings name them, since many an Envoy or nginx serves something else; GPU exporters are not,
since nothing says whose GPUs they show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmvitals.schema import Origin
from llmvitals.series import Labels
from llmvitals.sources import Observed
from llmvitals.sources.promql import EXPORTED, fullest
from llmvitals.sources.promql_api import Endpoint, Question, Stored
from llmvitals.telemetry.ingest import Ingest, Limits, RawPage
from llmvitals.telemetry.mapping import Adapter, plain_name, spelled
from llmvitals.telemetry.registry import ADAPTERS

UP, TOOK = "up", "scrape_duration_seconds"
_FAILED = "its scrape failed"
_FEW = 50
"""Targets that are asked for by name; of more, all of their jobs are."""

Target = tuple[str, str]
"""(job, instance), as a Prometheus names who it scrapes."""


@dataclass(frozen=True, slots=True)
class RawNames:
    """Names of raw series that a server has. ``engines``, ``gateways``: by these a page is known as one's; ``beside``: what such
    pages also show, and others as well (``process_*``).
    """

    engines: tuple[str, ...]
    gateways: tuple[str, ...]
    beside: tuple[str, ...]

    @classmethod
    def among(cls, names: Iterable[str]) -> RawNames:
        """Those that an adapter reads, of all names that a server has."""
        families: dict[str, set[str]] = {}
        for name in names:
            families.setdefault(plain_name(name), set()).add(name)
        own: dict[Origin, set[str]] = {Origin.ENGINE: set(), Origin.GATEWAY: set()}
        read: set[str] = set()
        for adapter in ADAPTERS:
            if adapter.origin not in own or not adapter.versions:
                continue
            # by their families: of some a page's TYPE line alone is read, whatever its samples are called
            told = {plain_name(name) for name in spelled(adapter)} & families.keys()
            named = {name for family in told for name in families[family]}
            if claimed := {name for name in named if _claimed(adapter, name)}:
                own[adapter.origin] |= claimed
                read |= named
        engines, gateways = own[Origin.ENGINE], own[Origin.GATEWAY]
        beside = read - engines - gateways
        return cls(tuple(sorted(engines)), tuple(sorted(gateways)), tuple(sorted(beside)))


def _claimed(adapter: Adapter, name: str) -> bool:
    """Whether a page of this kind is known by such a name; a claim may go on with a label."""
    return any(name.startswith(claim.decode().partition("{")[0]) for claim in adapter.claims)


def read(
    endpoint: Endpoint,
    names: RawNames,
    question: Question,
    *,
    targets: Iterable[Target] = (),
    instances: Sequence[str] = (),
) -> tuple[Stored, ...]:
    """The series of engines' pages, and what their server noted of the scrapes.

    ``targets``: others that showed such series before, and may be down; ``instances``: whose gateways' series are read too.
    Raises as :meth:`Endpoint.samples`.
    """
    own = [*endpoint.samples(names.engines, question)]
    if instances:
        own += endpoint.samples(names.gateways, replace(question, narrow=_any("instance", instances)))
    known = dict.fromkeys((*targets, *map(_target, own)))
    if not known:
        return ()
    # not the selector once more: it may ask for labels of the engine's own series
    matchers = [_any("job", (job for job, _ in known))]
    matchers += [_any("instance", (instance for _, instance in known))] if len(known) <= _FEW else []
    others = endpoint.samples((*names.beside, UP, TOOK), replace(question, narrow=",".join(matchers)))
    return (*own, *(one for one in others if _target(one) in known))


def _target(stored: Stored) -> Target:
    return stored.labels.get("job", ""), stored.labels.get("instance", "")


def _any(label: str, values: Iterable[str]) -> str:
    return f"{label}=~{json.dumps('|'.join(map(re.escape, dict.fromkeys(values))), ensure_ascii=False)}"


@dataclass(slots=True)
class _Page:
    """What is stored of one scrape."""

    lines: list[str] = field(default_factory=list)
    up: bool = True
    took: float | None = None


class RawTargets:
    """Turns stored series into snapshots, piece by piece in order of time; what its adapters remember of a target is kept."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits
        self._ingests: dict[str, Ingest] = {}
        self._shown: dict[str, dict[str, None]] = {}
        self.known: dict[Target, None] = {}

    def observed(self, stored: Sequence[Stored]) -> tuple[Observed, ...]:
        """The targets that were scraped, by their ``instance``; where several scraped one, the fullest is taken."""
        scrapes = _scrapes(stored)
        found: dict[str, dict[Labels, list[Stored]]] = {}
        for one in stored:
            origin = _origin(one, scrapes)
            found.setdefault(one.labels.get("instance", ""), {}).setdefault(origin, []).append(one)
            self.known.setdefault(_target(one))
        return tuple(self._one(instance, origins) for instance, origins in found.items())

    def _one(self, instance: str, origins: Mapping[Labels, Sequence[Stored]]) -> Observed:
        origin = fullest(origins)
        added = frozenset(name for name, _ in origin)
        pages: dict[float, _Page] = {}
        shown = self._shown.setdefault(instance, {})
        for one in origins[origin]:
            _put(one, added, pages, shown)
        ingest = self._ingests.get(instance)
        if ingest is None:
            ingest = self._ingests[instance] = Ingest(instance=instance, limits=self._limits)
        types = "".join(f"# TYPE {name} untyped\n" for name in shown)
        snapshots = tuple(ingest.snapshot(_raw(t, pages[t], types)) for t in sorted(pages))
        return Observed(instance, ingest.adapter.kind if ingest.adapter is not None else "auto", snapshots)


def _scrapes(stored: Iterable[Stored]) -> dict[Target, list[Labels]]:
    """The labels that each target's own ``up`` has: those that its server gives to all that it shows."""
    found: dict[Target, list[Labels]] = {}
    for one in stored:
        if one.labels.get("__name__") == UP:
            found.setdefault(_target(one), []).append(_labels(one))
    return found


def _labels(stored: Stored) -> Labels:
    return tuple(sorted((name, value) for name, value in stored.labels.items() if name != "__name__"))


def _origin(stored: Stored, scrapes: Mapping[Target, Sequence[Labels]]) -> Labels:
    """The labels that the server added to a series: of several scrapes of one target, those of the one that fits best."""
    job, instance = _target(stored)
    mine = set(stored.labels.items())
    fitting = [labels for labels in scrapes.get((job, instance), ()) if mine.issuperset(labels)]
    return max(fitting, key=len, default=(("instance", instance), ("job", job)))


def _put(stored: Stored, added: frozenset[str], pages: dict[float, _Page], shown: dict[str, None]) -> None:
    """Bring one series onto the pages that it was on."""
    name = stored.labels.get("__name__", "")
    if name == UP:
        for t, value in stored.points:
            pages.setdefault(t, _Page()).up = float(value) == 1.0
    elif name == TOOK:
        for t, value in stored.points:
            pages.setdefault(t, _Page()).took = float(value)
    else:
        shown.setdefault(plain_name(name))
        text = ",".join(f'{label}="{_escaped(value)}"' for label, value in _page_labels(stored, added))
        head = f"{name}{{{text}}}" if text else name
        for t, value in stored.points:
            pages.setdefault(t, _Page()).lines.append(f"{head} {value}")


def _page_labels(stored: Stored, added: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The labels that a series had on its page; what the server renamed to make room for its own is undone."""
    for label, value in sorted(stored.labels.items()):
        own = label.removeprefix(EXPORTED)
        if label not in added and label != "__name__":
            yield (own if own in added else label), value


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _raw(t: float, page: _Page, types: str) -> RawPage:
    if not page.up:
        return RawPage(t, page.took, None, None, _FAILED)
    body = types + "\n".join(page.lines) + "\n"
    return RawPage(t, page.took, 200, body.encode())
