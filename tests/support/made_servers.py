"""A made server's series, and what a panel's query says of them on a real Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.dashboards.model import Panel
from llmvitals.dashboards.promql import promql, queries
from llmvitals.series import series
from llmvitals.settings import Settings
from support.boards import filled
from support.prometheus import Points, PrometheusServer

START, STEP, PAGES = 1_700_000_000, 15, 41
END = START + STEP * (PAGES - 1)
PLACE = {"cluster": "east", "namespace": "chat"}


def track(values: Callable[[int], float]) -> list[tuple[int, float]]:
    """A series by page."""
    return [((START + STEP * page) * 1000, float(values(page))) for page in range(PAGES)]


def level(value: float) -> list[tuple[int, float]]:
    """A series that stays."""
    return track(lambda _: value)


def grows(per_second: float) -> list[tuple[int, float]]:
    """A counter, or a gauge that climbs or falls, from where it never gets below 0."""
    from_where = 0.0 if per_second >= 0 else -per_second * STEP * PAGES
    return track(lambda page: from_where + per_second * STEP * page)


def server(instance: str, model: str = "tiny", /, **samples: list[tuple[int, float]]) -> Points:
    """Series of one server, by names without their prefix; ``name__label__value`` has that label."""
    found: Points = {}
    for name, values in samples.items():
        family, *labels = name.split("__")
        own = dict(zip(labels[::2], labels[1::2], strict=True))
        found[series(f"llm_{family}", instance=instance, model=model, **PLACE, **own)] = values
    return found


def histogram(instance: str, family: str, per_second: float, mean: float, below: Mapping[str, float]) -> Points:
    """Observations of a histogram: so many a second, their mean, and the share up to each edge."""
    found = server(instance, **{f"{family}_count": grows(per_second), f"{family}_sum": grows(per_second * mean)})
    for edge, share in {**below, "+Inf": 1.0}.items():
        key = series(f"llm_{family}_bucket", instance=instance, model="tiny", **PLACE, le=edge)
        found[key] = grows(per_second * share)
    return found


Found = dict[str, dict[str, float]]


def says(
    prometheus: PrometheusServer, panel: Panel, instance: str = ".*", *, settings: Settings | None = None
) -> Found:
    """What each query of a panel says at the end: by its legend, then by replica, or by its one label, or '' for a total."""
    chosen = settings or Settings()
    found: Found = {}
    for query in queries(panel, chosen):
        text = filled(promql(query, chosen), span=f"{END - START}s", instance=instance)
        own = found.setdefault(query.legend or query.column, {})
        for labels, value in prometheus.query(text, at=END):
            rest = [labels[name] for name in query.by if name not in ("instance", "model", *PLACE)]
            own["/".join(filter(None, (labels.get("instance", ""), *rest)))] = value
    return found
