"""A real VictoriaMetrics for tests: a single node on a free loopback port, ended by its own handle."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from support.prometheus import Service
from support.tools import needed


class VictoriaServer(Service):
    """A VictoriaMetrics that keeps samples however old they are; ``flags`` go behind its own."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = ()) -> None:
        super().__init__(folder, "/health")
        self._flags = flags

    def command(self) -> list[str]:
        return [
            needed("victoria-metrics"),
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            "-retentionPeriod=100y",
            "-memory.allowedBytes=128MiB",
            "-loggerLevel=ERROR",
            *self._flags,
        ]

    def flush(self) -> None:
        """What was written can be read from now on; by itself it takes a second or two."""
        urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=30).close()
