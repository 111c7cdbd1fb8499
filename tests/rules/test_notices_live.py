"""The model of what people are told, against a real Alertmanager with the example and shorter waits: the same deliveries."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmvitals.alerts.alertmanager import EXAMPLE_URL, config
from llmvitals.alerts.firing import Episode
from llmvitals.alerts.notify import labels_of, notices
from llmvitals.alerts.policy import BY_NAME
from llmvitals.settings import Settings
from support.prometheus import AlertmanagerServer

pytestmark = pytest.mark.prometheus

WAIT, INTERVAL, REPEAT = 2, 3, 8
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


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # a second lost to a full queue would be a delivery that comes late


class Receiver:
    """A webhook that keeps what it gets, with the moment."""

    def __init__(self) -> None:
        self.got: list[tuple[float, dict[str, Any]]] = []
        got = self.got

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                now = time.time()
                got.append((now, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def _episodes() -> list[Episode]:
    return [
        Episode(
            name, BY_NAME[name].severity.value, BY_NAME[name].cause, f"{script}/{instance}", script, fired, fired, ended
        )
        for script, rows in SCRIPTS.items()
        for name, fired, ended, instance in rows
    ]


def _hurried(url: str) -> dict[str, Any]:
    """The example with seconds for its minutes."""
    made: dict[str, Any] = json.loads(json.dumps(config(Settings())).replace(EXAMPLE_URL, url))
    for route in (made["route"], *made["route"]["routes"]):
        route |= {"group_wait": f"{WAIT}s", "group_interval": f"{INTERVAL}s", "repeat_interval": f"{REPEAT}s"}
    return made


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


def _delivered(got: list[tuple[float, dict[str, Any]]], start: float) -> list[Delivery]:
    def those(body: dict[str, Any], status: str) -> tuple[tuple[str, str], ...]:
        alerts = (a["labels"] for a in body["alerts"] if a["status"] == status)
        return tuple(sorted((labels["alertname"], labels["instance"]) for labels in alerts))

    return [
        Delivery(
            t - start, body["receiver"], body["groupLabels"]["model"], those(body, "firing"), those(body, "resolved")
        )
        for t, body in got
    ]


def _expected(episodes: list[Episode], made: dict[str, Any]) -> list[Delivery]:
    def those(many: tuple[Episode, ...]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({(one.alert, one.instance) for one in many}))

    return [
        Delivery(n.t, n.receiver, dict(n.labels)["model"], those(n.episodes), those(n.resolved))
        for n in notices(episodes, made)
    ]


def test_the_same_is_delivered_at_the_same_time(tmp_path: Path, receiver: Receiver) -> None:
    made, episodes = _hurried(receiver.url), _episodes()
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(made), encoding="utf-8")
    with AlertmanagerServer(tmp_path / "am", path) as alertmanager:
        start = time.time() + 0.2
        _tell(alertmanager.url, episodes, start)
        last = max(e.ended for e in episodes if e.ended is not None)
        time.sleep(max(0.0, start + last + INTERVAL - time.time()))
    delivered = sorted(_delivered(receiver.got, start), key=lambda one: one.t)
    expected = _expected(episodes, made)
    for script, receiver_ in product(SCRIPTS, ("pager", "tickets")):
        theirs = [one for one in delivered if (one.script, one.receiver) == (script, receiver_)]
        ours = [one for one in expected if (one.script, one.receiver) == (script, receiver_)]
        assert [(one.firing, one.resolved) for one in ours] == [(one.firing, one.resolved) for one in theirs], script
        assert all(-0.1 <= b.t - a.t <= LATE for a, b in zip(ours, theirs, strict=True)), (script, ours, theirs)
    assert {one.script for one in expected} == set(SCRIPTS) - {"too-short"}
    assert len(expected) >= 18
