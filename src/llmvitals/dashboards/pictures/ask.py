"""What is asked for a panel: its queries with the variables filled in, as Grafana would."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmvitals.dashboards.model import NOW, Panel
from llmvitals.dashboards.pictures.results import SCRAPE_SECONDS, Choice, Span
from llmvitals.dashboards.promql import filled, promql, queries
from llmvitals.settings import Settings

_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_POINTS = 400
"""Points along the time axis: a panel of 8 columns is about that many pixels wide."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a PromQL endpoint: an instant query at the end of the span, or a range query over it."""

    expr: str
    span: Span
    instant: bool


def spanned(start: float, end: float, step: float | None = None, scrape: float = SCRAPE_SECONDS) -> Span:
    """The time from ``start`` to ``end`` (unix seconds) in steps of whole seconds, begun at a multiple of the step as Grafana does.

    Without ``step``: the smallest even one that gives at most 400 points and is no shorter than the scrape interval.
    """
    least = max((end - start) / _POINTS, scrape)
    every = step or _even(least)
    return Span(start // every * every, end // every * every, every)


def span_of(panel: Panel, span: Span) -> Span:
    """The time as a panel is asked for it: in fewer steps than the others' where it looks far back at each."""
    if not panel.points:
        return span
    return spanned(span.start, span.end, _even(max((span.end - span.start) / panel.points, span.step)))


def asked(
    panel: Panel, settings: Settings, choice: Choice, span: Span, scrape: float = SCRAPE_SECONDS
) -> tuple[Asked, ...]:
    """The questions of a panel, in the order of its queries."""
    mine = span_of(panel, span)
    window = max(mine.step + scrape, 4 * scrape)  # Grafana's documentation on $__rate_interval
    values = {
        "__rate_interval": f"{window:.0f}s",
        "__interval": f"{mine.step:.0f}s",
        "__range": f"{span.end - span.start:.0f}s",
        "__range_s": f"{span.end - span.start:.0f}",
        **{name: _matched(choice.of(name)) for name in ("cluster", "namespace", "model", "instance")},
    }
    exprs = (promql(query, settings) for query in queries(panel, settings))
    return tuple(Asked(filled(one, values), mine, panel.kind in NOW) for one in exprs)


def _even(least: float) -> float:
    """The smallest even step, in seconds, that is no shorter than that; a day where all are."""
    return float(next((s for s in _STEPS if s >= least), _STEPS[-1]))


def _matched(names: tuple[str, ...]) -> str:
    """The regular expression for chosen names inside quotation marks of PromQL; all, and what lacks the label, without any."""
    if not names:
        return ".*"
    escaped = [re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\\\1", name).replace('"', r"\"") for name in names]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
