"""What the receivers say of themselves on the page: every export and every span is in exactly one number of its family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from llmvitals.exporters.spans.intake import Intake
from llmvitals.exporters.spans.result import Result
from llmvitals.telemetry.spans.counting import DUPLICATE, NO_TARGET, Counts
from llmvitals.telemetry.spans.dialects import DIALECTS
from llmvitals.telemetry.spans.senders import By
from llmvitals.telemetry.spans.sound import REFUSALS

OTHER = "other"
"""The dialect of spans that are no request."""

FAILED = "failed"
"""Spans that a fault of ours lost: the reason in the drops."""

_DIALECTS = tuple(dict.fromkeys(one.name for one in DIALECTS))
_REASONS = (*REFUSALS, DUPLICATE, NO_TARGET, FAILED)


def families(intake: Intake, counts: Counts, protocols: Sequence[str]) -> Iterator[Metric]:
    """Fresh families; all labels that can be are there from the start, as 0."""
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
    yield _filled(spans, _DIALECTS, {**counts.taken, OTHER: counts.other})
    dropped = CounterMetricFamily(
        "llmvitals_spans_dropped", "Spans of requests that do not count, by reason.", labels=["reason"]
    )
    yield _filled(dropped, _REASONS, {**counts.dropped, FAILED: intake.lost})
    yield GaugeMetricFamily("llmvitals_spans_open", "Spans that wait for their call or their target.", counts.open)
    yield CounterMetricFamily(
        "llmvitals_spans_hurried", "Spans that could not wait for their call, since too many did.", counts.hurried
    )
    yield GaugeMetricFamily(
        "llmvitals_span_pending_bytes", "Bytes of exports in memory that are not worked through.", intake.pending
    )
    senders = GaugeMetricFamily(
        "llmvitals_span_senders", "Processes that send spans, by how their target was found.", labels=["join"]
    )
    yield _filled(senders, [by.value for by in By], counts.senders)


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, known: Sequence[str], counts: Mapping[str, int]
) -> CounterMetricFamily | GaugeMetricFamily:
    """The family with each label, those that are known first."""
    for label in dict.fromkeys((*known, *counts)):
        family.add_metric([label], counts.get(label, 0))
    return family
