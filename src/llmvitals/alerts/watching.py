"""Alerts on the watching itself: targets that are gone, and what makes the other alerts blind."""

from __future__ import annotations

from llmvitals.alerts import policy, text
from llmvitals.alerts.parts import Rule, rule
from llmvitals.alerts.policy import Severity
from llmvitals.schema import SCOPE
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.signals.promql_ast import Aggregate, Call, Infix, Number, Selector


def watching(settings: Settings) -> list[Rule]:
    """What makes the other alerts blind, and targets that are gone. ``absent`` needs no traffic and no target."""
    up = Selector(policy.TARGET_UP)
    per_instance = ("instance",)
    seen = Aggregate(
        "max", per_instance, Call("max_over_time", (Selector(policy.TARGET_UP, window=policy.GONE_MEMORY),))
    )
    down = Infix("==", Aggregate("max", per_instance, up), Number(0))
    vanished = Infix("unless", Infix("*", seen, Number(0)), Aggregate("max", per_instance, up))
    verdicts = Aggregate("count", per_instance, Selector(policy.VERDICT))
    running = Selector(text.series_of(BY_ID["requests_running"]))
    unruled = Infix("unless", Aggregate("count", SCOPE, Selector("llm_requests_running")), running)
    page, ticket = ({"severity": s.value} for s in (Severity.PAGE, Severity.TICKET))
    broken = {"cause": "telemetry-broken"}
    return [
        rule(
            "LLMTargetGone",
            Infix("or", down, vanished),
            wait="2m",
            labels=page | {"cause": "not-serving"},
            summary=f"No metrics page from {text.scope(per_instance)}",
            description="The target refused, timed out, answered with no readable page, or is no longer scraped. "
            f"llm_target_up is {{{{ $value }}}}; HTTP status: {_status()}.",
            runbook="not-serving",
            settings=settings,
        ),
        rule(
            "LLMNobodyWatches",
            Call("absent", (up,)),
            wait="5m",
            labels=page | broken,
            summary="No llmvitals exporter is scraped",
            description="llm_target_up is absent: 0 targets are watched, so no other alert of this set can fire.",
            runbook="telemetry-broken",
            settings=settings,
        ),
        rule(
            "LLMTriageAbsent",
            Infix("unless", Infix("==", Aggregate("max", per_instance, up), Number(1)), verdicts),
            wait="10m",
            labels=ticket | broken,
            summary=f"No verdict for {text.scope(per_instance)}",
            description="llm_target_up is {{ $value }} and there is no llm_triage_verdict: "
            "alerts on causes are blind here.",
            runbook="telemetry-broken",
            settings=settings,
        ),
        rule(
            "LLMRulesAbsent",
            unruled,
            wait="15m",
            labels=ticket | broken,
            summary=f"Recording rules are not loaded for {text.scope()}",
            description=f"{{{{ $value }}}} series of llm_requests_running, none of {running.name}: "
            "load llmvitals-recording.yaml, or alerts tell no numbers.",
            runbook="telemetry-broken",
            settings=settings,
        ),
    ]


def _status() -> str:
    query = 'printf "llm_target_status{instance=%q}" $labels.instance | query'
    return f"{{{{ with {query} }}}}{{{{ . | first | value }}}}{{{{ else }}}}none{{{{ end }}}}"
