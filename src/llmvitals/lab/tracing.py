"""The traces of a play, taken in as the exporter takes them: exports that leave the simulated processes in batches go through the
receiver's decoder and ledger, and what that shows joins the engine's page.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from llmvitals.series import Series
from llmvitals.settings import Settings
from llmvitals.simulator.live import Live
from llmvitals.simulator.spans import BATCH_SECONDS, DIALECTS, Sending
from llmvitals.telemetry.spans.decode import decode
from llmvitals.telemetry.spans.ledger import Ledger
from llmvitals.telemetry.spans.model import Place

SHARE = 1 / 3
"""Share of the plays whose engine and gateway are traced: most deployments have no traces."""

GATEWAY = "gateway"
ADDRESS = "127.0.0.1"


def sending(dialect: str, seed: str) -> Sending | None:
    """How the spans of a play leave; None where nobody traces. ``seed`` draws it."""
    traced = dialect in DIALECTS and random.Random(f"{seed}/traces").random() < SHARE
    return Sending(delay=BATCH_SECONDS) if traced else None


class Tracing:
    """The receiver beside a play. ``labels``: of the engine's samples, which the gateway's calls are joined to."""

    def __init__(self, live: Live, labels: Mapping[str, str], settings: Settings) -> None:
        self._live, self._labels, self._settings = live, dict(labels), settings
        self._now = live.origin
        self._ledger = Ledger(settings, clock=lambda: self._now)
        models = (labels["model"],)
        self._places = (
            Place(labels["instance"], kind="vllm", models=models),
            Place(GATEWAY, kind="gateway", gateway=True, models=models),
        )

    def look(self, t: float) -> Mapping[Series, float]:
        """What traces have told by unix moment ``t``, as samples of the engine's page."""
        self._now = t
        for body in self._live.spans_at(t):
            self._ledger.take(decode(body, self._settings.spans), ADDRESS)
        shown = self._ledger.shown(self._places)
        return {key.plus(**self._labels): v for one in shown.values() for key, v in one.samples.items()}
