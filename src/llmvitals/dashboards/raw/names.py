"""What a canonical name is called on the pages of an edition: one branch for each mapping row, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.dashboards.raw.editions import Edition, Extra
from llmvitals.schema import Family, Kind, Origin, family_of, origin_of
from llmvitals.telemetry.mapping import Row

_PARTS = ("_bucket", "_sum", "_count")


class CannotError(Exception):
    """Why something cannot be asked of raw series: ``group`` is the heading it stands under, ``why`` the sentence."""

    def __init__(self, group: str, why: str) -> None:
        super().__init__(why)
        self.group, self.why = group, why


EXPORTER, BESIDE, ENGINE, SHAPE = "exporter", "beside", "engine", "shape"
"""Why: only our exporter works it out; another page says it; the engine does not; it does not come out the same."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One source series. ``name``: as it is scraped; ``part``: of a histogram, which of its samples; ``unit``: another than the
    family's. ``op`` and ``other``: what its value is combined with.
    """

    name: str
    row: Row
    part: str = ""
    op: str = ""
    other: str = ""
    unit: str = ""
    repeats: bool = False

    @property
    def scale(self) -> float:
        """What its value is multiplied by; a histogram's counts have no unit."""
        return 1.0 if self.part in ("_bucket", "_count") else self.row.scale


def branches(edition: Edition, exposed: str) -> tuple[Branch, ...]:
    """What the samples of a canonical name are on such pages, the preferred ones first. Raises :class:`CannotError`."""
    family = family_of(exposed)
    if family is None:
        raise CannotError(EXPORTER, "worked out by the exporter, over its history of the page")
    origin = origin_of(family.name)
    if origin is not Origin.ENGINE:
        raise CannotError(BESIDE, _BESIDE[origin])
    part = exposed.removeprefix(family.name) if family.kind is Kind.HISTOGRAM else ""
    found = [branch for extra in _rows(edition, family) if (branch := _branch(edition, extra, family, part))]
    if not found:
        raise CannotError(ENGINE, _why(edition, family))
    return tuple(sorted(found, key=lambda branch: branch.row.fallback))


_BESIDE = {
    Origin.GPU: "GPUs are shown by a GPU exporter or NVML, and joined to engines by ours",
    Origin.HOST: "the host is read by our exporter on the engine's node",
    Origin.GATEWAY: "a gateway in front shows it on a page of its own",
    Origin.PROBE: "probes are sent by our exporter",
    Origin.SPANS: "single requests are told by traces that our exporter takes in",
    Origin.TARGET: "what is known of the target itself is our exporter's",
}


def _rows(edition: Edition, family: Family) -> list[Extra]:
    """The rows of a family in an edition: those in place of the adapter's, else its own. Raises :class:`CannotError`."""
    own = [extra for extra in edition.extra if extra.row.family == family.name]
    own = own or [Extra(row) for row in edition.adapter.rows if row.family == family.name]
    shown = [extra for extra in own if _shows(edition, extra.row)]
    taken = [e for e in shown if not e.row.special or e.row.special in edition.specials]
    unsaid = [e.row.special for e in shown if e not in taken and e.row.special not in edition.ignored]
    if unsaid:
        raise CannotError(
            SHAPE, f"{edition.adapter.title} says it in several series or in labels, which the exporter puts together"
        )
    return taken


def _shows(edition: Edition, row: Row) -> bool:
    if row.source.startswith(tuple(edition.without)):
        return False
    spans = _spans(row)
    return not spans or not edition.first or any(map(edition.holds, spans))


def _spans(row: Row) -> list[str]:
    """The releases that show a row, in words of its mapping; none: all."""
    return [text for text in (row.v0, row.v1, row.span) if text]


def _branch(edition: Edition, extra: Extra, family: Family, part: str) -> Branch | None:
    row = extra.row
    if row.part not in ("", part):
        return None
    counted = row.part or family.kind is Kind.COUNTER
    name = _counter(edition, row.source) if counted else row.source + part
    front = any(other.source == row.source and other.add for other in edition.adapter.rows)
    repeats = bool(edition.repeats) and not front
    return Branch(_spelled(edition, name), row, part, extra.op, _spelled(edition, extra.other), extra.unit, repeats)


def _counter(edition: Edition, source: str) -> str:
    if source in edition.bare or source.endswith(edition.suffix or "_total"):
        return source
    return source + edition.suffix


def _spelled(edition: Edition, name: str) -> str:
    own, prefix = edition.prefix
    return prefix + name.removeprefix(own) if own and name.startswith(own) else name


def _why(edition: Edition, family: Family) -> str:
    """Why no series of an edition gives a family: its adapter's own words, or when it would."""
    adapter = edition.adapter
    if why := adapter.cannot.get(family.name, ""):
        return why
    derived = [d for d in adapter.derived if d.family == family.name]
    if derived and not derived[0].source.startswith("llm_"):
        return f"{derived[0].source} says it in a label or in several series, which the exporter puts together"
    spans = [text for row in adapter.rows if row.family == family.name for text in _spans(row)]
    if spans:
        return f"{adapter.title} {edition.told} does not show it ({', '.join(dict.fromkeys(map(_since, spans)))})"
    return f"{adapter.title} shows nothing that says it"


def _since(text: str) -> str:
    first, _, last = text.partition("..")
    return f"{first} to {last}" if last else f"from {first} on"


def copied(edition: Edition, exposed: str) -> str:
    """The canonical sample that this one equals on such pages, '' where it has series of its own."""
    return next(
        (d.source for d in edition.adapter.derived if d.family == exposed and d.source.startswith("llm_")),
        "",
    )
