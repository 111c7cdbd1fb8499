"""The exporter's metrics about itself (``llmvitals_*``, ``process_*``), made afresh for every scrape."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llmvitals import __version__
from llmvitals.exporters.board import Board

if TYPE_CHECKING:
    from llmvitals.exporters.otlp.push import Push
    from llmvitals.exporters.spans.receiver import Receiver

NAMES = (
    "llmvitals_build_info",
    "llmvitals_config_last_reload_successful",
    "llmvitals_cycles_total",
    "llmvitals_cycle_age_seconds",
    "llmvitals_cycle_end_timestamp_seconds",
    "llmvitals_cycle_duration_seconds",
    "llmvitals_page_bytes",
    "llmvitals_targets",
    "llmvitals_http_requests_total",
    "llmvitals_http_connections",
    "llmvitals_http_connections_cut_total",
    "llmvitals_otlp_exports_total",
    "llmvitals_otlp_last_success_timestamp_seconds",
    "llmvitals_otlp_left_out_points",
    "llmvitals_span_exports_total",
    "llmvitals_spans_total",
    "llmvitals_spans_dropped_total",
    "llmvitals_spans_open",
    "llmvitals_spans_hurried_total",
    "llmvitals_span_pending_bytes",
    "llmvitals_span_senders",
)
"""Every family of this collector as a scraper sees it; those of OTLP only where the page is pushed, those of spans only where
they are taken in."""


class SelfMetrics(Collector):
    """Reads the board. ``requests`` counts answers by (path, status code); only the server's thread writes it.

    ``cuts``: connections that had to go; ``open`` gives those there are, ``web_ok`` whether the newest web configuration is in use.
    ``push``: what pushes the page over OTLP, if anything does; replaced on a reload. ``receiver``: what takes in traces.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.requests: Counter[tuple[str, str]] = Counter()
        self.cuts = 0
        self.open: Callable[[], int] = lambda: 0
        self.web_ok: Callable[[], bool] = lambda: True
        self.push: Push | None = None
        self.receiver: Receiver | None = None
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def refused(self, status: int) -> None:
        """Count an answer that no application gave."""
        self.requests["other", str(status)] += 1

    def cut(self) -> None:
        """Count a connection that was ended to make room, or not let in for want of it."""
        self.cuts += 1

    def describe(self) -> Iterator[Metric]:
        """Nothing: the registry need not call :meth:`collect` to register it."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Fresh families from the newest cycle; before the first one only what is known without it."""
        build = GaugeMetricFamily(
            "llmvitals_build_info", "1; the labels say what is running.", labels=["version", "python"]
        )
        build.add_metric([__version__, platform.python_version()], 1.0)
        yield build
        yield GaugeMetricFamily(
            "llmvitals_config_last_reload_successful",
            "1 unless the newest settings or web configuration (with its certificates) was refused and what was before is in use.",
            float(self._board.reload_ok and self.web_ok()),
        )
        yield CounterMetricFamily("llmvitals_cycles", "Finished cycles.", self._board.cycles)
        yield GaugeMetricFamily(
            "llmvitals_cycle_age_seconds", "Age of the newest finished cycle, which this page shows.", self._board.age()
        )
        requests = CounterMetricFamily("llmvitals_http_requests", "Answered HTTP requests.", labels=["path", "code"])
        for labels, count in tuple(self.requests.items()):  # a push reads them from its own thread
            requests.add_metric(list(labels), count)
        yield requests
        yield GaugeMetricFamily("llmvitals_http_connections", "Open connections.", self.open())
        yield CounterMetricFamily(
            "llmvitals_http_connections_cut",
            "Connections ended, or not let in, since there was no room for all.",
            self.cuts,
        )
        if self.receiver is not None:
            yield from self.receiver.families()
        yield from self._of_push()
        yield from self._of_cycle()

    def _of_push(self) -> Iterator[Metric]:
        push = self.push
        if push is None:
            return
        exports = CounterMetricFamily("llmvitals_otlp_exports", "Pushes over OTLP by their result.", labels=["result"])
        for result, count in push.exports.items():
            exports.add_metric([result], count)
        yield exports
        if push.last_success is not None:
            yield GaugeMetricFamily(
                "llmvitals_otlp_last_success_timestamp_seconds",
                "Unix time of the newest push that the collector took.",
                push.last_success,
            )
            yield GaugeMetricFamily(
                "llmvitals_otlp_left_out_points",
                "Points of that push which OTLP cannot say: NaN, and histograms and counters that contradict themselves.",
                push.left_out,
            )

    def _of_cycle(self) -> Iterator[Metric]:
        cycle = self._board.newest
        if cycle is None:
            return
        yield GaugeMetricFamily("llmvitals_cycle_end_timestamp_seconds", "Unix time of its end.", cycle.ended)
        yield GaugeMetricFamily("llmvitals_cycle_duration_seconds", "Time the newest cycle took.", cycle.seconds)
        yield GaugeMetricFamily(
            "llmvitals_page_bytes", "Size of the cycle's part of the page, as text.", cycle.page_bytes
        )
        yield GaugeMetricFamily("llmvitals_targets", "Configured targets.", len(cycle.history))
