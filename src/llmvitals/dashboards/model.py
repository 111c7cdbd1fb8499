"""What a board is made of: rows of panels, panels of queries, and the short ways to write them. No JSON of Grafana here.

Limits are dotted names of settings (``slo.ttft_seconds``), so a line on a panel is the number a check compares with.
Descriptions are format strings over ``slo``, ``thresholds``, ``exporter``, ``limits`` (the numbers of the panel's own), ``lines``
(those of an XY chart's lines), ``pages`` and ``tickets`` (the burns that page and those that do not, in words). Colours are
Okabe and Ito's palette ("Color Universal Design", 2008): they stay apart for colour-blind readers; a dash tells apart what
sits in one panel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from llmvitals.schema import SCOPE

PLACE = ("cluster", "namespace")
"""Where a target is. Whatever is kept apart by instance is kept apart by place too: two clusters may have a server of one name."""

INSTANCE = 'cluster=~"$cluster",namespace=~"$namespace",instance=~"$instance"'
SELECTOR = f'{INSTANCE},model=~"$model"'
"""What every query keeps: the targets and models chosen at the top of the board."""

OF_GATEWAY = f'{INSTANCE},model=~"$model|"'
"""The same of a gateway's families: where it counts the calls of all models together, its series name none."""

WINDOW = "$__rate_interval"
"""Grafana's own window: never under four scrapes of the data source, and it grows with the time range."""

RANGE = "[$__range] @ end()"
"""The chosen time as a whole, the same at every step."""

ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILLION, PURPLE, GREY = "#D55E00", "#CC79A7", "#999999"


Names = tuple[tuple[int, str, str], ...]
"""What values mean: each with its text and its colour."""


class Kind(StrEnum):
    """How a panel is drawn."""

    LINES = "lines"
    STACK = "stack"
    STAT = "stat"
    TIMELINE = "timeline"
    XY = "xy"
    TABLE = "table"  # a row for each scope, a column for each query
    HEATMAP = "heatmap"  # one query of a histogram's buckets by le
    BARS = "bars"  # one bar for each series, as it is now
    TEXT = "text"  # words alone


NOW = frozenset({Kind.STAT, Kind.XY, Kind.TABLE, Kind.BARS})
"""Kinds that show one moment, the end of the time range; the others show all of it."""

EDGE = 0.05
"""What the axes of an XY chart reach beyond 0 and 1, so that no point is cut in half."""

SCHEME = "Cividis"
"""The colours of a heatmap: Nunez, Anderton and Renslow, "Optimizing colormaps with consideration for color vision deficiency"
(2018). From dark blue to yellow, rising in lightness, the same for those who cannot tell red from green."""

EXPONENT = 0.5
"""Of a heatmap's scale of colours: few are told from none."""

NOT_ZERO = 1e-9
"""A heatmap leaves out cells up to this count: nothing was seen there."""


class Leads(StrEnum):
    """Where a click on a panel's value leads, beside the links of the panel itself."""

    NOWHERE = "nowhere"
    APP = "app"  # the triage app, at the instance and model of the value
    SERVICE = "service"  # the board of one service, at the place, instance and model of the value
    RUNBOOK = "runbook"  # the runbook of the value's cause
    ALERT = "alert"  # the runbook of the value's alert, else of its cause


@dataclass(frozen=True, slots=True)
class Limit:
    """A line across a panel: the dotted name of a setting (one number or several) and its colour.

    ``rest``: the line lies where the setting is left of a whole. ``times``: it lies at so many times the setting.
    ``severity``: the setting is a table of burns, of which those of this severity are drawn.
    """

    setting: str
    color: str = VERMILLION
    rest: bool = False
    times: float = 1.0
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel: a signal by its id, or PromQL where no signal says it, in which ``<id>`` stands for a signal and
    ``<section.key>`` for a setting.

    What is written ``by (instance`` or ``on (instance`` is asked by and on :data:`PLACE` as well.

    ``legend``: words before the labels of ``by``, which the query keeps and the legend shows. ``unit``: set where it
    differs from the panel's (then the query gets the right axis). ``names``: what a value means, as text and colour.
    ``burns``: a severity: the query is asked for each of its rows of ``alerts.burns``, over the row's long window, for which
    ``<long>`` stands.
    ``column``: of an XY chart, what the number is called; queries of one legend are the points' x, their y, and what else is
    said of them, in this order. Of a table, the heading over the number; labels of ``by`` have columns of their own, and rows
    of several queries are one where all labels that both have are equal. ``limits``: of a table, from where on a number is
    coloured.
    ``exemplar``: single observations are drawn as dots that lead to their traces.
    """

    legend: str
    color: str
    signal: str = ""
    promql: str = ""
    by: tuple[str, ...] = SCOPE
    dashed: bool = False
    unit: str = ""
    names: Names = ()
    column: str = ""
    limits: tuple[Limit, ...] = ()
    exemplar: bool = False
    burns: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``unit``: a unit id of Grafana; ``empty``: what it says when its queries return nothing.

    ``symptoms`` and ``causes``: whose runbooks it links to, in this order; ``leads``: where a click on the value leads.
    ``limits``: lines across it, or from where on its bars are coloured. ``names``: series whose legend begins so, each with a
    colour of its own; ``by_name``: of tiles, the names alone, whose numbers say nothing.
    ``lines``: of an XY chart, the lines across x and across y; ``present``: PromQL of what must be there for them to be drawn.
    ``moved``: scenarios of the lab in which its queries must find something, beside those of ``causes``; ``apart``: instead of
    data of a play, what it needs that no play of a server has, in words. ``worst``: of a table, the heading it is sorted by,
    from the largest number down, with "-" in front from the smallest up. ``bottom`` and ``top``: the lowest and the highest
    number of the axis, None to follow the data.
    ``width`` is in the 24 columns of Grafana's grid, ``height`` in its rows of 30 pixels. ``points``: at most so many along
    the time axis, where each looks far back; 0: one per pixel.
    """

    kind: Kind
    title: str
    unit: str
    queries: tuple[Query, ...]
    description: str
    empty: str
    causes: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    top: int | None = None
    width: int = 8
    height: int = 8
    leads: Leads = Leads.NOWHERE
    by_name: bool = False
    names: tuple[tuple[str, str], ...] = ()
    lines: tuple[Limit, ...] = ()
    present: str = ""
    symptoms: tuple[str, ...] = ()
    points: int = 0
    moved: tuple[str, ...] = ()
    apart: str = ""
    worst: str = ""
    bottom: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading; without a title they stand at the top of the board. ``collapsed``: a click opens it.

    ``board``: the uid of the board that has more of it, to which its panels lead.
    """

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False
    board: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard: ``uid`` is its stable address, ``file`` its path in the project.

    At most 25 of its panels are open when it is, and their titles differ within the board.
    """

    uid: str
    file: str
    title: str
    description: str
    rows: tuple[Row, ...]


NO_TRAFFIC = "no traffic"
"""What a panel says whose queries divide by finished requests: without any there is no number."""

NOT_SHOWN = "no traffic, or the target is down or does not show it"
"""The same of what not every engine shows."""

NO_EXPORTER = "not on the page: is the exporter scraped?"

NO_NUMBER = "–"
"""What a cell of a table says that has no number: an empty panel says why, a cell has no room for that."""


def q(signal: str, legend: str, color: str, *, dashed: bool = False, unit: str = "") -> Query:
    """A query of one signal, kept apart by instance and model."""
    return Query(legend, color, signal=signal, dashed=dashed, unit=unit)


def gpu(signal: str, legend: str, color: str, *, dashed: bool = False, unit: str = "") -> Query:
    """A query of a GPU signal: a GPU belongs to a target, whatever models that serves, and its series name none."""
    return Query(legend, color, signal=signal, by=("instance",), dashed=dashed, unit=unit)


def of_target(family: str, *by: str, agg: str = "max", rate: bool = False, match: str = "") -> str:
    """A family of a target, its GPUs or its host, whose series name no model, by instance and ``by``.

    ``rate``: the growth of a counter per second. ``match``: matchers beside those of the board.
    """
    series = f"{family}{{{f'{match},' if match else ''}{INSTANCE}}}"
    asked = f"rate({series}[{WINDOW}])" if rate else series
    return f"{agg} by ({', '.join(('instance', *by))}) ({asked})"


def each(
    family: str,
    legend: str,
    color: str,
    *by: str,
    agg: str = "max",
    dashed: bool = False,
    unit: str = "",
    rate: bool = False,
) -> Query:
    """A query of :func:`of_target`, kept apart by instance and ``by``."""
    asked = of_target(family, *by, agg=agg, rate=rate)
    return Query(legend, color, promql=asked, by=("instance", *by), dashed=dashed, unit=unit)


def chosen(family: str) -> str:
    """What a query of a family that may name a model keeps."""
    return OF_GATEWAY if family.startswith("llm_gateway_") else SELECTOR


def buckets(family: str, by: tuple[str, ...] = (), *, per: str = "increase", window: str = WINDOW) -> str:
    """Counts of a histogram by bucket and ``by``, summed over servers at those edges that all of them have.

    Engines differ in their edges. At an edge that only some have, only their requests would be counted, and a bucket would hold
    less than one below it.
    """

    def grew(match: str = "") -> str:
        return f"{per}({family}_bucket{{{match}{chosen(family)}}}[{window}])"

    kept, apart = ", ".join((*by, "le")), ", ".join(by)
    everywhere = (
        f"""count by ({kept}) ({grew()}) == on ({apart}) group_left () count by ({apart}) ({grew('le="+Inf",')})"""
    )
    return f"sum by ({kept}) ({grew()}) and on ({kept}) ({everywhere})"


def heat(family: str, unit: str, color: str = BLUE) -> Query:
    """A query of a histogram of the page as counts by bucket, over everything selected.

    Of nothing observed it finds nothing: all buckets go together, for single ones are told by what is below them.
    """
    asked = buckets(family)
    counted = f"sum(increase({family}_count{{{chosen(family)}}}[{WINDOW}]))"
    return Query("", color, promql=f"{asked} and on () ({counted} > 0)", by=("le",), unit=unit)


def cell(
    column: str,
    unit: str,
    *,
    signal: str = "",
    promql: str = "",
    by: tuple[str, ...] = SCOPE,
    limits: tuple[Limit, ...] = (),
    names: Names = (),
) -> Query:
    """A column of a table: its heading, its unit, and what it asks."""
    return Query("", GREY, signal=signal, promql=promql, by=by, unit=unit, column=column, limits=limits, names=names)


def total(signal: str, legend: str, color: str) -> Query:
    """A query of one signal over everything selected: bands that are stacked must add up to one bar."""
    return Query(legend, color, signal=signal, by=())
