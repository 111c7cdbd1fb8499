"""Every series that a board may ask for, and the labels that it may have: what the page, rules and Prometheus itself show."""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.alerts.recording import recording_groups
from llmvitals.dashboards.model import PLACE
from llmvitals.dashboards.raw.tree import Aggregate, read, walk
from llmvitals.exporters import health, judge, promises, selfmetrics
from llmvitals.schema import FAMILIES, IDENTITY, SCOPE, Kind
from llmvitals.settings import PLACES, Settings
from llmvitals.signals.catalogue import SIGNALS
from llmvitals.sources.promql import EXPORTED

EVERYWHERE = frozenset({*PLACE, *PLACES, "instance", "job", f"{EXPORTED}instance"})
"""Labels that a target, its scrape or its Prometheus may put on any series, and what a target's own ``instance`` may become."""


OWN_LABELS: Mapping[str, tuple[str, ...]] = {
    "llmvitals_build_info": ("version", "python"),
    "llmvitals_http_requests_total": ("path", "code"),
    "llmvitals_otlp_exports_total": ("result",),
    "llmvitals_span_exports_total": ("protocol", "result"),
    "llmvitals_spans_total": ("dialect",),
    "llmvitals_spans_dropped_total": ("reason",),
    "llmvitals_span_senders": ("join",),
    health.SUCCESS: ("collector",),
    health.DURATION: ("collector",),
    judge.GAP: ("model", "signal", "gap"),
    judge.STANDING: ("model", "signal", "standing"),
    judge.VERDICT: ("model", "verdict"),
    judge.CHECK_STATE: ("model", "cause", "state"),
    judge.LEADING: ("model", "cause"),
    judge.HURT: ("model",),
    judge.SETTING: ("model", "cause", "setting"),
    judge.BINDING: ("model", "resource"),
    **dict.fromkeys(promises.NAMES, (*IDENTITY, "objective", "edge")),
}
"""Labels of the exporter's own series."""

PROMETHEUS: Mapping[str, tuple[str, ...]] = {
    "up": (),
    "scrape_duration_seconds": (),
    "scrape_samples_scraped": (),
    "scrape_samples_post_metric_relabeling": (),
    "scrape_series_added": (),
    "ALERTS": ("alertname", "alertstate", "severity", "cause", "model"),
    "ALERTS_FOR_STATE": ("alertname", "severity", "cause", "model"),
    "prometheus_rule_evaluation_failures_total": ("rule_group",),
    "prometheus_rule_group_last_evaluation_timestamp_seconds": ("rule_group",),
    "prometheus_rule_group_iterations_missed_total": ("rule_group",),
    "prometheus_rule_group_last_duration_seconds": ("rule_group",),
    "prometheus_rule_group_interval_seconds": ("rule_group",),
    "process_resident_memory_bytes": (),
    "process_cpu_seconds_total": (),
}
"""What Prometheus makes itself, and what every process that it scrapes shows."""


def known_labels() -> dict[str, frozenset[str]]:
    """Every series that a board may ask for, with the labels that it may have."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys((*selfmetrics.NAMES, *health.NAMES), ())
    for family in FAMILIES:
        labels = (*IDENTITY, *family.labels)
        if family.kind is Kind.HISTOGRAM:
            found |= {
                f"{family.name}_bucket": (*labels, "le"),
                f"{family.name}_sum": labels,
                f"{family.name}_count": labels,
            }
        else:
            found[family.name] = labels
    for signal in SIGNALS:
        if signal.expr is None:
            found[f"llm_{signal.id}"] = (*SCOPE, "window")
    for group in recording_groups(Settings()):
        for rule in group["rules"]:
            kept = {
                name for node in walk(read(rule["expr"])) if isinstance(node, Aggregate) for name in node.labels or ()
            }
            found[rule["record"]] = tuple(kept) or SCOPE
    found |= OWN_LABELS | PROMETHEUS
    return {name: frozenset(labels) | EVERYWHERE for name, labels in found.items()}


KNOWN = known_labels()
COUNTERS = {f.name for f in FAMILIES if f.kind is Kind.COUNTER} | {
    name for name in KNOWN if name.endswith(("_total", "_bucket", "_sum", "_count"))
}
