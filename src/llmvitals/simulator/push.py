"""Sends a simulated deployment's spans to whoever receives traces, as an OpenTelemetry exporter does."""

from __future__ import annotations

import gzip
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from llmvitals.errors import SettingsError
from llmvitals.simulator.live import Live

EVERY_SECONDS = 1.0
TIMEOUT_SECONDS = 10.0
"""OpenTelemetry's default for one export (OTEL_EXPORTER_OTLP_TIMEOUT)."""

RETRIES = Retry(
    total=2,
    backoff_factor=0.25,
    status_forcelist=(429, 502, 503, 504),  # those that OTLP/HTTP calls retryable
    allowed_methods=("POST",),
    respect_retry_after_header=True,
)
MOST_WAITING = 64
"""Exports that wait for a receiver that does not answer; of more the oldest are given up."""

PATH = "/v1/traces"


class Push:
    """Posts the spans of ``live`` to ``url`` from a thread while the context is open, and what is left at its end.

    ``url``: a receiver of OTLP over HTTP; without a path its own is meant. ``sent`` and ``failed`` count exports, ``problem``
    says what went wrong last. Raises :class:`SettingsError` for what is no address.
    """

    def __init__(self, live: Live, url: str, *, clock: Callable[[], float], retries: Retry = RETRIES) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "is no address of a receiver", place=url, remedy="Write it as http://HOST:4318, or with its path."
            )
        self.url = parts._replace(path=PATH if parts.path in ("", "/") else parts.path).geturl()
        self.sent = self.failed = 0
        self.problem = ""
        self._live, self._clock = live, clock
        self._session = requests.Session()
        self._session.trust_env = False
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retries))
        self._waiting: deque[bytes] = deque()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated spans", daemon=True)

    def __enter__(self) -> Push:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(timeout=TIMEOUT_SECONDS)
        self._session.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._post()
        self._post(flush=True)
        self.failed += len(self._waiting)
        self._waiting.clear()

    def _post(self, *, flush: bool = False) -> None:
        """Send what there is, oldest first; what cannot be sent now waits for the next time."""
        self._waiting += self._live.spans_at(self._clock(), flush=flush)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.failed += 1
        headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        while self._waiting:
            body = gzip.compress(self._waiting[0], 1)
            try:
                answer = self._session.post(self.url, data=body, headers=headers, timeout=TIMEOUT_SECONDS)
            except requests.RequestException as error:
                self.problem = str(error)
                return
            self._waiting.popleft()
            if answer.ok:
                self.sent += 1
            else:  # no other time makes it good
                self.failed += 1
                self.problem = f"{answer.status_code} {answer.reason}"
