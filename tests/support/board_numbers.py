"""Numbers of panels over series that are written down: what each query finds, by its legend and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmvitals.series import series
from support.boards import filled, of
from support.prometheus import Points, PrometheusServer

START, STEP, PAGES = 1_700_000_000, 15, 41
END = START + STEP * (PAGES - 1)
PLACE = {"cluster": "east", "namespace": "chat", "model": "m"}


def grows(name: str, by: float | Callable[[int], float], **labels: str) -> Points:
    """A counter that grows by so much from page to page, or by what is said of each page."""
    total, track = 0.0, []
    for page in range(PAGES):
        track.append(((START + STEP * page) * 1000, total))
        total += by(page) if callable(by) else by
    return {series(name, **PLACE | labels): track}


def stays(name: str, value: float, **labels: str) -> Points:
    """A gauge that does not move."""
    return {series(name, **PLACE | labels): [((START + STEP * page) * 1000, value) for page in range(PAGES)]}


def histogram(name: str, mean: float, buckets: Mapping[str, int], **labels: str) -> Points:
    """So many observations in each bucket (by its upper edge, in order) from page to page, with a mean."""
    below, found = 0, {}
    for edge, count in buckets.items():
        below += count
        found |= grows(f"{name}_bucket", below, le=edge, **labels)
    found |= grows(f"{name}_count", below, **labels)
    return found | grows(f"{name}_sum", below * mean, **labels)


def numbers(
    server: PrometheusServer, board: str, title: str, *shown: str, span: str = "600s", **chosen: str
) -> dict[str, dict[tuple[str, ...], float]]:
    """By legend (of a table: heading) what each query of a panel finds at the end, by the labels ``shown``."""
    found = {}
    for asked in of(title, board).asked:
        answer = server.query(filled(asked.expr, span=span, **chosen), at=END)
        keys = [tuple(labels[label] for label in shown if label in labels) for labels, _ in answer]
        assert len(set(keys)) == len(keys), f"{asked.expr}: {answer}"
        name = asked.query.legend or asked.query.column
        found[name] = {key: value for key, (_, value) in zip(keys, answer, strict=True)}
    return found
