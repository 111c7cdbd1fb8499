"""Draws the boards of ``layout.py`` as Grafana JSON. Pure: the same settings give the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from llmvitals.dashboards.boards import BOARDS
from llmvitals.dashboards.boards.alerting import FIRING, RUNBOOKS
from llmvitals.dashboards.model import (
    GREY,
    INSTANCE,
    PLACE,
    SELECTOR,
    VERMILLION,
    WINDOW,
    Board,
    Kind,
    Leads,
    Limit,
    Panel,
    Query,
    Row,
)
from llmvitals.dashboards.panels import LINES, STATES, TILES, Points, Threshold, Traced, Variable, XYChart, core, today
from llmvitals.settings import Burn, Settings
from llmvitals.signals.algebra import Quantile
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql import to_promql

_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION = 39  # read as it is by Grafana 11 and 12, converted on load by 13
_TAG = "llmvitals"
_CHOSEN = "&".join(f"${{{name}:queryparam}}" for name in ("cluster", "namespace", "model", "instance"))
_TIMES = "from=${__from}&to=${__to}"
_APP = core.DashboardLink(
    type="link", title="Triage app", uri=f"${{app_url}}/?{_CHOSEN}&{_TIMES}", targetBlank=True, keepTime=False
)
_HOME = core.DashboardLink(
    type="link", title="Triage app", uri="${app_url}", targetBlank=True, keepTime=True, includeVars=True
)
_OTHERS = core.DashboardLink(
    type="dashboards", title="Boards", tags=[_TAG], asDropdown=True, keepTime=True, includeVars=True
)
_EDGE = 0.05
"""What the axes of an XY chart reach beyond 0 and 1, so that no point is cut in half."""

_OF_ROW = f"${{app_url}}/?instance=${{__data.fields.instance}}&model=${{__data.fields.model}}&{_TIMES}"
_SERVICE = "/d/llmvitals-serving?" + "&".join(
    [*(f"var-{name}=${{__field.labels.{name}}}" for name in (*PLACE, "model", "instance")), "${__url_time_range}"]
)
_SIGNAL = re.compile(r"<(\w+)>")
_SETTING = re.compile(r"<(\w+(?:\.\w+)+)>")
_LONG = "<long>"
_APART = re.compile(r"\b(by|on) \((?=instance\b)")
_OF_VALUE: dict[Leads, list[dict[str, Any]]] = {
    Leads.NOWHERE: [],
    Leads.APP: [
        {
            "title": "Triage app",
            "url": f"${{app_url}}/?instance=${{__field.labels.instance}}&model=${{__field.labels.model}}&{_TIMES}",
            "targetBlank": True,
        }
    ],
    Leads.SERVICE: [{"title": "This service", "url": _SERVICE, "targetBlank": False}],
    Leads.RUNBOOK: [
        {"title": "Runbook", "url": "${runbook_url}/${__field.labels.cause}.md", "targetBlank": True},
    ],
}
_OF_VALUE[Leads.ALERT] = _OF_VALUE[Leads.RUNBOOK]  # but for those of the table of alerts


def files(settings: Settings | None = None) -> dict[str, str]:
    """Every generated board: its path in the project, and its text. Limits and descriptions follow ``settings``."""
    chosen = Settings() if settings is None else settings
    return {b.file: json.dumps(today(_board(b, chosen)), indent=2, sort_keys=True) + "\n" for b in BOARDS}


def queries(panel: Panel, settings: Settings) -> tuple[Query, ...]:
    """The queries of a panel, those on burns once for each row of the settings that they are for, all but the first dashed."""
    return tuple(one for query in panel.queries for one in _each_burn(query, settings))


def _each_burn(query: Query, settings: Settings) -> Iterator[Query]:
    if not query.burns:
        yield query
        return
    for at, burn in enumerate(_burns(settings, query.burns)):
        legend, asked = (text.replace(_LONG, burn.long) for text in (query.legend, query.promql))
        yield replace(query, legend=legend, promql=asked, dashed=at > 0)


def _burns(settings: Settings, severity: str) -> tuple[Burn, ...]:
    return tuple(row for row in settings.alerts.burns if row.severity == severity)


def promql(query: Query, settings: Settings | None = None) -> str:
    """What a query asks: its own PromQL, a signal's, or the exporter's gauge where the algebra cannot say the signal.

    A quantile of an empty histogram is NaN in Prometheus; the comparison drops it, so the panel says why it is empty.
    """
    if query.promql:
        known = settings or Settings()
        asked = _SETTING.sub(lambda found: _said(attrgetter(found[1])(known)), query.promql)
        asked = _SIGNAL.sub(lambda found: promql(Query("", "", signal=found[1], by=BY_ID[found[1]].by)), asked)
        return _APART.sub(rf"\1 ({', '.join(PLACE)}, ", asked)
    by = kept(query.by)
    expr = BY_ID[query.signal].expr
    if expr is None:
        together = "max" if query.by else "avg"  # one gauge per scope: max keeps it, avg is a mean over scopes
        return f"{together} by ({', '.join(by)}) (llm_{query.signal}{{{SELECTOR}}})"
    selector = INSTANCE if query.by == ("instance",) else SELECTOR
    text = to_promql(expr, window=WINDOW, by=by, selector=selector)
    return f"{text} >= 0" if isinstance(expr, Quantile) else text


def kept(by: tuple[str, ...]) -> tuple[str, ...]:
    """The labels that a query keeps: what is kept apart by instance is kept apart by place."""
    return (*PLACE, *by) if "instance" in by else by


def _said(value: float | str) -> str:
    """A setting inside PromQL: a number, or text that stands between quotation marks."""
    return json.dumps(value, ensure_ascii=False)[1:-1] if isinstance(value, str) else f"{value:g}"


def limits(panel: Panel, settings: Settings) -> tuple[tuple[float, str], ...]:
    """The lines of a panel as number and colour, in rising order."""
    return tuple(sorted(pair for limit in panel.limits for pair in _numbers(limit, settings)))


def _numbers(limit: Limit, settings: Settings) -> Iterator[tuple[float, str]]:
    if limit.severity:
        yield from ((row.burn, limit.color) for row in _burns(settings, limit.severity))
        return
    value = attrgetter(limit.setting)(settings)
    for number in value if isinstance(value, tuple) else (value,):
        yield (1.0 - number if limit.rest else number * limit.times), limit.color


def _board(board: Board, settings: Settings) -> core.Dashboard:
    return core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.description,
        tags=[_TAG, "llm"],
        schemaVersion=_SCHEMA_VERSION,
        graphTooltip=1,
        refresh="30s",
        timezone="browser",
        time=core.Time("now-30m", "now"),
        timePicker=core.TimePicker(["30s", "1m", "5m", "15m"], None),
        annotations=core.Annotations([_restarts(), _alerts()]),
        links=[_OTHERS, _HOME],
        templating=core.Templating(_variables(settings)),
        panels=list(_placed(board, settings)),
    )


def _variables(settings: Settings) -> list[Variable]:
    return [
        Variable(
            name="datasource",
            label="Data source",
            description="The Prometheus (or compatible) that scrapes the llmvitals exporter.",
            type="datasource",
            query="prometheus",
        ),
        _choice("cluster", "Cluster", "Where targets are: a label of theirs, or of the Prometheus that scrapes.", ""),
        _choice("namespace", "Namespace", "Namespaces of the chosen clusters.", 'cluster=~"$cluster"'),
        _choice("model", "Model", "Models that are served there.", _IN_PLACE),
        _choice(
            "instance",
            "Replica",
            "Servers of these models, by their names in the settings.",
            f'{_IN_PLACE},model=~"$model"',
        ),
        Variable(
            name="app_url",
            label="Triage app",
            description="Where the triage app runs; panels link to it.",
            type="textbox",
            query=settings.alerts.app_url or "http://localhost:8501",
        ),
        Variable(
            name="runbook_url",
            label="Runbooks",
            description="Where the runbooks are read; panels link to the page of each alert and cause.",
            type="textbox",
            query=settings.alerts.runbook_base.rstrip("/"),
        ),
    ]


_IN_PLACE = 'cluster=~"$cluster",namespace=~"$namespace"'
_SEEN = '__name__=~"llm_target_up|llm_requests_running"'
"""What is there of a target that is down, and what names its model."""


def _choice(name: str, label: str, description: str, within: str) -> Variable:
    """A variable of what a label may be, within what the variables before it leave."""
    series = f"{{{_SEEN}{',' if within else ''}{within}}}"
    return Variable(name, label, description, "query", f"label_values({series}, {name})", _SOURCE)


def _restarts() -> dict[str, Any]:
    return {
        "name": "Engine restarts",
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": GREY,
        "expr": f"changes(llm_process_start_time_seconds{{{INSTANCE}}}[{WINDOW}]) > 0",
        "titleFormat": "restart of {{instance}}",
    }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": VERMILLION,
        "expr": FIRING,
        "titleFormat": "{{alertname}} {{instance}} {{model}}",
    }


def _placed(board: Board, settings: Settings) -> Iterator[Any]:
    """Panels from left to right and top to bottom, each row's heading above them; a collapsed row holds its own."""
    number, top = 0, 0
    for row in board.rows:
        head = number + 1 if row.title else number
        panels = list(_of_row(row, head, top + bool(row.title), settings))
        if row.title:
            place = core.GridPos(h=1, w=_COLUMNS, x=0, y=top)
            inside = panels if row.collapsed else []
            yield core.RowPanel(id=head, title=row.title, gridPos=place, collapsed=row.collapsed, panels=inside)
            top += 1
        number = head + len(panels)
        if not row.collapsed:
            yield from panels
            top = max((panel.gridPos.y + panel.gridPos.h for panel in panels), default=top)


def _of_row(row: Row, number: int, top: int, settings: Settings) -> Iterator[Any]:
    left = tallest = 0
    for at, panel in enumerate(row.panels, number + 1):
        if left + panel.width > _COLUMNS:
            top, left, tallest = top + tallest, 0, 0
        yield _drawn(panel, at, core.GridPos(h=panel.height, w=panel.width, x=left, y=top), settings)
        left, tallest = left + panel.width, max(tallest, panel.height)


def _drawn(panel: Panel, number: int, place: core.GridPos, settings: Settings) -> core.Panel:
    lines = [number for limit in panel.lines for number, _ in _numbers(limit, settings)]
    own = limits(panel, settings)
    common = {
        "id": number,
        "gridPos": place,
        "title": panel.title,
        "description": panel.description.format(
            slo=settings.slo,
            thresholds=settings.thresholds,
            exporter=settings.exporter,
            limits=[value for value, _ in own],
            lines=lines,
            pages=_told(settings, "page"),
            tickets=_told(settings, "ticket"),
        ),
        "dataSource": _SOURCE,
        "maxDataPoints": panel.points or None,  # one point per pixel
        "targets": [_target(panel, query, at, settings) for at, query in enumerate(queries(panel, settings))],
        "links": [_APP, *map(_runbook, (*panel.symptoms, *panel.causes))],
        "thresholds": [Threshold(GREY), *(Threshold(color, value) for value, color in own)],
    }
    if panel.kind is Kind.XY:
        return _points(panel, common, lines, settings)
    return _DRAW[panel.kind](
        panel, common | {"overrides": [*_overrides(panel, settings), *_named(panel), *_linked(panel)]}
    )


def _told(settings: Settings, severity: str) -> str:
    """The burns of a severity in words."""
    rows = (f"{row.burn:g} over {row.long} and {row.short}" for row in _burns(settings, severity))
    return "; ".join(rows) or "none is set"


def _points(panel: Panel, common: dict[str, Any], lines: list[float], settings: Settings) -> core.Panel:
    """The groups of points in order of their queries, and their lines as one group more."""
    groups = []
    for name, mine in groupby(enumerate(panel.queries), lambda found: found[1].legend):
        found = tuple(mine)
        query = found[0][1]
        refs = tuple(_ref(at) for at, _ in found)
        groups.append(Points(name, query.color, refs, tuple(q.column for _, q in found), hollow=query.dashed))
    across = _cross(panel, lines)
    used = len(panel.queries)
    groups.append(
        Points(across[0].legend, GREY, tuple(_ref(used + n) for n in range(2)), groups[0].columns[:2], line=True)
    )
    links = [{"title": "Triage app", "url": _OF_ROW, "targetBlank": True}] if panel.leads is Leads.APP else []
    return XYChart(
        **common
        | {
            "targets": [
                *common["targets"],
                *(_target(panel, query, used + n, settings) for n, query in enumerate(across)),
            ]
        },
        groups=tuple(groups),
        unit=panel.unit,
        low=-_EDGE,
        high=1 + _EDGE,
        empty=panel.empty,
        ways=links,
    )


def _cross(panel: Panel, lines: list[float]) -> tuple[Query, Query]:
    """x and y of the corners of one line that draws both, while any point is there: along one limit, then along the other."""
    across, up = lines
    corners = ((across, 0.0), (across, 1.0), (across, up), (0.0, up), (1.0, up))
    legend = f"Limits: {across:g} across, {up:g} up"
    x, y = (" or ".join(_corner(n, corner[axis]) for n, corner in enumerate(corners)) for axis in (0, 1))
    while_there = f"and on () ({panel.present})"
    return (
        Query(legend, GREY, promql=f"({x}) {while_there}", by=("corner",)),
        Query(legend, GREY, promql=f"({y}) {while_there}", by=("corner",)),
    )


def _corner(number: int, value: float) -> str:
    return f'label_replace(vector({value:g}), "corner", "{number}", "", "")'


def _tiles(panel: Panel, common: dict[str, Any]) -> core.Panel:
    return core.Stat(
        **common,
        noValue=panel.empty,
        format=panel.unit,
        color={"mode": "fixed", "fixedColor": GREY},
        colorMode="background",
        graphMode="none",
        reduceCalc="lastNotNull",
        textMode="name" if panel.by_name else "value_and_name",
        extraJson={"options": TILES, "fieldConfig": {"defaults": {"links": _OF_VALUE[panel.leads]}}},
    )


def _states(panel: Panel, common: dict[str, Any]) -> core.Panel:
    return core.StateTimeline(
        **common,
        mappings=_mappings(panel.queries[0].names),
        showValue="never",
        extraJson={
            "options": STATES,
            "fieldConfig": {
                "defaults": {"noValue": panel.empty, "unit": panel.unit, "links": _OF_VALUE[panel.leads]},
            },
        },
    )


def _lines(panel: Panel, common: dict[str, Any]) -> core.Panel:
    stacked = panel.kind is Kind.STACK
    return core.TimeSeries(
        **common,
        unit=panel.unit,
        colorMode="fixed",
        lineWidth=2,
        fillOpacity=70 if stacked else 0,
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        showPoints="never",
        thresholdsStyleMode="dashed" if panel.limits else "off",
        tooltipMode="multi",
        tooltipSort="desc",
        legendCalcs=["lastNotNull"],
        valueMin=0,
        valueMax=panel.top,
        extraJson={"options": LINES, "fieldConfig": {"defaults": {"noValue": panel.empty}}},
    )


_DRAW = {Kind.STAT: _tiles, Kind.TIMELINE: _states, Kind.LINES: _lines, Kind.STACK: _lines}


def _target(panel: Panel, query: Query, at: int, settings: Settings) -> Any:  # noqa: ANN401 - grafanalib has no types
    labels = "".join(f" {{{{{label}}}}}" for label in query.by)
    target: Any = Traced if query.exemplar else core.Target
    return target(
        refId=_ref(at),
        expr=promql(query, settings),
        legendFormat=query.legend + labels,
        instant=panel.kind in (Kind.STAT, Kind.XY),
        datasource=_SOURCE,
        **({"format": "table"} if panel.kind is Kind.XY else {}),
    )


def _ref(at: int) -> str:
    return "ABCDEFGHIJKLMN"[at]


def _overrides(panel: Panel, settings: Settings) -> Iterator[dict[str, Any]]:
    """What sets one query apart from its panel: its hue, its dash, its own unit on the right axis, its words."""
    asked = queries(panel, settings)
    for at, query in enumerate(asked):
        lone = panel.kind is Kind.LINES and len(asked) == 1
        properties: list[dict[str, Any]] = [
            {"id": "color", "value": {"mode": "shades" if lone else "fixed", "fixedColor": query.color}}
        ]
        if query.dashed:
            properties.append({"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 6]}})
        if query.unit:
            properties += [
                {"id": "unit", "value": query.unit},
                {"id": "custom.axisPlacement", "value": "right"},
                {"id": "custom.thresholdsStyle", "value": {"mode": "off"}},  # else the line is drawn on both axes
            ]
        if query.names and panel.kind is Kind.STAT:
            properties.append({"id": "mappings", "value": _mappings(query.names)})
        yield {"matcher": {"id": "byFrameRefID", "options": _ref(at)}, "properties": properties}


def _named(panel: Panel) -> Iterator[dict[str, Any]]:
    for name, color in panel.names:
        yield {
            "matcher": {"id": "byRegexp", "options": f"^{name} .*"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }


def _linked(panel: Panel) -> Iterator[dict[str, Any]]:
    """A click on a value that stands for an alert opens that alert's runbook."""
    for slug, names in RUNBOOKS if panel.leads is Leads.ALERT else ():
        link = {"title": f"Runbook: {slug}", "url": f"${{runbook_url}}/{slug}.md", "targetBlank": True}
        yield {
            "matcher": {"id": "byRegexp", "options": f"^({'|'.join(names)}) .*"},
            "properties": [{"id": "links", "value": [link]}],
        }


def _mappings(names: tuple[tuple[int, str, str], ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": "value",
            "options": {
                str(value): {"text": text, "color": color, "index": at} for at, (value, text, color) in enumerate(names)
            },
        }
    ]


def _runbook(slug: str) -> core.DashboardLink:
    return core.DashboardLink(
        type="link", title=f"Runbook: {slug}", uri=f"${{runbook_url}}/{slug}.md", targetBlank=True, keepTime=False
    )
