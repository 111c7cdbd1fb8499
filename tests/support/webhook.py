"""Both receivers of the Alertmanager's example, on loopback: what they are told, and when."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.answers import Answer, Answers, Asked, Maker


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification: when it came (unix seconds), and what the Alertmanager sent."""

    t: float
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """One alert of one notification: when it came, to whom, and what it said."""

    t: float
    receiver: str
    group: Mapping[str, str]
    status: str
    name: str
    instance: str
    annotations: Mapping[str, str]


class Webhook(Answers):
    """Keeps what comes, in order. ``beside``: other paths that it serves."""

    def __init__(self, beside: Mapping[str, Maker] | None = None) -> None:
        self.got: list[Notification] = []
        super().__init__({"/pager": self._keep, "/tickets": self._keep, **(beside or {})})

    def _keep(self, asked: Asked) -> Answer:
        self.got.append(Notification(time.time(), json.loads(asked.body)))
        return Answer()

    @property
    def told(self) -> list[Told]:
        """Alert by alert."""
        return [
            Told(
                one.t,
                one.body["receiver"],
                one.body["groupLabels"],
                alert["status"],
                alert["labels"]["alertname"],
                alert["labels"].get("instance", ""),
                alert["annotations"],
            )
            for one in tuple(self.got)
            for alert in one.body["alerts"]
        ]

    def first(self, receiver: str, status: str, name: str, instance: str = "") -> Told | None:
        """The first notification of this alert, if it came."""
        wanted = (receiver, status, name, instance)
        return next((one for one in self.told if (one.receiver, one.status, one.name, one.instance) == wanted), None)

    def rung(self, receiver: str, since: float = 0.0) -> list[tuple[str, str]]:
        """Alert and instance of all that a receiver was told to fire from a moment on, in order; repetitions left out."""
        found = [one for one in self.told if one.receiver == receiver and one.t >= since and one.status == "firing"]
        return list(dict.fromkeys((one.name, one.instance) for one in found))
