"""What the receivers say of themselves on the page: every export and every span is in exactly one number of its family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from llmvitals.exporters.spans.intake import Intake, Result
from llmvitals.telemetry.spans.ledger import Counts

OTHER = "other"
"""The dialect of spans that are no request."""

FAILED = "failed"
"""Spans that a fault of ours lost: the reason in the drops."""


def families(intake: Intake, counts: Counts, protocols: Sequence[str]) -> Iterator[Metric]:
    """Fresh families; all that can be is there from the start, as 0."""
    exports = CounterMetricFamily(
        "llmvitals_span_exports", "Exports of traces by what became of them.", labels=["protocol", "result"]
    )
    done = intake.exports()
    for protocol in protocols:
        for result in Result:
            exports.add_metric([protocol, result.value], done.get((protocol, result), 0))
    yield exports
    spans = CounterMetricFamily(
        "llmvitals_spans", "Spans taken in, by whose words they speak; other: no requests.", labels=["dialect"]
    )
    for dialect, count in counts.taken.items():
        spans.add_metric([dialect], count)
    spans.add_metric([OTHER], counts.other)
    yield spans
    dropped = CounterMetricFamily(
        "llmvitals_spans_dropped", "Spans of requests that could not be used, by reason.", labels=["reason"]
    )
    for reason, count in {**counts.dropped, FAILED: intake.lost}.items():
        dropped.add_metric([reason], count)
    yield dropped
    yield GaugeMetricFamily("llmvitals_spans_open", "Spans that wait for the span of their caller.", counts.open)
    yield GaugeMetricFamily(
        "llmvitals_span_pending_bytes", "Bytes of exports in memory that are not worked through.", intake.pending
    )
    senders = GaugeMetricFamily(
        "llmvitals_span_senders", "Processes that sent spans, by how their target was found.", labels=["join"]
    )
    for join, count in counts.senders.items():
        senders.add_metric([join], count)
    yield senders
