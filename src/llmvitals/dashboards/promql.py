"""What a board's queries ask, the columns of its tables, and the numbers of its limits. Pure, and without Grafana's libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from llmvitals.dashboards.model import INSTANCE, PLACE, SELECTOR, WINDOW, Limit, Panel, Query
from llmvitals.schema import SCOPE
from llmvitals.settings import Burn, Settings
from llmvitals.signals.algebra import Quantile
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql import to_promql
from llmvitals.signals.promql_ast import quoted

_SIGNAL = re.compile(r"<(\w+)>")
_SETTING = re.compile(r"<(\w+(?:\.\w+)+)>")
_LONG = "<long>"
_APART = re.compile(r"\b(by|on) \((?=instance\b)")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")

_FIRST = (*PLACE, *SCOPE)
_HEADINGS = {"instance": "Replica"}
"""Labels whose column is not headed by their own name: what the variables at the top call them."""


def queries(panel: Panel, settings: Settings) -> tuple[Query, ...]:
    """The queries of a panel, those on burns once for each row of the settings that they are for, all but the first dashed."""
    return tuple(one for query in panel.queries for one in _each_burn(query, settings))


def _each_burn(query: Query, settings: Settings) -> Iterator[Query]:
    if not query.burns:
        yield query
        return
    for at, burn in enumerate(burns(settings, query.burns)):
        legend, asked = (text.replace(_LONG, burn.long) for text in (query.legend, query.promql))
        yield replace(query, legend=legend, promql=asked, dashed=at > 0)


def burns(settings: Settings, severity: str) -> tuple[Burn, ...]:
    """The burns of a severity, as the settings have them."""
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


def filled(asked: str, values: Mapping[str, str]) -> str:
    """A query with the values of Grafana's variables; one that has none stays."""
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), asked)


def columns(several: Iterable[Query]) -> tuple[str, ...]:
    """The labels of a table's queries in the order of their columns: those of a target first."""
    found = dict.fromkeys(label for query in several for label in kept(query.by))
    return tuple(sorted(found, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)))


def heading(label: str) -> str:
    """What a label is called over a column of a table."""
    return _HEADINGS.get(label, label.replace("_", " ").capitalize())


def _said(value: float | str) -> str:
    """A setting inside PromQL: a number, or text that stands between quotation marks."""
    return quoted(value)[1:-1] if isinstance(value, str) else f"{value:g}"


def limits(panel: Panel | Query, settings: Settings) -> tuple[tuple[float, str], ...]:
    """The limits of a panel or of a table's column as number and colour, in rising order."""
    return tuple(sorted(pair for limit in panel.limits for pair in _numbers(limit, settings)))


def lines(panel: Panel, settings: Settings) -> tuple[float, ...]:
    """Where the lines of an XY chart lie: across x, then across y."""
    return tuple(number for limit in panel.lines for number, _ in _numbers(limit, settings))


def _numbers(limit: Limit, settings: Settings) -> Iterator[tuple[float, str]]:
    """The numbers of one limit, each with its colour."""
    if limit.severity:
        yield from ((row.burn, limit.color) for row in burns(settings, limit.severity))
        return
    value = attrgetter(limit.setting)(settings)
    for number in value if isinstance(value, tuple) else (value,):
        yield (1.0 - number if limit.rest else number * limit.times), limit.color


def described(panel: Panel, settings: Settings) -> str:
    """The description of a panel with the numbers of the settings in it."""
    return panel.description.format(
        slo=settings.slo,
        thresholds=settings.thresholds,
        exporter=settings.exporter,
        limits=[value for value, _ in limits(panel, settings)],
        lines=lines(panel, settings),
        pages=_told(settings, "page"),
        tickets=_told(settings, "ticket"),
    )


def _told(settings: Settings, severity: str) -> str:
    """The burns of a severity in words."""
    rows = (f"{row.burn:g} over {row.long} and {row.short}" for row in burns(settings, severity))
    return "; ".join(rows) or "none is set"
