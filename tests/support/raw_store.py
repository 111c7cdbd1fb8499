"""Engines' pages as a Prometheus that scrapes them would have stored them: every series with the labels of its target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from llmvitals.series import Series, series
from llmvitals.telemetry.ingest import RawPage
from llmvitals.telemetry.ingest.exposition import number, parse_series, split_sample
from support.prometheus import Points, joined, load_blocks, openmetrics


def stored(pages: Iterable[RawPage], target: Mapping[str, str]) -> Points:
    """The samples of pages (times in milliseconds), ``up`` and ``scrape_duration_seconds``; a label of a page that the target has
    too is renamed, as without ``honor_labels``.
    """
    points: Points = {}
    for page in pages:
        t = round(page.t * 1000)
        answered = page.status == 200 and page.body is not None
        for line in (page.body or b"").splitlines() if answered else ():
            sample = None if line.lstrip().startswith(b"#") else split_sample(line)
            if sample is not None:
                points.setdefault(_named(sample[0], **target), []).append((t, number(sample[1])))
        points.setdefault(series("up", **target), []).append((t, float(answered)))
        if page.took is not None:
            points.setdefault(series("scrape_duration_seconds", **target), []).append((t, page.took))
    return points


@cache  # pages of one server say the same names again and again
def _named(text: bytes, **target: str) -> Series:
    name, labels = parse_series(text)
    own = {f"exported_{k}" if k in target else k: v for k, v in labels.items() if v}
    return series(name, **own, **target)


def store(folder: Path, *several: Points) -> None:
    """Put them into a Prometheus data folder; see :func:`support.prometheus.load_blocks`."""
    load_blocks(openmetrics(joined(several)), folder)
