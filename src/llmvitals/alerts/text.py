"""What an alert says: annotations with live numbers, as Prometheus templates.

Label values enter queries through ``%q`` and addresses through ``urlquery``, so that no name of a target or a model can say
anything but itself. A number that is not there is said not to be.
"""

from __future__ import annotations

from llmvitals.alerts import names
from llmvitals.alerts.model import LEADING, SETTING, Alert
from llmvitals.schema import BY_NAME, SCOPE
from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID

_FORMAT: dict[str, str] = {
    "ratio": "{{ . | first | value | humanizePercentage }}",
    "seconds": "{{ . | first | value | humanizeDuration }}",
}
_COUNT = (  # humanize writes 990m for 0.99
    "{{ $number := . | first | value }}"
    '{{ if lt $number 1.0 }}{{ $number | printf "%.4g" }}{{ else }}{{ $number | humanize }}{{ end }}'
)
_UNITS: dict[str, str] = {"tokens": " tokens", "cores": " cores"}
"""What is written behind a number whose signal's title does not say what is counted."""

_CAUSE = "$cause"
_STATUS = "llm_target_status"


class Words:
    """The parts of one alert's texts. They ask for series of the alert's own server."""

    def __init__(self, alert: Alert, settings: Settings) -> None:
        self._alert, self._settings = alert, settings

    def whose(self) -> str:
        """Whose alert it is."""
        return " / ".join(f"{{{{ $labels.{label} }}}}" for label in self._alert.by)

    def numbers(self) -> str:
        """``Title: number`` for each signal that speaks for the alert, in one sentence."""
        return "; ".join(f"{BY_ID[id].title}: {self._number(id)}" for id in self._alert.evidence) + "."

    def _number(self, id: str) -> str:
        """A signal's newest number: as recorded, else as the exporter shows it, which judges services too."""
        signal = BY_ID[id]
        series = [names.series_of(signal)]
        if signal.expr is not None and names.gauge(signal) not in BY_NAME:
            series.append(names.gauge(signal))
        found = self._query(series, own=signal.by if signal.expr is not None else SCOPE)
        return _with(found, _FORMAT.get(signal.unit, f"{_COUNT}{_UNITS.get(signal.unit, '')}"), "no data")

    def status(self) -> str:
        """The HTTP status of the target's newest answer; 0 is that there was none."""
        found = self._query([_STATUS], own=names.INSTANCE)
        status = "{{ $status := . | first | value }}{{ if $status }}{{ $status }}{{ else }}no answer{{ end }}"
        return f"HTTP status of its page: {_with(found, status, 'not asked any more')}."

    def leading(self) -> str:
        """The cause that leads, how sure that is, and what to set."""
        named = "The triage names {{ $cause }}, {{ . | first | value | humanizePercentage }} sure."
        return _with(self._query([LEADING]), f"{_NAMED}{named}{self.set_to()}", "The triage names no cause.")

    def set_to(self, cause: str = "") -> str:
        """What to set against a cause, where the triage computes that; without one given, against ``$cause``."""
        found = self._query([SETTING], more=(("cause", f'"{cause}"' if cause else _CAUSE),))
        return (
            f'{{{{ range {found} }}}} Set {{{{ .Labels.setting }}}} to {{{{ .Value | printf "%.10g" }}}}.{{{{ end }}}}'
        )

    def runbook(self, page: str) -> str:
        """The address of a runbook."""
        return f"{self._settings.alerts.runbook_base.rstrip('/')}/{page}.md"

    def cause_runbook(self) -> str:
        """That of the cause that leads, else the alert's own."""
        page = _with(self._query([LEADING]), '{{ . | first | label "cause" }}', self._alert.runbook)
        return self.runbook(page)

    def address(self, base: str, prefix: str = "") -> str:
        """A page, opened at the alert's own scope. ``prefix``: of the names of its parameters."""
        pairs = [f"{prefix}{name}={{{{ $labels.{name} | urlquery }}}}" for name in SCOPE if name in self._alert.by]
        return f"{base}{'&' if '?' in base else '?'}{'&'.join(pairs)}" if pairs else base

    def _query(self, series: list[str], own: tuple[str, ...] = SCOPE, more: tuple[tuple[str, str], ...] = ()) -> str:
        """A template's pipeline that asks for series of the alert's server. ``more``: labels, and their values in templates."""
        same = names.joined(self._settings, tuple(label for label in own if label in self._alert.by))
        pairs = [*((label, _value(label)) for label in same), *more]
        matchers = ",".join(f"{label}=%[{place}]q" for place, (label, _) in enumerate(pairs, 1))
        asked = " or ".join(f"{name}{{{matchers}}}" for name in series)
        return f'printf "{asked}" {" ".join(value for _, value in pairs)} | query'


_NAMED = f'{{{{ {_CAUSE} := . | first | label "cause" }}}}'


def _value(label: str) -> str:
    """A label's value in a template; '' of one that is not there, which not every release gives for a field."""
    return f"$labels.{label}" if label in SCOPE else f'(index $labels "{label}")'


def _with(found: str, known: str, unknown: str) -> str:
    return f"{{{{ with {found} }}}}{known}{{{{ else }}}}{unknown}{{{{ end }}}}"
