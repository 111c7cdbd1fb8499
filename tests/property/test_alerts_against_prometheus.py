"""What a replay says of alerts, against a real Prometheus that holds the same pages: the same at each moment.

Counts are compared with care near a limit, because Prometheus extrapolates what a page left out of a window: what is decided
alike with limits lower and higher must be what it says. ``NEAR`` is how much lower and higher; where the target came back
or a counter began within the last ``FRESH`` moments few pages share a window, and ``WIDE`` says it. Over hours windows of five
minutes are summed, and what Prometheus made of one after a gap stays in the sum: ``SUMMED``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import msgspec
import pytest

from llmvitals.alerts.compile import expression
from llmvitals.alerts.course import Course, Moment
from llmvitals.alerts.firing import rules_of
from llmvitals.alerts.holds import Answers, replayable
from llmvitals.alerts.model import USED_MEMORY, Alert
from llmvitals.alerts.names import USED
from llmvitals.alerts.policy import ALERTS
from llmvitals.alerts.recording import LONGEST_RAW, recording_groups
from llmvitals.settings import Burn, Settings, seconds_of
from llmvitals.signals.promql_ast import show
from support.drawn_courses import START, STEP, draw, pages
from support.prometheus import PrometheusServer
from support.remote_write import FLAG, push, turned

pytestmark = pytest.mark.prometheus

SEED = int(os.environ.get("LLMVITALS_SEED", "20260731"))
MOMENTS = 900
SETTINGS = Settings()
_RECORDED = re.compile(r"llm:\w+:\w+")
_BUDGETS = {
    rule["record"]: rule["expr"]
    for group in recording_groups(SETTINGS)
    if "budgets" in group["name"]
    for rule in group["rules"]
}


@cache
def _written_out(text: str) -> str:
    """An expression with the recorded counts of budgets replaced by what records them, so that all is of one moment."""
    text = text.replace(f"{USED}[{USED_MEMORY}]", f"{USED}[{USED_MEMORY}:{STEP}s]")
    return _RECORDED.sub(
        lambda found: f"({_written_out(_BUDGETS[found[0]])})" if found[0] in _BUDGETS else found[0], text
    )


@dataclass(frozen=True, slots=True, eq=False)
class Nudged:
    """The settings with the limits of all counts so much lower and higher."""

    lower: Settings
    higher: Settings

    @classmethod
    def by(cls, down: float, up: float) -> Nudged:
        return cls(_times(1 - down), _times(1 + up))


def _times(factor: float) -> Settings:
    alerts = SETTINGS.alerts
    rows = tuple(msgspec.structs.replace(row, burn=row.burn * factor) for row in alerts.burns)
    least = round(alerts.least_requests * factor)
    return msgspec.structs.replace(SETTINGS, alerts=msgspec.structs.replace(alerts, burns=rows, least_requests=least))


NEAR, SUMMED, WIDE = Nudged.by(0.1, 0.1), Nudged.by(0.25, 0.25), Nudged.by(0.6, 0.6)
FRESH = 11


def _fresh(moments: Sequence[Moment]) -> bool:
    return len(moments) <= FRESH or any(
        not moment.up or moment.counts.keys() != moments[-1].counts.keys() for moment in moments
    )


class Ours:
    """What a replay says of one course."""

    def __init__(self, course: Course) -> None:
        self._fresh = [_fresh(course.moments[max(0, at - FRESH) : at + 1]) for at in range(len(course.moments))]
        self._known = {
            nudged: tuple((Answers(course, s), s) for s in (nudged.lower, nudged.higher))
            for nudged in (NEAR, SUMMED, WIDE)
        }

    def holds(self, alert: Alert, rule: int, at: int) -> bool | None:
        """Whether it holds by one of its rules; None where that is too near to be said."""
        row = rules_of(alert, SETTINGS)[rule]
        summed = row is not None and seconds_of(row.long) > LONGEST_RAW
        nudged = WIDE if self._fresh[at] else SUMMED if summed else NEAR
        lower, higher = (
            known.holds(alert.when, at, rules_of(alert, settings)[rule]) for known, settings in self._known[nudged]
        )
        return lower if lower is higher else None


def _theirs(server: PrometheusServer, alert: Alert, row: Burn | None) -> dict[str, set[int]]:
    """By instance, the moments at which the alert's expression has a result."""
    found: dict[str, set[int]] = {}
    answer = server.get(
        "query_range",
        query=_written_out(show(expression(alert, SETTINGS, row))),
        start=str(START),
        end=str(START + (MOMENTS - 1) * STEP),
        step=str(STEP),
    )
    for result in answer["result"]:
        held = found.setdefault(result["metric"]["instance"], set())
        held.update(round((float(t) - START) / STEP) for t, _ in result["values"])
    return found


def test_every_alert_holds_where_a_real_prometheus_says_so(tmp_path: Path) -> None:
    courses = draw(SEED, MOMENTS)
    known = {course.instance: Ours(course) for course in courses}
    asked = [alert for alert in ALERTS if replayable(alert.when)]
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    with PrometheusServer(tmp_path / "prom", flags=(FLAG,)) as server:
        push(server.url, turned(pages(courses)))
        for alert in asked:
            for rule, row in enumerate(rules_of(alert, SETTINGS)):
                theirs = _theirs(server, alert, row)
                for (instance, ours), at in product(known.items(), range(MOMENTS)):
                    says, held = at in theirs.get(instance, ()), ours.holds(alert, rule, at)
                    seen[f"{alert.name} {held}"] += 1
                    if held is not None and held is not says:
                        wrong.append(f"{alert.name} {row and row.long} {instance} {at}: {held}, they say {says}")
    assert not wrong, f"seed {SEED}, {len(wrong)} of {seen.total()} differ:\n" + "\n".join(wrong[:20])
    assert sum(count for name, count in seen.items() if name.endswith("None")) < 0.03 * seen.total(), seen
    for alert in asked:
        assert seen[f"{alert.name} True"] >= 5, (alert.name, seen)
        assert seen[f"{alert.name} False"] >= 5, (alert.name, seen)
