"""Series of servers that are written down, and what the queries of a panel find of them on a real Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from llmvitals.dashboards.model import Panel, Query
from llmvitals.dashboards.promql import promql, queries
from llmvitals.series import series
from llmvitals.settings import Settings
from support.boards import filled, of
from support.prometheus import Points, PrometheusServer

START, STEP, PAGES = 1_700_000_000, 15, 41
END = START + STEP * (PAGES - 1)
PLACE = {"cluster": "east", "namespace": "chat"}

Samples = list[tuple[int, float]]

# -- one series, page by page -------------------------------------------------------------------------------------------


def track(values: Callable[[int], float], pages: int = PAGES) -> Samples:
    """A series by page."""
    return [((START + STEP * page) * 1000, float(values(page))) for page in range(pages)]


def level(value: float) -> Samples:
    """A series that stays."""
    return track(lambda _: value)


def grows(per_second: float) -> Samples:
    """A counter, or a gauge that climbs or falls, from where it never gets below 0."""
    from_where = 0.0 if per_second >= 0 else -per_second * STEP * PAGES
    return track(lambda page: from_where + per_second * STEP * page)


# -- series by their whole names ----------------------------------------------------------------------------------------


def gauge(name: str, value: float, **labels: str) -> Points:
    """A gauge that does not move."""
    return _one(name, level(value), labels)


def counter(name: str, by: float | Callable[[int], float], **labels: str) -> Points:
    """A counter that grows by so much from page to page, or by what is said of each page."""
    steps = (by(page) if callable(by) else by for page in range(PAGES - 1))
    return _one(name, track([*accumulate(steps, initial=0.0)].__getitem__), labels)


def counted(name: str, mean: float, buckets: Mapping[str, int], **labels: str) -> Points:
    """A histogram: so many observations in each bucket (by its upper edge, in order) from page to page, with a mean."""
    below = dict(zip(buckets, accumulate(buckets.values()), strict=True))
    return _histogram(name, mean, below, sum(buckets.values()), labels)


def _histogram(name: str, mean: float, below: Mapping[str, float], count: float, labels: Mapping[str, str]) -> Points:
    """``below``: how many observations come up to each edge from page to page."""
    found = counter(f"{name}_count", count, **labels) | counter(f"{name}_sum", count * mean, **labels)
    for edge, inside in below.items():
        found |= counter(f"{name}_bucket", inside, le=edge, **labels)
    return found


def _one(name: str, samples: Samples, labels: Mapping[str, str]) -> Points:
    return {series(name, **PLACE | {"model": "m"} | labels): samples}


# -- series by server ---------------------------------------------------------------------------------------------------


def server(instance: str, model: str = "tiny", /, **samples: Samples) -> Points:
    """Series of one server, by names without their prefix; ``name__label__value`` has that label."""
    found: Points = {}
    for name, values in samples.items():
        family, *labels = name.split("__")
        own = dict(zip(labels[::2], labels[1::2], strict=True))
        found |= _one(f"llm_{family}", values, {"instance": instance, "model": model, **own})
    return found


def histogram(instance: str, family: str, per_second: float, mean: float, below: Mapping[str, float]) -> Points:
    """Observations of a histogram: so many a second, their mean, and the share up to each edge."""
    count = per_second * STEP
    edges = {edge: count * share for edge, share in {**below, "+Inf": 1.0}.items()}
    return _histogram(f"llm_{family}", mean, edges, count, {"instance": instance, "model": "tiny"})


# -- what is found ------------------------------------------------------------------------------------------------------

Found = dict[str, dict[tuple[str, ...], float]]
"""By a query's legend (of a table: heading) and the values of some labels, the number."""


def asked(panel: Panel, settings: Settings) -> list[tuple[Query, str]]:
    """The queries of a panel, each with its PromQL."""
    return [(query, promql(query, settings)) for query in queries(panel, settings)]


def found(
    prometheus: PrometheusServer,
    asked: Iterable[tuple[Query | None, str]],
    shown: Callable[[Query, Mapping[str, str]], tuple[str, ...]],
    *,
    at: float = END,
    span: str = f"{END - START}s",
    **chosen: str,
) -> Found:
    """What each query finds at a moment, by what is ``shown`` of its labels: no two of its numbers have one name."""
    answers: Found = {}
    for query, text in asked:
        assert query is not None, f"the drawer adds {text}"
        answer = prometheus.query(filled(text, span=span, **chosen), at=at)
        rows = {shown(query, labels): value for labels, value in answer}
        assert len(rows) == len(answer), f"two numbers of one name: {text}: {answer}"
        answers.setdefault(query.legend or query.column, {}).update(rows)
    return answers


def numbers(server: PrometheusServer, board: str, title: str, *shown: str, **chosen: str) -> Found:
    """What each query of a panel finds at the end as it is drawn, by the labels ``shown``."""
    drawn = [(one.query, one.expr) for one in of(title, board).asked]
    return found(server, drawn, lambda _, labels: tuple(labels[one] for one in shown if one in labels), **chosen)


def says(
    prometheus: PrometheusServer, panel: Panel, instance: str = ".*", *, settings: Settings | None = None
) -> dict[str, dict[str, float]]:
    """What each query of a panel finds at the end: by replica, or by its one label, or '' for a total."""

    def own(query: Query, labels: Mapping[str, str]) -> tuple[str, ...]:
        rest = [labels[name] for name in query.by if name not in ("instance", "model", *PLACE)]
        return tuple(filter(None, (labels.get("instance", ""), *rest)))

    rows = found(prometheus, asked(panel, settings or Settings()), own, instance=instance)
    return {legend: {"/".join(key): value for key, value in of_query.items()} for legend, of_query in rows.items()}
