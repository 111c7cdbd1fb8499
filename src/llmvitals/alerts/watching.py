"""Alerts on the watching itself: what makes the other alerts blind. They ask Prometheus about exporters and rules, not about
servers.
"""

from __future__ import annotations

from llmvitals.alerts import names, nodes
from llmvitals.alerts.conditions import Written
from llmvitals.alerts.model import (
    GONE_MEMORY,
    PAGE,
    REQUESTS_RUNNING,
    TARGET_UP,
    TELEMETRY_GROUP,
    TICKET,
    VERDICT,
    Alert,
)
from llmvitals.alerts.names import INSTANCE
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Matcher, Node, Number, Selector

AGE, RELOADED = "llmvitals_cycle_age_seconds", "llmvitals_config_last_reload_successful"
COLLECTED, EXPORTER = "llmvitals_collector_success", "llmvitals_build_info"
COLLECTOR = (*INSTANCE, "collector")

STUCK_INTERVALS = 10
"""An exporter whose newest cycle is older than so many intervals shows the past as the present."""

BLIND = "2m"
"""No longer than targets wait that are gone: what nobody watches looks gone to Prometheus, and must not be told as such."""

_UP = Selector(TARGET_UP)


def _nobody(settings: Settings) -> Node:
    """No target, and no exporter that could know one: where all models were switched off there is nothing to watch. Told of each
    cluster whose targets are remembered, so that what else is told of these is silenced.
    """
    nothing: Node = Call("absent", (_UP,))
    if own := names.joined(settings, ()):
        remembered = Aggregate("count", own, Call("max_over_time", (Selector(TARGET_UP, window=GONE_MEMORY),)))
        nothing = Infix("or", Infix("unless", remembered, Aggregate("count", own, _UP), own), nothing, ())
    return Infix("unless", nothing, Aggregate("count", (), Selector(EXPORTER)), ())


def _exporter(settings: Settings) -> Node:
    return Infix(
        "==", nodes.most(settings, INSTANCE, Selector("up", (Matcher("job", (settings.alerts.job,)),))), Number(0)
    )


def _stuck(settings: Settings) -> Node:
    limit = round(STUCK_INTERVALS * settings.exporter.interval_seconds, 3)
    return Infix(">", nodes.most(settings, INSTANCE, Selector(AGE)), Number(limit))


def _unjudged(settings: Settings) -> Node:
    verdicts = Aggregate("count", names.kept(settings, INSTANCE), Selector(VERDICT))
    return Infix("unless", nodes.up(settings), verdicts, names.joined(settings, INSTANCE))


def _unruled(settings: Settings) -> Node:
    served = Aggregate("count", names.kept(settings, SCOPE), Selector(REQUESTS_RUNNING))
    recorded = Selector(names.recorded(BY_ID["requests_running"]))
    return Infix("unless", served, recorded, names.joined(settings, SCOPE))


def _refused(settings: Settings) -> Node:
    return Infix("==", nodes.most(settings, INSTANCE, Selector(RELOADED)), Number(0))


def _fails(settings: Settings) -> Node:
    failed = Infix("==", nodes.most(settings, COLLECTOR, Selector(COLLECTED)), Number(0))
    # a target that is gone has its own alert
    return Infix("unless", failed, nodes.down(settings), names.joined(settings, INSTANCE))


def _twice(settings: Settings) -> Node:
    return Infix(">", Aggregate("count", names.joined(settings, INSTANCE), _UP), Number(1))


_NOBODY, _HALF = "nobody-watches", "half-blind"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "LLMNobodyWatches",
        "No llmvitals exporter is scraped",
        PAGE,
        Written(_nobody),
        BLIND,
        _NOBODY,
        TARGET_UP,
        TELEMETRY_GROUP,
        words="llm_target_up is absent: servers may be well or not, no alert on them can fire. Exporters that are scraped: "
        '{{ with query "count(llmvitals_build_info)" }}{{ . | first | value }}{{ else }}0{{ end }}.',
        by=(),
    ),
    Alert(
        "LLMExporterGone",
        "An exporter does not answer",
        TICKET,
        Written(_exporter),
        "5m",
        _NOBODY,
        "up",
        TELEMETRY_GROUP,
        words="up is {{ $value }}: Prometheus cannot scrape it, and its targets are watched by nobody.",
        by=INSTANCE,
    ),
    Alert(
        "LLMExporterStuck",
        "An exporter shows the past",
        TICKET,
        Written(_stuck),
        "5m",
        _NOBODY,
        AGE,
        TELEMETRY_GROUP,
        words="Its newest numbers are {{ $value | humanizeDuration }} old: it answers, but looks at its targets no more.",
        by=INSTANCE,
    ),
    Alert(
        "LLMTriageAbsent",
        "The triage gives no verdict",
        TICKET,
        Written(_unjudged),
        "10m",
        _HALF,
        VERDICT,
        TELEMETRY_GROUP,
        words="llm_target_up is {{ $value }} and there is no llm_triage_verdict: alerts on causes and on hurt users are blind.",
        by=INSTANCE,
    ),
    Alert(
        "LLMRulesAbsent",
        "Recording rules are not loaded",
        TICKET,
        Written(_unruled),
        "15m",
        _HALF,
        REQUESTS_RUNNING,
        TELEMETRY_GROUP,
        words="{{ $value }} series of llm_requests_running, none of llm:requests_running:5m: load llmvitals-recording.yaml, or "
        "alerts on budgets and on servers that are gone stay silent.",
        by=SCOPE,
    ),
    Alert(
        "LLMReloadFailed",
        "An exporter refused its newest settings",
        TICKET,
        Written(_refused),
        "10m",
        _HALF,
        RELOADED,
        TELEMETRY_GROUP,
        words="llmvitals_config_last_reload_successful is {{ $value }}: the settings before it are in use. Its log names the key.",
        by=INSTANCE,
    ),
    Alert(
        "LLMCollectorFails",
        "A collector fails",
        TICKET,
        Written(_fails),
        "15m",
        _HALF,
        COLLECTED,
        TELEMETRY_GROUP,
        words="llmvitals_collector_success is {{ $value }}: checks that need what it collects are undecided.",
        by=COLLECTOR,
    ),
    Alert(
        "LLMSeriesTwice",
        "A target is told of more than once",
        TICKET,
        Written(_twice),
        "15m",
        _HALF,
        TARGET_UP,
        TELEMETRY_GROUP,
        words="{{ $value }} series of llm_target_up for it: two exporters watch it, or one is scraped twice. Sums count it twice.",
        by=INSTANCE,
    ),
)
