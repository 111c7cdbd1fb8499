"""A Prometheus (or Thanos, Mimir, VictoriaMetrics) that scrapes our exporter: its stored samples become snapshots again.

The verdict is then computed by the same walk as everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from llmvitals.errors import PageError
from llmvitals.schema import FAMILIES, IDENTITY, Kind, family_of
from llmvitals.series import Labels, Series, Snapshot
from llmvitals.settings import Access
from llmvitals.sources import Observed
from llmvitals.sources.access import NOBODY
from llmvitals.sources.promql_api import Endpoint, Question, Stored, bare

EXPORTED = "exported_"
"""Without honor_labels a server keeps its own label under the name and a page's under ``exported_<name>``."""

NAMES: tuple[str, ...] = tuple(
    f"{f.name}(_bucket|_sum|_count)" if f.kind is Kind.HISTOGRAM else f.name for f in FAMILIES
)
"""The canonical families as they are stored."""


@dataclass(frozen=True, slots=True)
class _Ours:
    """One stored series: our identity, the labels that the server added, and its samples."""

    series: Series
    instance: str
    origin: Labels
    points: tuple[tuple[float, float], ...]


def read_prometheus(
    url: str,
    *,
    selector: str = "",
    at: float | None = None,
    seconds: float = 90.0,
    access: Access = NOBODY,
    tell: Callable[[str], None] | None = None,
) -> tuple[Observed, ...]:
    """The canonical samples of the ``seconds`` up to ``at`` (unix seconds; None is now), one target per instance.

    ``selector`` narrows down which: ``{namespace="chat"}``. Labels that the server added (``job``, its own ``instance``)
    are dropped, and ``exported_instance`` is undone. Where two scrapes stored the same instance (replicated servers), the
    fuller one is taken. ``tell`` gets what the server says of an answer that is not whole. Raises
    :class:`UnreachableError`, :class:`PageError` or :class:`SettingsError`.
    """
    question = Question(bare(selector), at, seconds)
    with Endpoint(url, access=access) as endpoint:
        found = observed(endpoint.samples(NAMES, question))
        if not found:
            raise nothing(endpoint, question)
        if tell is not None:
            for one in endpoint.told:
                tell(one)
    return found


def nothing(endpoint: Endpoint, question: Question) -> PageError:
    """The error of an endpoint that has none of what was asked for."""
    what = "holds no llm_ series"
    return PageError(
        f"{what} for {{{question.narrow}}} in these {question.seconds:g} s" if question.narrow else what,
        place=endpoint.place,
        remedy="Let it scrape an llmvitals exporter, and check --selector, --at and --for.",
    )


def observed(stored: Iterable[Stored]) -> tuple[Observed, ...]:
    """Stored samples of canonical families as targets."""
    return tuple(_observed([_ours(one) for one in stored]))


class _Points(Protocol):
    """A series with its samples."""

    @property
    def points(self) -> Sequence[object]: ...


def fullest(origins: Mapping[Labels, Sequence[_Points]]) -> Labels:
    """Of several scrapes of one target, by the labels that their servers added, the one that stored most samples."""
    return max(origins, key=lambda labels: (sum(len(one.points) for one in origins[labels]), labels))


def _observed(stored: Sequence[_Ours]) -> Iterator[Observed]:
    by_instance: dict[str, dict[Labels, list[_Ours]]] = {}
    for one in stored:
        by_instance.setdefault(one.instance, {}).setdefault(one.origin, []).append(one)
    for instance, origins in by_instance.items():
        own = origins[fullest(origins)]
        moments: dict[float, dict[Series, float]] = {}
        for one in own:
            for t, value in one.points:
                moments.setdefault(t, {})[one.series] = value
        kind = next(filter(None, (one.series.label("engine") for one in own)), "auto")
        yield Observed(instance, kind, tuple(Snapshot(t, moments[t]) for t in sorted(moments)))


def _ours(stored: Stored) -> _Ours:
    metric = dict(stored.labels)
    name = metric.pop("__name__", "")
    family = family_of(name)
    ours = {*IDENTITY, *(family.labels if family else ()), *(("le",) if name.endswith("_bucket") else ())}
    kept = {k: v for k, v in metric.items() if k in ours}
    rest = {k: v for k, v in metric.items() if k not in ours}
    for key in [key for key in rest if key.startswith(EXPORTED) and key.removeprefix(EXPORTED) in ours]:
        own = key.removeprefix(EXPORTED)
        rest[own] = kept.get(own, "")
        kept[own] = rest.pop(key)
    return _Ours(
        Series(name, tuple(sorted(kept.items()))),
        kept.get("instance", ""),
        tuple(sorted(rest.items())),
        tuple((t, float(value)) for t, value in stored.points),
    )
