"""The model of what people are told, against a real Alertmanager with the example and shorter waits: the same deliveries."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from llmvitals.alerts.firing import Episode
from llmvitals.alerts.notify import labels_of, notices
from llmvitals.alerts.policy import BY_NAME
from llmvitals.settings import Settings
from support import hurried
from support.prometheus import AlertmanagerServer
from support.webhook import Notification, Webhook

pytestmark = pytest.mark.prometheus

WAIT, INTERVAL, REPEAT = 2, 3, 8
WAITS = {"group_wait": f"{WAIT}s", "group_interval": f"{INTERVAL}s", "repeat_interval": f"{REPEAT}s"}
"""Seconds: groups are looked at 2, 5, 8, 11 and 14 s after their first alert. Nothing happens near those moments."""
LATE = 0.9
"""Seconds by which a delivery may come late on a busy machine."""

HURT, LATE_TOKENS, GONE = "LLMUsersHurt", "LLMFirstTokensLate", "LLMTargetGone"
THRASH, FULL = "LLMPreemptionThrash", "LLMKvCacheSaturation"

# Alert, when it fires, when it is over, of which instance. A script is a model of its own, with instances of its own.
SCRIPTS: dict[str, tuple[tuple[str, float, float, str], ...]] = {
    "silenced-then-told": ((HURT, 0.0, 6.5, "a"), (LATE_TOKENS, 0.5, 9.5, "a")),
    "repeated": ((GONE, 0.0, 12.5, "a"),),
    "a-cause-and-its-consequence": ((THRASH, 0.0, 6.5, "a"), (FULL, 0.0, 9.5, "a")),
    "one-more-and-one-less": ((HURT, 0.0, 9.5, "a"), (HURT, 3.5, 6.5, "b")),
    "too-short": ((HURT, 0.0, 0.8, "a"),),
    "over-in-silence": ((LATE_TOKENS, 0.0, 6.5, "a"), (HURT, 3.5, 9.5, "a")),
    "tickets-of-a-page": ((HURT, 0.0, 9.5, "a"), (THRASH, 0.5, 9.5, "a"), (FULL, 0.5, 9.5, "b")),
    "gone-for-a-moment": ((HURT, 0.0, 2.9, "a"), (HURT, 3.8, 9.5, "a")),
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification: seconds after the start, whose, which script's, and the alerts that fire and that are over."""

    t: float
    receiver: str
    script: str
    firing: tuple[tuple[str, str], ...]
    resolved: tuple[tuple[str, str], ...]


def _episodes() -> list[Episode]:
    return [
        Episode(
            name, BY_NAME[name].severity.value, BY_NAME[name].cause, f"{script}/{instance}", script, fired, fired, ended
        )
        for script, rows in SCRIPTS.items()
        for name, fired, ended, instance in rows
    ]


def _tell(alertmanager: str, episodes: list[Episode], start: float) -> None:
    """As Prometheus would: an alert when it fires, and once more when it is over."""
    changes = sorted(
        [(e.fired, e, False) for e in episodes] + [(e.ended, e, True) for e in episodes if e.ended is not None],
        key=lambda change: change[0],
    )
    for at, episode, over in changes:
        time.sleep(max(0.0, start + at - time.time()))
        now = datetime.now(UTC)
        began = datetime.fromtimestamp(start + episode.fired, UTC)
        body = {
            "labels": labels_of(episode),
            "startsAt": began.isoformat(),
            "endsAt": (now if over else now + timedelta(minutes=4)).isoformat(),
        }
        request = urllib.request.Request(
            f"{alertmanager}/api/v2/alerts", json.dumps([body]).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=5).close()


def _delivered(got: list[Notification], start: float) -> list[Delivery]:
    def those(body: Mapping[str, Any], status: str) -> tuple[tuple[str, str], ...]:
        alerts = (a["labels"] for a in body["alerts"] if a["status"] == status)
        return tuple(sorted((labels["alertname"], labels["instance"]) for labels in alerts))

    return [
        Delivery(
            one.t - start,
            one.body["receiver"],
            one.body["groupLabels"]["model"],
            those(one.body, "firing"),
            those(one.body, "resolved"),
        )
        for one in got
    ]


def _expected(episodes: list[Episode], made: dict[str, Any]) -> list[Delivery]:
    def those(many: tuple[Episode, ...]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({(one.alert, one.instance) for one in many}))

    return [
        Delivery(n.t, n.receiver, dict(n.labels)["model"], those(n.episodes), those(n.resolved))
        for n in notices(episodes, made)
    ]


def test_the_same_is_delivered_at_the_same_time(tmp_path: Path) -> None:
    episodes = _episodes()
    with Webhook() as receivers:
        made = hurried.example(Settings(), receivers.url, lambda name, _: WAITS[name])
        with AlertmanagerServer(tmp_path / "am", hurried.write_example(tmp_path, made)) as alertmanager:
            start = time.time() + 0.2
            _tell(alertmanager.url, episodes, start)
            last = max(e.ended for e in episodes if e.ended is not None)
            time.sleep(max(0.0, start + last + INTERVAL - time.time()))
    delivered = sorted(_delivered(receivers.got, start), key=lambda one: one.t)
    expected = _expected(episodes, made)
    for script, receiver in product(SCRIPTS, ("pager", "tickets")):
        theirs = [one for one in delivered if (one.script, one.receiver) == (script, receiver)]
        ours = [one for one in expected if (one.script, one.receiver) == (script, receiver)]
        assert [(one.firing, one.resolved) for one in ours] == [(one.firing, one.resolved) for one in theirs], script
        assert all(-0.1 <= b.t - a.t <= LATE for a, b in zip(ours, theirs, strict=True)), (script, ours, theirs)
    assert {one.script for one in expected} == set(SCRIPTS) - {"too-short"}
    assert len(expected) >= 18
