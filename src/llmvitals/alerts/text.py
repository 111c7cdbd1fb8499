"""What an alert says: annotations with live numbers, as Prometheus templates."""

from __future__ import annotations

from llmvitals.alerts.policy import ALERT_WINDOW, LEADING
from llmvitals.schema import SCOPE
from llmvitals.signals.catalogue import BY_ID, Signal

_FORMAT: dict[str, str] = {"ratio": "humanizePercentage", "seconds": "humanizeDuration"}
_NO_DATA = "no data"


def recorded(signal: Signal, window: str) -> str:
    """The name of a signal's recording rule."""
    return f"llm:{signal.id}:{window}"


def series_of(signal: Signal) -> str:
    """Where the signal's number stands in a Prometheus: its recording rule, else the exporter's gauge."""
    return recorded(signal, ALERT_WINDOW) if signal.expr is not None else f"llm_{signal.id}"


def number(signal_id: str) -> str:
    """A template that tells a signal's newest number for the alert's own scope, or that there is none."""
    signal = BY_ID[signal_id]
    labels = signal.by if signal.expr is not None else SCOPE
    matchers = ",".join(f"{label}=%q" for label in labels)
    values = " ".join(f"$labels.{label}" for label in labels)
    shown = f"{{{{ . | first | value | {_FORMAT.get(signal.unit, 'humanize')} }}}}"
    query = f'printf "{series_of(signal)}{{{matchers}}}" {values} | query'
    return f"{{{{ with {query} }}}}{shown}{{{{ else }}}}{_NO_DATA}{{{{ end }}}}"


def numbers(signal_ids: tuple[str, ...]) -> str:
    """``Title: number`` for each signal, in one sentence."""
    return "; ".join(f"{BY_ID[id].title}: {number(id)}" for id in signal_ids) + "."


def scope(labels: tuple[str, ...] = SCOPE) -> str:
    """Whose alert it is, as a template."""
    return " / ".join(f"{{{{ $labels.{label} }}}}" for label in labels)


def leading_cause(known: str, unknown: str) -> str:
    """``known`` with the leading cause of the alert's scope as ``{{ . }}``, or ``unknown`` where none leads."""
    query = f'printf "{LEADING}{{instance=%q,model=%q}}" $labels.instance $labels.model | query'
    named = f'{{{{ with . | first | label "cause" }}}}{known}{{{{ end }}}}'
    return f"{{{{ with {query} }}}}{named}{{{{ else }}}}{unknown}{{{{ end }}}}"
