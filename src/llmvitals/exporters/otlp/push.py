"""The thread that pushes: the newest finished cycle each interval, one export at a time, beside everything else.

Whatever the collector does, a cycle and the page never wait for it: what is slow here is only sent later, and cycles that
were finished meanwhile are passed over, since each holds everything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric as Own

from llmvitals import __version__
from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.logs import log
from llmvitals.exporters.otlp.parts import parts
from llmvitals.exporters.otlp.sender import exporter_of
from llmvitals.exporters.otlp.values import Values
from llmvitals.exporters.otlp.wire import data_of
from llmvitals.settings import Otlp, Settings
from llmvitals.sources.node import node_name

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData

OK, FAILED = "ok", "failed"
LINGER_SECONDS = 0.5
"""How long ending waits for an export under way."""

_SHOWN = 300  # characters of a reason; what cannot be encoded is repeated in whole by the library


class Push:
    """Pushes to one collector. ``newest`` gives the cycle to send, ``own`` what the exporter says of itself.

    ``exports`` counts those that ended, by result; ``last_success`` is the unix time of the newest that went well, ``left_out``
    how many points of it OTLP could not say. Raises :class:`SettingsError` for settings that cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        newest: Callable[[], Cycle | None],
        own: Callable[[], Iterable[Own]],
        *,
        clock: Callable[[], float] = time.time,
        previous: Push | None = None,
    ) -> None:
        self._exporter: MetricExporter = exporter_of(settings.otlp)
        self.settings: Otlp = settings.otlp
        self._newest = newest
        self._own = own
        self._clock = clock
        self._values: Values = Values(previous._values.starts if previous else None)
        name = node_name(settings.node)
        # No service.instance.id on what is told of the targets: translators make it the label `instance`, in place of theirs.
        shared = {"service.name": "llmvitals", "service.version": __version__, "host.name": name}
        self._targets = shared
        self._self = {**shared, "service.instance.id": f"{name}:{settings.exporter.listen.rpartition(':')[2]}"}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._sent: Cycle | None = None
        self._works: bool | None = None
        self._why = _Why()
        self.exports: dict[str, int] = dict(previous.exports) if previous else {OK: 0, FAILED: 0}
        self.last_success: float | None = previous.last_success if previous else None
        self.left_out: int = previous.left_out if previous else 0

    def start(self) -> None:
        """Begin to push, the first time after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End, without waiting for a collector that does not answer. May be called twice, and before :meth:`start`."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._exporter.shutdown()
        if self._thread.is_alive():
            self._thread.join(LINGER_SECONDS)

    def once(self) -> bool | None:
        """Push the newest cycle and say whether that went well; None where there is none that was not sent before."""
        cycle = self._newest()
        if cycle is None or cycle is self._sent:
            return None
        try:
            with self._why:
                good = all(self._exported(part) for part in self._parts(cycle))
            why = self._why.text
        except Exception as error:  # what one cycle holds never ends the pushing; its text may hold a header's value
            good, why = False, type(error).__name__
        if self._ending.is_set():
            return good  # one that was cut off by the end says nothing of the collector
        self.exports[OK if good else FAILED] += 1
        if good:
            self._sent = cycle
            self.last_success, self.left_out = self._clock(), self._values.left_out
        self._note(good, why)
        return good

    def _parts(self, cycle: Cycle) -> Iterator[MetricsData]:
        for part in parts(self._values.of(cycle)):
            yield data_of(part, self._targets)
        for part in parts(self._values.own(self._own(), self._clock())):
            yield data_of(part, self._self)

    def _exported(self, part: MetricsData) -> bool:
        if self._ending.is_set():
            return False
        return self._exporter.export(part, timeout_millis=self.settings.timeout_seconds * 1e3).name == "SUCCESS"

    def _note(self, good: bool, why: str) -> None:
        """Log what began to fail and what works again, once."""
        if good is not self._works:
            event, level = ("otlp-works", logging.INFO) if good else ("otlp-failed", logging.WARNING)
            log(event, level=level, endpoint=self.settings.endpoint, detail="" if good else why)
            self._works = good

    def _run(self) -> None:
        due = time.monotonic() + self.settings.interval_seconds
        while not self._ending.wait(max(due - time.monotonic(), 0.0)):
            self.once()
            due = max(due + self.settings.interval_seconds, time.monotonic())


class _Why(logging.Handler):
    """Hears why an export failed, which the library logs and does not return. Only this thread's exports count."""

    _LOGGER = logging.getLogger("opentelemetry.exporter.otlp")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: dict[int, str] = {}
        self._heard_in = 0

    @property
    def text(self) -> str:
        """The newest message of each level: that it gave up, and what went wrong before."""
        return " ".join(self._told.values())

    def __enter__(self) -> None:
        self._told, self._heard_in = {}, threading.get_ident()
        self._LOGGER.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._LOGGER.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the newest message."""
        if record.thread == self._heard_in:
            self._told[record.levelno] = record.getMessage()[:_SHOWN]
