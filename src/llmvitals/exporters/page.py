"""Values to exposition text: canonical families, counters of promises, derived gauges, the verdict series.

The format is Prometheus text 0.0.4, and OpenMetrics 1.0 from the same blocks (only the names in the counters' headers
differ, and the exemplars, which the older format does not know). Written here and not through prometheus_client's registry
because a series' text never changes between cycles: it is made once and only values are printed afterwards, which keeps a
page of 200 targets within one cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

from llmvitals.remembered import remembered
from llmvitals.schema import FAMILIES, Family, Kind, family_of
from llmvitals.series import Labels, Series, Snapshot, series

_SUFFIX_ORDER = ("_bucket", "_sum", "_count")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_REMEMBERED = 1 << 17  # series whose text is kept; beyond it a page costs more time, never more memory


@dataclass(frozen=True, slots=True)
class Block:
    """One family of a page: ``name`` as a scraper sees it (a counter's ends in ``_total``), and its sample lines.

    ``traced``: the lines with their exemplars, which only OpenMetrics can say; '' where there are none.
    """

    name: str
    kind: str
    help: str
    lines: str
    traced: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """One family of gauges or counters as values, before any format. ``unit``: base unit, '' for a plain count."""

    name: str
    unit: str
    help: str
    samples: Mapping[Labels, float]
    kind: Kind = Kind.GAUGE


@dataclass(frozen=True, slots=True)
class Row:
    """What never changes about a series: its family, its place within the family, its text up to the value.

    ``place``: the labels without ``le``; of a histogram 0, 1, 2 for bucket, sum, count; the bucket's upper edge.
    """

    family: str
    place: tuple[Labels, int, float]
    prefix: str


def prefix(key: Series) -> str:
    """A series' text up to its value: ``name{label="value",...} ``."""
    if not key.labels:
        return f"{key.name} "
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in key.labels)
    return f"{key.name}{{{inside}}} "


def number(value: float) -> str:
    """A value as both formats spell it."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _edge(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")


@remembered(_REMEMBERED)
def row_of(key: Series) -> Row | None:
    """The family that a series belongs to and its place there; None for what is not in the schema."""
    family = family_of(key.name)
    if family is None:
        return None
    suffix = key.name[len(family.name) :]
    rank = _SUFFIX_ORDER.index(suffix) if suffix in _SUFFIX_ORDER else 0
    edges = [value for name, value in key.labels if name == "le"]
    rest = _same(tuple(pair for pair in key.labels if pair[0] != "le")) if edges else key.labels
    return Row(family.name, (rest, rank, _edge(edges[0]) if edges else 0.0), prefix(key))


@remembered(_REMEMBERED)
def _same(rest: Labels) -> Labels:
    """One value for all edges of a histogram."""
    return rest


def canonical(snapshots: Iterable[Snapshot], *, stamped: bool = False) -> tuple[Block, ...]:
    """The canonical families of one snapshot per target, in the order of the schema; cumulative stays cumulative.

    ``stamped`` adds each snapshot's moment, for several snapshots of one target in one text, and leaves exemplars out. Samples
    whose name is not in the schema are left out: the page holds only what is documented.
    """
    rows: dict[str, list[tuple[tuple[Labels, int, float], float, str]]] = {}
    traced: dict[str, dict[str, str]] = {}
    for snapshot in snapshots:
        # Half a millisecond more: the parser cuts a float down to milliseconds, and must not fall short of this one.
        stamp = f" {snapshot.t:.3f}5\n" if stamped else "\n"
        for key, value in snapshot.samples.items():
            row = row_of(key)
            if row is not None:
                line = f"{row.prefix}{number(value)}{stamp}"
                rows.setdefault(row.family, []).append((row.place, snapshot.t, line))
        if snapshot.exemplars and not stamped:
            _trace(snapshot, traced)
    return tuple(_block(f, rows[f.name], traced.get(f.name)) for f in FAMILIES if f.name in rows)


def _block(
    family: Family, rows: list[tuple[tuple[Labels, int, float], float, str]], traced: Mapping[str, str] | None
) -> Block:
    lines = [line for _, _, line in sorted(rows, key=itemgetter(0, 1))]
    told = "".join(traced.get(line, line) for line in lines) if traced else ""
    return Block(family.name, family.kind.value, family.help, "".join(lines), told)


def _trace(snapshot: Snapshot, traced: dict[str, dict[str, str]]) -> None:
    """Into ``traced``, by family: each line that has an exemplar, and the line with it (OpenMetrics 1.0, "Exemplars")."""
    for key, exemplar in snapshot.exemplars.items():
        row, value = row_of(key), snapshot.samples.get(key)
        if row is not None and value is not None:
            line = f"{row.prefix}{number(value)}"
            about = f'{{trace_id="{exemplar.trace_id}"}} {number(exemplar.value)} {exemplar.t:.3f}'
            traced.setdefault(row.family, {})[f"{line}\n"] = f"{line} # {about}\n"


def plain(groups: Iterable[Group]) -> Iterator[Block]:
    """Families of gauges and counters as text; nothing where there is no sample."""
    for group in groups:
        lines = "".join(f"{prefix(series(group.name, **dict(k)))}{number(v)}\n" for k, v in group.samples.items())
        if lines:
            yield Block(group.name, group.kind.value, group.help, lines)


def text(blocks: Iterable[Block]) -> bytes:
    """Prometheus text format 0.0.4."""
    return "".join(
        f"# HELP {b.name} {b.help.translate(_HELP_ESCAPES)}\n# TYPE {b.name} {b.kind}\n{b.lines}" for b in blocks
    ).encode()


def openmetrics(blocks: Iterable[Block]) -> bytes:
    """OpenMetrics 1.0 without its closing ``# EOF`` line, so that more families can follow."""
    parts = []
    for block in blocks:
        name = block.name.removesuffix("_total") if block.kind == Kind.COUNTER.value else block.name
        parts.append(
            f"# HELP {name} {block.help.translate(_ESCAPES)}\n# TYPE {name} {block.kind}\n{block.traced or block.lines}"
        )
    return "".join(parts).encode()


def recording(snapshots: Iterable[Snapshot]) -> bytes:
    """Samples of many moments as one OpenMetrics text with time stamps (``promtool tsdb create-blocks-from``).

    It holds exactly what a Prometheus would have stored had it scraped this exporter at those moments.
    """
    return openmetrics(canonical(snapshots, stamped=True)) + b"# EOF\n"
